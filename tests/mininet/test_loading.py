"""Experiments are checked before anything starts. Errors name the place, the value and the valid
choices. Markings, sessions and traffic have files of their own (test_loading_*.py)."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from tiercast_lab.base.errors import EXIT_INPUT, InputError
from tiercast_lab.experiment.loading import load_experiment, without_effect
from tiercast_lab.experiment.schemes import known_schemes
from tiercast_lab.experiment.topology import Host
from tiercast_lab.run.network_summary import network_summary

from ..checkout import ROOT
from .conftest import SCHEMES, SMALL


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
        ("title: A", "extend: A", 2, ["extend: unknown key", "extends (did you mean 'extends'?)"]),
        ("scheme: sim", "scheme: single", 9, ["sessions.0.layers: 2, but single has one rate"]),
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
