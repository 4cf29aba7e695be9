"""The state of what goes on, for the terminal: of a run the newest of each kind of row, of many
runs how many are done."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tiercast_lab.measures import Context
from tiercast_lab.measures.rows import FATES

RUNNING = "running"  # the phase between Start and Stop
RATE_SPAN_S = 2.0  # efficiency is shown over this time


class View(Protocol):
    """Who watches a run."""

    def say(self, text: str) -> None: ...
    def update(self, progress: Progress) -> None: ...


class Unwatched:
    def say(self, text: str) -> None:
        pass

    def update(self, progress: Progress) -> None:
        pass


@dataclass
class Progress:
    context: Context
    duration_s: float
    bounds: Mapping[str, float | None]  # of validity
    virtual: bool = False  # time waits for the machine
    now_s: float = 0.0
    phase: str = "starting"
    _layer_rate: dict[int, float] = field(default_factory=dict)  # rank -> bit/s
    _sent: dict[int, tuple[float, float]] = field(default_factory=dict)  # rank -> s, bytes
    _top: dict[str, int] = field(default_factory=dict)
    _received: dict[str, deque[tuple[float, float]]] = field(default_factory=dict)
    _flows: dict[str, deque[tuple[float, float]]] = field(default_factory=dict)
    _queues: dict[tuple[str, float], tuple[float, str]] = field(default_factory=dict)
    _fates: dict[tuple[str, float], tuple[float | None, ...]] = field(default_factory=dict)
    drops_include_waiting: bool = False  # the switches do not tell them apart
    cpu_percent: float | None = None
    cpu_wait_ms: float | None = None
    pacer_late_ms: float | None = None
    switch_late_ms: float | None = None

    def take(self, kind: str, time_s: float, agent: str, fields: Mapping[str, float | str]) -> None:
        """One row, as the recorder gets it."""
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
        """Not every kind of switch knows its queues and its lateness."""
        fates = {name: fields[name] for name in FATES}
        if fates["queue_drops"] is None and fields["entered"] is not None:
            served = sum(fields[name] for name in ("left", "policy_drops", "pruned"))
            fates["queue_drops"] = fields["entered"] - served
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
        """The rate that the scheme has set, or of what it sent where it has a window instead."""
        before, self._sent[rank] = self._sent.get(rank), (time_s, float(fields["sent_bytes"]))
        rate = 8 * float(fields["rate_Bps"])
        if not rate and before is not None and time_s > before[0]:
            rate = 8 * (self._sent[rank][1] - before[1]) / (time_s - before[0])
        self._layer_rate[rank] = rate

    @property
    def cumulative_rates(self) -> list[float]:
        """bit/s of 1, 2, ... layers together, as the sender has set them."""
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
        """Mean over the receivers that are there."""
        there = self._received_rates
        if not there:
            return None
        receivers = self.context.receivers
        shares = [
            rate / [step for at, step in receivers[agent].available if at <= self.now_s][-1]
            for agent, rate in there.items()
        ]
        return sum(shares) / len(shares)

    @property
    def received(self) -> float | None:
        """bit/s, mean over the receivers that are there."""
        rates = self._received_rates.values()
        return sum(rates) / len(rates) if rates else None

    @property
    def _received_rates(self) -> dict[str, float]:
        """bit/s of the receivers that are there and have said something."""
        rates = {
            agent: _rate(self._received.get(agent), self.now_s)
            for agent, receiver in self.context.receivers.items()
            if not any(left <= self.now_s < back for left, back in receiver.absences)
        }
        return {agent: rate for agent, rate in rates.items() if rate is not None}

    @property
    def tcp_rates(self) -> list[float]:
        """bit/s of the flows that have begun, slowest first; 0 once a flow has ended."""
        rates = [_rate(history, self.now_s) for history in self._flows.values()]
        return sorted(rate for rate in rates if rate is not None)

    @property
    def longest_queue(self) -> tuple[int, str] | None:
        """Packets, and the direction of the link: "1>3"."""
        if not self._queues:
            return None
        packets, link = max(self._queues.values())
        return int(packets), link

    @property
    def fates(self) -> list[int | None]:
        """Packets at all ports so far, by FATES; None where a switch does not count them."""
        columns = zip(*self._fates.values(), strict=True)
        return [None if None in column else round(sum(column)) for column in columns]

    def troubles(self) -> list[str]:
        """What the machine does not keep up with at this moment."""
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
    """bit/s of a byte counter; 0 where it was last heard of long before `now_s`."""
    if not history or history[-1][0] == history[0][0]:
        return None
    (t0, b0), (t1, b1) = history[0], history[-1]
    if now_s is not None and now_s - t1 > RATE_SPAN_S:
        return 0.0
    return 8 * (b1 - b0) / (t1 - t0)


@dataclass
class Tally:
    """How far many runs are; runs are weighed by how long they may take."""

    total: int
    found: int  # were stored already
    done: int = 0  # with those found
    deaths: int = 0  # of workers
    running: dict[str, str] = field(default_factory=dict)  # key -> name
    weight: float = 0.0  # of those not found
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
