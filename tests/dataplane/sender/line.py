"""tiercast-send with many sessions, for the tests: the program with its control socket, and the
library that stands in for the far end of its device (dataplane/sender/bench/far_end.cpp)."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from tiercast.v1 import session_pb2
from tiercast_controller.agents.sender import SenderControl
from tiercast_controller.base.errors import AgentError

from ...agent.network import EAL, SENDER, SENDER_IP
from ...checkout import BUILD
from ...patience import PATIENCE_S

FAR_END = BUILD / "dataplane/sender/bench/libtiercast-far-end.so"
HEADER = np.dtype([("tsc_hz", "<u8"), ("capacity", "<u8"), ("count", "<u8"), ("start_tsc", "<u8"),
                   ("start_ns", "<i8"), ("end_tsc", "<u8"), ("end_ns", "<i8")])  # fmt: skip


def constant(session: int, rate: str, count: int = 1, layers: int = 1) -> session_pb2.SessionSpec:
    """Sessions whose layers have this rate, whatever the receivers report: RLM's sender allows
    that."""
    parameters = {"rlm.base_rate": rate, "rlm.step_rate": rate, "rlm.growth": "1"}
    return session_pb2.SessionSpec(
        session=session, count=count, scheme="rlm", layers=layers, packet_size=500,
        parameters=parameters | {"rlm.max_rate": "1000Gbit/s"},
    )  # fmt: skip


class Line:
    """tiercast-send with `sessions`. It is stopped when the context of `sender()` is left."""

    def __init__(self, folder: Path, sessions: list[session_pb2.SessionSpec]):
        self.folder = folder
        self.control_address = f"unix:{folder}/control"
        self.trace = folder / "line.jsonl"
        listed = [json.loads(_json(session)) for session in sessions]
        (folder / "sessions.json").write_text(json.dumps({"sessions": listed}))
        self.status: int | None = None
        self.stderr = ""
        self.control: SenderControl

    @contextmanager
    def sender(
        self,
        device: str | None,
        *options: str,
        far_end: dict[str, object] | None = None,
        urgent: bool = False,
        lcores: str = "",
    ) -> Iterator[SenderControl]:
        """Runs until the context is left; `records` then has its exact counts. `urgent`: other work
        on the machine must not delay it; only for a sender that sleeps most of the time. `lcores`:
        as for the EAL's -l."""
        command = [str(SENDER), *([f"--vdev={device}"] if device else []), *EAL]
        command += ["-l", lcores] if lcores else []
        command[command.index("-m") + 1] = "128"
        command += ["--", f"--address={SENDER_IP}", f"--sessions={self.folder}/sessions.json",
                    "--max-sessions=300", f"--control={self.control_address}",
                    f"--trace={self.trace}", *options]  # fmt: skip
        if far_end is not None:
            settings = ",".join(f"{name}={value}" for name, value in far_end.items())
            command = ["env", f"LD_PRELOAD={FAR_END}", f"TIERCAST_FAR_END={settings}", *command]
        if urgent:
            command = ["chrt", "--rr", "10", *command]
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        try:
            with SenderControl(self.control_address) as self.control:
                self._wait(process, self.control)
                yield self.control
        finally:
            process.terminate()
            try:
                _, self.stderr = process.communicate(timeout=PATIENCE_S)
            finally:
                process.kill()
            self.status = process.returncode
        assert self.status == 0, self.stderr

    @staticmethod
    def _wait(process: subprocess.Popen, control: SenderControl) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                control.list_sessions()
                return
            except AgentError:
                assert process.poll() is None, "the sender ended"
                assert time.monotonic() < deadline, "the sender does not answer"
                time.sleep(0.05)

    def records(self, kind: str) -> list[dict]:
        """The records so far. The file's last line may still be incomplete."""
        text = self.trace.read_text() if self.trace.exists() else ""
        lines = map(json.loads, text[: text.rfind("\n") + 1].splitlines())
        return [record for record in lines if record["kind"] == kind]

    def left_out(self) -> int:
        """Packets that the schedules left out because the program got no CPU."""
        return self.records("worker")[-1]["given_up_packets"]

    def check_counts(self) -> int:
        """Checks each layer's counts, and that the worker's are their sums. Returns what was
        sent."""
        layers = self.records("layer")
        worker = self.records("worker")[-1]
        for name in ("generated_packets", "sent_packets", "dropped_packets"):
            assert sum(layer[name] for layer in layers) == worker[name]
        for layer in layers:
            assert layer["generated_packets"] == layer["sent_packets"] + layer["dropped_packets"]
        return worker["sent_packets"]


def _json(session: session_pb2.SessionSpec) -> str:
    from google.protobuf import json_format

    return json_format.MessageToJson(session)


def departures(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """(CLOCK_MONOTONIC in ns, group address) of each hand-over that the far end recorded, in
    order."""
    header = np.fromfile(path, HEADER, 1)[0]
    count, capacity = int(header["count"]), int(header["capacity"])
    stamps = np.fromfile(path, "<u8", count, offset=HEADER.itemsize).astype(np.int64)
    groups = np.fromfile(path, "<u4", count, offset=HEADER.itemsize + 8 * capacity)
    start_tsc, start_ns = int(header["start_tsc"]), int(header["start_ns"])
    # The tick as measured with the kernel's clock: DPDK rounds its figure to 10 MHz.
    ns_per_tick = (int(header["end_ns"]) - start_ns) / (int(header["end_tsc"]) - start_tsc)
    return (stamps - start_tsc) * ns_per_tick + start_ns, groups


def check_rate(times: np.ndarray, per_second: float, left_out: int) -> None:
    """The departures (ns) of one layer follow its schedule, however late each of them was: never
    more than the rate allows, and no fewer than it requires except for those left out. After a
    stall a layer sends one extra packet back to back (LinePacer), so the last three may belong to a
    stall that is not yet accounted for."""
    assert len(times) <= per_second * (times[-1] - times[0]) / 1e9 + 3
    assert len(times) + left_out >= per_second * (times[-4] - times[0]) / 1e9 - 1
