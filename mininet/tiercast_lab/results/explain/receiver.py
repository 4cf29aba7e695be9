"""Explains a receiver's rate at a given time of a stored run: `tiercast explain`.

Only stored rows are read. What holds for every scheme is here; a scheme's own trace records are
explained by the module of its name in `schemes`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from tiercast_lab.base.by_name import module_of
from tiercast_lab.measures.rows import (
    FATES,
    LINK_LOSSES,
    cumulative_rates,
    increase,
    layers_together,
    steps_within,
    top_steps,
)
from tiercast_lab.results.explain import schemes
from tiercast_lab.results.explain.snapshot import Snapshot
from tiercast_lab.results.links import policy_of


def explain(snapshot: Snapshot) -> list[str]:
    """Returns the explanation as lines of text."""
    run = snapshot.run
    lines = [
        f"{run.summary['run']}: {snapshot.scheme}, "
        f"receiver {snapshot.receiver} at {snapshot.at_s:g} s"
    ]
    if not run.complete:
        lines.append(f"  incomplete  {'; '.join(run.reasons)}")
    for label, texts in explanation(snapshot):
        for text in texts:
            lines.append(f"  {label:<11} {text}")
            label = ""
    return lines


def as_data(snapshot: Snapshot) -> dict[str, Any]:
    """The explanation as `explain --json` and a receiver's page have it."""
    return {
        "run": snapshot.run.summary["run"],
        "receiver": snapshot.receiver,
        "at": snapshot.at_s,
        "reasons": [] if snapshot.run.complete else snapshot.run.reasons,
        "parts": [{"about": label, "texts": texts} for label, texts in explanation(snapshot)],
    }


def explanation(snapshot: Snapshot) -> list[tuple[str, list[str]]]:
    """The explanation as texts by what they are about."""
    own = module_of(schemes.__name__, snapshot.scheme)
    specific = (own.explanation if own else _records)(snapshot)
    return [
        ("absent", _absence(snapshot)),
        ("received", _received(snapshot)),
        ("subscribed", _subscription(snapshot)),
        ("queue", _queue(snapshot)),
        ("path", _path(snapshot)),
        ("beside", _flows(snapshot)),
        ("sender", _sender(snapshot)),
        ("why", specific or ["the scheme has traced nothing yet"]),
    ]


def _absence(snapshot: Snapshot) -> list[str]:
    absences = snapshot.session.receivers[snapshot.receiver].absences
    return [
        f"from {left:g} to {back:g} s: it is not in its session"
        for left, back in absences
        if left <= snapshot.at_s < back
    ]


def _received(snapshot: Snapshot) -> list[str]:
    span = snapshot.at_s - snapshot.since_s
    packets = snapshot.received("packets")
    if span == 0 or (snapshot.rows("received", snapshot.receiver) is None and packets == 0):
        return ["nothing yet"]
    rate = 8 * snapshot.received("bytes") / span
    lost, marked = snapshot.received("lost"), snapshot.received("marked")
    steps = snapshot.session.receivers[snapshot.receiver].available
    available = [rate for at, rate in steps if at <= snapshot.at_s][-1]
    return [
        f"{mbit(rate)} in the last {span:g} s; its path has room for {mbit(available)}",
        f"lost by sequence numbers {_of(lost, lost + packets)}, "
        f"marked {_of(marked, packets)} packets",
    ]


def _subscription(snapshot: Snapshot) -> list[str]:
    rows = snapshot.rows("subscription", snapshot.receiver)
    if rows is None:
        return ["to nothing yet"]
    top = rows["top"][-1]
    # The first of the last rows with the same value.
    others = rows.with_row_index().filter(pl.col("top") != top)["index"]
    since = rows["time_s"][0 if others.is_empty() else int(others[-1]) + 1]
    layers = snapshot.session.layers
    if top < 0:
        return [f"to nothing since {since:.1f} s"]
    what = f"to {top + 1:g} of {layers} layers" if layers > 1 else "to the session"
    before = "" if others.is_empty() else f" (before: {rows['top'][int(others[-1])] + 1:g})"
    return [f"{what} since {since:.1f} s{before if layers > 1 else ''}"]


def _queue(snapshot: Snapshot) -> list[str]:
    frame = snapshot.run.rows.get("port")
    path = snapshot.directions
    if frame is None or not path:
        return ["not reported by this kind of switch"]
    # A port's row covers the second before it, so the row whose second includes the time counts
    # too.
    seen = frame.filter(
        pl.col("link").is_in(path)
        & (pl.col("time_s") > snapshot.since_s)
        & (pl.col("time_s") < snapshot.at_s + 1)
    )
    if seen.is_empty():
        return ["not sampled yet"]
    if seen["max_queue_packets"].is_null().all():
        return ["not reported by this kind of switch"]
    longest = seen.sort("max_queue_packets", descending=True).row(0, named=True)
    return [f"at most {longest['max_queue_packets']:g} packets on its path, at {longest['link']}"]


def _path(snapshot: Snapshot) -> list[str]:
    """The path, if it has moved, and what happened on it, during the last seconds, to packets of
    the receiver's layers."""
    latest = snapshot.paths[-1]
    moved = []
    if "from_s" in latest:
        moved = [f"{', '.join(latest['directions'])} since {latest['from_s']:g} s"]
    if "port.session" not in snapshot.run.rows:
        return moved
    dropped, marked = [], []
    counted = True
    for link in snapshot.directions:
        chosen = (pl.col("session") == snapshot.session.number) & (
            pl.col("layer") < _layers(snapshot)
        )
        mine = snapshot.run.rows.of("port.session", link, "link").filter(chosen)
        counted &= not mine["queue_drops"].has_nulls()
        fates = [*FATES, *(column for column in LINK_LOSSES if column in mine)]
        samples = layers_together(snapshot.run.rows, link, chosen, *fates)
        grew = {
            column: increase(samples, column, snapshot.since_s, snapshot.at_s) for column in fates
        }
        policy = policy_of(snapshot.run, link)
        for column, by in (
            ("queue_drops", f"by the full queue at {link}"),
            ("policy_drops", f"by {policy} at {link}"),
            ("down_drops", f"while {link} was down"),
            ("link_losses", f"on the wire of {link}"),
        ):
            if grew.get(column, 0.0) >= 0.5:
                dropped.append(f"{grew[column]:.0f} {by}")
        if grew["marked"] >= 0.5:
            marked.append(f"{grew['marked']:.0f} by {policy} at {link}")
    unknown = "" if counted else " (this kind of switch does not count what full queues drop)"
    return [
        *moved,
        f"of its packets dropped: {', '.join(dropped) or 'none'}{unknown}; "
        f"marked: {', '.join(marked) or 'none'}",
    ]


def _layers(snapshot: Snapshot) -> int:
    """The largest number of layers that the receiver had during the last seconds."""
    top, _ = steps_within(
        *top_steps(snapshot.run.rows, snapshot.receiver),
        [(snapshot.since_s, snapshot.at_s)],
        before=-1.0,
    )
    return int(top.max(initial=-1.0)) + 1


def _flows(snapshot: Snapshot) -> list[str]:
    names = snapshot.paths[-1]["rivals"]
    lines = []
    for name in names[:4]:
        span = snapshot.at_s - snapshot.since_s
        flow = snapshot.run.context.flows[name]
        read = snapshot.increase("tcp", name, "bytes", flow.there)
        rate = 8 * read / span if span else 0.0
        info = snapshot.last("tcp.sender", name)
        if not flow.start <= snapshot.at_s <= flow.stop:
            lines.append(f"{name}: not there (from {flow.start:g} to {flow.stop:g} s)")
        else:
            text = f"{name}: {mbit(rate)}"
            if info is not None:
                text += (
                    f", window {info['cwnd']:.1f} packets, round trip {info['rtt_us'] / 1e3:.0f} ms"
                )
            lines.append(text)
    if len(names) > 4:
        lines.append(f"and {len(names) - 4} more TCP flows at its bottleneck")
    return lines


def _sender(snapshot: Snapshot) -> list[str]:
    span = snapshot.at_s - snapshot.since_s
    frame = snapshot.run.rows.get("layer")
    if frame is None or span == 0:
        return []
    edges = np.array([snapshot.since_s, snapshot.at_s])
    rates = cumulative_rates(snapshot.run.rows, snapshot.session, edges)[:, 0]
    text = "sends " + mbit(rates[-1])
    if len(rates) > 1:
        own = np.diff(np.concatenate([[0.0], rates])) / 1e6
        text += f" in layers of {' + '.join(f'{rate:.2f}' for rate in own)}"
    there = snapshot.session.there
    messages = snapshot.increase("feedback", snapshot.sender, "accepted", there)
    return [f"{text}; hears {messages / span:.1f} feedback messages/s"]


def _records(snapshot: Snapshot) -> list[str]:
    """The newest records as they are, for a scheme without an explanation of its own."""
    lines = []
    for kind in snapshot.run.rows:
        if kind.startswith(f"{snapshot.scheme}."):
            for agent in (snapshot.sender, snapshot.receiver):
                if (row := snapshot.last(kind, agent)) is not None:
                    fields = ", ".join(
                        f"{key} {value:g}"
                        for key, value in row.items()
                        if key not in ("time_s", "agent") and value is not None
                    )
                    lines.append(f"{kind} of {agent} at {row['time_s']:.2f} s: {fields}")
    return lines


def mbit(bits_per_second: float) -> str:
    return f"{bits_per_second / 1e6:.2f} Mbit/s"


def _of(part: float, whole: float) -> str:
    share = f" ({100 * part / whole:.1f} %)" if whole >= 0.5 else ""
    return f"{part:.0f} of {whole:.0f}{share}"
