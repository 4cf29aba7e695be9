"""A run that is watched: its frames, and, while it goes on, those that its newest rows add.

A run under way writes its rows to its folder twice a second (results/recorder.py). Here they are
read from where the last reading ended, so nothing that happens here can slow the run.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import polars as pl

from tiercast_lab.base.frames import as_float
from tiercast_lab.measures.rows import Rows
from tiercast_lab.results.recorder import Frames, checked_rows, rows_of_lines
from tiercast_lab.results.storage import StoredRun, is_under_way, load_run, reading
from tiercast_lab.watch.frames import Frame, frames_between
from tiercast_lab.watch.scene import Scene, scene_of

PERIOD_S = 0.5  # between readings of a run under way
# A port reports, and an agent hands over its rows, once a second: so late may a row of a moment
# come after those of others.
LATEST_ROW_S = 1.2
REGULAR = ("port", "received", "layer")  # kinds of which rows come all the time


class Watched:
    """Threads may use it at once. `run`, `frames` and `live` are replaced, never changed, except
    that frames are added at the end."""

    def __init__(self, directory: Path) -> None:
        """Raises InputError if the folder holds no run, or rows that are not a run's."""
        self.run: StoredRun = load_run(directory)
        self.scene: Scene = scene_of(self.run)
        self.frames: list[Frame] = []
        self.live = False
        self._rows = _GrowingRows(directory / "rows")
        self._complete_s = 0.0  # all rows up to then are on disk
        self._read_at = float("-inf")
        self._lock = threading.Lock()
        self.refresh()
        if not self.live:
            self._take_all(directory)

    def refresh(self) -> None:
        """Reads what a run under way has written, unless that was done half a period ago. Raises
        InputError."""
        with self._lock:
            directory = self.run.directory
            if time.monotonic() - self._read_at < PERIOD_S / 2:
                return
            self._read_at = time.monotonic()
            if not is_under_way(directory):
                if self.live:
                    self._take_all(directory)
                return
            self.live = True
            self._rows.read()
            # Rows of one moment are written within one period, kind after kind. What the reading
            # before saw the first of is whole by now.
            self._add_frames(self._complete_s)
            self._complete_s = self._rows.newest_s - LATEST_ROW_S

    def _take_all(self, directory: Path) -> None:
        """Frames of a run that has ended, from all its rows, in place of those made so far."""
        self.run = load_run(directory)
        with reading(directory):
            self.frames = frames_between(self.run, self.scene, 0.0, self.run.end_s)
        self.live = False

    def _add_frames(self, end_s: float) -> None:
        start_s = self.frames[-1]["t"] if self.frames else 0.0
        if end_s < start_s + self.scene.step_s:
            return
        self.run = replace(self.run, rows_so_far=self._rows.all())
        with reading(self.run.directory):
            self.frames += frames_between(self.run, self.scene, start_s, end_s)


class _GrowingRows:
    """The lines of a run's rows, read on from where the last reading ended."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read_bytes: dict[str, int] = {}  # by kind
        self._frames: Frames = {}
        self.newest_s = 0.0  # of the regular kinds

    def read(self) -> None:
        """Raises InputError."""
        for path in sorted(self._folder.glob("*.jsonl")):
            kind = path.name.removesuffix(".jsonl")
            begin = self._read_bytes.get(kind, 0)
            try:
                with path.open("rb") as file:
                    file.seek(begin)
                    content = file.read()
            except OSError:
                continue  # the run has just ended
            lines = content[: content.rfind(b"\n") + 1]
            if not lines:
                continue
            new = rows_of_lines(lines, path)
            old = self._frames.get(kind)
            # A column may be unknown, and so without a type, in the first lines.
            self._frames[kind] = (
                new if old is None else pl.concat([old, new], how="diagonal_relaxed")
            )
            self._read_bytes[kind] = begin + len(lines)
            if kind in REGULAR:
                self.newest_s = max(self.newest_s, as_float(new["time_s"].max()))

    def all(self) -> Rows:
        return Rows(checked_rows(self._folder, dict(self._frames)))
