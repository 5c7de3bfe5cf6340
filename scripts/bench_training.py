#!/usr/bin/env python3
"""Training speed beside PyTorch's DistributedDataParallel, and against our own limits.

    scripts/bench_training.py [--rounds 15] [--only mnist-cnn|vgg16|servers]

All engines are started once and then take turns of a second or two, round after round, each idle
while another runs: a shared machine changes its speed from minute to minute, so only neighbours in
time are compared. Prints the median of the rounds' ratios, the range of their middle half, and the
whole range, and one line of JSON each. Run `make bench` first: it builds and installs what this needs.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BLOCKS = os.path.join(ROOT, "build/release/training_blocks")
DDP = ["/usr/bin/python3", os.path.join(ROOT, "peers/ddp.py")]


class Engine:
    """Two workers that wait for their turn."""

    def __init__(self, folder, batch, command):
        self.batch = batch
        pipe = os.path.join(folder, f"turns-{id(self)}")
        os.mkfifo(pipe)
        self.process = subprocess.Popen([word.replace("TURNS", pipe) for word in command],
                                        stdout=subprocess.PIPE, text=True)
        self.turns = open(pipe, "w", buffering=1)

    def rates(self, way, steps):
        """Samples per second of each worker, over a block of steps."""
        self.turns.write(f"{way} {steps}\n")
        line = self.process.stdout.readline()
        if "{" not in line:
            sys.exit(f"{' '.join(self.process.args)} ended early")
        seconds = json.loads(line[line.index("{"):])["seconds"]
        return [self.batch * steps / s for s in seconds]

    def close(self):
        self.turns.close()
        self.process.wait()


def ours(batch, model, strategy="all-reduce"):
    return batch, [BLOCKS, model, str(batch), strategy, "TURNS"]


def ddp(batch, model, *flags):
    return batch, [*DDP, "--model", model, "--batch", str(batch), "--turns", "TURNS", *flags]


def compare(title, rounds, steps, engines, contenders):
    """`contenders`: name to (engine, way). The first is compared with the others."""
    with tempfile.TemporaryDirectory() as folder:
        started = {name: Engine(folder, *made) for name, made in engines.items()}
        rates = {name: [] for name in contenders}
        for turn in range(rounds + 1):
            order = list(contenders.items())
            for name, (engine, way) in order[::-1] if turn % 2 else order:
                by_worker = started[engine].rates(way, steps)
                # Workers that keep step are as fast as the slower one.
                rate = sum(by_worker) if way == "alone" else 2 * min(by_worker)
                if turn > 0:  # the first is for warming up
                    rates[name].append(rate)
        for engine in started.values():
            engine.close()
    report(title, rates)


def report(title, rates):
    print(f"\n## {title}")
    base = next(iter(rates))
    for name, values in rates.items():
        ratios = sorted(mine / other for mine, other in zip(rates[base], values))
        quarter = len(ratios) // 4
        line = {"title": title, "engine": name, "rounds": len(ratios),
                "samples_per_second": statistics.median(values), "ratio": statistics.median(ratios),
                "ratio_quartiles": [ratios[quarter], ratios[-1 - quarter]],
                "ratio_range": [ratios[0], ratios[-1]]}
        print(f"{name:<42}{line['samples_per_second']:9.1f} samples/s   {base} is {line['ratio']:.3f}x of it"
              f"   (middle half {ratios[quarter]:.3f}..{ratios[-1 - quarter]:.3f},"
              f" all {ratios[0]:.3f}..{ratios[-1]:.3f})", flush=True)
        print(json.dumps(line), file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", choices=["mnist-cnn", "vgg16", "servers"])
    options = parser.parse_args()
    chosen = lambda name: options.only in (None, name)
    if chosen("mnist-cnn"):
        compare("mnist-cnn, batch 64, 2 workers of one thread", options.rounds, 10, {
            "ours": ours(64, "mnist-cnn"),
            "ddp": ddp(64, "mnist-cnn"),
            "ddp-malloc": ddp(64, "mnist-cnn", "--malloc"),
        }, {
            "lockstep": ("ours", "together"),
            "the same workers, each alone": ("ours", "alone"),
            "alone, but meeting every step": ("ours", "meet"),
            "PyTorch DDP": ("ddp", "together"),
            "PyTorch DDP, our malloc settings": ("ddp-malloc", "together"),
        })
    if chosen("vgg16"):
        compare("vgg16, 32 x 32 images, batch 8, 2 workers of one thread", options.rounds, 2, {
            "ours": ours(8, "vgg16"),
            "ddp": ddp(8, "vgg16"),
            "ddp-malloc": ddp(8, "vgg16", "--malloc"),
        }, {
            "lockstep": ("ours", "together"),
            "the same workers, each alone": ("ours", "alone"),
            "PyTorch DDP": ("ddp", "together"),
            "PyTorch DDP, our malloc settings": ("ddp-malloc", "together"),
        })
    if chosen("servers"):
        wide = "mlp:width=4096,depth=2"
        compare("wide mlp, batch 4, 2 workers of one thread", options.rounds, 10, {
            "servers": ours(4, wide, "parameter-server"),
            "all-reduce": ours(4, wide),
        }, {
            "parameter-server, co-located": ("servers", "together"),
            "all-reduce": ("all-reduce", "together"),
        })


if __name__ == "__main__":
    main()
