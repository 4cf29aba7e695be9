"""Reads an experiment: its base, what it includes, its settings, and all that can be wrong with it.

Everything is checked before anything starts. Every error is an InputError that names file, line,
key path, the value seen and the valid choices.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tiercast_controller import ConfigurationError

from tiercast_lab import binaries, units
from tiercast_lab.errors import InputError, among, closest
from tiercast_lab.experiment import (
    MAX_SESSION,
    START_SPREAD_NS,
    Expectation,
    Experiment,
    LinkChange,
    LinkDefault,
    Loaded,
    Session,
    TopologyModel,
    Traffic,
)
from tiercast_lab.measures import MEASURES
from tiercast_lab.model import validate
from tiercast_lab.schemes import SchemeInfo
from tiercast_lab.topology import LinkParameters, Topology
from tiercast_lab.yaml_source import KeyPath, Source, load_yaml, merge

# Schemes whose feedback the P4 program can sum up (docs/p4.md).
AGGREGATED = ("sim",)


def load_experiment(
    file: Path,
    schemes: dict[str, SchemeInfo],
    settings: list[str] | None = None,
    duration: str | None = None,
    places: Mapping[str, str] | None = None,
) -> Loaded:
    """Raises InputError.

    `settings`: `key.path=value` over the file, or `sim.delta=0.9`, a parameter of a scheme;
    `places`: where the setting of a key stands, for errors, if not on the command line.
    """
    source = _with_include(load_extending(file, "base", binaries.BASES), file)
    if "axes" in source.data:
        raise source.error(("axes",), f"it is a sweep; valid: tiercast sweep {file}")
    for setting in settings or []:
        _apply(source, setting, schemes, places or {})
    if duration is not None:
        source.data["duration"] = duration
        source.places[("duration",)] = "--duration"
    experiment = validate(Experiment, source)
    return _check(source, experiment, schemes, file)


def load_extending(file: Path, what: str, folder: Path) -> Source:
    """`extends: NAME` puts the file on top of NAME.yaml of the folder, or of one of that name
    beside the file: mappings are merged key by key. `what`: a file there, for errors."""
    source = load_yaml(file)
    if "extends" not in source.data:
        return source
    wanted = source.data.pop("extends")
    base = _named(source, ("extends",), what, wanted, file, folder)
    return merge(load_yaml(base), source)


def _named(
    source: Source, path: KeyPath, what: str, wanted: object, file: Path, folder: Path
) -> Path:
    # One's own beside the experiment, then those that tiercast brings.
    folders = (folder, file.parent / folder.name)
    known = {found.stem: found for place in folders for found in place.glob("*.yaml")}
    if wanted not in known:
        raise source.error(path, f"no {what} {among(wanted, sorted(known))}")
    return known[wanted]


def _with_include(source: Source, file: Path) -> Source:
    topology = source.data.get("topology")
    if not isinstance(topology, dict) or "include" not in topology:
        return source
    wanted = topology.pop("include")
    path = ("topology", "include")
    included = _named(source, path, "topology", wanted, file, binaries.TOPOLOGIES)
    return merge(load_yaml(included), source, ("topology",))


def _apply(
    source: Source, setting: str, schemes: dict[str, SchemeInfo], places: Mapping[str, str]
) -> None:
    import yaml

    key, equals, text = setting.partition("=")
    if not equals or not key:
        raise InputError(f"--set {setting}: not of the form key=value")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise InputError(f"--set {setting}: the value is not YAML") from None
    place = places.get(key, f"--set {setting}")
    scheme = key.split(".")[0]
    if scheme in schemes:
        for index, session in enumerate(source.data.get("sessions") or []):
            if isinstance(session, dict) and session.get("scheme") == scheme:
                session.setdefault("parameters", {})[key] = value
                source.places[("sessions", str(index), "parameters", key)] = place
        if key not in schemes[scheme].parameters:
            raise InputError(f"{place}: {_unknown_parameter(key, schemes[scheme])}")
        return
    target: Any = source.data
    *parents, last = key.split(".")
    for part in parents:
        if isinstance(target, list) and part.isdigit() and int(part) < len(target):
            target = target[int(part)]
        elif isinstance(target, dict):
            target = target.setdefault(part, {})
        else:
            raise InputError(f"{place}: the experiment has no {part!r} there")
    if isinstance(target, list) and last.isdigit() and int(last) < len(target):
        target[int(last)] = value
    elif isinstance(target, dict):
        target[last] = value
    else:
        raise InputError(f"{place}: the experiment has no {last!r} there")
    source.places[tuple(key.split("."))] = place


def without_effect(
    loaded: Loaded, settings: list[str], schemes: dict[str, SchemeInfo]
) -> list[str]:
    """What is to be said of settings of schemes that no session has: in the cells of a sweep they
    are meant to be left out, in a run alone they are rather a mistake."""
    present = sorted({session.scheme for session in loaded.experiment.sessions})
    named = {setting: setting.partition(".")[0] for setting in settings}
    return [
        f"--set {setting} changes nothing: no session is of {scheme}; there is {', '.join(present)}"
        for setting, scheme in named.items()
        if scheme in schemes and scheme not in present
    ]


def _unknown_parameter(name: str, scheme: SchemeInfo) -> str:
    valid = list(scheme.parameters)
    return f"unknown parameter of {scheme.name}; valid: {', '.join(valid)}{closest(name, valid)}"


def _check(
    source: Source, experiment: Experiment, schemes: dict[str, SchemeInfo], file: Path
) -> Loaded:
    links = _links(source, experiment.topology)
    nodes = sorted({node for link in links for node in link})
    valid_nodes = f"{nodes[0]}..{nodes[-1]}" if len(nodes) > 12 else ", ".join(map(str, nodes))
    sessions, receivers = _sessions(source, experiment, schemes, links, valid_nodes)
    _check_traffic(source, experiment, set(nodes), valid_nodes)
    experiment = experiment.model_copy(
        update={
            "sessions": sessions,
            "traffic": [
                one
                for entry in experiment.traffic
                for one in _single(entry, links, sessions[0].sender, receivers[0])
            ],
            "expect": [
                one.model_copy(update={"session": None})
                if one.session == sessions[0].session
                else one
                for one in experiment.expect
            ],
        }
    )
    topology = Topology(
        links,
        [session.sender for session in sessions],
        [node for of_one in receivers for node in of_one],
        [node for entry in experiment.traffic for node in (entry.from_, entry.to)],
    )
    _check_markings(source, experiment, topology)
    _check_events(source, experiment, links)
    _check_members(source, experiment, receivers)
    _check_periods(source, experiment)
    layered = tuple(schemes[session.scheme].layered for session in sessions)
    loaded = Loaded(experiment, topology, tuple(receivers), layered, source.data, str(file))
    _check_expectations(source, loaded)
    return loaded


def _sessions(
    source: Source,
    experiment: Experiment,
    schemes: dict[str, SchemeInfo],
    links: Iterable[tuple[int, int]],
    valid_nodes: str,
) -> tuple[list[Session], list[tuple[int, ...]]]:
    """Every session, those of unicast ones too, with the nodes of its receivers."""
    degree = Counter(node for link in links for node in link)
    sessions: list[Session] = []
    receivers: list[tuple[int, ...]] = []
    numbers: set[int] = set()
    for index, session in enumerate(experiment.sessions):
        path = ("sessions", str(index))
        if session.scheme not in schemes:
            raise source.error(
                (*path, "scheme"), f"unknown scheme {among(session.scheme, schemes)}"
            )
        _check_scheme(source, path, session, schemes[session.scheme])
        _check_parameters(source, path, session, schemes[session.scheme])
        if session.sender not in degree:
            raise source.error((*path, "sender"), f"no node {session.sender}; valid: {valid_nodes}")
        if session.receivers == "leaves":
            found = tuple(n for n in sorted(degree) if degree[n] == 1 and n != session.sender)
        else:
            found = tuple(session.receivers)
            for i, node in enumerate(found):
                if node not in degree or node == session.sender:
                    raise source.error(
                        (*path, "receivers", str(i)),
                        f"no receiver can be at node {node}; valid: {valid_nodes} but the sender's",
                    )
                if node in found[:i]:
                    raise source.error(
                        (*path, "receivers", str(i)), f"node {node} stands twice; valid: once"
                    )
        if not found:
            raise source.error((*path, "receivers"), "there is no receiver")
        for one, of_one in _unicast(session, found):
            if one.session in numbers:
                raise source.error(
                    (*path, "session"), f"session {one.session} stands twice; valid: once"
                )
            numbers.add(one.session)
            sessions.append(one)
            receivers.append(of_one)
    if max(numbers) > MAX_SESSION:
        raise source.error(("sessions",), f"a session {max(numbers)}; valid: up to {MAX_SESSION}")
    return sessions, receivers


def _check_events(source: Source, experiment: Experiment, links: Iterable[tuple[int, int]]) -> None:
    for index, event in enumerate(experiment.events):
        path = ("events", str(index))
        if event.link not in {f"{a}-{b}" for a, b in links}:
            raise source.error((*path, "link"), _no_link(event.link, links))
        if event.at >= experiment.duration:
            raise source.error(
                (*path, "at"),
                f"{units.format_duration(event.at)} is not before the end of the run "
                f"({units.format_duration(experiment.duration)})",
            )


def _check_members(
    source: Source, experiment: Experiment, receivers: list[tuple[int, ...]]
) -> None:
    """Who leaves or joins is a receiver of that session, and nobody leaves who may not have started
    yet."""
    starts = {session.session: session.start for session in experiment.sessions}
    members = dict(zip(starts, receivers, strict=True))
    for index, event in enumerate(experiment.members):
        path = ("members", str(index))
        session = experiment.sessions[0].session if event.session is None else event.session
        if session not in members:
            raise source.error((*path, "session"), _no_session(session, members))
        for i, node in enumerate(event.receivers):
            if node not in members[session]:
                raise source.error(
                    (*path, "receivers", str(i)),
                    f"no receiver of session {session} is at node {node}; valid: "
                    f"{', '.join(map(str, members[session]))}",
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


def _no_session(number: int, valid: Iterable[int]) -> str:
    return f"no session {number}; valid: {', '.join(map(str, sorted(valid)))}"


def _check_expectations(source: Source, loaded: Loaded) -> None:
    """Whether the run will have what is expected of it."""
    experiment = loaded.experiment
    sessions = {session.session: session for session in experiment.sessions}
    receivers = dict(zip(sessions, loaded.recorded, strict=True))
    for index, expectation in enumerate(experiment.expect):
        path = ("expect", str(index))
        number = expectation.session
        if number is None:
            number = experiment.sessions[0].session
        if number not in sessions:
            raise source.error((*path, "session"), _no_session(number, sessions))
        if expectation.receiver is not None and expectation.receiver not in receivers[number]:
            raise source.error(
                (*path, "receiver"),
                f"no receiver with rows at node {expectation.receiver}; valid in session "
                f"{number}: {', '.join(map(str, receivers[number]))}",
            )
        layers = sessions[number].layers
        if expectation.layers is not None and expectation.layers > layers:
            raise source.error(
                (*path, "layers"),
                f"{expectation.layers} layers; valid: up to {layers}, as session {number} has",
            )
        _check_flows(source, path, expectation, loaded)


def _check_flows(source: Source, path: KeyPath, expectation: Expectation, loaded: Loaded) -> None:
    """Whether the run has the competing flows that a measure is of."""
    spec = MEASURES[expectation.measure]
    traffic = loaded.experiment.traffic
    if spec.beside == "tcp" and not any(entry.is_rival for entry in traffic):
        raise source.error(
            (*path, "measure"),
            f"{expectation.measure} needs `traffic` of rivals: TCP flows that stay, or `rival`",
        )
    udp = [name for name, flow in loaded.flows.items() if flow.kind == "udp"]
    if spec.beside == "udp" and not udp:
        raise source.error((*path, "measure"), f"{expectation.measure} needs `traffic` of kind udp")
    if expectation.flow is not None and expectation.flow not in udp:
        raise source.error((*path, "flow"), f"no UDP flow {among(expectation.flow, udp)}")


def _check_periods(source: Source, experiment: Experiment) -> None:
    known = experiment.measure.periods
    for name, (_, end_ns) in known.items():
        if end_ns > experiment.duration:
            raise source.error(
                ("measure", "periods", name),
                f"it ends at {units.format_duration(end_ns)}; valid: by the end of the run "
                f"({units.format_duration(experiment.duration)})",
            )
    for index, expectation in enumerate(experiment.figure.expect if experiment.figure else []):
        over = expectation.over and expectation.over.measure
        for name in filter(None, (expectation.measure, over)):
            _, at, period = name.partition("@")
            if at and period not in known:
                raise source.error(
                    ("figure", "expect", str(index), "measure"),
                    f"{name}: no period {among(period, known or ['none'])}",
                )


def _unicast(session: Session, receivers: tuple[int, ...]) -> Iterator[tuple[Session, Any]]:
    """The session with its receivers, or, where it is unicast, one for each of them."""
    if not session.unicast:
        yield session, receivers
        return
    for offset, node in enumerate(receivers):
        own = {"session": session.session + offset, "receivers": [node], "unicast": False}
        yield session.model_copy(update=own), (node,)


def _single(
    entry: Traffic,
    links: Iterable[tuple[int, int]],
    sender: int,
    receivers: tuple[int, ...],
) -> list[Traffic]:
    """An entry as one for each pair of nodes that it means."""
    if entry.to == "receivers":
        pairs = [(entry.from_, node) for node in receivers]
    elif entry.to == "children":
        import networkx

        pairs = list(networkx.bfs_edges(networkx.Graph(list(links)), sender))
    else:
        return [entry]
    return [entry.model_copy(update={"from_": a, "to": b}) for a, b in pairs if a != b]


def _links(source: Source, model: TopologyModel) -> dict[tuple[int, int], LinkParameters]:
    named: list[tuple[int, int]] = []
    for name in model.links:
        a, dash, b = name.partition("-")
        if not (dash and a.isdigit() and b.isdigit() and a != b):
            raise source.error(
                ("topology", "links", name), "not a link; valid: two node numbers, such as 1-3"
            )
        if name != f"{int(a)}-{int(b)}":
            raise source.error(("topology", "links", name), f"valid: {int(a)}-{int(b)}")
        named.append((int(a), int(b)))
    if model.nodes is None:
        ends = (
            [link for level in model.tree.levels for link in level]
            if model.tree is not None
            else [tuple(map(int, name.split("-"))) for name in model.random.links]
        )
        for link in named:
            if link not in ends:
                name = f"{link[0]}-{link[1]}"
                raise source.error(("topology", "links", name), _no_link(name, ends))
    else:
        ends = named
        for a, b in ends:
            for node in (a, b):
                if node not in model.nodes:
                    raise source.error(
                        ("topology", "links", f"{a}-{b}"),
                        f"no node {node}; valid: {', '.join(map(str, model.nodes))}",
                    )
        _check_tree(source, model.nodes, ends)
    result = {}
    for link in ends:
        name = f"{link[0]}-{link[1]}"
        layers = [*model.changes(name), model.default(name)]

        def first(key: str, layers: list[LinkChange | LinkDefault] = layers) -> Any:
            return next(v for layer in layers if (v := getattr(layer, key)) is not None)

        result[link] = LinkParameters(
            first("rate"),
            first("delay"),
            first("queue"),
            one_way=model.one_way,
            fair=first("scheduling") == "fair",
        )
    return result


def _check_tree(source: Source, nodes: list[int], links: list[tuple[int, int]]) -> None:
    """Multicast trees follow the one path there is, so the nodes have to form a tree."""
    import networkx

    graph = networkx.Graph(links)
    graph.add_nodes_from(nodes)
    if not nodes or not networkx.is_tree(graph):
        raise source.error(
            ("topology", "links"),
            f"{len(nodes)} nodes and {len(links)} links do not form a tree; valid: each pair of "
            "nodes has one path",
        )


def _check_markings(source: Source, experiment: Experiment, topology: Topology) -> None:
    """Whether switches can hold what each link's marking says."""
    packet_size = experiment.sessions[0].packet_size
    for name, link in topology.links.items():
        policy = experiment.marking_of(name).policy(link.parameters.rate, packet_size, idle_us=0)
        try:
            if policy is not None:
                policy.entry(port=1)
        except ConfigurationError as error:
            own = experiment.topology.links.get(name)
            inside = own is not None and own.marking is not None
            path = ("topology", "links", name, "marking") if inside else ("marking",)
            said = [(*path, word) for word in re.findall(r"\w+", str(error))]
            path = next((key for key in said if key in source.places), path)
            raise source.error(path, f"link {name}: {error}") from None


def _check_scheme(source: Source, path: KeyPath, session: Session, scheme: SchemeInfo) -> None:
    if session.layers > 1 and not scheme.layered:
        raise source.error(
            (*path, "layers"), f"{scheme.name} has one rate for all receivers; valid: 1"
        )
    if session.aggregation == "network" and scheme.name not in AGGREGATED:
        raise source.error(
            (*path, "aggregation"),
            f"switches sum up the feedback of {', '.join(AGGREGATED)} alone; valid: sender",
        )


def _check_traffic(
    source: Source, experiment: Experiment, nodes: set[int], valid_nodes: str
) -> None:
    for index, entry in enumerate(experiment.traffic):
        path = ("traffic", str(index))
        for key, node in (("from", entry.from_), ("to", entry.to)):
            if isinstance(node, int) and node not in nodes:
                raise source.error((*path, key), f"no node {node}; valid: {valid_nodes}")
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


def _no_link(name: str, links: Any) -> str:
    return f"no link {among(name, [f'{a}-{b}' for a, b in links])}"


def _check_parameters(source: Source, path: KeyPath, session: Session, scheme: SchemeInfo) -> None:
    for name, value in session.parameters.items():
        here = (*path, "parameters", name)
        info = scheme.parameters.get(name)
        if info is None:
            raise source.error(here, _unknown_parameter(name, scheme))
        if isinstance(value, (int, float)) and not info.min <= value <= info.max:
            valid = f"{info.min:g} to {info.max:g} {info.unit}".rstrip()
            raise source.error(here, f"{value:g} is out of range; valid: {valid}")
