"""A controller beside in-process switches, as its tests see it."""

import asyncio
from dataclasses import dataclass, field

from tiercast_controller.controller import Controller
from tiercast_controller.multicast.trees import SessionState
from tiercast_controller.network.topology import Session
from tiercast_controller.p4runtime.entities import TableEntry

from ..patience import PATIENCE_S

SESSIONS = [Session(1, 5, "h0"), Session(2, 3, "h8")]


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
