"""A controller that waits for the primary's end.

It has a stream to every switch, on which each says who its primary is. The primary is gone when no
switch that answers has one. One switch without a primary says little: the switch may have died and
returned, or the primary may have lost the way to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Iterable

from tiercast_controller.base.errors import SwitchError
from tiercast_controller.p4runtime.stream import GRACE_S, ControlStream, Standing

log = logging.getLogger(__name__)

_PAUSE_S = 0.2  # between attempts to reach a switch
_TAKEN = float("inf")


class Standby:
    def __init__(self, streams: Iterable[ControlStream]):
        self._streams = list(streams)
        # Of the switches that answer: from when on they can be taken over, CLOCK_MONOTONIC.
        self._free_s: dict[ControlStream, float] = {}
        # By then a switch that can answer has done so, CLOCK_MONOTONIC.
        self._heard_s = time.monotonic() + GRACE_S
        self._changed = asyncio.Event()

    async def wait(self) -> set[ControlStream]:
        """Returns the streams of the switches that answer, when none of them has a primary but
        us. They stay open."""
        watching = [asyncio.create_task(self._watch(stream)) for stream in self._streams]
        try:
            while (wait_s := self._all_free_s() - time.monotonic()) > 0:
                self._changed.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(None if wait_s == _TAKEN else wait_s):
                        await self._changed.wait()
            return set(self._free_s)
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)

    def _all_free_s(self) -> float:
        """From when on all of them can be taken over."""
        free_s = max(self._free_s.values(), default=_TAKEN)
        return free_s if len(self._free_s) == len(self._streams) else max(free_s, self._heard_s)

    async def _watch(self, stream: ControlStream) -> None:
        while True:
            try:
                await stream.watch()
                # By chance, so that of several that are started together one is first.
                self._note(stream, GRACE_S * random.uniform(1, 2))
                while not stream.lost.done():
                    stream.changed.clear()
                    await stream.changed.wait()
                    self._note(stream, 0)
                stream.lost.result()
            except SwitchError as error:
                log.info("%s", error)
            self._free_s.pop(stream, None)
            self._changed.set()
            await asyncio.sleep(_PAUSE_S)

    def _note(self, stream: ControlStream, grace_s: float) -> None:
        if stream.standing is Standing.ANOTHERS:
            self._free_s[stream] = _TAKEN
        elif stream.standing is not None and self._free_s.get(stream, _TAKEN) == _TAKEN:
            self._free_s[stream] = time.monotonic() + grace_s
        self._changed.set()
