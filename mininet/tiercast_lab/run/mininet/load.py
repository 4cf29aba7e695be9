"""Measures how much a run loads the machine while it goes on."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence

from tiercast_lab.base.machine import pressure_us
from tiercast_lab.run.mininet.processes import Turns


class LoadMeter:
    """The CPU use of the run's programs, and the machine's CPU pressure, between two samples."""

    def __init__(self, programs: Callable[[], Sequence[Turns]]) -> None:
        self._programs = programs
        self._last = self._seen()

    # The time is read next to the counters, because a busy machine may pause between any two lines.
    def _seen(self) -> tuple[float, float, float | None, Sequence[Turns]]:
        programs = self._programs()
        return time.monotonic(), _own_cpu_seconds(), pressure_us(), programs

    def sample(self) -> dict[str, float]:
        """The fields of a row of kind `machine`, for the time since the last sample."""
        at, own, pressure, before = self._last
        self._last = self._seen()
        elapsed = self._last[0] - at
        # Programs that have started since then are behind the others.
        pairs = list(zip(before, self._last[3], strict=False))
        ran = self._last[1] - own + sum(now.ran_s - then.ran_s for then, now in pairs)
        waits = [
            (now.waited_s - then.waited_s) / (now.count - then.count)
            for then, now in pairs
            if now.count > then.count
        ]
        row = {"cpu_percent": 100 * ran / elapsed, "cpu_wait_ms": 1e3 * max(waits, default=0.0)}
        if pressure is not None and self._last[2] is not None:
            row["pressure_percent"] = (self._last[2] - pressure) / elapsed / 1e4
        return row


def _own_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
