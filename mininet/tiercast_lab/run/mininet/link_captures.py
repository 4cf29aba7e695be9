"""Captures links with dumpcap, one process for each direction, in the namespace of the node at
which its frames arrive. There the switch's own frames do not pass: its socket bypasses captures
(PACKET_QDISC_BYPASS), so a direction cannot be captured where it begins."""

from __future__ import annotations

import asyncio
import math
import shutil
import time
from dataclasses import dataclass

from tiercast_lab.base.errors import InputError, RunFailed
from tiercast_lab.results import pcap
from tiercast_lab.run.captures import Captures, Direction
from tiercast_lab.run.mininet.network import Network
from tiercast_lab.run.mininet.processes import Child, Children, tail

DUMPCAP = "dumpcap"
PACKAGE = "wireshark-common"
BUFFER_MB = 8  # for frames that dumpcap has not read yet
READY_S = 20.0
POLL_S = 0.05
# dumpcap gets frames from the kernel within 0.25 s and writes them within another 0.5 s.
COMPLETE_S = 3.0


def require_dumpcap() -> None:
    if shutil.which(DUMPCAP) is None:
        raise InputError(
            f"--capture: {DUMPCAP} is not in PATH; install: {PACKAGE}; or --runtime ns3, which "
            "captures without it"
        )


@dataclass
class _Running:
    direction: Direction
    child: Child
    before: int  # frames that had arrived when the capture began
    written: pcap.FrameCounter


class LinkCaptures:
    """The processes that capture. Those that still run when the run breaks off are ended with its
    other children."""

    def __init__(self, captures: Captures, network: Network, children: Children) -> None:
        self._captures = captures
        self._network = network
        self._children = children
        self._running: list[_Running] = []

    async def start(self) -> None:
        """Returns when every direction is being captured."""
        options = self._captures.options
        for way in self._captures.directions:
            command = [DUMPCAP, "-q", "-P", "-i", self._interface(way), *self._filter(way)]
            command += ["-s", str(options.snap_bytes), "-B", str(BUFFER_MB)]
            command += ["-a", f"filesize:{math.ceil(options.max_bytes / 1000)}"]
            child = self._children.start(
                self._network.nodes[way.receiver],
                f"{DUMPCAP} {way.name}",
                [*command, "-w", str(way.part)],
                f"capture-{way.part.stem}",
                users=True,  # it may end by itself, when its file is full
            )
            self._running.append(_Running(way, child, 0, pcap.FrameCounter(way.part)))
        for one in self._running:
            await self._wait_until_ready(one.child)
            one.before = self._arrived(one.direction)

    async def stop(self) -> None:
        """To be called when no more frames are on their way. Ends the captures, once they have
        written what arrived."""
        deadline = time.monotonic() + COMPLETE_S
        while (
            not all([self._complete(one) for one in self._running]) and time.monotonic() < deadline
        ):
            await asyncio.sleep(POLL_S)
        self._children.turns()
        for one in self._running:
            one.direction.cpu_s = one.child.turns.ran_s
            one.child.expected_to_end = True
            one.child.process.terminate()
        for one in self._running:
            while one.child.process.poll() is None and time.monotonic() < deadline + COMPLETE_S:
                await asyncio.sleep(POLL_S)

    def _complete(self, one: _Running) -> bool:
        one.direction.arrived = self._arrived(one.direction) - one.before
        ended = one.child.process.poll() is not None
        return ended or one.written.count() >= one.direction.arrived

    async def _wait_until_ready(self, child: Child) -> None:
        deadline = time.monotonic() + READY_S
        # It names its file when its socket is open.
        while not any(line.startswith("File: ") for line in tail(child.log, 12)):
            if child.process.poll() is not None or time.monotonic() > deadline:
                said = "; ".join(tail(child.log, 12)) or "nothing"
                raise RunFailed(f"{child.name} did not start; it said: {said}")
            await asyncio.sleep(POLL_S)

    def _interface(self, way: Direction) -> str:
        switch = self._network.topology.switches.get(way.receiver)
        port = 1 if switch is None else switch.port_to(way.sender)
        return self._network.interface(way.receiver, port)

    def _filter(self, way: Direction) -> list[str]:
        """Leaves out what a host sends itself. (`inbound` would lose the first frames: libpcap
        filters those by itself, and cannot know their direction.)"""
        host = self._network.topology.hosts.get(way.receiver)
        return [] if host is None else ["-f", f"not ether src {host.mac}"]

    def _arrived(self, way: Direction) -> int:
        """The frames that the interface has received since it was made."""
        return self._network.received(way.receiver, self._interface(way))
