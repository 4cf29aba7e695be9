"""Writes report.html: a single file that needs no others, made only from a stored run."""

from __future__ import annotations

import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

from markupsafe import Markup

from tiercast_lab.base import binaries
from tiercast_lab.base.whole_file import write_whole
from tiercast_lab.measures import spec_of
from tiercast_lab.results.links import OTHERS, link_counts, numbers_of
from tiercast_lab.results.storage import StoredRun
from tiercast_lab.run.captures import ways
from tiercast_lab.show import pages
from tiercast_lab.show.panel_data import panel_data
from tiercast_lab.show.run_panels import all_panels
from tiercast_lab.show.topology_drawing import topology_svg
from tiercast_lab.show.wording import check_row, figure_row, window_text
from tiercast_lab.study.traced_law import traced_laws


def write_report(run: StoredRun) -> Path:
    """Writes the report and returns its path. The same rows give the same bytes."""
    summary = run.summary
    command = shlex.join(summary["command"])
    html = pages.render(
        "report.html.j2",
        summary=summary,
        complete=run.complete,
        reasons=run.reasons,
        paper=_paper(summary["experiment"].get("paper")),
        figures=[figure_row(f) | {"ok": f["ok"]} for f in summary["expected"]],
        checks=[check_row(c) | {"ok": c["ok"]} for c in summary["validity"]["checks"]],
        measures=[
            _measure_row(name, measure)
            # The measures of periods follow those of the run's window.
            for name, measure in sorted(summary["measures"].items(), key=lambda one: "@" in one[0])
            if measure["value"] is not None
        ],
        **_links(run),
        **_traced(run),
        captures=[one | {"ways": ways(one)} for one in summary.get("captures", ())],
        topology=Markup(topology_svg(summary["network"])),
        panels=Markup(pages.script_json([panel_data(panel) for panel in all_panels(run)])),
        script=Markup((pages.TEMPLATES / "charts.js").read_text()),
        tiercast=command.partition(binaries.COMMAND)[0] + binaries.COMMAND,  # with its variables
        command=command,
        folder=f"{_results(summary['command'])}/{summary['run']}",
        measured=window_text(summary),
        duration=summary["duration_s"],
        window=summary["window_s"],
    )
    path = run.directory / "report.html"
    write_whole(path, html)
    return path


def _traced(run: StoredRun) -> dict[str, Any]:
    """What the report says of traced links; nothing of a run without any."""
    laws = traced_laws(run)
    if not laws:
        return {"traced": []}
    from tiercast_lab.show import traced_report  # with matplotlib, which takes half a second

    image = traced_report.picture(run)
    return {
        "traced": traced_report.rows(laws),
        "traced_fates": traced_report.FATES,
        "traced_picture": Markup(pages.embedded(image)) if image else "",
    }


LINKS_SHOWN = 64


def _links(run: StoredRun) -> dict[str, Any]:
    """What happened to the packets at each link, or at the links that dropped or marked most, and
    the sessions whose marks are shown separately."""
    found = link_counts(run)
    most = sorted(found, key=lambda one: -one.affected)[:LINKS_SHOWN]
    shown = sorted(most, key=lambda one: numbers_of(one.link))
    sessions = [session.number for session in run.context.sessions]
    marking = [number for number in sessions if any(one.marked[number] for one in found)]
    if any(one.marked[OTHERS] for one in found):
        marking.append(OTHERS)
    counts = ["entered", "left", "queue_drops", "policy_drops", "waiting"]
    wires = any(one.link_losses or one.duplicated for one in found)
    if wires:
        counts += ["link_losses", "duplicated"]
    return {
        "wires": wires,
        "links": [
            {
                "link": one.link,
                "policy": one.policy,
                "counts": [_count(getattr(one, name)) for name in counts],
                "marked": [_count(one.marked[number]) for number in marking],
            }
            for one in shown
        ],
        "links_left_out": len(found) - len(shown),
        "marking": ["others" if number == OTHERS else f"session {number}" for number in marking],
    }


def _count(packets: int | None) -> str:
    return "–" if packets is None else f"{packets:,}"


def _results(command: list[str]) -> str:
    """The folder where the command line stored the run."""
    for option, value in pairwise([*command, ""]):
        if option.startswith("--results"):
            return option.partition("=")[2] or value
    return "results"


def _paper(paper: dict[str, str] | None) -> str:
    if paper is None:
        return ""
    parts = [f"{key} {paper[key]}" for key in ("section", "figure") if paper.get(key)]
    return " · " + ", ".join([paper["name"], *parts])


def _measure_row(name: str, measure: dict[str, Any]) -> dict[str, str]:
    spec, shown = spec_of(name)
    value = measure["value"]
    return {
        "name": shown,
        "value": "no data" if value is None else spec.show(value),
        "purpose": spec.purpose,
    }
