"""Topology, unicast routes and marking entries."""

from ipaddress import IPv4Address, IPv4Interface, IPv4Network

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.network.marking import DropTail, PriorityMarking
from tiercast_controller.network.routing import static_entries
from tiercast_controller.network.topology import (
    Host,
    Session,
    Switch,
    Topology,
    group_address,
    session_and_rank,
)


def forward(topology: Topology, entries, at: str, destination: IPv4Address) -> list[str]:
    """Follows a packet through the installed entries. Returns the nodes that it passes."""
    path = [at]
    while isinstance(topology.node(at), Switch):
        host = [
            e for e in entries[at]
            if e.table == "ipv4_host" and dict(e.match)["dst_addr"] == int(destination)
        ]  # fmt: skip
        lpm = [
            e for e in entries[at]
            if e.table == "ipv4_lpm" and destination in IPv4Network(dict(e.match)["dst_addr"])
        ]  # fmt: skip
        lpm.sort(key=lambda e: -dict(e.match)["dst_addr"][1])
        assert host or lpm, f"{at} has no route to {destination}"
        params = dict((host or lpm)[0].params)
        at = topology.neighbour(at, params["port"])
        assert params["dst_mac"] == topology.node(at).mac
        path.append(at)
        assert len(path) < 100, f"loop: {path}"
    return path


def test_figure_1_routes_every_host_from_every_switch(tree_of) -> None:
    topology = tree_of(4)
    entries = static_entries(topology)
    for switch in topology.switches:
        for host in topology.hosts:
            path = forward(topology, entries, switch.name, host.interface.ip)
            assert path == nx.shortest_path(topology.as_graph(), switch.name, host.name)


def test_a_subtree_shares_prefixes(tree_of) -> None:
    """Behind s1 are 10.0.15.0 to 10.0.22.0. /24 + /22 + /23 + /24 cover exactly these; a prefix
    with a single host in it becomes a host entry."""
    topology = tree_of(4)
    left = [e for e in static_entries(topology)["s0"] if dict(e.params).get("port") == 2]
    prefixes = {str(IPv4Network(dict(e.match)["dst_addr"])) for e in left if e.table == "ipv4_lpm"}
    hosts = {str(IPv4Address(dict(e.match)["dst_addr"])) for e in left if e.table == "ipv4_host"}
    assert prefixes == {"10.0.16.0/22", "10.0.20.0/23"}
    assert hosts == {"10.0.15.2", "10.0.22.2"}


def test_hosts_of_one_subnet_in_two_places_get_entries_of_their_own() -> None:
    topology = Topology()
    for i, name in enumerate(("s0", "s1", "s2")):
        topology.add_switch(Switch(name, i + 1, "unix:/x", 0x10 + i))
    topology.connect("s0", 1, "s1", 1)
    topology.connect("s0", 2, "s2", 1)
    for i, where in enumerate(("s1", "s1", "s2")):
        topology.add_host(Host(f"h{i}", IPv4Interface(f"10.0.0.{i + 1}/24"), 0x20 + i))
        topology.connect(where, 5 + i, f"h{i}")
    entries = static_entries(topology)
    assert {e.table for e in entries["s0"]} == {"ipv4_host"}
    assert forward(topology, entries, "s0", IPv4Address("10.0.0.3")) == ["s0", "s2", "h2"]


def test_several_hosts_of_one_subnet_at_a_switch() -> None:
    """A sender and ends of TCP flows: separate entries at their switch, a shared prefix
    elsewhere."""
    topology = Topology()
    for number in (0, 1):
        topology.add_switch(Switch(f"s{number}", number + 1, "unix:/x", 0x020000010000 + number))
    topology.connect("s0", 1, "s1", 1)
    hosts = [("h0", "s0", "10.0.0.2"), ("t0", "s0", "10.0.0.4"), ("t1", "s1", "10.0.1.4")]
    for number, (name, switch, address) in enumerate(hosts):
        topology.add_host(Host(name, IPv4Interface(f"{address}/24"), 0x020000000000 + number))
        topology.connect(switch, number + 2, name)
    entries = static_entries(topology)
    for switch in ("s0", "s1"):
        for name, home, address in hosts:
            path = forward(topology, entries, switch, IPv4Address(address))
            assert path == ([switch, name] if switch == home else [switch, home, name])
    assert [dict(e.match) for e in entries["s1"] if e.table == "ipv4_lpm"] == [
        {"dst_addr": (int(IPv4Address("10.0.0.0")), 24)}
    ]


@given(st.integers(1, 12), st.data())
def test_random_networks_route_without_loops(size: int, data) -> None:
    topology = Topology()
    free = {}
    for i in range(size):
        topology.add_switch(Switch(f"s{i}", i + 1, "unix:/x", 0x100 + i))
        free[f"s{i}"] = iter(range(1, 100))
    for i in range(1, size):
        peers = data.draw(st.sets(st.integers(0, i - 1), min_size=1, max_size=2))
        for peer in peers:
            a, b = f"s{i}", f"s{peer}"
            topology.connect(a, next(free[a]), b, next(free[b]))
    for i in range(data.draw(st.integers(1, 8))):
        where = f"s{data.draw(st.integers(0, size - 1))}"
        topology.add_host(Host(f"h{i}", IPv4Interface(f"10.0.{i}.2/24"), 0x200 + i))
        topology.connect(where, next(free[where]), f"h{i}")
    topology.check([])
    entries = static_entries(topology)
    for switch in topology.switches:
        for host in topology.hosts:
            path = forward(topology, entries, switch.name, host.interface.ip)
            assert path[-1] == host.name
            shortest = nx.shortest_path_length(topology.as_graph(), switch.name, host.name)
            assert len(path) - 1 == shortest


def test_marking_is_fixed_point_with_8_fraction_bits(tree_of) -> None:
    topology = tree_of(1)
    topology.set_marking("s0", 2, PriorityMarking(threshold=2.5).at(6_000_000, 1000, idle_us=70))
    topology.set_marking("s0", 3, None)
    (marking,) = [e for e in static_entries(topology)["s0"] if e.table == "port_marking"]
    assert dict(marking.match) == {"egress_port": 2}
    assert dict(marking.params) == {"threshold": 640, "idle_us": 70}


def test_from_graph_is_the_same_topology(tree_of) -> None:
    topology = tree_of(3)
    again = Topology.from_graph(topology.as_graph())
    assert [s.name for s in again.switches] == [s.name for s in topology.switches]
    assert sorted(again.host_ports()) == sorted(topology.host_ports())
    assert again.attachment("h0") == ("s0", 1)


@given(st.integers(0, (1 << 15) - 1), st.integers(0, 7))
def test_group_addresses(session: int, rank: int) -> None:
    assert session_and_rank(group_address(session, rank)) == (session, rank)


def test_group_addresses_by_hand() -> None:
    assert str(group_address(1, 4)) == "239.192.0.12"
    assert session_and_rank(IPv4Address("239.196.0.0")) is None
    assert session_and_rank(IPv4Address("224.0.0.251")) is None


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda t: t.connect("s0", 2, "h9"), "node 'h9' is not in the topology: s0, h0, h1, h2"),
        (lambda t: t.connect("s0", 1, "h2"), "s0 and h2 are already linked"),
        (lambda t: t.add_host(Host("s0", IPv4Interface("10.1.1.1/24"), 1)), "given twice"),
        (lambda t: t.neighbour("s0", 9), "s0 has no port 9; it has: 1, 2, 3"),
        (lambda t: t.host("s0"), "'s0' is not a host"),
        (lambda t: t.switch("h0"), "'h0' is not a switch"),
        (lambda t: t.check([Session(40000, 5, "h0")]), r"40000 is not within 0\.\.32767"),
        (lambda t: t.check([Session(1, 9, "h0")]), r"layers is 9, not 1\.\.8"),
        (lambda t: t.check([Session(1, 5, "h7")]), "node 'h7' is not in the topology"),
        (lambda t: t.check([Session(1, 5, "h0")] * 2), "session 1 is given twice"),
        (
            lambda t: t.set_marking("s0", 2, DropTail(limit=-1).at(6_000_000, 1000)),
            "s0 port 2: drop_tail: limit is -1; valid: 0",
        ),
    ],
)
def test_errors_name_place_value_and_choices(tree_of, build, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        build(tree_of(1))


def test_more_errors() -> None:
    topology = Topology()
    topology.add_switch(Switch("s0", 1, "unix:/x"))
    topology.add_switch(Switch("s1", 2, "unix:/x"))
    with pytest.raises(ConfigurationError, match="a node of each part: s0, s1"):
        topology.check([])
    with pytest.raises(ConfigurationError, match=r"port of s1 is None, not 1\.\.509"):
        topology.connect("s0", 1, "s1")
    topology = Topology()
    topology.add_switch(Switch("s0", 1, "unix:/x"))
    for i in (1, 2):
        topology.add_host(Host(f"h{i}", IPv4Interface("10.0.0.1/24"), i))
        topology.connect("s0", i, f"h{i}")
    with pytest.raises(ConfigurationError, match=r"h1 and h2 share 10\.0\.0\.1"):
        topology.check([])
