"""What all ends of a program share: the wait for sockets and times, and the lab's socket.

A program connects to the lab's socket, sends `ready` once it can begin, waits there for the start
of the run, and then makes rows: for each flow five times a second, and its own pauses once. It
writes them as JSON lists, one a line: WRITE_ROWS at a time, or what there is once a second, as each
time wakes the lab, whose CPU others need. It ends when the lab closes the socket, or at SIGTERM.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import json
import select
import selectors
import socket
import sys
import time
from collections.abc import Callable

BEAT_S = 0.1  # the loop runs at least this often (pauses.py)
WRITE_S = 1.0
WRITE_ROWS = 32  # the lab takes them in less than a millisecond

Call = Callable[[], None]


class Loop:
    """Times are seconds of CLOCK_MONOTONIC."""

    def __init__(self, name: str, lab: str) -> None:
        self.start_s = 0.0
        self._name = name
        self._selector = selectors.EpollSelector()
        self._due: list[tuple[float, int, Call]] = []
        self._order = itertools.count()  # of calls that are due at the same time
        self._starts: list[Call] = []
        self._ends: list[Call] = []
        self._turn_s = 0.0  # when the last turn began
        self._longest_pause_s = 0.0
        self._rows: list[dict[str, object]] = []  # not yet written
        self._lab = socket.socket(socket.AF_UNIX)
        self._lab.connect(lab)

    def at(self, time_s: float, call: Call) -> None:
        heapq.heappush(self._due, (time_s, next(self._order), call))

    def add(self, start: Call, end: Call) -> None:
        """Calls `start` once the run's start is known, and `end` when the lab ends the program."""
        self._starts.append(start)
        self._ends.append(end)

    def watch(self, end: socket.socket, events: int, call: Call) -> None:
        """From now on calls `call` whenever the socket is ready for what `events` says (of
        selectors), instead of what was to be called before."""
        if end in self._selector.get_map():
            self._selector.modify(end, events, call)
        else:
            self._selector.register(end, events, call)

    def close(self, end: socket.socket) -> None:
        """Closes a socket that is watched."""
        self._selector.unregister(end)
        end.close()

    def say(self, kind: str, agent: str, **fields: float) -> None:
        self._rows.append({"time_ns": time.monotonic_ns(), "kind": kind, "agent": agent, **fields})
        if len(self._rows) >= WRITE_ROWS:
            self._write()

    def run(self) -> None:
        self.start_s = self._turn_s = self._wait_for_start() / 1e9
        for start in self._starts:
            start()
        self.at(self.start_s, self._report)
        self.watch(self._lab, selectors.EVENT_READ, self._end)
        while True:
            now = self._note_pause()
            while self._due and self._due[0][0] <= now:
                heapq.heappop(self._due)[2]()
            wake = min(now + BEAT_S, self._due[0][0])
            # `select` waits for microseconds; epoll for whole milliseconds.
            if select.select([self._selector], [], [], max(0.0, wake - time.monotonic()))[0]:
                for key, _ in self._selector.select(0):
                    key.data()

    def _wait_for_start(self) -> int:
        """Waits for the start of the run and returns it, in ns."""
        self._lab.sendall(b'"ready"\n')
        line = self._lab.makefile("r").readline()
        if not line:
            sys.exit(0)  # the run was broken off before it began
        return int(json.loads(line))

    def _end(self) -> None:
        for end in self._ends:
            end()
        self._note_pause()
        self._say_pause()
        self._write()
        sys.exit(0)

    def _report(self) -> None:
        self._say_pause()
        self._write()
        done = (time.monotonic() - self.start_s) // WRITE_S
        self.at(self.start_s + WRITE_S * (1 + done), self._report)

    def _note_pause(self) -> float:
        """Returns the time, at which a turn begins."""
        before, self._turn_s = self._turn_s, time.monotonic()
        self._longest_pause_s = max(self._longest_pause_s, self._turn_s - before)
        return self._turn_s

    def _say_pause(self) -> None:
        self.say("pause", self._name, longest_us=1e6 * self._longest_pause_s)
        self._longest_pause_s = 0.0

    def _write(self) -> None:
        # A lab that has ended closes the socket. The next use of the socket ends this program.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._lab.sendall(json.dumps(self._rows).encode() + b"\n")
        self._rows.clear()
