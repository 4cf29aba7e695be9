"""Measures the controller and writes results/bench/joins.json: `make bench-joins`.

It measures how long a join or a leave takes: from the arrival of the report at the controller until
the last of four switches in a chain has acknowledged the change. The joins come from a host's
kernel, and the chain is that of the controller's tests. docs/performance.md explains each figure.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench_switch import machine

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "build/python"), str(ROOT / "controller")]

from tiercast_controller.p4runtime.program import Program  # noqa: E402

from tests.controller.chain import Network, Receiver, Run  # noqa: E402

COMPILED = ROOT / "p4src/compiled"
LAYERS = 5
# SIM's papers allow 100 ms for the whole way from the join to the first packet; the median should
# be far below that.
GOAL_MEDIAN_US, GOAL_P99_US = 10_000, 100_000


async def measure(network: Network, turns: int) -> dict[str, list[float]]:
    """us of each join and leave, from the report's arrival; `call` counts from the host's system
    call."""
    program = Program.load(COMPILED / "tiercast.json", COMPILED / "tiercast.p4info.txtpb")
    run = Run(network, program)
    await run.controller.start()
    host = Receiver(network, "h1")
    calls = []
    for _ in range(turns):
        for rank in range(LAYERS):
            before = time.monotonic_ns()
            host.join(rank)
            await run.changes(len(run.igmp()) + 1)
            calls.append((time.monotonic_ns() - before) / 1e3)
        for rank in reversed(range(LAYERS)):
            host.leave(rank)
            await run.changes(len(run.igmp()) + 1)
    events = run.igmp()
    await run.controller.stop()
    found = {"join_call": calls}
    for action in ("join", "leave"):
        found[action] = [e["install_us"] for e in events if e["action"] == action]
    return found


def figures(values: list[float]) -> dict[str, float]:
    quantiles = statistics.quantiles(values, n=100)
    return {"p50_us": statistics.median(values), "p99_us": quantiles[98], "max_us": max(values)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=ROOT / "results/bench/joins.json")
    parser.add_argument("--turns", type=int, default=40, help="of five joins and five leaves (40)")
    options = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("bench-joins: needs root (namespaces)")
    results: dict[str, Any] = {"machine": machine(), "command": "make bench-joins"}
    with tempfile.TemporaryDirectory(prefix="tiercast-") as scratch:
        network = Network(Path(scratch))
        try:
            network.build()
            network.start_switches()
            taken = asyncio.run(measure(network, options.turns))
        finally:
            network.tear_down()
    results["latency"] = {what: figures(values) for what, values in taken.items()}
    joins = results["latency"]["join"]
    results["goals"] = [
        {"goal": f"a join on four switches, {name}, us: below {most}", "measured": joins[key],
         "met": joins[key] < most}
        for name, key, most in (("median", "p50_us", GOAL_MEDIAN_US),
                                ("p99", "p99_us", GOAL_P99_US))
    ]  # fmt: skip
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    for what, row in results["latency"].items():
        print(f"  {what:10}" + "  ".join(f"{name} {value:.0f}" for name, value in row.items()))
    for goal in results["goals"]:
        print(f"  {'met' if goal['met'] else 'NOT':4}{goal['goal']}: {goal['measured']:.0f}")
    print(f"written: {options.output}")


if __name__ == "__main__":
    main()
