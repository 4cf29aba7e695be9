"""A stored run as seen from one receiver at one time, which is what `tiercast explain` explains."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from tiercast_controller.base import units

from tiercast_lab.base.errors import InputError
from tiercast_lab.measures.context import Interval, Session
from tiercast_lab.measures.rows import increase, received_within
from tiercast_lab.results.storage import StoredRun

SPAN_S = 2.0  # the length of "the last seconds"


class Row(dict[str, float]):
    """A row's values by column. A missing column raises the same error as in polars."""

    def __init__(self, kind: str, values: dict[str, float]) -> None:
        super().__init__(values)
        self._kind = kind

    def __missing__(self, column: str) -> float:
        raise pl.exceptions.ColumnNotFoundError(f"{column!r} in rows of {self._kind}")


@dataclass(frozen=True)
class Snapshot:
    """A run as seen from one receiver at one time."""

    run: StoredRun
    receiver: str  # an agent, such as "h3"
    at_s: float

    @property
    def session(self) -> Session:
        return self.run.context.session_of(self.receiver)

    @property
    def sender(self) -> str:
        return self.session.sender

    @property
    def since_s(self) -> float:
        return max(0.0, self.at_s - SPAN_S)

    @cached_property
    def paths(self) -> list[dict[str, Any]]:
        """The paths that the receiver had during the last seconds, the latest one last, as
        PathSummary; those after the run's first one have `from_s`."""
        first = self._session_summary["receivers"][self.receiver]
        parts: list[dict[str, Any]] = [first, *first.get("later", [])]
        begun = [one for one in parts if one.get("from_s", 0.0) <= self.at_s]
        ended = [one for one in begun[1:] if one["from_s"] <= self.since_s]
        return begun[len(ended) :]

    @property
    def directions(self) -> list[str]:
        """The directions of links on these paths."""
        return list(dict.fromkeys(way for path in self.paths for way in path["directions"]))

    @property
    def scheme(self) -> str:
        return str(self._session_summary["scheme"])

    @property
    def _session_summary(self) -> dict[str, Any]:
        sessions = self.run.summary["network"]["sessions"]
        found: dict[str, Any] = next(
            one for one in sessions if one["session"] == self.session.number
        )
        return found

    def rows(self, kind: str, agent: str | None, **equal: float) -> pl.DataFrame | None:
        """The rows of a kind up to the time, of one agent or, with None, of all; None if there are
        none."""
        frame = self.run.rows.get(kind)
        if frame is None or not set(equal) <= set(frame.columns):
            return None
        if agent is not None:
            frame = self.run.rows.of(kind, agent)
        chosen = frame.filter(pl.col("time_s") <= self.at_s)
        for column, value in equal.items():
            chosen = chosen.filter(pl.col(column) == value)
        return None if chosen.is_empty() else chosen

    def last(self, kind: str, agent: str | None, back: int = 1, **equal: float) -> Row | None:
        """The newest row, or the one `back` - 1 rows before it."""
        rows = self.rows(kind, agent, **equal)
        return None if rows is None or len(rows) < back else Row(kind, rows.row(-back, named=True))

    def increase(self, kind: str, agent: str, column: str, there: Interval) -> float:
        """The growth of a counter during the last seconds; `there` as for counter_at."""
        frame = self.run.rows.get(kind)
        if frame is None or column not in frame.columns:
            return 0.0
        return increase(self.run.rows.of(kind, agent), column, self.since_s, self.at_s, there)

    def received(self, column: str) -> float:
        """The growth of one of the receiver's counters during the last seconds."""
        receiver, edges = self.session.receivers[self.receiver], np.array([self.since_s, self.at_s])
        return float(received_within(self.run.rows, receiver, self.receiver, column, edges)[0])

    def receiver_name(self, number: float | None) -> str | None:
        """The agent whose node a record names as the receiver's id; None if it names no
        receiver."""
        found = (name for name, one in self.session.receivers.items() if one.node == number)
        return next(found, None)


def snapshot_at(run: StoredRun, receiver: str, at: str) -> Snapshot:
    """Raises InputError, with the run, what was asked for and the valid choices."""
    name = run.summary["run"]
    agent = f"h{receiver}" if receiver.isdigit() else receiver
    receivers = [name for session in run.context.sessions for name in session.receivers]
    if agent not in receivers:
        valid = ", ".join(receivers)
        raise InputError(f"run {name}: no receiver {receiver!r}; valid: {valid}")
    end = run.end_s
    valid = f"valid: 0s to {end:g}s"
    try:
        at_s = float(at) if _is_plain(at) else units.parse_duration(at) / 1e9
    except ValueError:
        raise InputError(
            f"run {name}: {at!r} is not a time, such as 45s or 45.2; {valid}"
        ) from None
    if not 0 <= at_s <= end:
        raise InputError(f"run {name}: the time {at} is outside the run; {valid}")
    return Snapshot(run, agent, at_s)


def _is_plain(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()
