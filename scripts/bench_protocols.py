"""Measures the schemes' cores and writes results/bench/protocols.json: `make bench-protocols`.

Each scheme runs with 1, 1,000 and 100,000 receivers, and the pacer with 10 and 100,000 layers. Each
case runs several times in its own process, and the medians count. docs/performance.md explains each
figure.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("TIERCAST_BUILD", ROOT / "build"))
BENCH = BUILD / "protocols/bench/tiercast-protocols-bench"
GROUPS = (1, 1_000, 100_000)
GOAL_FEEDBACK_NS = 1_000.0  # a million feedback packets a second on one core
# A cost counts as flat if a group a hundred times larger costs less than this factor more. What
# then remains is the cache, not the algorithm.
FLAT = 4.0
# With 10,000 times the layers, memory may no longer be in the cache, but nothing may search them.
PACED_LAYERS = (10, 100_000)
GOAL_PACER_GROWTH = 10.0


def schemes() -> dict[str, dict[str, Any]]:
    listed = subprocess.run(
        [BUILD / "hosts/tiercast-host", "schemes"], capture_output=True, text=True, check=True
    )
    return {scheme["name"]: scheme for scheme in json.loads(listed.stdout)}


def measure(subject: str, number: int, repeats: int) -> dict[str, Any]:
    """Measures a scheme with `number` receivers, or the pacer with `number` layers."""
    runs = []
    for _ in range(repeats):
        done = subprocess.run([BENCH, subject, str(number)], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"bench-protocols: {subject} with {number}: {done.stderr.strip()}")
        runs.append(json.loads(done.stdout))
    # Counts are the same in every run; times are not.
    return {
        key: statistics.median(run[key] for run in runs) if key.endswith("_ns") else value
        for key, value in runs[0].items()
    }


def machine() -> dict[str, Any]:
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "unknown",
    )
    return {"cpu": model, "cores": os.cpu_count(), "kernel": platform.release()}


def judge(rows: list[dict[str, Any]], paced: list[dict[str, Any]]) -> dict[str, Any]:
    """Each goal with its worst case, and how costs grow with the group."""
    pacer_growth = paced[-1]["departure_ns"] / paced[0]["departure_ns"]
    heard = [row for row in rows if row["sender_feedback_calls"] > 0]
    slowest = max(heard, key=lambda row: row["sender_feedback_ns"])
    allocating = [row for row in rows if row["allocations"] > 0]
    return {
        "feedback_ns": {
            "goal": GOAL_FEEDBACK_NS,
            "worst": slowest["sender_feedback_ns"],
            "where": f"{slowest['scheme']}, {slowest['receivers']} receivers",
            "met": slowest["sender_feedback_ns"] <= GOAL_FEEDBACK_NS,
        },
        "allocations": {
            "goal": 0,
            "where": [f"{row['scheme']}, {row['receivers']} receivers" for row in allocating],
            "met": not allocating,
        },
        "pacer_growth": {
            "goal": GOAL_PACER_GROWTH,
            "worst": pacer_growth,
            "where": f"{PACED_LAYERS[-1]} layers over {PACED_LAYERS[0]}",
            "met": pacer_growth <= GOAL_PACER_GROWTH,
        },
        "growth": {
            scheme: {
                "feedback_ns": ratio(rows, scheme, "sender_feedback_ns"),
                "sender_bytes": ratio(rows, scheme, "sender_bytes"),
                "receiver_bytes": ratio(rows, scheme, "receiver_bytes"),
                "flat": ratio(rows, scheme, "sender_bytes") <= 1.01
                and ratio(rows, scheme, "sender_feedback_ns") <= FLAT,
            }
            for scheme in dict.fromkeys(row["scheme"] for row in rows)
        },
    }


def ratio(rows: list[dict[str, Any]], scheme: str, key: str) -> float:
    """The largest group's figure divided by that of 1,000 receivers; 1 if there are too few calls
    to time well."""
    figures = {row["receivers"]: row[key] for row in rows if row["scheme"] == scheme}
    return float(figures[max(figures)] / max(figures[sorted(figures)[1]], 1e-9))


def verdict(goal: dict[str, Any]) -> str:
    return "met" if goal["met"] else "NOT met"


def table(rows: list[dict[str, Any]]) -> Table:
    shown = Table(title="cost of the schemes' cores, nanoseconds on one core")
    for column in ("scheme", "receivers", "feedback", "timer", "data", "receiver: packet",
                   "timer", "sender bytes", "receiver bytes", "allocations"):  # fmt: skip
        shown.add_column(column, justify="left" if column == "scheme" else "right")
    for row in rows:
        shown.add_row(
            row["scheme"],
            f"{row['receivers']:,}",
            *(
                f"{row[f'{name}_ns']:.0f}" if row[f"{name}_calls"] else "-"
                for name in (
                    "sender_feedback",
                    "sender_timer",
                    "sender_data",
                    "receiver_packet",
                    "receiver_timer",
                )  # fmt: skip
            ),
            f"{row['sender_bytes']:,}",
            f"{row['receiver_bytes']:,}",
            str(row["allocations"]),
        )
    return shown


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3, help="of each measurement (3)")
    parser.add_argument("--output", type=Path, default=ROOT / "results/bench/protocols.json")
    arguments = parser.parse_args()
    known = schemes()
    points = [(name, receivers) for name in known for receivers in GROUPS]
    console = Console(stderr=True)
    rows = [
        measure(name, receivers, arguments.repeats)
        for name, receivers in track(points, "measuring", console=console)
    ]
    paced = [measure("pacer", layers, arguments.repeats) for layers in PACED_LAYERS]
    goals = judge(rows, paced)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(
        json.dumps({"machine": machine(), "rows": rows, "pacer": paced, "goals": goals}, indent=2)
        + "\n"
    )
    Console(width=120).print(table(rows))
    feedback, allocations = goals["feedback_ns"], goals["allocations"]
    print(
        f"feedback at the sender: at most {feedback['worst']:.0f} ns ({feedback['where']}); "
        f"goal {feedback['goal']:.0f}: {verdict(feedback)}"
    )
    print(
        f"allocations after start-up: {', '.join(allocations['where']) or 'none'}; "
        f"goal none: {verdict(allocations)}"
    )
    costs = ", ".join(
        f"{one['departure_ns']:.0f} ns with {one['layers']:,} layers" for one in paced
    )
    growth = goals["pacer_growth"]
    print(f"pacer, a departure: {costs}; goal {growth['goal']:.0f} times: {verdict(growth)}")
    print(f"wrote {arguments.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
