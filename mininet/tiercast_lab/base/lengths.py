"""The lengths of periods and stays, drawn as ns3/traffic/on_off.cpp draws them."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from random import Random

FOREVER = 1e18  # a Pareto distribution has no upper end


@dataclass(frozen=True)
class Length:
    """A period in seconds, or the packets of a transfer, which are whole."""

    distribution: str  # "constant", "exponential", "pareto"
    mean: float  # s, or packets
    in_packets: bool = False
    shape: float = 0.0  # of pareto, above 1

    def draw(self, random: Random) -> float:
        """Seconds, or a whole number of packets from 1 on."""
        drawn = self.mean
        share = 1 - random.random()  # in (0, 1]
        if self.distribution == "exponential":
            drawn = -self.mean * log(share)
        elif self.distribution == "pareto":
            drawn = self.mean * (self.shape - 1) / self.shape * share ** (-1 / self.shape)
        drawn = min(drawn, FOREVER)
        return max(1, round(drawn)) if self.in_packets else drawn
