"""Checks that every packet is accounted for. At each port, for each session and layer, in each
sample,

    entered = left + queue_drops + policy_drops + pruned + down_drops + waiting

must hold exactly, and behind the queue of each port

    left + duplicated = tx_packets + link_losses + on_wire

The traffic manager counts what enters, what it drops and what waits, and what happens on the wire.
The P4 program counts the rest (docs/switch.md), so each checks the other.

bmv2's queues count neither drops nor waiting packets. There the P4 program also counts what enters.
In no sample may more be served than entered, and once all queues have drained, no more may have
arrived at one end of a link than left the other.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from tiercast_lab.base.frames import as_float
from tiercast_lab.measures import Rows
from tiercast_lab.measures.rows import SERVED
from tiercast_lab.results.verdict import Check

# The kinds of rows, and for each the column that holds what waits.
KINDS = {"port.session": "waiting", "port": "queue_packets"}
DIFFERENCES = ("difference", "unsent", "on_no_wire")
PURPOSE = (
    "packets of a port that are neither left, dropped, pruned nor waiting, or too many that are"
)
NOT_DRAINED = "had not drained at the last sample, so it is not known what their queues dropped"
NOT_COUNTED = "the queues of this kind of switch count no packets"
SHOWN = 3


def conservation(rows: Rows) -> list[Check]:
    """The check with the largest difference at any port, and the ports that have one. Empty if no
    port was sampled."""
    samples = [_differences(rows[kind], waiting) for kind, waiting in KINDS.items() if kind in rows]
    if not samples:
        return []
    counted = pl.concat(samples, how="diagonal_relaxed")
    if counted.is_empty():
        return [Check("unaccounted", None, None, "packets", NOT_COUNTED)]
    # An error at one sample persists in later ones. Sessions sort before their ports.
    wrong = counted.filter(pl.any_horizontal(pl.col(*DIFFERENCES) != 0))
    # Without a packet of a session there are no rows of sessions.
    keys = [one for one in ("agent", "port", "session", "layer") if one in wrong.columns]
    places = wrong.unique(keys, keep="first", maintain_order=True)
    named = [_sentence(one) for one in places.head(SHOWN).iter_rows(named=True)]
    if len(places) > SHOWN:
        named.append(f"and {len(places) - SHOWN} more")
    if wrong.is_empty() and (waiting := _not_drained(counted)):
        return [Check("unaccounted", None, 0.0, "packets", f"{', '.join(waiting)} {NOT_DRAINED}")]
    largest = max(as_float(counted[column].abs().max()) for column in DIFFERENCES)
    return [Check("unaccounted", largest, 0.0, "packets", PURPOSE, where="; ".join(named))]


def _differences(frame: pl.DataFrame, waiting: str) -> pl.DataFrame:
    """The samples of ports that count, by time, each with what the right side lacks (`difference`).
    Where the waiting packets are not known, nothing counts as missing, but there can be too many.
    `unsent` counts the packets that came in through a port but never left the other end of its
    link, where that is known, and `on_no_wire` those that left and are nowhere."""
    down = ["down_drops"] if "down_drops" in frame else []
    right = pl.sum_horizontal(*SERVED, "queue_drops", *down, waiting)
    missing = pl.col("entered") - right
    unsent = -pl.col("kernel_drops").clip(upper_bound=0) if "kernel_drops" in frame else pl.lit(0)
    on_no_wire = (
        pl.sum_horizontal("left", "duplicated")
        - pl.sum_horizontal("tx_packets", "link_losses", "on_wire")
        if {"tx_packets", "on_wire"} <= set(frame.columns)
        else pl.lit(0)
    )
    return (
        frame.drop_nulls("entered")
        .with_columns(
            pl.col(waiting).alias("waiting"),
            difference=pl.when(pl.col(waiting).is_null())
            .then(missing.clip(upper_bound=0))
            .otherwise(missing),
            unsent=unsent.fill_null(0),
            on_no_wire=on_no_wire,
        )
        .sort("time_s", maintain_order=True)
    )


def _not_drained(counted: pl.DataFrame) -> list[str]:
    """The links of ports whose last sample still does not say what waits."""
    last = counted.unique(["agent", "port"], keep="last", maintain_order=True)
    return last.filter(pl.col("waiting").is_null())["link"].to_list()


def _sentence(sample: dict[str, Any]) -> str:
    """A sample in words: "link 1>3, session 1, layer 0, at 12.0 s: 100 entered, but 90 left, …"."""
    what = "in all"
    if sample.get("session") is not None:
        what = f"session {sample['session']}, layer {sample['layer']}"
        if sample["session"] < 0:
            what = "of no session"
    place = f"link {sample['link']}, {what}, at {sample['time_s']:.1f} s: "
    if sample["unsent"]:
        return f"{place}{sample['unsent']} packets came the other way that were never sent"
    if sample["on_no_wire"]:
        return (
            f"{place}{sample['left']} left and {sample['duplicated']} were duplicated, but "
            f"{sample['tx_packets']} arrived, the wire lost {sample['link_losses']} and has "
            f"{sample['on_wire']}"
        )
    waiting = "" if sample["waiting"] is None else f" and {sample['waiting']} wait"
    if sample.get("down_drops"):
        waiting = f", {sample['down_drops']} found the link down{waiting}"
    return (
        f"{place}{sample['entered']} entered, but {sample['left']} left, the queue dropped "
        f"{sample['queue_drops']}, its policy {sample['policy_drops']}, {sample['pruned']} were "
        f"pruned{waiting}"
    )
