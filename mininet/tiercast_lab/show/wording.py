"""Words for results, the same in the terminal and in reports."""

from __future__ import annotations

from typing import Any

from tiercast_lab.measures import spec_of
from tiercast_lab.results.verdict import required_text
from tiercast_lab.study.confidence import Mean


def window_text(summary: dict[str, Any]) -> str:
    """The time over which a run's measures are taken."""
    start, end = summary["window_s"]
    if end < summary["duration_s"]:
        return f"from {start:g} to {end:g} s"
    return f"over the last {end - start:g} s"


# What a measure that has no value may have lacked, by the flows that it is taken beside.
_NEEDED = {"": "", "tcp": " (needs TCP at its bottleneck)", "udp": " (needs UDP flows)"}


def figure_row(figure: dict[str, Any]) -> dict[str, str]:
    """An expected figure as text."""
    spec, shown = spec_of(figure["name"])
    return {
        "name": shown,
        "purpose": spec.purpose,
        "paper": "–" if figure["paper"] is None else spec.show(figure["paper"]),
        "required": required_text(spec.show, figure["tolerance"], figure["min"], figure["max"]),
        "measured": f"no data{_NEEDED[spec.beside]}"
        if figure["measured"] is None
        else spec.show(figure["measured"]),
        "verdict": ("met" if figure["ok"] else "not met")
        + ("" if figure["gate"] else ", not required"),
    }


def check_row(check: dict[str, Any]) -> dict[str, str]:
    """A check of validity as text, with shares in percent."""
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
    """A mean over seeds, with half of its 95 % interval if there are several."""
    if value is None:
        return "–"
    show = spec_of(measure)[0].show
    spread = "" if value.spread is None else f" ± {show(value.spread)}"
    return show(value.value) + spread


def required_and_met(summary: dict[str, Any]) -> str:
    """How many of the deciding numbers were met, and for how many the seeds do not decide."""
    gated = [row for row in summary["expected"] if row["gate"]]
    uncertain = sum(row["verdict"].endswith("uncertain") for row in gated)
    text = f"{sum(row['ok'] for row in gated)} of {len(gated)}"
    return text + (f", {uncertain} uncertain" if uncertain else "")


OTHER_VERDICTS = (
    "met, uncertain", "not met, uncertain", "not met", "invalid", "failed", "reported"
)  # fmt: skip


def tally(summaries: list[dict[str, Any]]) -> str:
    """How many of many figures have each verdict. An uncertain one is not counted as met."""
    verdicts = [one["verdict"] for one in summaries]
    judged = len(verdicts) - verdicts.count("reported")
    others = [
        f"{count} {verdict}" for verdict in OTHER_VERDICTS if (count := verdicts.count(verdict))
    ]
    return "; ".join([f"{verdicts.count('met')} of {judged} met", *others])


def rows_of(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """The numbers of a figure with their names; those of its first set-up follow today's."""
    first = summary["as_first_set_up"]
    before = first["expected"] if first else []
    return [row | {"name": name_of(row)} for row in summary["expected"]] + [
        row | {"name": f"{first['called']}: {name_of(row)}"} for row in before
    ]


def name_of(row: dict[str, Any]) -> str:
    return f"{row['curve']} {row['measure'].replace('_', ' ')} {row['over']}".strip()


def mark(row: dict[str, Any]) -> str:
    """The verdict on one number: "met, uncertain, not required"; empty if nothing is required."""
    if not row["required"]:
        return ""
    return str(row["verdict"]) + ("" if row["gate"] else ", not required")


def missed(rows: list[dict[str, Any]]) -> str:
    """The required numbers that were not met: "SIM loss at 2: 3.00 % (≤ 2.00 %); ...". A tolerance
    stands beside the paper's number, of which it is a part: "(224.6 ± 25 %)"."""
    several = len({row["x"] for row in rows}) > 1
    return "; ".join(
        name_of(row) + (f" at {row['x']:g}" if several else "") + f": {row['text']} ({_bound(row)})"
        for row in rows
        if row["gate"] and not row["ok"]
    )


def _bound(row: dict[str, Any]) -> str:
    required = str(row["required"])
    return f"{row['paper_text']} {required}" if required.startswith("±") else required


def verdict_text(summary: dict[str, Any]) -> str:
    """The verdict, with that of the first set-up: "met with RED at arrival; as first set up: not
    met (...)"."""
    first = summary["as_first_set_up"]
    if first is None:
        return str(summary["verdict"])
    why = missed(first["expected"])
    then = f"{first['called']}: {first['verdict']}" + (f" ({why})" if why else "")
    return f"{summary['verdict']} with {first['now_with']}; {then}"
