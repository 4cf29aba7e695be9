#!/usr/bin/env bash
# Renews requirements.lock and requirements-dev.lock from their .in files: every package with its
# version and the hashes of its archives, for all machines. `make lock`.
set -euo pipefail
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
/usr/bin/python3 -m venv "$scratch"
"$scratch/bin/pip" install -q --disable-pip-version-check uv

compile() {
  "$scratch/bin/uv" pip compile -q --upgrade --python-version 3.11 --generate-hashes \
    --no-annotate --no-header --no-emit-package setuptools "$@"
}

compile requirements.in requirements-build.in -o requirements.lock
locked=()
while read -r name; do locked+=(--no-emit-package "$name"); done \
  < <(grep -oE '^[a-z0-9.-]+' requirements.lock)
compile requirements-dev.in -c requirements.lock "${locked[@]}" -o requirements-dev.lock
