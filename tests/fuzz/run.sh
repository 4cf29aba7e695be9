#!/bin/bash
# Runs each fuzz target for SECONDS: run.sh BUILD_FOLDER SECONDS. Interesting inputs stay in
# BUILD_FOLDER/corpus, inputs that crash in BUILD_FOLDER/crashes. Exits with 1 if there was a crash.
set -u
build=$(realpath "$1") seconds=$2
here=$(dirname "$(realpath "$0")")
status=0
mkdir -p "$build/crashes"
for target in packet load control stf; do
  mkdir -p "$build/corpus/$target"
  log="$build/$target.log"
  if "$build/fuzz_$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
      -max_len=16384 -dict="$here/$target.dict" -artifact_prefix="$build/crashes/$target-" \
      "$build/corpus/$target" "$here/corpus/$target" > "$log" 2>&1; then
    echo "PASS fuzz_$target: $(grep -E '^(Done|stat::number_of_executed)' "$log" | tail -1)"
  else
    echo "FAIL fuzz_$target: see $log"
    grep -E 'SUMMARY|ERROR|differ' "$log" | head -3
    status=1
  fi
done
exit $status
