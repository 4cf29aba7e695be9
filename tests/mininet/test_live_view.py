"""What the terminal shows while a run goes on: of the last rows, and of who is there."""

from __future__ import annotations

import pytest
from tiercast_lab.run.progress import Progress
from tiercast_lab.show.run_progress import _fates

from .hand_made_runs import LAYERED


def test_the_live_view_shows_what_a_window_sends() -> None:
    progress = Progress(LAYERED.context, 90.0, {})
    for time_s, sent in ((1.0, 0.0), (1.2, 25_000.0)):
        progress.take("layer", time_s, "h0", {"rank": 0, "rate_Bps": 0.0, "sent_bytes": sent})
    progress.take("layer", 1.2, "h0", {"rank": 1, "rate_Bps": 5e5, "sent_bytes": 7.0})
    assert progress.cumulative_rates == pytest.approx([1e6, 5e6])


def test_the_live_view_leaves_out_queues_that_the_switches_do_not_count() -> None:
    progress = Progress(LAYERED.context, 90.0, {})
    row = {"port": 1, "link": "1>3", "max_queue_packets": None, "late_p99_us": None,
           "entered": None, "left": 20, "queue_drops": None, "policy_drops": 3, "pruned": 0,
           "marked": 5}  # fmt: skip
    progress.take("port", 1.0, "s1", row)
    assert (progress.longest_queue, progress.switch_late_ms) == (None, None)
    assert progress.fates == [None, 3, 5]
    progress.take("port", 2.0, "s1", row | {"max_queue_packets": 7, "late_p99_us": 400.0})
    assert (progress.longest_queue, progress.switch_late_ms) == ((7.0, "1>3"), 0.4)
    assert "dropped – by queues, 3 by policies" in _fates(progress)
    progress.take("port", 3.0, "s1", row | {"entered": 30})
    assert progress.fates == [7, 3, 5]
    assert "dropped 7 by queues or waiting there, 3 by policies" in _fates(progress)


def test_the_live_view_leaves_out_who_is_away() -> None:
    progress = Progress(LAYERED.context, 90.0, {}, now_s=15.0)
    for agent, rate in (("h3", 1e6), ("h4", 9e6), ("h6", 9e6)):
        for time_s in (14.0, 15.0):
            progress.take("received", time_s, agent, {"bytes": rate / 8 * time_s})
    assert progress.received == pytest.approx(1e6)  # h4 is absent at 15 s, h6 since 8 s
    assert progress.efficiency == pytest.approx(0.5)
