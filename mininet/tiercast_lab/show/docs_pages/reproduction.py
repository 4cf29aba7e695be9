"""Writes docs/reproduction.md, with the verdict on every figure, from
docs/reproduction/figures.json.

`tiercast reproduce --record` writes both from one run of all figures at one commit; with --paper
it renews those of one paper. Neither is edited by hand.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tiercast_controller.base.installation import IN_CHECKOUT, ROOT

from tiercast_lab.base import machine
from tiercast_lab.base.errors import InputError
from tiercast_lab.base.whole_file import write_whole
from tiercast_lab.results import storage
from tiercast_lab.show.wording import mark, missed, required_and_met, rows_of, tally, verdict_text

RECORDS = ROOT / "docs/reproduction/figures.json"
PAGE = ROOT / "docs/reproduction.md"
COMPLETE = "valid: every figure run completely, without --quick"

# The pages that say what each paper leaves open, and why a figure was not met.
ANALYSES = {
    "ERMCC": "reproduction/ermcc.md",
    "MLDA": "reproduction/mlda.md",
    "RLA": "reproduction/rla.md",
    "RMCC": "reproduction/mdpcc.md",
    "SIM": "reproduction/sim.md",
}
INTRODUCTION = """\
# Reproduction

The verdict on every figure and table of the five papers, in virtual time.
On this page: what was [not met](#not-met), [why](#why), and [every verdict](#every-verdict), each
with a link to its numbers. `./tiercast reproduce --record` wrote it.

**Figures and tables: {tally}.**

The commit of the runs, by paper:

{commits}

Numbers are means over seeds, ± half of the 95 % confidence interval.

- *met, uncertain* and *not met, uncertain*: a bound is within that interval, so the seeds do not
  decide on which side of it the number is.
- *as first set up*: a set-up, parameter or measure was changed after its result was seen; what it
  was before is run with it, or stands as it was recorded at the commit named, with the reason.
- *not required*: reported, and decides nothing. The acceptance tests ([PROTOCOLS](PROTOCOLS.md),
  section 13) have it in class B or not at all: it hangs on what the paper leaves open, or explains
  a number that is required.

## Not met

{not_met}

## Why

What the papers leave open, what we chose, and why a figure is not met: {analyses}.
What was calibrated, when and why, and what the verdicts would be otherwise, as far as that was run:
[calibrated numbers](reproduction/changes.md).
Not in any paper: [SIM beside TCP](reproduction/beyond.md),
[random trees](reproduction/random-trees.md),
[groups of up to 102,400 receivers](reproduction/groups.md),
[every scheme on every other's topology](reproduction/matrix.md).

## Every verdict

"""


def record_of(summary: dict[str, Any]) -> dict[str, Any]:
    """The part of a figure's summary that the page needs."""
    kept = ("figure", "title", "paper", "paper_name", "again", "quick", "verdict", "failures")
    first = summary["as_first_set_up"]
    return {
        **{name: summary[name] for name in kept},
        "runs": len(summary["runs"]),
        "seeds": len({run["seed"] for run in summary["runs"]}),
        "expected": [_row(row) for row in summary["expected"]],
        "as_first_set_up": first and first | {"expected": [_row(row) for row in first["expected"]]},
    }


def _row(row: dict[str, Any]) -> dict[str, Any]:
    kept = ("measure", "curve", "x", "over", "paper_text", "required", "text", "gate", "ok")
    return {name: row[name] for name in (*kept, "verdict")}


def require_recordable(quick: bool) -> None:
    """Raises InputError, before any run is made, if the results could not be recorded."""
    if not IN_CHECKOUT:
        raise InputError("--record writes docs/reproduction.md; valid: in a checkout of tiercast")
    if quick:
        raise InputError(f"--record: not --quick; {COMPLETE}")
    _require_clean(machine.versions()["commit"])


def _require_clean(commit: str | None) -> None:
    if commit is None or commit.endswith("-dirty"):
        raise InputError(
            f"--record: commit {commit or 'unknown'} does not say what runs; valid: a checkout "
            "without changes"
        )


def keep(summaries: list[dict[str, Any]]) -> None:
    """Writes the records and the page. `summaries` are those of all figures of each paper that they
    name; records of other papers stay. Raises InputError unless each figure was run completely,
    and all runs were made at one commit by the same programs."""
    for one in summaries:
        if one["quick"] or one["verdict"] == "failed":
            how = "run with --quick" if one["quick"] else "failed"
            raise InputError(f"--record: {one['figure']} was {how}; {COMPLETE}")
    commit = _the_commit(summaries)
    new = [record_of(one) for one in summaries]
    papers = {one["paper_name"] for one in new}
    old = read_records() if RECORDS.exists() else {"commits": {}, "figures": []}
    kept = [one for one in old["figures"] if one["paper_name"] not in papers]
    records = {
        "commits": dict(sorted((old["commits"] | dict.fromkeys(papers, commit)).items())),
        "figures": sorted(kept + new, key=lambda one: (one["paper_name"], one["figure"])),
    }
    write_whole(RECORDS, json.dumps(records, indent=1, ensure_ascii=False) + "\n")
    write_whole(PAGE, page(records))


def _the_commit(summaries: list[dict[str, Any]]) -> str:
    """The commit of all runs, measures and verdicts. Raises InputError if there are several."""
    commits: dict[str | None, str] = {}  # by commit: one summary that has it
    # By program and digest: a summary that was made by it.
    programs: dict[str, dict[str, str]] = {}
    for one in summaries:
        commits.setdefault(one["versions"]["commit"], f"the verdict on {one['figure']}")
        for run in one["runs"]:
            folder = Path(run["directory"])
            commit, files = storage.made_by(folder)
            commits.setdefault(commit, f"{one['figure']} in {folder}")
            for name, digest in files.items():
                programs.setdefault(name, {}).setdefault(digest, f"{one['figure']} in {folder}")
    if len(commits) > 1:
        seen = "; ".join(f"{commit} ({where})" for commit, where in commits.items())
        raise InputError(
            f"--record: the runs are of {len(commits)} commits: {seen}; valid: one. Stored runs "
            "are made again with a new folder: --results"
        )
    (commit,) = commits
    _require_clean(commit)
    for name, digests in programs.items():
        if len(digests) > 1:
            seen = "; ".join(f"{digest[:12]} ({where})" for digest, where in digests.items())
            raise InputError(f"--record: the runs were made by several {name}: {seen}; valid: one")
    assert commit is not None  # the checkout is clean
    return commit


def read_records() -> dict[str, Any]:
    records: dict[str, Any] = json.loads(RECORDS.read_text())
    return records


def page(records: dict[str, Any]) -> str:
    figures = records["figures"]
    return INTRODUCTION.format(
        commits="\n".join(f"- {paper}: {commit}" for paper, commit in records["commits"].items()),
        tally=tally(figures),
        not_met=_not_met(figures),
        analyses=", ".join(f"[{paper}]({path})" for paper, path in ANALYSES.items()),
    ) + tables(figures)


def tables(records: list[dict[str, Any]]) -> str:
    """Markdown: a table of all verdicts, then one table for each figure."""
    lines = ["| paper | figure | experiment | runs | seeds | verdict | required, met |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for one in records:
        cells = (
            one["paper_name"],
            one["paper"].removeprefix(one["paper_name"] + ", "),
            f"[`{one['figure']}`](#{one['figure']})",
            f"{'quick' if one['quick'] else 'whole'}, {one['runs']}",
            str(one["seeds"]),
            _emphasised(verdict_text(one), one["verdict"]),
            required_and_met(one) if any(row["gate"] for row in one["expected"]) else "–",
        )
        lines.append(f"| {' | '.join(cells)} |")
    for one in records:
        lines += ["", *_section(one)]
    return "\n".join(lines) + "\n"


def _emphasised(text: str, verdict: str) -> str:
    return text.replace(verdict, f"**{verdict}**", 1) if verdict in BAD else text


BAD = ("not met", "not met, uncertain", "failed")


def _section(one: dict[str, Any]) -> list[str]:
    command = f"`{one['again']}`, {one['runs']} run{'s' if one['runs'] != 1 else ''}"
    lines = [f'<a id="{one["figure"]}"></a>', "", f"## {one['title']}: {one['verdict']}", ""]
    lines += [f"{one['paper']}; {command}" if one["paper"] else command, ""]
    if (first := one["as_first_set_up"]) is not None:
        recorded = f" Recorded at commit {first['commit']}." if first["commit"] else ""
        lines += [f"{verdict_text(one)}. Why it was changed: {first['reason']}{recorded}", ""]
    lines += ["| | at | paper | required | measured | |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {row['name']} | {row['x']:g} | {row['paper_text']} | {row['required']} "
        f"| {row['text']} | {_emphasised(mark(row), row['verdict'])} |"
        for row in rows_of(one)
    ]
    return lines + ([""] + one["failures"] if one["failures"] else [])


def _not_met(records: list[dict[str, Any]]) -> str:
    """A list of the figures that were not met, and one of those that the seeds do not decide."""
    parts = []
    for verdict, head in (
        ("not met", ""),
        ("not met, uncertain", "Not met, but uncertain:\n\n"),
    ):
        figures = [one for one in records if one["verdict"] == verdict]
        items = [f"- {one['paper'] or one['figure']}: {missed(one['expected'])}" for one in figures]
        parts += [head + "\n".join(items)] if items else []
    return "\n\n".join(parts) or "None."
