"""results/<run>/: a run's rows, what is known of it, and how both are read again.

rows/<kind>.parquet   one table per kind of record, columns as in docs/experiments.md
summary.json          experiment, seed, versions, machine, validity, measures, expected figures
metadata.json         interfaces, qdiscs, offloads, sysctls and counters before and after
logs/                 output of every process
plots/, report.html   made from the above alone
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import secrets
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from tiercast_lab.errors import InputError
from tiercast_lab.measures import Context, context_of, measures_version, spec_of

FORMAT = 1  # of summary.json and rows/


class Recorder:
    """Collects rows in memory while a run goes on; numbers only, beside `agent`."""

    def __init__(self) -> None:
        self._rows: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def add(self, kind: str, time_s: float, agent: str, fields: dict[str, float]) -> None:
        self._rows[kind].append({"time_s": time_s, "agent": agent, **fields})

    def last(self, kind: str) -> list[dict[str, Any]]:
        return self._rows.get(kind, [])

    def frames(self) -> dict[str, pl.DataFrame]:
        return {
            kind: pl.DataFrame(rows, infer_schema_length=None).sort("time_s", maintain_order=True)
            for kind, rows in sorted(self._rows.items())
        }


def new_run_id(results: Path) -> str:
    """Four hexadecimal digits that no stored run of this folder has."""
    taken = {path.name.rpartition("-")[2] for path in results.glob("*")}
    while (run := secrets.token_hex(2)) in taken:
        pass
    return run


def make_run_directory(results: Path, name: str, run: str) -> Path:
    path = results / f"{time.strftime('%Y%m%d-%H%M%S')}-{name}-{run}"
    (path / "logs").mkdir(parents=True)
    return path


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """InputError, with the place, for what the disk refuses: it is full, or not ours to write."""
    try:
        yield
    except OSError as error:
        place = error.filename or folder
        raise InputError(
            f"{place}: {error.strerror or error}; valid: a folder that can be written, with room"
        ) from None


def write_rows(directory: Path, frames: dict[str, pl.DataFrame]) -> None:
    (directory / "rows").mkdir(exist_ok=True)
    for kind, frame in frames.items():
        # Through memory: polars's own errors do not say that a disk is full.
        content = io.BytesIO()
        frame.write_parquet(content)
        (directory / "rows" / f"{kind}.parquet").write_bytes(content.getvalue())


def write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(to_json(value) + "\n")


def to_json(value: Any) -> str:
    return json.dumps(_finite(value), indent=2)


def _finite(value: Any) -> Any:
    """JSON has no NaN; a figure that is not a number is null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def point_latest(directory: Path) -> None:
    """Replaces results/latest in one step, so that a reader never finds it missing."""
    link = directory.parent / "latest"
    scratch = directory.parent / f".latest-{directory.name}"
    scratch.symlink_to(directory.name)
    os.replace(scratch, link)


@dataclass(frozen=True)
class StoredRun:
    directory: Path
    summary: dict[str, Any]

    @cached_property
    def rows(self) -> dict[str, pl.DataFrame]:
        """By kind. InputError where a file is not whole."""
        return {
            path.name.removesuffix(".parquet"): _read_rows(path)
            for path in sorted((self.directory / "rows").glob("*.parquet"))
        }

    @property
    def context(self) -> Context:
        return context_of(self.summary)

    @property
    def scheme(self) -> str:
        return self.summary["experiment"]["sessions"][0]["scheme"]


def _read_rows(path: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{path}: not Parquet: {error}") from None


def load_run(directory: Path) -> StoredRun:
    """InputError where the folder holds no run of this format."""
    path = directory / "summary.json"
    try:
        summary = json.loads(path.read_text())
    except OSError as error:
        stored = sorted(found.parent.name for found in directory.parent.glob("*/summary.json"))
        newest = f", such as {stored[-1]}" if stored else ""
        valid = f"valid: a folder below results/{newest}"
        raise InputError(f"{path}: {error.strerror}; {valid}") from None
    except ValueError as error:
        raise InputError(f"{path}: not JSON: {error}") from None
    if not isinstance(summary, dict) or summary.get("format") != FORMAT:
        seen = summary.get("format") if isinstance(summary, dict) else None
        raise InputError(f"{path}: format {seen!r}; valid: {FORMAT}")
    return StoredRun(directory, summary)


def measured(measures: dict[str, float | None]) -> dict[str, Any]:
    """The part of a summary that says what was measured, and by which version."""
    return {
        "measures": {
            name: {"value": value, "unit": spec_of(name)[0].unit}
            for name, value in measures.items()
        },
        "measured_by": measures_version(),
    }
