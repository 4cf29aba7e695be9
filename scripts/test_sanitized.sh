#!/usr/bin/env bash
# usage: scripts/test_sanitized.sh address|thread
# Builds with a sanitizer in build-<sanitizer> and runs the tests that it can judge. address: every C++
# test; thread: the C++ tests of the DPDK programs, the switch, the agents and virtual time's kernel, and
# those of their programs.
# Any report is an error; reports are kept in build-<sanitizer>/reports.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

sanitizer=${1:-}
case "$sanitizer" in
  address) targets=(all) ;;
  thread) targets=({,tests/}{agent,hosts,ns3,dataplane/{dpdk,streams,receiver,sender,tester,switch}}/all) ;;
  *) echo "test: SANITIZE=$sanitizer; valid: address, thread" >&2; exit 2 ;;
esac
build=build-$sanitizer
reports=$PWD/$build/reports
jobs=${JOBS:-$(nproc)}

[ -e "$build/build.ninja" ] ||
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DTIERCAST_SANITIZE="$sanitizer" > /dev/null || exit 1
ninja -C "$build" -j "$jobs" "${targets[@]}" || exit 1
rm -rf "$reports"
mkdir -p "$reports"

# A program that a test ends or restarts writes its report to a separate file.
export ASAN_OPTIONS=log_path=$reports/address
export UBSAN_OPTIONS=print_stacktrace=1:log_path=$reports/undefined
# Debian builds gRPC and DPDK without the sanitizer, which then does not see their locks.
export TSAN_OPTIONS=log_path=$reports/thread:second_deadlock_stack=1:ignore_noninstrumented_modules=1
# Nor does it see that a buffer comes back through its pool's ring, before rte_pktmbuf_alloc_bulk (in
# a header, so instrumented) sets it up.
printf 'race:rte_pktmbuf_alloc_bulk\n' > "$build/suppressions"
TSAN_OPTIONS+=:suppressions=$PWD/$build/suppressions

status=0
if [ "$sanitizer" = address ]; then
  ctest --test-dir "$build" --output-on-failure -j "$jobs" || status=1
else
  ctest --test-dir "$build" --output-on-failure -j "$jobs" -L threads || status=1
  export TIERCAST_BUILD=$PWD/$build
  tests=(tests/{agent,hosts,dataplane/{receiver,sender,tester,switch},ns3/test_threads.py})
  .venv/bin/python -m pytest -m "not alone" -n "$jobs" --dist worksteal "${tests[@]}" || status=1
  .venv/bin/python -m pytest -m alone "${tests[@]}" || [ $? -eq 5 ] || status=1  # 5: none
fi
if [ -n "$(ls "$reports")" ]; then
  head -n 60 "$reports"/*
  echo "test: $(find "$reports" -type f | wc -l) reports of the $sanitizer sanitizer in $build/reports" >&2
  status=1
fi
exit $status
