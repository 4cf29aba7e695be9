"""Real runs in Mininet: one that is judged, and some that are broken off."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from ..patience import wait_until
from .conftest import skip_if_invalid
from .real_run import Started, everything, processes

pytestmark = pytest.mark.mininet


@pytest.fixture
def bystander() -> Iterator[tuple[str, str]]:
    """A namespace and an interface that belong to someone else."""
    namespace = f"bystander-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", namespace], check=True)
    try:
        command = ["ip", "-n", namespace, "link", "add", "s1-eth1", "type", "veth", "peer", "x"]
        subprocess.run(command, check=True)
        yield namespace, "s1-eth1"
    finally:
        subprocess.run(["ip", "netns", "delete", namespace], check=True)


@pytest.mark.alone
def test_a_run_is_judged_and_leaves_nothing(tmp_path: Path, bystander: tuple[str, str]) -> None:
    started = Started(tmp_path, "--seed", "3")
    status, out, error = started.finish()
    assert status in (0, 3), out + error
    assert f"verdict: {'met' if status == 0 else 'invalid'}" in out
    assert "15 s  rates " in out
    started.assert_nothing_is_left()
    shown = subprocess.run(
        ["ip", "-n", bystander[0], "link", "show", bystander[1]], capture_output=True
    )
    assert shown.returncode == 0

    directory = (tmp_path / "latest").resolve()
    summary = json.loads((directory / "summary.json").read_text())
    assert (summary["verdict"], summary["seed"]) == ("met" if status == 0 else "invalid", 3)
    assert summary["complaints"] == []
    checks = {check["name"]: check for check in summary["validity"]["checks"]}
    assert all(check["ok"] for check in checks.values()) == (status == 0)
    assert bool(summary["reasons"]) == (status == 3)

    rows = {path.stem: pl.read_parquet(path) for path in (directory / "rows").glob("*.parquet")}
    assert {"layer", "received", "subscription", "join", "port", "pacer.final"} <= rows.keys()
    assert set(rows["received"]["agent"]) == {"h3", "h4", "h5", "h6"}
    # Links carry what the experiment says and no more: 1>3 has 1 Mbit/s of IP bytes.
    bottleneck = rows["port"].filter(pl.col("link") == "1>3").sort("time_s")
    assert 8 * bottleneck["tx_bytes"][-1] <= 1e6 * bottleneck["time_s"][-1] * 1.01
    metadata = json.loads((directory / "metadata.json").read_text())
    assert sorted(metadata) == ["after", "before"]
    page = (directory / "report.html").read_text()
    panels = json.JSONDecoder().raw_decode(page.partition("const panels = ")[2])[0]
    assert len(panels) >= 6 and all(panel["series"] for panel in panels)
    assert (directory / "logs" / "switches.log").exists()
    # The papers' figures are only checked on a run that can be trusted. In virtual time: tests/ns3.
    skip_if_invalid(summary)
    assert "keeps up" in out
    assert [f["name"] for f in summary["expected"] if not f["ok"]] == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", ["at once", "tiercast-switch", "tiercast-host", "running"])
def test_an_interrupted_run_leaves_nothing(tmp_path: Path, moment: str, number: int) -> None:
    started = Started(tmp_path)
    if moment == "running":
        started.wait_for_second(0)
    elif moment != "at once":
        started.wait_for(moment)
    started.process.send_signal(number)
    status, _, error = started.finish()
    assert status == 130
    assert error.strip() == f"tiercast: interrupted by {signal.Signals(number).name}"
    started.assert_nothing_is_left()
    assert not (tmp_path / "latest").exists()


@pytest.mark.parametrize("moment", ["tiercast-switch", " flows-send ", "running", "sleep"])
def test_ctrl_c_twice_in_a_run_of_everything_leaves_nothing(tmp_path: Path, moment: str) -> None:
    """As a terminal does it: all processes of the foreground hear it."""
    file, sleeps = everything(tmp_path)
    started = Started(tmp_path, experiment=str(file))
    if moment == "running":
        started.wait_for_second(0)
    elif moment == "sleep":
        wait_until(lambda: len(processes(sleeps)) >= 2, "the command has started both")
    else:
        started.wait_for(moment)
    for _ in range(2):
        os.killpg(started.process.pid, signal.SIGINT)
    status, _, error = started.finish()
    assert (status, error.strip()) == (130, "tiercast: interrupted by SIGINT")
    started.assert_nothing_is_left()
    assert processes(sleeps) == []


def test_a_run_of_everything_ends_by_itself_and_leaves_nothing(tmp_path: Path) -> None:
    file, sleeps = everything(tmp_path)
    started = Started(tmp_path, experiment=str(file))
    status, out, error = started.finish()
    assert status in (0, 3), out + error
    started.assert_nothing_is_left()
    assert processes(sleeps) == []
    rows = (tmp_path / "latest/rows").resolve()
    assert pl.read_parquet(rows / "port.parquet")["down_drops"].max() > 0
    agents = set(pl.read_parquet(rows / "received.parquet")["agent"])
    assert agents == {"h3", "h4", "h5", "h0.s2", "h5.s2"}


@pytest.mark.parametrize("program", ["tiercast-switch", "tiercast-host"])
def test_a_crash_ends_the_run_and_is_named(tmp_path: Path, program: str) -> None:
    started = Started(tmp_path, "--duration", "3600s")
    started.wait_for_second(0)
    os.kill(started.wait_for(program), signal.SIGSEGV)
    status, _, error = started.finish()
    assert status == 4
    assert error.startswith(f"tiercast: {program} ")
    assert "was ended by SIGSEGV while the run went on; the end of " in error
    started.assert_nothing_is_left()
