"""What a measure knows about a run besides its rows: window, sessions, receivers, flows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Interval = tuple[float, float]  # s: from, to


@dataclass(frozen=True)
class Receiver:
    """A receiver of a session. It counts while it is present; `absences` are the intervals in which
    it is not."""

    node: int
    # Steps (s, bit/s) of the smallest link rate on its path.
    available: tuple[tuple[float, float], ...]
    bottleneck: str = ""  # the direction of a link, as in `port` rows: "0>1"
    # The flows at the bottleneck, if the session's share is measured at this receiver.
    rivals: tuple[str, ...] = ()
    absences: tuple[Interval, ...] = ()

    def presence(self, within: Interval) -> list[Interval]:
        """The intervals in which it is present, in the order of time."""
        at, end = within
        result = []
        for left, back in self.absences:
            result.append((at, min(left, end)))
            at = max(at, back)
        return [(start, stop) for start, stop in [*result, (at, end)] if start < stop]


@dataclass(frozen=True)
class Session:
    number: int
    sender: str
    layers: int
    receivers: Mapping[str, Receiver]
    round_trip: float  # s: d of SIM table 1
    start: float = 0.0  # s
    stop: float = math.inf


@dataclass(frozen=True)
class Flow:
    """A competing flow. A rival is a TCP flow with which a session's share is compared, rather than
    background traffic that comes and goes."""

    kind: str  # "tcp", "udp"
    start: float  # s
    stop: float
    packet_size: int  # IP bytes
    rival: bool = True

    def presence(self, within: Interval) -> Interval | None:
        """The part of an interval during which it may send; None if there is none."""
        start, stop = max(self.start, within[0]), min(self.stop, within[1])
        return (start, stop) if start < stop else None


@dataclass(frozen=True)
class Context:
    """A run as seen by one of its sessions."""

    window: Interval
    session: Session
    sessions: tuple[Session, ...]
    flows: Mapping[str, Flow] = field(default_factory=dict)
    links: tuple[str, ...] = ()  # the directions that sessions and flows use: "0>1"
    periods: Mapping[str, Interval] = field(default_factory=dict)  # more windows, by name

    @property
    def receivers(self) -> Mapping[str, Receiver]:
        return self.session.receivers

    @property
    def span(self) -> Interval:
        """The part of the window in which the session is present; empty if there is none."""
        start, end = self.window
        return min(max(start, self.session.start), end), max(min(end, self.session.stop), start)

    @property
    def rivals(self) -> dict[str, Flow]:
        """The TCP flows with which the session's share is compared."""
        return {name: flow for name, flow in self.flows.items() if flow.rival}

    @property
    def udp_flows(self) -> dict[str, Flow]:
        return {name: flow for name, flow in self.flows.items() if flow.kind == "udp"}

    def session_of(self, agent: str) -> Session:
        """The session of a receiver. Raises KeyError."""
        for session in self.sessions:
            if agent in session.receivers:
                return session
        raise KeyError(agent)


def context_of(summary: Mapping[str, Any]) -> Context:
    """Builds the context from a stored run's summary.json, as its first session sees it."""
    network = summary["network"]
    sessions = tuple(_session(session) for session in network["sessions"])
    paths = [
        *(
            receiver["directions"]
            for session in network["sessions"]
            for receiver in session["receivers"].values()
        ),
        *(flow["directions"] for flow in network["flows"].values()),
    ]
    return Context(
        window=tuple(summary["window_s"]),
        session=sessions[0],
        sessions=sessions,
        flows={
            name: Flow(
                flow["kind"], flow["start_s"], flow["stop_s"], flow["packet_size"], flow["rival"]
            )
            for name, flow in network["flows"].items()
        },
        links=tuple(dict.fromkeys(itertools.chain.from_iterable(paths))),
        periods={name: tuple(ends) for name, ends in summary.get("periods_s", {}).items()},
    )


def _session(session: Mapping[str, Any]) -> Session:
    least = min(receiver["share"] for receiver in session["receivers"].values())
    return Session(
        number=session["session"],
        sender=session["sender"],
        layers=session["layers"],
        receivers={
            agent: Receiver(
                node=one["node"],
                available=tuple(tuple(step) for step in one["available"]),
                bottleneck=one["directions"][one["path"].index(one["bottleneck"])],
                # A single-rate session follows the smallest share: RLA's soft bottleneck.
                rivals=tuple(one["rivals"]) if session["layered"] or one["share"] == least else (),
                absences=tuple(tuple(interval) for interval in one["absences"]),
            )
            for agent, one in session["receivers"].items()
        },
        round_trip=session["round_trip_s"],
        start=session["start_s"],
        stop=math.inf if session.get("stop_s") is None else session["stop_s"],
    )
