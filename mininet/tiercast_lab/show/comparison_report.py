"""Writes results/comparisons/<name>.html: the charts of several runs on top of each other, and the
tables of their comparison. A single file that refers to no others, made only from stored runs."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

from markupsafe import Markup

from tiercast_lab.base.whole_file import write_whole
from tiercast_lab.measures import spec_of
from tiercast_lab.results.storage import StoredRun, reading
from tiercast_lab.show import pages
from tiercast_lab.show.panel_data import panel_data
from tiercast_lab.show.panels import (
    COLOURS,
    Panel,
    Reference,
    Series,
    beside_tcp,
    queues,
    sending_rates,
    session_rates,
)
from tiercast_lab.show.run_panels import main_panels
from tiercast_lab.show.tables.comparisons import (
    RUN_HEADINGS,
    difference_text,
    heading,
    is_certain,
    measures_title,
    run_row,
)
from tiercast_lab.show.wording import mean_text
from tiercast_lab.study.comparison import Comparison, Group

# One style for each run. The first is solid.
DASHES = ("", "7 4", "2 3", "10 3 2 3", "14 5", "5 2 1 2 1 2", "1 5", "12 3 6 3")
NAMES_SHOWN = 4  # runs in a page's name; more are told apart by a hash


def write_comparison(comparison: Comparison, folder: Path, command: list[str]) -> Path:
    """Writes the page and returns its path. The same runs give the same name."""
    drawn = drawn_runs(comparison)
    panels = overlaid(drawn)
    windows = {tuple(run.summary["window_s"]) for run in comparison.runs}
    groups = comparison.groups
    html = pages.render(
        "comparison.html.j2",
        title=" against ".join(dict.fromkeys(group.first.summary["title"] for group in groups)),
        groups=groups,
        run_headings=RUN_HEADINGS,
        runs=[
            {"cells": run_row(group, run), "dash": drawn[run.directory].dash}
            if run.directory in drawn
            else {"cells": run_row(group, run), "dash": None}
            for group in groups
            for run in group.runs
        ],
        drawn=len(drawn),
        changes=comparison.changes,
        headings=[heading(group) for group in groups],
        against=[f"{group.name} − {groups[0].name}" for group in groups[1:]],
        measures_title=measures_title(comparison),
        measures=[
            {
                "name": spec_of(row.name)[1],
                "purpose": spec_of(row.name)[0].purpose,
                "means": [mean_text(row.name, one) for one in row.means],
                "differences": [
                    {"text": difference_text(row.name, one), "certain": is_certain(one)}
                    for one in row.differences
                ],
            }
            for row in comparison.measures
        ],
        panels=Markup(pages.script_json([panel_data(panel) for panel in panels])),
        script=Markup((pages.TEMPLATES / "charts.js").read_text()),
        command=shlex.join(command),
        duration=max(float(run.summary["duration_s"]) for run in comparison.runs),
        window=list(windows.pop()) if len(windows) == 1 else None,
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name_of(comparison)}.html"
    write_whole(path, html)
    return path


def name_of(comparison: Comparison) -> str:
    """The experiments' names and the runs' ids: sim-session-1a2b-3c4d."""
    runs = comparison.runs
    names = dict.fromkeys(str(run.summary["experiment"].get("name", "run")) for run in runs)
    ids = [run.directory.name.rpartition("-")[2] for run in runs]
    if len(ids) > NAMES_SHOWN:
        digest = hashlib.sha256(" ".join(run.directory.name for run in runs).encode())
        ids = [f"{len(ids)}-runs", digest.hexdigest()[:8]]
    return "-".join([*list(names)[:2], *ids])


class Drawn:
    """A run on the charts: the name of its lines, and their style."""

    def __init__(self, group: Group, run: StoredRun, dash: str) -> None:
        several = len(group.runs) > 1
        self.run, self.dash = run, dash
        self.name = f"{group.name}, seed {run.summary['seed']}" if several else group.name


def drawn_runs(comparison: Comparison) -> dict[Path, Drawn]:
    """The runs that have a line style, by folder: the first of each group, then the second, and so
    on, as far as there are styles."""
    turns = zip_longest(*([(group, run) for run in group.runs] for group in comparison.groups))
    chosen = [one for turn in turns for one in turn if one is not None][: len(DASHES)]
    drawn = {
        run.directory: Drawn(group, run, dash)
        for (group, run), dash in zip(chosen, DASHES, strict=False)
    }
    return {
        run.directory: drawn[run.directory] for run in comparison.runs if run.directory in drawn
    }


def overlaid(drawn: dict[Path, Drawn]) -> list[Panel]:
    """The panels of all runs on top of each other. Where the schemes differ, only the panels that
    any scheme has."""
    one_scheme = len({one.run.scheme for one in drawn.values()}) == 1
    panels_of: list[tuple[Drawn, dict[str, Panel]]] = []
    for one in drawn.values():
        with reading(one.run.directory):
            panels = main_panels(one.run) if one_scheme else _of_any_scheme(one.run)
        panels_of.append((one, {panel.key: panel for panel in panels}))
    keys = dict.fromkeys(key for _, panels in panels_of for key in panels)
    return [
        _overlay([(one, panels[key]) for one, panels in panels_of if key in panels]) for key in keys
    ]


def _of_any_scheme(run: StoredRun) -> list[Panel]:
    beside = [beside_tcp(run)] if run.context.rivals else []
    return [session_rates(run), *beside, sending_rates(run), queues(run)]


def _overlay(panels: Sequence[tuple[Drawn, Panel]]) -> Panel:
    """One panel of several. Lines of one name have one colour, whichever run they are of."""
    colours: dict[str, str] = {}
    for _, panel in panels:
        for series in panel.series:
            if series.label not in colours:
                taken = set(colours.values())
                free = [one for one in (series.colour, *COLOURS) if one not in taken]
                colours[series.label] = free[0] if free else series.colour
    first = panels[0][1]
    lines: list[Series] = [
        replace(
            series,
            label=f"{one.name}: {series.label}",
            colour=colours[series.label],
            dash=one.dash,
        )
        for one, panel in panels
        for series in panel.series
    ]
    tops = [panel.y_max for _, panel in panels]
    return replace(
        first,
        series=lines,
        references=_once(reference for _, panel in panels for reference in panel.references),
        y_max=None if None in tops else max(top for top in tops if top is not None),
        note="" if lines else first.note,
    )


def _once(references: Iterable[Reference]) -> list[Reference]:
    found: dict[tuple[float, str], Reference] = {}
    for one in references:
        found.setdefault((one.y, one.label), one)
    return list(found.values())
