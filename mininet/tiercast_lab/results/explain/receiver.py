"""Why a receiver's rate was what it was at a time of a stored run: `tiercast explain`.

Reads stored rows alone. What holds for every scheme is here; what a scheme's own trace records say
is in the module of its name below `schemes`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl

from tiercast_lab.base.by_name import module_of
from tiercast_lab.measures.rows import (
    FATES,
    cumulative_rates,
    grown,
    layers_together,
    steps_within,
    top_steps,
)
from tiercast_lab.results.explain import schemes
from tiercast_lab.results.explain.look import Look
from tiercast_lab.results.links import policy_of


def explain(look: Look) -> list[str]:
    """Lines in plain language."""
    run = look.run
    title = f"{run.summary['run']}: {look.scheme}, receiver {look.receiver} at {look.at_s:g} s"
    own = module_of(schemes.__name__, look.scheme)
    specific = (own.explanation if own else _records)(look)
    parts: list[tuple[str, Iterable[str]]] = [
        ("received", _received(look)),
        ("subscribed", _subscription(look)),
        ("queue", _queue(look)),
        ("path", _path(look)),
        ("beside", _flows(look)),
        ("sender", _sender(look)),
        ("why", specific or ["the scheme has traced nothing yet"]),
    ]
    lines = [title]
    if not run.complete:
        lines.append(f"  incomplete  {'; '.join(run.reasons)}")
    for label, texts in parts:
        for text in texts:
            lines.append(f"  {label:<11} {text}")
            label = ""
    return lines


def _received(look: Look) -> list[str]:
    span = look.at_s - look.since_s
    packets = look.grown("received", look.receiver, "packets")
    if span == 0 or (look.rows("received", look.receiver) is None and packets == 0):
        return ["nothing yet"]
    rate = 8 * look.grown("received", look.receiver, "bytes") / span
    lost = look.grown("received", look.receiver, "lost")
    marked = look.grown("received", look.receiver, "marked")
    steps = look.session.receivers[look.receiver].available
    available = [rate for at, rate in steps if at <= look.at_s][-1]
    return [
        f"{mbit(rate)} in the last {span:g} s; its path has room for {mbit(available)}",
        f"lost {_of(lost, lost + packets)}, marked {_of(marked, packets)} packets",
    ]


def _subscription(look: Look) -> list[str]:
    rows = look.rows("subscription", look.receiver)
    if rows is None:
        return ["to nothing yet"]
    top = rows["top"][-1]
    # The first of the last rows that say the same.
    others = rows.with_row_index().filter(pl.col("top") != top)["index"]
    since = rows["time_s"][0 if others.is_empty() else int(others[-1]) + 1]
    layers = look.session.layers
    if top < 0:
        return [f"to nothing since {since:.1f} s"]
    what = f"to {top + 1:g} of {layers} layers" if layers > 1 else "to the session"
    before = "" if others.is_empty() else f" (before: {rows['top'][int(others[-1])] + 1:g})"
    return [f"{what} since {since:.1f} s{before if layers > 1 else ''}"]


def _queue(look: Look) -> list[str]:
    frame = look.run.rows.get("port")
    path = look.facts.get("directions", [])
    if frame is None or not path:
        return ["not reported by this kind of switch"]
    # A port's row covers the second before it, so the row that includes the time counts, too.
    seen = frame.filter(
        pl.col("link").is_in(path)
        & (pl.col("time_s") > look.since_s)
        & (pl.col("time_s") < look.at_s + 1)
    )
    if seen.is_empty():
        return ["not looked at yet"]
    if seen["max_queue_packets"].is_null().all():
        return ["not reported by this kind of switch"]
    longest = seen.sort("max_queue_packets", descending=True).row(0, named=True)
    return [f"at most {longest['max_queue_packets']:g} packets on its path, at {longest['link']}"]


def _path(look: Look) -> list[str]:
    """What happened on the path to packets of the layers that it had in the last seconds."""
    if "port.session" not in look.run.rows:
        return []
    dropped, marked = [], []
    counted = True
    for link in look.facts["directions"]:
        mine = look.run.rows.of("port.session", link, "link").filter(
            (pl.col("session") == look.session.number) & (pl.col("layer") < _layers(look))
        )
        counted &= not mine["queue_drops"].has_nulls()
        looks = layers_together(mine, *FATES)
        grew = {column: grown(looks, column, look.since_s, look.at_s) for column in FATES}
        policy = policy_of(look.run, link)
        for column, by in (("queue_drops", "the full queue"), ("policy_drops", policy)):
            if grew[column] >= 0.5:
                dropped.append(f"{grew[column]:.0f} by {by} at {link}")
        if grew["marked"] >= 0.5:
            marked.append(f"{grew['marked']:.0f} by {policy} at {link}")
    unknown = "" if counted else " (this kind of switch does not count what full queues drop)"
    return [
        f"of its packets dropped: {', '.join(dropped) or 'none'}{unknown}; "
        f"marked: {', '.join(marked) or 'none'}"
    ]


def _layers(look: Look) -> int:
    """The most layers that it had in the last seconds."""
    top, _ = steps_within(
        *top_steps(look.run.rows, look.receiver), [(look.since_s, look.at_s)], before=-1.0
    )
    return int(top.max(initial=-1.0)) + 1


def _flows(look: Look) -> list[str]:
    names = look.facts.get("rivals", [])
    lines = []
    for name in names[:4]:
        span = look.at_s - look.since_s
        rate = 8 * look.grown("tcp", name, "bytes") / span if span else 0.0
        info = look.last("tcp.sender", name)
        flow = look.run.context.flows[name]
        if not flow.start <= look.at_s <= flow.stop:
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


def _sender(look: Look) -> list[str]:
    span = look.at_s - look.since_s
    frame = look.run.rows.get("layer")
    if frame is None or span == 0:
        return []
    edges = np.array([look.since_s, look.at_s])
    rates = cumulative_rates(look.run.rows, look.session, edges)[:, 0]
    text = "sends " + mbit(rates[-1])
    if len(rates) > 1:
        own = np.diff(np.concatenate([[0.0], rates])) / 1e6
        text += f" in layers of {' + '.join(f'{rate:.2f}' for rate in own)}"
    feedback = look.grown("feedback", look.sender, "accepted") / span
    return [f"{text}; hears {feedback:.1f} feedback messages/s"]


def _records(look: Look) -> list[str]:
    """A scheme without an explanation of its own: its newest records, as they are."""
    lines = []
    for kind in look.run.rows:
        if kind.startswith(f"{look.scheme}."):
            for agent in (look.sender, look.receiver):
                if (row := look.last(kind, agent)) is not None:
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
