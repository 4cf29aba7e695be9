#!/usr/bin/env bash
# Measures the lines that tests cover: C++ tests of protocols and engine (gcovr), and Python tests of
# the controller (coverage.py). Builds in build-coverage; the pages are in build-coverage/report.
set -euo pipefail
cd "$(dirname "$0")/.."

build="build-coverage"
report=$build/report
jobs=${JOBS:-$(nproc)}
folders=(tests/protocols tests/dataplane/engine tests/dataplane/stf tests/p4src)

[ -e $build/build.ninja ] ||
  cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=None -DTIERCAST_COVERAGE=ON > /dev/null
ninja -C $build -j "$jobs" tiercast-stf "${folders[@]/%//all}"
find $build -name '*.gcda' -delete
rm -rf $report
mkdir -p $report/cpp

status=0
for folder in "${folders[@]}"; do
  ctest --test-dir "$build/$folder" --output-on-failure -j "$jobs" || status=1
done
.venv/bin/gcovr --root . --object-directory $build -j "$jobs" --gcov-suspicious-hits-threshold 0 \
  --filter 'protocols/' --filter 'dataplane/engine/' --exclude '.*/bench/' \
  --exclude-throw-branches --html-details $report/cpp/index.html --json-summary $report/cpp.json
COVERAGE_FILE=$build/.coverage .venv/bin/python -m pytest tests/controller --cov=tiercast_controller \
  --cov-report="html:$report/controller" --cov-report="json:$report/controller.json" || status=1
.venv/bin/python scripts/coverage_table.py $report || status=1
exit $status
