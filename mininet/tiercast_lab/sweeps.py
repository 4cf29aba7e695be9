"""A sweep's results: `tiercast sweep FILE`.

Means over seeds with 95 % confidence intervals, cell by cell; sweep_report.py writes them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from tiercast_lab.confidence import Mean, mean
from tiercast_lab.runs import Outcome
from tiercast_lab.sweep import Cell, SweepFile


@dataclass(frozen=True)
class CellResult:
    cell: Cell
    outcomes: tuple[Outcome, ...]  # a run each; none of a cell that is left out
    means: dict[str, Mean | None]  # by measure

    @property
    def failures(self) -> list[str]:
        return [f"{one.task.run.name}: {one.failure}" for one in self.outcomes if one.failure]


@dataclass(frozen=True)
class SweepResults:
    file: SweepFile
    cells: tuple[CellResult, ...]

    @property
    def failures(self) -> list[str]:
        return [failure for cell in self.cells for failure in cell.failures]


def results_of(file: SweepFile, outcomes: list[Outcome]) -> SweepResults:
    by_cell: dict[tuple[str, ...], list[Outcome]] = defaultdict(list)
    for one in outcomes:
        by_cell[tuple(one.task.run.cell.names.values())].append(one)
    cells = []
    for cell in file.cells:
        mine = by_cell[tuple(cell.names.values())]
        means = {
            measure: mean([one.measures.get(measure) for one in mine if not one.failure])
            for measure in file.sweep.measures
        }
        cells.append(CellResult(cell, tuple(mine), means))
    return SweepResults(file, tuple(cells))
