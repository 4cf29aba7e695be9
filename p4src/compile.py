#!/usr/bin/env python3
"""Compiles the programs of a folder into its compiled/: bmv2 JSON, P4Info and LOCK.

LOCK records what was compiled and by which compiler, one fact per line: `compiler <version>`, then
`<sha256>  <path>` for each source and output (paths relative to the folder).
"""

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

P4SRC = Path(__file__).resolve().parent
COMPILER = "p4c-bm2-ss"  # its version is that of p4c as a whole
PSA_COMPILER = "p4c-bm2-psa"
# The compiler and its arguments, by program. The PSA program uses only a part of include/ and lib/.
PROGRAMS = {
    "tiercast": [COMPILER, "--Werror"],
    "tiercast_psa": [PSA_COMPILER, "--Werror", "--Wdisable=unused", "--Wdisable=removed"],
}
OUTPUTS = tuple(
    f"compiled/{program}.{suffix}" for program in PROGRAMS for suffix in ("json", "p4info.txtpb")
)
LOCK = "compiled/LOCK"


class CompileError(Exception):
    """The program could not be compiled. The text explains why."""


def sources(p4src: Path = P4SRC) -> list[str]:
    """All P4 files, relative to the folder, in a fixed order."""
    return sorted(path.relative_to(p4src).as_posix() for path in p4src.rglob("*.p4"))


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def compiler_version() -> str:
    """Name and version, e.g. "p4c-bm2-ss 1.2.5.16". Raises CompileError if a compiler is
    missing."""
    missing = [name for name in (COMPILER, PSA_COMPILER) if shutil.which(name) is None]
    if missing:
        raise CompileError(
            f"not in PATH: {', '.join(missing)}. Distributions do not package them: build p4c "
            "1.2.5 or newer (https://github.com/p4lang/p4c). p4src/compiled/ holds what they make: "
            "only someone who changes the P4 sources needs them."
        )
    answer = subprocess.run([COMPILER, "--version"], capture_output=True, text=True, check=True)
    printed = answer.stdout + answer.stderr
    for line in printed.splitlines():
        if line.startswith("Version"):
            return f"{COMPILER} {line.removeprefix('Version').split()[0]}"
    raise CompileError(f"{COMPILER} --version names no version: {printed!r}")


def compile_into(out: Path, p4src: Path = P4SRC) -> None:
    """Writes OUTPUTS below `out`. The compiler runs in p4src/, so that the paths it writes are
    relative."""
    (out / "compiled").mkdir(parents=True, exist_ok=True)
    for program, compiler in PROGRAMS.items():
        program_json = out / f"compiled/{program}.json"
        p4info = out / f"compiled/{program}.p4info.txtpb"
        command = [*compiler, "--std", "p4-16", "--p4runtime-files", str(p4info)]
        command += ["-o", str(program_json), f"{program}.p4"]
        done = subprocess.run(command, cwd=p4src, capture_output=True, text=True)
        if done.returncode != 0:
            raise CompileError(f"{' '.join(command)} failed:\n{done.stderr}")
        # Keep only the names of the compiler's own files, not the folder where it is installed.
        text = re.sub(r'"filename" : "/[^"]*/', '"filename" : "', program_json.read_text())
        program_json.write_text(text)


def lock_text(version: str, out: Path, p4src: Path = P4SRC) -> str:
    lines = [f"compiler {version}"]
    lines += [f"{sha256(p4src / name)}  {name}" for name in sources(p4src)]
    lines += [f"{sha256(out / name)}  {name}" for name in OUTPUTS]
    return "\n".join(lines) + "\n"


def read_lock(p4src: Path = P4SRC) -> tuple[str, dict[str, str]]:
    """The compiler's version, and the SHA-256 of each file by path."""
    first, *rest = (p4src / LOCK).read_text().splitlines()
    lines = (line.split(maxsplit=1) for line in rest)
    return first.removeprefix("compiler "), {path: digest for digest, path in lines}


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument(
        "folder", nargs="?", type=Path, default=P4SRC, help="of the sources; its own without one"
    )
    p4src = arguments.parse_args().folder.resolve()
    try:
        version = compiler_version()
        with tempfile.TemporaryDirectory() as scratch:
            out = Path(scratch)
            missing = [f"{name}.p4" for name in PROGRAMS if not (p4src / f"{name}.p4").exists()]
            if missing:
                raise CompileError(f"{p4src}: no {', '.join(missing)}; valid: a copy of {P4SRC}")
            compile_into(out, p4src)
            (out / LOCK).write_text(lock_text(version, out, p4src))
            (p4src / "compiled").mkdir(exist_ok=True)
            for name in (*OUTPUTS, LOCK):
                shutil.copyfile(out / name, p4src / name)
    except CompileError as error:
        print(f"p4src: {error}", file=sys.stderr)
        return 2
    print(f"p4src: {', '.join(PROGRAMS)} compiled by {version}: {', '.join((*OUTPUTS, LOCK))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
