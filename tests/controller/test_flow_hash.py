"""Flows that spread over equal paths by a hash (`equal_costs: flow-hash`)."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from ipaddress import IPv4Address

import networkx
import pytest
from p4.v1 import p4runtime_pb2 as p4
from tiercast.v1 import queue_pb2
from tiercast_controller.controller import Controller
from tiercast_controller.network.flow_hash import TCP, UDP, flow_hash, flow_path
from tiercast_controller.network.routes import Routes
from tiercast_controller.network.routing import static_entries
from tiercast_controller.network.topology import Session, Topology
from tiercast_controller.p4runtime.entities import TableEntry, entry_changes

from .controller_run import ring
from .test_equal_costs import DEVIATIONS
from .test_routes import Links, graph_of, network, random_graph

FLOWS = 4000
CRC_CHECK = 0xCBF43926  # of "123456789", by which catalogues name this CRC-32


def hashes(count: int = FLOWS, protocol: int = TCP) -> list[int]:
    """Of flows between two hosts that differ by port alone, as those of an experiment do."""
    ends = IPv4Address("10.0.0.2"), IPv4Address("10.0.99.2")
    return [flow_hash(*ends, protocol, (port, port)) for port in range(5502, 5502 + count)]


def equal_links(count: int) -> Links:
    """From 0 to 99 by any of 1 to `count`."""
    return {link: 5 for node in range(1, count + 1) for link in ((0, node), (node, 99))}


def spread(links: Links) -> Topology:
    topology = network(links)
    topology.equal_costs = "flow-hash"
    return topology


def test_the_hash_is_crc_32_of_addresses_ports_and_protocol() -> None:
    # 13 bytes that begin with those of the check value, as "123456789" and four zeros.
    digits = IPv4Address(b"1234"), IPv4Address(b"5678")
    state = CRC_CHECK ^ 0xFFFFFFFF
    for _ in range(32):  # four more bytes, all zero, bit by bit
        state = (state >> 1) ^ (0xEDB88320 if state & 1 else 0)
    assert flow_hash(*digits, 0, (ord("9") << 8, 0)) == state ^ 0xFFFFFFFF
    # tests/p4src/equal_paths_test.cpp has the same.
    source, destination = IPv4Address("10.0.0.2"), IPv4Address("10.0.1.2")
    assert flow_hash(source, destination, TCP, (5502, 80)) == 0x3F77E784


class Tables:
    """What switches do with a unicast packet, by their entries."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.entries = static_entries(topology)

    def port(self, switch: str, address: int, hashed: int) -> int:
        best: tuple[int, TableEntry] | None = None
        for one in self.entries[switch]:
            match = dict(one.match)
            if one.table == "ipv4_host" and match["dst_addr"] == address:
                return dict(one.params)["port"]
            if one.table in ("ipv4_lpm", "ipv4_spread"):
                value, bits = match["dst_addr"]
                if address >> 32 - bits == value >> 32 - bits and (not best or bits > best[0]):
                    best = bits, one
        assert best
        params = dict(best[1].params)
        if best[1].action == "forward":
            return params["port"]
        upper = (hashed * params["multiplier"] & 0xFFFFFFFF) >> 16
        hop = params["first"] + (upper * params["count"] >> 16)
        (found,) = [
            dict(one.params)["port"]
            for one in self.entries[switch]
            if one.table == "next_hop" and one.exact("hop") == hop
        ]
        return found

    def path(self, a: int, b: int, hashed: int) -> list[int]:
        address = int(self.topology.host(f"h{b}").interface.ip)
        node, path = f"s{a}", [a]
        while True:
            node = self.topology.neighbour(node, self.port(node, address, hashed))
            if node == f"h{b}":
                return path
            path.append(int(node[1:]))


def fewest(graph: networkx.Graph[int], a: int, b: int) -> list[list[int]]:
    """Of the paths of least delay, those of the fewest links."""
    found = list(networkx.all_shortest_paths(graph, a, b, weight="weight"))
    return [path for path in found if len(path) == min(map(len, found))]


@pytest.mark.parametrize("seed", range(30))
def test_each_flow_takes_one_of_networkxs_shortest_paths(seed: int) -> None:
    """By the entries of the switches and by the lab's account, also around a link that fails."""
    draw = random.Random(seed)
    links = random_graph(draw, range(1, 3), most=12)
    topology, graph = spread(links), graph_of(links)

    def check(routes: Routes[int]) -> None:
        tables = Tables(topology)
        for a, b in itertools.permutations(graph, 2):
            paths = fewest(graph, a, b)
            for _ in range(3):
                hashed = draw.randrange(1 << 32)
                path = tables.path(a, b, hashed)
                assert path in paths
                assert path == flow_path(routes, a, b, hashed)
            at = [sorted({path[place : place + 2] for path in map(tuple, paths)})
                  for place in range(len(paths[0]) - 1)]  # fmt: skip
            assert [sorted(place) for place in routes.equal_steps(a, b)] == at

    check(Routes(links))
    a, b = draw.choice(list(links))
    topology.change_link(f"s{a}", topology.port_to(f"s{a}", f"s{b}"), up=False)
    graph.remove_edge(a, b)
    if networkx.is_connected(graph):
        check(Routes({link: delay for link, delay in links.items() if link != (a, b)}))


@pytest.mark.parametrize("protocol", [TCP, UDP])
@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_each_equal_path_has_its_share_of_the_flows(count: int, protocol: int) -> None:
    routes = Routes(equal_links(count))
    taken = Counter(flow_path(routes, 0, 99, one)[1] for one in hashes(protocol=protocol))
    deviation = math.sqrt(FLOWS / count * (1 - 1 / count))
    for node in range(1, count + 1):
        assert abs(taken[node] - FLOWS / count) <= DEVIATIONS * deviation


@pytest.mark.parametrize(("first", "second"), list(itertools.product([2, 3, 4], repeat=2)))
def test_what_chose_alike_at_one_switch_spreads_at_the_next(first: int, second: int) -> None:
    """Without a number of each switch's own all would go on alike. 0 spreads over 1 to `first`, and
    each of these over a row of `second`."""
    links: Links = {}
    for node in range(1, first + 1):
        links[0, node] = 5
        for place in range(second):
            middle = 10 * node + place
            links |= {(node, middle): 5, (middle, 99): 5}
    routes = Routes(links)
    taken = Counter(tuple(flow_path(routes, 0, 99, one)[1:3]) for one in hashes())
    share = 1 / (first * second)
    assert len(taken) == first * second
    for flows in taken.values():
        assert abs(flows - FLOWS * share) <= DEVIATIONS * math.sqrt(FLOWS * share * (1 - share))


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_a_failure_moves_few_flows_and_a_return_moves_them_back(count: int) -> None:
    """With hash-threshold at most half of all flows move, with a modulo all but 1/k would (RFC
    2992); of two paths, only those of the failed link."""
    links = equal_links(count)
    before = Routes(links)
    left = Routes({link: delay for link, delay in links.items() if link != (0, 1)})
    moved = 0
    for hashed in hashes():
        path, later = (flow_path(routes, 0, 99, hashed) for routes in (before, left))
        assert later[1] != 1
        if path != later:
            moved += 1
            assert count > 2 or path[1] == 1
    assert moved <= FLOWS / 2 + DEVIATIONS * math.sqrt(FLOWS / 4)
    topology = spread(links)
    first = static_entries(topology)
    for up in (False, True):
        assert topology.change_link("s0", topology.port_to("s0", "s1"), up=up)
        entries = static_entries(topology)
        assert (entries == first) == up


def test_a_set_of_next_hops_keeps_its_place_while_paths_move() -> None:
    """No entry of next_hop changes: a packet in the middle of a change finds the old hop or the new
    one."""
    topology = spread(equal_links(4))
    before = static_entries(topology)
    for switch, up in (("s1", False), ("s2", False), ("s1", True), ("s2", True)):
        topology.change_link("s0", topology.port_to("s0", switch), up=up)
        after = static_entries(topology)
        for name, entries in after.items():
            changed = [
                update
                for update in entry_changes(before[name], entries)
                if update.op.name == "MODIFY" and update.entity.table == "next_hop"
            ]
            assert not changed
        before = after


async def test_a_switch_gets_new_next_hops_before_what_leads_to_them(
    reference_switches, socket_directory, program
) -> None:
    """In batches of their own, since a switch may take each in any order; what is replaced goes
    last."""
    topology = ring(Topology("flow-hash"), socket_directory, 4, delay_ns=1000)
    topology.change_link("s0", 2, up=False)
    servers = await reference_switches(topology)
    controller = Controller(topology, [Session(1, 1, "h0")], program)
    await controller.start()
    try:
        servers["s0"].batches.clear()
        await controller.set_link("s0", 2, wire=queue_pb2.Wire(up=True))
        names = {one.preamble.id: one.preamble.alias for one in program.p4info.tables}
        writes = [
            {
                (p4.Update.Type.Name(one.type), names[one.entity.table_entry.table_id])
                for one in batch
            }
            for batch in servers["s0"].batches
        ]
        assert writes[0] == {("INSERT", "next_hop")}
        assert ("INSERT", "ipv4_spread") in writes[1]
        assert {op for op, _ in writes[1]} <= {"INSERT", "MODIFY"}
        assert writes[2:] == [{("DELETE", "ipv4_lpm")}]
    finally:
        await controller.stop()


@pytest.mark.parametrize("seed", range(5))
def test_without_it_no_switch_has_such_entries(seed: int) -> None:
    topology = network(random_graph(random.Random(seed), range(1, 3), most=12))
    for equal_costs in ("one", "session-hash"):
        topology.equal_costs = equal_costs
        tables = {one.table for entries in static_entries(topology).values() for one in entries}
        assert tables <= {"source_guard", "ipv4_host", "ipv4_lpm"}
