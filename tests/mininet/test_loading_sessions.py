"""Sessions of an experiment, and their members: unicast, aggregation, keys, lies, coming and
going."""

from __future__ import annotations

import textwrap
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from tiercast_lab.base.errors import InputError
from tiercast_lab.experiment.schemes import known_schemes
from tiercast_lab.run.agents import session_agents
from tiercast_lab.run.controller_input import described_sessions
from tiercast_lab.run.mininet.commands import receiver_command
from tiercast_lab.run.network_summary import network_summary
from tiercast_lab.run.ns3.scenario import scenario
from tiercast_lab.study.sweep_spec import find_sweep

from .conftest import SMALL


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
    with pytest.raises(InputError, match="sessions.0.layers: 2, but single has one rate.*valid: 1"):
        load(text)
    text = text.replace(", layers: 2}", "}").replace("layers: 2, paper", "layers: 1, paper")
    loaded = load(text)
    assert (loaded.experiment.sessions[0].layers, loaded.layered) == (1, (False,))
    with pytest.raises(
        InputError, match="aggregation: switches can aggregate the feedback of sim only"
    ):
        load(text.replace("sender: 0}", "sender: 0, aggregation: network}"))


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


def test_a_receiver_that_would_join_after_the_end_is_absent(load) -> None:
    """h3 would join at 25 s of 20 s, h4 at the end, h5 leaves at 8 s and would come back, and h6
    would leave after the end."""
    loaded = load(
        textwrap.dedent(SMALL)
        + """\
members:
  - {at: 25s, receivers: [3], action: join}
  - {at: 20s, every: 2s, receivers: [4], action: join}
  - {at: 8s, every: 15s, receivers: [5]}
  - {at: 25s, receivers: [5], action: join}
  - {at: 25s, receivers: [6]}
"""
    )
    assert [note.partition(": ")[2] for note in loaded.notes] == [
        f"members.{index}.at: {at} is not before the end of the run (20s): nobody {action}s then"
        for index, at, action in ((0, "25s", "join"), (1, "20s", "join"), (3, "25s", "join"))
    ] + ["members.4.at: 25s is not before the end of the run (20s): nobody leaves then"]
    (session,) = network_summary(loaded)["sessions"]
    assert {agent: one["absences"] for agent, one in session["receivers"].items()} == {
        "h3": [[0.0, 20.0]], "h4": [[0.0, 20.0]], "h5": [[8.0, 20.0]], "h6": [],
    }  # fmt: skip
    message = scenario(loaded, seed=1)
    starts = [one.start_ns // 10**9 for one in message.sessions[0].receivers]
    assert starts == [20, 20, 0, 0]
    assert [(one.at_ns // 10**9, one.host, one.joins) for one in message.members] == [
        (8, "h5", False)
    ]


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
