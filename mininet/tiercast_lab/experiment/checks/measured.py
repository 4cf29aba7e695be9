"""What is measured: the window, traces and registers, expected figures."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tiercast_controller.base import units
from tiercast_controller.network.routes import Routes

from tiercast_lab.base.errors import among, listed
from tiercast_lab.experiment.checks.unknown import no_link, no_session
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.observed_schema import State, Trace, entry_path
from tiercast_lab.experiment.paths import directions
from tiercast_lab.experiment.schema import (
    Expectation,
    Experiment,
    Session,
    Traffic,
)
from tiercast_lab.experiment.topology import Edge, Topology
from tiercast_lab.experiment.yaml_source import KeyPath, Source
from tiercast_lab.measures import MEASURES


def check_observed(
    source: Source, experiment: Experiment, topology: Topology, links: Collection[Edge]
) -> None:
    """Checks the links of `trace`, and the places of `state`."""
    names = set()
    if experiment.trace or experiment.state:
        names = {name for a, b in links for name in (f"{a}-{b}", f"{a}>{b}", f"{b}>{a}")}
    traced: dict[tuple[str, str], int] = {}
    entries: list[tuple[str, int, Trace | State]] = [
        *(("trace", index, one) for index, one in enumerate(experiment.trace)),
        *(("state", index, one) for index, one in enumerate(experiment.state)),
    ]
    for key, index, one in entries:
        path = entry_path(source.data, key, index)
        if one.link is None:
            assert isinstance(one, State) and one.node is not None  # State's checks ensure this
            if f"s{one.node}" not in topology.switches:
                valid = [switch.number for switch in topology.switches.values()]
                raise source.error(
                    (*path, "node"), f"no switch at node {one.node}; valid: {listed(valid)}"
                )
            continue
        if one.link not in names:
            text = f"{no_link(one.link, links)}; or a direction, such as 1>0"
            raise source.error((*path, "link"), text)
        ways = [way for _, *way in topology.sides(one.link) if way[0] in topology.switches]
        if not ways:
            raise source.error(
                (*path, "link"),
                f"{one.link} leaves a host, and hosts have no queue; valid: the other direction",
            )
        for near, far in ways if key == "trace" else ():
            if (first := traced.setdefault((near, far), index)) != index:
                raise source.error(
                    (*path, "link"),
                    f"{one.link} is traced by entry {first} already; valid: each direction once",
                )


def check_window(source: Source, experiment: Experiment) -> None:
    measure, end = experiment.measure, experiment.duration
    of_run = f"of the run ({units.format_duration(end)})"
    if measure.until is not None and measure.until > end:
        raise source.error(
            ("measure", "until"),
            f"{units.format_duration(measure.until)} is after the end {of_run}",
        )
    if measure.last is not None and measure.last > (until := measure.until or end):
        raise source.error(
            ("measure", "last"),
            f"{units.format_duration(measure.last)} is longer than the part before `until`, or "
            f"the end {of_run}; valid: up to {units.format_duration(until)}, or no `last`",
        )
    for name, (_, period_end) in measure.periods.items():
        if period_end > end:
            raise source.error(
                ("measure", "periods", name),
                f"it ends at {units.format_duration(period_end)}; valid: by the end {of_run}",
            )
    for index, expectation in enumerate(experiment.figure.expect if experiment.figure else []):
        named = [expectation.measure]
        if expectation.over is not None and expectation.over.measure is not None:
            named.append(expectation.over.measure)
        for name in named:
            _, at, period = name.partition("@")
            if at and period not in measure.periods:
                raise source.error(
                    ("figure", "expect", str(index), "measure"),
                    f"{name}: no period {among(period, measure.periods or ['none'])}",
                )


def resolved(
    source: Source,
    index: int,
    expectation: Expectation,
    sessions: list[Session],
    links: Collection[Edge],
    routes: Routes[int],
) -> Expectation:
    """The expectation with its link as a direction, and with None as its session if that is the
    first."""
    number = expectation.session
    update: dict[str, Any] = {}
    if sessions and number == sessions[0].session:
        update["session"] = number = None
    if expectation.link is not None:
        nearest = sessions[0].sender if sessions else min(node for link in links for node in link)
        sender = next((one.sender for one in sessions if one.session == number), nearest)
        valid = {way: way for a, b in links for way in (f"{a}>{b}", f"{b}>{a}")}
        distance = routes.distances(sender)
        for a, b in links:
            valid[f"{a}-{b}"] = f"{b}>{a}" if distance[b] < distance[a] else f"{a}>{b}"
        if expectation.link not in valid:
            text = f"{no_link(expectation.link, links)}; or a direction, such as 1>0"
            raise source.error(("expect", str(index), "link"), text)
        update["link"] = valid[expectation.link]
    return expectation.model_copy(update=update)


def check_expectations(source: Source, loaded: LoadedExperiment) -> None:
    """Raises InputError if the run will not have what the experiment expects figures of."""
    experiment = loaded.experiment
    sessions = {session.session: session for session in experiment.sessions}
    receivers = dict(zip(sessions, loaded.recorded, strict=True))
    udp = [name for name, flow in loaded.flows.items() if flow.kind == "udp"]
    used = _used_directions(loaded) if any(one.link for one in experiment.expect) else set()
    for index, expectation in enumerate(experiment.expect):
        path = ("expect", str(index))
        if expectation.link is not None and expectation.link not in used:
            raise source.error(
                (*path, "link"),
                f"no packets of a session or flow take {expectation.link}; valid: "
                f"{listed(sorted(used))}",
            )
        if not sessions:
            if not MEASURES[expectation.measure].of_run:
                raise source.error(
                    (*path, "measure"),
                    f"{expectation.measure} is of a session, and there is none; valid: "
                    f"{listed([name for name, one in MEASURES.items() if one.of_run])}",
                )
            _check_flows(source, path, expectation, experiment.traffic, udp)
            continue
        number = expectation.session
        if number is None:
            number = experiment.sessions[0].session
        if number not in sessions:
            raise source.error((*path, "session"), no_session(number, sessions))
        if expectation.receiver is not None and expectation.receiver not in receivers[number]:
            raise source.error(
                (*path, "receiver"),
                f"no receiver with rows at node {expectation.receiver}; valid in session "
                f"{number}: {listed(receivers[number])}",
            )
        layers = sessions[number].layers
        if expectation.layers is not None and expectation.layers > layers:
            raise source.error(
                (*path, "layers"),
                f"{expectation.layers} layers; valid: up to {layers}, as session {number} has",
            )
        _check_flows(source, path, expectation, experiment.traffic, udp)


def _used_directions(loaded: LoadedExperiment) -> set[str]:
    """The directions of links that the data of sessions and flows take."""
    used: set[str] = set()
    flows = {flow.ends for flow in loaded.flows.values()}
    for paths in loaded.paths:
        for flow in flows:
            used.update(paths.open_to(*flow))
        for session, receivers in zip(loaded.experiment.sessions, loaded.recorded, strict=True):
            routes = paths.of_session(session.session)
            for node in receivers:
                used.update(directions(routes, session.sender, node))
    return used


def _check_flows(
    source: Source,
    path: KeyPath,
    expectation: Expectation,
    traffic: list[Traffic],
    udp: list[str],
) -> None:
    """Raises InputError if the run lacks the competing flows that a measure needs. `udp` lists the
    names of the UDP flows."""
    spec = MEASURES[expectation.measure]
    if spec.beside == "tcp" and not any(entry.is_rival for entry in traffic):
        raise source.error(
            (*path, "measure"),
            f"{expectation.measure} needs `traffic` of rivals: TCP flows that stay, or `rival`",
        )
    if spec.beside == "udp" and not udp:
        raise source.error((*path, "measure"), f"{expectation.measure} needs `traffic` of kind udp")
    if expectation.flow is not None and expectation.flow not in udp:
        raise source.error((*path, "flow"), f"no UDP flow {among(expectation.flow, udp)}")
