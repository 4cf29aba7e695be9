"""Measures tiercast-recv's analyser and writes results/bench/recv.json: `make bench-recv`.

In turns in the same run: the analyser, a bare receive loop (dataplane/receiver/bench/recv_bench.cpp
has both, with the source of their frames), and dpdk-testpmd's rxonly on net_null. Medians count,
and the ratio is that of the medians. docs/performance.md explains each figure.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from bench_switch import machine
from sender_runs import BOTH_CPUS, BUILD, ROOT, eal, run, testpmd_rate

PROGRAM = BUILD.parent / "receiver/bench/tiercast-recv-bench"
STREAMS = (1_000, 100_000)
SOURCES = {"ring": BOTH_CPUS, "memory": "1"}  # by the lcores that it takes
MODES = ("bare", "analyser")
GOALS = {1_000: 0.7, 100_000: 0.5}  # of the bare loop's packets/s, over net_ring
MOSTLY_EMPTY = 0.5  # share of polls that found nothing, above which a loop waits for its frames
Runs = dict[tuple[str, int, str], list[dict[str, Any]]]  # by source, streams and mode, in turns


def measure(mode: str, streams: int, source: str, seconds: float) -> dict[str, Any]:
    command = [str(PROGRAM), *eal(None, SOURCES[source]), "--", f"--mode={mode}",
               f"--streams={streams}", f"--seconds={seconds}"]  # fmt: skip
    result: dict[str, Any] = json.loads(run(command))
    return result


def testpmd(seconds: float) -> dict[str, Any]:
    """Packets/s of dpdk-testpmd's rxonly, which takes bursts of 32 and frees them unread."""
    return testpmd_rate("net_null0", "rxonly", [], "RX-packets", seconds)


def rows_of(runs: Runs) -> list[dict[str, Any]]:
    """For each source and number of streams: medians of both loops, the ratio of their packets/s,
    and the least and the greatest ratio of a turn."""
    rows: list[dict[str, Any]] = []
    for source, streams in dict.fromkeys((source, streams) for source, streams, _ in runs):
        row: dict[str, Any] = {"source": source, "streams": streams}
        for mode in MODES:
            these = runs[source, streams, mode]
            row[mode] = {
                name: statistics.median(one[name] for one in these)
                for name in ("packets_per_s", "ns_per_packet", "empty_polls")
            } | {"runs": these}
        pairs = zip(*(runs[source, streams, mode] for mode in MODES), strict=True)
        ratios = [analyser["packets_per_s"] / bare["packets_per_s"] for bare, analyser in pairs]
        row["ratio"] = row["analyser"]["packets_per_s"] / row["bare"]["packets_per_s"]
        row["ratio_least"], row["ratio_greatest"] = min(ratios), max(ratios)
        rows.append(row)
    return rows


def goals_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The goals over net_ring. A loop that mostly waits for frames is as fast as its source: where
    the bare loop waits, the ratio is too large, and where the analyser does, it says nothing."""
    goals = []
    for row in rows:
        if row["source"] != "ring":
            continue
        goal = GOALS[row["streams"]]
        waits = {mode: row[mode]["empty_polls"] > MOSTLY_EMPTY for mode in MODES}
        reached = row["ratio"] >= goal
        if waits["analyser"] or (waits["bare"] and reached):
            verdict = "not shown: the source was the limit"
        else:
            verdict = "met" if reached else "not met"
        what = f"net_ring, {row['streams']:,} streams: share of the bare loop"
        goals.append({"what": what, "goal": goal, "measured": row["ratio"], "verdict": verdict})
    return goals


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5, help="runs of each figure (default 5)")
    parser.add_argument("--seconds", type=float, default=1.0, help="per run (default 1)")
    parser.add_argument("--output", type=Path, default=ROOT / "results/bench/recv.json")
    options = parser.parse_args()
    runs: Runs = {}
    pmd = []
    for turn in range(options.repeat):
        print(f"turn {turn + 1} of {options.repeat}", file=sys.stderr)
        for source in SOURCES:
            for streams in STREAMS:
                for mode in MODES:
                    one = measure(mode, streams, source, options.seconds)
                    runs.setdefault((source, streams, mode), []).append(one)
        pmd.append(testpmd(options.seconds))
    rows = rows_of(runs)
    goals = goals_of(rows)
    rxonly = statistics.median(one["packets_per_s"] for one in pmd)
    results = {
        "machine": machine(),
        "testpmd_rxonly_net_null": {
            "packets_per_s": rxonly, "runs": pmd,
        },
        "analyser": rows,
        "goals": goals,
    }  # fmt: skip
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    print(f"testpmd rxonly, net_null: {rxonly:,.0f}/s")
    for row in rows:
        print(
            f"{row['source']:>6} {row['streams']:>7} streams: bare loop "
            f"{row['bare']['packets_per_s'] / 1e6:6.2f} M/s ({row['bare']['empty_polls']:.0%} of "
            f"polls empty), analyser {row['analyser']['packets_per_s'] / 1e6:6.2f} M/s "
            f"({row['analyser']['empty_polls']:.0%}), ratio {row['ratio']:.2f} "
            f"({row['ratio_least']:.2f} to {row['ratio_greatest']:.2f})"
        )
    for goal in goals:
        print(f"{goal['what']}: {goal['measured']:.2f} of {goal['goal']}: {goal['verdict']}")
    print(f"written: {options.output}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
