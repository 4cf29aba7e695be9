"""What both ends of all flows have in common: the lab's socket, the clock, the reports.

A program connects to the lab's socket, sends `ready` once it can begin, waits there for the start
of the run, and then makes rows: for each flow five times a second, and its own pauses. Once a
second it writes them as JSON lines: each time wakes the lab, whose CPU others need. It ends when
the lab closes the socket, or at SIGTERM.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import itertools
import json
import selectors
import socket
import sys
import time
from collections.abc import Callable
from random import Random
from zlib import crc32

REPORTS_PER_S = 5  # one of them with a row of kind `pause`
REPORT_S = 1 / REPORTS_PER_S
BEAT_S = 0.1  # the loop runs at least this often (pauses.py)


def phase_s(name: str) -> float:
    """When a program of this name reports, after each multiple of REPORT_S. The programs of a run
    report one after another: all at once they would keep the CPUs from switches and senders for
    milliseconds."""
    return REPORT_S * crc32(name.encode()) / 2**32


class End:
    """One end of an entry's flows. Times are seconds of CLOCK_MONOTONIC."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.start_s = 0.0
        self.longest_pause_s = 0.0
        # `select` waits for microseconds; epoll for whole milliseconds.
        self.selector = selectors.SelectSelector()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()  # of calls that are due at the same time
        self._reports = 0
        self._phase_s = phase_s(options.name)
        self._rows: list[str] = []  # not yet written
        self.lab = socket.socket(socket.AF_UNIX)
        self.lab.connect(options.lab)

    @property
    def stop_s(self) -> float:
        return self.start_s + float(self.options.stop)

    def at(self, time_s: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._due, (time_s, next(self._order), call))

    def run(self) -> None:
        self.start_s = now = self._wait_for_start() / 1e9
        self.at(self.start_s + self.options.start, self.begin)
        self.at(self.stop_s, self.end)
        self.at(self.start_s, self._report)
        self.selector.register(self.lab, selectors.EVENT_READ, self.lab)
        while True:
            last_turn, now = now, time.monotonic()
            self.longest_pause_s = max(self.longest_pause_s, now - last_turn)
            while self._due and self._due[0][0] <= now:
                heapq.heappop(self._due)[2]()
            wake = min(now + BEAT_S, self._due[0][0])
            for key, _ in self.selector.select(max(0.0, wake - time.monotonic())):
                if key.fileobj is self.lab:
                    self.report()
                    self.longest_pause_s = max(self.longest_pause_s, time.monotonic() - now)
                    self._say_pause()
                    self._write()
                    sys.exit(0)
                self.ready(key.data)

    def say(self, kind: str, agent: str, **fields: float) -> None:
        row = {"time_ns": time.monotonic_ns(), "kind": kind, "agent": agent, **fields}
        self._rows.append(json.dumps(row))

    def random(self, flow: str) -> Random:
        """The flow's own random numbers: another flow beside it does not change its periods."""
        return Random(f"{self.options.seed} {flow}")

    def begin(self) -> None:
        """Called at the flows' start."""

    def end(self) -> None:
        """Called at the flows' stop."""

    def report(self) -> None:
        """Says a row for each flow."""

    def ready(self, what: object) -> None:
        """Called with what was registered for a socket that has become ready."""

    def _wait_for_start(self) -> int:
        """Waits for the start of the run and returns it, in ns."""
        self.lab.sendall(b'"ready"\n')
        line = self.lab.makefile("r").readline()
        if not line:
            sys.exit(0)  # the run was broken off before it began
        return int(json.loads(line))

    def _report(self) -> None:
        self.report()
        self._reports += 1
        if self._reports % REPORTS_PER_S == 0:
            self._say_pause()
        if self._reports % REPORTS_PER_S == int(self._phase_s * 1e6) % REPORTS_PER_S:
            self._write()
        first = self.start_s + self._phase_s
        done = (time.monotonic() - first) // REPORT_S
        self.at(first + REPORT_S * (1 + done), self._report)

    def _write(self) -> None:
        # A lab that has ended closes the socket. The next use of the socket ends this program.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.lab.sendall("".join(f"{row}\n" for row in self._rows).encode())
        self._rows.clear()

    def _say_pause(self) -> None:
        self.say("pause", self.options.name, longest_us=1e6 * self.longest_pause_s)
        self.longest_pause_s = 0.0
