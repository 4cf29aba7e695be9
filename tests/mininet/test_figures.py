"""Figures of the papers: what a file may contain, what is judged, and which runs are kept."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import textwrap
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from matplotlib.text import Text
from tiercast_lab.base import binaries
from tiercast_lab.base.errors import InputError
from tiercast_lab.experiment.figure_schema import FigureRun
from tiercast_lab.experiment.schemes import known_schemes
from tiercast_lab.experiment.tcp_stack import STACKS
from tiercast_lab.results.storage import StoredRun
from tiercast_lab.results.verdict import limits, meets, reaches_over
from tiercast_lab.show.figure_plot import draw_figure
from tiercast_lab.show.figure_report import write_figure, write_report
from tiercast_lab.show.wording import verdict_text
from tiercast_lab.study.confidence import Mean, mean, ratio
from tiercast_lab.study.figure_results import VERDICTS, FigureResults, verdict_of
from tiercast_lab.study.figure_spec import all_figures, find_figure
from tiercast_lab.study.runs import Outcome, Store, Task, key_of

from ..checkout import ROOT

FIGURE = """\
    name: two-points
    title: Two points of two curves
    paper: {name: SIM, figure: "0"}
    topology:
      nodes: [0, 1, 2]
      link: {rate: 6Mbit/s, delay: 5ms, queue: 50p}
      links: {0-1: {}, 1-2: {}}
    sessions:
      - {scheme: sim, sender: 0, receivers: [2], layers: 1}
    duration: 20s
    measure: {last: 10s}
    figure:
      x: rate (Mbit/s)
      points:
        - {x: 1, set: {topology.link.rate: 1Mbit/s}}
        - {x: 2, set: {topology.link.rate: 2Mbit/s}, quick: false}
      curves:
        - {name: one layer}
        - {name: two layers, set: {sessions.0.layers: 2}}
      seeds: [1, 2]
      plots:
        - {measure: efficiency}
      expect:
        - {measure: session_throughput, at: 1, paper: 1Mbit/s, tolerance: 20%}
        - {measure: session_throughput, at: 2, over: {at: 1}, min: 1.5, max: 2.5}
        - {measure: efficiency, curve: two layers, over: {curve: one layer}, min: 0.5}
        - {measure: efficiency, at: each, min: 2, gate: false}
    """


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "two-points.yaml"
    path.write_text(textwrap.dedent(FIGURE))
    return path


def outcome(file: Path, curve: str, x: float, seed: int, **measures: float) -> Outcome:
    return Outcome(Task(file, FigureRun(file.stem, curve, x, seed, (), {})), Path(), measures)


def test_runs_are_curves_times_points_times_seeds(file: Path) -> None:
    figure = find_figure(str(file), known_schemes())
    assert len(figure.tasks(quick=False)) == 8
    quick = figure.tasks(quick=True)
    assert [(task.run.curve, task.run.x, task.run.seed) for task in quick] == [
        ("one layer", 1, 1),
        ("two layers", 1, 1),
    ]
    assert quick[1].run.settings == ("sessions.0.layers=2", 'topology.link.rate="1Mbit/s"')
    assert quick[1].load(known_schemes()).experiment.sessions[0].layers == 2


def test_means_over_seeds_are_judged_against_the_papers_numbers(file: Path) -> None:
    figure = find_figure(str(file), known_schemes())
    values = {("one layer", 1): (0.8e6, 1.0e6), ("one layer", 2): (1.6e6, 2.0e6),
              ("two layers", 1): (0.5e6, 0.5e6), ("two layers", 2): (1e6, 1e6)}  # fmt: skip
    outcomes = [
        outcome(file, curve, x, seed, session_throughput=value, efficiency=value / x / 1e6)
        for (curve, x), both in values.items()
        for seed, value in enumerate(both, 1)
    ]
    judged = FigureResults(figure, outcomes).judge()
    assert [(one.measure, one.x, one.ok, one.verdict) for one in judged] == [
        # 0.9 ± 1.27 (two seeds, t = 12.71), within 20 %
        ("session_throughput", 1, True, "met, uncertain"),
        ("session_throughput", 2, True, "met"),  # 1.8 / 0.9, the same for each seed
        ("efficiency", 1, True, "met, uncertain"),  # 0.5 / 0.9
        ("efficiency", 2, True, "met, uncertain"),
        ("efficiency", 1, False, "not met, uncertain"),  # 0.9 ± 1.27, at least 2
        ("efficiency", 2, False, "not met, uncertain"),
    ]
    assert judged[0].measured == pytest.approx(0.9e6)
    assert judged[1].measured == pytest.approx(2.0)
    assert verdict_of(judged, []) == "met, uncertain"  # the rows that fail are not required
    assert verdict_of([one for one in judged if one.verdict == "met"], []) == "met"
    assert verdict_of(judged, ["a run failed"]) == "failed"
    assert verdict_of([one for one in judged if not one.gate], []) == "reported"


def test_a_ratio_is_of_the_seeds_that_both_have(file: Path) -> None:
    """Of two points with a failed run each, the first seed was divided by the second."""
    figure = find_figure(str(file), known_schemes())
    outcomes = [
        outcome(file, curve, 1, seed, efficiency=efficiency)
        for curve, both in (("one layer", (0.2, 0.5)), ("two layers", (0.1, 0.4)))
        for seed, efficiency in enumerate(both, 1)
    ]

    def measured(*failed: int) -> float | None:
        made = [
            replace(one, failure="too slow") if index in failed else one
            for index, one in enumerate(outcomes)
        ]
        judged = FigureResults(figure, made).judge()
        return next(one for one in judged if one.over).measured

    assert measured() == pytest.approx(0.5 / 0.7)
    assert measured(1) == pytest.approx(0.1 / 0.2)
    assert measured(0, 2) == pytest.approx(0.4 / 0.5)
    assert measured(0, 3) is None


def test_a_ratio_of_two_measures_is_taken_on_the_same_curve(file: Path) -> None:
    text = file.read_text()
    old = "{measure: efficiency, curve: two layers, over: {curve: one layer}, min: 0.5}"
    new = "{measure: efficiency@late, curve: two layers, over: {measure: efficiency}, max: 0.6}"
    file.write_text(
        text.replace(old, new).replace("{last: 10s}", "{last: 10s, periods: {late: [15s, 20s]}}")
    )
    figure = find_figure(str(file), known_schemes())
    outcomes = [
        outcome(file, curve, 1, 1, **{"efficiency": 0.8, "efficiency@late": late})
        for curve, late in (("one layer", 0.9), ("two layers", 0.4))
    ]
    (judged,) = [one for one in FigureResults(figure, outcomes).judge() if "late" in one.measure]
    assert (judged.measured, judged.ok) == (pytest.approx(0.5), True)
    assert judged.over == "over efficiency two layers at 1"


def test_a_quick_reproduction_judges_what_it_has(file: Path) -> None:
    figure = find_figure(str(file), known_schemes())
    outcomes = [
        outcome(file, curve, 1, 1, session_throughput=2e6, efficiency=1.0)
        for curve in ("one layer", "two layers")
    ]
    judged = FigureResults(figure, outcomes).judge()
    assert {one.x for one in judged} == {1}
    assert verdict_of(judged, []) == "not met"  # 2 Mbit/s where the paper has 1


def test_a_row_of_a_table_is_judged_point_by_point(file: Path, tmp_path: Path) -> None:
    content = file.read_text()
    begin = content.index("  expect:")
    file.write_text(
        content[:begin].replace("{measure: efficiency}", "{measure: efficiency, bars: true}")
        + """\
  quick: {duration: 5s}
  expect:
    - {measure: efficiency, paper: {1: 0.8, 2: 0.5}, tolerance: 10%}
    - {measure: efficiency, over: {measure: instability},
       paper: {2: 4}, tolerance: 10%, quick: false}
"""
    )
    figure = find_figure(str(file), known_schemes())
    assert 'duration="5s"' in figure.tasks(quick=True)[0].run.settings
    assert not any("duration" in setting for setting in figure.tasks(quick=False)[0].run.settings)
    outcomes = [
        outcome(file, "one layer", x, 1, efficiency=0.8, instability=0.2 * x) for x in (1, 2)
    ]
    results = FigureResults(figure, outcomes)
    judged = results.judge()
    assert [(one.x, one.measured, one.paper, one.ok) for one in judged] == [
        (1, 0.8, 0.8, True),
        (2, 0.8, 0.5, False),
        (2, pytest.approx(2.0), 4.0, False),
    ]
    assert judged[2].over == "over instability one layer at 2"
    assert len(results.judge(quick=True)) == 2
    described = figure.experiment.figure
    assert described.reference(described.plots[0]) == {1: 0.8, 2: 0.5}
    draw_figure(results, tmp_path / "bars.png")
    assert (tmp_path / "bars.png").stat().st_size > 5_000


@pytest.mark.parametrize("form", ["", ", bars: true", ", log: true"])
def test_titles_names_and_numbers_are_drawn_as_they_are(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """A name with `_` is in the legend, dollars begin no formula, and no number is one."""
    for old, new in (
        ("one layer", "_one"),
        ("two layers", '"from $5 to $6_{"'),
        ("Two points of two curves", r"'gain $\frac{a$ per receiver'"),
        ("{measure: efficiency}", f"{{measure: efficiency{form}}}"),
    ):
        file.write_text(file.read_text().replace(old, new))
    figure = find_figure(str(file), known_schemes())
    curves = [curve.name for curve in figure.section.curves]
    outcomes = [
        outcome(file, curve, x, 1, efficiency=0.02 * x, session_throughput=1e6)
        for curve in curves
        for x in (1, 2)
    ]
    drawings = []
    monkeypatch.setattr(plt, "close", drawings.append)
    draw_figure(FigureResults(figure, outcomes), tmp_path / "figure.png")
    monkeypatch.undo()
    (drawing,) = drawings
    for axis in drawing.axes:
        names = [text.get_text() for text in axis.get_legend().get_texts()]
        assert [name for name in names if name != "paper"] == curves
        shown = [
            *axis.get_xticklabels(),
            *axis.get_yticklabels(),
            *axis.get_yticklabels(minor=True),
        ]
        assert not any("$" in text.get_text() for text in shown)
    assert not any(text.get_parse_math() for text in drawing.findobj(Text) if text.get_text())
    plt.close(drawing)


def test_a_seed_without_a_value_is_not_left_out_of_a_mean(file: Path) -> None:
    file.write_text(file.read_text().replace("at: each, min: 2, gate: false", "at: 1, min: 0.5"))
    figure = find_figure(str(file), known_schemes())
    outcomes = [
        outcome(file, "one layer", 1, 1, efficiency=0.9),
        outcome(file, "one layer", 1, 2, efficiency=None),
    ]
    judged = FigureResults(figure, outcomes).judge()[-1]
    assert (judged.measured, judged.ok, judged.text) == (None, False, "no data of seed 2")
    # A run that failed has no numbers; what the others have is shown, and the figure has failed.
    failed = replace(outcomes[1], measures={}, failure="it ended too early")
    results = FigureResults(figure, [outcomes[0], failed])
    assert results.judge()[-1].measured == 0.9
    assert verdict_of(results.judge(), results.failures) == "failed"


def test_confidence_is_students() -> None:
    assert mean([]) is None
    assert mean([1.0, None, 3.0]) is None
    assert mean([2.0]).spread is None
    three = mean([1.0, 2.0, 3.0])
    assert three.value == 2
    assert three.spread == pytest.approx(4.30 / 3**0.5)  # s = 1, t(2) = 4.30


@pytest.mark.parametrize(
    ("freedom", "quantile"),  # of published tables (Abramowitz and Stegun, 26.10; NIST's handbook)
    [
        (30, 2.042),
        (31, 2.040),
        (40, 2.021),
        (60, 2.000),
        (100, 1.984),
        (120, 1.980),
        (10_000, 1.960),
    ],
)
def test_confidence_of_many_seeds_is_students(freedom: int, quantile: float) -> None:
    values = [float(number % 2) for number in range(freedom + 1)]
    spread = mean(values).spread * (freedom + 1) ** 0.5 / statistics.stdev(values)
    # A printed number is rounded, to two digits in the lab's own table.
    assert spread == pytest.approx(quantile, abs=0.005 if freedom <= 30 else 0.0005)


def test_a_ratio_has_the_interval_of_its_residuals() -> None:
    assert ratio([1.0], [0.0]) is None
    assert ratio([1.0, None], [1.0, 1.0]) is None
    assert ratio([2.0], [4.0]) == Mean(0.5, None, 1)
    assert ratio([1.0, 2.0, 3.0], [2.0, 4.0, 6.0]) == Mean(0.5, 0.0, 3)  # the same for each seed
    # above - 1 x below is -1, 0, 1 (s = 1); below's mean is 10.
    varied = ratio([9.0, 10.0, 11.0], [10.0, 10.0, 10.0])
    assert varied.value == 1
    assert varied.spread == pytest.approx(4.30 / 3**0.5 / 10)


@pytest.mark.parametrize(
    ("measured", "spread", "verdict"),
    [
        (0.8, 0.04, "met"),
        (0.8, 0.06, "met, uncertain"),
        (0.74, 0.02, "not met, uncertain"),
        (0.7, 0.04, "not met"),
        (0.7, None, "not met"),  # one seed says nothing about the interval
        (1.19, 0.02, "met, uncertain"),  # the upper bound
    ],
)
def test_a_bound_within_the_interval_is_uncertain(
    measured: float, spread: float | None, verdict: str
) -> None:
    lowest, highest = limits(1.0, 0.25, None, 1.2)
    assert (lowest, highest) == (0.75, 1.2)
    ok = meets(measured, 1.0, 0.25, None, 1.2)
    uncertain = reaches_over(measured, spread, lowest, highest)
    assert ("met" if ok else "not met") + (", uncertain" if uncertain else "") == verdict


def test_each_seed_may_have_to_meet_it(file: Path) -> None:
    old = "{measure: efficiency, at: each, min: 2, gate: false}"
    new = "{measure: efficiency, at: 1, max: 5, each_seed: true}"
    file.write_text(file.read_text().replace(old, new))
    figure = find_figure(str(file), known_schemes())
    for values, verdict in (((5.2, 4.4), "not met"), ((5.0, 4.4), "met")):
        outcomes = [
            outcome(file, "one layer", 1, seed, efficiency=value)
            for seed, value in enumerate(values, 1)
        ]
        judged = FigureResults(figure, outcomes).judge()[-1]
        assert (judged.required, judged.verdict) == ("≤ 5.000 (each seed)", verdict)
        assert judged.text == f"{values[0]:.3f}, {values[1]:.3f}"


def test_a_key_may_take_each_runs_seed(file: Path) -> None:
    links = "links: {0-1: {}, 1-2: {}}"
    drawn = "{links: [0-1, 1-2], centre: 3Mbit/s, range: 2Mbit/s, lowest: [1Mbit/s, 3Mbit/s]}"
    text = file.read_text().replace(links, f"{links}\n  drawn: {drawn}")
    seeds = "seeds: [1, 2]"
    file.write_text(text.replace(seeds, f"{seeds}\n  seeded: [topology.drawn.seed]"))
    schemes = known_schemes()
    tasks = find_figure(str(file), schemes).tasks(quick=False)
    rates = [task.load(schemes).experiment.topology.drawn for task in tasks]
    assert [one.seed for one in rates] == [task.run.seed for task in tasks]
    assert rates[0].rates != rates[1].rates


def test_the_worst_of_what_is_required_is_the_verdict(file: Path) -> None:
    figure = find_figure(str(file), known_schemes())
    outcomes = [outcome(file, "one layer", 1, 1, session_throughput=1e6)]
    one = FigureResults(figure, outcomes).judge()[0]
    rows = [replace(one, verdict=verdict) for verdict in VERDICTS]
    for worst in range(len(VERDICTS)):
        assert verdict_of(list(reversed(rows[worst:])), []) == VERDICTS[worst]


def test_the_first_set_up_is_run_and_judged_beside_todays(file: Path, tmp_path: Path) -> None:
    file.write_text(
        file.read_text()
        + """\
  as_first_set_up:
    now_with: one receiver
    reason: the paper has one.
    set: {duration: 15s}
    points: [{x: 3, set: {topology.link.rate: 3Mbit/s}}]
    expect:
      - {measure: efficiency, curve: two layers, min: 0.9}
"""
    )
    figure = find_figure(str(file), known_schemes())
    tasks = figure.tasks(quick=False)
    first = [task for task in tasks if task.run.first]
    assert (len(tasks), len(first)) == (8 + 4, 4)
    assert first[0].run.name == "two-points as first set up one layer at 3, seed 1"
    assert first[0].run.settings == ('topology.link.rate="3Mbit/s"', 'duration="15s"')
    assert first[0].run.places["duration"].endswith(f"{file.name}:31")
    outcomes = [
        Outcome(task, tmp_path, {"efficiency": 0.8 if task.run.first else 2.5,
                                 "session_throughput": 1e6 * task.run.x})
        for task in tasks
    ]  # fmt: skip
    results = FigureResults(figure, outcomes)
    assert {one.x for one in results.judge()} == {1, 2}
    was = results.as_first_set_up()
    assert [(one.x, one.measured, one.verdict) for one in was.judged] == [
        (3, pytest.approx(0.8), "not met")
    ]
    summary = write_figure(results, tmp_path, quick=False)
    assert summary["verdict"] == "met"  # the first set-up does not decide
    text = (
        "met with one receiver; as first set up: not met (two layers efficiency: 0.800 (≥ 0.900))"
    )
    assert verdict_text(summary) == text
    report = write_report([summary], tmp_path, ["./tiercast", "figure"]).read_text()
    assert "as first set up: two layers efficiency" in report
    assert "Why it was changed: the paper has one." in report


def test_what_can_no_longer_be_run_is_recorded_with_its_commit(file: Path) -> None:
    file.write_text(
        file.read_text()
        + """\
  as_first_set_up:
    now_with: the rates of today
    reason: a rule was changed.
    commit: 8b1c22a
    recorded:
      - {measure: session_throughput, at: 1, paper: 1Mbit/s, tolerance: 20%,
         measured: 0.79Mbit/s, spread: 0.02Mbit/s}
      - {measure: efficiency, at: 1, over: {curve: two layers}, min: 1, measured: 0.9}
"""
    )
    figure = find_figure(str(file), known_schemes())
    assert not any(task.run.first for task in figure.tasks(quick=False))
    was = FigureResults(figure, []).as_first_set_up()
    assert [(one.text, one.over, one.verdict) for one in was.judged] == [
        ("0.79 Mbit/s ± 0.02 Mbit/s", "", "not met, uncertain"),
        ("0.90", "over two layers", "not met"),
    ]
    assert was.verdict == "not met"


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("curve: two layers,", "curve: three layers,", "no curve 'three layers'; valid: one layer"),
        ("at: 1, paper", "at: 7, paper", "no point at 7; valid: 1, 2"),
        ("measure: session_throughput, at: 2", "measure: speed, at: 2", "unknown measure 'speed'"),
        ("over: {at: 1}, min: 1.5", "over: {at: 1}, min: 1Mbit/s", "not a plain number"),
        ("x: 2,", "x: 1,", "each point its own x"),
        ("over: {at: 1}, min: 1.5", "over: {at: 1}, min: 3", "min is above max"),
        ("seeds: [1, 2]", "seeds: [1, 1]", "a seed is given twice in 'seeds'; valid: once"),
        ("seeds: [1, 2]", "seeds: [-1]", "figure.seeds.0: -1; valid: 0 or more"),
        ("measure: session_throughput, at: 2", "measure: loss@late, at: 2", "no period 'late'"),
        ("{last: 10s}", "{last: 10s, periods: {late: [9s, 8s]}}", "ends before it begins"),
        ("{last: 10s}", "{last: 10s, periods: {late: [9s, 30s]}}", "by the end of the run (20s)"),
        ("at: each, min: 2", "paper: {1: 1, 7: 2}, min: 2", "no point at 7; valid: 1, 2"),
        ("at: each, min: 2", "at: 1, paper: {1: 1}, min: 2", "'paper' already gives the points"),
        ("over: {at: 1}, min: 1.5", "over: {measure: speed}, min: 1.5", "unknown measure 'speed'"),
        ("seeds: [1, 2]", "as_first_set_up: {now_with: a, reason: b}", "valid: what is run (set,"),
        (
            "seeds: [1, 2]",
            "as_first_set_up: {now_with: a, reason: b, commit: c, set: {seed: 1}}",
            "'commit' is that of 'recorded'; valid: both or neither",
        ),
        (
            "seeds: [1, 2]",
            "as_first_set_up: {now_with: a, reason: b, points: [{x: 7}]}",
            "as_first_set_up: no point at 1; valid: 7",
        ),
    ],
)
def test_a_wrong_figure_is_named(file: Path, old: str, new: str, text: str) -> None:
    content = file.read_text()
    assert old in content
    file.write_text(content.replace(old, new))
    with pytest.raises(InputError, match="two-points.yaml"):
        find_figure(str(file), known_schemes())
    with pytest.raises(InputError) as error:
        find_figure(str(file), known_schemes())
    assert text in str(error.value)


@pytest.mark.slow
def test_every_figure_of_the_repository_loads() -> None:
    schemes = known_schemes()
    figures = all_figures(schemes, binaries.FIGURES)
    assert len(figures) >= 7
    for figure in figures:
        # Something that no paper gives is reported, but not required.
        required = any(one.gate for one in figure.experiment.figure.expect)
        assert figure.reference or not required, figure.name
        # Runs that differ in the seed alone load alike.
        for task in {task.run.settings: task for task in figure.tasks(quick=False)}.values():
            task.load(schemes)


# Figures for which the paper says how much runs or flows differ: ten runs and their deviation
# (ERMCC 5.4, 5.5), or plus or minus half of the average (MLDA V-A).
ABOUT_SPREAD = ("ermcc-5-4", "ermcc-table2", "mlda-10")


def test_every_figure_has_three_seeds_and_those_about_spread_ten() -> None:
    seeds = {
        one.name: len(one.section.seeds) for one in all_figures(known_schemes(), binaries.FIGURES)
    }
    assert set(ABOUT_SPREAD) <= set(seeds)
    few = {name: n for name, n in seeds.items() if n < (10 if name in ABOUT_SPREAD else 3)}
    assert not few


# What each paper says of its TCP, beyond ns-2's defaults: RLA (4.1) and RMCC (figure 4) have SACK;
# windows of 23 to 136 packets are in RLA's tables, and at least 60 follow from MLDA's.
OF_PAPERS = {
    "RLA": {"sack": True, "window": 1000},
    "ERMCC": {},
    "MLDA": {"window": 1000},
    "RMCC": {},
}
OF_FIGURES = {"rmcc-4": {"sack": True}}
# Of kernels: figure 16 was measured on Emulab.
KERNELS = {"ermcc-16"}


@pytest.mark.slow
def test_every_figure_of_the_papers_has_one_tcp() -> None:
    schemes = known_schemes()
    with_tcp = set()
    for figure in all_figures(schemes, binaries.FIGURES):
        if figure.experiment.paper is None:
            continue
        paper = figure.experiment.paper.name
        for task in figure.tasks(quick=False):
            if task.run.first:
                continue
            for entry in task.load(schemes).experiment.traffic:
                if entry.kind != "tcp":
                    continue
                with_tcp.add(figure.name)
                wanted = STACKS["ns2"]._replace(
                    **OF_PAPERS[paper], **OF_FIGURES.get(figure.name, {})
                )
                if figure.name in KERNELS:
                    wanted = STACKS["kernel"]
                assert entry.tcp == wanted, f"{figure.name}: {entry}"
    assert KERNELS | set(OF_FIGURES) < with_tcp
    assert len(with_tcp) >= 18


def test_a_run_is_known_by_what_it_follows_from(file: Path) -> None:
    schemes = known_schemes()
    first, second = find_figure(str(file), schemes).tasks(quick=True)
    key = key_of(first.load(schemes), 1)
    assert key == key_of(first.load(schemes), 1)
    assert key != key_of(first.load(schemes), 2)
    assert key != key_of(second.load(schemes), 1)
    # What a run is called, and how it is measured and judged, does not change it.
    text = file.read_text().replace("tolerance: 20%", "tolerance: 10%").replace("10s", "5s")
    file.write_text(text.replace("name: two-points", "name: the-same-points"))
    assert key == key_of(first.load(schemes), 1)


def test_a_stored_run_is_measured_over_the_window_that_is_asked_for(
    stored: StoredRun,
) -> None:
    store = Store(stored.directory.parent)

    def measures(start: float, end: float) -> dict[str, float | None]:
        over = {"window_s": [start, end], "periods_s": {"end": [15.0, 20.0]}}
        return store.measures(stored.directory.name, over)

    last = measures(10.0, 20.0)
    assert last["cumulative_rate_2"] == pytest.approx(6e6)
    assert last["subscribers_2"] == pytest.approx(3)
    first = measures(0.0, 10.0)
    assert first["subscribers_2"] == pytest.approx(1.5)  # the second layer starts at 5 s
    assert first["subscribers_2@end"] == pytest.approx(3)
    # Stored measures are used again unless the code that computes them has changed.
    kept = max(stored.directory.glob("measures-*.json"), key=lambda path: path.stat().st_mtime_ns)
    told = json.loads(kept.read_text())
    told["measures"]["subscribers_2"]["value"] = 7.0
    kept.write_text(json.dumps(told))
    assert measures(0.0, 10.0)["subscribers_2"] == 7
    kept.write_text(json.dumps(told | {"measured_by": "before"}))
    assert measures(0.0, 10.0)["subscribers_2"] == 1.5


@pytest.mark.slow
def test_figure_reproduces_keeps_its_runs_and_says_so(file: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    command = [ROOT / "tiercast", "figure", file, "--results", results, "--json"]
    first = subprocess.run(command, capture_output=True, text=True)
    assert first.returncode in (0, 1), first.stderr
    (summary,) = json.loads(first.stdout)
    assert summary["figure"] == "two-points"
    assert len(summary["runs"]) == 8
    assert not summary["failures"]
    assert summary["verdict"] == ("met" if first.returncode == 0 else "not met")
    assert (results / "figures/two-points/figure.png").stat().st_size > 10_000
    assert "Two points of two curves" in (results / "figures/report.html").read_text()
    made = {path: os.stat(path).st_mtime_ns for path in (results / "runs").iterdir()}
    assert len(made) == 8
    again = subprocess.run(command, capture_output=True, text=True)
    assert "8 of 8 runs, 8 found" in again.stderr
    assert json.loads(again.stdout)[0]["expected"] == summary["expected"]
    assert {path: os.stat(path).st_mtime_ns for path in made} == made


def test_a_figure_whose_runs_failed_is_written_all_the_same(file: Path, tmp_path: Path) -> None:
    density = "- {measure: efficiency, density: true}"
    file.write_text(file.read_text().replace("- {measure: efficiency}", density))
    figure = find_figure(str(file), known_schemes())
    failed = [
        Outcome(task, tmp_path / "none", {}, "it ended too early") for task in figure.tasks(True)
    ]
    summary = write_figure(FigureResults(figure, failed), tmp_path, quick=True)
    assert summary["verdict"] == "failed"
    report = write_report([summary], tmp_path, ["./tiercast", "figure"]).read_text()
    assert "two-points one layer at 1, seed 1: it ended too early" in report
    assert "SIM: 0 of 1 met" in report
    assert f"<code>./tiercast figure {file} --quick</code>" in report  # a file by its path
    first = (tmp_path / "report.md").read_text().splitlines()[2]
    assert f"| [`{figure.name}`](#{figure.name}) | quick, {len(failed)} |" in first
    assert "| **failed** |" in first


def test_the_papers_line_is_in_the_measures_unit(file: Path) -> None:
    content = file.read_text()
    plot = "{measure: session_throughput, reference: {1: 1Mbit/s, 2: 1900kbit/s}}"
    file.write_text(content.replace("{measure: efficiency}", plot, 1))
    figure = find_figure(str(file), known_schemes()).experiment.figure
    assert figure.reference(figure.plots[0]) == {1: 1e6, 2: 1.9e6}
    file.write_text(content.replace("{measure: efficiency}", plot.replace("1Mbit/s", "1"), 1))
    with pytest.raises(InputError, match="1.0 is not a rate; valid: "):
        find_figure(str(file), known_schemes())
