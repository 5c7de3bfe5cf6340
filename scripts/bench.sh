#!/usr/bin/env bash
# The headline comparisons, each interleaved with the peers in one run. Further arguments go to
# every one of them, e.g. scripts/bench.sh --json
set -euo pipefail
cd "$(dirname "$0")/.."

bench() {
  local operation=$1 title=$2
  shift 2
  printf '\n## %s\n' "$title" >&2
  build/release/lockstep bench "$operation" "$@"
}
all_reduce() { bench allreduce "$@"; }

both=(--against openmpi,gloo)
all_reduce "100 MiB, 2 ranks" -n 2 -b 100M -e 100M --collectives auto,ring "${both[@]}" "$@"
all_reduce "100 MiB, 4 ranks" -n 4 -b 100M -e 100M --collectives auto "${both[@]}" "$@"
all_reduce "4 KiB, 2 ranks" -n 2 -b 4K -e 4K -i 1000 --collectives auto "${both[@]}" "$@"
for workers in 1 2; do
  for servers in 1 2 4; do
    bench pushpull "100 MiB to servers and back, $workers workers, $servers servers" -n "$workers" --servers "$servers" \
      -b 100M -e 100M "$@"
  done
done
if ((EUID == 0)); then
  all_reduce "100 MiB between two hosts, unshaped" -n 2 -b 100M -e 100M -w 1 -i 5 --collectives auto \
    --cluster netns:hosts=2 --against gloo "$@"
  all_reduce "100 MiB between two hosts, 1 Gbit/s" -n 2 -b 100M -e 100M -w 1 -i 5 --collectives auto \
    --cluster netns:hosts=2,bandwidth=1Gbps --against gloo "$@"
else
  echo "the comparison between two hosts is left out: network namespaces need root" >&2
fi
