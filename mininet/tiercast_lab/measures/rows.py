"""What measures stand on: a run's rows, what is known of the run, and quantities over time."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

Rows = Mapping[str, pl.DataFrame]


@dataclass(frozen=True)
class Context:
    """What a measure knows of the run beside its rows.

    available[agent]: steps (time_s, bit/s) of the smallest link rate on the receiver's path.
    bottlenecks[agent]: the direction of a link, as in `port` rows: "0>1". flows: TCP flows with
    their start and stop, s, without background that comes and goes. rivals[agent]: the flows at
    the bottleneck of a receiver, of those receivers by which the session's share is measured.
    """

    window: tuple[float, float]  # s
    sender: str
    layers: int
    available: Mapping[str, list[tuple[float, float]]]
    round_trip: float  # s, d of SIM table 1
    bottlenecks: Mapping[str, str] = field(default_factory=dict)
    flows: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    rivals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # absences[agent]: intervals (from, to), s, in which a receiver is none.
    absences: Mapping[str, list[tuple[float, float]]] = field(default_factory=dict)
    members: tuple[str, ...] = ()  # receivers of every session
    periods: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # further windows
    senders: Mapping[int, str] = field(default_factory=dict)  # of every session, by its number
    packet_sizes: Mapping[str, int] = field(default_factory=dict)  # of flows, IP bytes

    @property
    def receivers(self) -> list[str]:
        return list(self.available)

    @property
    def competing(self) -> list[str]:
        """The flows by which the session's share is measured."""
        return sorted({name for rivals in self.rivals.values() for name in rivals})


def context_of(summary: Mapping[str, Any]) -> Context:
    """Of a stored run's summary.json."""
    network = summary["network"]
    # Runs of before there was competing traffic have neither flows nor rivals.
    flows, receivers = network.get("flows", {}), network["receivers"]
    rivals = {agent: tuple(facts.get("rivals", ())) for agent, facts in receivers.items()}
    if not summary.get("layered", True):
        # One rate for all follows the smallest share: RLA's soft bottleneck.
        least = min(facts["share"] for facts in receivers.values())
        rivals = {a: names for a, names in rivals.items() if receivers[a]["share"] == least}
    return Context(
        window=tuple(summary["window_s"]),
        sender=network["sender"],
        layers=summary["layers"],
        available={
            agent: [tuple(step) for step in facts["available"]]
            for agent, facts in network["receivers"].items()
        },
        round_trip=network["round_trip_s"],
        bottlenecks={
            agent: facts["directions"][facts["path"].index(facts["bottleneck"])]
            for agent, facts in receivers.items()
            if "directions" in facts
        },
        flows={
            name: (flow["start_s"], flow["stop_s"])
            for name, flow in flows.items()
            if flow.get("rival", True)
        },
        rivals={agent: names for agent, names in rivals.items() if names},
        absences={
            agent: [tuple(interval) for interval in facts.get("absences", ())]
            for agent, facts in receivers.items()
        },
        members=tuple(network.get("members", receivers)),
        periods={name: tuple(ends) for name, ends in summary.get("periods_s", {}).items()},
        senders=dict(network.get("senders", [[1, network["sender"]]])),
        packet_sizes={
            name: flow["packet_size"] for name, flow in flows.items() if "packet_size" in flow
        },
    )


def counter_at(rows: pl.DataFrame, column: str, times: np.ndarray) -> np.ndarray:
    """A counter's value at `times`, on straight lines between its rows, which start from 0."""
    rows = rows.sort("time_s")
    if rows.is_empty():
        return np.zeros(len(times))
    return np.interp(times, rows["time_s"].to_numpy(), rows[column].to_numpy(), left=0.0)


def grown(rows: pl.DataFrame, column: str, start: float, end: float) -> float:
    """What a counter grows by from `start` to `end`, s."""
    return float(np.diff(counter_at(rows, column, np.array([start, end])))[0])


def rate_series(rows: pl.DataFrame, column: str, edges: np.ndarray) -> np.ndarray:
    """bit/s of a byte counter in each interval between `edges`."""
    return 8 * np.diff(counter_at(rows, column, edges)) / np.diff(edges)


def step_at(times: np.ndarray, values: np.ndarray, at: np.ndarray, before: float) -> np.ndarray:
    """A piecewise constant quantity at the times `at`; `before` its first change."""
    if len(times) == 0:
        return np.full(len(at), before)
    index = np.searchsorted(times, at, side="right") - 1
    return np.where(index >= 0, np.asarray(values)[np.maximum(index, 0)], before)


def top_at(rows: Rows, agent: str, at: np.ndarray) -> np.ndarray:
    """The subscription level of a receiver: its highest rank, -1 before it joins."""
    frame = rows.get("subscription")
    if frame is None:
        return np.full(len(at), -1.0)
    mine = frame.filter(pl.col("agent") == agent).sort("time_s")
    return step_at(mine["time_s"].to_numpy(), mine["top"].to_numpy(), at, -1.0)


def subscribers(rows: Rows, context: Context, at: np.ndarray) -> np.ndarray:
    """[layer, time]: receivers whose subscription includes the layer."""
    tops = np.array([top_at(rows, agent, at) for agent in context.receivers])
    return np.array([(tops >= rank).sum(axis=0) for rank in range(context.layers)])


def cumulative_rates(rows: Rows, context: Context, edges: np.ndarray) -> np.ndarray:
    """[n-1, interval]: sending rate of the n lowest layers together, from bytes sent."""
    frame = rows.get("layer")
    if frame is None:
        return np.zeros((context.layers, len(edges) - 1))
    layers = [
        rate_series(
            frame.filter((pl.col("rank") == rank) & (pl.col("agent") == context.sender)),
            "sent_bytes",
            edges,
        )
        for rank in range(context.layers)
    ]
    return np.cumsum(layers, axis=0)


def received_rate(rows: Rows, agent: str, edges: np.ndarray) -> np.ndarray:
    frame = rows.get("received")
    if frame is None:
        return np.zeros(len(edges) - 1)
    return rate_series(frame.filter(pl.col("agent") == agent), "bytes", edges)


def utilisation(rows: Rows, context: Context, agent: str, edges: np.ndarray) -> np.ndarray:
    """Mean of r_i(t) / a_i(t) over each interval, which is divided where a_i changes: bytes that
    came while the link was fast do not count for when it was slow."""
    times, rates = (np.array(column) for column in zip(*context.available[agent], strict=True))
    inside = times[(times > edges[0]) & (times < edges[-1])]
    parts = np.union1d(edges, inside)
    available = step_at(times, rates, (parts[:-1] + parts[1:]) / 2, rates[0])
    used = received_rate(rows, agent, parts) / available * np.diff(parts)
    so_far = np.concatenate(([0.0], np.cumsum(used)))[np.searchsorted(parts, edges)]
    return np.diff(so_far) / np.diff(edges)


def present(context: Context, agent: str, edges: np.ndarray) -> np.ndarray:
    """Whether the agent is a receiver throughout each interval."""
    result = np.full(len(edges) - 1, True)
    for start, end in context.absences.get(agent, ()):
        result &= (edges[1:] <= start) | (edges[:-1] >= end)
    return result


def efficiency_series(rows: Rows, context: Context, edges: np.ndarray) -> np.ndarray:
    """E(t) = 1/n sum r_i(t) / a_i(t)  // SIM 4.1, over the receivers that are there."""
    shares = [
        np.where(
            present(context, agent, edges),
            utilisation(rows, context, agent, edges),
            np.nan,
        )
        for agent in context.receivers
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # an interval without a receiver
        return np.nanmean(shares, axis=0)


def change_times(rows: Rows, context: Context) -> np.ndarray:
    """Times of all subscription changes; a receiver's first join is none."""
    frame = rows.get("subscription")
    if frame is None or frame.is_empty():
        return np.array([])
    changes = frame.sort("time_s").filter(
        pl.col("agent").is_in(context.receivers)
        & (pl.col("top") != pl.col("top").shift(1).over("agent"))
    )
    return changes["time_s"].to_numpy()


def instability_series(rows: Rows, context: Context, edges: np.ndarray) -> np.ndarray:
    """Mean of I(t), changes per receiver in a round trip, over each interval  // SIM 4.1"""
    changes, _ = np.histogram(change_times(rows, context), edges)
    return changes / len(context.receivers) * context.round_trip / np.diff(edges)


def seconds(context: Context) -> np.ndarray:
    """Edges of about a second that fill the window."""
    start, end = context.window
    return np.linspace(start, end, max(1, round(end - start)) + 1)


def window_edges(context: Context) -> np.ndarray:
    return np.array(context.window)


def in_window(frame: pl.DataFrame, context: Context) -> pl.DataFrame:
    return frame.filter(pl.col("time_s").is_between(*context.window))
