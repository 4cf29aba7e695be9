"""Measures how long the programs of a run did not run because they were stopped or got no CPU.

Every program wakes up at least every 100 ms and reports the longest time in which it did not.
Senders and hosts send it as a record, tiercast-switch when it is polled; tiercast-delay-line writes
it to its log; the programs of the flows send it on their socket; the lab measures itself with the
classes below. bmv2 reports nothing of the kind, so the lab sends it a request every 100 ms. These
times are the rows of kind `pause`: one per second for each program, and one from the lab at the
start of the run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

BEAT_S = 0.1


class LoopWatch:
    """Watches the lab itself: the asyncio loop in which `watch` runs."""

    def __init__(self) -> None:
        self._last_turn = time.monotonic()
        self._longest_s = 0.0

    async def watch(self) -> None:
        while True:
            self._note_turn()
            await asyncio.sleep(BEAT_S)

    def take_longest_us(self) -> float:
        """The longest pause since the last call, in us. A pause that ends with this call counts."""
        self._note_turn()
        longest, self._longest_s = self._longest_s, 0.0
        return 1e6 * longest

    def _note_turn(self) -> None:
        now = time.monotonic()
        self._longest_s = max(self._longest_s, now - self._last_turn)
        self._last_turn = now


class AnswerWatch:
    """Watches a program by asking it, for as long as `watch` runs.

    The program may have stopped right after its last answer, so BEAT_S is added to each wait for an
    answer, but no more than that: if the lab asked late, that was the lab's own pause.
    """

    def __init__(self) -> None:
        self._silent_since: float | None = None  # None: no question is waiting for its answer
        self._longest_s = 0.0

    async def watch(self, ask: Callable[[], Awaitable[object]]) -> None:
        while True:
            self._silent_since = time.monotonic() - BEAT_S
            await ask()
            self._note_silence()
            self._silent_since = None
            await asyncio.sleep(BEAT_S)

    def take_longest_us(self) -> float:
        """The longest silence since the last call, in us. An unanswered question counts up to
        now."""
        self._note_silence()
        longest, self._longest_s = self._longest_s, 0.0
        return 1e6 * longest

    def _note_silence(self) -> None:
        if self._silent_since is not None:
            self._longest_s = max(self._longest_s, time.monotonic() - self._silent_since)
