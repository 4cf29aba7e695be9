"""What the terminal shows of work under way: the newest rows of one run, or how many runs of many
are done."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tiercast_lab.measures import Context
from tiercast_lab.measures.rows import FATES, SERVED

RUNNING = "running"  # the phase from the Start command to the Stop command
RATE_SPAN_S = 2.0  # the time over which the terminal shows efficiency


class View(Protocol):
    """Something that displays the progress of a run."""

    def say(self, text: str) -> None: ...
    def update(self, progress: Progress) -> None: ...


class SilentView:
    def say(self, text: str) -> None:
        pass

    def update(self, progress: Progress) -> None:
        pass


@dataclass
class Progress:
    context: Context
    duration_s: float
    bounds: Mapping[str, float | None]  # of validity, by the name of the check
    virtual: bool = False  # virtual time waits for the machine
    now_s: float = 0.0
    phase: str = "starting"
    _layer_rate: dict[int, float] = field(default_factory=dict)  # bit/s by rank
    _sent: dict[int, tuple[float, float]] = field(default_factory=dict)  # (s, bytes) by rank
    _top: dict[str, int] = field(default_factory=dict)
    _received: dict[str, deque[tuple[float, float]]] = field(default_factory=dict)
    _flows: dict[str, deque[tuple[float, float]]] = field(default_factory=dict)
    _queues: dict[tuple[str, float], tuple[float, str]] = field(default_factory=dict)
    _fates: dict[tuple[str, float], tuple[float | None, ...]] = field(default_factory=dict)
    drops_include_waiting: bool = False  # bmv2: cannot tell them apart
    cpu_percent: float | None = None
    cpu_wait_ms: float | None = None
    pacer_late_ms: float | None = None
    switch_late_ms: float | None = None

    def take(self, kind: str, time_s: float, agent: str, fields: Mapping[str, float | str]) -> None:
        """Takes one row, just as the recorder does."""
        if kind == "layer" and agent == self.context.session.sender:
            self._take_layer(int(fields["rank"]), time_s, fields)
        elif kind == "subscription" and agent in self.context.receivers:
            self._top[agent] = int(fields["top"])
        elif kind == "received" or (kind == "tcp" and agent in self.context.rivals):
            histories = self._received if kind == "received" else self._flows
            history = histories.setdefault(agent, deque())
            history.append((time_s, float(fields["bytes"])))
            while history[-1][0] - history[0][0] > RATE_SPAN_S:
                history.popleft()
        elif kind == "port":
            self._take_port(time_s, agent, fields)
        elif kind == "pacer":
            self.pacer_late_ms = float(fields["late_p99_us"]) / 1e3
        elif kind == "machine":
            self.now_s = time_s
            self.cpu_percent = float(fields["cpu_percent"])
            self.cpu_wait_ms = float(fields["cpu_wait_ms"])

    def _take_port(self, time_s: float, agent: str, fields: Mapping[str, Any]) -> None:
        """Takes a port's row. Some kinds of switch report no queue lengths and no lateness."""
        fates = {name: fields[name] for name in FATES}
        if fates["queue_drops"] is None and fields["entered"] is not None:
            fates["queue_drops"] = fields["entered"] - sum(fields[name] for name in SERVED)
            self.drops_include_waiting = True
        self._fates[agent, float(fields["port"])] = tuple(fates.values())
        if fields["max_queue_packets"] is not None:
            queue = float(fields["max_queue_packets"]), str(fields["link"])
            self._queues[agent, float(fields["port"])] = queue
        if fields["late_p99_us"] is not None:
            if time_s != self.now_s:
                self.now_s, self.switch_late_ms = time_s, 0.0
            self.switch_late_ms = max(self.switch_late_ms or 0, float(fields["late_p99_us"]) / 1e3)

    def _take_layer(self, rank: int, time_s: float, fields: Mapping[str, float | str]) -> None:
        """Takes the rate that the scheme set for a layer, or, for a window-based scheme, the rate
        at which it sent."""
        before, self._sent[rank] = self._sent.get(rank), (time_s, float(fields["sent_bytes"]))
        rate = 8 * float(fields["rate_Bps"])
        if not rate and before is not None and time_s > before[0]:
            rate = 8 * (self._sent[rank][1] - before[1]) / (time_s - before[0])
        self._layer_rate[rank] = rate

    @property
    def cumulative_rates(self) -> list[float]:
        """bit/s of the lowest 1, 2, ... layers together, as the sender set them."""
        total, result = 0.0, []
        for rank in range(self.context.session.layers):
            total += self._layer_rate.get(rank, 0.0)
            result.append(total)
        return result

    @property
    def subscribers(self) -> list[int]:
        return [
            sum(top >= rank for top in self._top.values())
            for rank in range(self.context.session.layers)
        ]

    @property
    def efficiency(self) -> float | None:
        """The mean efficiency of the receivers that are joined now, and whose paths are up."""
        there = self._received_rates
        if not there:
            return None
        receivers = self.context.receivers
        available = {
            agent: [step for at, step in receivers[agent].available if at <= self.now_s][-1]
            for agent in there
        }
        shares = [rate / available[agent] for agent, rate in there.items() if available[agent]]
        return sum(shares) / len(shares) if shares else None

    @property
    def received(self) -> float | None:
        """bit/s, the mean over the receivers that are joined now."""
        rates = self._received_rates.values()
        return sum(rates) / len(rates) if rates else None

    @property
    def _received_rates(self) -> dict[str, float]:
        """bit/s of each receiver that is joined now and has reported."""
        rates = {
            agent: _rate(self._received.get(agent), self.now_s)
            for agent, receiver in self.context.receivers.items()
            if not any(left <= self.now_s < back for left, back in receiver.absences)
        }
        return {agent: rate for agent, rate in rates.items() if rate is not None}

    @property
    def tcp_rates(self) -> list[float]:
        """bit/s of the flows that have begun, the slowest first; 0 for a flow that has ended."""
        rates = [_rate(history, self.now_s) for history in self._flows.values()]
        return sorted(rate for rate in rates if rate is not None)

    @property
    def longest_queue(self) -> tuple[int, str] | None:
        """The longest queue in packets, and the direction of its link, such as "1>3"."""
        if not self._queues:
            return None
        packets, link = max(self._queues.values())
        return int(packets), link

    @property
    def fates(self) -> list[int | None]:
        """Packets at all ports so far, in the order of FATES; None where a switch does not count
        them."""
        columns = zip(*self._fates.values(), strict=True)
        return [None if None in column else round(sum(column)) for column in columns]

    def troubles(self) -> list[str]:
        """What the machine cannot keep up with at the moment."""
        if self.virtual:
            return []
        seen = {
            "cpu": (self.cpu_percent, "CPU {:.0f} %"),
            "cpu_wait": (self.cpu_wait_ms, "programs wait {:.1f} ms for a CPU"),
            "pacer_late_p99": (self.pacer_late_ms, "paced packets {:.1f} ms late"),
            "switch_late_p99": (self.switch_late_ms, "switches {:.1f} ms late"),
        }
        return [
            text.format(value)
            for name, (value, text) in seen.items()
            if value is not None and (bound := self.bounds[name]) is not None and value > bound
        ]


def _rate(history: deque[tuple[float, float]] | None, now_s: float | None = None) -> float | None:
    """The rate of a byte counter in bit/s; 0 if its last sample is old at `now_s`."""
    if not history or history[-1][0] == history[0][0]:
        return None
    (t0, b0), (t1, b1) = history[0], history[-1]
    if now_s is not None and now_s - t1 > RATE_SPAN_S:
        return 0.0
    return 8 * (b1 - b0) / (t1 - t0)


@dataclass
class Tally:
    """How many of many runs are done. Each run counts by the longest time that it may take."""

    total: int
    found: int  # runs that were already stored
    done: int = 0  # includes those already stored
    deaths: int = 0  # workers that died
    crowded: int = 0  # runs made again alone, which could not keep up beside others
    notes: list[str] = field(default_factory=list)  # what the user should know of the experiments
    running: dict[str, str] = field(default_factory=dict)  # names by key
    weight: float = 0.0  # the sum over the runs that were not yet stored
    weight_done: float = 0.0
    _began: float = 0.0

    def start(self) -> None:
        self._began = time.monotonic()

    @property
    def left_s(self) -> float | None:
        if not self.weight_done:
            return None
        spent = time.monotonic() - self._began
        return spent / self.weight_done * (self.weight - self.weight_done)
