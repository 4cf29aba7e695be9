"""Turns rows into the frames that the page shows: the state of a run at the end of each step.

A frame is JSON. Its lists have the order of the scene; null stands for what is not known:

t           s, its end
directions  for each direction of a link: bit/s sent, longest queue in packets, packets marked, and
            packets dropped or lost, within the step
sent        for each session: bit/s of the lowest 1, 2, ... layers together
subscribed  for each session: receivers of each layer
represents  for each session: the receiver that the sender follows
received    bit/s of each receiver; null while it is absent
layers      of each receiver
flows       bit/s that arrives of each flow
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from tiercast_lab.measures.context import Flow, Session
from tiercast_lab.measures.representatives import representative_steps
from tiercast_lab.measures.rows import (
    LINK_LOSSES,
    Rows,
    counter_at,
    cumulative_rates,
    received_rate,
    step_at,
    subscribers,
    top_steps,
)
from tiercast_lab.results.storage import StoredRun
from tiercast_lab.watch.scene import Scene

ETHERNET = 14  # bytes of a frame that a link's rate does not count
LOST = ("queue_drops", "policy_drops", *LINK_LOSSES)
BYTES = {"tcp": "bytes", "udp": "bytes"}  # the column with what arrived, by a flow's kind

Frame = dict[str, Any]


def frames_between(run: StoredRun, scene: Scene, start_s: float, end_s: float) -> list[Frame]:
    """The frames of the whole steps from `start_s`, the end of a step, up to `end_s`."""
    first = round(start_s / scene.step_s)
    last = int(end_s / scene.step_s + 1e-6)
    if last <= first:
        return []
    edges = np.arange(first, last + 1) * scene.step_s
    rows = run.rows
    directions = np.array(
        [
            _direction(rows, name, size, edges)
            for name, size in zip(scene.directions, scene.packet_sizes, strict=True)
        ]
    )
    sent = [cumulative_rates(rows, session, edges) for session in scene.sessions]
    subscribed = [subscribers(rows, session, edges[1:]) for session in scene.sessions]
    represents = [_representative(run, session, edges[1:]) for session in scene.sessions]
    received = [
        received_rate(rows, receiver, name, edges) for name, receiver in scene.receivers.items()
    ]
    layers = [step_at(*top_steps(rows, name), edges[1:], -1.0) + 1 for name in scene.receivers]
    flows = [_flow(rows, name, flow, edges) for name, flow in scene.flows.items()]
    return [
        {
            "t": round(float(end), 6),
            "directions": [[_whole(number) for number in one[:, n]] for one in directions],
            "sent": [[_whole(rate) for rate in one[:, n]] for one in sent],
            "subscribed": [[int(count) for count in one[:, n]] for one in subscribed],
            "represents": [one[n] for one in represents],
            "received": [_whole(one[n]) for one in received],
            "layers": [int(one[n]) for one in layers],
            "flows": [_whole(one[n]) for one in flows],
        }
        for n, end in enumerate(edges[1:])
    ]


def _direction(rows: Rows, name: str, packet_size: int, edges: np.ndarray) -> np.ndarray:
    """Array [bit/s, longest queue, marked, dropped or lost; step].

    bmv2 counts packets alone, and serves so many of them a second as a link's rate has packets of
    `packet_size` IP bytes. As such they count here, so that a link's load is that of its queue."""
    result = np.full((4, len(edges) - 1), np.nan)
    mine = rows.of("port", name, "link")
    if mine.is_empty():
        return result
    packets, octets = (_grown(mine, (name,), edges) for name in ("tx_packets", "tx_bytes"))
    octets -= ETHERNET * packets
    if packet_size and np.isnan(octets).all():
        octets = packet_size * packets
    result[0] = 8 * octets / np.diff(edges)
    result[1] = _longest(mine, edges)
    result[2] = _grown(mine, ("marked",), edges)
    result[3] = _grown(mine, LOST, edges)
    return result


def _grown(mine: pl.DataFrame, counters: tuple[str, ...], edges: np.ndarray) -> np.ndarray:
    """The growth of counters together; NaN if the switch has none of them."""
    known = [name for name in counters if name in mine and mine[name].null_count() < len(mine)]
    if not known:
        return np.full(len(edges) - 1, np.nan)
    return sum(
        (np.diff(counter_at(mine.drop_nulls(name), name, edges)) for name in known),
        start=np.zeros(len(edges) - 1),
    )


def _longest(mine: pl.DataFrame, edges: np.ndarray) -> np.ndarray:
    """The longest queue in the rows of each step. A row is of the second before it."""
    longest = np.full(len(edges) - 1, np.nan)
    if "max_queue_packets" not in mine:
        return longest
    samples = mine.drop_nulls("max_queue_packets")
    # Ports are asked each second, but answer a little later, and some of these rows then belong to
    # the step before.
    places = np.searchsorted(edges, samples["time_s"].to_numpy() - 0.5) - 1
    inside = (places >= 0) & (places < len(longest))
    values = samples["max_queue_packets"].to_numpy()[inside].astype(float)
    np.fmax.at(longest, places[inside], values)
    return longest


def _flow(rows: Rows, name: str, flow: Flow, edges: np.ndarray) -> np.ndarray:
    """bit/s that arrives; NaN before it starts and after it has stopped."""
    rate = np.full(len(edges) - 1, np.nan)
    if flow.kind in BYTES:
        mine = rows.of(flow.kind, name)
        there = (edges[1:] > flow.start) & (edges[:-1] < flow.stop)
        if not mine.is_empty():
            grown = np.diff(counter_at(mine, BYTES[flow.kind], edges, flow.there))
            rate[there] = (8 * grown / np.diff(edges))[there]
    return rate


def _representative(run: StoredRun, session: Session, at: np.ndarray) -> list[str | None]:
    """The name of the receiver that a single-rate sender follows, at each time."""
    found = representative_steps(run.rows, replace(run.context, session=session))
    if found is None:
        return [None] * len(at)
    names = {one.node: name for name, one in session.receivers.items()}
    return [names.get(int(node)) for node in step_at(*found, at, -1)]


def _whole(number: float) -> int | None:
    return round(float(number)) if np.isfinite(number) else None
