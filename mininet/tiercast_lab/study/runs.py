"""The runs that figures and sweeps consist of. Each is stored, so that none is made twice.

results/runs/<key>/ holds a run in the same form as `tiercast run` stores it. The key is a hash of
everything that the run depends on: the experiment, the seed, the P4 program, the controller, the
simulator with ns-3's libraries and the lab's code for a run; in real time the programs there, the
kernel and the CPU. So a stored run stays done, even after an interrupt and
whichever command made it. If any of these changes, the run is made again.

An invalid run has no measures, since it is neither met nor not met. In virtual time it is stored
like any other, as it would be the same again; in real time it is kept in <key>-invalid to look at,
and the next call makes it again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from tiercast_lab.base import binaries, machine
from tiercast_lab.base.errors import InputError
from tiercast_lab.base.interrupt import Interrupt
from tiercast_lab.experiment.checks import require_real_time
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.loading import load_experiment
from tiercast_lab.experiment.schemes import SchemeInfo, require_accepted
from tiercast_lab.measures import all_measures, context_of, measures_version
from tiercast_lab.results import storage
from tiercast_lab.run.progress import Tally
from tiercast_lab.study.target import VIRTUAL, Target
from tiercast_lab.study.workers import (
    Job,
    JobResult,
    Workers,
    cores_taken,
    invalid_because,
    programs,
)

POLL_S = 0.2
# These keys name, measure, draw and judge a run but do not change it, so figures may share it.
NOT_OF_THE_RUN = ("name", "measure", "figure", "expect", "title", "paper")
INVALID = "-invalid"  # at the end of the names of invalid runs in real time
MAX_ATTEMPTS = 3  # to make a run whose worker dies


class RunRequest(Protocol):
    """What a figure or a sweep says about one of its runs."""

    @property
    def name(self) -> str: ...

    @property
    def seed(self) -> int: ...

    @property
    def settings(self) -> tuple[str, ...]:
        """`key=value`, as for `--set`."""

    @property
    def places(self) -> Mapping[str, str]:
        """The file and line of each setting, by key."""


Request = TypeVar("Request", bound=RunRequest)


@dataclass(frozen=True)
class Task(Generic[Request]):
    """A run that was requested, and the experiment's file."""

    file: Path
    run: Request
    target: Target = VIRTUAL
    cores: float | None = None  # that it takes in real time; None: not known

    def load(self, schemes: dict[str, SchemeInfo]) -> LoadedExperiment:
        settings = list(self.run.settings)
        loaded = load_experiment(self.file, schemes, settings, places=self.run.places)
        require_accepted(loaded)
        if self.target.in_real_time:
            require_real_time(loaded)
        return loaded

    @property
    def command(self) -> list[str]:
        """The command that makes this run alone, with its report."""
        settings = [part for setting in self.run.settings for part in ("--set", setting)]
        file, seed = str(self.file), f"--seed={self.run.seed}"
        return [binaries.COMMAND, "run", file, *self.target.options, seed, *settings]


@dataclass(frozen=True)
class Outcome(Generic[Request]):
    """A run's `measures` by name, or why there are none."""

    task: Task[Request]
    directory: Path
    measures: dict[str, float | None]
    failure: str = ""
    invalid: bool = False  # the failure is the run's verdict


def key_of(loaded: LoadedExperiment, seed: int, target: Target = VIRTUAL) -> str:
    data = {name: value for name, value in loaded.data.items() if name not in NOT_OF_THE_RUN}
    parts = [data, seed, programs(target=target)]
    if target.in_real_time:
        parts += [target.options, machine.real_time()]
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


class Store:
    """The folder of stored runs, by key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self) -> None:
        """Creates the folder, so that an InputError comes before the first run and not after it."""
        with storage.writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)

    def place(self, key: str) -> Path:
        return self.folder / key

    def has(self, key: str) -> bool:
        return os.path.exists(self.place(key) / "summary.json")

    def outcome(
        self, task: Task[Request], key: str, over: dict[str, Any]
    ) -> Outcome[Request] | None:
        """The outcome of the run that was made for `key`, measured over what `measures` says. None
        if there is none. Raises InputError if it cannot be read."""
        stored = next((one for one in (key, f"{key}{INVALID}") if self.has(one)), None)
        if stored is None:
            return None
        place = self.place(stored)
        if why := invalid_because(_stored(place / "summary.json")):
            return Outcome(task, place, {}, why, invalid=True)
        return Outcome(task, place, self.measures(stored, over))

    def put_invalid(self, key: str, files: dict[str, bytes]) -> None:
        """Stores an invalid run to look at. It stands for none: the next call makes it again."""
        shutil.rmtree(self.place(f"{key}{INVALID}"), ignore_errors=True)
        self.put(f"{key}{INVALID}", files)

    def put(self, key: str, files: dict[str, bytes]) -> None:
        """Stores a run. Its folder appears only when it is complete. Raises InputError if the disk
        refuses."""
        scratch = self.folder / f".{key}-{os.getpid()}"
        try:
            with storage.writing(self.folder):
                for name, content in files.items():
                    path = scratch / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(content)
                scratch.rename(self.place(key))
        except InputError:
            if not self.has(key):  # otherwise another process stored the same run first
                raise
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def measures(self, key: str, over: dict[str, Any]) -> dict[str, float | None]:
        """The measures of a stored run over the window and periods in `over`
        (LoadedExperiment.measured_over). They are computed from the run's rows, and stored, if its
        summary has another window or the code of the measures has changed since. Raises InputError
        if the stored run cannot be read."""
        asked = over | {"measured_by": measures_version()}
        digest = hashlib.sha256(json.dumps(over, sort_keys=True).encode()).hexdigest()[:12]
        again = self.place(key) / f"measures-{digest}.json"
        try:
            with storage.reading(self.place(key)):
                run = storage.load_run(self.place(key))
                for stored in (run.summary, _stored(again)):
                    if all(stored.get(name) == value for name, value in asked.items()):
                        return {name: one["value"] for name, one in stored["measures"].items()}
                measures = all_measures(run.rows, context_of(run.summary | over))
        except InputError as error:
            place = self.place(key)
            raise InputError(f"{error}; without {place} the run is made again") from None
        with storage.writing(self.folder):
            storage.write_json(again, over | storage.measured(measures))
        return measures


def _stored(path: Path) -> dict[str, Any]:
    try:
        before = json.loads(path.read_text())
    except (OSError, ValueError):  # not stored, or only in part
        return {}
    return before if isinstance(before, dict) else {}


def run_all(
    tasks: Sequence[Task[Request]],
    schemes: dict[str, SchemeInfo],
    store: Store,
    start_workers: Callable[[], AbstractContextManager[Workers]],
    interrupt: Interrupt,
    progress: Callable[[Tally], None],
) -> list[Outcome[Request]]:
    """Makes the runs that are not stored and returns all outcomes in the order of `tasks`. Raises
    Interrupted, and InputError if a worker lacks something.

    Workers are started only if there is something to run. If a worker dies, only its own run is
    lost, and it is made again. A run in real time that the machine could not keep up with beside
    others is made again alone on its machine; if it is invalid then too, that is its failure.
    """
    loaded_of: dict[tuple[Path, tuple[str, ...], Target], LoadedExperiment] = {}
    keys, overs, todo = [], [], {}
    notes: dict[str, dict[str, None]] = {}  # the runs of each
    for task in tasks:
        same = task.file, task.run.settings, task.target
        if same not in loaded_of:
            loaded_of[same] = task.load(schemes)
        for text in loaded_of[same].notes:
            notes.setdefault(text, {})[task.run.name] = None
        key = key_of(loaded_of[same], task.run.seed, task.target)
        keys.append(key)
        overs.append(loaded_of[same].measured_over)
        if not store.has(key):
            todo[key] = task, loaded_of[same]
    found = len(set(keys)) - len(todo)
    tally = Tally(len(set(keys)), found, done=found)
    tally.notes = [_note(text, list(names)) for text, names in notes.items()]
    tally.weight = sum(_weight(loaded) for _, loaded in todo.values())
    progress(tally)
    failures: dict[str, str] = {}
    store.make()
    if todo:
        needs = _measured_needs(tasks, keys, store)
        with start_workers() as workers:
            failures = _make_all(todo, needs, store, workers, interrupt, progress, tally)
    outcomes = []
    for task, key, over in zip(tasks, keys, overs, strict=True):
        interrupt.check()  # measuring many runs again takes long
        if (why := failures.get(key)) is not None:
            outcomes.append(Outcome(task, store.place(key), {}, why))
        else:
            outcome = store.outcome(task, key, over)
            assert outcome is not None  # what did not fail is stored
            outcomes.append(outcome)
    return outcomes


def _note(text: str, names: list[str]) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"note: {names[0]}{more}: {text}"


def stored_outcome(
    task: Task[Request], schemes: dict[str, SchemeInfo], store: Store
) -> Outcome[Request] | None:
    """The outcome of a stored run, valid or not; None if there is none. Makes nothing."""
    loaded = task.load(schemes)
    key = key_of(loaded, task.run.seed, task.target)
    return store.outcome(task, key, loaded.measured_over)


def _measured_needs(
    tasks: Sequence[Task[Request]], keys: Sequence[str], store: Store
) -> dict[Path, float]:
    """The cores that stored runs in real time took, the most of each experiment's file."""
    needs: dict[Path, float] = {}
    for task, key in zip(tasks, keys, strict=True):
        if task.target.in_real_time and store.has(key):
            _note_need(needs, task.file, _stored(store.place(key) / "summary.json"))
    return needs


def _note_need(needs: dict[Path, float], file: Path, summary: dict[str, Any]) -> None:
    if (cores := cores_taken(summary)) is not None:
        needs[file] = max(cores, needs.get(file, 0.0))


def _make_all(
    todo: dict[str, tuple[Task[Request], LoadedExperiment]],
    needs: dict[Path, float],
    store: Store,
    workers: Workers,
    interrupt: Interrupt,
    progress: Callable[[Tally], None],
    tally: Tally,
) -> dict[str, str]:
    """Makes the runs. Returns why those failed that are not stored, by key. `needs`: the cores that
    runs in real time have taken, by the experiment's file; it grows."""
    needed = {
        target: programs(python=workers.elsewhere, target=target)
        for target in {task.target for task, _ in todo.values()}
    }
    # The longest runs start first, so that none of them is left running alone at the end.
    waiting = sorted(todo, key=lambda key: _weight(todo[key][1]))
    attempts = dict.fromkeys(todo, 0)
    beside: set[str] = set()  # those that had another one beside them for a while
    alone: set[str] = set()  # those that were invalid beside others
    taken: dict[str, float] = {}  # cores, by the keys of what is running
    failures: dict[str, str] = {}

    def cores_of(key: str) -> float:
        """The whole of the largest machine for a run of which nothing is known."""
        task, _ = todo[key]
        if not task.target.in_real_time:
            return 1.0
        known = None if key in alone else needs.get(task.file, task.cores)
        return workers.largest if known is None else min(known, workers.largest)

    def fits(key: str) -> bool:
        if not todo[key][0].target.in_real_time:
            return len(taken) < workers.room
        return not taken or sum(taken.values()) + cores_of(key) <= workers.cores

    tally.start()
    while waiting or taken:
        interrupt.check()
        while waiting and fits(waiting[-1]):
            key = waiting.pop()
            task, loaded = todo[key]
            attempts[key] += 1
            taken[key] = cores_of(key)
            if len(taken) > 1:
                beside.update(taken)
            workers.submit(
                Job(
                    key, task.run.name, loaded, task.run.seed, task.command, needed[task.target],
                    task.target, taken[key],
                )
            )  # fmt: skip
            tally.running[key] = task.run.name
        for job, result in workers.ended(POLL_S):
            del tally.running[job.key], taken[job.key]
            if result is None:
                tally.deaths += 1
                if attempts[job.key] < MAX_ATTEMPTS:
                    waiting.append(job.key)
                    continue
                result = JobResult(failure=f"its worker died, {MAX_ATTEMPTS} times")
            if result.foreign:
                raise InputError(result.foreign)
            if job.target.in_real_time and (summary := result.summary):
                _note_need(needs, todo[job.key][0].file, summary)
            # In virtual time it would be invalid again.
            crowded = job.target.in_real_time and bool(invalid_because(result.summary))
            if crowded and job.key in beside and job.cores < workers.largest:
                alone.add(job.key)
                tally.crowded += 1
                waiting.append(job.key)
                continue
            if crowded:
                store.put_invalid(job.key, result.files)
            elif result.failure:
                failures[job.key] = result.failure
            else:
                store.put(job.key, result.files)
            tally.done += 1
            tally.weight_done += _weight(job.loaded)
        progress(tally)
    return failures


def _weight(loaded: LoadedExperiment) -> float:
    return loaded.experiment.duration / 1e9 * len(loaded.topology.links)
