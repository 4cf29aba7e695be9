"""Writes the tables of docs/reproduction/matrix.md from the results of `tiercast sweep matrix`.

usage: .venv/bin/python scripts/matrix_page.py [FOLDER]   (results/sweeps/matrix if it is left out)
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/reproduction/matrix.md"
FIRST, BEHIND = "### SIM tree\n", "## What is surprising, and why\n"
ALONE = "SIM tree"  # has no TCP

Cell = dict[str, Any]


def number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 20 else f"{value:.2f}"


def interval(mean: dict[str, float] | None, show: str = "") -> str:
    if mean is None:
        return "–"
    text = format if show else lambda value, _: number(value)
    return f"{text(mean['value'], show)} ± {text(mean['spread'], show)}"


def text_of(cell: Cell) -> str:
    means = cell["measures"]
    if cell["cell"]["topology"] == ALONE:
        return (
            f"{interval(means['efficiency'])}; {means['instability']['value']:.4f}; "
            f"{100 * means['loss']['value']:.1f} %"
        )
    ratio = interval(means["tcp_ratio"])
    ends = [means["tcp_ratio_to_best"], means["tcp_ratio_to_worst"]]
    if all(ends):
        ratio += f" ({' to '.join(number(one['value']) for one in ends)})"
    return f"{ratio}; {interval(means['efficiency'])}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"


def averages(cells: Iterable[Cell], measure: str, axis: str, names: list[str], show: str) -> str:
    """Means over the cells that have the measure, by their settings of an axis."""
    values = {name: [] for name in names}  # type: dict[str, list[float]]
    for cell in cells:
        if (mean := cell["measures"][measure]) is not None:
            values[cell["cell"][axis]].append(mean["value"])
    return ", ".join(format(fmean(some), show) if some else "–" for some in values.values())


def tables(sweep: dict[str, Any]) -> str:
    cells = [cell for cell in sweep["cells"] if not cell["excluded"]]
    names = {
        axis: list(dict.fromkeys(cell["cell"][axis] for cell in sweep["cells"]))
        for axis in ("scheme", "topology", "queue")
    }
    text = ""
    for topology in names["topology"]:
        here = {
            (cell["cell"]["scheme"], cell["cell"]["queue"]): text_of(cell)
            for cell in cells
            if cell["cell"]["topology"] == topology
        }
        rows = [
            [scheme, *(here.get((scheme, queue), "–") for queue in names["queue"])]
            for scheme in names["scheme"]
        ]
        text += f"### {topology}\n\n" + table(["scheme", *names["queue"]], rows)
    head = [
        "scheme",
        f"feedback messages/s: {', '.join(names['topology'])}",
        f"mean queue, packets: {', '.join(names['queue'])}",
        f"loss, %: {', '.join(names['queue'])}",
    ]
    rows = []
    for scheme in names["scheme"]:
        own = [cell for cell in cells if cell["cell"]["scheme"] == scheme]
        percent = [
            cell | {"measures": {"loss": {"value": 100 * cell["measures"]["loss"]["value"]}}}
            for cell in own
        ]
        rows += [
            [
                scheme,
                averages(own, "feedback_rate", "topology", names["topology"], ".1f"),
                averages(own, "mean_queue", "queue", names["queue"], ".1f"),
                averages(percent, "loss", "queue", names["queue"], ".1f"),
            ]
        ]
    return text + "### Feedback, queue and loss\n\n" + table(head, rows)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "results/sweeps/matrix"
    sweep = json.loads((folder / "sweep.json").read_text())
    if sweep["failures"]:
        sys.exit("; ".join(sweep["failures"]))
    page = PAGE.read_text()
    before, rest = page.split(FIRST)
    PAGE.write_text(before + tables(sweep) + BEHIND + rest.split(BEHIND)[1])
    print(f"{len(sweep['seeds'])} seeds, commit {sweep['versions']['commit']}")


if __name__ == "__main__":
    main()
