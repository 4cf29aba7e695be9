"""What can be read from the switches of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tiercast.v1 import lab_pb2

from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.network.fates import INGRESS, FateColumns, PortFates
from tiercast_controller.switch import ManagedSwitch


class Readings:
    """A part of Controller. Everything raises UnreachableError while a switch is away."""

    _switches: Mapping[str, ManagedSwitch]
    _columns: Mapping[str, FateColumns]

    async def ports(self, switch: str) -> lab_pb2.GetPortsResponse:
        """The statistics of a switch's ports. Resets figures "since the last" call. Raises
        UnsupportedError if the switch has no tiercast.v1."""
        return await self._managed(switch).client.get_ports()

    async def ping(self, switch: str) -> None:
        """Sends the switch a short request. Raises SwitchError if it does not answer within 10
        s."""
        await self._managed(switch).client.running_cookie(timeout_s=10)

    async def p4runtime_version(self, switch: str) -> str:
        """As P4RuntimeClient.version."""
        return await self._managed(switch).client.version()

    def packet_ins_dropped(self, switch: str) -> int:
        """The number of packets that a switch sent faster than they could be handled here."""
        return self._managed(switch).client.packet_in_dropped

    async def counter(self, switch: str, name: str) -> dict[int, tuple[int, int]]:
        """A counter of the P4 program, such as "summaries": (packets, bytes) by index."""
        return await self._managed(switch).client.read_counter(name)

    async def fates(self, switch: str) -> dict[int, PortFates] | None:
        """What happened to the packets at each port since the switch loaded the program. The
        packets that entered queues are read last, so they are never fewer than those served. None
        if the program does not count that."""
        managed, columns = self._managed(switch), self._columns[switch]
        if not managed.roles.has_accounts:
            return None
        ingress_cells = managed.client.program.counter_cells(INGRESS)
        packets = await managed.client.read_cells(columns.cells(ingress_cells))
        return columns.fates(packets, await managed.read_entered(columns.ports))

    async def port_counters(self, switch: str) -> dict[int, dict[str, int]]:
        """The packets of each port by the names that the program's manifest gives to counters:
        left, marked, policy_drops, pruned. Empty if it gives none."""
        managed = self._managed(switch)
        named = managed.client.program.manifest.counters.named
        found: dict[int, dict[str, int]] = {port: {} for port in self._columns[switch].ports}
        for name, counter in named.items():
            cells = await managed.client.read_counter(counter)
            for port, counts in found.items():
                counts[name] = cells.get(port, (0, 0))[0]
        return found if named else {}

    async def register(self, switch: str, name: str) -> dict[int, int]:
        """A register of the P4 program: values by index. Raises UnsupportedError on bmv2."""
        return await self._managed(switch).client.read_register(name)

    async def register_cells(
        self, switch: str, name: str, indices: Iterable[int]
    ) -> dict[int, int]:
        """Some cells of a register, by index. Raises UnsupportedError on bmv2."""
        return await self._managed(switch).client.read_register_cells(name, indices)

    async def counter_cells(
        self, switch: str, name: str, indices: Iterable[int]
    ) -> dict[int, tuple[int, int]]:
        """Some cells of a counter: (packets, bytes) by index."""
        return await self._managed(switch).client.read_counter_cells(name, indices)

    async def take_trace(self, switch: str) -> lab_pb2.TakeTraceResponse:
        """The packets that have left traced ports since the last call."""
        return await self._managed(switch).client.take_trace()

    # ------------------------------------------------------------------ helpers

    def _managed(self, switch: str) -> ManagedSwitch:
        try:
            return self._switches[switch]
        except KeyError:
            choices = ", ".join(self._switches)
            raise ConfigurationError(f"switch {switch!r} is not one of: {choices}") from None
