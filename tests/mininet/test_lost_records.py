"""A run says which records its agents have given up, since the lab took them too slowly."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from tiercast_controller.controller import Event
from tiercast_lab.run.mininet.runtime import Live


def test_records_that_an_agent_has_given_up_are_a_complaint() -> None:
    rows: list[tuple[Any, ...]] = []
    run = SimpleNamespace(complaints=[], take=lambda *row: rows.append(row))
    live = cast(Live, SimpleNamespace(run_=run, start_ns=1_000_000_000))
    Live._on_event(live, Event(2_500_000_000, "agent", {"name": "h3", "state": "attached"}))
    Live._on_event(live, Event(2_500_000_000, "records", {"name": "h3", "lost": 12}))
    assert run.complaints == ["h3: 12 records were lost: the lab was too slow"]
    assert rows[1:] == [("controller.records", 1.5, "controller", {"name": "h3", "lost": 12})]
