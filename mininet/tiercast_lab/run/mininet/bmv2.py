"""Uses bmv2's simple_switch_grpc as the switch of a run.

bmv2 limits the rate of its queues in packets per second and their depth in packets, both set over
Thrift. A tiercast-delay-line between each port and its link adds the delay. The program's own
counters give the rows (fate_counts.py).
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from tiercast_controller.base.units import format_duration
from tiercast_controller.controller import Controller
from tiercast_controller.p4runtime.manifest import CPU_PORT

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import InputError, RunFailed
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.observed_schema import entry_path
from tiercast_lab.experiment.schema import LinkEvent
from tiercast_lab.experiment.topology import Link, Switch, Topology
from tiercast_lab.experiment.wire import WIRE_KEYS, Wire
from tiercast_lab.run.controller_input import Reach
from tiercast_lab.run.mininet.fate_counts import FateCounts
from tiercast_lab.run.mininet.network import Network
from tiercast_lab.run.mininet.processes import Children
from tiercast_lab.run.mininet.switches import RESTARTS, LoggedRow, Trace
from tiercast_lab.run.observed import Row

PROGRAM = "simple_switch_grpc"
THRIFT_CLI = "simple_switch_CLI"
THRIFT_PORT = 9090  # the same for all: each switch has its own namespace
# Its threads take about 100 us to hand over a packet that need not wait; at 6 Mbit/s a packet of
# 1000 B that has to wait does so for up to 1333 us.
IDLE_US = 250
DEFAULT_DEPTH = 64  # packets
AWAY_S = 0.5  # until the controller has noticed that a switch is away


@dataclass(frozen=True)
class Queue:
    """The queue of a port, as bmv2 counts. None: bmv2's default."""

    rate_pps: int | None
    depth: int | None  # packets

    def commands(self, port: int) -> list[str]:
        """The Thrift commands that set it."""
        lines = [] if self.depth is None else [f"set_queue_depth {self.depth} {port}"]
        return (
            lines if self.rate_pps is None else [*lines, f"set_queue_rate {self.rate_pps} {port}"]
        )


class Bmv2Switches:
    name = "bmv2"
    # Each packet passes through five threads. The lateness of the delay lines shows whether the
    # CPUs suffice for that.
    bounds: Mapping[str, float | None] = {"cpu": 95.0}
    elsewhere: Mapping[str, Mapping[str, str]] = {}
    dpdk: Mapping[str, list[str]] = {}
    in_memory: Collection[str] = ()
    patience_s = 10.0

    def __init__(
        self,
        packet_size_of: Callable[[str], int],
        cpu_ports: Mapping[str, int] = {},  # noqa: B006
    ) -> None:
        """`packet_size_of` is LoadedExperiment.packet_size_of: bytes by the link's name;
        `cpu_ports` are the programs', by switch, where they differ from ours."""
        self._packet_size_of = packet_size_of
        self._cpu_ports = cpu_ports
        self._counts = FateCounts()
        # What has been set last: packets per second and packets, by switch and port.
        self._queues: defaultdict[str, dict[int, Queue]] = defaultdict(dict)
        # The longest service time and the largest depth that any queue has had so far.
        self._service_s = 0.0
        self._depth = DEFAULT_DEPTH

    def check(self, loaded: LoadedExperiment) -> None:
        for program in (PROGRAM, THRIFT_CLI):
            if shutil.which(program) is None:
                raise InputError(
                    f"--switch bmv2: {program} is not in PATH; build behavioral-model with its "
                    "P4Runtime server and Thrift, or use --switch tiercast"
                )
        binaries.require(binaries.DELAY_LINE)
        if loaded.experiment.trace:
            raise loaded.error(
                ("trace",),
                "--switch bmv2 has no trace of single packets; valid: --switch tiercast, or "
                "--runtime ns3",
            )
        for index, state in enumerate(loaded.experiment.state):
            if state.register_ is not None:
                raise loaded.error(
                    (*entry_path(loaded.data, "state", index), "register"),
                    "bmv2 reads no registers over P4Runtime; valid: counter, --switch tiercast, "
                    "or --runtime ns3",
                )
        for name, files in loaded.programs.items():
            if files.load().is_psa:
                raise InputError(
                    f"--switch bmv2: {files.json.name} of switch {name} is for PSA, and {PROGRAM} "
                    "executes v1model; valid: --switch tiercast, or --runtime ns3"
                )
        for path, marking in loaded.experiment.markings:
            for files in loaded.programs.values():
                law = files.load().manifest.marking.get(marking.kind)
                if law is not None and law.registers:
                    raise loaded.error(
                        path,
                        f"{marking.kind} fills registers of {files.json.name}, which bmv2's "
                        "P4Runtime server cannot write; valid: a table, or --switch tiercast",
                    )
        for link in loaded.topology.links.values():
            if link.parameters.queue.bytes:
                raise InputError(
                    f"--switch bmv2: link {link.name} has a queue limit in bytes; valid: packets"
                )
            _refuse_wire(f"link {link.name}", link.parameters.wire)
            if link.parameters.scheduling != "fifo":
                raise InputError(f"--switch bmv2: link {link.name} has a fair queue; valid: fifo")
            path, marking = loaded.experiment.placed_marking(link.name)
            if link.parameters.rate and marking.queue_red() is not None:
                raise InputError(
                    f"--switch bmv2: {'.'.join(path)}: link {link.name} has {marking.kind} with "
                    "`where: arrival`, and bmv2's queues have none; valid: where: departure"
                )
            if link.parameters.rate and marking.priority_queues() is not None:
                raise InputError(
                    f"--switch bmv2: {'.'.join(path)}: link {link.name} has {marking.kind}, whose "
                    "two queues share a rate, and bmv2's priority queues have a rate each; "
                    "valid: a marking of one queue, such as pi2"
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

    def reach(self, switch: Switch, socket: Path) -> Reach:
        return Reach(f"unix:{socket}", switch.device_id, IDLE_US)

    def programs(self) -> list[Path]:
        return [Path(shutil.which(PROGRAM) or PROGRAM), binaries.DELAY_LINE]

    def prepare(self, network: Network) -> None:
        for switch in network.topology.switches.values():
            for port, (_, link) in enumerate(switch.ports, 1):
                if link.parameters.delay:
                    network.add_inner_pair(switch.name, port)

    def start(self, network: Network, children: Children, socket: Callable[[str], Path]) -> None:
        for switch in network.topology.switches.values():
            self._start(switch, network, children, socket(switch.name))

    def _start(self, switch: Switch, network: Network, children: Children, socket: Path) -> None:
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
            f"--cpu-port={self._cpu_ports.get(switch.name, CPU_PORT)}",
        ]
        name = f"{PROGRAM} {switch.name}"
        children.start(node, name, command, switch.name, handles_sigterm=False, restarts=RESTARTS)

    async def configure(self, controller: Controller, network: Network) -> list[str]:
        for switch in network.topology.switches.values():
            for port, (_, link) in enumerate(switch.ports, 1):
                parameters = link.parameters
                self._note(switch.name, port, link, parameters.rate, parameters.queue.packets)
        await asyncio.gather(*(self.restore(controller, network, name) for name in self._queues))
        return []

    async def restore(self, controller: Controller, network: Network, switch: str) -> None:
        queues = self._queues[switch].items()
        lines = [line for port, queue in queues for line in queue.commands(port)]
        await self._set(controller, network, switch, lines)

    async def _set(
        self, controller: Controller, network: Network, switch: str, lines: list[str]
    ) -> None:
        """A switch that is away gets what is noted when it returns."""
        try:
            await asyncio.to_thread(_thrift, network, switch, lines)
        except RunFailed:
            await asyncio.sleep(AWAY_S)
            if not controller.is_away(switch):
                raise

    def _note(
        self, switch: str, port: int, link: Link, rate: int | None, depth: int | None
    ) -> list[str]:
        """Notes what a queue is changed to (None: it stays), and returns the Thrift commands for
        that. bmv2 counts packets, so the rate is converted with the size of the largest data
        packets on the link."""
        rate_pps = packets_per_second(rate, self._packet_size_of(link.name)) if rate else None
        change = Queue(rate_pps, depth or None)
        if rate_pps:
            self._service_s = max(self._service_s, 1 / rate_pps)
        self._depth = max(self._depth, depth or 0)
        before = self._queues[switch].get(port, Queue(None, None))
        self._queues[switch][port] = Queue(
            change.rate_pps or before.rate_pps, change.depth or before.depth
        )
        return change.commands(port)

    async def watch(self, controller: Controller, switch: Switch) -> None:
        await self._counts.watch(controller, switch)

    async def poll(self, controller: Controller, switch: Switch) -> list[tuple[str, Row]]:
        return await self._counts.poll(controller, switch)

    async def settle(self, controller: Controller, topology: Topology) -> None:
        await self._counts.settle(
            controller, topology, topology.switches, self._service_s, self._depth
        )

    async def take_trace(self, controller: Controller, switch: Switch) -> Trace:
        return [], 0

    async def apply(self, controller: Controller, network: Network, event: LinkEvent) -> None:
        link = network.topology.links[event.link]
        for end, other in ((link.a, link.b), (link.b, link.a)):
            if end in network.topology.switches:
                port = network.topology.switches[end].port_to(other)
                depth = event.queue.packets if event.queue else None
                lines = self._note(end, port, link, event.rate, depth)
                await self._set(controller, network, end, lines)

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
