from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiercast_controller.base import units
from tiercast_controller.base.units import Queue


def test_text_forms() -> None:
    assert units.parse_rate("6Mbit/s") == 6_000_000
    assert units.parse_rate("0.5 Gbit/s") == 500_000_000
    assert units.parse_duration("5ms") == 5_000_000
    assert units.parse_duration("1.5s") == 1_500_000_000
    assert units.parse_size("1kB") == 1000
    assert units.parse_fraction("15%") == pytest.approx(0.15)
    assert units.parse_fraction(0.15) == 0.15
    assert units.parse_queue("50p") == Queue(packets=50)
    assert units.parse_queue("30kB") == Queue(bytes=30_000)
    assert units.parse_queue("50p/30000B") == Queue(50, 30_000)


@pytest.mark.parametrize(
    ("parse", "text", "valid"),
    [
        (units.parse_rate, "6Mb", "Mbit/s"),
        (units.parse_rate, 6, "Mbit/s"),
        (units.parse_rate, "-1Mbit/s", "Mbit/s"),
        (units.parse_duration, "5", "ms"),
        (units.parse_queue, "50", "50p"),
        (units.parse_queue, "50p/", "50p"),
        (units.parse_fraction, "15", "%"),
        (units.parse_fraction, 15, "%"),
    ],
)
def test_errors_name_value_and_valid_forms(parse, text, valid) -> None:
    with pytest.raises(ValueError) as error:
        parse(text)
    assert repr(text) in str(error.value)
    assert valid in str(error.value)


@given(st.integers(1, 10**7))
def test_rates_read_back(kilobits: int) -> None:
    # Units are written with three decimals, so multiples of 1 kbit/s below 1 Gbit/s are exact.
    rate = kilobits % 10**6 * 1000 or 1000
    assert units.parse_rate(units.format_rate(rate)) == rate


def test_frequency() -> None:
    assert units.parse_frequency("840 in 2900s") == pytest.approx(840 / 2900)
    assert units.parse_frequency(0.29) == 0.29
    for wrong in ("840", "840 in 2900", "often", True):
        with pytest.raises(ValueError):
            units.parse_frequency(wrong)
