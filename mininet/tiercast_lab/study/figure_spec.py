"""Finds the files that describe the papers' figures and tables, and the runs that each needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import InputError
from tiercast_lab.experiment.figure_schema import (
    Figure,
    FigureRun,
    InMininet,
    Point,
    setting_text,
)
from tiercast_lab.experiment.loading import experiment_of, read_experiment
from tiercast_lab.experiment.schema import Experiment
from tiercast_lab.experiment.schemes import SchemeInfo
from tiercast_lab.experiment.yaml_source import KeyPath
from tiercast_lab.study.runs import Task
from tiercast_lab.study.target import VIRTUAL, Target


@dataclass(frozen=True)
class FigureSpec:
    path: Path
    experiment: Experiment
    place: Callable[[KeyPath], str]  # the file and line of a key path
    target: Target = VIRTUAL
    scaled: bool = False  # as the `mininet` block has it

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def called(self) -> str:
        """The name by which `tiercast figure` finds it again."""
        return self.name if self.path.parent == binaries.FIGURES else str(self.path)

    @property
    def reference(self) -> str:
        paper = self.experiment.paper
        if paper is None:
            return ""
        figure = paper.figure or ""
        if figure[:1].isdigit():  # otherwise it says what it is: "table I"
            figure = f"figure {figure}"
        parts = [figure, f"section {paper.section}" if paper.section else ""]
        return ", ".join([paper.name, *filter(None, parts)])

    @property
    def section(self) -> Figure:
        """What the file has under `figure`, or what of it is run and judged if it is scaled."""
        return self._section.in_mininet() if self.scaled else self._section

    @property
    def _section(self) -> Figure:
        assert self.experiment.figure is not None  # ensured by all_figures and find_figure
        return self.experiment.figure

    @property
    def mininet(self) -> InMininet:
        """What the file says about real time; that nothing is scaled if it says nothing."""
        return self._section.mininet or InMininet()

    def on(self, target: Target) -> FigureSpec:
        """The figure as scaled for real time, to be run on a target. Raises InputError if the file
        refuses it."""
        if (why := self.mininet.refused) is not None:
            place = self.place(("figure", "mininet", "refused"))
            raise InputError(
                f"{place}: {self.name} is not run in real time: {why}; valid: --runtime ns3"
            )
        return replace(self, target=target, scaled=True)

    @property
    def is_variant(self) -> bool:
        """Whether it is the scaled figure in virtual time, whose results are not the figure's."""
        return self.scaled and not self.target.in_real_time

    @property
    def scaling(self) -> list[str]:
        """How its runs in real time differ from those in virtual time, in words; empty if they do
        not, or if this is not the scaled figure."""
        if not self.scaled or not self.mininet.scales:
            return []
        block, whole = self.mininet, self._section
        points = len(self.section.points), len(whole.points)
        curves = len(self.section.curves), len(whole.curves)
        seeds = len(self.section.seeds), len(whole.seeds)
        parts = [setting_text(key, value).replace('"', "") for key, value in block.set.items()]
        named = {"points": points, "curves": curves, "seeds": seeds}
        parts += [
            f"{some} of {all_} {name}" for name, (some, all_) in named.items() if some != all_
        ]
        if any(isinstance(one, Point) for one in block.points or ()):
            parts.append("points of its own")
        words = [f"Scaled: {', '.join(parts)}. Why: {block.why}"]
        return words + ([f"The numbers then judge: {block.judges}"] if block.judges else [])

    def tasks(self, quick: bool) -> list[Task[FigureRun]]:
        runs = self._section.runs(self.name, quick, self.place, self.scaled)
        return [Task(self.path, run, self.target, self.mininet.cores) for run in runs]


def all_figures(schemes: dict[str, SchemeInfo], folder: Path) -> list[FigureSpec]:
    """All figures in `folder`, by name. Raises InputError for the first file that is wrong."""
    files = [_load(path, schemes) for path in sorted(folder.glob("*.yaml"))]
    return [one for one in files if one.experiment.figure is not None]


def find_figure(name: str, schemes: dict[str, SchemeInfo]) -> FigureSpec:
    path = binaries.find("figure", name)
    found = _load(path, schemes)
    if found.experiment.figure is None:
        raise InputError(f"{path}:1: no `figure` in it; `tiercast run` runs it")
    return found


def _load(path: Path, schemes: dict[str, SchemeInfo]) -> FigureSpec:
    source = read_experiment(path)
    return FigureSpec(path, experiment_of(source, path, schemes).experiment, source.place)
