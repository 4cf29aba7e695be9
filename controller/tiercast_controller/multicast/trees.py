"""The state that multicast forwarding needs on each switch, and the order in which it may change.

SessionTrees grows one tree per layer towards the session's source and gives, for each switch, the
ports that get a copy of each layer. MulticastState is what a switch holds for that: replication
groups, the routes to them, and the top group of each port (SIM 3.4). replication.py assigns the
groups' numbers. plan() turns one state into another in batches and explains their order. This
module has no I/O and no clock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import NamedTuple, Protocol

from tiercast_controller.network.topology import (
    AnySourceGroup,
    Session,
    Topology,
    session_and_rank,
)
from tiercast_controller.p4runtime.entities import MulticastGroup, Op, TableEntry, Update, entry


class Upstream(NamedTuple):
    """Whence a group's packets come to a switch: the check of RFC 7761, 4.2."""

    source: int  # IPv4 address
    port: int  # that leads to the source
    # The port that led there before the path moved: what is on its way there still counts. Else the
    # same as `port`.
    former: int


# A group address, and the ports (at least one) that get a copy of each packet sent to it.
Copies = tuple[IPv4Address, frozenset[int]]


@dataclass
class MulticastState:
    groups: dict[int, frozenset[int]] = field(default_factory=dict)  # egress ports by group id
    routes: dict[IPv4Address, int] = field(default_factory=dict)  # group id by group address
    tops: dict[tuple[int, int], int] = field(default_factory=dict)  # rank by (port, session)
    # By group address, as far as the switch looks at that.
    upstream: dict[IPv4Address, Upstream] = field(default_factory=dict)
    # Groups that were found with other replicas than one for each of their ports.
    other_replicas: set[int] = field(default_factory=set)

    def highest_carried(self) -> dict[tuple[int, int], int]:
        """The highest rank that leaves through a port, by (port, session)."""
        carried: dict[tuple[int, int], int] = {}
        for address, mgid in self.routes.items():
            named = session_and_rank(address)
            if named is None:
                continue
            session, rank = named
            for port in self.groups.get(mgid, ()):
                carried[port, session] = max(rank, carried.get((port, session), -1))
        return carried

    def of_session(self, session: int) -> MulticastState:
        """The part of one session, with the groups that its routes lead to."""
        routes = {
            a: m for a, m in self.routes.items() if (session_and_rank(a) or (-1,))[0] == session
        }
        return MulticastState(
            {m: self.groups[m] for m in routes.values() if m in self.groups},
            routes,
            {key: rank for key, rank in self.tops.items() if key[1] == session},
            {a: self.upstream[a] for a in routes if a in self.upstream},
        )

    def of_group(self, address: IPv4Address) -> MulticastState:
        """The part of a group of any source."""
        mgid = self.routes.get(address)
        if mgid is None:
            return MulticastState()
        groups = {mgid: self.groups[mgid]} if mgid in self.groups else {}
        return MulticastState(groups, {address: mgid})

    def entries(self) -> list[TableEntry]:
        """The routes and top groups."""
        return [
            *(route(a, mgid, self.upstream.get(a)) for a, mgid in self.routes.items()),
            *(top_group(key, rank) for key, rank in self.tops.items()),
        ]

    def forwarding(self) -> SessionState:
        """What the switch does, whichever groups it uses for that."""
        ports = {a: self.groups.get(m, frozenset()) for a, m in self.routes.items()}
        return SessionState(
            {a: copies for a, copies in ports.items() if copies}, dict(self.tops),
            {a: way for a, way in self.upstream.items() if ports.get(a)},
        )  # fmt: skip


@dataclass
class SessionState:
    """What a switch should do for one or more sessions or groups."""

    # Group address and ports, as in Copies.
    copies: dict[IPv4Address, frozenset[int]] = field(default_factory=dict)
    tops: dict[tuple[int, int], int] = field(default_factory=dict)  # rank by (port, session)
    # By group address; a group without is forwarded wherever its packets come from.
    upstream: dict[IPv4Address, Upstream] = field(default_factory=dict)

    def merge(self, other: SessionState) -> None:
        self.copies.update(other.copies)
        self.tops.update(other.tops)
        self.upstream.update(other.upstream)


# What the controller installs by itself: a session, by its number, or a group of any source.
TreeKey = int | IPv4Address


class Tree(Protocol):
    @property
    def key(self) -> TreeKey: ...

    @property
    def addresses(self) -> list[IPv4Address]:
        """The groups whose routes it sets."""

    def state(self, switch: str) -> SessionState:
        """What `switch` should do for it."""

    def part_of(self, held: MulticastState) -> MulticastState:
        """What a switch holds for it."""


class SessionTrees:
    """The trees of one session's layers: for each layer and switch, the ports that get a copy."""

    def __init__(self, topology: Topology, session: Session):
        self.session = session
        self.source_switch, self.source_port = topology.attachment(session.source)
        self._topology = topology
        self._upstream = topology.routes_of(session.number).towards(session.source)
        self._source = int(topology.host(session.source).interface.ip)
        self._former: dict[str, int] = {}  # Upstream.former of switches whose path has moved
        self._ports: list[dict[str, set[int]]] = [defaultdict(set) for _ in range(session.layers)]
        # By rank: the switches behind which there may be members that are not known.
        self._unknown: list[set[str]] = [set() for _ in range(session.layers)]

    @property
    def key(self) -> TreeKey:
        return self.session.number

    @property
    def addresses(self) -> list[IPv4Address]:
        return [self.session.group(rank) for rank in range(self.session.layers)]

    def part_of(self, held: MulticastState) -> MulticastState:
        return held.of_session(self.session.number)

    def join(self, rank: int, switch: str, port: int) -> set[str]:
        """A member appeared behind a host port. Returns the switches whose state changes."""
        ports = self._ports[rank]
        changed: set[str] = set()
        while port not in ports[switch]:
            ports[switch].add(port)
            changed.add(switch)
            if switch == self.source_switch:
                break
            switch, port = self._towards_source(switch)
        return changed

    def leave(self, rank: int, switch: str, port: int) -> set[str]:
        """The last member behind a host port is gone. Returns the switches whose state changes."""
        ports = self._ports[rank]
        changed: set[str] = set()
        while port in ports[switch]:
            ports[switch].remove(port)
            changed.add(switch)
            kept = ports[switch] or switch in self._unknown[rank]
            if kept or switch == self.source_switch:
                break
            switch, port = self._towards_source(switch)
        return changed

    def lead_to(self, rank: int, switch: str) -> set[str]:
        """Behind `switch` there may be members that are not known. Returns the switches whose
        state changes."""
        self._unknown[rank].add(switch)
        return self.join(rank, *self._towards_source(switch))

    def prune(self, switch: str) -> set[str]:
        """Undoes lead_to where there are none: all members behind `switch` are known. Returns the
        switches whose state changes."""
        changed: set[str] = set()
        for rank, unknown in enumerate(self._unknown):
            if switch in unknown:
                unknown.remove(switch)
                if not self._ports[rank][switch]:
                    changed |= self.leave(rank, *self._towards_source(switch))
        return changed

    def reroute(self) -> list[str]:
        """Moves the trees to the paths that the topology has now. Returns the switches whose state
        changes, those farthest from the source first: each then has its new state before packets
        come to it on the new path."""
        before = {switch: self.state(switch) for ports in self._ports for switch in ports}
        members = [
            (rank, switch, port)
            for rank, ports in enumerate(self._ports)
            for switch, copies in ports.items()
            for port in copies
            if self._topology.is_host_port(switch, port)
        ]
        routes = self._topology.routes_of(self.session.number)
        hops, self._upstream = self._upstream, routes.towards(self.session.source)
        for name in (switch.name for switch in self._topology.switches):
            was = hops.get(name)
            if was is not None and was != self._upstream.get(name, was):
                self._former[name] = self._topology.port_to(name, was)
        self._ports = [defaultdict(set) for _ in self._ports]
        for rank, switch, port in members:
            self.join(rank, switch, port)
        for rank, unknown in enumerate(self._unknown):
            for switch in unknown:
                self.join(rank, *self._towards_source(switch))
        affected = before.keys() | {switch for ports in self._ports for switch in ports}
        return [
            switch
            for switch in reversed(list(self._upstream))
            if switch in affected and before.get(switch, SessionState()) != self.state(switch)
        ]

    def ranks(self) -> set[int]:
        """Those that have a member anywhere."""
        return {rank for rank, ports in enumerate(self._ports) if ports[self.source_switch]}

    def top_rank(self) -> int:
        """The highest rank that has a member anywhere; -1 if there are no members."""
        return max(self.ranks(), default=-1)

    def state(self, switch: str) -> SessionState:
        """What `switch` should do for this session."""
        state = SessionState()
        for rank in range(self.session.layers):
            ports = self._ports[rank].get(switch)
            if ports:
                state.copies[self.session.group(rank)] = frozenset(ports)
                if self._topology.checks.source:
                    state.upstream[self.session.group(rank)] = self._rpf(switch)
        # Ranks ascend, so the last one that a port carries is its top group.
        for rank in range(self.session.layers):
            for port in self._ports[rank].get(switch, ()):
                state.tops[port, self.session.number] = rank
        return state

    def _rpf(self, switch: str) -> Upstream:
        port = self._topology.port_to(switch, self._upstream[switch])
        return Upstream(self._source, port, self._former.get(switch, port))

    def is_child(self, switch: str, of: str) -> bool:
        """Whether packets come to `switch` from the switch `of`."""
        return switch != self.source_switch and self._upstream.get(switch) == of

    def _towards_source(self, switch: str) -> tuple[str, int]:
        parent = self._upstream[switch]
        return parent, self._topology.port_to(parent, switch)


def group_sources(
    topology: Topology, sessions: Iterable[Session], groups: Iterable[AnySourceGroup] = ()
) -> dict[int, tuple[int, ...]]:
    """The addresses of the senders of each group, by the group's address."""

    def address(host: str) -> int:
        return int(topology.host(host).interface.ip)

    found = {
        int(session.group(rank)): (address(session.source),)
        for session in sessions
        for rank in range(session.layers)
    }
    return found | {int(one.address): tuple(map(address, one.senders)) for one in groups}


def plan(installed: MulticastState, desired: MulticastState) -> list[list[Update]]:
    """The batches that lead from `installed` to `desired`. Each must be done before the next
    begins.

    A switch may process a batch in any order (P4Runtime 12.2). In any order within these batches,
    no group is marked that is not a port's top group, and none is copied to a port that did not ask
    for it:

      1. top groups rise, before the higher group flows; groups are made, before a route leads there
      2. routes change; ports that need a top group get one, and ports that need none lose theirs
      3. top groups fall, after the higher group has stopped; groups that no route needs are removed

    A top group that is set too high marks nothing, so between batches a port marks too little at
    worst.
    """
    first: list[Update] = []
    second: list[Update] = []
    third: list[Update] = []
    carried = installed.highest_carried()
    for key in sorted(installed.tops.keys() | desired.tops.keys()):
        old_top, new_top = installed.tops.get(key), desired.tops.get(key)
        if old_top == new_top:
            continue
        if new_top is None:
            second.append(Update(Op.DELETE, top_group(key, installed.tops[key])))
            continue
        op = Op.INSERT if old_top is None else Op.MODIFY
        lowered = carried.get(key, -1) > new_top
        batch = third if lowered else second if old_top is None else first
        batch.append(Update(op, top_group(key, new_top)))
    for mgid in sorted(installed.groups.keys() | desired.groups.keys()):
        had, wanted = installed.groups.get(mgid), desired.groups.get(mgid)
        if had == wanted and mgid not in installed.other_replicas:
            continue
        op = Op.INSERT if had is None else Op.DELETE if wanted is None else Op.MODIFY
        batch = third if wanted is None else first
        batch.append(Update(op, MulticastGroup(mgid, wanted or frozenset())))
    for address in sorted(installed.routes.keys() | desired.routes.keys()):
        old, new = installed.routes.get(address), desired.routes.get(address)
        was, way = installed.upstream.get(address), desired.upstream.get(address)
        if old == new and was == way:
            continue
        if new is None:
            second.append(Update(Op.DELETE, route(address, installed.routes[address], was)))
            continue
        op = Op.INSERT if old is None else Op.MODIFY
        second.append(Update(op, route(address, new, way)))
    return [batch for batch in (first, second, third) if batch]


def top_group(key: tuple[int, int], rank: int) -> TableEntry:
    port, session = key
    return entry(
        "top_group", {"egress_port": port, "session": session}, "set_top_group", {"rank": rank}
    )


def route(address: IPv4Address, mgid: int, way: Upstream | None = None) -> TableEntry:
    """`way` None: whoever sends."""
    params = {"mgid": mgid}
    if way is not None:
        params |= {"source": way.source, "rpf_port": way.port, "former_rpf_port": way.former}
    return entry("ipv4_multicast", {"dst_addr": int(address)}, "replicate", params)


def from_entities(
    entries: Iterable[TableEntry], groups: Mapping[int, frozenset[int]]
) -> MulticastState:
    """The state that was read back from a switch. Entries of other tables are skipped."""
    state = MulticastState(groups=dict(groups))
    for item in entries:
        params = dict(item.params)
        if item.table == "ipv4_multicast":
            address = IPv4Address(item.exact("dst_addr"))
            state.routes[address] = params.get("mgid", 0)
            if "rpf_port" in params:
                port = params["rpf_port"]
                state.upstream[address] = Upstream(
                    params.get("source", 0), port, params.get("former_rpf_port", port)
                )
        elif item.table == "top_group":
            key = item.exact("egress_port"), item.exact("session")
            state.tops[key] = params.get("rank", 0)
    return state
