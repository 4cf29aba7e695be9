"""`tiercast marking`: each law beside its equation, and what trials say of loads, steps and
classes."""

from __future__ import annotations

import json
import math
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiercast.v1.marking_pb2 import QueueDisc
from tiercast_controller.network.marking import (
    KINDS,
    Codel,
    DropTail,
    DualPi2,
    Marking,
    NoMarking,
    Pi2,
    Pie,
    PriorityMarking,
    Red,
    ThresholdMarking,
)
from tiercast_lab.base.errors import RunFailed
from tiercast_lab.show.marking_report import with_names
from tiercast_lab.study.beside_ns3 import Ns3Disc, disc_of, discs_of, is_built
from tiercast_lab.study.marking import MARKED, Class, Judge, Link, Packets, Phase
from tiercast_lab.study.marking_results import (
    FOUND,
    LOADS,
    Bin,
    at_load,
    by_class,
    by_queue,
    curve,
    judge,
    wilson,
)
from tiercast_lab.study.marking_steps import over

from ..checkout import ROOT

LINK = Link()


def bins_of(marking: Marking, queue: int = LINK.queue) -> list[Bin]:
    link = Link(queue=queue)
    law = marking.law(link.traffic)
    assert law is not None
    judge = Judge(marking, link)
    return curve(judge.carry([Phase(20, load) for load in LOADS]), law)


@pytest.mark.parametrize(
    "marking", [ThresholdMarking(threshold=20), DropTail(limit=30), PriorityMarking()], ids=str
)
def test_a_step_is_at_its_threshold(marking: Marking) -> None:
    bins = bins_of(marking, queue=60)
    assert len(bins) > 10
    assert {one.equation for one in bins} >= {0.0, 1.0}
    for one in bins:
        assert one.share == pytest.approx(one.equation, abs=1e-12)


@pytest.mark.parametrize(
    "marking",
    [
        Red(ecn=True, gentle=True, mark_above_max=True),
        Red(wait=False, gentle=True),
        Pie(ecn=True, mark_below=1),
        Pi2(ecn=True),
        DualPi2(),
    ],
    ids=["RED", "RED of 1993", "PIE", "PI2", "DualPI2"],
)
def test_chance_is_as_the_equation_says(marking: Marking) -> None:
    """Of some 20 ranges at 95 % one is outside by chance; four are 1 in 60 cases."""
    bins = bins_of(marking)
    assert len(bins) > 8
    outside = [one for one in bins if not one.low - 1e-9 <= one.equation <= one.high + 1e-9]
    assert len(outside) <= 3, outside


@pytest.mark.parametrize("full", [200, 30])
def test_packets_at_the_top_of_the_range_are_in_its_last_bin(full: int) -> None:
    """Of a queue that is full most of the time. In the second case each number is a range."""
    found = np.array([*range(full), *[full] * 3000])
    zeros, ones = np.zeros(len(found)), np.ones(len(found))
    packets = Packets(zeros, ones, found, zeros, zeros, np.full(len(found), MARKED), {})
    bins = curve(packets, FOUND, least=1)
    assert sum(one.packets for one in bins) == len(found)
    assert bins[-1].packets >= 3000 and bins[-1].at == pytest.approx(full, abs=0.1)
    # What is above the range, a thousandth, is in none.
    found[:3] = 2 * full
    bins = curve(packets, FOUND, least=1)
    assert sum(one.packets for one in bins) + (found > full).sum() == len(found)


def test_every_kind_has_an_equation_or_is_known_to_have_none() -> None:
    keys = {"threshold": {"threshold": 5}, "drop_tail": {"limit": 5}}
    without = {
        kind for kind, one in KINDS.items() if one(**keys.get(kind, {})).law(LINK.traffic) is None
    }
    assert without == {"codel", "none"}
    assert Red(where="arrival").law(LINK.traffic) is None


def test_pie_keeps_the_delay_at_its_target_and_carries_what_the_link_can() -> None:
    packets = Judge(Pie(), LINK).carry([Phase(60, 1.2)])
    row = at_load(packets, 1.2, "poisson", LINK)
    assert row.utilisation > 0.98
    assert row.wait_p50 == pytest.approx(0.015, rel=0.3)
    assert row.dropped == pytest.approx(1 - 1 / 1.2, abs=0.02) and row.marked == 0


def test_dualpi2_couples_its_queues_and_keeps_l4s_short() -> None:
    """RFC 9332: p_CL = k p' and p_C = p'^2. Traffic that does not react needs p' of 0.25 at load 1
    and 0.37 at 1.05, where p' varies by a tenth, so that the mean's root is a few percent off the
    root's mean."""
    rows = {row.load: row for row in by_queue(Judge(DualPi2(), LINK), 60, seed=1)}
    for load in (1.0, 1.05):
        row = rows[load]
        assert row.coupled > 0.4
        assert row.l4s_marked == pytest.approx(row.coupled, rel=0.06)
    for row in rows.values():
        # An L4S packet waits for the one in service, and for Classic's share of one in ten.
        assert row.l4s_wait_p50 <= LINK.packet_s and row.l4s_wait_p95 <= 4 * LINK.packet_s
    assert rows[1.2].classic_wait_p50 == pytest.approx(0.015, rel=0.2)
    # Overload: with p' = 0.71 both are dropped alike.
    assert rows[2.0].l4s_dropped == pytest.approx(rows[2.0].classic_dropped, abs=0.01)
    assert rows[2.0].l4s_dropped == pytest.approx(0.5, abs=0.02)


@pytest.mark.skipif(not is_built(), reason="tiercast-ns3 is not built")
@pytest.mark.parametrize("marking", [Codel(), Pie()], ids=str)
def test_a_fair_queueing_disc_has_the_law_in_the_queue_of_each_flow(marking: Marking) -> None:
    """All packets of a trial are of one flow, so it does as the law alone; CoDel has no chance, and
    drops the same packets."""
    discs = discs_of(marking, LINK)
    plain, fair = (
        at_load(Ns3Disc(disc, LINK, [Class("ECT(0)")]).carry([Phase(20, 1.1)]), 1.1, "", LINK)
        for disc in discs.values()
    )
    name, fair_name = discs
    assert fair_name == f"Fq{name}"
    if isinstance(marking, Codel):
        assert fair == plain
    assert fair.dropped == pytest.approx(plain.dropped, abs=0.004)
    assert fair.wait_p50 == pytest.approx(plain.wait_p50, rel=0.1)


@pytest.mark.skipif(not is_built(), reason="tiercast-ns3 is not built")
@pytest.mark.parametrize("marking", [Codel(), Pie(), Red(where="arrival")], ids=str)
def test_ns3_disc_of_the_law_does_the_same(marking: Marking) -> None:
    """The same packets. Both drop what the link cannot carry; where nothing is random both drop the
    same ones (tests/ns3 has tighter bounds of longer trials)."""
    disc = disc_of(marking, LINK)
    assert disc is not None
    judge = Judge(marking, LINK)
    for load in (0.9, 1.1):
        phases = [Phase(60, load)]
        ours = at_load(judge.carry(phases), load, "poisson", LINK)
        theirs = at_load(Ns3Disc(disc, LINK, judge.classes()).carry(phases), load, "poisson", LINK)
        assert ours.dropped == pytest.approx(theirs.dropped, abs=0.004)
        assert ours.utilisation == pytest.approx(theirs.utilisation, abs=0.005)
        assert ours.wait_p50 == pytest.approx(theirs.wait_p50, rel=0.1)


def test_a_disc_that_ns3_does_not_have_is_named() -> None:
    assert disc_of(Pi2(), LINK) is None
    wrong = Ns3Disc(QueueDisc(type="ns3::NoQueueDisc"), LINK, [Class("ECT(0)")])
    if is_built():
        with pytest.raises(RunFailed, match="type 'ns3::NoQueueDisc'; valid: a queue disc of ns-3"):
            wrong.carry([Phase(1, 0.5)])


def test_without_marking_the_queue_fills_to_its_limit() -> None:
    row = at_load(Judge(NoMarking(), LINK).carry([Phase(30, 1.5)]), 1.5, "poisson", LINK)
    assert row.queue_full == pytest.approx(1 / 3, abs=0.03)
    assert row.wait_p95 == pytest.approx(LINK.queue * LINK.packet_s, rel=0.03)
    assert (row.marked, row.dropped) == (0, 0)


def test_a_step_settles_where_the_law_reacts() -> None:
    phases = [Phase(5, 0.7), Phase(20, 1.3), Phase(5, 0.7)]
    step, end_s = (5, 25), 30
    settled = over("", Judge(Pie(), LINK).carry(phases), step, end_s).settled_s
    assert settled is not None and settled < 5
    before = over("", Judge(Codel(), LINK).carry(phases), step, end_s)
    assert np.nanmean(before.wait[:40]) < 0.01 < np.nanmax(before.wait)


def test_only_the_top_group_is_marked_by_priority() -> None:
    classes = {one.name: one for one in by_class(Judge(PriorityMarking(), LINK), 20, 1)}
    assert classes["top group"].marked > 0.5
    assert {one.marked for name, one in classes.items() if name != "top group"} == {0.0}


def test_packets_that_are_not_ect_are_dropped_where_others_are_marked() -> None:
    classes = {one.name: one for one in by_class(Judge(Pi2(ecn=True), LINK), 20, 1)}
    plain, ect, scalable = (classes[f"unicast, {name}"] for name in ("not ECT", "ECT(0)", "ECT(1)"))
    assert plain.marked == 0 and plain.dropped == pytest.approx(ect.marked, rel=0.15)
    assert ect.dropped == scalable.dropped == 0 and scalable.marked > 1.5 * ect.marked


def test_bits_are_the_programs() -> None:
    bits = {
        kind: Judge(one, LINK) for kind, one in {"c": Codel(), "p": Pie(), "n": NoMarking()}.items()
    }
    assert [one.state_bits() for one in bits.values()] == [8 + 64 + 48, 5 * 32, 0]
    assert [one.entry_bits() for one in bits.values()] == [65, 225, 0]


def test_the_same_trial_gives_the_same_packets() -> None:
    first, second = (
        Judge(Red(), LINK).carry(
            [Phase(5, 1.1, "bursts")], [Class("a"), Class("b", 0, 2.0)], seed=3
        )
        for _ in range(2)
    )
    assert np.array_equal(first.fate, second.fate)
    assert np.array_equal(first.arrival_s, second.arrival_s)
    assert float((first.of_class == 1).mean()) == pytest.approx(2 / 3, abs=0.03)


def test_wilson() -> None:
    assert wilson(0.5, 100) == pytest.approx((0.4038, 0.5962), abs=1e-4)  # as published
    assert wilson(0.0, 50)[0] == pytest.approx(0) and math.isclose(wilson(1.0, 50)[1], 1)


def test_kinds_judged_twice_are_told_apart() -> None:
    base = judge(Codel(), LINK, 1)
    keys = base.keys
    same = [replace(base, keys=keys | {"target": target}) for target in (5_000_000, 10**7)]
    names = [one.name for one in with_names([*same, replace(base, kind="none", keys={})])]
    assert names == ["codel, target 5ms", "codel, target 10ms", "none"]


def tiercast(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ROOT / "tiercast", "marking", *words], capture_output=True, text=True)


def test_a_report_of_two_kinds(tmp_path: Path) -> None:
    done = tiercast("codel", "{kind: red, ecn: true}", "--seconds", "2", "--flows", "0",
                    "--json", "--results", str(tmp_path))  # fmt: skip
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert [one["kind"] for one in data["judged"]] == ["codel", "red"]
    assert len(data["judged"][1]["loads"]) == 2 * len(LOADS)
    page = Path(data["report"]).read_text()
    assert page.count('<img src="data:image/png') == 4 and "codel: all loads" in page
    assert data["judged"][0]["tcp"] == [] and "Under TCP" not in page


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["rde"], "no kind of marking 'rde'; valid:"),
        (["{kind: red, max: 3}"], "unknown key max; valid: kind, where"),
        (["{kind: red"], "marking:2: did not find expected"),
        (["{kind: codel, target: 5}"], "target: Value error, 5 is not a time"),
        (["codel", "--rate", "8Mb"], "--rate: '8Mb' is not a rate"),
        (["codel", "--queue", "0p"], "--queue is 0p; valid: above 0"),
        (["codel", "--rtt", "40"], "--rtt: '40' is not a time"),
        (["codel", "--queue", "30001p"], "--queue is 30001p; valid: 1p to 30000p"),
        (["codel", "--tcp", "quic"], "--tcp: ns-3 has no 'quic'; valid: bbr, bic, cubic"),
        (["codel", "--packet-size", "9000B"], "valid with TCP: 128B to 1500B (without: --flows 0"),
        (["codel", "--packet-size", "10B"], "--packet-size is 10B; valid: 28B to 65000B"),
        (["{kind: red, max_p: 2}", "--seconds", "1"], "max_p is 2; valid: above 0 and below 1"),
    ],
)
def test_wrong_arguments(words: list[str], text: str) -> None:
    done = tiercast(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert text in done.stderr and "Traceback" not in done.stderr
