"""The kinds of marking: what a port does about congestion. Each kind has one class.

A class is the only place in Python that describes its kind: the keys of `marking`, in an experiment
and in the YAML of a controller that runs on its own, their ranges, the entry of the P4 table
`port_marking` and, for RED on arrival, the settings of the port's queue. Numbers are converted to
the program's fixed point only here (docs/p4.md, "Tables" and "RED"). docs/add-a-marking.md has a
complete kind. Unless stated otherwise, quantities are in packets.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from tiercast_controller.base.errors import ConfigurationError, ParameterError
from tiercast_controller.base.plugins import import_files
from tiercast_controller.base.strict import Strict
from tiercast_controller.p4runtime.entities import TableEntry
from tiercast_controller.p4runtime.entities import entry as table_entry

_QUEUE_BITS = 8  # fraction bits of a queue's length in packets
_PROBABILITY_BITS = 24  # of a probability, and of a probability per packet
_IDLE_RATE_BITS = 19  # of packets per microsecond
_RED_LIMIT = 1 << 24  # of RED's thresholds and slopes: their products stay within 32 bits
_WORD = 1 << 32
_DEPTH = 1 << 19  # of a queue's length as reported by the switch
_NS2_WEIGHT = 0.002  # weight of RED's average (q_weight_)
_PROGRAM_WEIGHT = 1 / 512
_QUEUE_MAX_TH = 1 << 31  # packets, for RED on arrival
_IDLE_PACKETS = 1 << 12  # idle packet times after which RED's average is 0
# Rounds down: marks are at most a unit too rare, and no product exceeds its bound.
_DECIDES = math.floor


@dataclass(frozen=True)
class QueueRed:
    """RED on arrival, decided by a port's queue: the fields of tiercast.v1.Red."""

    min_th: float
    max_th: float
    max_p: float
    weight: float
    mean_packet_bytes: float
    gentle: bool
    wait: bool
    ecn: bool
    mark_above_max: bool


@dataclass(frozen=True)
class PortTraffic:
    """The properties of a port on which a marking depends besides its own keys."""

    rate_bps: int  # of the link, in IP bytes
    packet_bytes: int  # of a typical packet
    idle_us: int = 0  # a packet that found the queue empty and waited no longer found the link idle


class Marking(Strict):
    """A kind of marking: one of the classes below, or one from a file in TIERCAST_MARKINGS."""

    kind: str

    @abstractmethod
    def entry(self, port: int, traffic: PortTraffic) -> TableEntry:
        """The entry of port_marking. Raises ParameterError for a value that the program cannot
        hold, with the parameter, the value and the valid range."""

    def queue_red(self) -> QueueRed | None:
        """What the port's queue does on arrival of packets, besides what the entry says."""
        return None

    def at(self, rate_bps: int, packet_bytes: int, idle_us: int = 0) -> PortPolicy | None:
        """The policy of a port; None for a port that has no rate, and so no queue."""
        traffic = PortTraffic(rate_bps, packet_bytes, idle_us)
        return PortPolicy(self, traffic) if rate_bps else None


@dataclass(frozen=True)
class PortPolicy:
    """A marking at a port."""

    marking: Marking
    traffic: PortTraffic

    def entry(self, port: int) -> TableEntry:
        return self.marking.entry(port, self.traffic)

    def queue_red(self) -> QueueRed | None:
        return self.marking.queue_red()


class PriorityMarking(Marking):
    """SIM's marking: packets of a session's top group are marked while the average queue is longer
    than the threshold (SIM 3.4)."""

    kind: Literal["priority"] = "priority"
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

    def entry(self, port: int, traffic: PortTraffic) -> TableEntry:
        return port_entry(
            port,
            "priority_marking",
            {
                "threshold": fixed("threshold", self.threshold_at(traffic), _QUEUE_BITS),
                "idle_us": whole("idle_us", traffic.idle_us, _WORD),
            },
        )


class ThresholdMarking(Marking):
    """Every ECT packet that finds more packets waiting than the threshold is marked."""

    kind: Literal["threshold"] = "threshold"
    threshold: Annotated[int, Field(ge=0, le=10_000)]

    def entry(self, port: int, traffic: PortTraffic) -> TableEntry:
        threshold = whole("threshold", self.threshold, _DEPTH)
        return port_entry(port, "threshold_marking", {"threshold": threshold})


class DropTail(Marking):
    """A packet that finds this many packets waiting is dropped."""

    kind: Literal["drop_tail"] = "drop_tail"
    limit: int  # 0..524287

    def entry(self, port: int, traffic: PortTraffic) -> TableEntry:
        return port_entry(port, "drop_tail", {"limit": whole("limit", self.limit, _DEPTH)})


class Red(Marking):
    """Random Early Detection (Floyd and Jacobson 1993) with the options of ns-2, and its defaults
    at the time of the papers. On arrival, the queue decides as ns-2's does, before a packet takes a
    place in it. At departure the P4 program decides, with a weight of 1/512."""

    kind: Literal["red"] = "red"
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
        min_th = fixed("min_th", self.min_th, _QUEUE_BITS, _RED_LIMIT)
        max_th = fixed("max_th", self.max_th, _QUEUE_BITS, _RED_LIMIT)
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
        width = (max_th - min_th) / (1 << _QUEUE_BITS)
        slope = max_p / (1 << _PROBABILITY_BITS) / width
        gentle_slope = (1 - self.max_p) / (max_th / (1 << _QUEUE_BITS)) if self.gentle else 0.0
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
                "limit": whole("limit", self.limit, _DEPTH),
                "idle_us": whole("idle_us", traffic.idle_us, _WORD),
                "transmission_us": whole(
                    "transmission time of packet_bytes in us",
                    round(8e6 * traffic.packet_bytes / traffic.rate_bps),
                    _WORD,
                ),
                "idle_rate": idle_rate,
                "idle_limit_us": (_IDLE_PACKETS << _IDLE_RATE_BITS) // idle_rate,
            },
        )


class NoMarking(Marking):
    """Only the link's own queue limit drops packets."""

    kind: Literal["none"] = "none"

    def entry(self, port: int, traffic: PortTraffic) -> TableEntry:
        return port_entry(port, "no_marking", {})

    def at(self, rate_bps: int, packet_bytes: int, idle_us: int = 0) -> None:
        return None


def port_entry(port: int, action: str, parameters: Mapping[str, int]) -> TableEntry:
    """An entry of port_marking."""
    return table_entry("port_marking", {"egress_port": port}, action, parameters)


def whole(name: str, value: int, limit: int) -> int:
    """Returns `value` if it is below `limit`. Raises ParameterError otherwise."""
    if not 0 <= value < limit:
        raise ParameterError(f"{name} is {value}; valid: 0..{limit - 1}", name)
    return value


def fixed(
    name: str,
    value: float,
    fraction_bits: int,
    limit: int = _WORD,
    rounded: Callable[[float], int] = round,
) -> int:
    """`value` with that many fraction bits. Raises ParameterError if the result is not below
    `limit`."""
    scaled = value * (1 << fraction_bits)
    units = rounded(scaled) if math.isfinite(scaled) else -1
    if not 0 <= units < limit:
        highest = (limit - 1) / (1 << fraction_bits)
        raise ParameterError(f"{name} is {value:g}; valid: 0..{highest:.9g}", name)
    return units


PLUGINS = "TIERCAST_MARKINGS"


def _kinds() -> dict[str, type[Marking]]:
    """All classes by their kind."""
    kinds: dict[str, type[Marking]] = {}
    for one in Marking.__subclasses__():
        kind = one.model_fields["kind"].default
        if not isinstance(kind, str) or kind in kinds:
            taken = ", ".join(kinds)
            raise ConfigurationError(f"{one.__name__}: kind is {kind!r}; valid: none of {taken}")
        kinds[kind] = one
    return kinds


import_files(PLUGINS, "add-a-marking.md")
KINDS = _kinds()
DEFAULT_KIND = "priority"


def _known_kind(data: Any) -> Any:
    if not isinstance(data, dict | Marking):
        raise PydanticCustomError("dict_type", "no mapping of keys to values")
    kind = data.get("kind", DEFAULT_KIND) if isinstance(data, dict) else data.kind
    if not isinstance(kind, str) or kind not in KINDS:
        context = {"key": "kind", "choices": tuple(KINDS), "named": ", ".join(KINDS)}
        raise PydanticCustomError("choice", "kind is none of {named}", context)
    return data


def _tag(kind: str) -> str:
    return f"marking {kind}"  # no YAML key has this name, so error paths omit it


def _tag_of(data: Any) -> str:
    return _tag(data.get("kind", DEFAULT_KIND) if isinstance(data, dict) else data.kind)


# `marking` in a YAML: the class of its kind, or of DEFAULT_KIND if it gives none.
if TYPE_CHECKING:
    AnyMarking = Marking
else:
    AnyMarking = Annotated[
        Union[tuple(Annotated[one, Tag(_tag(kind))] for kind, one in KINDS.items())],  # noqa: UP007
        Discriminator(_tag_of),
        BeforeValidator(_known_kind),
    ]
