"""DualPI2: the coupled AQM of two queues, one of them for L4S (RFC 9332)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tiercast_controller.base.units import Duration
from tiercast_controller.network.marking.base import (
    DEPTH,
    WORD,
    Law,
    Marking,
    PortTraffic,
    PriorityQueues,
    fixed,
    port_entry,
    whole,
)
from tiercast_controller.network.marking.pi import REGISTERS, Gain, Target, gains
from tiercast_controller.p4runtime.entities import TableEntry

_COUPLING_BITS = 4  # fraction bits of k


class DualPi2(Marking):
    """L4S packets (ECT(1), CE) wait in a queue of their own, which is served first. PI2 rules the
    other queue by its delay; L4S is marked with k times the probability that is squared there, or
    by a ramp of its own wait if that asks for more (RFC 9332, appendix A, with its defaults)."""

    kind: Literal["dualpi2"] = "dualpi2"
    registers = (*REGISTERS, "dualpi2_classic_us", "dualpi2_l4s_us")
    target: Target = 15_000_000  # of the Classic queue's delay
    alpha: Gain = 0.16  # for updates each 16 ms
    beta: Gain = 3.2
    coupling: Annotated[float, Field(ge=1, le=255 / 16)] = 2  # k, in steps of 1/16
    # L4S packets that waited longer than min_th are marked with a probability that rises to 1
    # over `range`; those that leave no more than th_len packets behind in their queue are spared.
    min_th: Annotated[Duration, Field(ge=0, le=10**9)] = 800_000
    range: Annotated[Duration, Field(ge=0, le=10**9)] = 400_000
    th_len: Annotated[int, Field(ge=0)] = 1
    # Of the bytes sent while both queues wait, for the Classic one. The RFC has no default; Linux's
    # is a tenth.
    classic_share: Annotated[float, Field(ge=0, lt=1)] = 0.1

    def priority_queues(self) -> PriorityQueues:
        return PriorityQueues(self.classic_share)

    def law(self, traffic: PortTraffic) -> Law:
        """Of Classic packets, below overload."""
        return Law(lambda p: p * p, "probability p'", "", "pi_probability", WORD)

    def entry(self, port: int, traffic: PortTraffic) -> TableEntry:
        coupling = fixed("coupling", self.coupling, _COUPLING_BITS, 1 << 8)
        ramp_us, range_us = round(self.min_th / 1000), round(self.range / 1000)
        return port_entry(
            port,
            "dualpi2",
            {
                **gains(self.target, self.alpha, self.beta, 0.016, traffic),
                "coupling": coupling,
                "overload": min(-(-(WORD << _COUPLING_BITS) // coupling), WORD - 1),
                "ramp_us": ramp_us,
                "ramp_end_us": ramp_us + range_us,
                "ramp_slope": (WORD - 1) // range_us if range_us else 0,
                "ramp_depth": whole("th_len", self.th_len, DEPTH),
            },
        )
