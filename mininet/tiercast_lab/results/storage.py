"""The folder results/<run>/: everything that is known about a run, and how to read it back.

rows/              one table per kind of record (recorder.py), columns as in docs/experiments.md
summary.json       experiment, seed, versions, machine, validity, measures, expected figures
experiment/        copies of the files that the experiment was read from
metadata.json      interfaces, qdiscs, offloads, sysctls and counters before and after
logs/              the output of every process
report.html        made only from the above, as are plots/ by `tiercast report`

summary.json exists from the start. Until the run is judged, its verdict is `incomplete`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import math
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl
from tiercast_controller.base.bounded_yaml import kind_of_file

from tiercast_lab.base.errors import InputError, writing
from tiercast_lab.base.folders import names_in, stored_names
from tiercast_lab.base.frames import as_float
from tiercast_lab.base.machine import shown_path
from tiercast_lab.base.scratch import FOLDER
from tiercast_lab.base.whole_file import write_whole
from tiercast_lab.experiment.model import validate
from tiercast_lab.experiment.yaml_source import Source
from tiercast_lab.measures import (
    Context,
    Rows,
    context_of,
    file_of,
    is_known,
    measures_version,
    spec_of,
)
from tiercast_lab.results.recorder import read_rows, require_files
from tiercast_lab.results.summary import Summary

__all__ = ["RunFolder", "StoredRun", "load_run", "measured", "writing"]

FORMAT = 2  # of summary.json and rows/
INCOMPLETE = "incomplete"  # the verdict of a run that is still going or was stopped
UNFINISHED = "it has not ended: it goes on, or its lab was killed"
RESERVE_BYTES = 64 << 10
EXPERIMENT = "experiment"


class RunFolder:
    """The folder of a run about to start. Its name is chosen at once; `make` creates it."""

    def __init__(self, results: Path, name: str) -> None:
        taken = {name.rpartition("-")[2] for name in names_in(results)}
        while (run := secrets.token_hex(2)) in taken:
            pass
        self.id = run  # four hexadecimal digits that no run stored there has
        self.path = results / f"{time.strftime('%Y%m%d-%H%M%S')}-{name}-{run}"
        # Keeps room for the reason why a run ended, even if that is a full disk.
        self._reserve = self.path / ".reserve"
        self._lock: int | None = None  # a file descriptor

    @property
    def rows(self) -> Path:
        return self.path / "rows"

    def hold(self) -> None:
        """Until `let_go`, or until this process dies, `is_under_way` holds for the folder."""
        # Without locks in its file system a run only looks as if it had been broken off.
        with contextlib.suppress(OSError):
            self._lock = os.open(self.path, FOLDER)
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def let_go(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def make(self, summary: dict[str, Any]) -> None:
        """Creates the whole folder, with the summary of an unfinished run, or nothing. Raises
        InputError."""
        latest = self.path.parent / "latest"
        if os.path.lexists(latest) and not latest.is_symlink():
            kind = kind_of_file(latest)
            raise InputError(
                f"{latest}: {kind}, where a link to the newest run has to be; valid: another name "
                "for it, or another --results"
            )
        with writing(self.path.parent):
            self.path.mkdir(parents=True)
        try:
            with writing(self.path):
                for folder in (self.rows, self.path / "logs"):
                    folder.mkdir()
                self._reserve.write_bytes(bytes(RESERVE_BYTES))
                self.write("summary.json", summary | unfinished(UNFINISHED))
        except InputError:
            shutil.rmtree(self.path, ignore_errors=True)
            raise
        self.hold()

    def keep(self, sources: Sequence[Path]) -> None:
        """Copies the files that the experiment was read from, under the names that `kept` gives."""
        names = kept(sources)
        with writing(self.path):
            (self.path / EXPERIMENT).mkdir()
            for source in sources:
                content = source.read_bytes()
                (self.path / names[shown_path(source)]).write_bytes(content)

    def write(self, name: str, value: dict[str, Any]) -> None:
        """As write_json."""
        write_json(self.path / name, value)

    def release_reserve(self) -> None:
        self._reserve.unlink(missing_ok=True)

    def point_latest(self) -> bool:
        """Replaces results/latest in one step, so that a reader never finds it missing. False where
        the file system has no symbolic links, as in shared folders of virtual machines."""
        scratch = self.path.parent / f".latest-{self.path.name}"
        try:
            scratch.symlink_to(self.path.name)
        except OSError as error:
            if error.errno in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS):
                return False
            raise
        os.replace(scratch, self.path.parent / "latest")
        return True


def kept(sources: Sequence[Path]) -> dict[str, str]:
    """The names of an experiment's files in the run's folder, by the paths where they were read.
    Files of one name are told apart by a number."""
    result: dict[str, str] = {}
    for source in dict.fromkeys(sources):
        name, number = f"{EXPERIMENT}/{source.name}", 1
        while name in result.values():
            number += 1
            name = f"{EXPERIMENT}/{source.stem}-{number}{source.suffix}"
        result[shown_path(source)] = name
    return result


def is_under_way(directory: Path) -> bool:
    """Whether a process executes this run: it holds a lock on the run's folder."""
    try:
        folder = os.open(directory, FOLDER)
    except OSError:
        return False
    try:
        fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    finally:
        os.close(folder)
    return False


def unfinished(reason: str) -> dict[str, Any]:
    """The part of a summary that stands in for the verdict."""
    return {
        "verdict": INCOMPLETE,
        "reasons": [reason],
        "complaints": [],
        "validity": {"valid": False, "checks": [], "hidden_queues": []},
        "measures": {},
        "expected": [],
    }


def write_json(path: Path, value: dict[str, Any]) -> None:
    """As write_whole."""
    write_whole(path, to_json(value) + "\n")


def to_json(value: Any) -> str:
    return json.dumps(_finite(value), indent=2)


def _finite(value: Any) -> Any:
    """Replaces NaN and infinity by null: JSON has neither."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


@dataclass(frozen=True)
class StoredRun:
    directory: Path
    summary: dict[str, Any]
    rows_so_far: Rows | None = None  # of a run under way
    left_out: dict[str, str] = field(default_factory=dict)  # measures not loaded; their file

    @cached_property
    def rows(self) -> Rows:
        """All rows of the run. Raises InputError if a file is incomplete."""
        if self.rows_so_far is not None:
            return self.rows_so_far
        return Rows(read_rows(self.directory / "rows"))

    @cached_property
    def context(self) -> Context:
        return context_of(self.summary)

    @property
    def scheme(self) -> str:
        """Of the first session; empty without one."""
        sessions = self.summary["experiment"]["sessions"]
        return str(sessions[0]["scheme"]) if sessions else ""

    @property
    def complete(self) -> bool:
        return bool(self.summary["verdict"] != INCOMPLETE)

    @property
    def sources(self) -> list[Path]:
        """The copies of the files that the experiment was read from; those that are there."""
        kept_here = [self.directory / name for name in self.summary.get("sources", {}).values()]
        return [path for path in kept_here if path.is_file()]

    @property
    def programs(self) -> dict[str, str]:
        """The SHA-256 of the files that the run executed, by their names without folders."""
        of_experiment = self.summary.get("sources", {})
        return {
            Path(name).name: digest
            for name, digest in self.summary.get("files", {}).items()
            if name not in of_experiment and not name.endswith(".yaml")
        }

    @cached_property
    def end_s(self) -> float:
        """The end of the run or, if it was stopped, of the rows that exist."""
        if self.complete:
            return float(self.summary["duration_s"])
        return max((as_float(frame["time_s"].max()) for frame in self.rows.values()), default=0.0)

    def require_rows(self) -> None:
        """Raises InputError for a run that was stopped before its first row."""
        if not self.complete and not self.rows:
            place = self.directory
            raise InputError(f"{place}: {'; '.join(self.reasons)}; what there is: {place}/logs")

    @property
    def reasons(self) -> list[str]:
        """The reasons for the verdict."""
        reasons: list[str] = self.summary["reasons"]
        if self.complete:
            return reasons
        end = f"its rows end at {self.end_s:.1f} s of {self.summary['duration_s']:g} s"
        return [*reasons, end if self.rows else "it has no rows"]


@contextlib.contextmanager
def reading(directory: Path) -> Iterator[None]:
    """Raises InputError for rows that lack a needed column. Summaries and column types are checked
    when they are read, so nothing else can be wrong with a stored run."""
    try:
        yield
    except pl.exceptions.ColumnNotFoundError as error:
        raise InputError(
            f"{directory}: its rows are not those of a run: no column "
            f"{str(error).partition(chr(10))[0]}; valid: a complete folder of a run"
        ) from error


def made_by(folder: Path) -> tuple[str | None, dict[str, str]]:
    """The commit of a stored run, and the SHA-256 of each program that made it, by name."""
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    programs = {name: it for name, it in summary["files"].items() if not name.endswith(".yaml")}
    return summary["versions"]["commit"], programs


def load_run(directory: Path) -> StoredRun:
    """Raises InputError if the folder holds no run of this format, or a summary that no run would
    write."""
    path = directory / "summary.json"
    try:
        require_files(path)
        summary = json.loads(path.read_text())
    except OSError as error:
        stored = stored_names(directory.parent)
        newest = f", such as {stored[-1]}" if stored else ""
        valid = f"valid: a folder below results/{newest}"
        raise InputError(f"{path}: {error.strerror}; {valid}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON: {error}") from None
    if not isinstance(summary, dict) or summary.get("format") != FORMAT:
        seen = summary.get("format") if isinstance(summary, dict) else None
        older = ", of an earlier version; run it again" if seen in range(1, FORMAT) else ""
        raise InputError(f"{path}: format {seen!r}{older}; valid: {FORMAT}")
    left_out = _leave_out_unknown(summary)
    validate(Summary, Source(summary, {(): str(path)}))
    return StoredRun(directory, summary, left_out=left_out)


def _leave_out_unknown(summary: dict[str, Any]) -> dict[str, str]:
    """Removes measures of a user's file that is not loaded now, so that their runs can be read
    without it. Returns them, with the file's name."""
    measures = summary.get("measures")
    if not isinstance(measures, dict):
        return {}
    left_out = {
        name: one["file"]
        for name, one in measures.items()
        if isinstance(one, dict) and isinstance(one.get("file"), str) and not is_known(name)
    }
    summary["measures"] = {name: one for name, one in measures.items() if name not in left_out}
    if isinstance(expected := summary.get("expected"), list):
        summary["expected"] = [
            one for one in expected if not (isinstance(one, dict) and one.get("name") in left_out)
        ]
    return left_out


def measured(measures: dict[str, float | None]) -> dict[str, Any]:
    """The part of a summary that holds the measures and their version."""
    return {
        "measures": {
            name: {"value": value, "unit": spec_of(name)[0].unit, **_file_of(name)}
            for name, value in measures.items()
        },
        "measured_by": measures_version(),
    }


def _file_of(name: str) -> dict[str, str]:
    file = file_of(name)
    return {} if file is None else {"file": file}
