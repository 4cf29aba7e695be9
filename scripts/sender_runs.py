"""How tiercast-send and what it is compared with run for a measurement, and what a run gives."""

from __future__ import annotations

import contextlib
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("TIERCAST_BUILD", ROOT / "build")) / "dataplane/sender"
FAR_END = BUILD / "bench/libtiercast-far-end.so"
SHARED_MEMORY = Path("/dev/shm")
RECORD_HEADER = np.dtype(
    [
        ("tsc_hz", "<u8"), ("capacity", "<u8"), ("count", "<u8"), ("start_tsc", "<u8"),
        ("start_ns", "<i8"), ("end_tsc", "<u8"), ("end_ns", "<i8"),
    ]
)  # fmt: skip
MAX_RECORDED = 15_000_000
FRAME_BYTES, FCS_BYTES = 14, 4  # around an IP packet
SENDER_CPU, OTHER_CPU = 1, 0
BOTH_CPUS = f"{OTHER_CPU},{SENDER_CPU}"
# Keeps other work on the machine from deciding the result. The kernel would throttle real-time
# processes.
URGENT = ("nice", "-n", "-20")
AUTOGROUP = Path("/proc/self/autogroup")
# Accepts all frames and delivers none. Without no-rx it would invent received frames.
NULL = "net_null0,no-rx=1"


def go_first() -> None:
    """Called in a child. If the kernel shares CPU time among sessions first (autogroup), nice only
    counts within a session."""
    with contextlib.suppress(OSError):
        AUTOGROUP.write_text("-20")


CHILD: dict[str, Any] = {"start_new_session": True, "preexec_fn": go_first, "text": True}


def error_output(process: subprocess.Popen[str]) -> str:
    """The error output of a process that was started with a pipe for it."""
    assert process.stderr is not None
    return process.stderr.read()


def run(command: list[str], far_end: dict[str, object] | None = None) -> str:
    """Runs a command and returns its standard output. `far_end` holds settings of the preloaded
    library."""
    environment = dict(os.environ)
    if far_end is not None:
        environment["LD_PRELOAD"] = str(FAR_END)
        environment["TIERCAST_FAR_END"] = ",".join(f"{k}={v}" for k, v in far_end.items())
    # nice and the other wrappers must not load the library.
    done = subprocess.run(
        [*URGENT, "env", *(f"{k}={environment[k]}" for k in ("LD_PRELOAD", "TIERCAST_FAR_END")
                           if far_end is not None), *command],
        capture_output=True, **CHILD, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(
            f"bench-sender: {' '.join(command)}: status {done.returncode}\n{done.stderr[-2000:]}"
        )
    return str(done.stdout)


def eal(device: str | None, cpus: str = str(SENDER_CPU), memory_mb: int = 256) -> list[str]:
    given = [f"--vdev={device}"] if device else []
    return ["--lcores" if "@" in cpus else "-l", cpus, "--no-pci", "--no-huge", "--no-shconf",
            "--no-telemetry", "--log-level=error", "-m", str(memory_mb), *given]  # fmt: skip


def ip_bytes(size: int) -> int:
    return size - FRAME_BYTES - FCS_BYTES


def bare_loop(device: str | None, size: int, rate: float, seconds: float, **far_end: object) -> Any:
    command = [str(BUILD / "bench/tiercast-bare-loop"), *eal(device), "--",
               f"--size={ip_bytes(size)}", f"--rate={rate}", f"--seconds={seconds}"]  # fmt: skip
    return json.loads(run(command, far_end or None))


def testpmd_rate(
    device: str, mode: str, options: list[str], counter: str, seconds: float
) -> dict[str, Any]:
    """Packets/s that dpdk-testpmd counts in a forwarding mode (txonly) as `counter` (TX-packets).
    Ends the program with what testpmd said if there is no count."""
    command = ["dpdk-testpmd", *eal(device, BOTH_CPUS), "--", f"--forward-mode={mode}", *options,
               "--total-num-mbufs=8192", "--auto-start"]  # fmt: skip
    with subprocess.Popen(
        [*URGENT, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, **CHILD,
    ) as process:  # fmt: skip
        assert process.stdin and process.stdout
        for line in process.stdout:
            if "Press enter to exit" in line or f"{mode} packet forwarding" in line:
                break
        began = time.monotonic()
        time.sleep(seconds)
        process.stdin.write("\n")
        process.stdin.flush()
        elapsed = time.monotonic() - began
        output = process.stdout.read()
    count = re.search(rf"{counter}: (\d+)", output)
    if count is None:
        raise SystemExit(f"dpdk-testpmd's {mode} said no count:\n{output[-2000:]}")
    return {"packets_per_s": int(count[1]) / elapsed}


def testpmd(size: int, burst: int, seconds: float) -> dict[str, Any]:
    """Packets/s of dpdk-testpmd's txonly, which sends constant packets without rewriting headers
    and without pacing."""
    options = [f"--txpkts={size - FCS_BYTES}", f"--burst={burst}"]
    return testpmd_rate(NULL, "txonly", options, "TX-packets", seconds)


class Record:
    """The hand-overs to the driver, as recorded by the preloaded library."""

    def __init__(self, path: Path):
        header = np.fromfile(path, RECORD_HEADER, 1)[0]
        self.count = int(header["count"])
        capacity = int(header["capacity"])
        self._start_tsc, self._start_ns = int(header["start_tsc"]), int(header["start_ns"])
        # The tick as measured with the kernel's clock: DPDK rounds its figure to 10 MHz.
        self._ns_per_tick = (int(header["end_ns"]) - self._start_ns) / (
            int(header["end_tsc"]) - self._start_tsc
        )
        at = RECORD_HEADER.itemsize
        self.stamps = np.fromfile(path, "<u8", self.count, offset=at).astype(np.int64)
        self.groups = np.fromfile(path, "<u4", self.count, offset=at + 8 * capacity)

    def ns(self, stamps: np.ndarray) -> np.ndarray:
        """Converts stamps to ns since the start of the record."""
        return (stamps - self._start_tsc) * self._ns_per_tick

    def monotonic_ns(self) -> np.ndarray:
        return self._start_ns + self.ns(self.stamps)


@contextlib.contextmanager
def record_file() -> Iterator[Path]:
    # On tmpfs: the sending thread writes to mapped memory, never to a disk.
    with tempfile.NamedTemporaryFile(dir=SHARED_MEMORY, prefix="tiercast-record-") as file:
        yield Path(file.name)


def gap_errors(record: Record, rate: float) -> dict[str, float]:
    """|gap - ideal| in ns between successive packets of a layer, and the achieved rate."""
    gaps = np.diff(record.ns(record.stamps))
    errors = np.abs(gaps - 1e9 / rate)
    p50, p99, p999, worst = np.percentile(errors, (50, 99, 99.9, 100))
    return {
        "p50_ns": float(p50), "p99_ns": float(p99), "p999_ns": float(p999), "max_ns": float(worst),
        "over_1us": float(np.mean(errors > 1000)), "packets": record.count,
        "packets_per_s": float(1e9 * len(gaps) / gaps.sum()) if len(gaps) else 0.0,
    }  # fmt: skip


def medians(runs: list[dict[str, float]]) -> dict[str, Any]:
    """The median of each figure, and the runs themselves."""
    return {name: statistics.median(one[name] for one in runs) for name in runs[0]} | {"runs": runs}


def in_turns(repeat: int, **subjects: Callable[[], dict[str, float]]) -> dict[str, Any]:
    """Runs each subject `repeat` times, in turns, so that all see the same machine."""
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in subjects}
    for _ in range(repeat):
        for name, measure in subjects.items():
            runs[name].append(measure())
    return {name: medians(of_subject) for name, of_subject in runs.items()}


def sessions_of(layers: int, packets_per_s: float, size: int) -> dict[str, Any]:
    """A list of sessions with `layers` layers in all, at equal and constant rates (such as RLM's
    sender uses), eight per session."""
    per_session = min(layers, 8)
    bits_per_s = packets_per_s / layers * ip_bytes(size) * 8
    parameters = {"rlm.base_rate": f"{bits_per_s:.6f}", "rlm.step_rate": f"{bits_per_s:.6f}",
                  "rlm.growth": "1", "rlm.max_rate": "1e12"}  # fmt: skip
    spec = {"session": 1, "count": layers // per_session, "scheme": "rlm", "layers": per_session,
            "packetSize": ip_bytes(size), "parameters": parameters}  # fmt: skip
    return {"sessions": [spec]}


@dataclass(frozen=True)
class Load:
    layers: int
    packets_per_s: float  # of all layers together
    size: int  # bytes of a frame with FCS


def sender_command(
    device: str | None, load: Load, seconds: float, folder: Path, *options: str,
    cpus: str = str(SENDER_CPU),
) -> list[str]:  # fmt: skip
    sessions = folder / "sessions.json"
    sessions.write_text(json.dumps(sessions_of(load.layers, load.packets_per_s, load.size)))
    # Layers that start at the same instant stay due at the same instants.
    interval_s = load.layers / load.packets_per_s
    ramp_ms = max(1, min(1000, int(interval_s * 1000)))
    return [str(BUILD / "tiercast-send"), *eal(device, cpus, 512), "--", "--poll",
            "--address=10.9.0.2", f"--sessions={sessions}", f"--ramp={ramp_ms}ms",
            f"--duration={seconds}s", f"--trace={folder / 'trace.jsonl'}", *options]  # fmt: skip


def records(folder: Path, kind: str) -> list[dict[str, float]]:
    lines = (folder / "trace.jsonl").read_text().splitlines()
    return [one for one in map(json.loads, lines) if one["kind"] == kind]


WARM_UP = 1.0  # s: the first record; counting starts there


def send(
    device: str | None, load: Load, seconds: float, far_end: dict[str, object] | None = None,
    cpus: str = str(SENDER_CPU),
) -> dict[str, float]:  # fmt: skip
    """One run of tiercast-send, measured from one second after its start."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        # There is one record per second. The last record covers what was left after that.
        duration = WARM_UP + max(seconds, 1.0) + 0.3
        run(sender_command(device, load, duration, folder, cpus=cpus), far_end)
        workers, late = records(folder, "worker"), records(folder, "pacer.final")[-1]
        layers = records(folder, "layer")
        feedback = records(folder, "feedback")[-1]
    of_lcores: dict[float, list[dict[str, float]]] = {}
    for one in workers:
        of_lcores.setdefault(one["lcore"], []).append(one)
    windows = [(own[0], own[-2] if len(own) > 2 else own[-1]) for own in of_lcores.values()]
    first, last = windows[0]
    elapsed = (last["time_ns"] - first["time_ns"]) / 1e9

    def counted(name: str) -> float:
        return sum(end[name] - begin[name] for begin, end in windows)

    total = sum(own[-1]["sent_packets"] for own in of_lcores.values())
    if any(r["generated_packets"] != r["sent_packets"] + r["dropped_packets"] for r in layers):
        raise SystemExit(f"bench-sender: {load}: counts of a layer are not exact")
    if sum(r["sent_packets"] for r in layers) != total:
        raise SystemExit(f"bench-sender: {load}: layers and workers do not agree")
    return {
        "packets_per_s": counted("sent_packets") / elapsed,
        "dropped": counted("dropped_packets"), "given_up": counted("given_up_packets"),
        "late_p50_ns": late["late_p50_us"] * 1000, "late_p99_ns": late["late_p99_us"] * 1000,
        "late_p999_ns": late["late_p999_us"] * 1000, "late_max_ns": late["late_max_us"] * 1000,
        "feedback_accepted": feedback["accepted"], "feedback_refused": feedback["refused"],
        "feedback_malformed": feedback["malformed"], "feedback_foreign": feedback["foreign"],
        "feedback_received": feedback["received"], "feedback_ring_full": feedback["ring_full"],
        "total_packets": total,
    }  # fmt: skip


@contextlib.contextmanager
def running(command: list[str], far_end: dict[str, object] | None = None) -> Iterator[None]:
    """Runs a sender with --control in the background and ends it with a signal."""
    environment = dict(os.environ)
    if far_end is not None:
        environment["TIERCAST_FAR_END"] = ",".join(f"{k}={v}" for k, v in far_end.items())
        command = ["env", f"LD_PRELOAD={FAR_END}", *command]
    with subprocess.Popen([*URGENT, *command], env=environment, stderr=subprocess.PIPE,
                          stdout=subprocess.DEVNULL, **CHILD) as process:  # fmt: skip
        try:
            yield
        finally:
            process.terminate()
            _, said = process.communicate(timeout=30)
    if process.returncode != 0:
        raise SystemExit(f"bench-sender: {' '.join(command)}: status {process.returncode}\n{said}")


def control_of(folder: Path) -> Any:
    """Connects to the sender's tiercast.v1 service once it answers."""
    from tiercast_controller.agents.sender import SenderControl
    from tiercast_controller.base.errors import AgentError

    control = SenderControl(f"unix:{folder}/control")
    deadline = time.monotonic() + 20
    while True:
        try:
            control.list_sessions()
            return control
        except AgentError:
            if time.monotonic() > deadline:
                raise SystemExit("bench-sender: the sender does not answer") from None
            time.sleep(0.05)
