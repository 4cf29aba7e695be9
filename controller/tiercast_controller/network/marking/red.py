"""Random Early Detection."""

from __future__ import annotations

import math
from typing import Literal

from tiercast_controller.base.errors import ParameterError
from tiercast_controller.network.marking.base import (
    DEPTH,
    QUEUE_BITS,
    WORD,
    Law,
    Marking,
    PortTraffic,
    QueueRed,
    fixed,
    port_entry,
    whole,
)
from tiercast_controller.p4runtime.entities import TableEntry

_PROBABILITY_BITS = 24  # of a probability, and of a probability per packet
_IDLE_RATE_BITS = 19  # of packets per microsecond
_RED_LIMIT = 1 << 24  # of RED's thresholds and slopes: their products stay within 32 bits
_NS2_WEIGHT = 0.002  # weight of RED's average (q_weight_)
_PROGRAM_WEIGHT = 1 / 512
_QUEUE_MAX_TH = 1 << 31  # packets, for RED on arrival
_IDLE_PACKETS = 1 << 12  # idle packet times after which RED's average is 0
# Rounds down: marks are at most a unit too rare, and no product exceeds its bound.
_DECIDES = math.floor


class Red(Marking):
    """Random Early Detection (Floyd and Jacobson 1993) with the options of ns-2, and its defaults
    at the time of the papers. On arrival, the queue decides as ns-2's does, before a packet takes a
    place in it. At departure the P4 program decides, with a weight of 1/512."""

    kind: Literal["red"] = "red"
    registers = ("red_average", "red_departure_us", "red_until_mark")
    where: Literal["arrival", "departure"] = "departure"
    min_th: float = 5  # of the average; below max_th
    max_th: float = 15  # of the average; below 65536
    max_p: float = 0.1  # probability at max_th: above 0, below 1
    ecn: bool = False  # mark ECT packets that would otherwise be dropped early
    mark_above_max: bool = False  # mark them above all thresholds too
    gentle: bool = False  # the probability rises from max_p to 1 between max_th and 2 max_th
    wait: bool = True  # marks are 1/p to 2/p packets apart, not 1 to 1/p
    # As in DropTail, at departure; 0: only the port's own queue limit.
    limit: int = 0
    mean_packet_bytes: int = 500  # packets that an idle link could have sent, as in ns-2
    # The weight of a new length in the average, on arrival: above 0, at most 1; None: ns-2's 0.002.
    weight: float | None = None

    def queue_red(self) -> QueueRed | None:
        if self.where == "departure":
            return None
        weight = _NS2_WEIGHT if self.weight is None else self.weight
        return QueueRed(
            self.min_th,
            self.max_th,
            self.max_p,
            weight,
            self.mean_packet_bytes,
            self.gentle,
            self.wait,
            self.ecn,
            self.mark_above_max,
        )

    def law(self, traffic: PortTraffic) -> Law | None:
        """Of packets that find two or more waiting, at a constant average."""
        if self.where == "arrival":
            return None
        return Law(self.probability, "average queue", "packets", "red_average", 1 << 18, 2)

    def probability(self, average: float) -> float:
        """Of a mark or early drop, of packets that find two or more waiting, at a constant average
        (packets)."""
        if average < self.min_th:
            return 0.0
        if average < self.max_th:
            p_b = self.max_p * (average - self.min_th) / (self.max_th - self.min_th)
        elif self.gentle and average < 2 * self.max_th:
            p_b = self.max_p + (1 - self.max_p) * (average - self.max_th) / self.max_th
        else:
            return 1.0
        spacing = _spacing_on_arrival if self.where == "arrival" else _spacing
        return 1 / spacing(p_b, self.wait) if p_b > 0 else 0.0

    def entry(self, port: int, traffic: PortTraffic) -> TableEntry:
        self._check(traffic)
        if self.where == "arrival":
            return port_entry(port, "no_marking", {})
        return self._entry(port, traffic)

    def _check(self, traffic: PortTraffic) -> None:
        """Checks what holds for both places of decision, and what holds for only one of them."""
        if not 0 <= self.min_th < self.max_th:
            raise ParameterError(
                f"min_th {self.min_th:g} and max_th {self.max_th:g}: valid is 0 <= min_th < max_th",
                "min_th",
                "max_th",
            )
        if not 0 < self.max_p < 1:
            raise ParameterError(f"max_p is {self.max_p:g}; valid: above 0 and below 1", "max_p")
        for name, value in (
            ("rate_bps", traffic.rate_bps),
            ("packet_bytes", traffic.packet_bytes),
            ("mean_packet_bytes", self.mean_packet_bytes),
        ):
            if value <= 0:
                raise ParameterError(f"{name} is {value}; valid: above 0", name)
        if self.where == "arrival":
            if self.max_th > _QUEUE_MAX_TH:
                raise ParameterError(
                    f"max_th is {self.max_th:g}; valid on arrival: up to {_QUEUE_MAX_TH}", "max_th"
                )
            if self.weight is not None and not 0 < self.weight <= 1:
                raise ParameterError(f"weight is {self.weight:g}; valid: above 0, to 1", "weight")
            if self.limit != 0:
                raise ParameterError(
                    f"limit is {self.limit}; valid on arrival: 0, the link's `queue` is the limit",
                    "limit",
                )
        elif self.weight is not None and self.weight != _PROGRAM_WEIGHT:
            raise ParameterError(
                f"weight is {self.weight:g}; valid at departure: {_PROGRAM_WEIGHT}, the program's "
                "own; any with `where: arrival`",
                "weight",
            )

    def _entry(self, port: int, traffic: PortTraffic) -> TableEntry:
        min_th = fixed("min_th", self.min_th, QUEUE_BITS, _RED_LIMIT)
        max_th = fixed("max_th", self.max_th, QUEUE_BITS, _RED_LIMIT)
        if min_th == max_th:
            raise ParameterError(
                f"min_th {self.min_th:g} and max_th {self.max_th:g} are less than 1/256 packet "
                "apart",
                "min_th",
                "max_th",
            )
        max_p = fixed("max_p", self.max_p, _PROBABILITY_BITS, _RED_LIMIT, _DECIDES)
        # The slope follows from the thresholds as the program holds them, so that their rounding
        # does not raise p above its end.
        width = (max_th - min_th) / (1 << QUEUE_BITS)
        slope = max_p / (1 << _PROBABILITY_BITS) / width
        gentle_slope = (1 - self.max_p) / (max_th / (1 << QUEUE_BITS)) if self.gentle else 0.0
        # Below the resolution the slope would be 0, which means "never" or "not gentle".
        slopes = {
            name: fixed(name, value, _PROBABILITY_BITS, _RED_LIMIT, _DECIDES)
            for name, value in (("slope", slope), ("gentle_slope", gentle_slope))
        }
        if slopes["slope"] == 0 or (self.gentle and slopes["gentle_slope"] == 0):
            raise ParameterError(
                f"max_p {self.max_p:g} between {self.min_th:g} and {self.max_th:g} packets: "
                "the probability rises by less than 2^-24 a packet",
                "max_p",
                "min_th",
                "max_th",
            )
        idle_rate = fixed(
            "rate_bps / (8e6 mean_packet_bytes)",
            traffic.rate_bps / (8e6 * self.mean_packet_bytes),
            _IDLE_RATE_BITS,
        )
        if idle_rate == 0:
            raise ParameterError(
                f"rate_bps is {traffic.rate_bps}; RED needs at least "
                f"{math.ceil(8e6 * self.mean_packet_bytes / (1 << (_IDLE_RATE_BITS + 1)))}",
                "rate_bps",
            )
        return port_entry(
            port,
            "red",
            {
                "min_th": min_th,
                "max_th": max_th,
                "max_p": max_p,
                **slopes,
                "ecn": int(self.ecn),
                "mark_above_max": int(self.mark_above_max),
                "wait": int(self.wait),
                "limit": whole("limit", self.limit, DEPTH),
                "idle_us": whole("idle_us", traffic.idle_us, WORD),
                "transmission_us": whole(
                    "transmission time of packet_bytes in us",
                    round(8e6 * traffic.packet_bytes / traffic.rate_bps),
                    WORD,
                ),
                "idle_rate": idle_rate,
                "idle_limit_us": (_IDLE_PACKETS << _IDLE_RATE_BITS) // idle_rate,
            },
        )


def _spacing(p_b: float, wait: bool) -> float:
    """The mean number of packets from one mark to the next: a mark is due when the p_b since the
    last one add up to R, uniform in (0, 1], or with `wait` in (1, 2]."""
    most = 2 if wait else 1
    # The sum of min(1, most - n p_b) over all n from 0 on at which it is above 0: first the terms
    # that are 1, then an arithmetic series from the number `ones` on.
    terms = math.ceil(most / p_b)
    ones = min(terms, math.floor((most - 1) / p_b) + 1)
    return ones + (terms - ones) * (most - p_b * (ones + terms - 1) / 2)


def _spacing_on_arrival(p_b: float, wait: bool) -> float:
    """The same where the queue decides, as ns-2's: packet c after the last one is hit with the
    probability p_b / (1 - c p_b), or with `wait` p_b / (2 - c p_b) from c p_b = 1 on."""
    mean, spared, most, c = 0.0, 1.0, 2 if wait else 1, 0
    while spared > 1e-12:
        mean += spared
        c += 1
        left = most - c * p_b
        if left <= 0:
            break
        spared *= 1 - min(1.0, p_b / left) if not wait or left <= 1 else 1
    return mean
