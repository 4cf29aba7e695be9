"""Draws a sweep's pictures, one for each measure.

If the sweep asks for distributions, they are drawn. Otherwise, if an axis is numeric, there are
lines with confidence bands over it. Otherwise a single axis gives intervals, and several give a
heat map of the first axis against the others.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap, LogNorm, Normalize, PowerNorm
from matplotlib.figure import Figure as Drawing
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, NullLocator

from tiercast_lab.measures import find_spec, spec_of
from tiercast_lab.show.panels import COLOURS
from tiercast_lab.show.plots import DPI, METADATA, STYLE
from tiercast_lab.study.confidence import Mean
from tiercast_lab.study.sweep_results import SweepResults

GOOD, MIDDLE, BAD = "#4A90C2", "#FBFBF8", "#E07B39"
LESS, MORE = "#7B6FB0", "#E07B39"
NO_DATA, LEFT_OUT = "#E4E7EB", "#FFFFFF"
ROW_INCHES, COLUMN_INCHES = 0.42, 0.62


@dataclass(frozen=True)
class Shading:
    """How a measure's values become colours, and a short legend."""

    colours: Colormap
    norm: Callable[[float, float], Normalize]  # made from the smallest and the largest value
    legend: str


def _ramp(*colours: str) -> Colormap:
    return LinearSegmentedColormap.from_list("ramp", colours)


def _shading(measure: str) -> Shading:
    if measure == "efficiency":
        return Shading(_ramp(BAD, MIDDLE, GOOD), lambda _, __: Normalize(0, 1), "blue: more used")
    if measure.startswith("tcp_ratio"):
        return Shading(
            _ramp(LESS, MIDDLE, MORE), lambda _, __: LogNorm(1 / 8, 8, clip=True),
            "white: as much as TCP; purple: less; orange: more",
        )  # fmt: skip
    if measure in ("loss", "marked", "queue_drops", "instability", "mean_queue", "longest_queue"):
        return Shading(
            _ramp(GOOD, MIDDLE, BAD),
            lambda _, high: PowerNorm(0.5, 0, high or 1),
            "blue: little; orange: much",
        )
    return Shading(
        _ramp(MIDDLE, GOOD), lambda _, high: PowerNorm(0.5, 0, high or 1), "darker: more"
    )


def draw_measures(results: SweepResults, folder: Path) -> dict[str, Path]:
    """Writes <measure>.png for each measure; returns the paths by measure."""
    axes = results.spec.sweep.axes
    numeric = next(
        (a for a, s in axes.items() if len(s) > 1 and all(one.x is not None for one in s)), None
    )
    written = {}
    with plt.rc_context(STYLE):
        for measure in results.spec.sweep.measures:
            if results.spec.sweep.distribution_over is not None:
                drawing = _distributions(results, measure)
            elif numeric is not None:
                drawing = _lines(results, measure, numeric)
            elif len(axes) == 1:
                drawing = _intervals(results, measure)
            else:
                drawing = _heat_map(results, measure)
            written[measure] = folder / f"{measure}.png"
            drawing.savefig(written[measure], dpi=DPI, metadata=METADATA)
            plt.close(drawing)
    return written


def _scale(measure: str) -> tuple[float, str]:
    """The factor from a measure's unit to the unit that is drawn, and that unit."""
    unit = find_spec(measure).unit
    scales = {"bit/s": (1e-6, "Mbit/s"), "fraction": (100.0, "%"), "s": (1e3, "ms")}
    return scales.get(unit, (1.0, unit))


def _means(results: SweepResults, measure: str) -> dict[tuple[str, ...], Mean | None]:
    return {tuple(one.cell.names.values()): one.means[measure] for one in results.cells}


# ---- a heat map ---------------------------------------------------------------------------------


def _heat_map(results: SweepResults, measure: str) -> Drawing:
    axes = {axis: [one.name for one in found] for axis, found in results.spec.sweep.axes.items()}
    (row_axis, rows), *others = axes.items()
    columns = list(itertools.product(*(names for _, names in others)))
    means = _means(results, measure)
    left_out = {tuple(one.cell.names.values()) for one in results.cells if one.cell.excluded}
    scale, unit = _scale(measure)
    shading = _shading(measure)
    values = [value.value for value in means.values() if value is not None]
    norm = shading.norm(min(values, default=0.0), max(values, default=1.0))
    width = 2.2 + COLUMN_INCHES * len(columns)
    height = 1.35 + ROW_INCHES * len(rows)
    drawing, axis = plt.subplots(figsize=(max(width, 7), height), layout="constrained")
    for (y, row), (x, column) in itertools.product(enumerate(rows), enumerate(columns)):
        key = (row, *column)
        value = means[key]
        if value is None:
            colour = LEFT_OUT if key in left_out else NO_DATA
            patch = axis.add_patch(Rectangle((x, y), 1, 1, facecolor=colour, linewidth=0))
            if key in left_out:
                patch.set(hatch="///", edgecolor="#C5CCD3")
            else:
                axis.text(x + 0.5, y + 0.5, "–", ha="center", va="center", color="#7B8794")
            continue
        shade = shading.colours(norm(value.value))
        axis.add_patch(Rectangle((x, y), 1, 1, facecolor=shade, linewidth=0))
        ink = _ink_on(shade)
        axis.text(
            x + 0.5, y + (0.40 if value.spread else 0.5), _short(value.value * scale),
            ha="center", va="center", fontsize=9.5, color=ink,
        )  # fmt: skip
        if value.spread:
            axis.text(
                x + 0.5, y + 0.75, f"±{_short(value.spread * scale)}",
                ha="center", va="center", fontsize=6, color=ink,
            )  # fmt: skip
    _grid(axis, rows, columns, others)
    axis.set_ylabel(row_axis)
    axis.set_title(shading.legend, loc="right", fontsize=9, color="#616E7C", fontweight="normal")
    axis.set_title(unit, loc="left", fontsize=9, color="#616E7C", fontweight="normal")
    return drawing


def _ink_on(shade: tuple[float, ...]) -> str:
    red, green, blue, *_ = shade
    return "#FFFFFF" if 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.5 else "#1F2933"


def _grid(
    axis: Axes,
    rows: list[str],
    columns: list[tuple[str, ...]],
    others: list[tuple[str, list[str]]],
) -> None:
    """Puts the names at the sides and groups the columns by the second axis."""
    axis.set_xlim(0, len(columns))
    axis.set_ylim(len(rows), 0)
    axis.set_yticks([y + 0.5 for y in range(len(rows))], rows)
    inner = [" ".join(column[1:]) if len(others) > 1 else column[0] for column in columns]
    upright = len(others) > 1 or max(map(len, inner)) > 8
    axis.set_xticks(
        [x + 0.5 for x in range(len(columns))], inner, fontsize=8.5,
        rotation=40 if upright else 0, ha="right" if upright else "center",
        rotation_mode="anchor" if upright else "default",
    )  # fmt: skip
    axis.tick_params(length=0)
    axis.grid(False)
    for side in axis.spines.values():
        side.set_visible(False)
    for y in range(len(rows) + 1):
        axis.axhline(y, color="white", linewidth=1)
    group = len(columns) // len(others[0][1])
    for x in range(len(columns) + 1):
        thick = len(others) > 1 and x % group == 0
        axis.axvline(x, color="white", linewidth=7 if thick else 1)
    if len(others) > 1:
        top = axis.secondary_xaxis("top")
        top.set_xticks([group * (g + 0.5) for g in range(len(others[0][1]))], others[0][1])
        top.tick_params(length=0, labelsize=10.5)
        top.spines["top"].set_visible(False)


def _short(value: float) -> str:
    """At most three digits."""
    size = abs(value)
    if size == 0:
        return "0"
    if size < 0.001:
        return f"{value:.0e}".replace("e-0", "e-")
    if size < 0.095:
        return f"{value:.3f}".rstrip("0")
    if size < 9.95:
        return f"{value:.2f}"
    return f"{value:.1f}" if size < 99.5 else f"{value:.0f}"


# ---- lines and intervals ------------------------------------------------------------------------


def _lines(results: SweepResults, measure: str, numeric: str) -> Drawing:
    """One line for each setting of the first other axis, and one panel for each setting of the
    rest."""
    axes = results.spec.sweep.axes
    names = {axis: [one.name for one in settings] for axis, settings in axes.items()}
    curve, *rest = [axis for axis in axes if axis != numeric] or [""]
    curves = names[curve] if curve else [""]
    panels = list(itertools.product(*(names[axis] for axis in rest)))
    means = _means(results, measure)
    scale, unit = _scale(measure)
    columns = min(3, len(panels))
    lines = -(-len(panels) // columns)
    drawing, grid = plt.subplots(
        lines, columns, figsize=(1.5 + 5.2 * columns, 3.9 * lines), layout="constrained",
        squeeze=False, sharey=True,
    )  # fmt: skip
    drawn = {}  # by curve, as a panel may lack those that the sweep leaves out there
    for axis, panel in itertools.zip_longest(grid.flat, panels):
        if panel is None:
            axis.set_axis_off()
            continue
        for number, name in enumerate(curves):
            chosen = dict(zip(rest, panel, strict=True)) | ({curve: name} if curve else {})
            points = []
            for setting in axes[numeric]:
                at = chosen | {numeric: setting.name}
                value = means[tuple(at[one] for one in axes)]
                if value is not None:
                    points.append((setting.x, value.value, value.spread or 0.0))
            if not points:
                continue
            x, y, spread = np.array(sorted(points)).T
            colour = COLOURS[number % len(COLOURS)]
            style = ("-", "--", ":")[number // len(COLOURS) % 3]
            (drawn[name],) = axis.plot(x, y * scale, color=colour, linestyle=style, marker="o")
            axis.fill_between(
                x, (y - spread) * scale, (y + spread) * scale, color=colour, alpha=0.15, linewidth=0
            )
        axis.set_title(", ".join(panel))
        axis.set_xlabel(numeric)
        axis.set_ylabel(unit)
        if measure.startswith("tcp_ratio"):
            axis.axhline(1, color="#7B8794", linewidth=0.9, linestyle=(0, (5, 4)))
        xs = [setting.x for setting in axes[numeric] if setting.x is not None]
        if min(xs) > 0 and max(xs) / min(xs) > 20:
            axis.set_xscale("log")
            axis.set_xticks(xs, [f"{x:g}" for x in xs])
            axis.minorticks_off()
        # No measure is negative, but a confidence interval of two or three runs may extend below 0.
        axis.set_ylim(0.0, 1.05 * axis.get_ylim()[1])
    if curve:
        shown = [name for name in curves if name in drawn]
        drawing.legend(
            [drawn[name] for name in shown], shown,
            loc="outside right center", frameon=False, title=curve,
        )  # fmt: skip
    return drawing


def _intervals(results: SweepResults, measure: str) -> Drawing:
    means = _means(results, measure)
    scale, unit = _scale(measure)
    drawing, axis = plt.subplots(figsize=(8, 1.2 + ROW_INCHES * len(means)), layout="constrained")
    for y, value in enumerate(means.values()):
        if value is not None:
            axis.errorbar(
                value.value * scale, y, xerr=(value.spread or 0.0) * scale,
                color=COLOURS[0], marker="o", capsize=4,
            )  # fmt: skip
    axis.set_yticks(range(len(means)), [name for (name,) in means])
    axis.set_ylim(len(means) - 0.5, -0.5)
    axis.set_xlabel(unit)
    axis.set_ylabel(next(iter(results.spec.sweep.axes)))
    return drawing


# ---- distributions ------------------------------------------------------------------------------


def _distributions(results: SweepResults, measure: str) -> Drawing:
    """The percentage of cells whose value is at most x, with a dot at each end."""
    sweep = results.spec.sweep
    others = [names for axis, names in sweep.axes.items() if axis != sweep.distribution_over]
    # A group has the same colour in all of a sweep's pictures, even those without data for others.
    groups = [tuple(one.name for one in chosen) for chosen in itertools.product(*others)]
    scale, unit = _scale(measure)
    drawing, axis = plt.subplots(figsize=(9, 4.2), layout="constrained")
    drawn = {}
    for one in results.distributions(measure):
        number = groups.index(tuple(one.names.values()))
        values = np.array(one.values) * scale
        share = 100 * np.arange(1, len(values) + 1) / len(values)
        colour = COLOURS[number % len(COLOURS)]
        style = ("-", "--", ":")[number // len(COLOURS) % 3]
        (line,) = axis.step(
            [values[0], *values], [0, *share], where="post", color=colour, linestyle=style
        )
        if str(one):
            drawn[str(one)] = line
        axis.plot([values[0], values[-1]], [0, 100], "o", color=colour, clip_on=False, zorder=3)
    if measure.startswith("tcp_ratio"):
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.xaxis.set_minor_locator(NullLocator())
        axis.axvline(1, color="#7B8794", linewidth=0.9, linestyle=(0, (5, 4)))
    else:
        axis.set_xlim(left=0)
    axis.axhline(50, color="#C5CCD3", linewidth=0.9)
    axis.set_ylim(0, 100)
    axis.set_xlabel(f"{spec_of(measure)[1]}{f', {unit}' if unit else ''}")
    axis.set_ylabel(f"% of {sweep.distribution_over}s, at most")
    if drawn:
        handles, names = list(drawn.values()), list(drawn)
        drawing.legend(handles, names, loc="outside right center", frameon=False)
    return drawing
