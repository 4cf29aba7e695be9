#!/usr/bin/env bash
# Installs what requirements.lock names, without what only builds (requirements-build.in), and no
# archive with another hash, into a folder.
# usage: site_packages.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1
stamp=$folder.sha256
want=$(cat requirements-build.in requirements.lock | sha256sum)
[ "$(cat "$stamp" 2>/dev/null)" = "$want" ] && exit
rm -rf "$folder" "$stamp"
lock=$(mktemp)
trap 'rm -f "$lock"' EXIT
awk 'NR == FNR { build[$1]; next }
     /^[a-z]/ { split($0, words, "=="); keep = !(words[1] in build) }
     keep' requirements-build.in requirements.lock > "$lock"
.venv/bin/pip install -q --disable-pip-version-check --ignore-installed --no-compile --no-warn-conflicts \
  --only-binary :all: --require-hashes --no-deps --target "$folder" -r "$lock"
rm -rf "${folder:?}/bin" # scripts, which name this environment's interpreter
echo "$want" > "$stamp"
