"""The schema of an experiment: what a YAML file below experiments/ may contain
(docs/experiments.md).

`loading` reads such a file, and `checks` checks what no key can show alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar

from pydantic import BeforeValidator, Field, PlainValidator, model_validator
from tiercast_controller.base import units
from tiercast_controller.base.bounded_yaml import shown
from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.base.limits import MAX_LAYERS, MAX_SESSION
from tiercast_controller.base.plugins import without
from tiercast_controller.base.strict import Strict, require_known
from tiercast_controller.base.units import Duration, Queue
from tiercast_controller.network.marking import AnyMarking, Marking, PriorityMarking
from tiercast_controller.network.topology import AnySourceGroup, Checks

from tiercast_lab.base.errors import among
from tiercast_lab.base.lengths import Length
from tiercast_lab.experiment import churn
from tiercast_lab.experiment.churn import MemberChange
from tiercast_lab.experiment.figure_schema import Figure
from tiercast_lab.experiment.model import Choice, Line, NodeKey, refused
from tiercast_lab.experiment.observed_schema import OneOrMore, State, Trace
from tiercast_lab.experiment.quantities import (
    DEFAULT_DURATION,
    MAX_DURATION,
    MAX_ENTRIES,
    MAX_GROUPS,
    MAX_NODES,
    MAX_PACKET_SIZE,
    MAX_SEED,
    MAX_SENDERS,
    MIN_DURATION,
    MIN_FLOW_PACKET_SIZE,
    MIN_PACKET_SIZE,
    MIN_PERIOD,
    PACKET_SIZE,
    Delay,
    Every,
    LinkRate,
    NodeNumber,
    Packets,
    QueueLimit,
    RunTime,
    Size,
    require_rising,
)
from tiercast_lab.experiment.querier_schema import QuerierModel
from tiercast_lab.experiment.tcp_stack import SCALABLE, STACKS, TcpStack
from tiercast_lab.experiment.topology_schema import ProgramFiles, TopologyModel
from tiercast_lab.experiment.wire import WIRE_KEYS, LossKey, Reorder, Share, Wire
from tiercast_lab.experiment.yaml_source import KeyPath
from tiercast_lab.measures import MEASURES, PLUGINS, name_of

_OF_STACKS = ("stack", "sack", "delayed_acks", "window")  # keys of traffic


class Paper(Strict):
    """The source of the expected figures."""

    name: Line
    section: Line | None = None
    figure: Line | None = None


class Session(Strict):
    scheme: Line
    session: Annotated[int, Field(ge=0, le=MAX_SESSION)] = 1
    # Each has a session of its own, numbered from `session`. Empty once loaded.
    senders: Annotated[list[NodeNumber], Field(min_length=1, max_length=MAX_SENDERS)] = []
    sender: NodeNumber
    receivers: Choice[Literal["leaves"]] | list[NodeNumber] = "leaves"
    unicast: bool = False  # gives each receiver a session of its own, numbered from `session`
    layers: Annotated[int, Field(ge=1, le=MAX_LAYERS)] = 1
    packet_size: Annotated[Size, Field(ge=MIN_PACKET_SIZE, le=MAX_PACKET_SIZE)] = PACKET_SIZE
    aggregation: Choice[Literal["sender", "network"]] = "sender"
    start: RunTime = 0
    stop: RunTime | None = None  # None: at the end of the run
    parameters: dict[str, float | Line] = {}
    # Receivers that lie, by node, for experiments: the lies of the scheme (docs/security.md).
    lies: dict[NodeKey, Line] = {}

    @model_validator(mode="before")
    @classmethod
    def _one_or_several_senders(cls, data: Any) -> Any:
        if not isinstance(data, dict) or "senders" not in data:
            return data
        if "sender" in data:
            raise ValueError("'sender' and 'senders'; valid: one of them")
        senders = data["senders"]
        return data | {"sender": senders[0] if isinstance(senders, list) and senders else 0}


class Period(Strict):
    """How long flows are on or off: a distribution and its mean. The mean is a time or, for TCP's
    on-periods, also a number of packets: the size of a transfer."""

    distribution: Choice[Literal["constant", "exponential", "pareto"]]
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
        mean, least = parse(data["mean"]), 1 if packets else MIN_PERIOD
        if mean < least:
            valid = f"{least}p" if packets else units.format_duration(least)
            raise ValueError(f"mean is {shown(data['mean'])}; valid: {valid} or more")
        return data | {"mean": mean, "in_packets": packets}

    @model_validator(mode="after")
    def _shaped(self) -> Period:
        if (self.distribution == "pareto") != (self.shape is not None):
            need = "needs" if self.distribution == "pareto" else "takes no"
            raise ValueError(f"{self.distribution} {need} 'shape'")
        return self


def _ecn(value: object) -> bool | Literal["l4s"]:
    if value == "l4s":
        return "l4s"
    if not isinstance(value, bool):
        raise ValueError(f"{shown(value)}; valid: true, false, l4s")
    return value


class Traffic(Strict):
    """Flows beside the sessions: TCP flows that send as much as they can, or UDP flows at a
    constant rate; or a program of the user's (`kind: command`), on the host of node `from`.

    With `on` and `off` they come and go. Such background flows are no rivals of the sessions'
    receivers unless `rival` says so. Each on-period of TCP is a connection of its own.
    """

    kind: Choice[Literal["tcp", "udp", "command"]]
    # A node. `to: receivers` means a flow to each receiver of the first session; `from: parents,
    # to: children` means a flow along each link, away from that session's sender.
    from_: Annotated[NodeNumber | Choice[Literal["parents"]], Field(alias="from")]
    to: NodeNumber | Choice[Literal["receivers", "children"]] | None = None  # None: of a command
    run: Annotated[Line, Field(min_length=1)] | None = None  # a shell's command line
    # Programs that the command needs, and what to install where one is missing.
    needs: dict[Line, Line] = {}
    start: RunTime = 0
    stop: RunTime | None = None  # None: at the end of the run
    count: Annotated[int, Field(ge=1, le=200)] = 1
    # As the kernel names it; checked by each runtime.
    congestion_control: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,14}$")] = "reno"
    packet_size: Annotated[Size, Field(ge=MIN_FLOW_PACKET_SIZE, le=MAX_PACKET_SIZE)] = PACKET_SIZE
    # Marks instead of losses where queues mark. l4s: packets are ECT(1) (RFC 9331), not ECT(0).
    ecn: Annotated[bool | Literal["l4s"], PlainValidator(_ecn)] = False
    stack: Choice[Literal["kernel", "linux", "ns2"]] = "linux"
    # Instead of the stack's, where they are given.
    sack: bool | None = None
    delayed_acks: bool | None = None
    window: Annotated[Packets, Field(ge=1, le=1000)] | None = None
    # ns-2's senders may take a random time of up to this before a transmission, against phase
    # effects. Only in virtual time.
    overhead: Delay = 0
    rate: LinkRate | None = None  # of each UDP flow, while it is on
    on: Period | None = None
    off: Period | None = None
    rival: bool | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Traffic:
        if (self.kind == "command") != (self.run is not None):
            raise ValueError(
                f"{self.kind} {'needs' if self.kind == 'command' else 'takes no'} 'run'"
            )
        if self.kind == "command":
            valid = ("kind", "from", "run", "needs", "start", "stop")
            for key in sorted(self.model_fields_set - {*valid, "from_"}):
                raise ValueError(f"command takes no '{key}'; valid: {', '.join(valid[1:])}")
            return self
        if self.needs:
            raise ValueError(f"{self.kind} takes no 'needs'")
        if self.to is None:
            raise ValueError(f"{self.kind} needs 'to'")
        if (self.from_ == "parents") != (self.to == "children"):
            raise ValueError("'from: parents' and 'to: children' go together")
        if (self.kind == "udp") != (self.rate is not None):
            raise ValueError(f"{self.kind} {'needs' if self.kind == 'udp' else 'takes no'} 'rate'")
        for key in ("congestion_control", "overhead", *_OF_STACKS):
            if self.kind == "udp" and key in self.model_fields_set:
                raise ValueError(f"udp takes no '{key}'")
        if (self.on is None) != (self.off is None):
            raise ValueError("'on' and 'off' go together")
        if self.on is not None and self.on.in_packets and self.kind != "tcp":
            raise ValueError("on: packets are the size of a TCP transfer; valid: a time")
        if self.off is not None and self.off.in_packets:
            raise ValueError("off: packets are not a time between transfers; valid: a time")
        if self.kind == "tcp" and self.ecn == "l4s" and self.congestion_control != SCALABLE:
            raise ValueError(
                f"ecn: l4s is for scalable congestion control, and {self.congestion_control} is "
                f"not; valid: congestion_control: {SCALABLE}"
            )
        if self.rival and self.kind != "tcp":
            raise ValueError("rivals are TCP flows; valid: false")
        return self

    @property
    def ends(self) -> tuple[int, int]:
        """The nodes (from, to) of a flow in a loaded experiment, which always names them."""
        assert isinstance(self.from_, int) and isinstance(self.to, int)
        return self.from_, self.to

    @property
    def nodes(self) -> list[int]:
        """The nodes whose hosts an entry of a loaded experiment uses."""
        return [node for node in (self.from_, self.to) if isinstance(node, int)]

    @property
    def tcp(self) -> TcpStack:
        given = {key: getattr(self, key) for key in ("sack", "delayed_acks", "window")}
        return STACKS[self.stack]._replace(
            **{key: value for key, value in given.items() if value is not None}
        )

    @property
    def is_rival(self) -> bool:
        """Whether a session's share of a link is measured against these flows."""
        return (self.kind == "tcp" and self.on is None) if self.rival is None else self.rival


def _group(value: object) -> IPv4Address:
    if not isinstance(value, str):
        raise ValueError(f"{shown(value)} is not an address; valid: text such as 230.4.4.1")
    try:
        address = IPv4Address(value)
    except ValueError:
        raise ValueError(f"{shown(value)} is not an IPv4 address such as 230.4.4.1") from None
    try:
        AnySourceGroup.check_address(address)
    except ConfigurationError as error:
        raise ValueError(str(error)) from None
    return address


class Group(Strict):
    """A multicast group of programs of the user's (`kind: command`). The hosts at `senders` may
    send to it; its members come and go by IGMP."""

    group: Annotated[IPv4Address, BeforeValidator(_group)]
    senders: Annotated[list[NodeNumber], Field(min_length=1, max_length=MAX_SENDERS)]


V = TypeVar("V")
InTurn: TypeAlias = V | Annotated[list[V], Field(min_length=1)]  # a list: one after another


class Event(Strict):
    """A change of a link at a time of the run: of both directions of "1-3", or of the one named
    "1>3".

    With `every` it repeats until the end of the run. The values of a list are used in turn.
    """

    at: RunTime
    every: Every | None = None
    link: Line
    rate: InTurn[LinkRate] | None = None
    delay: InTurn[Delay] | None = None
    queue: InTurn[QueueLimit] | None = None
    up: InTurn[bool] | None = None
    loss: InTurn[LossKey] | None = None
    jitter: InTurn[Delay] | None = None
    reorder: InTurn[Reorder] | None = None
    duplicate: InTurn[Share] | None = None

    @model_validator(mode="after")
    def _some_change(self) -> Event:
        keys = ("rate", "delay", "queue", *WIRE_KEYS)
        values = [getattr(self, key) for key in keys]
        if all(value is None for value in values):
            raise ValueError(f"nothing changes; valid: at least one of {', '.join(keys)}")
        if self.every is None and any(isinstance(value, list) for value in values):
            raise ValueError("a list of values needs 'every'")
        return self

    def change(self, at: int, turn: int) -> LinkEvent:
        """What happens at its time number `turn`, from 0 on."""

        def now(key: str) -> Any:
            value = getattr(self, key)
            return value[turn % len(value)] if isinstance(value, list) else value

        wire = Wire(**{key: now(key) for key in WIRE_KEYS})
        return LinkEvent(at, self.link, now("rate"), now("delay"), now("queue"), wire)


@dataclass(frozen=True)
class LinkEvent:
    """A single change of a link, derived from an Event. None: as it was."""

    at: int  # ns
    link: str  # "1-3": both directions; "1>3": one (Topology.sides)
    rate: int | None = None  # bit/s
    delay: int | None = None  # ns
    queue: Queue | None = None
    wire: Wire = Wire()


class MemberEvent(Strict):
    """Receivers of a session leave or join at a time of the run. With `every` they do both in turn
    until its end, `action` first. A receiver whose first change is a join is absent until then."""

    session: Annotated[int, Field(ge=0, le=MAX_SESSION)] | None = None  # None: the first one
    at: RunTime
    every: Every | None = None
    receivers: Annotated[list[NodeNumber], Field(min_length=1)]
    action: Choice[Literal["leave", "join"]] = "leave"


class Arrivals(Strict):
    """A Poisson process from `start` to `stop`; None is the end of the session."""

    every: Every  # the mean time between two arrivals
    start: RunTime = 0
    stop: RunTime | None = None


class Churn(Strict):
    """Receivers of a session that are absent until they arrive, stay for a while and leave, again
    and again (churn.py)."""

    session: Annotated[int, Field(ge=0, le=MAX_SESSION)] | None = None  # None: the first one
    receivers: Choice[Literal["all"]] | Annotated[list[NodeNumber], Field(min_length=1)] = "all"
    arrivals: Arrivals
    stay: Period
    seed: Annotated[int, Field(ge=0, le=MAX_SEED)] = 1

    @model_validator(mode="after")
    def _in_time(self) -> Churn:
        if self.stay.in_packets:
            raise ValueError(f"stay: mean is {self.stay.mean}p; valid: a time")
        return self

    def changes(self, index: int, start: int, end: int) -> Mapping[int, list[MemberChange]]:
        """The joins and leaves of each receiver of a session that is there from `start` to `end`,
        in ns. `receivers` are nodes, as in a loaded experiment; `index` is the entry's own."""
        assert not isinstance(self.receivers, str)
        stay = Length(self.stay.distribution, self.stay.mean / 1e9, shape=self.stay.shape or 0.0)
        begin = max(start, self.arrivals.start)
        until = end if self.arrivals.stop is None else self.arrivals.stop
        return churn.member_changes(
            self.receivers, self.arrivals.every, stay, begin, end, until, f"{index} of {self.seed}"
        )


class Window(Strict):
    """The time over which measures are taken: from `last` before `until` to `until`, and each of
    the named `periods` [from, to], whose measures have names that end in @<period>.

    By default `until` is the end of the run, and `last` is two thirds of the time until then.
    """

    last: Annotated[RunTime, Field(ge=1)] | None = None
    until: Annotated[RunTime, Field(ge=1)] | None = None
    periods: Annotated[
        dict[
            Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*$", max_length=32)],
            Annotated[tuple[RunTime, RunTime], Field(strict=False)],
        ],
        Field(max_length=20),
    ] = {}

    @model_validator(mode="after")
    def _forward(self) -> Window:
        for name, (start, end) in self.periods.items():
            if start >= end:
                raise ValueError(f"period {name!r} ends before it begins; valid: [from, to]")
        return self


class Expectation(Strict):
    """A figure, and when it counts as met: within `tolerance` of `paper`, and between `min` and
    `max`.

    Without `gate` it is judged and shown, but does not decide the verdict.
    """

    measure: Line
    layers: Annotated[int, Field(ge=1, le=MAX_LAYERS)] | None = None
    receiver: NodeNumber | None = None
    link: Line | None = None  # "0-1": away from the sender, or "1>0"; once loaded "0>1"
    flow: Line | None = None
    session: Annotated[int, Field(ge=0, le=MAX_SESSION)] | None = None  # None: the first one
    paper: Line | float | None = None
    tolerance: Annotated[float, BeforeValidator(units.parse_fraction)] | None = None
    min: Line | float | None = None
    max: Line | float | None = None
    gate: bool = True

    @model_validator(mode="after")
    def _judgeable(self) -> Expectation:
        spec = MEASURES.get(self.measure)
        if spec is None:
            known = among(self.measure, MEASURES, without(PLUGINS))
            raise ValueError(f"unknown measure {known}; `tiercast measures` says what each is")
        for key in ("layers", "receiver", "link", "flow"):
            given = getattr(self, key) is not None
            if given and spec.which != key:
                raise ValueError(f"{self.measure} takes no '{key}'")
            if not given and spec.which == key and not spec.whole:
                raise ValueError(f"{self.measure} needs '{key}'")
        if self.session is not None and spec.of_run:
            raise ValueError(f"{self.measure} takes no 'session'")
        if self.tolerance is not None and self.paper is None:
            raise ValueError("'tolerance' needs 'paper'")
        if self.tolerance is None and self.min is None and self.max is None:
            raise ValueError("nothing to judge by; valid: tolerance (with paper), min, max")
        for key in ("paper", "min", "max"):
            self.bound(key)
        require_rising(self.bound("min"), self.bound("max"))
        return self

    def bound(self, key: str) -> float | None:
        """`paper`, `min` or `max` in the unit of the measure."""
        value = getattr(self, key)
        try:
            return None if value is None else MEASURES[self.measure].parse(value)
        except ValueError as error:
            raise refused(key, value, error) from None

    @property
    def name(self) -> str:
        """The name of the measure in summary.json."""
        which = self.layers or self.link or self.flow
        if self.receiver is not None:
            which = member_name(self.receiver, self.session)
        return name_of(self.measure, which, self.session)


def member_name(node: int, session: int | None) -> str:
    """The name of an agent in a run's rows. `session` is the session's number, or None for the
    first."""
    return f"h{node}" if session is None else f"h{node}.s{session}"


class Experiment(Strict):
    read_before: ClassVar[tuple[str, ...]] = ("extends",)  # keys of a file (load_extending)

    # By default both are the file's name.
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=64)]
    title: Line
    paper: Paper | None = None
    topology: TopologyModel
    program: ProgramFiles | None = None  # of all switches that have none of their own; None: ours
    marking: AnyMarking = PriorityMarking()
    # From the time at which a switch has a host's leave until the tree is pruned, unless the host
    # joins again: IGMP's last member query time (RFC 3376 8.8).
    leave_latency: Delay = 0
    querier: QuerierModel | None = None  # None: nobody asks hosts for their groups
    checks: Checks = Checks()
    keys: bool = False  # seals messages between senders and receivers, in real time
    sessions: Annotated[list[Session], Field(max_length=16)]  # none: traffic alone
    traffic: Annotated[list[Traffic], Field(max_length=MAX_ENTRIES)] = []
    multicast: Annotated[list[Group], Field(max_length=MAX_GROUPS)] = []
    events: Annotated[list[Event], Field(max_length=MAX_ENTRIES)] = []
    members: Annotated[list[MemberEvent], Field(max_length=MAX_ENTRIES)] = []
    churn: Annotated[list[Churn], Field(max_length=MAX_ENTRIES)] = []
    trace: Annotated[OneOrMore[Trace], Field(max_length=MAX_ENTRIES)] = []
    state: Annotated[OneOrMore[State], Field(max_length=MAX_ENTRIES)] = []
    duration: Annotated[Duration, Field(ge=MIN_DURATION, le=MAX_DURATION)] = DEFAULT_DURATION
    measure: Window = Window()
    # The shortest time between two records of an agent, port or flow. At five records a second,
    # long runs would not fit into memory.
    record_every: RunTime | None = None
    # How many receivers of each session have rows, chosen evenly among all. None: all of them, or
    # RECORDED if there are more than RECORDED_ALL.
    record_receivers: Annotated[int, Field(ge=1, le=MAX_NODES)] | None = None
    expect: Annotated[list[Expectation], Field(max_length=MAX_ENTRIES)] = []
    figure: Figure | None = None

    @model_validator(mode="before")
    @classmethod
    def _an_entry_for_each_end(cls, data: Any) -> Any:
        """Splits `to: [9, 10]` in `traffic` into two entries."""
        if not isinstance(data, dict) or not isinstance(data.get("traffic"), list):
            return data
        entries = []
        for entry in data["traffic"]:
            to = entry.get("to") if isinstance(entry, dict) else None
            entries += [entry | {"to": node} for node in to] if isinstance(to, list) else [entry]
        return data | {"traffic": entries}

    @model_validator(mode="after")
    def _something_to_send(self) -> Experiment:
        if self.sessions:
            return self
        if not self.traffic:
            raise ValueError("no 'sessions' and no 'traffic'; valid: at least one of them")
        for key in ("members", "churn"):
            if getattr(self, key):
                raise ValueError(f"'{key}' changes receivers of 'sessions', which is empty")
        for entry in self.traffic:
            if isinstance(entry.to, str):
                raise ValueError(f"'to: {entry.to}' needs 'sessions', which is empty; valid: nodes")
        return self

    @model_validator(mode="after")
    def _one_leave_latency(self) -> Experiment:
        if self.querier is not None and self.leave_latency:
            raise ValueError(
                "'leave_latency' and 'querier', which has its own: last_member_count times "
                "last_member_interval; valid: one of them"
            )
        return self

    @property
    def leaves_after(self) -> int:
        """From a leave until the tree is pruned, in ns."""
        if self.querier is None:
            return self.leave_latency
        return round(self.querier.querier.leave_latency_s * 1e9)

    def times(self, event: Event | MemberEvent) -> range:
        """The times at which the event happens, in ns, until the end of the run, or that of its
        session."""
        end = self.duration
        if isinstance(event, MemberEvent):
            end = self.end_of(event.session)
        return range(event.at, end if event.every else min(event.at + 1, end), event.every or 1)

    def number_of(self, session: int | None) -> int:
        return self.sessions[0].session if session is None else session

    def start_of(self, session: int | None) -> int:
        """When a session starts, in ns. None is the first one."""
        session = self.number_of(session)
        return next(one.start for one in self.sessions if one.session == session)

    def end_of(self, session: int | None) -> int:
        """When a session ends, in ns. None is the first one."""
        session = self.number_of(session)
        stops = [one.stop for one in self.sessions if one.session == session]
        return next((stop for stop in stops if stop is not None), self.duration)

    @cached_property
    def link_events(self) -> list[LinkEvent]:
        """Every change of a link, in the order of time."""
        changes = [
            event.change(at, turn)
            for event in self.events
            for turn, at in enumerate(self.times(event))
        ]
        return sorted(changes, key=lambda change: change.at)

    @cached_property
    def member_changes(self) -> dict[tuple[int, int], list[MemberChange]]:
        """Every leave and join that `members` and `churn` ask for, in the order of time, by session
        and node. Whoever never arrives joins at the end of the run."""
        never = [MemberChange(self.duration, joins=True)]
        changes = defaultdict(list)
        for event in self.members:
            session = self.number_of(event.session)
            # A first change at the end or later counts, too: it says whether its node is absent.
            for turn, at in enumerate(self.times(event) or (event.at,)):
                joins = (event.action == "join") == (turn % 2 == 0)
                for node in event.receivers:
                    changes[session, node].append(MemberChange(at, joins))
        for index, one in enumerate(self.churn):
            session = self.number_of(one.session)
            for node, mine in one.changes(
                index, self.start_of(session), self.end_of(session)
            ).items():
                changes[session, node] += mine or never
        found = {}
        for who, mine in changes.items():
            mine.sort(key=lambda one: one.at)
            made = [one for one in mine if one.at < self.end_of(who[0])]
            if made or mine[0].joins:
                found[who] = made or never
        return found

    @cached_property
    def first_joins(self) -> dict[tuple[int, int], int]:
        """The first join, in ns, of each receiver that is absent at first, by session and node."""
        return {who: mine[0].at for who, mine in self.member_changes.items() if mine[0].joins}

    def later_changes(self, session: int, node: int) -> list[MemberChange]:
        """A receiver's leaves and joins after its first join."""
        mine = self.member_changes.get((session, node), [])
        return mine[1:] if mine and mine[0].joins else mine

    @property
    def only_in_virtual_time(self) -> list[str]:
        """The keys that ask for something that runs in Mininet cannot do."""
        keys = []
        if self.topology.one_way:
            keys.append("topology.one_way")
        if self.record_every is not None:
            keys.append("record_every")
        if self.record_receivers is not None:
            keys.append("record_receivers")
        if any(entry.overhead for entry in self.traffic):
            keys.append("traffic.overhead")
        return keys

    @property
    def markings(self) -> list[tuple[KeyPath, Marking]]:
        """All that links may have, with the key paths that set them."""
        of_links = [
            (("topology", form, name, "marking"), change.marking)
            for form, changes in (("levels", self.topology.levels), ("links", self.topology.links))
            for name, change in changes.items()
            if change.marking is not None
        ]
        return [(("marking",), self.marking), *of_links]

    def marking_of(self, link: str) -> Marking:
        """The marking of a link, by the link's name in the topology: its own or the common one."""
        return self.placed_marking(link)[1]

    def program_of(self, node: int) -> ProgramFiles | None:
        """The program of a node's switch; None: ours."""
        own = self.topology.switches.get(str(node))
        return self.program if own is None else own.program

    def placed_program(self, node: int) -> KeyPath:
        """The key path that sets it."""
        if str(node) in self.topology.switches:
            return ("topology", "switches", str(node), "program")
        return ("program",)

    def placed_marking(self, link: str) -> tuple[KeyPath, Marking]:
        """The same as marking_of, with the key path that sets it."""
        for path, change in self.topology.changes(link).items():
            if change.marking is not None:
                return ("topology", *path, "marking"), change.marking
        return ("marking",), self.marking
