"""What the terminal shows while a run goes on, and the tables after it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

from tiercast_lab.base import units
from tiercast_lab.experiment.schemes import SchemeInfo
from tiercast_lab.measures import parse_name, spec_of
from tiercast_lab.measures import table as catalogue
from tiercast_lab.run.progress import RUNNING, Progress, Tally
from tiercast_lab.study.confidence import Mean

if TYPE_CHECKING:
    from tiercast_lab.study.sweep_results import SweepResults

PLAIN_PERIOD_S = 5.0


class View(Protocol):
    def __enter__(self) -> View: ...
    def __exit__(self, *error: object) -> None: ...
    def say(self, text: str) -> None: ...
    def update(self, progress: Progress) -> None: ...


def make_view(console: Console) -> View:
    return LiveView(console) if console.is_terminal else PlainView(console)


class PlainView:
    """A line every five seconds, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next_s = 0.0

    def __enter__(self) -> PlainView:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def update(self, progress: Progress) -> None:
        if progress.phase != RUNNING or progress.now_s < self._next_s:
            return
        self._next_s = progress.now_s - progress.now_s % PLAIN_PERIOD_S + PLAIN_PERIOD_S
        rates = "/".join(f"{rate / 1e6:.2f}" for rate in progress.cumulative_rates)
        counts = "/".join(map(str, progress.subscribers))
        self.say(
            f"{progress.now_s:5.0f} s  rates {rates} Mbit/s  subscribers {counts}  "
            f"{_beside_tcp(progress)}"
            f"efficiency {_number(progress.efficiency)}  longest queue {_queue(progress)}  "
            f"{_fates(progress)}  {_keeping_up(progress)}"
        )


class LiveView:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False)

    def update(self, progress: Progress) -> None:
        self._live.update(_screen(progress))


def _screen(progress: Progress) -> Group:
    if progress.phase != RUNNING and not progress.now_s:
        return Group(Text(f"{progress.phase} …"))
    layers = Table(box=None, pad_edge=False)
    layers.add_column("layers", justify="right")
    layers.add_column("cumulative rate", justify="right")
    layers.add_column("subscribers", justify="right")
    layers.add_column("")
    rates, counts = progress.cumulative_rates, progress.subscribers
    top = max([*rates, 1.0])
    for n, (rate, count) in enumerate(zip(rates, counts, strict=True), 1):
        layers.add_row(
            str(n),
            f"{rate / 1e6:.2f} Mbit/s",
            str(count),
            ProgressBar(total=top, completed=rate, width=30),
        )
    facts = Table.grid(padding=(0, 2))
    facts.add_row("time", f"{progress.now_s:.0f} of {progress.duration_s:.0f} s", progress.phase)
    facts.add_row("efficiency", _number(progress.efficiency), "")
    if beside := _beside_tcp(progress):
        facts.add_row("throughput", beside, "")
    facts.add_row("longest queue", _queue(progress), "")
    facts.add_row("packets so far", _fates(progress), "")
    troubles = progress.troubles()
    facts.add_row(
        "machine",
        Text(_keeping_up(progress), style="bold red" if troubles else "green"),
        "",
    )
    return Group(facts, Text(), layers)


def _beside_tcp(progress: Progress) -> str:
    """Empty without competing flows; above four their range."""
    rates = [f"{rate / 1e6:.2f}" for rate in progress.tcp_rates]
    if not rates:
        return ""
    shown = "/".join(rates) if len(rates) <= 4 else f"{rates[0]}..{rates[-1]} ({len(rates)} flows)"
    received = progress.received
    mine = "–" if received is None else f"{received / 1e6:.2f}"
    return f"received {mine} beside TCP {shown} Mbit/s  "


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _queue(progress: Progress) -> str:
    longest = progress.longest_queue
    return "–" if longest is None else f"{longest[0]} packets ({longest[1]})"


def _fates(progress: Progress) -> str:
    """Since the start, at all ports."""
    known = ("–" if count is None else str(count) for count in progress.fates or [None] * 3)
    by_queues, by_policies, marked = known
    return f"dropped {by_queues} by queues, {by_policies} by policies, marked {marked}"


def _keeping_up(progress: Progress) -> str:
    if progress.virtual:
        return "virtual time"
    troubles = progress.troubles()
    cpu = "" if progress.cpu_percent is None else f" (CPU {progress.cpu_percent:.0f} %)"
    if troubles:
        return f"does not keep up: {', '.join(troubles)}"
    return f"keeps up{cpu}"


def result_tables(summary: dict[str, Any]) -> Group:
    """Paper against measured, or what was measured where nothing was expected; the bounds of
    validity, and the verdict."""
    against = "paper against " if summary["experiment"].get("paper") else "expected against "
    title = f"{against if summary['expected'] else ''}measured, {window_text(summary)}"
    if summary["expected"]:
        paper = Table(title=title, title_justify="left")
        for heading in ("figure", "paper", "required", "measured", ""):
            paper.add_column(heading, justify="left" if heading == "figure" else "right")
        for figure in summary["expected"]:
            row = figure_row(figure)
            style = "green" if figure["ok"] else "bold red" if figure["gate"] else "yellow"
            mark = Text(row["verdict"], style=style)
            paper.add_row(row["name"], row["paper"], row["required"], row["measured"], mark)
        parts = [paper]
    else:
        parts = [*_measured_tables(summary, title)]
    valid = Table(title="may the run be believed", title_justify="left")
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


def window_text(summary: dict[str, Any]) -> str:
    """Over what a run's measures are taken."""
    start, end = summary["window_s"]
    if end < summary["duration_s"]:
        return f"from {start:g} to {end:g} s"
    return f"over the last {end - start:g} s"


SESSIONS_SHOWN = 4


def _measured_tables(summary: dict[str, Any], title: str) -> list[Table]:
    """What says something of the run as a whole, and of each session or the first of many; the
    report has each receiver, flow and period, too."""
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


def figure_row(figure: dict[str, Any]) -> dict[str, str]:
    """An expected figure as text, for the terminal and for the report."""
    spec, shown = spec_of(figure["name"])
    return {
        "name": shown,
        "purpose": spec.purpose,
        "paper": "–" if figure["paper"] is None else spec.show(figure["paper"]),
        "required": required_text(spec.show, figure["tolerance"], figure["min"], figure["max"]),
        "measured": "no data" if figure["measured"] is None else spec.show(figure["measured"]),
        "verdict": ("met" if figure["ok"] else "not met")
        + ("" if figure["gate"] else ", not required"),
    }


def required_text(
    show: Callable[[float], str], tolerance: float | None, low: float | None, high: float | None
) -> str:
    """What verdict.meets asks for: "± 15 %, ≤ 2.00 Mbit/s"."""
    parts = [f"± {tolerance * 100:g} %"] if tolerance is not None else []
    parts += [f"≥ {show(low)}"] if low is not None else []
    parts += [f"≤ {show(high)}"] if high is not None else []
    return ", ".join(parts)


def check_row(check: dict[str, Any]) -> dict[str, str]:
    """A figure of validity as text, for the terminal and for the report; shares as per cent."""
    unit = f"% {check['unit']}" if check["unit"].startswith("of ") else check["unit"]
    factor = 100 if check["unit"].startswith("of ") else 1
    measured, bound = check["measured"], check["bound"]
    return {
        "name": check["name"].replace("_", " "),
        "purpose": check["purpose"],
        "measured": "no data"
        if measured is None
        else f"{factor * measured:.3g} {unit.partition(' ')[0]}",
        "bound": "–" if bound is None else f"≤ {factor * bound:g} {unit}",
        "verdict": _check_verdict(check),
    }


def _check_verdict(check: dict[str, Any]) -> str:
    if check["measured"] is None:
        return "not checked" if check["ok"] else "no data"
    return "ok" if check["ok"] else "exceeded"


@contextlib.contextmanager
def show_runs(console: Console) -> Iterator[Callable[[Tally], None]]:
    """Progress and time left of many runs; what it gives is called with the state of them."""
    if not console.is_terminal:
        yield _PlainRuns(console).say
        return
    with Live(console=console, refresh_per_second=4, transient=True) as live:

        def draw(tally: Tally) -> None:
            grid = Table.grid(padding=(0, 2))
            grid.add_row(
                f"{tally.done} of {tally.total} runs",
                ProgressBar(total=max(tally.total, 1), completed=tally.done, width=40),
                *_asides(tally),
            )
            names = list(tally.running.values())[:RUNS_SHOWN]
            live.update(Group(grid, *(Text(f"  {name}", style="dim") for name in names)))

        yield draw


RUNS_SHOWN = 4


class _PlainRuns:
    """Twenty lines at most, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = -1

    def say(self, tally: Tally) -> None:
        step = tally.done * 20 // max(tally.total, 1)
        if step != self._last:
            self._last = step
            text = ", ".join([f"{tally.done} of {tally.total} runs", *_asides(tally)])
            self._console.print(text, highlight=False, markup=False)


def _asides(tally: Tally) -> list[str]:
    parts = [f"{tally.found} found"] if tally.found else []
    if tally.deaths:
        parts.append(f"{tally.deaths} worker{'s' if tally.deaths > 1 else ''} died")
    if tally.left_s is not None and tally.done < tally.total:
        parts.append(f"{units.format_span(tally.left_s)} left")
    return parts


def figure_tables(summary: dict[str, Any]) -> Group:
    """A reproduced figure: paper against measured, and the verdict."""
    source = f" ({summary['paper']})" if summary["paper"] else ""
    table = Table(title=summary["title"] + source, title_justify="left")
    several = len({row["x"] for row in summary["expected"]}) > 1
    point = [summary["x"] or "at"] if several else []
    for heading in ("measure", *point, "paper", "required", "measured", ""):
        table.add_column(heading, justify="left" if heading == "measure" else "right")
    for row in summary["expected"]:
        style = "green" if row["ok"] else "bold red" if row["gate"] else "yellow"
        mark = ("met" if row["ok"] else "not met") + ("" if row["gate"] else ", not required")
        mark = mark if row["required"] else ""
        name = f"{row['curve']} {row['measure'].replace('_', ' ')} {row['over']}".strip()
        at = [f"{row['x']:g}"] if several else []
        table.add_row(
            name, *at, row["paper_text"], row["required"], row["text"], Text(mark, style=style)
        )
    style = {"met": "bold green", "reported": "bold yellow"}.get(summary["verdict"], "bold red")
    lines = [Text(f"verdict: {summary['verdict']}", style=style)]
    return Group(table, *lines, *(Text(f"  {failure}") for failure in summary["failures"]))


def measures_table() -> Table:
    table = Table(*catalogue.HEADINGS)
    for row in catalogue.rows():
        table.add_row(*(Text(cell.replace("`", "")) for cell in row))
    return table


def schemes_table(schemes: dict[str, SchemeInfo]) -> Table:
    table = Table("scheme", "rates", "parameters")
    for scheme in schemes.values():
        rates = "one for each layer" if scheme.layered else "one for all"
        table.add_row(scheme.name, rates, str(len(scheme.parameters)))
    return table


def parameters_table(scheme: SchemeInfo) -> Table:
    table = Table(
        "parameter",
        title=f"{scheme.name}: --set, or `parameters` of a session",
        caption=f"docs/protocols/{scheme.name}.md has the rules; PROTOCOLS: docs/PROTOCOLS.md",
        title_justify="left", caption_justify="left",
    )  # fmt: skip
    for heading in ("default", "valid", "unit", "purpose", "source"):
        table.add_column(heading)
    for one in scheme.parameters.values():
        valid = f"{one.min:g} to {one.max:g}"
        table.add_row(one.name, f"{one.default:g}", valid, one.unit, one.purpose, one.source)
    return table


CELLS_SHOWN = 40


def sweep_table(results: SweepResults) -> Table | str:
    """Each cell's means, or where they stand if they are too many for a screen; where the sweep
    asks for distributions, these."""
    if results.file.sweep.distribution_over is not None:
        return _distribution_table(results)
    if len(results.cells) > CELLS_SHOWN:
        return f"{len(results.cells)} cells, in cells.csv and in the report"
    sweep = results.file.sweep
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
    sweep = results.file.sweep
    over = sweep.distribution_over
    shares = ["5 %", "median", "95 %"]
    table = Table(
        "", "measure", "cells", "lowest", over, *shares, "highest", over,
        title=f"{sweep.title}: distributions over {over}", title_justify="left",
    )  # fmt: skip
    for measure in sweep.measures:
        show, name = spec_of(measure)[0].show, spec_of(measure)[1]
        for one in results.distributions(measure):
            ends = [
                [show(cell.means[measure].value), cell.cell.names[over]]
                for cell in (one.cells[0], one.cells[-1])
            ]
            middle = [show(one.quantile(share)) for share in (0.05, 0.5, 0.95)]
            table.add_row(str(one), name, str(len(one.cells)), *ends[0], *middle, *ends[1])
    return table


def mean_text(measure: str, value: Mean | None) -> str:
    """A mean over seeds, with half of its 95 % interval where there are several."""
    if value is None:
        return "–"
    show = spec_of(measure)[0].show
    spread = "" if value.spread is None else f" ± {show(value.spread)}"
    return show(value.value) + spread


def required_and_met(summary: dict[str, Any]) -> str:
    """Of the numbers that decide."""
    gated = [row for row in summary["expected"] if row["gate"]]
    return f"{sum(row['ok'] for row in gated)} of {len(gated)}"


def tally(summaries: list[dict[str, Any]]) -> str:
    """Of many figures: how many were met, and how many are not judged."""
    verdicts = [one["verdict"] for one in summaries]
    reported = verdicts.count("reported")
    text = f"{verdicts.count('met')} of {len(verdicts) - reported} met"
    return text + (f", {reported} reported" if reported else "")


def verdict_table(summaries: list[dict[str, Any]]) -> Table:
    """Of many figures: each verdict, and how many of the numbers that decide were met."""
    table = Table(title=f"Figures: {tally(summaries)}", title_justify="left")
    for heading in ("figure", "paper", "required and met", ""):
        table.add_column(heading)
    for one in summaries:
        style = {"met": "green", "reported": "yellow"}.get(one["verdict"], "bold red")
        mark = Text(one["verdict"], style=style)
        table.add_row(one["figure"], one["paper"], required_and_met(one), mark)
    return table
