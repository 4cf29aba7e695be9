"""Measures that compare a session with the TCP flows that share its receivers' bottlenecks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

import numpy as np

from tiercast_lab.measures.context import Context, Flow, Interval
from tiercast_lab.measures.rows import (
    Rows,
    counter_at,
    increase,
    mean_received_rate,
    received_within,
)
from tiercast_lab.measures.spec import RATE, fraction, measure, number

beside_tcp = partial(measure, beside="tcp")


def flow_rate(rows: Rows, name: str, flow: Flow, edges: np.ndarray) -> np.ndarray:
    """bit/s of a TCP flow in each interval: IP bytes read at the receiving end."""
    read = counter_at(rows.of("tcp", name), "bytes", edges, flow.there)
    return 8 * np.diff(read) / np.diff(edges)


@dataclass(frozen=True)
class _Match:
    """A receiver, and the flows at its bottleneck during some intervals."""

    agent: str
    rivals: list[str]
    there: list[Interval]

    @property
    def seconds(self) -> float:
        return sum(end - start for start, end in self.there)


@dataclass(frozen=True)
class _Contest:
    """The flows that share bottlenecks with receivers, over the part of the window in which all of
    them are present. A receiver whose bottleneck moves has a match for each."""

    rows: Rows
    context: Context
    part: np.ndarray  # the two ends of that part, s
    matches: list[_Match]

    @property
    def flows(self) -> list[str]:
        return sorted({name for match in self.matches for name in match.rivals})

    def rate(self, flow: str) -> float:
        """The flow's throughput in bit/s."""
        return float(flow_rate(self.rows, flow, self.context.flows[flow], self.part)[0])

    def shares(self, match: _Match) -> tuple[float, list[float]]:
        """bit/s of the receiver, and of each flow at its bottleneck, during the match."""
        receiver = self.context.receivers[match.agent]
        total = sum(
            received_within(self.rows, receiver, match.agent, "bytes", np.array(one))[0]
            for one in match.there
        )
        grown = (
            sum(
                increase(self.rows.of("tcp", name), "bytes", *one, self.context.flows[name].there)
                for one in match.there
            )
            for name in match.rivals
        )
        return 8 * float(total) / match.seconds, [8 * one / match.seconds for one in grown]


def _contest(rows: Rows, context: Context) -> _Contest | None:
    if "received" not in rows or "tcp" not in rows:
        return None
    names = _rivals(context)
    if not names:
        return None
    # Each flow is present at some time of the window.
    parts = [one for name in names if (one := context.flows[name].presence(context.span))]
    start, end = max(on for on, _ in parts), min(off for _, off in parts)
    if start >= end:
        return None
    matches = [
        _Match(agent, rivals, there)
        for agent, receiver in context.receivers.items()
        for bottleneck, there in receiver.at_bottlenecks((start, end))
        if (rivals := [name for name in bottleneck.rivals if name in names])
    ]
    return _Contest(rows, context, np.array([start, end]), matches) if matches else None


def _rivals(context: Context) -> set[str]:
    """The flows at the bottlenecks of receivers, if both are present at some time of the window."""
    return {
        name
        for receiver in context.receivers.values()
        for bottleneck, _ in receiver.at_bottlenecks(context.span)
        for name in bottleneck.rivals
        if context.flows[name].presence(context.span)
    }


@beside_tcp(
    number(), "throughput of the session / mean throughput of the TCP flows at its bottleneck"
)
def tcp_ratio(rows: Rows, context: Context) -> float | None:
    """A receiver's throughput divided by the mean throughput of the flows at its bottleneck; mean
    over the receivers."""
    return _tcp_ratio(_contest(rows, context))


def _tcp_ratio(contest: _Contest | None) -> float | None:
    if contest is None:
        return None
    total = seconds = 0.0
    for match in contest.matches:
        rate, flows = contest.shares(match)
        if not sum(flows):
            return None
        total += float(rate / np.mean(flows)) * match.seconds
        seconds += match.seconds
    return total / seconds


@beside_tcp(number(), "`tcp_ratio` of one receiver", which="receiver", whole=False)
def receiver_tcp_ratio(rows: Rows, context: Context, agent: str) -> float | None:
    """One receiver's throughput divided by the mean throughput of the flows at its bottleneck."""
    contest = _contest(rows, context)
    mine = [match for match in contest.matches if match.agent == agent] if contest else []
    return _tcp_ratio(replace(contest, matches=mine)) if contest and mine else None


@beside_tcp(
    number(),
    "mean throughput of all sessions' receivers / mean throughput of the TCP flows at the "
    "session's bottlenecks",
)
def sessions_tcp_ratio(rows: Rows, context: Context) -> float | None:
    """The mean throughput of the receivers of all sessions, divided by the mean throughput of the
    flows at this session's bottlenecks."""
    if (contest := _contest(rows, context)) is None:
        return None
    receivers = {
        agent: one for session in context.sessions for agent, one in session.receivers.items()
    }
    mean = float(mean_received_rate(rows, receivers, contest.part)[0])
    fair = float(np.mean([contest.rate(name) for name in contest.flows]))
    return mean / fair if fair else None


def _tcp_ratio_extreme(
    rows: Rows, context: Context, of: Callable[[list[float]], float]
) -> float | None:
    """The extreme of a receiver's throughput divided by that of a flow at its bottleneck, over all
    such pairs."""
    if (contest := _contest(rows, context)) is None:
        return None
    pairs = [(rate, flow) for rate, flows in map(contest.shares, contest.matches) for flow in flows]
    return of([rate / flow for rate, flow in pairs]) if all(flow for _, flow in pairs) else None


for place, of, which in (("worst", max, "slowest"), ("best", min, "fastest")):
    beside_tcp(
        number(),
        f"throughput of a receiver / that of the {which} TCP flow at its bottleneck, the "
        f"{'largest' if of is max else 'smallest'} of all",
        name=f"tcp_ratio_to_{place}",
    )(partial(_tcp_ratio_extreme, of=of))


def _tcp_throughput(
    rows: Rows, context: Context, of: Callable[[list[float]], float]
) -> float | None:
    """bit/s of the flows at the receivers' bottlenecks: their mean, or another function of them."""
    contest = _contest(rows, context)
    return None if contest is None else of([contest.rate(name) for name in contest.flows])


_RATES: tuple[tuple[str, Callable[[list[float]], float], str], ...] = (
    ("tcp_throughput", fmean, "mean"),
    ("tcp_worst", min, "smallest"),
    ("tcp_best", max, "largest"),
)
for name, summary, which in _RATES:
    beside_tcp(RATE, f"{which} throughput of the TCP flows at the bottleneck", name=name)(
        partial(_tcp_throughput, of=summary)
    )


@beside_tcp(fraction(), "packets retransmitted / packets sent, TCP flows at the bottleneck")
def tcp_retransmitted(rows: Rows, context: Context) -> float | None:
    """Packets retransmitted / packets sent, for all flows at the receivers' bottlenecks
    together."""
    if "tcp.sender" not in rows or "retransmitted" not in rows["tcp.sender"].columns:
        return None
    sent = again = 0.0
    for name in _rivals(context):
        mine, there = rows.of("tcp.sender", name), context.flows[name].there
        again += increase(mine, "retransmitted", *context.span, there)
        sent += increase(mine, "sent_packets", *context.span, there)
    return again / sent if sent else None
