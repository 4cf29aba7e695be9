"""What happened to the packets at each port, from the P4 counters `ingress_fates`, `entered` and
`egress_fates`.

A counter of fates is a matrix with one row per fate. The columns of `egress_fates` are ports, by
their numbers, and groups at ports, as assigned in the table `group_columns` (docs/p4.md, "Fates").
The columns are assigned here. They depend only on the topology and the sessions, so they are the
same after every restart. The cells of `entered` are ports and replication groups; replication.py
knows the groups' ports.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from ipaddress import IPv4Address

from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.network.topology import Session, Topology
from tiercast_controller.p4runtime.entities import TableEntry, entry
from tiercast_controller.p4runtime.roles import FATES

INGRESS, ENTERED, EGRESS = FATES
PORTS = 512  # columns of ingress_fates, and the first columns of egress_fates and entered
EGRESS_COLUMNS = 33280
EGRESS_ROWS = 4
MAX_GROUPS = 8192  # entries of group_columns


@dataclass(frozen=True)
class IngressFates:
    """The packets that came in through a port. Each has exactly one fate."""

    # In the order of the program's IngressFate.
    forwarded: int
    invalid: int  # header, checksum or length
    expired: int  # time to live
    no_group: int  # nobody subscribes
    no_route: int
    to_controller: int
    aggregated: int
    from_controller: int
    # 0 in a program that does not count them.
    refused: int = 0  # not from where it claims to be
    policed: int = 0  # IGMP above its port's rate

    @property
    def received(self) -> int:
        return sum(getattr(self, field.name) for field in fields(self))


@dataclass(frozen=True)
class EgressFates:
    """The packets that were handed to a port's queue. Each is dropped by the queue, waits, or is
    served; a served packet leaves, is dropped or is pruned."""

    entered: int | None  # None: not known
    left: int
    marked: int  # by this port, among those that left
    policy_drops: int  # by the port's policy
    pruned: int  # copies that would have left through the port where they came in

    @property
    def served(self) -> int:
        return self.left + self.policy_drops + self.pruned

    def __add__(self, other: EgressFates) -> EgressFates:
        return EgressFates(
            None if self.entered is None or other.entered is None else self.entered + other.entered,
            self.left + other.left,
            self.marked + other.marked,
            self.policy_drops + other.policy_drops,
            self.pruned + other.pruned,
        )


@dataclass(frozen=True)
class Entered:
    """The packets that have entered ports' queues."""

    alone: Mapping[int, int]  # by port: sent to this port only
    copies: Mapping[tuple[IPv4Address, int], int]  # by group address and port


@dataclass(frozen=True)
class PortFates:
    ingress: IngressFates
    rest: EgressFates  # packets of no session's group: unicast, and groups of any source
    layers: Mapping[tuple[int, int], EgressFates]  # by (session, rank)

    @property
    def egress(self) -> EgressFates:
        return sum(self.layers.values(), self.rest)


class FateColumns:
    """The columns of one switch, and how to read them."""

    def __init__(self, ports: Iterable[int], sessions: Sequence[Session]):
        self.ports = sorted(ports)
        self._groups = {
            (session.number, rank): session.group(rank)
            for session in sessions
            for rank in range(session.layers)
        }
        last = max(self.ports, default=0)
        width = last + 1
        # For each group (session, rank), the column of port 0.
        self.first = {group: PORTS + width * i for i, group in enumerate(self._groups)}
        most = min(MAX_GROUPS, (EGRESS_COLUMNS - PORTS) // width)
        if len(self._groups) > most:
            raise ConfigurationError(
                f"{len(self._groups)} groups at ports up to {last} cannot be counted "
                f"separately; valid: up to {most} groups"
            )

    def entries(self) -> list[TableEntry]:
        return [
            entry("group_columns", {"dst_addr": int(address)}, "set_columns", {"first": first})
            for address, first in zip(self._groups.values(), self.first.values(), strict=True)
        ]

    def cells(self, ingress_cells: int) -> Iterator[tuple[str, int]]:
        """The cells, as (counter, index), that `fates` needs. `ingress_cells` are those that the
        program's counter `ingress_fates` has."""
        for port in self.ports:
            yield from (cell for cell in _cells(INGRESS, port) if cell[1] < ingress_cells)
            for first in (0, *self.first.values()):
                yield from _cells(EGRESS, first + port)

    def fates(
        self, packets: Mapping[tuple[str, int], int], entered: Entered | None
    ) -> dict[int, PortFates]:
        """The fates by port. `packets` holds the packets of each of cells(); those that the program
        has not are 0."""
        others: dict[int, int] = {}
        if entered is not None:
            others = dict(entered.alone)
            of_sessions = set(self._groups.values())
            for (address, port), copies in entered.copies.items():
                if address not in of_sessions:
                    others[port] += copies

        def egress(port: int, first: int = 0, address: IPv4Address | None = None) -> EgressFates:
            cells = _cells(EGRESS, first + port)
            left, marked, dropped, pruned = (packets[cell] for cell in cells)
            came = None
            if entered is not None:
                came = entered.copies.get((address, port), 0) if address else others[port]
            return EgressFates(came, left + marked, marked, dropped, pruned)

        return {
            port: PortFates(
                IngressFates(*(packets.get(cell, 0) for cell in _cells(INGRESS, port))),
                egress(port),
                {
                    group: egress(port, first, self._groups[group])
                    for group, first in self.first.items()
                },
            )
            for port in self.ports
        }


def entered_port_cell(port: int) -> tuple[str, int]:
    return ENTERED, port


def entered_group_cell(mgid: int) -> tuple[str, int]:
    return ENTERED, PORTS + mgid


def _cells(counter: str, column: int) -> list[tuple[str, int]]:
    """The cells of one column, by fate."""
    columns, rows = (
        (PORTS, len(fields(IngressFates))) if counter == INGRESS else (EGRESS_COLUMNS, EGRESS_ROWS)
    )
    return [(counter, columns * row + column) for row in range(rows)]


def fate_columns(topology: Topology, sessions: Sequence[Session]) -> dict[str, FateColumns]:
    """The columns by switch. Raises ConfigurationError if a switch has more groups and ports than
    the program has columns."""
    columns = {}
    for switch in topology.switches:
        try:
            columns[switch.name] = FateColumns(topology.ports(switch.name), sessions)
        except ConfigurationError as error:
            raise ConfigurationError(f"switch {switch.name}: {error}") from None
    return columns
