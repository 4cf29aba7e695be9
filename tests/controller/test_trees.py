"""Trees and top groups, compared with an independent definition, and the order of changes: every
order of updates that a switch may choose is safe."""

import random
from collections import defaultdict
from ipaddress import IPv4Interface

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st
from tiercast_controller.multicast.replication import ReplicationGroups
from tiercast_controller.multicast.trees import (
    MulticastState,
    SessionState,
    SessionTrees,
    Upstream,
    from_entities,
    route,
)
from tiercast_controller.network.topology import (
    Checks,
    Host,
    Session,
    Switch,
    Topology,
    group_address,
)
from tiercast_controller.p4runtime.entities import MulticastGroup, Op

SESSION = Session(1, 5, "h0")
ADDRESSES = [SESSION.group(rank) for rank in range(5)]


def from_scratch(topology, members) -> dict[str, SessionState]:
    """By definition, a port copies a layer if a member lies behind it on the path from the source;
    its top group is the highest layer that it copies."""
    ports = defaultdict(lambda: defaultdict(set))
    for rank, switch, port in members:
        path = nx.shortest_path(topology.as_graph(), "s0", switch)
        for here, following in zip(path, path[1:], strict=False):
            ports[here][rank].add(topology.port_to(here, following))
        ports[switch][rank].add(port)
    states = {}
    for switch in topology.switches:
        state = states[switch.name] = SessionState()
        before = nx.shortest_path(topology.as_graph(), "h0", switch.name)[-2]
        port = topology.port_to(switch.name, before)
        for rank, copies in ports[switch.name].items():
            group = group_address(SESSION.number, rank)
            state.copies[group] = frozenset(copies)
            state.upstream[group] = Upstream(0x0A000002, port, port)  # h0's address
        for port in range(1, 4):
            ranks = [rank for rank, copies in ports[switch.name].items() if port in copies]
            if ranks:
                state.tops[port, SESSION.number] = max(ranks)
    return states


def apply(state: MulticastState, update) -> None:
    """Applies one update as a switch does, with INSERT, MODIFY and DELETE as in the standard."""
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
        state.upstream |= from_entities([entity], {}).upstream
        if update.op is Op.DELETE:
            state.upstream.pop(key, None)
    assert (key in table) == (update.op is not Op.INSERT), update
    if update.op is Op.DELETE:
        del table[key]
    else:
        table[key] = value


def check_safe(state: MulticastState, before: SessionState, after: SessionState) -> None:
    """Nothing is marked below a layer that flows, and each layer is copied as before or as
    afterwards, so that no member that stays loses a packet."""
    carried = state.highest_carried()
    for key, top in state.tops.items():
        assert carried.get(key, -1) <= top, f"port, session {key}: top group {top} under {carried}"
    for address, mgid in state.routes.items():
        assert mgid in state.groups, f"{address} leads nowhere"
        asked = before.copies.get(address), after.copies.get(address)
        assert state.groups[mgid] in asked, f"{address} leads elsewhere"


STEPS = st.lists(
    st.tuples(st.booleans(), st.integers(0, 4), st.integers(0, 15)), min_size=10, max_size=60
)


def walk(topology, trees: SessionTrees, steps):
    """Joins at any place and leaves of members. Yields (changed switches, members) after each."""
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
    trees = SessionTrees(topology, SESSION)
    before = from_scratch(topology, set())
    for changed, members in walk(topology, trees, steps):
        expected = from_scratch(topology, members)
        for name, state in expected.items():
            assert trees.state(name) == state, name
            assert (name in changed) == (state != before[name]), name
        assert trees.top_rank() == max((rank for rank, _, _ in members), default=-1)
        before = expected


def test_repeated_joins_and_leaves_change_nothing(tree_of) -> None:
    trees = SessionTrees(tree_of(3), SESSION)
    assert trees.join(0, "s3", 2) == {"s0", "s1", "s3"}
    assert trees.join(0, "s3", 2) == set()
    assert trees.leave(0, "s3", 3) == set()
    assert trees.leave(0, "s3", 2) == {"s0", "s1", "s3"}


def copied(state: MulticastState) -> MulticastState:
    return MulticastState(
        dict(state.groups), dict(state.routes), dict(state.tops), dict(state.upstream)
    )


@given(steps=STEPS, seed=st.integers(), kept=st.sampled_from([0, 1, 100]))
def test_any_order_within_batches_is_safe_and_ends_right(tree_of, steps, seed, kept) -> None:
    """Changes of several layers at once, combined at random. No change touches a group that a route
    leads to, or one that only recently lost its route."""
    topology = tree_of(2)
    trees = SessionTrees(topology, SESSION)
    groups = ReplicationGroups(kept=kept)
    installed, now, before = MulticastState(), MulticastState(), SessionState()
    lately: list[int] = []  # groups that lost their routes, the latest at the end
    order = random.Random(seed)
    for _ in walk(topology, trees, steps):
        if order.random() < 0.5:
            continue  # combined with the next one
        after = trees.state("s0")
        desired, batches = groups.plan(installed, after)
        held = dict(now.groups)
        for batch in batches:
            order.shuffle(batch)
            for update in batch:
                apply(now, update)
                check_safe(now, before, after)
        assert now.forwarding() == after
        for mgid in (*installed.groups, *(lately[-kept:] if kept else ())):
            assert now.groups[mgid] == held[mgid], "a group changed that packets may still find"
        old = [installed.routes[address] for address in ADDRESSES if address in installed.routes]
        lately = [mgid for mgid in (*lately, *old) if mgid not in desired.groups]
        groups.written(ADDRESSES, desired)
        installed, before = desired, after
    # A set of ports has one group, so there are no more groups than sets: 5 layers with 7 sets of 3
    # ports.
    assert len(now.groups) <= 35
    if kept == 0:
        assert len(now.groups) <= 5 + 5


STATES = st.builds(
    MulticastState,
    st.dictionaries(st.integers(1, 8), st.frozensets(st.integers(1, 4), min_size=1)),
    st.dictionaries(st.integers(0, 7).map(lambda r: group_address(1, r)), st.integers(1, 8)),
    st.dictionaries(st.tuples(st.integers(1, 4), st.just(1)), st.integers(0, 7)),
)


@given(found=STATES, steps=STEPS, seed=st.integers())
def test_whatever_was_found_is_mended(tree_of, found, steps, seed) -> None:
    """Starts from a state that no controller would leave. Floods that already exist are not judged,
    but a new route must lead where it should."""
    topology = tree_of(1)
    trees = SessionTrees(topology, SESSION)
    for _ in walk(topology, trees, steps):
        pass
    wanted = trees.state("s0")
    groups = ReplicationGroups()
    groups.take_over(copied(found), wanted)
    desired, batches = groups.plan(copied(found), wanted)
    for batch in batches:
        random.Random(seed).shuffle(batch)
        for update in batch:
            apply(found, update)
            if update.op is not Op.DELETE and not isinstance(update.entity, MulticastGroup):
                for address, mgid in found.routes.items():
                    if update.entity == route(address, mgid, wanted.upstream.get(address)):
                        assert found.groups[mgid] == wanted.copies[address]
    assert found == desired
    assert found.forwarding() == wanted
    # From there it continues as from any state of its own.
    groups.written((), desired)
    again, batches = groups.plan(desired, wanted)
    assert (again, batches) == (desired, [])


def test_a_join_of_the_next_layer_raises_the_top_group_first(tree_of) -> None:
    trees, groups = SessionTrees(tree_of(1), SESSION), ReplicationGroups()
    installed = MulticastState()

    def change() -> list[list[str]]:
        nonlocal installed
        installed, batches = groups.plan(installed, trees.state("s0"))
        groups.written(ADDRESSES, installed)
        return [[str(update) for update in batch] for batch in batches]

    # h0 sends, behind port 1.
    before, after = "former_rpf_port=0x1", "rpf_port=0x1, source=0xa000002"
    trees.join(0, "s0", 2)
    assert change() == [
        ["INSERT multicast group 1 -> ports [2]"],
        [
            "INSERT top_group[egress_port=0x2, session=0x1] -> set_top_group(rank=0x0)",
            f"INSERT ipv4_multicast[dst_addr=0xefc00008] -> replicate({before}, mgid=0x1, {after})",
        ],
    ]
    trees.join(1, "s0", 2)
    assert change() == [
        [
            "MODIFY top_group[egress_port=0x2, session=0x1] -> set_top_group(rank=0x1)",
            "INSERT multicast group 2 -> ports [2]",
        ],
        [f"INSERT ipv4_multicast[dst_addr=0xefc00009] -> replicate({before}, mgid=0x2, {after})"],
    ]
    trees.leave(1, "s0", 2)
    assert change() == [
        [f"DELETE ipv4_multicast[dst_addr=0xefc00009] -> replicate({before}, mgid=0x2, {after})"],
        ["MODIFY top_group[egress_port=0x2, session=0x1] -> set_top_group(rank=0x0)"],
    ]
    trees.join(0, "s0", 3)
    assert change() == [
        ["INSERT multicast group 3 -> ports [2, 3]"],
        [
            "INSERT top_group[egress_port=0x3, session=0x1] -> set_top_group(rank=0x0)",
            f"MODIFY ipv4_multicast[dst_addr=0xefc00008] -> replicate({before}, mgid=0x3, {after})",
        ],
    ]


def test_members_that_return_need_one_batch(tree_of) -> None:
    trees, groups = SessionTrees(tree_of(1), SESSION), ReplicationGroups()
    installed = MulticastState()
    batches = []
    for joins in (True, False, True):
        (trees.join if joins else trees.leave)(0, "s0", 2)
        installed, planned = groups.plan(installed, trees.state("s0"))
        groups.written(ADDRESSES, installed)
        batches.append(len(planned))
    assert batches == [2, 1, 1]
    assert groups.plan(installed, trees.state("s0")) == (installed, [])


def test_a_moved_path_still_takes_what_is_on_its_way(tree_of) -> None:
    """A ring of four switches, with the source at s0 and a member at s2. When the path's first link
    fails, s2 takes packets through the new port and the former one, and no others."""
    topology = ring()
    trees = SessionTrees(topology, SESSION)
    trees.join(0, "s2", 3)
    group = group_address(1, 0)

    def ports(switch: str) -> Upstream:
        return trees.state(switch).upstream[group]

    source = int(topology.host("h0").interface.ip)
    assert ports("s2") == Upstream(source, 1, 1)
    topology.change_link("s0", 2, up=False)  # to s1
    topology.change_link("s1", 1, up=False)
    changed = trees.reroute()
    assert set(changed) == {"s0", "s1", "s2", "s3"}
    assert changed.index("s2") < changed.index("s3") < changed.index("s0")
    assert ports("s2") == Upstream(source, 2, 1)
    assert ports("s3") == Upstream(source, 1, 1)
    topology.change_link("s0", 2, up=True)
    topology.change_link("s1", 1, up=True)
    trees.reroute()
    assert ports("s2") == Upstream(source, 1, 2)


def test_what_leads_to_a_switch_that_is_away_outlasts_known_members_behind_it() -> None:
    """A chain s0, s1, s2, of which s1 does not answer. h2, at s2, comes and goes."""
    topology = chain()
    trees, group = SessionTrees(topology, SESSION), group_address(1, 0)
    assert trees.lead_to(0, "s1") == {"s0"}
    assert trees.join(0, "s2", 1) == {"s1", "s2"}
    assert trees.leave(0, "s2", 1) == {"s1", "s2"}
    assert trees.state("s0").copies == {group: frozenset({2})}
    assert trees.prune("s1") == {"s0"}
    assert trees.state("s0") == SessionState()


def test_what_leads_to_a_switch_that_is_away_leads_there_on_a_new_path() -> None:
    topology = ring()
    trees, group = SessionTrees(topology, SESSION), group_address(1, 0)
    assert trees.lead_to(0, "s2") == {"s0", "s1"}
    topology.change_link("s0", 2, up=False)  # to s1
    trees.reroute()
    copies = {f"s{n}": trees.state(f"s{n}").copies for n in range(4)}
    assert copies == {
        "s0": {group: frozenset({4})},
        "s1": {},
        "s2": {},
        "s3": {group: frozenset({2})},
    }
    assert trees.prune("s2") == {"s0", "s3"}


def test_without_the_check_a_group_is_forwarded_wherever_it_comes_from(tree_of) -> None:
    topology = tree_of(1)
    topology.checks = Checks(source=False)
    trees, groups = SessionTrees(topology, SESSION), ReplicationGroups()
    trees.join(0, "s0", 2)
    assert trees.state("s0").upstream == {}
    installed, batches = groups.plan(MulticastState(), trees.state("s0"))
    assert str(batches[1][1].entity) == "ipv4_multicast[dst_addr=0xefc00008] -> replicate(mgid=0x1)"
    # Switched on again, the same route is written with the check.
    topology.checks = Checks()
    _, batches = groups.plan(installed, trees.state("s0"))
    assert [update.op for batch in batches for update in batch] == [Op.MODIFY]


def chain() -> Topology:
    """s0, s1 and s2 in a row, each linked to the next by its port 2 and to the one before by port
    3, with a host each at port 1."""
    topology = Topology()
    for n in range(3):
        topology.add_switch(Switch(f"s{n}", n + 1, "unix:/none"))
        topology.add_host(Host(f"h{n}", IPv4Interface(f"10.0.{n}.2/24"), n))
        topology.connect(f"s{n}", 1, f"h{n}")
    for n in range(2):
        topology.connect(f"s{n}", 2, f"s{n + 1}", 3)
    return topology


def ring() -> Topology:
    """s0, s1, s2 and s3, each linked to the next by its port 2 and to the one before by port 1 (s0:
    ports 2 and 4, s2: 1 and 2); h0 at port 1 of s0, h2 at port 3 of s2."""
    topology = Topology()
    for number in range(4):
        topology.add_switch(Switch(f"s{number}", number + 1, "unix:/none"))
    for number in (0, 2):
        interface = IPv4Interface(f"10.0.{number}.2/24")
        topology.add_host(Host(f"h{number}", interface, number))
    topology.connect("s0", 1, "h0")
    topology.connect("s2", 3, "h2")
    topology.connect("s0", 2, "s1", 1, delay_ns=1)
    topology.connect("s1", 2, "s2", 1, delay_ns=1)
    topology.connect("s0", 4, "s3", 1, delay_ns=2)
    topology.connect("s3", 2, "s2", 2, delay_ns=2)
    return topology
