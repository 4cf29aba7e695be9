#!/usr/bin/env bash
# Every test, once `make build` has built what is tested (`make test` calls this): C++ tests, Python
# tests side by side, and at last the real runs whose rates are judged. These mostly wait, and the
# kernel prefers their programs: so beside them, with the lowest priority, run the lone build of engine
# and protocols, the fuzzers and the checks of the sources.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
make() { command make --no-print-directory "$@"; }
log=build/beside.log

beside() {
  local status=0
  make test-alone || status=1
  # Inputs, not seconds: what is tried does not depend on how much time there is.
  make fuzz FUZZ_SECONDS=0 FUZZ_RUNS=20000 FUZZ_MUTANTS=2000 FUZZ_CPU_SECONDS=0 || status=1
  make lint || status=1
  return $status
}

status=0
make test-cpp || status=1
make test-side-by-side || status=1
set -m  # a process group of its own, so that all of it can be ended
(renice -n 19 $BASHPID > /dev/null; beside) > $log 2>&1 &
others=$!
set +m
trap 'kill -- -$others' EXIT
make test-real || status=1
wait $others || status=1
trap - EXIT
cat $log
exit $status
