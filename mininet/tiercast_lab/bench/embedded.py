"""A switch of the lab's as the device under test: in a network namespace of its own, veths to
another one for the tester, and the controller that installs routes and trees.

The namespaces have no names: a process in each keeps it, and dies with this one. So nothing stays
behind, however the command ends.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tiercast_controller.base.installation import ROOT

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import InputError, RunFailed
from tiercast_lab.base.interrupt import die_with
from tiercast_lab.bench.device_file import DeviceFile
from tiercast_lab.bench.tester import CabledPort

PATIENCE_S = 60.0
LAYERS = 8  # of a session: its groups follow each other
CPU_PORT = 510


ENDS = ("tester", "device")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RunFailed(f"{' '.join(command)}: {done.stderr.strip()}")


class EmbeddedDevice:
    """Made by `make`, removed by `close`, whatever has happened in between."""

    def __init__(self, device: DeviceFile, folder: Path) -> None:
        """`folder`: for sockets and logs."""
        if os.geteuid() != 0:
            raise InputError("`embedded` needs root: it makes network namespaces")
        if device.embedded == "bmv2":
            if shutil.which("simple_switch_grpc") is None:
                raise InputError("embedded: bmv2: simple_switch_grpc is not in PATH")
        else:
            binaries.require(self._switch_binary(device))
        self._device = device
        self._folder = folder
        self._keepers: dict[str, int] = {}  # process ids, by end
        self._processes: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._count = 1 + device.receivers

    @staticmethod
    def _switch_binary(device: DeviceFile) -> Path:
        return (
            binaries.SWITCH_DPDK if device.embedded == "tiercast-switch-dpdk" else binaries.SWITCH
        )

    @property
    def prefix(self) -> list[str]:
        """Runs a program where the tester's interfaces are."""
        return self._inside("tester")

    def _inside(self, end: str) -> list[str]:
        return ["nsenter", "-t", str(self._keepers[end]), "-n"]

    def address(self, port: int) -> str:
        return f"10.0.{port}.2"

    @staticmethod
    def _mac(port: int) -> str:
        return f"02:00:00:00:00:{port:02x}"

    def ports(self, largest: int) -> list[CabledPort]:
        """The tester's, for frames of at most `largest` bytes with FCS."""
        ring = "framecnt=4096,blocksz=65536,framesz=2048"
        if largest > 1518:
            ring = "framecnt=1024,blocksz=36864,framesz=9216"
        return [
            CabledPort(f"net_af_packet,iface=t{i},{ring}", self.address(i))
            for i in range(self._count)
        ]

    def make(self) -> None:
        for end in ENDS:
            self._start(end, ["unshare", "-n", "sh", "-c", "echo there; exec sleep infinity"])
            self._keepers[end] = self._processes[-1][1].pid
            log = self._folder / f"{end}.log"
            self._wait(lambda log=log: "there" in log.read_text(), "a network namespace")  # type: ignore[misc]
            quiet = [f"net.ipv6.conf.{of}.disable_ipv6=1" for of in ("all", "default")]
            subprocess.run([*self._inside(end), "sysctl", "-qw", *quiet], check=False)
            _run(*self._inside(end), "ip", "link", "set", "lo", "up")
        for i in range(self._count):
            _run(*self._inside("tester"), "ip", "link", "add", f"t{i}", "type", "veth",
                 "peer", "name", f"d{i}", "netns", str(self._keepers["device"]))  # fmt: skip
            _run(*self._inside("tester"), "ip", "link", "set", f"t{i}", "address", self._mac(i))
            for end, letter in (("tester", "t"), ("device", "d")):
                _run(*self._inside(end), "ip", "link", "set", f"{letter}{i}", "mtu", "9000", "up")
        self._start_switch()

    def _start_switch(self) -> None:
        self._start("switch", self._switch_command())
        self._wait(lambda: self._socket.exists() or self._device.embedded == "bmv2",
                   "the switch serves P4Runtime")  # fmt: skip
        self._start_controller()

    def reset(self) -> None:
        """Kills the switch, and starts it and the controller, which loads the program and installs
        routes, anew."""
        programs = [
            (name, one) for name, one in self._processes if name in ("controller", "switch")
        ]
        for _, process in programs:
            process.kill()
            process.wait()
        self._processes = [one for one in self._processes if one not in programs]
        self._socket.unlink(missing_ok=True)
        self._start_switch()

    @property
    def _socket(self) -> Path:
        return self._folder / "switch.sock"

    def _switch_command(self) -> list[str]:
        inside = self._inside("device")
        ports = range(self._count)
        if self._device.embedded == "bmv2":
            interfaces = [word for i in ports for word in ("-i", f"{i + 1}@d{i}")]
            return [*inside, "simple_switch_grpc", "--device-id", "1", *interfaces, "--no-p4",
                    "--log-level", "warn", "--", "--cpu-port", str(CPU_PORT),
                    "--grpc-server-addr", f"unix:{self._socket}"]  # fmt: skip
        limits = "".join(
            f",{key}={value}"
            for key, value in (
                ("rate", f"{self._device.port_rate}bit/s" if self._device.port_rate else None),
                ("queue", self._device.queue),
            )
            if value
        )
        own = ["--device-id", "1", "--grpc", f"unix:{self._socket}", "--log-level", "warning"]
        if self._device.embedded == "tiercast-switch-dpdk":
            devices = [f"--vdev=net_af_packet{i},iface=d{i},framecnt=4096,blocksz=65536"
                       for i in ports]  # fmt: skip
            eal = ["--no-huge", "-m", "256", "--no-pci", "--no-shconf", "--no-telemetry",
                   "--log-level=warning", *devices]  # fmt: skip
            named = [f"--port={i + 1}=dpdk:net_af_packet{i}{limits}" for i in ports]
            return [*inside, str(binaries.SWITCH_DPDK), *eal, "--", *own, *named]
        named = [f"--port={i + 1}=d{i}{limits}" for i in ports]
        return [*inside, str(binaries.SWITCH), *own, *named]

    def _start_controller(self) -> None:
        sessions = -(-self._device.groups.count // LAYERS)
        lines = [
            f"program: {{json: {binaries.P4_JSON}, p4info: {binaries.P4_INFO}}}",
            f'switches: [{{name: s0, device_id: 1, grpc: "unix:{self._socket}", '
            'mac: "02:00:00:01:00:00"}]',
            "hosts:",
            *(f'  - {{name: h{i}, address: {self.address(i)}/24, mac: "{self._mac(i)}"}}'
              for i in range(self._count)),
            "links:",
            *(f"  - {{switch: s0, port: {i + 1}, to: h{i}}}" for i in range(self._count)),
            "sessions:",
            *(f"  - {{number: {n}, layers: {LAYERS}, source: h0}}" for n in range(sessions)),
        ]  # fmt: skip
        file = self._folder / "controller.yaml"
        file.write_text("\n".join(lines) + "\n")
        environment = dict(os.environ)
        python_path = [str(ROOT / part) for part in ("controller", "build/python")]
        python_path += [part for part in (environment.get("PYTHONPATH"),) if part]
        environment["PYTHONPATH"] = os.pathsep.join(python_path)
        command = [sys.executable, "-m", "tiercast_controller", str(file)]
        self._start("controller", command, environment)
        log = self._folder / "controller.log"
        self._wait(lambda: '"ready"' in log.read_text(), "the controller has set up the switch")

    def _start(
        self, name: str, command: Sequence[str], environment: dict[str, str] | None = None
    ) -> None:
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
                start_new_session=True, preexec_fn=partial(die_with, os.getpid()),
            )  # fmt: skip
        self._processes.append((name, process))

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            self.check()
            if time.monotonic() > deadline:
                raise RunFailed(f"not within {PATIENCE_S:g} s: {what}")
            time.sleep(0.02)

    def check(self) -> None:
        """Raises RunFailed if one of its programs has ended."""
        for name, process in self._processes:
            if process.poll() is not None:
                said = (self._folder / f"{name}.log").read_text(errors="replace").strip()
                raise RunFailed(f"the {name} ended with status {process.returncode}: "
                                f"{said[-1500:]}")  # fmt: skip

    def close(self) -> None:
        for _, process in reversed(self._processes):
            process.terminate()
        for _, process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
