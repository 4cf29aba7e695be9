"""Measures of the ports' queues: what waits in them, and what became of the packets that entered.

A measure is None if the switches do not count it: its columns are null.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import polars as pl

from tiercast_lab.base.frames import as_float_or_none
from tiercast_lab.measures.context import Context, Interval
from tiercast_lab.measures.rows import LINK_LOSSES, Rows, increase
from tiercast_lab.measures.spec import fraction, measure, number


@measure(number("packets", 0), "most packets waiting at any port", of_run=True)
def longest_queue(rows: Rows, context: Context) -> float | None:
    """The most packets waiting at any port."""
    if "port" not in rows:
        return None
    # A row holds the maximum since the row before it, so the row at the start of the window is
    # excluded.
    within = pl.col("time_s").is_between(*context.window, closed="right")
    return as_float_or_none(rows["port"].filter(within)["max_queue_packets"].max())


@measure(
    number("packets", 1),
    "packets waiting at the receivers' bottlenecks, mean over samples (one a second)",
)
def mean_queue(rows: Rows, context: Context) -> float | None:
    """Packets waiting at the bottlenecks of the receivers that are present, mean over the
    samples."""
    there: dict[str, list[Interval]] = defaultdict(list)
    for receiver in context.receivers.values():
        for bottleneck, intervals in receiver.at_bottlenecks(context.span):
            there[bottleneck.direction] += intervals
    seen = []
    for link, intervals in there.items():
        samples = rows.of("port", link, "link")
        within = [pl.col("time_s").is_between(*one) for one in intervals]
        if not samples.is_empty() and within:
            queue = samples.filter(pl.any_horizontal(within))["queue_packets"]
            seen += queue.drop_nulls().to_list()
    return sum(seen) / len(seen) if seen else None


@measure(
    fraction(),
    "packets that found their queue full / packets that entered queues, all links or one",
    which="link",
    of_run=True,
)
def queue_drops(rows: Rows, context: Context, link: str | None = None) -> float | None:
    """Packets that found a queue full / packets that entered queues, for all ports or one link."""
    return _of_entered(rows, context, ["queue_drops"], link)


@measure(
    fraction(),
    "packets that the ports' marking dropped (RED, `drop_tail`) / packets that entered queues, all "
    "links or one",
    which="link",
    of_run=True,
)
def policy_drops(rows: Rows, context: Context, link: str | None = None) -> float | None:
    """Packets dropped by ports' policies / packets that entered queues, for all ports or one
    link."""
    return _of_entered(rows, context, ["policy_drops"], link)


@measure(
    fraction(),
    "packets that left a port marked CE by it / packets that left, all links or one",
    which="link",
    of_run=True,
)
def link_marks(rows: Rows, context: Context, link: str | None = None) -> float | None:
    """Packets that left with a mark of their port / packets that left, for all ports or one
    link."""
    if "port" not in rows:
        return None
    ports = (
        [part for _, part in rows["port"].group_by("agent", "port", maintain_order=True)]
        if link is None
        else [rows.of("port", link, "link")]
    )
    columns = ("left", "marked")
    counted = [
        port
        for port in ports
        if all(column in port and not port[column].has_nulls() for column in columns)
    ]
    left, hit = (
        sum(increase(port, column, *context.window) for port in counted) for column in columns
    )
    return hit / left if left else None


@measure(
    fraction(),
    "packets that links lost, on the wire or because they were down / packets that entered queues, "
    "all links or one",
    which="link",
    of_run=True,
)
def link_losses(rows: Rows, context: Context, link: str | None = None) -> float | None:
    """Packets that links lost / packets that entered queues, for all ports or one link."""
    return _of_entered(rows, context, LINK_LOSSES, link)


def _of_entered(
    rows: Rows, context: Context, columns: Sequence[str], link: str | None
) -> float | None:
    if "port" not in rows:
        return None
    ports = (
        [part for _, part in rows["port"].group_by("agent", "port", maintain_order=True)]
        if link is None
        else [rows.of("port", link, "link")]
    )
    # Some switches do not count what enters their queues.
    counted = [port for port in ports if not port.is_empty() and not port["entered"].has_nulls()]
    entered = sum(increase(port, "entered", *context.window) for port in counted)
    dropped = sum(
        increase(port, column, *context.window)
        for port in counted
        for column in columns
        if column in port and not port[column].has_nulls()
    )
    return dropped / entered if entered else None
