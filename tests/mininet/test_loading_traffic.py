"""`traffic` of an experiment: its flows in both runtimes. Wrong entries are refused."""

from __future__ import annotations

import json
import textwrap

import pytest
from tiercast.v1 import simulation_pb2
from tiercast_lab.base.errors import InputError
from tiercast_lab.run.mininet.traffic import end as flows_end
from tiercast_lab.run.network_summary import network_summary
from tiercast_lab.run.ns3.scenario import scenario

from .conftest import SMALL

TRAFFIC = "traffic:\n  - {kind: tcp, from: 0, to: 1, start: 2s, stop: 12s, count: 2}\n"


def test_traffic(load) -> None:
    text = textwrap.dedent(SMALL) + TRAFFIC + "  - {kind: tcp, from: 6, to: 3}\n"
    loaded = load(text)
    assert list(loaded.flows) == ["tcp1", "tcp2", "tcp3"]
    assert (loaded.flows["tcp2"].start_s, loaded.flows["tcp2"].stop_s) == (2.0, 12.0)
    assert (loaded.flows["tcp3"].source, loaded.flows["tcp3"].stop_s) == (6, 20.0)
    assert loaded.experiment.traffic[0].congestion_control == "reno"
    assert {"t0", "t1", "t3", "t6"} <= loaded.topology.hosts.keys()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("from: 0", "form: 0", "traffic.0.form: unknown key; .*did you mean 'from'"),
        ("from: 0, ", "", "traffic.0.from: this key is missing"),
        ("from: 0", "from: 9", "traffic.0.from: no node 9; valid: 0, 1, 2"),
        ("to: 1", "to: 0", "traffic.0.to: a flow from node 0 to itself"),
        ("stop: 12s", "stop: 21s", "traffic.0.stop: stop is 21s; valid: before 20s"),
        ("start: 2s", "start: 12s", "traffic.0.start: start is 12s; valid: before 12s"),
        ("kind: tcp", "kind: sctp", "traffic.0.kind: .*'tcp'.*'udp'"),
        ("kind: tcp", "kind: udp", "traffic.0: udp needs 'rate'"),
        ("count: 2", "rate: 1Mbit/s", "traffic.0: tcp takes no 'rate'"),
        ("count: 2", "on: {distribution: constant, mean: 1s}", "'on' and 'off' go together"),
        ("count: 2", "on: {distribution: pareto, mean: 1s}", "traffic.0.on: pareto needs 'shape'"),
        ("count: 2", "on: {distribution: constant, shape: 2, mean: 1s}", "constant takes no 'sha"),
        (
            "count: 2",
            "on: {distribution: pareto, shape: 1, mean: 1s}",
            "on.shape: 1; valid: above 1",
        ),
        (
            "count: 2",
            "on: {distribution: weibull, mean: 1s}",
            "'weibull'; valid: 'constant', 'exponential'",
        ),
        ("count: 2", "on: {distribution: constant, mean: 1}", "on: 1 is not a time"),
        (
            "count: 2",
            "on: {distribution: constant, mean: 0p}",
            "on: mean is '0p'; valid: 1p",
        ),
        ("count: 2", "on: {distribution: constant, means: 1s}", "on.means: unknown key"),
        ("count: 2", "on: {distribution: constant}", "on.mean: this key is missing"),
        ("count: 2", "count: 0", "traffic.0.count: 0; valid: 1 or more"),
        ("count: 2", "congestion_control: New Reno", "congestion_control: 'New Reno'; valid: "),
    ],
)
def test_traffic_is_checked(load, old: str, new: str, said: str) -> None:
    assert old in TRAFFIC
    with pytest.raises(InputError, match=rf"experiment.yaml:1[56]: .*{said}"):
        load(textwrap.dedent(SMALL) + TRAFFIC.replace(old, new))


ON_OFF = """\
traffic:
  - kind: tcp
    from: 0
    to: 3
    count: 2
    on: {distribution: pareto, shape: 1.1, mean: 20p}
    off: {distribution: exponential, mean: 500ms}
  - {kind: udp, from: 0, to: 4, rate: 200kbit/s}
  - {kind: tcp, from: 0, to: 5}
"""


def test_traffic_that_comes_and_goes(load) -> None:
    loaded = load(textwrap.dedent(SMALL) + ON_OFF)
    assert list(loaded.flows) == ["tcp1", "tcp2", "udp1", "tcp3"]
    assert [flow.rival for flow in loaded.flows.values()] == [False, False, False, True]
    entry = loaded.experiment.traffic[0]
    assert (entry.on.mean, entry.on.in_packets, entry.off.mean) == (20, True, 500_000_000)
    assert loaded.experiment.only_in_virtual_time == []
    (facts,) = network_summary(loaded)["sessions"]
    rivals = {agent: facts["receivers"][agent]["rivals"] for agent in ("h3", "h5")}
    assert rivals == {"h3": [], "h5": ["tcp3"]}
    # h3's bottleneck is the 1 Mbit/s link, which it shares with no flow that stays.
    assert facts["receivers"]["h3"]["share"] == 1_000_000
    asked = load(textwrap.dedent(SMALL) + ON_OFF.replace("count: 2", "count: 2\n    rival: true"))
    (facts,) = network_summary(asked)["sessions"]
    assert facts["receivers"]["h3"]["rivals"] == ["tcp1", "tcp2"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("mean: 500ms", "mean: 5p", "traffic.0: off: packets are not a time"),
        (
            "rate: 200kbit/s",
            "rate: 200kbit/s, on: {distribution: constant, mean: 2p},"
            " off: {distribution: constant, mean: 1s}",
            "traffic.1: on: packets are the size of a TCP transfer",
        ),
        ("rate: 200kbit/s", "rate: 200kbit/s, rival: true", "traffic.1: rivals are TCP flows"),
        ("rate: 200kbit/s", "rate: 0bit/s", "traffic.1.rate: "),
        ("rate: 200kbit/s", "rate: 1bit/s, congestion_control: reno", "udp takes no 'congestion_"),
    ],
)
def test_periods_are_checked(load, old: str, new: str, said: str) -> None:
    assert old in ON_OFF
    with pytest.raises(InputError, match=said):
        load(textwrap.dedent(SMALL) + ON_OFF.replace(old, new))


def test_entries_that_mean_many_flows(load) -> None:
    entries = (
        "traffic:\n"
        "  - {kind: tcp, from: 0, to: receivers, count: 2}\n"
        "  - {kind: udp, from: parents, to: children, rate: 1kbit/s}\n"
    )
    loaded = load(textwrap.dedent(SMALL) + entries)
    pairs = [(flow.kind, flow.source, flow.destination) for flow in loaded.flows.values()]
    assert pairs[:8] == [("tcp", 0, node) for node in (3, 3, 4, 4, 5, 5, 6, 6)]
    links = [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6)]
    assert sorted(pairs[8:]) == [("udp", *link) for link in links]
    # Away from the sender, wherever the sender is.
    loaded = load(textwrap.dedent(SMALL).replace("sender: 0", "sender: 3") + entries)
    udp = {(f.source, f.destination) for f in loaded.flows.values() if f.kind == "udp"}
    assert udp == {(3, 1), (1, 0), (1, 4), (0, 2), (2, 5), (2, 6)}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("from: parents, to: 3", "traffic.0: 'from: parents' and 'to: children' go together"),
        ("from: 0, to: children", "traffic.0: 'from: parents' and 'to: children' go together"),
        ("from: 9, to: receivers", "traffic.0.from: no node 9"),
        ("from: 0, to: everybody", "traffic.0.to: "),
    ],
)
def test_ends_of_flows_are_checked(load, entry: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        load(textwrap.dedent(SMALL) + f"traffic:\n  - {{kind: tcp, {entry}}}\n")


def test_a_measure_may_be_of_one_udp_flow(load) -> None:
    text = SMALL.replace("efficiency, min: 0.9}", "udp_loss, max: 1%, flow: FLOW}")
    text = textwrap.dedent(text) + ON_OFF
    assert load(text.replace("FLOW", "udp1")).experiment.expect[1].name == "udp_loss_udp1"
    assert load(text.replace(", flow: FLOW", "")).experiment.expect[1].name == "udp_loss"
    with pytest.raises(InputError, match="expect.1.flow: no UDP flow 'tcp1'; valid: udp1"):
        load(text.replace("FLOW", "tcp1"))


def test_background_is_no_rival_to_measure_by(load) -> None:
    text = SMALL.replace("{measure: efficiency, min: 0.9}", "{measure: tcp_ratio, max: 2}")
    background = ON_OFF[: ON_OFF.index("  - {kind: tcp")]
    with pytest.raises(InputError, match="expect.1.measure: tcp_ratio needs `traffic` of rivals"):
        load(textwrap.dedent(text) + background)


def test_a_figure_beside_tcp_needs_traffic(load) -> None:
    text = SMALL.replace("{measure: efficiency, min: 0.9}", "{measure: tcp_ratio, max: 2}")
    with pytest.raises(InputError, match="expect.1.measure: tcp_ratio needs `traffic`"):
        load(text)
    load(textwrap.dedent(text) + TRAFFIC)


def test_traffic_to_several_nodes_is_an_entry_for_each(load) -> None:
    text = (
        textwrap.dedent(SMALL)
        + "traffic:\n  - {kind: tcp, from: 0, to: [3, 4, 5], overhead: 5ms}\n"
    )
    loaded = load(text)
    assert [flow.destination for flow in loaded.flows.values()] == [3, 4, 5]
    assert {entry.overhead for entry in loaded.experiment.traffic} == {5_000_000}
    assert "traffic.overhead" in " ".join(loaded.experiment.only_in_virtual_time)
    with pytest.raises(InputError, match="no node 9"):
        load(text.replace("5]", "9]"))


def test_a_tcp_flow_has_a_stack_of_which_a_part_may_be_another(load) -> None:
    def flow(text: str) -> simulation_pb2.TcpFlow:
        loaded = load(
            textwrap.dedent(SMALL) + f"traffic:\n  - {{kind: tcp, from: 0, to: 3{text}}}\n"
        )
        [flow] = scenario(loaded, seed=1).tcp
        return flow

    assert flow("") == flow(", stack: linux")
    kernel, ns2 = flow(", stack: kernel"), flow(", stack: ns2")
    assert (kernel.sack, kernel.delayed_acks, kernel.window_packets) == (True, True, 0)
    assert (ns2.sack, ns2.delayed_acks, ns2.window_packets) == (False, False, 20)
    assert (kernel.sender.initial_window_packets, kernel.sender.clock_tick_ns) == (10, 0)
    assert (ns2.sender.initial_window_packets, ns2.sender.clock_tick_ns) == (1, 100_000_000)
    linux = flow(", stack: linux").sender
    least = [(one.min_timeout_ns, one.min_above_rtt) for one in (kernel.sender, linux)]
    assert least == [(1_000_000_000, False), (200_000_000, True)]
    other = flow(", stack: ns2, sack: true, window: 1000p")
    assert (other.sack, other.window_packets, other.sender) == (True, 1000, ns2.sender)
    linux = flow(", stack: linux")
    assert (linux.sack, linux.delayed_acks, linux.window_packets) == (True, True, 0)
    assert (linux.sender.min_timeout_ns, linux.sender.min_above_rtt) == (200_000_000, True)
    assert (linux.ack_delay_ns, kernel.ack_delay_ns) == (40_000_000, 0)
    lasting = [(one.sender.connect_timeout_ns, one.sender.data_retries) for one in (linux, kernel)]
    assert lasting == [(1_000_000_000, 15), (3_000_000_000, 6)]
    with pytest.raises(InputError, match="valid: 'kernel', 'linux' or 'ns2'"):
        flow(", stack: tahoe")


def test_each_flow_has_a_port_of_its_own_in_both_runtimes(load) -> None:
    loaded = load(
        textwrap.dedent(SMALL) + "traffic:\n  - {kind: tcp, from: 0, to: 3, count: 2}\n"
        "  - {kind: udp, from: 0, to: 4, rate: 1Mbit/s}\n  - {kind: tcp, from: 4, to: 0}\n"
    )
    ports = {name: flow.port for name, flow in loaded.flows.items()}
    assert ports == {"tcp1": 5502, "tcp2": 5503, "udp1": 5504, "tcp3": 5505}
    simulated = scenario(loaded, seed=1)
    assert {flow.name: flow.port for flow in (*simulated.tcp, *simulated.udp)} == ports
    for role, node in (("receive", "t3"), ("send", "t0")):
        end = flows_end(role, 0, loaded, "/ns/{}".format, seed=1)
        assert end.flows == [("tcp1", 5502), ("tcp2", 5503)]
        host = loaded.topology.hosts[node]
        assert (end.namespace, end.address) == (f"/ns/{node}", host.address)
        assert type(end).read(json.loads(json.dumps(end.write()))) == end


def test_a_tcp_window_may_have_a_limit(load) -> None:
    without = textwrap.dedent(SMALL) + "traffic:\n  - {kind: tcp, from: 0, to: 3}\n"
    limited = without.replace("to: 3}", "to: 3, window: 20p}")
    for text, packets in ((without, 0), (limited, 20)):
        loaded = load(text)
        assert [flow.window_packets for flow in scenario(loaded, seed=1).tcp] == [packets]
    for wrong in ("0p", "1001p", "20", "20kB"):
        with pytest.raises(InputError, match="window"):
            load(limited.replace("20p}", wrong + "}"))
    with pytest.raises(InputError, match="udp takes no 'window'"):
        load(limited.replace("tcp", "udp").replace("20p}", "20p, rate: 1Mbit/s}"))
