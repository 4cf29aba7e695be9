"""Says which switches were away during a run. Their counts began anew, and what was on its way
through them is lost, so the run's measures say nothing about its scheme."""

from __future__ import annotations

from typing import Any

from tiercast_lab.measures import Rows
from tiercast_lab.results.verdict import Check

KIND = "controller.switch"
PURPOSE = "switches that were lost during the run, and what they had counted with them"


def switches_away(rows: Rows) -> list[dict[str, Any]]:
    """Each time that a switch was away; `to_s` and `restarted` are None if it did not return."""
    if KIND not in rows:
        return []
    found: list[dict[str, Any]] = []
    open_: dict[str, dict[str, Any]] = {}
    for row in rows[KIND].sort("time_s", maintain_order=True).iter_rows(named=True):
        if row["state"] == "away":
            one = {"switch": row["switch"], "from_s": row["time_s"], "to_s": None}
            open_[row["switch"]] = one | {"restarted": None}
            found.append(open_[row["switch"]])
        elif row["state"] == "back" and (was := open_.pop(row["switch"], None)) is not None:
            was |= {"to_s": row["time_s"], "restarted": row["restarted"]}
    return found


def returns(away: list[dict[str, Any]]) -> list[Check]:
    """Empty if no switch was away."""
    if not away:
        return []
    return [
        Check("switches_away", float(len(away)), 0.0, "times", PURPOSE, "; ".join(map(_said, away)))
    ]


def _said(one: dict[str, Any]) -> str:
    if one["to_s"] is None:
        return f"{one['switch']} from {one['from_s']:.1f} s on"
    return f"{one['switch']} from {one['from_s']:.1f} to {one['to_s']:.1f} s"
