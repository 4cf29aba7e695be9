"""Policies as the entries that the program gets: fixed-point values computed by hand, and values
that do not fit."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from tiercast_controller.base.errors import ConfigurationError, ParameterError
from tiercast_controller.network.marking import (
    KINDS,
    AnyMarking,
    Codel,
    DropTail,
    DualPi2,
    Marking,
    NoMarking,
    Pi2,
    Pie,
    PortTraffic,
    PriorityMarking,
    PriorityQueues,
    QueueRed,
    Red,
    ThresholdMarking,
)
from tiercast_controller.network.marking.red import _spacing

TRAFFIC = PortTraffic(rate_bps=6_000_000, packet_bytes=1000, idle_us=70)


def test_entries_by_hand(program) -> None:
    cases = [
        (PriorityMarking(threshold=2.5), "priority_marking", {"threshold": 640, "idle_us": 70}),
        (ThresholdMarking(threshold=20), "threshold_marking", {"threshold": 20}),
        (DropTail(limit=50), "drop_tail", {"limit": 50}),
        (Codel(), "codel", {"target_us": 5000, "interval_us": 100_000, "ecn": 0}),
        (
            Pie(ecn=True),
            "pie",
            {
                "target_us": 15_000,
                "alpha": 586,  # 0.125 * 16.384 / 15, in 2^-32 a us
                "beta": 5369,  # 1.25, likewise
                "idle_fall": 8_796_093,  # 0.125 * 16.384 / 15 * 0.015 * 2^32
                "idle_us": 70,
                "burst_us": 150_000,
                "mark_below": 429_496_730,  # 0.1 * 2^32
                "spread": 0,
            },
        ),
        (
            Pi2(target="20ms"),
            "pi2",
            {
                "target_us": 20_000,
                "alpha": 704,  # 0.16 * 16.384 / 16
                "beta": 13_744,  # 3.2
                "idle_fall": 14_073_749,  # 0.16 * 16.384 / 16 * 0.02 * 2^32
                "idle_us": 70,
                "ecn": 0,
            },
        ),
        (
            Red(ecn=True, gentle=True, limit=60),
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
                "idle_us": 70,
                "transmission_us": 1333,  # 8000 bits at 6 Mbit/s
                "idle_rate": 786,  # 1500 packets of 500 B a second, in 2^-19 a us
                "idle_limit_us": 2732167,  # 2^31 / 786
            },
        ),
        (
            DualPi2(),
            "dualpi2",
            {
                "target_us": 15_000,
                "alpha": 704,  # 0.16 * 16.384 / 16 of 2^32 / 10^6
                "beta": 13744,  # 3.2 * 2^32 / 10^6
                "idle_fall": 10555312,  # 0.16 * 16.384 / 16 * 0.015 * 2^32
                "idle_us": 70,
                "coupling": 32,  # k = 2, in 1/16
                "overload": 1 << 31,  # k p' = 1
                "ramp_us": 800,
                "ramp_end_us": 1200,
                "ramp_slope": 10737418,  # 2^32 / 400
                "ramp_depth": 1,
            },
        ),
    ]
    for marking, action, parameters in cases:
        item = marking.entry(3, TRAFFIC)
        assert (item.table, item.action) == ("port_marking", action)
        assert dict(item.match) == {"egress_port": 3}
        assert dict(item.params) == parameters
        program.encode_entry(item)


@pytest.mark.parametrize(
    ("marking", "traffic", "text"),
    [
        (PriorityMarking(), {"idle_us": -1}, r"idle_us is -1; valid: 0\.\.4294967295"),
        (DropTail(limit=1 << 19), {}, r"limit is 524288; valid: 0\.\.524287"),
        (
            Codel(target="100ms"),
            {},
            "target 100ms and interval 100ms: valid is target < interval",
        ),
        (Pie(beta=4), {}, r"beta is 4; valid: 0\.00012\.\.3\.81"),
        (DualPi2(th_len=1 << 19), {}, r"th_len is 524288; valid: 0\.\.524287"),
        (Pi2(), {"idle_us": 1 << 32}, r"idle_us is 4294967296; valid: 0\.\."),
        (Red(min_th=15), {}, "min_th 15 and max_th 15: valid is 0 <= min_th < max_th"),
        (Red(max_th=70_000), {}, r"max_th is 70000; valid: 0\.\.65535\.9"),
        (Red(max_th=1e308), {}, r"max_th is 1e\+308; valid: 0\.\.65535\.9"),
        (Red(max_p=1), {}, "max_p is 1; valid: above 0 and below 1"),
        (Red(min_th=14.999), {}, "less than 1/256 packet apart"),
        (Red(min_th=14.996, max_p=0.9), {}, r"slope is 230\.4; valid: 0\.\.0\.9999"),
        (Red(max_p=1e-7), {}, r"rises by less than 2\^-24 a packet"),
        (Red(), {"rate_bps": 1000}, "rate_bps is 1000; RED needs at least 3815"),
        (Red(), {"packet_bytes": 0}, "packet_bytes is 0; valid: above 0"),
        (Red(mean_packet_bytes=0), {}, "mean_packet_bytes is 0; valid: above 0"),
        (Red(limit=-1), {}, r"limit is -1; valid: 0\.\.524287"),
        (Red(weight=0.002), {}, r"weight is 0\.002; valid at departure: 0\.001953125"),
        (Red(where="arrival", min_th=15), {}, "min_th 15 and max_th 15: valid is"),
        (Red(where="arrival", max_p=1), {}, "max_p is 1; valid: above 0 and below 1"),
        (
            Red(where="arrival", max_th=3e9),
            {},
            "max_th is 3e.09; valid on arrival: up to 21",
        ),
        (Red(where="arrival", weight=0), {}, "weight is 0; valid: above 0, to 1"),
        (
            Red(where="arrival", limit=60),
            {},
            "limit is 60; valid on arrival: 0, the link",
        ),
        (Red(where="arrival", mean_packet_bytes=0), {}, "mean_packet_bytes is 0; valid: above 0"),
    ],
)
def test_what_the_program_cannot_hold(marking: Marking, traffic: dict[str, int], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        marking.entry(1, replace(TRAFFIC, **traffic))


@pytest.mark.parametrize(
    ("marking", "text"),
    [
        ({"threshold": float("nan")}, "finite number"),
        ({"threshold": -1}, "greater than or equal to 0"),
        ({"kind": "threshold", "threshold": 10_001}, "less than or equal to 10000"),
        ({"kind": "threshold", "limit": 3}, "unknown key limit; valid: kind, threshold"),
        ({"kind": "drop_tail"}, "Field required"),
        (
            {"kind": "rde"},
            "kind is none of codel, pie, pi2, dualpi2, priority, red, threshold, drop_tail, none",
        ),
        ({"kind": 5}, "kind is none of"),
        ({"kind": "red", "where": "ingress"}, "'arrival' or 'departure'"),
        ({"kind": "drop_tail", "limit": 5, "where": "arrival"}, "unknown key where"),
        ("red", "no mapping of keys to values"),
    ],
)
def test_what_a_yaml_may_not_say(marking: object, text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        TypeAdapter(AnyMarking).validate_python(marking)


def test_red_on_arrival_is_the_queues_and_the_program_marks_nothing(program) -> None:
    marking = Red(where="arrival", min_th=2.5, ecn=True, weight=0.01)
    item = marking.entry(3, TRAFFIC)
    assert (item.action, dict(item.params)) == ("no_marking", {})
    program.encode_entry(item)
    policy = marking.at(6_000_000, 1000)
    assert policy is not None
    assert policy.queue().red == QueueRed(
        min_th=2.5, max_th=15, max_p=0.1, weight=0.01, mean_packet_bytes=500,
        gentle=False, wait=True, ecn=True, mark_above_max=False,
    )  # fmt: skip
    plain = Red(where="arrival").queue_red()
    assert plain is not None and plain.weight == 0.002  # ns-2's


@given(st.floats(1, 255 / 16), st.integers(0, 10**9), st.integers(0, 10**9))
def test_no_product_of_dualpi2_exceeds_32_bits(coupling, min_th, width) -> None:
    """Those of lib/dualpi2.p4: k p' below overload, and the ramp below its end."""
    entry = DualPi2(coupling=coupling, min_th=f"{min_th}ns", range=f"{width}ns").entry(1, TRAFFIC)
    values = dict(entry.params)
    assert ((values["overload"] - 1) >> 4) * values["coupling"] < 1 << 32
    assert values["overload"] * values["coupling"] >= ((1 << 32) - 1) * 16
    assert (values["ramp_end_us"] - values["ramp_us"]) * values["ramp_slope"] < 1 << 32


def test_dualpi2_has_two_queues_and_other_kinds_have_one() -> None:
    assert DualPi2(classic_share=0.25).priority_queues() == PriorityQueues(0.25)
    for marking in (Pi2(), Red(where="arrival"), NoMarking()):
        assert marking.priority_queues() is None


def test_at_departure_and_without_red_the_queue_only_drops_its_tail() -> None:
    for marking in (Red(), Red(where="departure", weight=1 / 512), PriorityMarking(), NoMarking()):
        assert marking.queue_red() is None


def test_every_kind_has_an_action_of_the_table(program) -> None:
    """No kind falls through to another's action."""
    keys = {"threshold": {"threshold": 5}, "drop_tail": {"limit": 5}}
    adapter = TypeAdapter(AnyMarking)
    actions = set()
    for kind, one in KINDS.items():
        marking = adapter.validate_python({"kind": kind} | keys.get(kind, {}))
        assert type(marking) is one
        item = marking.entry(1, TRAFFIC)
        program.encode_entry(item)
        actions.add(item.action)
    assert len(actions) == len(KINDS)


@pytest.mark.parametrize(
    ("rate", "packets"),
    # 20 ms of 1 Mbit/s are 2.5 packets of 1000 B; never below 2, never above 5.
    [(100_000, 2.0), (1_000_000, 2.5), (2_000_000, 5.0), (6_000_000, 5.0)],
)
def test_automatic_threshold(rate: int, packets: float) -> None:
    assert PriorityMarking().threshold_at(PortTraffic(rate, 1000)) == pytest.approx(packets)


def test_a_port_without_a_rate_has_no_queue_and_no_policy() -> None:
    assert PriorityMarking().at(0, 1000) is None
    assert NoMarking().at(1_000_000, 1000) is None


@given(
    st.floats(0, 60_000),
    st.floats(0.01, 5_000),
    st.floats(1e-6, 0.999999),
    st.integers(10_000, 100_000_000_000),
)
def test_no_product_of_the_program_exceeds_32_bits(min_th, width, max_p, rate_bps) -> None:
    """Checks the products of lib/red.p4 and lib/red_average.p4 at the ends of their ranges."""
    marking = Red(min_th=min_th, max_th=min_th + width, max_p=max_p, gentle=True)
    try:
        p = dict(marking.entry(1, PortTraffic(rate_bps, 1000)).params)
    except ConfigurationError:
        return  # refused; the test above checks when
    assert (p["max_th"] - p["min_th"]) * p["slope"] < 1 << 32
    assert p["max_th"] * p["gentle_slope"] < 1 << 32
    assert p["max_p"] + ((p["max_th"] * p["gentle_slope"]) >> 8) <= 1 << 24
    assert p["idle_limit_us"] * p["idle_rate"] <= 1 << 31


@given(st.floats(1e-4, 1) | st.integers(1, 10_000).map(lambda n: 1 / n), st.booleans())
def test_the_mean_spacing_of_reds_marks_is_the_sum_of_its_terms(p: float, wait: bool) -> None:
    most = 2 if wait else 1
    terms = math.fsum(min(1.0, most - n * p) for n in range(math.ceil(most / p)))
    assert _spacing(p, wait) == pytest.approx(terms, rel=1e-12)


@pytest.mark.parametrize("wait", [False, True])
def test_reds_equation_takes_no_longer_for_a_small_probability(wait: bool) -> None:
    red = Red(max_p=1e-12, wait=wait)
    mean = 1.5e12 if wait else 0.5e12
    assert red.probability(14.999999999) == pytest.approx(1 / mean, rel=1e-6)


@given(st.integers(10**6, 0x3FFFF * 1000), st.floats(1e-9, 9.9), st.floats(1e-9, 9.9))
def test_no_product_of_the_pi_controller_exceeds_32_bits(target, alpha, beta) -> None:
    """Checks the products of lib/pi.p4 at the largest delay that it computes with."""
    try:
        p = dict(Pi2(target=f"{target}ns", alpha=alpha, beta=beta).entry(1, TRAFFIC).params)
    except ConfigurationError:
        return  # refused; the test above checks when
    longest = 0x3FFFF
    assert longest * p["alpha"] < 1 << 32 and longest * p["beta"] < 1 << 32
    assert p["target_us"] <= longest and 255 * (p["idle_fall"] >> 8) < 1 << 32
