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


def as_json() -> list[dict[str, object]]:
    """The same as data: `key` is the key of `expect` that a measure takes besides its name, and
    `needs_key` whether it has to be there."""
    return [
        {
            "name": name,
            "what": spec.purpose,
            "unit": spec.unit,
            "of": "run" if spec.of_run else "session",
            "key": spec.which,
            "needs_key": spec.which is not None and not spec.whole,
        }
        for name, spec in MEASURES.items()
    ]


HEADINGS = ("measure", "what", "unit", "of a")


def markdown() -> str:
    """The table as docs/experiments.md has it."""
    lines = [HEADINGS, ["---"] * len(HEADINGS), *rows()]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
