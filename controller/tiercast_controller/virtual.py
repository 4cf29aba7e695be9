"""The controller's decisions without switches, sockets or a clock, for a run in virtual time.

Routes, marking, trees and the order of changes are the same as Controller's. The simulator of the
switches asks at each join and leave, and carries out the updates that it gets, in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tiercast.v1.simulation_pb2 import SwitchUpdate

from tiercast_controller.multicast.membership import LayerMember, Membership
from tiercast_controller.multicast.replication import ReplicationGroups
from tiercast_controller.multicast.trees import MulticastState, SessionTrees, group_sources
from tiercast_controller.network.aggregation import SUMMARY_CLONES
from tiercast_controller.network.fates import fate_columns
from tiercast_controller.network.topology import Session, Topology
from tiercast_controller.p4runtime.entities import (
    CloneSession,
    Entity,
    MulticastGroup,
    Op,
    RegisterCell,
    TableEntry,
    Update,
    entry_changes,
)
from tiercast_controller.p4runtime.program import Program
from tiercast_controller.p4runtime.roles import Roles
from tiercast_controller.programs import all_routes, roles_of


class VirtualController:
    def __init__(
        self,
        topology: Topology,
        sessions: Sequence[Session],
        programs: Program | Mapping[str, Program],
        leave_latency_s: float = 0,
    ):
        """`programs` and `leave_latency_s` are as in Controller. Raises ConfigurationError if the
        arguments do not fit together."""
        topology.check(sessions)
        self._topology = topology
        self._roles = roles_of(topology, programs, group_sources(topology, sessions))
        self._sessions = list(sessions)
        self._columns = fate_columns(topology, sessions)
        self._trees = {session.number: SessionTrees(topology, session) for session in sessions}
        self._announced = dict.fromkeys(self._trees, -1)
        self._membership = Membership(leave_latency_s=leave_latency_s)
        # Changes fall between two packets, and nobody reads the groups' counts.
        self._groups = {switch.name: ReplicationGroups(kept=0) for switch in topology.switches}
        self._installed: dict[tuple[str, int], MulticastState] = {}
        self._routes: dict[str, list[TableEntry]] = {}  # by switch

    def first_updates(self) -> list[SwitchUpdate]:
        """What every switch gets before the run: routes, marking, columns of fates, aggregators."""
        self._routes = all_routes(self._topology, self._sessions, self._roles)
        updates = []
        for switch, entries in self._routes.items():
            wanted: list[Entity] = []
            if any(item.table == "aggregator" for item in entries):
                wanted += [CloneSession(number, port) for number, port in SUMMARY_CLONES.items()]
            wanted += (*entries, *self._columns[switch].entries())
            first = self._described(switch, (Update(Op.INSERT, one) for one in wanted))
            fixed = (Update(Op.INSERT, one) for one in self._roles[switch].fixed)
            updates += [*first, *(described(self._roles[switch], switch, one) for one in fixed)]
        return updates

    def port_changed(
        self, switch: str, port: int, up: bool | None = None, delay_ns: int | None = None
    ) -> list[SwitchUpdate]:
        """The updates after a direction of a link failed, returned or got another delay; empty if
        no path changes."""
        if not self._topology.change_link(switch, port, up, delay_ns):
            return []
        before, self._routes = self._routes, all_routes(self._topology, self._sessions, self._roles)
        updates = [
            update
            for name, entries in self._routes.items()
            for update in self._described(name, entry_changes(before[name], entries))
        ]
        for tree in self._trees.values():
            ranks = range(tree.session.layers)
            for name in tree.reroute():
                updates += self._planned(name, tree, ranks)
        return updates

    def change(
        self, host: str, session: int, rank: int, joins: bool, now_s: float
    ) -> list[SwitchUpdate]:
        """The updates that follow a host's report; empty if it changes nothing, or nothing yet:
        with a leave latency, `expire` returns those of a leave."""
        tree = self._trees[session]
        switch, port = self._topology.attachment(host)
        if (switch, port) == (tree.source_switch, tree.source_port):
            return []  # the source's own port would only get its packets back
        member = LayerMember(session, rank, switch, port)
        reporter = self._topology.host(host).interface.ip
        if joins:
            counts = self._membership.join(member, reporter, now_s)
        else:
            counts = self._membership.leave(member, reporter, now_s)
        return self._grown(member, joins) if counts else []

    def expire(self, now_s: float) -> list[SwitchUpdate]:
        """The updates that follow leaves whose latency is over."""
        gone = self._membership.expire(now_s)
        return [update for member in gone for update in self._grown(member, joins=False)]

    def _grown(self, member: LayerMember, joins: bool) -> list[SwitchUpdate]:
        """The updates after a place of membership appeared or disappeared."""
        tree = self._trees[member.session]
        change = tree.join if joins else tree.leave
        return [
            update
            for name in sorted(change(member.rank, member.switch, member.port))
            for update in self._planned(name, tree, [member.rank])
        ]

    def _planned(self, name: str, tree: SessionTrees, ranks: Iterable[int]) -> list[SwitchUpdate]:
        """The updates that bring a switch to the tree's state; these ranks may change."""
        key = name, tree.session.number
        installed = self._installed.get(key, MulticastState())
        desired, batches = self._groups[name].plan(installed, tree.state(name))
        self._groups[name].written([tree.session.group(rank) for rank in ranks], desired)
        self._installed[key] = desired
        return [update for batch in batches for update in self._described(name, batch)]

    def _described(self, switch: str, updates: Iterable[Update]) -> list[SwitchUpdate]:
        roles = self._roles[switch]
        return [described(roles, switch, update) for update in roles.updates(updates)]

    def new_top_rank(self, session: int) -> int | None:
        """The highest rank that has a member anywhere, -1 if there are no members; None if the last
        call returned the same."""
        top_rank = self._trees[session].top_rank()
        if self._announced[session] == top_rank:
            return None
        self._announced[session] = top_rank
        return top_rank


def described(roles: Roles, switch: str, update: Update) -> SwitchUpdate:
    """A program's update, with its names and in its order."""
    op, entity = SwitchUpdate.Op.Value(update.op.name), update.entity
    result = SwitchUpdate(switch=switch, op=op)
    if isinstance(entity, MulticastGroup):
        result.group.id = entity.mgid
        result.group.ports.extend(sorted(entity.ports))
    elif isinstance(entity, CloneSession):
        assert entity.port is not None  # none goes
        result.clone.id, result.clone.port = entity.number, entity.port
    elif isinstance(entity, RegisterCell):
        result.cell.CopyFrom(roles.described(entity))
    elif isinstance(entity, TableEntry):
        result.entry.CopyFrom(roles.program.describe_entry(entity))
    return result
