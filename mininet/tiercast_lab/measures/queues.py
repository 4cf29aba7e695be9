"""Measures of the ports' queues. None where the switches do not count that: columns are null."""

from __future__ import annotations

from collections import defaultdict

import polars as pl

from tiercast_lab.measures.context import Context, Interval
from tiercast_lab.measures.rows import Rows, grown


def longest_queue(rows: Rows, context: Context) -> float | None:
    """Packets waiting at any port."""
    if "port" not in rows:
        return None
    # A row says the longest since the row before: the one at the window's start is of before it.
    within = pl.col("time_s").is_between(*context.window, closed="right")
    return rows["port"].filter(within)["max_queue_packets"].cast(pl.Float64).max()


def mean_queue(rows: Rows, context: Context) -> float | None:
    """Packets waiting at the bottlenecks of the receivers that are there, mean over the looks at
    them."""
    there: dict[str, list[Interval]] = defaultdict(list)
    for receiver in context.receivers.values():
        there[receiver.bottleneck] += receiver.presence(context.span)
    seen = []
    for link, intervals in there.items():
        looks = rows.of("port", link, "link")
        within = [pl.col("time_s").is_between(*one) for one in intervals]
        if not looks.is_empty() and within:
            looks = looks.filter(pl.any_horizontal(within))
            seen += looks["queue_packets"].drop_nulls().to_list()
    return sum(seen) / len(seen) if seen else None


def queue_drops(rows: Rows, context: Context) -> float | None:
    """Packets dropped at emulated queues, as a share of all that reached them."""
    if "port" not in rows or rows["port"]["queue_drops"].is_null().all():
        return None
    drops = sent = 0.0
    for _, port in rows["port"].group_by("agent", "port"):
        drops += grown(port, "queue_drops", *context.window)
        sent += grown(port, "tx_packets", *context.window)
    return drops / (drops + sent) if drops + sent else None
