"""Ctrl-C, SIGTERM and SIGHUP as a flag that is checked between steps: never inside one."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType

from tiercast_lab.base.errors import Interrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupt:
    """While entered, signals set the flag; `check` raises Interrupted where it is set.

    What removes a run's network and processes does not check the flag, so that a second Ctrl-C
    cannot leave anything behind.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._end: Callable[[], None] | None = None
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Interrupt:
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._seen)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _seen(self, number: int, _frame: FrameType | None) -> None:
        self.signal = signal.Signals(number)
        if self._end is not None:
            self._end()

    @contextlib.contextmanager
    def ending(self, end: Callable[[], None]) -> Iterator[None]:
        """While entered, a signal also calls `end`: what is waited for need not come to a step."""
        self._end = end
        try:
            yield
        finally:
            self._end = None

    def check(self) -> None:
        if self.signal is not None:
            raise Interrupted(f"interrupted by {self.signal.name}")


def die_with_parent() -> None:
    """The kernel kills this process when its parent dies, however that happens."""
    import ctypes

    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:  # it died before the call
        os._exit(1)
