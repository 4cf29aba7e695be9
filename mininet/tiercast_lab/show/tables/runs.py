"""The tables of a run for the terminal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rich.console import Group
from rich.table import Column, Table
from rich.text import Text

from tiercast_lab.measures import parse_name
from tiercast_lab.show.wording import check_row, figure_row, window_text

SESSIONS_SHOWN = 4


def result_tables(summary: dict[str, Any]) -> Group:
    """The paper's figures against those measured (or, if none were expected, the measures), the
    bounds of validity, and the verdict."""
    expected = summary["expected"]
    papers = ["paper"] if any(figure["paper"] is not None for figure in expected) else []
    against = "paper against " if papers else "required against " if expected else ""
    title = f"{against}measured, {window_text(summary)}"
    if expected:
        table = Table(title=title, title_justify="left")
        for heading in ("figure", *papers, "required", "measured", ""):
            table.add_column(heading, justify="left" if heading == "figure" else "right")
        for figure in expected:
            row = figure_row(figure)
            style = "green" if figure["ok"] else "bold red" if figure["gate"] else "yellow"
            mark = Text(row["verdict"], style=style)
            texts = (row[name] for name in ("name", *papers, "required", "measured"))
            table.add_row(*texts, mark)
        parts = [table]
    else:
        parts = [*_measured_tables(summary, title)]
    valid = Table(title="Can this run be trusted?", title_justify="left")
    for heading in ("figure", "measured", "bound", ""):
        valid.add_column(heading, justify="left" if heading == "figure" else "right")
    for check in summary["validity"]["checks"]:
        row = check_row(check)
        mark = Text(row["verdict"], style="green" if check["ok"] else "bold red")
        valid.add_row(row["name"], row["measured"], row["bound"], mark)
    style = {"met": "bold green", "not met": "bold red"}.get(summary["verdict"], "bold yellow")
    lines = [Text(f"verdict: {summary['verdict']}", style=style)]
    lines += [Text(f"  {reason}") for reason in summary["reasons"]]
    if summary["validity"]["checks"]:
        parts.append(valid)
    return Group(*parts, *lines)


def _measured_tables(summary: dict[str, Any], title: str) -> list[Table]:
    """The measures of the whole run, and those of each session or of the first of many. The report
    also has those of each receiver, flow and period."""
    numbers = [session["session"] for session in summary["network"]["sessions"]]
    shown = numbers if len(numbers) <= SESSIONS_SHOWN else numbers[:1]
    of_run: dict[str, str] = {}
    of_sessions: dict[str, dict[int, str]] = {}
    for name, measure in summary["measures"].items():
        parsed = parse_name(name)
        spec, value = parsed.spec, measure["value"]
        if value is None or parsed.period or (parsed.which and spec.which != "layers"):
            continue
        if spec.of_run:
            of_run[parsed.shown] = spec.show(value)
        else:
            row = of_sessions.setdefault(replace(parsed, session="").shown, {})
            row[int(parsed.session or numbers[0])] = spec.show(value)
    table = Table("measure", title=title, title_justify="left")
    for number in shown:
        table.add_column("measured" if len(numbers) == 1 else f"session {number}", justify="right")
    for name, values in of_sessions.items():
        if any(number in values for number in shown):
            table.add_row(name, *(values.get(number, "–") for number in shown))
    whole = table
    if len(numbers) > 1:
        whole = Table("of the run", Column("measured", justify="right"))
    for name, text in of_run.items():
        whole.add_row(name, text)
    return [table] if whole is table else [table, whole]
