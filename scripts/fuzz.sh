#!/usr/bin/env bash
# Feeds every decoder of compressed messages what libFuzzer thinks of: scripts/fuzz.sh [SECONDS [SPEC…]]
# So long each (60), as many at once as there are cores, under address and undefined sanitizers. What it
# found worth keeping stays in build/fuzz-corpus and is where the next run starts. Stops at the first input that
# breaks a decoder, and says where it is.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
program=build/release/decoders_fuzz
mapfile -t specs < <(if (($# > 1)); then printf '%s\n' "${@:2}"; else "$program" --list; fi)

fuzz() {
  local spec=$1 folder
  folder=build/fuzz-corpus/${spec//[^a-z0-9.]/_}
  mkdir -p "$folder"
  "$program" "--spec=$spec" "--seeds=$folder"
  if "$program" "--spec=$spec" -max_total_time="$2" -max_len=8192 -artifact_prefix="$folder-" \
    -print_final_stats=1 "$folder" >"$folder.log" 2>&1; then
    echo "$spec: $(sed -n 's/^stat::number_of_executed_units: *//p' "$folder.log") inputs, none breaks it"
  else
    tail -n 40 "$folder.log"
    echo "$spec: see $folder.log" >&2
    return 255 # which ends xargs
  fi
}
export -f fuzz
export program
printf '%s\n' "${specs[@]}" | xargs -P "$(nproc)" -I{} bash -c 'fuzz "$1" "$2"' - {} "$seconds"
