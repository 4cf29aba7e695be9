"""What a measure knows about a run besides its rows: window, sessions, receivers, flows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tiercast_controller.base.units import parse_duration

Interval = tuple[float, float]  # s: from, to
ALWAYS: Interval = (0.0, math.inf)


def common(one: Interval, other: Interval) -> Interval | None:
    """What two intervals have in common; None if that is nothing."""
    start, end = max(one[0], other[0]), min(one[1], other[1])
    return (start, end) if start < end else None


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The intervals without overlaps, in the order of time."""
    result: list[Interval] = []
    for start, end in sorted(intervals):
        if result and start <= result[-1][1]:
            result[-1] = result[-1][0], max(end, result[-1][1])
        else:
            result.append((start, end))
    return result


@dataclass(frozen=True)
class Bottleneck:
    """Where a receiver's bottleneck is from a time on."""

    start: float  # s
    direction: str = ""  # of a link, as in `port` rows: "0>1"
    # The flows there, if the session's share is measured at this receiver.
    rivals: tuple[str, ...] = ()


@dataclass(frozen=True)
class Receiver:
    """A receiver of a session. It counts while it is present; `absences` are the intervals in which
    it is not."""

    node: int
    # Steps (s, bit/s) of the smallest link rate on its path.
    available: tuple[tuple[float, float], ...]
    # In the order of time, the first from 0 on; more than one if its path moves.
    bottlenecks: tuple[Bottleneck, ...] = (Bottleneck(0.0),)
    absences: tuple[Interval, ...] = ()

    def at_bottlenecks(self, within: Interval) -> list[tuple[Bottleneck, list[Interval]]]:
        """The bottlenecks that it has while it is present, each with that time."""
        parts = [(one, self.presence(part)) for one, part in self._parts(within)]
        return [(one, intervals) for one, intervals in parts if intervals]

    def rivals(self, within: Interval) -> list[str]:
        """The flows at its bottlenecks of an interval."""
        parts = self._parts(within)
        return list(dict.fromkeys(name for one, _ in parts for name in one.rivals))

    def _parts(self, within: Interval) -> list[tuple[Bottleneck, Interval]]:
        start, stop = within
        ends = [*(one.start for one in self.bottlenecks[1:]), math.inf]
        return [
            (one, (max(one.start, start), min(end, stop)))
            for one, end in zip(self.bottlenecks, ends, strict=True)
            if one.start <= stop and end > start
        ]

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

    @property
    def there(self) -> Interval:
        """The time during which it may send."""
        return self.start, self.stop


NOBODY = Session(-1, "", 0, {}, 0.0)  # stands for the session of a run that has none


@dataclass(frozen=True)
class Flow:
    """A competing flow. A rival is a TCP flow with which a session's share is compared, rather than
    background traffic that comes and goes."""

    kind: str  # "tcp", "udp"
    start: float  # s
    stop: float
    packet_size: int  # IP bytes
    rival: bool = True

    @property
    def there(self) -> Interval:
        """The time during which it may send."""
        return self.start, self.stop

    def presence(self, within: Interval) -> Interval | None:
        """The part of an interval during which it may send; None if there is none."""
        return common(self.there, within)


@dataclass(frozen=True)
class Context:
    """A run as seen by one of its sessions."""

    window: Interval
    session: Session
    sessions: tuple[Session, ...]
    flows: Mapping[str, Flow] = field(default_factory=dict)
    links: tuple[str, ...] = ()  # the directions that sessions and flows use: "0>1"
    periods: Mapping[str, Interval] = field(default_factory=dict)  # more windows, by name
    record_every: float = 0.0  # s at least between two records of one counter

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
    receivers = [one for part in network["sessions"] for one in part["receivers"].values()]
    users = [*receivers, *network["flows"].values()]
    paths = [one["directions"] for user in users for one in (user, *user.get("later", []))]
    return Context(
        window=tuple(summary["window_s"]),
        session=sessions[0] if sessions else NOBODY,
        sessions=sessions,
        flows={
            name: Flow(
                flow["kind"], flow["start_s"], flow["stop_s"], flow["packet_size"], flow["rival"]
            )
            for name, flow in network["flows"].items()
        },
        links=tuple(dict.fromkeys(itertools.chain.from_iterable(paths))),
        periods={name: tuple(ends) for name, ends in summary.get("periods_s", {}).items()},
        record_every=parse_duration(summary["experiment"].get("record_every") or "0s") / 1e9,
    )


def _session(session: Mapping[str, Any]) -> Session:
    bottlenecks = _bottlenecks(session)
    return Session(
        number=session["session"],
        sender=session["sender"],
        layers=session["layers"],
        receivers={
            agent: Receiver(
                node=one["node"],
                available=tuple(tuple(step) for step in one["available"]),
                bottlenecks=bottlenecks[agent],
                absences=tuple(tuple(interval) for interval in one["absences"]),
            )
            for agent, one in session["receivers"].items()
        },
        round_trip=session["round_trip_s"],
        start=session["start_s"],
        stop=math.inf if session.get("stop_s") is None else session["stop_s"],
    )


def _bottlenecks(session: Mapping[str, Any]) -> dict[str, tuple[Bottleneck, ...]]:
    """By receiver. They begin anew whenever the path of any receiver moves."""
    receivers = session["receivers"]
    parts = {
        agent: [(0.0, one), *((later["from_s"], later) for later in one.get("later", []))]
        for agent, one in receivers.items()
    }
    result: dict[str, list[Bottleneck]] = {agent: [] for agent in receivers}
    for at in sorted({start for mine in parts.values() for start, _ in mine}):
        now = {
            agent: [one for start, one in mine if start <= at][-1] for agent, mine in parts.items()
        }
        least = min(one["share"] for one in now.values())
        for agent, one in now.items():
            place = one["directions"][one["path"].index(one["bottleneck"])]
            # A single-rate session follows the smallest share: RLA's soft bottleneck.
            rivals = tuple(one["rivals"]) if session["layered"] or one["share"] == least else ()
            before = result[agent][-1] if result[agent] else None
            if before is None or (before.direction, before.rivals) != (place, rivals):
                result[agent].append(Bottleneck(at, place, rivals))
    return {agent: tuple(mine) for agent, mine in result.items()}
