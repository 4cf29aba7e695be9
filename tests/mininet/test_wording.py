"""Words for results."""

from __future__ import annotations

import pytest
from tiercast_lab.show.wording import figure_row


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("tcp_ratio_s2", "no data (needs TCP at its bottleneck)"),
        ("udp_loss_udp1", "no data (needs UDP flows)"),
        ("efficiency", "no data"),
    ],
)
def test_a_measure_without_a_value_says_what_it_needs(name: str, said: str) -> None:
    row = {"name": name, "paper": None, "tolerance": None, "min": 0.5, "max": None}
    assert figure_row({**row, "measured": None, "ok": False, "gate": True})["measured"] == said
