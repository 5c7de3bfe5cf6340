#!/usr/bin/env python3
"""Training speed beside PyTorch's DistributedDataParallel, and against our own limits.

    scripts/bench_training.py [--rounds 15] [--only mnist-cnn|vgg16|servers|overlap|hooks]

`overlap` trains with and without overlap, on one host and between hosts (network namespaces, 100 Mbit/s); `hooks` trains
between hosts, beside DDP's communication hooks. Both need root.
All engines are started once and then take turns of a second or two, round after round, each idle
while another runs: a shared machine changes its speed from minute to minute, so only neighbours in
time are compared. Prints the median of the rounds' ratios, a 95 % interval of it (by order, whatever
the distribution is), the range of their middle half, and the whole range, and one line of JSON each. Run `make bench` first: it builds and installs what this needs.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BLOCKS = os.path.join(ROOT, "build/release/training_blocks")
IN_NAMESPACES = os.path.join(ROOT, "build/release/in_namespaces")
DDP = ["/usr/bin/python3", os.path.join(ROOT, "peers/ddp.py")]


class Engine:
    """Workers that wait for their turn."""

    def __init__(self, folder, batch, command):
        self.batch = batch
        pipe = os.path.join(folder, f"turns-{id(self)}")
        os.mkfifo(pipe)
        command = [word.replace("TURNS", pipe).replace("RENDEZVOUS", pipe + "-rendezvous") for word in command]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "GLOO_SOCKET_IFNAME": "eth0"}
                                        if command[0] == IN_NAMESPACES else None)
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


def ours(batch, model, **settings):
    return batch, [BLOCKS, json.dumps({"model": model, "batch": batch, **settings}), "TURNS"]


def ddp(batch, model, *flags):
    return batch, [*DDP, "--model", model, "--batch", str(batch), "--turns", "TURNS", *flags]


def between_hosts(hosts, engine, *flags):
    batch, command = engine
    return batch, [IN_NAMESPACES, f"netns:hosts={hosts},bandwidth=100Mbps", *command, *flags]


def interval(ordered):
    """Of the median, at 95 %: as far in as so many values allow (of fewer than six, all of them)."""
    n, inside, tail = len(ordered), 0, 0
    while (tail := tail + math.comb(n, inside) / 2**n) <= 0.025:
        inside += 1
    low = max(0, inside - 1)
    return ordered[low], ordered[-1 - low]


def compare(title, rounds, steps, engines, contenders):
    """`contenders`: name to (engine, way). The first is compared with the others."""
    with tempfile.TemporaryDirectory() as folder:
        started = {name: Engine(folder, *made) for name, made in engines.items()}
        rates = {name: [] for name in contenders}
        for turn in range(rounds + 1):
            order = list(contenders.items())
            for name, (engine, way) in order[::-1] if turn % 2 else order:
                by_worker = started[engine].rates(way, steps if turn > 0 else max(steps, 12))
                # Workers that keep step are as fast as the slower one.
                rate = sum(by_worker) if way == "alone" else len(by_worker) * min(by_worker)
                if turn > 0:  # the first is for warming up, and for `merged` to measure
                    rates[name].append(rate)
        for engine in started.values():
            engine.close()
    report(title, rates)
    return rates


def compare_overlap(rounds):
    """Step times with and without overlap, and the part of the exchange that overlap hides."""
    def between(hosts, model, **settings):
        return between_hosts(hosts, ours(settings.pop("batch"), model, workers=hosts, collective="ring", **settings))

    rates = compare("resnet20, batch 32, 2 hosts at 100 Mbit/s", rounds, 4, {
        "wfbp": between(2, "resnet20", batch=32, overlap="wfbp", bucket_mib=0.25, first_bucket_mib=0.05),
        "none": between(2, "resnet20", batch=32),
    }, {
        "wfbp": ("wfbp", "together"),
        "no overlap": ("none", "together"),
        "the same workers, each alone": ("none", "meet"),
    })
    hidden = sorted((1 / none - 1 / wfbp) / (1 / none - 1 / alone) for wfbp, none, alone in zip(*rates.values()))
    low, high = interval(hidden)
    line = {"title": "hidden", "rounds": len(hidden), "median": statistics.median(hidden), "interval": [low, high]}
    print(f"wfbp hides {line['median']:.3f} of the exchange (95 % {low:.3f}..{high:.3f})", flush=True)
    print(json.dumps(line), file=sys.stderr)

    for model, batch, steps in (("mnist-cnn", 64, 2), ("resnet110", 4, 2)):
        compare(f"{model}, batch {batch}, 3 hosts at 100 Mbit/s", rounds, steps, {
            "merged": between(3, model, batch=batch, overlap="merged"),
            "each": between(3, model, batch=batch, overlap="wfbp", bucket_mib=0),
            "wfbp": between(3, model, batch=batch, overlap="wfbp"),
            "none": between(3, model, batch=batch),
        }, {
            "merged": ("merged", "together"),
            "wfbp, each tensor a bucket": ("each", "together"),
            "wfbp, buckets of 25 MiB, the first of 1 MiB": ("wfbp", "together"),
            "no overlap, one bucket": ("none", "together"),
        })

    compare("mnist-cnn, batch 64, 2 workers on one host", rounds, 10, {
        "wfbp": ours(64, "mnist-cnn", collective="auto", overlap="wfbp"),
        "none": ours(64, "mnist-cnn", collective="auto"),
    }, {
        "wfbp": ("wfbp", "together"),
        "no overlap": ("none", "together"),
    })


def compare_hooks(hosts, rounds):
    """DDP's buckets are those of ours: 25 MiB, and 1 MiB for the first; PowerSGD has one bucket."""
    def lockstep(**settings):
        return between_hosts(hosts, ours(64, "mnist-cnn", workers=hosts, collective="auto", **settings))

    def peer(hook):
        return between_hosts(hosts, ddp(64, "mnist-cnn"), "--hook", hook, "--rendezvous", "RENDEZVOUS")

    place = f"mnist-cnn, batch 64, {hosts} hosts at 100 Mbit/s"
    compare(f"fp16, {place}", rounds, 5, {
        "wfbp": lockstep(compress="fp16", overlap="wfbp"),
        "merged": lockstep(compress="fp16", overlap="merged"),
        "plain": lockstep(compress="fp16"),
        "ddp": peer("fp16"),
    }, {
        "lockstep, wfbp": ("wfbp", "together"),
        "lockstep, merged": ("merged", "together"),
        "lockstep, no overlap": ("plain", "together"),
        "PyTorch DDP, fp16_compress_hook": ("ddp", "together"),
    })
    if hosts > 2:  # with three ranks DDP's PowerSGD hook over Gloo stood still after some dozen steps
        return
    compare(f"PowerSGD of rank 2, {place}", rounds, 10, {
        "ours": lockstep(compress="powersgd:rank=2,start=2"),
        "ddp": peer("powersgd:2"),
    }, {
        "lockstep": ("ours", "together"),
        "PyTorch DDP, powerSGD_hook": ("ddp", "together"),
    })


def report(title, rates):
    print(f"\n## {title}")
    base = next(iter(rates))
    for name, values in rates.items():
        ratios = sorted(mine / other for mine, other in zip(rates[base], values))
        quarter, (low, high) = len(ratios) // 4, interval(ratios)
        line = {"title": title, "engine": name, "rounds": len(ratios),
                "samples_per_second": statistics.median(values), "ratio": statistics.median(ratios),
                "ratio_interval": [low, high], "ratio_quartiles": [ratios[quarter], ratios[-1 - quarter]],
                "ratio_range": [ratios[0], ratios[-1]]}
        print(f"{name:<42}{line['samples_per_second']:9.1f} samples/s   {base} is {line['ratio']:.3f}x of it"
              f"   (95 % {low:.3f}..{high:.3f}, middle half {ratios[quarter]:.3f}..{ratios[-1 - quarter]:.3f},"
              f" all {ratios[0]:.3f}..{ratios[-1]:.3f})", flush=True)
        print(json.dumps(line), file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", choices=["mnist-cnn", "vgg16", "servers", "overlap", "hooks"])
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
            "servers": ours(4, wide, strategy="parameter-server"),
            "all-reduce": ours(4, wide),
        }, {
            "parameter-server, co-located": ("servers", "together"),
            "all-reduce": ("all-reduce", "together"),
        })
    if (chosen("overlap") or chosen("hooks")) and os.geteuid() != 0:
        print("overlap and DDP's hooks are left out: network namespaces need root", file=sys.stderr)
        return
    if chosen("overlap"):
        compare_overlap(options.rounds)
    if chosen("hooks"):
        for hosts in (2, 3):
            compare_hooks(hosts, options.rounds)


if __name__ == "__main__":
    main()
