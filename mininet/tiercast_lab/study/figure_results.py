"""What a figure of a paper amounts to: means over the seeds, judged against the paper's numbers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

from tiercast_lab.experiment.figure_schema import FigureExpectation, FigureRun
from tiercast_lab.measures import parse_name
from tiercast_lab.results.verdict import meets, required_text
from tiercast_lab.study.confidence import Mean, mean
from tiercast_lab.study.figure_spec import FigureSpec
from tiercast_lab.study.runs import Outcome


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
    required: str  # empty where nothing is
    gate: bool
    ok: bool
    text: str  # the measured number as people read it
    paper_text: str


class FigureResults:
    """The measures of one figure's runs, as means over seeds."""

    def __init__(self, figure: FigureSpec, outcomes: list[Outcome[FigureRun]]) -> None:
        self.figure = figure
        self.outcomes = outcomes
        self.failures = [f"{one.task.run.name}: {one.failure}" for one in outcomes if one.failure]
        self._at: dict[tuple[str, float], list[Outcome[FigureRun]]] = defaultdict(list)
        for one in outcomes:
            if not one.failure:
                self._at[one.task.run.curve, one.task.run.x].append(one)

    def mean(self, measure: str, curve: str, x: float) -> Mean | None:
        """None where a run has no such number."""
        return mean([one.measures.get(measure) for one in self._at[curve, x]])

    def no_data(self, measure: str, curve: str, x: float) -> str:
        """Which runs have no such number: "no data of seed 2"."""
        runs = self._at[curve, x]
        lacking = [one.task.run.seed for one in runs if one.measures.get(measure) is None]
        of = f" of seed {', '.join(map(str, lacking))}" if 0 < len(lacking) < len(runs) else ""
        return f"no data{of}"

    @property
    def points(self) -> list[float]:
        return sorted({one.task.run.x for one in self.outcomes})

    def judge(self, quick: bool = False) -> list[Judged]:
        """Without expectations what was measured, which is judged by nothing."""
        if not self.figure.section.expect:
            return self._measured()
        return [
            judged
            for expectation in self.figure.section.expect
            if expectation.quick or not quick
            for judged in self._judge(expectation)
        ]

    def _measured(self) -> list[Judged]:
        """What the figure plots, or else all that says something of a run as a whole."""
        figure = self.figure.section
        plotted = [plot.measure for plot in figure.plots if not plot.density]
        names = plotted or [
            name
            for name in dict.fromkeys(name for one in self.outcomes for name in one.measures)
            if not parse_name(name).period
            and (not parse_name(name).which or parse_name(name).spec.which == "layers")
        ]
        expectations = [FigureExpectation.model_construct(measure=name) for name in names]
        rows = [
            self._judge_at(expectation, curve.name, x, "")
            for expectation in expectations
            for curve in figure.curves
            for x in self.points
        ]
        measured = {row.measure for row in rows if row.measured is not None}
        return [replace(row, gate=False, ok=True) for row in rows if row.measure in measured]

    def _judge(self, expectation: FigureExpectation) -> list[Judged]:
        first = self.figure.section.curves[0].name
        curve = first if expectation.curve is None else expectation.curve
        # A quick reproduction leaves points out, and what is said of them.
        return [
            self._judge_at(expectation, curve, x, first)
            for x in expectation.at_points(self.points)
            if expectation.over is None or expectation.over.at in (None, *self.points)
        ]

    def _judge_at(self, expectation: FigureExpectation, curve: str, x: float, first: str) -> Judged:
        here = self.mean(expectation.measure, curve, x)
        measured, spread, over = None, None, ""
        if here is not None:
            measured, spread = here.value, here.spread
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
        text = self.no_data(expectation.measure, curve, x) if measured is None else show(measured)
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
