"""What is typed in a lab becomes an experiment that can be run again."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
from tiercast_lab.base.errors import InputError
from tiercast_lab.cli.lab_console import link_change
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.loading import experiment_of, load_experiment
from tiercast_lab.experiment.schema import MemberChange
from tiercast_lab.experiment.yaml_source import Source
from tiercast_lab.run.typed_changes import TypedChanges, lab_data, write_experiment

from .conftest import SCHEMES, SMALL, Load

S = 10**9
LONGEST = 7200 * S


def begun(load: Load, more: str = "", idle: bool = False, text: str = SMALL) -> TypedChanges:
    given = load(text + more)

    def again(source: Source) -> LoadedExperiment:
        return experiment_of(replace(source, files=given.sources), Path(given.file), SCHEMES)

    loaded = again(Source(lab_data(given.data, LONGEST, idle), {(): given.file}))
    return TypedChanges(loaded, again, idle)


MORE = """
    events:
      - {at: 5s, link: 0-1, rate: 3Mbit/s}
      - {at: 15s, link: 0-1, rate: 6Mbit/s}
    members:
      - {at: 4s, receivers: [5]}
      - {at: 16s, receivers: [5], action: join}
    traffic:
      - {kind: udp, from: 0, to: 3, rate: 1Mbit/s, start: 12s}
      - {kind: udp, from: 0, to: 4, rate: 2Mbit/s, stop: 18s}
    """


def test_what_was_typed_is_stored_with_what_was_there(load: Load, tmp_path: Path) -> None:
    typed = begun(load, MORE)
    event = typed.change_link(3 * S, {"link": "1>3", "rate": "2Mbit/s", "loss": "1%"}, "link …")
    assert (event.at, event.link, event.rate) == (3 * S, "1>3", 2_000_000)
    assert event.wire.loss is not None
    typed.change_link(7 * S + 250_000_000, {"link": "0-2", "up": False}, "link 0-2 down")
    typed.change_member(6 * S, 1, 3, False, "leave h3")
    typed.change_member(8 * S, 1, 3, True, "join h3")
    lived = typed.until(10 * S)
    assert lived is not None
    experiment = lived.experiment
    assert experiment.duration == 10 * S
    assert [(one.at, one.link) for one in experiment.link_events] == [
        (3 * S, "1>3"), (5 * S, "0-1"), (7_250_000_000, "0-2"),
    ]  # fmt: skip
    assert experiment.member_changes == {
        (1, 3): [MemberChange(6 * S, False), MemberChange(8 * S, True)],
        (1, 5): [MemberChange(4 * S, False)],
    }
    # The flow that never began is gone; the other one has the name that it had.
    [(name, flow)] = lived.flows.items()
    assert (name, flow.destination, flow.stop_s) == ("udp1", 4, 10.0)
    assert experiment.expect == []
    write_experiment(lived, tmp_path / "again.yaml", "once more")
    again = load_experiment(tmp_path / "again.yaml", SCHEMES)
    assert again.experiment == experiment
    assert again.topology.links == lived.topology.links


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        ({"link": "1-9", "up": False}, "link: no link '1-9'; valid: 0-1, 0-2, 1-3, 1-4, 2-5, 2-6"),
        ({"link": "1-3", "rate": "2Mbit"}, "rate: '2Mbit' is not a rate; valid: "),
        ({"link": "3>1", "rate": "2Mbit/s"}, "leaves a host, and hosts have no queue"),
        ({"link": "1-3", "loss": "200%"}, "loss: "),
        ({"link": "1-3"}, "nothing changes; valid: at least one of rate, delay, queue, up, loss"),
    ],
)
def test_a_change_that_no_experiment_may_have_is_refused(
    load: Load, keys: dict, error: str
) -> None:
    typed = begun(load)
    before = copy.deepcopy(typed._data)
    with pytest.raises(InputError) as refused:
        typed.change_link(3 * S, keys, "link as typed")
    assert str(refused.value).startswith("link as typed: ")
    assert error in str(refused.value)
    assert typed._data == before


def test_a_receiver_of_a_process_does_not_come_and_go_by_hand(load: Load) -> None:
    churn = "\n    churn: [{receivers: [3], arrivals: {every: 2s}, stay: {distribution: constant, mean: 3s}}]\n"  # noqa: E501
    typed = begun(load, churn)
    with pytest.raises(InputError, match="receiver 3 of session 1 comes and goes by another"):
        typed.change_member(9 * S, 1, 3, False, "leave h3")
    typed.change_member(9 * S, 1, 4, False, "leave h4")
    assert typed.until(12 * S).experiment.churn != []


TWO = SMALL.replace(
    "- {scheme: sim, sender: 0, layers: 2}",
    "- {scheme: sim, sender: 0, layers: 2, start: 3s, stop: 18s}\n"
    "      - {scheme: single, sender: 0, session: 5, receivers: [3, 4], unicast: true}",
)


def test_sessions_start_and_stop(load: Load) -> None:
    typed = begun(load, MORE, text=TWO)
    assert typed.start(2 * S, 1, "start 1") == [1]
    assert typed.stop(9 * S, 6, "stop 6") == [5, 6]  # of one entry
    lived = typed.until(20 * S)
    assert [(one.session, one.start, one.stop) for one in lived.experiment.sessions] == [
        (1, 2 * S, 18 * S), (5, 0, 9 * S), (6, 0, 9 * S),
    ]  # fmt: skip
    # Session 1 was there until the end, so its members' changes are; stopped, it has none later.
    assert typed.stop(10 * S, 1, "stop 1") == [1]
    lived = typed.until(20 * S)
    assert lived.experiment.sessions[0].stop == 10 * S
    assert lived.experiment.member_changes == {(1, 5): [MemberChange(4 * S, False)]}
    with pytest.raises(InputError, match="no session 7; valid: 1, 5, 6"):
        typed.stop(11 * S, 7, "stop 7")


def test_a_session_cannot_stop_before_it_has_begun(load: Load) -> None:
    typed = begun(load)
    with pytest.raises(InputError, match="stop 1: sessions.0.stop: 50ms; valid: from 100ms"):
        typed.stop(50_000_000, 1, "stop 1")


def test_an_idle_lab_has_the_sessions_that_were_started(load: Load) -> None:
    typed = begun(load, MORE, idle=True, text=TWO)
    assert typed.idle == {1, 5, 6}
    assert typed.until(5 * S) is None
    with pytest.raises(InputError, match="session 1 is the experiment's first, by which"):
        typed.start(2 * S, 5, "start 5")
    assert typed.start(3 * S, 1, "start 1") == [1]
    lived = typed.until(9 * S)
    assert [(one.session, one.start) for one in lived.experiment.sessions] == [(1, 3 * S)]
    assert (lived.experiment.events, lived.experiment.members, lived.flows) == ([], [], {})


def test_what_waits_for_a_session_that_was_not_started_is_left_out(load: Load) -> None:
    text = SMALL.replace(
        "layers: 2}\n", "layers: 2}\n      - {scheme: single, sender: 0, session: 2, start: 15s}\n"
    )
    more = """
    members:
      - {session: 2, at: 5s, receivers: [4], action: join}
    churn:
      - session: 2
        receivers: [3]
        arrivals: {every: 1s}
        stay: {distribution: constant, mean: 2s}
    """
    lived = begun(load, more, text=text).until(10 * S)
    assert lived is not None
    assert [one.session for one in lived.experiment.sessions] == [1]
    assert not lived.experiment.members and not lived.experiment.churn


def test_a_lab_without_its_first_session_is_not_judged_by_other_names(load: Load) -> None:
    text = SMALL.replace(
        "layers: 2}\n", "layers: 2, start: 15s}\n      - {scheme: single, sender: 0, session: 2}\n"
    )
    typed = begun(load, text=text)
    with pytest.raises(InputError, match="session 1, the experiment's first, .* left after 15s"):
        typed.until(10 * S)
    lived = typed.until(20 * S)
    assert lived is not None and len(lived.experiment.sessions) == 2


def test_a_lab_ends_after_its_last_change(load: Load) -> None:
    typed = begun(load)
    typed.change_link(3 * S, {"link": "1-3", "up": False}, "link 1-3 down")
    assert typed.end_at(3 * S) == 3 * S + 1_000_000
    assert typed.end_at(3 * S + 1_000_001) == 3 * S + 2_000_000
    assert typed.until(typed.end_at(3 * S)).experiment.link_events[0].at == 3 * S


@pytest.mark.parametrize(
    ("line", "link", "keys"),
    [
        ("1-3 down", "1-3", {"up": False}),
        ("s1 h3 up", "1-3", {"up": True}),
        ("1>3 rate 2Mbit/s delay 20ms", "1>3", {"rate": "2Mbit/s", "delay": "20ms"}),
        ("1-3 loss 0.02 up", "1-3", {"loss": 0.02, "up": True}),
        ("0-1 reorder {share: 5%, delay: 3ms}", "0-1",
         {"reorder": {"share": "5%", "delay": "3ms"}}),
    ],
)  # fmt: skip
def test_a_line_about_a_link(line: str, link: str, keys: dict) -> None:
    words = line.split(" ", 2) if "{" in line else line.split()
    if "{" in line:
        words = [words[0], words[1], words[2]]
    assert link_change(words, {"s1", "h3"}, line) == (link, keys)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("1-3", "valid: link 1-3 and up, down, or rate, delay"),
        ("1-3 rate", "rate has no value"),
        ("1-3 speed 3", "'speed'; valid: up, down, rate"),
    ],
)
def test_a_line_about_a_link_that_says_nothing_is_refused(line: str, error: str) -> None:
    with pytest.raises(InputError, match=error):
        link_change(line.split(), {"s1", "h3"}, f"link {line}")
