"""The files of the papers' figures and tables, and the runs that each asks for."""

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
    place: Callable[[KeyPath], str]  # of a key of the file

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def called(self) -> str:
        """What `tiercast figure` takes to find it again."""
        return self.name if self.path.parent == binaries.FIGURES else str(self.path)

    @property
    def reference(self) -> str:
        paper = self.experiment.paper
        if paper is None:
            return ""
        figure = paper.figure or ""
        if figure[:1].isdigit():  # else it says itself what it is: "table I"
            figure = f"figure {figure}"
        parts = [figure, f"section {paper.section}" if paper.section else ""]
        return ", ".join([paper.name, *filter(None, parts)])

    @property
    def section(self) -> Figure:
        """What the file says below `figure`."""
        assert self.experiment.figure is not None  # see all_figures and find_figure
        return self.experiment.figure

    def tasks(self, quick: bool) -> list[Task[FigureRun]]:
        runs = self.section.runs(self.name, quick, self.place)
        return [Task(self.path, run) for run in runs]


def all_figures(schemes: dict[str, SchemeInfo], folder: Path) -> list[FigureSpec]:
    """Every file below `folder`, by name. InputError for the first one that is wrong."""
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
