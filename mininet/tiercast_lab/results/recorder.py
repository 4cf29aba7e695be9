"""Writes a run's rows to disk within a second of their arrival, and reads them back.

rows/<kind>.jsonl      during a run, and after one that was broken off: one JSON object per row, as
                       tiercast-ns3 writes it (docs/ns3.md); the last line may be incomplete
rows/<kind>.parquet    after a run that ended
"""

from __future__ import annotations

import io
import json
import math
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from io import FileIO
from pathlib import Path

import polars as pl
from tiercast_controller.base.bounded_yaml import kind_of_file, shown

from tiercast_lab.base.errors import InputError, RunFailed, writing
from tiercast_lab.results.queue_drops import with_queue_drops

FLUSH_S = 0.5
HURRY_S = 0.02
KIND = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*")  # kinds become file names
TEXT = ("agent", "link")  # text columns in the rows that measures read
TEXT_OF = {"trace": ("flow", "fate", "by", "lines"), "state": ("name",)}  # and by kind
# The words of a text column, where others would mean nothing.
WORDS_OF = {("trace", "fate"): ("passed", "marked", "dropped", "full", "lost")}
CONTROLLERS = "controller."  # kinds of rows that only people read, with more text columns

Frames = dict[str, pl.DataFrame]  # by kind


class Recorder:
    """Accepts rows while it is entered. A thread writes them, so that no caller waits for the disk.
    On exit all rows are on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._waiting: dict[str, list[bytes]] = defaultdict(list)
        self._calls: list[Callable[[], None]] = []  # when what waits is written
        self._lock = threading.Lock()  # guards _waiting and _calls
        self._files: dict[str, FileIO] = {}
        self._ending = False
        self._flush_s = FLUSH_S
        self._woken = threading.Event()
        self._writer = threading.Thread(target=self._write_until_the_end, name="rows", daemon=True)
        self._error: OSError | None = None

    def __enter__(self) -> Recorder:
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        self._writer.start()
        return self

    def __exit__(self, kind: object, *_error: object) -> None:
        self._ending = True
        self._woken.set()
        self._writer.join()
        for file in self._files.values():
            file.close()
        if kind is None:
            self.check()

    def add(
        self, kind: str, time_s: float, agent: str, fields: Mapping[str, float | str | None]
    ) -> None:
        """Adds a row. `time_s` counts from the start of the run. A field that is not finite becomes
        null."""
        if not KIND.fullmatch(kind):
            raise RunFailed(f"{agent}: a row of kind {kind!r}; valid: {KIND.pattern}")
        row = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in fields.items()
        }
        row |= {"time_ns": round(time_s * 1e9), "agent": agent, "kind": kind}
        self.add_line(kind, json.dumps(row).encode() + b"\n")

    def add_line(self, kind: str, line: bytes) -> None:
        """Adds a row that is already in the form of the file."""
        with self._lock:
            self._waiting[kind].append(line)

    def when_written(self, call: Callable[[], None]) -> None:
        """`call` is called, on another thread, when the rows that were added before are in their
        files: they outlive this process then, not this machine."""
        with self._lock:
            self._calls.append(call)

    def hurry(self) -> None:
        """From now on rows are written at once, as somebody waits for that."""
        self._flush_s = HURRY_S
        self._woken.set()

    def check(self) -> None:
        """Raises InputError if the disk has refused rows, for example because it is full."""
        if self._error is not None:
            with writing(self.folder):
                raise self._error

    def _write_until_the_end(self) -> None:
        try:
            while not self._ending:
                self._woken.wait(self._flush_s)
                self._woken.clear()
                self._write()
            self._write()
        except OSError as error:
            self._error = error

    def _write(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, defaultdict(list)
            calls, self._calls = self._calls, []
        for kind, lines in waiting.items():
            file = self._files.get(kind)
            if file is None:
                file = self._files[kind] = FileIO(self.folder / f"{kind}.jsonl", "a")
            content = memoryview(b"".join(lines))
            while content:  # a disk that is nearly full accepts only a part
                content = content[file.write(content) :]
        for call in calls:
            call()


def require_files(*paths: Path) -> None:
    """Raises InputError for files that would block when read: a FIFO or a device."""
    for path in paths:
        if (kind := kind_of_file(path)) not in ("a file", ""):
            raise InputError(f"{path}: {kind}; valid: a file")


def read_rows(folder: Path) -> Frames:
    """The rows of a run, whether or not it ended. Raises InputError if a file is incomplete or
    holds something else."""
    require_files(*folder.glob("*.parquet"), *folder.glob("*.jsonl"))
    return checked_rows(folder, _read_rows(folder))


def checked_rows(folder: Path, frames: Frames) -> Frames:
    """The rows that were read from a folder, with the drops that a switch cannot count filled in.
    Raises InputError if they are not the rows of a run."""
    for kind, frame in frames.items():
        types = {name: str(of) for name, of in frame.schema.items()}
        if not types.get("time_s", "").startswith("Float") or types.get("agent") != "String":
            raise InputError(
                f"{folder}: {kind} is not a table of rows; valid: numbers in time_s, text in agent"
            )
        if frame["time_s"].null_count() or frame["agent"].null_count():
            raise InputError(f"{folder}: {kind} has rows without time_s or agent; valid: both")
        for name, of in frame.schema.items():
            is_text = name in (*TEXT, *TEXT_OF.get(kind, ())) or kind.startswith(CONTROLLERS)
            if not (of.is_numeric() or of == pl.Boolean or (is_text and of == pl.String)):
                raise InputError(f"{folder}: {kind} has {of} in {name}; valid: numbers")
            if words := WORDS_OF.get((kind, name)):
                for strange in set(frame[name].unique()) - set(words):
                    raise InputError(
                        f"{folder}: {kind} has {shown(strange)} in {name}; valid: "
                        f"{', '.join(words)}"
                    )
    return with_queue_drops(frames)


def _read_rows(folder: Path) -> Frames:
    frames = {}
    for path in folder.glob("*.parquet"):
        try:
            frames[path.name.removesuffix(".parquet")] = pl.read_parquet(path)
        except (OSError, pl.exceptions.PolarsError) as error:
            # The lines from which it was made, if they still exist, are next to it.
            if not path.with_suffix(".jsonl").exists():
                raise InputError(f"{path}: not Parquet: {error}") from None
    for path in folder.glob("*.jsonl"):
        frame = _read_lines(path)
        if not frame.is_empty():
            frames[path.name.removesuffix(".jsonl")] = frame
    return dict(sorted(frames.items()))


def _read_lines(path: Path) -> pl.DataFrame:
    """The rows by time, without a last line that was only half written when the run was stopped."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: not lines of JSON: {error}") from None
    return rows_of_lines(content[: content.rfind(b"\n") + 1], path)


def rows_of_lines(lines: bytes, path: Path) -> pl.DataFrame:
    """The rows in whole lines of a file of rows, by time. Raises InputError."""
    if not lines:
        return pl.DataFrame()
    try:
        frame = pl.read_ndjson(io.BytesIO(lines), infer_schema_length=None)
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{path}: not lines of JSON: {error}") from None
    times = frame["time_ns"]
    if times.dtype != pl.Int64 or times.null_count():
        raise InputError(f"{path}: {times.dtype} in time_ns; valid: a whole number in each row")
    # polars would multiply by 1e-9, which does not give exactly 0.3.
    time_s = pl.Series("time_s", times.to_numpy() / 1e9)
    fields = pl.exclude("time_ns", "agent", "kind")
    # A column that this kind of switch does not count holds unknown numbers.
    frame = frame.with_columns(pl.selectors.by_dtype(pl.Null).cast(pl.Float64))
    return frame.select(time_s, "agent", fields).sort("time_s", maintain_order=True)


def finish_rows(folder: Path) -> Frames:
    """Turns the lines of a run that ended into Parquet and returns its rows. Raises OSError if the
    disk is full; the lines then stay."""
    frames = read_rows(folder)
    for kind, frame in frames.items():
        lines = folder / f"{kind}.jsonl"
        if lines.exists():
            write_parquet(folder, kind, frame)
    for lines in folder.glob("*.jsonl"):
        lines.unlink()
    return frames


def write_parquet(folder: Path, kind: str, frame: pl.DataFrame) -> None:
    # Through memory, because polars's own errors do not say that a disk is full.
    content = io.BytesIO()
    frame.write_parquet(content)
    (folder / f"{kind}.parquet").write_bytes(content.getvalue())
