"""How long a test waits for something that must happen. No test passes or fails because of the
machine's clock: it waits for a condition, and gives up only after a time in which no busy machine
could fail to meet it."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 60.0


def wait_until(condition: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {patience_s:g} s: {what}"
        time.sleep(0.02)
