"""Policies as the entries that the program gets: fixed point by hand, and what does not fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiercast_controller import (
    ConfigurationError,
    DropTail,
    PriorityMarking,
    Red,
    ThresholdMarking,
)

RED = {"min_th": 5, "max_th": 15, "max_p": 0.1, "rate_bps": 6_000_000, "packet_bytes": 1000}


def test_entries_by_hand(program) -> None:
    cases = [
        (PriorityMarking(2.5, 70), "priority_marking", {"threshold": 640, "idle_us": 70}),
        (ThresholdMarking(20), "threshold_marking", {"threshold": 20}),
        (DropTail(50), "drop_tail", {"limit": 50}),
        (
            Red(**RED, ecn=True, gentle=True, limit_packets=60, idle_us=250),
            "red",
            {
                "min_th": 1280,
                "max_th": 3840,
                "max_p": 1677721,  # 0.1 * 2^24
                "slope": 167772,  # 0.1 / 10 * 2^24
                "gentle_slope": 1006632,  # 0.9 / 15 * 2^24
                "ecn": 1,
                "mark_above_max": 0,
                "wait": 1,
                "limit": 60,
                "idle_us": 250,
                "transmission_us": 1333,  # 8000 bits at 6 Mbit/s
                "idle_rate": 786,  # 1500 packets of 500 B a second, in 2^-19 a us
                "idle_limit_us": 2732167,  # 2^31 / 786
            },
        ),
    ]
    for policy, action, parameters in cases:
        item = policy.entry(3)
        assert (item.table, item.action) == ("port_marking", action)
        assert dict(item.match) == {"egress_port": 3}
        assert dict(item.params) == parameters
        program.encode_entry(item)


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (PriorityMarking(1 << 24, 0), r"threshold_packets is 1\.67772e\+07; valid: 0\.\.16777216"),
        (PriorityMarking(float("nan"), 0), "threshold_packets is nan"),
        (PriorityMarking(5, -1), r"idle_us is -1; valid: 0\.\.4294967295"),
        (ThresholdMarking(-1), r"threshold_packets is -1; valid: 0\.\.524287"),
        (DropTail(1 << 19), r"limit_packets is 524288; valid: 0\.\.524287"),
        (Red(**RED | {"min_th": 15}), "min_th 15 and max_th 15: valid is 0 <= min_th < max_th"),
        (Red(**RED | {"max_th": 70_000}), r"max_th is 70000; valid: 0\.\.65535\.9"),
        (Red(**RED | {"max_th": 1e308}), r"max_th is 1e\+308; valid: 0\.\.65535\.9"),
        (Red(**RED | {"max_p": 1}), "max_p is 1; valid: above 0 and below 1"),
        (Red(**RED | {"min_th": 14.999}), "less than 1/256 packet apart"),
        (
            Red(**RED | {"min_th": 14.996, "max_p": 0.9}),
            r"slope is 230\.4; valid: 0\.\.0\.9999",
        ),
        (Red(**RED | {"max_p": 1e-7}), r"rises by less than 2\^-24 a packet"),
        (Red(**RED | {"rate_bps": 1000}), "rate_bps is 1000; RED needs at least 3815"),
        (Red(**RED | {"packet_bytes": 0}), "packet_bytes is 0; valid: above 0"),
        (Red(**RED, limit_packets=-1), r"limit_packets is -1; valid: 0\.\.524287"),
    ],
)
def test_what_the_program_cannot_hold(policy, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        policy.entry(1)


@given(
    st.floats(0, 60_000),
    st.floats(0.01, 5_000),
    st.floats(1e-6, 0.999999),
    st.integers(10_000, 100_000_000_000),
)
def test_no_product_of_the_program_exceeds_32_bits(min_th, width, max_p, rate_bps) -> None:
    """The products of lib/red.p4 and lib/red_average.p4, at the ends of their ranges."""
    policy = Red(min_th, min_th + width, max_p, rate_bps, 1000, gentle=True)
    try:
        p = dict(policy.entry(1).params)
    except ConfigurationError:
        return  # refused; the test above says when
    assert (p["max_th"] - p["min_th"]) * p["slope"] < 1 << 32
    assert p["max_th"] * p["gentle_slope"] < 1 << 32
    assert p["max_p"] + ((p["max_th"] * p["gentle_slope"]) >> 8) <= 1 << 24
    assert p["idle_limit_us"] * p["idle_rate"] <= 1 << 31
