"""What was measured as text: the same in the terminal and in reports."""

from __future__ import annotations

from typing import Any

from tiercast_lab.measures import spec_of
from tiercast_lab.results.verdict import required_text
from tiercast_lab.study.confidence import Mean


def window_text(summary: dict[str, Any]) -> str:
    """Over what a run's measures are taken."""
    start, end = summary["window_s"]
    if end < summary["duration_s"]:
        return f"from {start:g} to {end:g} s"
    return f"over the last {end - start:g} s"


def figure_row(figure: dict[str, Any]) -> dict[str, str]:
    """An expected figure as text, for the terminal and for the report."""
    spec, shown = spec_of(figure["name"])
    return {
        "name": shown,
        "purpose": spec.purpose,
        "paper": "–" if figure["paper"] is None else spec.show(figure["paper"]),
        "required": required_text(spec.show, figure["tolerance"], figure["min"], figure["max"]),
        "measured": "no data" if figure["measured"] is None else spec.show(figure["measured"]),
        "verdict": ("met" if figure["ok"] else "not met")
        + ("" if figure["gate"] else ", not required"),
    }


def check_row(check: dict[str, Any]) -> dict[str, str]:
    """A figure of validity as text, for the terminal and for the report; shares as per cent."""
    unit = f"% {check['unit']}" if check["unit"].startswith("of ") else check["unit"]
    factor = 100 if check["unit"].startswith("of ") else 1
    measured, bound = check["measured"], check["bound"]
    return {
        "name": check["name"].replace("_", " "),
        "purpose": check["purpose"],
        "measured": "no data"
        if measured is None
        else f"{factor * measured:.3g} {unit.partition(' ')[0]}",
        "bound": "–" if bound is None else f"≤ {factor * bound:g} {unit}",
        "verdict": _check_verdict(check),
    }


def _check_verdict(check: dict[str, Any]) -> str:
    if check["measured"] is None:
        return "not checked" if check["ok"] else "no data"
    return "ok" if check["ok"] else "exceeded"


def mean_text(measure: str, value: Mean | None) -> str:
    """A mean over seeds, with half of its 95 % interval where there are several."""
    if value is None:
        return "–"
    show = spec_of(measure)[0].show
    spread = "" if value.spread is None else f" ± {show(value.spread)}"
    return show(value.value) + spread


def required_and_met(summary: dict[str, Any]) -> str:
    """Of the numbers that decide."""
    gated = [row for row in summary["expected"] if row["gate"]]
    return f"{sum(row['ok'] for row in gated)} of {len(gated)}"


def tally(summaries: list[dict[str, Any]]) -> str:
    """Of many figures: how many were met, and how many are not judged."""
    verdicts = [one["verdict"] for one in summaries]
    reported = verdicts.count("reported")
    text = f"{verdicts.count('met')} of {len(verdicts) - reported} met"
    return text + (f", {reported} reported" if reported else "")
