"""A chain of three tiercast-switches, linked by veth pairs or in the memory of one process:
results/bench/links.json. Run by `make bench-links`, as root.

Frames of the TCP workload pass all three. Over veth, they come and leave by veths, and the highest
rate without loss is searched for, as in bench-switch. From memory, the first port is a net_pcap of
DPDK, which repeats one frame, and the last a net_null.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import grpc
from bench_switch import (
    BUILD,
    REAL_TIME,
    ROOT,
    configure,
    cost_at,
    highest_rate,
    machine,
    network,
    run,
    tcp_frame,
)
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap
from tiercast.v1 import lab_pb2, lab_pb2_grpc

from tests.namespaces import command_in  # noqa: E402

NAMES = ("s1", "s2", "s3")
SECONDS = 2.0  # of a measurement from memory
RATE = 5000.0  # packets/s at which the CPU time is measured
KINDS = ("veth", "memory")


def options(kind: str, folder: str, first: str, last: str) -> dict[str, list[str]]:
    """The options of each switch of the chain, by its name."""
    between = {"veth": ("a1", "a2", "b1", "b2"),
               "memory": ("link:s2.1", "link:s1.2", "link:s3.1", "link:s2.2")}[kind]  # fmt: skip
    interfaces = dict(zip(NAMES, zip((first, *between[1::2]), (*between[::2], last), strict=True),
                          strict=True))  # fmt: skip
    return {
        name: ["--name", name, "--device-id", str(number), "--grpc", f"unix:{folder}/{name}",
               "--port", f"1={interfaces[name][0]}", "--port", f"2={interfaces[name][1]}"]
        for number, name in enumerate(NAMES, 1)
    }  # fmt: skip


@contextlib.contextmanager
def running(commands: list[list[str]], folder: str) -> Iterator[list[int]]:
    """Runs the switches, and yields their processes once all three are configured."""
    with open(f"{folder}/log", "w") as log:
        processes = [subprocess.Popen(one, stdout=log, stderr=log) for one in commands]
    try:
        for number, name in enumerate(NAMES, 1):
            configure(f"unix:{folder}/{name}", number)
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            process.wait(timeout=20)


def over_veth(kind: str, repeat: int) -> dict[str, Any]:
    binary = str(BUILD / "dataplane/switch/tiercast-switch")
    with tempfile.TemporaryDirectory() as folder, network() as (space, hosts):
        words = options(kind, folder, "p1", "p2")
        if kind == "veth":
            for name in ("a", "b"):
                run(*command_in(space, "ip", "link", "add", f"{name}1", "type", "veth", "peer",
                                f"{name}2"))  # fmt: skip
                for end in "12":
                    run(*command_in(space, "ip", "link", "set", f"{name}{end}", "up"))
            commands = [[binary, *its] for its in words.values()]
        else:
            commands = [[binary, *(word for its in words.values() for word in ("--switch", *its))]]
        commands = [command_in(space, *REAL_TIME, *one) for one in commands]
        with running(commands, folder) as pids:
            rates = [highest_rate(hosts, "tcp")["packets_per_s"] for _ in range(repeat)]
            cost = statistics.median(cost_at(hosts, pids, "tcp", RATE) for _ in range(repeat))
    return {"packets_per_s": statistics.median(rates), "runs": rates, "cpu_us": cost}


def from_memory(repeat: int) -> dict[str, Any]:
    binary = str(BUILD / "dataplane/switch/dpdk/tiercast-switch-dpdk")
    with tempfile.TemporaryDirectory() as folder:
        frame = f"{folder}/frame.pcap"
        wrpcap(frame, [Ether(tcp_frame("10.0.0.2"))])
        eal = ["--no-huge", "-m", "64", "--no-pci", "--no-shconf", "--no-telemetry", "-l", "0",
               f"--vdev=net_pcap0,rx_pcap={frame},infinite_rx=1", "--vdev=net_null1"]  # fmt: skip
        words = options("memory", folder, "dpdk:net_pcap0", "dpdk:net_null1")
        command = [binary, *eal, "--", *(w for its in words.values() for w in ("--switch", *its))]
        with (
            running([[*REAL_TIME, *command]], folder),
            grpc.insecure_channel(f"unix:{folder}/s3") as channel,
        ):
            stub = lab_pb2_grpc.SwitchStub(channel)

            def sent() -> int:
                ports = stub.GetPorts(lab_pb2.GetPortsRequest()).ports
                return next(one.tx_packets for one in ports if one.port == 2)

            rates = []
            for _ in range(repeat):
                before, start = sent(), time.monotonic()
                time.sleep(SECONDS)
                rates.append((sent() - before) / (time.monotonic() - start))
    return {"packets_per_s": statistics.median(rates), "runs": rates}


def table(results: dict[str, Any]) -> str:
    veth, memory = results["veth"], results["memory"]
    lines = [f"{'a chain of three, links':34}{'packets/s':>12}{'CPU us/packet':>15}"]
    lines += [
        f"{kind + ', ends over veth':34}{one['packets_per_s']:12.0f}{one['cpu_us']:15.1f}"
        for kind, one in (("veth", veth), ("memory", memory))
    ]
    if alone := results.get("from memory"):
        lines.append(f"{'memory, ends in memory':34}{alone['packets_per_s']:12.0f}")
        times = alone["packets_per_s"] / veth["packets_per_s"]
        lines.append(f"in memory throughout / over veth: {times:.1f} times")
    faster = memory["packets_per_s"] / veth["packets_per_s"]
    share = memory["cpu_us"] / veth["cpu_us"]
    lines.append(f"memory / veth, ends over veth: {faster:.1f} times the rate, {share:.2f} of CPU")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeat", type=int, default=3)
    repeat = parser.parse_args().repeat
    results: dict[str, Any] = {"machine": machine()}
    for kind in KINDS:
        print(f"{kind} ...", flush=True)
        results[kind] = over_veth(kind, repeat)
    if (BUILD / "dataplane/switch/dpdk/tiercast-switch-dpdk").exists():
        print("from memory ...", flush=True)
        results["from memory"] = from_memory(repeat)
    file = ROOT / "results/bench/links.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(results, indent=2) + "\n")
    print(table(results))


if __name__ == "__main__":
    main()
