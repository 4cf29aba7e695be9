"""Workers that make runs: what a worker is given, what it returns, and processes on this machine as
workers.

A worker gets a run's job. It uses its own programs and none of the driver's files, and returns the
files that it made as bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import socket
import traceback
from dataclasses import dataclass, field
from functools import cache
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Protocol

import tiercast_controller
from tiercast_controller.base.installation import ROOT
from tiercast_controller.base.plugins import files_of
from tiercast_controller.network import marking

import tiercast_lab
from tiercast_lab.base import binaries
from tiercast_lab.base.errors import Interrupted, LabError
from tiercast_lab.base.interrupt import Interrupt, die_with_parent
from tiercast_lab.base.scratch import scratch_folder
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.run.execute import Options, execute
from tiercast_lab.run.progress import SilentView

PYTHON = "Python code"
SHAPING = "way from an experiment to a run"  # the part of the Python code on which a run depends
LAB, CONTROLLER = (Path(package.__path__[0]) for package in (tiercast_lab, tiercast_controller))
# The lab's packages on which the rows of a run in virtual time depend, except Mininet's part of
# `run`. Measures and verdicts are computed again when their code changes.
SHAPED_BY = ("base", "experiment", "run")
SHAPED_NOT_BY = "run/mininet"
GRACE_S = 3.0  # for a worker to end before it is killed

Programs = dict[str, str]  # SHA-256 by name


@dataclass(frozen=True)
class Job:
    key: str
    name: str  # shown to people
    loaded: LoadedExperiment
    seed: int
    command: list[str]  # the command that makes this run alone
    programs: Programs  # the driver's; the worker's have to be the same


@dataclass(frozen=True)
class JobResult:
    """The `files` of the run's folder, or why there are none. `foreign`: the node's programs differ
    from the driver's."""

    files: dict[str, bytes] = field(default_factory=dict)
    failure: str = ""
    foreign: str = ""


class Workers(Protocol):
    def __enter__(self) -> Workers: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    @property
    def room(self) -> int:
        """The number of jobs that it can hold at once."""

    @property
    def elsewhere(self) -> bool:
        """Whether workers may be on another machine with other files."""

    def submit(self, job: Job) -> None: ...

    def ended(self, timeout_s: float) -> list[tuple[Job, JobResult | None]]:
        """The jobs that have ended, at the latest after `timeout_s`. The result is None if the
        worker died."""


def programs(python: bool = False) -> Programs:
    """The digests of everything a run depends on besides its experiment and seed: the simulator,
    the P4 program, the controller, and the lab's code that describes the experiment to them.
    `python` adds all of the lab's code."""
    files = binaries.NS3, binaries.P4_JSON, binaries.P4_INFO
    binaries.require(*files)
    result = {path.name: _digest(path) for path in files}
    shaping = [path for name in SHAPED_BY for path in (LAB / name).rglob("*.py")
               if not path.is_relative_to(LAB / SHAPED_NOT_BY)]  # fmt: skip
    shaping += [*CONTROLLER.rglob("*.py"), *files_of(marking.PLUGINS)]
    result[SHAPING] = _digest_of_all(shaping)
    if python:
        result[PYTHON] = _digest_of_all([*LAB.rglob("*.py"), *CONTROLLER.rglob("*.py")])
    return result


def _digest_of_all(paths: list[Path]) -> str:
    return hashlib.sha256("".join(map(_digest, sorted(paths))).encode()).hexdigest()


def _digest(path: Path) -> str:
    stat = path.stat()
    return _digest_of(path, stat.st_mtime_ns, stat.st_size)


@cache
def _digest_of(path: Path, _mtime_ns: int, _size: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def make(job: Job, scratch: Path | None = None) -> JobResult:
    """Makes a run on the worker's node. `scratch` is a folder that someone else removes if this
    process is killed. Raises Interrupted."""
    try:
        own = programs(PYTHON in job.programs)
        for name, wanted in job.programs.items():
            if own[name] != wanted:
                return JobResult(
                    foreign=f"node {socket.gethostname()}: another {name} below {ROOT}, "
                    f"{own[name][:12]}; valid: {wanted[:12]}, as where this was started"
                )
        with scratch_folder(scratch) as folder, Interrupt() as interrupt:
            options = Options(job.seed, "ns3", "tiercast", folder, job.command)
            executed = execute(job.loaded, options, SilentView(), interrupt)
            return JobResult(_pack(executed.folder))
    except Interrupted:
        raise
    except LabError as error:
        return JobResult(failure=str(error))
    except Exception as error:  # a bug, or a full disk: a second attempt would fail too
        at = traceback.extract_tb(error.__traceback__)[-1]
        name = type(error).__name__
        return JobResult(failure=f"{name}: {error} ({Path(at.filename).name}:{at.lineno})")


def _pack(folder: Path) -> dict[str, bytes]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


class LocalWorkers:
    """One process for each run, at most `jobs` at a time."""

    elsewhere = False

    def __init__(self, jobs: int) -> None:
        self.room = jobs
        # Not forked from the driver, whose libraries have threads.
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([__name__])
        self._open = contextlib.ExitStack()
        self._running: dict[Connection, tuple[Job, BaseProcess]] = {}

    def __enter__(self) -> LocalWorkers:
        self._scratch = self._open.enter_context(scratch_folder())
        return self

    def submit(self, job: Job) -> None:
        mine, its = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_work, args=(its, job, self._scratch), daemon=True)
        process.start()
        its.close()  # so that the end of the process is the end of the pipe
        self._running[mine] = job, process

    def ended(self, timeout_s: float) -> list[tuple[Job, JobResult | None]]:
        result: list[tuple[Job, JobResult | None]] = []
        ready = wait(list(self._running), timeout_s)
        for connection in [one for one in self._running if one in ready]:
            job, process = self._running.pop(connection)
            try:
                made = connection.recv()
            except (EOFError, OSError):  # it died before or while it sent its result
                made = None
            connection.close()
            process.join()
            result.append((job, made))
        return result

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        running = [process for _, process in self._running.values()]
        for process in running:
            process.terminate()
        for process in running:
            process.join(GRACE_S)
            process.kill()
            process.join()
        self._running.clear()
        self._open.close()


def _work(connection: Connection, job: Job, scratch: Path) -> None:
    die_with_parent()
    with contextlib.suppress(Interrupted):  # the driver decides what to do about an interrupt
        connection.send(make(job, scratch))
