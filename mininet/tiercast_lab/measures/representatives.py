"""Measures of whom a single-rate sender listens to: CR, acker, CLR, representatives."""

from __future__ import annotations

import numpy as np
import polars as pl

from tiercast_lab.measures.rows import Context, Rows, in_window, step_at


def representatives(rows: Rows, context: Context) -> float | None:
    """The most at once, of MDP-CC's sender."""
    frame = rows.get("mdpcc.representatives")
    if frame is None or (windowed := in_window(frame, context)).is_empty():
        return None
    return float(windowed["count"].max())


def clr_delay(rows: Rows, context: Context) -> float | None:
    """GRTTs, the longest of the window: from the first loss event at a receiver of what has become
    the worst path until MDP-CC's sender adjusts its rate to such a receiver's report."""
    rates, events = rows.get("mdpcc.rate"), rows.get("mdpcc.loss_event")
    if rates is None or events is None:
        return None
    times = sorted({time for steps in context.available.values() for time, _ in steps})
    available = {
        agent: step_at(*(np.array(column) for column in zip(*steps, strict=True)), times, 0.0)
        for agent, steps in context.available.items()
    }
    delays = []
    before: set[str] = set()
    for turn, (moved, until) in enumerate(zip(times, [*times[1:], np.inf], strict=True)):
        least = min(values[turn] for values in available.values())
        worst = {agent for agent, values in available.items() if values[turn] == least}
        if worst != before and turn > 0 and context.window[0] <= moved <= context.window[1]:
            delays.append(_found_after(rates, events, worst, moved, until))
        before = worst
    return max(delays) if delays and None not in delays else None


def _found_after(
    rates: pl.DataFrame, events: pl.DataFrame, worst: set[str], moved: float, until: float
) -> float | None:
    """GRTTs; None: nothing was lost there, or it was not found before `until`."""
    lost = events.filter(pl.col("agent").is_in(worst) & pl.col("time_s").is_between(moved, until))
    if lost.is_empty():
        return None
    first = lost["time_s"].min()
    clr = pl.format("h{}", pl.col("clr").cast(pl.Int64))
    after = rates.filter(pl.col("time_s").is_between(moved, until)).sort("time_s")
    found = after.filter((pl.col("time_s") >= first) & clr.is_in(worst))
    if found.is_empty():
        return None
    grtt = after.filter(pl.col("time_s") <= found["time_s"][0])["grtt_us"].mean() / 1e6
    return float((found["time_s"][0] - first) / grtt)


# Rows of a sender that say who it is, and the column with its node's number.
REPRESENTATIVES = {"ermcc.cr": "cr", "pgmcc.acker": "acker", "tfmcc.clr": "clr"}
NOBODY = -1
PGMCC_NOBODY_FROM = 2  # reasons of pgmcc.acker: 2 it left, 3 it is silent


def representative_steps(rows: Rows, context: Context) -> tuple[np.ndarray, np.ndarray] | None:
    """Times, s, and from each on the node of the representative, NOBODY while there is none."""
    for kind, column in REPRESENTATIVES.items():
        if kind not in rows:
            continue
        mine = rows[kind].filter(pl.col("agent") == context.sender).sort("time_s")
        valid = pl.col("valid") > 0 if "valid" in mine.columns else (
            pl.col("reason") < PGMCC_NOBODY_FROM
        )  # fmt: skip
        nodes = mine.select(pl.when(valid).then(pl.col(column)).otherwise(NOBODY))
        return mine["time_s"].to_numpy(), nodes.to_series().to_numpy()
    return None


def representative_switches(rows: Rows, context: Context) -> float | None:
    """How often another receiver became the representative."""
    if (found := representative_steps(rows, context)) is None:
        return None
    times, nodes = (column[found[1] != NOBODY] for column in found)
    changes = times[1:][np.diff(nodes) != 0]
    start, end = context.window
    return float(np.count_nonzero((changes >= start) & (changes <= end)))


def _represents(rows: Rows, context: Context, agent: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Edges of the steps within the window, and for each whether the agent is representative."""
    if agent not in context.available or (found := representative_steps(rows, context)) is None:
        return None
    start, end = context.window
    times = found[0][(found[0] > start) & (found[0] < end)]
    edges = np.array([start, *times, end])
    nodes = step_at(*found, edges[:-1], before=NOBODY)
    return edges, nodes == int(agent.removeprefix("h"))


def representative_share(rows: Rows, context: Context, agent: str) -> float | None:
    """Of the window's time, that in which this receiver is the representative."""
    if (steps := _represents(rows, context, agent)) is None:
        return None
    edges, it_is = steps
    return float(np.diff(edges)[it_is].sum() / (edges[-1] - edges[0]))


def representative_delay(rows: Rows, context: Context, agent: str) -> float | None:
    """s from the window's start until this receiver is the representative; the whole window where
    it never is."""
    if (steps := _represents(rows, context, agent)) is None:
        return None
    edges, it_is = steps
    first = edges[:-1][it_is][0] if it_is.any() else edges[-1]
    return float(first - edges[0])
