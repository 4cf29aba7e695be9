#!/usr/bin/env bash
# Runs all checks of the sources, or those named. Prints a line for each, and the output of those that fail.
# usage: lint.sh [ruff] [format] [mypy] [clang-format] [clang-tidy] [shellcheck]
set -uo pipefail
cd "$(dirname "$0")/.." || exit
export PATH="$PWD/.venv/bin:$PATH"

# Files of the repository, including new ones, by name or by first line.
sources() { git ls-files --cached --others --exclude-standard --deduplicate "$@"; }
scripts() {
  sources | while read -r file; do
    if [ -f "$file" ] && head -c 64 "$file" | head -n 1 | grep -aqE '^#!.*[/ ](ba)?sh$'; then
      echo "$file"
    fi
  done
}

check() {
  case "$1" in
    ruff) ruff check --quiet . ;;
    format) ruff format --check --quiet . ;;
    mypy) mypy --no-error-summary ;;
    # As many processes as cores; a file takes 20 ms.
    clang-format) sources '*.cpp' '*.h' | xargs -n 32 -P "$(nproc)" clang-format --dry-run --Werror ;;
    clang-tidy) scripts/tidy.sh --quick ;;
    shellcheck) scripts | xargs shellcheck ;;
    *) echo "valid: ruff, format, mypy, clang-format, clang-tidy, shellcheck"; return 2 ;;
  esac
}

status=0
[ $# -gt 0 ] || set -- ruff format mypy clang-format clang-tidy shellcheck
for name in "$@"; do
  if said=$(check "$name" 2>&1); then
    echo "lint: $name: clean"
  else
    status=1
    printf '%s\nlint: %s: see above\n' "$said" "$name"
  fi
done
exit $status
