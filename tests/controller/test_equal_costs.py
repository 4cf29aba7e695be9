"""Sessions that share equal paths by a hash of their numbers (`equal_costs: session-hash`)."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter

import networkx
import pytest
from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.multicast.trees import SessionTrees
from tiercast_controller.network.routes import Routes
from tiercast_controller.network.topology import Session, Topology

from .test_routes import graph_of, network, random_graph

SESSIONS = 4000
DEVIATIONS = 4.5  # of a binomial count; 7 of a million counts are farther from their mean


@pytest.mark.parametrize("seed", range(60))
def test_with_a_key_paths_are_shortest_and_their_parts_are_paths(seed: int) -> None:
    """Of least delay, and of those of the fewest links, like networkx's; the way back is the way
    there, and a part of a path is a path, so that a source's paths are a tree."""
    draw = random.Random(seed)
    links = random_graph(draw, range(1, 3), most=10)
    graph, key = graph_of(links), draw.randrange(32768)
    keyed = Routes(links).keyed(key)
    for a, b in itertools.permutations(graph, 2):
        found = list(networkx.all_shortest_paths(graph, a, b, weight="weight"))
        fewest = min(map(len, found))
        path = keyed.path(a, b)
        assert path in [one for one in found if len(one) == fewest]
        assert path == keyed.path(b, a)[::-1]
        for start, end in itertools.combinations(range(len(path)), 2):
            assert keyed.path(path[start], path[end]) == path[start : end + 1]
    named = Routes({(f"s{a}", f"s{b}"): delay for (a, b), delay in links.items()}).keyed(key)
    for a, b in itertools.permutations(graph, 2):
        assert named.path(f"s{a}", f"s{b}") == [f"s{node}" for node in keyed.path(a, b)]


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_each_equal_path_has_its_share_of_the_sessions(count: int) -> None:
    middle = range(1, count + 1)
    links = {link: 5 for node in middle for link in ((0, node), (node, 99))}
    routes = Routes(links)
    taken = Counter(routes.keyed(session).path(0, 99)[1] for session in range(SESSIONS))
    deviation = math.sqrt(SESSIONS / count * (1 - 1 / count))
    for node in middle:
        assert abs(taken[node] - SESSIONS / count) <= DEVIATIONS * deviation


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_a_failure_moves_only_sessions_of_its_link(count: int) -> None:
    middle = range(1, count + 1)
    links = {link: 5 for node in middle for link in ((0, node), (node, 99))}
    left = {link: delay for link, delay in links.items() if link != (0, 1)}
    before, after = Routes(links), Routes(left)
    for session in range(200):
        path = before.keyed(session).path(0, 99)
        assert path[1] == 1 or after.keyed(session).path(0, 99) == path


def spread(links: dict[tuple[int, int], int]) -> Topology:
    topology = network(links)
    topology.equal_costs = "session-hash"
    return topology


@pytest.mark.parametrize("seed", range(20))
def test_each_member_gets_one_copy_on_its_sessions_path(seed: int) -> None:
    """All layers of a session are on one tree, also around a link that fails."""
    draw = random.Random(seed)
    links = random_graph(draw, range(1, 3), most=12)
    topology, nodes = spread(links), sorted({node for link in links for node in link})
    source, *members = draw.sample(nodes, min(len(nodes), 5))
    wanted = sorted(f"h{node}" for node in members)
    sessions = [Session(number, 2, f"h{source}") for number in range(1, 9)]
    trees = [SessionTrees(topology, session) for session in sessions]
    for tree, node, rank in itertools.product(trees, members, (0, 1)):
        tree.join(rank, f"s{node}", 1)

    def check(paths: Routes[int]) -> None:
        for tree in trees:
            keyed = paths.keyed(tree.session.number)
            path_links = {
                step for node in members for step in itertools.pairwise(keyed.path(source, node))
            }
            for rank in (0, 1):
                group = tree.session.group(rank)
                ways = {
                    (node, topology.neighbour(f"s{node}", port))
                    for node in nodes
                    for port in tree.state(f"s{node}").copies.get(group, ())
                }
                assert sorted(name for _, name in ways if name.startswith("h")) == wanted
                used = {(node, int(name[1:])) for node, name in ways if name.startswith("s")}
                assert used == path_links

    check(Routes(links))
    a, b = draw.choice(list(links))
    if topology.change_link(f"s{a}", topology.port_to(f"s{a}", f"s{b}"), up=False):
        for tree in trees:
            tree.reroute()
        graph = graph_of(links)
        graph.remove_edge(a, b)
        if networkx.is_connected(graph):
            check(Routes({link: delay for link, delay in links.items() if link != (a, b)}))


def test_aggregation_in_the_network_is_refused_where_there_may_be_equal_paths() -> None:
    session = Session(1, 1, "h0", aggregation="network")
    ring = {(0, 1): 1, (1, 2): 1, (0, 2): 1}
    with pytest.raises(ConfigurationError, match="session 1: aggregation .* session-hash"):
        spread(ring).check([session])
    spread({(0, 1): 1, (1, 2): 1}).check([session])
    network(ring).check([session])
