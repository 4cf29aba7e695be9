"""Writes docs/runtimes.md: each figure's numbers in virtual time beside those in real time.

The page is made from docs/reproduction/runtimes.json alone, which `tiercast runtimes` writes from
stored runs. Neither is edited by hand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from tiercast_controller.base.installation import ROOT

from tiercast_lab.base.whole_file import write_whole
from tiercast_lab.show.wording import name_of
from tiercast_lab.study.runtimes import FAR, TARGETS, Record, compared, target_name
from tiercast_lab.study.target import MININET, VIRTUAL

RECORDS = ROOT / "docs/reproduction/runtimes.json"
PAGE = ROOT / "docs/runtimes.md"

NAMES = {target_name(one): str(one) for one in TARGETS}
NS3, REAL = target_name(VIRTUAL), target_name(MININET)

INTRODUCTION = """\
# Figures in both runtimes

What each figure measures in virtual time (`--runtime ns3`) and in real time (`--runtime mininet`,
with tiercast-switch and, where it is installed, with bmv2). `./tiercast runtimes` writes this page
from stored runs; nobody edits it by hand. `--run` first makes the runs that are missing.

- Both runtimes run the same set-up: the figure as its file scales it for real time (the `mininet`
  block, [experiments.md](experiments.md#figures-in-real-time)). So verdicts here are those of the
  scaled figure; those of the whole figures are in [reproduction.md](reproduction.md).
- A difference is that of the number in real time from the one in virtual time, as a share of
  the latter. One above {far:.0%} has its reason below the table.
- A real run that the machine could not keep up with is invalid, and shows no numbers.

"""


def read_records() -> dict[str, Record]:
    """What is recorded, by figure."""
    records: dict[str, Record] = json.loads(RECORDS.read_text()) if RECORDS.exists() else {}
    return records


def write(records: dict[str, Record]) -> None:
    ordered = {name: records[name] for name in sorted(records)}
    write_whole(RECORDS, json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")
    write_whole(PAGE, page(ordered))


def page(records: dict[str, Record]) -> str:
    run = [one for one in records.values() if _has_numbers(one, NS3) and _has_real(one)]
    refused = [one for one in records.values() if one["refused"] is not None]
    other = [one for one in records.values() if one not in run and one not in refused]
    lines = [INTRODUCTION.format(far=FAR).rstrip("\n").replace("10%", "10 %"), ""]
    lines += [f"**{len(run)} of {len(records)} figures were run in both.**{_how_near(run)}", ""]
    lines += ["| figure | | virtual time | Mininet | bmv2 | numbers within 10 % | largest |"]
    lines += ["|---|---|---|---|---|---|---|"]
    lines += [_line(one) for one in run]
    lines += ["", "## Not run in both", ""]
    untouched = [one for one in other if not any(map(_any_run, one["targets"].values()))]
    lines += [line for one in other if one not in untouched for line in _missing(one)]
    if untouched:
        names = _listed("`" + one["figure"] + "`" for one in untouched)
        lines.append(f"- In neither: {names}.")
    lines += [] if other else ["None."]
    lines += ["", "## Not for real time", ""]
    lines += [f"- `{one['figure']}` ({one['title']}): {one['refused']}." for one in refused]
    for one in run:
        lines += ["", *_section(one)]
    return "\n".join(lines) + "\n"


def _has_numbers(record: Record, target: str) -> bool:
    return bool(record["targets"].get(target, {}).get("values"))


def _any_run(side: Record) -> bool:
    return bool(side["stored"] or side["reasons"])


def _has_real(record: Record) -> bool:
    return any(_has_numbers(record, name) for name in NAMES if name != NS3)


def differences(record: Record) -> list[float]:
    """How far each number in real time is from that in virtual time, as a share of the latter."""
    rows = compared(record)
    return [abs(one) for row in rows for one in row["differences"].values() if one is not None]


def _how_near(records: Iterable[Record]) -> str:
    found = [one for record in records for one in differences(record)]
    if not found:
        return ""
    near = sum(one <= FAR for one in found)
    return (
        f" Of their {len(found)} numbers {near} are within {100 * FAR:.0f} %, and the largest "
        f"difference is {100 * max(found):.0f} %."
    )


def _line(record: Record) -> str:
    found = differences(record)
    near = sum(one <= FAR for one in found)
    largest = f"{max(found) * 100:.0f} %" if found else "–"
    sides = [_state(record, name) for name in NAMES]
    cells = [f"[`{record['figure']}`](#{record['figure']})", record["paper"], *sides]
    return f"| {' | '.join([*cells, f'{near} of {len(found)}', largest])} |"


def _state(record: Record, target: str) -> str:
    """How much of a figure was run on a target: "4 runs, met"."""
    side = record["targets"].get(target)
    if side is None or not _any_run(side):
        return "not run"
    if not side["values"]:
        return f"{side['stored']} of {side['runs']} runs"
    required = [one for one in side["values"] if one["gate"]]
    met = sum(not one["verdict"].startswith("not met") for one in required)
    runs = f"{side['runs']} run{'s' if side['runs'] > 1 else ''}"
    return f"{runs}, {met} of {len(required)} met" if required else runs


def _missing(record: Record) -> list[str]:
    """A list item for a figure that was not run everywhere, with the reasons that are known."""
    sides = [f"{NAMES[name]}: {_state(record, name)}" for name in (NS3, REAL)]
    head = f"- `{record['figure']}` ({record['title']}): {', '.join(sides)}."
    return [head, *(f"  {line}" for line in _lacking(record))]


def _lacking(record: Record) -> list[str]:
    """List items for the targets without numbers: why their runs failed."""
    return [
        f"- {NAMES[name]}: {_shortly(reason)}."
        for name, side in record["targets"].items()
        for reason in side["reasons"]
        if not side["values"]
    ]


def _shortly(reason: str) -> str:
    """Of an invalid run, the checks with their values and bounds. Where a check failed, and what it
    checks, is in the run's own summary."""
    checks = re.findall(r"(?:^invalid:|;) (\w+: (?:not measured|[^;(]*? > [\d.]+))", reason)
    return f"invalid: {'; '.join(checks)}" if checks else reason


def _section(record: Record) -> list[str]:
    rows = compared(record)
    real = [name for name in NAMES if name != NS3 and _has_numbers(record, name)]
    several = len({row["x"] for row in rows}) > 1
    heads = ["", *(["at"] if several else []), NAMES[NS3]]
    heads += [head for name in real for head in (NAMES[name], "difference")]
    lines = [f'<a id="{record["figure"]}"></a>', "", f"## {record['title']}", ""]
    lines += [f"`{record['figure']}`{', ' if record['paper'] else ''}{record['paper']}. "
              + " ".join(_sentence(line) for line in record["scaling"]), ""]  # fmt: skip
    lines += [_made(record, [NS3, *real]), ""]
    if lacking := _lacking(record):
        lines += [*lacking, ""]
    lines += [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for row in rows:
        cells = [name_of(row), *([f"{row['x']:g}"] if several else []), _cell(row, NS3)]
        for name in real:
            cells += [_cell(row, name), _percent(row["differences"].get(name))]
        lines.append(f"| {' | '.join(cells)} |")
    return lines + _reasons(rows, several)


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def _made(record: Record, names: Iterable[str]) -> str:
    parts = []
    for name in names:
        side = record["targets"][name]
        cpu = side["cpu_percent"]
        used = "" if cpu is None else f", {cpu:.0f} % of one of {_listed(side['cores'])} cores"
        parts.append(f"{NAMES[name]}: {_state(record, name)}, at {_listed(side['commits'])}{used}")
    return "; ".join(parts) + "."


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(map(str, values))


def _cell(row: Record, target: str) -> str:
    text = row["texts"].get(target, "–")
    if not row["verdicts"].get(target, "").startswith("not met"):
        return str(text)
    return f"{text} ({'**not met**' if row['gate'] else 'not met, not required'})"


def _percent(share: float | None) -> str:
    if share is None:
        return "–"
    text = f"{share * 100:+.1f} %"
    return f"**{text}**" if abs(share) > FAR else text


def _in_words(words: Sequence[str]) -> str:
    """ "1, 2 and 3"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _reasons(rows: Iterable[Record], several: bool) -> list[str]:
    """Below the table: the reason of each difference that is large, those of one reason together;
    and those that have none."""
    by_reason: dict[str, dict[str, list[str]]] = {}  # the points of each number
    for row in rows:
        if row["far"]:
            at = f"{row['x']:g}"
            name = name_of(row).removesuffix(f" at {at}")  # of a ratio of numbers at one point
            names = by_reason.setdefault(row["why"] or "**no reason is known yet**", {})
            names.setdefault(name, []).append(at)
    if not by_reason:
        return []
    lines = []
    for why, names in by_reason.items():
        said = [f"{name} at {_in_words(at)}" if several else name for name, at in names.items()]
        lines.append(f"- {', '.join(said)}: {why}")
    return ["", *lines]
