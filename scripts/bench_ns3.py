"""Measures the runtime in virtual time and writes results/bench/ns3.json: `make bench-ns3`.

The same traffic runs in turns through tiercast-ns3 and through ns-3's own nodes (ns3/bench): a
session with one layer at a constant rate, over a balanced tree. Figures are medians of the
process's CPU time, not of wall time. docs/performance.md explains each figure.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from tiercast.v1.simulation_pb2 import ControllerAnswer, Scenario
from tiercast_controller.p4runtime.program import Program as P4Program
from tiercast_controller.virtual import VirtualController
from tiercast_lab.base import binaries
from tiercast_lab.base.machine import describe
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.loading import load_experiment
from tiercast_lab.experiment.schemes import known_schemes
from tiercast_lab.run.controller_input import Reach, described_sessions, described_topology
from tiercast_lab.run.ns3.runtime import answer, environment
from tiercast_lab.run.ns3.scenario import delimited, scenario

ROOT = Path(__file__).resolve().parents[1]
PLAIN = binaries.BUILD / "ns3/tiercast-plain-ns3"
RATE_KBIT = 500
ROUND_TRIP_MS = 40

EXPERIMENT = """\
name: bench-ns3
title: One layer at a constant rate
topology:
  tree: {{depth: {depth}, fanout: 2}}
  link: {{rate: 6Mbit/s, delay: {delay_ms}ms, queue: 50p}}
marking: {{kind: priority, threshold: auto}}
sessions:
  - scheme: sim
    sender: 0
    layers: 1
    aggregation: network
    parameters: {{sim.initial_rate: {rate}, sim.min_rate: {rate}, sim.max_rate: {rate}}}
duration: {seconds}s
measure: {{last: {seconds}s}}
"""


@dataclass(frozen=True)
class Point:
    depth: int
    seconds: int
    goal: float  # CPU time per packet delivered, relative to plain ns-3

    @property
    def delay_ms(self) -> float:
        return ROUND_TRIP_MS / 2 / self.depth


POINTS = (Point(depth=4, seconds=60, goal=0.3), Point(depth=10, seconds=10, goal=0.45))


@dataclass(frozen=True)
class Cost:
    deliveries: int  # data packets that arrived at receivers
    cpu_s: float
    memory: int  # bytes: the largest resident size


class Program:
    """A running program that reports at its end what resources it used."""

    def __init__(self, command: list[str | Path], stdin: int | None = None) -> None:
        self.name = Path(command[0]).name
        self.child = subprocess.Popen(
            command, stdin=stdin, stdout=subprocess.PIPE, env=environment()
        )
        self.memory = 0
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def _watch(self) -> None:
        # ru_maxrss would be that of this process, from which the child was forked.
        status = Path(f"/proc/{self.child.pid}/status")
        while found := re.search(r"VmHWM:\s+(\d+) kB", status.read_text()):
            self.memory = int(found[1]) * 1024
            time.sleep(0.02)

    def cost(self, deliveries: int) -> Cost:
        """The program's cost. To be called once it has closed its output."""
        self._watcher.join()  # a program that has ended reports no memory
        _, status, usage = os.wait4(self.child.pid, 0)
        self.child.returncode = os.waitstatus_to_exitcode(status)
        if self.child.returncode != 0:
            raise SystemExit(f"bench-ns3: {self.name} ended with status {self.child.returncode}")
        return Cost(deliveries, usage.ru_utime + usage.ru_stime, self.memory)


def plain(point: Point) -> Cost:
    command: list[str | Path] = [PLAIN, f"--depth={point.depth}", f"--delay-ms={point.delay_ms}",
               f"--rate-kbit={RATE_KBIT}", f"--seconds={point.seconds}"]  # fmt: skip
    program = Program(command)
    assert program.child.stdout is not None
    return program.cost(json.loads(program.child.stdout.read())["received"])


def tiercast(loaded: LoadedExperiment) -> Cost:
    controller = VirtualController(
        described_topology(loaded, lambda one: Reach("", one.device_id)),
        described_sessions(loaded),
        P4Program.load(binaries.P4_JSON, binaries.P4_INFO),
    )
    program = Program([binaries.NS3], subprocess.PIPE)
    to_child, from_child = program.child.stdin, program.child.stdout
    assert to_child is not None and from_child is not None

    def tell(message: Scenario | ControllerAnswer) -> None:
        to_child.write(delimited(message))
        to_child.flush()

    tell(scenario(loaded, seed=1))
    tell(ControllerAnswer(updates=controller.first_updates()))
    received: dict[str, int] = {}
    for line in from_child:
        message = json.loads(line)
        if message.get("kind") == "received":
            received[message["agent"]] = message["packets"]
        elif "ask" in message:
            tell(answer(controller, message))
    return program.cost(int(sum(received.values())))


def load(point: Point) -> LoadedExperiment:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(
            EXPERIMENT.format(
                depth=point.depth,
                delay_ms=point.delay_ms,
                rate=RATE_KBIT * 1000,
                seconds=point.seconds,
            )
        )
        file.flush()
        return load_experiment(Path(file.name), known_schemes())


def summed_up(costs: list[Cost], receivers: int) -> dict[str, float]:
    per_second = [cost.deliveries / cost.cpu_s for cost in costs]
    return {
        "deliveries": costs[0].deliveries,
        "deliveries_per_cpu_s": statistics.median(per_second),
        "slowest": min(per_second),
        "fastest": max(per_second),
        "bytes_per_receiver": statistics.median(cost.memory for cost in costs) / receivers,
    }


def measure(point: Point, repeats: int, console: Console) -> dict[str, Any]:
    loaded = load(point)
    receivers = len(loaded.receivers[0])
    programs: dict[str, Callable[[], Cost]] = {
        "tiercast": lambda: tiercast(loaded),
        "plain": lambda: plain(point),
    }
    costs: dict[str, list[Cost]] = {name: [] for name in programs}
    for turn in range(repeats):
        for name, run in programs.items():
            console.print(f"{receivers} receivers, {name}, {turn + 1} of {repeats}")
            costs[name].append(run())
    row = {name: summed_up(found, receivers) for name, found in costs.items()}
    # In turns, so that other work on the machine affects both alike.
    ratios = [
        (ours.cpu_s / ours.deliveries) / (theirs.cpu_s / theirs.deliveries)
        for ours, theirs in zip(costs["tiercast"], costs["plain"], strict=True)
    ]
    ratio = statistics.median(ratios)
    return {
        "receivers": receivers,
        "seconds": point.seconds,
        **row,
        "ratio": ratio,
        "goal": point.goal,
        "met": ratio <= point.goal,
    }


def table(rows: list[dict[str, Any]]) -> Table:
    shown = Table(title="packets delivered per CPU second, in virtual time")
    for column in ("receivers", "tiercast-ns3", "plain ns-3", "CPU time, ratio", "bytes/receiver",
                   "plain"):  # fmt: skip
        shown.add_column(column, justify="right")
    for row in rows:
        ours, theirs = row["tiercast"], row["plain"]
        shown.add_row(
            f"{row['receivers']:,}",
            f"{ours['deliveries_per_cpu_s']:,.0f}",
            f"{theirs['deliveries_per_cpu_s']:,.0f}",
            f"{row['ratio']:.2f} ({'met' if row['met'] else 'NOT met'})",
            f"{ours['bytes_per_receiver']:,.0f}",
            f"{theirs['bytes_per_receiver']:,.0f}",
        )
    return shown


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3, help="of each measurement (3)")
    parser.add_argument("--quick", action="store_true", help="16 receivers alone")
    parser.add_argument("--output", type=Path, default=ROOT / "results/bench/ns3.json")
    arguments = parser.parse_args()
    points = POINTS[:1] if arguments.quick else POINTS
    console = Console(stderr=True)
    rows = [measure(point, arguments.repeats, console) for point in points]
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps({"machine": describe(), "rows": rows}, indent=2) + "\n")
    Console(width=120).print(table(rows))
    print(f"wrote {arguments.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
