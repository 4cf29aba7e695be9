"""The benchmarks of RFC 2544, section 26, with unicast frames from the first port to the second."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from tiercast_lab.bench.outcome import Curve, NotMeasured, Outcome, Plot
from tiercast_lab.bench.trials import OVERHEAD_BYTES, Bench, Found, Trial, mean

STEPS = 10  # of the frame loss rate: 100 %, 90 % ...
OVERLOAD = 1.1  # RFC 2544 section 26.5
RESET_AFTER_S = 1.0  # of traffic
RESET_TAIL_S = 1.0  # a device whose last frame leaves later has not come back
BURST_S = 2.0  # RFC 2544 section 26.4: bursts of at least two seconds


class Rfc2544:
    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.throughputs: dict[int, Found] = {}

    def _send(self, frame: int, rate: float, frames: int | None = None) -> Trial:
        return self.bench.trial(
            frame, rate, [self.bench.host(1)], lambda sent: {1: sent}, frames=frames
        )

    def throughput(self) -> Outcome:
        rows, curve = [], []
        for size in self.bench.plan.sizes:
            found = self.bench.search(size, lambda rate, size=size: self._send(size, rate))  # type: ignore[misc]
            self.throughputs[size] = found
            rows.append([size, found.rate, _mbit(found.rate, size), found.limit, len(found.trials)])
            curve.append((float(size), found.rate))
        return Outcome(
            "Throughput", "RFC 2544, 26.1 (RFC 1242, 3.17)",
            ["frame, bytes", "frames/s", "Mbit/s on the wire", "limited by", "trials"], rows,
            keys=1, figure=1,
            plots=[Plot("Throughput", "frame, bytes", "frames/s", [Curve("measured", curve)])],
            details={str(size): _trials(found) for size, found in self.throughputs.items()},
        )  # fmt: skip

    def bidirectional(self) -> Outcome:
        back = {"from": 1, "to": [self.bench.host(0, sender=1)]}
        rows, curve = [], []
        for size in self.bench.plan.sizes:
            found = self.bench.search(size, lambda rate, size=size: self.bench.trial(  # type: ignore[misc]
                size, rate, [self.bench.host(1)], lambda sent: {1: sent}, back=back))  # fmt: skip
            rows.append([size, found.rate, 2 * found.rate, found.limit, len(found.trials)])
            curve.append((float(size), 2 * found.rate))
        return Outcome(
            "Bidirectional throughput", "RFC 2544, 26.1 with 14",
            ["frame, bytes", "each direction, frames/s", "both, frames/s", "limited by", "trials"],
            rows, keys=1, figure=2,
            notes=["Both ports send at the same rate at the same time; a trial fails if either "
                   "direction does."],
            plots=[Plot("Bidirectional throughput", "frame, bytes", "both, frames/s",
                        [Curve("measured", curve)])],
        )  # fmt: skip

    def latency(self) -> Outcome:
        rows = []
        for size in self.bench.plan.sizes:
            rate = self.throughputs[size].rate
            if rate <= 0:
                continue
            trials = [self._send(size, rate) for _ in range(self.bench.plan.latency_trials)]
            some = [one.latency_us(1) for one in trials if one.latency_us(1)]
            if not some:
                continue
            rows.append([
                size, rate, min(one["min"] for one in some), mean([one["mean"] for one in some]),
                mean([one["p50"] for one in some]), mean([one["p99"] for one in some]),
                max(one["max"] for one in some),
            ])  # fmt: skip
        return Outcome(
            "Latency at throughput", "RFC 2544, 26.2 (RFC 1242, 3.8)",
            ["frame, bytes", "frames/s", "min, us", "mean, us", "p50, us", "p99, us", "max, us"],
            rows, keys=1, figure=3,
            notes=["Store and forward: from the hand-over of a frame to the tester's driver until "
                   "it was taken from the receiving driver, which is more than the device's own. "
                   "Every frame carries its time, where the RFC tags one in each trial; mean over "
                   f"{self.bench.plan.latency_trials} trials (the RFC asks for at least 20)."],
        )  # fmt: skip

    def frame_loss(self) -> Outcome:
        rows, curves = [], []
        for size in self.bench.plan.sizes:
            found = self.throughputs[size]
            top = self._top_rate(size, found)
            points, clean = [], 0
            for step in range(STEPS, 0, -1):
                one = self._send(size, top * step / STEPS)
                rows.append([size, f"{10 * step} %", one.intended, one.offered,
                             f"{100 * one.loss_ratio():.3f} %"])  # fmt: skip
                points.append((one.offered, 100 * one.loss_ratio()))
                self.bench.say(f"{size} B: {one.offered:,.0f} frames/s, {one.loss_ratio():.2%}")
                # Until two successive trials lose nothing.
                clean = clean + 1 if one.lost() == 0 else 0
                if clean == 2:
                    break
            curves.append(Curve(f"{size} B", points))
        return Outcome(
            "Frame loss rate", "RFC 2544, 26.3 (RFC 1242, 3.6)",
            ["frame, bytes", "of the highest rate", "intended, frames/s", "offered, frames/s",
             "lost"], rows, keys=2, figure=4,
            notes=["The highest rate is the line rate where the device's file gives one, else 1.5 "
                   "times the throughput."],
            plots=[Plot("Frame loss rate", "offered, frames/s", "lost, %", curves)],
        )  # fmt: skip

    def back_to_back(self) -> Outcome:
        rows = []
        for size in self.bench.plan.sizes:
            rate = self.throughputs[size].rate
            most = max(2, round(rate * BURST_S))
            low, high = 0, most
            trials = 0

            def passes(frames: int, size: int = size) -> bool:
                one = self._send(size, 0.0, frames)
                self.bench.say(f"{size} B: {frames:,} back to back, {one.lost():,} lost")
                return one.lost() == 0

            if passes(most):
                low = most
            else:
                while high - low > max(1, self.bench.plan.resolution * high):
                    middle = (low + high) // 2
                    trials += 1
                    if passes(middle):
                        low = middle
                    else:
                        high = middle
            rows.append([size, low, f"at least {low}" if low == most else str(low), trials + 1])
        return Outcome(
            "Back-to-back frames", "RFC 2544, 26.4 (RFC 1242, 3.1)",
            ["frame, bytes", "frames", "burst without loss", "trials"], rows, keys=1,
            figure=2,
            notes=[f"Bursts of up to {BURST_S:g} s at the throughput, as fast as the tester hands "
                   "them over. One burst a length, where the RFC asks for the mean of 50."],
        )  # fmt: skip

    def system_recovery(self) -> Outcome:
        rows = []
        for size in self.bench.plan.sizes:
            rate = min(OVERLOAD * self.throughputs[size].rate, self.bench.plan.max_rate)
            relieved = rate / 2
            after = max(1, round(relieved * self.bench.plan.trial_s))
            trial = self.bench.trial(
                size, rate, [self.bench.host(1)], lambda sent: {1: sent}, each=True,
                then={"rate": relieved, "frames": after},
            )  # fmt: skip
            (one,) = trial.answer["ports"][1]["each"] or [{"last_gap_ns": 0}]
            gap, then = one["last_gap_ns"], trial.answer["then_ns"]
            if trial.lost() == 0 or gap == 0:
                found: float | str = "nothing was lost"
            else:
                # The last loss is seen at the arrival behind it.
                found = max(0.0, (gap - then) / 1e6)
            rows.append([size, rate, relieved, trial.lost(), found])
            self.bench.say(f"{size} B: {found} ms")
        return Outcome(
            "System recovery", "RFC 2544, 26.5",
            ["frame, bytes", "overload, frames/s", "then, frames/s", "lost", "recovery, ms"], rows,
            keys=1, figure=4,
            notes=[f"{OVERLOAD:.0%} of the throughput for the length of a trial, then half of "
                   "that: from the change of the rate until the last loss was seen."],
        )  # fmt: skip

    def reset(self) -> Outcome:
        bench = self.bench
        assert bench.reset is not None
        size = min(bench.plan.sizes)
        rate = self.throughputs[size].rate
        frames = max(1, round(rate * bench.plan.reset_s))
        bench.say(f"{size} B: {rate:,.0f} frames/s for {bench.plan.reset_s:g} s, with a reset")
        # The reset is this thread's: what it starts would end with another one.
        with ThreadPoolExecutor(1) as executor:
            future = executor.submit(
                lambda: bench.trial(
                    size, rate, [bench.host(1)], lambda sent: {1: sent}, each=True, frames=frames
                )
            )
            time.sleep(RESET_AFTER_S)
            bench.reset()
            trial = future.result()
        (one,) = trial.answer["ports"][1]["each"] or [{"longest_cut_ns": 0}]
        rows: list[list[object]] = []
        if trial.tail_s() > RESET_TAIL_S or one["longest_cut_ns"] == 0:
            late = f"not back within {bench.plan.reset_s - RESET_AFTER_S:g} s"
            rows.append([size, rate, trial.lost(), late, "–"])
        else:
            rows.append([size, rate, trial.lost(), one["longest_cut_ns"] / 1e6,
                         1e3 * trial.lost() / rate])  # fmt: skip
        what = (
            "The switch's process is killed and started again, and then the controller, which "
            "loads the program and installs the routes (a process reset, RFC 6201 4.2.2)."
            if bench.device.embedded
            else f"By the command of the device's file: {bench.device.reset}"
        )
        return Outcome(
            "Reset", "RFC 2544, 26.6 (RFC 6201)",
            ["frame, bytes", "offered, frames/s", "lost", "reset time by time stamps, ms",
             "by lost frames, ms"], rows, keys=1, figure=3,
            notes=[what, "By time stamps: between the last frame before and the first one behind "
                   "the longest interruption. By lost frames: all that were lost over the offered "
                   "rate. One reset, at the throughput of the smallest frames."],
        )  # fmt: skip

    def _top_rate(self, size: int, found: Found) -> float:
        if self.bench.device.line_rate is not None:
            return self.bench.device.line_rate / 8 / (size + OVERHEAD_BYTES)
        return min(1.5 * found.rate, self.bench.plan.max_rate)


NOT_MEASURED = [
    NotMeasured("Modifiers: broadcast, management, filters", "RFC 2544, 11",
                "they are the device's set-up; run again with each"),
    NotMeasured("Random addresses", "RFC 2544, 12", "frames go to the second port's address"),
]  # fmt: skip


def _mbit(rate: float, frame: int) -> float:
    return rate * (frame + OVERHEAD_BYTES) * 8 / 1e6


def _trials(found: Found) -> list[dict[str, float]]:
    return [
        {"intended": one.intended, "offered": one.offered, "sent": one.sent, "lost": one.lost()}
        for one in found.trials
    ]
