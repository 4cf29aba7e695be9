"""Measures that compare a session with the TCP flows that share its receivers' bottlenecks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import numpy as np

from tiercast_lab.measures.context import Context, Interval
from tiercast_lab.measures.rows import (
    Rows,
    counter_at,
    increase,
    mean_received_rate,
    received_rate,
    seconds_there,
)
from tiercast_lab.measures.spec import RATE, fraction, measure, number

beside_tcp = partial(measure, beside="tcp")


def flow_rate(rows: Rows, flow: str, edges: np.ndarray) -> np.ndarray:
    """bit/s of a TCP flow in each interval: IP bytes read at the receiving end."""
    return 8 * np.diff(counter_at(rows.of("tcp", flow), "bytes", edges)) / np.diff(edges)


@dataclass(frozen=True)
class _Contest:
    """The flows that share bottlenecks with receivers, over the part of the window in which all of
    them are present."""

    rows: Rows
    context: Context
    part: np.ndarray  # the two ends of that part, s
    rivals: dict[str, list[str]]  # by receiver, if it is present then and has any

    @property
    def flows(self) -> list[str]:
        return sorted({name for flows in self.rivals.values() for name in flows})

    def rate(self, flow: str) -> float:
        """The flow's throughput in bit/s."""
        return float(flow_rate(self.rows, flow, self.part)[0])

    def seconds(self, agent: str) -> float:
        """The time for which the receiver is present, in s."""
        return float(seconds_there(self.context.receivers[agent], self.part)[0])

    def shares(self, agent: str) -> tuple[float, list[float]]:
        """bit/s of a receiver, and of each flow at its bottleneck, while the receiver is
        present."""
        receiver = self.context.receivers[agent]
        rate = float(received_rate(self.rows, receiver, agent, self.part)[0])
        there = receiver.presence((self.part[0], self.part[1]))
        return rate, [_rate_within(self.rows, name, there) for name in self.rivals[agent]]


def _rate_within(rows: Rows, flow: str, there: list[Interval]) -> float:
    mine = rows.of("tcp", flow)
    bits = 8 * sum(increase(mine, "bytes", start, end) for start, end in there)
    return bits / sum(end - start for start, end in there)


def _contest(rows: Rows, context: Context) -> _Contest | None:
    if "received" not in rows or "tcp" not in rows:
        return None
    rivals = _rivals(context)
    names = {name for flows in rivals.values() for name in flows}
    if not names:
        return None
    # Each flow is present at some time of the window.
    parts = [one for name in names if (one := context.flows[name].presence(context.span))]
    start, end = max(on for on, _ in parts), min(off for _, off in parts)
    if start >= end:
        return None
    there = {
        agent: names
        for agent, names in rivals.items()
        if context.receivers[agent].presence((start, end))
    }
    return _Contest(rows, context, np.array([start, end]), there) if there else None


def _rivals(context: Context) -> dict[str, list[str]]:
    """The flows at the bottleneck of each receiver, if both are present at some time of the
    window."""
    rivals = {
        agent: [name for name in receiver.rivals if context.flows[name].presence(context.span)]
        for agent, receiver in context.receivers.items()
        if receiver.presence(context.span)
    }
    return {agent: flows for agent, flows in rivals.items() if flows}


@beside_tcp(
    number(), "throughput of the session / mean throughput of the TCP flows at its bottleneck"
)
def tcp_ratio(rows: Rows, context: Context) -> float | None:
    """A receiver's throughput divided by the mean throughput of the flows at its bottleneck; mean
    over the receivers."""
    if (contest := _contest(rows, context)) is None:
        return None
    total = seconds = 0.0
    for agent in contest.rivals:
        if (ratio := _ratio(contest, agent)) is None:
            return None
        total += ratio * contest.seconds(agent)
        seconds += contest.seconds(agent)
    return total / seconds


def _ratio(contest: _Contest, agent: str) -> float | None:
    rate, flows = contest.shares(agent)
    return float(rate / np.mean(flows)) if sum(flows) else None


@beside_tcp(number(), "`tcp_ratio` of one receiver", which="receiver", whole=False)
def receiver_tcp_ratio(rows: Rows, context: Context, agent: str) -> float | None:
    """One receiver's throughput divided by the mean throughput of the flows at its bottleneck."""
    contest = _contest(rows, context)
    if contest is None or agent not in contest.rivals:
        return None
    return _ratio(contest, agent)


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
    pairs = [(rate, flow) for rate, flows in map(contest.shares, contest.rivals) for flow in flows]
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
    for name in {name for flows in _rivals(context).values() for name in flows}:
        mine = rows.of("tcp.sender", name)
        again += increase(mine, "retransmitted", *context.span)
        sent += increase(mine, "sent_packets", *context.span)
    return again / sent if sent else None
