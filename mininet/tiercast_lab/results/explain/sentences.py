"""Writes sentences about a scheme's trace records: whose record it is, and its fields in words."""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tiercast_lab.results.explain.snapshot import Row, Snapshot


class _Sentence(string.Formatter):
    """Format specifications: ms (from us), rate (from bytes/s), node (a receiver's id), % and g.

    A field that the record lacks becomes "unknown"; a node that is not a receiver becomes "none".
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def get_value(self, key: int | str, args: Any, kwargs: Mapping[str, Any]) -> Any:
        return kwargs.get(str(key))

    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None:
            return "unknown"
        if format_spec == "ms":
            return f"{value / 1e3:.0f} ms"
        if format_spec == "rate":
            return f"{8 * value / 1e6:.3f} Mbit/s"
        if format_spec == "node":
            return self.snapshot.receiver_name(value) or "none"
        if format_spec == "%":
            return f"{100 * value:.2f} %"
        return format(value, format_spec or ".4g")


@dataclass(frozen=True)
class Clause:
    """What to say about the newest record of a kind: the sender's, the receiver's, or ("about") the
    sender's record whose field `receiver` holds the receiver's id. `when` is a condition: "field"
    must not be 0, "!field" must be 0, "field=3" must equal 3."""

    kind: str
    by: Literal["sender", "receiver", "about"]
    say: str
    when: str = ""

    def applies(self, row: Row) -> bool:
        if not self.when:
            return True
        field, equals, value = self._condition()
        if equals:
            return row.get(field) == float(value)
        return bool(row.get(field)) != self.when.startswith("!")

    @property
    def fields(self) -> set[str]:
        names = {name for _, name, _, _ in string.Formatter().parse(self.say) if name}
        return names | ({self._condition()[0]} if self.when else set())

    def _condition(self) -> tuple[str, str, str]:
        return self.when.removeprefix("!").partition("=")


class Sentences:
    """The clauses that apply at a time of a run, each filled in from its record."""

    def __init__(self, *clauses: Clause) -> None:
        self.clauses = clauses

    def __call__(self, snapshot: Snapshot) -> list[str]:
        lines = []
        for clause in self.clauses:
            agent = snapshot.receiver if clause.by == "receiver" else snapshot.sender
            if clause.by == "about":
                row = snapshot.last(
                    clause.kind,
                    agent,
                    receiver=float(snapshot.session.receivers[snapshot.receiver].node),
                )
            else:
                row = snapshot.last(clause.kind, agent)
            if row is not None and clause.applies(row):
                said = _Sentence(snapshot).vformat(clause.say, (), row)
                lines.append(f"{said} [{clause.kind}, {row['time_s']:.2f} s]")
        return lines
