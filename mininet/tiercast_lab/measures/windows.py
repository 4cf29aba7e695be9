"""What window-based senders did in an interval: RLA's, and the TCP senders beside them.

Packets are full packets, times are in seconds, and counts are per second, so that runs of any
length can be compared. TCP's rows are equally spaced, so that their mean is one over time. RLA's
come once per round trip and at time-outs: there the window counts until the next row, and a
round-trip time for the packets that were acknowledged since the row before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import numpy as np
import polars as pl

from tiercast_lab.base.frames import as_float_or_none
from tiercast_lab.measures.context import Context, Flow, Interval, Receiver, Session
from tiercast_lab.measures.feedback import mean_receivers
from tiercast_lab.measures.rows import Rows, increase, steps_within
from tiercast_lab.measures.spec import FREQUENCY, measure, number

SESSION = "rla.window"  # a record of the sender, once per round trip
SIGNAL = "rla.signal"  # one for each congestion signal that the sender detected


def counted(
    frame: pl.DataFrame, columns: Iterable[str], interval: Interval, there: Interval
) -> float:
    """The growth of the columns' sum per second; `there` as for counter_at."""
    start, end = interval
    return sum(increase(frame, name, start, end, there) for name in columns) / (end - start)


def mean(
    frame: pl.DataFrame, column: str, interval: Interval, since_the_last: bool = False
) -> float | None:
    """The mean of samples. With `since_the_last`, each row is itself a mean over the time since the
    row before, so the row at the interval's start is excluded."""
    within = pl.col("time_s").is_between(*interval, closed="right" if since_the_last else "both")
    return as_float_or_none(frame.filter(within)[column].mean())


def mean_window(mine: pl.DataFrame, interval: Interval) -> float | None:
    """cwnd, mean over the part of the interval from the first row on. None if there is none."""
    times, values = mine["time_s"].to_numpy(), mine["cwnd"].to_numpy()
    known = max(interval[0], times[0]), interval[1]
    if known[0] >= known[1]:
        return None
    windows, held = steps_within(times, values, [known], before=values[0])
    return float(np.average(windows, weights=held))


def mean_rtt(mine: pl.DataFrame, interval: Interval) -> float | None:
    """rtt_us in s, mean over the packets that were acknowledged in the interval. None if none was
    that was sent once."""
    packets = pl.col("acknowledged").diff().fill_null(pl.col("acknowledged"))
    within = mine.select("time_s", "rtt_us", packets.alias("packets")).filter(
        pl.col("time_s").is_between(*interval, closed="right"), pl.col("rtt_us") > 0
    )  # 0: since the row before, no packet that was sent once was acknowledged
    total = float(within["packets"].sum())
    return float((within["rtt_us"] * within["packets"]).sum()) / total / 1e6 if total else None


@dataclass(frozen=True)
class Sender:
    """One session's part of RLA figure 7. Every congestion signal counts, even an ignored one."""

    packet_rate: float  # packets that all receivers have, per second
    bit_rate: float | None  # of these packets, bit/s
    cwnd: float | None
    rtt: float | None  # until all receivers have acknowledged a packet that was sent once
    signals: float
    cuts: float  # including forced ones
    forced_cuts: float

    @property
    def balance(self) -> float | None:
        """cwnd / (rate RTT), which is 1 if the window limits the rate."""
        if not self.cwnd or not self.rtt or not self.packet_rate:
            return None
        return self.cwnd / (self.packet_rate * self.rtt)


def sender(rows: Rows, session: Session, interval: Interval) -> Sender | None:
    mine = rows.of(SESSION, session.sender)
    if mine.is_empty():
        return None
    packet_rate = counted(mine, ["acknowledged"], interval, session.there)
    size = packet_size(rows, session)
    return Sender(
        packet_rate=packet_rate,
        bit_rate=None if size is None else 8 * size * packet_rate,
        cwnd=mean_window(mine, interval),
        rtt=mean_rtt(mine, interval),
        signals=counted(mine, ["signals"], interval, session.there),
        cuts=counted(mine, ["randomized_cuts", "forced_cuts"], interval, session.there),
        forced_cuts=counted(mine, ["forced_cuts"], interval, session.there),
    )


def packet_size(rows: Rows, session: Session) -> float | None:
    """IP bytes of a session's packets, which are all of one size. None if it has sent none."""
    last = rows.of("layer", session.sender).tail(1)
    if last.is_empty() or not last["sent_packets"][0]:
        return None
    return float(last["sent_bytes"][0] / last["sent_packets"][0])


CELL = 4  # packets
# Each more makes three times as many neighbours; and of many windows, none come together twice.
MOST_TOGETHER = 5


def visited(rows: Rows, agents: Sequence[str], interval: Interval) -> list[np.ndarray] | None:
    """For each sender, the cell of CELL packets that its window was in at each tenth of a second.
    None if one has no record."""
    at = np.arange(*interval, 0.1)
    cells = []
    for agent in agents:
        mine = rows.of(SESSION, agent)
        if mine.is_empty():
            return None
        index = np.searchsorted(mine["time_s"].to_numpy(), at, side="right") - 1
        cells.append((mine["cwnd"].to_numpy()[np.maximum(index, 0)] // CELL).astype(int))
    return cells


def joint_density(rows: Rows, agents: Sequence[str], interval: Interval) -> np.ndarray:
    """How often the senders' windows were in each cell of CELL packets at the same time: an array
    with one dimension per sender, so for few of them. Empty if a sender has no record."""
    cells = visited(rows, agents, interval)
    if cells is None:
        return np.zeros([0] * len(agents))
    density = np.zeros([int(mine.max()) + 1 for mine in cells])
    np.add.at(density, tuple(cells), 1)
    return density


def modes(rows: Rows, agents: Sequence[str], interval: Interval) -> list[float]:
    """For each sender, in packets: the middle of the cell that was visited most often together with
    its neighbours; the first of several. Empty for more than MOST_TOGETHER senders."""
    if SESSION not in rows or len(agents) > MOST_TOGETHER:
        return []
    cells = visited(rows, agents, interval)
    if cells is None:
        return []
    # Only cells that were visited are kept: an array would have a dimension per sender.
    axes = [f"axis{number}" for number in range(len(agents))]
    near = pl.DataFrame(dict(zip(axes, cells, strict=True))).group_by(axes).agg(pl.len().alias("n"))
    for axis, mine in zip(axes, cells, strict=True):
        moved = pl.concat([near.with_columns(pl.col(axis) + step) for step in (-1, 0, 1)])
        inside = moved.filter(pl.col(axis).is_between(0, int(mine.max())))
        near = inside.group_by(axes).agg(pl.col("n").sum())
    best = near.filter(pl.col("n") == pl.col("n").max()).sort(axes).row(0, named=True)
    return [(best[axis] + 0.5) * CELL for axis in axes]


def signals_of(
    rows: Rows, agent: str, receivers: Iterable[Receiver], interval: Interval
) -> list[float] | None:
    """The congestion signals that the sender detected from each of the present receivers, per
    second of its presence."""
    if SIGNAL not in rows:
        return None
    mine = rows.of(SIGNAL, agent).filter(pl.col("time_s").is_between(*interval))
    counts = dict(mine.group_by("receiver").len().iter_rows())
    seconds = {one.node: sum(end - on for on, end in one.presence(interval)) for one in receivers}
    return [counts.get(float(node), 0) / there for node, there in seconds.items() if there]


@dataclass(frozen=True)
class TcpFlow:
    packet_rate: float  # as read by the receiving end
    bit_rate: float  # bit/s
    cwnd: float | None
    rtt: float | None  # the mean of its samples
    cuts: float | None  # fast retransmits and time-outs
    timeouts: float | None


def tcp_flow(rows: Rows, name: str, flow: Flow, interval: Interval) -> TcpFlow | None:
    """None if either end has no rows. Rows of older runs in real time have no cuts."""
    read, sent = rows.of("tcp", name), rows.of("tcp.sender", name)
    if read.is_empty() or sent.is_empty():
        return None

    def over_time(of_records: str, at_records: str) -> float | None:
        known = of_records in sent.columns
        return mean(sent, of_records if known else at_records, interval, since_the_last=known)

    rtt = over_time("rtt_mean_us", "rtt_us")
    counts = "fast_retransmits" in sent.columns
    cuts = ["fast_retransmits", "timeouts"]
    byte_rate = counted(read, ["bytes"], interval, flow.there)
    return TcpFlow(
        packet_rate=byte_rate / flow.packet_size,
        bit_rate=8 * byte_rate,
        cwnd=over_time("cwnd_mean", "cwnd"),
        rtt=None if rtt is None else rtt / 1e6,
        cuts=counted(sent, cuts, interval, flow.there) if counts else None,
        timeouts=counted(sent, ["timeouts"], interval, flow.there) if counts else None,
    )


# ---- measures -----------------------------------------------------------------------------------


def _of(name: str) -> Callable[[object], float | None]:
    return lambda found: getattr(found, name)


def of_sender(rows: Rows, context: Context, of: Callable[[Sender], float | None]) -> float | None:
    found = sender(rows, context.session, context.span)
    return None if found is None else of(found)


for name, attribute, quantity, purpose in (
    (None, "packet_rate", number("packets/s", 1), "RLA: packets that all receivers have received"),
    (None, "cwnd", number("packets", 1), "RLA: the sender's window, mean over time"),
    (
        None,
        "rtt",
        number("s", 3),
        "RLA: time until all have acknowledged a packet sent once, mean of packets",
    ),
    ("window_balance", "balance", number(digits=3), "RLA: cwnd / (packet_rate rtt)"),
    (
        "congestion_signals",
        "signals",
        FREQUENCY,
        "RLA: congestion signals, of all receivers together",
    ),
    ("window_cuts", "cuts", FREQUENCY, "RLA: cuts of the sender's window"),
    (None, "forced_cuts", FREQUENCY, "RLA: forced cuts among them"),
):
    measure(quantity, purpose, name=name or attribute)(partial(of_sender, of=_of(attribute)))


@measure(FREQUENCY, "RLA: congestion signals / receivers; the sender cuts its window as often")
def signals_per_receiver(rows: Rows, context: Context) -> float | None:
    """Congestion signals / receivers present, averaged over time."""
    signals = of_sender(rows, context, lambda found: found.signals)
    receivers = mean_receivers(context)
    return signals / receivers if signals is not None and receivers else None


def of_flow(
    rows: Rows,
    context: Context,
    choose: Callable[..., TcpFlow],
    of: Callable[[TcpFlow], float | None],
) -> float | None:
    """A value of the slowest (min) or the fastest (max) of all TCP flows."""
    flows = _tcp_flows(rows, context, context.rivals)
    return of(choose(flows, key=lambda flow: flow.packet_rate)) if flows else None


for short, choose, flow in (
    ("wtcp", min, "of the slowest of all TCP flows"),
    ("btcp", max, "of the fastest of all TCP flows"),
):
    for attribute, quantity, what in (
        ("packet_rate", number("packets/s", 1), "packets that it delivers"),
        ("cwnd", number("packets", 1), "window, mean over time"),
        ("rtt", number("s", 3), "round trip, mean of its samples"),
        ("cuts", FREQUENCY, "window cuts, fast retransmits and time-outs"),
        ("timeouts", FREQUENCY, "time-outs"),
    ):
        measure(
            quantity, f"{flow}: {what}", name=f"{short}_{attribute}", of_run=True, beside="tcp"
        )(partial(of_flow, choose=choose, of=_of(attribute)))


@measure(
    number(digits=2), "RLA: its rate over the slowest TCP flow's, or the inverse", beside="tcp"
)
def unfairness(rows: Rows, context: Context) -> float | None:
    """1 or more; 1 is the paper's absolute fairness. In bit/s, as the flows' packets may have
    other sizes than the session's."""
    mine = of_sender(rows, context, lambda found: found.bit_rate)
    slowest = min(
        (flow.bit_rate for flow in _tcp_flows(rows, context, context.rivals)), default=None
    )
    return max(mine / slowest, slowest / mine) if mine and slowest else None


def _tcp_flows(rows: Rows, context: Context, names: Iterable[str]) -> list[TcpFlow]:
    """Each flow over the time of its presence; flows that are never present do not count."""
    flows = {name: context.flows[name] for name in names}
    found = (
        tcp_flow(rows, name, flow, part)
        for name, flow in flows.items()
        if (part := flow.presence(context.window)) is not None
    )
    return [flow for flow in found if flow is not None]


@measure(
    number("packets", 0),
    "RLA: the sender's window, most frequent together with those of all sessions",
)
def window_mode(rows: Rows, context: Context) -> float | None:
    """One session's window in the most frequent combination of all sessions' windows."""
    senders = [session.sender for session in context.sessions]
    found = modes(rows, senders, context.window)
    return found[senders.index(context.session.sender)] if found else None


Summary = Callable[[list[float]], float]


def receivers_signals(
    rows: Rows, context: Context, at_bottleneck: bool, of: Summary
) -> float | None:
    """A summary over the receivers behind the soft bottleneck, or over all others."""
    chosen = [
        one for one in context.receivers.values() if bool(one.rivals(context.span)) == at_bottleneck
    ]
    signals = signals_of(rows, context.session.sender, chosen, context.span)
    return of(signals) if signals else None


def flows_cuts(rows: Rows, context: Context, at_bottleneck: bool, of: Summary) -> float | None:
    """A summary over the TCP flows at the session's bottlenecks, or over all others."""
    competing = {name for one in context.receivers.values() for name in one.rivals(context.span)}
    chosen = [name for name in context.rivals if (name in competing) == at_bottleneck]
    flows = _tcp_flows(rows, context, chosen)
    cuts = [flow.cuts for flow in flows if flow.cuts is not None]
    return of(cuts) if cuts and len(cuts) == len(flows) else None


for behind, place, where in (
    (True, "", "at the soft bottleneck"),
    (False, "_elsewhere", "elsewhere"),
):
    for summary, of in (("worst", max), ("best", min), ("mean", fmean)):
        measure(
            FREQUENCY,
            f"RLA: congestion signals of a receiver {where}: {summary}",
            name=f"signals_{summary}{place}",
            beside="tcp",
        )(partial(receivers_signals, at_bottleneck=behind, of=of))
        measure(
            FREQUENCY,
            f"window cuts of a TCP flow {where}: {summary}",
            name=f"tcp_cuts_{summary}{place}",
            beside="tcp",
        )(partial(flows_cuts, at_bottleneck=behind, of=of))
