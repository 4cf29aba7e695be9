"""Entries that follow from the topology alone: unicast routes and the ports' marking."""

from __future__ import annotations

from collections import defaultdict
from ipaddress import IPv4Network, collapse_addresses

from .program import TableEntry, entry
from .topology import Host, Topology


def static_entries(topology: Topology) -> dict[str, list[TableEntry]]:
    """For each switch: ipv4_host, ipv4_lpm and port_marking."""
    paths = {host.name: shortest_path_tree(topology, host.name) for host in topology.hosts}
    return {
        switch.name: [*_routes(topology, switch.name, paths), *_marking(topology, switch.name)]
        for switch in topology.switches
    }


def shortest_path_tree(topology: Topology, root: str) -> dict[str, str]:
    """For each node but the root: the next node on its shortest path to the root.

    Hops count; among equals the first by name wins, so every caller gets the same tree. Hosts
    forward nothing, so paths go through switches only.
    """
    parent: dict[str, str] = {}
    level = [root]
    seen = {root}
    while level:
        following = []
        for node in level:
            if node != root and isinstance(topology.node(node), Host):
                continue
            for neighbour in sorted(topology.graph.neighbors(node)):
                if neighbour not in seen:
                    seen.add(neighbour)
                    parent[neighbour] = node
                    following.append(neighbour)
        level = following
    return parent


def _routes(topology: Topology, switch: str, paths: dict[str, dict[str, str]]) -> list[TableEntry]:
    """A host alone gets a /32 in ipv4_host; hosts behind one next hop share prefixes in ipv4_lpm.

    A prefix is shared only where it is made of whole subnets behind that hop, so it never covers
    a host elsewhere.
    """
    entries = []
    behind: dict[str, list[Host]] = defaultdict(list)
    hops_of_subnet: dict[IPv4Network, set[str]] = defaultdict(set)
    for host in topology.hosts:
        hop = paths[host.name][switch]
        hops_of_subnet[host.interface.network].add(hop)
        behind[hop].append(host)
    for hop, hosts in behind.items():
        port = topology.port_to(switch, hop)
        hop_mac = topology.node(hop).mac
        subnets = {
            h.interface.network for h in hosts if len(hops_of_subnet[h.interface.network]) == 1
        }
        shared = list(collapse_addresses(subnets)) if len(hosts) > 1 else []
        covered: set[Host] = set()
        for prefix in shared:
            inside = [h for h in hosts if h.interface.ip in prefix]
            if len(inside) > 1 and prefix.prefixlen < 32:
                covered.update(inside)
                entries.append(
                    entry(
                        "ipv4_lpm",
                        {"dst_addr": (int(prefix.network_address), prefix.prefixlen)},
                        "forward",
                        {"port": port, "dst_mac": hop_mac},
                    )
                )
        entries += [
            entry(
                "ipv4_host",
                {"dst_addr": int(host.interface.ip)},
                "forward",
                {"port": port, "dst_mac": hop_mac},
            )
            for host in hosts
            if host not in covered
        ]
    return entries


def _marking(topology: Topology, switch: str) -> list[TableEntry]:
    return [marking.entry(port) for port, marking in sorted(topology.markings(switch).items())]
