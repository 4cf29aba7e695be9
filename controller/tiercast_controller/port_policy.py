"""What is done about congestion at a port: the actions of the P4 table `port_marking`.

Each policy holds numbers in their own units; `entry` of each turns them into the table's entry.
Here alone they become the program's fixed point (docs/p4.md, "Tables" and "RED"). A value that the
program cannot hold raises ParameterError with the parameter, the value and the valid range.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .errors import ParameterError
from .program import TableEntry
from .program import entry as table_entry

_QUEUE_BITS = 8  # fraction bits of a queue's length in packets
_PROBABILITY_BITS = 24  # of a probability, and of one a packet
_IDLE_RATE_BITS = 19  # of packets a microsecond
_RED_LIMIT = 1 << 24  # of RED's thresholds and slopes: their products stay within 32 bits
_WORD = 1 << 32
_DEPTH = 1 << 19  # of a queue's length as the switch tells it
_IDLE_PACKETS = 1 << 12  # packet times of idleness after which RED's average is 0
_DECIDES = math.floor  # a mark too few by less than one unit, and no product above its bound


@dataclass(frozen=True)
class PriorityMarking:
    """SIM's: packets of a session's top group are marked while the average queue is longer than
    the threshold (SIM 3.4)."""

    threshold_packets: float  # Q_th: 0 or more, steps of 1/256
    idle_us: int  # an empty queue and a wait of at most this found the link idle

    def entry(self, port: int) -> TableEntry:
        return _entry(
            port,
            "priority_marking",
            {
                "threshold": _fixed("threshold_packets", self.threshold_packets, _QUEUE_BITS),
                "idle_us": _whole("idle_us", self.idle_us, _WORD),
            },
        )


@dataclass(frozen=True)
class ThresholdMarking:
    """Every ECT packet that found more than the threshold waiting is marked."""

    threshold_packets: int  # 0..524287

    def entry(self, port: int) -> TableEntry:
        threshold = _whole("threshold_packets", self.threshold_packets, _DEPTH)
        return _entry(port, "threshold_marking", {"threshold": threshold})


@dataclass(frozen=True)
class DropTail:
    """A packet that found as many waiting is dropped."""

    limit_packets: int  # 0..524287

    def entry(self, port: int) -> TableEntry:
        limit = _whole("limit_packets", self.limit_packets, _DEPTH)
        return _entry(port, "drop_tail", {"limit": limit})


@dataclass(frozen=True)
class Red:
    """Random Early Detection (Floyd and Jacobson 1993) with ns-2's options; the averages' weight is
    1/512."""

    min_th: float  # packets, average; below max_th
    max_th: float  # packets, average; below 65536
    max_p: float  # probability at max_th: above 0, below 1
    rate_bps: int  # of the link: what the average loses while it is idle depends on it
    packet_bytes: int  # of a typical packet
    ecn: bool = False  # ECT packets are marked where others are dropped early
    mark_above_max: bool = False  # and above all thresholds, too
    gentle: bool = False  # the probability rises from max_p to 1 between max_th and 2 max_th
    wait: bool = True  # marks are 1/p to 2/p packets apart, not 1 to 1/p
    limit_packets: int = 0  # as in DropTail; 0: the port's own queue limit alone
    idle_us: int = 0  # as in PriorityMarking
    mean_packet_bytes: int = 500  # of the packets that an idle link could have sent, as in ns-2

    def entry(self, port: int) -> TableEntry:
        if not 0 <= self.min_th < self.max_th:
            raise ParameterError(
                f"min_th {self.min_th:g} and max_th {self.max_th:g}: valid is 0 <= min_th < max_th",
                "min_th",
                "max_th",
            )
        if not 0 < self.max_p < 1:
            raise ParameterError(f"max_p is {self.max_p:g}; valid: above 0 and below 1", "max_p")
        for name in ("rate_bps", "packet_bytes", "mean_packet_bytes"):
            if getattr(self, name) <= 0:
                raise ParameterError(f"{name} is {getattr(self, name)}; valid: above 0", name)
        min_th = _fixed("min_th", self.min_th, _QUEUE_BITS, _RED_LIMIT)
        max_th = _fixed("max_th", self.max_th, _QUEUE_BITS, _RED_LIMIT)
        if min_th == max_th:
            raise ParameterError(
                f"min_th {self.min_th:g} and max_th {self.max_th:g} are less than 1/256 packet "
                "apart",
                "min_th",
                "max_th",
            )
        max_p = _fixed("max_p", self.max_p, _PROBABILITY_BITS, _RED_LIMIT, _DECIDES)
        # Of the thresholds as the program holds them: their rounding must not lift p above its end.
        width = (max_th - min_th) / (1 << _QUEUE_BITS)
        slope = max_p / (1 << _PROBABILITY_BITS) / width
        gentle_slope = (1 - self.max_p) / (max_th / (1 << _QUEUE_BITS)) if self.gentle else 0.0
        # Below the resolution a "slope" of 0 would mean: never, or not gentle.
        slopes = {
            name: _fixed(name, value, _PROBABILITY_BITS, _RED_LIMIT, _DECIDES)
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
        idle_rate = _fixed(
            "rate_bps / (8e6 mean_packet_bytes)",
            self.rate_bps / (8e6 * self.mean_packet_bytes),
            _IDLE_RATE_BITS,
        )
        if idle_rate == 0:
            raise ParameterError(
                f"rate_bps is {self.rate_bps}; RED needs at least "
                f"{math.ceil(8e6 * self.mean_packet_bytes / (1 << (_IDLE_RATE_BITS + 1)))}",
                "rate_bps",
            )
        return _entry(
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
                "limit": _whole("limit_packets", self.limit_packets, _DEPTH),
                "idle_us": _whole("idle_us", self.idle_us, _WORD),
                "transmission_us": _whole(
                    "transmission time of packet_bytes in us",
                    round(8e6 * self.packet_bytes / self.rate_bps),
                    _WORD,
                ),
                "idle_rate": idle_rate,
                "idle_limit_us": (_IDLE_PACKETS << _IDLE_RATE_BITS) // idle_rate,
            },
        )


PortPolicy = PriorityMarking | ThresholdMarking | DropTail | Red


def _entry(port: int, action: str, parameters: Mapping[str, int]) -> TableEntry:
    return table_entry("port_marking", {"egress_port": port}, action, parameters)


def _whole(name: str, value: int, limit: int) -> int:
    if not 0 <= value < limit:
        raise ParameterError(f"{name} is {value}; valid: 0..{limit - 1}", name)
    return value


def _fixed(
    name: str,
    value: float,
    fraction_bits: int,
    limit: int = _WORD,
    rounded: Callable[[float], int] = round,
) -> int:
    """`value` with so many fraction bits; the result is below `limit`."""
    scaled = value * (1 << fraction_bits)
    units = rounded(scaled) if math.isfinite(scaled) else -1
    if not 0 <= units < limit:
        highest = (limit - 1) / (1 << fraction_bits)
        raise ParameterError(f"{name} is {value:g}; valid: 0..{highest:.9g}", name)
    return units
