"""The tables of figures and sweeps for the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from tiercast_lab.measures import spec_of
from tiercast_lab.show.wording import (
    mark,
    mean_text,
    required_and_met,
    rows_of,
    tally,
    verdict_text,
)
from tiercast_lab.study.sweep_results import SweepResults
from tiercast_lab.study.target import VIRTUAL

CELLS_SHOWN = 40
STYLES = {
    "": "",
    "met": "green",
    "met, uncertain": "yellow",
    "not met, uncertain": "red",
    "not met": "bold red",
    "failed": "bold red",
    "invalid": "bold red",
    "reported": "yellow",
}


def figure_tables(summary: dict[str, Any]) -> Group:
    """A reproduced figure: the paper's numbers against the measured ones, and the verdict."""
    source = f" ({summary['paper']})" if summary["paper"] else ""
    runtime = "" if summary["runtime"] == str(VIRTUAL) else f", in {summary['runtime']}"
    table = Table(title=summary["title"] + source + runtime, title_justify="left")
    rows = rows_of(summary)
    several = len({row["x"] for row in rows}) > 1
    point = [summary["x"] or "at"] if several else []
    for heading in ("measure", *point, "paper", "required", "measured", ""):
        table.add_column(heading, justify="left" if heading == "measure" else "right")
    for row in rows:
        style = STYLES[row["verdict"]] if row["gate"] or row["ok"] else "yellow"
        at = [f"{row['x']:g}"] if several else []
        table.add_row(
            row["name"], *at, row["paper_text"], row["required"], row["text"],
            Text(mark(row), style=style),
        )  # fmt: skip
    lines = [Text(f"verdict: {verdict_text(summary)}", style=f"bold {STYLES[summary['verdict']]}")]
    if (first := summary["as_first_set_up"]) is not None:
        lines.append(Text(f"why it was changed: {first['reason']}"))
    lines += [Text(line) for line in summary["scaling"]]
    return Group(table, *lines, *(Text(f"  {failure}") for failure in summary["failures"]))


def verdict_table(summaries: list[dict[str, Any]]) -> Table:
    """Many figures: each verdict, and how many of the deciding numbers were met."""
    table = Table(title=f"Figures: {tally(summaries)}", title_justify="left")
    for heading in ("figure", "paper", "required and met", ""):
        table.add_column(heading)
    for one in summaries:
        verdict = Text(verdict_text(one), style=STYLES[one["verdict"]])
        table.add_row(one["figure"], one["paper"], required_and_met(one), verdict)
    return table


def sweep_table(results: SweepResults) -> Table | str:
    """The means of each cell (or, if there are too many for a screen, where to find them), or the
    distributions if the sweep asks for them."""
    if results.spec.sweep.distribution_over is not None:
        return _distribution_table(results)
    if len(results.cells) > CELLS_SHOWN:
        return f"{len(results.cells)} cells, in cells.csv and in the report"
    sweep = results.spec.sweep
    table = Table(*sweep.axes, title=f"{sweep.title}: means ± 95 %", title_justify="left")
    for name in sweep.measures:
        table.add_column(spec_of(name)[1], justify="right")
    for one in results.cells:
        means = [mean_text(name, one.means[name]) for name in sweep.measures]
        table.add_row(
            *one.cell.names.values(), *("left out" if one.cell.excluded else m for m in means)
        )
    return table


def _distribution_table(results: SweepResults) -> Table:
    sweep = results.spec.sweep
    over = sweep.distribution_over
    assert over is not None
    shares = ["5 %", "median", "95 %"]
    table = Table(
        "", "measure", "cells", "lowest", over, *shares, "highest", over,
        title=f"{sweep.title}: distributions over {over}", title_justify="left",
    )  # fmt: skip
    for measure in sweep.measures:
        show, name = spec_of(measure)[0].show, spec_of(measure)[1]
        for one in results.distributions(measure):
            ends = [
                [show(cell.value(measure)), cell.cell.names[over]]
                for cell in (one.cells[0], one.cells[-1])
            ]
            middle = [show(one.quantile(share)) for share in (0.05, 0.5, 0.95)]
            table.add_row(str(one), name, str(len(one.cells)), *ends[0], *middle, *ends[1])
    return table
