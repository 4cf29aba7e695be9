"""One switch of the run: its client, what it should hold, and what was written to it.

What it should hold is data: `Desired`, and the trees' targets (multicast/installer.py). It is read
back and compared, and the difference is written: at the start, whenever the switch returns, and
when `mend` is called.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from tiercast.v1 import lab_pb2, queue_pb2, trace_pb2

from tiercast_controller.base.errors import (
    NotPrimaryError,
    SwitchError,
    UnreachableError,
    UnsupportedError,
)
from tiercast_controller.multicast.installer import ATTEMPTS, Installer
from tiercast_controller.multicast.policer import REPORTS_AT_ONCE, REPORTS_PER_S
from tiercast_controller.multicast.replication import ReplicationGroups
from tiercast_controller.multicast.trees import (
    MulticastState,
    SessionState,
    Tree,
    TreeKey,
    from_entities,
    plan,
)
from tiercast_controller.network.aggregation import SUMMARY_CLONES
from tiercast_controller.network.fates import Entered, entered_group_cell, entered_port_cell
from tiercast_controller.network.marking import PortQueue
from tiercast_controller.network.topology import Switch
from tiercast_controller.p4runtime.client import (
    P4RuntimeClient,
    WriteError,
    one_for_each_port,
    ports_of,
)
from tiercast_controller.p4runtime.entities import MeterCell, TableEntry, Update
from tiercast_controller.p4runtime.roles import Roles
from tiercast_controller.p4runtime.static_state import (
    StaticState,
    read_cells,
    read_clones,
    updates_to,
    write_unread_clones,
)
from tiercast_controller.p4runtime.stream import LONGEST_PAUSE_S

log = logging.getLogger(__name__)

STATIC_TABLES = (
    "source_guard",
    "ipv4_host",
    "ipv4_lpm",
    "next_hop",
    "ipv4_spread",
    "port_marking",
    "queue_class",
    "group_columns",
    "aggregator",
)
LED_TO = ("next_hop",)  # to whose entries those of other tables lead
MULTICAST_TABLES = ("ipv4_multicast", "top_group")
FOR_EVER = float("inf")
_BATCH = 500  # updates per write of static entries: well under gRPC's 4 MiB
# Of an attempt to reach a switch that is away; the channel itself retries twice a second.
_ATTEMPT_S = 5.0
_FIRST_PAUSE_S = 0.05  # between attempts


@dataclass(frozen=True)
class Desired:
    """What a switch should hold whoever its members are."""

    entries: tuple[TableEntry, ...]  # the controller's own
    queues: Mapping[int, PortQueue]  # by port
    hosts: tuple[int, ...]  # the ports whose IGMP is limited
    polices: bool


class OnChange(Protocol):
    def __call__(self, state: str, **fields: Any) -> None:
        """The switch is now "away", "back" or "mended" (Event's kind `switch`)."""


class ManagedSwitch:
    """Usage: start, set_up_trees, then anything, and close at the end. A switch whose stream ends
    is away until it has answered again and holds what it should; changes wait for that."""

    def __init__(
        self,
        switch: Switch,
        roles: Roles,
        desired: Callable[[], Desired],
        on_failure: Callable[[SwitchError], None],
        on_change: OnChange,
        on_found: Callable[[MulticastState], None],
        patience_s: float = FOR_EVER,
    ):
        """`on_failure` gets the reason if the switch is away for longer than `patience_s`, has
        another primary, or keeps refusing. `on_found` gets what an earlier controller left on a
        switch that was away at the start; the trees then lead to its members."""
        self.switch = switch
        self.roles = roles
        self.client = P4RuntimeClient(
            switch.name, switch.device_id, switch.address, roles.program, switch.role, switch.tls
        )
        # Whether an earlier controller had loaded the program.
        self.taken_over = False
        self._desired = desired
        self._on_failure = on_failure
        self._on_change = on_change
        self._on_found = on_found
        self._patience_s = patience_s
        self._groups = ReplicationGroups()
        # Whether what an earlier controller left has been seen.
        self._seen = False
        # Whether this controller made every group that has counted since the program was loaded.
        self._made_all_groups = False
        # Whether the switch has lost its program, and all else with it, since it was last back.
        self._restarted = False
        self._installers: dict[TreeKey, Installer] = {}
        self._static_turn = asyncio.Lock()  # held while what `_desired` says is written
        self._reachable = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._links: dict[int, lab_pb2.SetLinkRequest] = {}  # all that was set, by port
        self._traced: list[trace_pb2.PortTrace] = []

    @property
    def is_away(self) -> bool:
        return not self._reachable.is_set()

    async def start(self, timeout_s: float, must_answer: bool = True) -> MulticastState | None:
        """Connects, and brings program, static entries and the ports' queues to what is desired.
        Returns the multicast state that an earlier controller left. None: without `must_answer`, a
        switch that does not answer is away."""
        try:
            await self.client.connect(timeout_s)
            self._made_all_groups = await self.client.set_pipeline()
            self.taken_over = not self._made_all_groups
            async with self._static_turn:
                await self._set_static()
            await self._set_queues(self._desired().queues)
            found = await self.read_multicast()
        except SwitchError as error:
            if must_answer or not self._is_gone(error):
                raise
            log.warning("%s", error)
            return None
        self._reachable.set()
        self._seen = True
        return found

    async def set_up_trees(
        self, found: MulticastState, trees: Iterable[Tree], must_answer: bool = True
    ) -> None:
        """Changes the state that was found to what the trees need, and removes everything else.
        From now on the switch is kept. One that was not started is away, and without `must_answer`
        one that does not answer any more."""
        for tree in trees:
            self._installers[tree.key] = Installer(
                tree,
                self._groups,
                self.write,
                self._read_back,
                self._read_counts,
                self._is_reachable,
                self._on_failure,
                tree.state(self.switch.name),
            )
        if not self.is_away:
            try:
                with self._away_if_unreachable():
                    await self._take_over(found)
            except SwitchError as error:
                if must_answer or not self._is_gone(error):
                    raise
                self._reachable.clear()
                self._seen = False  # it is read again when it returns
        self._keeper = asyncio.create_task(self._keep(), name=f"keeper of {self.switch.name}")

    def installer(self, key: TreeKey) -> Installer:
        return self._installers[key]

    async def settled(self, pending: asyncio.Future[None]) -> None:
        """Returns when a change has been done, or when the switch is away, which gets it later.
        Raises what the change does."""
        either: set[asyncio.Future[None]] = {pending, self.client.lost}
        if not self.is_away:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if pending.done():
            pending.result()

    async def write(self, updates: Iterable[Update]) -> None:
        """Writes the controller's updates in one batch. Raises UnreachableError while the switch is
        away."""
        if self.is_away:
            raise UnreachableError(f"{self.switch.name} is away")
        with self._away_if_unreachable():
            await self.client.write(self.roles.updates(updates))

    async def change(self, before: Iterable[TableEntry], after: Iterable[TableEntry]) -> None:
        """Writes what has changed in the entries that are desired. A switch that is away gets it
        when it returns."""
        old, new = dict.fromkeys(before), dict.fromkeys(after)
        gone = self._made(item for item in old if item not in new)
        come = self._made(item for item in new if item not in old)
        async with self._static_turn:
            if self.is_away:
                return
            with contextlib.suppress(UnreachableError), self._away_if_unreachable():
                try:
                    await self._write_static(gone, come)
                except WriteError as error:
                    log.warning("%s; reading the switch's state and trying again", error)
                    await self._set_static()

    async def mend(self) -> None:
        """Reads back what the switch holds, and writes what differs from what it should. A switch
        that is away is left to itself. Raises SwitchError if it still refuses after ATTEMPTS."""
        if self.is_away:
            return
        with contextlib.suppress(UnreachableError):
            async with self._all_turns():
                with self._away_if_unreachable():
                    updates = await _insist(self._mend)
            await self._catch_up()
            if updates:
                self._on_change("mended", updates=updates)

    async def set_link(self, request: lab_pb2.SetLinkRequest) -> None:
        """As P4RuntimeClient.set_link; a switch that is away gets it when it returns."""
        before = self._links.get(request.port, lab_pb2.SetLinkRequest(port=request.port))
        wanted = lab_pb2.SetLinkRequest()
        wanted.CopyFrom(before)
        wanted.MergeFrom(request)
        self._links[request.port] = wanted  # first, since the switch may be away from now on
        if self.is_away:
            return
        try:
            with self._away_if_unreachable():
                await self.client.set_link(request)
        except UnreachableError:
            pass
        except SwitchError:
            if self._links[request.port] is wanted:
                self._links[request.port] = before
            raise

    async def set_trace(self, ports: Iterable[trace_pb2.PortTrace]) -> None:
        """As P4RuntimeClient.set_trace; a switch that is away gets it when it returns."""
        self._traced = list(ports)
        if not self.is_away:
            await self.client.set_trace(self._traced)

    async def read_multicast(self) -> MulticastState:
        found = await self.client.read_entries(self.roles.tables(MULTICAST_TABLES))
        entries = self.roles.own(MULTICAST_TABLES, found)
        groups = await self.client.read_replicas()
        state = from_entities(entries, ports_of(groups))
        state.other_replicas = {n for n, its in groups.items() if not one_for_each_port(its)}
        return state

    async def read_entered(self, ports: Iterable[int]) -> Entered | None:
        """What has entered the ports' queues. None if groups of an earlier controller have counted
        too, since nobody knows their ports, or if the switch restarts meanwhile."""
        groups = self._groups
        if not self._made_all_groups:
            return None
        alone = {entered_port_cell(port): port for port in ports}
        numbers = {entered_group_cell(number): number for number in groups}
        packets = await self.client.read_cells([*alone, *numbers])
        if groups is not self._groups:
            return None
        groups.count({number: packets[cell] for cell, number in numbers.items()})
        return Entered({port: packets[cell] for cell, port in alone.items()}, groups.entered)

    async def close(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        for installer in self._installers.values():
            await installer.close()
        await self.client.close()

    # -------------------------------------------------------------------- away, and back again

    async def _keep(self) -> None:
        """Waits until the switch is lost, brings it back, and so on."""
        try:
            while True:
                reason: BaseException | None = UnreachableError("it did not answer at the start")
                if not self.is_away:
                    await asyncio.wait({self.client.lost})
                    reason = self.client.lost.exception()
                assert isinstance(reason, SwitchError)  # the client only sets this type
                self._reachable.clear()
                if isinstance(reason, NotPrimaryError):
                    raise reason
                self._on_change("away", reason=str(reason))
                await self._return(time.monotonic())
        except SwitchError as error:
            self._on_failure(error)
        except Exception as error:  # a bug in tiercast: the run must not look healthy
            name = f"the keeper of {self.switch.name}"
            log.error("%s: %r", name, error, exc_info=error)
            self._on_failure(SwitchError(f"internal error in {name}: {error!r}"))

    async def _return(self, since_s: float) -> None:
        """Returns when the switch is back. Raises SwitchError if that took too long, or if it has
        another primary."""
        pause_s = _FIRST_PAUSE_S
        while True:
            before = self.client.written
            try:
                left_s = self._patience_s - (time.monotonic() - since_s)
                await self.client.connect(max(0.0, min(_ATTEMPT_S, left_s)))
                await self._restore()
            except NotPrimaryError:
                raise
            except SwitchError as error:
                self._reachable.clear()
                away_s = time.monotonic() - since_s
                if away_s > self._patience_s:
                    raise SwitchError(
                        f"{self.switch.name} was away for {away_s:.1f} s, longer than "
                        f"{self._patience_s:g} s: {error}"
                    ) from None
                log.info("%s; trying again in %.2g s", error, pause_s)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                continue
            self._on_change(
                "back",
                away_s=time.monotonic() - since_s,
                restarted=self._restarted,
                updates=self.client.written - before,
            )
            self._restarted = False
            return

    async def _restore(self) -> None:
        """Brings a switch that has answered again to what it should hold. It may be lost at any
        step, and the next attempt then goes on from there."""
        async with self._all_turns():
            runs = await self.client.runs_program()
            if not (runs and self._seen):
                self._groups, self._made_all_groups = ReplicationGroups(), not runs
                for installer in self._installers.values():
                    installer.forget(self._groups)
            if not runs:
                self._restarted = True  # first, since it may load the program and not say so
                await self.client.set_pipeline()
            if not self._seen:
                found = await self.read_multicast()
                self._on_found(found)
                await self._take_over(found)
                self._seen = True
            await self._mend()
            await self._set_queues(self._desired().queues)
            await self._restore_links_and_trace()
            self._reachable.set()
        await self._catch_up()

    async def _catch_up(self) -> None:
        """Returns when the switch holds what the trees should be, not just what it has acknowledged
        of them. Raises SwitchError if it is lost before."""
        trees = [one.again() for one in self._installers.values() if one.is_behind]
        done = asyncio.gather(*trees, return_exceptions=True)
        either: set[asyncio.Future[Any]] = {done, self.client.lost}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            self.client.lost.result()

    async def _restore_links_and_trace(self) -> None:
        """What is set meanwhile is sent as well: until the switch counts as reachable, nobody else
        sends it."""
        links: dict[int, lab_pb2.SetLinkRequest] = {}
        traced: list[trace_pb2.PortTrace] = []
        while links != self._links or traced != self._traced:
            for port, request in list(self._links.items()):
                if links.get(port) != request:
                    links[port] = request
                    await self.client.set_link(request)
            if traced != self._traced:
                traced = self._traced
                await self.client.set_trace(traced)

    async def _take_over(self, found: MulticastState) -> None:
        """Changes what an earlier controller left to what the trees need, and removes everything
        else. To be called before anything else is written for them."""
        targets = {
            installer: installer.tree.state(self.switch.name)
            for installer in self._installers.values()
        }
        wanted = SessionState()
        for target in targets.values():
            wanted.merge(target)
        self._groups.take_over(found, wanted)
        desired, batches = self._groups.plan(found, wanted)
        for batch in batches:
            await self.client.write(self.roles.updates(batch))
        self._groups.written((), desired)
        for installer, target in targets.items():
            installer.took_over(installer.tree.part_of(desired), target)

    def _is_gone(self, error: SwitchError) -> bool:
        """Whether an error is that of a switch that has died, and may have returned since."""
        lost = self.client.lost
        reason = lost.exception() if lost.done() and not lost.cancelled() else None
        return isinstance(error, UnreachableError) or isinstance(reason, UnreachableError)

    async def _is_reachable(self) -> None:
        await self._reachable.wait()

    @contextlib.contextmanager
    def _away_if_unreachable(self) -> Iterator[None]:
        """A switch that did not answer may be in a state that nobody knows, so it has to return
        first, even if its stream is still there."""
        try:
            yield
        except UnreachableError as error:
            self._reachable.clear()
            self.client.stream.give_up(error)
            raise

    @contextlib.asynccontextmanager
    async def _all_turns(self) -> AsyncIterator[None]:
        """Nobody else writes meanwhile."""
        async with contextlib.AsyncExitStack() as turns:
            await turns.enter_async_context(self._static_turn)
            for installer in self._installers.values():
                await turns.enter_async_context(installer.turn)
            yield

    # ---------------------------------------------------------------- what it should hold, and does

    async def _mend(self) -> int:
        """Reads, compares and writes everything but the ports' queues. Returns the number of
        updates."""
        updates = await self._set_static()
        found, wanted = await self.read_multicast(), self._installed()
        if found.groups.items() - wanted.groups.items() or found.other_replicas:
            self._made_all_groups = False  # others have counted
        for batch in plan(found, wanted):
            translated = self.roles.updates(batch)
            await self.client.write(translated)
            updates += len(translated)
        return updates

    def _installed(self) -> MulticastState:
        """What the switch has acknowledged for all trees, as it would say it."""
        state = MulticastState()
        for installer in self._installers.values():
            state.routes |= installer.installed.routes
            state.tops |= installer.installed.tops
            state.upstream |= installer.installed.upstream
        entries = self.roles.own(MULTICAST_TABLES, self.roles.entries(state.entries()))
        return from_entities(entries, self._groups.held)

    async def _set_static(self) -> int:
        """To be called with `_static_turn` held. Returns the number of updates."""
        wanted = self._wanted()
        held = await self._read_static(wanted)
        assert wanted.clones is not None
        if held.clones is None:
            await write_unread_clones(self.client, wanted.clones)
        return await self._write_static(held, wanted)

    async def _write_static(self, held: StaticState, wanted: StaticState) -> int:
        updates = 0
        for batch in updates_to(held, wanted, self.roles.tables(LED_TO)):
            for at in range(0, len(batch), _BATCH):
                await self.client.write(batch[at : at + _BATCH])
            updates += len(batch)
        return updates

    def _made(self, entries: Iterable[TableEntry]) -> StaticState:
        """What the program needs for some of the controller's entries."""
        own = list(entries)
        cells = {(cell.register, cell.index): cell for cell in self.roles.cells(own)}
        return StaticState(tuple(self.roles.entries(own)), cells=cells)

    def _wanted(self) -> StaticState:
        desired, roles = self._desired(), self.roles
        made = self._made(desired.entries)
        aggregates = any(item.table == "aggregator" for item in desired.entries)
        meter, rate = roles.igmp_meter, REPORTS_PER_S if desired.polices else 0
        return StaticState(
            (*made.entries, *roles.fixed),
            SUMMARY_CLONES if aggregates else {},
            {
                (meter, port): MeterCell(meter, port, rate, REPORTS_AT_ONCE)
                for port in desired.hosts
                if meter is not None
            },
            made.cells,
        )

    async def _read_static(self, wanted: StaticState) -> StaticState:
        """What the switch holds of that, and what it should not hold."""
        assert wanted.cells is not None
        roles, kept = self.roles, {item.key for item in wanted.entries}
        tables = dict.fromkeys(
            (
                *roles.tables((*STATIC_TABLES, *MULTICAST_TABLES)),
                *(one.table for one in roles.fixed),
            )
        )
        found = await self.client.read_entries(tables)
        belong = [
            item
            for item in found
            if item.key in kept or roles.is_of(STATIC_TABLES, item) or roles.is_foreign(item)
        ]
        meters: list[MeterCell] = []
        if roles.igmp_meter is not None:
            ports = [index for _, index in wanted.meters]
            meters = await self.client.read_meter(roles.igmp_meter, ports)
        return StaticState(
            tuple(belong),
            await read_clones(self.client, SUMMARY_CLONES),
            {(cell.meter, cell.index): cell for cell in meters},
            await read_cells(self.client, wanted.cells),
        )

    async def _set_queues(self, wanted: Mapping[int, PortQueue]) -> None:
        """RED on arrival and queues by priority where they are wanted, and nowhere else."""
        try:
            ports = (await self.client.get_ports()).ports
        except UnsupportedError:
            if not wanted:
                return
            raise self._unsupported(wanted) from None
        one_queue = queue_pb2.PriorityQueues(queues=1)
        has = {port.port: port for port in ports}
        for number in sorted(has.keys() | wanted.keys()):
            wants = wanted.get(number, PortQueue())
            red, priority = queue_pb2.Red(), one_queue
            if wants.red is not None:
                red = queue_pb2.Red(**asdict(wants.red))
            if wants.priority is not None:
                priority = queue_pb2.PriorityQueues(**asdict(wants.priority))
            port = has.get(number, lab_pb2.PortStats())
            queues = port.priority_queues if port.HasField("priority_queues") else one_queue
            request = lab_pb2.SetLinkRequest(port=number)
            if port.red != red:
                request.red.CopyFrom(red)
            if queues != priority:
                request.priority_queues.CopyFrom(priority)
            if request.HasField("red") or request.HasField("priority_queues"):
                await self.client.set_link(request)

    def _unsupported(self, wanted: Mapping[int, PortQueue]) -> UnsupportedError:
        two = sorted(port for port, queue in wanted.items() if queue.priority is not None)
        listed = ", ".join(map(str, two or sorted(wanted)))
        what, valid = "RED with `where: arrival`", "where: departure"
        if two:
            what, valid = "two queues by priority", "a marking of one queue, such as pi2"
        return UnsupportedError(
            f"{self.switch.name}: {what} at port {listed}, but the switch has no tiercast.v1; "
            f"valid: {valid}, or tiercast-switch"
        )

    async def _read_back(self) -> MulticastState:
        with self._away_if_unreachable():
            return await self.read_multicast()

    async def _read_counts(self, numbers: Iterable[int]) -> Mapping[int, int]:
        if not self.roles.has_accounts:
            return dict.fromkeys(numbers, 0)
        cells = {entered_group_cell(number): number for number in numbers}
        with self._away_if_unreachable():
            packets = await self.client.read_cells(cells)
        return {number: packets[cell] for cell, number in cells.items()}


async def _insist(work: Callable[[], Awaitable[int]]) -> int:
    """The result of work that reads what a switch holds and writes what differs. It is done again
    while the switch refuses, ATTEMPTS times in all."""
    for _ in range(ATTEMPTS - 1):
        try:
            return await work()
        except (UnreachableError, NotPrimaryError):
            raise
        except SwitchError as error:
            log.warning("%s; reading the switch's state and trying again", error)
    return await work()
