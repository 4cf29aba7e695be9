"""With what probability a link marked or dropped its traced packets, over what its marking looks
at, beside the marking's equation."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

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
from tiercast_lab.study.marking_results import FOUND, Bin, curve
from tiercast_lab.study.traced_packets import ON_ARRIVAL, packets_of

LEAST_IN_BIN = 25  # packets: a trace is a sample


@dataclass(frozen=True)
class TracedLaw:
    """Of a direction of a link."""

    link: str
    rate: int  # bit/s; 0: without limit
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
    packets = None if mine is None or mine.is_empty() else packets_of(mine, law)
    return TracedLaw(
        traced["link"],
        int(traced["rate_bps"]),
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
        return Law(marking.probability, "average queue", "packets", ON_ARRIVAL, least_found=2)
    law = None if marking is None or not traffic.rate_bps else marking.law(traffic)
    if law is not None and isinstance(marking, PriorityMarking):
        # Its equation is of top groups, and which ones these are changes with who subscribes.
        return replace(law, probability=lambda _: math.nan)
    return FOUND if law is None else law
