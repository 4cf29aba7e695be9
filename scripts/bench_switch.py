"""Measures tiercast-switch and writes results/bench/switch.json: `make bench-switch`.

tiercast-switch-bench measures it from memory, tiercast-swx-bench beside DPDK's own P4 pipeline, and
tiercast-switch-dpdk-bench over DPDK ports. Over veth, tiercast-switch and (if it is installed)
bmv2's simple_switch_grpc run one after the other, in namespaces of their own and with the same
JSON, entries and frames. docs/performance.md explains each figure.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import json
import os
import platform
import queue
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("TIERCAST_BUILD", ROOT / "build"))
sys.path[:0] = [str(ROOT), str(Path(os.environ.get("TIERCAST_STUBS", ROOT / "build/python")))]

import grpc  # noqa: E402
import swx  # noqa: E402
from google.protobuf import text_format  # noqa: E402
from p4.config.v1 import p4info_pb2  # noqa: E402
from p4.v1 import p4runtime_pb2 as p4  # noqa: E402
from p4.v1 import p4runtime_pb2_grpc  # noqa: E402

from tests.namespaces import Namespaces, command_in, inside  # noqa: E402

BENCH = BUILD / "dataplane/switch/bench"
P4_PROGRAMS = ROOT / "tests/data/p4"
PROGRAM = ROOT / "p4src/compiled/tiercast.json"
P4INFO = ROOT / "p4src/compiled/tiercast.p4info.txtpb"
WORKLOADS = {"sim_data": 4, "sim_feedback": 1, "tcp": 1}  # frames out per frame in
PORTS = range(1, 6)
OFFLOADS = ("tx", "rx", "tso", "gso", "gro")
DPDK_DRIVERS = ("net_null", "net_ring")
TRIAL_SECONDS = 1.0
LOWEST_RATE, HIGHEST_RATE = 250.0, 4e6  # packets/s: the bounds of the search
SEARCH_PRECISION = 1.05  # the rate found passes; this factor above it fails
# For both switches and the generator, so that other work on the machine does not decide.
REAL_TIME = ("chrt", "--rr", "10")
DELAY_FRAMES = 1000
SO_TIMESTAMPNS, SO_RCVBUFFORCE, ETH_P_ALL = 35, 33, 3
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23
LOW_RATES = (1000, 5000)  # packets/s at which the CPU time per packet is measured


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"bench-switch: {' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


@contextlib.contextmanager
def network() -> Iterator[tuple[str, str]]:
    """Yields two namespaces: the switch's, with p1..p5, and the hosts', with their far ends
    h1..h5."""
    spaces = Namespaces("switch", "hosts")
    try:
        for port in PORTS:
            spaces.join("switch", f"p{port}", "hosts", f"h{port}")
            for space, name in (("switch", f"p{port}"), ("hosts", f"h{port}")):
                # tiercast-switch does this itself, but bmv2 needs it done.
                off = [word for what in OFFLOADS for word in (what, "off")]
                run(*command_in(spaces[space], "ethtool", "-K", name, *off))
        yield spaces["switch"], spaces["hosts"]
    finally:
        spaces.close()


def tiercast_command(address: str, ports: Sequence[int] = PORTS, *, kind: str = "") -> list[str]:
    """`kind`: what stands before an interface's name in `--port`, "xdp:" or nothing."""
    given = [word for port in ports for word in ("--port", f"{port}={kind}p{port}")]
    binary = BUILD / "dataplane/switch/tiercast-switch"
    return [str(binary), "--device-id", "1", "--grpc", address, *given]


xdp_command = functools.partial(tiercast_command, kind="xdp:")


def xdp_is_built() -> bool:
    """Whether tiercast-switch was built with libxdp: it says so when asked for a port."""
    command = [*tiercast_command("unix:/nowhere", [1], kind="xdp:"), "--json", str(PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "built without XDP" not in done.stderr


def bmv2_command(address: str, ports: Sequence[int] = PORTS) -> list[str]:
    given = [word for port in ports for word in ("-i", f"{port}@p{port}")]
    return ["simple_switch_grpc", "--device-id", "1", "--no-p4", "--thrift-port", "0", *given,
            "--", "--grpc-server-addr", address, "--cpu-port", "510"]  # fmt: skip


def configure(address: str, device_id: int = 1) -> None:
    """Loads the program, and the entries of dataplane/switch/bench/workloads.cpp and of drain()."""
    info = text_format.Parse(P4INFO.read_text(), p4info_pb2.P4Info())
    ids = {i.preamble.name: i.preamble.id for kind in ("tables", "actions")
           for i in getattr(info, kind)}  # fmt: skip
    channel = grpc.insecure_channel(address)
    grpc.channel_ready_future(channel).result(timeout=20)
    stub = p4runtime_pb2_grpc.P4RuntimeStub(channel)
    requests: queue.Queue[p4.StreamMessageRequest | None] = queue.Queue()
    stream = stub.StreamChannel(iter(requests.get, None))
    election = p4.Uint128(low=1)
    arbitration = p4.MasterArbitrationUpdate(device_id=device_id, election_id=election)
    requests.put(p4.StreamMessageRequest(arbitration=arbitration))
    next(stream)
    config = p4.ForwardingPipelineConfig(p4info=info, p4_device_config=PROGRAM.read_bytes())
    stub.SetForwardingPipelineConfig(p4.SetForwardingPipelineConfigRequest(
        device_id=device_id, election_id=election, config=config,
        action=p4.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT))  # fmt: skip

    def entry(table: str, address: str, action: str, *arguments: bytes) -> p4.Entity:
        one = p4.TableEntry(table_id=ids[table])
        one.match.add(field_id=1).exact.value = socket.inet_aton(address)
        one.action.action.action_id = ids[action]
        for number, value in enumerate(arguments, 1):
            one.action.action.params.add(param_id=number, value=value)
        return p4.Entity(table_entry=one)

    group = p4.Entity()
    multicast = group.packet_replication_engine_entry.multicast_group_entry
    multicast.multicast_group_id = 1
    for port in range(2, 6):
        multicast.replicas.add(egress_port=port, instance=1)
    for entity in (
        group,
        entry("ipv4_host", "10.0.0.2", "forward", b"\x02", bytes.fromhex("020000000003")),
        entry("ipv4_host", SECOND_HOST, "forward", b"\x03", bytes.fromhex("020000000004")),
        entry(
            "ipv4_multicast",
            "239.192.0.8",
            "replicate_from",
            b"\x01",
            socket.inet_aton("10.0.0.1"),
            b"\x01",
            b"\x01",
        ),
    ):
        stub.Write(p4.WriteRequest(device_id=device_id, election_id=election, updates=[
            p4.Update(type=p4.Update.INSERT, entity=entity)]))  # fmt: skip
    requests.put(None)
    stream.cancel()
    channel.close()


@contextlib.contextmanager
def switch(command: Any, namespace: str) -> Iterator[int]:
    """Runs a configured switch; yields its process id."""
    with tempfile.TemporaryDirectory() as directory:
        address = f"unix:{directory}/switch"
        with open(f"{directory}/log", "w") as log:
            process = subprocess.Popen(
                command_in(namespace, *REAL_TIME, *command(address)), stdout=log, stderr=log
            )
        try:
            configure(address)
            yield process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
            if process.poll() is None:
                process.kill()
                process.wait()


def cpu_seconds(pid: int) -> float:
    """CPU time of all threads, in the kernel and in user space."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def send(hosts: str, workload: str, rate: float, seconds: float) -> dict[str, float]:
    """One trial. `loss` counts the copies that did not arrive."""
    copies = WORKLOADS[workload]
    counted = ",".join(f"h{port}" for port in range(2, 2 + copies))
    tool = BENCH / "tiercast-veth-load"
    result: dict[str, float] = json.loads(run(
        *command_in(hosts, *REAL_TIME, tool), "--send", "h1", "--count", counted,
        "--workload", workload, "--rate", str(rate), "--seconds", str(seconds)))  # fmt: skip
    result["loss"] = result["sent"] * copies - result["received"]
    result["rate"] = result["sent"] / result["seconds"]
    return result


def highest_rate(hosts: str, workload: str) -> dict[str, float]:
    """The highest rate without loss, found by bisection.

    A rate fails only if it loses packets twice, so that a single stall of the machine does not
    decide.
    """

    def passes(rate: float) -> dict[str, float] | None:
        for _ in range(2):
            trial = send(hosts, workload, rate, TRIAL_SECONDS)
            # If the generator itself was late, the trial says nothing about the switch.
            if trial["loss"] == 0:
                return trial
        return None

    best = passes(LOWEST_RATE)
    if best is None:
        return {"packets_per_s": 0.0, "trial_s": TRIAL_SECONDS}
    low, high = LOWEST_RATE, HIGHEST_RATE
    while high / low > SEARCH_PRECISION:
        middle = (low * high) ** 0.5
        trial = passes(middle)
        if trial is None:
            high = middle
            continue
        low = middle
        best = max(best, trial, key=lambda one: one["rate"])
        if trial["rate"] < 0.9 * middle:  # the generator's limit, not the switch's
            best["generator_limited"] = True
            break
    return {
        "packets_per_s": best["rate"],
        "frames_out_per_s": best["rate"] * WORKLOADS[workload],
        "trial_s": TRIAL_SECONDS,
        "generator_limited": bool(best.get("generator_limited")),
    }


def cost_at(hosts: str, pids: Sequence[int], workload: str, rate: float) -> float:
    """CPU time of the switches' processes per packet, in us."""
    seconds = 4.0
    before = sum(map(cpu_seconds, pids))
    trial = send(hosts, workload, rate, seconds)
    return (sum(map(cpu_seconds, pids)) - before) / trial["sent"] * 1e6


def over_veth(name: str, command: Any, repeat: int) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    with network() as (switch_space, hosts), switch(command, switch_space) as pid:
        for workload in WORKLOADS:
            runs = [highest_rate(hosts, workload) for _ in range(repeat)]
            # For bmv2 the best run counts, for tiercast the typical one.
            choose = max if name == "bmv2" else statistics.median_low
            rate = choose(run["packets_per_s"] for run in runs)
            figures[workload] = next(run for run in runs if run["packets_per_s"] == rate)
            figures[workload]["runs"] = [round(run["packets_per_s"]) for run in runs]
            print(f"  {name:9} {workload:13} {rate:10.0f} packets/s without loss", flush=True)
        figures["cpu_us_per_packet"] = {
            str(rate): round(cost_at(hosts, [pid], "sim_data", rate), 1) for rate in LOW_RATES
        }
    return figures


DRAIN_FRAMES, DRAINS = 1200, 15  # frames waiting at each of two ports, and how many times
SECOND_HOST = "10.0.0.4"


def drain(workers: int, kind: str = "") -> dict[str, Any]:
    """Packets/s of the switch alone. While it is stopped, frames for port 2 gather in the socket of
    port 1 and frames for port 3 in that of port 4. Then it continues, with no generator beside
    it."""

    def command(address: str) -> list[str]:
        return [*tiercast_command(address, kind=kind), "--workers", str(workers)]

    frames = {"h1": tcp_frame("10.0.0.2"), "h4": tcp_frame(SECOND_HOST)}
    rates = []
    with network() as (switch_space, hosts), switch(command, switch_space) as pid:
        sockets = {name: raw_socket(hosts, name) for name in ("h1", "h2", "h3", "h4")}
        try:
            for _ in range(DRAINS):
                os.kill(pid, signal.SIGSTOP)
                for name, frame in frames.items():
                    for _ in range(DRAIN_FRAMES):
                        sockets[name].send(frame)
                os.kill(pid, signal.SIGCONT)
                stamps = [stamp(sockets[name]) for name in ("h2", "h3")
                          for _ in range(DRAIN_FRAMES)]  # fmt: skip
                rates.append(len(stamps) / ((max(stamps) - min(stamps)) * 1e-9))
        finally:
            for one in sockets.values():
                one.close()
    rate = statistics.median(rates)
    ports = "AF_XDP" if kind else "packet sockets"
    print(f"  workers {workers}, {ports}: drains {rate:10.0f} packets/s", flush=True)
    return {"workers": workers, "ports": ports, "packets_per_s": round(rate),
            "fastest": round(max(rates)), "frame_bytes": len(frames["h1"]),
            "drains": DRAINS}  # fmt: skip


LINK_DELAY_NS, LINK_RATE = 5_000_000, 10_000_000  # ns, bit/s: the link whose delay is measured


def tcp_frame(destination: str) -> bytes:
    """A frame of 1014 bytes from 10.0.0.1."""
    frame = bytearray(1014)
    frame[0:14] = bytes.fromhex("0200000000010200000000020800")
    header = bytearray(struct.pack("!BBHHHBBH4s4s", 0x45, 1, 1000, 0, 0, 64, 6, 0,
                       socket.inet_aton("10.0.0.1"), socket.inet_aton(destination)))  # fmt: skip
    total = sum(struct.unpack("!10H", header))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    header[10:12] = struct.pack("!H", ~total & 0xFFFF)
    frame[14:34] = header
    return bytes(frame)


def raw_socket(namespace: str, interface: str) -> socket.socket:
    """A socket that sends, and receives what the switch sent with the kernel's time stamps."""
    with inside(namespace):
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    made.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    made.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    made.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
    made.settimeout(2)
    made.bind((interface, ETH_P_ALL))
    return made


def stamp(receiver: socket.socket) -> int:
    """The arrival time of the next frame: ns, CLOCK_REALTIME."""
    _, items, _, _ = receiver.recvmsg(2048, 128)
    seconds, nanoseconds = struct.unpack("qq", items[0][2])
    return int(seconds * 10**9 + nanoseconds)


def veth_delay() -> dict[str, Any]:
    """How late frames are that cross an emulated link of 10 Mbit/s and 5 ms in real time.

    The error is the kernel's receive stamp at the far end, minus the time just before the frame was
    sent, minus the link's service time and delay. It includes sending and both veths.
    """
    frame = tcp_frame("10.0.0.2")
    service_ns = len(frame) * 8 * 10**9 // LINK_RATE

    def command(address: str) -> list[str]:
        words = tiercast_command(address)
        words[words.index("2=p2")] += f",rate={LINK_RATE}bit/s,delay={LINK_DELAY_NS}ns,queue=50p"
        return words

    errors_us = []
    with network() as (switch_space, hosts), switch(command, switch_space):
        sender, receiver = raw_socket(hosts, "h1"), raw_socket(hosts, "h2")
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(10))
        try:
            for _ in range(DELAY_FRAMES):
                sent = time.time_ns()
                sender.send(frame)
                errors_us.append((stamp(receiver) - sent - service_ns - LINK_DELAY_NS) / 1000)
        finally:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
            sender.close()
            receiver.close()
    errors_us.sort()
    return {
        "frames": DELAY_FRAMES, "rate_bps": LINK_RATE, "delay_ms": LINK_DELAY_NS / 1e6,
        "p50_us": round(errors_us[len(errors_us) // 2], 1),
        "p99_us": round(errors_us[len(errors_us) * 99 // 100], 1),
        "max_us": round(errors_us[-1], 1),
    }  # fmt: skip


def machine() -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    model = models[0] if models else platform.machine()
    return {
        "cpu": model, "cpus": os.cpu_count(), "kernel": platform.release(),
        "load_average": os.getloadavg(), "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }  # fmt: skip


def table(results: dict[str, Any]) -> str:
    lines = ["", f"{'':40}{'packets/s in':>14}{'frames/s out':>14}{'ns/packet':>11}{'alloc':>7}"]
    for group in ("memory", "dpdk"):
        for one in results.get(group, []):
            name = " ".join(
                [group, one["program"], one["workload"], *([one["form"]] if "form" in one else [])]
            )
            lines.append(
                f"{name:40}"
                f"{one['packets_per_s']:14.0f}{one['frames_out_per_s']:14.0f}"
                f"{one['ns_per_packet']:11.0f}{one['allocations_per_packet']:7.3g}"
            )
    for one, native in itertools.pairwise(results.get("memory", [])):
        if native["form"] == "native":
            times = one["ns_per_packet"] / native["ns_per_packet"]
            name = f"native/interpreter {one['program']} {one['workload']}"
            lines.append(f"{name:40}{times:14.2f} times")
    measured = results.get("swx", {})
    for one in measured.get("cases", []):
        both = f"{one['ours_ns']:.0f} and {one['swx_ns']:.0f} ns"
        lines.append(f"{'time/SWX ' + one['case']:40}{one['ratio']:14.2f} times, {both}")
    if "unavailable" in measured:
        lines.append(f"no figures of SWX: {measured['unavailable']}")
    for name, figures in results.get("veth", {}).items():
        for workload in WORKLOADS:
            one = figures[workload]
            lines.append(
                f"{'veth ' + name + ' ' + workload:40}{one['packets_per_s']:14.0f}"
                f"{one.get('frames_out_per_s', 0):14.0f}"
            )
    for workload, ratio in results.get("ratio_to_bmv2", {}).items():
        lines.append(f"{'veth tiercast/bmv2 ' + workload:32}{ratio:10.1f} times")
    for one in results.get("drain", []):
        name = f"veth drain, {one['ports']}, workers {one['workers']}"
        lines.append(f"{name:40}{one['packets_per_s']:14.0f}")
    manager = results.get("traffic_manager", {})
    if "rates" in manager:
        lines.append(f"traffic manager: rate error at most {manager['worst_rate_error'] * 100:.4f} "
                     f"% over {len(manager['rates'])} rates")  # fmt: skip
    if "veth_delay" in manager:
        lines.append(f"over veth: delay error p99 {manager['veth_delay']['p99_us']:.0f} us")
    return "\n".join(lines)


def from_memory(results: dict[str, Any], _options: argparse.Namespace) -> None:
    router = P4_PROGRAMS / "router.json"
    measured = json.loads(run(*REAL_TIME, str(BENCH / "tiercast-switch-bench"), "--program",
                              str(PROGRAM), "--router", str(router)))  # fmt: skip
    results["memory"] = measured["memory"]
    results["traffic_manager"] = results.get("traffic_manager", {}) | measured["traffic_manager"]


def beside_swx(results: dict[str, Any], _options: argparse.Namespace) -> None:
    results["swx"] = swx.measure(BENCH / "swx/tiercast-swx-bench", P4_PROGRAMS, REAL_TIME)


def over_dpdk(results: dict[str, Any], _options: argparse.Namespace) -> None:
    bench = BENCH / "tiercast-switch-dpdk-bench"
    results["dpdk"] = [
        json.loads(run(*REAL_TIME, str(bench), "--program", str(PROGRAM), "--driver", driver,
                       "--workload", workload))
        for driver in DPDK_DRIVERS for workload in WORKLOADS if bench.exists()
    ]  # fmt: skip


def delays(results: dict[str, Any], _options: argparse.Namespace) -> None:
    results.setdefault("traffic_manager", {})["veth_delay"] = veth_delay()


def drains(results: dict[str, Any], _options: argparse.Namespace) -> None:
    results["drain"] = [drain(workers) for workers in (1, 2)]
    if xdp_is_built():
        results["drain"].append(drain(1, "xdp:"))


def rates(results: dict[str, Any], options: argparse.Namespace) -> None:
    results["veth"] = {"tiercast": over_veth("tiercast", tiercast_command, options.repeat)}
    results.pop("ratio_to_bmv2", None)
    if xdp_is_built():
        results["veth"]["xdp"] = over_veth("xdp", xdp_command, options.repeat)
    if shutil.which("simple_switch_grpc") and not options.skip_bmv2:
        results["veth"]["bmv2"] = over_veth("bmv2", bmv2_command, options.repeat)
        results["ratio_to_bmv2"] = {
            w: results["veth"]["tiercast"][w]["packets_per_s"]
            / max(results["veth"]["bmv2"][w]["packets_per_s"], 1.0)
            for w in WORKLOADS
        }


PARTS = {"memory": from_memory, "swx": beside_swx, "dpdk": over_dpdk, "delay": delays,
         "drain": drains, "veth": rates}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=ROOT / "results/bench/switch.json")
    parser.add_argument("--repeat", type=int, default=3, help="searches per workload over veth")
    parser.add_argument("--skip-bmv2", action="store_true")
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART",
                        help="these, beside what was measured before: %(choices)s")  # fmt: skip
    options = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("bench-switch: needs root (namespaces and packet sockets)")

    results: dict[str, Any] = {}
    if options.only and options.output.exists():
        results = json.loads(options.output.read_text())
    results |= {"machine": machine(), "command": "make bench-switch"}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    for name in options.only or PARTS:
        print(f"{name} ...", flush=True)
        PARTS[name](results, options)
        options.output.write_text(json.dumps(results, indent=1) + "\n")
    print(table(results))
    print(f"written: {options.output}")


if __name__ == "__main__":
    main()
