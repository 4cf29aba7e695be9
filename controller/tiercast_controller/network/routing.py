"""Table entries that depend only on the topology: unicast routes and the ports' marking."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from ipaddress import IPv4Address, summarize_address_range

from tiercast_controller.network.flow_hash import multiplier
from tiercast_controller.network.topology import Host, Topology
from tiercast_controller.p4runtime.entities import TableEntry, entry

# Each is (first, after the last): places in the list of all hosts, sorted by address.
Runs = list[tuple[int, int]]
Hops = tuple[str, ...]  # several where paths have equal costs and flows spread over them


def static_entries(
    topology: Topology, only_hosts: Collection[str] = ()
) -> dict[str, list[TableEntry]]:
    """For each switch: its entries of source_guard, ipv4_host, ipv4_lpm, next_hop, ipv4_spread,
    port_marking and queue_class. The switches `only_hosts` cannot route prefixes."""
    hosts = _Hosts(topology.hosts)
    behind = _behind(topology, hosts.hosts)
    return {
        switch.name: [
            *_guards(topology, switch.name),
            *_routes(
                topology, switch.name, hosts, behind[switch.name], switch.name not in only_hosts
            ),
            *_marking(topology, switch.name),
        ]
        for switch in topology.switches
    }


def _behind(topology: Topology, hosts: Sequence[Host]) -> dict[str, dict[Hops, Runs]]:
    """For each switch and its next hops: the hosts that are reached through these."""
    result: dict[str, dict[Hops, Runs]] = {switch.name: {} for switch in topology.switches}
    if not topology.is_tree:
        towards: dict[str, dict[str, Hops]] = {}
        for place, host in enumerate(hosts):
            last, _ = topology.attachment(host.name)
            if last not in towards:
                towards[last] = topology.next_hops(last)
            hops = {last: (host.name,), **towards[last]}
            for switch in result.keys() & hops.keys():
                runs = result[switch].setdefault(hops[switch], [])
                runs[:] = _joined([*runs, (place, place + 1)])
        return result
    # In a tree, a next hop leads to its subtree or to everything else, so no search per host is
    # needed.
    places = {host.name: place for place, host in enumerate(hosts)}
    root = next(iter(result))
    upstream = topology.routes.towards(root)
    below: dict[str, Runs] = {name: [] for name in (root, *upstream)}
    for name in (*reversed(upstream), root):
        if name in places:
            below[name].append((places[name], places[name] + 1))
        below[name] = _joined(sorted(below[name]))
        if name in upstream:
            below[upstream[name]] += below[name]
            if upstream[name] in result:
                result[upstream[name]][name,] = below[name]
    for name, hop in upstream.items():
        if name in result:
            result[name][hop,] = _others(below[name], len(hosts))
    return result


def _joined(runs: Iterable[tuple[int, int]]) -> Runs:
    result: Runs = []
    for first, end in runs:
        if result and result[-1][1] == first:
            result[-1] = (result[-1][0], end)
        else:
            result.append((first, end))
    return result


def _others(runs: Runs, count: int) -> Runs:
    starts, ends = [0, *(end for _, end in runs)], [*(first for first, _ in runs), count]
    return [(a, b) for a, b in zip(starts, ends, strict=True) if a < b]


class _Hosts:
    """All hosts, sorted by address."""

    def __init__(self, hosts: Iterable[Host]) -> None:
        self.hosts = sorted(hosts, key=lambda host: host.interface.ip)
        self.addresses = [int(host.interface.ip) for host in self.hosts]
        networks = [host.interface.network for host in self.hosts]
        # The first address of each host's subnet.
        self.first = [int(network.network_address) for network in networks]
        self.last = [int(network.broadcast_address) for network in networks]
        # The places where a subnet does not directly follow the one before.
        self.gaps = [
            place
            for place in range(1, len(networks))
            if self.first[place] > self.last[place - 1] + 1
        ]

    def same_subnet(self, a: int, b: int) -> bool:
        return a >= 0 and b < len(self.hosts) and self.first[a] == self.first[b]

    def prefixes(self, begin: int, end: int) -> Iterator[tuple[tuple[int, int] | None, range]]:
        """Splits a run of hosts into those that share a prefix, as (address, length), and single
        hosts. A subnet that extends beyond the run cannot be covered."""
        whole, stop = begin, end
        while whole < stop and self.same_subnet(begin - 1, whole):
            whole += 1
        while whole < stop and self.same_subnet(stop - 1, end):
            stop -= 1
        yield None, range(begin, whole)
        while whole < stop:
            gap = bisect_right(self.gaps, whole)
            until = min(stop, self.gaps[gap]) if gap < len(self.gaps) else stop
            ends = IPv4Address(self.first[whole]), IPv4Address(self.last[until - 1])
            for prefix in summarize_address_range(*ends):
                covered = bisect_right(self.addresses, int(prefix.broadcast_address))
                shared = covered - whole > 1 and prefix.prefixlen < 32
                address = (int(prefix.network_address), prefix.prefixlen)
                yield (address if shared else None), range(whole, covered)
                whole = covered
        yield None, range(stop, end)


def _routes(
    topology: Topology,
    switch: str,
    hosts: _Hosts,
    behind: dict[Hops, Runs],
    may_share: bool,
) -> Iterator[TableEntry]:
    """A single host gets a /32 in ipv4_host; several hosts behind one next hop share prefixes in
    ipv4_lpm. Hosts behind several next hops have theirs in ipv4_spread, all with the place of these
    in next_hop.

    A prefix is shared only if it consists of whole subnets behind that hop, so it never covers a
    host elsewhere. Without `may_share` every host gets an entry.
    """
    for hops, runs in behind.items():
        ways = [
            {"port": topology.port_to(switch, hop), "dst_mac": topology.node(hop).mac}
            for hop in hops
        ]
        prefixes: list[tuple[int, int]] = []
        alone: list[int] = []
        for begin, end in runs:
            for shared, places in hosts.prefixes(begin, end):
                if shared is None or not may_share:
                    alone += (hosts.addresses[place] for place in places)
                else:
                    prefixes.append(shared)
        if len(ways) == 1:
            for shared in prefixes:
                yield entry("ipv4_lpm", {"dst_addr": shared}, "forward", ways[0])
            for address in alone:
                yield entry("ipv4_host", {"dst_addr": address}, "forward", ways[0])
            continue
        first = topology.hops_place(switch, hops)
        for place, way in enumerate(ways, first):
            yield entry("next_hop", {"hop": place}, "take", way)
        spread = {"first": first, "count": len(ways), "multiplier": multiplier(switch)}
        for shared in (*prefixes, *((address, 32) for address in alone)):
            yield entry("ipv4_spread", {"dst_addr": shared}, "spread", spread)


def _guards(topology: Topology, switch: str) -> list[TableEntry]:
    """The address of the host at each port that leads to one."""
    if not topology.checks.place:
        return []
    return [
        entry(
            "source_guard",
            {"ingress_port": port},
            "only_from",
            {"address": int(topology.host(topology.neighbour(switch, port)).interface.ip)},
        )
        for port in topology.host_ports_of(switch)
    ]


def _marking(topology: Topology, switch: str) -> list[TableEntry]:
    markings = topology.markings(switch)
    entries = [marking.entry(port) for port, marking in sorted(markings.items())]
    if any(queue.priority is not None for queue in topology.queues(switch).values()):
        entries += queue_classes()
    return entries


def queue_classes() -> list[TableEntry]:
    """L4S packets, which are ECT(1) or CE (RFC 9331), have a priority; where a port has one queue,
    that means nothing."""
    return [entry("queue_class", {"ecn": ecn}, "set_priority", {"priority": 1}) for ecn in (1, 3)]
