"""Measures against values computed by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from tiercast_lab.measures import MEASURES, Context, all_measures, spec_of
from tiercast_lab.measures.beside_tcp import tcp_ratio, tcp_retransmitted
from tiercast_lab.measures.feedback import (
    feedback_of_one,
    feedback_rate,
    feedback_suppressed,
    feedbacks,
    naks,
    suppression,
)
from tiercast_lab.measures.representatives import (
    clr_delay,
    representative_delay,
    representative_share,
    representative_switches,
    representatives,
)
from tiercast_lab.measures.rows import change_times, counter_at
from tiercast_lab.measures.session import (
    cumulative_rate,
    efficiency,
    instability,
    join_latency,
    level,
    longest_queue,
    loss,
    marked,
    mean_queue,
    mean_subscribers,
    other_ratio,
    other_throughput,
    queue_drops,
    rate_variation,
    session_throughput,
)
from tiercast_lab.progress import Progress

CONTEXT = Context(
    window=(10.0, 20.0),
    sender="h0",
    layers=2,
    available={"h3": [(0.0, 1e6)], "h4": [(0.0, 4e6), (15.0, 2e6)]},
    round_trip=0.040,
)


def rows(**columns: list) -> pl.DataFrame:
    return pl.DataFrame(columns)


def test_counter_is_read_between_rows() -> None:
    frame = rows(time_s=[1.0, 2.0, 4.0], bytes=[100.0, 200.0, 600.0])
    at = counter_at(frame, "bytes", np.array([0.5, 1.0, 1.5, 3.0, 9.0]))
    assert at.tolist() == [0.0, 100.0, 150.0, 400.0, 600.0]


def test_cumulative_rate() -> None:
    frame = rows(
        time_s=[10.0, 20.0, 10.0, 20.0, 15.0],
        agent=["h0", "h0", "h0", "h0", "h9"],
        rank=[0, 0, 1, 1, 0],
        sent_bytes=[1e6, 2e6, 0.0, 2.5e6, 7e9],  # h9 is another session's sender
    )
    # Layer 0: 1e6 B in 10 s = 0.8 Mbit/s; layer 1: 2.5e6 B in 10 s = 2 Mbit/s.
    assert cumulative_rate({"layer": frame}, CONTEXT, 1) == pytest.approx(0.8e6)
    assert cumulative_rate({"layer": frame}, CONTEXT, 2) == pytest.approx(2.8e6)
    assert cumulative_rate({}, CONTEXT, 1) is None


def test_efficiency_follows_the_available_bandwidth() -> None:
    frame = rows(
        time_s=[10.0, 20.0, 10.0, 20.0],
        agent=["h3", "h3", "h4", "h4"],
        bytes=[0.0, 1e6, 0.0, 2.5e6],  # 0.8 and 2 Mbit/s
    )
    # h3: 0.8; h4: 2/4 for five seconds, then 2/2 for five seconds.
    expected = (0.8 + (0.5 + 1.0) / 2) / 2
    assert efficiency({"received": frame}, CONTEXT) == pytest.approx(expected)


def test_efficiency_of_a_link_that_changes_within_a_second() -> None:
    """9 and 1 Mbit/s in turn, 250 ms each; what is received fills neither more than half."""
    steps = [(0.25 * n, 9e6 if n % 2 == 0 else 1e6) for n in range(80)]
    context = Context(window=(0.0, 20.0), sender="h0", layers=1, available={"h3": steps},
                      round_trip=0.040)  # fmt: skip
    times = [0.0, *(at for at, _ in steps[1:]), 20.0]
    rates = [0.5 * rate for _, rate in steps]
    frame = rows(time_s=times, agent=["h3"] * 81, bytes=[0.0, *np.cumsum(rates) * 0.25 / 8])
    assert efficiency({"received": frame}, context) == pytest.approx(0.5)


def test_what_is_not_a_number_is_no_measure() -> None:
    received = rows(time_s=[0.0, 20.0], agent=["h3", "h3"], bytes=[0.0, 0.0])
    nobody = replace(CONTEXT, absences={"h3": [(0.0, 20.0)], "h4": [(0.0, 20.0)]})
    assert efficiency({"received": received}, nobody) is None
    endless = received.with_columns(bytes=float("nan"), packets=0.0, lost=0.0, marked=0.0)
    assert all_measures({"received": endless}, CONTEXT)["session_throughput"] is None


def test_the_longest_queue_of_before_the_window_does_not_count() -> None:
    port = rows(time_s=[10.0, 11.0, 20.0, 21.0], agent=["s0"] * 4, port=[1.0] * 4,
                max_queue_packets=[50.0, 7.0, 9.0, 50.0])  # fmt: skip
    assert longest_queue({"port": port}, CONTEXT) == 9


def test_subscribers_and_instability() -> None:
    frame = rows(
        time_s=[0.0, 0.0, 5.0, 12.0, 17.0, 18.0],
        agent=["h3", "h4", "h4", "h4", "h4", "h3"],
        top=[0, 0, 1, 0, 1, 0],  # h3's last row repeats its level: no change
    )
    kinds = {"subscription": frame}
    assert change_times(kinds, CONTEXT).tolist() == [5.0, 12.0, 17.0]
    # Two changes of two receivers in 10 s = 250 round trips.
    assert instability(kinds, CONTEXT) == pytest.approx(2 / 2 / 250)
    assert mean_subscribers(kinds, CONTEXT, 1) == pytest.approx(2.0)
    # h4 has two layers in 10..12 and 17..20.
    assert mean_subscribers(kinds, CONTEXT, 2) == pytest.approx(0.5, abs=0.01)


def test_loss_counts_the_window_alone() -> None:
    frame = rows(
        time_s=[10.0, 20.0, 10.0, 20.0],
        agent=["h3", "h3", "h4", "h4"],
        packets=[500.0, 590.0, 100.0, 200.0],
        lost=[100.0, 110.0, 0.0, 0.0],
        marked=[0.0, 19.0, 0.0, 0.0],
    )
    assert loss({"received": frame}, CONTEXT) == pytest.approx(10 / 200)
    assert marked({"received": frame}, CONTEXT) == pytest.approx(19 / 190)


def test_join_latency_of_the_window_or_of_the_run() -> None:
    early = rows(time_s=[1.0, 2.0], agent=["h3", "h4"], rank=[0, 0], latency_us=[5e4, 9e4])
    assert join_latency({"join": early}, CONTEXT, 0.99) == pytest.approx(0.09)
    late = rows(time_s=[1.0, 12.0], agent=["h3", "h4"], rank=[0, 0], latency_us=[5e4, 3e4])
    assert join_latency({"join": late}, CONTEXT, 0.99) == pytest.approx(0.03)
    assert join_latency({}, CONTEXT, 0.5) is None


def test_queues() -> None:
    frame = rows(
        time_s=[10.0, 20.0, 10.0, 20.0, 5.0],
        agent=["s0", "s0", "s1", "s1", "s1"],
        port=[1, 1, 1, 1, 1],
        max_queue_packets=[3.0, 7.0, 2.0, 11.0, 40.0],  # 40 is before the window
        queue_drops=[5.0, 10.0, 0.0, 5.0, 0.0],
        tx_packets=[100.0, 150.0, 0.0, 40.0, 0.0],
    )
    assert longest_queue({"port": frame}, CONTEXT) == 11.0
    assert queue_drops({"port": frame}, CONTEXT) == pytest.approx(10 / 100)


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


def test_feedback_rate() -> None:
    frame = rows(
        time_s=[10.0, 20.0, 20.0],
        agent=["h0", "h0", "h9"],
        accepted=[40.0, 90.0, 7e3],  # h9 is another session's sender
    )
    assert feedback_rate({"feedback": frame}, CONTEXT) == pytest.approx(5.0)
    assert feedback_rate({}, CONTEXT) is None


def test_beside_tcp() -> None:
    context = Context(
        window=(10.0, 20.0),
        sender="h0",
        layers=1,
        available={"h3": [(0.0, 2e6)], "h4": [(0.0, 2e6)], "h5": [(0.0, 2e6)]},
        round_trip=0.040,
        flows={"tcp1": (0.0, 20.0), "tcp2": (0.0, 18.0), "tcp3": (0.0, 20.0)},
        rivals={"h3": ("tcp1", "tcp2"), "h4": ("tcp3",)},
    )
    received = rows(
        time_s=[10.0, 18.0, 20.0] * 3,
        agent=["h3"] * 3 + ["h4"] * 3 + ["h5"] * 3,
        bytes=[0.0, 1e6, 9e6, 0.0, 5e5, 9e6, 0.0, 0.0, 0.0],
    )
    tcp = rows(
        time_s=[10.0, 18.0, 20.0] * 3,
        agent=["tcp1"] * 3 + ["tcp2"] * 3 + ["tcp3"] * 3,
        bytes=[0.0, 1e6, 7e6, 0.0, 3e6, 3e6, 0.0, 5e5, 7e6],
    )
    kinds = {"received": received, "tcp": tcp}
    # Until tcp2 ends, at 18 s: h3 has 1 beside (1 + 3) / 2 Mbit/s, h4 0.5 beside 0.5; h5 has no
    # rival, so it does not count.
    assert tcp_ratio(kinds, context) == pytest.approx((1 / 2 + 1) / 2)
    for name, rate in [("tcp_worst", 0.5e6), ("tcp_best", 3e6), ("tcp_throughput", 1.5e6)]:
        assert MEASURES[name].compute(kinds, context) == pytest.approx(rate)
    # From 18 s on tcp2 is not there: 32 beside 24 and 34 beside 26 Mbit/s.
    later = replace(context, window=(18.0, 20.0))
    assert tcp_ratio(kinds, later) == pytest.approx((32 / 24 + 34 / 26) / 2)
    receiver_ratio, worst, best = (
        MEASURES[name].compute
        for name in ("receiver_tcp_ratio", "tcp_ratio_to_worst", "tcp_ratio_to_best")
    )
    assert receiver_ratio(kinds, later, "h3") == pytest.approx(32 / 24)
    assert receiver_ratio(kinds, later, "h5") is None
    assert worst(kinds, later) == pytest.approx(32 / 24)
    assert best(kinds, later) == pytest.approx(34 / 26)
    # Over the whole window, over all receivers: 18e6 B in 10 s.
    throughput = session_throughput(kinds, context)
    assert throughput == pytest.approx(8 * 18e6 / 10 / 3)
    assert tcp_ratio({"received": received}, context) is None
    assert "tcp_ratio" in all_measures({}, context)
    assert "tcp_ratio" not in all_measures({}, CONTEXT)


def test_only_flows_of_the_window_count() -> None:
    frame = rows(time_s=[0.0, 40.0], agent=["h3", "h3"], bytes=[0.0, 40e6])
    flows = {"tcp1": (0.0, 9.0), "tcp2": (8.0, 18.0), "tcp3": (12.0, 40.0), "tcp4": (20.0, 40.0)}
    tcp = pl.concat(
        rows(time_s=[0.0, 40.0], agent=[name] * 2, bytes=[0.0, rate * 40])
        for name, rate in (("tcp1", 9e6), ("tcp2", 2e6), ("tcp3", 3e6), ("tcp4", 9e6))
    )
    sender = pl.concat(
        rows(time_s=[10.0, 20.0], agent=[name] * 2, sent_packets=[5.0, 105.0], retransmitted=again)
        for name, again in (("tcp1", [0.0, 9.0]), ("tcp2", [2.0, 3.0]), ("tcp3", [4.0, 8.0]))
    )
    context = Context(
        window=(10.0, 20.0), sender="h0", layers=1, available={"h3": [(0.0, 1e9)]},
        round_trip=0.04, flows=flows, rivals={"h3": tuple(flows)},
    )  # fmt: skip
    kinds = {"received": frame, "tcp": tcp, "tcp.sender": sender}
    # tcp2 and tcp3 are both there from 12 to 18 s.
    assert tcp_ratio(kinds, context) == pytest.approx(1e6 / 2.5e6)
    for name, value in [("tcp_worst", 16e6), ("tcp_best", 24e6), ("tcp_retransmitted", 5 / 200)]:
        assert MEASURES[name].compute(kinds, context) == pytest.approx(value)
    assert tcp_retransmitted({}, context) is None


def test_how_soon_the_worst_path_is_found() -> None:
    context = Context(
        window=(10.0, 40.0), sender="h0", layers=1, round_trip=0.04,
        # h3 is the worst until 12, h4 until 20, both of them from 20 to 30 s, then h3.
        available={
            "h3": [(0.0, 1e6), (12.0, 2e6), (20.0, 1e6)],
            "h4": [(0.0, 2e6), (12.0, 1e6), (30.0, 2e6)],
        },
    )  # fmt: skip
    events = rows(
        time_s=[11.0, 12.5, 13.0, 13.5, 21.0, 30.5], agent=["h4", "h3", "h4", "h4", "h3", "h3"]
    )
    rates = rows(
        time_s=[11.0, 13.2, 14.0, 21.5, 30.4, 31.0, 31.5],
        clr=[4.0, 3.0, 4.0, 4.0, 3.0, 4.0, 3.0],
        grtt_us=[1e6, 2e5, 3e5, 5e5, 4e5, 4e5, 4e5],
    )
    kinds = {"mdpcc.loss_event": events, "mdpcc.rate": rates}
    # From 13 to 14 s at a GRTT of 0.25 s; from 21 to 21.5 at 0.5; from 30.5 to 31.5 at 0.4.
    assert clr_delay(kinds, context) == pytest.approx(4.0)
    silent = kinds | {"mdpcc.rate": rates.filter(pl.col("time_s") < 31.2)}
    assert clr_delay(silent, context) is None, "h3 was never found"
    assert clr_delay({}, context) is None
    listed = rows(time_s=[9.0, 15.0, 20.0], count=[5.0, 2.0, 3.0])
    assert representatives({"mdpcc.representatives": listed}, context) == 3


def test_beside_other_sessions() -> None:
    received = rows(
        time_s=[10.0, 20.0] * 4,
        agent=["h3"] * 2 + ["h4"] * 2 + ["h3.s2"] * 2 + ["h4.s3"] * 2,
        bytes=[0.0, 1e6, 0.0, 2e6, 0.0, 3e6, 0.0, 1e6],
    )
    available = {"h3": [(0.0, 2e6)], "h4": [(0.0, 2e6)]}
    members = ("h3", "h4", "h3.s2", "h4.s3")
    context = Context((10.0, 20.0), "h0", 1, available, 0.1, members=members)
    assert other_throughput({"received": received}, context) == pytest.approx(1.6e6)
    assert other_ratio({"received": received}, context) == pytest.approx(1.2 / 1.6)
    alone = Context((10.0, 20.0), "h0", 1, available, 0.1, members=("h3", "h4"))
    assert other_ratio({"received": received}, alone) is None


def test_suppressed_feedback() -> None:
    trac = rows(
        time_s=[5.0, 12.0, 13.0, 14.0, 15.0, 15.0, 16.0],
        agent=["h3", "h3", "h3", "h4", "h4", "h4.s2", "h4"],
        sent=[1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0],
    )
    available = {"h3": [(0.0, 2e6)], "h4": [(0.0, 2e6)]}
    context = Context((10.0, 20.0), "h0", 1, available, 0.1)
    kinds = {"ermcc.trac": trac}
    assert feedback_suppressed(kinds, context) == 4
    assert suppression(kinds, context) == pytest.approx(4 / 5)
    # One report, where each of two receivers lost 2.5 times.
    assert feedback_of_one(kinds, context) == pytest.approx(1 / 2.5)
    assert suppression({}, context) is None
    feedback = rows(time_s=[10.0, 20.0], agent=["h0"] * 2, accepted=[4.0, 34.0])
    assert feedbacks({"feedback": feedback}, context) == pytest.approx(30)
    window = rows(time_s=[10.0, 20.0] * 2, agent=["h0"] * 2 + ["h0.s2"] * 2, naks=[1, 4, 0, 99])
    assert naks({"pgmcc.window": window}, context) == pytest.approx(3)


REPRESENTATIVE_ROWS = {
    "ermcc.cr": {"cr": [3, 4, 4, 4, 3, 9], "valid": [1, 1, 0, 1, 1, 1]},
    "tfmcc.clr": {"clr": [3, 4, 4, 4, 3, 9], "valid": [1, 1, 0, 1, 1, 1]},
    "pgmcc.acker": {"acker": [3, 4, 4, 4, 3, 9], "reason": [0, 1, 3, 0, 1, 1]},
}


@pytest.mark.parametrize("kind", REPRESENTATIVE_ROWS)
def test_the_representative(kind: str) -> None:
    """h3 from 2 s on, h4 from 12 s, nobody from 14 s, h4 again from 15 s, h3 from 18 s."""
    frame = rows(
        time_s=[2.0, 12.0, 14.0, 15.0, 18.0, 3.0],
        agent=["h0"] * 5 + ["h0.s2"],
        **REPRESENTATIVE_ROWS[kind],
    )
    available = {agent: [(0.0, 2e6)] for agent in ("h3", "h4", "h5")}
    context = Context((10.0, 20.0), "h0", 1, available, 0.1)
    kinds = {kind: frame}
    assert representative_switches(kinds, context) == 2
    shares = [representative_share(kinds, context, agent) for agent in available]
    assert shares == pytest.approx([0.4, 0.5, 0])
    delays = [representative_delay(kinds, context, agent) for agent in available]
    assert delays == pytest.approx([0, 2, 10])  # h5 never: the whole window
    assert representative_share(kinds, context, "h9.s2") is None
    assert representative_switches({}, context) is None


def test_queue_at_the_bottleneck() -> None:
    context = Context((10.0, 20.0), "h0", 1, {"h3": [(0.0, 1e6)]}, 0.1, bottlenecks={"h3": "1>3"})
    port = rows(
        time_s=[5.0, 12.0, 14.0, 14.0],
        agent=["s1"] * 4,
        link=["1>3", "1>3", "1>3", "0>1"],
        queue_packets=[50.0, 10.0, 20.0, 99.0],
    )
    assert mean_queue({"port": port}, context) == pytest.approx(15.0)


def test_the_live_view_shows_what_a_window_sends() -> None:
    progress = Progress(CONTEXT, 90.0, {})
    for time_s, sent in ((1.0, 0.0), (1.2, 25_000.0)):
        progress.take("layer", time_s, "h0", {"rank": 0, "rate_Bps": 0.0, "sent_bytes": sent})
    progress.take("layer", 1.2, "h0", {"rank": 1, "rate_Bps": 5e5, "sent_bytes": 7.0})
    assert progress.cumulative_rates == pytest.approx([1e6, 5e6])


def test_periods_are_windows_of_their_own() -> None:
    frame = rows(
        time_s=[0.0, 10.0, 20.0, 30.0], agent=["h3"] * 4, bytes=[0.0, 1e6, 4e6, 5e6],
        packets=[0, 1000, 4000, 5000], lost=[0, 0, 0, 0], marked=[0, 0, 0, 0],
    )  # fmt: skip
    context = replace(
        CONTEXT, members=("h3",), available={"h3": [(0.0, 1e6)]},
        periods={"before": (0.0, 10.0), "after": (20.0, 30.0)},
    )  # fmt: skip
    figures = all_measures({"received": frame}, context)
    assert figures["receiver_rate_h3"] == pytest.approx(2.4e6)
    assert figures["receiver_rate_h3@before"] == pytest.approx(0.8e6)
    assert figures["receiver_rate_h3@after"] == pytest.approx(0.8e6)
    assert spec_of("receiver_rate_h3@before")[1] == "receiver rate, h3 (before)"
    assert spec_of("loss@after")[0] is MEASURES["loss"]


def test_level_and_variation_of_one_receiver() -> None:
    changes = rows(time_s=[0.0, 12.0, 17.0], agent=["h3"] * 3, top=[0, 2, 1])
    # One layer for 2 s, three for 5 s, two for 3 s.
    assert level({"subscription": changes}, CONTEXT, "h3") == pytest.approx(2.3, abs=0.01)
    # 1 and 3 Mbit/s in turn: mean 2, deviation 1.
    steps = np.cumsum([0.0, *([0.125e6, 0.375e6] * 5)])
    frame = rows(time_s=np.arange(10.0, 21.0), agent=["h3"] * 11, bytes=steps)
    assert rate_variation({"received": frame}, CONTEXT, "h3") == pytest.approx(0.5)
    assert rate_variation({"received": frame}, CONTEXT, "h4") is None


def test_ratios_to_tcp_of_one_receiver_and_of_all_sessions() -> None:
    received = rows(
        time_s=[10.0, 20.0] * 3, agent=["h3", "h3", "h4", "h4", "h3.s2", "h3.s2"],
        bytes=[0.0, 1e6, 0.0, 2e6, 0.0, 3e6],
        packets=[0, 1000] * 3, lost=[0] * 6, marked=[0] * 6,
    )  # fmt: skip
    flows = rows(
        time_s=[10.0, 20.0] * 2, agent=["tcp1"] * 2 + ["tcp2"] * 2, bytes=[0.0, 1e6, 0.0, 3e6]
    )
    context = replace(
        CONTEXT, members=("h3", "h4", "h3.s2"), rivals={"h3": ("tcp1",), "h4": ("tcp1", "tcp2")},
        flows={"tcp1": (0.0, 20.0), "tcp2": (0.0, 20.0)},
    )  # fmt: skip
    figures = all_measures({"received": received, "tcp": flows}, context)
    assert figures["receiver_tcp_ratio_h3"] == pytest.approx(1.0)  # 1 of tcp1's 1
    assert figures["receiver_tcp_ratio_h4"] == pytest.approx(1.0)  # 2 of a mean of 2
    assert figures["receiver_tcp_ratio_h3.s2"] is None  # its rivals are not known
    assert figures["sessions_tcp_ratio"] == pytest.approx(1.0)  # (1 + 2 + 3) / 3 of 2
    # Sessions that sent before there was TCP are not compared over that time.
    early = received.with_columns(time_s=pl.Series([5.0, 15.0] * 3))
    late = replace(context, flows={"tcp1": (15.0, 20.0), "tcp2": (15.0, 20.0)})
    assert all_measures({"received": early, "tcp": flows}, late)["sessions_tcp_ratio"] == 0
