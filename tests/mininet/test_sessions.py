"""Several sessions of one run, whose agents come and go: as an experiment says it, and the same in
Mininet and in virtual time."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path
from statistics import mean

import polars as pl
import pytest
from tiercast_lab.base.errors import InputError
from tiercast_lab.base.lengths import Length
from tiercast_lab.experiment.churn import MIN_STAY_NS, MemberChange, member_changes
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.loading import load_experiment
from tiercast_lab.experiment.quantities import START_SPREAD_NS
from tiercast_lab.experiment.schemes import known_schemes
from tiercast_lab.measures import Rows, all_measures
from tiercast_lab.measures.rows import totals
from tiercast_lab.results.storage import load_run
from tiercast_lab.run.agents import agent_changes, session_agents
from tiercast_lab.run.network_summary import network_summary
from tiercast_lab.run.ns3.scenario import scenario

from .conftest import SMALL
from .real_run import Started

# Node 0 sends two sessions; node 2 sends one and receives another; h3.s2 and h4.s3 share a host
# with receivers of the first session. h6 leaves at 4 s and comes back at 7 s, session 2 stops, and
# the receivers of session 3 come and go. A tree is pruned 1 s after a leave.
SESSIONS = """\
title: Three sessions
topology: {tree: {depth: 2}, link: {rate: 3Mbit/s, delay: 5ms, queue: 50p}}
sessions:
  - {scheme: sim, session: 1, sender: 0, layers: 3}
  - {scheme: ermcc, session: 2, sender: 2, receivers: [3, 5], start: 2s, stop: 8s}
  - {scheme: tfmcc, session: 3, sender: 0, receivers: [4, 2], start: 1s}
members:
  - {at: 4s, every: 3s, receivers: [6]}
churn:
  - session: 3
    arrivals: {every: 500ms}
    stay: {distribution: exponential, mean: 1s}
leave_latency: 1s
duration: 12s
"""
SEED = 5
END_S = 12
# How late an agent may be: that of a busy machine, and 0.2 s between its rows.
SLACK_S = 1.0


@pytest.mark.alone
@pytest.mark.mininet
def test_agents_come_and_go_alike_in_both_runtimes(tmp_path: Path) -> None:
    file = tmp_path / "sessions.yaml"
    file.write_text(SESSIONS)
    due: dict[str, list[tuple[float, bool]]] = {}
    for one in agent_changes(load_experiment(file, known_schemes()), SEED):
        due.setdefault(one.agent, []).append((one.at / 1e9, one.joins))
    assert [joins for _, joins in due["h6"]] == [True, False, True, False]
    assert [len(due[agent]) > 3 for agent in ("h4.s3", "h2.s3")] == [True, True]
    for runtime in ("ns3", "mininet"):
        started = Started(
            tmp_path / runtime, "--runtime", runtime, "--seed", str(SEED), experiment=str(file)
        )
        status, out, error = started.finish()
        assert status in (0, 3), out + error
        run = load_run((tmp_path / runtime / "latest").resolve())
        rows = run.rows["subscription"].sort("time_s").filter(pl.col("time_s") < END_S)
        seen: dict[str, list[tuple[float, bool]]] = {}
        for time_s, agent, top in rows.select("time_s", "agent", "top").iter_rows():
            changes = seen.setdefault(agent, [])
            if bool(changes and changes[-1][1]) != (top >= 0):
                changes.append((time_s, top >= 0))
        for agent in run.context.sessions[0].receivers:
            assert agent in seen
        for agent, changes in seen.items():
            assert [joins for _, joins in changes] == [joins for _, joins in due[agent]], agent
            for (time_s, _), (at, _) in zip(changes, due[agent], strict=True):
                assert at <= time_s < at + SLACK_S, (runtime, agent)
            # An absent receiver has no rows, and its counts go on when it is back.
            mine = run.rows["received"].filter(pl.col("agent") == agent).sort("time_s")
            ends = [*(at for at, _ in due[agent]), END_S]
            there = list(zip(ends[::2], ends[1::2], strict=False))
            for time_s in mine["time_s"]:
                assert any(on <= time_s < off + SLACK_S for on, off in there), (agent, time_s)
            assert mine["bytes"].is_sorted()
        layers = run.rows["layer"].filter(pl.col("agent") == "h2.s2")["time_s"]
        assert layers.min() >= 2
        assert layers.max() < 8 + SLACK_S
        received = totals(run.rows["received"], "bytes")
        assert {agent for agent, count in received.iter_rows() if count} == set(seen)
        assert all_measures(run.rows, run.context)["session_throughput_s2"] > 0
        if runtime == "mininet":
            reports = run.rows["controller.igmp"].filter(pl.col("session") == 2).sort("time_s")
            assert reports["action"].to_list() == ["join", "join", "expire", "expire"]
            assert reports["time_s"][2] >= 8 + 1
        refused = next(c for c in run.summary["validity"]["checks"] if c["name"] == "refused")
        assert refused["ok"], refused


def test_both_runtimes_are_given_the_same_changes(tmp_path: Path) -> None:
    file = tmp_path / "sessions.yaml"
    file.write_text(SESSIONS)
    loaded = load_experiment(file, known_schemes())
    assert loaded.experiment.only_in_virtual_time == []
    simulated = []
    message = scenario(loaded, seed=5)
    for one in message.sessions:
        agents = [f"{one.sender}{one.suffix}"]
        simulated.append((one.start_ns, *agents, True))
        for receiver in one.receivers:
            agents.append(f"{receiver.host}{one.suffix}")
            simulated.append((receiver.start_ns, agents[-1], True))
        if one.stop_ns:
            simulated += [(one.stop_ns, agent, False) for agent in agents]
    suffixes = {one.session.session: one.suffix for one in message.sessions}
    for change in message.members:
        simulated.append((change.at_ns, change.host + suffixes[change.session], change.joins))
    real = [(one.at, one.agent, one.joins) for one in agent_changes(loaded, seed=5)]
    assert sorted(real) == sorted(simulated)
    assert [at for at, _, _ in real] == sorted(at for at, _, _ in real)
    assert real != [(one.at, one.agent, one.joins) for one in agent_changes(loaded, seed=6)]


def test_a_session_that_stops_is_gone_from_its_measures(load) -> None:
    """It stops in the middle of the window; h3.s2, which leaves for good before that and comes
    back never, and h4.s2 are both absent from then on."""
    more = "  - {scheme: single, sender: 0, session: 2, start: 4s, stop: 15s, receivers: [3, 4]}\n"
    loaded = load(
        textwrap.dedent(SMALL).replace("duration:", more + "duration:")
        + "members:\n  - {session: 2, at: 6s, every: 8s, receivers: [4]}\n"
    )
    session = network_summary(loaded)["sessions"][1]
    assert (session["start_s"], session["stop_s"]) == (4.0, 15.0)
    assert {name: one["absences"] for name, one in session["receivers"].items()} == {
        "h3.s2": [[0.0, 4.0], [15.0, 20.0]],
        "h4.s2": [[0.0, 4.0], [6.0, 14.0], [15.0, 20.0]],
    }


@pytest.mark.parametrize(
    ("window", "span"),
    [((10.0, 20.0), (10.0, 15.0)), ((0.0, 20.0), (4.0, 15.0)), ((15.0, 20.0), (15.0, 15.0)),
     ((0.0, 4.0), (4.0, 4.0))],
)  # fmt: skip
def test_the_part_of_a_window_in_which_a_session_is_present(stored, window, span) -> None:
    session = replace(stored.context.session, start=4.0, stop=15.0)
    context = replace(stored.context, window=window, session=session, sessions=(session,))
    assert context.span == span
    measures = all_measures(Rows(stored.rows), context)
    assert (measures["session_throughput"] is None) == (span[0] == span[1])


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("start: 4s, stop: 4s", r"sessions.1.stop: 4s; valid: from 4.1s, .* to .*\(20s\)"),
        ("start: 20s", r"sessions.1.start: 20s; valid: before the end of the run \(20s\)"),
        ("stop: 21s", r"sessions.1.stop: 21s; valid: from 100ms"),
        ("stop: soon", "sessions.1.stop: 'soon' is not a time"),
    ],
)
def test_a_stop_is_checked(load, more: str, said: str) -> None:
    session = f"  - {{scheme: single, sender: 0, session: 2, {more}}}\n"
    with pytest.raises(InputError, match=said):
        load(textwrap.dedent(SMALL).replace("duration:", session + "duration:"))


def test_nobody_comes_or_goes_after_the_stop(load) -> None:
    session = "  - {scheme: single, sender: 0, session: 2, stop: 9s}\n"
    text = textwrap.dedent(SMALL).replace("duration:", session + "duration:")
    with pytest.raises(InputError, match="members.0.at: 9s; valid: before session 2 stops"):
        load(text + "members: [{session: 2, at: 9s, receivers: [3]}]\n")


CHURN = """\
churn:
  - receivers: [4, 5, 6]
    arrivals: {every: 2s}
    stay: {distribution: exponential, mean: 3s}
    seed: 7
"""


def churned(load, churn: str = CHURN) -> LoadedExperiment:
    return load(textwrap.dedent(SMALL) + churn)


def test_churn_is_a_list_of_member_changes(load) -> None:
    """Each receiver joins first, then leaves and joins in turn; the one that is not named stays.
    Both runtimes are given the same."""
    loaded = churned(load)
    changes = loaded.experiment.member_changes
    assert set(changes) == {(1, 4), (1, 5), (1, 6)}
    for mine in changes.values():
        assert [one.joins for one in mine] == [i % 2 == 0 for i in range(len(mine))]
        times = [one.at for one in mine]
        assert all(b - a >= MIN_STAY_NS for a, b in zip(times[::2], times[1::2], strict=False))
        assert times == sorted(times)
    assert churned(load).experiment.member_changes == changes
    other = churned(load, CHURN.replace("seed: 7", "seed: 8"))
    assert other.experiment.member_changes != changes
    played = {one.agent: one.joins for one in agent_changes(loaded, seed=1) if one.at == 0}
    assert played == {"h0": True}
    first = {one.agent: one.at for one in reversed(agent_changes(loaded, seed=1)) if one.joins}
    assert first["h3"] < START_SPREAD_NS
    absences = network_summary(loaded)["sessions"][0]["receivers"]["h4"]["absences"]
    assert absences[0] == [0.0, changes[1, 4][0].at / 1e9]


@pytest.mark.parametrize(
    ("stay", "mean_s"),
    [
        (Length("exponential", 4.0), 4.0),
        (Length("pareto", 4.0, shape=2.5), 4.0),
        (Length("constant", 4.0), 4.0),
        (Length("constant", 0.001), MIN_STAY_NS / 1e9),
    ],
)
def test_arrivals_and_stays_have_their_means(stay: Length, mean_s: float) -> None:
    """100,000 s with an arrival every 10 s and always somebody away: 10,000 arrivals, of which the
    number's standard deviation is 100 and that of the mean stay at most 2 % (pareto: its standard
    deviation is 3.6 s). 4 of them are the tolerance."""
    end = 100_000 * 10**9
    changes = member_changes(range(1000), 10 * 10**9, stay, 0, end, end, "0 of 1")
    joins = [one.at for mine in changes.values() for one in mine if one.joins]
    assert abs(len(joins) - 10_000) < 400
    assert max(joins) < end
    # Of a Poisson process half the arrivals fall into the first half of the time.
    assert abs(sum(at < end // 2 for at in joins) - len(joins) / 2) < 4 * 50
    stays = [
        (b.at - a.at) / 1e9
        for mine in changes.values()
        for a, b in zip(mine[::2], mine[1::2], strict=False)
    ]
    assert mean(stays) == pytest.approx(mean_s, rel=0.08)
    # Each receiver is as likely as another: 10 arrivals each, binomial.
    assert max(len(mine) // 2 for mine in changes.values()) < 10 + 6 * 10**0.5


def test_nobody_arrives_while_all_are_there() -> None:
    stay, end = Length("constant", 1e6), 1000 * 10**9
    changes = member_changes([3, 4], 10**9, stay, 5 * 10**9, end, 900 * 10**9, "0 of 1")
    assert [len(mine) for mine in changes.values()] == [1, 1]
    assert all(mine[0].joins and mine[0].at > 5 * 10**9 for mine in changes.values())


def test_whoever_never_arrives_is_absent_and_without_measures(load) -> None:
    loaded = churned(load, CHURN.replace("every: 2s", "every: 1000s"))
    never = [node for (_, node), mine in loaded.experiment.member_changes.items()
             if mine == [MemberChange(20 * 10**9, joins=True)]]  # fmt: skip
    assert never
    agents = {one.agent for one in agent_changes(loaded, seed=1)}
    for node in never:
        assert f"h{node}" not in agents
        absent = network_summary(loaded)["sessions"][0]["receivers"][f"h{node}"]["absences"]
        assert absent == [[0.0, 20.0]]
    starts = {one.host: one.start_ns for one in scenario(loaded, seed=1).sessions[0].receivers}
    assert all(starts[f"h{node}"] >= 20 * 10**9 for node in never)


def test_churn_ends_with_its_session(load) -> None:
    text = textwrap.dedent(SMALL).replace("layers: 2}", "layers: 2, start: 3s, stop: 15s}")
    loaded = load(text + CHURN.replace("[4, 5, 6]", "all").replace("every: 2s", "every: 100ms"))
    changes = loaded.experiment.member_changes
    assert set(changes) == {(1, 3), (1, 4), (1, 5), (1, 6)}
    times = [one.at for mine in changes.values() for one in mine]
    assert 3 * 10**9 < min(times) < 4 * 10**9
    assert 14 * 10**9 < max(times) < 15 * 10**9


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[4, 5, 6]", "[4, 0]", "churn.0.receivers.1: no receiver of session 1 is at node 0"),
        ("[4, 5, 6]", "some", "churn.0.receivers: 'some'.*valid: 'all'"),
        ("[4, 5, 6]", "[4, 4]", "churn.0.receivers.1: receiver 4 of session 1 comes and goes by"),
        ("[4, 5, 6]", "[]", "churn.0.receivers"),
        ("seed: 7", "session: 9", "churn.0.session: no session 9; valid: 1"),
        ("seed: 7", "seed: -1", "churn.0.seed: -1; valid: 0 or more"),
        ("every: 2s", "every: 0s", "churn.0.arrivals.every: '?0"),
        ("every: 2s", "every: 1ms, start: 30s", "churn.0.arrivals.start: 30s; valid: before 20s"),
        ("every: 2s", "every: 2s, stop: 21s", "churn.0.arrivals.stop: 21s; valid: before 20s"),
        ("mean: 3s", "mean: 3p", "churn.0: stay: mean is 3p; valid: a time"),
        ("mean: 3s", "mean: 3s, shape: 2", "churn.0.stay: exponential takes no 'shape'"),
        ("exponential", "normal", "churn.0.stay.distribution: 'normal'; valid: 'constant'"),
    ],
)
def test_churn_is_checked(load, old: str, new: str, said: str) -> None:
    assert old in CHURN
    with pytest.raises(InputError, match=said):
        load(textwrap.dedent(SMALL) + CHURN.replace(old, new))


def test_churn_does_not_end_before_its_session_starts(load) -> None:
    text = textwrap.dedent(SMALL).replace("sender: 0", "sender: 0, start: 5s")
    for stop in ("2s", "5s"):
        with pytest.raises(
            InputError, match=rf"stop: {stop}; valid: after session 1 starts \(5s\)"
        ):
            load(text + CHURN.replace("every: 2s", f"every: 2s, stop: {stop}"))
    load(text + CHURN.replace("every: 2s", "every: 2s, stop: 6s"))


def test_churn_is_bounded_and_one_rule_for_each_receiver(load) -> None:
    many = textwrap.dedent(SMALL).replace("duration: 20s", "duration: 51s")
    with pytest.raises(InputError, match="churn.0.arrivals.every: about 102000 changes; valid: up"):
        load(many + CHURN.replace("every: 2s", "every: 1ms"))
    members = "members: [{at: 4s, receivers: [5]}]\n"
    with pytest.raises(InputError, match=r"churn.0.receivers.1: receiver 5 of session 1 comes and"):
        load(textwrap.dedent(SMALL) + members + CHURN)


def test_several_senders_are_a_session_each(load) -> None:
    """Each has the others' receivers but itself, and numbers go on."""
    more = """\
  - {scheme: single, senders: [3, 0, 4], session: 7, receivers: [3, 4, 6], start: 2s}
  - {scheme: single, senders: [5, 6], session: 10}
"""
    loaded = load(textwrap.dedent(SMALL).replace("duration:", more + "duration:"))
    sessions = loaded.experiment.sessions
    assert [(one.session, one.sender, of_one)
            for one, of_one in zip(sessions, loaded.receivers, strict=True)] == [
        (1, 0, (3, 4, 5, 6)), (7, 3, (4, 6)), (8, 0, (3, 4, 6)), (9, 4, (3, 6)),
        (10, 5, (3, 4, 6)), (11, 6, (3, 4, 5)),
    ]  # fmt: skip
    assert [one.start for one in sessions[1:4]] == [2 * 10**9] * 3
    names = [(one["sender"], list(one["receivers"]))
             for one in network_summary(loaded)["sessions"]]  # fmt: skip
    assert names[2] == ("h0.s8", ["h3.s8", "h4.s8", "h6.s8"])
    seeds = [one.seed for one in session_agents(loaded, seed=3)]
    assert len(set(seeds)) == len(seeds)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("senders: [0], sender: 0", "sessions.1: 'sender' and 'senders'; valid: one of them"),
        ("senders: []", "sessions.1.senders: .*valid: at least 1 of them"),
        ("senders: 0", "sessions.1.senders: 0.*valid: a list"),
        ("senders: [0, 9]", "sessions.1.senders.1: no node 9; valid: 0"),
        ("senders: [0, 2, 0]", "sessions.1.senders.2: node 0 is given twice"),
        (
            "senders: [3], receivers: [3]",
            "sessions.1.receivers.0: 3 is the sender's node; valid: another",
        ),
        ("senders: [3, 4], receivers: [3]", "sessions.1.receivers: there are no receivers"),
        ("senders: [0, 2], session: 32767", "sessions.1.session: sessions up to 32768"),
        ("senders: [0, 2], session: 0", "sessions.1.session: session 1 is given twice"),
        ("session: 3", "sessions.1.sender: this key is missing"),
    ],
)
def test_senders_are_checked(load, entry: str, said: str) -> None:
    number = "" if "session:" in entry else ", session: 2"
    more = f"  - {{scheme: single, {entry}{number}}}\n"
    with pytest.raises(InputError, match=said):
        load(textwrap.dedent(SMALL).replace("duration:", more + "duration:"))
