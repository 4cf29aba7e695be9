"""Draws panels as PNG. The same rows give the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogFormatter
from matplotlib.typing import RcKeyType

from tiercast_lab.results.storage import StoredRun
from tiercast_lab.show.panels import Panel, Series
from tiercast_lab.show.run_panels import all_panels

STYLE: dict[RcKeyType, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    # A title or a name may have dollars, which would begin a formula.
    "text.parse_math": False,
    "svg.hashsalt": "tiercast",
}
DPI = 110
FIGURE_PANELS = 12  # in figure.png; the report has all
# Without these entries matplotlib writes its version and the date into the file.
METADATA = {"Software": None, "Creation Time": None}


class _Plain(LogFormatter):
    """The numbers that matplotlib shows at a logarithmic axis; its own text is a formula."""

    def __call__(self, value: float, position: int | None = None) -> str:
        return f"{value:g}" if super().__call__(value, position) else ""


def make_y_log(axis: Axes) -> None:
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(_Plain())
    axis.yaxis.set_minor_formatter(_Plain())


def write_plots(run: StoredRun) -> list[Path]:
    """Writes plots/figure.png with the first panels and one file per panel; returns their paths."""
    folder = run.directory / "plots"
    folder.mkdir(exist_ok=True)
    panels = all_panels(run)
    written = []
    with plt.rc_context(STYLE):
        shown = panels[:FIGURE_PANELS]
        lines = max(2, -(-len(shown) // 2))
        figure, axes = plt.subplots(lines, 2, figsize=(14, 13 / 3 * lines), layout="constrained")
        for axis, panel in zip(axes.flat, shown, strict=False):
            draw(axis, panel, run)
        for axis in axes.flat[len(shown) :]:
            axis.set_axis_off()
        figure.set_layout_engine("constrained", h_pad=0.14, w_pad=0.1)
        figure.suptitle(_caption(run), x=0.01, ha="left", fontsize=13)
        written.append(folder / "figure.png")
        figure.savefig(written[-1], dpi=DPI, metadata=METADATA)
        plt.close(figure)
        for panel in panels:
            figure, axis = plt.subplots(figsize=(8, 4.6), layout="constrained")
            draw(axis, panel, run)
            written.append(folder / f"{panel.key}.png")
            figure.savefig(written[-1], dpi=DPI, metadata=METADATA)
            plt.close(figure)
    return written


def _caption(run: StoredRun) -> str:
    return f"{run.summary['title']} — {run.summary['verdict']} ({run.summary['run']})"


def draw(axis: Axes, panel: Panel, run: StoredRun) -> None:
    end = run.summary["duration_s"]
    axis.axvspan(*run.summary["window_s"], color="#F3F3F3", zorder=0, linewidth=0)
    for reference in panel.references:
        axis.axhline(
            reference.y, color=reference.colour, linewidth=0.9, linestyle=(0, (5, 4)), alpha=0.7
        )
    for series in panel.series:
        axis.plot(
            series.x,
            series.y,
            color=series.colour,
            linewidth=1.0 if series.thin else 1.6,
            drawstyle="steps-post" if series.steps else "default",
            solid_joinstyle="round",
        )
    axis.set_title(panel.title)
    axis.set_xlabel("time (s)")
    axis.set_ylabel(panel.y_label)
    axis.set_xlim(0, end)
    axis.set_ylim(0, _top(panel))
    if panel.note:
        axis.text(
            0.5,
            0.5,
            panel.note,
            transform=axis.transAxes,
            ha="center",
            va="center",
            color="#666666",
        )
    if len(panel.series) > 1:
        _label_ends(axis, panel.series, end)
    else:
        for reference in panel.references:
            axis.annotate(
                reference.label,
                (end, reference.y),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
                fontsize=9,
                color=reference.colour,
            )


def _top(panel: Panel) -> float:
    if panel.y_max is not None:
        return panel.y_max
    values = [np.nanmax(s.y) for s in panel.series if len(s.y) and np.isfinite(s.y).any()]
    values += [reference.y for reference in panel.references]
    return 1.08 * max(values, default=1.0) or 1.0


def _label_ends(axis: Axes, series: list[Series], end: float) -> None:
    """Labels the lines at their right ends, moved apart where the labels would overlap."""
    top = axis.get_ylim()[1]
    spacing = top / 15
    ends = []
    for one in series:
        # For a fluctuating line, the mean of its end gives a better position than its last point.
        known = np.isfinite(one.y)
        if known.any():
            tail = one.y[known & (one.x >= one.x[known][-1] - 0.1 * end)]
            ends.append((float(tail.mean()), one))
    ends.sort(key=lambda pair: pair[0])
    position = -np.inf
    positions = []
    for value, _ in ends:
        position = max(value, position + spacing)
        positions.append(position)
    excess = positions[-1] - top if positions else 0
    if excess > 0:  # pushed beyond the top: move the upper ones down again
        limit = top
        for index in range(len(positions) - 1, -1, -1):
            positions[index] = min(positions[index], limit)
            limit = positions[index] - spacing
    for (value, one), place in zip(ends, positions, strict=True):
        axis.annotate(
            one.label,
            (end, min(value, top)),
            xytext=(1.02, place / top),
            textcoords="axes fraction",
            va="center",
            fontsize=9,
            color=one.colour,
            annotation_clip=False,
        )
