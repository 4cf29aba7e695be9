"""The network: its links, ports, switches and their markings."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from tiercast_controller.base.bounded_yaml import shown
from tiercast_controller.base.errors import ParameterError
from tiercast_controller.network.routes import Routes
from tiercast_controller.network.topology import MAX_PORT

from tiercast_lab.base.errors import listed
from tiercast_lab.experiment.checks.unknown import no_link
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.topology import Edge, LinkParameters, Topology
from tiercast_lab.experiment.topology_schema import LinkChange, LinkDefault, TopologyModel
from tiercast_lab.experiment.wire import WIRE_KEYS, Wire
from tiercast_lab.experiment.yaml_source import Source


def links_of(source: Source, model: TopologyModel) -> dict[Edge, LinkParameters]:
    """The parameters of each link. Raises InputError."""
    named = _named_links(source, model)
    if model.nodes is not None:
        _check_connected(source, model.nodes, named)
        ends = named
    else:
        if model.tree is not None:
            ends = [link for level in model.tree.levels for link in level]
        else:
            assert model.random is not None  # TopologyModel requires one of the three forms
            ends = [_ends(name) for name in model.random.links]
        known = set(ends)
        for a, b in named:
            if (a, b) not in known:
                raise source.error(("topology", "links", f"{a}-{b}"), no_link(f"{a}-{b}", ends))
    drawn = model.drawn.links if model.drawn is not None else []
    for index, name in enumerate(drawn):
        if name not in [f"{a}-{b}" for a, b in ends]:
            raise source.error(("topology", "drawn", "links", str(index)), no_link(name, ends))
    plain = None if model.random is not None else _parameters(model, "")
    result = {}
    for a, b in ends:
        name = f"{a}-{b}"
        alike = plain is not None and name not in (*model.links, *drawn) and not model.levels
        result[a, b] = plain if plain is not None and alike else _parameters(model, name)
    return result


def _named_links(source: Source, model: TopologyModel) -> list[Edge]:
    named: dict[Edge, None] = {}
    for name in model.links:
        path = ("topology", "links", name)
        if re.fullmatch("[0-9]{1,6}-[0-9]{1,6}", name) is None:
            raise source.error(path, "not a link; valid: two nodes, such as 1-3")
        a, b = _ends(name)
        if name != f"{a}-{b}":
            raise source.error(path, f"valid: {a}-{b}")
        if a == b:
            raise source.error(path, "from a node to itself; valid: two nodes, such as 1-3")
        if (b, a) in named:
            raise source.error(path, f"this link is given above as {b}-{a}; valid: once")
        named[a, b] = None
    return list(named)


def _ends(name: str) -> Edge:
    a, _, b = name.partition("-")
    return int(a), int(b)


def _parameters(model: TopologyModel, name: str) -> LinkParameters:
    """The parameters of one link. `name` is empty for a link that keeps every default."""
    layers: list[LinkChange | LinkDefault] = [*model.changes(name).values(), model.default(name)]

    def first(key: str, *default: None) -> Any:
        return next((v for layer in layers if (v := getattr(layer, key)) is not None), *default)

    return LinkParameters(
        first("rate"),
        first("delay"),
        first("queue"),
        one_way=model.one_way,
        scheduling=first("scheduling"),
        wire=Wire(**{key: first(key, None) for key in WIRE_KEYS}),
    )


def _check_connected(source: Source, nodes: list[int], links: Collection[Edge]) -> None:
    """Raises InputError unless the links join all of the nodes."""
    known: set[int] = set()
    for index, node in enumerate(nodes):
        if node in known:
            raise source.error(
                ("topology", "nodes", str(index)), f"node {node} is given twice; valid: once"
            )
        known.add(node)
    for a, b in links:
        for node in (a, b):
            if node not in known:
                path = ("topology", "links", f"{a}-{b}")
                raise source.error(path, f"no node {node}; valid: {listed(nodes)}")
    routes = Routes(dict.fromkeys(links, 0))
    parts = [*routes.parts(), *(node for node in nodes if node not in routes.neighbours)]
    if len(parts) > 1:
        raise source.error(
            ("topology", "links"),
            f"no path from node {parts[0]} to node {listed(parts[1:])}; valid: links that join all "
            "nodes",
        )


def check_ports(source: Source, topology: Topology) -> None:
    for switch in topology.switches.values():
        if len(switch.ports) > MAX_PORT:
            raise source.error(
                ("topology",),
                f"{len(switch.ports)} links and hosts at node {switch.number}; valid: up to "
                f"{MAX_PORT}, the ports of a switch",
            )


def check_switches(source: Source, model: TopologyModel, topology: Topology) -> None:
    numbers = {str(switch.number) for switch in topology.switches.values()}
    for node in model.switches:
        if node not in numbers:
            raise source.error(
                ("topology", "switches", node),
                f"no switch at node {shown(node)}; valid: {listed(sorted(map(int, numbers)))}",
            )


def check_markings(source: Source, loaded: LoadedExperiment) -> None:
    """Raises InputError if the switches cannot hold what a link's marking says."""
    checked: set[tuple[int, int, int]] = set()  # for links that are alike, one check is enough
    for name, link in loaded.topology.links.items():
        path, marking = loaded.experiment.placed_marking(name)
        rate, packet_size = link.parameters.rate, loaded.packet_size_of(name)
        if rate and link.parameters.scheduling != "fifo" and marking.priority_queues() is not None:
            raise source.error(
                path,
                f"link {name} has a queue for each flow, and {marking.kind} two of its own; valid: "
                "scheduling: fifo, or another marking",
            )
        if (id(marking), rate, packet_size) in checked:
            continue
        checked.add((id(marking), rate, packet_size))
        policy = marking.at(rate, packet_size)
        try:
            if policy is not None:
                policy.entry(port=1)
        except ParameterError as error:
            keys = [(*path, one) for one in error.parameters]
            path = next((key for key in keys if key in source.places), path)
            raise source.error(path, f"link {name}: {error}") from None
