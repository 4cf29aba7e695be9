"""Measures of senders with a window, against values computed by hand."""

from __future__ import annotations

import polars as pl
import pytest
from tiercast_lab.measures import Context, all_measures, find_spec, spec_of, windows

# Two sessions of node 0; h3 is behind the soft bottleneck with tcp1, h4 elsewhere with tcp2.
CONTEXT = Context(
    window=(10.0, 20.0),
    sender="h0",
    layers=1,
    available={"h3": [(0.0, 1e6)], "h4": [(0.0, 4e6)]},
    round_trip=0.2,
    flows={"tcp1": (0.0, 20.0), "tcp2": (0.0, 20.0)},
    rivals={"h3": ("tcp1",)},
    senders={1: "h0", 2: "h0.s2"},
    packet_sizes={"tcp1": 1000, "tcp2": 500},
)


def window(agent: str, time_s: float, **fields: float) -> dict[str, float | str]:
    counters = {"acknowledged": 0.0, "signals": 0.0, "randomized_cuts": 0.0, "forced_cuts": 0.0}
    return {"time_s": time_s, "agent": agent, "cwnd": 20.0, "rtt_us": 0.0, **counters, **fields}


ROWS = {
    "rla.window": pl.DataFrame(
        [
            window("h0", 5.0, cwnd=99.0, acknowledged=100.0),  # before the window
            window("h0", 10.0, cwnd=10.0, acknowledged=600.0, signals=7.0),
            window("h0", 15.0, cwnd=30.0, rtt_us=200_000.0, acknowledged=1100.0, signals=20.0),
            window(
                "h0",
                20.0,
                cwnd=20.0,
                rtt_us=300_000.0,
                acknowledged=1600.0,
                signals=27.0,
                randomized_cuts=4.0,
                forced_cuts=1.0,
            ),
            window("h0.s2", 10.0, cwnd=8.0),
            window("h0.s2", 20.0, cwnd=12.0, acknowledged=500.0),
        ]
    ),  # fmt: skip
    "rla.signal": pl.DataFrame(
        {
            "time_s": [9.0, 11.0, 12.0, 13.0, 14.0, 14.5],
            "agent": ["h0", "h0", "h0", "h0", "h0", "h0.s2"],
            "receiver": [3.0, 3.0, 3.0, 3.0, 4.0, 3.0],
        }
    ),
    "tcp": pl.DataFrame(
        {
            "time_s": [10.0, 20.0, 10.0, 20.0],
            "agent": ["tcp1", "tcp1", "tcp2", "tcp2"],
            "bytes": [0.0, 8e5, 0.0, 9e5],  # 80 and 180 packets/s
        }
    ),
    "tcp.sender": pl.DataFrame(
        {
            "time_s": [10.0, 15.0, 20.0] * 2,
            "agent": ["tcp1"] * 3 + ["tcp2"] * 3,
            "cwnd": [1.0] * 6,
            # What the row at 10 s says is of the time before it.
            "cwnd_mean": [99.0, 19.0, 21.0, 1.0, 40.0, 44.0],
            "rtt_us": [0.0] * 6,
            "rtt_mean_us": [9e6, 240_000.0, 260_000.0, 9e6, 230_000.0, 230_000.0],
            "fast_retransmits": [1.0, 4.0, 4.0, 0.0, 1.0, 1.0],
            "timeouts": [0.0, 1.0, 1.0, 0.0, 0.0, 0.0],
        }
    ),
}

EXPECTED = {
    "packet_rate": 100.0,
    "cwnd": 20.0,
    "rtt": 0.25,
    "window_balance": 20 / (100 * 0.25),
    "congestion_signals": 2.0,
    "signals_per_receiver": 1.0,
    "window_cuts": 0.5,
    "forced_cuts": 0.1,
    "packet_rate_s2": 50.0,
    "cwnd_s2": 10.0,
    "rtt_s2": None,
    "signals_mean": 0.3,
    "signals_worst_elsewhere": 0.1,
    "tcp_cuts_mean": 0.4,
    "tcp_cuts_best_elsewhere": 0.1,
    "wtcp_packet_rate": 80.0,
    "wtcp_cwnd": 20.0,
    "wtcp_rtt": 0.25,
    "wtcp_cuts": 0.4,
    "wtcp_timeouts": 0.1,
    "btcp_packet_rate": 180.0,
    "btcp_cwnd": 42.0,
    "btcp_rtt": 0.23,
}


def test_rows_of_rlas_tables() -> None:
    measured = all_measures(ROWS, CONTEXT)
    assert {name: measured[name] for name in EXPECTED} == {
        name: value if value is None else pytest.approx(value) for name, value in EXPECTED.items()
    }


def test_a_kernels_flow_has_its_samples_and_no_cuts() -> None:
    """Mininet's rows: the window when it was looked at, and no count of its cuts."""
    sampled = ROWS["tcp.sender"].select("time_s", "agent", "cwnd", "rtt_us")
    measured = all_measures(ROWS | {"tcp.sender": sampled}, CONTEXT)
    assert measured["wtcp_cwnd"] == 1.0
    assert measured["wtcp_cuts"] is None
    assert measured["tcp_cuts_mean"] is None


def test_without_a_window_there_is_nothing_to_measure() -> None:
    measured = all_measures({}, CONTEXT)
    assert all(measured[name] is None for name in EXPECTED)


def test_the_most_frequent_windows_of_two_sessions_together() -> None:
    """Nine tenths of the time at 20 and 30 packets, the rest at 80 and 10."""
    times = [0.0, 9.0]
    both = pl.DataFrame(
        [window(agent, time_s, cwnd=cwnd)
         for agent, values in (("h0", (20.0, 80.0)), ("h0.s2", (30.0, 10.0)))
         for time_s, cwnd in zip(times, values, strict=True)]
    )  # fmt: skip
    density = windows.joint_density({"rla.window": both}, ["h0", "h0.s2"], (0.0, 10.0))
    assert density.shape == (21, 8)
    assert (density[5, 7], density[20, 2]) == (90, 10)
    assert windows.modes({"rla.window": both}, ["h0", "h0.s2"], (0.0, 10.0)) == pytest.approx(
        [20, 30], abs=1.5 * windows.CELL
    )
    assert windows.modes({}, ["h0"], (0.0, 10.0)) == []


def test_names_of_sessions() -> None:
    assert spec_of("packet_rate_s2")[1] == "packet rate, session 2"
    assert find_spec("window_cuts").parse("29 in 2900s") == pytest.approx(0.01)


@pytest.mark.parametrize(
    "name",
    ["receiver_rate", "receiver_rate_3", "receiver_rate_h3.2", "cumulative_rate_9", "cwnd_2",
     "efficiency_h3", "efficiency_1"],
)  # fmt: skip
def test_a_name_that_no_run_has_is_unknown(name: str) -> None:
    with pytest.raises(ValueError, match=f"unknown measure '{name}'; valid: "):
        find_spec(name)
