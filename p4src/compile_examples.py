#!/usr/bin/env python3
"""Compiles the programs of experiments/programs/ beside their sources, and renews LOCK there: the
compiler, and the SHA-256 of each source and output."""

import subprocess
import sys
from pathlib import Path

from compile import COMPILER, CompileError, compiler_version, sha256

PROGRAMS = Path(__file__).resolve().parents[1] / "experiments/programs"


def main() -> int:
    try:
        lines = [f"compiler {compiler_version()}"]
    except CompileError as error:
        print(f"programs: {error}", file=sys.stderr)
        return 2
    for source in sorted(PROGRAMS.glob("*.p4")):
        info, json = (f"{source.stem}{suffix}" for suffix in (".p4info.txtpb", ".json"))
        command = [COMPILER, "--std", "p4-16", "--p4runtime-files", info, "-o", json, source.name]
        if subprocess.run(command, cwd=PROGRAMS).returncode != 0:
            return 2
        lines += [f"{sha256(PROGRAMS / name)}  {name}" for name in (source.name, info, json)]
    (PROGRAMS / "LOCK").write_text("\n".join(lines) + "\n")
    print(f"programs: compiled into {PROGRAMS}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
