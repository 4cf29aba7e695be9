"""The network of an experiment as a graph: switches, hosts, links with their queues, addresses.

Nodes are numbered as in the paper's figure. A leaf that only receives, or only ends TCP flows, is a
host; every other node is a switch. Senders, receivers at other nodes and the ends of TCP flows at
other nodes each get a host of their own, which an unlimited link without delay attaches to the
node's switch. So every link of the paper has its queue in a switch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tiercast_controller.base.units import Queue
from tiercast_controller.network.routes import DOWN, Routes, steps

from tiercast_lab.experiment.quantities import Scheduling
from tiercast_lab.experiment.wire import Wire

UNLIMITED = 0
Edge = tuple[int, int]


@dataclass(frozen=True)
class LinkParameters:
    rate: int  # bit/s, of IP bytes; 0: unlimited
    delay: int  # ns, one way
    queue: Queue  # of each flow, unless scheduling is fifo
    one_way: bool = False  # rate and queue apply only to the direction from a to b
    # fair: each flow has its own queue, and they are served in turn. layered: the same, and a
    # session whose queue is full loses its highest layer.
    scheduling: Scheduling = "fifo"
    wire: Wire = Wire()  # of both directions; with one_way, the other one has its `up` alone

    @property
    def path_delay(self) -> int:
        """ns, that the link counts for when paths are chosen at the start of the run."""
        return self.delay + (DOWN if self.wire.up is False else 0)


@dataclass(frozen=True, slots=True)
class Link:
    """A link between two nodes, such as s7 and h15; `a` is the one that the experiment names
    first."""

    name: str  # as in the experiment, "7-15"; for the link of an attached host "h0" or "t0"
    a: str
    b: str
    parameters: LinkParameters

    @property
    def attaches(self) -> bool:
        """Whether it attaches a host to its switch, and so is no link of the paper."""
        return "-" not in self.name

    def sent_by(self, end: str) -> LinkParameters:
        """The parameters of the direction away from `end`."""
        if self.parameters.one_way and end != self.a:
            wire = Wire(up=self.parameters.wire.up)
            return LinkParameters(UNLIMITED, self.parameters.delay, Queue(), wire=wire)
        return self.parameters


@dataclass(slots=True)
class Switch:
    """A switch; its `ports` are (neighbour, link), numbered from 1."""

    name: str
    number: int
    ports: list[tuple[str, Link]] = field(default_factory=list)

    @property
    def device_id(self) -> int:
        """P4Runtime's device id. It must not be 0, which means "unset"."""
        return self.number + 1

    @property
    def address(self) -> str:
        """Its address as an aggregator. Hosts have .2, and their gateway is .1."""
        return f"{_subnet(self.number)}.3"

    def port_to(self, neighbour: str) -> int:
        return next(i for i, (name, _) in enumerate(self.ports, 1) if name == neighbour)

    def direction(self, port: int) -> str:
        """The direction of the link behind a port: "1>3", "0>h0", "0>t0"."""
        neighbour, link = self.ports[port - 1]
        far = neighbour if link.attaches else neighbour[1:]
        return f"{self.number}>{far}"


@dataclass(frozen=True, slots=True)
class Host:
    """A host: h<node> sends or receives for a session, t<node> is an end of TCP flows."""

    name: str
    number: int  # of its node
    switch: str

    @property
    def of_traffic(self) -> bool:
        return self.name.startswith("t")

    @property
    def address(self) -> str:
        return f"{_subnet(self.number)}.{4 if self.of_traffic else 2}"

    @property
    def gateway(self) -> str:
        return f"{_subnet(self.number)}.1"

    @property
    def mac(self) -> str:
        # 1 is used by gateways, 2 and 3 by interfaces of switches
        return _mac(4 if self.of_traffic else 0, self.number)

    @property
    def gateway_mac(self) -> str:
        return _mac(1, self.number)


def _subnet(number: int) -> str:
    """The /24 of a node without the last octet. 10.0.0.0/8 has room for 65536 nodes, more than real
    networks on one machine can have; a simulated network continues with 11.0.0."""
    return f"{10 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"


def _mac(kind: int, number: int) -> str:
    return f"02:00:{number >> 16:02x}:{kind:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"


class Topology:
    """Built from links between node numbers, the senders and receivers, and the nodes at which TCP
    flows begin or end."""

    def __init__(
        self,
        links: Mapping[tuple[int, int], LinkParameters],
        senders: Iterable[int],
        receivers: Iterable[int],
        traffic: Iterable[int] = (),
    ) -> None:
        # Between node numbers. A node and its attached hosts are one.
        self.routes = Routes({link: parameters.path_delay for link, parameters in links.items()})
        neighbours = self.routes.neighbours
        senders, receivers, traffic = set(senders), set(receivers), set(traffic)
        wanted = {node: ["h"] for node in sorted(senders | receivers)}
        for node in sorted(traffic):
            wanted.setdefault(node, []).append("t")
        leaves = {
            node: f"{kinds[0]}{node}"
            for node, kinds in wanted.items()
            if len(kinds) == 1 and node not in senders and len(neighbours[node]) == 1
        }
        self.switches: dict[str, Switch] = {
            f"s{node}": Switch(f"s{node}", node)
            for node in sorted(neighbours)
            if node not in leaves
        }
        self.links: dict[str, Link] = {}
        for (a, b), parameters in links.items():
            first, second = (leaves.get(n, f"s{n}") for n in (a, b))
            self._connect(Link(f"{a}-{b}", first, second, parameters))
        hosts = []
        for node, name in leaves.items():
            (neighbour,) = neighbours[node]
            hosts.append(Host(name, node, f"s{neighbour}"))
        unlimited = LinkParameters(UNLIMITED, 0, Queue())
        for node in sorted(wanted.keys() - leaves.keys()):
            for kind in wanted[node]:
                hosts.append(Host(f"{kind}{node}", node, f"s{node}"))
                self._connect(Link(f"{kind}{node}", f"s{node}", f"{kind}{node}", unlimited))
        self.hosts = {host.name: host for host in sorted(hosts, key=lambda h: (h.number, h.name))}

    def _connect(self, link: Link) -> None:
        self.links[link.name] = link
        for end, other in ((link.a, link.b), (link.b, link.a)):
            if end in self.switches:
                self.switches[end].ports.append((other, link))

    @property
    def is_tree(self) -> bool:
        """Whether there is one path between any two nodes, so that none ever moves."""
        links = sum(not link.attaches for link in self.links.values())
        return links < len(self.routes.neighbours)

    def path(self, sender: int, receiver: int) -> list[str]:
        """The names of the links between two nodes, starting at the sender."""
        return [self.link_between(a, b) for a, b in steps(self.routes.path(sender, receiver))]

    def links_to(self, sender: int, receivers: Sequence[int], routes: Routes[int]) -> Iterator[str]:
        """The names of the links that connect a sender with its receivers."""
        if len(receivers) == 1:
            for a, b in steps(routes.path(sender, *receivers)):
                yield self.link_between(a, b)
            return
        towards = set(receivers)
        for parent, child in reversed(list(routes.away_from(sender))):
            if child in towards:
                towards.add(parent)
                yield self.link_between(parent, child)

    def sides(self, name: str) -> list[tuple[Link, str, str]]:
        """The directions that a name means, each as (link, sending end, receiving end): both of
        link "1-3", and one of "1>3". Ends are names, such as s1 and h3."""
        first, way, second = name.partition(">")
        if not way:
            link = self.links[name]
            return [(link, link.a, link.b), (link, link.b, link.a)]
        link = self.links[self.link_between(int(first), int(second))]
        from_a = link.name.startswith(f"{first}-")
        return [(link, link.a, link.b) if from_a else (link, link.b, link.a)]

    def link_between(self, a: int, b: int) -> str:
        return f"{a}-{b}" if f"{a}-{b}" in self.links else f"{b}-{a}"

    def directions(self, sender: int, receiver: int) -> list[str]:
        """The path as link directions, named as in rows of ports: "0>1", "1>3"."""
        return [f"{a}>{b}" for a, b in steps(self.routes.path(sender, receiver))]

    def link_of(self, direction: str) -> str:
        """The name of the link of a direction such as "0>1"."""
        return self.link_between(*map(int, direction.split(">")))

    def bottleneck(self, path: Iterable[str], flows: Mapping[str, int]) -> tuple[str, int]:
        """Of a path, as directions: the link of the first one with the smallest share, and that
        share in bit/s: the link's rate divided by the number of users of that direction, the
        session and the flows (RLA's soft bottleneck)."""
        names = ((self.link_of(direction), direction) for direction in path)
        shares = [
            (name, rate // (1 + flows.get(direction, 0)))
            for name, direction in names
            if (rate := self.links[name].parameters.rate)
        ]
        return min(shares, key=lambda pair: pair[1])

    def round_trip(self, sender: int, receivers: Iterable[int]) -> int:
        """The longest propagation round trip in ns: d of SIM table 1."""
        distances = self.routes.distances(sender)
        return 2 * max(distances[node][0] for node in receivers)


def tree_levels(fanouts: Sequence[int]) -> list[list[tuple[int, int]]]:
    """The links of each level of a tree, parent first. `fanouts` gives the number of children of
    the nodes of each level, starting with the root. Nodes are numbered level by level, as in SIM's
    figure 1."""
    levels, parents = [], range(1)
    for fanout in fanouts:
        first = parents.stop
        children = range(first, first + fanout * len(parents))
        levels.append([(parents[i // fanout], child) for i, child in enumerate(children)])
        parents = children
    return levels


def tree_links(depth: int, fanout: int) -> list[tuple[int, int]]:
    """A balanced tree: the children of node i are fanout*i+1 ... fanout*i+fanout (SIM figure 1)."""
    return [link for level in tree_levels([fanout] * depth) for link in level]
