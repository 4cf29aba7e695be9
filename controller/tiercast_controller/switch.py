"""One switch of the run: its client, and what the controller has put there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from .aggregation import SUMMARY_CLONES
from .errors import SwitchError
from .installer import Installer
from .multicast import MulticastState, SessionTrees, from_entities, plan
from .p4runtime import P4RuntimeClient, updates_to
from .program import Program, TableEntry
from .topology import Switch

STATIC_TABLES = ("ipv4_host", "ipv4_lpm", "port_marking", "group_columns", "aggregator")
MULTICAST_TABLES = ("ipv4_multicast", "top_group")
_BATCH = 500  # updates per write of static entries, well under gRPC's 4 MiB


class ManagedSwitch:
    def __init__(self, switch: Switch, program: Program, on_failure: Callable[[SwitchError], None]):
        self.switch = switch
        self.client = P4RuntimeClient(switch.name, switch.device_id, switch.address, program)
        self._on_failure = on_failure
        self._installers: dict[int, Installer] = {}

    async def start(self, static: list[TableEntry], timeout_s: float) -> MulticastState:
        """Connects, loads the program and the static entries. Returns the multicast state that an
        earlier controller left."""
        await self.client.connect(timeout_s)
        await self.client.set_pipeline()
        self.client.lost.add_done_callback(self._on_lost)
        if any(item.table == "aggregator" for item in static):
            await self.client.set_clone_sessions(SUMMARY_CLONES)
        found = await self.client.read_entries(STATIC_TABLES)
        for batch in updates_to(found, static):
            for at in range(0, len(batch), _BATCH):
                await self.client.write(batch[at : at + _BATCH])
        return await self.read_multicast()

    async def set_up_sessions(self, found: MulticastState, trees: Iterable[SessionTrees]) -> None:
        """Changes what was found to what the trees need, and removes everything else."""
        trees = list(trees)
        desired = MulticastState()
        for tree in trees:
            desired.merge(tree.state(self.switch.name))
        for batch in plan(found, desired):
            await self.client.write(batch)
        for tree in trees:
            self._installers[tree.session.number] = Installer(
                self.client.write,
                partial(self._read_session, tree),
                self._on_failure,
                tree.state(self.switch.name),
            )

    def installer(self, session: int) -> Installer:
        return self._installers[session]

    async def read_multicast(self) -> MulticastState:
        entries = await self.client.read_entries(MULTICAST_TABLES)
        return from_entities(entries, await self.client.read_groups())

    async def close(self) -> None:
        for installer in self._installers.values():
            await installer.close()
        await self.client.close()

    async def _read_session(self, tree: SessionTrees) -> MulticastState:
        return (await self.read_multicast()).of_session(tree.session.number, tree.mgids)

    def _on_lost(self, lost: asyncio.Future[None]) -> None:
        if not lost.cancelled():
            reason = lost.exception()
            assert isinstance(reason, SwitchError)  # as the client says
            self._on_failure(reason)
