#!/usr/bin/env bash
# clang-tidy (.clang-tidy) over the C++ sources that build/ compiles, without tests and generated code.
# usage: tidy.sh [--quick] [FILE...]
#   --quick  leaves out what includes gRPC, DPDK or ns-3, whose headers take most of the time, and reads a dozen
#            sources at once (CMake's unity files), so that headers are read once for all of them
#   FILE     these sources alone
set -uo pipefail
cd "$(dirname "$0")/.." || exit
export PATH="$PWD/.venv/bin:$PATH"

parts=(base protocols dataplane/engine dataplane/native dataplane/accounts dataplane/stf dataplane/delay_line tools/norm)
if [ "${1:-}" = --quick ]; then
  shift
  tree=build/tidy-unity unity=ON
else
  parts+=(agent hosts dataplane/updates dataplane/marking dataplane/switch dataplane/dpdk dataplane/sender dataplane/receiver ns3)
  tree=build/tidy unity=OFF
fi

# The commands for each source by itself or for unity files, with the generated headers of build/.
if [ ! -e build/build.ninja ]; then
  echo "tidy: build/ is missing; run: make configure"
  exit 2
fi
cmake -S . -B "$tree" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF -DTIERCAST_UNITY=$unity > /dev/null || exit 1
# Without options that only GCC knows and its precompiled headers (so a source that lacks an include is
# found where each is read by itself); warnings are GCC's, and clang's -Wconversion has others.
sed -Ei "s/ (-fno-crossjumping|-fno-gcse|-fpch-preprocess|-W[^ ]*|-include [^ ]*cmake_pch[^ ]*)//g; s/ -c / -w -c /
  s#$PWD/$tree/#$PWD/build/#g; s#$PWD/build/([^ \"]*/Unity/)#$PWD/$tree/\1#g" "$tree/compile_commands.json"

# Of the sources those that this configuration compiles: without DPDK there is no sender.
if [ $# -eq 0 ]; then
  compiled=$(grep -oP "\"file\": \"$PWD/\K[^\"]+" "$tree/compile_commands.json" | sort -u)
  mapfile -t files < <(
    grep -Fxf <(git ls-files "${parts[@]/%//*.cpp}") <<< "$compiled"
    grep -E "^$tree/($(IFS='|'; echo "${parts[*]}"))/.*/Unity/" <<< "$compiled"
  )
  set -- "${files[@]}"
fi
status=0
said=$(printf '%s\0' "$@" |
  xargs -0 -n 2 -P "$(nproc)" clang-tidy -p "$tree" --quiet 2> /dev/null) || status=1
grep -v '^\[[0-9]*/[0-9]*\] Processing file' <<< "$said" | sed '/^$/d'
exit $status
