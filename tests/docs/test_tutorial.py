"""The commands of docs/tutorial.md and docs/teaching.md work in their order, as they stand."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from ..checkout import BUILD, ROOT
from .page import write_files

OWN_SCHEME = BUILD / "tests/docs/add-a-scheme"  # what `make programs SCHEMES=my/aimd` makes

pytestmark = pytest.mark.slow


def commands_of(page: str) -> list[str]:
    """The lines of indented blocks, without the code of fenced ones."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / "docs" / page).read_text(), flags=re.M | re.S)
    return re.findall(r"^    (\S.*)$", text, flags=re.M)


def run_all(page: str, folder: Path) -> list[str]:
    """Runs a page's commands of tiercast in virtual time; returns all of the page's commands."""
    # `lab` and `watch` wait for a person: tests/mininet drives them.
    write_files(page, folder)
    (folder / "tiercast").symlink_to(ROOT / "tiercast")
    environment = os.environ | {"TIERCAST_RESULTS": str(folder / "results")}
    commands = commands_of(page)
    for command in commands:
        if "./tiercast" not in command or re.match(r"./tiercast (lab|watch)\b", command):
            if command == "make programs SCHEMES=my/aimd":
                environment |= {"TIERCAST_BUILD": str(OWN_SCHEME)}
            continue
        if "./tiercast run" in command and "--runtime ns3" not in command:
            command += " --runtime ns3"  # the page says: in real time
        done = subprocess.run(
            ["bash", "-c", f"set -e; {command}"],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return commands


def test_the_tutorial(tmp_path: Path) -> None:
    commands = run_all("tutorial.md", tmp_path)
    assert "make programs" in commands
    assert any("compare" in one for one in commands)


def test_the_exercises(tmp_path: Path) -> None:
    assert len(run_all("teaching.md", tmp_path)) >= 13


def test_files_of_the_own_scheme_are_written_where_the_tutorial_says(tmp_path: Path) -> None:
    assert ".venv/bin/python tests/docs/page.py add-a-scheme.md my" in commands_of("tutorial.md")
    written = write_files("add-a-scheme.md", tmp_path)
    assert tmp_path / "aimd/sender.h" in written
