"""Measures of the receivers that a single-rate sender follows: CR, acker, CLR, representatives."""

from __future__ import annotations

import numpy as np
import polars as pl

from tiercast_lab.base.frames import as_float
from tiercast_lab.measures.context import Context, Receiver
from tiercast_lab.measures.rows import Rows, step_at, steps_within
from tiercast_lab.measures.spec import SECONDS, fraction, measure, number


@measure(number("receivers", 0), "MDP-CC: the most representatives at once")
def representatives(rows: Rows, context: Context) -> float | None:
    """The largest number of representatives that MDP-CC's sender had at once. A record is of a
    change, so the one before the window holds at its start."""
    mine = rows.of("mdpcc.representatives", context.session.sender)
    if mine.is_empty():
        return None
    times, counts = mine["time_s"].to_numpy(), mine["count"].to_numpy()
    held, _ = steps_within(times, counts, [context.span], before=0.0)
    return float(held.max())


@measure(
    number("GRTT", 1),
    "MDP-CC: longest time from when another path becomes the worst (by its links' rates) until one "
    "of its receivers is CLR",
)
def clr_delay(rows: Rows, context: Context) -> float | None:
    """How long, in GRTTs, MDP-CC's sender needs to follow a move of the worst path, until it
    adjusts its rate to a report of a receiver there. The longest case in the window counts."""
    return _longest(rows, context, since_loss=False)


@measure(
    number("GRTT", 1),
    "MDP-CC: as clr_delay, but from the first loss event at a receiver of that path",
)
def clr_delay_since_loss(rows: Rows, context: Context) -> float | None:
    """As clr_delay, from the first loss event at a receiver behind the new worst path on: what the
    sender needs once that path has said so."""
    return _longest(rows, context, since_loss=True)


def _longest(rows: Rows, context: Context, since_loss: bool) -> float | None:
    rates = rows.of("mdpcc.rate", context.session.sender)
    if rates.is_empty() or (since_loss and "mdpcc.loss_event" not in rows):
        return None
    times = np.array(sorted({time for one in context.receivers.values() for time in _moves(one)}))
    available = {
        agent: _available_at(receiver, times) for agent, receiver in context.receivers.items()
    }
    delays = []
    before: set[str] = set()
    for turn, (moved, until) in enumerate(zip(times, [*times[1:], np.inf], strict=True)):
        least = min(values[turn] for values in available.values())
        worst = {agent for agent, values in available.items() if values[turn] == least < np.inf}
        if worst != before and turn > 0 and context.span[0] <= moved <= context.span[1]:
            nodes = [context.receivers[agent].node for agent in worst]
            since: float | None = moved
            if since_loss:
                lost = rows["mdpcc.loss_event"].filter(
                    pl.col("agent").is_in(list(worst)) & pl.col("time_s").is_between(moved, until)
                )
                since = None if lost.is_empty() else as_float(lost["time_s"].min())
            delays.append(None if since is None else _found(rates, nodes, moved, since, until))
        before = worst
    found = [one for one in delays if one is not None]
    return max(found) if found and len(found) == len(delays) else None


def _moves(receiver: Receiver) -> list[float]:
    """The times at which the receiver's path may become the worst, or stop being it."""
    return [
        *(time for time, _ in receiver.available),
        *(time for absence in receiver.absences for time in absence),
    ]


def _available_at(receiver: Receiver, times: np.ndarray) -> np.ndarray:
    """bit/s; infinite while the receiver is absent."""
    at, rates = (np.array(column) for column in zip(*receiver.available, strict=True))
    values = step_at(at, rates, times, 0.0).astype(float)
    for left, back in receiver.absences:
        values[(times >= left) & (times < back)] = np.inf
    return values


def _found(
    rates: pl.DataFrame, worst: list[int], moved: float, since: float, until: float
) -> float | None:
    """The delay from `since` on in GRTTs, their mean from `moved` on; None if the path was not
    found before `until`."""
    after = rates.filter(pl.col("time_s").is_between(moved, until))
    found = after.filter((pl.col("time_s") >= since) & pl.col("clr").cast(int).is_in(worst))
    if found.is_empty():
        return None
    grtt_us = after.filter(pl.col("time_s") <= found["time_s"][0])["grtt_us"].mean()
    return float((found["time_s"][0] - since) / (as_float(grtt_us) / 1e6))


# The kinds of rows in which a sender names the receiver it follows, and the column with its node.
REPRESENTATIVES = {
    "ermcc.cr": "cr", "pgmcc.acker": "acker", "tfmcc.clr": "clr", "mdpcc.rate": "clr",
}  # fmt: skip
NOBODY = -1
PGMCC_NOBODY_FROM = 2  # reasons in pgmcc.acker: 2 it left, 3 it is silent


def representative_steps(rows: Rows, context: Context) -> tuple[np.ndarray, np.ndarray] | None:
    """Times in s, and the node of the representative from each on; NOBODY while there is none."""
    for kind, column in REPRESENTATIVES.items():
        mine = rows.of(kind, context.session.sender)
        if mine.is_empty():
            continue
        there = pl.col(column) != NOBODY
        if "valid" in mine.columns:
            there = pl.col("valid") > 0
        elif kind == "pgmcc.acker":
            there = pl.col("reason") < PGMCC_NOBODY_FROM
        nodes = mine.select(pl.when(there).then(pl.col(column)).otherwise(NOBODY))
        return mine["time_s"].to_numpy(), nodes.to_series().to_numpy()
    return None


@measure(
    number("switches", 0),
    "how often another receiver became ERMCC's CR, PGMCC's acker, TFMCC's or MDP-CC's CLR",
)
def representative_switches(rows: Rows, context: Context) -> float | None:
    """How often the representative changed to another receiver."""
    if (found := representative_steps(rows, context)) is None:
        return None
    times, nodes = (column[found[1] != NOBODY] for column in found)
    changes = times[1:][np.diff(nodes) != 0]
    start, end = context.span
    return float(np.count_nonzero((changes >= start) & (changes <= end)))


def _represents(rows: Rows, context: Context, agent: str) -> tuple[np.ndarray, np.ndarray] | None:
    """For each step while the receiver is present: whether it is the representative, and the length
    of the step in s."""
    receiver = context.receivers[agent]
    there = receiver.presence(context.span)
    if not there or (found := representative_steps(rows, context)) is None:
        return None
    nodes, held = steps_within(*found, there, before=NOBODY)
    return nodes == receiver.node, held


@measure(
    fraction(1),
    "share of the time that one receiver is present in which it is the representative: ERMCC's CR, "
    "PGMCC's acker, TFMCC's or MDP-CC's CLR",
    which="receiver",
    whole=False,
)
def representative_share(rows: Rows, context: Context, agent: str) -> float | None:
    """The share of its time of presence in which the receiver is the representative."""
    if (steps := _represents(rows, context, agent)) is None:
        return None
    it_is, held = steps
    return float(held[it_is].sum() / held.sum())


@measure(
    SECONDS,
    "how long one receiver is present before it is the representative; all of its time in the "
    "window if it never is",
    which="receiver",
    whole=False,
)
def representative_delay(rows: Rows, context: Context, agent: str) -> float | None:
    """For how long, in s, the receiver is present before it becomes the representative; all of its
    time in the window if it never does."""
    if (steps := _represents(rows, context, agent)) is None:
        return None
    it_is, held = steps
    return float(held[: np.argmax(it_is)].sum() if it_is.any() else held.sum())
