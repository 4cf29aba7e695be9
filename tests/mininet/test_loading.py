"""Experiments are checked before anything starts. Errors name the place, the value and the valid
choices."""

from __future__ import annotations

import textwrap
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from tiercast.v1 import simulation_pb2
from tiercast_controller.network.marking import (
    DropTail,
    PortPolicy,
    PortQueue,
    PriorityMarking,
    PriorityQueues,
    Red,
    ThresholdMarking,
)
from tiercast_controller.network.routing import static_entries
from tiercast_controller.p4runtime.entities import TableEntry
from tiercast_lab.base.errors import EXIT_INPUT, InputError
from tiercast_lab.experiment.loading import load_experiment, without_effect
from tiercast_lab.experiment.schemes import known_schemes
from tiercast_lab.experiment.topology import Host
from tiercast_lab.run.agents import session_agents
from tiercast_lab.run.controller_input import Reach, described_sessions, described_topology
from tiercast_lab.run.mininet.commands import receiver_command, switch_options
from tiercast_lab.run.mininet.traffic import command as traffic_command
from tiercast_lab.run.network_summary import network_summary
from tiercast_lab.run.ns3.scenario import scenario
from tiercast_lab.study.sweep_spec import find_sweep

from .conftest import ROOT, SCHEMES, SMALL


def test_the_paper_session() -> None:
    loaded = load_experiment(ROOT / "experiments/sim-session.yaml", SCHEMES)
    topology = loaded.topology
    assert len(topology.switches) == 15
    assert loaded.receivers == (tuple(range(15, 31)),)
    assert topology.round_trip(0, loaded.receivers[0]) == 40_000_000
    # SIM 4.2.1: 4 receivers at 1, 1 at 2, 5 at 3, 1 at 4, 2 at 5 and 3 at 6 Mbit/s.
    rates = [
        topology.bottleneck(topology.directions(0, node), {})[1] // 10**6
        for node in loaded.receivers[0]
    ]
    assert [rates.count(rate) for rate in range(1, 7)] == [4, 1, 5, 1, 2, 3]
    assert loaded.window == (
        loaded.experiment.duration / 1e9 - 20,
        loaded.experiment.duration / 1e9,
    )


def test_of_many_receivers_some_have_rows() -> None:
    schemes = known_schemes()
    file = ROOT / "experiments/figures/groups.yaml"
    loaded = load_experiment(file, schemes, ["topology.tree.fanout=[2, 3, 8, 60]"])
    assert (len(loaded.receivers[0]), len(loaded.recorded[0])) == (2880, 256)
    (session,) = network_summary(loaded)["sessions"]
    assert list(session["receivers"]) == [f"h{n}" for n in loaded.recorded[0]]
    chosen = load_experiment(file, schemes, ["record_receivers=4"])
    assert chosen.recorded == ((15, 19, 23, 27),)
    assert load_experiment(file, schemes).recorded == ((*range(15, 31),),)


def test_links_may_have_no_delay(load) -> None:
    (session,) = network_summary(load(SMALL.replace("delay: 5ms", "delay: 0ms")))["sessions"]
    assert session["round_trip_s"] == 0


def test_nodes_above_65535_have_addresses_of_their_own() -> None:
    hosts = [Host(f"h{number}", number, "s0") for number in (1, 255, 256, 65535, 65536, 65537)]
    assert hosts[3].address == "10.255.255.2"
    assert hosts[5].address == "11.0.1.2"
    for key in ("address", "gateway", "mac", "gateway_mac"):
        assert len({getattr(host, key) for host in hosts}) == len(hosts)


def test_every_experiment_of_the_repository_loads() -> None:
    schemes = known_schemes()
    for path in (ROOT / "experiments").glob("*.yaml"):
        assert load_experiment(path, schemes).experiment.name == path.stem


@pytest.mark.parametrize(
    ("old", "new", "place", "parts"),
    [
        ("tree: {depth: 2}", "treee: {depth: 2}", 4, ["topology.treee", "unknown key", "tree"]),
        ("rate: 1Mbit/s", "rate: 1Mb", 7, ["topology.links.1-3.rate", "'1Mb'", "Mbit/s"]),
        ("1-3:", "1-9:", 7, ["'1-9'", "0-1, 0-2, 1-3"]),
        ("1-3:", "1~3:", 7, ["not a link", "1-3"]),
        ("scheme: sim", "scheme: simm", 9, ["'simm'", "valid: sim, single"]),
        ("sender: 0", "sender: 77", 9, ["no node 77", "0, 1, 2"]),
        ("layers: 2}\nd", "layers: 9}\nd", 9, ["sessions.0.layers", "9; valid: 8 or less"]),
        ("layers: 2}\nd", "layers: 2, receivers: [3, 9]}\nd", 9, ["node 9", "0, 1, 2"]),
        ("duration: 20s", "duration: 20", 10, ["duration", "20", "ms"]),
        ("duration: 20s", "duration: 90ms", 10, ["'90ms'; valid: 100ms or more"]),
        ("duration: 20s", "duration: 4s", 11, ["measure.last: 10s is longer", "up to 4s"]),
        ("sender: 0, ", "", 9, ["sessions.0.sender", "missing"]),
        ("min: 0.9", "minimum: 0.9", 14, ["minimum", "did you mean 'min'"]),
        (
            "measure: efficiency",
            "measure: effeciency",
            14,
            ["'effeciency'", "did you mean 'efficiency'?"],
        ),
        ("{measure: efficiency, min: 0.9}", "{measure: efficiency}", 14, ["tolerance", "min"]),
        ("efficiency, min: 0.9", "efficiency, min: 0.9, max: 0.8", 14, ["min is above max"]),
        ("paper: 6Mbit/s", "paper: 6", 13, ["6", "Mbit/s"]),
        ("measure: {last", "measure: [last", 11, ["expected"]),
        ("last: 10s", "last: 0s", 11, ["measure.last", "'0s'; valid: 1ns or more"]),
        ("last: 10s", "last: 10s, until: 0s", 11, ["measure.until", "1ns or more"]),
        (
            "link: {rate: 6Mbit/s",
            "link: {rate: 0Mbit/s",
            5,
            ["topology.link.rate", "valid: 1bit/s or more"],
        ),
        ("rate: 1Mbit/s", "rate: 0Mbit/s", 7, ["topology.links.1-3.rate", "1bit/s or more"]),
        (
            "rate: 1Mbit/s",
            "rate: 1001Gbit/s",
            7,
            ["'1001Gbit/s' is too large", "1000Gbit/s"],
        ),
        ("layers: 2}\nd", "layers: 2, receivers: [3, 4, 3]}\nd", 9, ["node 3 is given twice"]),
        ("title: A small tree", "title: a\ntitle: b", 3, ["'title' is given twice"]),
    ],
)
def test_errors(load, tmp_path: Path, old: str, new: str, place: int, parts: list[str]) -> None:
    text = textwrap.dedent(SMALL)
    assert old in text
    with pytest.raises(InputError) as error:
        load(text.replace(old, new))
    message = str(error.value)
    assert message.startswith(f"{tmp_path}/experiment.yaml:{place}: ")
    for part in parts:
        assert part in message
    assert error.value.exit_status == EXIT_INPUT


def test_parameters_are_checked(load) -> None:
    def with_parameters(text: str) -> str:
        return SMALL.replace("layers: 2}", f"layers: 2, parameters: {{{text}}}}}")

    session = load(with_parameters("sim.delta: 0.5")).experiment.sessions[0]
    assert session.parameters == {"sim.delta": 0.5}
    with pytest.raises(InputError, match=r"unknown parameter of sim; valid: sim\.delta"):
        load(with_parameters("sim.dleta: 0.5"))
    with pytest.raises(InputError, match=r"2 is out of range; valid: 0\.1 to 0\.99$"):
        load(with_parameters("sim.delta: 2"))


def test_settings_change_keys_and_parameters(load) -> None:
    loaded = load(settings=["topology.link.queue=20p", "sim.delta=0.8"], duration="30s")
    assert loaded.topology.links["0-1"].parameters.queue.packets == 20
    assert loaded.experiment.sessions[0].parameters == {"sim.delta": 0.8}
    assert loaded.window == (20.0, 30.0)
    for setting, said in [
        ("nonsense", "key=value"),
        ("topology.quueue=1p", "unknown key"),
        ("sim.delta=7", "--set sim.delta=7: .*out of range"),
        ("sessions.3.layers=1", "sessions has no '3'; valid: 0"),
    ]:
        with pytest.raises(InputError, match=said):
            load(settings=[setting])


def test_settings_of_a_scheme_that_is_not_there(load) -> None:
    """A sweep's cells leave them out, a single run mentions them, and a wrong name is an error in
    both."""
    text = SMALL.replace("scheme: sim, sender: 0, layers: 2", "scheme: single, sender: 0")
    text = text.partition("expect:")[0]
    loaded = load(text, settings=["sim.delta=0.8", "topology.link.queue=20p"])
    assert loaded.experiment.sessions[0].parameters == {}
    notes = without_effect(loaded, ["sim.delta=0.8", "topology.link.queue=20p"], SCHEMES)
    assert notes == ["--set sim.delta=0.8 changes nothing: no session is of sim; there is single"]
    with pytest.raises(InputError, match="unknown parameter of sim; .*did you mean 'sim.delta'"):
        load(text, settings=["sim.dleta=0.8"])


def test_wrong_values_are_said_in_the_words_of_the_file(load) -> None:
    for old, new, said in [
        ("name: small", "name: My_Run", "name: 'My_Run'; valid: text that matches "),
        ("sender: 0", "sender: h0", "sessions.0.sender: 'h0'; valid: a whole number"),
        ("sessions:\n      - {", "sessions: {", "sessions: .*; valid: a list"),
    ]:
        text = SMALL.replace(old, new)
        with pytest.raises(InputError, match=said):
            load(text)


def test_explicit_topology(load) -> None:
    tree = "tree: {depth: 2}"
    links = "1-3: {rate: 1Mbit/s}"
    text = SMALL.replace(tree, "nodes: [0, 1, 3, 4]")
    loaded = load(text.replace(links, "{0-1: {}, 1-3: {rate: 1Mbit/s}, 1-4: {}}"))
    assert loaded.receivers == ((3, 4),)
    assert loaded.topology.path(0, 3) == ["0-1", "1-3"]
    with pytest.raises(InputError, match="no node 5; valid: 0, 1, 3, 4"):
        load(text.replace(links, "{0-1: {}, 1-5: {}}"))
    with pytest.raises(InputError, match="no path from node 0 to node 4; valid: links that"):
        load(text.replace(links, "{0-1: {}, 1-3: {}}"))
    with pytest.raises(InputError, match="exactly one of 'tree', 'random' and 'nodes'"):
        load(SMALL.replace(tree, f"{tree}\n      nodes: [0, 1]"))


def test_include_names_the_file_it_is_in(load, tmp_path: Path) -> None:
    (tmp_path / "topologies").mkdir()
    shared = tmp_path / "topologies" / "shared.yaml"
    shared.write_text("tree: {depth: 2}\nlink: {rate: 6Mbit/s, delay: 5, queue: 50p}\n")
    text = SMALL.replace("tree: {depth: 2}", "include: shared").replace(
        "link: {rate: 6Mbit/s, delay: 5ms, queue: 50p}", "link: {rate: 7Mbit/s}"
    )
    with pytest.raises(InputError, match=rf"^{shared}:2: topology\.link\.delay: 5 is not a time"):
        load(text)
    shared.write_text(shared.read_text().replace("delay: 5,", "delay: 5ms,"))
    assert load(text).topology.links["0-1"].parameters.rate == 7_000_000
    with pytest.raises(InputError, match="no topology 'missing'; valid: .*shared"):
        load(text.replace("include: shared", "include: missing"))


def test_events_are_checked(load) -> None:
    text = textwrap.dedent(SMALL)
    good = text + "events:\n  - {at: 5s, link: 1-3, rate: 2Mbit/s}\n"
    assert load(good).experiment.events[0].at == 5_000_000_000
    with pytest.raises(InputError, match="no link '3-1'"):
        load(good.replace("link: 1-3", "link: 3-1"))
    with pytest.raises(InputError, match="30s is not before the end of the run"):
        load(good.replace("at: 5s", "at: 30s"))
    with pytest.raises(InputError, match=r"events.0.rate: .0Mbit.s.; valid: 1bit.s or more"):
        load(good.replace("rate: 2Mbit/s", "rate: 0Mbit/s"))
    with pytest.raises(InputError, match="nothing changes"):
        load(good.replace(", rate: 2Mbit/s", ""))


def test_what_is_expected_of_other_sessions_is_checked(load) -> None:
    """The names are those that the run's measures have."""
    text = textwrap.dedent(SMALL).replace("layers: 2}\nd", "layers: 2}\n"
        "  - {scheme: sim, sender: 0, session: 7, layers: 3, receivers: [3]}\nd")  # fmt: skip
    form = "measure: efficiency, min: 0.9"

    def expected(new: str) -> str:
        return load(text.replace(form, new)).experiment.expect[1].name

    rate = "measure: receiver_rate, min: 1Mbit/s, receiver: 3"
    assert expected(f"{rate}, session: 7") == "receiver_rate_h3.s7"
    assert expected(f"{rate}, session: 1") == expected(rate) == "receiver_rate_h3"
    assert expected("measure: efficiency, min: 0.9, session: 7") == "efficiency_s7"
    layers = "measure: cumulative_rate, layers: 3, min: 1Mbit/s, session: 7"
    assert expected(layers) == "cumulative_rate_3_s7"
    for wrong, said in (
        ("measure: longest_queue, max: 9, session: 7", "longest_queue takes no 'session'"),
        ("measure: loss, max: 1%, layers: 1", "loss takes no 'layers'"),
        ("measure: level, min: 1", "level needs 'receiver'"),
        ("measure: udp_loss, max: 1%", "udp_loss needs `traffic` of kind udp"),
        (f"{rate}, session: 2", "no session 2; valid: 1, 7"),
        (f"{rate[:-1]}4, session: 7", "no receiver with rows at node 4; valid in session 7: 3"),
        ("measure: cumulative_rate, layers: 3, min: 1Mbit/s", "3 layers; valid: up to 2, as ses"),
    ):
        with pytest.raises(InputError, match=said):
            expected(wrong)
    with pytest.raises(InputError, match="no receiver with rows at node 4; valid in session 1: 3"):
        load(text.replace(form, f"{rate[:-1]}4") + "record_receivers: 1\n")


def test_markings_and_the_policies_that_follow(load) -> None:
    def policy(text: str, link: str = "0-1") -> PortPolicy | None:
        loaded = load(textwrap.dedent(SMALL) + f"marking: {{{text}}}\n")
        rate = loaded.topology.links[link].parameters.rate
        return loaded.experiment.marking_of(link).at(rate, 1000, idle_us=7)

    assert policy("threshold: auto", "1-3") == PriorityMarking().at(1_000_000, 1000, 7)
    threshold = ThresholdMarking(threshold=20)
    assert policy("kind: threshold, threshold: 20") == threshold.at(6_000_000, 1000, 7)
    drop_tail = DropTail(limit=30)
    assert policy("kind: drop_tail, limit: 30") == drop_tail.at(6_000_000, 1000, 7)
    assert policy("kind: none") is None
    red = Red(min_th=4, ecn=True, limit=60)
    assert policy("kind: red, ecn: true, min_th: 4, limit: 60") == red.at(6_000_000, 1000, 7)


def test_red_on_arrival_is_told_to_the_queues_of_both_runtimes(load) -> None:
    own = "1-3: {marking: {kind: red, where: arrival, min_th: 4, ecn: true}}"
    loaded = load(SMALL.replace("1-3: {rate: 1Mbit/s}", own))
    ports = [port for one in scenario(loaded, seed=1).switches for port in one.ports]
    (simulated,) = [port for port in ports if port.HasField("red")]
    assert simulated.link == "1>3"
    red = simulated.red
    assert (red.min_th, red.max_th, red.max_p, red.weight) == (4, 15, 0.1, 0.002)
    assert (red.ecn, red.wait, red.gentle, red.mean_packet_bytes) == (True, True, False, 500)
    described = described_topology(loaded, lambda one: Reach(one.name, one.device_id))
    port = loaded.topology.switches["s1"].port_to("h3")
    assert described.queues("s1") == {
        port: PortQueue(red=loaded.experiment.marking_of("1-3").queue_red())
    }
    assert described.markings("s1")[port].entry(port).action == "no_marking"
    with pytest.raises(InputError, match=r"marking\.limit: link 1-3: limit is 9; valid"):
        load(SMALL.replace("1-3: {rate: 1Mbit/s}", own.replace("ecn: true", "limit: 9")))


def test_two_queues_are_told_to_both_runtimes(load) -> None:
    own = "1-3: {rate: 1Mbit/s, marking: {kind: dualpi2, classic_share: 0.2}}"
    loaded = load(SMALL.replace("1-3: {rate: 1Mbit/s}", own))
    ports = [port for one in scenario(loaded, seed=1).switches for port in one.ports]
    (simulated,) = [port for port in ports if port.HasField("priority_queues")]
    assert simulated.link == "1>3"
    assert (simulated.priority_queues.queues, simulated.priority_queues.low_share) == (2, 0.2)
    described = described_topology(loaded, lambda one: Reach(one.name, one.device_id))
    port = loaded.topology.switches["s1"].port_to("h3")
    assert described.queues("s1") == {port: PortQueue(priority=PriorityQueues(0.2))}
    classes = {name: _classes(entries) for name, entries in static_entries(described).items()}
    assert classes == {"s0": [], "s1": [1, 3], "s2": []}
    fair = own.replace("{rate", "{scheduling: fair, rate")
    said = r"marking: link 1-3 has a queue for each flow, and dualpi2 two of its own; valid: sched"
    with pytest.raises(InputError, match=said):
        load(SMALL.replace("1-3: {rate: 1Mbit/s}", fair))


def _classes(entries: list[TableEntry]) -> list[int]:
    """The ECN fields whose packets have a priority."""
    return [item.exact("ecn") for item in entries if item.table == "queue_class"]


def test_a_link_may_have_its_own_marking(load) -> None:
    own = "1-3: {marking: {kind: drop_tail, limit: 9}}"
    experiment = load(SMALL.replace("1-3: {rate: 1Mbit/s}", own)).experiment
    assert experiment.marking_of("1-3") == DropTail(limit=9)
    assert experiment.marking_of("0-1") == experiment.marking_of("h0") == PriorityMarking()


def test_a_level_that_a_switch_cannot_hold_is_named_where_it_stands(load) -> None:
    level = "levels: {L2: {marking: {kind: red, max_th: 70000}}}\n      links:"
    said = r"experiment.yaml:6: topology\.levels\.L2\.marking\.max_th: link 1-3: max_th is 70000"
    with pytest.raises(InputError, match=said):
        load(SMALL.replace("links:", level))


def test_a_link_counts_in_packets_of_what_crosses_it(load) -> None:
    """The largest data packets of sessions and flows in either direction. 1-3 carries only one of
    two sessions, 1-4 also the TCP flow, and 2-6 nothing."""
    first = "- {scheme: sim, sender: 0, receivers: [5], packet_size: 500B, "
    own = "session: 2, receivers: [3, 4], packet_size: 800B, layers: 2"
    second = f"- {{scheme: sim, sender: 0, {own}}}"
    loaded = load(
        textwrap.dedent(SMALL).replace("- {scheme: sim, sender: 0,", f"{second}\n  {first}")
        + "traffic: [{kind: tcp, from: 4, to: 0, packet_size: 1400B}]\n"
    )
    sizes = {name: loaded.packet_size_of(name) for name in loaded.topology.links}
    expected = {"0-1": 1400, "0-2": 500, "1-3": 800, "1-4": 1400, "2-5": 500, "2-6": 1000}
    assert {name: size for name, size in sizes.items() if "-" in name} == expected
    # 20 ms of 1 Mbit/s: 2500 bytes.
    switch, port = "s1", loaded.topology.switches["s1"].port_to("h3")
    described = described_topology(loaded, lambda one: Reach(one.name, one.device_id))
    entry = described.markings(switch)[port].entry(port)
    assert dict(entry.params)["threshold"] == 2500 / 800 * 256


@pytest.mark.parametrize(
    ("marking", "said"),
    [
        ("{kind: RED}", "marking.kind: 'RED'; .*did you mean 'red'"),
        ("{kind: redd}", "marking.kind: .*'priority', .*did you mean 'red'"),
        ("{kind: red, minth: 5}", "marking.minth: unknown key; .*did you mean 'min_th'"),
        ("{kind: drop_tail, threshold: 5}", "marking.threshold: unknown key; valid: kind, limit"),
        ("{kind: drop_tail}", "marking.limit: this key is missing"),
        ("{kind: threshold}", "marking.threshold: this key is missing"),
        ("{kind: threshold, threshold: 2.5}", "marking.threshold: 2.5; valid: a whole number"),
        ("{threshold: 0}", "'threshold' is 0; valid: auto, or above 0"),
        ("{kind: red, min_th: 20}", "marking.min_th: link 0-1: min_th 20 and max_th 15: valid is"),
        ("{kind: red, max_th: 70000}", r"marking.max_th: .*max_th is 70000; valid: 0\.\.65535"),
    ],
)
def test_markings_are_checked(load, marking: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        load(textwrap.dedent(SMALL) + f"marking: {marking}\n")
    with pytest.raises(
        InputError,
        match=f"experiment.yaml:7: .*{said.removeprefix('marking: ').replace('0-1', '1-3')}",
    ):
        load(SMALL.replace("1-3: {rate: 1Mbit/s}", f"1-3: {{rate: 1Mbit/s, marking: {marking}}}"))


def test_aggregation(load) -> None:
    def session(text: str):
        return load(SMALL.replace("layers: 2}", f"layers: 2{text}}}")).experiment.sessions[0]

    assert session("").aggregation == "sender"
    assert session(", aggregation: network").aggregation == "network"
    with pytest.raises(InputError, match="aggregation: 'switch'; valid: 'sender' or 'network'"):
        session(", aggregation: switch")


def test_keys_are_off_and_seal_nothing_that_switches_sum_up(load) -> None:
    assert not load(SMALL).experiment.keys
    text = textwrap.dedent(SMALL) + "keys: true\n"
    assert load(text).experiment.keys
    aggregated = text.replace("layers: 2}", "layers: 2, aggregation: network}")
    with pytest.raises(
        InputError, match="sessions.0.aggregation: switches cannot aggregate what is sealed"
    ):
        load(aggregated)


def test_the_members_of_a_session_are_its_receivers_and_the_nearest_aggregator(load) -> None:
    def members(text: str) -> list[tuple[int, str]]:
        (session,) = described_sessions(load(text))
        return [(one.id, str(one.address)) for one in session.members]

    loaded = load(SMALL)
    hosts = [loaded.topology.hosts[f"h{node}"] for node in loaded.receivers[0]]
    receivers = [(host.number, host.address) for host in hosts]
    assert len(receivers) > 1 and members(SMALL) == receivers
    aggregated = SMALL.replace("layers: 2}", "layers: 2, aggregation: network}")
    root = IPv4Address(loaded.topology.switches[loaded.topology.hosts["h0"].switch].address)
    assert members(aggregated) == [*receivers, (int(root), str(root))]


def with_lies(lies: str, session: str = "") -> str:
    return SMALL.replace("layers: 2}", f"layers: 2, lies: {lies}{session}}}")


def test_members_that_lie_are_told_so_in_both_runtimes(load) -> None:
    loaded = load(with_lies("{4: rate_zero, 6: million_receivers}"))
    (session,) = scenario(loaded, seed=1).sessions
    assert {one.host: one.lie for one in session.receivers} == {
        "h3": "", "h4": "rate_zero", "h5": "", "h6": "million_receivers",
    }  # fmt: skip
    (agents,) = session_agents(loaded, seed=1)
    hosts = loaded.topology.hosts
    commands = {
        node: receiver_command(agents, hosts[f"h{node}"], "eth0", hosts["h0"], Path("lab.sock"))
        for node in (3, 4)
    }
    assert not any(word.startswith("--lie") for word in commands[3])
    assert commands[4][-1] == "--lie=rate_zero"


def test_of_unicast_sessions_those_to_liars_have_lies(load) -> None:
    loaded = load(with_lies("{4: rate_zero}", ", unicast: true"))
    lies = [session.lies for session in loaded.experiment.sessions]
    assert lies == [{}, {4: "rate_zero"}, {}, {}]


@pytest.mark.parametrize(
    ("lies", "said"),
    [
        ("{0: rate_zero}", "lies.0: no receiver of session 1 is at node 0; valid: 3, 4, 5, 6"),
        ("{4: rate_nil}", "lies.4: sim has no lie 'rate_nil'; valid: rate_zero, million_receivers"),
        ("{x: rate_zero}", "lies.x"),
        ("rate_zero", "lies: .*valid: a mapping"),
    ],
)
def test_lies_that_nobody_can_tell_are_refused(load, lies: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        load(with_lies(lies))


def test_the_sweep_of_lies_has_every_lie_of_every_scheme() -> None:
    schemes = known_schemes()
    spec = find_sweep("lies", schemes)
    tried: dict[str, set[str]] = {}
    for cell in spec.cells:
        if not cell.excluded:
            tried.setdefault(cell.names["scheme"], set()).add(cell.names["lie"].partition(",")[0])
    assert tried == {name: {"nobody", *scheme.lies} for name, scheme in schemes.items()}


def test_a_session_with_one_rate_has_one_layer(load) -> None:
    text = SMALL.replace("scheme: sim", "scheme: single")
    with pytest.raises(InputError, match="sessions.0.layers: single has one rate.*valid: 1"):
        load(text)
    text = text.replace(", layers: 2}", "}").replace("layers: 2, paper", "layers: 1, paper")
    loaded = load(text)
    assert (loaded.experiment.sessions[0].layers, loaded.layered) == (1, (False,))
    with pytest.raises(
        InputError, match="aggregation: switches can aggregate the feedback of sim only"
    ):
        load(text.replace("sender: 0}", "sender: 0, aggregation: network}"))


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


def test_a_unicast_session_is_one_for_each_receiver(load) -> None:
    more = "  - {scheme: sim, sender: 0, session: 7, unicast: true}\n"
    text = textwrap.dedent(SMALL).replace("duration:", more + "duration:")
    loaded = load(text)
    assert loaded.receivers == ((3, 4, 5, 6), (3,), (4,), (5,), (6,))
    assert [session.session for session in loaded.experiment.sessions] == [1, 7, 8, 9, 10]
    others = network_summary(loaded)["sessions"][1:]
    members = [agent for one in others for agent in one["receivers"]]
    assert members == ["h3.s7", "h4.s8", "h5.s9", "h6.s10"]
    assert [one["sender"] for one in others] == ["h0.s7", "h0.s8", "h0.s9", "h0.s10"]
    # No two agents on a node draw the same numbers; a single session draws those of a run in real
    # time.
    seeds = [one.session.seed for one in scenario(loaded, seed=3).sessions]
    assert seeds[0] == 3
    assert len(set(seeds)) == 5
    assert seeds == [one.session.seed for one in scenario(loaded, seed=3).sessions]
    others = [one.session.seed for one in scenario(loaded, seed=4).sessions]
    assert not set(seeds) & set(others)
    with pytest.raises(InputError, match="sessions.1.session: session 1 is given twice"):
        load(text.replace("session: 7", "session: 0"))
    with pytest.raises(InputError, match="sessions up to 32769; valid: up to 32767"):
        load(text.replace("session: 7", "session: 32766"))


def test_a_measure_may_be_of_one_udp_flow(load) -> None:
    text = SMALL.replace("efficiency, min: 0.9}", "udp_loss, max: 1%, flow: FLOW}")
    text = textwrap.dedent(text) + ON_OFF
    assert load(text.replace("FLOW", "udp1")).experiment.expect[1].name == "udp_loss_udp1"
    assert load(text.replace(", flow: FLOW", "")).experiment.expect[1].name == "udp_loss"
    with pytest.raises(InputError, match="expect.1.flow: no UDP flow 'tcp1'; valid: udp1"):
        load(text.replace("FLOW", "tcp1"))


def test_a_measure_may_be_of_one_link(load) -> None:
    """By default away from the sender of its session (node 0 or node 3); or in a given
    direction."""
    more = "  - {scheme: sim, sender: 3, session: 2, receivers: [4]}\n"
    text = textwrap.dedent(SMALL).replace("duration:", more + "duration:")

    def expected(new: str) -> str:
        return load(text.replace("efficiency, min: 0.9", new)).experiment.expect[1].name

    assert expected("queue_drops, max: 1%, link: 1-3") == "queue_drops_1>3"
    assert expected("policy_drops, max: 1%, link: 3>1") == "policy_drops_3>1"
    assert expected("marked, max: 1%, link: 1-3, session: 1") == "marked_1>3"
    assert expected("marked, max: 1%, link: 1-3, session: 2") == "marked_3>1_s2"
    assert expected("marked, max: 1%") == "marked"
    with pytest.raises(InputError, match="expect.1.link: no link '3-1'; valid: 0-1, 0-2, 1-3, "):
        expected("queue_drops, max: 1%, link: 3-1")
    with pytest.raises(InputError, match="loss takes no 'link'"):
        expected("loss, max: 1%, link: 1-3")


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


def test_a_file_may_extend_a_base(load, tmp_path: Path) -> None:
    (tmp_path / "bases").mkdir()
    base = tmp_path / "bases" / "shared.yaml"
    base.write_text(textwrap.dedent(SMALL).replace("name: small\n", ""))
    text = "extends: shared\nname: mine\ntopology: {link: {queue: 9p}}\n"
    loaded = load(text)
    link = loaded.topology.links["0-1"].parameters
    assert (loaded.experiment.name, link.queue.packets, link.rate) == ("mine", 9, 6_000_000)
    assert loaded.experiment.title == "A small tree"
    with pytest.raises(InputError, match="experiment.yaml:1: extends: no base 'other'.*shared"):
        load(text.replace("extends: shared", "extends: other"))
    base.write_text(base.read_text().replace("duration: 20s", "duration: 20"))
    with pytest.raises(InputError, match=rf"^{base}:9: duration: 20 is not a time"):
        load(text)


def test_members_of_every_session_come_and_go(load) -> None:
    """Session 2 starts at 4 s. h3.s2 joins at 5 s, leaves and comes back; h4.s2 should join at 2 s,
    before its session starts; h5 of the first session leaves."""
    more = "  - {scheme: single, sender: 0, session: 2, start: 4s}\n"
    loaded = load(
        textwrap.dedent(SMALL).replace("duration:", more + "duration:")
        + """\
members:
  - {session: 2, at: 5s, every: 6s, receivers: [3], action: join}
  - {session: 2, at: 2s, receivers: [4], action: join}
  - {at: 8s, receivers: [5]}
"""
    )
    away = [
        {agent: one["absences"] for agent, one in session["receivers"].items()}
        for session in network_summary(loaded)["sessions"]
    ]
    assert away == [
        {"h3": [], "h4": [], "h5": [[8.0, 20.0]], "h6": []},
        {
            "h3.s2": [[0.0, 5.0], [11.0, 17.0]],
            "h4.s2": [[0.0, 4.0]],
            "h5.s2": [[0.0, 4.0]],
            "h6.s2": [[0.0, 4.0]],
        },
    ]
    message = scenario(loaded, seed=1)
    starts = [[one.start_ns // 10**9 for one in session.receivers] for session in message.sessions]
    assert starts == [[0, 0, 0, 0], [5, 4, 4, 4]]
    assert [(one.at_ns // 10**9, one.session, one.host, one.joins)
            for one in message.members] == [
        (8, 1, "h5", False), (11, 2, "h3", False), (17, 2, "h3", True)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ("session: 3, at: 9s, receivers: [3]", "members.0.session: no session 3; valid: 1, 2"),
        (
            "session: 2, at: 9s, receivers: [3]",
            "no receiver of session 2 is at node 3; valid: 4, 5",
        ),
        ("at: 9s, receivers: [0]", "no receiver of session 1 is at node 0; valid: 3, 4, 5, 6"),
        ("session: 2, at: 4s, receivers: [4]", "node 4 leaves at 4s; valid: from 4.1s on"),
    ],
)
def test_members_are_checked(load, members: str, said: str) -> None:
    more = "  - {scheme: single, sender: 0, session: 2, start: 4s, receivers: [4, 5]}\n"
    text = textwrap.dedent(SMALL).replace("duration:", more + "duration:")
    with pytest.raises(InputError, match=said):
        load(text + f"members: [{{{members}}}]\n")


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ("at: 99ms", "node 3 leaves at 99ms; valid: from 100ms on"),
        ("at: 1s, every: 50ms, action: join", "node 3 leaves at 1.05s; valid: from 1.1s on"),
    ],
)
def test_nobody_leaves_before_it_has_started(load, event: str, said: str) -> None:
    members = textwrap.dedent(SMALL) + f"members:\n  - {{{event}, receivers: [3]}}\n"
    with pytest.raises(InputError, match=f"experiment.yaml:15: members: {said}"):
        load(members)
    load(members.replace("99ms", "100ms").replace("50ms", "100ms"))


def test_levels_of_a_tree(load) -> None:
    text = SMALL.replace("tree: {depth: 2}", "tree: {depth: 2, fanout: [1, 3]}").replace(
        "      links:\n        1-3: {rate: 1Mbit/s}\n",
        "      levels:\n        L2: {rate: 3Mbit/s, marking: {kind: none}}\n"
        "      links:\n        1-3: {rate: 1Mbit/s}\n",
    )
    loaded = load(text)
    rates = {name: link.parameters.rate // 10**6 for name, link in loaded.topology.links.items()}
    assert rates == {"0-1": 6, "1-2": 3, "1-3": 1, "1-4": 3, "h0": 0}
    kinds = [loaded.experiment.marking_of(name).kind for name in ("0-1", "1-2", "1-3")]
    assert kinds == ["priority", "none", "none"]
    # Changed as figures do.
    again = load(text, settings=["topology.levels.L2.rate=4Mbit/s"])
    assert again.topology.links["1-2"].parameters.rate == 4 * 10**6
    for old, new, said in (
        ("L2:", "L3:", "'L3'; valid: L1, L2"),
        ("fanout: [1, 3]", "fanout: [1, 3, 3]", "'fanout' has 3 levels; valid: 2"),
    ):
        with pytest.raises(InputError, match=said):
            load(text.replace(old, new))


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

    assert flow("") == flow(", stack: kernel")
    kernel, ns2 = flow(""), flow(", stack: ns2")
    assert (kernel.sack, kernel.delayed_acks, kernel.window_packets) == (True, True, 0)
    assert (ns2.sack, ns2.delayed_acks, ns2.window_packets) == (False, False, 20)
    assert (kernel.HasField("sender"), ns2.sender.initial_window_packets) == (False, 1)
    assert ns2.sender.clock_tick_ns == 100_000_000
    other = flow(", stack: ns2, sack: true, window: 1000p")
    assert (other.sack, other.window_packets, other.sender) == (True, 1000, ns2.sender)
    with pytest.raises(InputError, match="valid: 'kernel' or 'ns2'"):
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
    entry, lab = loaded.experiment.traffic[0], Path("/lab.sock")
    for role in ("receive", "send"):
        line = traffic_command(role, entry, ["tcp1", "tcp2"], loaded, lab, seed=1)
        text = " ".join(line)
        assert "--flow tcp1 5502 --flow tcp2 5503" in text
        host = loaded.topology.hosts["t0" if role == "send" else "t3"]
        assert f"--address={host.address}" in text


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


def test_a_link_may_have_a_queue_for_each_flow(load) -> None:
    loaded = load(SMALL.replace("1-3: {rate: 1Mbit/s}", "1-3: {scheduling: fair}"))
    assert loaded.topology.links["1-3"].parameters.fair
    assert not loaded.topology.links["0-1"].parameters.fair
    ports = {
        port.link: port.fair_queueing
        for switch in scenario(loaded, seed=1).switches
        for port in switch.ports
    }
    assert ports["1>3"] and not ports["0>1"]
    switch = loaded.topology.switches["s1"]
    command = switch_options(switch, loaded.topology, ["e1", "e2", "e3"], Path("/s"), 1)
    fair = [part for part in command if "scheduling=fair" in part]
    assert len(fair) == 1
    with pytest.raises(InputError, match="scheduling"):
        load(SMALL.replace("1-3: {rate: 1Mbit/s}", "1-3: {scheduling: random}"))
