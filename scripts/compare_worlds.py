#!/usr/bin/env python3
"""Do strategies that go apart exchange the same on processes as in simulation?

    scripts/compare_worlds.py [--runs 5] [--steps 200] [--end steps] [--workers 2 3] [--models lenet5 mnist-cnn]
                              [--strategies asp ssp:staleness=3 ...] [--program build/release/lockstep]

Each strategy is trained on processes of this machine, some runs with seeds 1, 2, ..., and then in
simulation on one host with the same settings and the step times that each run's workers measured.
With `--end samples` a run ends when all workers together have had that many batches each on average. With a
number of steps for each, the last worker trains alone at the end, and the faster, the fewer share its cores:
where there are fewer cores than workers, no mean step time tells when that is, and GoSGD then has nobody to
send to. Printed are the median exchanges and bytes a worker's step of both worlds and how far apart they are.
Exits with 1 if any are more than 5 % apart. An exchange is one contribution to somebody's numbers.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STRATEGIES = ["asp", "ssp:staleness=3", "downpour:push=1,fetch=1", "easgd:period=2", "gossip:p=1",
              "gossip:p=0.3", "ad-psgd"]
BOUND = 0.05


def summary(options, strategy, model, workers, seed, cluster):
    with tempfile.TemporaryDirectory() as folder:
        command = [options.program, "train", "-n", str(workers), "--strategy", strategy, "--model", model,
                   "--batch", str(options.batch), "--test-limit", "100",
                   "--threads", "1", "--sample-every", "0", "--seed", str(seed), "--cluster", cluster,
                   "--out", os.path.join(folder, "run"), "--json"]
        if options.end == "samples":
            command += ["--samples", str(options.steps * workers * options.batch)]
        else:
            command += ["--steps", str(options.steps)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\n{done.stderr}")
        return json.loads(done.stdout)


def simulated_cluster(run):
    """One host, on which each worker takes the time that it took in that run."""
    ranks = run["workers_detail"]
    steps_s = [rank["compute_seconds"] / rank["steps"] for rank in ranks if rank["role"] == "worker"]
    spec = f"sim:numerics=off,ranks_per_host={len(ranks)},step={steps_s[0] * 1e3:.4f}ms"
    return spec + ",slow=" + ",".join(f"rank{i}:{s / steps_s[0]:.4f}" for i, s in enumerate(steps_s) if i > 0)


def figures(run):
    """Exchanges and bytes a step of a worker, and sends merged or withheld."""
    ranks = run["workers_detail"]
    steps = sum(rank["steps"] for rank in ranks if rank["role"] == "worker")
    missing = [rank.get("sends_merged", 0) + rank.get("sends_withheld", 0) for rank in ranks]
    return (sum(rank["contributions"]["count"] for rank in ranks) / steps,
            sum(rank["bytes_sent"] for rank in ranks) / steps, sum(missing) / steps)


def median(runs):
    return [statistics.median(figure) for figure in zip(*map(figures, runs))]


def apart(real, simulated):
    return abs(real - simulated) / simulated if simulated else float(real > 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--end", choices=["steps", "samples"], default="steps")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--models", nargs="+", default=["lenet5", "mnist-cnn"])
    parser.add_argument("--strategies", nargs="+", default=STRATEGIES)
    parser.add_argument("--program", default=os.path.join(ROOT, "build/release/lockstep"))
    options = parser.parse_args()
    print("| model | strategy | workers | exchanges a step: processes | simulated | bytes a step: processes "
          "| simulated | apart | not sent alone |\n|---|---|---|---|---|---|---|---|---|")
    worst = 0.0
    for model in options.models:
        for strategy in options.strategies:
            for workers in options.workers:
                seeds = range(1, options.runs + 1)
                real = [summary(options, strategy, model, workers, seed, "local") for seed in seeds]
                simulated = [summary(options, strategy, model, workers, seed, simulated_cluster(run))
                             for seed, run in zip(seeds, real)]
                (r_count, r_bytes, r_missing), (s_count, s_bytes, s_missing) = median(real), median(simulated)
                off = max(apart(r_count, s_count), apart(r_bytes, s_bytes))
                worst = max(worst, off)
                print(f"| {model} | {strategy} | {workers} | {r_count:.3f} | {s_count:.3f} | {r_bytes:,.0f} "
                      f"| {s_bytes:,.0f} | {off:.1%} | {r_missing:.3f} / {s_missing:.3f} |", flush=True)
    print(f"at most {worst:.1%} apart; the bound is {BOUND:.0%}")
    return int(worst > BOUND)


if __name__ == "__main__":
    sys.exit(main())
