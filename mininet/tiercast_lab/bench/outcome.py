"""What a benchmark found: tables in the RFCs' formats, and what was not measured and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Curve:
    """A line of a plot."""

    name: str
    points: list[tuple[float, float]]


@dataclass
class Plot:
    title: str
    x: str
    y: str
    curves: list[Curve]
    log_x: bool = False


@dataclass
class Outcome:
    """Of one test. `section` is what it follows, such as "RFC 3918, 6.1". Devices are compared by
    column `figure` of the rows whose first `keys` columns are equal."""

    name: str
    section: str
    headings: list[str]
    rows: list[list[Any]]
    keys: int
    figure: int
    notes: list[str] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)  # for the JSON alone

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class NotMeasured:
    name: str
    section: str
    why: str
