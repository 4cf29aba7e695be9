"""Limits of what one host port can make the controller do."""

from ipaddress import IPv4Address

from tiercast_controller.multicast.policer import (
    RECORDS_PER_REPORT,
    REPORTERS,
    REPORTS_AT_ONCE,
    REPORTS_PER_S,
    Policer,
)

V2_REPORT = 60  # bytes of a frame, padding included
PORT, OTHER = ("s0", 1), ("s0", 2)


def admitted(policer: Policer, count: int, now_s: float, frame_bytes: int = V2_REPORT) -> int:
    return sum(policer.admits(PORT, frame_bytes, now_s) for _ in range(count))


def test_a_port_has_a_burst_and_a_rate_of_records() -> None:
    policer = Policer(True, lambda port: ())
    burst, rate = (one * RECORDS_PER_REPORT for one in (REPORTS_AT_ONCE, REPORTS_PER_S))
    assert admitted(policer, 2 * burst, 0) == burst
    assert policer.refused(PORT) == (burst, 0)
    assert admitted(policer, 2 * rate, 0.5) == rate // 2
    assert admitted(policer, 3 * burst, 1000) == burst  # no more however long it was silent
    # Another port is as if nothing had happened.
    assert policer.admits(OTHER, V2_REPORT, 0.5)
    assert policer.refused(OTHER) == (0, 0)


def test_a_large_report_counts_as_its_records() -> None:
    """180 records of 8 bytes in a frame of 1500."""
    policer = Policer(True, lambda port: ())
    burst = REPORTS_AT_ONCE * RECORDS_PER_REPORT
    assert admitted(policer, 100, 0, frame_bytes=46 + 8 * 180) == burst // 180


def test_a_port_has_so_many_reporters_and_forgets_those_that_have_left() -> None:
    joined = set()
    policer = Policer(True, lambda port: joined)
    everyone = [IPv4Address(number) for number in range(1, REPORTERS + 2)]
    for reporter in everyone[:REPORTERS]:
        assert policer.knows(PORT, reporter)
        joined.add(reporter)
    assert not policer.knows(PORT, everyone[-1])
    assert policer.knows(PORT, everyone[0]) and policer.knows(OTHER, everyone[-1])
    assert policer.refused(PORT) == (0, 1)
    joined.discard(everyone[3])
    assert policer.knows(PORT, everyone[-1])


def test_switched_off_it_lets_everything_through() -> None:
    policer = Policer(False, lambda port: ())
    assert admitted(policer, 100_000, 0) == 100_000
    assert all(policer.knows(PORT, IPv4Address(number)) for number in range(10 * REPORTERS))
