"""With what probability a link marked or dropped its traced packets, over what its marking looks
at, beside the marking's equation."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from pydantic import TypeAdapter, ValidationError
from tiercast_controller.network.marking import (
    AnyMarking,
    Law,
    Marking,
    PortTraffic,
    PriorityMarking,
    Red,
)

from tiercast_lab.results.storage import StoredRun
from tiercast_lab.study.marking import DROPPED, EARLY, FULL, LEFT, MARKED, Packets
from tiercast_lab.study.marking_results import Bin, curve

LEAST_IN_BIN = 25  # packets: a trace is a sample
_FATES = {"passed": LEFT, "marked": MARKED, "dropped": DROPPED, "full": FULL, "lost": LEFT}
_ON_ARRIVAL = "red_average"  # the column of RED on arrival; registers' have a prefix
_FOUND = Law(lambda _: math.nan, "packets found waiting", "packets")


@dataclass(frozen=True)
class TracedLaw:
    """Of a direction of a link."""

    link: str
    kind: str  # of marking; "": the link has none
    share: float  # of the packets that were sampled
    packets: int
    fates: dict[str, int]  # packets by fate
    law: Law
    curve: list[Bin]  # equation: nan where there is none

    @property
    def has_equation(self) -> bool:
        return any(not math.isnan(one.equation) for one in self.curve)

    @property
    def outside(self) -> int:
        """Ranges whose interval leaves the equation out."""
        room = 1e-9  # of rounding, at 0 and 1
        return sum(
            not one.low - room <= one.equation <= one.high + room
            for one in self.curve
            if not math.isnan(one.equation)
        )


def traced_laws(run: StoredRun) -> list[TracedLaw]:
    """Of each traced direction, in the order of the experiment."""
    rows = run.rows.get("trace")
    return [_of_link(one, rows) for one in run.summary.get("traced", ())]


def _of_link(traced: dict[str, Any], rows: pl.DataFrame | None) -> TracedLaw:
    marking = _marking(traced["marking"])
    law = _law(marking, PortTraffic(int(traced["rate_bps"]), int(traced["packet_bytes"])))
    mine = None if rows is None else rows.filter(pl.col("link") == traced["link"])
    packets = None if mine is None or mine.is_empty() else _packets(mine, law)
    return TracedLaw(
        traced["link"],
        "" if traced["marking"] is None else str(traced["marking"]["kind"]),
        traced["share"],
        0 if mine is None else len(mine),
        {} if mine is None else dict(mine["fate"].value_counts(sort=True).iter_rows()),
        law,
        [] if packets is None else curve(packets, law, LEAST_IN_BIN),
    )


def _marking(keys: dict[str, Any] | None) -> Marking | None:
    """None for a port without any, and for a kind that is not known here: a user's own."""
    if keys is None:
        return None
    try:
        found: Marking = TypeAdapter(AnyMarking).validate_python(keys)
    except ValidationError:
        return None
    return found


def _law(marking: Marking | None, traffic: PortTraffic) -> Law:
    """What to draw. Without an equation: the share over the packets that were found waiting."""
    if isinstance(marking, Red) and marking.where == "arrival":
        return Law(marking.probability, "average queue", "packets", _ON_ARRIVAL, least_found=2)
    law = None if marking is None or not traffic.rate_bps else marking.law(traffic)
    if law is not None and isinstance(marking, PriorityMarking):
        # Its equation is of top groups, and which ones these are changes with who subscribes.
        return replace(law, probability=lambda _: math.nan)
    return _FOUND if law is None else law


def _packets(rows: pl.DataFrame, law: Law) -> Packets | None:
    """None if the rows lack a register that the law needs."""
    names = [] if law.register is None else [law.register, *law.also]
    columns = {name: _column(name, rows) for name in names}
    if not set(columns.values()) <= set(rows.columns):
        return None
    known = rows.drop_nulls(list(columns.values()))
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
    return column if column in rows.columns or register != _ON_ARRIVAL else register
