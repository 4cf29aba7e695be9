"""Runs `tiercast run` in Mininet as a process, for tests that disturb it while it goes on."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from ..checkout import ROOT
from ..patience import wait_until

# All that a run in Mininet can have at once. The command's first process ignores SIGTERM, and one
# of those that it starts has a session of its own.
EVERYTHING = """\
topology:
  nodes: [0, 1, 2, 3, 4, 5]
  link: {rate: 3Mbit/s, delay: 5ms, queue: 30p}
  links:
    0-1: {}
    1-3: {rate: 1Mbit/s, loss: 1%}
    0-2: {delay: 10ms}
    2-3: {}
    1-4: {jitter: 1ms}
    2-5: {duplicate: 1%}
marking: {kind: none}
sessions:
  - {scheme: rlc, sender: 0, session: 1, receivers: [3, 4, 5], layers: 4}
  - {scheme: tfmcc, sender: 3, session: 2, receivers: [0, 5], start: 1s, stop: 4s}
members:
  - {session: 2, at: 2s, every: 500ms, receivers: [5]}
churn:
  - {receivers: [4], arrivals: {every: 400ms}, stay: {distribution: constant, mean: 300ms}}
traffic:
  - {kind: tcp, from: 0, to: 4, count: 2}
  - {kind: udp, from: 5, to: 0, rate: 200kbit/s}
  - {kind: command, from: 2, run: "trap '' TERM; sleep SECONDS & setsid sleep SECONDS & wait"}
events:
  - {at: 500ms, every: 700ms, link: 0-1, up: [false, true]}
  - {at: 1s, every: 1s, link: 1-3, rate: [500kbit/s, 2Mbit/s]}
duration: 6s
measure: {last: 3s}
"""


def everything(folder: Path) -> tuple[Path, str]:
    """An experiment file with EVERYTHING, and how its command's processes can be told from those of
    other tests."""
    mark = f"{10_000 + os.getpid()}.5"
    file = folder / "everything.yaml"
    file.write_text(EVERYTHING.replace("SECONDS", mark))
    return file, f"sleep {mark}"


def processes(text: str) -> list[str]:
    """The command lines on this machine that contain `text`, without this test's own."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            continue  # the process has ended
        if text.encode() in line and int(pid) != os.getpid():
            found.append(f"{pid} {line.decode(errors='replace')}")
    return found


def wait_for_second(run: subprocess.Popen[str], second: int) -> None:
    """0 or 5. Waits for the line that the run prints at that second, or later on a busy machine."""
    while line := run.stdout.readline():
        if (said := re.match(r" *(\d+) s  rates ", line)) and int(said[1]) >= second:
            return
    pytest.fail(f"the run ended: {run.communicate()}")


class Started:
    """A `tiercast run` that has printed its run's id."""

    def __init__(self, results: Path, *arguments: str, experiment: str = "sim-smoke") -> None:
        self.results = results
        self.process = subprocess.Popen(
            [ROOT / "tiercast", "run", experiment, "--results", results, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.run = self.process.stdout.readline().rpartition("run ")[2].strip()

    def wait_for(self, program: str) -> int:
        """The process id of a program of the run, once it exists."""
        found: list[int] = []

        def started() -> bool:
            for line in processes(f"{self.run}-"):
                pid, _, command = line.partition(" ")
                if program in command and not command.startswith(("mnexec", "setpriv", "chrt")):
                    found.append(int(pid))
            assert self.process.poll() is None, self.process.communicate()
            return bool(found)

        wait_until(started, f"{program} is started")
        return found[0]

    def wait_for_second(self, second: int) -> None:
        wait_for_second(self.process, second)

    def finish(self) -> tuple[int, str, str]:
        out, error = self.process.communicate()
        return self.process.returncode, out, error

    def assert_nothing_is_left(self) -> None:
        assert processes(f"{self.run}-") == []
        assert list(Path("/tmp").glob(f"tiercast-scratch-{self.run}-*")) == []
        assert self.run not in subprocess.run(["ip", "link"], capture_output=True, text=True).stdout
        assert f"{self.run}-" not in Path("/proc/net/unix").read_text()
