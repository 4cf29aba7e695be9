"""The measures of a run, as pure functions of its rows.

Rows are polars frames, one per kind of record, each with `time_s` (since the start of the run) and
`agent`; docs/experiments.md lists their columns. Rates are in bit/s of IP bytes, fractions are
0..1, times are in seconds unless a name says otherwise. A measure without rows to stand on is None.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import polars as pl

from tiercast_lab import units, windows

Rows = Mapping[str, pl.DataFrame]


@dataclass(frozen=True)
class Context:
    """What a measure knows of the run beside its rows.

    available[agent]: steps (time_s, bit/s) of the smallest link rate on the receiver's path.
    bottlenecks[agent]: the direction of a link, as in `port` rows: "0>1". flows: TCP flows with
    their start and stop, s, without background that comes and goes. rivals[agent]: the flows at
    the bottleneck of a receiver, of those receivers by which the session's share is measured.
    """

    window: tuple[float, float]  # s
    sender: str
    layers: int
    available: Mapping[str, list[tuple[float, float]]]
    round_trip: float  # s, d of SIM table 1
    bottlenecks: Mapping[str, str] = field(default_factory=dict)
    flows: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    rivals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # absences[agent]: intervals (from, to), s, in which a receiver is none.
    absences: Mapping[str, list[tuple[float, float]]] = field(default_factory=dict)
    members: tuple[str, ...] = ()  # receivers of every session
    periods: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # further windows
    senders: Mapping[int, str] = field(default_factory=dict)  # of every session, by its number
    packet_sizes: Mapping[str, int] = field(default_factory=dict)  # of flows, IP bytes

    @property
    def receivers(self) -> list[str]:
        return list(self.available)

    @property
    def competing(self) -> list[str]:
        """The flows by which the session's share is measured."""
        return sorted({name for rivals in self.rivals.values() for name in rivals})


# ---- series -------------------------------------------------------------------------------------


def counter_at(rows: pl.DataFrame, column: str, times: np.ndarray) -> np.ndarray:
    """A counter's value at `times`, on straight lines between its rows, which start from 0."""
    rows = rows.sort("time_s")
    if rows.is_empty():
        return np.zeros(len(times))
    return np.interp(times, rows["time_s"].to_numpy(), rows[column].to_numpy(), left=0.0)


def rate_series(rows: pl.DataFrame, column: str, edges: np.ndarray) -> np.ndarray:
    """bit/s of a byte counter in each interval between `edges`."""
    return 8 * np.diff(counter_at(rows, column, edges)) / np.diff(edges)


def step_at(times: np.ndarray, values: np.ndarray, at: np.ndarray, before: float) -> np.ndarray:
    """A piecewise constant quantity at the times `at`; `before` its first change."""
    if len(times) == 0:
        return np.full(len(at), before)
    index = np.searchsorted(times, at, side="right") - 1
    return np.where(index >= 0, np.asarray(values)[np.maximum(index, 0)], before)


def top_at(rows: Rows, agent: str, at: np.ndarray) -> np.ndarray:
    """The subscription level of a receiver: its highest rank, -1 before it joins."""
    frame = rows.get("subscription")
    if frame is None:
        return np.full(len(at), -1.0)
    mine = frame.filter(pl.col("agent") == agent).sort("time_s")
    return step_at(mine["time_s"].to_numpy(), mine["top"].to_numpy(), at, -1.0)


def subscribers(rows: Rows, context: Context, at: np.ndarray) -> np.ndarray:
    """[layer, time]: receivers whose subscription includes the layer."""
    tops = np.array([top_at(rows, agent, at) for agent in context.receivers])
    return np.array([(tops >= rank).sum(axis=0) for rank in range(context.layers)])


def cumulative_rates(rows: Rows, context: Context, edges: np.ndarray) -> np.ndarray:
    """[n-1, interval]: sending rate of the n lowest layers together, from bytes sent."""
    frame = rows.get("layer")
    if frame is None:
        return np.zeros((context.layers, len(edges) - 1))
    layers = [
        rate_series(
            frame.filter((pl.col("rank") == rank) & (pl.col("agent") == context.sender)),
            "sent_bytes",
            edges,
        )
        for rank in range(context.layers)
    ]
    return np.cumsum(layers, axis=0)


def received_rate(rows: Rows, agent: str, edges: np.ndarray) -> np.ndarray:
    frame = rows.get("received")
    if frame is None:
        return np.zeros(len(edges) - 1)
    return rate_series(frame.filter(pl.col("agent") == agent), "bytes", edges)


def utilisation(rows: Rows, context: Context, agent: str, edges: np.ndarray) -> np.ndarray:
    """Mean of r_i(t) / a_i(t) over each interval, which is divided where a_i changes: bytes that
    came while the link was fast do not count for when it was slow."""
    times, rates = (np.array(column) for column in zip(*context.available[agent], strict=True))
    inside = times[(times > edges[0]) & (times < edges[-1])]
    parts = np.union1d(edges, inside)
    available = step_at(times, rates, (parts[:-1] + parts[1:]) / 2, rates[0])
    used = received_rate(rows, agent, parts) / available * np.diff(parts)
    so_far = np.concatenate(([0.0], np.cumsum(used)))[np.searchsorted(parts, edges)]
    return np.diff(so_far) / np.diff(edges)


def present(context: Context, agent: str, edges: np.ndarray) -> np.ndarray:
    """Whether the agent is a receiver throughout each interval."""
    result = np.full(len(edges) - 1, True)
    for start, end in context.absences.get(agent, ()):
        result &= (edges[1:] <= start) | (edges[:-1] >= end)
    return result


def efficiency_series(rows: Rows, context: Context, edges: np.ndarray) -> np.ndarray:
    """E(t) = 1/n sum r_i(t) / a_i(t)  // SIM 4.1, over the receivers that are there."""
    shares = [
        np.where(
            present(context, agent, edges),
            utilisation(rows, context, agent, edges),
            np.nan,
        )
        for agent in context.receivers
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # an interval without a receiver
        return np.nanmean(shares, axis=0)


def change_times(rows: Rows, context: Context) -> np.ndarray:
    """Times of all subscription changes; a receiver's first join is none."""
    frame = rows.get("subscription")
    if frame is None or frame.is_empty():
        return np.array([])
    changes = frame.sort("time_s").filter(
        pl.col("agent").is_in(context.receivers)
        & (pl.col("top") != pl.col("top").shift(1).over("agent"))
    )
    return changes["time_s"].to_numpy()


def instability_series(rows: Rows, context: Context, edges: np.ndarray) -> np.ndarray:
    """Mean of I(t), changes per receiver in a round trip, over each interval  // SIM 4.1"""
    changes, _ = np.histogram(change_times(rows, context), edges)
    return changes / len(context.receivers) * context.round_trip / np.diff(edges)


# ---- figures over the window --------------------------------------------------------------------


def _seconds(context: Context) -> np.ndarray:
    """Edges of about a second that fill the window."""
    start, end = context.window
    return np.linspace(start, end, max(1, round(end - start)) + 1)


def _edges(context: Context) -> np.ndarray:
    return np.array(context.window)


def _in_window(frame: pl.DataFrame, context: Context) -> pl.DataFrame:
    return frame.filter(pl.col("time_s").is_between(*context.window))


def cumulative_rate(rows: Rows, context: Context, layers: int) -> float | None:
    if "layer" not in rows:
        return None
    return float(cumulative_rates(rows, context, _edges(context))[layers - 1, 0])


def mean_subscribers(rows: Rows, context: Context, layers: int) -> float | None:
    """Time average of the receivers subscribed to at least `layers` layers."""
    if "subscription" not in rows:
        return None
    start, end = context.window
    at = np.arange(start, end, 0.05)
    return float(subscribers(rows, context, at)[layers - 1].mean())


def efficiency(rows: Rows, context: Context) -> float | None:
    if "received" not in rows:
        return None
    return float(np.nanmean(efficiency_series(rows, context, _seconds(context))))


def receiver_rate(rows: Rows, context: Context, agent: str) -> float | None:
    """Of one receiver, IP bytes of all its layers."""
    if "received" not in rows:
        return None
    return float(received_rate(rows, agent, _edges(context))[0])


def level(rows: Rows, context: Context, agent: str) -> float | None:
    """Layers that a receiver is subscribed to, time average."""
    if "subscription" not in rows:
        return None
    return float(top_at(rows, agent, np.arange(*context.window, 0.05)).mean()) + 1


def rate_variation(rows: Rows, context: Context, agent: str) -> float | None:
    """Standard deviation / mean of a receiver's rate in each second."""
    if "received" not in rows:
        return None
    rates = received_rate(rows, agent, _seconds(context))
    return float(rates.std() / rates.mean()) if rates.mean() > 0 else None


def instability(rows: Rows, context: Context) -> float | None:
    if "subscription" not in rows:
        return None
    return float(instability_series(rows, context, _edges(context))[0])


def loss(rows: Rows, context: Context) -> float | None:
    """Packets lost / (received + lost), all receivers together."""
    frame = rows.get("received")
    if frame is None:
        return None
    lost = received = 0.0
    for agent in context.receivers:
        mine = frame.filter(pl.col("agent") == agent)
        lost += float(np.diff(counter_at(mine, "lost", _edges(context)))[0])
        received += float(np.diff(counter_at(mine, "packets", _edges(context)))[0])
    return lost / (lost + received) if lost + received else None


def marked(rows: Rows, context: Context) -> float | None:
    """Packets with CE / received, all receivers together."""
    frame = rows.get("received")
    if frame is None:
        return None
    counts = [
        [
            float(np.diff(counter_at(frame.filter(pl.col("agent") == agent), column, edges))[0])
            for column in ("marked", "packets")
        ]
        for edges in [_edges(context)]
        for agent in context.receivers
    ]
    marks, packets = np.sum(counts, axis=0)
    return float(marks / packets) if packets else None


def join_latency(rows: Rows, context: Context, quantile: float) -> float | None:
    """s, from a join to the first packet of its layer. Where nobody joined in the window, the
    joins of the whole run count."""
    frame = rows.get("join")
    if frame is None or frame.is_empty():
        return None
    windowed = _in_window(frame, context)
    chosen = frame if windowed.is_empty() else windowed
    return float(chosen["latency_us"].quantile(quantile, "higher")) / 1e6


def longest_queue(rows: Rows, context: Context) -> float | None:
    """Packets waiting at any port."""
    frame = rows.get("port")
    if frame is None or (windowed := _in_window(frame, context)).is_empty():
        return None
    return float(windowed["max_queue_packets"].max())


def queue_drops(rows: Rows, context: Context) -> float | None:
    """Packets dropped at emulated queues, as a share of all that reached them."""
    frame = rows.get("port")
    if frame is None:
        return None
    drops = sent = 0.0
    for _, port in frame.group_by("agent", "port"):
        drops += float(np.diff(counter_at(port, "drops", _edges(context)))[0])
        sent += float(np.diff(counter_at(port, "tx_packets", _edges(context)))[0])
    return drops / (drops + sent) if drops + sent else None


def mean_queue(rows: Rows, context: Context) -> float | None:
    """Packets waiting at the receivers' bottlenecks, mean over the looks at them."""
    frame = rows.get("port")
    if frame is None:
        return None
    links = set(context.bottlenecks.values())
    seen = _in_window(frame, context).filter(pl.col("link").is_in(links))
    return None if seen.is_empty() else float(seen["queue_packets"].mean())


# ---- beside TCP ---------------------------------------------------------------------------------


def flow_rate(rows: Rows, flow: str, edges: np.ndarray) -> np.ndarray:
    """bit/s, IP bytes of what the receiving end has read."""
    frame = rows.get("tcp")
    if frame is None:
        return np.zeros(len(edges) - 1)
    return rate_series(frame.filter(pl.col("agent") == flow), "bytes", edges)


def _contest(rows: Rows, context: Context) -> tuple[dict[str, float], dict[str, float]] | None:
    """bit/s of the receivers that have rivals in the window, and of these; over the part of the
    window in which all these flows are there."""
    rivals = _rivals(context)
    names = sorted({name for flows in rivals.values() for name in flows})
    if not names or "received" not in rows or "tcp" not in rows:
        return None
    start = max(context.window[0], *(context.flows[name][0] for name in names))
    end = min(context.window[1], *(context.flows[name][1] for name in names))
    if start >= end:
        return None
    edges = np.array([start, end])
    return (
        {agent: float(received_rate(rows, agent, edges)[0]) for agent in rivals},
        {name: float(flow_rate(rows, name, edges)[0]) for name in names},
    )


def _rivals(context: Context) -> dict[str, list[str]]:
    """Flows at the bottlenecks of receivers, at some time of the window."""
    start, end = context.window
    present = {name for name, (on, off) in context.flows.items() if on < end and off > start}
    rivals = {
        agent: [name for name in flows if name in present]
        for agent, flows in context.rivals.items()
    }
    return {agent: flows for agent, flows in rivals.items() if flows}


def tcp_ratio(rows: Rows, context: Context) -> float | None:
    """Throughput at a receiver / mean throughput of the flows at its bottleneck; mean over the
    receivers."""
    if (contest := _contest(rows, context)) is None:
        return None
    received, flows = contest
    rivals = _rivals(context)
    ratios = []
    for agent, rate in received.items():
        fair = float(np.mean([flows[name] for name in rivals[agent]]))
        if fair == 0:
            return None
        ratios.append(rate / fair)
    return float(np.mean(ratios))


def receiver_tcp_ratio(rows: Rows, context: Context, agent: str) -> float | None:
    """Throughput at one receiver / mean throughput of the flows at its bottleneck."""
    contest = _contest(rows, context)
    if contest is None or agent not in contest[0]:
        return None
    fair = float(np.mean([contest[1][name] for name in context.rivals[agent]]))
    return contest[0][agent] / fair if fair else None


def sessions_tcp_ratio(rows: Rows, context: Context) -> float | None:
    """Mean throughput of the receivers of all sessions / mean throughput of the flows at the first
    session's bottlenecks."""
    if (contest := _contest(rows, context)) is None or not context.members:
        return None
    edges = _edges(context)
    rates = [float(received_rate(rows, agent, edges)[0]) for agent in context.members]
    fair = float(np.mean(list(contest[1].values())))
    return float(np.mean(rates)) / fair if fair else None


def tcp_ratio_extreme(
    rows: Rows, context: Context, of: Callable[[list[float]], float]
) -> float | None:
    """Of a receiver's throughput / that of a flow at its bottleneck, over all such pairs."""
    if (contest := _contest(rows, context)) is None:
        return None
    received, flows = contest
    if not all(flows[name] for agent in received for name in context.rivals[agent]):
        return None
    return of([r / flows[name] for agent, r in received.items() for name in context.rivals[agent]])


def tcp_throughput(
    rows: Rows, context: Context, of: Callable[[list[float]], float]
) -> float | None:
    contest = _contest(rows, context)
    return None if contest is None else float(of(list(contest[1].values())))


def tcp_retransmitted(rows: Rows, context: Context) -> float | None:
    """Packets sent again / packets sent, all flows at the receivers' bottlenecks together."""
    frame = rows.get("tcp.sender")
    if frame is None or "retransmitted" not in frame.columns:
        return None
    sent = again = 0.0
    for name in {name for flows in _rivals(context).values() for name in flows}:
        mine = frame.filter(pl.col("agent") == name)
        again += float(np.diff(counter_at(mine, "retransmitted", _edges(context)))[0])
        sent += float(np.diff(counter_at(mine, "sent_packets", _edges(context)))[0])
    return again / sent if sent else None


def session_throughput(rows: Rows, context: Context) -> float | None:
    """bit/s, mean over the receivers."""
    if "received" not in rows:
        return None
    edges = _edges(context)
    rates = [float(received_rate(rows, agent, edges)[0]) for agent in context.receivers]
    return float(np.mean(rates))


def other_throughput(rows: Rows, context: Context) -> float | None:
    """bit/s, mean over the receivers of all sessions but the first."""
    others = [agent for agent in context.members if agent not in context.available]
    if "received" not in rows or not others:
        return None
    edges = _edges(context)
    return float(np.mean([received_rate(rows, agent, edges)[0] for agent in others]))


def other_ratio(rows: Rows, context: Context) -> float | None:
    """Throughput of the first session / that of the others."""
    other = other_throughput(rows, context)
    return session_throughput(rows, context) / other if other else None


def feedback_rate(rows: Rows, context: Context) -> float | None:
    """Feedback messages that the sender took in, per second."""
    frame = rows.get("feedback")
    if frame is None:
        return None
    mine = frame.filter(pl.col("agent") == context.sender)
    start, end = context.window
    return float(np.diff(counter_at(mine, "accepted", _edges(context)))[0]) / (end - start)


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
    return float(np.diff(counter_at(mine, "naks", _edges(context)))[0])


def _losses_seen(rows: Rows, context: Context) -> tuple[int, int] | None:
    """ERMCC's receivers: loss events that they reported, and others."""
    frame = rows.get("ermcc.trac")
    if frame is None:
        return None
    mine = _in_window(frame, context).filter(pl.col("agent").is_in(context.receivers))
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


# ---- representatives ----------------------------------------------------------------------------


def representatives(rows: Rows, context: Context) -> float | None:
    """The most at once, of MDP-CC's sender."""
    frame = rows.get("mdpcc.representatives")
    if frame is None or (windowed := _in_window(frame, context)).is_empty():
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


# ---- windows (RLA 5.1) --------------------------------------------------------------------------


def of_sender(
    rows: Rows, context: Context, agent: str, of: Callable[[windows.Sender], float | None]
) -> float | None:
    found = windows.sender(rows, agent, context.window)
    return None if found is None else of(found)


def signals_per_receiver(rows: Rows, context: Context) -> float | None:
    signals = of_sender(rows, context, context.sender, lambda found: found.signals)
    return None if signals is None else signals / len(context.receivers)


def of_flow(
    rows: Rows,
    context: Context,
    choose: Callable[..., windows.TcpFlow],
    of: Callable[[windows.TcpFlow], float | None],
) -> float | None:
    """Of the slowest (min) or the fastest (max) of all TCP flows."""
    flows = _tcp_flows(rows, context, context.flows)
    return of(choose(flows, key=lambda flow: flow.packet_rate)) if flows else None


def _tcp_flows(rows: Rows, context: Context, names: Iterable[str]) -> list[windows.TcpFlow]:
    found = (
        windows.tcp_flow(rows, name, context.packet_sizes.get(name, 0), context.window)
        for name in names
        if context.packet_sizes.get(name)
    )
    return [flow for flow in found if flow is not None]


def window_mode(rows: Rows, context: Context, agent: str) -> float | None:
    """Of one session, in the most frequent combination of all sessions' windows."""
    senders = list(context.senders.values())
    found = windows.modes(rows, senders, context.window)
    return found[senders.index(agent)] if found else None


Summary = Callable[[list[float]], float]


def receivers_signals(
    rows: Rows, context: Context, at_bottleneck: bool, of: Summary
) -> float | None:
    """Of the receivers behind the soft bottleneck, or of all others."""
    chosen = [name for name in context.receivers if (name in context.rivals) == at_bottleneck]
    signals = windows.signals_of(rows, context.sender, chosen, context.window)
    return of(signals) if signals else None


def flows_cuts(rows: Rows, context: Context, at_bottleneck: bool, of: Summary) -> float | None:
    competing = context.competing
    chosen = [name for name in context.flows if (name in competing) == at_bottleneck]
    cuts = [flow.cuts for flow in _tcp_flows(rows, context, chosen)]
    return of(cuts) if cuts and None not in cuts else None


# ---- the list -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class MeasureSpec:
    """`parse`: text of an experiment -> unit of the figure; `show`: the reverse."""

    compute: Callable[..., float | None]
    unit: str
    parse: Callable[[object], float]
    show: Callable[[float], str]
    purpose: str
    per_layer: bool = False
    of_traffic: bool = False  # it needs competing flows
    per_receiver: bool = False
    per_session: bool = False  # the first has the plain name


def _plain(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{value!r} is not a plain number")
    return float(value)


def _rate_spec(
    compute: Callable[..., float | None],
    purpose: str,
    per_layer: bool = False,
    of_traffic: bool = False,
) -> MeasureSpec:
    return MeasureSpec(
        compute,
        "bit/s",
        units.parse_rate,
        lambda v: f"{v / 1e6:.2f} Mbit/s",
        purpose,
        per_layer,
        of_traffic,
    )


def _tcp_spec(of: Callable[[list[float]], float], purpose: str) -> MeasureSpec:
    return _rate_spec(
        lambda rows, context: tcp_throughput(rows, context, of), purpose, of_traffic=True
    )


def _time_spec(quantile: float, purpose: str) -> MeasureSpec:
    return MeasureSpec(
        lambda rows, context: join_latency(rows, context, quantile),
        "s",
        lambda text: units.parse_duration(text) / 1e9,
        lambda v: f"{v * 1e3:.1f} ms",
        purpose,
    )


def _fraction_spec(
    compute: Callable[..., float | None], purpose: str, of_traffic: bool = False
) -> MeasureSpec:
    return MeasureSpec(
        compute,
        "fraction",
        units.parse_fraction,
        lambda v: f"{v * 100:.2f} %",
        purpose,
        of_traffic=of_traffic,
    )


def _number_spec(
    compute: Callable[..., float | None],
    unit: str,
    purpose: str,
    digits: int,
    per_layer: bool = False,
    of_traffic: bool = False,
    per_receiver: bool = False,
) -> MeasureSpec:
    return MeasureSpec(
        compute,
        unit,
        _plain,
        lambda v: f"{v:.{digits}f}",
        purpose,
        per_layer,
        of_traffic,
        per_receiver,
    )


def _sender_spec(
    of: Callable[[windows.Sender], float | None], unit: str, purpose: str, digits: int
) -> MeasureSpec:
    number = _number_spec(
        lambda rows, context, agent: of_sender(rows, context, agent, of), unit, purpose, digits
    )
    return replace(number, per_session=True)


def _count_spec(compute: Callable[..., float | None], purpose: str) -> MeasureSpec:
    """How often per second; papers say how often in a run: `840 in 2900s`."""
    return MeasureSpec(compute, "1/s", units.parse_frequency, lambda v: f"{v:.4g} /s", purpose)


def _window_specs() -> dict[str, MeasureSpec]:
    """The rows of RLA's figures 7 to 10."""

    def of(name: str) -> Callable[[object], float | None]:
        return lambda found: getattr(found, name)

    specs = {
        "packet_rate": _sender_spec(
            of("packet_rate"), "packets/s", "packets that all receivers have", 1
        ),
        "cwnd": _sender_spec(of("cwnd"), "packets", "the sender's window, mean over time", 1),
        "rtt": _sender_spec(
            of("rtt"), "s", "until all have acknowledged a packet that left once, mean", 3
        ),
        "window_mode": replace(
            _number_spec(
                window_mode,
                "packets",
                "the sender's window, most frequent together with those of all sessions",
                0,
            ),
            per_session=True,
        ),
        "window_balance": _sender_spec(of("balance"), "", "cwnd / (packet_rate rtt)", 3),
    }
    for name, attribute, purpose in (
        ("congestion_signals", "signals", "congestion signals, of all receivers together"),
        ("window_cuts", "cuts", "cuts of the sender's window"),
        ("forced_cuts", "forced_cuts", "of them forced ones"),
    ):
        compute = partial(of_sender, of=of(attribute))
        specs[name] = replace(_count_spec(compute, purpose), per_session=True)
    specs["signals_per_receiver"] = _count_spec(
        signals_per_receiver, "congestion signals / receivers: as many cuts are expected"
    )
    summaries = {"worst": max, "best": min, "mean": lambda values: sum(values) / len(values)}
    for where, place, purpose in (
        (True, "", "behind the soft bottleneck"),
        (False, "_elsewhere", "of all others"),
    ):
        for which, summary in summaries.items():
            for name, compute in (
                ("signals", receivers_signals),
                ("tcp_cuts", flows_cuts),
            ):
                specs[f"{name}_{which}{place}"] = replace(
                    _count_spec(
                        partial(compute, at_bottleneck=where, of=summary),
                        f"congestion signals of a receiver {purpose}: {which}"
                        if name == "signals"
                        else f"window cuts of a TCP flow {purpose}: {which}",
                    ),
                    of_traffic=True,
                )
    for short, choose, which in (("wtcp", min, "slowest"), ("btcp", max, "fastest")):

        def flow(
            attribute: str, choose: Callable[..., windows.TcpFlow] = choose
        ) -> Callable[..., float | None]:
            return partial(of_flow, choose=choose, of=of(attribute))

        what = f"of the {which} TCP flow"
        for name, unit, digits in (
            ("packet_rate", "packets/s", 1),
            ("cwnd", "packets", 1),
            ("rtt", "s", 3),
        ):
            specs[f"{short}_{name}"] = _number_spec(
                flow(name), unit, f"{name} {what}", digits, of_traffic=True
            )
        for name, purpose in (
            ("cuts", f"window cuts {what}, fast retransmits and time-outs"),
            ("timeouts", f"time-outs {what}"),
        ):
            specs[f"{short}_{name}"] = replace(_count_spec(flow(name), purpose), of_traffic=True)
    return specs


MEASURES: dict[str, MeasureSpec] = {
    "cumulative_rate": _rate_spec(
        cumulative_rate, "sending rate of the n lowest layers", per_layer=True
    ),
    "subscribers": _number_spec(
        mean_subscribers, "receivers", "receivers with at least n layers, time average", 2, True
    ),
    "receiver_rate": MeasureSpec(
        receiver_rate,
        "bit/s",
        units.parse_rate,
        lambda v: f"{v / 1e6:.2f} Mbit/s",
        "received rate of one receiver",
        per_receiver=True,
    ),
    "level": _number_spec(
        level, "layers", "layers that one receiver has, time average", 2, per_receiver=True
    ),
    "rate_variation": _number_spec(
        rate_variation,
        "",
        "standard deviation / mean of one receiver's rate in each second",
        2,
        per_receiver=True,
    ),
    "efficiency": _number_spec(
        efficiency, "", "mean over receivers of received rate / available bandwidth", 3
    ),
    "instability": _number_spec(
        instability,
        "changes/receiver/RTT",
        "subscription changes per receiver and round trip",
        5,
    ),
    "loss": _fraction_spec(loss, "packets lost at receivers"),
    "marked": _fraction_spec(marked, "packets received with CE"),
    "queue_drops": _fraction_spec(queue_drops, "packets dropped at emulated queues"),
    "join_latency_p50": _time_spec(0.50, "join to first packet, median"),
    "join_latency_p99": _time_spec(0.99, "join to first packet, 99th percentile"),
    "feedback_rate": _number_spec(
        feedback_rate, "messages/s", "feedback messages that reach the sender", 1
    ),
    "longest_queue": _number_spec(longest_queue, "packets", "longest queue of any port", 0),
    "mean_queue": _number_spec(
        mean_queue, "packets", "queue at the receivers' bottlenecks, mean over time", 1
    ),
    "representatives": _number_spec(
        representatives, "receivers", "MDP-CC's representatives, the most at once", 0
    ),
    "clr_delay": _number_spec(
        clr_delay, "GRTT", "from a loss on MDP-CC's new worst path until its receiver is CLR", 1
    ),
    "session_throughput": _rate_spec(session_throughput, "received rate, mean over receivers"),
    "other_throughput": _rate_spec(
        other_throughput, "received rate, mean over the receivers of the other sessions"
    ),
    "other_ratio": _number_spec(
        other_ratio, "", "throughput of the first session / that of the others", 2
    ),
    "feedbacks": _number_spec(feedbacks, "messages", "feedback messages that reach the sender", 0),
    "naks": _number_spec(naks, "messages", "PGMCC's feedback without acknowledgements", 0),
    "feedback_suppressed": _number_spec(
        feedback_suppressed, "messages", "feedback that ERMCC's receivers kept to themselves", 0
    ),
    "suppression": _fraction_spec(
        suppression, "loss events that ERMCC's receivers kept to themselves"
    ),
    "feedback_of_one": _number_spec(
        feedback_of_one, "", "ERMCC's feedback / loss events of one receiver", 2
    ),
    "representative_switches": _number_spec(
        representative_switches, "switches", "changes of the representative", 0
    ),
    "representative_share": MeasureSpec(
        representative_share,
        "fraction",
        units.parse_fraction,
        lambda v: f"{v * 100:.1f} %",
        "time in which this receiver is the representative",
        per_receiver=True,
    ),
    "representative_delay": MeasureSpec(
        representative_delay,
        "s",
        lambda text: units.parse_duration(text) / 1e9,
        lambda v: f"{v:.1f} s",
        "from the window's start until this receiver is the representative",
        per_receiver=True,
    ),
    "tcp_ratio": _number_spec(
        tcp_ratio,
        "",
        "throughput of the session / mean of the TCP flows at its bottleneck",
        2,
        of_traffic=True,
    ),
    "receiver_tcp_ratio": _number_spec(
        receiver_tcp_ratio,
        "",
        "throughput of one receiver / mean of the TCP flows at its bottleneck",
        2,
        of_traffic=True,
        per_receiver=True,
    ),
    "sessions_tcp_ratio": _number_spec(
        sessions_tcp_ratio,
        "",
        "mean throughput of all sessions' receivers / mean of the TCP flows",
        2,
        of_traffic=True,
    ),
    "tcp_ratio_to_worst": _number_spec(
        lambda rows, context: tcp_ratio_extreme(rows, context, max),
        "",
        "throughput of the session / slowest TCP flow at its bottleneck; largest of a receiver",
        2,
        of_traffic=True,
    ),
    "tcp_ratio_to_best": _number_spec(
        lambda rows, context: tcp_ratio_extreme(rows, context, min),
        "",
        "throughput of the session / fastest TCP flow at its bottleneck; smallest of a receiver",
        2,
        of_traffic=True,
    ),
    "tcp_throughput": _tcp_spec(
        lambda rates: sum(rates) / len(rates), "TCP flows at the bottleneck, mean"
    ),
    "tcp_worst": _tcp_spec(min, "slowest TCP flow at the bottleneck"),
    "tcp_best": _tcp_spec(max, "fastest TCP flow at the bottleneck"),
    "tcp_retransmitted": _fraction_spec(
        tcp_retransmitted,
        "packets that the TCP flows at the bottleneck sent again",
        of_traffic=True,
    ),
    **_window_specs(),
}


@cache
def measures_version() -> str:
    """Changes with how measures are taken."""
    code = (Path(__file__), Path(windows.__file__))
    return hashlib.sha256(b"".join(path.read_bytes() for path in code)).hexdigest()[:12]


def find_spec(name: str) -> MeasureSpec:
    """Raises ValueError for a name that all_measures never gives."""
    name, _, _ = name.partition("@")
    if name in MEASURES and not (MEASURES[name].per_layer or MEASURES[name].per_receiver):
        return MEASURES[name]
    spec = MEASURES.get(name.rpartition("_")[0])
    if spec is None or not (spec.per_layer or spec.per_receiver or spec.per_session):
        valid = ", ".join(
            f"{known}_<layers>"
            if one.per_layer
            else f"{known}_h<node>"
            if one.per_receiver
            else known
            for known, one in MEASURES.items()
        )
        raise ValueError(f"unknown measure {name!r}; valid: {valid}")
    return spec


def spec_of(name: str) -> tuple[MeasureSpec, str]:
    """Of a name that all_measures gives; and what people read."""
    spec = find_spec(name)
    name, _, period = name.partition("@")
    if period:
        return spec, f"{spec_of(name)[1]} ({period})"
    if name in MEASURES:
        return spec, name.replace("_", " ")
    base, _, which = name.rpartition("_")
    shown = base.replace("_", " ")
    if spec.per_receiver:
        return spec, f"{shown}, {which}"
    if spec.per_session:
        return spec, f"{shown}, session {which[1:]}"
    return spec, f"{shown}, {which} layer{'s' if which != '1' else ''}"


def all_measures(rows: Rows, context: Context) -> dict[str, float | None]:
    """Every measure; those per layer as name_1 ... name_n, those per receiver as name_h15. Those
    beside TCP where there is some. And all of these over each period, as name@period."""
    result: dict[str, float | None] = {}
    for period, window in context.periods.items():
        part = all_measures(rows, replace(context, window=window, periods={}))
        result |= {f"{name}@{period}": value for name, value in part.items()}
    for name, spec in MEASURES.items():
        if spec.of_traffic and not context.flows:
            continue
        if spec.per_layer:
            for n in range(1, context.layers + 1):
                result[f"{name}_{n}"] = spec.compute(rows, context, n)
        elif spec.per_receiver:
            for agent in context.members:
                result[f"{name}_{agent}"] = spec.compute(rows, context, agent)
        elif spec.per_session:
            for index, (session, agent) in enumerate(context.senders.items()):
                key = name if index == 0 else f"{name}_s{session}"
                result[key] = spec.compute(rows, context, agent)
        else:
            result[name] = spec.compute(rows, context)
    return result
