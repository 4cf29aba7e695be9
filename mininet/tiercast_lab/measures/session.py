"""Measures of the first session over the window: SIM 4.1's, rates, losses, queues."""

from __future__ import annotations

import numpy as np
import polars as pl

from tiercast_lab.measures.rows import (
    Context,
    Rows,
    cumulative_rates,
    efficiency_series,
    grown,
    in_window,
    instability_series,
    received_rate,
    seconds,
    subscribers,
    top_at,
    window_edges,
)


def cumulative_rate(rows: Rows, context: Context, layers: int) -> float | None:
    if "layer" not in rows:
        return None
    return float(cumulative_rates(rows, context, window_edges(context))[layers - 1, 0])


def mean_subscribers(rows: Rows, context: Context, layers: int) -> float | None:
    """Time average of the receivers subscribed to at least `layers` layers."""
    if "subscription" not in rows:
        return None
    start, end = context.window
    at = np.arange(start, end, 0.05)
    return float(subscribers(rows, context, at)[layers - 1].mean())


def efficiency(rows: Rows, context: Context) -> float | None:
    if "received" not in rows:
        return None
    series = efficiency_series(rows, context, seconds(context))
    there = series[~np.isnan(series)]
    return float(there.mean()) if there.size else None


def receiver_rate(rows: Rows, context: Context, agent: str) -> float | None:
    """Of one receiver, IP bytes of all its layers."""
    if "received" not in rows:
        return None
    return float(received_rate(rows, agent, window_edges(context))[0])


def level(rows: Rows, context: Context, agent: str) -> float | None:
    """Layers that a receiver is subscribed to, time average."""
    if "subscription" not in rows:
        return None
    return float(top_at(rows, agent, np.arange(*context.window, 0.05)).mean()) + 1


def rate_variation(rows: Rows, context: Context, agent: str) -> float | None:
    """Standard deviation / mean of a receiver's rate in each second."""
    if "received" not in rows:
        return None
    rates = received_rate(rows, agent, seconds(context))
    return float(rates.std() / rates.mean()) if rates.mean() > 0 else None


def instability(rows: Rows, context: Context) -> float | None:
    if "subscription" not in rows:
        return None
    return float(instability_series(rows, context, window_edges(context))[0])


def loss(rows: Rows, context: Context) -> float | None:
    """Packets lost / (received + lost), all receivers together."""
    frame = rows.get("received")
    if frame is None:
        return None
    lost = received = 0.0
    for agent in context.receivers:
        mine = frame.filter(pl.col("agent") == agent)
        lost += grown(mine, "lost", *context.window)
        received += grown(mine, "packets", *context.window)
    return lost / (lost + received) if lost + received else None


def marked(rows: Rows, context: Context) -> float | None:
    """Packets with CE / received, all receivers together."""
    frame = rows.get("received")
    if frame is None:
        return None
    marks = packets = 0.0
    for agent in context.receivers:
        mine = frame.filter(pl.col("agent") == agent)
        marks += grown(mine, "marked", *context.window)
        packets += grown(mine, "packets", *context.window)
    return marks / packets if packets else None


def join_latency(rows: Rows, context: Context, quantile: float) -> float | None:
    """s, from a join to the first packet of its layer. Where nobody joined in the window, the
    joins of the whole run count."""
    frame = rows.get("join")
    if frame is None or frame.is_empty():
        return None
    windowed = in_window(frame, context)
    chosen = frame if windowed.is_empty() else windowed
    return float(chosen["latency_us"].quantile(quantile, "higher")) / 1e6


def longest_queue(rows: Rows, context: Context) -> float | None:
    """Packets waiting at any port."""
    frame = rows.get("port")
    if frame is None:
        return None
    # A row says the longest since the row before: the one at the window's start is of before it.
    windowed = frame.filter(pl.col("time_s").is_between(*context.window, closed="right"))
    return None if windowed.is_empty() else float(windowed["max_queue_packets"].max())


def queue_drops(rows: Rows, context: Context) -> float | None:
    """Packets dropped at emulated queues, as a share of all that reached them."""
    frame = rows.get("port")
    if frame is None:
        return None
    drops = sent = 0.0
    for _, port in frame.group_by("agent", "port"):
        drops += grown(port, "queue_drops", *context.window)
        sent += grown(port, "tx_packets", *context.window)
    return drops / (drops + sent) if drops + sent else None


def mean_queue(rows: Rows, context: Context) -> float | None:
    """Packets waiting at the receivers' bottlenecks, mean over the looks at them."""
    frame = rows.get("port")
    if frame is None:
        return None
    links = set(context.bottlenecks.values())
    seen = in_window(frame, context).filter(pl.col("link").is_in(links))
    return None if seen.is_empty() else float(seen["queue_packets"].mean())


def session_throughput(rows: Rows, context: Context) -> float | None:
    """bit/s, mean over the receivers."""
    if "received" not in rows:
        return None
    edges = window_edges(context)
    rates = [float(received_rate(rows, agent, edges)[0]) for agent in context.receivers]
    return float(np.mean(rates))


def other_throughput(rows: Rows, context: Context) -> float | None:
    """bit/s, mean over the receivers of all sessions but the first."""
    others = [agent for agent in context.members if agent not in context.available]
    if "received" not in rows or not others:
        return None
    edges = window_edges(context)
    return float(np.mean([received_rate(rows, agent, edges)[0] for agent in others]))


def other_ratio(rows: Rows, context: Context) -> float | None:
    """Throughput of the first session / that of the others."""
    other = other_throughput(rows, context)
    return session_throughput(rows, context) / other if other else None
