"""How long a test waits for something that must happen. No test passes or fails because of the
machine's clock: it waits for a condition, and gives up only after a time in which no busy machine
could fail to meet it."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 60.0


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(0.02)
