"""What queues dropped, where a kind of switch counts what enters them and what is served, but
neither what they drop nor what waits (bmv2).

In each sample, entered - served is what was dropped and what waits. What waits is served later, or
dropped never: so no more had been dropped at a sample than entered - served says in any sample
after it. That much is taken as dropped. Drops are thus told when they happened or before, by a
queue's length at most; never one that did not happen, if queues had drained at the last sample.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

LAYER = ("agent", "port", "session", "layer")
SAMPLE = ("agent", "port", "time_s")
NOT_SERVED = pl.col("entered") - pl.sum_horizontal("left", "policy_drops", "pruned")
NEEDED = {"entered", "left", "policy_drops", "pruned", "queue_drops"}


def with_queue_drops(frames: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Rows of all kinds, by time, with `queue_drops` where it is null and `entered` is not."""
    ports, layers = frames.get("port"), frames.get("port.session")
    if ports is None or layers is None or not (_lacks(ports) or _lacks(layers)):
        return dict(frames)
    # Not below 0: where more was served than entered, the account has to stay wrong.
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
