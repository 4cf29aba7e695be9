"""Uses bmv2's simple_switch_grpc as the switch of a run.

bmv2 limits the rate of its queues in packets per second and their depth in packets, both set over
Thrift. A tiercast-delay-line between each port and its link adds the delay. The program's own
counters give the packets that entered the queues, those that left, and those that the program
dropped or marked. The queues report neither their drops nor their lengths. The last sample is taken
when all queues have drained and nothing waits; lengths are null in all others. Drops are null in
every sample, and tiercast_lab.results.queue_drops says what follows from these counts.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from tiercast_controller.base.units import format_duration
from tiercast_controller.controller import Controller
from tiercast_controller.network.fates import EgressFates, PortFates

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import InputError, RunFailed
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.schema import LinkEvent
from tiercast_lab.experiment.topology import Link, Switch, Topology
from tiercast_lab.experiment.wire import WIRE_KEYS, Wire
from tiercast_lab.run.mininet.network import Network
from tiercast_lab.run.mininet.pauses import AnswerWatch
from tiercast_lab.run.mininet.processes import Children
from tiercast_lab.run.mininet.switches import (
    PORT_COLUMNS,
    SESSION_COLUMNS,
    LoggedRow,
    Row,
)

PROGRAM = "simple_switch_grpc"
THRIFT_CLI = "simple_switch_CLI"
THRIFT_PORT = 9090  # the same for all: each switch has its own namespace
CPU_PORT = 510
DEFAULT_DEPTH = 64  # packets
STILL_S = 0.3  # the queues have drained if no count changes for this time plus the links' delay
PATIENCE_S = 5.0  # how long to wait for that, beyond the time that the longest queue needs to drain

# The packet counts of each port, by switch.
AllFates = dict[str, dict[int, PortFates]]


class Bmv2Switches:
    name = "bmv2"
    # Its threads take about 100 us to hand over a packet that need not wait; at 6 Mbit/s a packet
    # of 1000 B that has to wait does so for up to 1333 us.
    idle_us = 250
    # Each packet passes through five threads. The lateness of the delay lines shows whether the
    # CPUs suffice for that.
    bounds: Mapping[str, float | None] = {"cpu": 95.0}

    def __init__(self, packet_size_of: Callable[[str], int]) -> None:
        """`packet_size_of` is LoadedExperiment.packet_size_of: bytes by the link's name."""
        self._packet_size_of = packet_size_of
        self._answers: defaultdict[str, AnswerWatch] = defaultdict(AnswerWatch)  # by switch
        # The longest service time and the largest depth that any queue has had so far.
        self._service_s = 0.0
        self._depth = DEFAULT_DEPTH
        self._drained: AllFates = {}  # set once all queues have drained
        self._lost: dict[tuple[str, int], int] = {}  # between switches, by receiving port

    def check(self, loaded: LoadedExperiment) -> None:
        for program in (PROGRAM, THRIFT_CLI):
            if shutil.which(program) is None:
                raise InputError(
                    f"--switch bmv2: {program} is not in PATH; build behavioral-model with its "
                    "P4Runtime server and Thrift, or use --switch tiercast"
                )
        binaries.require(binaries.DELAY_LINE)
        for link in loaded.topology.links.values():
            if link.parameters.queue.bytes:
                raise InputError(
                    f"--switch bmv2: link {link.name} has a queue limit in bytes; valid: packets"
                )
            _refuse_wire(f"link {link.name}", link.parameters.wire)
            if link.parameters.fair:
                raise InputError(f"--switch bmv2: link {link.name} has a fair queue; valid: fifo")
            path, marking = loaded.experiment.placed_marking(link.name)
            if link.parameters.rate and marking.queue_red() is not None:
                raise InputError(
                    f"--switch bmv2: {'.'.join(path)}: link {link.name} has {marking.kind} with "
                    "`where: arrival`, and bmv2's queues have none; valid: where: departure"
                )
        for event in loaded.experiment.link_events:
            where = f"the event at {format_duration(event.at)}"
            _refuse_wire(where, event.wire)
            if len(loaded.topology.sides(event.link)) == 1:
                raise InputError(
                    f"--switch bmv2: {where} changes one direction, {event.link}; valid: both"
                )
            if event.delay is not None or (event.queue and event.queue.bytes):
                raise InputError(
                    f"--switch bmv2: {where} changes what bmv2 cannot change; valid: rate, and "
                    "queue in packets"
                )

    def programs(self) -> list[Path]:
        return [Path(shutil.which(PROGRAM) or PROGRAM), binaries.DELAY_LINE]

    def prepare(self, network: Network) -> None:
        for switch in network.topology.switches.values():
            for port, (_, link) in enumerate(switch.ports, 1):
                if link.parameters.delay:
                    network.add_inner_pair(switch.name, port)

    def start(self, switch: Switch, network: Network, children: Children, socket: Path) -> None:
        node = network.nodes[switch.name]
        lines, ports = [], []
        for port, (neighbour, link) in enumerate(switch.ports, 1):
            outer = network.interface(switch.name, port)
            if not link.parameters.delay:
                ports += ["-i", f"{port}@{outer}"]
                continue
            inner, middle = network.inner_pair(switch.name, port)
            out = format_duration(link.parameters.delay)
            back = out if neighbour in network.topology.hosts else "0"
            lines.append(f"--line={middle},{outer},{out},{back}")
            ports += ["-i", f"{port}@{inner}"]
        if lines:
            command = [str(binaries.DELAY_LINE), *lines]
            children.start(node, _delay_line(switch.name), command, f"{switch.name}-delay-line")
        command = [
            PROGRAM,
            "--no-p4",
            f"--device-id={switch.device_id}",
            f"--thrift-port={THRIFT_PORT}",
            *ports,
            "--",
            f"--grpc-server-addr=unix:{socket}",
            f"--cpu-port={CPU_PORT}",
        ]
        name = f"{PROGRAM} {switch.name}"
        children.start(node, name, command, switch.name, handles_sigterm=False)

    async def configure(self, controller: Controller, network: Network) -> None:
        switches = network.topology.switches.values()
        await asyncio.gather(
            *(asyncio.to_thread(self._set_queues, network, switch) for switch in switches)
        )

    def _set_queues(self, network: Network, switch: Switch) -> None:
        lines = []
        for port, (_, link) in enumerate(switch.ports, 1):
            rate, depth = link.parameters.rate, link.parameters.queue.packets
            lines += self._queue_commands(port, link, rate, depth)
        _thrift(network, switch.name, lines)

    def _queue_commands(
        self, port: int, link: Link, rate: int | None, depth: int | None
    ) -> list[str]:
        """The Thrift commands that set a queue. bmv2 counts packets, so the rate is converted with
        the size of the largest data packets on the link."""
        lines = [f"set_queue_depth {depth} {port}"] if depth else []
        if rate:
            rate_pps = packets_per_second(rate, self._packet_size_of(link.name))
            self._service_s = max(self._service_s, 1 / rate_pps)
            lines.append(f"set_queue_rate {rate_pps} {port}")
        self._depth = max(self._depth, depth or 0)
        return lines

    async def watch(self, controller: Controller, switch: Switch) -> None:
        await self._answers[switch.name].watch(lambda: controller.ping(switch.name))

    async def poll(self, controller: Controller, switch: Switch) -> list[tuple[str, Row]]:
        drained = switch.name in self._drained
        counted = self._drained[switch.name] if drained else await controller.fates(switch.name)
        dropped = controller.packet_ins_dropped(switch.name)
        rows: list[tuple[str, Row]] = [
            ("pause", {"longest_us": self._answers[switch.name].take_longest_us()}),
            ("packet_in", {"packets": None, "dropped": dropped}),
        ]
        for port, fates in counted.items():
            place: Row = {"port": port, "link": switch.direction(port)}
            lost = self._lost.get((switch.name, port))
            rows.append(("port", place | _port_columns(fates, drained, lost)))
            for group, counts in (((-1, -1), fates.rest), *fates.layers.items()):
                if counts.entered or counts.served:
                    rows.append(("port.session", place | _session_columns(*group, counts, drained)))
        return rows

    async def settle(self, controller: Controller, topology: Topology) -> None:
        """Waits until all queues have drained. A queue that has not drained serves a packet within
        its service time, and a packet on a link arrives within the link's delay. So if no count
        changes for longer than both, nothing moves."""
        delay_s = max(link.parameters.delay for link in topology.links.values()) / 1e9
        still_s = STILL_S + self._service_s + delay_s
        deadline = time.monotonic() + PATIENCE_S + self._depth * self._service_s
        before: AllFates = {}
        while time.monotonic() < deadline:
            now = {name: await controller.fates(name) for name in topology.switches}
            if _egress(now) == _egress(before):
                self._drained = now
                self._lost = _lost_between(topology, now)
                return
            before = now
            await asyncio.sleep(still_s)

    async def apply(self, controller: Controller, network: Network, event: LinkEvent) -> None:
        link = network.topology.links[event.link]
        for end, other in ((link.a, link.b), (link.b, link.a)):
            if end in network.topology.switches:
                port = network.topology.switches[end].port_to(other)
                depth = event.queue.packets if event.queue else None
                lines = self._queue_commands(port, link, event.rate, depth)
                await asyncio.to_thread(_thrift, network, end, lines)

    def logged_rows(self, topology: Topology, logs: Path) -> list[LoggedRow]:
        """The rows that each tiercast-delay-line logged, of kinds `delay_line` and `pause`."""
        rows: list[LoggedRow] = []
        for switch in topology.switches:
            log = logs / f"{switch}-delay-line.log"
            lines = log.read_text().splitlines() if log.exists() else []
            for line in filter(lambda line: line.startswith("{"), lines):
                fields = json.loads(line)
                time_ns, longest_us = fields.pop("time_ns"), fields.pop("longest_pause_us")
                rows.append((time_ns, "delay_line", switch, fields))
                rows.append((time_ns, "pause", _delay_line(switch), {"longest_us": longest_us}))
        return rows


def _refuse_wire(where: str, wire: Wire) -> None:
    for key in WIRE_KEYS:
        if getattr(wire, key) is not None:
            raise InputError(
                f"--switch bmv2: {where} has `{key}`, which bmv2's links do not; valid: rate, "
                "delay, and queue in packets"
            )


def _delay_line(switch: str) -> str:
    return f"tiercast-delay-line {switch}"


def _egress(fates: AllFates) -> dict[tuple[str, int], EgressFates]:
    return {
        (name, port): counts.egress
        for name, ports in fates.items()
        for port, counts in ports.items()
    }


def _lost_between(topology: Topology, fates: AllFates) -> dict[tuple[str, int], int]:
    """The packets that left one switch and did not arrive at the next, by the next one's port."""
    lost = {}
    for switch in topology.switches.values():
        for port, (neighbour, _) in enumerate(switch.ports, 1):
            if neighbour in topology.switches:
                there = topology.switches[neighbour].port_to(switch.name)
                left = fates[neighbour][there].egress.left
                lost[switch.name, port] = left - fates[switch.name][port].ingress.received
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


def packets_per_second(rate: int, packet_size: int) -> int:
    return max(1, round(rate / (8 * packet_size)))


def _thrift(network: Network, switch: str, lines: list[str]) -> None:
    if not lines:
        return
    said = network.nodes[switch].run(
        THRIFT_CLI, "--thrift-port", str(THRIFT_PORT), stdin="\n".join(lines) + "\n"
    )
    # The CLI exits with status 0 even if a command fails.
    if "Error" in said or "nknown" in said:
        raise RunFailed(f"{switch}: {THRIFT_CLI} refused {', '.join(lines)}: {said.strip()}")
