"""Brings the multicast state of one session or group on one switch to its target, one change at a
time. Changes that arrive during a write are combined in the next one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from tiercast_controller.base.errors import SwitchError, UnreachableError
from tiercast_controller.multicast.replication import ReadCounts, ReplicationGroups
from tiercast_controller.multicast.trees import MulticastState, SessionState, Tree
from tiercast_controller.p4runtime.entities import Update

log = logging.getLogger(__name__)

ATTEMPTS = 3


class Installer:
    """Serialises the writes of one (switch, session or group)."""

    def __init__(
        self,
        tree: Tree,
        groups: ReplicationGroups,
        write: Callable[[list[Update]], Awaitable[None]],
        read_back: Callable[[], Awaitable[MulticastState]],
        read_counts: ReadCounts,
        reachable: Callable[[], Awaitable[None]],
        on_failure: Callable[[SwitchError], None],
        target: SessionState,
    ):
        """`groups` are those of the switch, for all sessions. `reachable` returns when the switch
        can be written to; it is asked again after an UnreachableError. `on_failure` is called if
        the switch still refuses after ATTEMPTS."""
        self.tree = tree
        self.installed = MulticastState()  # this tree's part of what the switch holds
        # Held while the switch is written to, and by whoever else changes `installed`.
        self.turn = asyncio.Lock()
        self._target = target
        self._groups = groups
        self._write = write
        self._read_back = read_back
        self._read_counts = read_counts
        self._reachable = reachable
        self._on_failure = on_failure
        self._waiting: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None

    def set_target(self, target: SessionState) -> asyncio.Future[None]:
        """The future is done when the switch holds `target` or a later one. It fails with the
        SwitchError that prevented this."""
        self._target = target
        done = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return done

    def forget(self, groups: ReplicationGroups) -> None:
        """What the switch holds is not known, or nothing; `groups` are those that it has from now
        on. To be called with `turn` held."""
        self.installed = MulticastState()
        self._groups = groups

    def took_over(self, installed: MulticastState, target: SessionState) -> None:
        """Others have brought the switch to `target`. To be called with `turn` held."""
        self.installed, self._target = installed, target

    @property
    def is_behind(self) -> bool:
        """Whether the switch is known to do something else for this tree than it should."""
        return self.installed.forwarding() != self._target

    def again(self) -> asyncio.Future[None]:
        """Brings the switch to the target anew."""
        return self.set_target(self._target)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for done in self._waiting:
            done.cancel()

    async def _run(self) -> None:
        while self._waiting:
            await self._reachable()
            waiting, self._waiting = self._waiting, []
            failure: SwitchError | None = None
            try:
                async with self.turn:
                    await self._install(self._target)
            except UnreachableError:
                self._waiting = waiting + self._waiting
                continue
            except SwitchError as error:
                failure = error
            except asyncio.CancelledError:
                for done in waiting:
                    done.cancel()
                raise
            except Exception as error:  # else nobody would hear of it, and all would wait for ever
                name = f"the installer of {self.tree.key}"
                log.error("%s: %r", name, error, exc_info=error)
                failure = SwitchError(f"internal error in {name}: {error}")
            for done in waiting:
                if done.done():
                    continue
                if failure is None:
                    done.set_result(None)
                else:
                    done.set_exception(failure)
            if failure is not None:
                self._on_failure(failure)

    async def _install(self, target: SessionState) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            await self._groups.make_room(target, self._read_counts)
            desired, batches = self._groups.plan(self.installed, target)
            try:
                for batch in batches:
                    await self._write(batch)
                self._groups.written(self.tree.addresses, desired)
                self.installed = desired
                return
            except UnreachableError:
                raise
            except SwitchError as error:
                if attempt == ATTEMPTS:
                    raise
                log.warning("%s; reading the switch's state and trying again", error)
                # A batch may have been applied in part: only the switch knows what it holds.
                found = await self._read_back()
                self._groups.found(found.groups, desired)
                self.installed = self.tree.part_of(found)
