"""Estimates queue drops for a switch that counts what enters its queues and what they serve, but
neither what they drop nor what waits (bmv2).

In each sample, entered - served is the number of packets dropped so far or still waiting. Packets
that wait are served later, so the number dropped by one sample is at most entered - served of any
later sample. That minimum is taken as the number dropped. A drop is therefore counted when it
happened, or earlier by at most one queue length. No drop is counted that did not happen, provided
the queues had drained at the last sample, whose number is exact.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from tiercast_lab.measures.rows import SERVED

LAYER = ("agent", "port", "session", "layer")
SAMPLE = ("agent", "port", "time_s")
NOT_SERVED = pl.col("entered") - pl.sum_horizontal(SERVED)
NEEDED = {"entered", "queue_drops", *SERVED}


def with_queue_drops(frames: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The rows of all kinds, by time, with `queue_drops` filled in where it is null and `entered`
    is not."""
    ports, layers = frames.get("port"), frames.get("port.session")
    if ports is None or layers is None or not (_lacks(ports) or _lacks(layers)):
        return dict(frames)
    # Never below 0: if more was served than entered, the account must not be made to balance.
    least = NOT_SERVED.cum_min(reverse=True).over(LAYER).clip(lower_bound=0)
    layers = layers.with_columns(_where_null(least))
    of_ports = layers.group_by(SAMPLE).agg(of_layers=pl.sum("queue_drops"))
    ports = (
        ports.join(of_ports, SAMPLE, "left", maintain_order="left")
        .with_columns(_where_null(pl.col("of_layers").fill_null(0)))
        .drop("of_layers")
    )
    return {**frames, "port": ports, "port.session": layers}


def _lacks(frame: pl.DataFrame) -> bool:
    if not set(frame.columns) >= NEEDED:
        return False
    return not frame.filter(
        pl.col("queue_drops").is_null() & pl.col("entered").is_not_null()
    ).is_empty()


def _where_null(drops: pl.Expr) -> pl.Expr:
    known = pl.when(pl.col("entered").is_not_null()).then(drops)
    return pl.coalesce("queue_drops", known).cast(pl.Int64).alias("queue_drops")
