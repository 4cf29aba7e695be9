"""Writes to one switch that go out together.

Each session's state changes by itself, but a switch takes a hundred updates in one call nearly as
fast as one. What is to be written while a write is under way goes out in the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from tiercast_controller.base.errors import SwitchError
from tiercast_controller.p4runtime.client import WriteError
from tiercast_controller.p4runtime.entities import Update

MOST = 500  # updates in a write: well under gRPC's 4 MiB


class CombinedWrites:
    def __init__(self, switch: str, write: Callable[[Sequence[Update]], Awaitable[None]]):
        """`write` is P4RuntimeClient.write of the switch."""
        self._switch = switch
        self._write = write
        self._waiting: list[tuple[Sequence[Update], asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    async def write(self, updates: Sequence[Update]) -> None:
        """Writes a batch, in any order and together with those of others, whose entities must be
        different ones. Raises WriteError with those of `updates` that failed, or SwitchError."""
        if not updates:
            return
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((updates, done))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name=f"writes to {self._switch}")
        await done

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for _, done in self._waiting:
            done.cancel()

    async def _run(self) -> None:
        while self._waiting:
            batches = self._take()
            try:
                await self._write([one for updates, _ in batches for one in updates])
            except WriteError as error:
                self._tell_apart(error, batches)
            except SwitchError as error:
                for _, done in batches:
                    if not done.done():
                        done.set_exception(error)
            except asyncio.CancelledError:
                for _, done in batches:
                    done.cancel()
                raise
            else:
                for _, done in batches:
                    if not done.done():
                        done.set_result(None)

    def _take(self) -> list[tuple[Sequence[Update], asyncio.Future[None]]]:
        """The first batches that wait, as many as fit into a write, and at least one."""
        count = size = 0
        for updates, _ in self._waiting:
            if count and size + len(updates) > MOST:
                break
            count += 1
            size += len(updates)
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return taken

    def _tell_apart(
        self, error: WriteError, batches: Sequence[tuple[Sequence[Update], asyncio.Future[None]]]
    ) -> None:
        """Fails the batches that have failed updates, each with its own."""
        failed = {id(one.update): one for one in error.failed}
        for updates, done in batches:
            if done.done():
                continue
            if own := [failed[id(update)] for update in updates if id(update) in failed]:
                done.set_exception(WriteError(self._switch, own, len(updates)))
            else:
                done.set_result(None)
