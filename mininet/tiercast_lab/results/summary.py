"""The parts of summary.json that its readers use. If a file was changed after its run, the error
names the wrong key, so that readers only ever see what a run writes. The part `network` is also
written from these types (tiercast_lab.run.network_summary)."""

from __future__ import annotations

import re
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from tiercast_controller.base.bounded_yaml import shown
from tiercast_controller.base.limits import MAX_LAYERS

from tiercast_lab.base.errors import among
from tiercast_lab.measures import find_spec

At = Annotated[list[float], Field(min_length=2, max_length=2)]  # two times, or a time and a rate


def _forward(interval: list[float]) -> list[float]:
    if interval[0] > interval[1]:
        raise ValueError("the first is above the second; valid: [from, to]")
    return interval


def _link(name: str) -> str:
    if re.fullmatch("[0-9]{1,6}-[0-9]{1,6}", name) is None:
        raise ValueError("not a link; valid: two node numbers, such as 1-3")
    return name


def _kept(name: str) -> str:
    if re.fullmatch(r"experiment/[^/]+", name) is None or name.endswith(("/.", "/..")):
        raise ValueError(f"{shown(name)}; valid: a file in experiment/")
    return name


def _captured(name: str) -> str:
    if re.fullmatch(r"captures/[^/]+\.pcapng", name) is None:
        raise ValueError(f"{shown(name)}; valid: a pcapng file in captures/")
    return name


def _known(name: str) -> str:
    find_spec(name)
    return name


Interval = Annotated[At, AfterValidator(_forward)]
LinkName = Annotated[str, AfterValidator(_link)]
KeptName = Annotated[str, AfterValidator(_kept)]
CaptureName = Annotated[str, AfterValidator(_captured)]
MeasureName = Annotated[str, AfterValidator(_known)]


class Part(BaseModel):
    """A part of a summary. Unknown keys are ignored."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)


class Paper(Part):
    name: str
    section: str | None = None
    figure: str | None = None


class SchemeOfSession(Part):
    scheme: str


class ExperimentData(Part):
    sessions: list[SchemeOfSession]
    paper: Paper | None = None


class LinkSummary(Part):
    rate: Annotated[int, Field(ge=0)]  # bit/s
    delay_ns: int
    queue: str
    marking: str
    one_way: bool = False  # rate and queue apply only to the direction from the first node
    packet_size: int = 0  # IP bytes of the largest data packets; 0: not stored
    # Steps (s, bit/s) of each direction, "1>3", whose rate events change; 0 while it is down.
    rates: dict[str, list[At]] = {}


class NodeSummary(Part):
    name: str
    place: At | None  # x to the right, y upwards, in any unit


class LaterDirections(Part):
    from_s: float
    directions: list[str]


class FlowSummary(Part):
    source: Annotated[int, Field(alias="from")]  # nodes
    destination: Annotated[int, Field(alias="to")]
    directions: list[str]  # at the start of the run
    later: list[LaterDirections] = []  # once paths have moved, in the order of time
    # Each of its connections may take another of several equal paths, and `directions` has what
    # all of these have in common.
    spread: bool = False
    kind: str
    rival: bool
    start_s: float
    stop_s: float
    packet_size: int

    def directions_at(self, at_s: float) -> list[str]:
        parts = [self.directions, *(one.directions for one in self.later if one.from_s <= at_s)]
        return parts[-1]


class PathSummary(Part):
    """A receiver's path, its bottleneck, and the flows there."""

    path: Annotated[list[LinkName], Field(min_length=1)]
    directions: list[str]
    bottleneck: str
    share: float
    rivals: list[str]

    @model_validator(mode="after")
    def _bottleneck_on_the_path(self) -> Self:
        if len(self.directions) != len(self.path):
            raise ValueError(f"{len(self.directions)} directions; valid: {len(self.path)}")
        if self.bottleneck not in self.path:
            raise ValueError(f"no bottleneck {among(self.bottleneck, self.path)}")
        return self


class LaterPath(PathSummary):
    from_s: float


class ReceiverSummary(PathSummary):
    """The path is that of the run's start."""

    node: int
    later: list[LaterPath] = []  # once the path has moved, in the order of time
    available: Annotated[list[At], Field(min_length=1)]
    absences: list[Interval]


class SessionSummary(Part):
    session: int
    scheme: str
    layered: bool
    layers: Annotated[int, Field(ge=1, le=MAX_LAYERS)]
    sender: str
    sender_node: int
    start_s: float
    stop_s: float | None = None  # None: at the end of the run
    round_trip_s: Annotated[float, Field(ge=0)]  # 0: links without delay
    receivers: Annotated[dict[str, ReceiverSummary], Field(min_length=1)]


class Network(Part):
    nodes: dict[str, NodeSummary] = {}  # those with names or places, by number
    links: Annotated[dict[LinkName, LinkSummary], Field(min_length=1)]
    flows: dict[str, FlowSummary]
    sessions: list[SessionSummary]

    @model_validator(mode="after")
    def _of_its_links(self) -> Network:
        nodes = {int(node) for name in self.links for node in name.split("-")}
        for session in self.sessions:
            if session.sender_node not in nodes:
                raise ValueError(f"no node {among(session.sender_node, sorted(nodes))}")
            for receiver in session.receivers.values():
                for one in (receiver, *receiver.later):
                    for name in one.path:
                        if name not in self.links:
                            raise ValueError(f"no link {among(name, self.links)}")
                    for name in one.rivals:
                        if name not in self.flows:
                            raise ValueError(f"no flow {among(name, self.flows)}")
        return self


class CheckResult(Part):
    name: str
    measured: float | None
    bound: float | None
    unit: str
    purpose: str
    ok: bool


class Validity(Part):
    checks: list[CheckResult]
    hidden_queues: list[str]


class Measured(Part):
    value: float | None


class Judged(Part):
    name: MeasureName
    paper: float | None
    measured: float | None
    tolerance: float | None
    min: float | None
    max: float | None
    gate: bool
    ok: bool


class CapturedDirection(Part):
    frames: int
    missed: int | None
    full: bool


class CaptureSummary(Part):
    link: str
    file: CaptureName
    cpu_s: float | None
    directions: dict[str, CapturedDirection]


class KindOfMarking(Part):
    kind: str


class TracedDirection(Part):
    link: str
    share: float
    marking: KindOfMarking | None
    rate_bps: Annotated[int, Field(ge=0)]
    packet_bytes: Annotated[int, Field(ge=1)]


class GroundsData(Part):
    bounds: dict[str, float | None] | None
    hidden_queues: list[str]
    complaints: list[str]


class Summary(Part):
    run: str
    title: str
    started: str
    command: list[str]
    experiment: ExperimentData
    defaults: dict[str, dict[str, float]] = {}
    seed: int
    runtime: str
    switch: str
    versions: dict[str, str | None]
    machine: dict[str, Any]
    network: Network
    duration_s: Annotated[float, Field(gt=0)]
    window_s: Interval
    periods_s: dict[str, Interval] = {}
    files: dict[str, str] = {}
    sources: dict[str, KeptName] = {}
    captures: list[CaptureSummary] = []
    traced: list[TracedDirection] = []
    flow_ports: dict[str, int] = {}
    grounds: GroundsData | None = None  # of a run that is still to be judged
    verdict: str
    reasons: list[str]
    complaints: list[str]
    validity: Validity
    measures: dict[MeasureName, Measured]
    expected: list[Judged]
