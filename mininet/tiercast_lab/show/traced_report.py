"""The part of a run's report about traced links: what became of the packets of the sample, and the
probability with which the marking hit them, beside its equation."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from tiercast_controller.base.units import format_rate

from tiercast_lab.results.storage import StoredRun
from tiercast_lab.show.panels import COLOURS
from tiercast_lab.show.plots import DPI, METADATA, STYLE
from tiercast_lab.study.marking_results import Bin
from tiercast_lab.study.traced_law import TracedLaw, traced_laws

FATES = ("passed", "marked", "dropped", "full", "lost")
LINKS_DRAWN = 12


def rows(laws: list[TracedLaw]) -> list[dict[str, Any]]:
    """A row of the table for each traced direction."""
    return [
        {
            "link": one.link,
            "marking": one.kind or "none",
            "sample": f"{one.share:.3g}",
            "packets": f"{one.packets:,}",
            "fates": [f"{one.fates.get(fate, 0):,}" for fate in FATES],
            "law": law_text(one),
        }
        for one in laws
    ]


def law_text(law: TracedLaw) -> str:
    if not law.curve:
        return "too few packets"
    ranges = f"{len(law.curve)} ranges of {law.law.of}"
    if not law.has_equation:
        return f"{ranges}; no equation of all packets"
    return f"{ranges}, the equation outside the 95 % interval of {law.outside}"


def title_of(law: TracedLaw) -> str:
    """Such as "1>2, 4Mbit/s: red"."""
    rate = f", {format_rate(law.rate)}" if law.rate else ""
    return f"{law.link}{rate}: {law.kind or 'no marking'}"


def picture(run: StoredRun) -> bytes:
    """A PNG of the laws' curves; empty where there is none. The same rows give the same bytes."""
    drawn = [one for one in traced_laws(run) if one.curve][:LINKS_DRAWN]
    if not drawn:
        return b""
    across = min(3, len(drawn))
    down = -(-len(drawn) // across)
    buffer = BytesIO()
    with plt.rc_context(STYLE):
        figure: Figure
        figure, axes = plt.subplots(
            down, across, figsize=(5.4 * across, 3.8 * down), layout="constrained", squeeze=False
        )
        for axis, one in zip(axes.flat, drawn, strict=False):
            unit = f" ({one.law.unit})" if one.law.unit else ""
            draw_law(axis, one.curve, title_of(one), one.law.of + unit)
        for axis in axes.flat[len(drawn) :]:
            axis.set_axis_off()
        figure.savefig(buffer, format="png", dpi=DPI, metadata=METADATA)
        plt.close(figure)
    return buffer.getvalue()


def draw_law(axis: Axes, curve: list[Bin], title: str, label: str) -> None:
    """The shares with their 95 % intervals, and the equation as a line."""
    x = [one.at for one in curve]
    axis.vlines(
        x, [one.low for one in curve], [one.high for one in curve], color=COLOURS[0], alpha=0.6
    )
    axis.plot(x, [one.share for one in curve], "o", color=COLOURS[0], markersize=3.5)
    axis.plot(x, [one.equation for one in curve], color="#333333", linewidth=1.1)
    axis.set_title(title)
    axis.set_xlabel(label)
    axis.set_ylabel("marked or dropped")
    axis.set_ylim(0, min(1.05, 1.15 * max([one.high for one in curve] + [0.05])))
