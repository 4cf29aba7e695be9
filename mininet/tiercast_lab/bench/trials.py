"""Trials over a device, and the searches that RFC 2544 and RFC 3918 make of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tiercast_lab.bench.device_file import DeviceFile
from tiercast_lab.bench.tester import CabledPort, Tester

OVERHEAD_BYTES = 20  # preamble, start of frame and gap, of Ethernet
LIMITED = 0.98  # a tester that offers less than this of the intended load is the limit
# RFC 2544's two seconds after trials of sixty, in proportion: what leaves the device later is what
# its buffers held of a load that it cannot carry. A software device on shared CPUs pauses so long.
TAIL = 2 / 60
SHORTEST_TAIL_S = 0.02
FIRST_RATE = 1000.0  # frames/s, where no line rate bounds the search


@dataclass(frozen=True)
class Plan:
    """How to measure."""

    sizes: tuple[int, ...]  # bytes of a frame with FCS
    trial_s: float
    wait_s: float = 2.0  # RFC 2544 section 23: for the frames that are still on their way
    # In a search a trial fails if its last frame arrives later than this after the last one was
    # sent; None: a share of the trial (TAIL).
    late_s: float | None = None
    loss: float = 0.0  # of the frames, that a trial may lose and pass (RFC 1242 3.17: none)
    resolution: float = 0.01  # of a search, as a share of its result
    tries: int = 1  # a rate fails when it fails so often
    max_rate: float = 2e7  # frames/s
    joins: int = 5  # repetitions of a delay of joins and leaves
    latency_trials: int = 1  # RFC 2544 section 26.2: at least 20
    reset_s: float = 60.0  # of the trial in which the device is reset

    def passes(self, trial: Trial) -> bool:
        late_s = self.late_s
        if late_s is None:
            late_s = max(SHORTEST_TAIL_S, TAIL * self.trial_s)
        return trial.loss_ratio() <= self.loss and trial.tail_s() <= late_s


@dataclass
class Trial:
    """One trial: intended load, offered load (RFC 2285 sections 3.5.1 and 3.5.2), and what
    arrived."""

    frame: int
    intended: float  # frames/s
    offered: float
    sent: int
    expected: dict[int, int]  # by port: frames that it should have received
    answer: dict[str, Any] = field(repr=False)

    def received(self, port: int) -> int:
        return int(self.answer["ports"][port]["received"])

    def lost(self) -> int:
        return sum(max(0, want - self.received(port)) for port, want in self.expected.items())

    def loss_ratio(self) -> float:
        return loss_ratio([self])

    def tail_s(self) -> float:
        """From the last frame that was sent until the last one that arrived."""
        last = max((self.answer["ports"][port]["last_ns"] for port in self.expected), default=0)
        return float(max(0, last - self.answer["last_ns"])) / 1e9

    def forwarding(self, port: int) -> float:
        """Frames/s that left the device at this port (RFC 2285 section 3.6.1), over the time
        between the first and the last of them."""
        one = self.answer["ports"][port]
        took = (one["last_ns"] - one["first_ns"]) / 1e9
        return (self.received(port) - 1) / took if took > 0 else 0.0

    def limited(self) -> bool:
        """Whether the tester offered less than was intended."""
        return self.intended > 0 and self.offered < LIMITED * self.intended

    def latency_us(self, port: int) -> dict[str, float]:
        found = self.answer["ports"][port].get("latency", {})
        return {
            name.removesuffix("_ns"): value / 1e3
            for name, value in found.items()
            if name.endswith("_ns")
        }


def loss_ratio(trials: Sequence[Trial]) -> float:
    """All frames lost over all that should have arrived; 0 if none should have."""
    want = sum(sum(one.expected.values()) for one in trials)
    return sum(one.lost() for one in trials) / want if want else 0.0


@dataclass
class Found:
    """The result of a search."""

    rate: float  # frames/s: the highest that passed
    best: Trial | None  # at that rate
    limit: str  # "device"; "tester" or "line rate": the device may do more
    trials: list[Trial] = field(repr=False, default_factory=list)


class Bench:
    """A device, the tester that is cabled to it, and a plan."""

    def __init__(
        self,
        tester: Tester,
        ports: Sequence[CabledPort],
        device: DeviceFile,
        plan: Plan,
        alive: Callable[[], None] = lambda: None,
        say: Callable[[str], None] = lambda text: None,
        reset: Callable[[], None] | None = None,
    ) -> None:
        """The first port sends. `alive` raises an error if the device has gone; `say` tells the
        user what goes on; `reset` resets the device (None: nobody can)."""
        self.tester, self.ports, self.device, self.plan = tester, ports, device, plan
        self.receivers = list(range(1, len(ports)))
        self.say = say
        self._alive = alive
        self.reset = reset
        self._first = device.groups.first

    def groups(self, count: int, first: int = 0) -> dict[str, Any]:
        return {"first": str(self._first + first), "count": count,
                "source": str(self.ports[0].address)}  # fmt: skip

    def host(self, port: int, weight: int = 1, sender: int = 0) -> dict[str, Any]:
        """A destination of unicast frames from port `sender`: the address of a port."""
        next_hop = self.ports[sender].next_hop or str(self.tester.ports[port]["mac"])
        return {"host": self.ports[port].address, "mac": next_hop, "weight": weight}

    def join(self, port: int, groups: dict[str, Any]) -> int:
        return int(self.tester.ask({"do": "join", "port": port, "groups": groups})["at_ns"])

    def leave(self, port: int, groups: dict[str, Any]) -> int:
        return int(self.tester.ask({"do": "leave", "port": port, "groups": groups})["at_ns"])

    def trial(
        self,
        frame: int,
        rate: float,
        to: Sequence[dict[str, Any]],
        expected: Callable[[int], dict[int, int]],
        *,
        frames: int | None = None,
        wait_s: float | None = None,
        **more: Any,
    ) -> Trial:
        """`expected` gives, for a number of frames sent, how many each port should receive. `rate`
        0: back to back. With `back` the first port receives, too: what the other one sends."""
        self._alive()
        if frames is None:
            frames = max(1, round(rate * self.plan.trial_s))
        answer = self.tester.ask(
            {"do": "trial", "from": 0, "frame": frame, "rate": rate, "frames": frames, "to": to,
             "wait_s": self.plan.wait_s if wait_s is None else wait_s, **more}
        )  # fmt: skip
        expecting, offered = expected(answer["sent"]), answer["rate"]
        if (back := answer.get("back")) is not None:
            expecting = expecting | {0: back["sent"]}
            offered = min(offered, back["rate"])
            answer["last_ns"] = max(answer["last_ns"], back["last_ns"])
        return Trial(frame, rate, offered, answer["sent"], expecting, answer)

    def settle(self, groups: dict[str, Any], ports: Sequence[int], frame: int = 64) -> None:
        """Sends to the groups until all ports receive all of them. Raises Unsettled if they do
        not within ten seconds or so."""
        count = groups["count"]
        missing = 0
        for _ in range(40):
            found = self.trial(
                frame, max(500.0, 4.0 * count), [groups],
                lambda sent: {port: sent for port in ports}, frames=count, wait_s=0.2,
            )  # fmt: skip
            missing = found.lost()
            if missing == 0:
                return
        raise Unsettled(count, missing)

    def search(self, frame: int, run: Callable[[float], Trial], quantum: int = 1) -> Found:
        """The highest rate that passes (RFC 2544 section 26.1, by bisection). Without a line rate
        the search begins low and doubles. `quantum`: destinations, of which each gets a frame."""
        ceiling, bound = self.plan.max_rate, "tester"
        if self.device.line_rate is not None:
            ceiling = self.device.line_rate / 8 / (frame + OVERHEAD_BYTES)
            bound = "line rate"
        found = Found(0.0, None, "device")

        def passes(rate: float) -> bool:
            rate = max(rate, quantum / self.plan.trial_s)
            for _ in range(self.plan.tries):
                one = run(rate)
                found.trials.append(one)
                self.say(f"{frame} B: {one.offered:,.0f} frames/s, {one.lost():,} lost, "
                         f"{1e3 * one.tail_s():.0f} ms late")  # fmt: skip
                if one.limited():
                    found.limit = "tester"
                if self.plan.passes(one):
                    if one.offered > found.rate:
                        found.rate, found.best = one.offered, one
                    return not one.limited()
            return False

        low, high = 0.0, ceiling
        if self.device.line_rate is None:
            rate = min(FIRST_RATE, ceiling)
            while rate < ceiling and passes(rate):
                low, rate = rate, 2 * rate
            high = min(rate, ceiling)
        elif passes(ceiling):
            found.limit = bound
            return found
        while high - low > self.plan.resolution * high:
            middle = (low + high) / 2
            if middle * self.plan.trial_s < 1:
                break
            if passes(middle):
                low = middle
            else:
                high = middle
        # The tester was the limit only if no trial above the result lost frames.
        above = [one for one in found.trials if one.offered > found.rate * 1.0001]
        if any(not self.plan.passes(one) for one in above):
            found.limit = "device"
        return found


class Unsettled(Exception):
    """Frames to groups do not arrive at all ports that joined them."""

    def __init__(self, groups: int, missing: int) -> None:
        super().__init__(f"{missing} frames of {groups} groups did not arrive")
        self.groups, self.missing = groups, missing


def shares(sent: int, weights: Sequence[int]) -> list[int]:
    """How many of `sent` frames, in turn over the destinations, are for each of several that follow
    each other, of `weights` destinations each."""
    turn = sum(weights)
    whole, rest = divmod(sent, turn)
    found = []
    for weight in weights:
        part = min(max(rest, 0), weight)
        found.append(whole * weight + part)
        rest -= part
    return found


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan
