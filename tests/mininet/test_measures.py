"""Measures compared with values computed by hand (hand_made_runs.py); what they are built on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from tiercast_lab.measures import MEASURES, Rows, all_measures, find_spec, spec_of
from tiercast_lab.measures.catalogue import parse_name
from tiercast_lab.measures.context import Flow, Receiver, Session
from tiercast_lab.measures.rows import counter_at, increases_within, steps_within
from tiercast_lab.measures.table import markdown

from .conftest import ROOT
from .hand_made_runs import (
    BESIDE_TCP,
    FLOWS,
    LAYERED,
    MDPCC,
    RUNS,
    always,
    context,
    received,
    table,
)
from .test_windows import beside


@pytest.mark.parametrize(
    ("run", "name"), [(run, name) for run, made in RUNS.items() for name in made.expected]
)
def test_measure(run: str, name: str) -> None:
    rows, seen, expected = RUNS[run]
    measured = all_measures(rows, seen)[name]
    assert measured == (None if expected[name] is None else pytest.approx(expected[name]))


@pytest.mark.parametrize("name", MEASURES)
def test_every_measure_has_a_number_worked_out_by_hand(name: str) -> None:
    known = {
        value
        for made in RUNS.values()
        for key, value in made.expected.items()
        if parse_name(key).measure == name
    }
    assert known - {None, 0.0, 1.0}, f"RUNS has no number of {name} but 0 and 1"


@pytest.mark.parametrize("name", [name for name, spec in MEASURES.items() if not spec.of_run])
def test_every_measure_of_a_session_exists_for_every_session(name: str) -> None:
    seen = replace(LAYERED.context, flows=FLOWS)
    measured = {parse_name(key) for key in all_measures(Rows({}), seen)}
    of_first = {(one.which, one.session) for one in measured if one.measure == name}
    if MEASURES[name].which == "receiver":
        assert {which for which, _ in of_first} == {"h3", "h4", "h5", "h6", "h3.s2", "h4.s2"}
    else:
        assert {number for _, number in of_first} == {"", "2"}


def test_every_measure_is_none_without_rows() -> None:
    for made in RUNS.values():
        assert set(all_measures(Rows({}), made.context).values()) == {None}


def test_queues_of_switches_that_do_not_count_them_have_no_measures() -> None:
    unknown = pl.lit(None, pl.Float64)
    columns = ("queue_packets", "max_queue_packets", "entered", "queue_drops")
    port = LAYERED.rows["port"].with_columns(**dict.fromkeys(columns, unknown))
    measured = all_measures(Rows({**LAYERED.rows, "port": port}), LAYERED.context)
    # If it is unknown what entered, shares of it are unknown too.
    unknowable = ("mean_queue", "longest_queue", "queue_drops", "policy_drops", "link_losses")
    queues = {name for name in LAYERED.expected if name.startswith(unknowable)}
    assert {measured[name] for name in queues} == {None}
    others = {name: LAYERED.expected[name] for name in LAYERED.expected.keys() - queues}
    assert {name: measured[name] for name in others} == pytest.approx(others)


def test_a_session_that_starts_after_the_window_has_no_measures() -> None:
    later = replace(LAYERED.context, window=(2.0, 12.0))
    measured = all_measures(LAYERED.rows, later)
    assert all(value is None for name, value in measured.items() if name.endswith("s2"))
    assert measured["session_throughput"] is not None


def test_receivers_that_never_come_are_no_receivers() -> None:
    """The result is the same with and without a receiver that is absent throughout."""
    session = LAYERED.context.session
    fewer = {agent: one for agent, one in session.receivers.items() if agent != "h6"}
    alone = replace(session, receivers=fewer)
    without = all_measures(LAYERED.rows, context(alone, LAYERED.context.sessions[1]))
    measured = all_measures(LAYERED.rows, LAYERED.context)
    assert {name: measured[name] for name in without} == without


# ---- what measures are built on -----------------------------------------------------------------


def test_counter_is_read_between_rows() -> None:
    frame = pl.DataFrame({"time_s": [1.0, 2.0, 4.0], "bytes": [100.0, 200.0, 600.0]})
    at = counter_at(frame, "bytes", np.array([0.5, 1.0, 1.5, 3.0, 9.0]))
    assert at.tolist() == [0.0, 100.0, 150.0, 400.0, 600.0]


def test_a_counter_stands_still_while_its_agent_is_away() -> None:
    """As in virtual time: one row when it leaves at 15 s, the next 0.2 s after it is back at 25
    s."""
    frame = pl.DataFrame({"time_s": [14.8, 15.0, 25.2, 25.4], "packets": [60, 70, 90, 100]})
    there = [(0.0, 15.0), (25.0, 40.0)]
    edges = np.array([14.9, 15.0, 20.0, 25.0, 25.1, 25.4, 30.0])
    assert increases_within(frame, "packets", there, edges) == pytest.approx([5, 0, 0, 10, 20, 0])


def test_what_came_before_a_leave_counts_whenever_the_rows_are() -> None:
    """1 MB/s with a row each second: away from 10.5 to 20.5 s, and for 0.2 s between two rows."""
    times = np.arange(31.0)
    frame = pl.DataFrame(
        {"time_s": times, "bytes": np.clip(times, 0, 10.5) + np.clip(times, 20.5, 30) - 20.5}
    )
    edges = np.array([0.0, 10.25, 15.0, 20.75, 30.0])
    away = Receiver(3, ((0.0, 1e6),), absences=((10.5, 20.5),)).presence((0.0, np.inf))
    counted = increases_within(frame, "bytes", away, edges)
    assert counted == pytest.approx([10.25, 0.25, 0.25, 9.25])  # 20 MB in all
    briefly = [(0.0, 10.25), (10.45, np.inf)]
    frame = pl.DataFrame({"time_s": times, "bytes": np.where(times > 10, times - 0.2, times)})
    counted = increases_within(frame, "bytes", briefly, np.array([0.0, 10.25, 10.45, 11.0, 30.0]))
    assert counted == pytest.approx([10.25, 0, 0.55, 19])


def test_steps_end_where_their_agent_leaves() -> None:
    values, held = steps_within(
        np.array([2.0, 12.0]), np.array([1, 2]), [(0.0, 5.0), (10.0, 15.0)], before=0
    )
    assert values.tolist() == [0, 1, 1, 2]
    assert held.tolist() == [2, 3, 2, 3]


def test_efficiency_of_a_link_that_changes_within_a_second() -> None:
    """The rate alternates between 9 and 1 Mbit/s every 250 ms; what is received fills at most half
    of either."""
    steps = tuple((0.25 * n, 9e6 if n % 2 == 0 else 1e6) for n in range(80))
    times = [0.0, *(at for at, _ in steps[1:]), 20.0]
    counts = [0.0, *np.cumsum([0.5 * rate for _, rate in steps]) * 0.25 / 8]
    frame = received([(at, "h3", count) for at, count in zip(times, counts, strict=True)])
    alone = context(Session(1, "h0", 1, {"h3": Receiver(3, steps)}, 0.04), window=(0.0, 20.0))
    measured = all_measures(Rows({"received": frame}), alone)
    assert measured["efficiency"] == pytest.approx(0.5)


def test_what_is_not_a_number_is_no_measure() -> None:
    endless = LAYERED.rows["received"].with_columns(bytes=float("nan"))
    assert all_measures(Rows({"received": endless}), LAYERED.context)["session_throughput"] is None


def test_join_latency_of_the_window_or_of_the_run() -> None:
    early = LAYERED.rows["join"].filter(pl.col("time_s") < 10)
    measured = all_measures(Rows({"join": early}), LAYERED.context)
    assert measured["join_latency_p50"] == pytest.approx(0.9)


def test_the_worst_path_that_is_never_found_has_no_delay() -> None:
    for measure, until in (("clr_delay", 30.2), ("clr_delay_since_loss", 31.2)):
        rates = MDPCC.rows["mdpcc.rate"].filter(pl.col("time_s") < until)
        silent = Rows({**MDPCC.rows, "mdpcc.rate": rates})
        assert all_measures(silent, MDPCC.context)[measure] is None


def test_only_flows_of_the_window_count() -> None:
    """tcp2 and tcp3 are both present from 12 to 18 s; tcp1 and tcp4 only before and after the
    window."""
    flows = {"tcp1": (0.0, 9.0), "tcp2": (8.0, 18.0), "tcp3": (12.0, 40.0), "tcp4": (20.0, 40.0)}
    rates = {"tcp1": 9e6, "tcp2": 2e6, "tcp3": 3e6, "tcp4": 9e6}  # B/s
    seen = context(
        Session(1, "h0", 1, {"h3": Receiver(3, always(1e9), bottlenecks=beside(*flows))}, 0.04),
        flows={name: Flow("tcp", *there, 1000) for name, there in flows.items()},
    )
    rows = Rows(
        {
            "received": received(rows=[(0.0, "h3", 0.0), (40.0, "h3", 40e6)]),
            "tcp": table(
                "bytes",
                rows=[(at, name, rate * at) for name, rate in rates.items() for at in (0.0, 40.0)],
            ),
        }
    )
    measured = all_measures(rows, seen)
    assert measured["tcp_ratio"] == pytest.approx(1e6 / 2.5e6)
    assert (measured["tcp_worst"], measured["tcp_best"]) == pytest.approx((16e6, 24e6))
    apart = replace(seen, flows=seen.flows | {"tcp2": Flow("tcp", 8.0, 12.0, 1000)})
    assert all_measures(rows, apart)["tcp_ratio"] is None  # they are never present together


def test_sessions_that_sent_before_there_was_tcp_are_not_compared_over_that_time() -> None:
    early = BESIDE_TCP.rows["received"].with_columns(pl.col("time_s") - 8.0)
    late = {name: replace(flow, start=18.0) for name, flow in FLOWS.items() if name != "tcp2"}
    rivals = {"h3.s2": Receiver(3, always(2e6), bottlenecks=beside("tcp1"))}
    seen = context(Session(1, "h0", 1, rivals, 0.04), flows=late)
    measured = all_measures(Rows({"received": early, "tcp": BESIDE_TCP.rows["tcp"]}), seen)
    assert measured["sessions_tcp_ratio"] == measured["tcp_ratio"] == 0


def test_stored_run_has_the_figures_it_was_made_of(stored) -> None:
    figures = all_measures(stored.rows, stored.context)
    assert figures["cumulative_rate_1"] == pytest.approx(1e6)
    assert figures["cumulative_rate_2"] == pytest.approx(6e6)
    assert figures["efficiency"] == pytest.approx(1.0)
    assert figures["subscribers_2"] == pytest.approx(3.0)
    assert figures["instability"] == 0.0
    assert figures["longest_queue"] == 20.0
    assert figures["join_latency_p99"] == pytest.approx(0.020006)
    assert {type(value) for value in figures.values()} <= {float, type(None)}


def test_periods_are_windows_of_their_own() -> None:
    periods = replace(LAYERED.context, periods={"before": (10.0, 15.0), "after": (15.0, 20.0)})
    figures = all_measures(LAYERED.rows, periods)
    assert figures["receiver_rate_h3"] == pytest.approx(0.8e6)
    assert figures["receiver_rate_h3@before"] == pytest.approx(0.4e6)
    assert figures["receiver_rate_h3@after"] == pytest.approx(1.2e6)
    assert figures["session_throughput_s2@before"] == pytest.approx(0.85e6)  # 1.5 and 0.2 Mbit/s
    assert spec_of("receiver_rate_h3@before")[1] == "receiver rate, h3 (before)"
    assert spec_of("loss@after")[0] is MEASURES["loss"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("efficiency", "efficiency"),
        ("efficiency_s2", "efficiency, session 2"),
        ("cumulative_rate_1", "cumulative rate, 1 layer"),
        ("cumulative_rate_3_s14", "cumulative rate, 3 layers, session 14"),
        ("receiver_rate_h3.s2", "receiver rate, h3.s2"),
        ("udp_loss_udp12", "udp loss, udp12"),
        ("queue_drops_0>1", "queue drops, 0>1"),
        ("marked_0>1_s2", "marked, 0>1, session 2"),
    ],
)
def test_names_that_people_read(name: str, shown: str) -> None:
    assert spec_of(name)[1] == shown


@pytest.mark.parametrize(
    "name",
    [
        *("receiver_rate", "receiver_rate_3", "receiver_rate_h3.2", "receiver_rate_h3_s2"),
        *("cumulative_rate_9", "cumulative_rate_s2", "cwnd_2", "efficiency_h3", "efficiency_1"),
        *("longest_queue_s2", "udp_loss_s2", "udp_loss_h3", "efficiency_"),
        *("queue_drops_0>1_s2", "marked_0-1", "loss_0>1", "udp_loss_tcp1"),
    ],
)
def test_a_name_that_no_run_has_is_unknown(name: str) -> None:
    with pytest.raises(ValueError, match=f"unknown measure '{name}'; valid: "):
        find_spec(name)


def test_an_unknown_name_may_be_of_a_file_that_is_not_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TIERCAST_MEASURES", raising=False)
    with pytest.raises(ValueError, match=r"'xyzzy'; valid: .* \(TIERCAST_MEASURES is not set\)$"):
        find_spec("xyzzy")
    monkeypatch.setenv("TIERCAST_MEASURES", "mine.py")
    with pytest.raises(ValueError, match="'xyzzy'; valid: .*[^)]$"):
        find_spec("xyzzy")


def test_the_document_has_the_table_of_measures() -> None:
    document = (ROOT / "docs/experiments.md").read_text()
    assert markdown() in document, "rewrite it: tiercast measures --markdown"
