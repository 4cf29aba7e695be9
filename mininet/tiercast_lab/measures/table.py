"""The table of measures for `tiercast measures` and docs/experiments.md."""

from __future__ import annotations

from tiercast_lab.measures.spec import MEASURES

# What `expect` needs besides the measure's name.
KEYS = {
    "layers": "`layers: n`",
    "receiver": "`receiver: node`",
    "link": "`link: 0-1`",
    "flow": "`flow: udp1`",
}


def rows() -> list[tuple[str, str, str, str]]:
    """For each measure: name and key, what it is, its unit, and what it covers; in Markdown."""
    result = []
    for name, spec in MEASURES.items():
        shown = f"`{name}`"
        if spec.which is not None:
            shown += f" ({'of one: ' if spec.whole else ''}{KEYS[spec.which]})"
        result.append((shown, spec.purpose, spec.unit or "–", "run" if spec.of_run else "session"))
    return result


HEADINGS = ("measure", "what", "unit", "of a")


def markdown() -> str:
    """The table as docs/experiments.md has it."""
    lines = [HEADINGS, ["---"] * len(HEADINGS), *rows()]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
