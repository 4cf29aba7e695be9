"""The replication groups of one switch: which number copies what to which ports, and what each has
counted.

A group's ports never change. A group belongs to one group address with one set of ports; members
that come and go change the route from the address to a group. So the program's counter `entered`,
which counts packets by group before they are copied, says what entered each port's queue
(docs/p4.md, "Fates"). No clock, and no I/O but a read of counts that is passed in.
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

MAX_GROUP = 16383  # the counter's cells of groups; twice as many as there can be routes
# Groups without a route that a switch keeps. A packet that looked its route up just before this
# changed still finds its old group, and a set of ports that returns needs no new one.
KEPT = 1024
_COUNTED_AT_ONCE = 64

# Reads cells of groups: number -> packets since the switch loaded the program.
ReadCounts = Callable[[Iterable[int]], Awaitable[Mapping[int, int]]]


class ReplicationGroups:
    """Use: make_room, where counts matter; plan; carry out its batches; written."""

    def __init__(self, kept: int = KEPT, highest: int = MAX_GROUP):
        """kept: groups without a route, before the oldest is given to other ports. highest: number
        that a group can have."""
        self._kept = kept
        self._highest = highest
        self._numbers: dict[Copies, int] = {}
        self._copies: dict[int, Copies] = {}  # the inverse
        self._held: dict[int, frozenset[int]] = {}  # by the switch, so far as written
        # By address: groups that a route points to, or may after an unfinished write.
        self._routed: dict[IPv4Address, set[int]] = defaultdict(set)
        # The others, in the order in which they lost their routes: number -> serial number of that
        # loss. And those of them that have been counted since.
        self._unrouted: dict[int, int] = {}
        self._final: set[int] = set()
        self._losses = 0
        self._foreign: set[int] = set()  # found on the switch, and not kept
        self._last = 0  # number given of those that never were
        self._never_given = highest
        self._counted: dict[int, int] = {}  # number -> what its cell held when last read
        self._entered: dict[tuple[IPv4Address, int], int] = defaultdict(int)

    # ------------------------------------------------------------------------------ numbers

    def take_over(self, found: MulticastState, wanted: SessionState) -> None:
        """Keeps the groups that an earlier controller left and that are wanted; the next plan
        removes the others. Before anything else."""
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
            # One that was in use meanwhile has to be read again.
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
        """The state with numbers, and batches that lead to it from `installed`. Groups that nothing
        needs any more stay on the switch. Raises SwitchError without a free number."""
        desired = MulticastState(tops=dict(wanted.tops))
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
        """What the switch holds of the groups that a failed write should have made."""
        for number in desired.groups:
            self._held.pop(number, None)
            if number in held:
                self._held[number] = held[number]

    def written(self, addresses: Iterable[IPv4Address], desired: MulticastState) -> None:
        """All batches of a plan have been. `addresses`: all that it could have changed."""
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
        """A number that was never given; 0: none is left."""
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

    # ------------------------------------------------------------------------------ counts

    def __iter__(self) -> Iterator[int]:
        """The numbers that have been given."""
        return iter(list(self._copies))

    def count(self, packets: Mapping[int, int]) -> None:
        """What cells of groups hold: number -> packets since the switch loaded the program."""
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
        """(group address, port) -> packets that entered the port's queue, as of the last counts."""
        return self._entered
