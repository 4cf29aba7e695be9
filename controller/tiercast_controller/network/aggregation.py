"""Aggregation of feedback in the network (SIM 3.1): the switches that aggregate, and their entries.

Every switch between a session's source and a host that could receive it is an aggregator. Its
parent is the next aggregator towards the source or, for the last one, the source's host. The
entries depend only on the topology: a switch that no feedback reaches simply has nothing to
aggregate.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address

from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.network.topology import CPU_PORT, Member, Session, Switch, Topology
from tiercast_controller.p4runtime.entities import TableEntry, entry

MAX_SLOTS = 256  # sessions that one switch can aggregate
# The copies that become summaries return to ingress from the egress of this one replica.
SUMMARY_CLONES = {1: CPU_PORT}  # ports by clone session


def aggregation_entries(
    topology: Topology, sessions: Sequence[Session]
) -> dict[str, list[TableEntry]]:
    """For each switch: its entry of `aggregator`, and the routes to the aggregators that are
    parents.

    Slots number the aggregated sessions in their order. Raises ConfigurationError.
    """
    entries: dict[str, dict[TableEntry, None]] = {s.name: {} for s in topology.switches}
    aggregated = [s for s in sessions if s.aggregation == "network"]
    if len(aggregated) > MAX_SLOTS:
        raise ConfigurationError(
            f"{len(aggregated)} sessions are aggregated by the network; valid: up to {MAX_SLOTS}"
        )
    for slot, session in enumerate(aggregated):
        upstream = topology.routes.towards(session.source)
        for name in _between(topology, session.source, upstream):
            switch, parent = topology.switch(name), topology.node(upstream[name])
            port = topology.port_to(name, parent.name)
            if isinstance(parent, Switch):
                to = _address(parent, session)
                route = {"port": port, "dst_mac": parent.mac}
                # A dictionary as an ordered set, because sessions share routes.
                entries[name][entry("ipv4_host", {"dst_addr": to}, "forward", route)] = None
            else:
                to = int(parent.interface.ip)
            own = _address(switch, session)
            parameters = {
                "slot": slot,
                "id": aggregator(IPv4Address(own)).id,
                "address": own,
                "parent": to,
                "mac": switch.mac,
                "upstream_port": port,
            }
            item = entry("aggregator", {"session": session.number}, "aggregate", parameters)
            entries[name][item] = None
    return {name: list(items) for name, items in entries.items()}


def aggregator(address: IPv4Address, below: int = 1) -> Member:
    """How the switch with this address, and this many receivers below it, appears in its summaries.
    Its number is as unique as the address, and distinct from receivers' numbers."""
    return Member(int(address), address, below)


def _between(topology: Topology, source: str, upstream: dict[str, str]) -> list[str]:
    """The switches on the paths from all other hosts to the source."""
    found: dict[str, None] = {}
    for host in topology.hosts:
        node = upstream[host.name] if host.name != source else source
        while node != source and node not in found:
            found[node] = None
            node = upstream[node]
    return list(found)


def _address(switch: Switch, session: Session) -> int:
    if switch.ip is None:
        raise ConfigurationError(
            f"session {session.number}: aggregation by the network needs an IPv4 address ('ip') of "
            f"switch {switch.name}"
        )
    return int(switch.ip)
