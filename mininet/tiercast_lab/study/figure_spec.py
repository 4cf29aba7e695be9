"""Finds the files that describe the papers' figures and tables, and the runs that each needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import InputError
from tiercast_lab.experiment.figure_schema import Figure, FigureRun
from tiercast_lab.experiment.loading import experiment_of, read_experiment
from tiercast_lab.experiment.schema import Experiment
from tiercast_lab.experiment.schemes import SchemeInfo
from tiercast_lab.experiment.yaml_source import KeyPath
from tiercast_lab.study.runs import Task


@dataclass(frozen=True)
class FigureSpec:
    path: Path
    experiment: Experiment
    place: Callable[[KeyPath], str]  # the file and line of a key path

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
        """What the file has under `figure`."""
        assert self.experiment.figure is not None  # ensured by all_figures and find_figure
        return self.experiment.figure

    def tasks(self, quick: bool) -> list[Task[FigureRun]]:
        runs = self.section.runs(self.name, quick, self.place)
        return [Task(self.path, run) for run in runs]


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
