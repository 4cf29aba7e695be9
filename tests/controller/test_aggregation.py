"""The aggregators in a topology: which switches aggregate, for whom, and how their summaries are
routed."""

from dataclasses import replace
from ipaddress import IPv4Address

import pytest
from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.network.aggregation import aggregation_entries
from tiercast_controller.network.topology import Session, Switch, Topology

IN_NETWORK = Session(1, 5, "h0", aggregation="network")


def entries_of(topology: Topology, sessions: list[Session]) -> dict[str, list]:
    return {
        name: [(e.table, dict(e.match), dict(e.params)) for e in entries]
        for name, entries in aggregation_entries(topology, sessions).items()
    }


def address(text: str) -> int:
    return int(IPv4Address(text))


def test_each_switch_sums_up_for_the_next_one_and_the_first_for_the_sender(tree_of) -> None:
    found = entries_of(tree_of(2), [IN_NETWORK])
    assert found["s0"] == [
        (
            "aggregator",
            {"session": 1},
            {
                "slot": 0,
                "id": address("10.0.0.3"),
                "address": address("10.0.0.3"),
                "parent": address("10.0.0.2"),  # h0
                "mac": 0x020000010000,
                "upstream_port": 1,
            },
        )
    ]
    assert found["s2"] == [
        ("ipv4_host", {"dst_addr": address("10.0.0.3")}, {"port": 1, "dst_mac": 0x020000010000}),
        (
            "aggregator",
            {"session": 1},
            {
                "slot": 0,
                "id": address("10.0.2.3"),
                "address": address("10.0.2.3"),
                "parent": address("10.0.0.3"),
                "mac": 0x020000010002,
                "upstream_port": 1,
            },
        ),
    ]


def test_sessions_that_the_sender_sums_up_need_nothing(tree_of) -> None:
    assert set(map(len, entries_of(tree_of(2), [Session(1, 5, "h0")]).values())) == {0}


def test_slots_and_trees_by_session(tree_of) -> None:
    sessions = [Session(9, 1, "h0"), IN_NETWORK, replace(IN_NETWORK, number=2, source="h3")]
    found = entries_of(tree_of(2), sessions)
    aggregators = [
        (match["session"], params["slot"], params["parent"], params["upstream_port"])
        for table, match, params in found["s1"]
        if table == "aggregator"
    ]
    assert aggregators == [
        (1, 0, address("10.0.0.3"), 1),  # towards h0
        (2, 1, address("10.0.3.2"), 2),  # h3 is attached here
    ]


def test_a_switch_off_all_paths_has_no_aggregator(tree_of) -> None:
    topology = tree_of(1)
    topology.add_switch(Switch("s9", 9, "unix:/x", ip=IPv4Address("10.0.9.3")))
    topology.connect("s9", 1, "s0", 4)
    assert entries_of(topology, [IN_NETWORK])["s9"] == []


def test_errors(tree_of) -> None:
    topology = tree_of(1)
    many = [replace(IN_NETWORK, number=i) for i in range(257)]
    with pytest.raises(ConfigurationError, match="257 sessions are aggregated .* up to 256"):
        aggregation_entries(topology, many)
    with pytest.raises(ConfigurationError, match="aggregation is 'nobody'; valid: sender, network"):
        topology.check([replace(IN_NETWORK, aggregation="nobody")])
    bare = Topology()
    bare.add_switch(Switch("s0", 1, "unix:/x"))
    for i, host in enumerate(topology.hosts, 1):
        bare.add_host(host)
        bare.connect("s0", i, host.name)
    with pytest.raises(ConfigurationError, match=r"needs an IPv4 address \('ip'\) of switch s0"):
        aggregation_entries(bare, [IN_NETWORK])
    bare = Topology()
    bare.add_switch(Switch("s0", 1, "unix:/x", ip=IPv4Address("10.0.1.2")))
    bare.add_host(topology.host("h1"))
    bare.connect("s0", 1, "h1")
    with pytest.raises(ConfigurationError, match=r"h1 and s0 share 10\.0\.1\.2"):
        bare.check([])
