"""Figures and tables of the papers: `tiercast figure NAME`, `tiercast reproduce`.

Judges the means over the seeds against the paper's numbers, draws them, and writes
results/figures/<name>/ (summary.json, figure.png) and results/figures/report.html.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiercast_lab import binaries, machine, pages, storage
from tiercast_lab.confidence import Mean, mean
from tiercast_lab.errors import InputError
from tiercast_lab.experiment import Experiment
from tiercast_lab.figure import FigureExpectation
from tiercast_lab.live import required_and_met, required_text
from tiercast_lab.loading import load_experiment
from tiercast_lab.runs import Outcome, Task
from tiercast_lab.schemes import SchemeInfo
from tiercast_lab.verdict import meets


@dataclass(frozen=True)
class Judged:
    """One expectation at one point."""

    measure: str
    curve: str
    x: float
    over: str
    paper: float | None
    measured: float | None
    spread: float | None
    required: str
    gate: bool
    ok: bool
    text: str  # the measured number as people read it
    paper_text: str


@dataclass(frozen=True)
class FigureFile:
    path: Path
    experiment: Experiment

    @property
    def name(self) -> str:
        return self.path.stem

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

    def tasks(self, quick: bool) -> list[Task]:
        return [Task(self.path, run) for run in self.experiment.figure.runs(self.name, quick)]


def all_figures(schemes: dict[str, SchemeInfo], folder: Path) -> list[FigureFile]:
    """Every file below `folder`, by name. InputError for the first one that is wrong."""
    files = [FigureFile(path, _load(path, schemes)) for path in sorted(folder.glob("*.yaml"))]
    return [one for one in files if one.experiment.figure is not None]


def find_figure(name: str, schemes: dict[str, SchemeInfo]) -> FigureFile:
    path = Path(name)
    if not path.is_file():
        path = binaries.FIGURES / f"{name}.yaml"
    if not path.is_file():
        valid = ", ".join(sorted(found.stem for found in binaries.FIGURES.glob("*.yaml")))
        raise InputError(f"no figure {name!r}; valid: a YAML file, or one of {valid}")
    found = FigureFile(path, _load(path, schemes))
    if found.experiment.figure is None:
        raise InputError(f"{path}:1: no `figure` in it; `tiercast run` runs it")
    return found


def _load(path: Path, schemes: dict[str, SchemeInfo]) -> Experiment:
    return load_experiment(path, schemes).experiment


class Results:
    """The measures of one figure's runs, as means over seeds."""

    def __init__(self, figure: FigureFile, outcomes: list[Outcome]) -> None:
        self.figure = figure
        self.outcomes = outcomes
        self.failures = [f"{one.task.run.name}: {one.failure}" for one in outcomes if one.failure]
        self._values: dict[tuple[str, str, float], list[float]] = defaultdict(list)
        for one in outcomes:
            for name, value in one.measures.items():
                if value is not None:
                    self._values[name, one.task.run.curve, one.task.run.x].append(value)

    def mean(self, measure: str, curve: str, x: float) -> Mean | None:
        return mean(self._values.get((measure, curve, x), []))

    @property
    def points(self) -> list[float]:
        return sorted({one.task.run.x for one in self.outcomes})

    def judge(self, quick: bool = False) -> list[Judged]:
        return [
            judged
            for expectation in self.figure.experiment.figure.expect
            if expectation.quick or not quick
            for judged in self._judge(expectation)
        ]

    def _judge(self, expectation: FigureExpectation) -> list[Judged]:
        first = self.figure.experiment.figure.curves[0].name
        curve = first if expectation.curve is None else expectation.curve
        # A quick reproduction leaves points out, and what is said of them.
        return [
            self._judge_at(expectation, curve, x, first)
            for x in expectation.at_points(self.points)
            if expectation.over is None or expectation.over.at in (None, *self.points)
        ]

    def _judge_at(self, expectation: FigureExpectation, curve: str, x: float, first: str) -> Judged:
        here = self.mean(expectation.measure, curve, x)
        measured, spread, over = here and here.value, here and here.spread, ""
        if (other := expectation.over) is not None:
            own_curve = other.at is not None or other.measure is not None
            other_curve = other.curve or (curve if own_curve else first)
            other_x = x if other.at is None else other.at
            there = self.mean(other.measure or expectation.measure, other_curve, other_x)
            over = " ".join(filter(None, ("over", other.measure, other_curve, f"at {other_x:g}")))
            spread = None
            measured = here.value / there.value if here and there and there.value != 0 else None
        low, high = expectation.bound("min"), expectation.bound("max")
        paper = expectation.bound("paper", x)
        ok = meets(measured, paper, expectation.tolerance, low, high)
        show = (lambda v: f"{v:.2f}") if expectation.over else expectation.spec.show
        text = "no data" if measured is None else show(measured)
        return Judged(
            measure=expectation.measure,
            curve=curve,
            x=x,
            over=over,
            paper=paper,
            measured=measured,
            spread=spread,
            required=required_text(show, expectation.tolerance, low, high),
            gate=expectation.gate,
            ok=ok,
            text=text if not spread else f"{text} ± {show(spread)}",
            paper_text="–" if paper is None else show(paper),
        )


def verdict_of(judged: list[Judged], failures: list[str]) -> str:
    """`reported`: nothing was required."""
    if failures:
        return "failed"
    if not any(one.gate for one in judged):
        return "reported"
    return "met" if all(one.ok or not one.gate for one in judged) else "not met"


def write_figure(results: Results, folder: Path, quick: bool) -> dict[str, Any]:
    """results/figures/<name>/summary.json and figure.png; returns the summary."""
    from tiercast_lab.figure_plot import draw_figure

    figure = results.figure
    directory = folder / figure.name
    directory.mkdir(parents=True, exist_ok=True)
    judged = results.judge(quick)
    summary = {
        "figure": figure.name,
        "title": figure.experiment.title,
        "paper": figure.reference,
        "paper_name": figure.experiment.paper.name if figure.experiment.paper else "",
        "x": figure.experiment.figure.x,
        "quick": quick,
        "verdict": verdict_of(judged, results.failures),
        "expected": [vars(one) for one in judged],
        "failures": results.failures,
        "runs": [
            {
                "curve": one.task.run.curve,
                "x": one.task.run.x,
                "seed": one.task.run.seed,
                "command": one.task.command,
                "measures": one.measures,
                "directory": str(one.directory),
            }
            for one in results.outcomes
        ],
        "versions": machine.versions(),
    }
    draw_figure(results, directory / "figure.png")
    storage.write_json(directory / "summary.json", summary)
    return summary


def write_report(summaries: list[dict[str, Any]], folder: Path, command: list[str]) -> Path:
    """report.html, one page with every figure: paper, measured, verdict, plots; its tables as
    report.md, and report.json."""
    by_paper: dict[str, list[dict[str, Any]]] = {}
    for one in summaries:
        by_paper.setdefault(one["paper_name"] or "Beyond the papers", []).append(one)
    html = pages.render(
        "figures.html.j2",
        summaries=summaries,
        by_paper=by_paper,
        images={
            one["figure"]: pages.embedded(folder / one["figure"] / "figure.png")
            for one in summaries
        },
        command=shlex.join(command),
        met=sum(one["verdict"] == "met" for one in summaries),
        required_and_met=required_and_met,
    )
    path = folder / "report.html"
    path.write_text(html)
    storage.write_json(folder / "report.json", {"figures": summaries})
    (folder / "report.md").write_text(_as_markdown(summaries))
    return path


def _as_markdown(summaries: list[dict[str, Any]]) -> str:
    """The tables of all figures, for a page such as docs/reproduction.md."""
    lines = []
    for one in summaries:
        command = f"`./tiercast figure {one['figure']}`, {len(one['runs'])} runs"
        source = f"{one['paper']}; " if one["paper"] else ""
        lines += [f"### {one['title']}: {one['verdict']}", "", source + command, ""]
        lines += ["| | at | paper | required | measured | |", "|---|---|---|---|---|---|"]
        for row in one["expected"]:
            what = f"{row['curve']} {row['measure'].replace('_', ' ')} {row['over']}".strip()
            mark = ("met" if row["ok"] else "**not met**") + (
                "" if row["gate"] else ", not required"
            )
            lines.append(
                f"| {what} | {row['x']:g} | {row['paper_text']} | {row['required']} "
                f"| {row['text']} | {mark} |"
            )
        lines += ["", *one["failures"], ""]
    return "\n".join(lines).rstrip() + "\n"
