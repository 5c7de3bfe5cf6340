#!/bin/sh
# Draws the figures of docs/studies again, each from the CSV beside it. After a study was run anew,
#   lockstep report studies-out/NAME --csv docs/studies/NAME.csv
# first. Usage: scripts/figures.sh [PROGRAM] [NAME…]; all of them, if none is named.
set -eu
cd "$(dirname "$0")/../docs/studies"
program=${1:-../../build/release/lockstep}
case $program in /*) ;; *) [ -x "$program" ] || program=$OLDPWD/$program ;; esac
[ $# -gt 0 ] && shift
wanted=" $* "

# draw NAME [flags of `lockstep report`]
draw() {
  name=$1
  shift
  [ "$wanted" = "  " ] || case $wanted in *" $name "*) ;; *) return 0 ;; esac
  [ -f "$name.csv" ] || return 0
  "$program" report "$name.csv" --svg "$name.svg" "$@"
}

draw averaging --y step_seconds --x workers --log-x --log-y --where simulated=true \
  --title 'Time a step on simulated workers, 1 Gbit/s'
draw averaging-resnet50 --y step_seconds
draw batch-size --x workers --log-x
draw catch-up
draw collectives --y time_us --x bytes --series collective --log-x --log-y \
  --where 'variant=shared memory, workers 4' --title 'Time of an all-reduce on 4 ranks, shared memory'
draw compressed-accuracy
draw distance --y step_seconds --x latency --log-y
draw epoch-manager
draw frequency --x period --log-x
draw my-cluster --y samples_per_second --x bandwidth
draw sensitivity --x rate --log-x
draw slow-network --y step_seconds --where bandwidth=100Mbps \
  --title 'Time a step at 100 Mbit/s, measured and simulated'
draw synchronisation --x workers --where slow=none --where tuned=yes \
  --title 'Accuracy over workers, each way with the rate it chose'
draw synchronisation-speed --y step_seconds --x workers --log-y --where model=resnet50 \
  --where bandwidth=10Gbps --title 'Time a step of ResNet-50 at 10 Gbit/s'

# What each rank used over time has a CSV of its own (scripts/samples_csv.py) and a figure for each column.
# draw_resource FIGURE COLUMN TITLE
draw_resource() {
  [ "$wanted" = "  " ] || case $wanted in *" resources "*) ;; *) return 0 ;; esac
  "$program" report resources-samples.csv --svg "resources-$1.svg" --y "$2" --x second --series who --title "$3"
}
draw_resource network exchange_sent_bytes 'Sent so far by each rank'
draw_resource cpu cpu_percent 'CPU of each rank (100 is a core)'
draw_resource memory private_bytes 'Private memory of each rank'
draw_resource disk disk_written_bytes 'Written to disk so far by each rank'
