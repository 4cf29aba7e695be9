"""Who receives what: members from IGMP reports, the trees that lead to them, and what changes.

A packet passes through: parser (igmp), membership, trees. Then the switches whose state changes get
their new one, there is an event, and the session's sender is told. This module has no sockets; it
acts through the functions that it is given.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from ipaddress import IPv4Address
from typing import Protocol

from tiercast_controller.base.errors import SwitchError
from tiercast_controller.multicast.igmp import (
    GroupRecord,
    IgmpError,
    Message,
    RecordType,
    parse_frame,
)
from tiercast_controller.multicast.membership import (
    UNKNOWN_REPORTER,
    GroupMember,
    LayerMember,
    Membership,
    Place,
)
from tiercast_controller.multicast.policer import Policer
from tiercast_controller.multicast.shared_tree import SharedTree
from tiercast_controller.multicast.trees import (
    MulticastState,
    SessionState,
    SessionTrees,
    Tree,
    TreeKey,
)
from tiercast_controller.network.topology import (
    AnySourceGroup,
    Session,
    Topology,
    session_and_rank,
)
from tiercast_controller.p4runtime.client import PacketIn

# Asks at a port whether anyone else wants a group from these sources (none: from any). The function
# says when the place expires, CLOCK_MONOTONIC.
AskFor = Callable[[tuple[str, int], IPv4Address, Sequence[IPv4Address], Callable[[], float]], None]
# Brings a switch's part of a tree to a state; done when the switch holds that state or a later one.
SetTarget = Callable[[str, TreeKey, SessionState], asyncio.Future[None]]

# Waits for such a future, but no longer than until the switch is away. Raises what the future does.
HeldOrAway = Callable[[str, asyncio.Future[None]], Awaitable[None]]


class Emit(Protocol):
    def __call__(self, kind: str, time_ns: int | None = None, **fields: object) -> None:
        """An event of the controller. `time_ns` None means now."""


class Subscriptions:
    """Usage: take_over, then on_packet, expire and reroute in any order."""

    def __init__(
        self,
        topology: Topology,
        sessions: Sequence[Session],
        groups: Sequence[AnySourceGroup],
        *,
        lifetime_s: float,
        leave_latency_s: float,
        set_target: SetTarget,
        held_or_away: HeldOrAway,
        emit: Emit,
        tell: Callable[[int, int], None],
        ask_for: AskFor | None,
        spawn: Callable[[Coroutine[None, None, None], str], None],
    ):
        """`lifetime_s` and `leave_latency_s` are as in Membership. `tell` gets a session and its
        top rank when every switch holds the change. `ask_for` is called when a reporter has left a
        group and is gone after the leave latency unless it is confirmed; None: nobody is asked.
        `spawn` runs work beside, under a name."""
        self._topology = topology
        self._away: set[str] = set()  # switches whose members are not known
        self._trees = {session.number: SessionTrees(topology, session) for session in sessions}
        self._shared = {group.address: SharedTree(topology, group) for group in groups}
        # While a shared tree moves, changes of its members wait, and it waits for theirs.
        self._moving = {group.address: asyncio.Lock() for group in groups}
        self._leave_latency_s = leave_latency_s
        self._membership: Membership[LayerMember] = Membership(lifetime_s, leave_latency_s)
        self._group_membership: Membership[GroupMember] = Membership(lifetime_s, leave_latency_s)
        self._policer = Policer(topology.checks.igmp, self._reporters_at)
        self._set_target = set_target
        self._held_or_away = held_or_away
        self._emit = emit
        self._tell_sender = tell
        self._ask_for = ask_for
        self._spawn = spawn
        self._ends: set[float] = set()  # of leaves' latencies, CLOCK_MONOTONIC
        # By session: the top rank that its sender knows.
        self._announced = dict.fromkeys(self._trees, -1)
        # By session: the ranks of which some member's path has been ready.
        self._ready: dict[int, set[int]] = {number: set() for number in self._trees}

    @property
    def trees(self) -> list[Tree]:
        return [*self._trees.values(), *self._shared.values()]

    def announced(self, session: int) -> int:
        """The top rank that the session's sender knows; -1: it has no member."""
        return self._announced[session]

    def members(self) -> list[LayerMember]:
        """The members of the sessions' groups by place, as reported."""
        return list(self._membership.members())

    def group_members(self) -> list[GroupMember]:
        """The members of the groups of any source by place, as reported."""
        return list(self._group_membership.members())

    def take_over(self, found: Mapping[str, MulticastState]) -> None:
        """The members that an earlier controller served, from what the switches hold; others are
        away. To be called before anything else; nothing is installed."""
        self._away = {switch.name for switch in self._topology.switches} - found.keys()
        for switch, state in found.items():
            self._join_all(switch, state)
        for number, tree in self._trees.items():
            self._ready[number] = tree.ranks()
            self._announced[number] = tree.top_rank()

    def adopt(self, switch: str, state: MulticastState) -> None:
        """The same of a switch that was away: the others are brought to lead to it."""
        self._away.discard(switch)
        for key, changed in self._join_all(switch, state).items():
            name = f"what {switch} had of {key}"
            if isinstance(key, IPv4Address):
                self._lead_shared(self._shared[key], changed, _nothing, name)
            else:
                tree = self._trees[key]
                ranks = {r for r in tree.ranks() if tree.session.group(r) in state.routes}
                self._lead(tree, changed, ranks, _nothing, name)

    def _join_all(self, switch: str, state: MulticastState) -> dict[TreeKey, set[str]]:
        """Members behind a switch, and that there may be some behind others that are away. Returns
        the switches whose state changes, by tree."""
        now_s = time.monotonic()
        changed: dict[TreeKey, set[str]] = defaultdict(set)
        for address, mgid in state.routes.items():
            # The earlier controller may have known links that are gone.
            ports = state.groups.get(mgid, frozenset()) & set(self._topology.ports(switch))
            at_hosts = [port for port in ports if self._topology.is_host_port(switch, port)]
            towards = {self._topology.neighbour(switch, port) for port in ports} & self._away
            if shared := self._shared.get(address):
                for port in at_hosts:
                    place = GroupMember(address, switch, port)
                    self._group_membership.join(place, UNKNOWN_REPORTER, now_s)
                    changed[shared.key] |= shared.join(switch, port)
                for name in towards:
                    changed[shared.key] |= shared.lead_to(name)
            elif named := self._layer(address):
                session, rank = named
                tree = self._trees[session]
                for port in at_hosts:
                    member = LayerMember(session, rank, switch, port)
                    self._membership.join(member, UNKNOWN_REPORTER, now_s)
                    changed[session] |= tree.join(rank, switch, port)
                for name in towards:
                    if tree.is_child(name, switch):
                        changed[session] |= tree.lead_to(rank, name)
        for number, tree in self._trees.items():
            changed[number] |= tree.prune(switch)
        for shared in self._shared.values():
            changed[shared.key] |= shared.prune(switch)
        return {key: names for key, names in changed.items() if names}

    def doubt(self, switch: str, until_s: float) -> None:
        """Reports at a switch may have been missed: members that do not report by `until_s`,
        CLOCK_MONOTONIC, are gone."""
        self._membership.doubt(switch, until_s)
        self._group_membership.doubt(switch, until_s)
        self._spawn(self._expire_at(until_s), f"expiry at {switch}")

    def policed(self, switch: str, port: int) -> int:
        """The reports that were refused since the start, because they were too many or of too
        many reporters."""
        return sum(self._policer.refused((switch, port)))

    def _reporters_at(self, place: tuple[str, int]) -> set[IPv4Address]:
        return self._membership.reporters_at(*place) | self._group_membership.reporters_at(*place)

    def on_packet(self, switch: str, packet: PacketIn) -> None:
        """A frame that a switch sent to the controller."""
        place = switch, packet.port
        if not self._policer.admits(place, len(packet.frame), packet.time_ns / 1e9):
            return  # counted
        try:
            message = parse_frame(packet.frame)
        except IgmpError as error:
            self._reject(switch, packet, str(error))
            return
        if not self._topology.is_host_port(switch, packet.port):
            self._reject(switch, packet, f"{message.type.name} at a port that leads to no host")
            return
        if message.records and not self._policer.knows(place, message.reporter):
            return  # counted
        self._on_message(switch, packet, message)

    def expire(self, now_s: float) -> None:
        """Prunes what leads to members that were not heard in time, CLOCK_MONOTONIC."""
        for member in self._membership.expire(now_s):
            changed = self._trees[member.session].leave(member.rank, member.switch, member.port)
            self._install("expire", member, UNKNOWN_REPORTER, time.monotonic_ns(), changed)
        for place in self._group_membership.expire(now_s):
            changed = self._shared[place.group].leave(place.switch, place.port)
            self._install_shared("expire", place, UNKNOWN_REPORTER, time.monotonic_ns(), changed)

    async def reroute(self) -> None:
        """Moves the trees to the paths that the topology has now. A switch that is away gets its
        part when it returns. Raises SwitchError."""
        for number, tree in self._trees.items():
            for name in tree.reroute():
                # One after another: a switch gets its state before packets come on the new path.
                await self._held_or_away(name, self._set_target(name, number, tree.state(name)))
        for shared in self._shared.values():
            await self._move(shared)

    async def _move(self, shared: SharedTree) -> None:
        async with self._moving[shared.group.address]:
            changed = shared.reroute()
            # Parts of two trees together may be a loop: the old one goes first.
            await self._bring(shared, dict.fromkeys(changed, SessionState()))
            await self._bring(shared, {name: shared.state(name) for name in changed})

    def _layer(self, group: IPv4Address) -> tuple[int, int] | None:
        """The session and rank of a group; None for one of no session of the run."""
        named = session_and_rank(group)
        tree = self._trees.get(named[0]) if named else None
        return None if named is None or tree is None or named[1] >= tree.session.layers else named

    def _on_message(self, switch: str, packet: PacketIn, message: Message) -> None:
        for record in message.records:
            if shared := self._shared.get(record.group):
                self._on_group_record(switch, packet, message.reporter, record, shared)
            elif named := self._layer(record.group):
                self._on_layer_record(switch, packet, message.reporter, record, named)
            # Hosts also report groups that belong to no session, such as mDNS's.

    def _on_layer_record(
        self,
        switch: str,
        packet: PacketIn,
        reporter: IPv4Address,
        record: GroupRecord,
        named: tuple[int, int],
    ) -> None:
        tree = self._trees[named[0]]
        wants = record.wants(self._topology.host(tree.session.source).interface.ip)
        # The source's own port would only get its packets back.
        if wants is None or (switch, packet.port) == (tree.source_switch, tree.source_port):
            return
        member = LayerMember(*named, switch, packet.port)
        now_s = packet.time_ns / 1e9
        if wants:
            if self._membership.join(member, reporter, now_s):
                changed = tree.join(member.rank, switch, packet.port)
                self._install("join", member, reporter, packet.time_ns, changed)
        elif self._membership.leave(member, reporter, now_s):
            changed = tree.leave(member.rank, switch, packet.port)
            self._install("leave", member, reporter, packet.time_ns, changed)
        else:
            group = tree.session.group(member.rank)
            self._on_doubt(self._membership, member, reporter, group, record, now_s)

    def _on_group_record(
        self,
        switch: str,
        packet: PacketIn,
        reporter: IPv4Address,
        record: GroupRecord,
        shared: SharedTree,
    ) -> None:
        """A route leads by the group alone: whoever wants one of its senders gets all."""
        sources = [self._topology.host(name).interface.ip for name in shared.group.senders]
        answers = [record.wants(source) for source in sources]
        member = GroupMember(record.group, switch, packet.port)
        now_s = packet.time_ns / 1e9
        if any(answers):
            if self._group_membership.join(member, reporter, now_s):
                changed = shared.join(switch, packet.port)
                self._install_shared("join", member, reporter, packet.time_ns, changed)
        elif None in answers:
            return
        elif self._group_membership.leave(member, reporter, now_s):
            changed = shared.leave(switch, packet.port)
            self._install_shared("leave", member, reporter, packet.time_ns, changed)
        else:
            self._on_doubt(self._group_membership, member, reporter, record.group, record, now_s)

    def _on_doubt(
        self,
        membership: Membership[Place],
        member: Place,
        reporter: IPv4Address,
        group: IPv4Address,
        record: GroupRecord,
        now_s: float,
    ) -> None:
        """A reporter has left, and is gone after the leave latency unless the group is wanted."""
        last_s = now_s + self._leave_latency_s
        if self._leave_latency_s <= 0 or membership.loses_s(member, reporter) != last_s:
            return  # whoever left was not there, or is about to be gone anyway
        if last_s not in self._ends:
            self._ends.add(last_s)
            self._spawn(self._end_leaves(last_s), f"leave latency of {member}")
        if self._ask_for is not None:
            # BLOCK lists the sources that are left; other records leave all that they do not list.
            sources = record.sources if record.type is RecordType.BLOCK else ()
            place = member.switch, member.port
            self._ask_for(place, group, sources, lambda: membership.ends_s(member))

    async def _end_leaves(self, last_s: float) -> None:
        await self._expire_at(last_s)
        self._ends.discard(last_s)

    async def _expire_at(self, due_s: float) -> None:
        await asyncio.sleep(max(0.0, due_s - time.monotonic()))
        self.expire(max(due_s, time.monotonic()))  # a timer may fire a clock's tick too early

    def _install(
        self,
        action: str,
        member: LayerMember,
        reporter: IPv4Address,
        since_ns: int,
        changed: set[str],
    ) -> None:
        """A membership has changed: there is an event when the tree has followed."""
        tree = self._trees[member.session]
        group = tree.session.group(member.rank)

        def on_held() -> None:
            self._emit_installed(
                action, member, group, member.session, member.rank, reporter, since_ns, len(changed)
            )

        joined = {member.rank} if action == "join" else set()
        self._lead(tree, changed, joined, on_held, f"{action} of {member}")

    def _lead(
        self,
        tree: SessionTrees,
        changed: set[str],
        joined: set[int],
        on_held: Callable[[], None],
        name: str,
    ) -> None:
        """Sends all changed switches their new state at once, and reports when all of them hold it:
        then the ranks that were joined are ready."""
        pending = self._set_targets(tree, changed)

        async def finish() -> None:
            if not await _all_held(pending):
                return
            on_held()
            self._ready[tree.session.number] |= joined
            self._tell(tree)

        self._spawn(finish(), name)

    def _install_shared(
        self,
        action: str,
        member: GroupMember,
        reporter: IPv4Address,
        since_ns: int,
        changed: set[str],
    ) -> None:
        """As _install, of a group of any source."""

        def on_held() -> None:
            self._emit_installed(
                action, member, member.group, -1, -1, reporter, since_ns, len(changed)
            )

        shared = self._shared[member.group]
        self._lead_shared(shared, changed, on_held, f"{action} of {member}")

    def _lead_shared(
        self, shared: SharedTree, changed: set[str], on_held: Callable[[], None], name: str
    ) -> None:
        """As _lead, of a group of any source."""

        async def finish() -> None:
            async with self._moving[shared.group.address]:
                try:
                    pending = await self._bring(
                        shared, {switch: shared.state(switch) for switch in changed}
                    )
                except SwitchError:
                    return  # reported by on_failure
            # Beside, since a switch that is away may take long.
            if await _all_held(pending):
                on_held()

        self._spawn(finish(), name)

    def _set_targets(self, tree: Tree, switches: Iterable[str]) -> list[asyncio.Future[None]]:
        return [self._set_target(name, tree.key, tree.state(name)) for name in switches]

    async def _bring(
        self, tree: Tree, states: dict[str, SessionState]
    ) -> list[asyncio.Future[None]]:
        """Returns when these switches hold these states of a tree, or are away. The futures are
        done when they hold them. Raises the first SwitchError, after all have answered."""
        pending = {name: self._set_target(name, tree.key, state) for name, state in states.items()}
        waits = [self._held_or_away(name, one) for name, one in pending.items()]
        for result in await asyncio.gather(*waits, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
        return list(pending.values())

    def _emit_installed(
        self,
        action: str,
        member: LayerMember | GroupMember,
        group: IPv4Address,
        session: int,
        rank: int,
        reporter: IPv4Address,
        since_ns: int,
        switches: int,
    ) -> None:
        """The row of a change of membership that `switches` switches hold now. A group of any
        source has session and rank -1."""
        self._emit(
            "igmp",
            time_ns=since_ns,
            action=action,
            switch=member.switch,
            port=member.port,
            group=str(group),
            session=session,
            rank=rank,
            reporter=str(reporter),
            install_us=(time.monotonic_ns() - since_ns) / 1e3,
            switches=switches,
        )

    def _tell(self, tree: SessionTrees) -> None:
        """Tells the sender of a layer when a path of it is ready, so that the first packet finds
        it, whatever other joins of it wait for."""
        session = tree.session.number
        self._ready[session] &= tree.ranks()
        top_rank = max(self._ready[session], default=-1)
        if self._announced[session] != top_rank:
            self._announced[session] = top_rank
            self._emit("membership", session=session, top_rank=top_rank)
            self._tell_sender(session, top_rank)

    def _reject(self, switch: str, packet: PacketIn, reason: str) -> None:
        self._emit(
            "igmp.rejected",
            time_ns=packet.time_ns,
            switch=switch,
            port=packet.port,
            reason=reason,
        )


async def _all_held(pending: Iterable[asyncio.Future[None]]) -> bool:
    """Whether all have succeeded, once all are done. What has failed is reported by on_failure."""
    results = await asyncio.gather(*pending, return_exceptions=True)
    return not any(isinstance(result, BaseException) for result in results)


def _nothing() -> None:
    pass
