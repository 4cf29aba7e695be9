"""The report of `tiercast bench`: an HTML page with pictures, all in one file, of one device or of
several side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from tiercast_lab.base.whole_file import write_whole
from tiercast_lab.bench.outcome import Outcome, Plot
from tiercast_lab.bench.suite import Suite
from tiercast_lab.show import pages
from tiercast_lab.show.panels import COLOURS
from tiercast_lab.show.plots import DPI, METADATA, STYLE


def write_report(suite: Suite, folder: Path, command: str, facts: Sequence[str]) -> Path:
    """Writes report.html into the folder; returns its path. `facts`: of the machine."""
    folder.mkdir(parents=True, exist_ok=True)
    plan = suite.plan
    html = pages.render(
        "bench.html.j2",
        title=suite.name,
        facts=[
            f"trials of {plan.trial_s:g} s, {plan.wait_s:g} s for late frames",
            f"a trial passes with at most {100 * plan.loss:g} % lost, and a rate fails when "
            f"{plan.tries} of its trials fail",
            f"searches end at {100 * plan.resolution:g} %",
            *facts,
        ],
        short=plan.trial_s < 60,
        ports=suite.ports,
        outcomes=[_shown(one) for one in suite.outcomes],
        missing=suite.missing,
        command=command,
    )
    page = folder / "report.html"
    write_whole(page, html)
    return page


def write_comparison(suites: Sequence[Suite], folder: Path, command: str,
                     facts: Sequence[str]) -> Path:  # fmt: skip
    """Writes comparison.html, of several devices side by side, into the folder; returns its
    path."""
    folder.mkdir(parents=True, exist_ok=True)
    html = pages.render(
        "bench_comparison.html.j2",
        names=[one.name for one in suites],
        facts=facts,
        tables=_side_by_side(suites),
        missing=[(one.name, missing) for one in suites for missing in one.missing
                 if not missing.section],
        command=command,
    )  # fmt: skip
    page = folder / "comparison.html"
    write_whole(page, html)
    return page


def _side_by_side(suites: Sequence[Suite]) -> list[dict[str, Any]]:
    """A table for each test: rows by what they are of, a column for each device."""
    tables = []
    for first in {one.name: one for suite in suites for one in suite.outcomes}.values():
        found: dict[tuple[str, ...], list[str]] = {}
        for number, suite in enumerate(suites):
            for outcome in suite.outcomes:
                if outcome.name != first.name:
                    continue
                for row in outcome.rows:
                    key = tuple(cell(value) for value in row[: outcome.keys])
                    found.setdefault(key, ["–"] * len(suites))[number] = cell(row[outcome.figure])
        # A device may have rows of a frame size that those before it do not have.
        order = list(dict.fromkeys(key[0] for key in found))
        tables.append({
            "name": first.name,
            "section": first.section,
            "figure": first.headings[first.figure],
            "headings": first.headings[: first.keys],
            "rows": [
                [*key, *values]
                for key, values in sorted(found.items(), key=lambda row: order.index(row[0][0]))
            ],
        })  # fmt: skip
    return tables


def cell(value: Any) -> str:
    if isinstance(value, float):
        if math.isnan(value) or math.isinf(value):
            return "–"
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.3g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def _shown(outcome: Outcome) -> dict[str, Any]:
    return {
        "name": outcome.name,
        "section": outcome.section,
        "headings": outcome.headings,
        "rows": [[cell(value) for value in row] for row in outcome.rows],
        "notes": outcome.notes,
        "pictures": [
            {"data": pages.embedded(_picture(plot)), "title": plot.title}
            for plot in outcome.plots
            if any(len(curve.points) > 1 for curve in plot.curves)
        ],
    }


def _picture(plot: Plot) -> bytes:
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(7, 3.2))
        for number, curve in enumerate(plot.curves):
            if curve.points:
                x, y = zip(*sorted(curve.points), strict=True)
                axes.plot(x, y, marker="o", markersize=4, color=COLOURS[number % len(COLOURS)],
                          label=curve.name)  # fmt: skip
        if plot.log_x:
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter("{x:g}")
        axes.set_ylim(bottom=0)
        axes.set_xlabel(plot.x)
        axes.set_ylabel(plot.y)
        if len(plot.curves) > 1:
            axes.legend(fontsize="small")
        out = BytesIO()
        figure.savefig(out, format="png", dpi=DPI, bbox_inches="tight", metadata=METADATA)
        plt.close(figure)
    return out.getvalue()
