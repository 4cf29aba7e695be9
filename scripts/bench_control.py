"""Measures the control plane and writes results/bench/control.json: `make bench-control`.

- latency: from the arrival of a report at the controller until the last of four switches in a chain
  has acknowledged the change; the joins come from a host's kernel, one at a time.
- load: the same for JOINS_PER_S joins, then as many leaves, in a second: reports of one host for
  groups of 250 sessions in turn, sent on schedule whether or not the controller keeps up.
- inserts: table entries that a switch takes over P4Runtime from a client in C++, and those that
  bmv2's simple_switch_grpc takes where it is in PATH, in turns.

The chain is that of the controller's tests. docs/performance.md explains each figure.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from bench_switch import BUILD, bmv2_command, machine, tiercast_command

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "build/python"), str(ROOT / "controller")]

from tiercast_controller.multicast.igmp import Type, checksum  # noqa: E402
from tiercast_controller.network.topology import Checks, Session, group_address  # noqa: E402
from tiercast_controller.p4runtime.program import Program  # noqa: E402

from tests.controller.chain import Network, Receiver, Run, running_network  # noqa: E402
from tests.namespaces import Namespaces, command_in  # noqa: E402
from tests.patience import wait_until  # noqa: E402

COMPILED = ROOT / "p4src/compiled"
PROGRAM, P4INFO = COMPILED / "tiercast.json", COMPILED / "tiercast.p4info.txtpb"
# SIM's papers allow 100 ms for the whole way from the join to the first packet; the median should
# be far below that.
GOAL_MEDIAN_US, GOAL_P99_US = 10_000, 100_000
LAYERS = 5

JOINS_PER_S = 2000
CROWD = [Session(number, 8, "h0") for number in range(1, 251)]
GOAL_P99_LOADED_US = 50_000

GOAL_INSERTS_PER_S, GOAL_TIMES_BMV2 = 100_000, 10

Changes = dict[str, list[float]]  # us of each, by "join" and "leave"


def program() -> Program:
    return Program.load(PROGRAM, P4INFO)


def taken(run: Run) -> Changes:
    return {
        action: [event["install_us"] for event in run.igmp() if event["action"] == action]
        for action in ("join", "leave")
    }


async def latency(network: Network, turns: int) -> Changes:
    """`call` counts from the host's system call."""
    run = Run(network, program())
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
    await run.controller.stop()
    return {"join_call": calls, **taken(run)}


def report(network: Network, host: str, group: IPv4Address, joins: bool) -> bytes:
    """A frame with a report or a leave of IGMPv2 (RFC 2236, 2)."""
    kind = Type.V2_REPORT if joins else Type.V2_LEAVE
    to = group if joins else IPv4Address("224.0.0.2")
    body = struct.pack("!BBH4s", kind, 0, 0, group.packed)
    body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
    source = network.topology.host(host)
    header = struct.pack("!BBHHHBBH4s4s4s", 0x46, 0, 24 + len(body), 0, 0, 1, 2, 0,
                         source.interface.ip.packed, to.packed, b"\x94\x04\0\0")  # fmt: skip
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    mac = b"\x01\0\x5e" + (int(to) & 0x7FFFFF).to_bytes(3, "big")
    frame = mac + source.mac.to_bytes(6, "big") + b"\x08\0" + header + body
    return frame.ljust(60, b"\0")


async def send(network: Network, host: str, frames: Sequence[bytes]) -> float:
    """Sends frames on schedule; returns the rate that was kept."""
    script = str(ROOT / "scripts/send_frames.py")
    command = command_in(network.namespace(host), sys.executable, script, "eth0", str(JOINS_PER_S))
    sender = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await sender.communicate(b"".join(frames))
    return float(said)


async def load(network: Network, turns: int) -> tuple[Changes, dict[str, float]]:
    """The times; the lowest rate that was kept, the reports that had no effect, and the share of a
    CPU that the controller took while they came."""
    # One host stands for the many that would send so many reports.
    network.topology.checks = Checks(igmp=False)
    run = Run(network, program(), sessions=CROWD)
    await run.controller.start()
    groups = [group_address(one.number, rank) for rank in range(8) for one in CROWD]
    lost, kept, cpu, took = 0, [], 0.0, 0.0
    for _ in range(turns):
        for joins in (True, False):
            frames = [report(network, "h1", group, joins) for group in groups]
            first, started, used = len(run.events), time.monotonic(), time.process_time()
            kept.append(await send(network, "h1", frames))
            cpu += time.process_time() - used
            took += time.monotonic() - started
            quiet_since, seen = time.monotonic(), -1
            while seen < len(groups) and time.monotonic() < quiet_since + 3:
                before = seen
                seen = sum(event.kind == "igmp" for event in run.events[first:])
                if seen != before:
                    quiet_since = time.monotonic()
                await asyncio.sleep(0.01)
            lost += len(groups) - seen
    await run.controller.stop()
    return taken(run), {
        "changes": 2 * turns * len(groups), "kept_per_s": min(kept), "lost": lost,
        "cpu_share": cpu / took,
    }  # fmt: skip


def inserts(
    command: Callable[[str, Sequence[int]], list[str]], scratch: Path
) -> dict[str, list[float]]:
    """Updates per second of each round, of a switch in a namespace of its own."""
    address = f"unix:{scratch}/p4runtime.sock"
    namespaces = Namespaces("switch", "host")
    try:
        namespaces.join("switch", "p1", "host", "eth0")
        switch = subprocess.Popen(
            command_in(namespaces["switch"], *command(address, [1])), stdout=subprocess.DEVNULL
        )
        try:
            wait_until((scratch / "p4runtime.sock").exists, "the switch listens")
            done = subprocess.run(
                [BUILD / "dataplane/switch/bench/tiercast-p4runtime-load", "--address", address,
                 "--p4info", P4INFO, "--program", PROGRAM],
                stdout=subprocess.PIPE, text=True, check=True, timeout=300,
            )  # fmt: skip
        finally:
            switch.terminate()
            switch.wait(timeout=60)
    finally:
        namespaces.close()
        (scratch / "p4runtime.sock").unlink(missing_ok=True)
    rates: dict[str, list[float]] = json.loads(done.stdout)
    return rates


def all_inserts(scratch: Path, turns: int) -> dict[str, dict[str, float]]:
    """The medians over all rounds; the switches are measured in turns."""
    commands: dict[str, Callable[[str, Sequence[int]], list[str]]] = {"tiercast": tiercast_command}
    if shutil.which("simple_switch_grpc"):
        commands["bmv2"] = bmv2_command
    found: dict[str, dict[str, list[float]]] = {name: {} for name in commands}
    for _ in range(turns):
        for name, command in commands.items():
            for what, rates in inserts(command, scratch).items():
                found[name].setdefault(what, []).extend(rates)
    return {
        name: {what: statistics.median(rates) for what, rates in of_one.items()}
        for name, of_one in found.items()
    }


def figures(values: list[float]) -> dict[str, float]:
    quantiles = statistics.quantiles(values, n=100)
    return {"p50_us": statistics.median(values), "p99_us": quantiles[98], "max_us": max(values)}


def on_chain(scratch: Path, measure: Callable[[Network], Any]) -> Any:
    with running_network(scratch) as network:
        return asyncio.run(measure(network))


def goal(text: str, measured: float, met: bool) -> dict[str, Any]:
    return {"goal": text, "measured": measured, "met": met}


def goals(results: dict[str, Any]) -> list[dict[str, Any]]:
    join, loaded = results["latency"]["join"], results["load"]
    rate = results["inserts"]["tiercast"]["inserts_per_s"]
    found = [
        goal(f"a join on four switches, median, us: below {GOAL_MEDIAN_US}", join["p50_us"],
             join["p50_us"] < GOAL_MEDIAN_US),
        goal(f"a join on four switches, p99, us: below {GOAL_P99_US}", join["p99_us"],
             join["p99_us"] < GOAL_P99_US),
        goal(f"{JOINS_PER_S} joins/s, reports without effect: 0", loaded["lost"],
             not loaded["lost"]),
        goal(f"{JOINS_PER_S} joins/s, p99, us: at most {GOAL_P99_LOADED_US}",
             loaded["join"]["p99_us"], loaded["join"]["p99_us"] <= GOAL_P99_LOADED_US),
        goal(f"inserts/s: at least {GOAL_INSERTS_PER_S}", rate, rate >= GOAL_INSERTS_PER_S),
    ]  # fmt: skip
    if bmv2 := results["inserts"].get("bmv2"):
        times = rate / bmv2["inserts_per_s"]
        found.append(goal(f"inserts/s, times bmv2's: at least {GOAL_TIMES_BMV2}", times,
                          times >= GOAL_TIMES_BMV2))  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=ROOT / "results/bench/control.json")
    parser.add_argument("--turns", type=int, default=40, help="of five joins and five leaves (40)")
    parser.add_argument("--load-turns", type=int, default=3, help="of the crowd (3)")
    options = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("bench-control: needs root (namespaces)")
    results: dict[str, Any] = {"machine": machine(), "command": "make bench-control"}
    with tempfile.TemporaryDirectory(prefix="tiercast-") as name:
        scratch = Path(name)
        print("joins, one at a time ...", flush=True)
        times = on_chain(scratch, lambda network: latency(network, options.turns))
        results["latency"] = {what: figures(values) for what, values in times.items()}
        print(f"{JOINS_PER_S} joins in a second ...", flush=True)
        times, counts = on_chain(scratch, lambda network: load(network, options.load_turns))
        results["load"] = {what: figures(values) for what, values in times.items()} | counts
        print("inserts ...", flush=True)
        results["inserts"] = all_inserts(scratch, turns=3)
    results["goals"] = goals(results)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    for part in ("latency", "load", "inserts"):
        for what, row in results[part].items():
            cells = row if isinstance(row, dict) else {"": row}
            said = "  ".join(f"{name} {value:.4g}".strip() for name, value in cells.items())
            print(f"  {part:8} {what:10} {said}")
    for one in results["goals"]:
        print(f"  {'met' if one['met'] else 'NOT':4}{one['goal']}: {one['measured']:.4g}")
    print(f"written: {options.output}")


if __name__ == "__main__":
    main()
