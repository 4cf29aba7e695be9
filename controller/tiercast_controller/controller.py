"""The controller of a run: builds multicast trees from IGMP reports and serves the agents.

Open this file first, then multicast/subscriptions.py, which a packet-in goes to, and switch.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from tiercast.v1 import lab_pb2, queue_pb2, trace_pb2

from tiercast_controller.agents.keys import RunKeys
from tiercast_controller.agents.lab import Agent, LabService
from tiercast_controller.agents.record_file import RecordFile
from tiercast_controller.agents.records import Batch, RecordSink
from tiercast_controller.base.errors import (
    ConfigurationError,
    ControllerError,
    SwitchError,
    UnreachableError,
)
from tiercast_controller.base.tls import Access, is_local
from tiercast_controller.multicast.membership import NEVER, GroupMember, LayerMember
from tiercast_controller.multicast.querier import Inquiries, Querier
from tiercast_controller.multicast.subscriptions import Subscriptions
from tiercast_controller.multicast.trees import (
    MulticastState,
    SessionState,
    TreeKey,
    group_sources,
)
from tiercast_controller.network.fates import fate_columns
from tiercast_controller.network.topology import AnySourceGroup, Session, Topology
from tiercast_controller.p4runtime.client import PacketIn
from tiercast_controller.p4runtime.entities import TableEntry
from tiercast_controller.p4runtime.program import Program
from tiercast_controller.p4runtime.roles import Roles
from tiercast_controller.p4runtime.standby import Standby
from tiercast_controller.programs import all_routes, roles_of
from tiercast_controller.readings import Readings
from tiercast_controller.switch import FOR_EVER, Desired, ManagedSwitch

log = logging.getLogger(__name__)

_DISPLACED_S = 10.0  # for which a controller that takes over waits for the lab's address


@dataclass(frozen=True)
class Event:
    """Something that the controller saw or did. The kinds and their fields:

    igmp           action ("join", "leave", "expire"), switch, port, group, session, rank (both -1
                   for a group of any source), reporter, install_us (report received -> every
                   switch holds the change), switches (how many were changed)
    igmp.rejected  switch, port, reason
    membership     session, top_rank (told to the sender)
    role           state: "standby" (another controller is the primary), "primary" (takeover_s: from
                   when no switch had a primary until every one holds what it should)
    switch         switch, state: "away" (reason: why), "back" (away_s; restarted: whether it had
                   lost its program, and with it everything; updates that were written), "mended"
                   (it held something else than it should; updates that were written)
    agent          name, session, state ("attached", "detached", "lost")
    records        name (of an agent), lost (records that it has given up: they were too many to
                   keep until they were acknowledged)
    failure        reason
    """

    time_ns: int  # CLOCK_MONOTONIC
    kind: str
    fields: dict[str, Any]


class Controller(Readings):
    def __init__(
        self,
        topology: Topology,
        sessions: Sequence[Session],
        programs: Program | Mapping[str, Program],
        *,
        groups: Sequence[AnySourceGroup] = (),
        lab_address: str | None = None,
        access: Access = Access(),  # noqa: B008 (frozen)
        on_records: RecordSink | None = None,
        records: Path | None = None,
        on_event: Callable[[Event], None] | None = None,
        querier: Querier | None = None,
        leave_latency_s: float = 0,
        epoch_ns: int | None = None,
        agents: Collection[str] | None = None,
        keys: bool | Path | None = None,
        patience_s: float = FOR_EVER,
        mend_s: float | None = None,
    ):
        """`programs` is that of all switches, or one for each by its name. `groups` are those of
        other programs on hosts. `lab_address` is where agents attach, "unix:/path" or, as `access`
        says, "host:port"; None runs no Lab service. Records of agents go to `on_records`, or to
        the file `records`, where a later controller continues them; without either they are
        ignored. `agents` holds the names of those that may attach; None allows any. With `keys`
        they seal their messages to each other
        (docs/security.md), with keys of the secret in that file if it names one; None: if
        `lab_address` is not a Unix socket. With `querier` None, hosts are asked only where reports
        were missed, and members expire only there. The tree is pruned
        `leave_latency_s` after a leave, unless the host joins again; with a `querier`, after its
        own leave latency. `epoch_ns` is the zero of the run's time, CLOCK_MONOTONIC; None means
        now. The run fails if a switch is away for longer than `patience_s`. With `mend_s` each
        switch is read back so often, and what differs is written. Needs a running event loop.
        Raises ConfigurationError."""
        topology.check(sessions, groups)
        if querier is not None and leave_latency_s:
            raise ConfigurationError(
                f"leave_latency_s is {leave_latency_s}, but a querier has its own "
                f"({querier.leave_latency_s:g} s: last_member_count times last_member_interval_s)"
            )
        self.topology = topology
        self.epoch_ns = time.monotonic_ns() if epoch_ns is None else epoch_ns
        # Fails with the first SwitchError that cannot be repaired, or if `on_event` does. From then
        # on the run is void.
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._querier = querier
        self._mend_s = mend_s
        self._inquiries = Inquiries(querier or Querier(), self._send)
        self._on_event = on_event or (lambda event: None)
        self._sessions = list(sessions)
        self._columns = fate_columns(topology, sessions)
        sources = group_sources(topology, sessions, groups)
        self._roles = roles_of(topology, programs, sources)
        self._routes = all_routes(self.topology, self._sessions, self._roles)
        static = {name: self._desired(name).entries for name in self._routes}
        _check_programs(self._roles, static, bool(sessions or groups))
        self._switches = {
            switch.name: ManagedSwitch(
                switch,
                self._roles[switch.name],
                partial(self._desired, switch.name),
                self._fail,
                partial(self._on_switch, switch.name),
                partial(self._on_found, switch.name),
                patience_s,
            )
            for switch in topology.switches
        }
        self._starts = set(self._switches)  # those that must answer at the start
        self._vacant_s: float | None = None  # of a standby: when it found no primary
        self._lab_address, self._access = lab_address, access
        self._records = None if records is None else RecordFile(records)
        self._lab = LabService(
            sessions,
            self.epoch_ns,
            on_records or (_ignore_records if self._records is None else self._records.take),
            self._on_agent,
            lambda session: self._subscriptions.announced(session),
            agents,
            keys=_run_keys(is_elsewhere(lab_address) if keys is None else keys),
            on_lost=lambda agent, lost: self._emit("records", name=agent, lost=lost),
        )
        self._subscriptions = Subscriptions(
            topology,
            sessions,
            groups,
            lifetime_s=querier.lifetime_s if querier else NEVER,
            leave_latency_s=querier.leave_latency_s if querier else leave_latency_s,
            set_target=self._set_target,
            held_or_away=self._held_or_away,
            emit=self._emit,
            tell=self._lab.tell_membership,
            ask_for=self._ask_for if querier and querier.specific_queries else None,
            spawn=self._spawn,
        )
        self._tasks: set[asyncio.Task[None]] = set()

    async def stand_by(self) -> None:
        """Waits until the switches have no primary: to be called before `start`, for which
        switches that do not answer are then away."""
        self._check_records()
        self._emit("role", state="standby")
        names = {m.client.stream: name for name, m in self._switches.items()}
        answering = await Standby(names).wait()
        self._vacant_s = time.monotonic()
        self._starts = {names[stream] for stream in answering}

    async def start(self, timeout_s: float = 15) -> None:
        """Returns when every switch has its program, routes, marking and aggregators, and the Lab
        service listens.

        Multicast state that an earlier controller left is taken over: its members stay until they
        leave, or do not answer the queries that are sent then. Raises SwitchError or
        ConfigurationError.
        """
        self._check_records()
        managed = self._switches.values()
        started = [self._switches[name] for name in self._switches if name in self._starts]
        # A standby has nobody behind it that would serve the switches that are left.
        must_answer = self._vacant_s is None
        states = await _all(m.start(timeout_s, must_answer) for m in started)
        found = {
            m.switch.name: state
            for m, state in zip(started, states, strict=True)
            if state is not None
        }
        self._subscriptions.take_over(found)
        await _all(
            m.set_up_trees(
                found.get(m.switch.name, MulticastState()), self._subscriptions.trees, must_answer
            )
            for m in managed
        )
        if self._vacant_s is not None:
            self._emit("role", state="primary", takeover_s=time.monotonic() - self._vacant_s)
        for m in managed:
            self._spawn(self._receive(m), f"packet-in of {m.switch.name}")
        if self._querier is not None:
            ports = list(self.topology.host_ports())
            self._spawn(self._inquiries.ask_for_ever(ports), "querier")
            self._spawn(self._expire_silent(self._querier.interval_s / 8), "expiry")
        for m in managed:
            if m.taken_over:
                self._reports_were_missed(m.switch.name, ask=self._querier is None)
        if self._mend_s is not None:
            self._spawn(self._mend(self._mend_s), "mending")
        if self._lab_address is not None:
            # The lab of the controller that we have displaced may be about to end.
            patience_s = _DISPLACED_S if any(m.taken_over for m in managed) else 0
            if self._records is not None:
                await self._records.open(patience_s)
                self._lab.resume(self._records.written)
            await self._lab.serve(self._lab_address, self._access, patience_s)

    async def wait_agents(self, names: Iterable[str], timeout_s: float = 15) -> None:
        """Waits until all these agents have attached. Raises AgentError with the names of those
        that have not."""
        await self._lab.wait_agents(names, timeout_s)

    def start_sessions(self, numbers: Iterable[int] | None = None) -> None:
        """Starts the present and future agents of these sessions (None: of all)."""
        self._lab.start_sessions(numbers)

    def start_agents(self, names: Iterable[str]) -> None:
        """Lets agents join their sessions; a receiver that has left is then a new member. Raises
        AgentError if one is not attached, or is a sender that has left."""
        self._lab.start_agents(names)

    def leave_agents(self, names: Iterable[str]) -> None:
        """Lets agents leave their sessions, or begin the run absent. They stay attached. Raises
        AgentError if one is not attached."""
        self._lab.leave_agents(names)

    def stop_agents(self, names: Iterable[str] | None = None) -> None:
        """Asks agents (None: all) to end. Raises AgentError if one is not attached."""
        self._lab.stop_agents(names)

    async def wait_agents_ended(self, timeout_s: float = 5) -> None:
        """Waits until no agent is attached, so that all last records are in. Raises AgentError with
        the names of the rest."""
        await self._lab.wait_detached(timeout_s)

    async def stop(self, timeout_s: float = 5, *, ends_agents: bool = True) -> None:
        """Ends the agents, then everything else. Without `ends_agents` they only lose this lab, so
        that those with patience attach to the one that comes. The switches keep their state. Raises
        AgentError if agents did not end in time; even then everything is closed."""
        try:
            if ends_agents:
                self._lab.stop_agents()
                await self._lab.wait_detached(timeout_s)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._lab.close()
            if self._records is not None:
                await self._records.close()
            await asyncio.gather(*(m.close() for m in self._switches.values()))
            if self.failed.done() and not self.failed.cancelled():
                self.failed.exception()  # marks the exception as retrieved
            self.failed.cancel()

    async def set_link(
        self,
        switch: str,
        port: int,
        *,
        rate_bps: int | None = None,
        queue_packets: int | None = None,
        queue_bytes: int | None = None,
        delay_ns: int | None = None,
        rx_delay_ns: int | None = None,
        wire: queue_pb2.Wire | None = None,
        rx_wire: queue_pb2.Wire | None = None,
    ) -> None:
        """Changes the given properties of a port; a rate or queue of 0 means unlimited. Raises
        UnsupportedError if the switch has no tiercast.v1."""
        self.topology.neighbour(switch, port)
        await self._managed(switch).set_link(
            lab_pb2.SetLinkRequest(
                port=port,
                rate_bps=rate_bps,
                queue_packets=queue_packets,
                queue_bytes=queue_bytes,
                delay_ns=delay_ns,
                rx_delay_ns=rx_delay_ns,
                wire=wire,
                rx_wire=rx_wire,
            )
        )
        up = wire.up if wire is not None and wire.HasField("up") else None
        if self.topology.change_link(switch, port, up, delay_ns):
            await self._move_paths()

    async def _move_paths(self) -> None:
        """Moves routes and trees to the paths that the topology has now."""
        before, self._routes = self._routes, all_routes(self.topology, self._sessions, self._roles)
        await _all(
            self._switches[name].change(before[name], entries)
            for name, entries in self._routes.items()
        )
        await self._subscriptions.reroute()

    def _set_target(self, switch: str, tree: TreeKey, state: SessionState) -> asyncio.Future[None]:
        return self._switches[switch].installer(tree).set_target(state)

    async def _held_or_away(self, switch: str, pending: asyncio.Future[None]) -> None:
        await self._switches[switch].settled(pending)

    def _desired(self, switch: str) -> Desired:
        return Desired(
            (*self._routes[switch], *self._columns[switch].entries()),
            self.topology.queues(switch),
            tuple(self.topology.host_ports_of(switch)),
            self.topology.checks.igmp,
        )

    def is_away(self, switch: str) -> bool:
        """Whether a switch does not answer, or is not yet what it should be again. Changes of links
        and trees are kept for it until it is; reads raise UnreachableError."""
        return self._managed(switch).is_away

    async def mend(self) -> None:
        """Reads back what the switches hold, and writes what differs from what they should."""
        await _all(m.mend() for m in self._switches.values())

    def policed(self, switch: str, port: int) -> int:
        """The reports of a port that were refused here, because they were too many or of too many
        reporters. Those that the switch refused are among its counts."""
        return self._subscriptions.policed(switch, port)

    async def set_trace(self, switch: str, ports: Iterable[trace_pb2.PortTrace]) -> None:
        """Traces packets at these ports from now on, and nowhere else. Raises UnsupportedError if
        the switch has no tiercast.v1."""
        await self._managed(switch).set_trace(ports)

    def hosts_not_heard(self) -> list[str]:
        """The hosts whose switch's program does not hand IGMP to the controller."""
        at = {host.name: self.topology.attachment(host.name)[0] for host in self.topology.hosts}
        return [name for name, switch in at.items() if not self._roles[switch].has("packet_in")]

    def take_igmp(self, host: str, time_ns: int, frame: bytes) -> None:
        """A frame that one of these hosts has sent, CLOCK_MONOTONIC."""
        switch, port = self.topology.attachment(host)
        self._subscriptions.on_packet(switch, PacketIn(time_ns, port, frame))

    def members(self) -> list[LayerMember]:
        """The members of the sessions' groups by place, as reported."""
        return self._subscriptions.members()

    def group_members(self) -> list[GroupMember]:
        """The members of the groups of any source by place, as reported."""
        return self._subscriptions.group_members()

    def installed(self, switch: str, session: int) -> MulticastState:
        """What a switch has acknowledged for a session."""
        return self._managed(switch).installer(session).installed

    async def read_multicast(self, switch: str) -> MulticastState:
        """What a switch reports to hold, for all sessions."""
        return await self._managed(switch).read_multicast()

    # ------------------------------------------------------------------ helpers

    def _check_records(self) -> None:
        """Before anything is taken from a controller that serves."""
        if self._records is not None:
            self._records.check()

    async def _receive(self, managed: ManagedSwitch) -> None:
        while True:
            packet = await managed.client.packet_in.get()
            self._subscriptions.on_packet(managed.switch.name, packet)

    def _on_switch(self, switch: str, state: str, **fields: Any) -> None:
        self._emit("switch", switch=switch, state=state, **fields)
        if state == "back":
            self._reports_were_missed(switch, ask=True)

    def _on_found(self, switch: str, state: MulticastState) -> None:
        self._subscriptions.adopt(switch, state)

    def _reports_were_missed(self, switch: str, ask: bool) -> None:
        """Asks the hosts at a switch, and forgets those that do not answer, as far as its program
        lets us ask and hear."""
        ports = [(switch, port) for port in self.topology.host_ports_of(switch)]
        if not ports or not all(map(self._roles[switch].has, ("packet_in", "packet_out"))):
            return
        known_s = time.monotonic() + self._inquiries.querier.known_after_s
        self._subscriptions.doubt(switch, known_s)
        if ask:
            self._spawn(self._inquiries.ask_anew(ports), f"queries at {switch}")

    def _ask_for(
        self,
        port: tuple[str, int],
        group: IPv4Address,
        sources: Sequence[IPv4Address],
        ends_s: Callable[[], float],
    ) -> None:
        work = self._inquiries.ask_for(port, group, sources, ends_s)
        if work is not None:
            self._spawn(work, f"queries for {group} at {port}")

    async def _send(self, switch: str, port: int, frame: bytes) -> None:
        managed = self._managed(switch)
        if managed.is_away:
            return  # hosts are asked when it is back
        with contextlib.suppress(UnreachableError):
            await managed.client.packet_out(port, frame)

    async def _expire_silent(self, period_s: float) -> None:
        """Looks for expired members more often than queries are sent, so that a membership ends a
        fraction of an interval late at most."""
        while True:
            self._subscriptions.expire(time.monotonic())
            await asyncio.sleep(period_s)

    async def _mend(self, period_s: float) -> None:
        while True:
            await asyncio.sleep(period_s)
            await self.mend()

    def _on_agent(self, state: str, agent: Agent) -> None:
        self._emit("agent", name=agent.name, session=agent.session, state=state)

    def _fail(self, reason: ControllerError) -> None:
        log.error("%s", reason)
        if not self.failed.done():
            self.failed.set_exception(reason)
        self._emit("failure", reason=str(reason))

    def _emit(self, kind: str, time_ns: int | None = None, **fields: Any) -> None:
        event = Event(time.monotonic_ns() if time_ns is None else time_ns, kind, fields)
        try:
            self._on_event(event)
        except Exception as error:  # of whoever hears the events, to whom no more can be said
            log.error("event %s was not heard: %r", kind, error)
            if not self.failed.done():
                self.failed.set_exception(ControllerError(f"event {kind} was not heard: {error!r}"))

    def _spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or task.exception() is None:
            return
        error = task.exception()
        if isinstance(error, ControllerError):
            self._fail(error)
        else:
            # A bug in tiercast: the run must not look healthy.
            log.error("%s: %r", task.get_name(), error, exc_info=error)
            self._fail(SwitchError(f"internal error in {task.get_name()}: {error!r}"))


def is_elsewhere(lab_address: str | None) -> bool:
    """Whether agents may attach from other machines, so that their messages cross a network that
    is not ours."""
    return lab_address is not None and not is_local(lab_address)


def _run_keys(keys: bool | Path) -> RunKeys | None:
    if isinstance(keys, Path):
        return RunKeys.kept_in(keys)
    return RunKeys() if keys else None


def _check_programs(
    roles: Mapping[str, Roles], static: Mapping[str, Iterable[TableEntry]], replicates: bool
) -> None:
    """Checks that the programs have every table, action and parameter that will be written."""
    for name, entries in static.items():
        for item in roles[name].entries(entries):
            roles[name].program.encode_entry(item)
    for name, one in roles.items():
        if replicates and not one.has("multicast"):
            raise ConfigurationError(
                f"switch {name}: {one.program.name} has no multicast; it has: "
                f"{one.program.manifest.describe()}"
            )


async def _all(work: Iterable[Awaitable[Any]]) -> list[Any]:
    """The results in order. Raises the first error, after all work has ended."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


async def _ignore_records(batch: Batch, written: Callable[[], None]) -> None:
    written()
