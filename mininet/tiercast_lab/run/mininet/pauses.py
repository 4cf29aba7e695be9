"""For how long programs of a run did not run: stopped, or without a CPU.

Every program wakes up at least every 100 ms, and reports the longest time in which it did not:
senders and hosts as records, tiercast-switch when it is polled, tiercast-delay-line in its log, the
ends of TCP flows on their socket, the lab with what is here. bmv2 reports nothing of the kind: the
lab sends it a request every 100 ms. These are the rows of kind `pause`: one a second for each
program, and one from the lab at the start of the run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

BEAT_S = 0.1


class LoopWatch:
    """Of the lab itself: of the asyncio loop that `watch` runs in."""

    def __init__(self) -> None:
        self._last_turn = time.monotonic()
        self._longest_s = 0.0

    async def watch(self) -> None:
        while True:
            self._note_turn()
            await asyncio.sleep(BEAT_S)

    def take_longest_us(self) -> float:
        """Since the last call. The pause that ends with this call counts."""
        self._note_turn()
        longest, self._longest_s = self._longest_s, 0.0
        return 1e6 * longest

    def _note_turn(self) -> None:
        now = time.monotonic()
        self._longest_s = max(self._longest_s, now - self._last_turn)
        self._last_turn = now


class AnswerWatch:
    """Of a program that is asked, for as long as `watch` runs. It may have stopped right after its
    last answer, so BEAT_S counts before each question; no more where the lab asked late, which is
    the lab's own pause."""

    def __init__(self) -> None:
        self._silent_since: float | None = None  # None: it is not asked just now
        self._longest_s = 0.0

    async def watch(self, ask: Callable[[], Awaitable[object]]) -> None:
        while True:
            self._silent_since = time.monotonic() - BEAT_S
            await ask()
            self._note_silence()
            self._silent_since = None
            await asyncio.sleep(BEAT_S)

    def take_longest_us(self) -> float:
        """Since the last call; a question without an answer counts until now."""
        self._note_silence()
        longest, self._longest_s = self._longest_s, 0.0
        return 1e6 * longest

    def _note_silence(self) -> None:
        if self._silent_since is not None:
            self._longest_s = max(self._longest_s, time.monotonic() - self._silent_since)
