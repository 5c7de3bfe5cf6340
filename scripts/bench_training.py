#!/usr/bin/env python3
"""Training speed beside PyTorch's DistributedDataParallel, and against our own limits.

    scripts/bench_training.py [--repeats 5] [--only mnist-cnn|vgg16|servers]

Each repeat runs every contender once, in turn, so ratios hold on a busy machine; each is timed over
the second half of its steps. Prints the median and the range of the ratios, and one line of JSON
each. Run `make bench` first: it builds and installs what this needs.
"""
import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LOCKSTEP = os.path.join(ROOT, "build/release/lockstep")
RUN = itertools.count()
DDP = ["/usr/bin/python3", os.path.join(ROOT, "peers/ddp.py")]


def start_ours(folder, model, data, batch, steps, workers, *flags):
    out = os.path.join(folder, f"run-{next(RUN)}")
    command = [LOCKSTEP, "train", "-n", str(workers), "--threads", "1", "--model", model, "--data", data,
               "--batch", str(batch), "--steps", str(steps), "--evaluate-every", str(steps // 2),
               "--test-limit", "8", "--out", out, "--json", *flags]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return process, out, batch * workers


def rate_of(started):
    """Samples per second over the second half of a run that start_ours() began."""
    process, out, per_step = started
    errors = process.communicate()[1]
    if process.returncode != 0:
        sys.exit(f"{' '.join(process.args)}\nfailed: {errors}")
    with open(os.path.join(out, "metrics.jsonl")) as lines:
        scores = [json.loads(line) for line in lines]
    first, last = scores[0], scores[-1]
    seconds = last["training_seconds"] - first["training_seconds"]
    return per_step * (last["steps"] - first["steps"]) / seconds


def ours(*arguments):
    return lambda folder: rate_of(start_ours(folder, *arguments))


def two_alone(model, data, batch, steps):
    """Two runs of one worker each at the same time: what two cores can do without exchanging."""
    def run(folder):
        started = [start_ours(folder, model, data, batch, steps, 1) for _ in range(2)]
        return sum(rate_of(one) for one in started)
    return run


def ddp(model, batch, steps, *flags):
    def run(_):
        done = subprocess.run([*DDP, "--model", model, "--batch", str(batch), "--steps", str(steps), *flags],
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        return json.loads(done.stdout.splitlines()[-1])["samples_per_second"]
    return run


def compare(title, repeats, contenders, base):
    rates = {name: [] for name in contenders}
    for repeat in range(repeats):
        for name, run in contenders.items():
            with tempfile.TemporaryDirectory() as folder:
                rates[name].append(run(folder))
            print(f"# {title}, {repeat + 1} of {repeats}: {name} {rates[name][-1]:.1f} samples/s", file=sys.stderr)
    print(f"\n## {title}")
    for name, values in rates.items():
        ratios = [mine / other for mine, other in zip(rates[base], values)]
        line = {"title": title, "engine": name, "samples_per_second": statistics.median(values),
                "ratio": statistics.median(ratios), "ratio_min": min(ratios), "ratio_max": max(ratios)}
        print(f"{name:<40} {line['samples_per_second']:10.1f} samples/s   {base} is "
              f"{line['ratio']:.2f}x ({line['ratio_min']:.2f}..{line['ratio_max']:.2f}) of it")
        print(json.dumps(line), file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=["mnist-cnn", "vgg16", "servers"])
    options = parser.parse_args()
    chosen = lambda name: options.only in (None, name)
    if chosen("mnist-cnn"):
        digits = "synthetic:shape=1x28x28,classes=10,samples=8192"
        compare("mnist-cnn, batch 64, 2 workers", options.repeats, {
            "lockstep": ours("mnist-cnn", digits, 64, 120, 2),
            "two runs of one worker": two_alone("mnist-cnn", digits, 64, 120),
            "PyTorch DDP": ddp("mnist-cnn", 64, 120),
            "PyTorch DDP, our malloc settings": ddp("mnist-cnn", 64, 120, "--malloc"),
        }, "lockstep")
    if chosen("vgg16"):
        pictures = "synthetic:shape=3x32x32,classes=1000,samples=512"
        compare("vgg16, 32 x 32, batch 8, 2 workers", options.repeats, {
            "lockstep": ours("vgg16", pictures, 8, 10, 2),
            "PyTorch DDP": ddp("vgg16", 8, 10),
            "PyTorch DDP, our malloc settings": ddp("vgg16", 8, 10, "--malloc"),
        }, "lockstep")
    if chosen("servers"):
        wide = "mlp:width=4096,depth=2", "synthetic:shape=1x28x28,classes=10,samples=4096", 4, 40, 2
        compare("wide mlp, batch 4, 2 workers", options.repeats, {
            "parameter-server, co-located": ours(*wide, "--strategy", "parameter-server", "--servers", "2",
                                                 "--server-placement", "colocated"),
            "all-reduce": ours(*wide),
        }, "parameter-server, co-located")


if __name__ == "__main__":
    main()
