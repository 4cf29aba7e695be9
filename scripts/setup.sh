#!/usr/bin/env bash
# Installs what `make programs` needs on a bare Debian 12 machine or, with `setup.sh dev`, what the
# tests and checks need as well: Debian packages, then the Python environment .venv. With
# `setup.sh alone`, only the Debian packages that `make test-alone` needs; with `setup.sh packages`,
# those of `make programs` without .venv.
# Idempotent: a second run only compares versions and takes about a second.
set -euo pipefail
cd "$(dirname "$0")/.."

what=${1:-run}
packages=(scripts/debian-packages-alone.txt) locks=()
case "$what" in
  alone) ;;
  packages) packages+=(scripts/debian-packages.txt) ;;
  run) packages+=(scripts/debian-packages.txt) locks=(requirements.lock) ;;
  dev) packages+=(scripts/debian-packages.txt scripts/debian-packages-dev.txt)
       locks=(requirements.lock requirements-dev.lock) ;;
  *) echo "setup: $what; valid: alone, packages, run, dev" >&2; exit 2 ;;
esac

missing=()
while read -r package; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
    missing+=("$package")
done < <(grep -hvE '^(#|$)' "${packages[@]}")

if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" != 0 ]; then
    echo "setup: root is missing, and so are Debian packages; run as root:" \
         "apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 2
  fi
  echo "setup: installing ${#missing[@]} Debian packages (some minutes): ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  log=$(mktemp)
  if ! { apt-get update -q && apt-get install -q -y --no-install-recommends "${missing[@]}"; } \
      >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "setup: apt-get failed; the whole output is in $log" >&2
    exit 2
  fi
  rm -f "$log"
fi

# Mininet's Python package belongs to the distribution's interpreter, so the environment is made
# with that one, not with the first python3 in PATH.
for lock in "${locks[@]}"; do
  stamp=.venv/$lock.sha256
  want=$(sha256sum < "$lock")
  if [ -x .venv/bin/python ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want" ]; then continue; fi
  echo "setup: installing $lock into the Python environment .venv (a minute or more)"
  # An interrupted first time may have left an environment without pip.
  if ! .venv/bin/pip --version >/dev/null 2>&1; then
    rm -rf .venv
    /usr/bin/python3 -m venv --system-site-packages .venv
  fi
  .venv/bin/pip install -q --disable-pip-version-check --require-hashes --no-deps -r "$lock"
  echo "$want" > "$stamp"
done
