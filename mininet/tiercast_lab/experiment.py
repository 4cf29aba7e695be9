"""An experiment as data: what a YAML below experiments/ may say (docs/experiments.md).

`load_experiment` reads and checks all of it before anything starts. Every error is an InputError
that names file, line, key path, the value seen and the valid choices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator
from tiercast_controller import ConfigurationError

from tiercast_lab import binaries, units
from tiercast_lab.errors import InputError
from tiercast_lab.figure import Figure
from tiercast_lab.marking import Marking
from tiercast_lab.measures import MEASURES
from tiercast_lab.model import Strict, require_known, validate
from tiercast_lab.schemes import SchemeInfo
from tiercast_lab.topology import LinkParameters, Topology, tree_levels
from tiercast_lab.units import Queue
from tiercast_lab.yaml_source import KeyPath, Source, load_yaml, merge

# Schemes whose feedback the P4 program can sum up (docs/p4.md).
AGGREGATED = ("sim",)
MAX_SESSION = 32767  # a session's number is in its groups' addresses (docs/wire-format.md)

Rate = Annotated[int, BeforeValidator(units.parse_rate)]
Duration = Annotated[int, BeforeValidator(units.parse_duration)]
Size = Annotated[int, BeforeValidator(units.parse_size)]
QueueLimit = Annotated[Queue, BeforeValidator(units.parse_queue)]
Scheduling = Literal["fifo", "fair"]


class Paper(Strict):
    """Where the expected figures come from."""

    name: str
    section: str | None = None
    figure: str | None = None


class LinkChange(Strict):
    rate: Rate | None = None
    delay: Duration | None = None
    queue: QueueLimit | None = None
    scheduling: Scheduling | None = None
    marking: Marking | None = None


class LinkDefault(Strict):
    rate: Rate
    delay: Duration
    queue: QueueLimit
    scheduling: Scheduling = "fifo"


Fanout = Annotated[int, Field(ge=1, le=64)]


MAX_NODES = 1 << 18  # that have addresses (topology.Host)
RECORDED_ALL = 2048
RECORDED = 256


class Tree(Strict):
    """`fanout`: of every node, or of the nodes of each level, from the root on."""

    depth: Annotated[int, Field(ge=1, le=10)]
    fanout: Fanout | list[Fanout] = 2

    @model_validator(mode="after")
    def _every_level(self) -> Tree:
        if isinstance(self.fanout, list) and len(self.fanout) != self.depth:
            raise ValueError(f"'fanout' has {len(self.fanout)} levels; valid: {self.depth}")
        nodes = 1 + sum(accumulate(self.fanouts, mul))
        if nodes > MAX_NODES:
            raise ValueError(f"a tree of {nodes} nodes; valid: up to {MAX_NODES}")
        return self

    @property
    def fanouts(self) -> list[int]:
        return self.fanout if isinstance(self.fanout, list) else [self.fanout] * self.depth

    @property
    def levels(self) -> list[list[tuple[int, int]]]:
        return tree_levels(self.fanouts)


class TopologyModel(Strict):
    """`tree`, with `links` that differ from `link`; or `nodes`, with all of their `links`.

    `levels`: what all links of a tree's level have, L1 being the root's.
    """

    tree: Tree | None = None
    nodes: list[Annotated[int, Field(ge=0, le=65535)]] | None = None
    link: LinkDefault
    # Rates and queues are of the direction from a link's first node to its second; back to the
    # first one nothing waits or is lost.
    one_way: bool = False
    levels: dict[str, LinkChange] = {}
    links: dict[str, LinkChange] = {}

    @model_validator(mode="after")
    def _one_form(self) -> TopologyModel:
        if (self.tree is None) == (self.nodes is None):
            raise ValueError("exactly one of 'tree' and 'nodes' must be given")
        valid = [f"L{n}" for n in range(1, self.tree.depth + 1)] if self.tree else []
        for level in self.levels:
            if level not in valid:
                raise ValueError(
                    f"'levels' has {level!r}; valid: {', '.join(valid) or 'none without a tree'}"
                )
        return self

    def changes(self, link: str) -> list[LinkChange]:
        """What differs from `link`, the link's own first, then its level's."""
        found = [self.links[link]] if link in self.links else []
        for number, links in enumerate(self.tree.levels if self.levels else [], 1):
            if f"L{number}" in self.levels and link in (f"{a}-{b}" for a, b in links):
                found.append(self.levels[f"L{number}"])
        return found


class Session(Strict):
    scheme: str
    session: Annotated[int, Field(ge=0, le=MAX_SESSION)] = 1
    sender: int
    receivers: Literal["leaves"] | list[int] = "leaves"
    unicast: bool = False  # a session of its own for each receiver, numbered from `session` on
    layers: Annotated[int, Field(ge=1, le=8)] = 1
    packet_size: Annotated[Size, Field(ge=100, le=1500)] = 1000
    aggregation: Literal["sender", "network"] = "sender"
    start: Duration = 0
    parameters: dict[str, float | str] = {}


class Period(Strict):
    """How long flows are on, or off: a distribution and its mean, a time; of TCP's on-periods also
    a number of packets, the size of a transfer."""

    distribution: Literal["constant", "exponential", "pareto"]
    mean: int  # ns, or packets
    in_packets: bool = False
    shape: Annotated[float, Field(gt=1, le=100)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _mean_with_unit(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        require_known(data, ("distribution", "mean", "shape"))
        if "mean" not in data:
            return data
        packets = str(data["mean"]).strip().endswith("p")
        parse = units.parse_packets if packets else units.parse_duration
        mean = parse(data["mean"])
        if mean < 1:
            raise ValueError(f"mean is {data['mean']}; valid: above 0")
        return data | {"mean": mean, "in_packets": packets}

    @model_validator(mode="after")
    def _shaped(self) -> Period:
        if (self.distribution == "pareto") != (self.shape is not None):
            need = "needs" if self.distribution == "pareto" else "takes no"
            raise ValueError(f"{self.distribution} {need} 'shape'")
        return self


class Traffic(Strict):
    """Flows beside the sessions: TCP, each sending all that it may, or UDP at a constant rate.

    With `on` and `off` they come and go: background, and no rivals of the sessions' receivers
    unless `rival` says so. Every on-period of TCP is a connection of its own.
    """

    kind: Literal["tcp", "udp"]
    # A node; `to: receivers` is a flow to each receiver of the first session, and `from: parents,
    # to: children` one along each link, away from that session's sender.
    from_: Annotated[int | Literal["parents"], Field(alias="from")]
    to: int | Literal["receivers", "children"]
    start: Duration = 0
    stop: Duration | None = None  # None: the end of the run
    count: Annotated[int, Field(ge=1, le=200)] = 1
    congestion_control: Literal["reno", "cubic"] = "reno"
    packet_size: Annotated[Size, Field(ge=128, le=1500)] = 1000
    ecn: bool = False
    # Only in virtual time. Kernels delay acknowledgements, ns-2's receivers do not; ns-2's senders
    # may take a random time of up to `overhead` before a transmission, against phase effects.
    delayed_acks: bool = True
    overhead: Duration = 0
    rate: Annotated[Rate, Field(ge=1)] | None = None  # of each UDP flow, while it is on
    on: Period | None = None
    off: Period | None = None
    rival: bool | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Traffic:
        if (self.from_ == "parents") != (self.to == "children"):
            raise ValueError("'from: parents' and 'to: children' go together")
        if (self.kind == "udp") != (self.rate is not None):
            raise ValueError(f"{self.kind} {'needs' if self.kind == 'udp' else 'takes no'} 'rate'")
        for key in ("congestion_control", "ecn", "delayed_acks", "overhead"):
            if self.kind == "udp" and key in self.model_fields_set:
                raise ValueError(f"udp takes no '{key}'")
        if (self.on is None) != (self.off is None):
            raise ValueError("'on' and 'off' go together")
        if self.on is not None and self.on.in_packets and self.kind != "tcp":
            raise ValueError("on: packets are the size of a TCP transfer; valid: a time")
        if self.off is not None and self.off.in_packets:
            raise ValueError("off: packets are no time between transfers; valid: a time")
        if self.rival and self.kind != "tcp":
            raise ValueError("rivals are TCP flows; valid: false")
        return self

    @property
    def is_rival(self) -> bool:
        """Whether the session's share of a link is measured by these flows."""
        return (self.kind == "tcp" and self.on is None) if self.rival is None else self.rival


class Event(Strict):
    """A change of a link, both directions, at a time of the run.

    With `every` it comes again until the end of the run; a list of rates is gone through in turn.
    """

    at: Duration
    every: Annotated[Duration, Field(ge=10**6)] | None = None
    link: str
    rate: Rate | Annotated[list[Rate], Field(min_length=1)] | None = None
    delay: Duration | None = None
    queue: QueueLimit | None = None

    @model_validator(mode="after")
    def _some_change(self) -> Event:
        if self.rate is None and self.delay is None and self.queue is None:
            raise ValueError("nothing changes; valid: at least one of rate, delay, queue")
        if isinstance(self.rate, list) and self.every is None:
            raise ValueError("a list of rates needs 'every'")
        return self


@dataclass(frozen=True)
class LinkEvent:
    """One change of a link, of an Event."""

    at: int  # ns
    link: str
    rate: int | None  # bit/s
    delay: int | None  # ns
    queue: Queue | None


class MemberEvent(Strict):
    """Receivers of the first session leave, or join, at a time of the run; with `every` in turn
    until its end, `action` first. One whose first change is a join is absent until then."""

    at: Duration
    every: Annotated[Duration, Field(ge=10**6)] | None = None
    receivers: Annotated[list[int], Field(min_length=1)]
    action: Literal["leave", "join"] = "leave"


@dataclass(frozen=True)
class MemberChange:
    at: int  # ns
    receivers: tuple[int, ...]
    joins: bool


class Window(Strict):
    """What measures are taken over: the time from `last` before `until` on, which is the end of the
    run unless it is given; and each of the named `periods` [from, to], of which a measure's name
    ends in @<period>."""

    last: Duration
    until: Duration | None = None
    periods: dict[
        Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*$")], tuple[Duration, Duration]
    ] = {}

    @model_validator(mode="after")
    def _forward(self) -> Window:
        for name, (start, end) in self.periods.items():
            if start >= end:
                raise ValueError(f"period {name!r} ends before it begins; valid: [from, to]")
        return self


class Expectation(Strict):
    """A figure and when it counts as met: within `tolerance` of `paper`, and in `min`..`max`.

    Without `gate` it is judged and shown, and does not decide the verdict.
    """

    measure: str
    layers: Annotated[int, Field(ge=1, le=8)] | None = None
    receiver: int | None = None
    session: int | None = None  # None: the first
    paper: str | float | None = None
    tolerance: Annotated[float, BeforeValidator(units.parse_fraction)] | None = None
    min: str | float | None = None
    max: str | float | None = None
    gate: bool = True

    @model_validator(mode="after")
    def _judgeable(self) -> Expectation:
        spec = MEASURES.get(self.measure)
        if spec is None:
            raise ValueError(f"unknown measure {self.measure!r}; valid: {', '.join(MEASURES)}")
        if spec.per_layer != (self.layers is not None):
            need = "needs" if spec.per_layer else "takes no"
            raise ValueError(f"{self.measure} {need} 'layers'")
        if spec.per_receiver != (self.receiver is not None):
            need = "needs" if spec.per_receiver else "takes no"
            raise ValueError(f"{self.measure} {need} 'receiver'")
        if self.session is not None and not spec.per_receiver:
            raise ValueError(f"{self.measure} takes no 'session'")
        if self.tolerance is not None and self.paper is None:
            raise ValueError("'tolerance' needs 'paper'")
        if self.tolerance is None and self.min is None and self.max is None:
            raise ValueError("nothing to judge by; valid: tolerance (with paper), min, max")
        for key in ("paper", "min", "max"):
            self.bound(key)
        return self

    def bound(self, key: str) -> float | None:
        """`paper`, `min` or `max` in the unit of the measure."""
        value = getattr(self, key)
        return None if value is None else MEASURES[self.measure].parse(value)

    @property
    def name(self) -> str:
        if self.receiver is not None:
            return f"{self.measure}_{member_name(self.receiver, self.session)}"
        return self.measure if self.layers is None else f"{self.measure}_{self.layers}"


def member_name(node: int, session: int | None) -> str:
    """Of an agent in a run's rows; `session`: its number, None for the first."""
    return f"h{node}" if session is None else f"h{node}.s{session}"


class Experiment(Strict):
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    title: str
    paper: Paper | None = None
    topology: TopologyModel
    marking: Marking = Marking()
    sessions: Annotated[list[Session], Field(min_length=1, max_length=8)]
    traffic: list[Traffic] = []
    events: list[Event] = []
    members: list[MemberEvent] = []
    duration: Annotated[Duration, Field(ge=5 * 10**9)]
    measure: Window
    # At least so long between records of agents, ports and flows: long runs would not fit into
    # memory with five a second.
    record_every: Duration | None = None
    # Receivers of each session that have rows, evenly among all. None: all, or RECORDED of more
    # than RECORDED_ALL.
    record_receivers: Annotated[int, Field(ge=1)] | None = None
    expect: list[Expectation] = []
    figure: Figure | None = None

    @model_validator(mode="before")
    @classmethod
    def _an_entry_for_each_end(cls, data: Any) -> Any:
        """`to: [9, 10]` in `traffic` stands for two entries."""
        if not isinstance(data, dict) or not isinstance(data.get("traffic"), list):
            return data
        entries = []
        for entry in data["traffic"]:
            to = entry.get("to") if isinstance(entry, dict) else None
            entries += [entry | {"to": node} for node in to] if isinstance(to, list) else [entry]
        return data | {"traffic": entries}

    @property
    def link_events(self) -> list[LinkEvent]:
        """Every change of a link, in the order of time."""
        changes = []
        for event in self.events:
            for turn, at in enumerate(_times(event.at, event.every, self.duration)):
                rates = event.rate if isinstance(event.rate, list) else [event.rate]
                rate = rates[turn % len(rates)]
                changes.append(LinkEvent(at, event.link, rate, event.delay, event.queue))
        return sorted(changes, key=lambda change: change.at)

    @property
    def member_changes(self) -> list[MemberChange]:
        """Every leave and join that the experiment asks for, in the order of time."""
        changes = []
        for event in self.members:
            for turn, at in enumerate(_times(event.at, event.every, self.duration)):
                joins = (event.action == "join") == (turn % 2 == 0)
                changes.append(MemberChange(at, tuple(event.receivers), joins))
        return sorted(changes, key=lambda change: change.at)

    @property
    def only_in_virtual_time(self) -> list[str]:
        """Keys that ask for what Mininet's runs do not do."""
        keys = []
        if len(self.sessions) > 1:
            keys.append("a second session")
        if any(session.start for session in self.sessions):
            keys.append("sessions.start")
        if self.members:
            keys.append("members")
        if any(entry.ecn for entry in self.traffic):
            keys.append("traffic.ecn")
        if any(entry.kind != "tcp" for entry in self.traffic):
            keys.append("traffic.kind: udp")
        if any(entry.on is not None for entry in self.traffic):
            keys.append("traffic.on")
        if self.topology.one_way:
            keys.append("topology.one_way")
        if self.record_every is not None:
            keys.append("record_every")
        if self.record_receivers is not None:
            keys.append("record_receivers")
        if any(not entry.delayed_acks or entry.overhead for entry in self.traffic):
            keys.append("traffic.delayed_acks, traffic.overhead")
        return keys

    def first_join(self, node: int) -> int | None:
        """When a receiver of the first session becomes one, ns; None: at the session's start."""
        mine = [change for change in self.member_changes if node in change.receivers]
        return mine[0].at if mine and mine[0].joins else None

    def marking_of(self, link: str) -> Marking:
        """Of a link, by the name that it has in the topology: its own, or everybody's."""
        own = (change.marking for change in self.topology.changes(link))
        return next((marking for marking in own if marking is not None), self.marking)


def _times(at: int, every: int | None, end: int) -> range:
    return range(at, end, every) if every else range(at, min(at + 1, end))


@dataclass(frozen=True)
class Flow:
    """One of the flows of an entry of `traffic`."""

    entry: int
    kind: str  # "tcp", "udp": of its rows
    rival: bool
    source: int  # node numbers
    destination: int
    start_s: float
    stop_s: float


@dataclass(frozen=True)
class Loaded:
    """A checked experiment; `data` is what was read, after includes and options."""

    experiment: Experiment
    topology: Topology
    receivers: tuple[tuple[int, ...], ...]  # node numbers, per session
    layered: bool  # the first session's scheme
    data: dict[str, Any]
    file: str

    @property
    def flows(self) -> dict[str, Flow]:
        """tcp1, tcp2, ..., udp1, ... in the order of `traffic`."""
        end = self.experiment.duration
        numbers: Counter[str] = Counter()
        flows = {}
        for index, one in enumerate(self.experiment.traffic):
            for _ in range(one.count):
                numbers[one.kind] += 1
                flows[f"{one.kind}{numbers[one.kind]}"] = Flow(
                    entry=index,
                    kind=one.kind,
                    rival=one.is_rival,
                    source=one.from_,
                    destination=one.to,
                    start_s=one.start / 1e9,
                    stop_s=(end if one.stop is None else min(one.stop, end)) / 1e9,
                )
        return flows

    @property
    def recorded(self) -> tuple[tuple[int, ...], ...]:
        """Receivers that have rows, per session."""
        most = self.experiment.record_receivers
        result = []
        for receivers in self.receivers:
            wanted = most or (len(receivers) if len(receivers) <= RECORDED_ALL else RECORDED)
            wanted = min(wanted, len(receivers))
            result.append(tuple(receivers[i * len(receivers) // wanted] for i in range(wanted)))
        return tuple(result)

    @property
    def window(self) -> tuple[float, float]:
        """Start and end of the measured part of the run, s."""
        measure, end = self.experiment.measure, self.experiment.duration
        end = min(measure.until or end, end) / 1e9
        return max(0.0, end - measure.last / 1e9), end

    @property
    def measured_over(self) -> dict[str, Any]:
        """The window and the periods, s, as a summary has them."""
        periods = self.experiment.measure.periods.items()
        return {
            "window_s": list(self.window),
            "periods_s": {name: [start / 1e9, end / 1e9] for name, (start, end) in periods},
        }


def load_experiment(
    file: Path,
    schemes: dict[str, SchemeInfo],
    settings: list[str] | None = None,
    duration: str | None = None,
    places: Mapping[str, str] | None = None,
) -> Loaded:
    """`settings`: `key.path=value` over the file, or `sim.delta=0.9`, a parameter of a scheme;
    `places`: where the setting of a key stands, for errors, if not on the command line."""
    source = _with_include(_with_base(file), file)
    for setting in settings or []:
        _apply(source, setting, schemes, places or {})
    if duration is not None:
        source.data["duration"] = duration
        source.places[("duration",)] = "--duration"
    experiment = validate(Experiment, source)
    return _check(source, experiment, schemes, file)


def _with_base(file: Path) -> Source:
    """`extends: NAME` puts the file on top of bases/NAME.yaml: mappings are merged key by key."""
    source = load_yaml(file)
    if "extends" not in source.data:
        return source
    wanted = source.data.pop("extends")
    base = _named(source, ("extends",), "base", wanted, file, binaries.BASES)
    return merge(load_yaml(base), source)


def _named(
    source: Source, path: KeyPath, what: str, wanted: object, file: Path, folder: Path
) -> Path:
    # One's own beside the experiment, then those that tiercast brings.
    folders = (folder, file.parent / folder.name)
    known = {found.stem: found for place in folders for found in place.glob("*.yaml")}
    if wanted not in known:
        raise source.error(path, f"no {what} {wanted!r}; valid: {', '.join(sorted(known))}")
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


def _check(
    source: Source, experiment: Experiment, schemes: dict[str, SchemeInfo], file: Path
) -> Loaded:
    links = _links(source, experiment.topology)
    nodes = sorted({node for link in links for node in link})
    degree = Counter(node for link in links for node in link)
    valid_nodes = f"{nodes[0]}..{nodes[-1]}" if len(nodes) > 12 else ", ".join(map(str, nodes))

    sessions: list[Session] = []
    receivers: list[tuple[int, ...]] = []
    numbers: set[int] = set()
    for index, session in enumerate(experiment.sessions):
        path = ("sessions", str(index))
        if session.scheme not in schemes:
            raise source.error(
                (*path, "scheme"),
                f"unknown scheme {session.scheme!r}; valid: {', '.join(schemes)}",
            )
        _check_scheme(source, path, session, schemes[session.scheme])
        _check_parameters(source, path, session, schemes[session.scheme])
        if session.sender not in degree:
            raise source.error((*path, "sender"), f"no node {session.sender}; valid: {valid_nodes}")
        if session.receivers == "leaves":
            found = tuple(n for n in nodes if degree[n] == 1 and n != session.sender)
        else:
            found = tuple(session.receivers)
            for i, node in enumerate(found):
                if node not in degree or node == session.sender:
                    raise source.error(
                        (*path, "receivers", str(i)),
                        f"no receiver can be at node {node}; valid: {valid_nodes} but the sender's",
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

    _check_traffic(source, experiment, set(degree), valid_nodes)
    experiment = experiment.model_copy(
        update={
            "sessions": sessions,
            "traffic": [
                one
                for entry in experiment.traffic
                for one in _single(entry, links, sessions[0].sender, receivers[0])
            ],
        }
    )
    topology = Topology(
        links,
        [s.sender for s in experiment.sessions],
        [n for r in receivers for n in r],
        [node for entry in experiment.traffic for node in (entry.from_, entry.to)],
    )
    _check_markings(source, experiment, topology)
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
    for index, event in enumerate(experiment.members):
        for i, node in enumerate(event.receivers):
            if node not in receivers[0]:
                raise source.error(
                    ("members", str(index), "receivers", str(i)),
                    f"no receiver of the first session is at node {node}; valid: "
                    f"{', '.join(map(str, receivers[0]))}",
                )
    for name, (_, end_ns) in experiment.measure.periods.items():
        if end_ns > experiment.duration:
            raise source.error(
                ("measure", "periods", name),
                f"it ends at {units.format_duration(end_ns)}; valid: by the end of the run "
                f"({units.format_duration(experiment.duration)})",
            )
    _check_figure_periods(source, experiment)
    for index, expectation in enumerate(experiment.expect):
        if expectation.session is not None and expectation.session not in numbers:
            raise source.error(
                ("expect", str(index), "session"),
                f"no session {expectation.session}; valid: {', '.join(map(str, sorted(numbers)))}",
            )
        if expectation.receiver is not None and expectation.receiver not in receivers[0]:
            raise source.error(
                ("expect", str(index), "receiver"), f"no receiver at node {expectation.receiver}"
            )
        most = max(session.layers for session in experiment.sessions)
        if expectation.layers is not None and expectation.layers > most:
            raise source.error(
                ("expect", str(index), "layers"),
                f"{expectation.layers} layers, but no session has more than {most}",
            )
        if MEASURES[expectation.measure].of_traffic and not any(
            entry.is_rival for entry in experiment.traffic
        ):
            raise source.error(
                ("expect", str(index), "measure"),
                f"{expectation.measure} needs `traffic` of rivals: TCP flows that stay, or `rival`",
            )
    layered = schemes[experiment.sessions[0].scheme].layered
    return Loaded(experiment, topology, tuple(receivers), layered, source.data, str(file))


def _check_figure_periods(source: Source, experiment: Experiment) -> None:
    known = experiment.measure.periods
    for index, expectation in enumerate(experiment.figure.expect if experiment.figure else []):
        over = expectation.over and expectation.over.measure
        for name in filter(None, (expectation.measure, over)):
            _, at, period = name.partition("@")
            if at and period not in known:
                raise source.error(
                    ("figure", "expect", str(index), "measure"),
                    f"{name}: no period {period!r}; valid: {', '.join(known) or 'none'}",
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
    if model.tree is not None:
        ends = [link for level in model.tree.levels for link in level]
        for link in named:
            if link not in ends:
                name = f"{link[0]}-{link[1]}"
                raise source.error(("topology", "links", name), _no_link(name, ends))
    else:
        ends = named
        for a, b in ends:
            for node in (a, b):
                if node not in (model.nodes or []):
                    raise source.error(
                        ("topology", "links", f"{a}-{b}"),
                        f"no node {node}; valid: {', '.join(map(str, model.nodes or []))}",
                    )
        _check_tree(source, model.nodes or [], ends)
    result = {}
    for link in ends:
        layers = [*model.changes(f"{link[0]}-{link[1]}"), model.link]

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
    valid = ", ".join(f"{a}-{b}" for a, b in links)
    return f"no link {name!r}; valid: {valid}"


def _check_parameters(source: Source, path: KeyPath, session: Session, scheme: SchemeInfo) -> None:
    for name, value in session.parameters.items():
        here = (*path, "parameters", name)
        info = scheme.parameters.get(name)
        if info is None:
            raise source.error(
                here, f"unknown parameter of {scheme.name}; valid: {', '.join(scheme.parameters)}"
            )
        if isinstance(value, (int, float)) and not info.min <= value <= info.max:
            valid = f"{info.min:g} to {info.max:g} {info.unit}".rstrip()
            raise source.error(here, f"{value:g} is out of range; valid: {valid}")
