"""Controllers in processes of their own, beside real switches under traffic that is counted packet
by packet."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import struct
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tiercast_controller.network.topology import Host, Topology, group_address
from tiercast_controller.p4runtime.client import P4RuntimeClient
from tiercast_controller.p4runtime.entities import MeterCell, TableEntry
from tiercast_controller.p4runtime.program import Program

from ..checkout import ROOT
from ..patience import PATIENCE_S
from .chain import PORT, Network, Receiver

COMPILED = ROOT / "p4src/compiled"
ENVIRONMENT = os.environ | {
    "PYTHONPATH": f"{ROOT}/build/python:{ROOT}/controller",
    "PYTHONFAULTHANDLER": "1",
}
SESSION, LAYERS = 1, 5
SO_RCVBUFFORCE = 33  # <asm-generic/socket.h>; Python's socket does not have it


def config_of(topology: Topology, **keys: object) -> dict[str, Any]:
    """The YAML of a controller for a network with one session from h0."""
    links, seen = [], set()
    for switch in topology.switches:
        for port in topology.ports(switch.name):
            to = topology.neighbour(switch.name, port)
            if frozenset((switch.name, to)) in seen:
                continue
            seen.add(frozenset((switch.name, to)))
            link = {"switch": switch.name, "port": port, "to": to}
            if not isinstance(topology.node(to), Host):
                link["to_port"] = topology.port_to(to, switch.name)
            links.append(link)
    return {
        "program": {
            "json": f"{COMPILED}/tiercast.json",
            "p4info": f"{COMPILED}/tiercast.p4info.txtpb",
        },
        "switches": [
            {"name": s.name, "device_id": s.device_id, "grpc": s.address, "mac": s.mac}
            for s in topology.switches
        ],
        "hosts": [
            {"name": h.name, "address": str(h.interface), "mac": h.mac} for h in topology.hosts
        ],
        "links": links,
        "sessions": [{"number": SESSION, "layers": LAYERS, "source": "h0"}],
        **keys,
    }


class ControllerProcess:
    """`python -m tiercast_controller`, and what it has said."""

    def __init__(self, process: asyncio.subprocess.Process):
        self.process = process
        self.events: list[dict[str, Any]] = []
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.events.append(json.loads(line))

    def of(self, kind: str, **fields: object) -> list[dict[str, Any]]:
        return [
            event
            for event in self.events
            if event["kind"] == kind and all(event.get(k) == v for k, v in fields.items())
        ]

    async def says(self, kind: str, count: int = 1, **fields: object) -> dict[str, Any]:
        """Waits for the event of that number."""
        async with asyncio.timeout(PATIENCE_S):
            while len(found := self.of(kind, **fields)) < count:
                assert self.process.returncode is None, f"it ended with {self.process.returncode}"
                await asyncio.sleep(0.01)
        return found[count - 1]

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()

    async def end(self) -> int:
        """As its user ends it. Returns the exit status."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await self.process.wait()
        except TimeoutError:
            self.process.send_signal(signal.SIGABRT)  # it says where it is
            await self.process.wait()
            raise


@asynccontextmanager
async def controllers(config: dict[str, Any], folder: Path) -> AsyncIterator[Any]:
    """start(*options) starts a controller; those that still run at the end are killed."""
    path = folder / "network.yaml"
    path.write_text(json.dumps(config))
    started: list[ControllerProcess] = []

    async def start(*options: str) -> ControllerProcess:
        one = ControllerProcess(
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tiercast_controller", str(path), *options),
                env=ENVIRONMENT,
                stdout=asyncio.subprocess.PIPE,
            )
        )
        started.append(one)
        return one

    try:
        yield start
    finally:
        for one in started:
            if one.process.returncode is None:
                await one.kill()


class Traffic:
    """Numbered datagrams of h0 to every layer, in turn, and who received which."""

    INTERVAL_S = 0.004

    def __init__(self, network: Network, receivers: Iterable[str]):
        self.sent = 0  # of each layer
        self.receivers = {name: Receiver(network, name) for name in receivers}
        self.received: dict[tuple[str, int], Counter[int]] = {
            (name, rank): Counter() for name in self.receivers for rank in range(LAYERS)
        }
        self._socket = network.socket_in("h0")
        self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 16)
        for name, one in self.receivers.items():
            one.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
            asyncio.get_running_loop().add_reader(one.socket, self._take, name)
        self._sending = asyncio.create_task(self._send())

    def join(self, name: str, rank: int) -> None:
        self.receivers[name].join(rank)

    def leave(self, name: str, rank: int) -> None:
        self.receivers[name].leave(rank)

    async def _send(self) -> None:
        while True:
            for rank in range(LAYERS):
                data = struct.pack("!II", rank, self.sent)
                self._socket.sendto(data, (str(group_address(SESSION, rank)), PORT))
            self.sent += 1
            await asyncio.sleep(self.INTERVAL_S)

    def _take(self, name: str) -> None:
        for data in self.receivers[name].drain():
            rank, number = struct.unpack("!II", data)
            self.received[name, rank][number] += 1

    async def more(self, name: str, rank: int, count: int = 10) -> int:
        """Waits until a receiver has so many datagrams more. Returns the number of the last."""
        before = len(self.received[name, rank])
        async with asyncio.timeout(PATIENCE_S):
            while len(self.received[name, rank]) < before + count:
                await asyncio.sleep(0.005)
        return max(self.received[name, rank])

    async def none(self, name: str, rank: int, count: int = 20) -> None:
        """Waits until so many in a row, and those before them, have not reached a receiver."""
        async with asyncio.timeout(PATIENCE_S):
            while self.sent - max(self.received[name, rank], default=0) < count:
                await asyncio.sleep(0.005)

    async def end(self) -> None:
        """Stops sending, and waits for what is on its way."""
        self._sending.cancel()
        await asyncio.gather(self._sending, return_exceptions=True)
        arrived = -1
        while arrived != (arrived := sum(map(len, self.received.values()))):
            await asyncio.sleep(0.3)

    def missing(self, name: str, rank: int, since: int) -> list[int]:
        """The datagrams from a number on that a receiver does not have."""
        return [n for n in range(since, self.sent) if n not in self.received[name, rank]]

    def twice(self) -> dict[tuple[str, int], list[int]]:
        """The datagrams that came more than once."""
        found = {
            place: [number for number, times in counts.items() if times > 1]
            for place, counts in self.received.items()
        }
        return {place: numbers for place, numbers in found.items() if numbers}

    def close(self) -> None:
        self._sending.cancel()
        for one in self.receivers.values():
            asyncio.get_running_loop().remove_reader(one.socket)
            one.socket.close()
        self._socket.close()


@dataclass(frozen=True)
class Held:
    """Everything that a switch holds."""

    cookie: int | None
    entries: frozenset[TableEntry]
    groups: dict[int, frozenset[int]]  # ports by number
    clones: dict[int, int]
    meters: tuple[MeterCell, ...]

    @property
    def routed(self) -> set[int]:
        """The groups to which entries lead."""
        params = (dict(item.params) for item in self.entries)
        return {its["mgid"] for its in params if "mgid" in its}

    def unnumbered(self) -> Held:
        """The same with only those groups that are used, numbered by their ports: what two switches
        have in common that do the same."""
        used = sorted({tuple(sorted(self.groups[number])) for number in self.routed})
        new = {number: used.index(tuple(sorted(self.groups[number]))) for number in self.routed}
        entries = frozenset(
            replace(
                item,
                params=tuple((k, new[v] if k == "mgid" else v) for k, v in item.params),
            )
            for item in self.entries
        )
        groups = {number: frozenset(ports) for number, ports in enumerate(used)}
        return replace(self, entries=entries, groups=groups)


async def held(network: Network, program: Program) -> dict[str, Held]:
    """What the switches hold, by switch, as they say it to one who only reads."""
    found = {}
    for switch in network.topology.switches:
        client = P4RuntimeClient(switch.name, switch.device_id, switch.address, program)
        found[switch.name] = Held(
            await client.running_cookie(PATIENCE_S),
            frozenset(
                await client.read_entries(table.preamble.alias for table in program.p4info.tables)
            ),
            await client.read_groups(),
            await client.read_clone_sessions(),
            tuple(await client.read_meter("igmp_meter", range(8))),
        )
        await client.close()
    return found


def unnumbered(state: dict[str, Held]) -> dict[str, Held]:
    return {name: one.unnumbered() for name, one in state.items()}
