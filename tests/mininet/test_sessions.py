"""Several sessions of one run, whose agents come and go: as an experiment says it, and the same in
Mininet and in virtual time."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from tiercast_lab.base.errors import InputError
from tiercast_lab.experiment.loading import load_experiment
from tiercast_lab.experiment.schemes import known_schemes
from tiercast_lab.measures import Rows, all_measures
from tiercast_lab.results.storage import load_run
from tiercast_lab.run.agents import agent_changes
from tiercast_lab.run.network_summary import network_summary
from tiercast_lab.run.ns3.scenario import scenario

from .conftest import SMALL
from .real_run import Started

# Node 0 sends two sessions; node 2 sends one and receives another; h3.s2 and h4.s3 share a host
# with receivers of the first session. h6 leaves at 4 s and comes back at 7 s, and session 2 stops.
SESSIONS = """\
title: Three sessions
topology: {tree: {depth: 2}, link: {rate: 3Mbit/s, delay: 5ms, queue: 50p}}
sessions:
  - {scheme: sim, session: 1, sender: 0, layers: 3}
  - {scheme: ermcc, session: 2, sender: 2, receivers: [3, 5], start: 2s, stop: 8s}
  - {scheme: tfmcc, session: 3, sender: 0, receivers: [4, 2], start: 1s}
members:
  - {at: 4s, every: 3s, receivers: [6]}
duration: 12s
"""
PRESENCE_S = {
    "h3": [(0, 12)], "h4": [(0, 12)], "h5": [(0, 12)], "h6": [(0, 4), (7, 10)],
    "h3.s2": [(2, 8)], "h5.s2": [(2, 8)], "h4.s3": [(1, 12)], "h2.s3": [(1, 12)],
}  # fmt: skip
# From Start until a row: a start's spread, 0.2 s between rows, and a busy machine. No less than the
# 3 s between two changes of one agent are told apart.
SLACK_S = 1.0


@pytest.mark.alone
@pytest.mark.mininet
def test_agents_come_and_go_alike_in_both_runtimes(tmp_path: Path) -> None:
    file = tmp_path / "sessions.yaml"
    file.write_text(SESSIONS)
    seen = {}
    for runtime in ("ns3", "mininet"):
        started = Started(tmp_path / runtime, "--runtime", runtime, experiment=str(file))
        status, out, error = started.finish()
        assert status in (0, 3), out + error
        run = load_run((tmp_path / runtime / "latest").resolve())
        rows = run.rows["subscription"].sort("time_s").filter(pl.col("time_s") < 12)
        present: dict[str, bool] = {}
        seen[runtime] = {agent: [] for agent in PRESENCE_S}
        for time_s, agent, top in rows.select("time_s", "agent", "top").iter_rows():
            if present.get(agent, False) != (top >= 0):
                present[agent] = top >= 0
                seen[runtime][agent].append((time_s, top >= 0))
        received = run.rows["received"]
        for agent, intervals in PRESENCE_S.items():
            ends = [at for interval in intervals for at in interval if at < 12]
            changes = seen[runtime][agent]
            assert [joins for _, joins in changes] == [True, False, True, False][: len(ends)]
            for (at, _), end in zip(changes, ends, strict=True):
                assert end <= at < end + SLACK_S, (runtime, agent)
            # An absent receiver has no rows, and its counts go on when it is back.
            mine = received.filter(pl.col("agent") == agent).sort("time_s")
            for time_s in mine["time_s"]:
                assert any(on <= time_s < off + SLACK_S for on, off in intervals), (agent, time_s)
            assert mine["bytes"].is_sorted()
            assert mine["bytes"][-1] > 0
        layers = run.rows["layer"].filter(pl.col("agent") == "h2.s2")["time_s"]
        assert layers.min() >= 2
        assert layers.max() < 8 + SLACK_S
        measures = all_measures(run.rows, run.context)
        assert measures["session_throughput_s2"] > 0
        refused = next(c for c in run.summary["validity"]["checks"] if c["name"] == "refused")
        assert refused["ok"], refused
    order = {
        runtime: {agent: [joins for _, joins in changes] for agent, changes in agents.items()}
        for runtime, agents in seen.items()
    }
    assert order["mininet"] == order["ns3"]


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
    simulated += [(one.at_ns, one.host, one.joins) for one in message.members]
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
