"""Whether every packet is accounted for: at each port, for each session and layer, in each sample

    entered = left + queue_drops + policy_drops + pruned + waiting

exactly. The traffic manager counts what enters, what it drops and what waits, and the P4 program
counts the others (docs/switch.md), so one checks the other.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from tiercast_lab.base.frames import as_float
from tiercast_lab.measures import Rows
from tiercast_lab.results.verdict import Check

# Kinds of rows, and each with its column for what waits.
KINDS = {"port.session": "waiting", "port": "queue_packets"}
PURPOSE = (
    "packets of a port that are neither left, dropped, pruned nor waiting, or too many that are"
)
NOT_COUNTED = "the queues of this kind of switch count no packets"
SHOWN = 3


def conservation(rows: Rows) -> list[Check]:
    """The largest difference of a port, with those that have one; none where no port was
    sampled."""
    samples = [_differences(rows[kind], waiting) for kind, waiting in KINDS.items() if kind in rows]
    if not samples:
        return []
    counted = pl.concat(samples, how="diagonal")
    if counted.is_empty():
        return [Check("unaccounted", None, None, "packets", NOT_COUNTED)]
    # What is wrong at one sample stays wrong at later ones; sessions sort before their ports.
    wrong = counted.filter(pl.col("difference") != 0)
    places = wrong.unique(["agent", "port", "session", "layer"], keep="first", maintain_order=True)
    named = [_sentence(one) for one in places.head(SHOWN).iter_rows(named=True)]
    if len(places) > SHOWN:
        named.append(f"and {len(places) - SHOWN} more")
    largest = as_float(counted["difference"].abs().max())
    return [Check("unaccounted", largest, 0.0, "packets", PURPOSE, where="; ".join(named))]


def _differences(frame: pl.DataFrame, waiting: str) -> pl.DataFrame:
    """Looks at ports that count, by time, with what is missing on the right side."""
    right = pl.sum_horizontal("left", "queue_drops", "policy_drops", "pruned", waiting)
    return (
        frame.drop_nulls("entered")
        .with_columns(pl.col(waiting).alias("waiting"), difference=pl.col("entered") - right)
        .sort("time_s", maintain_order=True)
    )


def _sentence(sample: dict[str, Any]) -> str:
    """ "link 1>3, session 1, layer 0, at 12.0 s: 100 entered, but 90 left, …"."""
    what = "in all"
    if sample.get("session") is not None:
        what = f"session {sample['session']}, layer {sample['layer']}"
        if sample["session"] < 0:
            what = "of no session"
    return (
        f"link {sample['link']}, {what}, at {sample['time_s']:.1f} s: {sample['entered']} entered, "
        f"but {sample['left']} left, the queue dropped {sample['queue_drops']}, its policy "
        f"{sample['policy_drops']}, {sample['pruned']} were pruned and {sample['waiting']} wait"
    )
