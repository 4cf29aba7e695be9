"""The switches of a run of which some were not started by the lab (devices.py). The others are
tiercast-switches.

What a device can do is found when the controller has reached it. One that serves tiercast.v1 gets
the links' rates, queues and delays, and reports as a tiercast-switch does. Any other keeps what its
operator has set, and its program's counters are all that is known of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from tiercast_controller.base.errors import UnsupportedError
from tiercast_controller.base.units import format_duration
from tiercast_controller.controller import Controller

from tiercast_lab.base.errors import InputError, RunFailed
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.schema import LinkEvent
from tiercast_lab.experiment.topology import Link, Switch, Topology
from tiercast_lab.run.controller_input import Reach
from tiercast_lab.run.mininet.devices import Device, require_interfaces
from tiercast_lab.run.mininet.fate_counts import FateCounts
from tiercast_lab.run.mininet.network import Network
from tiercast_lab.run.mininet.switches import TiercastSwitches
from tiercast_lab.run.observed import Row, StateRead, TracedPort, state_reads, traced_ports

LARGEST_PACKET = 1500  # bytes


class DeviceSwitches(TiercastSwitches):
    name = "p4runtime"
    # bmv2's, as such a device may be one.
    bounds: Mapping[str, float | None] = {"cpu": 95.0}

    def __init__(
        self,
        devices: Mapping[str, Device],
        seed: int,
        cpu_ports: Mapping[str, int] = {},  # noqa: B006
        depth_registers: Mapping[str, str | None] = {},  # noqa: B006
    ) -> None:
        """The last three are as in TiercastSwitches."""
        super().__init__(seed, cpu_ports, depth_registers)
        self.devices = devices
        self.dpdk = {
            host: arguments
            for device in devices.values()
            for host, arguments in device.dpdk.items()
        }
        self.elsewhere = {
            **{name: device.interfaces for name, device in devices.items()},
            **{host: {} for host in self.dpdk},
        }
        self._counts = FateCounts(self.port_here)
        self._counted: set[str] = set()  # the devices without tiercast.v1

    def check(self, loaded: LoadedExperiment) -> None:
        if self.devices.keys() < loaded.topology.switches.keys():
            super().check(loaded)
        require_interfaces(self.devices)
        self._traced = traced_ports(loaded)
        observed: list[tuple[str, TracedPort | StateRead]] = [
            *(("trace", port) for port in self._traced),
            *(("state", read) for read in state_reads(loaded)),
        ]
        for key, one in observed:
            if one.switch in self.devices and one.link:
                valid = "links of switches that the lab starts"
                if key == "state":
                    valid = "`node` and `index`, with the device's own port number; or " + valid
                raise loaded.error(
                    (key,), f"link {one.link} is at {one.switch}, a device; valid: {valid}"
                )
        for link in loaded.topology.links.values():
            if link.parameters.scheduling != "fifo" and {link.a, link.b} & self.devices.keys():
                raise InputError(
                    f"--switch p4runtime: link {link.name} has a fair queue, which cannot be set "
                    "on a running switch; valid: fifo"
                )

    def reach(self, switch: Switch, socket: Path) -> Reach:
        device = self.devices.get(switch.name)
        if device is None:
            return super().reach(switch, socket)
        return Reach(
            device.address,
            device.device_id,
            device.idle_us,
            device.role,
            device.tls,
            device.ports,
        )

    def port_here(self, switch: str, port: int) -> int | None:
        device = self.devices.get(switch)
        return port if device is None else device.port_here(port)

    def port_there(self, switch: str, port: int) -> int:
        device = self.devices.get(switch)
        return port if device is None else device.ports[port]

    async def configure(self, controller: Controller, network: Network) -> list[str]:
        topology = network.topology
        said = await asyncio.gather(
            *(self._set_up(controller, topology, topology.switches[name]) for name in self.devices)
        )
        for link in topology.links.values():
            if link.parameters.wire.changes:
                self._require_changes(link, f"link {link.name} loses or changes packets")
        return [*said, *await super().configure(controller, network)]

    async def _set_up(self, controller: Controller, topology: Topology, switch: Switch) -> str:
        """Sets the links of a device. Returns what it can do."""
        device, name = self.devices[switch.name], switch.name
        version = await controller.p4runtime_version(name)
        said = f"{name}: device {device.device_id} at {device.address}, P4Runtime {version}"
        try:
            there = {port.port for port in (await controller.ports(name)).ports}
        except UnsupportedError:
            self._counted.add(name)
            return f"{said}, without tiercast.v1: rates, queues and delays are its own"
        for number, (neighbour, link) in enumerate(switch.ports, 1):
            port, sent = device.ports[number], link.sent_by(name)
            if port not in there:
                valid = ", ".join(map(str, sorted(there))) or "none"
                raise RunFailed(f"{said} has no port {port}; valid: {valid}")
            await controller.set_link(
                name,
                port,
                rate_bps=sent.rate,
                queue_packets=sent.queue.packets or 0,
                queue_bytes=sent.queue.bytes or 0,
                delay_ns=sent.delay,
                rx_delay_ns=sent.delay if neighbour in topology.hosts else 0,
            )
        return f"{said}, with tiercast.v1: rates, queues and delays are the experiment's"

    async def poll(self, controller: Controller, switch: Switch) -> list[tuple[str, Row]]:
        if switch.name in self._counted:
            return await self._counts.poll(controller, switch)
        return await super().poll(controller, switch)

    async def watch(self, controller: Controller, switch: Switch) -> None:
        if switch.name in self._counted:
            await self._counts.watch(controller, switch)

    async def apply(self, controller: Controller, network: Network, event: LinkEvent) -> None:
        link = network.topology.sides(event.link)[0][0]
        self._require_changes(link, f"the event at {format_duration(event.at)} changes a link")
        await super().apply(controller, network, event)

    async def settle(self, controller: Controller, topology: Topology) -> None:
        if not self._counted:
            return
        rates = [link.parameters for link in topology.links.values() if link.parameters.rate]
        service_s = max((LARGEST_PACKET * 8 / one.rate for one in rates), default=0.0)
        depth = max((one.queue.packets or 0 for one in rates), default=0)
        await self._counts.settle(controller, topology, self._counted, service_s, depth)

    def _require_changes(self, link: Link, what: str) -> None:
        for end in {link.a, link.b} & self._counted:
            raise RunFailed(
                f"{what}, {link.name}, which {end} cannot: it has no tiercast.v1; valid: links of "
                "other switches"
            )
