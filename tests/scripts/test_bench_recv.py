"""What `make bench-recv` makes of its runs: medians, ratios, and which goals they can show."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from ..checkout import ROOT

sys.path.append(str(ROOT / "scripts"))

import bench_recv  # noqa: E402


def runs(packets_per_s: list[float], empty_polls: float) -> list[dict[str, Any]]:
    return [
        {"packets_per_s": one, "ns_per_packet": 1e9 / one, "empty_polls": empty_polls}
        for one in packets_per_s
    ]


def row_of(bare: list[float], analyser: list[float], empty: tuple[float, float]) -> dict[str, Any]:
    (row,) = bench_recv.rows_of({
        ("ring", 1_000, "bare"): runs(bare, empty[0]),
        ("ring", 1_000, "analyser"): runs(analyser, empty[1]),
    })  # fmt: skip
    return row


def test_the_ratio_is_that_of_the_figures_beside_it() -> None:
    """The source has two speeds: in three of five turns both loops had the same one."""
    row = row_of([25e6, 25e6, 25e6, 4e6, 4e6], [20e6, 20e6, 4e6, 4e6, 4e6], (0.1, 0.1))
    assert row["bare"]["packets_per_s"] == 25e6
    assert row["analyser"]["packets_per_s"] == 4e6
    assert row["ratio"] == pytest.approx(4 / 25)
    assert (row["ratio_least"], row["ratio_greatest"]) == pytest.approx((4 / 25, 1.0))


@pytest.mark.parametrize(
    ("analyser", "empty", "verdict"),
    [
        (8e6, (0.1, 0.0), "met"),
        (6e6, (0.1, 0.0), "not met"),
        (8e6, (0.98, 0.98), "not shown: the source was the limit"),
        (6e6, (0.98, 0.98), "not shown: the source was the limit"),
        # The bare loop could be faster: that shows a goal not met, but none that is.
        (8e6, (0.98, 0.0), "not shown: the source was the limit"),
        (6e6, (0.98, 0.0), "not met"),
    ],
)
def test_a_loop_that_waits_for_its_source_shows_no_goal(
    analyser: float, empty: tuple[float, float], verdict: str
) -> None:
    (goal,) = bench_recv.goals_of([row_of([10e6], [analyser], empty)])
    assert (goal["goal"], goal["verdict"]) == (0.7, verdict)


def test_rows_without_another_core_have_no_goal() -> None:
    row = row_of([10e6], [8e6], (0.0, 0.0)) | {"source": "memory"}
    assert bench_recv.goals_of([row]) == []
