"""One switch of the run: its client, and what the controller has written to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict

from tiercast.v1 import lab_pb2, queue_pb2

from tiercast_controller.base.errors import SwitchError, UnsupportedError
from tiercast_controller.multicast.installer import Installer
from tiercast_controller.multicast.policer import REPORTS_AT_ONCE, REPORTS_PER_S
from tiercast_controller.multicast.replication import ReplicationGroups
from tiercast_controller.multicast.trees import (
    MulticastState,
    SessionState,
    Tree,
    TreeKey,
    from_entities,
)
from tiercast_controller.network.aggregation import SUMMARY_CLONES
from tiercast_controller.network.fates import Entered, entered_group_cell, entered_port_cell
from tiercast_controller.network.marking import PortQueue
from tiercast_controller.network.topology import Switch
from tiercast_controller.p4runtime.client import P4RuntimeClient, updates_to
from tiercast_controller.p4runtime.entities import MeterCell, Op, TableEntry, Update
from tiercast_controller.p4runtime.roles import Roles

STATIC_TABLES = (
    "source_guard",
    "ipv4_host",
    "ipv4_lpm",
    "next_hop",
    "ipv4_spread",
    "port_marking",
    "queue_class",
    "group_columns",
    "aggregator",
)
MULTICAST_TABLES = ("ipv4_multicast", "top_group")
_BATCH = 500  # updates per write of static entries: well under gRPC's 4 MiB


class ManagedSwitch:
    def __init__(self, switch: Switch, roles: Roles, on_failure: Callable[[SwitchError], None]):
        self.switch = switch
        self.roles = roles
        self.client = P4RuntimeClient(
            switch.name, switch.device_id, switch.address, roles.program, switch.role, switch.tls
        )
        self._on_failure = on_failure
        self._groups = ReplicationGroups()
        # Whether this controller made every group that has counted since the program was loaded.
        self._made_all_groups = False
        self._installers: dict[TreeKey, Installer] = {}

    async def start(
        self,
        static: list[TableEntry],
        queues: Mapping[int, PortQueue],
        timeout_s: float,
        hosts: Collection[int] = (),
        polices: bool = True,
    ) -> MulticastState:
        """Connects, loads the program and the static entries, and sets the ports' queues.
        `hosts` are the ports that lead to hosts, whose IGMP the switch limits if `polices`. Returns
        the multicast state that an earlier controller left."""
        await self.client.connect(timeout_s)
        self._made_all_groups = await self.client.set_pipeline()
        self.client.lost.add_done_callback(self._on_lost)
        if any(item.table == "aggregator" for item in static):
            await self.client.set_clone_sessions(SUMMARY_CLONES)
        await self._set_static(static)
        await self._police_igmp(hosts, polices)
        await self._set_queues(queues)
        return await self.read_multicast()

    async def _set_static(self, static: list[TableEntry]) -> None:
        """Makes the program's entries those that the controller's stand for, and the fixed ones."""
        roles = self.roles
        fixed = roles.fixed
        tables = dict.fromkeys((*roles.tables(STATIC_TABLES), *(item.table for item in fixed)))
        found = await self.client.read_entries(tables)
        kept = {item.key for item in fixed}
        belong = roles.only(STATIC_TABLES, found)
        belong += [item for item in found if item.key in kept and item not in belong]
        for batch in updates_to(belong, [*roles.entries(static), *fixed]):
            for at in range(0, len(batch), _BATCH):
                await self.client.write(batch[at : at + _BATCH])
        # Not every switch says what its registers hold.
        cells = [Update(Op.MODIFY, cell) for cell in roles.cells(static)]
        for at in range(0, len(cells), _BATCH):
            await self.client.write(cells[at : at + _BATCH])

    async def _police_igmp(self, hosts: Collection[int], polices: bool) -> None:
        meter = self.roles.igmp_meter
        if meter is None:
            return
        rate = REPORTS_PER_S if polices else 0
        held = await self.client.read_meter(meter, hosts)
        # A change fills a bucket again, so what is right is left alone.
        wanted = [
            MeterCell(meter, port, rate, REPORTS_AT_ONCE) for port in hosts if held[port] != rate
        ]
        await self.client.write([Update(Op.MODIFY, cell) for cell in wanted])

    async def write(self, updates: Iterable[Update]) -> None:
        """Writes the controller's updates in one batch."""
        await self.client.write(self.roles.updates(updates))

    async def _set_queues(self, wanted: Mapping[int, PortQueue]) -> None:
        """RED on arrival and queues by priority where they are wanted, and nowhere else."""
        try:
            ports = (await self.client.get_ports()).ports
        except UnsupportedError:
            if not wanted:
                return
            raise self._unsupported(wanted) from None
        one_queue = queue_pb2.PriorityQueues(queues=1)
        has = {port.port: port for port in ports}
        for number in sorted(has.keys() | wanted.keys()):
            wants = wanted.get(number, PortQueue())
            red, priority = queue_pb2.Red(), one_queue
            if wants.red is not None:
                red = queue_pb2.Red(**asdict(wants.red))
            if wants.priority is not None:
                priority = queue_pb2.PriorityQueues(**asdict(wants.priority))
            port = has.get(number, lab_pb2.PortStats())
            queues = port.priority_queues if port.HasField("priority_queues") else one_queue
            request = lab_pb2.SetLinkRequest(port=number)
            if port.red != red:
                request.red.CopyFrom(red)
            if queues != priority:
                request.priority_queues.CopyFrom(priority)
            if request.HasField("red") or request.HasField("priority_queues"):
                await self.client.set_link(request)

    def _unsupported(self, wanted: Mapping[int, PortQueue]) -> UnsupportedError:
        two = sorted(port for port, queue in wanted.items() if queue.priority is not None)
        listed = ", ".join(map(str, two or sorted(wanted)))
        what, valid = "RED with `where: arrival`", "where: departure"
        if two:
            what, valid = "two queues by priority", "a marking of one queue, such as pi2"
        return UnsupportedError(
            f"{self.switch.name}: {what} at port {listed}, but the switch has no tiercast.v1; "
            f"valid: {valid}, or tiercast-switch"
        )

    async def set_up_trees(self, found: MulticastState, trees: Iterable[Tree]) -> None:
        """Changes the state that was found to what the trees need, and removes everything else."""
        trees = list(trees)
        wanted = SessionState()
        for tree in trees:
            wanted.merge(tree.state(self.switch.name))
        self._groups.take_over(found, wanted)
        desired, batches = self._groups.plan(found, wanted)
        for batch in batches:
            await self.write(batch)
        self._groups.written((), desired)
        for tree in trees:
            self._installers[tree.key] = Installer(
                tree,
                self._groups,
                self.write,
                self.read_multicast,
                self._read_counts,
                self._on_failure,
                tree.part_of(desired),
            )

    def installer(self, key: TreeKey) -> Installer:
        return self._installers[key]

    async def read_multicast(self) -> MulticastState:
        found = await self.client.read_entries(self.roles.tables(MULTICAST_TABLES))
        entries = self.roles.own(MULTICAST_TABLES, found)
        return from_entities(entries, await self.client.read_groups())

    async def read_entered(self, ports: Iterable[int]) -> Entered | None:
        """What has entered the ports' queues. None if groups of an earlier controller have counted
        too, since nobody knows their ports."""
        if not self._made_all_groups:
            return None
        alone = {entered_port_cell(port): port for port in ports}
        groups = {entered_group_cell(number): number for number in self._groups}
        packets = await self.client.read_cells([*alone, *groups])
        self._groups.count({number: packets[cell] for cell, number in groups.items()})
        return Entered({port: packets[cell] for cell, port in alone.items()}, self._groups.entered)

    async def close(self) -> None:
        for installer in self._installers.values():
            await installer.close()
        await self.client.close()

    async def _read_counts(self, numbers: Iterable[int]) -> Mapping[int, int]:
        if not self.roles.has_accounts:
            return dict.fromkeys(numbers, 0)
        cells = {entered_group_cell(number): number for number in numbers}
        packets = await self.client.read_cells(cells)
        return {number: packets[cell] for cell, number in cells.items()}

    def _on_lost(self, lost: asyncio.Future[None]) -> None:
        if not lost.cancelled():
            reason = lost.exception()
            assert isinstance(reason, SwitchError)  # the client only sets this type
            self._on_failure(reason)
