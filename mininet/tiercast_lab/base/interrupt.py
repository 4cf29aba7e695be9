"""Ctrl-C, SIGTERM and SIGHUP set a flag. It is checked between steps, never inside one."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType

from tiercast_lab.base.errors import Interrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupt:
    """While this is entered, signals set the flag, and `check` raises Interrupted once it is set.

    The code that removes a run's network and processes does not check the flag, so a second Ctrl-C
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
        """While this is entered, a signal also calls `end`, for a wait that might never reach
        `check`."""
        self._end = end
        try:
            yield
        finally:
            self._end = None

    def check(self) -> None:
        if self.signal is not None:
            raise Interrupted(f"interrupted by {self.signal.name}")


def die_with(parent: int) -> None:
    """Asks the kernel to kill this process when its parent dies, for whatever reason. `parent` is
    that one's process id."""
    import ctypes

    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the call
        os._exit(1)
