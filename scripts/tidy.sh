#!/usr/bin/env bash
# clang-tidy (.clang-tidy) over the C++ sources that build/ compiles, without tests and generated code.
# usage: tidy.sh [--quick] [FILE...]
#   --quick  leaves out what includes gRPC, DPDK or ns-3: their headers take most of the time
#   FILE     these sources alone
set -uo pipefail
cd "$(dirname "$0")/.." || exit
export PATH="$PWD/.venv/bin:$PATH"

parts=(base protocols dataplane/engine dataplane/native dataplane/accounts dataplane/stf dataplane/delay_line tools/norm)
if [ "${1:-}" = --quick ]; then
  shift
else
  parts+=(agent hosts dataplane/updates dataplane/marking dataplane/switch dataplane/dpdk dataplane/sender dataplane/receiver ns3)
fi

# The commands for each source by itself, with the generated headers of build/.
if [ ! -e build/build.ninja ]; then
  echo "tidy: build/ is missing; run: make configure"
  exit 2
fi
cmake -S . -B build/tidy -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF -DTIERCAST_UNITY=OFF > /dev/null || exit 1
# Without options that only GCC knows and its precompiled headers (so a source that lacks an include is
# found here); warnings are GCC's, and clang's -Wconversion has others.
sed -Ei "s/ (-fno-crossjumping|-fno-gcse|-fpch-preprocess|-W[^ ]*|-include [^ ]*cmake_pch[^ ]*)//g; s/ -c / -w -c /
  s#$PWD/build/tidy/#$PWD/build/#g" build/tidy/compile_commands.json

if [ $# -eq 0 ]; then
  # Of the sources those that this configuration compiles: without DPDK there is no sender.
  mapfile -t files < <(git ls-files "${parts[@]/%//*.cpp}" |
    grep -Fxf <(grep -oP "\"file\": \"$PWD/\K[^\"]+" build/tidy/compile_commands.json | sort -u))
  set -- "${files[@]}"
fi
status=0
said=$(printf '%s\0' "$@" |
  xargs -0 -n 4 -P "$(nproc)" clang-tidy -p build/tidy --quiet 2> /dev/null) || status=1
grep -v '^\[[0-9]*/[0-9]*\] Processing file' <<< "$said" | sed '/^$/d'
exit $status
