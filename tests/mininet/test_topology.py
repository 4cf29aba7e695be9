from __future__ import annotations

import random

import networkx
import pytest
from tiercast_controller.base.units import Queue
from tiercast_controller.network.routes import Routes
from tiercast_lab.experiment.topology import LinkParameters, Topology, tree_levels, tree_links
from tiercast_lab.run.mininet.commands import max_sleeps, switch_options, switches_command

LINK = LinkParameters(6_000_000, 5_000_000, Queue(50))


def test_tree_is_the_papers() -> None:
    links = tree_links(depth=4, fanout=2)
    assert len(links) == 30
    assert links[:4] == [(0, 1), (0, 2), (1, 3), (1, 4)]
    assert links[-1] == (14, 30)


def test_levels_may_differ_in_fanout() -> None:
    """RLA's figure 6: 1, 3, 9 and 27 nodes below the root."""
    levels = tree_levels([1, 3, 3, 3])
    assert [len(level) for level in levels] == [1, 3, 9, 27]
    assert levels[1] == [(1, 2), (1, 3), (1, 4)]
    assert levels[2][3] == (3, 8)
    assert levels[3][-1] == (13, 40)


def test_a_one_way_link_limits_the_direction_from_its_first_node() -> None:
    parameters = LinkParameters(6_000_000, 5_000_000, Queue(50), one_way=True)
    topology = Topology({(0, 1): parameters, (1, 2): parameters}, [0], [2])
    link = topology.links["0-1"]
    assert link.sent_by("s0") == parameters
    back = link.sent_by("s1")
    assert (back.rate, back.delay, back.queue) == (0, 5_000_000, Queue())


def test_leaves_are_hosts_and_the_sender_hangs_on_its_switch() -> None:
    topology = Topology(dict.fromkeys(tree_links(2, 2), LINK), [0], [3, 4, 5, 6])
    assert list(topology.switches) == ["s0", "s1", "s2"]
    assert list(topology.hosts) == ["h0", "h3", "h4", "h5", "h6"]
    assert topology.hosts["h0"].switch == "s0"
    # Links of the paper first, then that of the attached host: ports are numbered in this order.
    assert [name for name, _ in topology.switches["s0"].ports] == ["s1", "s2", "h0"]
    assert topology.links["h0"].parameters.rate == 0
    assert topology.switches["s1"].port_to("h4") == 3


def test_addresses() -> None:
    topology = Topology({(0, 300): LINK}, [0], [300])
    host = topology.hosts["h300"]
    assert host.address == "10.1.44.2"
    assert host.mac == "02:00:00:00:01:2c"
    assert host.gateway_mac == "02:00:00:01:01:2c"


def test_a_switch_has_every_queue(tmp_path) -> None:
    topology = Topology(dict.fromkeys(tree_links(2, 2), LINK), [0], [3, 4, 5, 6])
    command = switch_options(topology.switches["s1"], topology, ["a", "b", "c"], tmp_path / "s", 7)
    limits = "overhead=-14B,rate=6000000bit/s,queue=50p,delay=5000000ns"
    assert f"--port=1=a,{limits}" in command
    assert f"--port=2=b,{limits},rx-delay=5000000ns" in command
    root = switch_options(topology.switches["s0"], topology, ["a", "b", "c"], tmp_path / "s", 7)
    assert "--port=3=c,overhead=-14B" in root
    # As in virtual time, where the first switch has the seed after the run's (virtual_network.cpp).
    assert ("--seed=8" in root, "--seed=9" in command) == (True, True)


@pytest.mark.parametrize(
    ("delay_ms", "sleeps"),
    [(0, None), (0.09, None), (0.1, 100_000), (2, 5_000), (5, 2_000), (100, 2_000)],
)
def test_linked_switches_are_late_by_a_tenth_of_the_shortest_delay(
    delay_ms: float, sleeps: int | None
) -> None:
    """The links of hosts that hang on their switch have no delay, and do not count."""
    short = LinkParameters(6_000_000, round(delay_ms * 1e6), Queue(50))
    long = LinkParameters(6_000_000, 200_000_000, Queue(50))
    topology = Topology({(0, 1): long, (1, 2): short, (1, 3): long}, [0], [2, 3])
    assert topology.links["h0"].attaches
    assert max_sleeps(topology) == sleeps
    command = switches_command([["--name=s0"]], topology)[1:]
    limit = [] if sleeps is None else [f"--max-sleeps={sleeps}"]
    assert command == [*limit, "--switch", "--name=s0"]


def test_ends_of_tcp_flows_are_hosts_of_their_own() -> None:
    links = dict.fromkeys([(0, 1), (1, 2), (1, 3), (1, 4)], LINK)
    topology = Topology(links, senders=[0], receivers=[2, 3], traffic=[0, 1, 3, 4])
    assert list(topology.hosts) == ["h0", "t0", "t1", "h2", "h3", "t3", "t4"]
    # 2 only receives and 4 only ends flows, so both are leaves. At 3 there are two hosts, so it is
    # a switch.
    assert list(topology.switches) == ["s0", "s1", "s3"]
    assert [name for name, _ in topology.switches["s0"].ports] == ["s1", "h0", "t0"]
    assert [name for name, _ in topology.switches["s1"].ports] == ["s0", "h2", "s3", "t4", "t1"]
    assert topology.links["1-4"].b == "t4"
    assert topology.links["t3"].attaches and not topology.links["1-4"].attaches
    addresses = [host.address for host in topology.hosts.values()]
    assert len(set(addresses)) == 7
    assert (topology.hosts["h3"].address, topology.hosts["t3"].address) == ("10.0.3.2", "10.0.3.4")
    assert len({host.mac for host in topology.hosts.values()}) == 7


def test_the_soft_bottleneck_counts_the_flows_of_a_direction() -> None:
    links = {(0, 1): LINK, (1, 2): LinkParameters(4_000_000, 0, Queue(50)), (1, 3): LINK}
    topology = Topology(links, [0], [2, 3], [0, 1])
    path = topology.directions(0, 2)
    assert path == ["0>1", "1>2"]
    assert topology.bottleneck(path, {}) == ("1-2", 4_000_000)
    assert topology.bottleneck(path, {"0>1": 1}) == ("0-1", 3_000_000)
    assert topology.bottleneck(path, {"1>0": 1}) == ("1-2", 4_000_000)


@pytest.mark.parametrize("seed", range(50))
def test_paths_and_orders_of_a_tree_are_those_of_networkx(seed: int) -> None:
    draw = random.Random(seed)
    nodes = draw.sample(range(100), draw.randrange(2, 40))
    links = [(draw.choice(nodes[:at]), nodes[at]) for at in range(1, len(nodes))]
    links = [draw.choice([link, link[::-1]]) for link in draw.sample(links, len(links))]
    delays = {link: draw.randrange(100) for link in links}
    tree, graph = Routes(delays), networkx.Graph()
    graph.add_weighted_edges_from((a, b, delay) for (a, b), delay in delays.items())
    for a in nodes:
        assert list(tree.away_from(a)) == list(networkx.bfs_edges(graph, a))
        hops = networkx.single_source_shortest_path_length(graph, a)
        delay = networkx.single_source_dijkstra_path_length(graph, a)
        assert tree.distances(a) == {node: (delay[node], hops[node]) for node in nodes}
        for b in nodes:
            assert tree.path(a, b) == networkx.shortest_path(graph, a, b)


def test_links_to_receivers_are_those_of_their_paths() -> None:
    topology = Topology({link: LINK for link in tree_links(depth=3, fanout=2)}, [0, 7], [9, 13])
    for sender, receivers in ((0, [9, 13]), (7, [9, 13, 14]), (13, [9])):
        paths = (link for node in receivers for link in topology.path(sender, node))
        assert sorted(topology.links_to(sender, receivers, topology.routes)) == sorted(set(paths))
