"""Rates, times, queues and fractions as text: `6Mbit/s`, `5ms`, `50p`, `30000B`, `50p/30000B`,
`15%`.

In memory, rates are in bit/s (int), times in nanoseconds (int), queues in packets and bytes (0: no
limit). Every parser raises ValueError, with the value seen and the valid forms, for a text that it
cannot read or a value beyond the bounds below. These bounds hold for every key of an experiment; a
key may have a narrower range.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import BeforeValidator

from tiercast_controller.base.bounded_yaml import shown

MAX_RATE = 10**12  # bit/s; tiercast-switch accepts no more (dataplane/switch/options.cpp)
MAX_TIME = 10**15  # ns: eleven days
MAX_SIZE = 10**9  # bytes
MAX_PACKETS = 10**6

_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_RATES = {"bit/s": 1, "kbit/s": 10**3, "Mbit/s": 10**6, "Gbit/s": 10**9}
_TIMES = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9}
_SIZES = {"B": 1, "kB": 10**3, "MB": 10**6}
_FRACTIONS = {"%": 1}
_PACKETS = {"p": 1}


def _with_unit(text: object, units: dict[str, int], what: str, example: str, most: str) -> float:
    value = _quantity(text, units)
    if value is None:
        is_negative = (
            isinstance(text, str)
            and text.strip().startswith("-")
            and _quantity(text.strip()[1:], units) is not None
        )
        raise ValueError(
            f"{shown(text)} is {'negative' if is_negative else f'not a {what}'}; valid: a number "
            f"and one of {', '.join(units)}, such as {example}"
        )
    bound = _quantity(most, units)
    assert bound is not None  # `most` comes from this file
    if value > bound:
        raise ValueError(f"{shown(text)} is too large for a {what}; valid: {most} or less")
    return value


def _quantity(text: object, units: dict[str, int]) -> float | None:
    match = re.fullmatch(rf"{_NUMBER}\s*(\S+)", text.strip()) if isinstance(text, str) else None
    if match is None or match[2] not in units:
        return None
    return float(match[1]) * units[match[2]]


def parse_rate(text: object) -> int:
    """bit/s, up to MAX_RATE."""
    return round(_with_unit(text, _RATES, "rate", "6Mbit/s", format_rate(MAX_RATE)))


def parse_duration(text: object) -> int:
    """ns, up to MAX_TIME."""
    return round(_with_unit(text, _TIMES, "time", "5ms", format_duration(MAX_TIME)))


Duration = Annotated[int, BeforeValidator(parse_duration)]  # ns, in a model of YAML


def parse_size(text: object) -> int:
    """bytes, up to MAX_SIZE."""
    return round(_with_unit(text, _SIZES, "size", "1000B", f"{MAX_SIZE // 10**6}MB"))


def parse_packets(text: object) -> int:
    """packets: `20p` gives 20, up to MAX_PACKETS."""
    packets = _with_unit(text, _PACKETS, "number of packets", "20p", f"{MAX_PACKETS}p")
    if packets != int(packets):
        raise ValueError(f"{shown(text)} is not a number of packets; valid: whole ones")
    return int(packets)


def parse_fraction(text: object) -> float:
    """`15%` or a plain 0.15 gives 0.15. A plain number is at most 1: a 5 is taken for a 5 % whose
    sign was forgotten, not for 500 %, which a loss never exceeds."""
    valid = "15% (or a plain 0.15)"
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        if not 0 <= text <= 1:
            raise ValueError(f"{shown(text)} is not a fraction; valid: 0 to 1, such as {valid}")
        return float(text)
    return _with_unit(text, _FRACTIONS, "fraction", valid, "10000%") / 100


def parse_frequency(text: object) -> float:
    """Events per second, from `840 in 2900s` or a plain 0.29."""
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        return float(text)
    match = re.fullmatch(rf"{_NUMBER} in (\S+)", text.strip()) if isinstance(text, str) else None
    if match is None or not (span := parse_duration(match[2])):
        raise ValueError(
            f"{shown(text)} does not say how often; valid: a number per second, or `840 in 2900s`"
        )
    return float(match[1]) * 1e9 / span


@dataclass(frozen=True)
class Queue:
    """The limits of a queue; 0 means no limit. The packet in service does not count."""

    packets: int = 0
    bytes: int = 0

    def __str__(self) -> str:
        parts = [f"{self.packets}p"] if self.packets else []
        parts += [f"{self.bytes}B"] if self.bytes else []
        return "/".join(parts) or "0p"


def parse_queue(text: object) -> Queue:
    """packets, bytes or both, up to MAX_PACKETS and MAX_SIZE."""
    limits: dict[str, int] = {}
    for part in text.split("/") if isinstance(text, str) else [""]:
        packets = _quantity(part, _PACKETS) is not None
        key = "packets" if packets else "bytes"
        if key in limits or (not packets and _quantity(part, _SIZES) is None):
            raise ValueError(
                f"{shown(text)} is not a queue; valid: packets (50p), bytes (30000B, 30kB) or "
                "both (50p/30000B)"
            )
        limits[key] = parse_packets(part) if packets else parse_size(part)
    return Queue(**limits)


def format_rate(bits_per_second: float) -> str:
    """`6Mbit/s`, with at most three decimals; parse_rate can read it."""
    for unit in ("Gbit/s", "Mbit/s", "kbit/s"):
        if bits_per_second >= _RATES[unit]:
            return f"{_short(bits_per_second / _RATES[unit])}{unit}"
    return f"{round(bits_per_second)}bit/s"


def format_duration(nanoseconds: float) -> str:
    """`5ms`, with at most three decimals; parse_duration can read it."""
    for unit in ("s", "ms", "us"):
        if nanoseconds >= _TIMES[unit]:
            return f"{_short(nanoseconds / _TIMES[unit])}{unit}"
    return f"{round(nanoseconds)}ns"


def _short(number: float) -> str:
    """At most three decimals, and never 1e+06, which no parser here can read."""
    return f"{number:.3f}".rstrip("0").rstrip(".")


def format_like(seen: object, value: object) -> object:
    """Formats a bound in the unit of the value seen: 5_000_000_000 beside `3s` becomes `5s`."""
    unit = re.fullmatch(rf"\s*{_NUMBER}\s*(\S+)", seen) if isinstance(seen, str) else None
    if unit is not None and isinstance(value, (int, float)):
        if unit[2] in _RATES:
            return format_rate(value)
        if unit[2] in _TIMES:
            return format_duration(value)
    return value


def format_span(seconds: float) -> str:
    """A time to wait as people say it: 40 s, 3 min 20 s, 2 h 05 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"
