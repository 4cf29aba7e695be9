"""The kinds of records that agents may report, and their fields (docs/agents.md); batches of them,
and the lines in which they are kept.

Agents are not trusted: a kind becomes the name of a table, a field becomes the name of a column,
and a run is judged by their contents.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

# Written by the programs, as listed in docs/agents.md: see protocols/core/rows.h,
# dataplane/sender/metrics/records.cpp and hosts/receiver.cpp.
_LATENESS = ("late_p50_us", "late_p99_us", "late_p999_us", "late_max_us", "count", "dropped")
_PAUSE = ("longest_us",)
_SEALS = ("forged", "replayed")
SENDERS: Mapping[str, tuple[str, ...]] = {
    "layer": (
        *("rank", "rate_Bps", "sent_packets", "sent_bytes"),
        *("generated_packets", "dropped_packets"),
    ),
    "pacer": _LATENESS,
    "pacer.final": _LATENESS,
    "pause": _PAUSE,
    "feedback": ("accepted", "refused", "malformed", "foreign", "control_dropped"),
    "feedback.refused": ("non_member", "impersonated", "implausible"),
    "seal.refused": _SEALS,
}
RECEIVERS: Mapping[str, tuple[str, ...]] = {
    "received": (
        *("rank_top", "bytes", "packets", "lost", "marked", "rate_Bps", "delivered", "complete"),
    ),
    "subscription": ("top",),
    "join": ("rank", "latency_us"),
    "socket": ("dropped", "invalid", "foreign", "send_errors"),
    "seal.refused": _SEALS,
    "pause": _PAUSE,
}
MAX_FIELDS = 64  # in a record of a core
_FIELD = re.compile("[A-Za-z][A-Za-z0-9_]{0,63}")
_OF_EVERY_ROW = ("time_s", "time_ns", "agent", "kind")
_WORD = re.compile("[a-z][a-z0-9_]{0,63}")


@dataclass(frozen=True)
class Record:
    """One line of telemetry."""

    time_ns: int  # CLOCK_MONOTONIC at the agent
    kind: str
    fields: dict[str, float | None]  # None: the value was not finite


@dataclass(frozen=True)
class Batch:
    """Records of one instance of an agent, none of which was taken before."""

    agent: str
    instance: int  # 1 .. 2^64 - 1: of one life of its program
    sequence: int  # number of the first: how many records the instance had made before it
    records: Sequence[Record]  # at least one

    @property
    def end(self) -> int:
        """The number of the record after the last."""
        return self.sequence + len(self.records)

    def lines(self) -> bytes:
        """A JSON object for each record, and one of kind `batch`, by which readers know that the
        batch is whole, and know it again."""
        rows = [
            {"time_ns": r.time_ns, "agent": self.agent, "kind": r.kind, **r.fields}
            for r in self.records
        ]
        whole = {
            "kind": "batch",
            "agent": self.agent,
            "instance": f"{self.instance:016x}",
            "sequence": self.sequence,
            "end": self.end,
        }
        return b"".join(json.dumps(line).encode() + b"\n" for line in (*rows, whole))


# Takes a batch: all of it, or, if it is cancelled or raises, nothing. The same agent's next message
# is read after that, so that a slow sink slows the agents down. The function is to be called, on
# the event loop and in the order of batches, when the records are where they outlive this process.
RecordSink = Callable[[Batch, Callable[[], None]], Awaitable[None]]


class Reports:
    """What an agent may report. `cores` are the kinds that its scheme's cores trace; None allows
    any of the form `<scheme>.<word>`."""

    def __init__(self, sender: bool, scheme: str, cores: Collection[str] | None) -> None:
        self._own = SENDERS if sender else RECEIVERS
        self._scheme = scheme
        self._cores = None if cores is None else frozenset(cores)

    def record(self, time_ns: int, kind: str, names: list[str], values: list[float]) -> Record:
        """Checks a record. Raises ValueError with the wrong kind or field, and the valid ones."""
        wanted = self._own.get(kind)
        if wanted is None:
            self._check_of_core(kind, names)
        elif tuple(names) != wanted and sorted(names) != sorted(wanted):
            raise ValueError(f"fields {_few(names)} of {kind!r}; valid: {', '.join(wanted)}")
        finite = [value if math.isfinite(value) else None for value in values]
        if wanted is not None and None in finite:
            name = names[finite.index(None)]
            raise ValueError(f"{name!r} of {kind!r} is {values[finite.index(None)]}; valid: finite")
        return Record(time_ns, kind, dict(zip(names, finite, strict=True)))

    def _check_of_core(self, kind: str, names: list[str]) -> None:
        scheme, _, word = kind.partition(".")
        if self._cores is None:
            known = scheme == self._scheme and _WORD.fullmatch(word) is not None
        else:
            known = kind in self._cores
        if not known:
            cores = [f"{self._scheme}.<word>"] if self._cores is None else sorted(self._cores)
            raise ValueError(f"kind {kind[:64]!r}; valid: {', '.join([*self._own, *cores])}")
        if len(names) > MAX_FIELDS:
            raise ValueError(f"{len(names)} fields of {kind!r}; valid: up to {MAX_FIELDS}")
        if len(set(names)) < len(names):
            raise ValueError(f"a field is given twice in {kind!r}; valid: once")
        for name in names:
            if not _FIELD.fullmatch(name) or name in _OF_EVERY_ROW:
                raise ValueError(
                    f"field {name[:64]!r} of {kind!r}; valid: a letter, then letters, digits and "
                    f"_, at most 64, but none of {', '.join(_OF_EVERY_ROW)}"
                )


def _few(names: list[str]) -> str:
    return repr([name[:64] for name in names[:16]])
