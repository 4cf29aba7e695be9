"""The part of an experiment's YAML that describes a figure or table of a paper: the runs that make
it, what is drawn, and which of its numbers are judged (docs/experiments.md).

A run is one point on the x axis, for one curve, with one seed. Figures are means over the seeds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from tiercast_controller.base import units
from tiercast_controller.base.bounded_yaml import shown
from tiercast_controller.base.strict import Strict

from tiercast_lab.base.errors import among, listed
from tiercast_lab.experiment.model import Choice, Line, NumberKey
from tiercast_lab.experiment.quantities import MAX_SEED, require_rising
from tiercast_lab.measures import MeasureSpec, find_spec


def _settable(settings: dict[str, Any]) -> dict[str, Any]:
    for key in settings:
        if not key or "=" in key:
            raise ValueError(
                f"{shown(key)} is not a key of an experiment; valid: one such as duration"
            )
    return settings


# Values by the experiment's keys, as `--set` takes them: {topology.tree.depth: 5}.
Settings = Annotated[dict[Line, Any], AfterValidator(_settable)]
MAX_RUNS = 20_000  # of a figure or a sweep

Seeds = Annotated[list[Annotated[int, Field(ge=0, le=MAX_SEED)]], Field(min_length=1)]


def setting_text(key: str, value: Any) -> str:
    """The setting as `--set` takes it. JSON is valid YAML, so no character needs quoting."""
    return f"{key}={json.dumps(value, ensure_ascii=False)}"


class Point(Strict):
    x: float = 0
    set: Settings = {}
    quick: bool = True  # part of a quick reproduction


class Curve(Strict):
    name: Line
    set: Settings = {}


class Plot(Strict):
    """A measure over the x axis, with one line per curve. `reference` holds the paper's values by
    x.

    `bars` draws a table: at each point, bars for the paper and each curve side by side. `density`
    shows how often the windows of two sessions were at each pair of values, in the first run.
    """

    measure: Line
    log: bool = False
    bars: bool = False
    density: bool = False
    reference: dict[NumberKey, Line | float] = {}

    @model_validator(mode="after")
    def _drawable(self) -> Plot:
        parse = find_spec(self.measure).parse
        for value in self.reference.values():
            parse(value)
        return self


class Denominator(Strict):
    """The number that `over` divides by: a measure of a curve at a point.

    A measure or point that is not given is that of the expectation. The curve, if not given, is the
    first one when neither of them is given, and otherwise the expectation's.
    """

    measure: Line | None = None
    curve: Line | None = None
    at: float | None = None

    def meant(self, curve: str, first: str) -> str:
        """The curve that it means beside one of `curve`; `first` is the figure's first one."""
        by_own = self.at is not None or self.measure is not None
        return self.curve or (curve if by_own else first)


class FigureExpectation(Strict):
    """A number of the figure, or its ratio to another (`over`), and when it counts as met.

    `measure` is a name as in summary.json: efficiency, cumulative_rate_2, receiver_rate_h15,
    receiver_rate_h15@before. `at` is the x of a point, or `each`. `paper` may be a table row, by x;
    `each` then means the points of that row. Class A numbers decide the verdict; class B numbers
    (`gate: false`) are only reported.
    """

    measure: Line
    curve: Line | None = None
    at: float | Choice[Literal["each"]] = "each"
    over: Denominator | None = None
    paper: float | Line | dict[NumberKey, float | Line] | None = None
    tolerance: Annotated[float, BeforeValidator(units.parse_fraction)] | None = None
    min: Line | float | None = None
    max: Line | float | None = None
    gate: bool = True
    each_seed: bool = False  # every seed has to meet it, instead of their mean
    quick: bool = True  # also judged in a quick reproduction

    @model_validator(mode="after")
    def _judgeable(self) -> FigureExpectation:
        find_spec(self.measure)
        if self.over is not None and self.over.measure is not None:
            find_spec(self.over.measure)
        if isinstance(self.paper, dict) and self.at != "each":
            raise ValueError(
                f"'paper' already gives the points; valid: no 'at' (seen: {self.at:g})"
            )
        if self.tolerance is not None and self.paper is None:
            raise ValueError("'tolerance' needs 'paper'")
        if self.tolerance is None and self.min is None and self.max is None:
            raise ValueError("nothing to judge by; valid: tolerance (with paper), min, max")
        if self.each_seed and self.over is not None:
            raise ValueError("a ratio is one of means; valid: 'each_seed' without 'over'")
        for x in self.paper if isinstance(self.paper, dict) else (None,):
            for key in ("paper", "min", "max"):
                self.bound(key, x)
        require_rising(self.bound("min"), self.bound("max"))
        return self

    @property
    def spec(self) -> MeasureSpec:
        return find_spec(self.measure)

    def at_points(self, points: list[float]) -> list[float]:
        """Those of the figure's points at which this number is judged."""
        if isinstance(self.paper, dict):
            return [x for x in points if x in self.paper]
        return [x for x in points if self.at in ("each", x)]

    def bound(self, key: str, x: float | None = None) -> float | None:
        """`paper` (at x), `min` or `max` in the unit of the measure; for a ratio a plain number."""
        value = getattr(self, key)
        if isinstance(value, dict):
            value = value[x]
        if value is None:
            return None
        if self.over is None:
            return self.spec.parse(value)
        if not isinstance(value, (int, float)):
            raise ValueError(f"{key}: {value!r} is not a plain number; a ratio has no unit")
        return float(value)


class Recorded(FigureExpectation):
    """A number of a set-up that can no longer be run, as it was measured at a commit."""

    measured: Line | float
    spread: Line | float | None = None  # half of the 95 % confidence interval

    @model_validator(mode="after")
    def _readable(self) -> Recorded:
        if not isinstance(self.at, float):
            raise ValueError("'measured' is at one point; valid: 'at' with its x")
        self.bound("measured")
        self.bound("spread")
        return self


class FirstSetUp(Strict):
    """The set-up of a figure when its result was first seen, if it has changed since.

    Whatever is not given is as today. The first set-up is run and judged with the figure and shown
    in the same table; the figure's own verdict does not depend on it. If it can no longer be run,
    for example because rules of a scheme have changed that are no parameters, `commit` and
    `recorded` replace the runs.
    """

    called: Line = "as first set up"  # in tables
    now_with: Line  # what is different today: "met with RED at arrival; as first set up: ..."
    reason: Line  # for the change
    set: Settings = {}  # for every run
    points: Annotated[list[Point], Field(min_length=1)] | None = None
    curves: Annotated[list[Curve], Field(min_length=1)] | None = None
    expect: Annotated[list[FigureExpectation], Field(min_length=1)] | None = None
    seeds: Seeds | None = None
    commit: Line | None = None
    recorded: list[Recorded] = []

    @model_validator(mode="after")
    def _one_kind(self) -> FirstSetUp:
        run = bool(self.set) or any((self.points, self.curves, self.expect))
        if run == bool(self.recorded):
            raise ValueError(
                "valid: what is run (set, points, curves, expect), or what was recorded (commit, "
                "recorded)"
            )
        if (self.commit is None) == bool(self.recorded):
            raise ValueError("'commit' is that of 'recorded'; valid: both or neither")
        return self


# What a figure's runs may be given in Mininet without another word: how long they take, and what
# is written down of them.
OF_TIME = ("duration", "measure.last", "record_every", "record_receivers")
COUNTS = ("messages", "switches")  # units of measures that grow with the length of a run


class Difference(Strict):
    """Why numbers differ between the runtimes, where they do (docs/runtimes.md)."""

    measure: Line | None = None  # None: of every measure
    curve: Line | None = None
    why: Annotated[Line, Field(min_length=1)]

    def concerns(self, measure: str, curve: str) -> bool:
        return self.measure in (None, measure) and self.curve in (None, curve)


class InMininet(Strict):
    """How the figure is run in real time (`--runtime mininet`), if not as in virtual time.

    `refused` says why it is not run at all. Otherwise `set` applies to every run, over curves and
    points, and only the named points, curves and seeds are run; a point may be given anew. `why` is
    the reason. `judges` says what the figure's numbers judge then, and has to be there if that is
    not what they judge in virtual time (Figure.rejudged).
    """

    refused: Annotated[Line, Field(min_length=1)] | None = None
    set: Settings = {}
    points: Annotated[list[float | Point], Field(min_length=1)] | None = None
    curves: Annotated[list[Line], Field(min_length=1)] | None = None
    seeds: Seeds | None = None
    why: Annotated[Line, Field(min_length=1)] | None = None
    judges: Annotated[Line, Field(min_length=1)] | None = None
    # Of the machine, for one of its runs; None: what runs of this file have taken, or all of them.
    cores: Annotated[float, Field(gt=0, le=1024)] | None = None
    differs: list[Difference] = []

    @property
    def scales(self) -> bool:
        return bool(self.set or self.points or self.curves or self.seeds)

    @model_validator(mode="after")
    def _one_kind(self) -> InMininet:
        others = self.model_fields_set - {"refused"}
        if self.refused is not None and others:
            raise ValueError(f"'refused' and '{min(others)}'; valid: one of them")
        if self.scales and self.why is None:
            raise ValueError("what is scaled needs 'why'")
        return self

    def at(self, point: Point) -> tuple[tuple[str, ...], Point] | None:
        """The point as it is run in Mininet, with the key path that gives it; None if it is left
        out. The path is empty for one of the figure's own."""
        if self.points is None:
            return (), point
        for index, one in enumerate(self.points):
            if isinstance(one, Point) and one.x == point.x:
                return ("mininet", "points", str(index)), one
            if one == point.x:
                return (), point
        return None


class Figure(Strict):
    x: Line = ""  # the quantity on the x axis
    log_x: bool = False
    points: Annotated[list[Point], Field(min_length=1)] = [Point()]
    curves: Annotated[list[Curve], Field(min_length=1)] = [Curve(name="")]
    seeds: Seeds = [1, 2, 3]
    seeded: list[Line] = []  # keys that take each run's seed, too: topology.drawn.seed
    quick: Settings = {}  # for every run of a quick reproduction: {duration: 200s}
    plots: list[Plot] = []
    expect: list[FigureExpectation] = []
    as_first_set_up: FirstSetUp | None = None
    mininet: InMininet | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Figure:
        self._check()
        self._check_mininet()
        if (first := self.first()) is not None:
            try:
                first._check()
            except ValueError as error:
                raise ValueError(f"as_first_set_up: {error}") from None
        return self

    def _check(self) -> None:
        names, xs = [curve.name for curve in self.curves], [point.x for point in self.points]
        if len(set(names)) < len(names) or len(set(xs)) < len(xs):
            raise ValueError("each curve needs its own name, and each point its own x")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError("a seed is given twice in 'seeds'; valid: once")
        if (runs := len(names) * len(xs) * len(self.seeds)) > MAX_RUNS:
            raise ValueError(f"{runs} runs; valid: up to {MAX_RUNS}")
        for expectation in self.expect:
            over = expectation.over or Denominator()
            for curve in (expectation.curve, over.curve):
                if curve not in (None, *names):
                    raise ValueError(f"no curve {among(curve, names)}")
            row = expectation.paper if isinstance(expectation.paper, dict) else ()
            for at in (expectation.at, over.at, *row):
                if at not in (None, "each", *xs):
                    raise ValueError(f"no point at {at:g}; valid: {listed([f'{x:g}' for x in xs])}")

    def _check_mininet(self) -> None:
        block = self.mininet
        if block is None or block.refused is not None:
            return
        names, xs = [curve.name for curve in self.curves], [point.x for point in self.points]
        for curve in (*(block.curves or ()), *(one.curve for one in block.differs)):
            if curve not in (None, *names):
                raise ValueError(f"mininet: no curve {among(curve, names)}")
        given = [one.x if isinstance(one, Point) else one for one in block.points or ()]
        for x in given:
            if x not in xs:
                raise ValueError(
                    f"mininet: no point at {x:g}; valid: {listed([f'{x:g}' for x in xs])}"
                )
        if len(set(given)) < len(given) or len(set(block.curves or ())) < len(block.curves or ()):
            raise ValueError("mininet: a point or a curve is given twice; valid: once")
        runs: dict[tuple[str, ...], str] = {}
        for run in self.runs("", False, lambda _: "", in_mininet=True):
            if run.seed == (block.seeds or self.seeds)[0]:
                here = f"{run.curve} at {run.x:g}".strip()
                if (same := runs.setdefault(run.settings, here)) != here and block.set:
                    raise ValueError(f"mininet: 'set' makes {here} the same run as {same}")
        if (changes := self.rejudged()) and block.judges is None:
            raise ValueError(
                f"mininet: {'; '.join(changes)}: the numbers judge something else; valid: with "
                "'judges', what they judge then"
            )
        try:
            self.in_mininet()._check()
        except ValueError as error:
            raise ValueError(f"mininet: {error}") from None

    def rejudged(self) -> list[str]:
        """What of the `mininet` block changes what the figure's required numbers judge."""
        block = self.mininet
        if block is None or block.refused is not None:
            return []
        new = [one for one in block.points or () if isinstance(one, Point)]
        keys = dict.fromkeys(
            k for settings in (block.set, *(one.set for one in new)) for k in settings
        )
        changes = [f"it sets {key}" for key in keys if key not in OF_TIME]
        xs = [point.x for point in self.points]
        here = [point.x for point in self.points if block.at(point)]
        expected = self._expected_in_mininet()
        all_ = sum(len(one.at_points(xs)) for one in self.expect if one.gate)
        if lost := all_ - sum(len(one.at_points(here)) for one in expected if one.gate):
            s = "s" if lost > 1 else ""
            changes.append(f"{lost} required number{s} of points and curves that it leaves out")
        if self.seeded and block.seeds and len(block.seeds) != len(self.seeds):
            some = "1 draw from a seed" if len(block.seeds) == 1 else f"{len(block.seeds)} draws"
            changes.append(f"{some} instead of {len(self.seeds)}")
        if keys.keys() & {"duration", "measure.last"}:
            counted = (one for one in expected if one.over is None and one.spec.unit in COUNTS)
            names = dict.fromkeys(one.measure for one in counted)
            changes += [f"{measure} counts over another time" for measure in names]
        return changes

    def _expected_in_mininet(self) -> list[FigureExpectation]:
        """The expectations of points and curves that are run in Mininet, with the curves that they
        mean."""
        assert self.mininet is not None
        first = self.curves[0].name
        curves = self.mininet.curves or [curve.name for curve in self.curves]
        xs = [point.x for point in self.points if self.mininet.at(point)]
        found = []
        for one in self.expect:
            over = one.over
            curve = first if one.curve is None else one.curve
            if over is not None:
                over_curve = over.meant(curve, first)
                if over_curve not in curves or over.at not in (None, *xs):
                    continue
                over = over.model_copy(update={"curve": over_curve})
            row = one.paper
            if isinstance(row, dict):
                row = {x: value for x, value in row.items() if x in xs}
            points = one.at_points(xs)
            if curve in curves and points and row != {}:
                found.append(one.model_copy(update={"curve": curve, "over": over, "paper": row}))
        return found

    def in_mininet(self) -> Figure:
        """The figure as it is run and judged in Mininet: with its points, curves, seeds and
        expectations alone. The settings of its runs are those of `runs(in_mininet=True)`."""
        block = self.mininet
        if block is None:
            return self.model_copy(update={"as_first_set_up": None})
        points = [found[1] for point in self.points if (found := block.at(point))]
        curves = [one for one in self.curves if block.curves is None or one.name in block.curves]
        parts = {"points": points, "curves": curves, "seeds": block.seeds or self.seeds}
        expect = self._expected_in_mininet()
        return self.model_copy(update=parts | {"expect": expect, "as_first_set_up": None})

    def first(self) -> Figure | None:
        """The figure as it was first set up, if it can still be run. Its `as_first_set_up` gives
        the place of the settings."""
        before = self.as_first_set_up
        if before is None or before.recorded:
            return None
        parts = {name: getattr(before, name) for name in ("points", "curves", "expect", "seeds")}
        return self.model_copy(update={name: part for name, part in parts.items() if part})

    def reference(self, plot: Plot) -> dict[float, float]:
        """The paper's values for a plot, by x: the plot's own or, if it has none, those expected of
        the first curve."""
        if plot.reference:
            parse = find_spec(plot.measure).parse
            return {x: parse(value) for x, value in plot.reference.items()}
        found: dict[float, float] = {}
        for expectation in self.expect:
            if expectation.measure != plot.measure or expectation.over is not None:
                continue
            if expectation.paper is None or expectation.curve not in (None, self.curves[0].name):
                continue
            for x in expectation.at_points([point.x for point in self.points]):
                if (number := expectation.bound("paper", x)) is not None:
                    found[x] = number
        return found

    def runs(
        self,
        figure: str,
        quick: bool,
        place: Callable[[tuple[str, ...]], str],
        in_mininet: bool = False,
    ) -> Iterator[FigureRun]:
        """Yields the runs of today's set-up, then those of the first; or, `in_mininet`, those of
        today's as scaled for real time. `place` returns the file and line of a key path."""
        if in_mininet:
            yield from self._runs(figure, quick, place, None, self.mininet or InMininet())
            return
        yield from self._runs(figure, quick, place, None)
        if (first := self.first()) is not None:
            yield from first._runs(figure, quick, place, self.as_first_set_up)

    def _runs(
        self,
        figure: str,
        quick: bool,
        place: Callable[[tuple[str, ...]], str],
        first: FirstSetUp | None,
        scaled: InMininet | None = None,
    ) -> Iterator[FigureRun]:
        def given(part: str) -> tuple[str, ...]:
            return ("as_first_set_up", part) if first and getattr(first, part) else (part,)

        seeds = self.seeds if scaled is None else scaled.seeds or self.seeds
        for c, curve in enumerate(self.curves):
            if scaled and scaled.curves and curve.name not in scaled.curves:
                continue
            for p, its_own in enumerate(self.points):
                at, point = (*given("points"), str(p)), its_own
                if scaled is not None:
                    if (found := scaled.at(its_own)) is None:
                        continue
                    at, point = found[0] or at, found[1]
                if quick and not point.quick:
                    continue
                layers = {
                    (*given("curves"), str(c), "set"): curve.set,
                    (*at, "set"): point.set,
                    given("set"): first.set if first else {},
                    ("quick",): self.quick if quick else {},
                    ("mininet", "set"): scaled.set if scaled else {},
                }
                settings: Settings = {}
                places: dict[str, str] = {}
                for path, layer in layers.items():
                    settings |= layer
                    places |= {key: place(("figure", *path, key)) for key in layer}
                places |= {
                    key: place(("figure", "seeded", str(n))) for n, key in enumerate(self.seeded)
                }
                for seed in seeds[:1] if quick else seeds:
                    own = settings | dict.fromkeys(self.seeded, seed)
                    yield FigureRun(
                        figure,
                        curve.name,
                        point.x,
                        seed,
                        tuple(setting_text(key, value) for key, value in own.items()),
                        places,
                        first.called if first else "",
                    )


@dataclass(frozen=True)
class FigureRun:
    figure: str
    curve: str
    x: float
    seed: int
    settings: tuple[str, ...]
    places: Mapping[str, str]  # file and line of each setting, by key
    first: str = ""  # the name of the first set-up if the run is of it

    @property
    def name(self) -> str:
        figure = f"{self.figure} {self.first}" if self.first else self.figure
        curve = f" {self.curve}" if self.curve else ""
        return f"{figure}{curve} at {self.x:g}, seed {self.seed}"
