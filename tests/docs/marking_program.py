"""The P4 program of docs/add-a-marking.md: p4src with the page's file and patch.

No distribution packages p4c, so its output for this program is kept in hysteresis/, without the
paths of the sources, and with the LOCK of p4src/compile.py. `python tests/docs/marking_program.py`
renews it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

if __package__:
    from .page import write_files
else:
    from page import write_files

ROOT = Path(__file__).resolve().parents[2]
COMPILED = Path(__file__).resolve().parent / "hysteresis"
PAGE = "add-a-marking.md"
FILES = ("tiercast.json", "tiercast.p4info.txtpb")


def write_sources(home: Path) -> Path:
    """Writes the page's folder, with the patched p4src, into a home directory. Returns it."""
    folder = home / "hysteresis"
    write_files(PAGE, folder)
    ignored = shutil.ignore_patterns("compiled", "__pycache__")
    shutil.copytree(ROOT / "p4src", folder / "p4src", ignore=ignored, dirs_exist_ok=True)
    said = run_command("patch ", home)
    # The page's line numbers are those of p4src.
    assert "offset" not in said and "fuzz" not in said, f"docs/{PAGE}: {said}"
    return folder


def run_command(start: str, home: Path) -> str:
    """Runs the page's command that begins so, from the checkout, with this home directory."""
    text = (ROOT / "docs" / PAGE).read_text()
    (command,) = re.findall(rf"^    ({start}.*)$", text, re.M)
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=ROOT, env=os.environ | {"HOME": str(home)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@cache
def compiler() -> Any:
    """The module p4src/compile.py."""
    spec = importlib.util.spec_from_file_location("p4src_compile", ROOT / "p4src/compile.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def digests(folder: Path) -> dict[str, str]:
    return {name: compiler().sha256(folder / name) for name in compiler().sources(folder)}


def compile_sources(folder: Path, out: Path) -> None:
    """Writes FILES and LOCK into `out`. Needs p4c."""
    subprocess.run([sys.executable, ROOT / "p4src/compile.py", folder], check=True)
    out.mkdir(exist_ok=True)
    program = json.loads((folder / "compiled/tiercast.json").read_text())
    (out / FILES[0]).write_text(json.dumps(_without_places(program), separators=(",", ":")) + "\n")
    shutil.copyfile(folder / "compiled" / FILES[1], out / FILES[1])
    lines = [f"compiler {compiler().compiler_version()}"]
    lines += [f"{digest}  {name}" for name, digest in digests(folder).items()]
    (out / "LOCK").write_text("\n".join(lines) + "\n")


def locked(out: Path) -> dict[str, str]:
    _, *lines = (out / "LOCK").read_text().splitlines()
    return {name: digest for digest, name in (line.split(maxsplit=1) for line in lines)}


def _without_places(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_places(v) for k, v in value.items() if k != "source_info"}
    return [_without_places(one) for one in value] if isinstance(value, list) else value


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        compile_sources(write_sources(Path(scratch)) / "p4src", COMPILED)
    print(f"tests/docs: the program of docs/add-a-marking.md compiled into {COMPILED}")
