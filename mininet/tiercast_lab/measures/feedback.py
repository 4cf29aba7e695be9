"""Measures of feedback: what reached the sender, and what receivers suppressed."""

from __future__ import annotations

import numpy as np
import polars as pl

from tiercast_lab.measures.context import Context
from tiercast_lab.measures.rows import Rows, increase, seconds_there
from tiercast_lab.measures.spec import fraction, measure, number


@measure(number("messages/s", 1), "feedback messages that reach the sender, per second")
def feedback_rate(rows: Rows, context: Context) -> float | None:
    """Feedback messages that the sender received, per second."""
    messages = feedbacks(rows, context)
    start, end = context.span
    return None if messages is None else messages / (end - start)


@measure(number("messages", 0), "feedback messages that reach the sender")
def feedbacks(rows: Rows, context: Context) -> float | None:
    """Feedback messages that the sender received."""
    if "feedback" not in rows:
        return None
    session = context.session
    mine = rows.of("feedback", session.sender)
    return increase(mine, "accepted", *context.span, session.there)


@measure(number("messages", 0), "feedback messages that the sender refused as forged or untrue")
def feedback_refused(rows: Rows, context: Context) -> float | None:
    """Feedback messages that the sender refused as forged or untrue."""
    if "feedback" not in rows:
        return None
    if "feedback.refused" not in rows:
        return 0.0
    total = pl.sum_horizontal(pl.col("^(non_member|impersonated|implausible)$"))
    mine = rows.of("feedback.refused", context.session.sender).select("time_s", total=total)
    before, after = (mine.filter(pl.col("time_s") <= at)["total"] for at in context.span)
    return float((after[-1] if len(after) else 0) - (before[-1] if len(before) else 0))


@measure(number("messages", 0), "PGMCC: feedback messages that are not acknowledgements")
def naks(rows: Rows, context: Context) -> float | None:
    """PGMCC's feedback messages that are not acknowledgements."""
    session = context.session
    mine = rows.of("pgmcc.window", session.sender)
    return None if mine.is_empty() else increase(mine, "naks", *context.span, session.there)


def _losses_seen(rows: Rows, context: Context) -> tuple[int, int] | None:
    """The numbers of loss events that ERMCC's receivers reported and that they did not report."""
    if "ermcc.trac" not in rows:
        return None
    mine = rows["ermcc.trac"].filter(
        pl.col("agent").is_in(list(context.receivers)) & pl.col("time_s").is_between(*context.span)
    )
    sent = int(mine["sent"].sum())
    return sent, len(mine) - sent


@measure(number("messages", 0), "ERMCC: loss events that receivers did not report")
def feedback_suppressed(rows: Rows, context: Context) -> float | None:
    """The loss events that ERMCC's receivers did not report."""
    seen = _losses_seen(rows, context)
    return None if seen is None else float(seen[1])


@measure(fraction(), "ERMCC: loss events that receivers did not report / all loss events (5.4)")
def suppression(rows: Rows, context: Context) -> float | None:
    """Suppressed feedback / all loss events at the receivers  // ERMCC 5.4"""
    if (seen := _losses_seen(rows, context)) is None or sum(seen) == 0:
        return None
    return seen[1] / sum(seen)


@measure(number(), "ERMCC: reports sent / loss events of one receiver (5.4)")
def feedback_of_one(rows: Rows, context: Context) -> float | None:
    """The feedback of all receivers, divided by what one of them would send without suppression:
    its loss events, had it been present throughout  // ERMCC 5.4"""
    if (seen := _losses_seen(rows, context)) is None or sum(seen) == 0:
        return None
    return seen[0] / (sum(seen) / mean_receivers(context))


def mean_receivers(context: Context) -> float:
    """The number of receivers present, averaged over time."""
    edges = np.array(context.span)
    seconds = sum(seconds_there(one, edges)[0] for one in context.receivers.values())
    return float(seconds / (edges[1] - edges[0]))
