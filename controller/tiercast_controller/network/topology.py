"""The network as described to the controller: switches, hosts, links, sessions. Pure data.

    topology = Topology()
    topology.add_switch(Switch("s0", device_id=1, address="unix:/x/s0", mac=0x020000010000))
    topology.add_host(Host("h0", IPv4Interface("10.0.0.2/24"), mac=0x020000000000))
    topology.connect("s0", 1, "h0")
    topology.connect("s0", 2, "s1", 1, marking=PriorityMarking().at(2_000_000, 1000))

`as_graph` makes a networkx graph of it. Its nodes hold a Switch or a Host under "node", and its
edges hold {switch name: port number} under "ports" and the link's delay under "delay_ns".
from_graph takes such a graph from a caller.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import TYPE_CHECKING, Literal, get_args

from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.base.limits import MAX_LAYERS, MAX_SESSION
from tiercast_controller.base.strict import Strict
from tiercast_controller.base.tls import Tls
from tiercast_controller.network.marking import PortPolicy, PortQueue
from tiercast_controller.network.routes import LinkDelays, Routes

if TYPE_CHECKING:  # only callers that use a graph wait for its import
    import networkx as nx

MAX_PORT = 509  # CPU_PORT follows, and 511 drops
CPU_PORT = 510
SESSION_GROUPS = IPv4Network("239.192.0.0/14")
_GROUP_BASE = int(SESSION_GROUPS.network_address)
_GROUP_MASK = int(SESSION_GROUPS.netmask)
_LINK_LOCAL = IPv4Network("224.0.0.0/24")


@dataclass(frozen=True)
class Switch:
    name: str
    device_id: int  # P4Runtime's, 64 bits
    address: str  # of its gRPC server: "unix:/path" or "host:port"
    mac: int = 0  # 48 bits: the destination of frames that other switches forward to it
    ip: IPv4Address | None = None  # its own address as an aggregator of feedback
    role: str = ""  # P4Runtime's; empty: access to everything
    tls: Tls | None = None


@dataclass(frozen=True)
class Host:
    name: str
    interface: IPv4Interface  # address and prefix length: 10.0.15.2/24
    mac: int  # 48 bits


# What aggregates a session's feedback (SIM 3.1): only the sender, or also each switch of its tree.
Aggregation = Literal["sender", "network"]

# Of the paths with the same cost, all take one, by the rule of Routes ("one"); or each session's
# tree takes one by the session's number, so that sessions share them, and unicast takes the rule's
# ("session-hash"); or each unicast flow takes one, too, by its addresses and ports ("flow-hash").
EqualCosts = Literal["one", "session-hash", "flow-hash"]


class Checks(Strict):
    """What switches check about where packets come from (docs/security.md)."""

    source: bool = True  # a session's packets: their source, and the port that leads to it
    place: bool = True  # a host's packets: its own address
    igmp: bool = True  # a host's reports: not too many


@dataclass(frozen=True)
class Member:
    """A receiver, or a switch that aggregates the feedback of receivers."""

    id: int  # in the wire format, 32 bits
    address: IPv4Address  # where feedback in its name comes from
    below: int = 0  # receivers for which a switch speaks that aggregates; 0: a receiver


@dataclass(frozen=True)
class Session:
    """One layered session. The addresses of its groups contain its number and their ranks (SIM
    3.1)."""

    number: int  # 0..32767
    layers: int  # 1..8
    source: str  # the name of the sender's host
    scheme: str = "sim"
    aggregation: Aggregation = "sender"
    # The kinds of records that the scheme's cores trace; None: not known here.
    records: tuple[str, ...] | None = None
    members: tuple[Member, ...] = ()  # whose feedback is accepted; none: anybody's

    def group(self, rank: int) -> IPv4Address:
        return group_address(self.number, rank)


@dataclass(frozen=True)
class AnySourceGroup:
    """A group to which several hosts may send: that of programs that are no agents of a session
    (RFC 1112, 4). Its members come and go by IGMP."""

    address: IPv4Address  # as check_address wants it
    # Hosts whose packets reach it whether they are members or not. The first is the root of the
    # group's tree (multicast/shared_tree.py).
    senders: tuple[str, ...]

    @staticmethod
    def check_address(address: IPv4Address) -> None:
        """Raises ConfigurationError for addresses that are not forwarded (RFC 5771, 4), and for
        those of sessions."""
        if address in SESSION_GROUPS:
            reason = f"{address} lies within {SESSION_GROUPS}, the groups of sessions"
        elif address in _LINK_LOCAL:
            reason = f"{address} lies within {_LINK_LOCAL}, which no router forwards"
        elif not address.is_multicast:
            reason = f"{address} is no group"
        else:
            return
        raise ConfigurationError(
            f"{reason}; valid: {_LINK_LOCAL[-1] + 1} to {SESSION_GROUPS[0] - 1}, "
            f"{SESSION_GROUPS[-1] + 1} to 239.255.255.255"
        )


@lru_cache(maxsize=65536)  # asked for each layer at each change
def group_address(session: int, rank: int) -> IPv4Address:
    """239.192.0.0/14 + (session << 3 | rank)."""
    return IPv4Address(_GROUP_BASE + (session << 3 | rank))


def session_and_rank(group: IPv4Address) -> tuple[int, int] | None:
    """The inverse of group_address; None for a group outside 239.192.0.0/14."""
    value = int(group)
    if value & _GROUP_MASK != _GROUP_BASE:
        return None
    return (value - _GROUP_BASE) >> 3, value & 7


class Topology:
    """Every method raises ConfigurationError if names, ports or addresses do not fit together."""

    def __init__(self, equal_costs: EqualCosts = "one", checks: Checks | None = None) -> None:
        """`checks` None: all of them."""
        self.equal_costs = equal_costs
        self.checks = checks or Checks()
        self._nodes: dict[str, Switch | Host] = {}
        # For each link, in both directions: node -> neighbour -> {switch: port}.
        self._links: dict[str, dict[str, dict[str, int]]] = {}
        self._neighbour: dict[str, dict[int, str]] = {}  # switch -> port -> node
        self._marking: dict[str, dict[int, PortPolicy]] = {}  # switch -> port -> policy
        self._delays: LinkDelays[str] = LinkDelays()
        self._routes: Routes[str] | None = None  # of the links as they are
        # Of each switch: the places of its sets of equal next hops in the table next_hop. A set
        # keeps its place, so that no packet finds another set there while paths move.
        self._hop_places: dict[str, dict[tuple[str, ...], int]] = {}

    @classmethod
    def from_graph(cls, graph: nx.Graph[str]) -> Topology:
        topology = cls()
        for name, data in graph.nodes(data=True):
            node = data.get("node")
            if isinstance(node, Switch):
                topology.add_switch(node)
            elif isinstance(node, Host):
                topology.add_host(node)
            else:
                raise ConfigurationError(f"node {name!r}: 'node' is {node!r}, not a Switch or Host")
        for a, b, data in graph.edges(data=True):
            ports, delay_ns = data.get("ports", {}), data.get("delay_ns", 0)
            if a in ports:
                topology.connect(a, ports[a], b, ports.get(b), delay_ns=delay_ns)
            else:
                topology.connect(b, ports.get(b), a, None, delay_ns=delay_ns)
        return topology

    def as_graph(self) -> nx.Graph[str]:
        import networkx as nx

        graph: nx.Graph[str] = nx.Graph()
        for name, node in self._nodes.items():
            graph.add_node(name, node=node)
        for (a, b), delay_ns in self._delays.of_links().items():
            graph.add_edge(a, b, ports=self._links[a][b], delay_ns=delay_ns)
        return graph

    def add_switch(self, switch: Switch) -> None:
        self._add(switch.name, switch)
        self._neighbour[switch.name] = {}

    def add_host(self, host: Host) -> None:
        self._add(host.name, host)

    def connect(
        self,
        switch: str,
        port: int,
        other: str,
        other_port: int | None = None,
        marking: PortPolicy | None = None,
        other_marking: PortPolicy | None = None,
        delay_ns: int = 0,
    ) -> None:
        """Links a switch's port to another switch's port, or to a host (which has no port).
        `delay_ns` is one way, and decides about paths."""
        if other in self._links.get(switch, ()):
            raise ConfigurationError(f"{switch} and {other} are already linked")
        if delay_ns < 0:
            raise ConfigurationError(f"{switch} - {other}: delay_ns is {delay_ns}, not 0 or more")
        peer = self.node(other)
        ports = {switch: self._take_port(switch, port, other)}
        self.set_marking(switch, port, marking)
        if isinstance(peer, Switch):
            ports[other] = self._take_port(other, other_port, switch)
            self.set_marking(other, ports[other], other_marking)
        elif other_port is not None:
            raise ConfigurationError(f"host {other} has no port numbers, {other_port} was given")
        self._links[switch][other] = self._links[other][switch] = ports
        self._delays.add(switch, other, delay_ns)
        self._routes = None

    def set_marking(self, switch: str, port: int, marking: PortPolicy | None) -> None:
        """None: this port marks nothing, and only its queue's limit drops packets."""
        self.neighbour(switch, port)
        if marking is None:
            self._marking.get(switch, {}).pop(port, None)
            return
        try:
            marking.entry(port)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"{switch} port {port}: {marking.marking.kind}: {error}"
            ) from None
        self._marking.setdefault(switch, {})[port] = marking

    def node(self, name: str) -> Switch | Host:
        try:
            return self._nodes[name]
        except KeyError:
            choices = ", ".join(self._nodes) or "none"
            raise ConfigurationError(f"node {name!r} is not in the topology: {choices}") from None

    def switch(self, name: str) -> Switch:
        node = self.node(name)
        if not isinstance(node, Switch):
            raise ConfigurationError(f"{name!r} is not a switch")
        return node

    def host(self, name: str) -> Host:
        node = self.node(name)
        if not isinstance(node, Host):
            raise ConfigurationError(f"{name!r} is not a host")
        return node

    @property
    def switches(self) -> list[Switch]:
        return [node for node in self._nodes.values() if isinstance(node, Switch)]

    @property
    def hosts(self) -> list[Host]:
        return [node for node in self._nodes.values() if isinstance(node, Host)]

    def neighbour(self, switch: str, port: int) -> str:
        """The node at the other end of a port's link."""
        ports = self._neighbour[self.switch(switch).name]
        try:
            return ports[port]
        except KeyError:
            choices = ", ".join(map(str, sorted(ports))) or "none"
            raise ConfigurationError(f"{switch} has no port {port}; it has: {choices}") from None

    def ports(self, switch: str) -> list[int]:
        return sorted(self._neighbour[self.switch(switch).name])

    def port_to(self, switch: str, neighbour: str) -> int:
        return self._links[switch][neighbour][switch]

    def neighbours(self, node: str) -> list[str]:
        """The nodes that are linked to it, sorted by name."""
        return sorted(self._links[node])

    @property
    def routes(self) -> Routes[str]:
        """The paths between all nodes. Hosts have one link each, so no path leads through one."""
        if self._routes is None:
            self._routes = Routes(self._delays.of_links())
        return self._routes

    def routes_of(self, session: int) -> Routes[str]:
        """The paths of a session's tree."""
        return self.routes if self.equal_costs == "one" else self.routes.keyed(session)

    def next_hops(self, root: str) -> dict[str, tuple[str, ...]]:
        """For each other node, in the order of `routes.towards`: the nodes to one of which it hands
        unicast packets on their way to the root."""
        if self.equal_costs == "flow-hash" and not self.is_tree:
            return {node: tuple(hops) for node, hops in self.routes.next_hops(root).items()}
        return {node: (hop,) for node, hop in self.routes.towards(root).items()}

    def hops_place(self, switch: str, hops: tuple[str, ...]) -> int:
        """Where a switch's table next_hop has a set of equal next hops, one after the other."""
        places = self._hop_places.setdefault(switch, {})
        if hops not in places:
            places[hops] = sum(map(len, places))
        return places[hops]

    def change_link(
        self, switch: str, port: int, up: bool | None = None, delay_ns: int | None = None
    ) -> bool:
        """Says that what a port sends fails to arrive, or arrives again, or takes another time;
        None: as it was. LinkDelays says what a link counts for then. Returns whether paths may
        change."""
        changes = self._delays.change(switch, self.neighbour(switch, port), up, delay_ns)
        if not changes or self.is_tree:
            return False
        self._routes = None
        return True

    @property
    def is_tree(self) -> bool:
        """Whether the network is a tree, provided that it is connected, which `check` ensures."""
        return sum(map(len, self._links.values())) == 2 * (len(self._nodes) - 1)

    def attachment(self, host: str) -> tuple[str, int]:
        """The switch and port to which a host is attached. A host has exactly one link."""
        links = list(self._links[self.host(host).name].values())
        if len(links) != 1:
            raise ConfigurationError(f"host {host} has {len(links)} links, not 1")
        ((switch, port),) = links[0].items()
        return switch, port

    def host_ports(self) -> Iterator[tuple[str, int]]:
        """The ports whose link leads to a host: the places where group members can be."""
        for switch, ports in self._neighbour.items():
            for port, name in ports.items():
                if isinstance(self.node(name), Host):
                    yield switch, port

    def host_ports_of(self, switch: str) -> list[int]:
        return [port for port in self.ports(switch) if self.is_host_port(switch, port)]

    def is_host_port(self, switch: str, port: int) -> bool:
        name = self._neighbour.get(switch, {}).get(port)
        return name is not None and isinstance(self.node(name), Host)

    def markings(self, switch: str) -> dict[int, PortPolicy]:
        return dict(self._marking.get(switch, {}))

    def queues(self, switch: str) -> dict[int, PortQueue]:
        """Ports whose queues do more than hold packets in order."""
        found = {port: policy.queue() for port, policy in self.markings(switch).items()}
        return {port: queue for port, queue in found.items() if queue != PortQueue()}

    def check(self, sessions: Sequence[Session], groups: Sequence[AnySourceGroup] = ()) -> None:
        """Checks that hosts, addresses, sessions and groups fit together."""
        if not self.switches:
            raise ConfigurationError("the topology has no switch")
        if len(parts := self._parts()) > 1:
            firsts = sorted(min(part) for part in parts)
            raise ConfigurationError(
                f"the topology is not connected; a node of each part: {', '.join(firsts)}"
            )
        by_address: dict[IPv4Address, str] = {}
        for host in self.hosts:
            self.attachment(host.name)
            other = by_address.setdefault(host.interface.ip, host.name)
            if other != host.name:
                raise ConfigurationError(f"{other} and {host.name} share {host.interface.ip}")
        for switch in self.switches:
            other = by_address.setdefault(switch.ip, switch.name) if switch.ip else switch.name
            if other != switch.name:
                raise ConfigurationError(f"{other} and {switch.name} share {switch.ip}")
        numbers: set[int] = set()
        for session in sessions:
            self.host(session.source)
            if not 0 <= session.number <= MAX_SESSION:
                raise ConfigurationError(f"session {session.number} is not within 0..{MAX_SESSION}")
            if not 1 <= session.layers <= MAX_LAYERS:
                raise ConfigurationError(
                    f"session {session.number}: layers is {session.layers}, not 1..{MAX_LAYERS}"
                )
            if session.aggregation not in get_args(Aggregation):
                raise ConfigurationError(
                    f"session {session.number}: aggregation is {session.aggregation!r}; valid: "
                    f"{', '.join(get_args(Aggregation))}"
                )
            if session.aggregation == "network" and self.equal_costs != "one" and not self.is_tree:
                raise ConfigurationError(
                    f"session {session.number}: aggregation in the network needs feedback to come "
                    f"back along the tree, and with equal_costs: {self.equal_costs} it may not"
                )
            if session.number in numbers:
                raise ConfigurationError(f"session {session.number} is given twice")
            numbers.add(session.number)
        addresses: set[IPv4Address] = set()
        for group in groups:
            group.check_address(group.address)
            if group.address in addresses:
                raise ConfigurationError(f"group {group.address} is given twice")
            addresses.add(group.address)
            if not group.senders:
                raise ConfigurationError(f"group {group.address} has no sender")
            for sender in group.senders:
                self.host(sender)

    def _add(self, name: str, node: Switch | Host) -> None:
        if name in self._nodes:
            raise ConfigurationError(f"node {name!r} is given twice")
        self._nodes[name] = node
        self._links[name] = {}

    def _parts(self) -> list[set[str]]:
        """The connected parts of the network, as sets of nodes."""
        parts: list[set[str]] = []
        left = dict.fromkeys(self._nodes)
        while left:
            part: set[str] = set()
            waiting = [next(iter(left))]
            while waiting:
                if (name := waiting.pop()) not in part:
                    part.add(name)
                    del left[name]
                    waiting += self._links[name]
            parts.append(part)
        return parts

    def _take_port(self, switch: str, port: int | None, other: str) -> int:
        ports = self._neighbour[self.switch(switch).name]
        if port is None or not 1 <= port <= MAX_PORT:
            raise ConfigurationError(
                f"link {switch} - {other}: port of {switch} is {port}, not 1..{MAX_PORT}"
            )
        if port in ports:
            raise ConfigurationError(f"{switch} port {port} already leads to {ports[port]}")
        ports[port] = other
        return port
