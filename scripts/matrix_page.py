"""Writes the tables of docs/reproduction/matrix.md from the results of `tiercast sweep matrix`.

usage: .venv/bin/python scripts/matrix_page.py [FOLDER]   (results/sweeps/matrix if it is left out)
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / folder) for folder in ("build/python", "controller", "mininet")]
from tiercast_lab.base.errors import LabError  # noqa: E402
from tiercast_lab.show.sweep_report import whole_results  # noqa: E402

PAGE = ROOT / "docs/reproduction/matrix.md"
FIRST, BEHIND = "### SIM tree\n", "## What is surprising, and why\n"
ALONE = "SIM tree"  # has no TCP

Cell = dict[str, Any]


def number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 20 else f"{value:.2f}"


def interval(mean: dict[str, float] | None) -> str:
    return "–" if mean is None else f"{number(mean['value'])} ± {number(mean['spread'])}"


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


def averages(
    cells: Iterable[Cell], measure: str, axis: str, names: list[str], factor: float = 1
) -> str:
    """Means over the cells that have the measure, times a factor, by their settings of an axis."""
    values: dict[str, list[float]] = {name: [] for name in names}
    for cell in cells:
        if (mean := cell["measures"][measure]) is not None:
            values[cell["cell"][axis]].append(factor * mean["value"])
    return ", ".join(f"{fmean(some):.1f}" if some else "–" for some in values.values())


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
        rows += [
            [
                scheme,
                averages(own, "feedback_rate", "topology", names["topology"]),
                averages(own, "mean_queue", "queue", names["queue"]),
                averages(own, "loss", "queue", names["queue"], 100),
            ]
        ]
    return text + "### Feedback, queue and loss\n\n" + table(head, rows)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "results/sweeps/matrix"
    try:
        sweep = whole_results(folder)
    except LabError as error:
        sys.exit(str(error))
    page = PAGE.read_text()
    before, rest = page.split(FIRST)
    PAGE.write_text(before + tables(sweep) + BEHIND + rest.split(BEHIND)[1])
    print(f"{len(sweep['seeds'])} seeds, commit {sweep['versions']['commit']}")


if __name__ == "__main__":
    main()
