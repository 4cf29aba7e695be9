"""Markings under TCP (`tiercast marking`, docs/marking.md): what flows that react make of them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tiercast_controller.network.marking import DualPi2, Marking, NoMarking, Pi2
from tiercast_lab.study.marking import Link
from tiercast_lab.study.marking_tcp import Tcp, TcpJudge, UnderTcp, jain

from ..checkout import ROOT

pytestmark = pytest.mark.slow
LINK = Link()


def under(marking: Marking, flows: int = 10) -> list[UnderTcp]:
    return TcpJudge(marking, LINK, Tcp(flows)).steady(40)


def test_jains_index() -> None:
    assert jain([3, 3, 3]) == pytest.approx(1)
    assert jain([5, 0, 0, 0]) == pytest.approx(1 / 4)  # one of n has all
    assert jain([1, 2, 3]) == pytest.approx(36 / (3 * 14))


def test_without_marking_reno_fills_the_queue() -> None:
    """A loss leaves a single flow half of the window that fills 40 ms and the queue's 200 ms:
    0.5 * 240 - 40 = 80 ms of queue at the least. DCTCP, which no mark slows, halves its window for
    a loss as Reno does (RFC 8257, 3.5): it gets as much, within what the turns of a few losses
    make."""
    one, many, mixed = under(NoMarking())
    for load in (one, many, mixed):
        assert load.utilisation > 0.99
        assert load.marked == load.dropped == 0 < load.queue_full
        assert load.wait_p50 > 0.5 * 0.24 - 0.04
        assert load.wait_p99 <= LINK.queue * LINK.packet_s
    assert mixed.ratio == pytest.approx(1, abs=0.35)


def test_pi2_holds_the_delay_of_several_flows_near_its_target() -> None:
    """The target is 15 ms; ten windows of some five packets move the queue by as much. One flow of
    an ideal TCP would leave the link idle for less than a tenth of the time."""
    one, many, mixed = under(Pi2(ecn=True))
    for load in (one, many, mixed):
        assert load.utilisation > 0.9
        assert load.wait_p50 == pytest.approx(0.015, rel=0.5)
        assert load.dropped < 0.001 < load.wait_p50  # all are ECT
    assert one.jain == 1 and many.jain > 0.8
    assert many.marked > 5 * one.marked  # p falls with the square of the window


def test_dualpi2_shares_between_scalable_and_classic_flows_and_keeps_l4s_short() -> None:
    """With k = 2 flows of equal round trips have about equal rates (RFC 9332, C.1) while their
    windows are of tens of packets: within a factor of 1.6. L4S waits for a few packets."""
    mixed = under(DualPi2(), flows=2)[-1]
    classic, scalable = mixed.kinds
    assert mixed.ratio is not None and 1 / 1.6 < mixed.ratio < 1.6
    assert mixed.utilisation > 0.95 and mixed.dropped == mixed.queue_full == 0
    assert scalable.wait_p99 < 5 * LINK.packet_s < classic.wait_p50


def test_steps_are_seen() -> None:
    """Half the rate is twice the packets' time, and ten more flows are a longer queue for a while;
    both are after their step."""
    more, slower = TcpJudge(Pi2(ecn=True), LINK, Tcp(4)).steps()
    for one in (more, slower):
        before, during = one.wait[50:100], one.wait[100:150]
        assert max(during) > max(before)
        assert one.settled_s is not None


def test_the_command_reports_loads_of_tcp(tmp_path: Path) -> None:
    done = subprocess.run(
        [ROOT / "tiercast", "marking", "dualpi2", "--seconds", "2", "--flows", "2", "--rtt", "20ms",
         "--tcp", "cubic", "--json", "--results", tmp_path],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    (judged,) = data["judged"]
    assert [one["title"] for one in judged["tcp"]] == ["1 cubic", "2 cubic", "1 cubic, 1 dctcp"]
    assert len(judged["tcp"][2]["kinds"]) == 2 and len(judged["tcp_steps"]) == 2
    page = Path(data["report"]).read_text()
    assert page.count('<img src="data:image/png') == 6 and "Under TCP" in page
