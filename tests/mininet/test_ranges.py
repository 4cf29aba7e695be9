"""The programs accept everything that an experiment may contain, and rows have known kinds."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tiercast_controller.base import units
from tiercast_controller.base.limits import MAX_SESSION
from tiercast_lab.base import binaries
from tiercast_lab.base.errors import EXIT_INPUT, InputError, RunFailed
from tiercast_lab.base.interrupt import Interrupt
from tiercast_lab.experiment.loading import load_experiment
from tiercast_lab.experiment.quantities import MAX_DELAY
from tiercast_lab.experiment.schema import Session
from tiercast_lab.experiment.schemes import known_schemes, require_accepted, session_options
from tiercast_lab.run.execute import Options, execute
from tiercast_lab.run.progress import SilentView

from ..checkout import ROOT
from .conftest import SMALL

pytestmark = pytest.mark.slow


def said(*command: object) -> str:
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=20)
    return result.stderr


def test_a_switch_takes_every_link() -> None:
    def link(**changes: str) -> str:
        most = {
            "rate": f"{units.MAX_RATE}bit/s",
            "queue": f"{units.MAX_PACKETS}p/{units.MAX_SIZE}B",
            "delay": f"{MAX_DELAY}ns",
        }
        port = ",".join(f"{key}={value}" for key, value in (most | changes).items())
        return said(binaries.SWITCH, "--device-id=1", f"--port=1=no-such-if,{port}")

    # The only errors are about missing options; beyond these ranges the switch itself says what is
    # valid.
    assert "neither --json nor --grpc" in link()
    assert "not a rate" in link(rate=f"{units.MAX_RATE + 10**6}bit/s")
    assert "at most 60s" in link(delay=f"{MAX_DELAY + 1}ns")


@pytest.mark.parametrize("packet_size", [100, 1500])
def test_every_scheme_takes_every_session(packet_size: int) -> None:
    for scheme in known_schemes().values():
        session = Session(
            scheme=scheme.name,
            sender=0,
            session=MAX_SESSION,
            layers=8 if scheme.layered else 1,
            packet_size=f"{packet_size}B",
        )
        assert said(binaries.HOST, "check", *session_options(session)) == ""
        for parameter in scheme.parameters.values():
            for value in (parameter.min, parameter.max):
                setting = f"--set={parameter.name}={value!r}"
                refused = said(binaries.HOST, "check", *session_options(session), setting)
                assert "out of range" not in refused, refused


def test_parameters_that_do_not_fit_together_are_said_before_the_run(tmp_path: Path) -> None:
    file, schemes = ROOT / "experiments/sim-smoke.yaml", known_schemes()
    require_accepted(load_experiment(file, schemes))
    loaded = load_experiment(file, schemes, ["sim.min_rate=9Mbit/s"])
    with pytest.raises(InputError, match=r"yaml:11: sessions\.0: sim\.min_rate 9Mbit/s, "):
        require_accepted(loaded)
    command = [ROOT / "tiercast", "run", file, "--runtime=ns3", "--set", "sim.min_rate=9Mbit/s"]
    command += ["--results", tmp_path / "results"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == EXIT_INPUT and "must be at least the one before" in result.stderr
    assert not (tmp_path / "results").exists()


def test_a_row_of_an_unknown_kind_ends_the_run(
    load, tmp_path: Path, simulator: Callable[[str], Path]
) -> None:
    """Whoever writes it, because a kind becomes a file name."""
    row = '{"time_ns": 0, "agent": "h0", "kind": "../../x"}'
    simulator(f"echo '{row}'")
    results = tmp_path / "results"
    options = Options(1, "ns3", "tiercast", results, [])
    with pytest.raises(RunFailed, match=r"a row of kind '\.\./\.\./x'"):
        execute(load(SMALL), options, SilentView(), Interrupt())
    names = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert not any(name.startswith("x") for name in names)
