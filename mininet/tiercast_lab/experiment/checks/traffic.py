"""Competing traffic, and the groups of the user's programs."""

from __future__ import annotations

from ipaddress import IPv4Address

from tiercast_controller.base import units
from tiercast_controller.network.routes import Routes

from tiercast_lab.base.errors import listed
from tiercast_lab.experiment.checks.unknown import no_node
from tiercast_lab.experiment.quantities import MAX_FLOWS
from tiercast_lab.experiment.schema import (
    Experiment,
    Traffic,
)
from tiercast_lab.experiment.yaml_source import Source


def check_traffic(source: Source, experiment: Experiment, nodes: set[int], receivers: int) -> None:
    flows = 0
    for index, entry in enumerate(experiment.traffic):
        path = ("traffic", str(index))
        for key, node in (("from", entry.from_), ("to", entry.to)):
            if isinstance(node, int) and node not in nodes:
                raise source.error((*path, key), no_node(node, nodes))
        if entry.from_ == entry.to:
            raise source.error((*path, "to"), f"a flow from node {entry.to} to itself has no link")
        stop = experiment.duration if entry.stop is None else entry.stop
        for key, at, most in (("stop", stop, experiment.duration), ("start", entry.start, stop)):
            if at > most or (key == "start" and at == most):
                raise source.error(
                    (*path, key) if getattr(entry, key) else path,
                    f"{key} is {units.format_duration(at)}; valid: before "
                    f"{units.format_duration(most)}",
                )
        several = {"receivers": receivers, "children": len(nodes) - 1}
        pairs = several[entry.to] if isinstance(entry.to, str) else 1
        if (flows := flows + pairs * entry.count) > MAX_FLOWS:
            raise source.error(path, f"{flows} flows; valid: up to {MAX_FLOWS} in all")


def check_groups(source: Source, experiment: Experiment) -> None:
    """Checks that groups differ, and that a program runs where packets to them come from."""
    programs = {one.from_ for one in experiment.traffic if one.kind == "command"}
    before: set[IPv4Address] = set()
    for index, one in enumerate(experiment.multicast):
        path = ("multicast", str(index))
        if one.group in before:
            raise source.error((*path, "group"), f"{one.group} is given twice; valid: once")
        before.add(one.group)
        for i, node in enumerate(one.senders):
            here = (*path, "senders", str(i))
            if node not in programs:
                nodes = sorted(node for node in programs if isinstance(node, int))
                valid = listed(nodes) if nodes else "none, without an entry of `traffic`"
                raise source.error(here, f"no `kind: command` runs at node {node}; valid: {valid}")
            if node in one.senders[:i]:
                raise source.error(here, f"node {node} is given twice; valid: once")


def single_flows(
    entry: Traffic, routes: Routes[int], sender: int, receivers: tuple[int, ...]
) -> list[Traffic]:
    """One entry for each pair of nodes that `entry` stands for."""
    if entry.to == "receivers":
        pairs = [(entry.from_, node) for node in receivers]
    elif entry.to == "children":
        pairs = list(routes.away_from(sender))
    else:
        return [entry]
    return [entry.model_copy(update={"from_": a, "to": b}) for a, b in pairs if a != b]
