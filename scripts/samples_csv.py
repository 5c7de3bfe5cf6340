#!/usr/bin/env python3
"""What each worker used over time, as a CSV: scripts/samples_csv.py STUDY_FOLDER [SEED] > NAME-samples.csv

Reads the study's results.csv and each run's worker-R.jsonl (docs/formats.md), and writes a row for each
variant, seed, rank and two seconds of training: CPU (mean), memory, and what was sent, received, read and
written since the start. `lockstep report
NAME-samples.csv --svg FILE --y COLUMN --x second --series who` draws it; give a seed, or it shows
means over all.
"""

import csv
import json
import pathlib
import sys

WIDTH_S = 2
COLUMNS = ["run", "variant", "seed", "status", "who", "rank", "role", "second", "cpu_percent", "private_bytes",
           "shared_bytes", "exchange_sent_bytes", "exchange_received_bytes", "interface_sent_bytes",
           "interface_received_bytes", "disk_read_bytes", "disk_written_bytes"]


def samples_of(path):
    """The header and the samples of one rank; a line that a crash cut short ends them."""
    header, samples = {}, []
    for line in path.read_text().splitlines():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            break
        if entry.get("kind") == "samples":
            header = entry
        else:
            samples.append(entry)
    return header, samples


def counters(sample):
    exchange = (sample.get("network") or {}).get("exchange") or {}
    interface = sample.get("interface") or {}
    return [exchange.get("bytes_sent"), exchange.get("bytes_received"), interface.get("sent_bytes"),
            interface.get("received_bytes"), sample.get("disk_read_bytes"), sample.get("disk_written_bytes")]


def binned(samples):
    """A row for each so many seconds: the mean of CPU, and the last of all else."""
    start = counters(samples[0])
    for second in range(0, int(samples[-1]["t"]) + 1, WIDTH_S):
        inside = [s for s in samples if second <= s["t"] < second + WIDTH_S]
        if not inside:
            continue
        cpu = [s["cpu_user_percent"] + s["cpu_system_percent"] for s in inside
               if s.get("cpu_user_percent") is not None]
        yield ([second + WIDTH_S, round(sum(cpu) / len(cpu), 1) if cpu else "",
                inside[-1].get("private_bytes"), inside[-1].get("shared_bytes")]
               + ["" if now is None or then is None else now - then
                  for then, now in zip(start, counters(inside[-1]))])


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit("samples_csv.py: name a study's folder, such as studies-out/resources, and perhaps a seed")
    study, seeds = pathlib.Path(sys.argv[1]), sys.argv[2:]
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(COLUMNS)
    with open(study / "results.csv", newline="") as results:
        for run in csv.DictReader(results):
            if seeds and run["seed"] not in seeds:
                continue
            for path in sorted((study / "runs" / run["run"]).glob("worker-*.jsonl")):
                header, samples = samples_of(path)
                for row in binned(samples) if samples else []:
                    rank, role = header.get("rank"), header.get("role")
                    out.writerow([run["run"], run["variant"], run["seed"], run["status"],
                                  f"{run['variant']}, {role} {rank}", rank, role] + row)


if __name__ == "__main__":
    main()
