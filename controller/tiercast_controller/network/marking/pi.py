"""PIE and PI2: a proportional integral controller of the queue's delay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from tiercast_controller.base.errors import ParameterError
from tiercast_controller.base.units import Duration
from tiercast_controller.network.marking.base import (
    WORD,
    Law,
    Marking,
    PortTraffic,
    port_entry,
    whole,
)
from tiercast_controller.p4runtime.entities import TableEntry

_PERIOD_S = (1 << 14) / 1e6  # of the program's updates (p4src/lib/pi.p4)
_PER_US = WORD / 1e6  # a probability's units, which have 32 fraction bits, from 1/s to 1/us
_GAIN = 1 << 14  # of alpha and beta in the program: their products stay within 32 bits
REGISTERS = ("pi_probability", "pi_delay_us", "pi_updated_us")

Target = Annotated[Duration, Field(ge=10**6, le=0x3FFFF * 1000)]  # ns
Gain = Annotated[float, Field(gt=0, lt=10)]  # 1/s


def gains(
    target_ns: int, alpha: float, beta: float, period_s: float, traffic: PortTraffic
) -> dict[str, int]:
    """The controller's parameters in the P4 action. alpha and beta (1/s): by how much the
    probability rises in a period for each second that the delay is above the target, and that it
    has grown by. The program's own periods are a little longer than period_s, so the first counts
    for as much more."""
    target_us = round(target_ns / 1000)
    longer = _PERIOD_S / period_s
    return {
        "target_us": target_us,
        "alpha": _gain("alpha", alpha, longer),
        "beta": _gain("beta", beta, 1),
        "idle_fall": round(alpha * longer * target_us * _PER_US),
        "idle_us": whole("idle_us", traffic.idle_us, WORD),
    }


def _gain(name: str, value: float, times: float) -> int:
    """For each microsecond, in the program's units."""
    units = round(value * times * _PER_US)
    if not 0 < units < _GAIN:
        lowest, highest = (bound / (times * _PER_US) for bound in (0.5, _GAIN - 0.5))
        raise ParameterError(f"{name} is {value:g}; valid: {lowest:.2g}..{highest:.3g}", name)
    return units


class Pie(Marking):
    """Proportional Integral controller Enhanced (RFC 8033), deciding at departure."""

    kind: Literal["pie"] = "pie"
    registers = (*REGISTERS, "pie_burst_us", "pie_accumulated")
    target: Target = 15_000_000
    alpha: Gain = 0.125  # RFC 8033, 4.2, for updates each 15 ms
    beta: Gain = 1.25
    # After the queue has been short, it may be long for so much time.
    burst: Annotated[Duration, Field(ge=0, le=10 * 10**9)] = 150_000_000
    ecn: bool = False  # mark ECT packets that would otherwise be dropped,
    mark_below: Annotated[float, Field(gt=0, le=1)] = 0.1  # while the probability is below this
    spread: bool = False  # drops neither come in bunches nor far apart (RFC 8033, 5.4)

    def law(self, traffic: PortTraffic) -> Law:
        """Of packets that are not spared: more than two wait, no burst is being allowed, and the
        delay is not short while p is low."""

        def spared(cells: Mapping[str, float]) -> bool:
            is_short = 2000 * cells["pi_delay_us"] < self.target
            is_low = cells["pi_probability"] < 0.2 * WORD
            return cells["pie_burst_us"] > 0 or (is_short and is_low)

        also = ("pi_delay_us", "pie_burst_us")
        return Law(lambda p: p, "probability p", "", "pi_probability", WORD, 3, also, spared)

    def entry(self, port: int, traffic: PortTraffic) -> TableEntry:
        mark_below = self.mark_below if self.ecn else 0.0
        return port_entry(
            port,
            "pie",
            {
                **gains(self.target, self.alpha, self.beta, 0.015, traffic),
                "burst_us": round(self.burst / 1000),
                "mark_below": min(round(mark_below * WORD), WORD - 1),
                "spread": int(self.spread),
            },
        )


class Pi2(Marking):
    """PI2 (De Schepper and others 2016): the probability's square for traffic that halves its
    rate at a loss, and its double for scalable traffic, which is ECT(1)."""

    kind: Literal["pi2"] = "pi2"
    registers = REGISTERS
    target: Target = 15_000_000
    alpha: Gain = 0.16  # RFC 9332, figure 2, for updates each 16 ms
    beta: Gain = 3.2
    ecn: bool = False  # mark ECT packets that would otherwise be dropped

    def law(self, traffic: PortTraffic) -> Law:
        """Of packets that are not ECT(1)."""
        return Law(lambda p: p * p, "probability p", "", "pi_probability", WORD)

    def entry(self, port: int, traffic: PortTraffic) -> TableEntry:
        controller = gains(self.target, self.alpha, self.beta, 0.016, traffic)
        return port_entry(port, "pi2", {**controller, "ecn": int(self.ecn)})
