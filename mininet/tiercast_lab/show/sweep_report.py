"""Writes a sweep's results to results/sweeps/<name>/: sweep.json, cells.csv and cells.parquet (one
row per cell), a picture for each measure, and report.html."""

from __future__ import annotations

import json
import shlex
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from tiercast_lab.base import binaries, machine
from tiercast_lab.base.errors import InputError
from tiercast_lab.base.whole_file import write_whole
from tiercast_lab.measures import find_spec, spec_of
from tiercast_lab.results import storage
from tiercast_lab.show import pages
from tiercast_lab.show.sweep_plot import draw_measures
from tiercast_lab.show.wording import mean_text
from tiercast_lab.study.sweep_results import QUANTILES, CellResult, Distribution, SweepResults


def write_sweep(
    results: SweepResults, folder: Path, command: list[str], quick: bool = False
) -> tuple[Path, Any]:
    """Writes results/sweeps/<name>/. Returns the report's path and the contents of sweep.json.
    `quick`: only the first seed was run."""
    sweep = results.spec.sweep
    directory = folder / sweep.name
    directory.mkdir(parents=True, exist_ok=True)
    summary = _summary(results, command, quick)
    storage.write_json(directory / "sweep.json", summary)
    table = _table(results)
    write_whole(directory / "cells.csv", table.write_csv())
    columns = BytesIO()
    table.write_parquet(columns)
    write_whole(directory / "cells.parquet", columns.getvalue())
    pictures = draw_measures(results, directory)
    report = directory / "report.html"
    write_whole(
        report,
        pages.render(
            "sweep.html.j2",
            summary=summary,
            measures=[
                {
                    "name": spec_of(name)[1],
                    "purpose": find_spec(name).purpose,
                    "picture": pages.embedded(pictures[name]),
                    "distributions": [_shown_spread(one) for one in results.distributions(name)],
                }
                for name in sweep.measures
            ],
            rows=[_shown(one, sweep.measures) for one in results.cells],
            reasons=sorted({one.cell.excluded for one in results.cells if one.cell.excluded}),
            command=shlex.join(command),
            over=sweep.distribution_over,
            quantiles=[share_name(share) for share in QUANTILES],
        ),
    )
    return report, summary


def whole_results(folder: Path) -> dict[str, Any]:
    """The contents of sweep.json in a sweep's folder. Raises InputError if they are of a part of
    the sweep's cells or seeds, or if a run failed."""
    path = folder / "sweep.json"
    try:
        summary: dict[str, Any] = json.loads(path.read_text())
        chosen, quick, failures = summary["only"], summary["quick"], summary["failures"]
    except OSError as error:
        wrong, name = str(error.strerror), folder.name
    except (KeyError, TypeError, ValueError):
        wrong, name = "not the results of a sweep as it is written today", folder.name
    else:
        if not (chosen or quick or failures):
            return summary
        part = [*(f"--only {one}" for one in chosen), *(["--quick"] if quick else [])]
        wrong = "; ".join([*([f"only of {' '.join(part)}"] if part else []), *failures])
        name = shlex.quote(summary["file"])
    valid = f"valid: what `{binaries.COMMAND} sweep {name}` writes where no run fails"
    raise InputError(f"{path}: {wrong}; {valid}")


def _summary(results: SweepResults, command: list[str], quick: bool) -> dict[str, Any]:
    sweep = results.spec.sweep
    return {
        "sweep": sweep.name,
        "title": sweep.title,
        "runtime": results.runtime,
        "file": str(results.spec.path),
        "command": command,
        "only": list(results.spec.chosen),
        "quick": quick,
        "axes": {axis: [one.name for one in settings] for axis, settings in sweep.axes.items()},
        "seeds": sorted({o.task.run.seed for one in results.cells for o in one.outcomes}),
        "measures": {name: find_spec(name).unit for name in sweep.measures},
        "runs": sum(len(one.outcomes) for one in results.cells),
        "failures": results.failures,
        "distribution_over": sweep.distribution_over,
        "distributions": [
            _distribution_summary(one)
            for measure in sweep.measures
            for one in results.distributions(measure)
        ],
        "cells": [_cell_summary(one) for one in results.cells],
        "versions": machine.versions(),
    }


def _cell_summary(result: CellResult) -> dict[str, Any]:
    return {
        "cell": dict(result.cell.names),
        "excluded": result.cell.excluded or None,
        "measures": {name: one and vars(one) for name, one in result.means.items()},
        "runs": [
            {
                "seed": one.task.run.seed,
                "measures": {name: one.measures.get(name) for name in result.means},
                "failure": one.failure or None,
                "directory": str(one.directory),
                "command": one.task.command,
            }
            for one in result.outcomes
        ],
    }


def share_name(share: float) -> str:
    return "median" if share == 0.5 else f"{share:.0%}".replace("%", " %")


def _distribution_summary(one: Distribution) -> dict[str, Any]:
    ends = {"lowest": one.cells[0], "highest": one.cells[-1]}
    return {
        "cell": dict(one.names),
        "measure": one.measure,
        "cells": len(one.cells),
        "missing": one.missing,
        "mean": one.mean,
        "quantiles": {f"{share:g}": one.quantile(share) for share in QUANTILES},
    } | {
        which: {
            "cell": dict(cell.cell.names),
            "value": cell.value(one.measure),
            "command": cell.outcomes[0].task.command,
        }
        for which, cell in ends.items()
    }


def _shown_spread(one: Distribution) -> dict[str, Any]:
    """A row of a measure's table, with the commands that repeat the runs at both ends of the
    distribution."""
    show, (over,) = spec_of(one.measure)[0].show, one.cells[0].cell.names.keys() - one.names.keys()
    ends = one.cells[0], one.cells[-1]
    return {
        "name": str(one),
        "cells": len(one.cells),
        "missing": one.missing,
        "values": [show(one.quantile(share)) for share in QUANTILES],
        "ends": [
            {
                "value": show(cell.value(one.measure)),
                "name": cell.cell.names[over],
                "command": shlex.join(cell.outcomes[0].task.command),
            }
            for cell in ends
        ],
    }


def _table(results: SweepResults) -> pl.DataFrame:
    """One row per cell: its settings, the number of runs, and for each measure the mean and half of
    its 95 % interval (`<measure>_95`)."""
    rows = []
    for result in results.cells:
        row: dict[str, Any] = dict(result.cell.names)
        row["runs"] = sum(not one.failure for one in result.outcomes)
        for name, value in result.means.items():
            row[name] = value and value.value
            row[f"{name}_95"] = value and value.spread
        rows.append(row)
    numbers = {
        column: pl.Float64
        for name in results.spec.sweep.measures
        for column in (name, f"{name}_95")
    }
    return pl.DataFrame(rows, schema_overrides=numbers, infer_schema_length=None)


def _shown(result: CellResult, measures: list[str]) -> dict[str, Any]:
    return {
        "names": list(result.cell.names.values()),
        "excluded": result.cell.excluded,
        "values": [mean_text(name, result.means[name]) for name in measures],
        "failed": bool(result.failures),
    }
