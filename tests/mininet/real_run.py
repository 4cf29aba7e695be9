"""Runs `tiercast run` in Mininet as a process, for tests that disturb it while it goes on."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from ..patience import wait_until
from .conftest import ROOT


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


class Started:
    """A `tiercast run` that has printed its run's id."""

    def __init__(self, results: Path, *arguments: str, experiment: str = "sim-smoke") -> None:
        self.results = results
        self.process = subprocess.Popen(
            [ROOT / "tiercast", "run", experiment, "--results", results, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
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

    def finish(self) -> tuple[int, str, str]:
        out, error = self.process.communicate()
        return self.process.returncode, out, error

    def assert_nothing_is_left(self) -> None:
        assert processes(f"{self.run}-") == []
        assert list(Path("/tmp").glob(f"tiercast-scratch-{self.run}-*")) == []
        assert self.run not in subprocess.run(["ip", "link"], capture_output=True, text=True).stdout
