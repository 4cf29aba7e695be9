"""The replication groups of one switch: which group number copies what to which ports, and how many
packets each group has counted.

The ports of a group never change. A group belongs to one group address with one set of ports. When
members come and go, the route of the address is changed to another group. So the program's counter
`entered`, which counts packets by group before they are copied, tells how many packets entered each
port's queue (docs/p4.md, "Fates"). This module has no clock; its only I/O is a function, passed in,
that reads counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from ipaddress import IPv4Address
from itertools import islice

from tiercast_controller.base.errors import SwitchError
from tiercast_controller.multicast.trees import Copies, MulticastState, SessionState, plan
from tiercast_controller.p4runtime.entities import Update

MAX_GROUP = 16383  # the counter's cells for groups: twice as many as there can be routes
# The number of groups without a route that a switch keeps. A packet that looked up its route just
# before a change still finds its old group, and a set of ports that returns needs no new group.
KEPT = 1024
_COUNTED_AT_ONCE = 64

# Reads the cells of groups: packets since the switch loaded the program, by group number.
ReadCounts = Callable[[Iterable[int]], Awaitable[Mapping[int, int]]]


class ReplicationGroups:
    """Usage: make_room (where counts matter), plan, carry out the batches, written."""

    def __init__(self, kept: int = KEPT, highest: int = MAX_GROUP):
        """`kept` is the number of groups without a route that may exist before the oldest gets
        other ports. `highest` is the highest group number."""
        self._kept = kept
        self._highest = highest
        self._numbers: dict[Copies, int] = {}
        self._copies: dict[int, Copies] = {}  # the inverse
        self._held: dict[int, frozenset[int]] = {}  # what the switch holds, as far as written
        # By address: the groups that a route leads to, or may lead to after an unfinished write.
        self._routed: dict[IPv4Address, set[int]] = defaultdict(set)
        # The other groups in the order in which they lost their routes: a serial number of that
        # loss, by group number. _final holds those that have been counted since.
        self._unrouted: dict[int, int] = {}
        self._final: set[int] = set()
        self._losses = 0
        self._foreign: set[int] = set()  # found on the switch, but not kept
        self._last = 0  # the last number given for the first time
        self._never_given = highest
        self._counted: dict[int, int] = {}  # by number: the cell's value when last read
        self._entered: dict[tuple[IPv4Address, int], int] = defaultdict(int)

    # ------------------------------------------------------------------------------ numbers

    def take_over(self, found: MulticastState, wanted: SessionState) -> None:
        """Keeps those groups of an earlier controller that are wanted; the next plan removes the
        others. To be called first."""
        self._held = dict(found.groups)
        for address, ports in wanted.copies.items():
            number = found.routes.get(address, 0)
            fits = 0 < number <= self._highest and number not in self._copies
            if fits and found.groups.get(number) == ports:
                self._give(number, (address, ports))
        self._foreign = set(found.groups) - set(self._copies)
        self._never_given -= sum(number <= self._highest for number in found.groups)

    async def make_room(self, wanted: SessionState, read: ReadCounts) -> None:
        """Reads the counts of groups whose numbers `plan` may give to other ports. Raises
        SwitchError."""
        while numbers := self._to_count(wanted):
            lost = {number: self._unrouted[number] for number in numbers}
            self.count(await read(numbers))
            # A group that was used in the meantime has to be read again.
            self._final |= {n for n in numbers if self._unrouted.get(n) == lost[n]}

    def _to_count(self, wanted: SessionState) -> list[int]:
        new = sum(copies not in self._numbers for copies in wanted.copies.items())
        enough = len(self._unrouted) <= self._kept and new <= self._never_given
        if not new or enough:
            return []
        oldest = islice(self._unrouted, max(new, _COUNTED_AT_ONCE))
        return [number for number in oldest if number not in self._final]

    def plan(
        self, installed: MulticastState, wanted: SessionState
    ) -> tuple[MulticastState, list[list[Update]]]:
        """The desired state with group numbers, and the batches that lead to it from `installed`.
        Groups that are no longer needed stay on the switch. Raises SwitchError if there is no free
        number."""
        desired = MulticastState(tops=dict(wanted.tops), upstream=dict(wanted.upstream))
        for address, ports in wanted.copies.items():
            number = self._numbers.get((address, ports)) or self._take((address, ports))
            self._use(number, address)
            desired.routes[address] = number
            desired.groups[number] = ports
        before = dict(installed.groups)
        before |= {n: self._held[n] for n in desired.groups if n in self._held}
        kept = {n: ports for n, ports in before.items() if n not in self._foreign}
        batches = plan(
            replace(installed, groups=before), replace(desired, groups=kept | desired.groups)
        )
        return desired, batches

    def found(self, held: Mapping[int, frozenset[int]], desired: MulticastState) -> None:
        """Records which groups of a failed write the switch holds."""
        for number in desired.groups:
            self._held.pop(number, None)
            if number in held:
                self._held[number] = held[number]

    def written(self, addresses: Iterable[IPv4Address], desired: MulticastState) -> None:
        """Records that all batches of a plan were written. `addresses` are all those that the plan
        could have changed."""
        for number in self._foreign:
            self._held.pop(number, None)
        self._foreign.clear()
        self._held |= desired.groups
        for address in addresses:
            now = {desired.routes[address]} if address in desired.routes else set()
            for number in sorted(self._routed[address] - now):
                self._losses += 1
                self._unrouted[number] = self._losses
            self._routed[address] = now

    def _take(self, copies: Copies) -> int:
        number = self._unused() if len(self._unrouted) <= self._kept else 0
        if not number:
            if not self._unrouted:
                raise SwitchError(f"all {self._highest} replication groups are in use")
            number = next(iter(self._unrouted))
            del self._numbers[self._copies[number]]
        self._give(number, copies)
        return number

    def _unused(self) -> int:
        """A number that was never used; 0 if none is left."""
        if not self._never_given:
            return 0
        self._never_given -= 1
        self._last += 1
        while self._last in self._copies or self._last in self._foreign:
            self._last += 1
        return self._last

    def _give(self, number: int, copies: Copies) -> None:
        self._numbers[copies] = number
        self._copies[number] = copies
        self._use(number, copies[0])

    def _use(self, number: int, address: IPv4Address) -> None:
        self._routed[address].add(number)
        self._unrouted.pop(number, None)
        self._final.discard(number)

    @property
    def held(self) -> Mapping[int, frozenset[int]]:
        """The ports of the groups that the switch holds, as far as written."""
        return self._held

    # ------------------------------------------------------------------------------ counts

    def __iter__(self) -> Iterator[int]:
        """The numbers that are in use."""
        return iter(list(self._copies))

    def count(self, packets: Mapping[int, int]) -> None:
        """Takes the value of groups' cells: packets since the switch loaded the program, by
        number."""
        for number, held in packets.items():
            before = self._counted.get(number, 0)
            if held <= before:  # nothing new, or an older read that was answered later
                continue
            self._counted[number] = held
            address, ports = self._copies[number]
            for port in ports:
                self._entered[address, port] += held - before

    @property
    def entered(self) -> Mapping[tuple[IPv4Address, int], int]:
        """Packets that entered a port's queue, by (group address, port), as of the last counts."""
        return self._entered
