"""Measures tiercast-send and writes results/bench/sender.json: `make bench-sender`.

For comparison it measures, in turns in the same run, a bare loop that waits for the TSC
(tiercast-bare-loop) and dpdk-testpmd's txonly: they show what the machine was capable of at that
time. One preloaded library (libtiercast-far-end.so) records the gaps of both senders at the
hand-over to the driver. docs/performance.md explains each figure.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from bench_switch import SO_RCVBUFFORCE, machine, network, raw_socket, stamp
from sender_goals import FEEDBACK_KINDS, LAB_PACKETS_PER_S, goals, table
from sender_runs import (
    BOTH_CPUS,
    BUILD,
    CHILD,
    MAX_RECORDED,
    NULL,
    OTHER_CPU,
    ROOT,
    SENDER_CPU,
    URGENT,
    WARM_UP,
    Load,
    Record,
    bare_loop,
    control_of,
    error_output,
    gap_errors,
    in_turns,
    ip_bytes,
    medians,
    record_file,
    records,
    run,
    running,
    send,
    sender_command,
    testpmd,
)

PACKAGES = ("", "build/python", "controller", "mininet", "tools/wire")
sys.path[:0] = [str(ROOT / folder) for folder in PACKAGES]

from tests.namespaces import command_in  # noqa: E402


@dataclass(frozen=True)
class Plan:
    """How much to measure."""

    repeat: int  # runs of each figure; their median counts
    seconds: float  # per run
    layers: tuple[int, ...]
    sizes: tuple[int, ...]  # bytes of an Ethernet frame with FCS
    rates: tuple[float, ...]  # packets/s at which gaps are measured
    long_seconds: float  # of the runs on which the goals for rates are judged


FULL = Plan(
    3, 1.0, (1, 8, 64, 1_000, 10_000, 100_000), (64, 512, 1400), (1e4, 1e5, 1e6, 5e6, 14.88e6), 10
)
QUICK = Plan(1, 1.0, (1, 1_000, 100_000), (64,), (1e4, 1e6, 14.88e6), 3)
CHECK = Plan(1, 0.2, (8,), (64,), (1e4,), 0.5)

OVERLOAD = 60e6  # packets/s: more than one core of any present machine can send


def throughput(plan: Plan, layers: int, size: int) -> dict[str, Any]:
    """Asks for more than the sender can send, so the result is what one core can send with
    pacing."""
    figures = medians([send(NULL, Load(layers, OVERLOAD, size), plan.seconds)
                       for _ in range(plan.repeat)])  # fmt: skip
    return {"device": "net_null", "layers": layers, "size": size, **figures}


# A main lcore that sleeps beside a worker on the same CPU; and a worker on each CPU.
ONE_WORKER = (f"0@{SENDER_CPU},1@{SENDER_CPU}", f"0@{OTHER_CPU},1@{OTHER_CPU}")
TWO_WORKERS = f"0@{OTHER_CPU},1@{OTHER_CPU},2@{SENDER_CPU}"


def two_cores(plan: Plan, layers: int) -> dict[str, Any]:
    """What two workers send beside what one does, on either CPU, in turns: a turn's ratio is to the
    mean of its two runs of one worker."""
    load, both = Load(layers, OVERLOAD, 64), Load(layers, 2 * OVERLOAD, 64)
    runs = in_turns(
        2 * plan.repeat - 1,
        one=lambda: send(NULL, load, plan.seconds, cpus=ONE_WORKER[0]),
        two=lambda: send(NULL, both, plan.seconds, cpus=TWO_WORKERS),
        other=lambda: send(NULL, load, plan.seconds, cpus=ONE_WORKER[1]),
    )
    ratios = [
        2 * two["packets_per_s"] / (a["packets_per_s"] + b["packets_per_s"])
        for a, two, b in zip(*(runs[name]["runs"] for name in ("one", "two", "other")), strict=True)
    ]
    return {"layers": layers, **runs, "ratio": statistics.median(ratios), "ratios": ratios}


def ring_throughput(plan: Plan, layers: int) -> dict[str, Any]:
    """Sends into a ring that a thread on the other core empties."""
    size, runs = 64, []
    for _ in range(plan.repeat):
        with tempfile.NamedTemporaryFile() as report:
            far_end = {"ring": 1, "cpu": OTHER_CPU, "report": report.name}
            one = send(None, Load(layers, OVERLOAD, size), plan.seconds, far_end)
            taken = json.loads(Path(report.name).read_text())
            one["lost_on_the_way"] = one["total_packets"] - taken["taken"] - taken["left"]
            runs.append(one)
    return {"device": "net_ring", "layers": layers, "size": size, **medians(runs)}


def gap_of_sender(rate: float, seconds: float, size: int = 64) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as scratch, record_file() as file:
        skip = 0.3  # by then buffers and caches are filled
        count = min(MAX_RECORDED, int(rate * seconds * 1.05) + 1000)
        run(sender_command(NULL, Load(1, rate, size), seconds + skip + 0.2, Path(scratch)),
            {"record": file, "count": count, "skip": skip})  # fmt: skip
        return gap_errors(Record(file), rate)


def gap_of_bare_loop(rate: float, seconds: float, size: int = 64) -> dict[str, float]:
    with record_file() as file:
        skip = 0.3
        count = min(MAX_RECORDED, int(rate * seconds * 1.05) + 1000)
        bare_loop(NULL, size, rate, seconds + skip, record=file, count=count, skip=skip)
        return gap_errors(Record(file), rate)


def gaps(plan: Plan, rate: float) -> dict[str, Any]:
    seconds = max(plan.seconds, 1000 / rate)
    both = in_turns(plan.repeat, bare_loop=lambda: gap_of_bare_loop(rate, seconds),
                    sender=lambda: gap_of_sender(rate, seconds))  # fmt: skip
    # A clock that advances in steps cannot resolve less than one step: below it, both are exact.
    floor = clock_step_ns()
    ratio = max(both["sender"]["p99_ns"], floor) / max(both["bare_loop"]["p99_ns"], floor)
    return {"rate": rate, **both, "p99_ratio": ratio}


def clock_step_ns() -> int:
    from tiercast_lab.cli.doctor_dpdk import clock_step_ns as measure

    return measure(time.perf_counter_ns)


def rate_errors(load: Load, seconds: float) -> dict[str, Any]:
    """For each layer: what it sent in `seconds`, compared with its rate times that time."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        command = sender_command(NULL, load, 3600, folder, f"--control=unix:{folder}/control")
        with running(command), control_of(folder) as control:
            time.sleep(WARM_UP + load.layers / load.packets_per_s)
            states = []
            for wait in (seconds, 0):
                states.append(control.list_sessions())
                time.sleep(wait)
    before, after = ({(s.session.session, layer.rank): layer.sent_packets
                      for s in one.sessions for layer in s.layers} for one in states)  # fmt: skip
    elapsed = (states[1].time_ns - states[0].time_ns) / 1e9
    ideal = load.packets_per_s / load.layers * elapsed
    sent = np.array([after[layer] - before[layer] for layer in before])
    errors = np.abs(sent / ideal - 1)
    off = np.abs(sent - ideal) > max(0.001 * ideal, 1)
    return {
        "layers": load.layers, "packets_per_s": load.packets_per_s, "seconds": elapsed,
        "layers_off": int(off.sum()),
        "sent_per_s": float(sent.sum() / elapsed), "packets_per_layer": ideal,
        "worst": float(errors.max()), "p99": float(np.percentile(errors, 99)),
        "mean": float(sent.mean() / ideal - 1),
    }  # fmt: skip


def response_to_change() -> dict[str, Any]:
    """The time from the call that changes a layer's rate to the first departure at the new rate."""
    rate, times = 1e5, []
    with tempfile.TemporaryDirectory() as scratch, record_file() as file:
        folder = Path(scratch)
        command = sender_command(
            NULL, Load(1, rate, 64), 3600, folder, f"--control=unix:{folder}/control",
            "--max-sessions=2",
        )  # fmt: skip
        calls = []
        with running(command, {"record": file, "count": 3_000_000}), control_of(folder) as control:
            time.sleep(0.3)
            for factor in (2, 1) * 10:
                wanted = f"{rate * factor * ip_bytes(64) * 8:.0f}"
                calls.append((time.monotonic_ns(), rate * factor))
                control.change(1, parameters={"rlm.base_rate": wanted})
                time.sleep(0.1)
        departures = Record(file).monotonic_ns()
    for called, new_rate in calls:
        after = departures[np.searchsorted(departures, called) :]
        gaps_ns = np.diff(after[:20000])
        fits = np.abs(gaps_ns * new_rate / 1e9 - 1) < 0.1
        # Two gaps in a row, so that a single gap of the old rate that happens to fit does not
        # count.
        first = int(np.argmax(fits[:-1] & fits[1:]))
        times.append((after[first] - called) / 1000)
    return {"calls": len(times), "p50_us": float(np.median(times)), "max_us": float(max(times)),
            "from": "the call of ChangeSession over gRPC"}  # fmt: skip


def feedback_frames(sessions: int, kind: str) -> list[bytes]:
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether
    from tiercast_wire import Tiercast
    from tiercast_wire.layers import LAYERS

    def frame(session: int, destination: str = "10.9.0.2") -> bytes:
        message = Tiercast(session=session, scheme=8, type=2)
        message /= LAYERS["RlmAnnouncement"](source=7, rank=1)
        ip = IP(src="10.9.0.15", dst=destination)
        head = Ether(src="02:00:00:00:00:0f", dst="00:00:00:00:00:00")
        return bytes(head / ip / UDP(sport=40000, dport=5501) / message)

    sound = [frame(1 + i) for i in range(min(sessions, 100))]
    if kind == "sound":
        return sound
    bad = []
    for at, original in enumerate(sound):
        broken = bytearray(original)
        match at % 5:
            case 0:
                broken[24] ^= 1  # IP checksum
            case 1:
                broken[40] ^= 1  # UDP checksum
            case 2:
                broken = broken[:50]
            case 3:
                broken = bytearray(frame(30_000 + at))  # belongs to no session here
            case 4:
                broken = bytearray(frame(1, "10.9.0.99"))
        bad.append(bytes(broken))
    return bad


FEEDBACK_SCHEME = "rlm"  # its sender accepts this feedback


def with_feedback(plan: Plan) -> dict[str, Any]:
    """Sends 1 M packets/s over 1,000 layers, in turns without feedback and with 1 M valid or forged
    feedback frames/s.

    With "one core", one core sends and receives, and the frames come through a ring from the other
    core. With "two cores", one sends and the other receives; the receiving core generates the
    frames whenever it polls (far_end.cpp).
    """
    load = Load(1000, 1e6, 64)

    def measure(kind: str | None, two: bool) -> dict[str, float]:
        with tempfile.TemporaryDirectory() as scratch:
            report = Path(scratch) / "report.json"
            far_end: dict[str, object] = {"report": report}
            if not two:
                far_end |= {"ring": 1, "cpu": OTHER_CPU}
            if kind is not None:
                frames = Path(scratch) / "frames"
                frames.write_bytes(b"".join(len(f).to_bytes(2, "big") + f
                                            for f in feedback_frames(125, kind)))  # fmt: skip
                # By then the sender is polling for them.
                far_end |= {"frames": frames, "rate": 1e6, "from": 0.3}
            figures = send(NULL if two else None, load, max(plan.seconds, 1.0), far_end,
                           cpus=BOTH_CPUS if two else str(SENDER_CPU))  # fmt: skip
            return figures | (json.loads(report.read_text()) if report.exists() else {})

    found: dict[str, Any] = {"scheme": FEEDBACK_SCHEME}
    repeat = plan.repeat if plan is CHECK else max(plan.repeat, 3)  # single runs differ widely
    for cores, two in (("two cores", True), ("one core", False)):
        both = in_turns(repeat, none=partial(measure, None, two),
                        sound=partial(measure, "sound", two),
                        forged=partial(measure, "forged", two))  # fmt: skip
        for kind in FEEDBACK_KINDS:
            both[f"{kind}_late_p99_ratio"] = both[kind]["late_p99_ns"] / both["none"]["late_p99_ns"]
        found[cores] = both
    return found


def ring_arrivals(plan: Plan, rate: float) -> dict[str, float]:
    """Gaps at the far end of a ring, seen by a thread on the other core that polls for packets."""
    seconds = max(plan.seconds, 1000 / rate)
    with tempfile.TemporaryDirectory() as scratch, record_file() as file:
        far_end = {"ring": 1, "cpu": OTHER_CPU, "arrivals": file, "skip": 0.3,
                   "count": min(MAX_RECORDED, int(rate * seconds) + 1000)}  # fmt: skip
        run(sender_command(None, Load(1, rate, 64), seconds + 0.5, Path(scratch)), far_end)
        return {"rate": rate, **gap_errors(Record(file), rate)}


VETH_DEVICE = "net_af_packet0,iface=p1,blocksz=4096,framesz=2048,framecnt=512,qpairs=1"
RECEIVE_BUFFER = 256 << 20  # bytes: the kernel stamps packets that Python reads later


def over_veth(plan: Plan) -> dict[str, Any]:
    """net_af_packet: the highest rate, and the gaps by the receiving kernel's time stamps."""
    figures: dict[str, Any] = {"device": "net_af_packet on veth", "sizes": {}, "gaps": []}
    with network() as (sender_space, hosts):

        def sender(load: Load, seconds: float, folder: Path) -> None:
            done = subprocess.run(
                [*URGENT,
                 *command_in(sender_space, *sender_command(VETH_DEVICE, load, seconds, folder))],
                capture_output=True, **CHILD, check=False,
            )  # fmt: skip
            if done.returncode != 0:
                raise SystemExit(f"bench-sender: over veth: {done.stderr[-2000:]}")

        for size in plan.sizes:
            rates = []
            for _ in range(plan.repeat):
                with tempfile.TemporaryDirectory() as scratch:
                    sender(Load(8, 2e6, size), WARM_UP + 1.3, Path(scratch))
                    first, last = records(Path(scratch), "worker")[:2]
                    elapsed = (last["time_ns"] - first["time_ns"]) / 1e9
                    rates.append((last["sent_packets"] - first["sent_packets"]) / elapsed)
            figures["sizes"][str(size)] = {
                "packets_per_s": statistics.median(rates), "runs": rates
            }  # fmt: skip
        for rate in (r for r in plan.rates if r <= 1e5):
            receiver = raw_socket(hosts, "h1")
            receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER)
            receiver.settimeout(0.1)
            stamps = []
            with tempfile.TemporaryDirectory() as scratch, contextlib.closing(receiver):
                sender(Load(1, rate, 64), 0.5 + max(plan.seconds, 0.5), Path(scratch))
                with contextlib.suppress(TimeoutError):
                    while True:
                        stamps.append(stamp(receiver))
            errors = np.abs(np.diff(stamps[len(stamps) // 4 :]) - 1e9 / rate)
            p50, p99, p999, worst = np.percentile(errors, (50, 99, 99.9, 100))
            figures["gaps"].append(
                {"rate": rate, "packets": len(stamps), "p50_ns": p50, "p99_ns": p99,
                 "p999_ns": p999, "max_ns": worst}
            )  # fmt: skip
    return figures


LAB_PACKET = 1000  # IP bytes
LAB_RATE = f"{LAB_PACKETS_PER_S * LAB_PACKET * 8}bit/s"


def in_a_lab(plan: Plan) -> dict[str, float]:
    """The runtime that sleeps between departures, and a tiercast-host, as the lab uses them: one
    layer over a veth. Reports the share of a CPU that each uses, and how late packets leave."""
    seconds = max(plan.seconds, 1.0) * 4
    ends = {}
    with network() as (sender_space, hosts), tempfile.TemporaryDirectory() as scratch:
        traces = {name: Path(scratch) / name for name in ("sender", "host")}

        def start(name: str, space: str, *command: str | Path) -> subprocess.Popen[str]:
            # The default scheme, sim: its bounds keep the rate constant.
            return subprocess.Popen(
                [*URGENT, *command_in(space, *command), f"--trace={traces[name]}",
                 "--session=1", "--layers=1", *(f"--set=sim.{bound}_rate={LAB_RATE}"
                                                for bound in ("min", "initial", "max"))],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **CHILD,
            )  # fmt: skip

        def end(name: str, process: subprocess.Popen[str]) -> None:
            _, status, usage = os.wait4(process.pid, 0)
            if status != 0:
                raise SystemExit(f"bench-sender: in a lab: {name}: {error_output(process)}")
            rows = [json.loads(line) for line in traces[name].read_text().splitlines()]
            ends[name] = rows, (usage.ru_utime + usage.ru_stime) / seconds

        subprocess.run(["ip", "-n", hosts, "addr", "add", "10.9.0.15/24", "dev", "h1"], check=True)
        host = start("host", hosts, BUILD.parents[1] / "hosts/tiercast-host", "recv", "--id=15",
                     "--interface=h1", "--source=10.9.0.2")  # fmt: skip
        try:
            while not (traces["host"].exists() and "subscription" in traces["host"].read_text()):
                if host.poll() is not None:
                    raise SystemExit(f"bench-sender: in a lab: host: {error_output(host)}")
                time.sleep(0.05)
            device = "--vdev=net_af_packet0,iface=p1"
            sender = start("sender", sender_space, BUILD / "tiercast-send", device, "--no-huge",
                           "--no-shconf", "--no-pci", "--no-telemetry", "-m", "64", "--",
                           "--address=10.9.0.2", f"--duration={seconds}s")  # fmt: skip
            end("sender", sender)
        finally:
            host.terminate()
        end("host", host)

    def last(name: str, kind: str) -> dict[str, float]:
        found: dict[str, float] = [row for row in ends[name][0] if row["kind"] == kind][-1]
        return found

    sent, late = last("sender", "layer")["sent_packets"], last("sender", "pacer.final")
    return {
        "packets_per_s": sent / seconds, "lost": sent - last("host", "received")["packets"],
        "late_p50_us": late["late_p50_us"], "late_p99_us": late["late_p99_us"],
        "late_max_us": late["late_max_us"],
        "sender_cpu": ends["sender"][1], "host_cpu": ends["host"][1],
    }  # fmt: skip


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text} (load {os.getloadavg()[0]:.1f})", flush=True)


def limits(plan: Plan, size: int) -> dict[str, Any]:
    say(f"limits at {size} bytes")
    return in_turns(
        plan.repeat,
        bare_loop=lambda: bare_loop(NULL, size, 0, plan.seconds),
        testpmd=lambda: testpmd(size, 32, plan.seconds),
        testpmd_burst_1=lambda: testpmd(size, 1, plan.seconds),
    )


def rates_of_layers(plan: Plan) -> list[dict[str, Any]]:
    rows = []
    for layers, rate in ((1000, 20e6), (100_000, 14.88e6), (100_000, 10e6)):
        if layers in plan.layers:
            say(f"rates of {layers} layers")
            rows.append(rate_errors(Load(layers, rate, 64), plan.long_seconds))
    return rows


def each(measure: Callable[..., Any], plan: Plan, what: str, values: Iterable[Any]) -> list[Any]:
    rows = []
    for value in values:
        say(what.format(value))
        rows.append(measure(plan, value))
    return rows


# The parts that can be measured on their own, each in at most two minutes. The result is stored as
# results[name].
PARTS: dict[str, Callable[[Plan], Any]] = {
    "limits": lambda plan: {str(size): limits(plan, size) for size in plan.sizes},
    "throughput": lambda plan: [
        row
        for size in plan.sizes
        for row in each(partial(throughput, size=size), plan, f"{{:,}} layers of {size} bytes",
                        plan.layers)
    ],
    "two_cores": lambda plan: each(
        two_cores, plan, "two cores, {:,} layers",
        [layers for layers in plan.layers if layers in (1000, 100_000)],
    ),
    "ring_throughput": lambda plan: each(
        ring_throughput, plan, "{:,} layers into a ring",
        [layers for layers in plan.layers if layers in (8, 1000, 100_000)],
    ),
    "gaps": lambda plan: each(gaps, plan, "gaps at {:,.0f} packets/s", plan.rates),
    "ring_arrivals": lambda plan: each(
        ring_arrivals, plan, "arrivals from a ring at {:,.0f} packets/s",
        [rate for rate in plan.rates if rate <= 5e6],
    ),
    "rate_errors": rates_of_layers,
    "change": lambda plan: response_to_change(),
    "feedback": with_feedback,
    "veth": over_veth,
    "lab": in_a_lab,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=ROOT / "results/bench/sender.json")
    parser.add_argument("--charts", type=Path, help="folder of sender-*.svg; else the output's")
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART",
                        help="these, beside what was measured before: %(choices)s")  # fmt: skip
    parser.add_argument("--sizes", nargs="+", type=int, choices=FULL.sizes, metavar="BYTES",
                        help="frames of these sizes alone: %(choices)s")  # fmt: skip
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--quick", action="store_true", help="fewer figures, one run each")
    chosen.add_argument("--check", action="store_true", help="that it works, in seconds")
    options = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("bench-sender: needs root (namespaces, packet sockets, priorities)")
    plan = CHECK if options.check else QUICK if options.quick else FULL
    if options.sizes:
        plan = replace(plan, sizes=tuple(options.sizes))
    results: dict[str, Any] = {}
    if options.only and options.output.exists():
        results = json.loads(options.output.read_text())
    results |= {"machine": machine(), "command": "make bench-sender",
                "clock_step_ns": clock_step_ns()}  # fmt: skip
    options.output.parent.mkdir(parents=True, exist_ok=True)
    for name in options.only or PARTS:
        say(name)
        measured = PARTS[name](plan)
        if name == "limits":
            measured = results.get(name, {}) | measured
        if name == "throughput":
            others = [row for row in results.get(name, []) if row["size"] not in plan.sizes]
            measured = sorted([*others, *measured], key=lambda row: (row["size"], row["layers"]))
        results[name] = measured
        results["goals"] = goals(results)
        results["machine"]["load_average_after"] = os.getloadavg()
        options.output.write_text(json.dumps(results, indent=1, default=float) + "\n")
    if {"limits", "throughput", "gaps"} <= results.keys():
        from sender_charts import draw

        for path in draw(results, options.charts or options.output.parent):
            print(f"drawn: {path}")
    print(table(results))
    print(f"written: {options.output}")


if __name__ == "__main__":
    main()
