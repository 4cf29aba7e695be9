"""The interface that a run requires of a kind of switch, and tiercast-switch behind it; bmv2.py has
bmv2."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tiercast_controller.p4runtime.manifest import CPU_PORT

from tiercast_lab.base import binaries
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.schema import LinkEvent
from tiercast_lab.experiment.topology import Switch, Topology
from tiercast_lab.run.controller_input import Reach
from tiercast_lab.run.mininet.commands import switch_command, switch_options, switches_command
from tiercast_lab.run.observed import Row, TracedPort, hop_row, of_switch, traced_ports
from tiercast_lab.run.port_changes import port_changes

if TYPE_CHECKING:
    from tiercast_controller.controller import Controller

    from tiercast_lab.run.mininet.network import Network
    from tiercast_lab.run.mininet.processes import Children

RESTARTS = 3  # of a switch that is killed, in a run

Trace = tuple[list[tuple[int, Row]], int]
LoggedRow = tuple[int, str, str, Row]  # time_ns of CLOCK_MONOTONIC, kind, agent, columns


# The columns of rows of kinds `port` and `port.session`: the fields of PortStats and SessionCounts
# (proto/tiercast/v1/lab.proto).
PORT_COLUMNS = (
    "rx_packets", "rx_bytes", "tx_packets", "tx_bytes",
    "queue_packets", "max_queue_packets", "max_queue_bytes",
    "entered", "left", "marked", "queue_drops", "policy_drops", "pruned",
    "invalid", "expired", "no_group", "no_route",
    "down_drops", "link_losses", "duplicated", "on_wire", "rx_link_losses", "rx_duplicated",
    "kernel_drops", "send_errors", "late_p50_us", "late_p99_us", "late_max_us",
)  # fmt: skip
# Of rows of kind `port.refused`, which only ports have at which something was refused.
REFUSED_COLUMNS = ("refused", "policed")
SESSION_COLUMNS = (
    "session", "layer",
    "entered", "left", "marked", "queue_drops", "policy_drops", "pruned", "waiting",
    "down_drops", "link_losses", "duplicated",
)  # fmt: skip


class SwitchKind(Protocol):
    name: str
    # The bounds of validity that depend on the kind of switch (verdict.BOUNDS).
    bounds: Mapping[str, float | None]
    # The switches and hosts that are no nodes of the lab's network. Of switches: the interfaces
    # here that are cabled to them, by their neighbours.
    elsewhere: Mapping[str, Mapping[str, str]]
    # The hosts of these, and the arguments of the EAL with which their sender runs.
    dpdk: Mapping[str, list[str]]
    in_memory: Collection[str]  # the links between switches of one process
    patience_s: float  # for which one of them may be away before the run fails

    def check(self, loaded: LoadedExperiment) -> None:
        """Raises InputError if the switch is not installed or cannot do what the experiment
        asks."""

    def reach(self, switch: Switch, socket: Path) -> Reach:
        """How the controller reaches a switch; `socket` is where one that the lab starts
        listens."""

    def programs(self) -> list[Path]:
        """The programs that it starts."""

    def prepare(self, network: Network) -> None:
        """Adds what it needs to the network, before any program runs."""

    def start(self, network: Network, children: Children, socket: Callable[[str], Path]) -> None:
        """Starts all switches. `socket` says where one of a name listens."""

    async def configure(self, controller: Controller, network: Network) -> list[str]:
        """Sets what is left once the controller has reached all switches. Returns what the user
        should know of them."""

    async def restore(self, controller: Controller, network: Network, switch: str) -> None:
        """Sets again what a switch has lost that died and has returned, other than what the
        controller sets."""

    async def watch(self, controller: Controller, switch: Switch) -> None:
        """Runs from before the first `poll` until it is cancelled."""

    async def poll(self, controller: Controller, switch: Switch) -> list[tuple[str, Row]]:
        """The newest rows, each with its kind: `pause`, `packet_in`, and for each port `port` and
        `port.session`."""

    async def take_trace(self, controller: Controller, switch: Switch) -> Trace:
        """The packets that have left traced ports since the last call: time_ns of CLOCK_MONOTONIC
        and columns of each; and how many packets were not traced in all, as too many waited."""

    async def apply(self, controller: Controller, network: Network, event: LinkEvent) -> None: ...

    async def settle(self, controller: Controller, topology: Topology) -> None:
        """Called after the last packet was sent. Waits until no packet moves, if a sample cannot
        show what is still waiting."""

    def logged_rows(self, topology: Topology, logs: Path) -> list[LoggedRow]:
        """The rows that its programs wrote to their logs, read when all of them have ended."""


class TiercastSwitches:
    name = "tiercast"
    bounds: Mapping[str, float | None] = {}
    elsewhere: Mapping[str, Mapping[str, str]] = {}
    dpdk: Mapping[str, list[str]] = {}
    patience_s = 10.0

    def __init__(
        self,
        seed: int,
        cpu_ports: Mapping[str, int] = {},  # noqa: B006
        depth_registers: Mapping[str, str | None] = {},  # noqa: B006
        in_memory: Collection[str] = (),
    ) -> None:
        """`seed` is the run's; the next two are the programs', by switch, where they differ from
        ours. With links in memory, one process runs all switches."""
        self.in_memory = in_memory
        self._seed = seed
        self._cpu_ports = cpu_ports
        self._depth_registers = depth_registers
        self._traced: list[TracedPort] = []

    def check(self, loaded: LoadedExperiment) -> None:
        binaries.require(binaries.SWITCH)
        self._traced = traced_ports(loaded)

    def reach(self, switch: Switch, socket: Path) -> Reach:
        return Reach(f"unix:{socket}", switch.device_id)

    def programs(self) -> list[Path]:
        return [binaries.SWITCH]

    def prepare(self, network: Network) -> None:
        pass

    def start(self, network: Network, children: Children, socket: Callable[[str], Path]) -> None:
        options = {
            switch.name: self._options(switch, network, socket(switch.name))
            for switch in network.topology.switches.values()
            if switch.name in network.nodes
        }
        if self.in_memory:
            children.start(
                network.nodes[next(iter(options))],
                "tiercast-switch",
                switches_command(options.values(), network.topology),
                "switches",
                nodes=tuple(options),
                restarts=RESTARTS,
            )
            return
        for name, its in options.items():
            node = network.nodes[name]
            command = switch_command(its)
            children.start(node, f"tiercast-switch {name}", command, name, restarts=RESTARTS)

    def _options(self, switch: Switch, network: Network, socket: Path) -> list[str]:
        topology = network.topology
        interfaces = [
            f"link:{neighbour}.{topology.switches[neighbour].port_to(switch.name)}"
            if link.name in self.in_memory
            else network.interface(switch.name, port)
            for port, (neighbour, link) in enumerate(switch.ports, 1)
        ]
        return switch_options(
            switch,
            topology,
            interfaces,
            socket,
            self._seed,
            self._cpu_ports.get(switch.name, CPU_PORT),
            self._depth_registers.get(switch.name),
        )

    async def configure(self, controller: Controller, network: Network) -> list[str]:
        for link in network.topology.links.values():
            if link.parameters.wire.changes:
                event = LinkEvent(0, link.name, wire=link.parameters.wire)
                await self.apply(controller, network, event)
        for switch in dict.fromkeys(one.switch for one in self._traced):
            await controller.set_trace(switch, of_switch(self._traced, switch))
        return []

    async def restore(self, controller: Controller, network: Network, switch: str) -> None:
        pass

    async def watch(self, controller: Controller, switch: Switch) -> None:
        pass

    async def poll(self, controller: Controller, switch: Switch) -> list[tuple[str, Row]]:
        response = await controller.ports(switch.name)
        dropped = response.packet_ins_dropped + controller.packet_ins_dropped(switch.name)
        rows: list[tuple[str, Row]] = [
            ("pause", {"longest_us": response.longest_pause_us}),
            ("packet_in", {"packets": response.packet_ins, "dropped": dropped}),
        ]
        for port in response.ports:
            number = self.port_here(switch.name, port.port)
            if number is None:
                continue
            place: Row = {"port": number, "link": switch.direction(number)}
            rows.append(("port", place | _columns(port, PORT_COLUMNS)))
            policed = port.policed + controller.policed(switch.name, port.port)
            rows += refused_rows(place, port.refused, policed)
            rows += [
                ("port.session", place | _columns(counts, SESSION_COLUMNS))
                for counts in port.sessions
            ]
        return rows

    async def take_trace(self, controller: Controller, switch: Switch) -> Trace:
        ports = {one.port: one for one in self._traced if one.switch == switch.name}
        if not ports:
            return [], 0
        taken = await controller.take_trace(switch.name)
        rows = [
            (hop.arrival_ns, hop_row(hop, ports[hop.port].registers, ports[hop.port].link))
            for hop in taken.hops
        ]
        return rows, taken.skipped

    async def apply(self, controller: Controller, network: Network, event: LinkEvent) -> None:
        for switch, port, fields in port_changes(network.topology, event):
            await controller.set_link(switch, self.port_there(switch, port), **fields)

    def port_here(self, switch: str, port: int) -> int | None:
        """The experiment's number of a port that the switch names; None if it has none."""
        return port

    def port_there(self, switch: str, port: int) -> int:
        """The switch's own number of a port of the experiment."""
        return port

    async def settle(self, controller: Controller, topology: Topology) -> None:
        pass

    def logged_rows(self, topology: Topology, logs: Path) -> list[LoggedRow]:
        return []


def refused_rows(place: Row, refused: int, policed: int) -> list[tuple[str, Row]]:
    """The packets that a port refused since the start: not from where they claim to be, and IGMP
    above its rate."""
    counts = dict(zip(REFUSED_COLUMNS, (refused, policed), strict=True))
    return [("port.refused", place | counts)] if any(counts.values()) else []


# Fields that a program without accounts leaves out (proto/tiercast/v1/lab.proto).
_OF_ACCOUNTS = frozenset(("pruned", "invalid", "expired", "no_group", "no_route"))


def _columns(message: Any, names: Iterable[str]) -> Row:
    return {
        name: None
        if name in _OF_ACCOUNTS and not message.HasField(name)
        else getattr(message, name)
        for name in names
    }
