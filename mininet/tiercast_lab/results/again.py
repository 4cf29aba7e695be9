"""A stored run made again: its experiment, from the run's folder alone, and whether the rows are
the same."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tiercast_lab.base.errors import InputError, among
from tiercast_lab.base.frames import as_float
from tiercast_lab.base.machine import shown_path
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.loading import loaded_again
from tiercast_lab.experiment.programs import places_of
from tiercast_lab.experiment.schemes import SchemeInfo
from tiercast_lab.experiment.yaml_source import KeyPath
from tiercast_lab.results.storage import StoredRun


def experiment_of(run: StoredRun, schemes: dict[str, SchemeInfo]) -> LoadedExperiment:
    """The experiment that the run was made of, with its settings. Raises InputError if this version
    of tiercast refuses it."""
    place = f"{run.directory}/summary.json: experiment"
    data = copy.deepcopy(run.summary["experiment"])
    for path in places_of(data):
        _take_copies(run, data, path)
    return loaded_again(data, place, run.sources, schemes)


def _take_copies(run: StoredRun, data: Any, path: KeyPath) -> None:
    """Replaces a program's files by the run's copies."""

    def copied(name: str) -> str:
        kept = run.summary.get("sources", {}).get(shown_path(Path(name)))
        return str(run.directory / kept) if kept else name

    for key in path:
        data = data[key]
    for key in ("json", "p4info", "manifest"):
        if data.get(key) is not None:
            data[key] = copied(data[key])
    data["sources"] = [copied(name) for name in data.get("sources", ())]


@dataclass(frozen=True)
class Difference:
    """The first place at which the rows of two runs differ: a table, or a row of it."""

    table: str
    time_s: float
    text: str  # what each run has there

    def __str__(self) -> str:
        return f"{self.table}, {self.time_s:.6f} s: {self.text}"


def first_difference(
    stored: Mapping[str, pl.DataFrame], again: Mapping[str, pl.DataFrame]
) -> Difference | None:
    """The earliest row in which two runs differ, in any table; None if all rows are the same."""
    found = [_of_table(name, stored.get(name), again.get(name)) for name in {*stored, *again}]
    return min(
        (one for one in found if one is not None),
        key=lambda one: (one.time_s, one.table),
        default=None,
    )


def _of_table(
    name: str, stored: pl.DataFrame | None, again: pl.DataFrame | None
) -> Difference | None:
    if stored is None or again is None:
        there, whose = (again, "the new") if stored is None else (stored, "the stored")
        assert there is not None  # the name is of one of the two
        start = as_float(there["time_s"].min()) if len(there) else 0.0
        return Difference(name, start, f"a table of {whose} run alone")
    if set(stored.columns) != set(again.columns):
        start = as_float(stored["time_s"].min()) if len(stored) else 0.0
        only = sorted(set(stored.columns) ^ set(again.columns))
        return Difference(name, start, f"columns of one run alone: {', '.join(only)}")
    both = min(len(stored), len(again))
    rows: list[tuple[int, str]] = []  # the first of each column
    for column in stored.columns:
        ours, theirs = stored[column].head(both), again[column].head(both)
        if ours.dtype.is_numeric() != theirs.dtype.is_numeric():
            ours, theirs = ours.cast(pl.String), theirs.cast(pl.String)
        if (differing := ours.ne_missing(theirs).arg_true()).len():
            rows.append((int(differing[0]), column))
    if rows:
        row = min(row for row, _ in rows)
        said = [
            f"{column} {_shown(stored[column][row])}, now {_shown(again[column][row])}"
            for at, column in rows
            if at == row
        ]
        text = f"row {row + 1} ({stored['agent'][row]}): {'; '.join(said)}"
        return Difference(name, float(stored["time_s"][row]), text)
    if len(stored) != len(again):
        longer = stored if len(stored) > both else again
        text = f"{len(stored)} rows, now {len(again)}"
        return Difference(name, float(longer["time_s"][both]), text)
    return None


def _shown(value: object) -> str:
    return "none" if value is None else repr(value) if isinstance(value, str) else str(value)


def changed_parts(stored: StoredRun, again: StoredRun) -> list[str]:
    """The versions and programs that differ between two runs: what may have caused a difference."""
    found = []
    before, now = stored.summary["versions"], again.summary["versions"]
    for name in dict.fromkeys((*before, *now)):
        if name in before and before[name] != now.get(name):
            found.append(f"{name} {before[name]}, now {now.get(name)}")
    for name, digest in stored.programs.items():
        if (other := again.programs.get(name)) != digest:
            found.append(f"{name} {digest[:12]}, now {other[:12] if other else 'none'}")
    return found


RUNTIMES = {"ns3": ("tiercast",), "mininet": ("tiercast", "bmv2")}  # the switches of each


def runtime_of(run: StoredRun) -> tuple[str, str]:
    """The runtime and the switch of a run. Raises InputError for one that there is none of."""
    place = f"{run.directory}/summary.json"
    runtime, switch = run.summary["runtime"], run.summary["switch"]
    if runtime not in RUNTIMES:
        raise InputError(f"{place}: runtime: {among(runtime, RUNTIMES)}")
    if switch not in RUNTIMES[runtime]:
        raise InputError(f"{place}: switch: {among(switch, RUNTIMES[runtime])}")
    return runtime, switch
