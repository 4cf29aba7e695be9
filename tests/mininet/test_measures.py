"""Measures compared with values computed by hand (hand_made_runs.py); what they are built on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from tiercast_lab.measures import MEASURES, Rows, all_measures, context_of, find_spec, spec_of
from tiercast_lab.measures.catalogue import parse_name
from tiercast_lab.measures.context import Flow, Receiver, Session
from tiercast_lab.measures.rows import counter_at, increases_within, steps_within
from tiercast_lab.measures.table import markdown

from ..checkout import ROOT
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
    assert at.tolist() == [50.0, 100.0, 150.0, 400.0, 600.0]


def test_a_counter_is_that_of_its_presence() -> None:
    """A row a second, from 1 s on; 4 packets arrive in the second after the flow's stop."""
    frame = pl.DataFrame({"time_s": [1.0, 2.0, 3.0, 4.0, 5.0], "packets": [0, 20, 56, 60, 60]})
    at = np.array([0.0, 1.5, 2.0, 3.0, 9.0])
    assert counter_at(frame, "packets", at, (1.5, 3.0)).tolist() == [0, 0, 20, 56, 60]
    assert counter_at(frame, "packets", at - 0.5, (1.5, 2.5)).tolist() == [0, 0, 0, 56, 60]
    assert counter_at(frame, "packets", at, (1.5, 40.0)).tolist() == [0, 0, 20, 56, 60]
    assert counter_at(frame.clear(), "packets", at, (1.5, 3.0)).tolist() == [0] * 5


@pytest.mark.parametrize("record_every", [0.2, 1.0, 10.0])
def test_steady_rates_are_the_same_however_often_they_are_recorded(record_every: float) -> None:
    """As in virtual time: the first row comes after `record_every`, whenever a flow or session
    starts; a layer has rows at a port from its first packet on."""
    times = np.arange(1, round(30 / record_every) + 1) * record_every
    there = {"session": (3.1, 40.0), "tcp1": (7.3, 22.7), "udp1": (5.4, 24.9), "port": (0.0, 40.0)}

    def rows(of: str, agent: str, **rates: float) -> pl.DataFrame:
        seconds = np.clip(times, *there[of]) - there[of][0]
        grown = {column: rate * seconds for column, rate in rates.items()}
        return pl.DataFrame({"time_s": times, **grown}).with_columns(agent=pl.lit(agent))

    at_port = {"entered": 100.0, "left": 90.0, "marked": 9.0, "queue_drops": 10.0}
    place = {"link": pl.lit("0>1"), "port": 1, "session": 1, "layer": 0}
    frames = {
        "received": rows("session", "h1", bytes=1e6, packets=1e3, lost=10.0, marked=20.0),
        "layer": rows("session", "h0", sent_bytes=1.1e6).with_columns(rank=0),
        "feedback": rows("session", "h0", accepted=5.0),
        "pgmcc.window": rows("session", "h0", naks=3.0),
        "tcp": rows("tcp1", "tcp1", bytes=2e6),
        "tcp.sender": rows("tcp1", "tcp1", sent_packets=2e3, retransmitted=20.0, timeouts=0.5,
                           fast_retransmits=1.5).with_columns(cwnd=9, rtt_us=9),
        "udp": rows("udp1", "udp1", bytes=3e6, packets=3e3, sent_bytes=4e6, sent_packets=4e3),
        "port": rows("port", "s0", **at_port).with_columns(**place, max_queue_packets=1,
                                                           queue_packets=1),
        "port.session": rows("session", "s0", **at_port).with_columns(**place)
        .filter(pl.col("left") > 0),
    }  # fmt: skip
    receiver = Receiver(1, always(1e7), beside("tcp1"), absences=((0.0, 3.1),))
    seen = context(
        Session(1, "h0", 1, {"h1": receiver}, 0.04, start=3.1),
        window=(4.6, 24.3),
        flows={name: Flow(name[:3], *there[name], 1000) for name in ("tcp1", "udp1")},
        links=("0>1",),
    )
    measured = all_measures(Rows(frames), seen)
    expected = {
        "cumulative_rate_1": 8.8e6,
        "session_throughput": 8e6,
        "feedback_rate": 5.0,
        "naks": 3.0 * 19.7,
        "tcp_throughput": 16e6,
        "tcp_ratio": 0.5,
        "receiver_tcp_ratio_h1": 0.5,
        "tcp_ratio_to_worst": 0.5,
        "sessions_tcp_ratio": 0.5,
        "tcp_retransmitted": 0.01,
        "wtcp_packet_rate": 2e3,
        "wtcp_cuts": 2.0,
        "wtcp_timeouts": 0.5,
        "udp_throughput": 24e6,
        "udp_sent": 32e6,
        "udp_loss": 0.25,
        "loss": 10 / 1010,
        "marked_0>1": 0.1,
        "queue_drops": 0.1,
    }
    assert {name: measured[name] for name in expected} == pytest.approx(expected)


def test_the_first_row_of_a_layer_at_a_port_is_of_the_second_before_it() -> None:
    """A session from 0 s on reaches the port at 50 s; there is a row a second."""
    port = pl.DataFrame({"time_s": [49.0, 50.0, 51.0, 52.0], "left": [7, 7, 17, 27]})
    session = port.filter(pl.col("time_s") > 50).with_columns(
        pl.col("left") - 7, marked=pl.Series([5, 6]), session=1, layer=0
    )
    at_link = {"agent": pl.lit("s1"), "link": pl.lit("1>3"), "port": 1, "entered": None}
    port = port.with_columns(max_queue_packets=None, queue_packets=None)
    rows = {"port": port.with_columns(**at_link), "port.session": session.with_columns(**at_link)}
    seen = context(Session(1, "h0", 1, {"h3": Receiver(3, always(1e6))}, 0.04), links=("1>3",))
    counted = all_measures(Rows(rows), replace(seen, window=(25.0, 52.0)))
    assert counted["marked_1>3"] == pytest.approx(6 / 20)
    half = all_measures(Rows(rows), replace(seen, window=(50.5, 52.0)))
    assert half["marked_1>3"] == pytest.approx((6 - 2.5) / (20 - 5))


def test_the_rate_of_each_second_needs_a_record_of_each(stored) -> None:
    assert all_measures(stored.rows, stored.context)["rate_variation_h4"] is not None
    for record_every, known in (("1s", True), ("1001ms", False)):
        experiment = stored.summary["experiment"] | {"record_every": record_every}
        seen = context_of(stored.summary | {"experiment": experiment})
        assert (all_measures(stored.rows, seen)["rate_variation_h4"] is not None) == known


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


def test_representatives_hold_until_the_next_record() -> None:
    for window, most in (((16.0, 19.0), 2), ((16.0, 21.0), 3), ((30.0, 40.0), 3), ((1.0, 8.0), 0)):
        seen = replace(MDPCC.context, window=window)
        assert all_measures(MDPCC.rows, seen)["representatives"] == most


def test_a_session_is_compared_with_others_while_one_of_them_is_there() -> None:
    """Session 1 gets 1 Mbit/s beside another session, and 4 Mbit/s alone."""
    there = {2: (12.0, 14.0), 3: (13.0, 15.0), 4: (17.0, 18.0), 5: (25.0, 30.0)}
    others = [
        Session(
            number,
            f"h0.s{number}",
            1,
            {f"h3.s{number}": Receiver(3, always(9e6), absences=((0.0, start), (stop, 40.0)))},
            0.04,
            start,
            stop,
        )
        for number, (start, stop) in there.items()
    ]
    seen = context(Session(1, "h0", 1, {"h3": Receiver(3, always(9e6))}, 0.04), *others)
    counts = [(10.0, 0), (12.0, 8), (15.0, 11), (17.0, 19), (18.0, 20), (40.0, 108)]
    rows = [(at, "h3", 1e6 * count / 8) for at, count in counts]
    for number, (start, stop) in there.items():
        rows += [(start, f"h3.s{number}", 0.0), (stop, f"h3.s{number}", 2.5e5 * (stop - start))]
    frames = Rows({"received": received(rows)})
    measured = all_measures(frames, seen)
    assert measured["other_ratio"] == pytest.approx(1 / 2)
    assert measured["other_ratio_s4"] == pytest.approx(2 / 1)  # only beside session 1
    assert measured["other_ratio_s5"] is None  # after the window
    alone = replace(seen, window=(15.0, 17.0))
    assert all_measures(frames, alone)["other_ratio"] is None


def test_only_flows_of_the_window_count() -> None:
    """tcp2 and tcp3 are both present from 12 to 18 s; tcp1 and tcp4 only before and after the
    window. Each has one rate."""
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
                rows=[
                    (at, name, rates[name] * (at - start))
                    for name, (start, stop) in flows.items()
                    for at in (start, stop)
                ],
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
