"""Writes docs/lies.md from the results of `tiercast sweep lies`.

usage: .venv/bin/python scripts/lies_page.py [FOLDER]   (results/sweeps/lies if it is left out)
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / folder) for folder in ("build/python", "controller", "mininet")]
from tiercast_lab.base.errors import InputError, LabError  # noqa: E402
from tiercast_lab.experiment.schemes import known_schemes  # noqa: E402
from tiercast_lab.measures import find_spec  # noqa: E402
from tiercast_lab.show.sweep_report import whole_results  # noqa: E402

PAGE = ROOT / "docs/lies.md"
SHOWN = {  # by measure
    "receiver_rate_h6": "liar",
    "receiver_rate_h7": "beside it",
    "receiver_rate_h3": "elsewhere",
    "tcp_worst": "TCP beside it",
    "loss": "loss",
    "feedback_refused": "refused",
}
INTRODUCTION = """\
# What a member that lies gains, and what it costs

Made by `scripts/lies_page.py` from `tiercast sweep lies` ({command}), seed {seeds}. Each run is
`experiments/lies.yaml` in virtual time: behind a bottleneck of 1 Mbit/s are the liar, an honest
member and one TCP Reno flow; behind another one of 2 Mbit/s are two honest members and another TCP
flow. Columns: rates in Mbit/s of the liar, of the honest member beside it, of one elsewhere, and of
the slower TCP flow, which is the one beside the liar; packets lost of all sent to members; and
feedback messages that the sender refused; all over the end of each run. The row `nobody` is the
same without a liar; `alone` is without the honest member beside it. Queues are drop tail; `fair`
ones are one for each flow, and of those a full `layered` one drops the session's highest layer. SIM
runs without TCP, beside which it has its lowest rate. Below a switch that aggregates, it is the
switch that refuses. [security.md](security.md#members-that-lie) says what is bounded, and by what.
"""


def text_of(measure: str, value: float) -> str:
    spec = find_spec(measure)
    if spec.unit == "bit/s":
        return f"{value / 1e6:.2f}"
    return spec.show(value).removesuffix(f" {spec.unit}")


def row(cell: dict[str, Any]) -> list[str]:
    means = cell["measures"]
    return [
        "–" if means[measure] is None else text_of(measure, means[measure]["value"])
        for measure in SHOWN
    ]


def page(sweep: dict[str, Any]) -> str:
    if missing := [name for name in SHOWN if name not in sweep["measures"]]:
        raise InputError(f"the sweep has no {', '.join(missing)}; valid: results of `sweep lies`")
    lines = [
        INTRODUCTION.format(
            command=f"commit {sweep['versions']['commit']}",
            seeds=", ".join(map(str, sweep["seeds"])),
        )
    ]
    for name, scheme in known_schemes().items():
        lines += [f"## {name}", "", f"| lie | {' | '.join(SHOWN.values())} | what it does |"]
        lines += ["|" + " --- |" * (len(SHOWN) + 2)]
        for cell in sweep["cells"]:
            lie = cell["cell"]["lie"]
            if cell["cell"]["scheme"] != name or cell["excluded"]:
                continue
            means = scheme.lies.get(lie.partition(",")[0], "")
            lines += [f"| {lie} | {' | '.join(row(cell))} | {means} |"]
        lines += [""]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "results/sweeps/lies"
    try:
        PAGE.write_text(page(whole_results(folder)))
    except LabError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
