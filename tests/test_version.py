"""The file VERSION is the only place that states the version, and each program reports it."""

import os
import subprocess
import sys

import pytest
from tiercast_controller.base.installation import ROOT
from tiercast_lab.base import binaries

PROGRAMS = {
    path.name: [path]
    for path in (
        binaries.SWITCH,
        binaries.SENDER,
        binaries.HOST,
        binaries.NS3,
        binaries.DELAY_LINE,
        binaries.BUILD / "dataplane/stf/tiercast-stf",
        binaries.BUILD / "dataplane/switch/dpdk/tiercast-switch-dpdk",
    )
} | {
    "tiercast": [ROOT / "tiercast"],
    "tiercast_controller": [sys.executable, "-m", "tiercast_controller"],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_says_the_version(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    said = subprocess.run(
        [*PROGRAMS[name], "--version"], capture_output=True, text=True, check=True
    )
    name = name.removesuffix("-dpdk")  # the same program with other ports
    assert said.stdout.split()[:2] == [name, (ROOT / "VERSION").read_text().strip()]
