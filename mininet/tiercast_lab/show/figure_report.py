"""What is written of figures: results/figures/<name>/ (summary.json, figure.png) of each, and
results/figures/report.html, .md and .json of all."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from tiercast_lab.base import machine
from tiercast_lab.results import storage
from tiercast_lab.show import pages
from tiercast_lab.show.figure_plot import draw_figure
from tiercast_lab.show.wording import required_and_met, tally
from tiercast_lab.study.figures import Results, verdict_of


def write_figure(results: Results, folder: Path, quick: bool) -> dict[str, Any]:
    """results/figures/<name>/summary.json and figure.png; returns the summary."""
    figure = results.figure
    directory = folder / figure.name
    directory.mkdir(parents=True, exist_ok=True)
    judged = results.judge(quick)
    summary = {
        "figure": figure.name,
        "again": f"./tiercast figure {figure.called}" + (" --quick" if quick else ""),
        "title": figure.experiment.title,
        "paper": figure.reference,
        "paper_name": figure.experiment.paper.name if figure.experiment.paper else "",
        "x": figure.experiment.figure.x,
        "quick": quick,
        "verdict": verdict_of(judged, results.failures),
        "expected": [vars(one) for one in judged],
        "failures": results.failures,
        "runs": [
            {
                "curve": one.task.run.curve,
                "x": one.task.run.x,
                "seed": one.task.run.seed,
                "command": one.task.command,
                "measures": one.measures,
                "directory": str(one.directory),
            }
            for one in results.outcomes
        ],
        "versions": machine.versions(),
    }
    draw_figure(results, directory / "figure.png")
    storage.write_json(directory / "summary.json", summary)
    return summary


def write_report(summaries: list[dict[str, Any]], folder: Path, command: list[str]) -> Path:
    """report.html, one page with every figure: paper, measured, verdict, plots; its tables as
    report.md, and report.json."""
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
    )
    path = folder / "report.html"
    path.write_text(html)
    storage.write_json(folder / "report.json", {"figures": summaries})
    (folder / "report.md").write_text(as_markdown(summaries))
    return path


def as_markdown(summaries: list[dict[str, Any]]) -> str:
    """Every verdict, then the table of each figure, for a page such as docs/reproduction.md."""
    lines = ["| paper | figure | experiment | runs | of commit | verdict | required, met |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for one in summaries:
        figure = one["paper"].removeprefix(one["paper_name"] + ", ")
        runs = f"{'quick' if one['quick'] else 'whole'}, {len(one['runs'])}"
        verdict = (
            one["verdict"] if one["verdict"] in ("met", "reported") else f"**{one['verdict']}**"
        )
        required = required_and_met(one) if any(row["gate"] for row in one["expected"]) else "–"
        lines.append(
            f"| {one['paper_name']} | {figure} | `{one['figure']}` | {runs} "
            f"| {one['versions']['commit'] or '–'} | {verdict} | {required} |"
        )
    lines.append("")
    for one in summaries:
        runs = len(one["runs"])
        command = f"`{one['again']}`, {runs} run{'s' if runs != 1 else ''}"
        source = f"{one['paper']}; " if one["paper"] else ""
        lines += [f"### {one['title']}: {one['verdict']}", "", source + command, ""]
        lines += ["| | at | paper | required | measured | |", "|---|---|---|---|---|---|"]
        for row in one["expected"]:
            what = f"{row['curve']} {row['measure'].replace('_', ' ')} {row['over']}".strip()
            mark = ("met" if row["ok"] else "**not met**") + (
                "" if row["gate"] else ", not required"
            )
            mark = mark if row["required"] else ""
            lines.append(
                f"| {what} | {row['x']:g} | {row['paper_text']} | {row['required']} "
                f"| {row['text']} | {mark} |"
            )
        lines += ["", *one["failures"], ""]
    return "\n".join(lines).rstrip() + "\n"
