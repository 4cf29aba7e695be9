"""A controller beside in-process switches, as its tests see it."""

import asyncio
from dataclasses import dataclass, field
from ipaddress import IPv4Interface
from pathlib import Path

from tiercast_controller.controller import Controller
from tiercast_controller.multicast.trees import SessionState
from tiercast_controller.network.topology import Host, Session, Switch, Topology
from tiercast_controller.p4runtime.entities import TableEntry

from ..patience import PATIENCE_S

SESSIONS = [Session(1, 5, "h0"), Session(2, 3, "h8")]


def ring(topology: Topology, directory: Path, size: int, delay_ns: int = 0) -> Topology:
    """s0 - s1 - ... - s0 with a host each: port 1 to the host, 2 to the next switch, 3 to the one
    before. Returns the topology, which was empty."""
    for i in range(size):
        mac = 0x020000010000 + i
        topology.add_switch(Switch(f"s{i}", i + 1, f"unix:{directory}/s{i}.sock", mac))
        topology.add_host(Host(f"h{i}", IPv4Interface(f"10.0.{i}.2/24"), 0x020000000000 + i))
        topology.connect(f"s{i}", 1, f"h{i}")
    for i in range(size):
        topology.connect(f"s{i}", 2, f"s{(i + 1) % size}", 3, delay_ns=delay_ns)
    return topology


@dataclass
class Run:
    topology: object
    servers: dict
    program: object
    controller: Controller
    events: list = field(default_factory=list)

    async def report(self, host: str, frame: bytes) -> None:
        switch, port = self.topology.attachment(host)
        await self.servers[switch].punt(self.program, port, frame)

    async def until(self, condition) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await asyncio.sleep(0.005)

    async def heard(self) -> None:
        """Waits until all reports so far were handled: a malformed one from each switch comes after
        them, and is reported at once."""
        rejected = len(self.of("igmp.rejected"))
        for server in self.servers.values():
            await server.punt(self.program, 2, b"\0" * 60)
        await self.until(lambda: len(self.of("igmp.rejected")) == rejected + len(self.servers))

    def of(self, kind: str) -> list[dict]:
        return [event.fields for event in self.events if event.kind == kind]

    async def on_switch(self, name: str) -> SessionState:
        """What the switch does, as read back from it."""
        return (await self.controller.read_multicast(name)).forwarding()


def places_of(controller: Controller) -> list[tuple[int, str, int]]:
    return sorted((m.rank, m.switch, m.port) for m in controller.members())


def without_groups(run: Run) -> dict[str, set[bytes]]:
    """The keys of what the switches hold."""
    return {
        name: {key for key in server.entities if not key.startswith(b"group")}
        for name, server in run.servers.items()
    }


async def entries_of(run: Run, table: str) -> list[TableEntry]:
    return await run.controller._switches["s0"].client.read_entries([table])


async def run_until(condition) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)
