"""The runs in a folder of results: their names, what there is to say of each in a list, and the
folder of one. A name that the folder does not list leads nowhere."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tiercast_lab.base.errors import InputError, among
from tiercast_lab.results.storage import INCOMPLETE, is_under_way, load_run

LATEST = "latest"
TAIL_BYTES = 1 << 16  # of a file of rows: more than its last line
# Kinds of which each run has rows as long as it goes on, and few of them.
CLOCKS = ("machine", "feedback", "port", "layer")


class NoSuchRun(InputError):
    pass


class RunStore:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[str, tuple[tuple[int, int], dict[str, Any]]] = {}  # by name

    def names(self) -> list[str]:
        """The newest first."""
        try:
            with os.scandir(self.folder) as entries:
                found = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return []
        return sorted(
            (name for name in found if (self.folder / name / "summary.json").is_file()),
            reverse=True,
        )

    def directory(self, name: str) -> Path:
        """The folder of a run, or of the one that `latest` names. Raises NoSuchRun."""
        names = self.names()
        if name == LATEST:
            name = Path(os.path.realpath(self.folder / LATEST)).name
        if name not in names:
            raise NoSuchRun(f"no run {among(name, names)}")
        return self.folder / name

    def listed(self) -> list[dict[str, Any]]:
        """What the list of runs says: those under way first, then the newest first."""
        entries = [self._entry(name) for name in self.names()]
        return sorted(entries, key=lambda entry: not entry["live"])

    def _entry(self, name: str) -> dict[str, Any]:
        directory = self.folder / name
        live = is_under_way(directory)
        entry = {"run": name, "live": live} | self._described(directory)
        if live:
            entry["now"] = _time_of_last_row(directory / "rows")
        elif entry.get("verdict") == INCOMPLETE:
            entry["verdict"] = "broken off"
        return entry

    def _described(self, directory: Path) -> dict[str, Any]:
        """Read again if summary.json has changed."""
        try:
            found = (directory / "summary.json").stat()
        except OSError as error:
            return {"problem": f"{error.filename}: {error.strerror}"}
        state = found.st_mtime_ns, found.st_size
        known = self._known.get(directory.name)
        if known is None or known[0] != state:
            known = self._known[directory.name] = state, _read(directory)
        return known[1]


def _read(directory: Path) -> dict[str, Any]:
    try:
        summary = load_run(directory).summary
    except InputError as error:
        return {"problem": str(error)}
    sessions = summary["network"]["sessions"]
    return {
        "title": summary["title"],
        "schemes": sorted({session["scheme"] for session in sessions}),
        "started": summary["started"],
        "runtime": summary["runtime"],
        "seed": summary["seed"],
        "duration": summary["duration_s"],
        "receivers": sum(len(session["receivers"]) for session in sessions),
        "verdict": summary["verdict"],
        "captures": [one["link"] for one in summary.get("captures", ())],
    }


def _time_of_last_row(rows: Path) -> float:
    """The time in s that a run under way has reached; 0 before its first row."""
    for kind in CLOCKS:
        try:
            with (rows / f"{kind}.jsonl").open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
                lines = file.read().split(b"\n")
            return float(json.loads(lines[-2])["time_ns"]) / 1e9
        except (OSError, IndexError, ValueError, KeyError, TypeError):
            continue
    return 0.0
