"""The input of measures: a run's rows, and quantities over time derived from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from tiercast_lab.measures.context import ALWAYS, Interval, Receiver, Session

FATES = ("queue_drops", "policy_drops", "marked")  # of the packets at a port
# Packets that a link lost: before they were served, as it was down, and on its wire. Rows have the
# columns of WIRE only where the wires of a run's links do more than delay.
LINK_LOSSES = ("down_drops", "link_losses")
WIRE = (*LINK_LOSSES, "duplicated", "on_wire", "rx_link_losses", "rx_duplicated")
SERVED = ("left", "policy_drops", "pruned")  # fates of the packets that a port's queue served


class Rows(Mapping[str, pl.DataFrame]):
    """A run's rows by kind, each a frame with `time_s` and `agent`, in the order of time."""

    def __init__(self, frames: Mapping[str, pl.DataFrame]) -> None:
        self._frames = {
            kind: frame.sort("time_s", maintain_order=True) for kind, frame in frames.items()
        }
        self._parts: dict[tuple[str, str], dict[tuple[object, ...], pl.DataFrame]] = {}

    def __getitem__(self, kind: str) -> pl.DataFrame:
        return self._frames[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._frames)

    def __len__(self) -> int:
        return len(self._frames)

    def of(self, kind: str, value: str, column: str = "agent") -> pl.DataFrame:
        """The rows of one agent, or with `value` in another column. Empty if there are none."""
        if kind not in self._frames:
            return pl.DataFrame()
        if (kind, column) not in self._parts:
            parts = self._frames[kind].partition_by(column, as_dict=True, maintain_order=True)
            self._parts[kind, column] = parts
        found = self._parts[kind, column].get((value,))
        return self._frames[kind].clear() if found is None else found


def counter_at(
    rows: pl.DataFrame, column: str, times: np.ndarray, there: Interval = ALWAYS
) -> np.ndarray:
    """A counter's value at `times`, interpolated between its rows. It is 0 when the flow or session
    that it counts starts (`there`), and what it grows between the rows around that one's stop, it
    has grown by then."""
    if rows.is_empty():
        return np.zeros(len(times))
    start, stop = there
    at = np.maximum(rows["time_s"].to_numpy(), start)
    at[np.searchsorted(at, stop) :][:1] = stop
    counts = np.concatenate(([0.0], rows[column].to_numpy()))
    # Of several values at one time, the last holds from then on.
    values: np.ndarray = np.interp(times, np.concatenate(([start], at)), counts)
    return values


def increase(
    rows: pl.DataFrame, column: str, start: float, end: float, there: Interval = ALWAYS
) -> float:
    """The growth of a counter from `start` to `end`, s; `there` as for counter_at."""
    return float(np.diff(counter_at(rows, column, np.array([start, end]), there))[0])


def totals(rows: pl.DataFrame, *counters: str, of: Iterable[str] = ("agent",)) -> pl.DataFrame:
    """The final value of counters for each agent, or for each value of the columns `of`. Counters
    count from a program's start, so the final value is the highest."""
    return rows.group_by(*of, maintain_order=True).agg(pl.col(*counters).max())


def layers_together(rows: Rows, link: str, chosen: pl.Expr, *columns: str) -> pl.DataFrame:
    """The columns of a port's `port.session` rows summed over the chosen layers, for each sample. A
    layer has rows from its first packet on, so the sample before the first of all is one of 0."""
    layers = rows.of("port.session", link, "link").filter(chosen)
    samples = layers.group_by("time_s").agg(pl.sum(*columns)).sort("time_s")
    if samples.is_empty() or "port" not in rows:
        return samples
    times = rows.of("port", link, "link").select("time_s")
    before = times.filter(pl.col("time_s") < samples["time_s"][0]).tail(1)
    return pl.concat([before, samples], how="diagonal").fill_null(0)


def increases_within(
    rows: pl.DataFrame, column: str, there: Sequence[Interval], edges: np.ndarray
) -> np.ndarray:
    """The growth of a counter in each interval between `edges`, while its agent is present
    (`there`, beyond the last edge, too: a leave ends the growth, an edge does not). What it grew
    between two rows is spread over the time of presence between them. It does not grow during an
    absence."""
    if rows.is_empty():
        return np.zeros(len(edges) - 1)

    def present(at: np.ndarray) -> np.ndarray:
        """The seconds of presence until then."""
        return sum((np.clip(at, *one) - one[0] for one in there), np.zeros(len(at)))

    so_far = np.concatenate(([0.0], present(rows["time_s"].to_numpy())))
    growth = np.diff(rows[column].to_numpy(), prepend=0.0)
    counts = np.concatenate(([0.0], np.cumsum(np.where(np.diff(so_far) > 0, growth, 0.0))))
    result: np.ndarray = np.diff(np.interp(present(edges), so_far, counts))
    return result


def seconds_within(there: Iterable[Interval], edges: np.ndarray) -> np.ndarray:
    """For how long, in s, an agent is present (`there`) in each interval between `edges`."""
    result = np.zeros(len(edges) - 1)
    for start, end in there:
        result += np.diff(np.clip(edges, start, end))
    return result


def step_at(times: np.ndarray, values: np.ndarray, at: np.ndarray, before: float) -> np.ndarray:
    """A piecewise constant quantity at the times `at`; `before` is its value before the first
    change."""
    if len(times) == 0:
        return np.full(len(at), before)
    index = np.searchsorted(times, at, side="right") - 1
    return np.where(index >= 0, np.asarray(values)[np.maximum(index, 0)], before)


def steps_within(
    times: np.ndarray, values: np.ndarray, there: Iterable[Interval], before: float
) -> tuple[np.ndarray, np.ndarray]:
    """A piecewise constant quantity while its agent is present (`there`): each value, and for how
    long it holds, in s."""
    begins, held = [], []
    for start, end in there:
        edges = np.array([start, *times[(times > start) & (times < end)], end])
        begins.append(edges[:-1])
        held.append(np.diff(edges))
    values = step_at(times, values, np.concatenate([[], *begins]), before)
    return values, np.concatenate([[], *held])


# ---- of a session -------------------------------------------------------------------------------


def received_within(
    rows: Rows, receiver: Receiver, agent: str, column: str, edges: np.ndarray
) -> np.ndarray:
    """The growth of a receiver's counter in each interval while it is present."""
    there = receiver.presence(ALWAYS)
    return increases_within(rows.of("received", agent), column, there, edges)


def seconds_there(receiver: Receiver, edges: np.ndarray) -> np.ndarray:
    return seconds_within(receiver.presence((0.0, edges[-1])), edges)


def received_rate(rows: Rows, receiver: Receiver, agent: str, edges: np.ndarray) -> np.ndarray:
    """bit/s of all layers in each interval, over the time for which the receiver is present; NaN
    where it is absent."""
    bits = 8 * received_within(rows, receiver, agent, "bytes", edges)
    return _ratio(bits, seconds_there(receiver, edges))


def received_by(
    rows: Rows, receivers: Mapping[str, Receiver], edges: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The bits that the receivers together receive in each interval, and the sum of the times, in
    s, for which they are present."""
    bits = seconds = np.zeros(len(edges) - 1)
    for agent, receiver in receivers.items():
        bits = bits + 8 * received_within(rows, receiver, agent, "bytes", edges)
        seconds = seconds + seconds_there(receiver, edges)
    return bits, seconds


def mean_received_rate(
    rows: Rows, receivers: Mapping[str, Receiver], edges: np.ndarray
) -> np.ndarray:
    """bit/s, mean over the receivers, each weighted by its time of presence; NaN where none is
    present."""
    return _ratio(*received_by(rows, receivers, edges))


def top_steps(rows: Rows, agent: str) -> tuple[np.ndarray, np.ndarray]:
    """The times, in s, at which a receiver's subscription changed, and its top rank from each on;
    -1 means no layer."""
    mine = rows.of("subscription", agent)
    if mine.is_empty():
        return np.array([]), np.array([])
    return mine["time_s"].to_numpy(), mine["top"].to_numpy()


def subscribers(rows: Rows, session: Session, at: np.ndarray) -> np.ndarray:
    """Array [layer, time]: the number of receivers that are present and subscribed to the layer."""
    tops = np.full((len(session.receivers), len(at)), -1.0)
    for mine, (agent, receiver) in zip(tops, session.receivers.items(), strict=True):
        level = step_at(*top_steps(rows, agent), at, -1.0)
        for start, end in receiver.presence(ALWAYS):
            there = (at >= start) & (at < end)
            mine[there] = level[there]
    return np.array([(tops >= rank).sum(axis=0) for rank in range(session.layers)])


def cumulative_rates(rows: Rows, session: Session, edges: np.ndarray) -> np.ndarray:
    """Array [n-1, interval]: the sending rate of the n lowest layers together in bit/s, from bytes
    sent."""
    mine = rows.of("layer", session.sender)
    if mine.is_empty():
        return np.zeros((session.layers, len(edges) - 1))
    layers = [mine.filter(pl.col("rank") == rank) for rank in range(session.layers)]
    sent = [8 * np.diff(counter_at(one, "sent_bytes", edges, session.there)) for one in layers]
    return np.cumsum(sent, axis=0) / np.diff(edges)


def _used(
    rows: Rows, receiver: Receiver, agent: str, edges: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The integral of r_i(t) / a_i(t) over each interval, in s, while the receiver is present, and
    the time in which it is present and its path is up.
    Intervals are split where a_i changes: bytes received while the link was fast do not count for
    the time when it was slow."""
    times, rates = (np.array(column) for column in zip(*receiver.available, strict=True))
    inside = times[(times > edges[0]) & (times < edges[-1])]
    parts = np.union1d(edges, inside)
    available = step_at(times, rates, (parts[:-1] + parts[1:]) / 2, rates[0])
    received = 8 * received_within(rows, receiver, agent, "bytes", parts)
    up = available > 0
    used = np.divide(received, available, out=np.zeros(len(up)), where=up)
    seconds = np.where(up, seconds_there(receiver, parts), 0.0)
    places = np.searchsorted(parts, edges)
    used_so_far, seconds_so_far = (
        np.concatenate(([0.0], np.cumsum(one)))[places] for one in (used, seconds)
    )
    return np.diff(used_so_far), np.diff(seconds_so_far)


def efficiency_series(rows: Rows, session: Session, edges: np.ndarray) -> np.ndarray:
    """E(t) = 1/n sum r_i(t) / a_i(t)  // SIM 4.1, mean over each interval; NaN where no receiver is
    present with a path that is up."""
    used = seconds = np.zeros(len(edges) - 1)
    for agent, receiver in session.receivers.items():
        used_by_one, seconds_of_one = _used(rows, receiver, agent, edges)
        used, seconds = used + used_by_one, seconds + seconds_of_one
    return _ratio(used, seconds)


def change_times(rows: Rows, session: Session) -> np.ndarray:
    """The times of all subscription changes, including those of receivers that leave and come back
    (SIM 4.2.4). A receiver's first join does not count."""
    times = [np.array([])]
    for agent in session.receivers:
        at, top = top_steps(rows, agent)
        times.append(at[1:][np.diff(top) != 0])
    return np.sort(np.concatenate(times))


def instability_series(rows: Rows, session: Session, edges: np.ndarray) -> np.ndarray:
    """The mean of I(t), changes per receiver in a round trip, over each interval  // SIM 4.1; NaN
    where no receiver is present."""
    changes, _ = np.histogram(change_times(rows, session), edges)
    seconds = np.zeros(len(edges) - 1)
    for receiver in session.receivers.values():
        seconds += seconds_there(receiver, edges)
    return _ratio(changes * session.round_trip, seconds)


def _ratio(values: np.ndarray, by: np.ndarray) -> np.ndarray:
    """values / by; NaN where the divisor is 0."""
    ratio: np.ndarray = np.divide(values, by, out=np.full(len(by), np.nan), where=by > 0)
    return ratio


def whole_seconds(span: Interval) -> np.ndarray:
    """The edges of intervals of about a second that fill `span`."""
    start, end = span
    return np.linspace(start, end, max(1, round(end - start)) + 1)
