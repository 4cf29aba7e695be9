#!/bin/bash
# Runs the fuzz targets side by side, one for each core, each for SECONDS or for RUNS inputs:
#   run.sh BUILD_FOLDER SECONDS [RUNS]      0 SECONDS, no RUNS: no bound
# Interesting inputs stay in BUILD_FOLDER/corpus, inputs that crash in BUILD_FOLDER/crashes. Exits
# with a status other than 0 if there was a crash.
set -u
build=$(realpath "$1") seconds=$2 runs=${3:--1}
here=$(dirname "$(realpath "$0")")
export build seconds runs here

# libFuzzer's own time-out of 20 minutes for one input finds what hangs, however busy the machine is.
fuzz() {
  local target=$1 log=$build/$1.log
  mkdir -p "$build/corpus/$target"
  if "$build/fuzz_$target" -max_total_time="$seconds" -runs="$runs" -rss_limit_mb=2048 \
      -max_len=16384 -dict="$here/$target.dict" -artifact_prefix="$build/crashes/$target-" \
      "$build/corpus/$target" "$here/corpus/$target" > "$log" 2>&1; then
    echo "PASS fuzz_$target: $(grep -E '^(Done|stat::number_of_executed)' "$log" | tail -1)"
  else
    echo "FAIL fuzz_$target: see $log"
    grep -E 'SUMMARY|ERROR|differ' "$log" | head -3
    return 1
  fi
}
export -f fuzz

mkdir -p "$build/crashes"
printf '%s\n' packet load control stf | xargs -P "$(nproc)" -I{} bash -c 'fuzz {}'
