#!/usr/bin/env python3
"""Do trainings come to the same as before, to the bit? For changes that must not change results.

    scripts/golden_runs.py --write /tmp/before.txt      # with the program as it was
    scripts/golden_runs.py --compare /tmp/before.txt    # with the changed one, on the same machine

Trains a few steps with every strategy of `lockstep list strategies`: an MLP and a small ResNet with batch
norm in simulation, and on processes where the bits do not depend on who comes first; and a network without
numbers on eight simulated workers. Prints a line for each run: hashes of the saved weights (model), of all
tensors of model.pt (tensors), of the workers' batch-norm statistics (statistics) and of all else that a
checkpoint keeps (state), the scores, the bytes and messages that each rank sent, and the virtual seconds.
--compare prints what differs and exits with 1 if anything does. Bits depend on the kind of machine and on
LibTorch: compare on one machine. What must hold on all machines is in tests/golden/.

    scripts/golden_runs.py [--only SUBSTRING] [--jobs 2] [--program build/release/lockstep] ...
"""
import argparse
import concurrent.futures
import glob
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Their bits depend on who comes first, so on processes no two runs are alike.
GOES_APART = {"asp", "ssp", "easgd", "downpour", "gossip", "hogwild", "ad-psgd"}
WITH_SERVERS = {"parameter-server", "asp", "ssp", "easgd", "downpour"}
# Where the standard parameters do nothing in a few steps.
PARAMETERS = {"slow-mo": "period=3", "diloco": "period=3", "gossip": "p=0.5", "easgd": "period=2",
              "sma": "learners=2"}
# Each has batches of its own size: steps of the ResNet are slow.
MODELS = {
    "mlp": ["--model", "mlp:width=32,depth=2", "--data", "digits:samples=240,test_samples=100", "--batch", "10",
            "--epochs", "2"],
    "resnet": ["--model", "resnet20", "--data", "digits:samples=48,test_samples=16", "--batch", "4", "--epochs", "2"],
}
TRAINING = ["--optimizer", "sgd:lr=0.05,momentum=0.9", "--split", "dirichlet:alpha=1", "--threads", "1",
            "--sample-every", "0", "--timeline", "none", "--seed", "7", "--json"]
NETWORK = "bandwidth=1Gbps,latency=50us,step=10ms,jitter=0.1"
BETWEEN = " | "


class Run:
    """One training: what it is called, and its flags."""

    def __init__(self, strategy, what, world, workers=3):
        self.simulated = world != "processes"
        # In rounds whoever is free takes the next task, so on processes only the totals are always the same.
        self.by_rank = self.simulated or strategy != "epoch-average"
        self.name = f"{strategy} {what} {world}"
        spec = strategy + (":" + PARAMETERS[strategy] if strategy in PARAMETERS else "")
        self.flags = ["-n", str(workers), "--strategy", spec, *TRAINING]
        if strategy in WITH_SERVERS:
            self.flags += ["--servers", "2"]
        hosts = ",ranks_per_host=8" if strategy == "hogwild" else ""
        if world == "hollow":
            self.flags += ["--model", "mnist-cnn", "--data", "digits:samples=1280,test_samples=100", "--batch", "16",
                           "--epochs", "2", "--cluster", f"sim:{NETWORK}{hosts},numerics=off"]
            return
        self.flags += MODELS[what]
        self.flags += ["--cluster", f"sim:{NETWORK}{hosts}"] if self.simulated else []
        # In rounds there are no checkpoints; elsewhere the last one shows what every rank holds.
        if strategy != "epoch-average":
            self.flags += ["--checkpoint-every", "6"]

    def fields(self, program):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "run")
            command = [program, "train", *self.flags, "--out", out]
            done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
            if done.returncode == 2:
                return {"refused": done.stderr.strip().splitlines()[-1]}
            if done.returncode != 0:
                return {"failed": f"status {done.returncode}: {' '.join(done.stderr.split())}"}
            return {**self.figures(json.loads(done.stdout)), **files(out)}

    def figures(self, result):
        ranks = result["workers_detail"]

        def listed(key):
            numbers = [rank[key] for rank in ranks]
            return ",".join(map(str, numbers)) if self.by_rank else f"{sum(numbers)} in all"

        fields = {"model": result["model_sha256"], "collective": result["collective"],
                  "scores": ",".join(map(repr, result["score_by_epoch"])), "steps": result["steps"],
                  "consensus": repr(result["consensus_distance"]), "sent": listed("bytes_sent"),
                  "received": listed("bytes_received"), "messages": listed("messages_sent")}
        if self.by_rank:
            fields["contributions"] = digest(json.dumps([rank["contributions"] for rank in ranks]))
        if self.simulated:
            # On processes these depend on the time.
            fields["other"] = listed("bytes_other")
            fields["seconds"] = ",".join(map(repr, [result["train_seconds"], *result["seconds_by_epoch"]]))
            fields["spent"] = digest(json.dumps([[rank[kind + "_seconds"] for kind in
                                                  ("compute", "communicate", "hidden", "wait")] for rank in ranks]))
        return fields


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def files(folder):
    """Hashes of the tensors in model.pt, and of what the last checkpoint keeps."""
    fields = {}
    model = os.path.join(folder, "model.pt")
    if os.path.exists(model):
        with zipfile.ZipFile(model) as archive:
            sums = [hashlib.sha256(archive.read(name)).hexdigest() for name in sorted(archive.namelist())
                    if os.path.basename(os.path.dirname(name)) in ("data", "constants", "tensors")]
        fields["tensors"] = f"{len(sums)}:{digest(' '.join(sums))}"
    manifests = glob.glob(os.path.join(folder, "checkpoints", "step-*", "*.json"))
    if manifests:
        last = max(manifests, key=lambda path: int(os.path.basename(os.path.dirname(path))[len("step-"):]))
        with open(last) as file:
            blobs = json.load(file)["files"]
        # Progress is text with times in it.
        sums = {name: blob["sha256"] for name, blob in blobs.items() if "progress" not in name}
        statistics = sorted(item for item in sums.items() if "statistics" in item[0])
        fields["statistics"] = digest(json.dumps(statistics))
        fields["state"] = digest(json.dumps(sorted(set(sums.items()) - set(statistics))))
    return fields


def strategies(program):
    listed = subprocess.run([program, "list", "strategies", "--json"], capture_output=True, text=True, check=True)
    return [json.loads(line)["name"] for line in listed.stdout.splitlines()]


def runs(program):
    for strategy in strategies(program):
        for model in MODELS:
            yield Run(strategy, model, "simulated")
            if strategy not in GOES_APART:
                yield Run(strategy, model, "processes")
        yield Run(strategy, "mnist-cnn", "hollow", workers=8)


def line_of(name, fields):
    return BETWEEN.join([name] + [f"{field} {value}" for field, value in fields.items()])


def read(path):
    lines = {}
    with open(path) as file:
        for line in file:
            name, *fields = line.rstrip("\n").split(BETWEEN)
            lines[name] = dict(field.split(" ", 1) for field in fields)
    return lines


def differences(before, now):
    for name in [*before, *(name for name in now if name not in before)]:
        if name not in now or name not in before:
            yield f"{name}: only in the {'new' if name in now else 'old'} runs"
            continue
        for field in {**before[name], **now[name]}:
            old, new = before[name].get(field), now[name].get(field)
            if old != new:
                yield f"{name}: {field} was {old}, is {new}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", metavar="FILE", help="write the lines there")
    parser.add_argument("--compare", metavar="FILE", help="with lines that were written before")
    parser.add_argument("--only", default="", help="runs whose names have this in them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at a time")
    parser.add_argument("--program", default=os.path.join(ROOT, "build/release/lockstep"))
    options = parser.parse_args()
    chosen = [run for run in runs(options.program) if options.only in run.name]
    now = {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for run, fields in zip(chosen, pool.map(lambda run: run.fields(options.program), chosen)):
            now[run.name] = {field: str(value) for field, value in fields.items()}
            print(line_of(run.name, now[run.name]), flush=True)
    failed = [name for name, fields in now.items() if "failed" in fields]
    for name in failed:
        print(f"{name}: failed: {now[name]['failed']}", file=sys.stderr)
    if options.write and not failed:
        with open(options.write, "w") as file:
            file.writelines(line_of(name, fields) + "\n" for name, fields in now.items())
    found = []
    if options.compare:
        before = {name: fields for name, fields in read(options.compare).items() if options.only in name}
        found = list(differences(before, now))
        print(*(found or [f"{len(now)} runs, all as before"]), sep="\n", file=sys.stderr)
    sys.exit(1 if failed or found else 0)


if __name__ == "__main__":
    main()
