"""What README.md says is so: its result, its table of schemes, its commands, its links."""

from __future__ import annotations

import re
import shlex
import subprocess
import textwrap
from pathlib import Path

import pytest
import typer
from tiercast_lab.cli.main import app
from tiercast_lab.show.docs_pages import reproduction as reproduction_page
from tiercast_lab.show.wording import tally

from ..checkout import ROOT
from .schemes import our_schemes

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


def test_its_result_is_that_of_the_reproduction() -> None:
    figures = reproduction_page.read_records()["figures"]
    result = re.search(r"^\*\*Result:\*\*.*?\.\n", README, re.M | re.S)
    assert result is not None
    words = (
        r"of the (\d+) figures and tables of (\w+) papers, (\d+) are met, (\d+) met but uncertain "
        r"\(the seeds do not decide\), (\d+) not met but uncertain, and (\d+) not met\."
    )
    said = re.search(words, " ".join(result[0].split()))
    assert said is not None, result[0]
    judged, papers, met, met_uncertain, not_met_uncertain, not_met = said.groups()
    assert tally(figures) == (
        f"{met} of {judged} met; {met_uncertain} met, uncertain; "
        f"{not_met_uncertain} not met, uncertain; {not_met} not met"
    )
    numbers = ("no", "one", "two", "three", "four", "five", "six")
    assert numbers.index(papers) == len({one["paper_name"] for one in figures})


def test_its_table_has_each_scheme_and_its_kind() -> None:
    rows = re.findall(r"^\| \[\S+\]\(docs/protocols/(\w+)\.md\) .*\| (\w+) \|$", README, re.M)
    kinds = {name: "layered" if one.layered else "single" for name, one in our_schemes().items()}
    assert dict(rows) == kinds


def test_its_commands_and_their_options_are_there() -> None:
    commands = getattr(typer.main.get_command(app), "commands")  # noqa: B009 (mypy knows no group)
    lines = [
        shlex.split(line, comments=True)
        for line in re.findall(r"^    \./tiercast (.*)$", README, re.M)
    ]
    assert len(lines) > 20
    for words in lines:
        if words[0].startswith("-"):  # --install-completion
            continue
        assert words[0] in commands, words
        valid = {name for one in commands[words[0]].params for name in one.opts}
        assert {word for word in words if word.startswith("--")} <= valid, words


def test_its_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", README):
        assert (ROOT / target).exists(), target
