"""The benchmarks of RFC 3918: the first port is the source, all others are members."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tiercast_lab.bench.outcome import Curve, NotMeasured, Outcome, Plot
from tiercast_lab.bench.trials import Bench, Found, Trial, Unsettled, loss_ratio, mean, shares

MIXED_SHARES = (0.25, 0.5, 0.75)  # of frames that are multicast
BURDEN = 0.5  # of the unicast throughput that burdens a device
DELAY_RATE = 2000.0  # frames/s to each group while a delay is measured: 0.5 ms apart
DELAY_BEFORE_S, DELAY_AFTER_S = 0.2, 1.3
MOST_DELAY_RATE = 20_000.0  # frames/s to all groups then
LEAST_DELAY_RATE = 10.0  # to each: more groups are not tried
DELAY_SHARE = 0.5  # of the aggregated throughput
SMALL_GROUPS = 8


class Rfc3918:
    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.aggregated: dict[int, Found] = {}
        self._joined = 0  # groups that all receivers have joined

    # What the tests have in common.

    @property
    def _base(self) -> int:
        """Groups of the tests that do not scale them."""
        return min(SMALL_GROUPS, self.bench.device.groups.count)

    def _join_all(self, count: int) -> None:
        """All receivers are members of the first `count` groups and of no others."""
        if count == self._joined:
            return
        if count < self._joined:
            rest = self.bench.groups(self._joined - count, count)
            for port in self.bench.receivers:
                self.bench.leave(port, rest)
        else:
            for port in self.bench.receivers:
                self.bench.join(port, self.bench.groups(count))
        self._joined = count
        if count > 0:
            self.bench.settle(self.bench.groups(count), self.bench.receivers)

    def _multicast(self, frame: int, rate: float, count: int, **more: Any) -> Trial:
        return self.bench.trial(
            frame, rate, [self.bench.groups(count)],
            lambda sent: {port: sent for port in self.bench.receivers}, **more,
        )  # fmt: skip

    # 4. Forwarding and throughput

    def aggregated_throughput(self) -> Outcome:
        self._join_all(self._base)
        rows = []
        for size in self.bench.plan.sizes:
            found = self.bench.search(size, lambda rate, size=size: self._multicast(  # type: ignore[misc]
                size, rate, self._base), quantum=self._base)  # fmt: skip
            self.aggregated[size] = found
            copies = found.rate * len(self.bench.receivers)
            rows.append([size, self._base, len(self.bench.receivers), found.rate, copies,
                         found.limit, len(found.trials)])  # fmt: skip
        curve = [(float(size), found.rate) for size, found in self.aggregated.items()]
        return Outcome(
            "Aggregated multicast throughput", "RFC 3918, 4.3 (RFC 2432)",
            ["frame, bytes", "groups", "egress ports", "offered, frames/s", "forwarded, frames/s",
             "limited by", "trials"], rows, keys=3, figure=3,
            plots=[Plot("Aggregated multicast throughput", "frame, bytes", "offered, frames/s",
                        [Curve("measured", curve)])],
        )  # fmt: skip

    def mixed_class_throughput(self) -> Outcome:
        self._join_all(self._base)
        rows = []
        for share in MIXED_SHARES:
            # In a turn `multicast` frames to groups, one to each, and the others to the host.
            unicast = max(1, round(self._base * (1 - share) / share))
            weights = (self._base, unicast)
            to = [self.bench.groups(self._base), self.bench.host(1, unicast)]

            def expected(sent: int, weights: tuple[int, int] = weights) -> dict[int, int]:
                multicast, to_host = shares(sent, weights)
                return {
                    port: multicast + (to_host if port == 1 else 0) for port in self.bench.receivers
                }

            for size in self.bench.plan.sizes:
                run: Callable[[float], Trial] = lambda rate, size=size, to=to: self.bench.trial(  # type: ignore[misc]  # noqa: E731
                    size, rate, to, expected
                )  # noqa: B023
                found = self.bench.search(size, run, quantum=sum(weights))
                exact = self._base / sum(weights)
                rows.append([size, f"{exact:.0%}", found.rate, found.rate * exact,
                             found.rate * (1 - exact), found.limit])  # fmt: skip
        return Outcome(
            "Mixed class throughput", "RFC 3918, 4.1 (RFC 2432)",
            ["frame, bytes", "multicast", "offered, frames/s", "multicast, frames/s",
             "unicast, frames/s", "limited by"], rows, keys=2, figure=2,
            notes=["Unicast frames go to the second port, multicast ones to all but the first."],
        )  # fmt: skip

    def scaled_group_forwarding(self) -> Outcome:
        rows, curves = [], []
        for size in self.bench.plan.sizes:
            rate = self.aggregated[size].rate
            points = []
            for count in self._scales():
                try:
                    self._join_all(count)
                except Unsettled as error:
                    rows.append([size, count, rate, "–", f"not measured: {error}", "–"])
                    continue
                one = self._multicast(size, max(rate, count / self.bench.plan.trial_s), count)
                forwarded = [one.forwarding(port) for port in self.bench.receivers]
                rows.append([size, count, one.intended, one.offered, min(forwarded),
                             f"{100 * one.loss_ratio():.3f} %"])  # fmt: skip
                points.append((float(count), min(forwarded)))
                self.bench.say(f"{size} B, {count} groups: {min(forwarded):,.0f} frames/s")
            curves.append(Curve(f"{size} B", points))
        return Outcome(
            "Scaled group forwarding matrix", "RFC 3918, 4.2 (RFC 2432)",
            ["frame, bytes", "groups", "intended, frames/s", "offered, frames/s",
             "forwarded, frames/s of the slowest port", "lost"], rows, keys=2, figure=4,
            notes=[f"The intended load is the aggregated throughput with {self._base} groups."],
            plots=[Plot("Scaled group forwarding", "groups", "frames/s", curves, log_x=True)],
        )  # fmt: skip

    def _scales(self) -> list[int]:
        most = self.bench.device.groups.count
        scales = [1]
        while scales[-1] * 4 < most:
            scales.append(scales[-1] * 4)
        return [*scales, most] if scales[-1] != most else scales

    # 5. Forwarding latency

    def latency(self) -> Outcome:
        return self._latency("Multicast latency", "RFC 3918, 5.1 (RFC 2432)", burden=None, note="")

    def burdened_latency(self) -> Outcome:
        return self._latency(
            "Forwarding burdened multicast latency", "RFC 3918, 8.1 (RFC 2432)",
            burden=self._burden,
            note=f"Burden: unicast frames from the last port to the second, {BURDEN:.0%} of the "
                 "aggregated multicast throughput; the multicast load is the other half.",
        )  # fmt: skip

    def _latency(self, name: str, section: str, burden: Callable[[int], dict[str, Any]] | None,
                 note: str) -> Outcome:  # fmt: skip
        self._join_all(self._base)
        rows = []
        for size in self.bench.plan.sizes:
            rate = self.aggregated[size].rate
            if rate <= 0:
                continue
            more = {}
            if burden is not None:
                rate *= 1 - BURDEN
                more["burden"] = burden(size)
            trials = [
                self._multicast(size, rate, self._base, **more)
                for _ in range(self.bench.plan.latency_trials)
            ]
            least, most = math.inf, 0.0
            for port in self.bench.receivers:
                some = [one.latency_us(port) for one in trials if one.latency_us(port)]
                if not some:
                    continue
                low, high = min(s["min"] for s in some), max(s["max"] for s in some)
                least, most = min(least, low), max(most, high)
                rows.append([
                    size, port, rate, low, mean([s["mean"] for s in some]),
                    mean([s["p99"] for s in some]), high,
                    f"{100 * loss_ratio(trials):.3f} %",
                ])  # fmt: skip
            if most > 0 and burden is None:
                # 5.2: over all egress ports.
                rows.append([size, "all", rate, least, "–", "–", most, f"{most - least:,.1f} us"])
        heading = "lost; all: max − min" if burden is None else "lost"
        return Outcome(
            name, section if burden else f"{section}; min/max: 5.2 (RFC 2432)",
            ["frame, bytes", "egress port", "offered, frames/s", "min, us", "mean, us", "p99, us",
             "max, us", heading], rows, keys=2, figure=4,
            notes=[text for text in (
                note, "From the hand-over to the tester's driver until the frame was taken from "
                "the receiving one.") if text],
        )  # fmt: skip

    def _burden(self, size: int) -> dict[str, Any]:
        last = self.bench.receivers[-1]
        return {"from": last, "rate": self.aggregated[size].rate * BURDEN,
                "to": [self.bench.host(1, sender=last)]}  # fmt: skip

    # 6. Overhead, and 8.2

    def join_delay(self) -> Outcome:
        return self._delays("Group join delay", "RFC 3918, 6.1 (RFC 2432)", join=True)

    def leave_delay(self) -> Outcome:
        return self._delays("Group leave delay", "RFC 3918, 6.2 (RFC 2432)", join=False)

    def burdened_join_delay(self) -> Outcome:
        return self._delays(
            "Forwarding burdened group join delay", "RFC 3918, 8.2 (RFC 2432)", join=True,
            burdened=True,
        )  # fmt: skip

    def _delays(self, name: str, section: str, join: bool, burdened: bool = False) -> Outcome:
        rows, curves = [], []
        size = min(self.bench.plan.sizes)
        more: dict[str, Any] = {"burden": self._burden(size)} if burdened else {}
        # Half of what the device forwards without loss, so that no frame waits or is lost for the
        # load's sake.
        most = min(MOST_DELAY_RATE, DELAY_SHARE * self.aggregated[size].rate)
        if burdened:
            most *= 1 - BURDEN
        scales = [count for count in self._scales() if count <= most / LEAST_DELAY_RATE]
        if not scales:
            raise Unsettled(1, 1)
        # Method A: no port is a member, so the device knows nothing of the group. Method B (joins
        # alone): another port is one.
        methods = ["A", "B"] if join and len(self.bench.receivers) > 1 else ["A"]
        for method in methods:
            points: list[tuple[float, float]] = []
            curves.append(Curve(f"method {method}", points))
            for count in scales:
                delays, missing = [], 0
                per_group = min(DELAY_RATE, most / count)
                for _ in range(self.bench.plan.joins):
                    found, lost = self._delay(size, count, per_group, join, method, more)
                    delays += found
                    missing += lost
                if delays:
                    ms = sorted(delay * 1e3 for delay in delays)
                    rows.append([method, count, 1e3 / per_group, ms[0], mean(ms),
                                 ms[len(ms) // 2], ms[-1], missing])  # fmt: skip
                    points.append((float(count), mean(ms)))
                else:
                    rows.append([method, count, 1e3 / per_group, "–", "–", "–", "–", missing])
                self.bench.say(f"{name}, method {method}, {count} groups: {rows[-1][4]} ms")
        notes = [
            ("From the first report's hand-over until the first frame of each group arrived."
             if join else
             "From the first report's hand-over until the last frame of each group arrived."),
            "A delay is known to the gap between two frames of a group.",
        ]  # fmt: skip
        if join:
            notes.append("Method A: nobody is a member of the groups. Method B: another port is.")
        if burdened:
            notes.append(f"Burden: unicast frames, {BURDEN:.0%} of the multicast throughput.")
        return Outcome(
            name, section,
            ["method", "groups", "gap, ms", "min, ms", "mean, ms", "median, ms", "max, ms",
             "groups without"], rows, 2, 4, notes,
            [Plot(name, "groups", "mean, ms", curves, log_x=True)],
        )  # fmt: skip

    def _delay(
        self, size: int, count: int, per_group: float, join: bool, method: str, more: dict[str, Any]
    ) -> tuple[list[float], int]:
        """Seconds for each group whose change was seen, and how many were not."""
        bench = self.bench
        groups = bench.groups(count)
        port, other = bench.receivers[0], bench.receivers[-1]
        self._join_all(0)
        self._quiet(groups)
        if not join:
            bench.join(port, groups)
            bench.settle(groups, [port])
        elif method == "B":
            bench.join(other, groups)
            bench.settle(groups, [other])
        rate = per_group * count
        trial = bench.trial(
            size, rate, [groups], lambda sent: {}, each=True, wait_s=0.3,
            frames=round(rate * (DELAY_BEFORE_S + DELAY_AFTER_S)),
            changes=[{"at_s": DELAY_BEFORE_S, "port": port, "join": join, "groups": groups}],
            **more,
        )  # fmt: skip
        (at,) = trial.answer["changed_ns"]
        seen = [
            (one["first_ns"] if join else one["last_ns"]) - at
            for one in trial.answer["ports"][port]["each"]
        ]
        # Groups that arrived before the join were never left; the last frames of a leave that had
        # no effect arrive as the trial ends.
        end = trial.answer["last_ns"] - at - 2e9 / per_group
        found = [ns / 1e9 for ns in seen if (ns > 0 if join else ns < end)]
        bench.leave(port, groups)
        if method == "B" and join:
            bench.leave(other, groups)
        return [max(0.0, delay) for delay in found], count - len(found)

    def _quiet(self, groups: dict[str, Any]) -> None:
        """Waits until no port gets frames of the groups any more."""
        for _ in range(40):
            one = self.bench.trial(64, max(500.0, 2.0 * groups["count"]), [groups],
                                   lambda sent: {}, frames=groups["count"], wait_s=0.2)  # fmt: skip
            if all(one.received(port) == 0 for port in self.bench.receivers):
                return
        raise Unsettled(groups["count"], 0)

    # 7. Capacity

    def group_capacity(self) -> Outcome:
        most = self.bench.device.groups.count
        low, high, trials = 0, most + 1, 0
        count = min(SMALL_GROUPS, most)
        while high - low > max(1, self.bench.plan.resolution * low):
            trials += 1
            try:
                self._join_all(count)
                low = count
            except Unsettled:
                high = count
            self.bench.say(f"{count} groups: {'all' if low == count else 'not all'} arrive")
            if low == most:
                break
            count = min(2 * low, most) if high > most else (low + high) // 2
        self._join_all(0)
        return Outcome(
            "Multicast group capacity", "RFC 3918, 7.1 (RFC 2432)",
            ["groups in the device's file", "capacity", "trials"],
            [[most, f"at least {low}" if low == most else f"{low}", trials]], keys=1, figure=1,
            notes=["Groups whose frames arrive at all ports that joined them, within ten seconds."],
        )  # fmt: skip


NOT_MEASURED = [
    NotMeasured("Encapsulation, decapsulation and re-encapsulation throughput",
                "RFC 3918, 4.4", "the tester has no tunnels"),
    NotMeasured("Group addresses of Ethernet that clash", "RFC 3918, 3.1.2",
                "the groups of a device's file follow each other, and their MAC addresses differ"),
]  # fmt: skip
