"""Runs that make figures: on all cores, each kept, none made twice.

results/figures/runs/<key>/ holds a run as `tiercast run` stores it. The key is a hash of all that
the run follows from: the experiment, the seed, the program and the simulator. So what is there is
done, also after an interrupt, and a change of any of them runs anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tiercast_lab import binaries
from tiercast_lab.errors import LabError
from tiercast_lab.experiment import Loaded, load_experiment
from tiercast_lab.figure import FigureRun
from tiercast_lab.interrupt import Interrupt
from tiercast_lab.schemes import SchemeInfo

POLL_S = 0.2


@dataclass(frozen=True)
class Task:
    file: Path
    run: FigureRun

    def load(self, schemes: dict[str, SchemeInfo]) -> Loaded:
        return load_experiment(self.file, schemes, list(self.run.settings))


@dataclass(frozen=True)
class Outcome:
    """`measures` by name, or why there are none."""

    task: Task
    directory: Path
    measures: dict[str, float | None]
    failure: str = ""


@cache
def _code() -> str:
    digest = hashlib.sha256()
    for path in (binaries.NS3, binaries.P4_JSON):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def key_of(loaded: Loaded, seed: int) -> str:
    # What is drawn and judged does not change the run.
    data = {k: v for k, v in loaded.data.items() if k not in ("figure", "expect", "title", "paper")}
    text = json.dumps([data, seed, _code()], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def run_all(
    tasks: Iterable[Task],
    schemes: dict[str, SchemeInfo],
    results: Path,
    jobs: int,
    interrupt: Interrupt,
    progress: Callable[[int, int, int], None],
) -> list[Outcome]:
    """In the order of `tasks`. `progress`: done, of them found, all. Raises Interrupted."""
    binaries.require(binaries.NS3, binaries.P4_JSON, binaries.P4_INFO)
    folder = results / "runs"
    folder.mkdir(parents=True, exist_ok=True)
    tasks = list(tasks)
    places = [folder / key_of(task.load(schemes), task.run.seed) for task in tasks]
    todo = {
        place: task
        for place, task in zip(places, tasks, strict=True)
        if not (place / "summary.json").exists()
    }
    found = len(set(places)) - len(todo)
    failures: dict[Path, str] = {}
    total, done = len(set(places)), found
    progress(done, found, total)
    pool = ProcessPoolExecutor(jobs)
    try:
        futures: dict[Future[str], Path] = {
            pool.submit(_make, task, schemes, place): place for place, task in todo.items()
        }
        waiting = set(futures)
        while waiting:
            interrupt.check()
            ended, waiting = wait(waiting, POLL_S, FIRST_COMPLETED)
            for future in ended:
                done += 1
                if failure := future.result():
                    failures[futures[future]] = failure
                progress(done, found, total)
    finally:
        for process in list(pool._processes.values()) if interrupt.signal else []:
            process.terminate()
        pool.shutdown(wait=True, cancel_futures=True)
    return [
        _outcome(task, place, failures.get(place, ""))
        for task, place in zip(tasks, places, strict=True)
    ]


def _outcome(task: Task, place: Path, failure: str) -> Outcome:
    if failure:
        return Outcome(task, place, {}, failure)
    summary = json.loads((place / "summary.json").read_text())
    return Outcome(task, place, {n: m["value"] for n, m in summary["measures"].items()})


def _make(task: Task, schemes: dict[str, SchemeInfo], place: Path) -> str:
    """In a process of its own. The place appears when the run is whole. Returns why it failed."""
    from rich.console import Console

    from tiercast_lab.conduct import Options, conduct

    scratch = place.with_name(f".{place.name}-{os.getpid()}")
    try:
        with open(os.devnull, "w") as nowhere:
            options = Options(
                task.run.seed, "ns3", "tiercast", scratch, _command(task), report=False
            )
            conduct(task.load(schemes), options, Console(file=nowhere))
        (scratch / "latest").resolve().rename(place)
        return ""
    except LabError as error:
        return str(error)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _command(task: Task) -> list[str]:
    """Which makes the run alone, with its report."""
    settings = [part for setting in task.run.settings for part in ("--set", setting)]
    file, seed = str(task.file), f"--seed={task.run.seed}"
    return ["./tiercast", "run", file, "--runtime=ns3", seed, *settings]


class Clock:
    """Time left, from how long what was done has taken."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def left_s(self, done: int, found: int, total: int) -> float | None:
        made = done - found
        if made <= 0:
            return None
        return (time.monotonic() - self._began) / made * (total - done)


def describe(task: Task) -> dict[str, Any]:
    return {"curve": task.run.curve, "x": task.run.x, "seed": task.run.seed,
            "command": _command(task)}  # fmt: skip
