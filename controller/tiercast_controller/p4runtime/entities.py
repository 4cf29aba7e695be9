"""The entities that are written to a switch: table entries by names, replication groups, clone
sessions, cells of registers and meters."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Masked:
    """A value of a ternary field, which has no bit outside the mask."""

    value: int
    mask: int


@dataclass(frozen=True)
class Between:
    """The values of a range field, both ends included."""

    low: int
    high: int


# A match value: an integer for an exact or optional match, (value, prefix length) for lpm. None:
# any value of an optional field.
MatchValue = int | tuple[int, int] | Masked | Between | None


@dataclass(frozen=True)
class TableEntry:
    """One entry, by names. To a switch, two entries with equal `key` are the same entry."""

    table: str
    match: tuple[tuple[str, MatchValue], ...]
    action: str
    params: tuple[tuple[str, int], ...] = ()
    priority: int = 0  # the largest wins; 0 in a table without ternary, range or optional fields

    @property
    def key(self) -> tuple[str, tuple[tuple[str, MatchValue], ...], int]:
        return (self.table, self.match, self.priority)

    def exact(self, field: str) -> int:
        """The value of a match field that is matched exactly."""
        value = dict(self.match)[field]
        assert isinstance(value, int), f"{self.table}: {field} is not matched exactly"
        return value

    def __str__(self) -> str:
        match = ", ".join(f"{name}={_shown(value)}" for name, value in self.match)
        params = ", ".join(f"{name}={value:#x}" for name, value in self.params)
        return f"{self.table}[{match}] -> {self.action}({params})"


def _shown(value: MatchValue) -> str:
    match value:
        case None:
            return "any"
        case Masked():
            return f"{value.value:#x}&{value.mask:#x}"
        case Between():
            return f"{value.low:#x}..{value.high:#x}"
        case (address, length):
            return f"{address:#x}/{length}"
        case int():
            return f"{value:#x}"
    raise TypeError(value)


def entry(
    table: str,
    match: Mapping[str, MatchValue],
    action: str,
    params: Mapping[str, int] | None = None,
) -> TableEntry:
    """A TableEntry from mappings, in canonical order."""
    return TableEntry(
        table, tuple(sorted(match.items())), action, tuple(sorted((params or {}).items()))
    )


class Op(enum.Enum):
    INSERT = "INSERT"
    MODIFY = "MODIFY"
    DELETE = "DELETE"


@dataclass(frozen=True)
class MulticastGroup:
    """A replication group of the packet replication engine, with one copy per port."""

    mgid: int  # 1..16383
    ports: frozenset[int]

    def __str__(self) -> str:
        return f"multicast group {self.mgid} -> ports {sorted(self.ports)}"


@dataclass(frozen=True)
class CloneSession:
    """A clone session of the packet replication engine, with one replica."""

    number: int  # 1..65535
    port: int | None  # None: it goes, or has other replicas

    def __str__(self) -> str:
        return f"clone session {self.number} -> port {self.port}"


@dataclass(frozen=True)
class RegisterCell:
    """A cell of a register; it can only be modified."""

    register: str
    index: int
    value: int

    def __str__(self) -> str:
        return f"{self.register}[{self.index}] = {self.value:#x}"


@dataclass(frozen=True)
class MeterCell:
    """A cell of a meter of packets with one rate; it can only be modified."""

    meter: str
    index: int
    rate: int  # packets/s; 0: it limits nothing
    burst: int  # packets

    def __str__(self) -> str:
        return f"{self.meter}[{self.index}] = {self.rate} packets/s, bursts of {self.burst}"


Entity = TableEntry | MulticastGroup | CloneSession | RegisterCell | MeterCell


@dataclass(frozen=True)
class Update:
    op: Op
    entity: Entity

    def __str__(self) -> str:
        return f"{self.op.value} {self.entity}"


def entry_changes(before: Iterable[TableEntry], after: Iterable[TableEntry]) -> list[Update]:
    """The updates from some entries to others."""
    old, new = ({item.key: item for item in items} for items in (before, after))
    return [
        *(Update(Op.INSERT, item) for key, item in new.items() if key not in old),
        *(Update(Op.MODIFY, item) for key, item in new.items() if key in old and old[key] != item),
        *(Update(Op.DELETE, item) for key, item in old.items() if key not in new),
    ]
