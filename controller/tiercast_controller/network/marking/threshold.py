"""Policies that look at the queue's length itself, and none."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tiercast_controller.network.marking.base import (
    DEPTH,
    Law,
    Marking,
    PortTraffic,
    port_entry,
    whole,
)
from tiercast_controller.p4runtime.entities import TableEntry


class ThresholdMarking(Marking):
    """Every ECT packet that finds more packets waiting than the threshold is marked."""

    kind: Literal["threshold"] = "threshold"
    threshold: Annotated[int, Field(ge=0, le=10_000)]

    def law(self, traffic: PortTraffic) -> Law:
        return Law(
            lambda packets: float(packets > self.threshold), "packets found waiting", "packets"
        )

    def entry(self, port: int, traffic: PortTraffic) -> TableEntry:
        threshold = whole("threshold", self.threshold, DEPTH)
        return port_entry(port, "threshold_marking", {"threshold": threshold})


class DropTail(Marking):
    """A packet that finds this many packets waiting is dropped."""

    kind: Literal["drop_tail"] = "drop_tail"
    limit: int  # 0..524287

    def law(self, traffic: PortTraffic) -> Law:
        return Law(lambda found: float(found >= self.limit), "packets found waiting", "packets")

    def entry(self, port: int, traffic: PortTraffic) -> TableEntry:
        return port_entry(port, "drop_tail", {"limit": whole("limit", self.limit, DEPTH)})


class NoMarking(Marking):
    """Only the link's own queue limit drops packets."""

    kind: Literal["none"] = "none"

    def entry(self, port: int, traffic: PortTraffic) -> TableEntry:
        return port_entry(port, "no_marking", {})

    def at(self, rate_bps: int, packet_bytes: int, idle_us: int = 0) -> None:
        return None
