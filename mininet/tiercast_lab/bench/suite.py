"""Runs a benchmark's tests one after the other, over a device that is there or made here."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tiercast_lab.base.errors import RunFailed
from tiercast_lab.base.interrupt import Interrupt
from tiercast_lab.base.scratch import scratch_folder
from tiercast_lab.bench import rfc2544, rfc3918
from tiercast_lab.bench.device_file import DeviceFile
from tiercast_lab.bench.embedded import EmbeddedDevice
from tiercast_lab.bench.outcome import NotMeasured, Outcome
from tiercast_lab.bench.rfc2544 import Rfc2544
from tiercast_lab.bench.rfc3918 import Rfc3918
from tiercast_lab.bench.tester import CabledPort, Tester
from tiercast_lab.bench.trials import Bench, Plan, Unsettled

UNICAST_TESTS = (
    "throughput", "bidirectional", "latency", "frame-loss", "back-to-back", "recovery", "reset",
)  # fmt: skip
MULTICAST_TESTS = (
    "aggregated", "mixed", "scaled", "multicast-latency", "burdened-latency", "join-delay",
    "leave-delay", "burdened-join", "capacity",
)  # fmt: skip
TESTS = UNICAST_TESTS + MULTICAST_TESTS
HEADER_AND_FCS_BYTES = 18  # of Ethernet
# Tests that begin where another one ended.
NEEDS = {
    "latency": "throughput", "frame-loss": "throughput", "back-to-back": "throughput",
    "recovery": "throughput", "reset": "throughput",
    "scaled": "aggregated", "multicast-latency": "aggregated", "burdened-latency": "aggregated",
    "join-delay": "aggregated", "leave-delay": "aggregated", "burdened-join": "aggregated",
}  # fmt: skip


@dataclass
class Suite:
    device: DeviceFile
    name: str
    plan: Plan
    ports: list[dict[str, Any]] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    missing: list[NotMeasured] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        from dataclasses import asdict

        return {
            "device": self.name,
            "ports": self.ports,
            "plan": asdict(self.plan),
            "tests": [one.as_json() for one in self.outcomes],
            "not_measured": [asdict(one) for one in self.missing],
        }


def chosen(only: list[str]) -> list[str]:
    """The tests in order, with those that they need."""
    wanted = set(only or TESTS)
    wanted |= {NEEDS[name] for name in wanted if name in NEEDS}
    return [name for name in TESTS if name in wanted]


def run(
    device: DeviceFile, name: str, plan: Plan, only: list[str], interrupt: Interrupt,
    say: Callable[[str], None], begins: Callable[[str], None],
) -> Suite:  # fmt: skip
    """`begins` is told of each test, and `say` what goes on in it. Raises LabError."""
    suite = Suite(device, name, plan)
    with _bench(device, plan, interrupt, say) as bench:
        suite.ports = bench.tester.ports
        unicast, multicast = Rfc2544(bench), Rfc3918(bench)
        tests: dict[str, Callable[[], Outcome]] = {
            "throughput": unicast.throughput,
            "bidirectional": unicast.bidirectional,
            "latency": unicast.latency,
            "frame-loss": unicast.frame_loss,
            "back-to-back": unicast.back_to_back,
            "recovery": unicast.system_recovery,
            "reset": unicast.reset,
            "aggregated": multicast.aggregated_throughput,
            "mixed": multicast.mixed_class_throughput,
            "scaled": multicast.scaled_group_forwarding,
            "multicast-latency": multicast.latency,
            "burdened-latency": multicast.burdened_latency,
            "join-delay": multicast.join_delay,
            "leave-delay": multicast.leave_delay,
            "burdened-join": multicast.burdened_join_delay,
            "capacity": multicast.group_capacity,
        }
        failed: set[str] = set()
        wanted = chosen(only)
        for number, test in enumerate(wanted, 1):
            why = _hindrance(test, device, bench, failed)
            place = f"{test} ({number} of {len(wanted)})"
            bench.say = lambda text, place=place: say(f"{place}: {text}")  # type: ignore[misc]
            if not why:
                begins(place)
                try:
                    suite.outcomes.append(tests[test]())
                except Unsettled as error:
                    why = str(error)
            if why:
                failed.add(test)
                suite.missing.append(NotMeasured(test, "", why))
    suite.missing += [*rfc2544.NOT_MEASURED, *rfc3918.NOT_MEASURED]
    return suite


def _hindrance(test: str, device: DeviceFile, bench: Bench, failed: set[str]) -> str:
    """Why a test cannot be made; "" if it can."""
    if NEEDS.get(test) in failed:
        return f"it begins where {NEEDS[test]} ends, which was not measured"
    if test in MULTICAST_TESTS and not device.multicast:
        return "the device's file says `multicast: false`"
    if (test in UNICAST_TESTS or test == "mixed") and not device.unicast:
        return "the device's file says `unicast: false`"
    if test == "reset" and bench.reset is None:
        return "the device's file has no `reset`, a command that resets it"
    if test.startswith("burdened") and (not device.unicast or len(bench.receivers) < 2):
        return "the burden is unicast from a third port to the second"
    return ""


def reset_by(command: str, within_s: float) -> None:
    """Runs a command of the shell that resets the device, and may leave programs running. Raises
    RunFailed if it fails or does not end."""
    # What it says goes to a file: a device that it starts in the background may hold a pipe open.
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            command, shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said,
            start_new_session=True,
        )  # fmt: skip
        try:
            status = process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise RunFailed(f"reset: `{command}` did not end within {within_s:g} s") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if status != 0:
            said.seek(0)
            why = said.read().strip()[-1000:]
            raise RunFailed(f"reset: `{command}` ended with status {status}: {why}")


@contextlib.contextmanager
def _bench(
    device: DeviceFile, plan: Plan, interrupt: Interrupt, say: Callable[[str], None]
) -> Iterator[Bench]:
    with contextlib.ExitStack() as stack:
        prefix: list[str] = []
        alive: Callable[[], None] = lambda: None  # noqa: E731
        reset: Callable[[], None] | None = None
        if device.embedded is not None:
            folder = stack.enter_context(scratch_folder(name="bench-"))
            made = EmbeddedDevice(device, folder)
            stack.callback(made.close)
            say(f"starts {device.embedded}")
            made.make()
            ports, prefix, alive = made.ports(max(plan.sizes)), made.prefix, made.check
            reset = made.reset
        else:
            ports = [CabledPort(one.device, str(one.address), one.next_hop) for one in device.ports]
            if device.reset is not None:
                reset = partial(reset_by, device.reset, plan.reset_s)
        tester = Tester(
            ports, interrupt, prefix=prefix, eal=device.eal,
            streams=max(1024, 2 * device.groups.count),
            packet_size=max(plan.sizes) - HEADER_AND_FCS_BYTES,
            igmp=device.groups.igmp, poll=device.poll,
        )  # fmt: skip
        stack.callback(tester.close)
        yield Bench(tester, ports, device, plan, alive, say, reset)
