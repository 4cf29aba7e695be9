"""The P4 program of docs/add-a-marking.md: p4src with the page's file and patch.

No distribution packages p4c, so its output for this program is kept in hysteresis/, without the
paths of the sources, and with the LOCK of p4src/compile.py. `python tests/docs/marking_program.py`
renews it.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
COMPILED = Path(__file__).resolve().parent / "hysteresis"
FILES = ("tiercast.json", "tiercast.p4info.txtpb")


def write_sources(folder: Path, page: list[Path]) -> None:
    """Writes p4src with the page's files, `page`, into a folder."""
    ignored = shutil.ignore_patterns("compiled", "__pycache__")
    shutil.copytree(ROOT / "p4src", folder, ignore=ignored, dirs_exist_ok=True)
    for path in page:
        if path.suffix == ".p4":
            shutil.copyfile(path, folder / "lib" / path.name)
    (patch,) = (path for path in page if path.suffix == ".patch")
    command = ["patch", "--strip=1", "--fuzz=0", "--directory", folder, "--input", patch]
    subprocess.run(command, check=True, capture_output=True)


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
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    from page import write_files

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_sources(folder / "p4src", write_files("add-a-marking.md", folder / "page"))
        compile_sources(folder / "p4src", COMPILED)
    print(f"tests/docs: the program of docs/add-a-marking.md compiled into {COMPILED}")
