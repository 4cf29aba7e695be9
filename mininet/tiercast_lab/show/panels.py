"""The contents of a run's picture and interactive report, as data. These panels serve any
scheme."""

from __future__ import annotations

import warnings
from collections.abc import Sized
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tiercast_lab.base.frames import as_float_or_none
from tiercast_lab.measures.beside_tcp import flow_rate
from tiercast_lab.measures.rows import (
    cumulative_rates,
    mean_received_rate,
    received_rate,
    subscribers,
)
from tiercast_lab.results.links import numbers_of
from tiercast_lab.results.storage import StoredRun

# Okabe and Ito's palette. Colour-blind readers can tell the colours apart, and they differ in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F00")
MBIT = 1e6
STEP_S = 0.5  # s, for rates
COARSE_STEP_S = 1.0  # s, for efficiency and instability


@dataclass(frozen=True)
class Series:
    label: str
    x: np.ndarray  # s
    y: np.ndarray
    colour: str
    steps: bool = False  # piecewise constant: y holds until the next x
    thin: bool = False
    dash: str = ""  # SVG's stroke-dasharray; empty: a solid line


@dataclass(frozen=True)
class Reference:
    """A thin horizontal line for an expected figure or a link's rate."""

    y: float
    label: str
    colour: str


@dataclass(frozen=True)
class Panel:
    key: str  # also the file name
    title: str
    y_label: str
    series: list[Series]
    references: list[Reference] = field(default_factory=list)
    y_max: float | None = None
    note: str = ""  # shown in place of data if there is none


def time_edges(run: StoredRun, step: float) -> np.ndarray:
    end = run.end_s
    return np.linspace(0, end, max(1, round(end / step)) + 1)


def middles(edges: np.ndarray) -> np.ndarray:
    between: np.ndarray = (edges[:-1] + edges[1:]) / 2
    return between


def layers_text(n: int) -> str:
    return f"{n} layer" + ("s" if n > 1 else "")


def subscriptions(run: StoredRun, title: str) -> Panel:
    end = run.end_s
    frame = run.rows.get("subscription")
    changes = [] if frame is None else frame["time_s"].unique().sort().to_list()
    times = np.array([0.0, *(t for t in changes if 0 < t < end), end])
    counts = subscribers(run.rows, run.context.session, times)
    return Panel(
        "c-subscriptions",
        title,
        "receivers",
        [
            Series(layers_text(n), times, counts[n - 1], COLOURS[n - 1], steps=True)
            for n in range(1, run.context.session.layers + 1)
        ],
        y_max=len(run.context.receivers) * 1.05,
    )


def representatives(run: StoredRun) -> dict[str, float]:
    """One receiver for each available bandwidth, slowest first, with that bandwidth in bit/s."""
    chosen: dict[float, str] = {}
    for agent in run.context.receivers:
        chosen.setdefault(run.context.receivers[agent].available[0][1], agent)
    return {chosen[rate]: rate for rate in sorted(chosen)}


MOST_LINES = len(COLOURS)
# Columns that say what a record is about. Each of their values has a line of its own.
KEY_COLUMNS = ("rank", "layer", "receiver", "member")
LEAST_CHANGE = 5e-5  # a variable has a panel if it changes by this share of its largest value
POINTS = 1000  # per line of a variable: the last value in each thousandth of the run


def some_receivers(run: StoredRun, most: int) -> list[str]:
    """At most `most` receivers: first one for each available bandwidth, then others in their
    order."""
    chosen = list(representatives(run))
    chosen += [agent for agent in run.context.receivers if agent not in chosen]
    return sorted(chosen[:most], key=list(run.context.receivers).index)


def _part(shown: Sized, of: Sized, what: str) -> str:
    return f" ({len(shown)} of {len(of)} {what})" if len(shown) < len(of) else ""


def session_rates(run: StoredRun) -> Panel:
    edges = time_edges(run, STEP_S)
    agents = some_receivers(run, MOST_LINES)
    receivers = run.summary["network"]["sessions"][0]["receivers"]
    shares = {receivers[agent]["share"] / MBIT for agent in agents}
    return Panel(
        "rates-receivers",
        "Received rates of the session" + _part(agents, run.context.receivers, "receivers"),
        "Mbit/s",
        [
            Series(
                agent,
                middles(edges),
                received_rate(run.rows, run.context.receivers[agent], agent, edges) / MBIT,
                COLOURS[index],
            )
            for index, agent in enumerate(agents)
        ],
        [Reference(share, f"equal share: {share:.3g}", "#555555") for share in sorted(shares)],
    )


def sessions(run: StoredRun) -> Panel:
    """Each session's rate, mean over its receivers; for many sessions the first and the range of
    the others."""
    edges = time_edges(run, STEP_S)
    schemes = {one["session"]: one["scheme"] for one in run.summary["network"]["sessions"]}
    rates = {
        f"session {one.number} ({schemes[one.number]})": mean_received_rate(
            run.rows, one.receivers, edges
        )
        / MBIT
        for one in run.context.sessions
    }
    if len(rates) > MOST_LINES:
        first, *names = rates
        others = np.array([rates[name] for name in names])
        with warnings.catch_warnings():
            # For the time before any receiver is present.
            warnings.simplefilter("ignore", RuntimeWarning)
            rates = {
                first: rates[first],
                f"mean of {len(others)} others": np.nanmean(others, axis=0),
                "slowest of them": np.nanmin(others, axis=0),
                "fastest of them": np.nanmax(others, axis=0),
            }
    return Panel(
        "rates-sessions",
        "The sessions: received rates, mean over receivers",
        "Mbit/s",
        [
            Series(name, middles(edges), rate, COLOURS[index])
            for index, (name, rate) in enumerate(rates.items())
        ],
    )


def beside_tcp(run: StoredRun) -> Panel:
    """The session's rate, mean over its receivers, beside that of each TCP flow, or the flows'
    range if there are many."""
    edges = time_edges(run, STEP_S)
    session = mean_received_rate(run.rows, run.context.receivers, edges) / MBIT
    flows = {
        name: flow_rate(run.rows, name, flow, edges) / MBIT
        for name, flow in run.context.rivals.items()
    }
    if len(flows) >= MOST_LINES:
        rates = np.array(list(flows.values()))
        flows = {
            f"mean of {len(flows)} flows": rates.mean(axis=0),
            "slowest flow": rates.min(axis=0),
            "fastest flow": rates.max(axis=0),
        }
    series = [Series("session (mean)", middles(edges), session, COLOURS[0])]
    for index, (name, rate) in enumerate(flows.items(), 1):
        series.append(Series(name, middles(edges), rate, COLOURS[index], thin=True))
    return Panel("rates-tcp", "The session beside TCP", "Mbit/s", series)


def sending_rates(run: StoredRun) -> Panel:
    """The rates that the sender sent, and the rates that the scheme set if it sets any."""
    edges = time_edges(run, STEP_S)
    layers = run.context.session.layers
    rates = cumulative_rates(run.rows, run.context.session, edges) / MBIT
    series = [
        Series(
            layers_text(n) if layers > 1 else "sent", middles(edges), rates[n - 1], COLOURS[n - 1]
        )
        for n in range(1, layers + 1)
    ]
    frame = run.rows.get("layer")
    if layers == 1 and frame is not None:
        mine = run.rows.of("layer", run.context.session.sender)
        if (rate := mine["rate_Bps"].to_numpy()).any():
            x = mine["time_s"].to_numpy()
            series.append(Series("set", x, rate * 8 / MBIT, COLOURS[1], steps=True, thin=True))
    return Panel("rates-sender", "Sending rate", "Mbit/s", series)


def queues(run: StoredRun) -> Panel:
    frame = run.rows.get("port")
    places = {one.direction for user in run.context.receivers.values() for one in user.bottlenecks}
    all_links = sorted(places, key=numbers_of)
    links = all_links[:MOST_LINES]
    title, unit = "Queues at the bottlenecks: longest of each second", "packets"
    title += _part(links, all_links, "links")
    if frame is None or frame["max_queue_packets"].is_null().all() or not links:
        return Panel("queues", title, unit, [], note="the switches did not report queues")
    series = []
    for index, link in enumerate(links):
        mine = frame.filter(pl.col("link") == link).sort("time_s")
        x, y = mine["time_s"].to_numpy(), mine["max_queue_packets"].to_numpy()
        series.append(Series(link, x, y, COLOURS[index]))
    return Panel("queues", title, unit, series)


def variables(run: StoredRun) -> list[Panel]:
    """One panel for each number in each kind of record that the scheme traced, if it changes. The
    kinds with the most records come first."""
    kinds = [(kind, f) for kind, f in run.rows.items() if kind.startswith(f"{run.scheme}.")]
    panels = []
    for kind, frame in sorted(kinds, key=lambda item: (-len(item[1]), item[0])):
        for column in frame.columns:
            if column in ("time_s", "agent", *KEY_COLUMNS) or not frame[column].dtype.is_numeric():
                continue
            if _changes(frame[column]):
                panels.append(_variable(run, kind, column, frame))
    return panels


def _changes(values: pl.Series) -> bool:
    """Whether the values change enough to be seen. On an axis from 0, a sequence number in the
    billions is a straight line."""
    least, most = as_float_or_none(values.min()), as_float_or_none(values.max())
    return (
        least is not None
        and most is not None
        and most - least > LEAST_CHANGE * max(abs(least), abs(most))
    )


def _variable(run: StoredRun, kind: str, column: str, frame: pl.DataFrame) -> Panel:
    name, unit, factor = _in_unit(column)
    keys = ["agent", *(key for key in KEY_COLUMNS if key in frame.columns)]
    end = run.end_s
    wanted = set(some_receivers(run, MOST_LINES)) | {run.context.session.sender}
    series: list[Series] = []
    for key, rows in sorted(frame.filter(pl.col("agent").is_in(wanted)).group_by(keys)):
        if len(series) == MOST_LINES:
            break
        lines = rows.sort("time_s").filter(pl.col("time_s").is_between(0, end))
        lines = lines.filter(
            (pl.col("time_s") * POINTS / end).floor().diff(-1).fill_null(-1) != 0
        ).drop_nulls(column)
        if lines.is_empty():
            continue
        x, y = lines["time_s"].to_numpy(), lines[column].to_numpy().astype(float) * factor
        label = " ".join(
            [str(key[0]), *(f"{k} {v:g}" for k, v in zip(keys[1:], key[1:], strict=True))]
        )
        x, y = np.append(x, end), np.append(y, y[-1])
        series.append(Series(label, x, y, COLOURS[len(series)], steps=True))
    return Panel(f"{kind}-{column}", f"{kind}: {name}", unit, series)


def _in_unit(column: str) -> tuple[str, str, float]:
    """A column's name without its unit, the unit to show, and the factor to convert by."""
    for suffix, unit, factor in (("_us", "ms", 1e-3), ("_Bps", "Mbit/s", 8 / MBIT), ("_s", "s", 1)):
        if column.endswith(suffix):
            return column.removesuffix(suffix), unit, factor
    return column, column, 1.0
