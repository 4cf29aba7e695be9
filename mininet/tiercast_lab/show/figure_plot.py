"""Draws a figure of a paper as PNG: its measures over the x axis or, if it consists of single runs,
those runs over time."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from tiercast_lab.experiment.figure_schema import Plot
from tiercast_lab.measures import spec_of, windows
from tiercast_lab.results.storage import StoredRun, load_run
from tiercast_lab.show.panels import COLOURS
from tiercast_lab.show.plots import DPI, METADATA, STYLE, draw, make_y_log
from tiercast_lab.show.run_panels import main_panels
from tiercast_lab.study.figure_results import FigureResults

PAPER = "#555555"
PLOTS_ACROSS = 4
CURVES_OVER_TIME, PANELS_OF_A_CURVE = 3, 3


def draw_figure(results: FigureResults, path: Path) -> None:
    figure = results.figure.section
    with plt.rc_context(STYLE):
        if figure.plots and (len(results.points) > 1 or _is_whole(figure.plots[0])):
            drawing = _over_points(results)
        else:
            drawing = _over_time(results)
        drawing.suptitle(results.figure.experiment.title, x=0.01, ha="left", fontsize=13)
        drawing.savefig(path, dpi=DPI, metadata=METADATA)
        plt.close(drawing)


def _is_whole(plot: Plot) -> bool:
    """Whether the plot is complete even if the figure has a single point."""
    return plot.bars or plot.density


def _over_points(results: FigureResults) -> Drawing:
    figure = results.figure.section
    across = min(len(figure.plots), PLOTS_ACROSS)
    down = -(-len(figure.plots) // across)
    drawing, axes = plt.subplots(
        down, across, figsize=(6.5 * across, 4.6 * down), layout="constrained", squeeze=False
    )
    for axis, plot in zip(axes.flat, figure.plots, strict=False):
        if plot.density:
            _density(axis, results)
            continue
        spec, shown = spec_of(plot.measure)
        scale = 1e6 if spec.unit == "bit/s" else 1
        reference = {x: value / scale for x, value in figure.reference(plot).items()}
        drawn = (_bars if plot.bars else _lines)(axis, results, plot.measure, scale, reference)
        axis.set_title(shown)
        axis.set_xlabel(figure.x)
        axis.set_ylabel("Mbit/s" if spec.unit == "bit/s" else spec.unit)
        if figure.log_x and not plot.bars:
            axis.set_xscale("log", base=2)
            axis.set_xticks(results.points, [f"{x:g}" for x in results.points])
            axis.minorticks_off()
        if plot.log:
            make_y_log(axis)
        else:
            # Leaves room above the lines even if they are nearly constant.
            axis.set_ylim(0, 1.05 * axis.get_ylim()[1])
        if reference or len(figure.curves) > 1:
            axis.legend(*zip(*drawn, strict=True), frameon=False)
    for axis in axes.flat[len(figure.plots) :]:
        axis.set_axis_off()
    return drawing


def _means(
    results: FigureResults, measure: str, curve: str, scale: float
) -> tuple[list[float], list[float], list[float]]:
    """x, mean and half the confidence interval, at the points that have a mean."""
    points = [(x, results.mean(measure, curve, x)) for x in results.points]
    known = [(x, mean) for x, mean in points if mean is not None]
    return (
        [x for x, _ in known],
        [mean.value / scale for _, mean in known],
        [(mean.spread or 0) / scale for _, mean in known],
    )


def _lines(
    axis: Axes,
    results: FigureResults,
    measure: str,
    scale: float,
    reference: dict[float, float],
) -> list[tuple[Any, str]]:
    """Returns what the legend shows, each with its name. (matplotlib leaves out names that begin
    with `_`, if it collects them itself.)"""
    drawn: list[tuple[Any, str]] = []
    for colour, curve in zip(itertools.cycle(COLOURS), results.figure.section.curves, strict=False):
        line = axis.errorbar(
            *_means(results, measure, curve.name, scale), color=colour, marker="o", capsize=3
        )
        if curve.name:
            drawn.append((line, curve.name))
    if reference:
        (dashed,) = axis.plot(
            list(reference), list(reference.values()), color=PAPER, linestyle="--", marker="x"
        )
        drawn.append((dashed, "paper"))
    return drawn


def _density(axis: Axes, results: FigureResults) -> None:
    made = [one for one in results.outcomes if not one.failure]
    if not made:
        axis.set_axis_off()
        return
    run = load_run(made[0].directory)
    sessions, window = run.context.sessions[:2], run.context.window
    senders = [session.sender for session in sessions]
    counts = windows.joint_density(run.rows, senders, window)
    ends = [side * windows.CELL for side in counts.shape]
    axis.imshow(counts.T, origin="lower", cmap="Greys", extent=(0, ends[0], 0, ends[1]))
    modes = windows.modes(run.rows, senders, window)
    axis.plot(*([mode] for mode in modes), color=COLOURS[1], marker="+", markersize=12)
    axis.set_title(f"windows together, {run.summary['duration_s']:g} s")
    axis.set_xlabel(f"cwnd of session {sessions[0].number} (packets)")
    axis.set_ylabel(f"cwnd of session {sessions[1].number} (packets)")


def _bars(
    axis: Axes,
    results: FigureResults,
    measure: str,
    scale: float,
    reference: dict[float, float],
) -> list[tuple[Any, str]]:
    """At each point the paper's number beside each curve's. The points are equally spaced. Returns
    what the legend shows, each with its name."""
    drawn: list[tuple[Any, str]] = []
    curves = results.figure.section.curves
    places = {x: place for place, x in enumerate(results.points)}
    reference = {x: value for x, value in reference.items() if x in places}
    wide = 0.8 / (len(curves) + bool(reference))
    left = -0.4 + wide / 2
    if reference:
        bars = axis.bar(
            [places[x] + left for x in reference], list(reference.values()), wide, color=PAPER
        )
        drawn.append((bars, "paper"))
        left += wide
    for colour, curve in zip(itertools.cycle(COLOURS), curves, strict=False):
        xs, values, spreads = _means(results, measure, curve.name, scale)
        bars = axis.bar(
            [places[x] + left for x in xs], values, wide, yerr=spreads, capsize=3, color=colour
        )
        drawn.append((bars, curve.name or "measured"))
        left += wide
    axis.set_xticks(range(len(places)), [f"{x:g}" for x in places])
    return drawn


def _over_time(results: FigureResults) -> Drawing:
    """The main panels of one run, as the papers show a session over time; for several curves one
    run of each, side by side."""
    runs: dict[str, StoredRun] = {}
    for one in results.outcomes:
        if not one.failure and one.directory not in {run.directory for run in runs.values()}:
            runs.setdefault(one.task.run.curve, load_run(one.directory))
    shown = list(itertools.islice(runs.items(), CURVES_OVER_TIME))
    panels = [
        (f"{curve}: " if len(shown) > 1 else "", panel, run)
        for curve, run in shown
        for panel in main_panels(run)[: None if len(shown) == 1 else PANELS_OF_A_CURVE]
    ]
    if len(shown) > 1:  # a column for each curve
        panels = [one for n in range(PANELS_OF_A_CURVE) for one in panels[n::PANELS_OF_A_CURVE]]
    across = len(shown) if len(shown) > 1 else 2
    down = max(1, -(-len(panels) // across))
    drawing, axes = plt.subplots(
        down, across, figsize=(7 * across, 4.4 * down), layout="constrained", squeeze=False
    )
    for axis, (curve, panel, run) in zip(axes.flat, panels, strict=False):
        draw(axis, panel, run)
        axis.set_title(curve + panel.title)
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    return drawing
