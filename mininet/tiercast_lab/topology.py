"""The network of an experiment as a graph: switches, hosts, links with their queues, addresses.

Nodes are numbered as in the paper's figure. A leaf that only receives is a host; every other node
is a switch. A sender, or a receiver at a node that is not a leaf, gets a host of its own attached
to the node's switch by an unlimited link without delay, so that every link of the paper has its
queue in a switch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import networkx

from tiercast_lab.units import Queue

UNLIMITED = 0


@dataclass(frozen=True)
class LinkParameters:
    rate: int  # bit/s, of IP bytes; 0: unlimited
    delay: int  # ns, one way
    queue: Queue


@dataclass(frozen=True)
class Link:
    """Undirected; both directions have the same parameters. `a` and `b` name nodes: s7, h15."""

    name: str  # as the experiment spells it: "7-15"; "h0" for the link of an attached host
    a: str
    b: str
    parameters: LinkParameters


@dataclass
class Switch:
    """`ports` in order, from 1: (neighbour, link)."""

    name: str
    number: int
    ports: list[tuple[str, Link]] = field(default_factory=list)

    @property
    def device_id(self) -> int:
        """P4Runtime's; 0 would mean "unset"."""
        return self.number + 1

    @property
    def address(self) -> str:
        """As an aggregator; hosts have .2 and name .1 as their gateway."""
        return f"10.{self.number >> 8}.{self.number & 255}.3"

    def port_to(self, neighbour: str) -> int:
        return next(i for i, (name, _) in enumerate(self.ports, 1) if name == neighbour)


@dataclass(frozen=True)
class Host:
    name: str
    number: int
    switch: str

    @property
    def address(self) -> str:
        return f"10.{self.number >> 8}.{self.number & 255}.2"

    @property
    def gateway(self) -> str:
        return f"10.{self.number >> 8}.{self.number & 255}.1"

    @property
    def mac(self) -> str:
        return f"02:00:00:00:{self.number >> 8:02x}:{self.number & 255:02x}"

    @property
    def gateway_mac(self) -> str:
        return f"02:00:00:01:{self.number >> 8:02x}:{self.number & 255:02x}"


class Topology:
    """Built from plain links between node numbers and from who sends and who receives."""

    def __init__(
        self,
        links: Mapping[tuple[int, int], LinkParameters],
        senders: Iterable[int],
        receivers: Iterable[int],
    ) -> None:
        self.numbers = networkx.Graph(list(links))
        senders, receivers = sorted(set(senders)), sorted(set(receivers))
        leaves = {
            node for node in receivers if node not in senders and self.numbers.degree(node) == 1
        }
        self.switches: dict[str, Switch] = {
            f"s{node}": Switch(f"s{node}", node)
            for node in sorted(self.numbers.nodes)
            if node not in leaves
        }
        self.hosts: dict[str, Host] = {}
        self.links: dict[str, Link] = {}
        for (a, b), parameters in links.items():
            ends = [f"h{n}" if n in leaves else f"s{n}" for n in (a, b)]
            self._connect(Link(f"{a}-{b}", *ends, parameters))
        for node in leaves:
            (neighbour,) = self.numbers.neighbors(node)
            self.hosts[f"h{node}"] = Host(f"h{node}", node, f"s{neighbour}")
        unlimited = LinkParameters(UNLIMITED, 0, Queue())
        for node in sorted(set(senders + receivers) - leaves):
            self.hosts[f"h{node}"] = Host(f"h{node}", node, f"s{node}")
            self._connect(Link(f"h{node}", f"s{node}", f"h{node}", unlimited))
        self.hosts = dict(sorted(self.hosts.items(), key=lambda item: item[1].number))

    def _connect(self, link: Link) -> None:
        self.links[link.name] = link
        for end, other in ((link.a, link.b), (link.b, link.a)):
            if end in self.switches:
                self.switches[end].ports.append((other, link))

    def path(self, sender: int, receiver: int) -> list[str]:
        """Names of the links between two node numbers, from the sender on."""
        nodes = networkx.shortest_path(self.numbers, sender, receiver)
        return [self.link_between(a, b) for a, b in zip(nodes, nodes[1:], strict=False)]

    def link_between(self, a: int, b: int) -> str:
        return f"{a}-{b}" if f"{a}-{b}" in self.links else f"{b}-{a}"

    def bottleneck(self, sender: int, receiver: int) -> tuple[str, int]:
        """The slowest link of the path (the first of them) and its rate in bit/s."""
        limited = [name for name in self.path(sender, receiver) if self.links[name].parameters.rate]
        name = min(limited, key=lambda link: self.links[link].parameters.rate)
        return name, self.links[name].parameters.rate

    def round_trip(self, sender: int, receivers: Iterable[int]) -> int:
        """The longest propagation round trip, in ns: d of SIM table 1."""
        return 2 * max(
            sum(self.links[name].parameters.delay for name in self.path(sender, node))
            for node in receivers
        )


def tree_links(depth: int, fanout: int) -> list[tuple[int, int]]:
    """A balanced tree: the children of node i are fanout*i+1 ... fanout*i+fanout (SIM figure 1)."""
    inner = sum(fanout**level for level in range(depth))
    return [(i, fanout * i + c) for i in range(inner) for c in range(1, fanout + 1)]
