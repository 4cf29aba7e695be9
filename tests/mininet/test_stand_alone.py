"""`tiercast controller`: the stand-alone controller's own arguments and exit statuses."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tiercast_controller import __main__ as stand_alone
from tiercast_controller.base.installation import VERSION
from tiercast_controller.config import EXAMPLE
from tiercast_lab.cli.main import main

from .test_cli import tiercast


def test_help_and_version_are_the_controllers() -> None:
    shown = tiercast("controller", "--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith("usage: tiercast controller [-h]")
    assert "--standby" in shown.stdout and EXAMPLE in shown.stdout
    assert tiercast("controller", "--version").stdout == f"tiercast controller {VERSION}\n"


def test_wrong_arguments_and_input_are_exit_status_2(tmp_path: Path) -> None:
    for words, said in (
        ([], "tiercast controller: error: the following arguments are required: CONFIG\n"),
        (["a.yaml", "--log-level", "loud"], "argument --log-level: invalid choice: 'loud'"),
        ([tmp_path / "none.yaml"], f"{tmp_path}/none.yaml: No such file or directory\n"),
    ):
        result = tiercast("controller", *words)
        assert (result.returncode, result.stdout) == (2, "")
        assert said in result.stderr


@pytest.mark.parametrize("status", [0, 1])
def test_arguments_arrive_unchanged_and_the_status_is_the_controllers(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    seen: list[object] = []

    def run(arguments: list[str], program: str) -> int:
        seen.extend((arguments, program))
        return status

    words = ["--tls", "keys", "net.yaml", "--standby", "--", "-x"]
    monkeypatch.setattr(stand_alone, "main", run)
    monkeypatch.setattr(sys, "argv", ["tiercast", "controller", *words])
    with pytest.raises(SystemExit) as end:
        main()
    assert (end.value.code, seen) == (status, [words, "tiercast controller"])
