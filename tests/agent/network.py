"""What the tests of tiercast-send and tiercast-host share: two namespaces joined by a veth, both
programs in them, and their records. Needs root."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ..checkout import BUILD
from ..namespaces import Namespaces, command_in, inside, ip
from ..patience import PATIENCE_S

SENDER = BUILD / "dataplane/sender/tiercast-send"
HOST = BUILD / "hosts/tiercast-host"

# DPDK without huge pages, PCI devices, or files that another process could find.
EAL = ["--no-huge", "--no-shconf", "-m", "64", "--no-pci", "--no-telemetry"]
SENDER_IP = "10.9.0.2"
SENDER_MAC = "02:00:00:00:00:02"
HOST_IP = "10.9.0.15"
HOST_MAC = "02:00:00:00:00:0f"
SESSION = 1


def fixed_rate(rate: str, layers: int = 5) -> list[str]:
    """Options that keep each of `layers` layers at this rate."""
    names = ("sim.min_rate", "sim.initial_rate", "sim.max_rate")
    return [f"--layers={layers}", *(f"--set={name}={rate}" for name in names)]


@dataclass
class Ended:
    status: int
    stdout: str
    stderr: str
    cpu_s: float  # user and system time
    records: list[dict[str, Any]] = field(default_factory=list)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [record for record in self.records if record["kind"] == kind]

    def layers(self) -> dict[int, dict[str, Any]]:
        """Each layer's last record."""
        return {int(record["rank"]): record for record in self.of("layer")}


class Program:
    """One of our programs, with its records in a file."""

    def __init__(self, arguments: list[str], trace: Path | None):
        self.trace = trace
        self.process = subprocess.Popen(
            arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def records(self) -> list[dict[str, Any]]:
        """The records in the file so far. Its last line may still be incomplete."""
        if self.trace is None or not self.trace.exists():
            return []
        text = self.trace.read_text()
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def running(self) -> bool:
        """Whether it runs. Leaves the process to wait(), which takes its CPU time."""
        pid = self.process.pid
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait(self, timeout: float = PATIENCE_S) -> Ended:
        before = os.times()
        try:
            stdout, stderr = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise
        after = os.times()
        cpu = after.children_user + after.children_system
        cpu -= before.children_user + before.children_system
        return Ended(self.process.returncode, stdout, stderr, cpu, self.records())


def run(arguments: list[str], trace: Path | None = None) -> Ended:
    return Program(arguments, trace).wait()


def sender_arguments(device: str, trace: Path | str, *options: str) -> list[str]:
    """With a seed, so that it is known which requests it never sent: number 0, for one."""
    own = [f"--session={SESSION}", f"--address={SENDER_IP}", f"--trace={trace}", "--seed=1"]
    return [str(SENDER), device, *EAL, "--", *own, *options]


class Link:
    """Namespace S has the sender's interface, without an address in the kernel; namespace R has the
    hosts' interface. A veth joins them."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.namespaces = Namespaces()
        self.programs: list[Program] = []

    def make(self) -> None:
        self.namespaces = Namespaces("S", "R")
        self.namespaces.join("S", "s0", "R", "r0")
        s, r = self.namespaces["S"], self.namespaces["R"]
        ip("-n", s, "link", "set", "s0", "address", SENDER_MAC)
        ip("-n", r, "link", "set", "r0", "address", HOST_MAC)
        ip("-n", r, "addr", "add", f"{HOST_IP}/24", "dev", "r0")

    def remove(self) -> None:
        for program in self.programs:
            if program.process.poll() is None:
                program.process.kill()
                program.process.communicate()
        self.namespaces.close()

    def _start(self, end: str, arguments: list[str], trace: Path) -> Program:
        command = command_in(self.namespaces[end], *arguments)
        self.programs.append(Program(command, trace))
        return self.programs[-1]

    def sender(self, *options: str, device: str = "net_af_packet0,iface=s0") -> Program:
        trace = self.directory / "sender.jsonl"
        return self._start("S", sender_arguments(f"--vdev={device}", trace, *options), trace)

    def host(self, number: int, *options: str, source: str = SENDER_IP) -> Program:
        trace = self.directory / f"h{number}.jsonl"
        own = [f"--session={SESSION}", f"--id={number}", f"--name=h{number}", "--interface=r0",
               f"--source={source}", f"--trace={trace}", *options]  # fmt: skip
        return self._start("R", [str(HOST), "recv", *own], trace)

    def inside(self, end: str) -> AbstractContextManager[None]:
        """Sockets opened here belong to the namespace, and stay there."""
        return inside(self.namespaces[end])

    def set_up(self, end: str, up: bool) -> None:
        interface = f"{end.lower()}0"
        ip("-n", self.namespaces[end], "link", "set", interface, "up" if up else "down")

    def set_mtu(self, mtu: int) -> None:
        for end in "SR":
            ip("-n", self.namespaces[end], "link", "set", f"{end.lower()}0", "mtu", str(mtu))

    def mtu(self, end: str) -> int:
        path = f"/sys/class/net/{end.lower()}0/mtu"
        reading = command_in(self.namespaces[end], "cat", path)
        return int(subprocess.run(reading, capture_output=True, text=True, check=True).stdout)

    def packet_socket(self, end: str) -> socket.socket:
        """A socket for whole frames on the end's interface."""
        with self.inside(end):
            raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            raw.bind((f"{end.lower()}0", 3))
            raw.settimeout(0.2)
        return raw

    def group_socket(self, group: str) -> socket.socket:
        """A socket in R that is a member of `group`. The kernel stamps what it receives."""
        with self.inside("R"):
            member = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            member.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            member.setsockopt(socket.SOL_SOCKET, 33, 4 << 20)  # SO_RCVBUFFORCE
            member.bind((group, 5500))
            request = struct.pack("4s4s", socket.inet_aton(group), socket.inet_aton(HOST_IP))
            member.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
            member.setblocking(False)
        return member

    def joined_groups(self) -> set[str]:
        """The groups that R's kernel is a member of on r0."""
        listing = subprocess.run(
            ["ip", "-n", self.namespaces["R"], "-j", "maddr", "show", "dev", "r0"],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        entries = json.loads(listing)[0]["maddr"]
        return {e["address"] for e in entries if e.get("family") == "inet"} - {"224.0.0.1"}


@pytest.fixture
def link(tmp_path: Path) -> Iterator[Link]:
    made = Link(tmp_path)
    try:
        made.make()
        yield made
    finally:
        made.remove()


def drain(member: socket.socket) -> int:
    """The number of datagrams that were waiting in the socket."""
    count = 0
    while select.select([member], [], [], 0)[0]:
        member.recv(2048)
        count += 1
    return count
