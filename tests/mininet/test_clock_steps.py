"""The machine's clock is set while a run goes on: nobody in it may notice. The programs of the run
are shown such a clock (tests/support/stepped_clock.cpp); this machine's own is left alone."""

from __future__ import annotations

import mmap
import os
import signal
import struct
import time
from pathlib import Path

import polars as pl
import pytest
from tiercast_lab.base.errors import EXIT_INVALID
from tiercast_lab.results.storage import load_run

from ..checkout import BUILD
from .real_run import Started

LIBRARY = BUILD / "tests/support/libtiercast_stepped_clock.so"

# Everything that looks at packets' time stamps: TFMCC's and RLA's round trips, what SIM's members
# report, the switches' own queues.
EXPERIMENT = """\
title: The clock is set
topology:
  nodes: [0, 1, 2, 3, 4, 5]
  link: {rate: 2Mbit/s, delay: 10ms, queue: 30p}
  links: {0-1: {}, 1-3: {rate: 500kbit/s}, 0-2: {}, 2-4: {}, 2-5: {rate: 800kbit/s}}
marking: {kind: none}
sessions:
  - {scheme: sim, sender: 0, session: 1, receivers: [3, 4], layers: 2}
  - {scheme: tfmcc, sender: 3, session: 2, receivers: [0, 5]}
  - {scheme: rla, sender: 4, session: 3, receivers: [3, 5]}
traffic:
  - {kind: tcp, from: 0, to: 5}
duration: 24s
measure: {last: 8s}
"""
STEPS_S = {5: 3600, 10: -3600, 15: -3599.75}  # when, and how far ahead of the true clock
ROUND_TRIPS = {"sim.round": "rtt_max_us", "tfmcc.report": "rtt_us", "rla.window": "srtt_max_us"}
STOPPED = ("s0", "h0", "h3.s2", "h4.s3", "h3", "h3.s3", "h5.s2", "h5.s3")
PROGRAMS = {"python", "tiercast-send", "tiercast-host", "tiercast-switch"}


class SteppedClock:
    """The file by which the library is told: steps (at, ahead), of 8; the programs that saw one, of
    256, after their count; the stamps that were after one. All are 64-bit integers, times in ns."""

    SIZE = 8 * (2 * 8 + 1 + 256 + 1)

    def __init__(self, file: Path):
        file.write_bytes(bytes(self.SIZE))
        self.environment = {"LD_PRELOAD": str(LIBRARY), "TIERCAST_STEPPED_CLOCK": str(file)}
        with file.open("r+b") as opened:
            self._shared = mmap.mmap(opened.fileno(), self.SIZE)
        self._steps = 0

    def step(self, ahead_s: float) -> None:
        """From now on the clock is so far ahead of the true one."""
        at = 16 * self._steps
        self._shared[at + 8 : at + 16] = struct.pack("<q", round(1e9 * ahead_s))
        self._shared[at : at + 8] = struct.pack("<q", time.time_ns())
        self._steps += 1

    def programs(self) -> set[int]:
        """The process ids of those that have read a clock that had been set."""
        count, *programs = struct.unpack_from("<257q", self._shared, 128)
        return set(programs[: min(count, 256)]) - {0}

    def stamps(self) -> int:
        return struct.unpack_from("<q", self._shared, self.SIZE - 8)[0]


def name_of(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return Path(words[0].decode()).name


@pytest.mark.mininet
@pytest.mark.slow
def test_a_run_does_not_notice_that_the_clock_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SteppedClock(tmp_path / "clock")
    file = tmp_path / "steps.yaml"
    file.write_text(EXPERIMENT)
    for name, value in clock.environment.items():
        monkeypatch.setenv(name, value)
    started = Started(tmp_path / "r", experiment=str(file))
    monkeypatch.undo()
    saw: set[str] = set()
    for second, ahead_s in STEPS_S.items():
        while not (line := started.process.stdout.readline()).lstrip().startswith(f"{second} s "):
            assert line, started.process.communicate()
        # What arrives at a stopped program has stamps of the clock before the step when it is read.
        pids = [started.wait_for(f"--name={name}") for name in STOPPED]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(0.1)
        clock.step(ahead_s)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        time.sleep(1)
        saw |= set(map(name_of, clock.programs()))
    status, out, error = started.finish()
    assert status in (0, EXIT_INVALID) and error == "", out + error
    started.assert_nothing_is_left()
    assert saw >= PROGRAMS and clock.stamps() > 1000

    run = load_run((tmp_path / "r/latest").resolve())
    assert run.summary["complaints"] == []
    checks = {one["name"]: one["ok"] for one in run.summary["validity"]["checks"]}
    assert checks["unaccounted"]
    for kind, rows in run.rows.items():
        assert rows["time_s"].is_between(0, 26).all(), kind
    # No link holds a packet for longer than half a second, and no path has more than three.
    for kind, column in ROUND_TRIPS.items():
        assert run.rows[kind][column].is_between(0, 3e6).all(), kind
    # All sessions go on: each receiver and TCP got something between any two steps, and after.
    for agent, rows in [
        *run.rows["received"].group_by("agent"),
        *run.rows["tcp"].group_by("agent"),
    ]:
        got = [
            rows.filter(pl.col("time_s").is_between(start, start + 5))["bytes"]
            for start in (5, 10, 15, 19)
        ]
        assert all(its.max() > its.min() for its in got), (agent, got)
