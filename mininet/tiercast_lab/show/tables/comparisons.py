"""A comparison of runs as tables, for the terminal and for its page."""

from __future__ import annotations

from rich.console import Group as Parts
from rich.table import Table
from rich.text import Text

from tiercast_lab.measures import spec_of
from tiercast_lab.results.storage import StoredRun
from tiercast_lab.show.wording import mean_text
from tiercast_lab.study.comparison import Comparison, Group
from tiercast_lab.study.confidence import Mean

CHANGES_SHOWN = 40  # in the terminal
LONGEST = 80  # characters of a value in the terminal


def heading(group: Group) -> str:
    """A, or A (3 runs)."""
    return f"{group.name} ({len(group.runs)} runs)" if len(group.runs) > 1 else group.name


def run_row(group: Group, run: StoredRun) -> list[str]:
    """Group, run, scheme, seed, runtime and switch, commit, verdict."""
    summary = run.summary
    return [
        group.name,
        run.directory.name,
        ", ".join(dict.fromkeys(one["scheme"] for one in summary["network"]["sessions"])),
        str(summary["seed"]),
        f"{summary['runtime']}, {summary['switch']}",
        str(summary["versions"].get("commit") or "unknown"),
        summary["verdict"],
    ]


RUN_HEADINGS = ("", "run", "scheme", "seed", "runtime, switch", "commit", "verdict")


def difference_text(measure: str, value: Mean | None) -> str:
    """A difference with its sign and, for several runs, half of its 95 % interval."""
    if value is None:
        return "–"
    if value.value == 0 and not value.spread:
        return "none"
    text = mean_text(measure, value)
    return text if text.startswith("-") else f"+{text}"


def is_certain(value: Mean | None) -> bool:
    """Whether the 95 % interval of a difference excludes 0."""
    return value is not None and value.spread is not None and abs(value.value) > value.spread


def comparison_tables(comparison: Comparison) -> Parts:
    """The runs, what differs between them, and all measures."""
    groups = comparison.groups
    runs = Table(*RUN_HEADINGS, title="runs", title_justify="left")
    for group in groups:
        for run in group.runs:
            runs.add_row(*map(Text, run_row(group, run)))
    parts: list[Table | Text] = [runs]
    names = [group.name for group in groups]
    if len(groups) > 1 and not comparison.changes:
        parts.append(Text("nothing differs: the same experiment, seed, programs and versions"))
    elif len(groups) > 1:
        changes = Table("", *names, title="what differs", title_justify="left")
        for change in comparison.changes[:CHANGES_SHOWN]:
            changes.add_row(Text(change.path), *(Text(_short(one)) for one in change.values))
        parts.append(changes)
        if (more := len(comparison.changes) - CHANGES_SHOWN) > 0:
            parts.append(Text(f"and {more} more, on the page"))
    measures = Table("measure", title=measures_title(comparison), title_justify="left")
    for group in groups:
        measures.add_column(heading(group), justify="right")
    for name in names[1:]:
        measures.add_column(f"{name} − {names[0]}", justify="right")
    for row in comparison.measures:
        measures.add_row(
            Text(spec_of(row.name)[1]),
            *(mean_text(row.name, one) for one in row.means),
            *(
                Text(difference_text(row.name, one), style="bold" if is_certain(one) else "")
                for one in row.differences
            ),
        )
    parts.append(measures)
    return Parts(*parts)


def measures_title(comparison: Comparison) -> str:
    several = any(len(group.runs) > 1 for group in comparison.groups)
    return "measures" + (": means ± half of the 95 % interval over seeds" if several else "")


def _short(value: str | None) -> str:
    if value is None:
        return "–"
    return value if len(value) <= LONGEST else f"{value[: LONGEST - 1]}…"
