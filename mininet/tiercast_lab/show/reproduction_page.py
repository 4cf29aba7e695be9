"""docs/reproduction.md: the last verdict on each figure, from docs/reproduction/figures.json.

`tiercast figure --record` and `tiercast reproduce --record` put a verdict into that file and write
the page; nobody edits either by hand.
"""

from __future__ import annotations

import json
from typing import Any

from tiercast_controller.installation import ROOT

from tiercast_lab.base.errors import InputError
from tiercast_lab.show.wording import required_and_met, tally

RECORDS = ROOT / "docs/reproduction/figures.json"
PAGE = ROOT / "docs/reproduction.md"

# Where what a paper leaves open, and why something is not met, is written.
ANALYSES = {
    "ERMCC": "reproduction/ermcc.md",
    "MLDA": "reproduction/mlda.md",
    "RLA": "reproduction/rla.md",
    "RMCC": "reproduction/mdpcc.md",
    "SIM": "reproduction/sim.md",
}
INTRODUCTION = """\
# Reproduction

The verdict of `./tiercast reproduce` on every figure and table of the five papers, in virtual time.
Each was run completely: every point with three seeds, groups with one. The first table names the
commit; a figure is run again when a change affects it. `tiercast figure NAME --record` writes this
page.

**{tally}.** Not met:

{not_met}

What the papers leave open, what we chose, and why a figure is not met: {analyses}.
Not in any paper: [SIM beside TCP](reproduction/beyond.md),
[random trees](reproduction/random-trees.md),
[groups of up to 102,400 receivers](reproduction/groups.md),
[every scheme on every other's topology](reproduction/matrix.md).

"""


def record_of(summary: dict[str, Any]) -> dict[str, Any]:
    """What the page needs of a figure's summary."""
    return {
        "figure": summary["figure"],
        "title": summary["title"],
        "paper": summary["paper"],
        "paper_name": summary["paper_name"],
        "again": summary["again"],
        "quick": summary["quick"],
        "runs": len(summary["runs"]),
        "commit": summary["versions"]["commit"] or "–",
        "verdict": summary["verdict"],
        "expected": [
            {
                "what": f"{row['curve']} {row['measure'].replace('_', ' ')} {row['over']}".strip(),
                "x": row["x"],
                "paper": row["paper_text"],
                "required": row["required"],
                "measured": row["text"],
                "ok": row["ok"],
                "gate": row["gate"],
            }
            for row in summary["expected"]
        ],
        "failures": summary["failures"],
    }


def keep(summaries: list[dict[str, Any]]) -> None:
    """Replaces these figures' last verdicts and writes the page. Raises InputError for a figure
    that was not run completely."""
    for one in summaries:
        if one["quick"] or one["verdict"] == "failed":
            raise InputError(
                f"--record: {one['figure']} was {'run with --quick' if one['quick'] else 'failed'}"
                "; valid: the whole of a figure, without a failed run"
            )
    records = {one["figure"]: one for one in read_records()}
    records |= {one["figure"]: record_of(one) for one in summaries}
    ordered = sorted(records.values(), key=lambda one: (not one["paper"], one["figure"]))
    RECORDS.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(page(ordered))


def read_records() -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads(RECORDS.read_text())
    return records


def page(records: list[dict[str, Any]]) -> str:
    return INTRODUCTION.format(
        tally=tally(records).replace("met", "figures and tables are met"),
        not_met="\n".join(_not_met(one) for one in records if one["verdict"] == "not met"),
        analyses=", ".join(f"[{paper}]({path})" for paper, path in ANALYSES.items()),
    ) + tables(records)


def tables(records: list[dict[str, Any]]) -> str:
    """Markdown: every verdict, then the table of each figure."""
    lines = ["| paper | figure | experiment | runs | of commit | verdict | required, met |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for one in records:
        judged = one["verdict"] in ("met", "reported")
        cells = (
            one["paper_name"],
            one["paper"].removeprefix(one["paper_name"] + ", "),
            f"`{one['figure']}`",
            f"{'quick' if one['quick'] else 'whole'}, {one['runs']}",
            one["commit"],
            one["verdict"] if judged else f"**{one['verdict']}**",
            required_and_met(one) if any(row["gate"] for row in one["expected"]) else "–",
        )
        lines.append(f"| {' | '.join(cells)} |")
    for one in records:
        lines += ["", *_section(one)]
    return "\n".join(lines) + "\n"


def _section(one: dict[str, Any]) -> list[str]:
    command = f"`{one['again']}`, {one['runs']} run{'s' if one['runs'] != 1 else ''}"
    lines = [f"## {one['title']}: {one['verdict']}", ""]
    lines += [f"{one['paper']}; {command}" if one["paper"] else command, ""]
    lines += ["| | at | paper | required | measured | |", "|---|---|---|---|---|---|"]
    for row in one["expected"]:
        mark = ("met" if row["ok"] else "**not met**") + ("" if row["gate"] else ", not required")
        lines.append(
            f"| {row['what']} | {row['x']:g} | {row['paper']} | {row['required']} "
            f"| {row['measured']} | {mark if row['required'] else ''} |"
        )
    return lines + ([""] + one["failures"] if one["failures"] else [])


def _not_met(one: dict[str, Any]) -> str:
    """What of a figure is not met, as an item of a list."""
    several = len({row["x"] for row in one["expected"]}) > 1
    failed = dict.fromkeys(
        row["what"] + (f" at {row['x']:g}" if several else "")
        for row in one["expected"]
        if row["gate"] and not row["ok"]
    )
    return f"- {one['paper'] or one['figure']}: {', '.join(failed)}"
