"""Runs all schemes for a long time and watches what its processes keep: `make soak`.

The experiment is `soak`, in Mininet (root). Every ten seconds the private memory (RssAnon), the
descriptors and the threads of each process are read. Memory may grow by less than a megabyte an
hour, by the slope of a line through all but the first quarter of the run; descriptors and threads
may not grow; and nothing but a machine that is late may make the run invalid: no packet may be
unaccounted for at any link. Ends with 0 if that holds, with 1 otherwise. `--record` also writes the
table into docs/reliability.md.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / folder) for folder in ("build/python", "controller", "mininet")]
from tiercast_lab.results.verdict import BOUNDS, Check  # noqa: E402

PAGE = ROOT / "docs/reliability.md"
BEGIN, END = "<!-- soak: begin -->", "<!-- soak: end -->"
INTERVAL_S = 10.0
SETTLING = 0.25  # share of the run that counts for nothing: what a program keeps, it has by then
MB_PER_H = 1.0
SWITCH = "tiercast-switch"
BUILDER = "tiercast-switch (compiles native code)"


@dataclass
class Process:
    name: str = ""
    times_s: list[float] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)

    def end_at(self, end_s: float) -> None:
        count = sum(t <= end_s for t in self.times_s)
        for values in (self.times_s, self.memory_mb, self.descriptors, self.threads):
            del values[count:]

    def settled(self, values: list[Any], end_s: float) -> np.ndarray:
        return np.array(
            [v for t, v in zip(self.times_s, values, strict=True) if t >= SETTLING * end_s]
        )

    def slope_mb_per_h(self, end_s: float) -> float:
        times = self.settled(self.times_s, end_s)
        return float(np.polyfit(times / 3600, self.settled(self.memory_mb, end_s), 1)[0])

    def grown(self, values: list[int], end_s: float) -> int:
        """By how much the least of the last third is above the most of the first."""
        first, _, last = np.array_split(self.settled(values, end_s), 3)
        return int(max(0, last.min() - first.max()))


def children(of: int) -> Iterator[int]:
    """All descendants, and the process itself."""
    yield of
    for task in Path(f"/proc/{of}/task").glob("*/children"):
        try:
            direct = [int(word) for word in task.read_text().split()]
        except OSError:
            continue
        for one in direct:
            yield from children(one)


def name_of(pid: int) -> str:
    """The program; of a Python program its module or folder."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    program = Path(words[0]).name
    if not program.startswith("python"):
        return BUILDER if program == "exe" else program
    named = [word for word in words[1:] if word and not word.startswith("-")]
    path = Path(named[0]) if named else Path(program)
    return path.parent.name if path.name == "__main__.py" else path.name


def look(pid: int, at_s: float, seen: dict[int, Process]) -> None:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
        if "RssAnon" not in status:  # a zombie
            return
        process = seen.setdefault(pid, Process())
        process.name = name_of(pid)  # of now: it may have been a shell at first
    except OSError:
        return  # it has ended
    values = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    process.times_s.append(at_s)
    process.memory_mb.append(int(values["RssAnon"].split()[0]) / 1024)
    process.descriptors.append(descriptors)
    process.threads.append(int(values["Threads"]))


def watch(minutes: float, results: Path) -> tuple[dict[str, Any], list[Process], float]:
    """The run's summary, the processes that were there from the end of the settling time to the
    end, and the time of the last look."""
    command = [
        str(ROOT / "tiercast"), "run", "soak", f"--duration={round(60 * minutes)}s", "--json",
        f"--results={results}",
    ]  # fmt: skip
    results.mkdir(parents=True, exist_ok=True)
    seen: dict[int, Process] = {}
    begin, end_s = time.monotonic(), 0.0
    with (results / "soak.json").open("w+") as output:
        with subprocess.Popen(command, stdout=output) as run:
            try:
                while run.poll() is None:
                    end_s = time.monotonic() - begin
                    for pid in set(children(run.pid)):
                        look(pid, end_s, seen)
                    try:
                        run.wait(INTERVAL_S)
                    except subprocess.TimeoutExpired:
                        continue
            except KeyboardInterrupt:
                run.send_signal(signal.SIGINT)
                run.wait()
                raise
        output.seek(0)
        text = output.read()
    if not text.strip():
        sys.exit(f"soak: the run ended with status {run.returncode} and no summary")
    # Behind the switch's end the lab judges the run, and takes memory for it.
    end_s = max(one.times_s[-1] for one in seen.values() if one.name == SWITCH)
    for one in seen.values():
        one.end_at(end_s)
    lasting = [
        one
        for one in seen.values()
        if one.times_s and one.times_s[0] < SETTLING * end_s and one.times_s[-1] == end_s
    ]
    return json.loads(text), lasting, end_s


def grows(process: Process, end_s: float) -> bool:
    return (
        process.slope_mb_per_h(end_s) >= MB_PER_H
        or process.grown(process.descriptors, end_s) > 0
        or process.grown(process.threads, end_s) > 0
    )


def table(processes: list[Process], end_s: float) -> list[list[str]]:
    """A row for each program: of its processes the largest of each value."""
    rows = []
    for name in sorted({one.name for one in processes}):
        some = [one for one in processes if one.name == name]
        growing = sum(grows(one, end_s) for one in some)
        rows.append(
            [name, str(len(some)),
             f"{max(one.memory_mb[-1] for one in some):.1f}",
             f"{max(one.slope_mb_per_h(end_s) for one in some):+.2f}",
             f"{max(one.descriptors[-1] for one in some)}, "
             f"+{max(one.grown(one.descriptors, end_s) for one in some)}",
             f"{max(one.threads[-1] for one in some)}, "
             f"+{max(one.grown(one.threads, end_s) for one in some)}",
             f"**{growing} grow**" if growing else "flat"]
        )  # fmt: skip
    return rows


def complaints_of(summary: dict[str, Any]) -> list[str]:
    """What speaks against the run, except that the machine was late: a soak may run beside other
    work."""
    checks = [
        Check(**{name: value for name, value in one.items() if name != "ok"})
        for one in summary["validity"]["checks"]
        if one["name"] not in BOUNDS
    ]
    wrong = [one.sentence() for one in checks if not one.ok or one.measured is None]
    if all(one.name != "unaccounted" for one in checks):
        wrong.append("unaccounted: not measured")
    return wrong + list(summary["complaints"])


def unaccounted(summary: dict[str, Any]) -> str:
    checks = {one["name"]: one["measured"] for one in summary["validity"]["checks"]}
    measured = checks.get("unaccounted")
    return "not measured" if measured is None else f"{measured:g} packets"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--results", type=Path, default=ROOT / "results/soak")
    parser.add_argument("--record", action="store_true", help="write docs/reliability.md")
    options = parser.parse_args()
    if options.minutes < 3:
        parser.error(f"--minutes {options.minutes:g}: valid: 3 and more")
    summary, processes, end_s = watch(options.minutes, options.results)
    # All samples, to see how what grows does so.
    samples = json.dumps([asdict(one) for one in processes])
    (options.results / "processes.json").write_text(samples)
    rows = table(processes, end_s)
    faults = sum(grows(one, end_s) for one in processes)
    complaints = complaints_of(summary)
    head = [
        "program",
        "processes",
        "private memory, MB",
        "slope, MB/h",
        "descriptors",
        "threads",
        "",
    ]
    lines = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]
    verdict = [
        f"{date.today()}, {end_s / 60:.0f} minutes: {len(processes)} processes, {faults} of which "
        f"grow; unaccounted for: {unaccounted(summary)}; run "
        f"{'valid' if summary['validity']['valid'] else 'invalid'}.",
        *(f"- {complaint}" for complaint in complaints),
    ]
    text = "\n".join([*verdict, "", *lines])
    print(text)
    if options.record:
        page = PAGE.read_text()
        before, after = page.split(BEGIN)[0], page.split(END)[1]
        PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")
    return 0 if faults == 0 and not complaints else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
