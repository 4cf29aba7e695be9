"""Workers that make runs: what a worker is given, what it returns, and processes on this machine as
workers.

A worker gets a run's job. It uses its own programs and none of the driver's files, and returns the
files that it made as bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import multiprocessing
import os
import socket
import traceback
from dataclasses import dataclass, field
from functools import cache
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import tiercast_controller
from tiercast_controller.base.installation import ROOT
from tiercast_controller.base.plugins import files_of
from tiercast_controller.network import marking

import tiercast_lab
from tiercast_lab.base import binaries
from tiercast_lab.base.errors import Interrupted, LabError
from tiercast_lab.base.interrupt import Interrupt, die_with
from tiercast_lab.base.scratch import scratch_folder
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.results.verdict import BOUNDS
from tiercast_lab.run.execute import Options, execute
from tiercast_lab.run.progress import SilentView
from tiercast_lab.study.target import VIRTUAL, Target

PYTHON = "Python code"
SIMULATOR = "libns3-*.so"
SHAPING = "way from an experiment to a run"  # the part of the Python code on which a run depends
LAB, CONTROLLER = (Path(package.__path__[0]) for package in (tiercast_lab, tiercast_controller))
# The lab's packages on which a run's rows depend, except the other runtime's part of `run`.
# Measures and verdicts are computed again when their code changes.
SHAPED_BY = ("base", "experiment", "run")
SHAPED_NOT_BY = {"ns3": "run/mininet", "mininet": "run/ns3"}
# For a worker to end before it is killed: in Mininet it removes its network.
GRACE_S = {"ns3": 3.0, "mininet": 20.0}

Programs = dict[str, str]  # SHA-256 by name


@dataclass(frozen=True)
class Job:
    key: str
    name: str  # shown to people
    loaded: LoadedExperiment
    seed: int
    command: list[str]  # the command that makes this run alone
    programs: Programs  # the driver's; the worker's have to be the same
    target: Target = VIRTUAL
    cores: float = 1.0  # of its machine that are its own


@dataclass(frozen=True)
class JobResult:
    """The `files` of the run's folder, or why there are none. `foreign`: the node lacks something
    or its programs differ from the driver's."""

    files: dict[str, bytes] = field(default_factory=dict)
    failure: str = ""
    foreign: str = ""

    @property
    def summary(self) -> dict[str, Any]:
        """The run's summary.json; empty if there is none."""
        result: dict[str, Any] = json.loads(self.files.get("summary.json", b"{}"))
        return result


def invalid_because(summary: dict[str, Any]) -> str:
    """Why a run is invalid, from its summary; empty if it is not, or the summary is."""
    is_invalid = summary.get("verdict") == "invalid"
    return f"invalid: {'; '.join(summary['reasons'])}" if is_invalid else ""


def cores_taken(summary: dict[str, Any]) -> float | None:
    """The cores that a run in real time needs for itself, by the CPU that it used: a run may use
    `cpu`'s bound of each core, the rest is for bursts. None if it was not measured."""
    checks = summary.get("validity", {}).get("checks", ())
    measured = next((one["measured"] for one in checks if one["name"] == "cpu"), None)
    per_core = BOUNDS["cpu"].value
    return None if measured is None or per_core is None else float(measured) / per_core


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
        """The number of jobs in virtual time that it can hold at once."""

    @property
    def cores(self) -> float:
        """Of all its machines together: what runs in real time can take at once."""

    @property
    def largest(self) -> float:
        """The cores of its largest machine: all that one run can have."""

    @property
    def elsewhere(self) -> bool:
        """Whether workers may be on another machine with other files."""

    def submit(self, job: Job) -> None: ...

    def ended(self, timeout_s: float) -> list[tuple[Job, JobResult | None]]:
        """The jobs that have ended, at the latest after `timeout_s`. The result is None if the
        worker died."""


def programs(python: bool = False, target: Target = VIRTUAL) -> Programs:
    """The digests of everything a run depends on besides its experiment and seed: the simulator
    with ns-3's libraries, or the programs that run in Mininet, the P4 program, the controller, and
    the lab's code that describes the experiment to them. `python` adds all of the lab's code."""
    files = *target.programs, binaries.P4_JSON, binaries.P4_INFO
    binaries.require(*files)
    result = {path.name: _digest(path) for path in files}
    if binaries.NS3 in files:
        result[SIMULATOR] = _digest_of_all(_libraries_of_ns3(*_state(binaries.NS3)))
    others = LAB / SHAPED_NOT_BY[target.runtime]
    shaping = [path for name in SHAPED_BY for path in (LAB / name).rglob("*.py")
               if not path.is_relative_to(others)]  # fmt: skip
    shaping += [*CONTROLLER.rglob("*.py"), *files_of(marking.PLUGINS)]
    result[SHAPING] = _digest_of_all(shaping)
    if python:
        result[PYTHON] = _digest_of_all([*LAB.rglob("*.py"), *CONTROLLER.rglob("*.py")])
    return result


def _digest_of_all(paths: list[Path]) -> str:
    return hashlib.sha256("".join(map(_digest, sorted(paths))).encode()).hexdigest()


def _state(path: Path) -> tuple[Path, int, int]:
    """What changes when a file does: its path, mtime and size."""
    stat = path.stat()
    return path, stat.st_mtime_ns, stat.st_size


@cache
def _libraries_of_ns3(program: Path, _mtime_ns: int, _size: int) -> list[Path]:
    return binaries.linked(program, "libns3")


def _digest(path: Path) -> str:
    return _digest_of(*_state(path))


@cache
def _digest_of(path: Path, _mtime_ns: int, _size: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def make(job: Job, scratch: Path | None = None) -> JobResult:
    """Makes a run on the worker's node. `scratch` is a folder that someone else removes if this
    process is killed. Raises Interrupted."""
    try:
        own = programs(PYTHON in job.programs, job.target)
        for name, wanted in job.programs.items():
            if own[name] != wanted:
                return JobResult(
                    foreign=f"node {socket.gethostname()}: another {name} (tiercast in {ROOT}), "
                    f"{own[name][:12]}; valid: {wanted[:12]}, as where this was started"
                )
        if job.target.in_real_time and os.geteuid() != 0:
            return JobResult(
                foreign=f"node {socket.gethostname()}: not root; valid: root, which Mininet needs"
            )
        with scratch_folder(scratch) as folder, Interrupt() as interrupt:
            target = job.target
            options = Options(job.seed, target.runtime, target.switch, folder, job.command)
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
    """One process for each run, at most `jobs` at a time; in real time as many as have room in
    `jobs` cores."""

    elsewhere = False

    def __init__(self, jobs: int) -> None:
        self.room = jobs
        self.cores = self.largest = float(jobs)
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
        running = list(self._running.values())
        for _, process in running:
            process.terminate()
        for job, process in running:
            process.join(GRACE_S[job.target.runtime])
            process.kill()
            process.join()
        self._running.clear()
        self._open.close()


def _work(connection: Connection, job: Job, scratch: Path) -> None:
    fork_server = os.getppid()
    if fork_server == 1:  # it has died, and this is nobody's child
        os._exit(1)
    die_with(fork_server)
    with contextlib.suppress(Interrupted):  # the driver decides what to do about an interrupt
        connection.send(make(job, scratch))
