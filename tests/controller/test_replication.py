"""Replication groups whose ports never change: what entered each port is known whichever numbers
are reused, and failed writes are repaired."""

import asyncio
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiercast_controller.base.errors import SwitchError
from tiercast_controller.multicast.replication import MAX_GROUP, ReplicationGroups
from tiercast_controller.multicast.trees import MulticastState, SessionState, plan
from tiercast_controller.network.topology import Session
from tiercast_controller.p4runtime.entities import MulticastGroup, Op

SESSIONS = [Session(1, 2, "h0"), Session(9, 1, "h1")]
GROUPS = [session.group(rank) for session in SESSIONS for rank in range(session.layers)]


class Counting:
    """A switch's groups and routes, and its counter, beside what really entered each queue."""

    def __init__(self):
        self.ports: dict[int, frozenset[int]] = {}
        self.routes: dict = {}
        self.cells: Counter[int] = Counter()
        self.entered: Counter = Counter()
        self.late: list = []  # packets whose route was looked up but that are not counted yet
        self.reads = 0

    def apply(self, update) -> None:
        entity = update.entity
        if isinstance(entity, MulticastGroup):
            self.ports[entity.mgid] = entity.ports
            assert update.op is not Op.DELETE
        elif entity.table == "ipv4_multicast":
            (address,) = (a for a in GROUPS if int(a) == dict(entity.match)["dst_addr"])
            self.routes[address] = dict(entity.params)["mgid"]
            if update.op is Op.DELETE:
                del self.routes[address]

    def look_up(self, address) -> None:
        if address in self.routes:
            number = self.routes[address]
            self.late.append((address, number, self.ports[number]))

    def send(self) -> None:
        for address, number, ports in self.late:
            assert self.ports[number] == ports, "the group changed on the way"
            self.cells[number] += 1
            self.entered.update((address, port) for port in ports)
        self.late.clear()

    async def read(self, numbers) -> dict[int, int]:
        self.reads += 1
        await asyncio.sleep(0)
        return {number: self.cells[number] for number in numbers}


@given(seed=st.integers(), kept=st.integers(1, 6), spare=st.integers(1, 20))
def test_what_entered_is_exact_whatever_numbers_are_given_away(seed, kept, spare) -> None:
    """Members come and go while packets are between look-up and count. There are few numbers, and
    counts are read rarely."""
    order = random.Random(seed)
    switch, groups = Counting(), ReplicationGroups(kept=kept, highest=2 * len(GROUPS) + spare)
    installed = {session.number: MulticastState() for session in SESSIONS}

    async def run() -> None:
        for _ in range(200):
            session = order.choice(SESSIONS)
            addresses = [session.group(rank) for rank in range(session.layers)]
            sets = {a: frozenset(p for p in range(1, 5) if order.random() < 0.5) for a in addresses}
            wanted = SessionState({a: ports for a, ports in sets.items() if ports})
            await groups.make_room(wanted, switch.read)
            desired, batches = groups.plan(installed[session.number], wanted)
            for address in order.choices(GROUPS, k=3):
                switch.look_up(address)
            for batch in batches:
                for update in batch:
                    switch.apply(update)
            groups.written(addresses, desired)
            installed[session.number] = desired
            switch.send()
            for address in order.choices(GROUPS, k=order.randrange(5)):
                switch.look_up(address)
            switch.send()
            if order.random() < 0.05:
                groups.count(await switch.read(groups))
        groups.count(await switch.read(groups))

    asyncio.run(run())
    assert {key: n for key, n in groups.entered.items() if n} == switch.entered
    assert max(switch.ports) <= 2 * len(GROUPS) + spare


def test_an_older_read_that_is_answered_later_changes_nothing() -> None:
    groups, address = ReplicationGroups(), GROUPS[0]
    groups.plan(MulticastState(), SessionState({address: frozenset({2, 3})}))
    groups.count({1: 9})
    groups.count({1: 7})
    assert groups.entered == {(address, 2): 9, (address, 3): 9}


def test_a_group_that_was_not_made_is_made_at_the_next_attempt() -> None:
    """The first batch fails: one of two groups exists, and no route."""
    groups = ReplicationGroups()
    wanted = SessionState({GROUPS[0]: frozenset({2}), GROUPS[1]: frozenset({3})})
    desired, _ = groups.plan(MulticastState(), wanted)
    groups.found({1: frozenset({2})}, desired)
    again, (made, routed) = groups.plan(MulticastState({1: frozenset({2})}), wanted)
    assert again == desired
    assert list(map(str, made)) == ["INSERT multicast group 2 -> ports [3]"]
    assert len(routed) == 2


def test_all_groups_in_use() -> None:
    groups = ReplicationGroups(highest=2)
    wanted = SessionState({address: frozenset({2}) for address in GROUPS})
    with pytest.raises(SwitchError, match="all 2 replication groups are in use"):
        groups.plan(MulticastState(), wanted)


def test_as_many_groups_as_the_program_counts(program) -> None:
    (counter,) = (c for c in program.p4info.counters if c.preamble.name == "entered")
    assert counter.size == 512 + MAX_GROUP + 1


def test_groups_that_nobody_asked_for_go_at_last() -> None:
    """A switch that another controller left. A group is removed only after the routes to it."""
    stale = MulticastState({7: frozenset({2}), 1: frozenset({3})}, {GROUPS[2]: 7})
    groups, wanted = ReplicationGroups(), SessionState({GROUPS[0]: frozenset({4})})
    groups.take_over(stale, wanted)
    desired, batches = groups.plan(stale, wanted)
    assert [sorted(map(str, batch)) for batch in batches] == [
        ["INSERT multicast group 2 -> ports [4]"],
        [
            "DELETE ipv4_multicast[dst_addr=0xefc00048] -> replicate(mgid=0x7)",
            "INSERT ipv4_multicast[dst_addr=0xefc00008] -> replicate(mgid=0x2)",
        ],
        ["DELETE multicast group 1 -> ports []", "DELETE multicast group 7 -> ports []"],
    ]
    assert plan(desired, desired) == []
