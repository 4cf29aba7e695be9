"""What can be known of a switch that has P4Runtime alone: the counters of its program.

They give the packets that entered the queues, those that left, and those that the program dropped
or marked. The queues report neither their drops nor their lengths. The last sample is taken when
all queues have drained and nothing waits; lengths are null in all others. Drops are null in every
sample, and tiercast_lab.results.queue_drops says what follows from these counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import asdict

from tiercast_controller.base.errors import UnreachableError
from tiercast_controller.controller import Controller
from tiercast_controller.network.fates import EgressFates, PortFates

from tiercast_lab.experiment.topology import Switch, Topology
from tiercast_lab.run.mininet.pauses import AnswerWatch
from tiercast_lab.run.mininet.switches import PORT_COLUMNS, SESSION_COLUMNS, refused_rows
from tiercast_lab.run.observed import Row

STILL_S = 0.3  # the queues have drained if no count changes for this time plus the links' delay
PATIENCE_S = 5.0  # how long to wait for that, beyond the time that the longest queue needs to drain

# The packet counts of each port, by switch.
AllFates = dict[str, dict[int, PortFates]]


class FateCounts:
    """The rows of some switches of a run."""

    def __init__(self, port_here: Callable[[str, int], int | None] = lambda _, port: port) -> None:
        """`port_here` gives the experiment's number of a port that the controller names; None if
        the experiment has none."""
        self._port_here = port_here
        self._answers: defaultdict[str, AnswerWatch] = defaultdict(AnswerWatch)  # by switch
        self._drained: AllFates = {}  # set once all queues have drained
        self._lost: dict[tuple[str, int], int] = {}  # between switches, by receiving port

    async def watch(self, controller: Controller, switch: Switch) -> None:
        async def ask() -> None:
            with contextlib.suppress(UnreachableError):  # it may return
                await controller.ping(switch.name)

        await self._answers[switch.name].watch(ask)

    async def poll(self, controller: Controller, switch: Switch) -> list[tuple[str, Row]]:
        drained = switch.name in self._drained
        counted = (
            self._drained[switch.name] if drained else await self._fates(controller, switch.name)
        )
        of_program = {} if counted is not None else await controller.port_counters(switch.name)
        dropped = controller.packet_ins_dropped(switch.name)
        rows: list[tuple[str, Row]] = [
            ("pause", {"longest_us": self._answers[switch.name].take_longest_us()}),
            ("packet_in", {"packets": None, "dropped": dropped}),
        ]
        for there, named in of_program.items():
            if (port := self._port_here(switch.name, there)) is not None:
                place: Row = {"port": port, "link": switch.direction(port)}
                rows.append(("port", place | {name: named.get(name) for name in PORT_COLUMNS}))
        for port, fates in (counted or {}).items():
            place = {"port": port, "link": switch.direction(port)}
            lost = self._lost.get((switch.name, port))
            rows.append(("port", place | _port_columns(fates, drained, lost)))
            policed = fates.ingress.policed + controller.policed(switch.name, port)
            rows += refused_rows(place, fates.ingress.refused, policed)
            for group, counts in (((-1, -1), fates.rest), *fates.layers.items()):
                if counts.entered or counts.served:
                    rows.append(("port.session", place | _session_columns(*group, counts, drained)))
        return rows

    async def settle(
        self,
        controller: Controller,
        topology: Topology,
        switches: Collection[str],
        service_s: float,
        depth: int,
    ) -> None:
        """Waits until the queues of these switches have drained. A queue that has not drained
        serves a packet within its service time, at most `service_s`, and a packet on a link arrives
        within the link's delay. So if no count changes for longer than both, nothing moves. No
        queue holds more than `depth` packets."""
        delay_s = max(link.parameters.delay for link in topology.links.values()) / 1e9
        still_s = STILL_S + service_s + delay_s
        deadline = time.monotonic() + PATIENCE_S + depth * service_s
        before: AllFates = {}
        while time.monotonic() < deadline:
            read = {name: await self._fates(controller, name) for name in switches}
            now = {name: fates for name, fates in read.items() if fates is not None}
            if _egress(now) == _egress(before):
                self._drained = now
                self._lost = _lost_between(topology, now)
                return
            before = now
            await asyncio.sleep(still_s)

    async def _fates(self, controller: Controller, switch: str) -> dict[int, PortFates] | None:
        """None if the program has no accounts."""
        counted = await controller.fates(switch)
        if counted is None:
            return None
        by_port = {self._port_here(switch, port): fates for port, fates in counted.items()}
        return {port: fates for port, fates in by_port.items() if port is not None}


def _egress(fates: AllFates) -> dict[tuple[str, int], EgressFates]:
    return {
        (name, port): counts.egress
        for name, ports in fates.items()
        for port, counts in ports.items()
    }


def _lost_between(topology: Topology, fates: AllFates) -> dict[tuple[str, int], int]:
    """The packets that left one switch and did not arrive at the next, by the next one's port."""
    lost = {}
    for name, ports in fates.items():
        for port, (neighbour, _) in enumerate(topology.switches[name].ports, 1):
            if neighbour in fates:
                there = topology.switches[neighbour].port_to(name)
                left = fates[neighbour][there].egress.left
                lost[name, port] = left - ports[port].ingress.received
    return lost


def _port_columns(fates: PortFates, drained: bool, lost: int | None) -> Row:
    counted: Row = asdict(fates.ingress) | asdict(fates.egress)
    counted |= {"rx_packets": fates.ingress.received, "tx_packets": fates.egress.left}
    counted |= {"kernel_drops": lost, "queue_packets": 0 if drained else None}
    return {name: counted.get(name) for name in PORT_COLUMNS}


def _session_columns(session: int, layer: int, counts: EgressFates, drained: bool) -> Row:
    counted: Row = {"session": session, "layer": layer} | asdict(counts)
    counted["waiting"] = 0 if drained else None
    return {name: counted.get(name) for name in SESSION_COLUMNS}
