"""Checks what no key of an experiment can show alone.

Every error is an InputError that names the key that is easiest to change.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any

from tiercast_controller.base import units
from tiercast_controller.base.bounded_yaml import shown
from tiercast_controller.base.errors import ParameterError
from tiercast_controller.base.limits import MAX_SESSION
from tiercast_controller.network.routes import Routes
from tiercast_controller.network.topology import MAX_PORT

from tiercast_lab.base.errors import InputError, among, closest, listed
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.observed_schema import State, Trace, entry_path
from tiercast_lab.experiment.paths import Paths, directions
from tiercast_lab.experiment.quantities import MAX_CHANGES, MAX_FLOWS, START_SPREAD_NS
from tiercast_lab.experiment.schema import (
    Churn,
    Event,
    Expectation,
    Experiment,
    MemberEvent,
    Session,
    Traffic,
)
from tiercast_lab.experiment.schemes import SchemeInfo
from tiercast_lab.experiment.topology import Edge, LinkParameters, Topology
from tiercast_lab.experiment.topology_schema import LinkChange, LinkDefault, TopologyModel
from tiercast_lab.experiment.wire import WIRE_KEYS, Wire
from tiercast_lab.experiment.yaml_source import KeyPath, Source
from tiercast_lab.measures import MEASURES


def check(
    source: Source, experiment: Experiment, schemes: dict[str, SchemeInfo], file: str
) -> LoadedExperiment:
    """Returns the experiment with its network, and with its sessions and flows listed one by one.
    Raises InputError."""
    links = _links(source, experiment.topology)
    nodes = {node for link in links for node in link}
    for key in ("names", "places"):
        for node in getattr(experiment.topology, key):
            if not re.fullmatch("0|[1-9][0-9]{0,5}", node) or int(node) not in nodes:
                raise source.error(("topology", key, node), _no_node(shown(node), nodes))
    routes = Routes({link: parameters.path_delay for link, parameters in links.items()})
    sessions, receivers = _sessions(source, experiment, schemes, links, nodes)
    first = sessions[0] if sessions else None
    _check_traffic(source, experiment, nodes, len(receivers[0]) if receivers else 0)
    paths = Paths(0, routes, experiment.topology.equal_costs)
    tree = paths.of_session(first.session if first else 0)
    members = {one.session: of_one for one, of_one in zip(sessions, receivers, strict=True)}
    experiment = experiment.model_copy(
        update={
            "sessions": sessions,
            "churn": [
                _with_nodes(source, index, one, first.session if first else 0, members)
                for index, one in enumerate(experiment.churn)
            ],
            "traffic": [
                one
                for entry in experiment.traffic
                for one in (_single(entry, tree, first.sender, receivers[0]) if first else [entry])
            ],
            "expect": [
                _resolved(source, index, one, sessions, links, routes)
                for index, one in enumerate(experiment.expect)
            ],
        }
    )
    topology = Topology(
        links,
        [session.sender for session in sessions],
        [node for of_one in receivers for node in of_one],
        [node for entry in experiment.traffic for node in entry.nodes],
    )
    _check_ports(source, topology)
    _check_switches(source, experiment.topology, topology)
    _check_groups(source, experiment)
    _check_changes(source, experiment)
    _check_events(source, experiment, topology, links)
    _check_observed(source, experiment, topology, links)
    _check_members(source, experiment, members)
    _check_churn(source, experiment)
    _check_window(source, experiment)
    loaded = LoadedExperiment(
        experiment,
        topology,
        tuple(receivers),
        tuple(schemes[session.scheme].layered for session in sessions),
        source.data,
        file,
        {session.scheme: schemes[session.scheme].records for session in sessions},
        {
            session.scheme: {
                name: info.default for name, info in schemes[session.scheme].parameters.items()
            }
            for session in sessions
        },
        sources=source.files,
    )
    _check_aggregation(source, loaded)
    _check_markings(source, loaded)
    _check_expectations(source, loaded)
    return replace(loaded, notes=_notes(loaded))


def require_real_time(loaded: LoadedExperiment) -> None:
    """Raises InputError if the experiment asks for what only virtual time has."""
    if keys := loaded.experiment.only_in_virtual_time:
        raise InputError(f"{loaded.file}: {', '.join(keys)}: not in Mininet; valid: --runtime ns3")


def wrong_parameter(name: str, value: object, scheme: SchemeInfo) -> str:
    """Says what is wrong with a parameter of a scheme; empty if nothing is."""
    info = scheme.parameters.get(name)
    if info is None:
        names = list(scheme.parameters)
        return f"unknown parameter of {scheme.name}; valid: {', '.join(names) or 'none'}" + closest(
            name, names
        )
    number: object = value
    seen = f"{value:g}" if isinstance(value, float) else shown(value)
    try:
        if isinstance(value, str) and info.unit == "bit/s":
            number = units.parse_rate(value)
        elif isinstance(value, str) and info.unit == "s":
            number = units.parse_duration(value) / 1e9
    except ValueError as error:
        return str(error)
    valid = f"{info.min:g} to {info.max:g} {info.unit}".rstrip()
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return f"{seen} is not a number; valid: {valid}"
    if not info.min <= number <= info.max:
        return f"{seen} is out of range; valid: {valid}"
    if info.whole and number != int(number):
        return f"{seen} is not a whole number; valid: {valid}"
    return ""


def _links(source: Source, model: TopologyModel) -> dict[Edge, LinkParameters]:
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
                raise source.error(("topology", "links", f"{a}-{b}"), _no_link(f"{a}-{b}", ends))
    drawn = model.drawn.links if model.drawn is not None else []
    for index, name in enumerate(drawn):
        if name not in [f"{a}-{b}" for a, b in ends]:
            raise source.error(("topology", "drawn", "links", str(index)), _no_link(name, ends))
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
            raise source.error(path, "not a link; valid: two node numbers, such as 1-3")
        a, b = _ends(name)
        if name != f"{a}-{b}":
            raise source.error(path, f"valid: {a}-{b}")
        if a == b:
            raise source.error(path, "from a node to itself; valid: two node numbers, such as 1-3")
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
        fair=first("scheduling") == "fair",
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


def _sessions(
    source: Source,
    experiment: Experiment,
    schemes: dict[str, SchemeInfo],
    links: Collection[Edge],
    nodes: set[int],
) -> tuple[list[Session], list[tuple[int, ...]]]:
    """All sessions, with unicast ones listed one by one, and for each the nodes of its
    receivers."""
    degree = Counter(node for link in links for node in link)
    leaves = [node for node in sorted(degree) if degree[node] == 1]
    sessions: list[Session] = []
    receivers: list[tuple[int, ...]] = []
    numbers: set[int] = set()
    for index, session in enumerate(experiment.sessions):
        path = ("sessions", str(index))
        if session.scheme not in schemes:
            raise source.error(
                (*path, "scheme"), f"unknown scheme {among(session.scheme, schemes)}"
            )
        _check_scheme(source, path, session, schemes)
        _check_stop(source, path, session, experiment.duration)
        senders = session.senders or [session.sender]
        _check_senders(source, path, senders, nodes)
        if session.receivers == "leaves":
            wanted = leaves
        else:
            wanted = list(session.receivers)
            # Of several senders each may receive the others.
            apart = senders if len(senders) == 1 else []
            _check_receivers(source, (*path, "receivers"), wanted, apart, nodes)
        listed_sessions = [
            pair
            for sender in senders
            for pair in _unicast(
                session.model_copy(update={"sender": sender, "senders": []}),
                tuple(node for node in wanted if node != sender),
            )
        ]
        if not all(of_one for _, of_one in listed_sessions) or not listed_sessions:
            text = "there are no receivers: the leaves are the nodes with one link; valid: a list"
            raise source.error((*path, "receivers"), text)
        last = session.session + len(listed_sessions) - 1
        if last > MAX_SESSION:
            raise source.error(
                (*path, "session"), f"sessions up to {last}; valid: up to {MAX_SESSION}"
            )
        for offset, (plain, of_one) in enumerate(listed_sessions):
            one = plain.model_copy(update={"session": session.session + offset})
            if one.session in numbers:
                raise source.error(
                    (*path, "session"), f"session {one.session} is given twice; valid: once"
                )
            numbers.add(one.session)
            sessions.append(one)
            receivers.append(of_one)
    return sessions, receivers


def _check_senders(source: Source, path: KeyPath, senders: Sequence[int], nodes: set[int]) -> None:
    for index, node in enumerate(senders):
        several = (*path, "senders", str(index))
        here = several if several in source.places else (*path, "sender")
        if node not in nodes:
            raise source.error(here, _no_node(node, nodes))
        if node in senders[:index]:
            raise source.error(here, f"node {node} is given twice; valid: once")


def _check_receivers(
    source: Source, path: KeyPath, receivers: Sequence[int], senders: list[int], nodes: set[int]
) -> None:
    before: set[int] = set()
    for index, node in enumerate(receivers):
        here = (*path, str(index))
        if node not in nodes or node in senders:
            raise source.error(here, f"{_no_node(node, nodes)}, but the sender's")
        if node in before:
            raise source.error(here, f"node {node} is given twice; valid: once")
        before.add(node)


def _unicast(session: Session, receivers: tuple[int, ...]) -> Iterator[tuple[Session, Any]]:
    """The session with its receivers or, if it is unicast, one session for each of them. Their
    numbers are still to be set."""
    if not session.unicast:
        yield session, receivers
        return
    for node in receivers:
        yield session.model_copy(update={"receivers": [node], "unicast": False}), (node,)


def _with_nodes(
    source: Source, index: int, churn: Churn, first: int, members: Mapping[int, Sequence[int]]
) -> Churn:
    """The churn with its receivers as nodes. `members` are the receivers of each session; `first`
    is the number of the first one."""
    path = ("churn", str(index))
    number = first if churn.session is None else churn.session
    if number not in members:
        raise source.error((*path, "session"), _no_session(number, members))
    if churn.receivers == "all":
        return churn.model_copy(update={"receivers": list(members[number])})
    for i, node in enumerate(churn.receivers):
        if node not in members[number]:
            raise source.error(
                (*path, "receivers", str(i)), _no_receiver(number, node, members[number])
            )
    return churn


def _check_scheme(
    source: Source, path: KeyPath, session: Session, schemes: dict[str, SchemeInfo]
) -> None:
    scheme = schemes[session.scheme]
    if session.layers > 1 and not scheme.layered:
        raise source.error(
            (*path, "layers"), f"{scheme.name} has one rate for all receivers; valid: 1"
        )
    if session.aggregation == "network" and not scheme.aggregated:
        able = ", ".join(one.name for one in schemes.values() if one.aggregated) or "no scheme"
        raise source.error(
            (*path, "aggregation"),
            f"switches can aggregate the feedback of {able} only; valid: sender",
        )
    for name, value in session.parameters.items():
        if wrong := wrong_parameter(name, value, scheme):
            raise source.error((*path, "parameters", name), wrong)


def _check_traffic(source: Source, experiment: Experiment, nodes: set[int], receivers: int) -> None:
    flows = 0
    for index, entry in enumerate(experiment.traffic):
        path = ("traffic", str(index))
        for key, node in (("from", entry.from_), ("to", entry.to)):
            if isinstance(node, int) and node not in nodes:
                raise source.error((*path, key), _no_node(node, nodes))
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


def _check_groups(source: Source, experiment: Experiment) -> None:
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


def _single(
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


def _check_ports(source: Source, topology: Topology) -> None:
    for switch in topology.switches.values():
        if len(switch.ports) > MAX_PORT:
            raise source.error(
                ("topology",),
                f"{len(switch.ports)} links and hosts at node {switch.number}; valid: up to "
                f"{MAX_PORT}, the ports of a switch",
            )


def _check_markings(source: Source, loaded: LoadedExperiment) -> None:
    """Raises InputError if the switches cannot hold what a link's marking says."""
    checked: set[tuple[int, int, int]] = set()  # for links that are alike, one check is enough
    for name, link in loaded.topology.links.items():
        path, marking = loaded.experiment.placed_marking(name)
        rate, packet_size = link.parameters.rate, loaded.packet_size_of(name)
        if rate and link.parameters.fair and marking.priority_queues() is not None:
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


def _check_stop(source: Source, path: KeyPath, session: Session, duration: int) -> None:
    least = session.start + START_SPREAD_NS
    if session.stop is not None and not least <= session.stop <= duration:
        raise source.error(
            (*path, "stop"),
            f"{units.format_duration(session.stop)}; valid: from {units.format_duration(least)}, "
            f"when all receivers have started, to the end of the run "
            f"({units.format_duration(duration)})",
        )


def _check_changes(source: Source, experiment: Experiment) -> None:
    """Raises InputError if there are more changes than a run can hold, before they are listed."""
    changes = 0
    lists: dict[str, Sequence[Event | MemberEvent]] = {
        "events": experiment.events, "members": experiment.members,
    }  # fmt: skip
    for key, events in lists.items():
        for index, event in enumerate(events):
            each = len(event.receivers) if isinstance(event, MemberEvent) else 1
            changes += each * len(experiment.times(event))
            if changes > MAX_CHANGES:
                raise source.error(
                    (key, str(index)), f"{changes} changes; valid: up to {MAX_CHANGES} in a run"
                )
    for index, churn in enumerate(experiment.churn):
        changes += 2 * (experiment.end_of(churn.session) // churn.arrivals.every)
        if changes > MAX_CHANGES:
            raise source.error(
                ("churn", str(index), "arrivals", "every"),
                f"about {changes} changes; valid: up to {MAX_CHANGES} in a run",
            )


def _check_events(
    source: Source, experiment: Experiment, topology: Topology, links: Collection[Edge]
) -> None:
    """Checks the changes of links."""
    names = set()
    if experiment.events:
        names = {name for a, b in links for name in (f"{a}-{b}", f"{a}>{b}", f"{b}>{a}")}
    for index, event in enumerate(experiment.events):
        path = ("events", str(index))
        if event.link not in names:
            text = f"{_no_link(event.link, links)}; or a direction, such as 1>0"
            raise source.error((*path, "link"), text)
        (_, sender, _), *both = topology.sides(event.link)
        for key in ("rate", "queue"):
            if not both and sender in topology.hosts and getattr(event, key) is not None:
                raise source.error(
                    (*path, key),
                    f"{event.link} leaves a host, and hosts have no queue; valid: delay, "
                    f"{', '.join(WIRE_KEYS)}, or the other direction",
                )
        if event.at >= experiment.duration:
            raise source.error(
                (*path, "at"),
                f"{units.format_duration(event.at)} is not before the end of the run "
                f"({units.format_duration(experiment.duration)})",
            )


def _check_observed(
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
            text = f"{_no_link(one.link, links)}; or a direction, such as 1>0"
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


def _check_churn(source: Source, experiment: Experiment) -> None:
    """Checks that arrivals lie within their session, and that each receiver comes and goes by one
    rule."""
    taken = {
        (experiment.number_of(event.session), node)
        for event in experiment.members
        for node in event.receivers
    }
    for index, churn in enumerate(experiment.churn):
        path = ("churn", str(index))
        number = experiment.number_of(churn.session)
        end = experiment.end_of(number)
        stop = end if churn.arrivals.stop is None else churn.arrivals.stop
        for key, at, most in (("stop", stop, end), ("start", churn.arrivals.start, stop)):
            if at > most or (key == "start" and at == most):
                raise source.error(
                    (*path, "arrivals", key),
                    f"{units.format_duration(at)}; valid: before {units.format_duration(most)}",
                )
        assert not isinstance(churn.receivers, str)
        for i, node in enumerate(churn.receivers):
            if (number, node) in taken:
                here = (*path, "receivers", str(i))
                raise source.error(
                    here if here in source.places else path,
                    f"receiver {node} of session {number} comes and goes by another entry, too; "
                    "valid: once in `churn` or in `members`",
                )
            taken.add((number, node))


def _check_members(
    source: Source, experiment: Experiment, members: Mapping[int, Collection[int]]
) -> None:
    """Checks that whoever leaves or joins is a receiver of that session, and that no receiver
    leaves before it has certainly started."""
    starts = {session.session: session.start for session in experiment.sessions}
    members = {number: frozenset(nodes) for number, nodes in members.items()}
    for index, event in enumerate(experiment.members):
        path = ("members", str(index))
        session = experiment.sessions[0].session if event.session is None else event.session
        if session not in members:
            raise source.error((*path, "session"), _no_session(session, members))
        if event.at >= (end := experiment.end_of(session)) and end < experiment.duration:
            raise source.error(
                (*path, "at"),
                f"{units.format_duration(event.at)}; valid: before session {session} stops "
                f"({units.format_duration(end)})",
            )
        for i, node in enumerate(event.receivers):
            if node not in members[session]:
                raise source.error(
                    (*path, "receivers", str(i)),
                    _no_receiver(session, node, members[session]),
                )
    first_joins = experiment.first_joins
    for (session, node), changes in sorted(experiment.member_changes.items()):
        leaves = [one.at for one in changes if not one.joins]
        start = max(starts[session], first_joins.get((session, node), 0))
        if leaves and leaves[0] < start + START_SPREAD_NS:
            raise source.error(
                ("members",),
                f"node {node} leaves at {units.format_duration(leaves[0])}; valid: from "
                f"{units.format_duration(start + START_SPREAD_NS)} on, when it has started",
            )


def _check_window(source: Source, experiment: Experiment) -> None:
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


def _resolved(
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
            text = f"{_no_link(expectation.link, links)}; or a direction, such as 1>0"
            raise source.error(("expect", str(index), "link"), text)
        update["link"] = valid[expectation.link]
    return expectation.model_copy(update=update)


def _check_aggregation(source: Source, loaded: LoadedExperiment) -> None:
    """Raises InputError where feedback that is to be aggregated takes another path than data."""
    if loaded.experiment.topology.equal_costs == "one" or loaded.topology.is_tree:
        return
    for index, session in enumerate(loaded.experiment.sessions):
        if session.aggregation == "network":
            raise source.error(
                ("sessions", str(index), "aggregation"),
                "network needs feedback to come back along the tree, and with `equal_costs: "
                f"{loaded.experiment.topology.equal_costs}` it may not; valid: sender",
            )


def _check_switches(source: Source, model: TopologyModel, topology: Topology) -> None:
    numbers = {str(switch.number) for switch in topology.switches.values()}
    for node in model.switches:
        if node not in numbers:
            raise source.error(
                ("topology", "switches", node),
                f"no switch at node {shown(node)}; valid: {listed(sorted(map(int, numbers)))}",
            )


def _notes(loaded: LoadedExperiment) -> tuple[str, ...]:
    spread = [name for name, flow in loaded.flows.items() if loaded.is_spread(flow)]
    if not spread:
        return ()
    return (
        f"equal_costs: each connection of {listed(spread)} may take another of several equal "
        "paths; measures count these flows only on links that all of the paths have",
    )


def _check_expectations(source: Source, loaded: LoadedExperiment) -> None:
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
            raise source.error((*path, "session"), _no_session(number, sessions))
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


def _no_receiver(session: int, node: int, valid: Collection[int]) -> str:
    return f"no receiver of session {session} is at node {node}; valid: {listed(sorted(valid))}"


def _no_session(number: int, valid: Collection[int]) -> str:
    return f"no session {number}; valid: {listed(sorted(valid))}"


def _no_node(node: int | str, nodes: Collection[int]) -> str:
    valid = sorted(nodes)
    text = f"{valid[0]}..{valid[-1]}" if len(valid) > 12 else ", ".join(map(str, valid))
    return f"no node {node}; valid: {text}"


def _no_link(name: str, links: Collection[Edge]) -> str:
    return f"no link {among(name, [f'{a}-{b}' for a, b in links])}"
