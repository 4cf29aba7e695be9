"""The results of a sweep: means over seeds with 95 % confidence intervals, cell by cell, and
distributions over an axis."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from tiercast_lab.study.confidence import Mean, mean
from tiercast_lab.study.runs import Outcome
from tiercast_lab.study.sweep_spec import Cell, CellRun, SweepSpec
from tiercast_lab.study.target import VIRTUAL


@dataclass(frozen=True)
class CellResult:
    cell: Cell
    outcomes: tuple[Outcome[CellRun], ...]  # one per run; none if the cell is left out
    means: dict[str, Mean | None]  # by measure

    def value(self, measure: str) -> float:
        """The mean of a measure that has one."""
        mean = self.means[measure]
        assert mean is not None
        return mean.value

    @property
    def failures(self) -> list[str]:
        return [f"{one.task.run.name}: {one.failure}" for one in self.outcomes if one.failure]


QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Distribution:
    """A measure's distribution over the settings of one axis, for one choice of the other axes'
    settings (`names`)."""

    names: Mapping[str, str]
    measure: str
    cells: tuple[CellResult, ...]  # with a value, sorted by it
    missing: int  # how many have none

    @property
    def values(self) -> list[float]:
        return [one.value(self.measure) for one in self.cells]

    def quantile(self, share: float) -> float:
        """The value below which a `share` of the cells lies, interpolated linearly: the first value
        is at 0, the last at 1."""
        values = self.values
        at = share * (len(values) - 1)
        below = int(at)
        above = min(below + 1, len(values) - 1)
        return values[below] + (at - below) * (values[above] - values[below])

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    def __str__(self) -> str:
        return ", ".join(self.names.values())


@dataclass(frozen=True)
class SweepResults:
    spec: SweepSpec
    cells: tuple[CellResult, ...]

    @property
    def failures(self) -> list[str]:
        return [failure for cell in self.cells for failure in cell.failures]

    @property
    def runtime(self) -> str:
        """What made its runs: "virtual time"."""
        targets = (str(one.task.target) for cell in self.cells for one in cell.outcomes)
        return next(targets, str(VIRTUAL))

    def distributions(self, measure: str) -> list[Distribution]:
        """The distributions over the axis that the sweep names, one for each choice of the other
        axes' settings. Empty if it names no axis or no cell has a value."""
        over = self.spec.sweep.distribution_over
        groups: dict[tuple[str, ...], list[CellResult]] = defaultdict(list)
        for one in self.cells if over is not None else ():
            if not one.cell.excluded:
                rest = (name for axis, name in one.cell.names.items() if axis != over)
                groups[tuple(rest)].append(one)
        found = []
        for cells in groups.values():
            names = {axis: name for axis, name in cells[0].cell.names.items() if axis != over}
            there = [one for one in cells if one.means[measure] is not None]
            there.sort(key=lambda one: one.value(measure))
            if there:
                missing = len(cells) - len(there)
                found.append(Distribution(names, measure, tuple(there), missing))
        return found


def results_of(spec: SweepSpec, outcomes: list[Outcome[CellRun]]) -> SweepResults:
    by_cell: dict[tuple[str, ...], list[Outcome[CellRun]]] = defaultdict(list)
    for one in outcomes:
        by_cell[tuple(one.task.run.cell.names.values())].append(one)
    cells = []
    for cell in spec.cells:
        mine = by_cell[tuple(cell.names.values())]
        means = {
            measure: mean([one.measures.get(measure) for one in mine])  # failed runs have none
            for measure in spec.sweep.measures
        }
        cells.append(CellResult(cell, tuple(mine), means))
    return SweepResults(spec, tuple(cells))
