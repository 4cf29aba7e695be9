"""The rule for paths, compared with networkx and with a definition by enumeration."""

from __future__ import annotations

import itertools
import random
from ipaddress import IPv4Interface

import networkx
import pytest
from tiercast_controller.multicast.trees import SessionTrees
from tiercast_controller.network.routes import Routes, steps
from tiercast_controller.network.routing import static_entries
from tiercast_controller.network.topology import Host, Session, Switch, Topology

Links = dict[tuple[int, int], int]


def random_graph(draw: random.Random, delays: range, most: int = 25) -> Links:
    """A connected graph: a random tree and more links."""
    count = draw.randrange(3, most)
    links = [(draw.randrange(node), node) for node in range(1, count)]
    others = [pair for pair in itertools.combinations(range(count), 2) if pair not in links]
    links += draw.sample(others, min(len(others), draw.randrange(1, count)))
    return {
        draw.choice([link, link[::-1]]): draw.choice(delays)
        for link in draw.sample(links, len(links))
    }


def graph_of(links: Links) -> networkx.Graph[int]:
    graph: networkx.Graph[int] = networkx.Graph()
    graph.add_weighted_edges_from((a, b, delay) for (a, b), delay in links.items())
    return graph


@pytest.mark.parametrize("seed", range(100))
def test_paths_are_the_shortest_of_networkx(seed: int) -> None:
    draw = random.Random(seed)
    links = random_graph(draw, range(10**6, 10**8))  # equal sums are as good as impossible
    routes, graph = Routes(links), graph_of(links)
    lengths = dict(networkx.all_pairs_dijkstra_path_length(graph))
    for a, b in itertools.product(graph, graph):
        assert routes.path(a, b) == networkx.dijkstra_path(graph, a, b)
        assert routes.distances(a)[b][0] == lengths[a][b]


@pytest.mark.parametrize("seed", range(100))
def test_of_equal_paths_the_stated_one_is_taken(seed: int) -> None:
    draw = random.Random(seed)
    links = random_graph(draw, range(0, 3), most=9)
    routes, graph = Routes(links), graph_of(links)
    order = sorted(tuple(sorted(link)) for link in links)

    def cost(path: list[int]) -> tuple[int, int, list[tuple[int, int]]]:
        used = [tuple(sorted(link)) for link in steps(path)]
        delay = sum(graph.edges[link]["weight"] for link in used)
        # The later of the links that only one has decides: compare from the last link down.
        return delay, len(used), sorted(used, key=order.index, reverse=True)

    for a, b in itertools.permutations(graph, 2):
        path = routes.path(a, b)
        assert path == min(networkx.all_simple_paths(graph, a, b), key=cost)
        assert path == routes.path(b, a)[::-1]
        for start, end in itertools.combinations(range(len(path)), 2):
            assert routes.path(path[start], path[end]) == path[start : end + 1]
    again = dict(draw.sample(sorted(links.items()), len(links)))
    assert all(
        Routes(again).path(a, b) == routes.path(a, b) for a, b in itertools.product(*[graph] * 2)
    )


def test_numbers_in_names_are_compared_as_numbers() -> None:
    square = {("s1", "s10"): 5, ("s1", "s2"): 5, ("s10", "s20"): 5, ("s2", "s20"): 5}
    assert Routes(square).path("s1", "s20") == ["s1", "s2", "s20"]


def test_nodes_without_a_path() -> None:
    routes = Routes({(0, 1): 1, (2, 3): 1, (3, 4): 1, (2, 4): 1})
    assert routes.parts() == [0, 2]
    assert routes.path(0, 3) == routes.path(3, 0) == []
    assert list(routes.towards(1)) == [0]
    assert Routes({(0, 1): 1, (2, 3): 1}).path(0, 3) == []


def network(links: Links) -> Topology:
    topology = Topology()
    ports = dict.fromkeys({node for link in links for node in link}, 1)
    for node in sorted(ports):
        topology.add_switch(Switch(f"s{node}", node + 1, ""))
        topology.add_host(Host(f"h{node}", IPv4Interface(f"10.0.{node}.2/24"), node))
        topology.connect(f"s{node}", 1, f"h{node}")
    for (a, b), delay in links.items():
        ports[a] += 1
        ports[b] += 1
        topology.connect(f"s{a}", ports[a], f"s{b}", ports[b], delay_ns=delay)
    return topology


@pytest.mark.parametrize("seed", range(20))
def test_switches_forward_on_the_paths_and_each_member_gets_one_copy(seed: int) -> None:
    draw = random.Random(seed)
    links = random_graph(draw, range(0, 4), most=16)
    topology, routes = network(links), Routes(links)
    entries = static_entries(topology)
    for a, b in itertools.permutations(routes.neighbours, 2):
        node, path = f"s{a}", [a]
        while node != f"h{b}":
            node = topology.neighbour(node, next_port(entries[node], topology, f"h{b}"))
            if node.startswith("s"):
                path.append(int(node[1:]))
        assert path == routes.path(a, b)
    source = draw.choice(list(routes.neighbours))
    members = draw.sample(list(routes.neighbours), len(routes.neighbours) // 2 + 1)
    members = [node for node in members if node != source]
    trees = SessionTrees(topology, Session(1, 1, f"h{source}"))
    for node in members:
        trees.join(0, f"s{node}", 1)
    left = draw.sample(members, len(members) // 3)
    for node in left:
        trees.leave(0, f"s{node}", 1)
    wanted = sorted(f"h{node}" for node in members if node not in left)
    assert copies(topology, trees, f"s{source}") == wanted
    failed = draw.choice(list(links))
    before = {name: trees.state(name) for name in entries}
    port = topology.port_to(f"s{failed[0]}", f"s{failed[1]}")
    if not topology.change_link(f"s{failed[0]}", port, up=False):
        assert topology.is_tree
        return
    changed = trees.reroute()
    upstream = topology.routes.towards(f"h{source}")
    around = {name: topology.port_to(name, upstream[name]) for name in entries}
    assert set(changed) == {name for name in entries if trees.state(name) != before[name]}
    assert copies(topology, trees, f"s{source}") == wanted
    graph = graph_of(links)
    graph.remove_edge(*failed)
    if networkx.is_connected(graph):
        a, b = (f"s{node}" for node in failed)
        uses = {topology.neighbour(a, p) for c in trees.state(a).copies.values() for p in c}
        assert b not in uses
        without = Routes({link: delay for link, delay in links.items() if link != failed})
        for x, y in itertools.permutations(routes.neighbours, 2):
            there = [f"s{node}" for node in without.path(x, y)]
            assert topology.routes.path(f"s{x}", f"s{y}") == there
    assert topology.change_link(f"s{failed[0]}", port, up=True)
    trees.reroute()
    for name in entries:
        after = trees.state(name)
        assert (after.copies, after.tops) == (before[name].copies, before[name].tops)
        for group, way in after.upstream.items():
            was = before[name].upstream[group]
            assert (way.source, way.port) == (was.source, was.port)
            # What was on its way around the failure still counts.
            assert way.former == around[name]


def copies(topology: Topology, trees: SessionTrees, root: str) -> list[str]:
    """The hosts that get a copy of a packet of the source, once for each copy."""
    got: list[str] = []
    visited: list[str] = []
    waiting = [(root, 1)]
    while waiting:
        switch, came_in = waiting.pop()
        visited.append(switch)
        assert len(visited) <= len(topology.switches), "a loop"
        for ports in trees.state(switch).copies.values():
            for port in ports - {came_in}:
                node = topology.neighbour(switch, port)
                if node.startswith("h"):
                    got.append(node)
                else:
                    waiting.append((node, topology.port_to(node, switch)))
    return sorted(got)


def next_port(entries, topology: Topology, host: str) -> int:
    """The port of the longest prefix that covers the host's address."""
    address = int(topology.host(host).interface.ip)
    found = []
    for entry in entries:
        if entry.table == "ipv4_host" and entry.exact("dst_addr") == address:
            found.append((32, dict(entry.params)["port"]))
        elif entry.table == "ipv4_lpm":
            ((_, (prefix, length)),) = entry.match
            if address >> (32 - length) == prefix >> (32 - length):
                found.append((length, dict(entry.params)["port"]))
    return max(found)[1]
