"""Measures of a session beside the TCP flows that share its receivers' bottlenecks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from tiercast_lab.measures.rows import (
    Context,
    Rows,
    grown,
    rate_series,
    received_rate,
)


def flow_rate(rows: Rows, flow: str, edges: np.ndarray) -> np.ndarray:
    """bit/s, IP bytes of what the receiving end has read."""
    frame = rows.get("tcp")
    if frame is None:
        return np.zeros(len(edges) - 1)
    return rate_series(frame.filter(pl.col("agent") == flow), "bytes", edges)


@dataclass(frozen=True)
class _Contest:
    """Who shares bottlenecks, over the part of the window in which all these flows are there."""

    edges: np.ndarray  # s, of that part
    received: dict[str, float]  # bit/s of the receivers that have rivals
    flows: dict[str, float]  # bit/s
    rivals: dict[str, list[str]]  # of each of the receivers

    def fair(self, agent: str) -> float:
        """Mean throughput of the flows at a receiver's bottleneck."""
        return float(np.mean([self.flows[name] for name in self.rivals[agent]]))


def _contest(rows: Rows, context: Context) -> _Contest | None:
    rivals = _rivals(context)
    names = sorted({name for flows in rivals.values() for name in flows})
    if not names or "received" not in rows or "tcp" not in rows:
        return None
    start = max(context.window[0], *(context.flows[name][0] for name in names))
    end = min(context.window[1], *(context.flows[name][1] for name in names))
    if start >= end:
        return None
    edges = np.array([start, end])
    return _Contest(
        edges,
        {agent: float(received_rate(rows, agent, edges)[0]) for agent in rivals},
        {name: float(flow_rate(rows, name, edges)[0]) for name in names},
        rivals,
    )


def _rivals(context: Context) -> dict[str, list[str]]:
    """Flows at the bottlenecks of receivers, at some time of the window."""
    start, end = context.window
    present = {name for name, (on, off) in context.flows.items() if on < end and off > start}
    rivals = {
        agent: [name for name in flows if name in present]
        for agent, flows in context.rivals.items()
    }
    return {agent: flows for agent, flows in rivals.items() if flows}


def tcp_ratio(rows: Rows, context: Context) -> float | None:
    """Throughput at a receiver / mean throughput of the flows at its bottleneck; mean over the
    receivers."""
    if (contest := _contest(rows, context)) is None:
        return None
    shares = [(rate, contest.fair(agent)) for agent, rate in contest.received.items()]
    return float(np.mean([r / fair for r, fair in shares])) if all(f for _, f in shares) else None


def receiver_tcp_ratio(rows: Rows, context: Context, agent: str) -> float | None:
    """Throughput at one receiver / mean throughput of the flows at its bottleneck."""
    contest = _contest(rows, context)
    if contest is None or agent not in contest.received:
        return None
    fair = contest.fair(agent)
    return contest.received[agent] / fair if fair else None


def sessions_tcp_ratio(rows: Rows, context: Context) -> float | None:
    """Mean throughput of the receivers of all sessions / mean throughput of the flows at the first
    session's bottlenecks."""
    if (contest := _contest(rows, context)) is None or not context.members:
        return None
    rates = [float(received_rate(rows, agent, contest.edges)[0]) for agent in context.members]
    fair = float(np.mean(list(contest.flows.values())))
    return float(np.mean(rates)) / fair if fair else None


def tcp_ratio_extreme(
    rows: Rows, context: Context, of: Callable[[list[float]], float]
) -> float | None:
    """Of a receiver's throughput / that of a flow at its bottleneck, over all such pairs."""
    if (contest := _contest(rows, context)) is None or not all(contest.flows.values()):
        return None
    return of(
        [
            rate / contest.flows[name]
            for agent, rate in contest.received.items()
            for name in contest.rivals[agent]
        ]
    )


def tcp_throughput(
    rows: Rows, context: Context, of: Callable[[list[float]], float]
) -> float | None:
    contest = _contest(rows, context)
    return None if contest is None else float(of(list(contest.flows.values())))


def tcp_retransmitted(rows: Rows, context: Context) -> float | None:
    """Packets sent again / packets sent, all flows at the receivers' bottlenecks together."""
    frame = rows.get("tcp.sender")
    if frame is None or "retransmitted" not in frame.columns:
        return None
    sent = again = 0.0
    for name in {name for flows in _rivals(context).values() for name in flows}:
        mine = frame.filter(pl.col("agent") == name)
        again += grown(mine, "retransmitted", *context.window)
        sent += grown(mine, "sent_packets", *context.window)
    return again / sent if sent else None
