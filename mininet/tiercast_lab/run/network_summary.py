"""Builds the part `network` of summary.json: what measures, plots and reports need to know of a
run's network, so that they never read its YAML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from tiercast_controller.network.routes import Routes, steps
from tiercast_controller.network.topology import DOWN

from tiercast_lab.experiment.churn import MemberChange
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.schema import LinkEvent, Session, member_name
from tiercast_lab.experiment.topology import Link, LinkParameters, Topology
from tiercast_lab.results.summary import (
    FlowSummary,
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
                "directions": topology.directions(flow.source, flow.destination),
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
    contenders = {name: flow for name, flow in flows.items() if flow.rival}
    users = Counter(direction for flow in contenders.values() for direction in flow.directions)
    changes, events = loaded.experiment.member_changes, loaded.experiment.link_events
    moves = _moves(topology, events)
    receivers = {}
    for node in loaded.recorded[index]:
        path = topology.path(session.sender, node)
        directions = topology.directions(session.sender, node)
        link, share = topology.bottleneck(session.sender, node, users)
        direction = directions[path.index(link)]
        receivers[member_name(node, suffix)] = ReceiverSummary(
            node=node,
            path=path,
            directions=directions,
            bottleneck=link,
            share=share,
            rivals=[name for name, flow in contenders.items() if direction in flow.directions],
            available=_available(topology, moves, session.sender, node, events),
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


def _moves(topology: Topology, events: list[LinkEvent]) -> list[tuple[int, Routes[int]]]:
    """The paths from each time, in ns, at which links fail or return; the first from 0 on."""
    result = [(0, topology.routes)]
    if all(event.wire.up is None for event in events):
        return result
    links = {
        (a, b): topology.links[topology.link_between(a, b)].parameters.delay
        for a, near in topology.routes.neighbours.items()
        for b in near
        if a < b
    }
    if len(links) < len(topology.routes.neighbours):  # a tree: nothing moves
        return result
    down = {  # directions
        way
        for link in topology.links.values()
        if link.parameters.wire.up is False
        for way in ((link.a[1:], link.b[1:]), (link.b[1:], link.a[1:]))
    }
    for event in events:
        if event.wire.up is None:
            continue
        for _, sender, receiver in topology.sides(event.link):
            (down.discard if event.wire.up else down.add)((sender[1:], receiver[1:]))
        failed = {tuple(sorted(map(int, ends))) for ends in down}
        now = {link: delay + (DOWN if link in failed else 0) for link, delay in links.items()}
        result.append((event.at, Routes(now)))
    return result


def _available(
    topology: Topology,
    moves: list[tuple[int, Routes[int]]],
    sender: int,
    node: int,
    events: list[LinkEvent],
) -> list[list[float]]:
    """As available_steps, over the path of each time."""
    result: list[list[float]] = []
    for (start, routes), (end, _) in pairwise([*moves, (1 << 63, moves[0][1])]):
        path = {
            f"{a}>{b}": topology.links[topology.link_between(a, b)].parameters
            for a, b in steps(routes.path(sender, node))
        }
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
