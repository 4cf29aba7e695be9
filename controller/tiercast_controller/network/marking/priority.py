"""SIM's priority marking."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tiercast_controller.network.marking.base import (
    QUEUE_BITS,
    WORD,
    Law,
    Marking,
    PortTraffic,
    fixed,
    port_entry,
    whole,
)
from tiercast_controller.p4runtime.entities import TableEntry


class PriorityMarking(Marking):
    """SIM's marking: packets of a session's top group are marked while the average queue is longer
    than the threshold (SIM 3.4)."""

    kind: Literal["priority"] = "priority"
    registers = ("avg_queue",)
    # Q_th, in steps of 1/256; auto: see threshold_at.
    threshold: Literal["auto"] | Annotated[float, Field(ge=0, le=10_000)] = "auto"

    @model_validator(mode="after")
    def _above_zero(self) -> PriorityMarking:
        if self.threshold == 0:
            raise ValueError("'threshold' is 0; valid: auto, or above 0")
        return self

    def threshold_at(self, traffic: PortTraffic) -> float:
        """The threshold in packets. `auto` is 5, or 20 ms of the link's rate if that is less, but
        at least 2."""
        if self.threshold != "auto":
            return self.threshold
        return max(2.0, min(5.0, 0.020 * traffic.rate_bps / (8 * traffic.packet_bytes)))

    def law(self, traffic: PortTraffic) -> Law:
        """Of packets of a session's top group."""
        threshold = self.threshold_at(traffic)
        return Law(
            lambda average: float(average > threshold),
            "average queue",
            "packets",
            "avg_queue",
            1 << QUEUE_BITS,
        )

    def entry(self, port: int, traffic: PortTraffic) -> TableEntry:
        return port_entry(
            port,
            "priority_marking",
            {
                "threshold": fixed("threshold", self.threshold_at(traffic), QUEUE_BITS),
                "idle_us": whole("idle_us", traffic.idle_us, WORD),
            },
        )
