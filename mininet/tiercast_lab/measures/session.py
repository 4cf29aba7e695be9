"""Measures of a session over the window: those of SIM 4.1, rates, losses, subscriptions.

A receiver counts while it is present. What it receives during an absence is in no total. A mean
over receivers divides the sum over all of them by the total time for which they are present: a
receiver that is present for half of the window weighs half as much as one that never left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np
import polars as pl

from tiercast_lab.base.frames import as_float
from tiercast_lab.measures.context import (
    Context,
    Interval,
    Receiver,
    Session,
    common,
    union,
)
from tiercast_lab.measures.rows import (
    Rows,
    cumulative_rates,
    efficiency_series,
    increase,
    instability_series,
    layers_together,
    mean_received_rate,
    received_by,
    received_rate,
    received_within,
    seconds_there,
    steps_within,
    top_steps,
    whole_seconds,
)
from tiercast_lab.measures.spec import LATENCY, RATE, fraction, measure, number


@measure(
    RATE,
    "sending rate of the n lowest layers, from bytes sent",
    which="layers",
    whole=False,
)
def cumulative_rate(rows: Rows, context: Context, layers: int) -> float | None:
    """bit/s that the sender sends in the n lowest layers together."""
    if "layer" not in rows:
        return None
    return float(cumulative_rates(rows, context.session, np.array(context.span))[layers - 1, 0])


@measure(
    number("receivers"),
    "receivers that have at least n layers, averaged over time",
    which="layers",
    whole=False,
)
def subscribers(rows: Rows, context: Context, layers: int) -> float | None:
    """The number of receivers subscribed to at least `layers` layers, averaged over time."""
    if "subscription" not in rows:
        return None
    start, end = context.span
    seconds = 0.0
    for agent, receiver in context.receivers.items():
        there = receiver.presence(context.span)
        top, held = steps_within(*top_steps(rows, agent), there, before=-1.0)
        seconds += held[top >= layers - 1].sum()
    return float(seconds / (end - start))


@measure(
    number(digits=3),
    "received rate / available bandwidth, mean over receivers and time (SIM 4.1); available is the "
    "smallest rate on the path, as the events change it",
)
def efficiency(rows: Rows, context: Context) -> float | None:
    """Received rate / available bandwidth, mean over the receivers  // SIM 4.1"""
    if "received" not in rows:
        return None
    return float(efficiency_series(rows, context.session, np.array(context.span))[0])


@measure(
    number("changes/receiver/RTT", digits=5),
    "subscription changes per receiver and round trip (SIM 4.1, read as I(j·d)), including those "
    "of receivers that leave and come back",
)
def instability(rows: Rows, context: Context) -> float | None:
    """Subscription changes per receiver and round trip  // SIM 4.1"""
    if "subscription" not in rows:
        return None
    return float(instability_series(rows, context.session, np.array(context.span))[0])


@measure(RATE, "received rate, mean over receivers")
def session_throughput(rows: Rows, context: Context) -> float | None:
    """bit/s, mean over the receivers."""
    if "received" not in rows:
        return None
    return float(mean_received_rate(rows, context.receivers, np.array(context.span))[0])


@measure(RATE, "received rate, mean over the receivers of all other sessions")
def other_throughput(rows: Rows, context: Context) -> float | None:
    """bit/s, mean over the receivers of all other sessions, while this session is present."""
    receivers = _receivers_of(_others(context))
    if "received" not in rows or not receivers:
        return None
    return float(mean_received_rate(rows, receivers, np.array(context.span))[0])


@measure(
    number(),
    "throughput of the session / that of the others, while one of them is present",
)
def other_ratio(rows: Rows, context: Context) -> float | None:
    """This session's throughput / that of the others, over the time in which this one and at least
    one other are present."""
    others = _others(context)
    parts = [part for one in others if (part := common(one.there, context.span)) is not None]
    if "received" not in rows or not parts:
        return None
    own, other = (
        _throughput(rows, receivers, union(parts))
        for receivers in (context.receivers, _receivers_of(others))
    )
    return own / other if own is not None and other else None


def _throughput(
    rows: Rows, receivers: Mapping[str, Receiver], parts: Iterable[Interval]
) -> float | None:
    """bit/s, mean over the receivers, in these intervals together."""
    bits, seconds = np.sum([received_by(rows, receivers, np.array(one)) for one in parts], axis=0)
    return float(bits[0] / seconds[0]) if seconds[0] else None


def _others(context: Context) -> list[Session]:
    return [one for one in context.sessions if one.number != context.session.number]


def _receivers_of(sessions: Iterable[Session]) -> dict[str, Receiver]:
    return {agent: one for session in sessions for agent, one in session.receivers.items()}


@measure(RATE, "received rate of one receiver", which="receiver", whole=False)
def receiver_rate(rows: Rows, context: Context, agent: str) -> float | None:
    """bit/s of one receiver: IP bytes of all its layers."""
    if "received" not in rows:
        return None
    edges = np.array(context.span)
    return float(received_rate(rows, context.receivers[agent], agent, edges)[0])


@measure(
    number("layers"),
    "layers that one receiver has, averaged over time",
    which="receiver",
    whole=False,
)
def level(rows: Rows, context: Context, agent: str) -> float | None:
    """The number of layers to which a receiver is subscribed, averaged over time."""
    if "subscription" not in rows:
        return None
    there = context.receivers[agent].presence(context.span)
    top, held = steps_within(*top_steps(rows, agent), there, before=-1.0)
    return float(((top + 1) * held).sum() / held.sum()) if held.size else None


@measure(
    number(),
    "standard deviation / mean of one receiver's rate in each second; no data if `record_every` is "
    "longer",
    which="receiver",
    whole=False,
)
def rate_variation(rows: Rows, context: Context, agent: str) -> float | None:
    """Standard deviation / mean of a receiver's rate per second, over the seconds for which it was
    present throughout. None if records are rarer, as rates between them are means."""
    if "received" not in rows or context.record_every > 1:
        return None
    edges, receiver = whole_seconds(context.span), context.receivers[agent]
    rates = received_rate(rows, receiver, agent, edges)
    rates = rates[np.isclose(seconds_there(receiver, edges), np.diff(edges))]
    return float(rates.std() / rates.mean()) if rates.size and rates.mean() > 0 else None


@measure(
    fraction(),
    "packets lost, by gaps in sequence numbers / packets sent to receivers, all together",
)
def loss(rows: Rows, context: Context) -> float | None:
    """Packets lost / (received + lost), all receivers together."""
    lost, received = _received(rows, context, "lost"), _received(rows, context, "packets")
    return lost / (lost + received) if lost + received else None


@measure(
    fraction(),
    "packets received with CE / packets received, all receivers together; for a link: packets of "
    "the session that it marked / that left it",
    which="link",
)
def marked(rows: Rows, context: Context, link: str | None = None) -> float | None:
    """Packets received with CE / packets received, all receivers together; or the same at a
    link."""
    if link is not None:
        return _marked_at(rows, context, link)
    packets = _received(rows, context, "packets")
    return _received(rows, context, "marked") / packets if packets else None


def _marked_at(rows: Rows, context: Context, link: str) -> float | None:
    """Packets of the session that a port marked / that left it."""
    if "port.session" not in rows:
        return None
    mine = pl.col("session") == context.session.number
    samples, there = layers_together(rows, link, mine, "left", "marked"), context.session.there
    left = increase(samples, "left", *context.span, there)
    return increase(samples, "marked", *context.span, there) / left if left else None


def _received(rows: Rows, context: Context, column: str) -> float:
    """The growth of a counter, all receivers together."""
    edges = np.array(context.span)
    return sum(
        float(received_within(rows, receiver, agent, column, edges)[0])
        for agent, receiver in context.receivers.items()
    )


def join_latency(rows: Rows, context: Context, quantile: float) -> float | None:
    """The time in s from a join to the first packet of its layer. If nobody joined in the window,
    the joins of the whole run count."""
    if "join" not in rows:
        return None
    joins = rows["join"].filter(pl.col("agent").is_in(list(context.receivers)))
    windowed = joins.filter(pl.col("time_s").is_between(*context.span))
    chosen = joins if windowed.is_empty() else windowed
    if chosen.is_empty():
        return None
    return as_float(chosen["latency_us"].quantile(quantile, "higher")) / 1e6


for percent, what in ((50, "median"), (99, "99th percentile")):
    measure(
        LATENCY,
        f"from a join to the first packet of the layer, {what}; if nobody joined in the window, "
        "of the whole run",
        name=f"join_latency_p{percent}",
    )(partial(join_latency, quantile=percent / 100))
