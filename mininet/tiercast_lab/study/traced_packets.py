"""What became of the packets that a run traced (docs/tracing.md), as a trial's."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
from tiercast_controller.network.marking import Law

from tiercast_lab.study.marking import DROPPED, EARLY, FULL, LEFT, MARKED, Packets

ON_ARRIVAL = "red_average"  # the column of RED on arrival; registers' have a prefix
_FATES = {"passed": LEFT, "marked": MARKED, "dropped": DROPPED, "full": FULL, "lost": LEFT}


def packets_of(rows: pl.DataFrame, law: Law | None = None) -> Packets | None:
    """Of rows of kind `trace`, with the registers that the law needs; None if they lack one."""
    names = [] if law is None or law.register is None else [law.register, *law.also]
    columns = {name: _column(name, rows) for name in names}
    if not set(columns.values()) <= set(rows.columns):
        return None
    known = rows.drop_nulls(list(columns.values())) if columns else rows
    wait = known["wait_ns"].cast(pl.Float64).fill_null(math.nan).to_numpy()
    fate = np.array([_FATES[one] for one in known["fate"]], dtype=int)
    # RED on arrival drops what is never served.
    fate[np.isnan(wait) & (fate == DROPPED)] = EARLY
    return Packets(
        known["time_s"].to_numpy(),
        wait / 1e9,
        known["found_packets"].cast(pl.Float64).to_numpy(),
        known["left_packets"].cast(pl.Float64).fill_null(math.nan).to_numpy(),
        np.zeros(len(known)),
        fate,
        {name: known[column].cast(pl.Float64).to_numpy() for name, column in columns.items()},
    )


def _column(register: str, rows: pl.DataFrame) -> str:
    column = f"register.{register}"
    return column if column in rows.columns or register != ON_ARRIVAL else register
