"""Builds the part `network` of summary.json: what measures, plots and reports need to know of a
run's network, so that they never read its YAML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, TypeVar

from tiercast_lab.experiment.churn import MemberChange
from tiercast_lab.experiment.loaded_experiment import Flow, LoadedExperiment
from tiercast_lab.experiment.paths import Paths, directions
from tiercast_lab.experiment.schema import LinkEvent, Session, member_name
from tiercast_lab.experiment.topology import Link, LinkParameters, Topology
from tiercast_lab.results.summary import (
    FlowSummary,
    LaterPath,
    LinkSummary,
    Network,
    NodeSummary,
    ReceiverSummary,
    SessionSummary,
)


def network_summary(loaded: LoadedExperiment) -> dict[str, Any]:
    """The links, the competing flows, and each session with those of its receivers that have rows.
    Times are in s, rates in bit/s."""
    topology, model = loaded.topology, loaded.experiment.topology
    flows = {
        name: FlowSummary.model_validate(
            {
                "from": flow.source,
                "to": flow.destination,
                **_flow_paths(loaded, flow),
                "kind": flow.kind,
                "rival": flow.rival,
                "start_s": flow.start_s,
                "stop_s": flow.stop_s,
                "packet_size": loaded.experiment.traffic[flow.entry].packet_size,
            }
        )
        for name, flow in loaded.flows.items()
    }
    network = Network(
        nodes={
            node: NodeSummary(name=model.names.get(node, node), place=model.places.get(node))
            for node in dict.fromkeys((*model.names, *model.places))
        },
        links={
            link.name: LinkSummary(
                rate=link.parameters.rate,
                delay_ns=link.parameters.delay,
                queue=str(link.parameters.queue),
                marking=loaded.experiment.marking_of(link.name).kind,
                one_way=link.parameters.one_way,
                packet_size=loaded.packet_size_of(link.name),
                rates=_rates(link, loaded.experiment.link_events),
            )
            for link in topology.links.values()
            if not link.attaches
        },
        flows=flows,
        sessions=[_session(loaded, index, flows) for index in range(len(loaded.receivers))],
    )
    return network.model_dump(by_alias=True)


def _rates(link: Link, events: list[LinkEvent]) -> dict[str, list[list[float]]]:
    result = {}
    for end, other in ((link.a, link.b), (link.b, link.a)):
        way, parameters = f"{end[1:]}>{other[1:]}", link.sent_by(end)
        if parameters.rate:
            steps = available_steps({way: parameters}, events)
            if len(steps) > 1 or not steps[0][1]:
                result[way] = steps
    return result


def _session(
    loaded: LoadedExperiment, index: int, flows: Mapping[str, FlowSummary]
) -> SessionSummary:
    session, topology = loaded.experiment.sessions[index], loaded.topology
    suffix = session.session if index else None
    changes, events = loaded.experiment.member_changes, loaded.experiment.link_events
    rivals = {name: flow for name, flow in flows.items() if flow.rival}
    times = [
        (paths, {name: flow.directions_at(paths.start / 1e9) for name, flow in rivals.items()})
        for paths in loaded.paths
    ]

    def way(paths: Paths, node: int) -> list[str]:
        return directions(paths.of_session(session.session), session.sender, node)

    users = [Counter(link for ways in there.values() for link in ways) for _, there in times]
    receivers = {}
    for node in loaded.recorded[index]:
        parts = [
            (paths.start, _path(topology, way(paths, node), there, counts))
            for (paths, there), counts in zip(times, users, strict=True)
        ]
        first, *later = _without_repeats(parts)
        receivers[member_name(node, suffix)] = ReceiverSummary(
            node=node,
            **first[1],
            later=[LaterPath(from_s=start / 1e9, **path) for start, path in later],
            available=_available(
                topology, [(start, path["directions"]) for start, path in (first, *later)], events
            ),
            absences=absences(
                session, changes.get((session.session, node), []), loaded.experiment.duration
            ),
        )
    return SessionSummary(
        session=session.session,
        scheme=session.scheme,
        layered=loaded.layered[index],
        layers=session.layers,
        sender=member_name(session.sender, suffix),
        sender_node=session.sender,
        start_s=session.start / 1e9,
        stop_s=None if session.stop is None else session.stop / 1e9,
        round_trip_s=topology.round_trip(session.sender, loaded.receivers[index]) / 1e9,
        receivers=receivers,
    )


def absences(session: Session, changes: list[MemberChange], end: int) -> list[list[float]]:
    """The intervals, in s, during which a node is not a receiver: before its session starts, from
    each leave in `changes` to the next join, and after its session stops. `end` is the end of the
    run in ns."""
    if not changes or not changes[0].joins:
        changes = [MemberChange(0, joins=True), *changes]
    if session.stop is not None:
        before = [one for one in changes if one.at < session.stop]
        changes = [*before, MemberChange(session.stop, joins=False)]
    left: int | None = 0
    result: list[list[float]] = []
    for change in changes:
        at = max(change.at, session.start)
        if change.joins and left is not None:
            result.append([left / 1e9, at / 1e9])
            left = None
        elif not change.joins and left is None:
            left = at
    if left is not None:
        result.append([left / 1e9, end / 1e9])
    return [[left, back] for left, back in result if left < back]


T = TypeVar("T")


def _without_repeats(parts: Iterable[tuple[int, T]]) -> list[tuple[int, T]]:
    """Of (time, value): those whose value differs from the one before."""
    result: list[tuple[int, T]] = []
    for start, value in parts:
        if not result or result[-1][1] != value:
            result.append((start, value))
    return result


def _flow_paths(loaded: LoadedExperiment, flow: Flow) -> dict[str, Any]:
    """The keys of FlowSummary that say which links the flow takes."""
    parts = ((paths.start, paths.of_flow(*flow.ends)) for paths in loaded.paths)
    (_, first), *later = _without_repeats(parts)
    return {
        "directions": first,
        "later": [{"from_s": start / 1e9, "directions": ways} for start, ways in later],
        "spread": loaded.is_spread(flow),
    }


def _path(
    topology: Topology,
    directions: list[str],
    contenders: Mapping[str, list[str]],
    users: Mapping[str, int],
) -> dict[str, Any]:
    """The keys of PathSummary, with the rates at the start of the run. `contenders`: the directions
    that each rival takes; `users`: how many of them take a direction."""
    path = [topology.link_of(direction) for direction in directions]
    link, share = topology.bottleneck(directions, users)
    place = directions[path.index(link)]
    return {
        "path": path,
        "directions": directions,
        "bottleneck": link,
        "share": share,
        "rivals": [name for name, ways in contenders.items() if place in ways],
    }


def _available(
    topology: Topology, parts: list[tuple[int, list[str]]], events: list[LinkEvent]
) -> list[list[float]]:
    """As available_steps, over the path of each time: `parts` are (ns, directions)."""
    result: list[list[float]] = []
    for (start, ways), (end, _) in pairwise([*parts, (1 << 63, [])]):
        path = {way: topology.links[topology.link_of(way)].parameters for way in ways}
        found = available_steps(path, events)
        at_start = [rate for at, rate in found if at <= start / 1e9][-1]
        result += [[start / 1e9, at_start]]
        result += [[at, rate] for at, rate in found if start / 1e9 < at < end / 1e9]
    return result


def available_steps(
    path: Mapping[str, LinkParameters], events: list[LinkEvent]
) -> list[list[float]]:
    """Steps (time in s, bit/s) of the smallest rate on a path as link events change it; 0 while a
    link is down. `path` holds the links by the direction in which the path takes them, "1>3"."""
    rates = {way: parameters.rate for way, parameters in path.items()}
    down = {way for way, parameters in path.items() if parameters.wire.up is False}
    names = {
        name: way for way in path for a, b in [way.split(">")]
        for name in (way, f"{a}-{b}", f"{b}-{a}")
    }  # fmt: skip

    def available() -> float:
        return 0.0 if down else float(min(rate for rate in rates.values() if rate))

    steps = [[0.0, available()]]
    for event in events:
        way = names.get(event.link)
        if way is None or (event.rate is None and event.wire.up is None):
            continue
        rates[way] = rates[way] if event.rate is None else event.rate
        if event.wire.up is not None:
            (down.discard if event.wire.up else down.add)(way)
        steps.append([event.at / 1e9, available()])
    return steps
