"""The six panels of SIM's figure 2."""

from __future__ import annotations

import numpy as np
from tiercast_controller.base.units import format_rate

from tiercast_lab.measures.rows import (
    cumulative_rates,
    efficiency_series,
    instability_series,
    received_rate,
)
from tiercast_lab.results.storage import StoredRun
from tiercast_lab.show.panels import (
    COARSE_STEP_S,
    COLOURS,
    MBIT,
    STEP_S,
    Panel,
    Reference,
    Series,
    layers_text,
    middles,
    representatives,
    subscriptions,
    time_edges,
)


def main_panels(run: StoredRun) -> list[Panel]:
    return [
        layer_rates(run),
        menu(run),
        subscriptions(run, "(c) Receivers subscribed to each layer"),
        received_rates(run),
        efficiency(run),
        instability(run),
    ]


def _expected(run: StoredRun, measure: str) -> dict[str, dict[str, float]]:
    return {f["name"]: f for f in run.summary["expected"] if f["name"].startswith(measure)}


def layer_rates(run: StoredRun) -> Panel:
    edges = time_edges(run, STEP_S)
    rates = cumulative_rates(run.rows, run.context.session, edges) / MBIT
    expected = _expected(run, "cumulative_rate_")
    references = []
    for n in range(1, run.context.session.layers + 1):
        figure = expected.get(f"cumulative_rate_{n}")
        if figure and figure["paper"] is not None:
            value = figure["paper"] / MBIT
            references.append(Reference(value, f"paper: {value:g}", COLOURS[n - 1]))
    return Panel(
        "a-layer-rates",
        "(a) Cumulative sending rates of the layers",
        "Mbit/s",
        [
            Series(layers_text(n), middles(edges), rates[n - 1], COLOURS[n - 1])
            for n in range(1, run.context.session.layers + 1)
        ],
        references,
    )


def menu(run: StoredRun) -> Panel:
    """The limits of the middle layers while the menu is active  // SIM 3.1"""
    title, unit = "(b) Menu: limits of the cumulative rates", "Mbit/s"
    frame = run.rows.of("sim.menu", run.context.session.sender)
    if frame.is_empty():
        return Panel("b-menu", title, unit, [], note="the menu was never computed")
    end = run.end_s
    times = np.append(frame["time_s"].to_numpy(), end)

    def line(column: str, label: str, colour: str, gate: np.ndarray, thin: bool) -> Series:
        values = np.where(gate, frame[column].to_numpy() * 8 / MBIT, np.nan)
        return Series(label, times, np.append(values, values[-1]), colour, True, thin)

    always = np.ones(len(frame), dtype=bool)
    active = frame["active"].to_numpy() > 0
    series = [
        line("max_Bps", "fastest receiver", "#555555", always, True),
        line("min_Bps", "slowest receiver", "#999999", always, True),
    ]
    for column in sorted(c for c in frame.columns if c.startswith("limit_")):
        rank = int(column.removeprefix("limit_").removesuffix("_Bps"))
        series.append(line(column, layers_text(rank + 1), COLOURS[rank], active, False))
    note = "" if active.any() else "the menu was never active"
    return Panel("b-menu", title, unit, series, note=note)


def received_rates(run: StoredRun) -> Panel:
    edges = time_edges(run, STEP_S)
    series, references = [], []
    for index, (agent, rate) in enumerate(representatives(run).items()):
        colour = COLOURS[index % len(COLOURS)]
        values = received_rate(run.rows, run.context.receivers[agent], agent, edges) / MBIT
        label = f"{agent} ({format_rate(rate)})"
        series.append(Series(label, middles(edges), values, colour))
        references.append(Reference(rate / MBIT, f"available to {agent}", colour))
    return Panel(
        "d-received-rates",
        "(d) Received rates, one receiver per bottleneck rate",
        "Mbit/s",
        series,
        references,
    )


def efficiency(run: StoredRun) -> Panel:
    edges = time_edges(run, COARSE_STEP_S)
    values = efficiency_series(run.rows, run.context.session, edges)
    references = []
    figure = _expected(run, "efficiency").get("efficiency")
    if figure and figure["min"] is not None:
        references.append(Reference(figure["min"], f"required mean: {figure['min']:g}", "#D55E00"))
    references.append(Reference(1.0, "optimum: 1", "#555555"))
    return Panel(
        "e-efficiency",
        "(e) Efficiency E(t)",
        "received / available",
        [Series("efficiency", middles(edges), values, COLOURS[0])],
        references,
        y_max=max([1.1, *values[np.isfinite(values)]]),  # above 1 where a link makes copies
    )


def instability(run: StoredRun) -> Panel:
    edges = time_edges(run, COARSE_STEP_S)
    values = instability_series(run.rows, run.context.session, edges)
    round_trip = run.context.session.round_trip * 1e3
    return Panel(
        "f-instability",
        "(f) Instability I(t), mean over each second",
        f"changes / receiver / {round_trip:g} ms",
        [Series("instability", edges, np.append(values, values[-1:]), COLOURS[0], steps=True)],
    )
