#!/usr/bin/env bash
# Installs what requirements.in names, in the versions of requirements.lock, into a folder.
# usage: site_packages.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1
stamp=$folder.sha256
want=$(cat requirements.in requirements.lock | sha256sum)
[ "$(cat "$stamp" 2>/dev/null)" = "$want" ] && exit
rm -rf "$folder" "$stamp"
.venv/bin/pip install -q --disable-pip-version-check --ignore-installed --no-compile --no-warn-conflicts \
  --only-binary :all: --target "$folder" -c requirements.lock -r requirements.in
rm -rf "${folder:?}/bin" # scripts, which name this environment's interpreter
echo "$want" > "$stamp"
