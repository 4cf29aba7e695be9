"""Measures of window-based senders, compared with values computed by hand."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest
from tiercast_lab.measures import Context, Rows, all_measures, find_spec, windows
from tiercast_lab.measures.context import Bottleneck, Flow, Receiver, Session


def beside(*flows: str) -> tuple[Bottleneck, ...]:
    """One bottleneck all the time, with these flows."""
    return (Bottleneck(0.0, rivals=flows),)


# Two sessions at node 0. h3 and h6 are behind the soft bottleneck with tcp1 and tcp3; h4 and h5 are
# elsewhere with tcp2 and tcp4. h4 leaves at 15 s. The second session starts at 12 s, tcp2 at 15 s.
SESSIONS = (
    Session(
        1,
        "h0",
        1,
        {
            "h3": Receiver(3, ((0.0, 1e6),), bottlenecks=beside("tcp1", "tcp3")),
            "h4": Receiver(4, ((0.0, 4e6),), absences=((15.0, 30.0),)),
            "h5": Receiver(5, ((0.0, 4e6),)),
            "h6": Receiver(6, ((0.0, 1e6),), bottlenecks=beside("tcp1", "tcp3")),
        },
        round_trip=0.2,
    ),
    Session(2, "h0.s2", 1, {"h3.s2": Receiver(3, ((0.0, 1e6),))}, 0.2, start=12.0),
)
CONTEXT = Context(
    (10.0, 20.0),
    SESSIONS[0],
    SESSIONS,
    flows={
        "tcp1": Flow("tcp", 0.0, 20.0, 1000),
        "tcp2": Flow("tcp", 15.0, 30.0, 500),
        "tcp3": Flow("tcp", 0.0, 20.0, 1000),
        "tcp4": Flow("tcp", 0.0, 20.0, 1000),
        "tcp5": Flow("tcp", 25.0, 30.0, 1000),
    },
)


def window(agent: str, time_s: float, **fields: float) -> dict[str, float | str]:
    counters = {"acknowledged": 0.0, "signals": 0.0, "randomized_cuts": 0.0, "forced_cuts": 0.0}
    return {"time_s": time_s, "agent": agent, "cwnd": 20.0, "rtt_us": 0.0, **counters, **fields}


FRAMES = {
    "rla.window": pl.DataFrame(
        [
            window("h0", 5.0, cwnd=99.0, acknowledged=100.0),  # before the window
            window("h0", 10.0, cwnd=10.0, acknowledged=600.0, signals=7.0),
            window("h0", 14.0, cwnd=30.0, rtt_us=200_000.0, acknowledged=1000.0, signals=20.0),
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
            window("h0.s2", 12.0, cwnd=8.0),
            window("h0.s2", 20.0, cwnd=12.0, acknowledged=400.0),
        ]
    ),  # fmt: skip
    # Packets of 1000 and 500 bytes.
    "layer": pl.DataFrame(
        {
            "time_s": [10.0, 20.0, 20.0],
            "agent": ["h0", "h0", "h0.s2"],
            "rank": [0, 0, 0],
            "sent_packets": [700, 1700, 420],
            "sent_bytes": [7e5, 1.7e6, 2.1e5],
        }
    ),
    "rla.signal": pl.DataFrame(
        {
            "time_s": [9.0, 11.0, 12.0, 13.0, 13.5, 14.0, 14.5, 16.0],
            "agent": ["h0", "h0", "h0", "h0", "h0", "h0", "h0.s2", "h0"],
            "receiver": [3.0, 3.0, 3.0, 3.0, 6.0, 4.0, 3.0, 5.0],
        }
    ),
    "tcp": pl.DataFrame(
        {
            "time_s": [10.0, 20.0, 15.0, 20.0, 10.0, 20.0, 10.0, 20.0],
            "agent": ["tcp1", "tcp1", "tcp2", "tcp2", "tcp3", "tcp3", "tcp4", "tcp4"],
            # 80, 180, 100 and 120 packets/s
            "bytes": [0.0, 8e5, 0.0, 4.5e5, 0.0, 1e6, 0.0, 1.2e6],
        }
    ),
    "tcp.sender": pl.DataFrame(
        {
            "time_s": [10.0, 15.0, 20.0] * 4,
            "agent": ["tcp1"] * 3 + ["tcp2"] * 3 + ["tcp3"] * 3 + ["tcp4"] * 3,
            "cwnd": [1.0] * 12,
            # The row at the start covers the time before it.
            "cwnd_mean": [99.0, 19.0, 21.0, 1.0, 40.0, 44.0, *[1.0] * 6],
            "rtt_us": [0.0] * 12,
            "rtt_mean_us": [9e6, 240_000.0, 260_000.0, 9e6, 9e6, 230_000.0, *[1.0] * 6],
            "fast_retransmits": [1.0, 4.0, 4.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 2.0, 2.0],
            "timeouts": [0.0, 1.0, 1.0, 0.0, 0.0, 1.0, *[0.0] * 6],
        }
    ),
}
ROWS = Rows(FRAMES)

EXPECTED = {
    "packet_rate": 100.0,
    "cwnd": 22.0,  # 10 for 4 s, 30 for 6 s
    "rtt": 0.26,  # 0.2 s of 400 packets, 0.3 s of 600
    "window_balance": 22 / (100 * 0.26),
    "congestion_signals": 2.0,
    "signals_per_receiver": 2 / 3.5,  # h4 is present for half of the window
    "window_cuts": 0.5,
    "forced_cuts": 0.1,
    "packet_rate_s2": 50.0,  # 400 in the 8 s for which it is present
    "cwnd_s2": 8.0,
    "rtt_s2": None,
    "signals_worst": 0.3,  # h3's
    "signals_best": 0.1,  # h6's
    "signals_mean": 0.2,
    "signals_worst_elsewhere": 0.2,  # h4's, one in 5 s
    "signals_best_elsewhere": 0.1,  # h5's
    "signals_mean_elsewhere": 0.15,
    "tcp_cuts_worst": 0.4,  # tcp1's: 3 fast retransmits and a time-out
    "tcp_cuts_best": 0.1,  # tcp3's
    "tcp_cuts_mean": 0.25,
    "tcp_cuts_worst_elsewhere": 0.4,  # tcp2's: 2 in the 5 s for which it is present
    "tcp_cuts_best_elsewhere": 0.2,  # tcp4's
    "tcp_cuts_mean_elsewhere": 0.3,
    "wtcp_packet_rate": 80.0,
    "wtcp_cwnd": 20.0,
    "wtcp_rtt": 0.25,
    "wtcp_cuts": 0.4,
    "wtcp_timeouts": 0.1,
    "btcp_packet_rate": 180.0,
    "btcp_cwnd": 44.0,
    "btcp_rtt": 0.23,
    "btcp_cuts": 0.4,
    "btcp_timeouts": 0.2,
    "unfairness": 1.25,  # 100 packets of 1000 bytes over 80 such packets
    "unfairness_s2": 3.2,  # 80 of 1000 bytes over 50 of 500
}

# The windows of both sessions, in steps of 2, 4, 2 and 2 s. The cell of the second step has both of
# its neighbours, so its middle is the mode: cells of 4 packets, from 20 and from 32.
TOGETHER = Rows(
    {
        "rla.window": pl.DataFrame(
            [
                window(agent, time_s, cwnd=cwnd)
                for agent, values in (("h0", (16, 20, 24, 80)), ("h0.s2", (28, 32, 36, 8)))
                for time_s, cwnd in zip((10.0, 12.0, 16.0, 18.0), values, strict=True)
            ]
        )
    }
)
EXPECTED_TOGETHER = {"window_mode": 22.0, "window_mode_s2": 34.0}


def test_a_kernels_flow_has_its_samples_and_no_cuts() -> None:
    """In Mininet's rows, the window is a sample, and its cuts are not counted."""
    sampled = ROWS["tcp.sender"].select("time_s", "agent", "cwnd", "rtt_us")
    measured = all_measures(Rows({**ROWS, "tcp.sender": sampled}), CONTEXT)
    assert measured["wtcp_cwnd"] == 1.0
    assert measured["wtcp_cuts"] is None
    assert measured["tcp_cuts_mean"] is None


def test_the_most_frequent_windows_of_two_sessions_together() -> None:
    """For nine tenths of the time the windows are 20 and 30 packets, for the rest 80 and 10."""
    times = [0.0, 9.0]
    both = Rows(
        {
            "rla.window": pl.DataFrame(
                [
                    window(agent, time_s, cwnd=cwnd)
                    for agent, values in (("h0", (20.0, 80.0)), ("h0.s2", (30.0, 10.0)))
                    for time_s, cwnd in zip(times, values, strict=True)
                ]
            )
        }
    )
    density = windows.joint_density(both, ["h0", "h0.s2"], (0.0, 10.0))
    assert density.shape == (21, 8)
    assert (density[5, 7], density[20, 2]) == (90, 10)
    assert windows.modes(both, ["h0", "h0.s2"], (0.0, 10.0)) == pytest.approx(
        [20, 30], abs=1.5 * windows.CELL
    )
    assert windows.modes(Rows({}), ["h0"], (0.0, 10.0)) == []


def together(*windows_of: list[float]) -> tuple[Rows, list[str]]:
    """Senders whose windows take these values for a tenth of a second each."""
    agents = [f"h0.s{number}" for number in range(1, len(windows_of) + 1)]
    records = [
        window(agent, index / 10, cwnd=cwnd)
        for agent, values in zip(agents, windows_of, strict=True)
        for index, cwnd in enumerate(values)
    ]
    return Rows({"rla.window": pl.DataFrame(records)}), agents


def smoothed(density: np.ndarray) -> np.ndarray:
    """Each cell with its neighbours, over the whole array."""
    padded = np.pad(density, 1)
    steps = itertools.product(range(3), repeat=density.ndim)
    parts = (
        padded[tuple(slice(at, at + side) for at, side in zip(step, density.shape, strict=True))]
        for step in steps
    )
    return sum(parts, start=np.zeros_like(density))


@pytest.mark.parametrize("senders", [1, 2, 3, 4])
def test_modes_are_those_of_the_whole_density(senders: int) -> None:
    random = np.random.default_rng(senders)
    for _ in range(20):
        made = [list(map(float, random.integers(0, 40, 60))) for _ in range(senders)]
        rows, agents = together(*made)
        density = smoothed(windows.joint_density(rows, agents, (0.0, 6.0)))
        best = np.unravel_index(density.argmax(), density.shape)
        assert windows.modes(rows, agents, (0.0, 6.0)) == [(one + 0.5) * 4 for one in best]


def test_many_or_large_windows_together_need_no_large_array() -> None:
    rows, agents = together(*[[4.0, 30.0, 30.0]] * 65)
    assert windows.modes(rows, agents, (0.0, 0.3)) == []
    # An array over all cells would have 10^20 of them.
    rows, agents = together(*[[4.0, 40_000.0, 40_000.0]] * 5)
    assert windows.modes(rows, agents, (0.0, 0.3)) == pytest.approx([40_000.0] * 5, abs=6)


def test_counts_of_papers_are_read_as_frequencies() -> None:
    assert find_spec("window_cuts").parse("29 in 2900s") == pytest.approx(0.01)
