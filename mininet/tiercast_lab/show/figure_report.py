"""Writes the results of figures: for each results/figures/<name>/ (summary.json, figure.png), and
for all together results/figures/report.html, .md and .json."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from tiercast_lab.base import binaries, machine
from tiercast_lab.base.whole_file import write_whole
from tiercast_lab.results import storage
from tiercast_lab.show import pages
from tiercast_lab.show.docs_pages.reproduction import record_of, tables
from tiercast_lab.show.figure_plot import draw_figure
from tiercast_lab.show.wording import mark, required_and_met, rows_of, tally, verdict_text
from tiercast_lab.study.figure_results import FigureResults, verdict_of


def write_figure(results: FigureResults, folder: Path, quick: bool) -> dict[str, Any]:
    """Writes results/figures/<name>/summary.json and figure.png; returns the summary."""
    figure = results.figure
    directory = folder / figure.name
    directory.mkdir(parents=True, exist_ok=True)
    judged = results.judge(quick)
    first = results.as_first_set_up(quick)
    failures = results.failures + (first.failures if first else [])
    summary = {
        "figure": figure.name,
        "again": " ".join(
            [
                f"{binaries.COMMAND} figure {figure.called}",
                *(figure.target.options if figure.target.in_real_time else []),
                *(["--scaled"] if figure.is_variant else []),
                *(["--quick"] if quick else []),
            ]
        ),
        "runtime": str(figure.target),
        "scaling": figure.scaling,
        "title": figure.experiment.title,
        "paper": figure.reference,
        "paper_name": figure.experiment.paper.name if figure.experiment.paper else "",
        "x": figure.section.x,
        "quick": quick,
        "verdict": verdict_of(judged, failures, results.invalid),
        "expected": [vars(one) for one in judged],
        "as_first_set_up": first
        and {
            "called": first.was.called,
            "now_with": first.was.now_with,
            "reason": first.was.reason,
            "commit": first.was.commit,  # of the recorded result; None if it was run now
            "verdict": first.verdict,
            "expected": [vars(one) for one in first.judged],
        },
        "failures": failures,
        "runs": [
            {
                "as_first_set_up": bool(one.task.run.first),
                "curve": one.task.run.curve,
                "x": one.task.run.x,
                "seed": one.task.run.seed,
                "command": one.task.command,
                "measures": one.measures,
                "directory": str(one.directory),
            }
            for one in results.made
        ],
        "versions": machine.versions(),
    }
    draw_figure(results, directory / "figure.png")
    storage.write_json(directory / "summary.json", summary)
    return summary


def write_report(summaries: list[dict[str, Any]], folder: Path, command: list[str]) -> Path:
    """Writes report.html, a page with the paper's numbers, the measured ones, the verdicts and the
    plots of every figure; report.md, its tables; and report.json."""
    by_paper: dict[str, list[dict[str, Any]]] = {}
    for one in summaries:
        by_paper.setdefault(one["paper_name"] or "Beyond the papers", []).append(one)
    html = pages.render(
        "figures.html.j2",
        summaries=summaries,
        by_paper=by_paper,
        images={
            one["figure"]: pages.embedded(folder / one["figure"] / "figure.png")
            for one in summaries
        },
        command=shlex.join(command),
        tally=tally,
        required_and_met=required_and_met,
        rows_of=rows_of,
        mark=mark,
        verdict_text=verdict_text,
    )
    path = folder / "report.html"
    write_whole(path, html)
    storage.write_json(folder / "report.json", {"figures": summaries})
    write_whole(folder / "report.md", tables([record_of(one) for one in summaries]))
    return path
