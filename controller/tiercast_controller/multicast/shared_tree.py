"""The tree of a group to which several hosts send: one for all of them, which packets take in both
directions, as in bidirectional PIM (RFC 5015).

The paths of one root, the first of the group's senders, lead to every member and sender. A switch
copies a packet to each of its ports behind which there is a member; the P4 program leaves out the
port where it came in. Whoever sends, a packet crosses each link of the tree once at most. This
module has no I/O and no clock.
"""

from __future__ import annotations

from collections import defaultdict
from ipaddress import IPv4Address

from tiercast_controller.multicast.trees import MulticastState, SessionState, TreeKey
from tiercast_controller.network.topology import AnySourceGroup, Switch, Topology


class SharedTree:
    def __init__(self, topology: Topology, group: AnySourceGroup):
        self.group = group
        self._topology = topology
        self._members: set[str] = set()  # hosts
        self._unknown: set[str] = set()  # switches behind which there may be others
        self._copies: dict[str, frozenset[int]] = {}  # by switch: the ports that get a copy
        self._towards: dict[str, str] = {}  # by node: the next one on its path to the root
        self.reroute()

    @property
    def key(self) -> TreeKey:
        return self.group.address

    @property
    def addresses(self) -> list[IPv4Address]:
        return [self.group.address]

    def join(self, switch: str, port: int) -> set[str]:
        """A member appeared behind a host port. Returns the switches whose state changes."""
        self._members.add(self._topology.neighbour(switch, port))
        return self._rebuild()

    def leave(self, switch: str, port: int) -> set[str]:
        """The last member behind a host port is gone. Returns the switches whose state changes."""
        self._members.discard(self._topology.neighbour(switch, port))
        return self._rebuild()

    def lead_to(self, switch: str) -> set[str]:
        """At `switch` and behind it there may be members that are not known. Returns the switches
        whose state changes."""
        self._unknown.add(switch)
        return self._rebuild()

    def prune(self, switch: str) -> set[str]:
        """Undoes lead_to: all members at `switch` are known. Returns the switches whose state
        changes."""
        self._unknown.discard(switch)
        return self._rebuild()

    def reroute(self) -> set[str]:
        """Moves the tree to the paths that the topology has now. Members come and go on the former
        ones until then: parts of two trees together may be a loop. Returns the switches whose state
        changes."""
        self._towards = self._topology.routes.towards(self.group.senders[0])
        return self._rebuild()

    def _rebuild(self) -> set[str]:
        before, self._copies = self._copies, self._built()
        switches = before.keys() | self._copies.keys()
        return {name for name in switches if before.get(name) != self._copies.get(name)}

    def state(self, switch: str) -> SessionState:
        """What `switch` should do for this group."""
        ports = self._copies.get(switch)
        return SessionState({self.group.address: ports} if ports else {})

    def part_of(self, held: MulticastState) -> MulticastState:
        return held.of_group(self.group.address)

    def _built(self) -> dict[str, frozenset[int]]:
        root = self.group.senders[0]
        towards = self._towards
        # The nodes of the tree but the root, and how many members are behind each, away from it.
        behind: dict[str, int] = defaultdict(int)
        wanting = self._members | self._unknown
        for end in wanting.union(self.group.senders):
            node = end
            while node != root:
                behind[node] += end in wanting
                node = towards[node]
        copies: dict[str, set[int]] = defaultdict(set)
        for node, members in behind.items():
            above = towards[node]
            ends = []
            if members:
                ends.append((above, node))
            if members < len(wanting):
                ends.append((node, above))
            for here, following in ends:
                if isinstance(self._topology.node(here), Switch):
                    copies[here].add(self._topology.port_to(here, following))
        return {switch: frozenset(ports) for switch, ports in copies.items()}
