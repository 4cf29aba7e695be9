"""The report of `tiercast marking`: an HTML page with pictures, all in one file."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from tiercast_controller.base.units import format_duration

from tiercast_lab.base.whole_file import write_whole
from tiercast_lab.show import pages
from tiercast_lab.show.panels import COLOURS
from tiercast_lab.show.plots import DPI, METADATA, STYLE, make_y_log
from tiercast_lab.show.traced_report import draw_law
from tiercast_lab.study.marking import Link
from tiercast_lab.study.marking_results import AtLoad, Judgement, OfQueues
from tiercast_lab.study.marking_steps import STEP_S, Over
from tiercast_lab.study.marking_tcp import FlowKind, Tcp, UnderTcp

TIMES = ("target", "interval", "burst", "min_th", "range")  # keys that are in ns
HEADINGS = (
    "arrivals", "load", "utilisation", "marked", "dropped", "queue full", "wait p50", "p95", "p99"
)  # fmt: skip

QUEUE_HEADINGS = (
    "load", "Classic: wait p50", "p95", "L4S: wait p50", "p95", "Classic dropped", "L4S marked",
    "L4S dropped", "k √(Classic dropped)"
)  # fmt: skip

LEAST_MS = 0.5  # of waits on a logarithmic axis
TCP_HEADINGS = (
    "kind", "flows", "utilisation", "Mbit/s", "marked", "dropped", "queue full", "wait p50",
    "p95", "p99", "Jain's index", "DCTCP to Classic"
)  # fmt: skip


def write_report(judged: Sequence[Judgement], link: Link, seconds: float, folder: Path,
                 command: str, tcp: Tcp | None = None) -> Path:  # fmt: skip
    """Writes report.html and the pictures into the folder; returns the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {"laws": _laws, "queues": _queues, "loads": _loads, "steps": _steps}
    if judged[0].tcp:
        drawn |= {"tcp": _under_tcp, "tcp_steps": _tcp_steps}
    pictures = {name: folder / f"{name}.png" for name in drawn}
    with plt.rc_context(STYLE):
        for name, draw in drawn.items():
            _save(pictures[name], draw(judged))
    html = pages.render(
        "marking.html.j2",
        title=", ".join(one.name for one in judged),
        link=link,
        seconds=seconds,
        judged=[_shown(one) for one in judged],
        steps=[step.title for step in (*judged[0].steps, *judged[0].tcp_steps)],
        headings=HEADINGS,
        queue_headings=QUEUE_HEADINGS,
        tcp=tcp,
        tcp_headings=TCP_HEADINGS,
        tcp_rows=[
            tcp_row(one.name, row, flows)
            for one in judged
            for row in one.tcp
            for flows in (None, *(row.kinds if len(row.kinds) > 1 else ()))
        ],
        pictures={name: pages.embedded(path) for name, path in pictures.items()},
        command=command,
    )
    page = folder / "report.html"
    write_whole(page, html)
    return page


def with_names(judged: Sequence[Judgement]) -> list[Judgement]:
    """Each with the keys in which it differs in its name, where a kind is judged several times."""
    result = []
    for one in judged:
        alike = [other.keys for other in judged if other.kind == one.kind]
        differ = [key for key, value in one.keys.items() if any(o[key] != value for o in alike)]
        keys = "".join(f", {key} {_value(key, one.keys[key])}" for key in differ)
        result.append(replace(one, name=one.kind + keys))
    return result


def load_row(one: AtLoad) -> list[str]:
    waits = (one.wait_p50, one.wait_p95, one.wait_p99)
    return [
        one.arrivals,
        f"{one.load:g}",
        f"{one.utilisation:.3f}",
        *(f"{share:.2%}" for share in (one.marked, one.dropped, one.queue_full)),
        *("–" if math.isnan(wait) else f"{1e3 * wait:.1f} ms" for wait in waits),
    ]


def queue_row(one: OfQueues) -> list[str]:
    waits = (one.classic_wait_p50, one.classic_wait_p95, one.l4s_wait_p50, one.l4s_wait_p95)
    shares = (one.classic_dropped, one.l4s_marked, one.l4s_dropped)
    return [
        f"{one.load:g}",
        *("–" if math.isnan(wait) else f"{1e3 * wait:.1f} ms" for wait in waits),
        *(f"{share:.2%}" for share in shares),
        f"{one.coupled:.2%}" if one.coupled < 1 else "overload",
    ]


def tcp_row(name: str, one: UnderTcp, flows: FlowKind | None = None) -> list[str]:
    """Of a load of TCP, or of the `flows` of one kind among it."""
    if flows is None:
        shares: Sequence[float] = (one.marked, one.dropped, one.queue_full)
        waits, goodput = one.waits, one.goodput
        whole = [f"{one.jain:.3f}", "" if one.ratio is None else f"{one.ratio:.2f}"]
    else:
        shares, waits, goodput = (flows.marked, flows.dropped), flows.waits, sum(flows.goodputs)
        whole = ["", ""]
    return [
        name if flows is None else "",
        one.title if flows is None else f"of these {flows.control}",
        f"{one.utilisation:.3f}" if flows is None else "",
        f"{goodput / 1e6:.2f}",
        *(f"{share:.2%}" for share in shares),
        *([] if flows is None else [""]),
        *("–" if math.isnan(wait) else f"{1e3 * wait:.1f} ms" for wait in waits),
        *whole,
    ]


def _shown(one: Judgement) -> dict[str, Any]:
    if one.kind == "none":
        law = "–"
    elif one.law is None:
        law = "no equation of one quantity: it is a process in time"
    elif not one.curve:
        law = "nothing was judged"
    else:
        law = (
            f"{len(one.curve)} ranges of {one.law.of}, the equation outside the 95 % interval "
            f"of {one.outside}"
        )
    return {
        "name": one.name,
        "keys": ", ".join(f"{key} {_value(key, value)}" for key, value in one.keys.items()) or "–",
        "law": law,
        "loads": [load_row(row) for row in one.loads],
        "ns3": {name: [load_row(row) for row in rows] for name, rows in one.ns3.items()},
        "queues": [queue_row(row) for row in one.queues],
        "classes": one.classes,
        "state_bits": one.state_bits,
        "entry_bits": one.entry_bits,
        "cost": one.cost,
        "steps": [settled(step) for step in (*one.steps, *one.tcp_steps)],
    }


def _value(key: str, value: object) -> str:
    """As the YAML has it."""
    if key in TIMES and isinstance(value, int):
        return format_duration(value)
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def settled(step: Over) -> str:
    return "does not settle" if step.settled_s is None else f"{step.settled_s:.1f} s"


def _save(path: Path, figure: Any) -> None:
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, metadata=METADATA)
    write_whole(path, buffer.getvalue())
    plt.close(figure)


def _laws(judged: Sequence[Judgement]) -> Any:
    shown = [one for one in judged if one.curve]
    across = max(1, min(3, len(shown)))
    down = max(1, -(-len(shown) // across))
    figure, axes = plt.subplots(
        down, across, figsize=(5.4 * across, 3.8 * down), layout="constrained", squeeze=False
    )
    for axis, one in zip(axes.flat, shown, strict=False):
        assert one.law is not None  # or there is no curve
        unit = f" ({one.law.unit})" if one.law.unit else ""
        draw_law(axis, one.curve, one.name, one.law.of + unit)
    for axis in axes.flat[len(shown) :]:
        axis.set_axis_off()
    return figure


def _loads(judged: Sequence[Judgement]) -> Any:
    figure, axes = plt.subplots(2, 3, figsize=(15, 7.4), layout="constrained")
    for line, arrivals in enumerate(("poisson", "bursts")):
        columns: tuple[tuple[str, Callable[[AtLoad], float]], ...] = (
            ("wait, 95th percentile (ms)", lambda row: 1e3 * row.wait_p95),
            ("utilisation", lambda row: row.utilisation),
            ("marked, dropped, queue full", lambda row: row.marked + row.dropped + row.queue_full),
        )
        for axis, (label, value) in zip(axes[line], columns, strict=True):
            for number, one in enumerate(judged):
                rows = [row for row in one.loads if row.arrivals == arrivals]
                colour = COLOURS[number % len(COLOURS)]
                axis.plot(
                    [row.load for row in rows],
                    [value(row) for row in rows],
                    color=colour,
                    linestyle=_dashes(number),
                    marker=".",
                    label=one.name,
                )
                for (disc, beside), marker in zip(one.ns3.items(), "x+", strict=False):
                    same = [row for row in beside if row.arrivals == arrivals]
                    axis.plot(
                        [row.load for row in same],
                        [value(row) for row in same],
                        color=colour,
                        linestyle="none",
                        marker=marker,
                        label=f"ns-3's {disc}",
                    )
            axis.set_title(f"{arrivals}: {label}")
            axis.set_xlabel("load")
            axis.set_ylim(bottom=0)
    axes[0][0].legend(frameon=False, fontsize=8.5)
    return figure


def _queues(judged: Sequence[Judgement]) -> Any:
    """All laws over the packets that were waiting."""
    figure, axis = plt.subplots(figsize=(9, 4.4), layout="constrained")
    for number, one in enumerate(judged):
        x = [at.at for at in one.queue]
        colour = COLOURS[number % len(COLOURS)]
        low, high = ([getattr(at, end) for at in one.queue] for end in ("low", "high"))
        axis.fill_between(x, low, high, color=colour, alpha=0.25, linewidth=0)
        axis.plot(
            x,
            [at.share for at in one.queue],
            color=colour,
            linestyle=_dashes(number),
            label=one.name,
        )
    axis.set_xlabel("packets found waiting")
    axis.set_ylabel("marked or dropped")
    axis.set_ylim(-0.02, 1.05)
    axis.legend(frameon=False, fontsize=8.5, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _under_tcp(judged: Sequence[Judgement]) -> Any:
    """For each load of TCP: waits from the median to the 99th percentile, and shares of the link
    by flow."""
    count = len(judged[0].tcp)
    names = [one.name for one in judged]
    places = range(len(names))
    figure, axes = plt.subplots(
        2, count, figsize=(5 * count, 2 + 0.62 * len(names)), layout="constrained", squeeze=False,
        sharey=True,
    )  # fmt: skip
    for column in range(count):
        above, below = axes[0][column], axes[1][column]
        for place, one in zip(places, judged, strict=True):
            kinds = one.tcp[column].kinds
            for number, flows in enumerate(kinds):
                at = place + (number - (len(kinds) - 1) / 2) * 0.3
                colour = COLOURS[number]
                p50, p95, p99 = (1e3 * wait for wait in flows.waits)
                above.hlines(at, p50, p99, color=colour, linewidth=1.2)
                above.plot([p50, p95, p99], [at] * 3, "|", color=colour, markersize=8)
                rates = [rate / 1e6 for rate in flows.goodputs]
                below.plot(rates, [at] * len(rates), "o", color=colour, markersize=3.5, alpha=0.7,
                           label=flows.control if place == 0 else None)  # fmt: skip
        above.set_title(judged[0].tcp[column].title)
        above.set_xlabel("wait: 50, 95 and 99 % (ms)")
        below.set_xlabel("goodput of each flow (Mbit/s)")
        for axis in (above, below):
            axis.set_xlim(left=0)
            axis.set_yticks(list(places), names)
        if column == count - 1:
            below.legend(frameon=False, fontsize=8.5)
    axes[0][0].invert_yaxis()  # in the order of the tables
    return figure


def _steps(judged: Sequence[Judgement]) -> Any:
    return _step_panels([one.steps for one in judged], judged)


def _tcp_steps(judged: Sequence[Judgement]) -> Any:
    smooth = [[_of_a_second(step) for step in one.tcp_steps] for one in judged]
    return _step_panels(smooth, judged, log=True)


def _of_a_second(step: Over) -> Over:
    """Means of the second around: windows move a queue several times a second."""
    window = round(1 / STEP_S)
    waits = np.array(step.wait)
    known = np.convolve(~np.isnan(waits), np.ones(window), "same")
    sums = np.convolve(np.nan_to_num(waits), np.ones(window), "same")
    means = np.divide(sums, known, out=np.full(len(waits), math.nan), where=known > 0)
    return replace(step, wait=list(means))


def _step_panels(
    steps: Sequence[Sequence[Over]], judged: Sequence[Judgement], log: bool = False
) -> Any:
    count = len(steps[0])
    figure, axes = plt.subplots(1, count, figsize=(7.5 * count, 4), layout="constrained")
    for place, axis in enumerate(axes):
        _step(axis, [of_one[place] for of_one in steps], [one.name for one in judged])
        if log:
            make_y_log(axis)
        axis.set_ylim(bottom=LEAST_MS if log else 0)
    axes[-1].legend(frameon=False, fontsize=8.5, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _dashes(number: int) -> str:
    """Of a line whose colour another one may have, too."""
    return "-" if number < len(COLOURS) else "--"


def _step(axis: Axes, steps: Sequence[Over], names: Sequence[str]) -> None:
    for number, (step, name) in enumerate(zip(steps, names, strict=True)):
        waits = [1e3 * wait for wait in step.wait]
        axis.plot(
            step.times,
            waits,
            color=COLOURS[number % len(COLOURS)],
            linestyle=_dashes(number),
            linewidth=1.1,
            label=name,
        )
    axis.set_title(steps[0].title)
    axis.set_xlabel("time (s)")
    axis.set_ylabel("wait (ms)")
