"""What a run needs of a kind of switch. tiercast-switch here; bmv2 in bmv2.py."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from tiercast_controller import Controller

from tiercast_lab import binaries
from tiercast_lab.commands import switch_command
from tiercast_lab.experiment import LinkEvent, Loaded
from tiercast_lab.network import Network
from tiercast_lab.processes import Children
from tiercast_lab.topology import Switch, Topology

# Columns of one row, beside time_s and agent.
Row = dict[str, float | str]


class SwitchKind(Protocol):
    name: str
    # A packet that found the queue empty and waited at most this found the link idle; us.
    idle_us: int
    # Bounds of validity that differ with it (verdict.BOUNDS).
    bounds: Mapping[str, float | None]

    def check(self, loaded: Loaded) -> None:
        """InputError where it is not installed, or cannot do what the experiment asks."""

    def prepare(self, network: Network) -> None:
        """What it needs in the network, before anything runs."""

    def start(self, switch: Switch, network: Network, children: Children, socket: Path) -> None: ...

    async def configure(self, network: Network) -> None:
        """What is left to set once the controller has reached all switches."""

    async def poll(self, controller: Controller, switch: Switch) -> list[Row]:
        """A row of kind `port` for each port."""

    async def apply(self, controller: Controller, network: Network, event: LinkEvent) -> None: ...

    def final_rows(self, topology: Topology, logs: Path) -> list[tuple[str, Row]]:
        """Rows of kind `wire` by switch, once all processes have ended."""


class TiercastSwitches:
    name = "tiercast"
    idle_us = 0
    bounds: Mapping[str, float | None] = {}

    def check(self, loaded: Loaded) -> None:
        binaries.require(binaries.SWITCH)

    def prepare(self, network: Network) -> None:
        pass

    def start(self, switch: Switch, network: Network, children: Children, socket: Path) -> None:
        interfaces = [
            network.interface(switch.name, port) for port in range(1, len(switch.ports) + 1)
        ]
        children.start(
            network.nodes[switch.name],
            f"tiercast-switch {switch.name}",
            switch_command(switch, network.topology, interfaces, socket),
            switch.name,
        )

    async def configure(self, network: Network) -> None:
        pass

    async def poll(self, controller: Controller, switch: Switch) -> list[Row]:
        response = await controller.ports(switch.name)
        return [
            {
                "port": port.port,
                "link": direction(switch, port.port),
                "rx_packets": port.rx_packets,
                "rx_bytes": port.rx_bytes,
                "tx_packets": port.tx_packets,
                "tx_bytes": port.tx_bytes,
                "queue_packets": port.queue_packets,
                "max_queue_packets": port.max_queue_packets,
                "max_queue_bytes": port.max_queue_bytes,
                "drops": port.drops,
                "kernel_drops": port.kernel_drops,
                "send_errors": port.send_errors,
                "late_p50_us": port.late_p50_us,
                "late_p99_us": port.late_p99_us,
                "late_max_us": port.late_max_us,
            }
            for port in response.ports
        ]

    async def apply(self, controller: Controller, network: Network, event: LinkEvent) -> None:
        topology = network.topology
        link = topology.links[event.link]
        for end, other in ((link.a, link.b), (link.b, link.a)):
            if end not in topology.switches:
                continue
            await controller.set_link(
                end,
                topology.switches[end].port_to(other),
                rate_bps=event.rate,
                queue_packets=event.queue and event.queue.packets,
                queue_bytes=event.queue and event.queue.bytes,
                delay_ns=event.delay,
                rx_delay_ns=event.delay if other in topology.hosts else None,
            )

    def final_rows(self, topology: Topology, logs: Path) -> list[tuple[str, Row]]:
        return []


def direction(switch: Switch, port: int) -> str:
    """The direction of a link that a port serves: "1>3", "0>h0", "0>t0"."""
    neighbour, link = switch.ports[port - 1]
    far = neighbour if link.attaches else neighbour[1:]
    return f"{switch.number}>{far}"
