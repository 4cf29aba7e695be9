"""A chain of four real tiercast-switches in their own namespaces, hosts that join with their
kernels' IGMP, and the controller that serves them. Needs root."""

import asyncio
import contextlib
import socket
import struct
import subprocess
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Interface
from pathlib import Path
from typing import Any

from tiercast_controller.controller import Controller, Event
from tiercast_controller.multicast.querier import Querier
from tiercast_controller.network.marking import PriorityMarking
from tiercast_controller.network.topology import Host, Session, Switch, Topology, group_address
from tiercast_controller.p4runtime.program import Program

from ..bmv2 import SWITCH as BMV2
from ..bmv2 import bmv2_command
from ..checkout import BUILD
from ..namespaces import Namespaces, command_in, inside, ip
from ..patience import PATIENCE_S

BINARY = BUILD / "dataplane/switch/tiercast-switch"
SWITCHES = 4
HOSTS = {"h0": ("s0", 2), "h1": ("s3", 2), "h2": ("s3", 3)}
PORT = 5500


class Network:
    """h0 - s0 - s1 - s2 - s3 - h1, h2. The switches share one namespace; each host has its own."""

    def __init__(self, directory: Path, program: str = BINARY.name):
        """`program` is tiercast-switch or BMV2."""
        self.directory = directory
        self.program = program
        self.namespaces = Namespaces()
        self.topology = Topology()
        self.interfaces: dict[str, dict[int, str]] = {f"s{i}": {} for i in range(SWITCHES)}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}  # by switch
        for i in range(SWITCHES):
            address = f"unix:{directory}/s{i}.sock"
            self.topology.add_switch(Switch(f"s{i}", i + 1, address, 0x020000010000 + i))
            if i:
                self.topology.connect(f"s{i - 1}", 4, f"s{i}", 1)
        for i, (name, (switch, port)) in enumerate(HOSTS.items()):
            self.topology.add_host(Host(name, IPv4Interface(f"10.0.{i}.2/24"), 0x020000000000 + i))
            self.topology.connect(
                switch,
                port,
                name,
                marking=PriorityMarking(threshold=5).at(6_000_000, 1000, idle_us=50),
            )

    def namespace(self, name: str) -> str:
        return self.namespaces[name]

    def build(self) -> None:
        self.namespaces = Namespaces("switches", *HOSTS)
        for i in range(SWITCHES - 1):
            a, b = f"s{i}-4", f"s{i + 1}-1"
            self.namespaces.join("switches", a, "switches", b)
            self.interfaces[f"s{i}"][4], self.interfaces[f"s{i + 1}"][1] = a, b
        for host in self.topology.hosts:
            switch, port = self.topology.attachment(host.name)
            name, there = f"{switch}-{port}", self.namespace(host.name)
            self.namespaces.join("switches", name, host.name, "eth0")
            self.interfaces[switch][port] = name
            mac = host.mac.to_bytes(6, "big").hex(":")
            ip("-n", there, "link", "set", "eth0", "address", mac)
            ip("-n", there, "address", "add", str(host.interface), "dev", "eth0")
            gateway = str(host.interface.network[1])
            ip("-n", there, "neigh", "add", gateway, "lladdr", "02:00:00:01:00:ff", "dev", "eth0")
            ip("-n", there, "route", "add", "default", "via", gateway)
            if self.program == BMV2:  # it forwards checksums that the kernel has yet to compute
                off = command_in(there, "ethtool", "-K", "eth0", "tx", "off")
                subprocess.run(off, check=True, stdout=subprocess.DEVNULL)

    def start_switches(self) -> None:
        assert BINARY.exists(), f"{BINARY} is missing: `make build` makes it"
        for switch in self.topology.switches:
            self.start_switch(switch.name)

    def start_switch(self, name: str) -> None:
        switch = self.topology.switch(name)
        command = self._bmv2(switch) if self.program == BMV2 else self._tiercast_switch(switch)
        inside = command_in(self.namespace("switches"), *command)
        self.processes[name] = subprocess.Popen(inside)

    def _tiercast_switch(self, switch: Switch) -> list[str]:
        ports = [f"--port={p}={one}" for p, one in self.interfaces[switch.name].items()]
        return [
            str(BINARY), "--device-id", str(switch.device_id), "--name", switch.name, *ports,
            "--grpc", switch.address, "--log-level", "warning",
        ]  # fmt: skip

    def _bmv2(self, switch: Switch) -> list[str]:
        ports = [f"--interface={p}@{one}" for p, one in self.interfaces[switch.name].items()]
        return bmv2_command(switch.device_id, switch.address, *ports)

    def kill_switch(self, name: str) -> None:
        self.processes[name].kill()
        self.processes[name].wait()

    def tear_down(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait(timeout=PATIENCE_S)
        self.namespaces.close()

    def socket_in(self, host: str) -> socket.socket:
        """A UDP socket in a host's namespace."""
        with inside(self.namespace(host)):
            made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.setblocking(False)
        return made


@contextlib.contextmanager
def running_network(directory: Path, program: str = BINARY.name) -> Iterator[Network]:
    """With its switches. `directory` is for their sockets."""
    network = Network(directory, program)
    try:
        network.build()
        network.start_switches()
        yield network
    finally:
        network.tear_down()


class Receiver:
    def __init__(self, network: Network, host: str):
        self.socket = network.socket_in(host)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("0.0.0.0", PORT))
        self._address = network.topology.host(host).interface.ip.packed

    def join(self, rank: int) -> None:
        self._membership(socket.IP_ADD_MEMBERSHIP, rank)

    def leave(self, rank: int) -> None:
        self._membership(socket.IP_DROP_MEMBERSHIP, rank)

    def _membership(self, option: int, rank: int) -> None:
        group = group_address(1, rank).packed
        self.socket.setsockopt(socket.IPPROTO_IP, option, struct.pack("4s4s", group, self._address))

    def drain(self) -> list[bytes]:
        received = []
        with contextlib.suppress(BlockingIOError):
            while True:
                received.append(self.socket.recv(2000))
        return received

    async def receive(self, count: int) -> list[bytes]:
        """Receives `count` datagrams."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(PATIENCE_S):
            return [await loop.sock_recv(self.socket, 2000) for _ in range(count)]


class Run:
    def __init__(
        self,
        network: Network,
        program: Program,
        querier: Querier | None = None,
        sessions: Sequence[Session] = (Session(1, 5, "h0"),),
    ):
        self.events: list[Event] = []
        self.controller = Controller(
            network.topology,
            sessions,
            program,
            on_event=self.events.append,
            querier=querier,
        )

    def igmp(self) -> list[dict[str, Any]]:
        return [event.fields for event in self.events if event.kind == "igmp"]

    async def changes(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while len(self.igmp()) < count:
                await asyncio.sleep(0.001)
        assert not self.controller.failed.done()
