"""Trees of groups of any source: who gets a copy of whose packets, on any graph and around links
that fail, and the order in which a controller moves them."""

import asyncio
import itertools
import random
from ipaddress import IPv4Address

import networkx
import pytest
from p4.v1 import p4runtime_pb2 as p4
from tiercast.v1 import queue_pb2
from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.controller import Controller
from tiercast_controller.multicast.membership import GroupMember
from tiercast_controller.multicast.shared_tree import SharedTree
from tiercast_controller.multicast.subscriptions import Subscriptions
from tiercast_controller.multicast.trees import MulticastState, SessionState
from tiercast_controller.network.fates import Entered, FateColumns
from tiercast_controller.network.topology import (
    AnySourceGroup,
    Session,
    Topology,
    group_address,
)

from ..patience import PATIENCE_S
from .controller_run import ring
from .test_routes import graph_of, network, random_graph

ADDRESS = IPv4Address("230.4.4.1")


def flood(topology: Topology, tree: SharedTree, source: str) -> tuple[list[str], list[frozenset]]:
    """Carries a packet of a host through the switches, each of which copies it to its ports but the
    one where it came in. Returns the hosts that get a copy, and the links between switches that it
    crosses; each as often as that happens."""
    hosts, links = [], []
    waiting = [(source, topology.attachment(source)[0])]
    while waiting:
        before, switch = waiting.pop()
        for port in tree.state(switch).copies.get(ADDRESS, ()):
            following = topology.neighbour(switch, port)
            if following == before:
                continue
            if following.startswith("h"):
                hosts.append(following)
            else:
                links.append(frozenset((switch, following)))
                waiting.append((switch, following))
        assert len(links) <= 1000, "a loop"
    return sorted(hosts), links


def joined(topology: Topology, senders: list[int], members: list[int]) -> SharedTree:
    tree = SharedTree(topology, AnySourceGroup(ADDRESS, tuple(f"h{node}" for node in senders)))
    for node in members:
        tree.join(f"s{node}", 1)
    return tree


def drawn(draw: random.Random) -> tuple[dict, list[int], list[int], list[int]]:
    """The links of a random network, its nodes, and those of senders and members."""
    links = random_graph(draw, range(0, 4), most=16)
    nodes = sorted({node for link in links for node in link})
    senders = draw.sample(nodes, draw.randint(1, 3))
    return links, nodes, senders, draw.sample(nodes, draw.randint(1, len(nodes)))


def check_all_hear(topology: Topology, tree: SharedTree, senders, members) -> list[frozenset]:
    """Each member gets one copy of what every other one, and every sender, sends; nobody else gets
    any, and no packet crosses a link twice. Returns the links used."""
    used = []
    for node in {*senders, *members}:
        heard, links = flood(topology, tree, f"h{node}")
        assert heard == sorted(f"h{other}" for other in members if other != node)
        assert len(links) == len(set(links))
        used += links
    return used


@pytest.mark.parametrize("seed", range(60))
def test_each_member_gets_one_copy_from_whoever_sends(seed: int) -> None:
    draw = random.Random(seed)
    links, nodes, senders, members = drawn(draw)
    topology = network(links)
    tree = joined(topology, senders, members)
    check_all_hear(topology, tree, senders, members)
    for node in draw.sample(members, len(members) // 3):
        before = {f"s{n}": tree.state(f"s{n}") for n in nodes}
        members.remove(node)
        changed = tree.leave(f"s{node}", 1)
        assert changed == {name for name, state in before.items() if tree.state(name) != state}
    check_all_hear(topology, tree, senders, members)

    failed = draw.choice(list(links))
    a, b = (f"s{node}" for node in failed)
    if not topology.change_link(a, topology.port_to(a, b), up=False):
        assert topology.is_tree
        return
    before = {f"s{n}": tree.state(f"s{n}") for n in nodes}
    changed = tree.reroute()
    assert changed == {name for name, state in before.items() if tree.state(name) != state}
    used = check_all_hear(topology, tree, senders, members)
    graph = graph_of(links)
    graph.remove_edge(*failed)
    if networkx.is_connected(graph):
        assert frozenset((a, b)) not in used


@pytest.mark.parametrize("seed", range(20))
def test_members_come_and_go_on_the_paths_that_the_tree_has(seed: int) -> None:
    """Delays change. Until the tree moves, a switch's change is one of the old tree, since parts of
    two trees together may be a loop."""
    draw = random.Random(seed)
    links, nodes, senders, members = drawn(draw)
    topology, before = network(links), network(links)
    tree = joined(topology, senders, members)
    for link in links:
        a, b = (f"s{node}" for node in link)
        topology.change_link(a, topology.port_to(a, b), delay_ns=draw.randrange(1, 50_000_000))
    other = members[1:]
    tree.leave(f"s{members[0]}", 1)
    for node in set(nodes).difference(members):
        tree.join(f"s{node}", 1)
        other.append(node)
    old, new = joined(before, senders, other), joined(topology, senders, other)
    assert all(tree.state(f"s{node}") == old.state(f"s{node}") for node in nodes)
    tree.reroute()
    assert all(tree.state(f"s{node}") == new.state(f"s{node}") for node in nodes)


@pytest.mark.parametrize("seed", range(60))
def test_a_controller_that_takes_over_leads_to_switches_that_do_not_answer(seed: int) -> None:
    """Those go on with what an earlier controller wrote, the others get what the new one makes of
    what they hold. Members on either side hear everybody, before and after the rest answers."""
    draw = random.Random(seed)
    links, nodes, senders, members = drawn(draw)
    topology = network(links)
    tree = joined(topology, senders, members)
    held = {f"s{node}": tree.state(f"s{node}") for node in nodes}
    found = {
        name: MulticastState(
            {1: state.copies[ADDRESS]} if state.copies else {}, dict.fromkeys(state.copies, 1)
        )
        for name, state in held.items()
    }
    away = draw.sample(sorted(held), draw.randint(1, max(1, len(nodes) // 2)))

    async def take_over() -> None:
        subscriptions = Subscriptions(
            topology, [], [tree.group], lifetime_s=60, leave_latency_s=0, set_target=target,
            held_or_away=target,
            emit=lambda *_: None, tell=lambda *_: None, ask_for=None,
            spawn=lambda work, _: work.close(),
        )  # fmt: skip
        subscriptions.take_over({name: found[name] for name in held if name not in away})
        [new] = subscriptions.trees
        for i, name in enumerate(away):
            mixed = joined(topology, senders, [])
            mixed.state = lambda at, i=i: held[at] if at in away[i:] else new.state(at)
            for node in {*senders, *members}:
                heard, _ = flood(topology, mixed, f"h{node}")
                assert heard == sorted(f"h{other}" for other in members if other != node)
            subscriptions.adopt(name, found[name])
        assert {name: new.state(name) for name in held} == held

    async def target(*_: object) -> None:
        pass

    asyncio.run(take_over())


@pytest.mark.parametrize("seed", range(20))
def test_packets_take_no_link_that_leads_to_no_member(seed: int) -> None:
    """In a tree of links, those that lead from a host to all members are the only ones needed."""
    draw = random.Random(seed)
    links = dict.fromkeys(((draw.randrange(node), node) for node in range(1, 20)), 1)
    topology = network(links)
    senders, members = draw.sample(range(20), 3), draw.sample(range(20), 4)
    tree = joined(topology, senders, members)
    graph = networkx.relabel_nodes(graph_of(links), lambda node: f"s{node}")
    for node in {*senders, *members}:
        paths = (networkx.shortest_path(graph, f"s{node}", f"s{other}") for other in members)
        needed = {frozenset(link) for path in paths for link in itertools.pairwise(path)}
        assert set(flood(topology, tree, f"h{node}")[1]) == needed


def test_without_members_nothing_is_copied() -> None:
    topology = network({(0, 1): 1, (1, 2): 1})
    tree = joined(topology, [0, 2], [])
    assert all(tree.state(f"s{node}") == SessionState() for node in range(3))
    assert tree.join("s1", 1) == {"s0", "s1", "s2"}
    assert tree.join("s1", 1) == set()
    assert tree.leave("s2", 1) == set()
    assert tree.leave("s1", 1) == {"s0", "s1", "s2"}


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("239.193.0.1", r"within 239\.192\.0\.0/14, the groups of sessions; valid: 224\.0\.1\.0"),
        ("239.195.255.255", "the groups of sessions"),
        ("224.0.0.251", r"within 224\.0\.0\.0/24, which no router forwards; valid: .* to 239\.191"),
        ("10.0.0.1", r"10\.0\.0\.1 is no group; valid: .*, 239\.196\.0\.0 to 239\.255\.255\.255"),
    ],
)
def test_addresses_that_are_refused(address: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        network({(0, 1): 1}).check([], [AnySourceGroup(IPv4Address(address), ("h0",))])


def test_groups_that_do_not_fit() -> None:
    topology = network({(0, 1): 1})
    for first, last in [("224.0.1.0", "239.191.255.255"), ("239.196.0.0", "239.255.255.255")]:
        both = [AnySourceGroup(IPv4Address(one), ("h0",)) for one in (first, last)]
        topology.check([], both)
        with pytest.raises(ConfigurationError, match=f"group {first} is given twice"):
            topology.check([], [both[0], *both])
    with pytest.raises(ConfigurationError, match=r"group 230\.4\.4\.1 has no sender"):
        topology.check([], [AnySourceGroup(ADDRESS, ())])
    with pytest.raises(ConfigurationError, match="'h7' is not in the topology"):
        topology.check([], [AnySourceGroup(ADDRESS, ("h7",))])


def test_their_packets_count_with_those_of_no_session() -> None:
    """Copies that entered a queue: of a session, of a group of any source, of unicast."""
    columns = FateColumns([1, 2], [Session(7, 1, "h0")])
    entered = Entered({1: 10, 2: 20}, {(group_address(7, 0), 1): 3, (ADDRESS, 1): 4})
    fates = columns.fates(dict.fromkeys(columns.cells(10 * 512), 0), entered)
    assert fates[1].rest.entered == 14 and fates[2].rest.entered == 20
    assert fates[1].layers[7, 0].entered == 3
    assert fates[1].egress.entered == 17


# ---- the controller ---------------------------------------------------------------------------


class Log(list):
    """The batches that a switch gets; each also goes to a list that several switches share."""

    def __init__(self, name: str, shared: list) -> None:
        self.name, self.shared = name, shared

    def append(self, updates) -> None:
        super().append(updates)
        self.shared.append((self.name, updates))


class Lab:
    def __init__(self, topology, servers, program, **options) -> None:
        self.topology, self.servers, self.program = topology, servers, program
        self.events = []
        self.controller = Controller(
            topology,
            [Session(1, 2, "h0")],
            program,
            groups=[AnySourceGroup(ADDRESS, ("h0", "h1"))],
            on_event=self.events.append,
            **options,
        )

    async def report(self, host: str, frame: bytes, changes: int | None = None) -> None:
        """Sends a report. Waits until the controller has told of so many changes in all."""
        switch, port = self.topology.attachment(host)
        await self.servers[switch].punt(self.program, port, frame)
        if changes is not None:
            await self.until(lambda: len(self.igmp()) >= changes)

    def igmp(self) -> list[dict]:
        return [event.fields for event in self.events if event.kind == "igmp"]

    async def until(self, condition) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await asyncio.sleep(0.005)

    async def held(self, *switches: str) -> dict[str, frozenset[int]]:
        """The ports that get a copy, by switch (none: all), as the switches say."""
        result = {}
        for name in switches or self.servers:
            state = (await self.controller.read_multicast(name)).forwarding()
            if ADDRESS in state.copies:
                result[name] = state.copies[ADDRESS]
        return result


@pytest.fixture
async def lab(reference_switches, socket_directory, program):
    topology = ring(Topology(), socket_directory, 3)  # s0 to s2 is the shortest path
    made = Lab(topology, await reference_switches(topology), program)
    await made.controller.start()
    yield made
    if not made.controller.failed.cancelled():
        await made.controller.stop()


async def test_members_come_and_go_by_igmp_from_whatever_sender(lab: Lab, igmp) -> None:
    group = str(ADDRESS)
    assert await lab.held() == {}
    await lab.report("h2", igmp.join(group), changes=1)
    (event,) = lab.igmp()
    assert event.pop("install_us") > 0
    assert event == {
        "action": "join", "switch": "s2", "port": 1, "group": group, "session": -1, "rank": -1,
        "reporter": "10.0.1.2", "switches": 3,
    }  # fmt: skip
    assert await lab.held() == {"s0": {3}, "s1": {3}, "s2": {1}}
    # A sender may be a member; a filter for one of the senders is as good as any.
    await lab.report("h0", igmp.v3(group, 5, ("10.0.1.2",), reporter="10.0.0.2"), changes=2)
    assert await lab.held() == {"s0": {1, 3}, "s1": {3}, "s2": {1, 2}}
    await lab.report("h0", igmp.v3(group, 6, ("10.0.1.2",), reporter="10.0.0.2"))  # not the other
    await lab.report("h2", igmp.leave(group), changes=3)
    assert await lab.held() == {"s0": {1}, "s1": {3}}
    assert lab.controller.group_members() == [GroupMember(ADDRESS, "s0", 1)]
    await lab.report("h0", igmp.v3(group, 3, reporter="10.0.0.2"), changes=4)
    assert await lab.held() == {}
    assert [one["action"] for one in lab.igmp()] == ["join", "join", "leave", "leave"]
    assert lab.controller.members() == []


async def test_sessions_beside_it_keep_their_state(lab: Lab, igmp) -> None:
    await lab.report("h2", igmp.join(ADDRESS), changes=1)
    await lab.report("h2", igmp.join(group_address(1, 0)), changes=2)
    await lab.report("h2", igmp.leave(ADDRESS), changes=3)
    state = (await lab.controller.read_multicast("s0")).forwarding()
    assert state.copies == {group_address(1, 0): frozenset({3})}
    assert state.tops == {(3, 1): 0}
    # Only the session's packets have to come from its source.
    assert list(state.upstream) == [group_address(1, 0)]


async def test_a_failed_link_moves_it_and_the_old_tree_goes_first(lab: Lab, igmp) -> None:
    """Parts of two trees together may be a loop. So no switch gets a route of the new tree before
    all have lost those of the old one."""
    await lab.report("h1", igmp.join(ADDRESS, reporter="10.0.1.2"), changes=1)
    await lab.report("h2", igmp.join(ADDRESS, reporter="10.0.2.2"), changes=2)
    assert await lab.held() == {"s0": {2, 3}, "s1": {1, 3}, "s2": {1, 2}}
    log: list = []
    for name, server in lab.servers.items():
        server.batches = Log(name, log)
    await lab.controller.set_link("s0", 3, wire=queue_pb2.Wire(up=False))
    assert await lab.held() == {"s0": {2}, "s1": {1, 2}, "s2": {1, 3}}
    table = lab.program.table_id("ipv4_multicast")
    routes = [
        (name, update.type)
        for name, updates in log
        for update in updates
        if update.entity.table_entry.table_id == table
    ]
    assert sorted(routes[:3]) == [(f"s{i}", p4.Update.DELETE) for i in range(3)]
    assert sorted(routes[3:]) == [(f"s{i}", p4.Update.INSERT) for i in range(3)]
    await lab.controller.set_link("s0", 3, wire=queue_pb2.Wire(up=True))
    assert await lab.held() == {"s0": {2, 3}, "s1": {1, 3}, "s2": {1, 2}}


async def test_a_member_that_joins_while_it_moves_waits(lab: Lab, igmp) -> None:
    await lab.report("h2", igmp.join(ADDRESS, reporter="10.0.2.2"), changes=1)
    for server in lab.servers.values():
        server.answers_writes.clear()
    moved = asyncio.create_task(lab.controller.set_link("s0", 3, wire=queue_pb2.Wire(up=False)))
    await lab.report("h1", igmp.join(ADDRESS, reporter="10.0.1.2"))
    await lab.until(lambda: len(lab.controller.group_members()) == 2)
    for server in lab.servers.values():
        server.answers_writes.set()
    await moved
    await lab.report("h1", igmp.join(ADDRESS, reporter="10.0.1.2"), changes=2)
    assert await lab.held() == {"s0": {2}, "s1": {1, 2}, "s2": {1, 3}}


async def test_changes_that_need_no_switch_that_is_away_do_not_wait_for_it(lab: Lab, igmp) -> None:
    await lab.report("h2", igmp.join(ADDRESS, reporter="10.0.2.2"), changes=1)
    await lab.servers["s2"].close()
    await lab.until(lambda: lab.controller.is_away("s2"))
    await lab.report("h1", igmp.join(ADDRESS, reporter="10.0.1.2"))  # s2 has to lead there
    await lab.until(lambda: len(lab.controller.group_members()) == 2)
    await lab.report("h0", igmp.join(ADDRESS, reporter="10.0.0.2"), changes=2)
    assert await lab.held("s0", "s1") == {"s0": {1, 2, 3}, "s1": {1, 3}}
    await lab.report("h1", igmp.leave(ADDRESS, reporter="10.0.1.2"), changes=3)
    assert await lab.held("s0", "s1") == {"s0": {1, 3}, "s1": {3}}
    assert [(one["action"], one["switch"]) for one in lab.igmp()[1:]] == [
        ("join", "s0"),
        ("leave", "s1"),
    ]
    await lab.servers["s2"].serve(lab.topology.switch("s2").address)
    await lab.until(lambda: len(lab.igmp()) == 4)
    assert (lab.igmp()[3]["action"], lab.igmp()[3]["switch"]) == ("join", "s1")
    assert await lab.held() == {"s0": {1, 3}, "s1": {3}, "s2": {1, 2}}


async def test_it_moves_where_switches_answer_and_elsewhere_when_they_return(
    lab: Lab, igmp
) -> None:
    await lab.report("h1", igmp.join(ADDRESS, reporter="10.0.1.2"), changes=1)
    await lab.report("h2", igmp.join(ADDRESS, reporter="10.0.2.2"), changes=2)
    await lab.servers["s1"].close()
    await lab.until(lambda: lab.controller.is_away("s1"))
    move = lab.controller.set_link("s0", 3, wire=queue_pb2.Wire(up=False))
    await asyncio.wait_for(move, PATIENCE_S)
    assert await lab.held("s0", "s2") == {"s0": {2}, "s2": {1, 3}}
    await lab.report("h0", igmp.join(ADDRESS, reporter="10.0.0.2"))
    await lab.until(lambda: len(lab.controller.group_members()) == 3)
    await lab.servers["s1"].serve(lab.topology.switch("s1").address)
    await lab.until(lambda: len(lab.igmp()) == 3)
    assert await lab.held() == {"s0": {1, 2}, "s1": {1, 2, 3}, "s2": {1, 3}}


async def test_a_restart_takes_over_its_members(lab: Lab, igmp) -> None:
    await lab.report("h2", igmp.join(ADDRESS), changes=1)
    held = await lab.held()
    await lab.controller.stop()
    for server in lab.servers.values():
        server.batches.clear()
    again = Lab(lab.topology, lab.servers, lab.program)
    await again.controller.start()
    assert again.controller.group_members() == [GroupMember(ADDRESS, "s2", 1)]
    assert await again.held() == held
    assert not any(server.batches for server in lab.servers.values())
    await again.report("h2", igmp.leave(ADDRESS), changes=1)
    assert await again.held() == {}
    await again.controller.stop()


async def test_a_leave_has_its_latency(reference_switches, socket_directory, program, igmp) -> None:
    topology = ring(Topology(), socket_directory, 3)  # s0 to s2 is the shortest path
    lab = Lab(topology, await reference_switches(topology), program, leave_latency_s=0.2)
    await lab.controller.start()
    await lab.report("h2", igmp.join(ADDRESS), changes=1)
    await lab.report("h2", igmp.leave(ADDRESS))
    assert lab.controller.group_members()
    await lab.report("h2", b"\0" * 60, changes=2)
    assert lab.igmp()[1]["action"] == "expire"
    assert await lab.held() == {}
    await lab.controller.stop()
