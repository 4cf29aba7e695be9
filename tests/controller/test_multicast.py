"""Trees and top groups against a definition of their own, and the order of changes: every order of
updates that a switch may choose is safe."""

import random
from collections import defaultdict

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiercast_controller.errors import ConfigurationError
from tiercast_controller.multicast import (
    MulticastGroup,
    MulticastState,
    Op,
    SessionTrees,
    plan,
    route,
)
from tiercast_controller.topology import Session, group_address

SESSION = Session(1, 5, "h0")
FIRST_MGID = 9


def from_scratch(topology, members) -> dict[str, MulticastState]:
    """By definition: a port copies a layer if a member lies behind it on the path from the source;
    its top group is the highest layer that it copies."""
    ports = defaultdict(lambda: defaultdict(set))
    for rank, switch, port in members:
        path = nx.shortest_path(topology.as_graph(), "s0", switch)
        for here, following in zip(path, path[1:], strict=False):
            ports[here][rank].add(topology.port_to(here, following))
        ports[switch][rank].add(port)
    states = {}
    for switch in topology.switches:
        state = states[switch.name] = MulticastState()
        for rank, copies in ports[switch.name].items():
            state.groups[FIRST_MGID + rank] = frozenset(copies)
            state.routes[group_address(SESSION.number, rank)] = FIRST_MGID + rank
        for port in range(1, 4):
            ranks = [rank for rank, copies in ports[switch.name].items() if port in copies]
            if ranks:
                state.tops[port, SESSION.number] = max(ranks)
    return states


def apply(state: MulticastState, update) -> None:
    """One update as a switch does it, INSERT, MODIFY and DELETE held to the standard."""
    entity = update.entity
    if isinstance(entity, MulticastGroup):
        table, key, value = state.groups, entity.mgid, entity.ports
    elif entity.table == "top_group":
        match = dict(entity.match)
        table, key = state.tops, (match["egress_port"], match["session"])
        value = dict(entity.params)["rank"]
    else:
        found = [a for a in map(lambda r: group_address(1, r), range(8))
                 if route(a, 0).match == entity.match]  # fmt: skip
        table, key, value = state.routes, found[0], dict(entity.params)["mgid"]
    assert (key in table) == (update.op is not Op.INSERT), update
    if update.op is Op.DELETE:
        del table[key]
    else:
        table[key] = value


def check_safe(state: MulticastState, before: MulticastState, after: MulticastState) -> None:
    """Nothing is marked below a layer that flows, and nothing is copied that neither state asks."""
    carried = state.highest_carried()
    for key, top in state.tops.items():
        assert carried.get(key, -1) <= top, f"port, session {key}: top group {top} under {carried}"
    for address, mgid in state.routes.items():
        asked = set()
        for either in (before, after):
            asked |= either.groups.get(either.routes.get(address, 0), frozenset())
        assert state.groups.get(mgid, frozenset()) <= asked, f"{address} floods"


STEPS = st.lists(
    st.tuples(st.booleans(), st.integers(0, 4), st.integers(0, 15)), min_size=10, max_size=60
)


def walk(topology, trees: SessionTrees, steps):
    """Joins at any place and leaves of members; yields (changed switches, members) after each."""
    places = [p for p in topology.host_ports() if p != topology.attachment("h0")]
    members = set()
    for joins, rank, index in steps:
        if joins or not members:
            member = (rank, *places[index % len(places)])
            members.add(member)
            yield trees.join(*member), members
        else:
            member = sorted(members)[index % len(members)]
            members.remove(member)
            yield trees.leave(*member), members


@given(depth=st.integers(1, 4), steps=STEPS)
def test_trees_equal_those_from_scratch_after_each_change(tree_of, depth, steps) -> None:
    topology = tree_of(depth)
    trees = SessionTrees(topology, SESSION, FIRST_MGID)
    before = from_scratch(topology, set())
    for changed, members in walk(topology, trees, steps):
        expected = from_scratch(topology, members)
        for name, state in expected.items():
            assert trees.state(name) == state, name
            assert (name in changed) == (state != before[name]), name
        assert trees.top_rank() == max((rank for rank, _, _ in members), default=-1)
        before = expected


def test_repeated_joins_and_leaves_change_nothing(tree_of) -> None:
    trees = SessionTrees(tree_of(3), SESSION, FIRST_MGID)
    assert trees.join(0, "s3", 2) == {"s0", "s1", "s3"}
    assert trees.join(0, "s3", 2) == set()
    assert trees.leave(0, "s3", 3) == set()
    assert trees.leave(0, "s3", 2) == {"s0", "s1", "s3"}


@given(steps=STEPS, seed=st.integers())
def test_any_order_within_batches_is_safe_and_ends_right(tree_of, steps, seed) -> None:
    """Changes of several layers at once, coalesced at random."""
    topology = tree_of(2)
    trees = SessionTrees(topology, SESSION, FIRST_MGID)
    installed = MulticastState()
    order = random.Random(seed)
    for _ in walk(topology, trees, steps):
        if order.random() < 0.5:
            continue  # taken together with the next
        before, after = installed, trees.state("s0")
        now = MulticastState(dict(before.groups), dict(before.routes), dict(before.tops))
        for batch in plan(before, after):
            order.shuffle(batch)
            for update in batch:
                apply(now, update)
                check_safe(now, before, after)
        assert now == after
        installed = after


STATES = st.builds(
    MulticastState,
    st.dictionaries(st.integers(1, 8), st.frozensets(st.integers(1, 4), min_size=1)),
    st.dictionaries(st.integers(0, 7).map(lambda r: group_address(1, r)), st.integers(1, 8)),
    st.dictionaries(st.tuples(st.integers(1, 4), st.just(1)), st.integers(0, 7)),
)


@given(found=STATES, steps=STEPS, seed=st.integers())
def test_whatever_was_found_is_mended(tree_of, found, steps, seed) -> None:
    """A state that no controller would leave, such as after a batch that was applied in part.
    What floods already is not judged, but a route that is new must lead where it should."""
    topology = tree_of(1)
    trees = SessionTrees(topology, SESSION, 1)
    for _ in walk(topology, trees, steps):
        pass
    desired = trees.state("s0")
    for batch in plan(found, desired):
        random.Random(seed).shuffle(batch)
        for update in batch:
            apply(found, update)
            if update.op is Op.INSERT and not isinstance(update.entity, MulticastGroup):
                for address, mgid in found.routes.items():
                    if update.entity == route(address, mgid):
                        assert found.groups.get(mgid, frozenset()) <= desired.groups[mgid]
    assert found == desired


def test_a_join_of_the_next_layer_raises_the_top_group_first(tree_of) -> None:
    trees = SessionTrees(tree_of(1), SESSION, FIRST_MGID)
    trees.join(0, "s0", 2)
    before = trees.state("s0")
    trees.join(1, "s0", 2)
    batches = [[str(update) for update in batch] for batch in plan(before, trees.state("s0"))]
    assert batches == [
        ["MODIFY top_group[egress_port=0x2, session=0x1] -> set_top_group(rank=0x1)"],
        [
            "INSERT ipv4_multicast[dst_addr=0xefc00009] -> replicate(mgid=0xa)",
            "INSERT multicast group 10 -> ports [2]",
        ],
    ]
    batches = [[str(update) for update in batch] for batch in plan(trees.state("s0"), before)]
    assert batches[1] == [
        "MODIFY top_group[egress_port=0x2, session=0x1] -> set_top_group(rank=0x0)"
    ]


def test_a_first_join_is_one_batch(tree_of) -> None:
    trees = SessionTrees(tree_of(1), SESSION, FIRST_MGID)
    trees.join(0, "s0", 2)
    assert len(plan(MulticastState(), trees.state("s0"))) == 1
    assert plan(trees.state("s0"), trees.state("s0")) == []


def test_too_many_sessions(tree_of) -> None:
    with pytest.raises(ConfigurationError, match="multicast group 65536 exceeds 65535"):
        SessionTrees(tree_of(1), SESSION, 65532)
