"""CoDel."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tiercast_controller.base.errors import ParameterError
from tiercast_controller.base.units import Duration, format_duration
from tiercast_controller.network.marking.base import Marking, PortTraffic, port_entry
from tiercast_controller.p4runtime.entities import TableEntry

_MAX_INTERVAL_US = (1 << 27) - 1  # 16 intervals stay below 2^31 us, to be compared


class Codel(Marking):
    """Controlled Delay (RFC 8289): once every packet has waited longer than `target` for an
    `interval`, packets are dropped at growing rates until one has not."""

    kind: Literal["codel"] = "codel"
    registers = (
        "codel_phase",
        "codel_first_above_us",
        "codel_next_us",
        "codel_count",
        "codel_last_count",
        "codel_inverse_sqrt",
    )
    target: Annotated[Duration, Field(ge=1000, le=10**9)] = 5_000_000
    interval: Annotated[Duration, Field(ge=10**6, le=60 * 10**9)] = 100_000_000
    ecn: bool = False  # mark ECT packets that would otherwise be dropped

    def entry(self, port: int, traffic: PortTraffic) -> TableEntry:
        if self.target >= self.interval:
            raise ParameterError(
                f"target {format_duration(self.target)} and interval "
                f"{format_duration(self.interval)}: valid is target < interval",
                "target",
                "interval",
            )
        return port_entry(
            port,
            "codel",
            {
                "target_us": round(self.target / 1000),
                "interval_us": min(round(self.interval / 1000), _MAX_INTERVAL_US),
                "ecn": int(self.ecn),
            },
        )
