"""Writes docs/reproduction/changes.md: the numbers that this project chose itself.

The page is made from experiments/calibrated/numbers.yaml and from what `tiercast calibrated
--record` measured (changes.json beside the page).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any

from tiercast_controller.base.installation import ROOT

from tiercast_lab.base.whole_file import write_whole
from tiercast_lab.experiment.calibrated_schema import Calibrated
from tiercast_lab.show.wording import missed

RECORDS = ROOT / "docs/reproduction/changes.json"
PAGE = ROOT / "docs/reproduction/changes.md"

INTRODUCTION = """\
# Calibrated numbers

Numbers, rules and parts of set-ups that no paper gives and that were chosen here, most of them
after a first result was seen: what each was before, when and why it was chosen, and what the
verdicts are with the paper's or PROTOCOLS' value. `experiments/calibrated/numbers.yaml` is the
list, and `./tiercast calibrated [NAME ...] --record` runs the figures named there with both values
and writes this page. Nobody edits it by hand. What changed in the set-up of one figure stands with
it ([reproduction.md](../reproduction.md), "as first set up").

{run}

| what | is | was | paper or PROTOCOLS | since | why |
|---|---|---|---|---|---|
"""


def record(
    results: Sequence[tuple[Calibrated, Sequence[dict[str, Any]]]], numbers: Sequence[Calibrated]
) -> None:
    """Replaces the measured results of these numbers and writes the page. `results` holds each
    number with the summaries of its figures."""
    records = read_records()
    for number, summaries in results:
        records[number.name] = [
            {
                "figure": one["figure"],
                "commit": one["versions"]["commit"],
                "runs": "quick, one seed" if one["quick"] else "whole",
                "verdict": one["verdict"],
                "missed": missed(one["expected"]),
                "otherwise": one["as_first_set_up"]["verdict"],
                "missed_otherwise": missed(one["as_first_set_up"]["expected"]),
            }
            for one in summaries
        ]
    write_whole(RECORDS, json.dumps(records, indent=1, ensure_ascii=False) + "\n")
    write_whole(PAGE, page(numbers, records))


def read_records() -> dict[str, list[dict[str, Any]]]:
    records: dict[str, list[dict[str, Any]]] = (
        json.loads(RECORDS.read_text()) if RECORDS.exists() else {}
    )
    return records


def page(numbers: Sequence[Calibrated], records: dict[str, list[dict[str, Any]]]) -> str:
    lines = [
        f"| `{one.name}` | {one.value} | {one.before} | {one.otherwise} "
        f"| {_date(one.commit)} {one.commit} | {one.why} |"
        for one in numbers
    ]
    lines += ["", "## Verdicts with the other value", ""]
    lines += ["| what | set | figure | runs, commit | as it is | with the other value |"]
    lines += ["|---|---|---|---|---|---|"]
    for one in numbers:
        made = {row["figure"]: row for row in records.get(one.name, [])}
        settings = ", ".join(f"`{key}={value}`" for key, value in one.set.items())
        for figure in one.figures:
            cells = _measured(made[figure]) if figure in made else "not run yet | | "
            lines.append(f"| `{one.name}` | {settings} | `{figure}` | {cells} |")
        if one.recorded is not None:
            lines.append(f"| `{one.name}` | cannot be set | | | | {one.recorded} |")
    return INTRODUCTION.format(run=_how_many_were_run(numbers, records)) + "\n".join(lines) + "\n"


def _how_many_were_run(
    numbers: Sequence[Calibrated], records: dict[str, list[dict[str, Any]]]
) -> str:
    """How many of the comparisons that the page has a line for were run, whole or quickly."""
    wanted = {(one.name, figure) for one in numbers for figure in one.figures}
    runs = {(name, row["figure"]): row["runs"] for name, rows in records.items() for row in rows}
    made = [runs[one] for one in wanted & runs.keys()]
    whole = made.count("whole")
    text = (
        f"**Of {len(wanted)} comparisons with another value {whole} were run whole and "
        f"{len(made) - whole} quickly, with one seed; {len(wanted) - len(made)} were not run.**"
    )
    if whole == len(wanted):
        return text
    return (
        f"{text}\nWhat the verdicts would be without these choices is known to that extent alone."
    )


def _measured(row: dict[str, Any]) -> str:
    def said(verdict: str, what: str) -> str:
        return f"{verdict}: {what}" if what else verdict

    now = said(row["verdict"], row["missed"])
    return f"{row['runs']}, {row['commit']} | {now} | " + said(
        row["otherwise"], row["missed_otherwise"]
    )


def _date(commit: str) -> str:
    """The date of a commit; empty if the history is not available."""
    git = ["git", "-C", str(ROOT), "show", "-s", "--format=%ad", "--date=short", commit]
    done = subprocess.run(git, capture_output=True, text=True, check=False)
    return done.stdout.strip()
