"""The six panels of SIM figure 2 as data, for the picture and for the interactive report."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tiercast_lab import measures
from tiercast_lab.storage import StoredRun
from tiercast_lab.units import format_rate

# Okabe and Ito's palette: told apart by colour-blind readers, and in grey by its lightness.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F00")
MBIT = 1e6
STEP_S = 0.5  # of rates
COARSE_STEP_S = 1.0  # of efficiency and instability


@dataclass(frozen=True)
class Series:
    label: str
    x: np.ndarray  # s
    y: np.ndarray
    colour: str
    steps: bool = False  # piecewise constant: y holds until the next x
    thin: bool = False


@dataclass(frozen=True)
class Reference:
    """A thin horizontal line: an expected figure or a link's rate."""

    y: float
    label: str
    colour: str


@dataclass(frozen=True)
class Panel:
    key: str  # file name
    title: str
    y_label: str
    series: list[Series]
    references: list[Reference] = field(default_factory=list)
    y_max: float | None = None
    note: str = ""  # said in place of data where there is none


def all_panels(run: StoredRun) -> list[Panel]:
    return [
        layer_rates(run),
        menu(run),
        subscriptions(run),
        received_rates(run),
        efficiency(run),
        instability(run),
    ]


def _edges(run: StoredRun, step: float) -> np.ndarray:
    end = run.summary["duration_s"]
    return np.linspace(0, end, max(1, round(end / step)) + 1)


def _middle(edges: np.ndarray) -> np.ndarray:
    return (edges[:-1] + edges[1:]) / 2


def _layers(n: int) -> str:
    return f"{n} layer" + ("s" if n > 1 else "")


def _expected(run: StoredRun, measure: str) -> dict[str, dict[str, float]]:
    return {f["name"]: f for f in run.summary["expected"] if f["name"].startswith(measure)}


def layer_rates(run: StoredRun) -> Panel:
    edges = _edges(run, STEP_S)
    rates = measures.cumulative_rates(run.rows, run.context, edges) / MBIT
    expected = _expected(run, "cumulative_rate_")
    references = []
    for n in range(1, run.context.layers + 1):
        figure = expected.get(f"cumulative_rate_{n}")
        if figure and figure["paper"] is not None:
            value = figure["paper"] / MBIT
            references.append(Reference(value, f"paper: {value:g}", COLOURS[n - 1]))
    return Panel(
        "a-layer-rates",
        "(a) Cumulative sending rates of the layers",
        "Mbit/s",
        [
            Series(_layers(n), _middle(edges), rates[n - 1], COLOURS[n - 1])
            for n in range(1, run.context.layers + 1)
        ],
        references,
    )


def menu(run: StoredRun) -> Panel:
    """Limits of the middle layers while the menu is active  // SIM 3.1"""
    title, unit = "(b) Menu: limits of the cumulative rates", "Mbit/s"
    frame = run.rows.get("sim.menu")
    if frame is None or frame.is_empty():
        return Panel("b-menu", title, unit, [], note="the menu was never computed")
    end = run.summary["duration_s"]
    times = np.append(frame["time_s"].to_numpy(), end)

    def line(column: str, label: str, colour: str, gate: np.ndarray, thin: bool) -> Series:
        values = np.where(gate, frame[column].to_numpy() * 8 / MBIT, np.nan)
        return Series(label, times, np.append(values, values[-1]), colour, True, thin)

    always = np.ones(len(frame), dtype=bool)
    active = frame["active"].to_numpy() > 0
    series = [
        line("max", "fastest receiver", "#555555", always, True),
        line("min", "slowest receiver", "#999999", always, True),
    ]
    for column in sorted(c for c in frame.columns if c.startswith("limit_")):
        rank = int(column.removeprefix("limit_"))
        series.append(line(column, _layers(rank + 1), COLOURS[rank], active, False))
    note = "" if active.any() else "the menu was never active"
    return Panel("b-menu", title, unit, series, note=note)


def subscriptions(run: StoredRun) -> Panel:
    end = run.summary["duration_s"]
    frame = run.rows.get("subscription")
    changes = [] if frame is None else frame["time_s"].unique().sort().to_list()
    times = np.array([0.0, *(t for t in changes if 0 < t < end), end])
    counts = measures.subscribers(run.rows, run.context, times)
    return Panel(
        "c-subscriptions",
        "(c) Receivers subscribed to each layer",
        "receivers",
        [
            Series(_layers(n), times, counts[n - 1], COLOURS[n - 1], steps=True)
            for n in range(1, run.context.layers + 1)
        ],
        y_max=len(run.context.receivers) * 1.05,
    )


def representatives(run: StoredRun) -> dict[str, float]:
    """One receiver per available bandwidth, slowest first: agent -> bit/s."""
    chosen: dict[float, str] = {}
    for agent in run.context.receivers:
        chosen.setdefault(run.context.available[agent][0][1], agent)
    return {chosen[rate]: rate for rate in sorted(chosen)}


def received_rates(run: StoredRun) -> Panel:
    edges = _edges(run, STEP_S)
    series, references = [], []
    for index, (agent, rate) in enumerate(representatives(run).items()):
        colour = COLOURS[index % len(COLOURS)]
        values = measures.received_rate(run.rows, agent, edges) / MBIT
        label = f"{agent} ({format_rate(rate)})"
        series.append(Series(label, _middle(edges), values, colour))
        references.append(Reference(rate / MBIT, f"available to {agent}", colour))
    return Panel(
        "d-received-rates",
        "(d) Received rates, one receiver per bottleneck rate",
        "Mbit/s",
        series,
        references,
    )


def efficiency(run: StoredRun) -> Panel:
    edges = _edges(run, COARSE_STEP_S)
    values = measures.efficiency_series(run.rows, run.context, edges)
    references = []
    figure = _expected(run, "efficiency").get("efficiency")
    if figure and figure["min"] is not None:
        references.append(Reference(figure["min"], f"required mean: {figure['min']:g}", "#D55E00"))
    references.append(Reference(1.0, "optimum: 1", "#555555"))
    return Panel(
        "e-efficiency",
        "(e) Efficiency E(t)",
        "received / available",
        [Series("efficiency", _middle(edges), values, COLOURS[0])],
        references,
        y_max=1.1,
    )


def instability(run: StoredRun) -> Panel:
    edges = _edges(run, COARSE_STEP_S)
    values = measures.instability_series(run.rows, run.context, edges)
    round_trip = run.context.round_trip * 1e3
    return Panel(
        "f-instability",
        "(f) Instability I(t), mean over each second",
        f"changes / receiver / {round_trip:g} ms",
        [Series("instability", edges, np.append(values, values[-1:]), COLOURS[0], steps=True)],
    )
