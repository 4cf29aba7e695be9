"""What README.md says is so: the lines that extend PATH."""

from __future__ import annotations

import re
import subprocess
import textwrap
from pathlib import Path

import pytest

from .page import ROOT

README = (ROOT / "README.md").read_text()


def section(title: str) -> str:
    return re.split(r"^#+ ", README.partition(f"# {title}\n")[2], maxsplit=1, flags=re.M)[0]


def installed_programs() -> dict[str, str]:
    """The folder of each program that the Debian packages put into /usr/bin."""
    install = (ROOT / "cmake/install.cmake").read_text()
    listed = install.partition("foreach(program")[2].partition(")")[0].split()
    folders = {}
    for top in ("dataplane", "hosts", "ns3", "tools"):
        for path in (ROOT / top).rglob("CMakeLists.txt"):
            for name in re.findall(r"add_executable\((tiercast-[\w-]+)", path.read_text()):
                folders[name] = str(path.parent.relative_to(ROOT))
    return {name: folders[name] for name in (*listed, "tiercast-ns3")}


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_its_lines_find_each_program_and_leave_the_rest(shell: str, tmp_path: Path) -> None:
    programs = installed_programs()
    assert len(programs) >= 11
    places = {name: tmp_path / "build" / folder / name for name, folder in programs.items()}
    places["tiercast"] = tmp_path / "tiercast"
    for place in places.values():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch(mode=0o755)
    block = "".join(re.findall(r"^    .*\n", section("Where the programs are"), re.M))
    asked = "\n".join(["ls / > /dev/null", *(f"command -v {name}" for name in places)])
    script = f"set -e\n{textwrap.dedent(block)}{asked}\n"
    done = subprocess.run([shell, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [str(place) for place in places.values()]
