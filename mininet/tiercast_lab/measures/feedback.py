"""Measures of feedback: what reached the sender, and what receivers kept to themselves."""

from __future__ import annotations

import polars as pl

from tiercast_lab.measures.rows import Context, Rows, grown, in_window


def feedback_rate(rows: Rows, context: Context) -> float | None:
    """Feedback messages that the sender took in, per second."""
    frame = rows.get("feedback")
    if frame is None:
        return None
    mine = frame.filter(pl.col("agent") == context.sender)
    start, end = context.window
    return grown(mine, "accepted", start, end) / (end - start)


def feedbacks(rows: Rows, context: Context) -> float | None:
    """Feedback messages that the sender took in."""
    rate = feedback_rate(rows, context)
    return None if rate is None else rate * (context.window[1] - context.window[0])


def naks(rows: Rows, context: Context) -> float | None:
    """Those of PGMCC's feedback messages that are no acknowledgements."""
    frame = rows.get("pgmcc.window")
    if frame is None:
        return None
    mine = frame.filter(pl.col("agent") == context.sender)
    return grown(mine, "naks", *context.window)


def _losses_seen(rows: Rows, context: Context) -> tuple[int, int] | None:
    """ERMCC's receivers: loss events that they reported, and others."""
    frame = rows.get("ermcc.trac")
    if frame is None:
        return None
    mine = in_window(frame, context).filter(pl.col("agent").is_in(context.receivers))
    sent = int(mine["sent"].sum())
    return sent, len(mine) - sent


def feedback_suppressed(rows: Rows, context: Context) -> float | None:
    seen = _losses_seen(rows, context)
    return None if seen is None else float(seen[1])


def suppression(rows: Rows, context: Context) -> float | None:
    """Suppressed feedback / all loss events at the receivers  // ERMCC 5.4"""
    if (seen := _losses_seen(rows, context)) is None or sum(seen) == 0:
        return None
    return seen[1] / sum(seen)


def feedback_of_one(rows: Rows, context: Context) -> float | None:
    """Feedback of all receivers / what one of them would send without suppression: its loss
    events  // ERMCC 5.4"""
    if (seen := _losses_seen(rows, context)) is None or sum(seen) == 0:
        return None
    return seen[0] / (sum(seen) / len(context.receivers))
