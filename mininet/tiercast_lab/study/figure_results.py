"""The results of a figure of a paper: means over the seeds, judged against the paper's numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tiercast_lab.experiment.figure_schema import (
    Figure,
    FigureExpectation,
    FigureRun,
    FirstSetUp,
    Recorded,
)
from tiercast_lab.measures import parse_name
from tiercast_lab.results.verdict import limits, meets, reaches_over, required_text
from tiercast_lab.study.confidence import Mean, mean, ratio
from tiercast_lab.study.figure_spec import FigureSpec
from tiercast_lab.study.runs import Outcome

# From worst to best. `uncertain`: the 95 % confidence interval of the mean contains a bound.
VERDICTS = ("not met", "not met, uncertain", "met, uncertain", "met")


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
    required: str  # empty if nothing is required
    gate: bool
    ok: bool  # the mean
    verdict: str  # one of VERDICTS; empty if nothing is required
    text: str  # the measured number in words
    paper_text: str


class FigureResults:
    """The measures of one figure's runs, as means over seeds. `first` holds those of its first
    set-up, with `section` as it was then."""

    def __init__(
        self, figure: FigureSpec, outcomes: list[Outcome[FigureRun]], first: bool = False
    ) -> None:
        self.figure = figure
        self.section: Figure = figure.section
        if first:
            was = figure.section.first()
            assert was is not None
            self.section = was
        self.made = outcomes  # includes those of its first set-up
        self.outcomes = [one for one in outcomes if bool(one.task.run.first) == first]
        self.failures = [
            f"{one.task.run.name}: {one.failure}" for one in self.outcomes if one.failure
        ]
        self.invalid = any(one.invalid for one in self.outcomes)
        self._at: dict[tuple[str, float], list[Outcome[FigureRun]]] = defaultdict(list)
        for one in self.outcomes:
            if not one.failure:
                self._at[one.task.run.curve, one.task.run.x].append(one)

    def values(self, measure: str, curve: str, x: float) -> list[float | None]:
        """The value of each seed whose run did not fail, in their order."""
        return list(self._by_seed(measure, curve, x).values())

    def _by_seed(self, measure: str, curve: str, x: float) -> dict[int, float | None]:
        return {one.task.run.seed: one.measures.get(measure) for one in self._at[curve, x]}

    def mean(self, measure: str, curve: str, x: float) -> Mean | None:
        """The mean over the seeds; None if a run has no such number."""
        return mean(self.values(measure, curve, x))

    def no_data(self, measure: str, curve: str, x: float) -> str:
        """The runs that have no such number: "no data of seed 2"."""
        runs = self._at[curve, x]
        lacking = [one.task.run.seed for one in runs if one.measures.get(measure) is None]
        of = f" of seed {', '.join(map(str, lacking))}" if 0 < len(lacking) < len(runs) else ""
        return f"no data{of}"

    @property
    def points(self) -> list[float]:
        return sorted({one.task.run.x for one in self.outcomes})

    def judge(self, quick: bool = False) -> list[Judged]:
        """Judges all expectations. If there are none, returns what was measured, without a
        verdict."""
        if not self.section.expect:
            return self._measured()
        return [
            judged
            for expectation in self.section.expect
            if expectation.quick or not quick
            for judged in self._judge(expectation)
        ]

    def as_first_set_up(self, quick: bool = False) -> FirstResult | None:
        """The result of the first set-up; None if the set-up has not changed."""
        was = self.figure.section.as_first_set_up
        if was is None:
            return None
        if was.recorded:
            return FirstResult(was, [_recorded(one) for one in was.recorded], [])
        results = FigureResults(self.figure, self.made, first=True)
        return FirstResult(was, results.judge(quick), results.failures, results.invalid)

    def _measured(self) -> list[Judged]:
        """The measures that the figure plots or, if it plots none, all those of a run as a
        whole."""
        figure = self.section
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
        return [
            replace(row, gate=False, ok=True, verdict="") for row in rows if row.measure in measured
        ]

    def _judge(self, expectation: FigureExpectation) -> list[Judged]:
        first = self.section.curves[0].name
        curve = first if expectation.curve is None else expectation.curve
        # A quick reproduction leaves out some points, and the expectations of them.
        return [
            self._judge_at(expectation, curve, x, first)
            for x in expectation.at_points(self.points)
            if expectation.over is None or expectation.over.at in (None, *self.points)
        ]

    def _judge_at(self, expectation: FigureExpectation, curve: str, x: float, first: str) -> Judged:
        by_seed = self._by_seed(expectation.measure, curve, x)
        here = list(by_seed.values())
        over = ""
        if (other := expectation.over) is None:
            measured = mean(here)
        else:
            other_curve = other.meant(curve, first)
            other_x = x if other.at is None else other.at
            there = self._by_seed(other.measure or expectation.measure, other_curve, other_x)
            over = " ".join(filter(None, ("over", other.measure, other_curve, f"at {other_x:g}")))
            seeds = [seed for seed in by_seed if seed in there]  # whose runs both did not fail
            measured = ratio([by_seed[one] for one in seeds], [there[one] for one in seeds])
        if measured is None:
            no_data = self.no_data(expectation.measure, curve, x)
            return _judged(expectation, curve, x, over, None, no_data=no_data)
        each = [one for one in here if one is not None] if expectation.each_seed else []
        return _judged(expectation, curve, x, over, measured, each)


def _judged(
    expectation: FigureExpectation,
    curve: str,
    x: float,
    over: str,
    measured: Mean | None,
    seeds: Sequence[float] = (),
    no_data: str = "no data",
) -> Judged:
    """Judges each number of `seeds`, or their mean if it is empty."""
    value, spread = (measured.value, measured.spread) if measured else (None, None)
    low, high = expectation.bound("min"), expectation.bound("max")
    paper = expectation.bound("paper", x)
    ok = all(meets(one, paper, expectation.tolerance, low, high) for one in (seeds or (value,)))
    verdict = "met" if ok else "not met"
    if not seeds:
        within = limits(paper, expectation.tolerance, low, high)
        verdict += ", uncertain" if reaches_over(value, spread, *within) else ""
    show = (lambda v: f"{v:.2f}") if expectation.over else expectation.spec.show
    required = required_text(show, expectation.tolerance, low, high)
    text = no_data if value is None else show(value)
    if seeds:
        required, text = f"{required} (each seed)", ", ".join(map(show, seeds))
    elif spread:
        text += f" ± {show(spread)}"
    return Judged(
        measure=expectation.measure,
        curve=curve,
        x=x,
        over=over,
        paper=paper,
        measured=value,
        spread=spread,
        required=required,
        gate=expectation.gate,
        ok=ok,
        verdict=verdict,
        text=text,
        paper_text="–" if paper is None else show(paper),
    )


def verdict_of(judged: list[Judged], failures: list[str], invalid: bool = False) -> str:
    """The worst verdict on any required number; `reported` if nothing is required. `invalid`: the
    failures include invalid runs."""
    if failures:
        return "invalid" if invalid else "failed"
    required = {one.verdict for one in judged if one.gate}
    return next((verdict for verdict in VERDICTS if verdict in required), "reported")


@dataclass(frozen=True)
class FirstResult:
    """A figure as it was first set up, whether run again now or recorded at the time."""

    was: FirstSetUp
    judged: list[Judged]
    failures: list[str]
    invalid: bool = False  # as in verdict_of

    @property
    def verdict(self) -> str:
        return verdict_of(self.judged, self.failures, self.invalid)


def _recorded(one: Recorded) -> Judged:
    value, spread = one.bound("measured"), one.bound("spread")
    assert value is not None and isinstance(one.at, float)  # Recorded's checks ensure this
    over = ""
    if (other := one.over) is not None:
        at = f"at {other.at:g}" if other.at is not None else ""
        over = " ".join(filter(None, ("over", other.measure, other.curve, at)))
    return _judged(one, one.curve or "", one.at, over, Mean(value, spread, 0))
