#!/usr/bin/env bash
# clang-tidy (.clang-tidy) over the C++ sources that build/ knows, without tests and generated code.
# usage: tidy.sh [--quick] [FILE...]
#   --quick  leaves out the parts that include gRPC, DPDK or ns-3, whose headers take most of the time
#   FILE     these sources alone
set -uo pipefail
cd "$(dirname "$0")/.." || exit
export PATH="$PWD/.venv/bin:$PATH"

parts=(base protocols dataplane/engine dataplane/accounts dataplane/stf dataplane/delay_line
  agent hosts dataplane/switch dataplane/sender ns3)
if [ "${1:-}" = --quick ]; then
  shift
  parts=("${parts[@]:0:6}")
fi

if [ ! -e build/compile_commands.json ]; then
  echo "tidy: build/compile_commands.json is missing; run: make configure"
  exit 2
fi
if [ $# -eq 0 ]; then
  # Sources that this configuration compiles: without DPDK, say, there is no sender.
  mapfile -t known < <(grep -oP '"file": "\K[^"]+' build/compile_commands.json | sort -u)
  mapfile -t files < <(git ls-files "${parts[@]/%//*.cpp}" | sed "s|^|$PWD/|" |
    grep -Fxf <(printf '%s\n' "${known[@]}"))
  set -- "${files[@]}"
fi
# What it suppressed, and in how many headers, is of no interest.
printf '%s\0' "$@" | xargs -0 -n 4 -P "$(nproc)" clang-tidy -p build --quiet 2> >(
  grep -vE '^[0-9]+ warnings? (and [0-9]+ errors? )?generated\.$|^Suppressed |^Use -header-filter' >&2)
