"""A figure of a paper as PNG: its measures over the x axis, and where it is one run, that run."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from tiercast_lab.figures import Results
from tiercast_lab.measures import spec_of
from tiercast_lab.panels import all_panels
from tiercast_lab.plots import DPI, METADATA, STYLE, draw
from tiercast_lab.storage import load_run

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
SINGLE_RUN_PANELS = 6


def draw_figure(results: Results, path: Path) -> None:
    figure = results.figure.experiment.figure
    with plt.rc_context(STYLE):
        if figure.plots and len(results.points) > 1:
            drawing = _over_points(results)
        else:
            drawing = _one_run(results)
        drawing.suptitle(results.figure.experiment.title, x=0.01, ha="left", fontsize=13)
        drawing.savefig(path, dpi=DPI, metadata=METADATA)
        plt.close(drawing)


def _over_points(results: Results) -> plt.Figure:
    figure = results.figure.experiment.figure
    drawing, axes = plt.subplots(
        1, len(figure.plots), figsize=(6.5 * len(figure.plots), 4.6), layout="constrained",
        squeeze=False,
    )  # fmt: skip
    for axis, plot in zip(axes[0], figure.plots, strict=True):
        spec, shown = spec_of(plot.measure)
        scale = 1e6 if spec.unit == "bit/s" else 1
        for colour, curve in zip(COLOURS, figure.curves, strict=False):
            points = [(x, results.mean(plot.measure, curve.name, x)) for x in results.points]
            points = [(x, value) for x, value in points if value is not None]
            axis.errorbar(
                [x for x, _ in points],
                [value.value / scale for _, value in points],
                [(value.spread or 0) / scale for _, value in points],
                color=colour, marker="o", capsize=3, label=curve.name or None,
            )  # fmt: skip
        if plot.reference:
            axis.plot(
                plot.reference.keys(), plot.reference.values(),
                color="#555555", linestyle="--", marker="x", label="paper",
            )  # fmt: skip
        axis.set_title(shown)
        axis.set_xlabel(figure.x)
        unit = "Mbit/s" if spec.unit == "bit/s" else spec.unit
        axis.set_ylabel(unit)
        if figure.log_x:
            axis.set_xscale("log", base=2)
            axis.set_xticks(results.points, [f"{x:g}" for x in results.points])
            axis.minorticks_off()
        if plot.log:
            axis.set_yscale("log")
        else:
            axis.set_ylim(bottom=0)
        if plot.reference or len(figure.curves) > 1:
            axis.legend(frameon=False)
    return drawing


def _one_run(results: Results) -> plt.Figure:
    """The panels of the first run, as the papers show a session over time."""
    run = load_run(results.outcomes[0].directory)
    panels = all_panels(run)[:SINGLE_RUN_PANELS]
    lines = -(-len(panels) // 2)
    drawing, axes = plt.subplots(
        lines, 2, figsize=(14, 4.4 * lines), layout="constrained", squeeze=False
    )
    for axis, panel in zip(axes.flat, panels, strict=False):
        draw(axis, panel, run)
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    return drawing
