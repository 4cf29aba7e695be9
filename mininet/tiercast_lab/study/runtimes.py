"""What the figures measure in each runtime, as scaled for real time: from stored runs alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiercast_lab.base.errors import InputError
from tiercast_lab.experiment.figure_schema import FigureRun
from tiercast_lab.experiment.schemes import SchemeInfo
from tiercast_lab.results import storage
from tiercast_lab.study.figure_results import VERDICTS, FigureResults
from tiercast_lab.study.figure_spec import FigureSpec
from tiercast_lab.study.runs import Outcome, Store, stored_outcome
from tiercast_lab.study.target import MININET, MININET_BMV2, VIRTUAL, Target, is_installed

TARGETS = (VIRTUAL, MININET, MININET_BMV2)
FAR = 0.1  # a difference above this share of the number in virtual time needs a reason

Record = dict[str, Any]


def targets_here() -> list[Target]:
    """The targets whose programs are installed."""
    return [one for one in TARGETS if is_installed(one)]


def record_of(
    figure: FigureSpec,
    schemes: dict[str, SchemeInfo],
    store: Store,
    made: Sequence[Outcome[FigureRun]] = (),
    before: Record | None = None,
) -> Record:
    """What is known of a figure in each runtime. `made` are outcomes of runs made just now, for the
    reasons of those that failed. What is known of a target from `before` stays if no run of it is
    stored, unless the figure is scaled otherwise today."""
    record: Record = {
        "figure": figure.name,
        "title": figure.experiment.title,
        "paper": figure.reference,
        "refused": figure.mininet.refused,
        "scaling": [],
        "differs": [one.model_dump() for one in figure.mininet.differs],
        "targets": {},
    }
    try:
        scaled = {target: figure.on(target) for target in TARGETS}
    except InputError:
        return record
    record["scaling"] = scaled[MININET].scaling
    kept = before["targets"] if before and before["scaling"] == record["scaling"] else {}
    for target, spec in scaled.items():
        name = target_name(target)
        found = _side(spec, schemes, store, [one for one in made if one.task.target == target])
        if not found["stored"] and not found["reasons"] and name in kept:
            found = kept[name]
        record["targets"][name] = found
    return record


def target_name(target: Target) -> str:
    return target.switch if target == MININET_BMV2 else target.runtime


def _side(
    figure: FigureSpec,
    schemes: dict[str, SchemeInfo],
    store: Store,
    made: Sequence[Outcome[FigureRun]],
) -> Record:
    """A figure on one target: how many of its runs are stored, why the others are not, and, if all
    are and are valid, what was measured."""
    tasks = figure.tasks(quick=False)
    outcomes = []
    if is_installed(figure.target):
        outcomes = [one for task in tasks if (one := stored_outcome(task, schemes, store))]
    valid = [one for one in outcomes if not one.failure]
    reasons = [one.failure for one in (*outcomes, *made) if one.failure]
    summaries = [storage.load_run(one.directory).summary for one in outcomes]
    complete = len(valid) == len(tasks)
    return {
        "runs": len(tasks),
        "stored": len(valid),
        "reasons": list(dict.fromkeys(reasons)),
        "commits": sorted({str(one["versions"]["commit"]) for one in summaries}),
        "cores": sorted({one["machine"]["cores"] for one in summaries}),
        "cpu_percent": max((cpu for one in summaries if (cpu := _cpu(one))), default=None),
        "values": _values(FigureResults(figure, valid)) if complete else [],
    }


def _cpu(summary: dict[str, Any]) -> float | None:
    """% of one core that a run in real time took."""
    checks = summary["validity"]["checks"]
    return next((one["measured"] for one in checks if one["name"] == "cpu"), None)


def _values(results: FigureResults) -> list[Record]:
    kept = ("measure", "curve", "x", "over", "measured", "text", "verdict", "gate")
    rows = [{name: getattr(one, name) for name in kept} for one in results.judge()]
    # The same number may be judged by several bounds; the worst verdict stands first.
    # A bound that is only reported has no verdict, and stands last.
    rows.sort(key=lambda row: (*VERDICTS, "").index(row["verdict"]))
    by_key: dict[tuple[str, str, float, str], Record] = {}
    for row in rows:
        by_key.setdefault(_key(row), row)
    order = dict.fromkeys((one.measure, one.curve, one.x, one.over) for one in results.judge())
    return [by_key[key] for key in order]


def _key(row: Record) -> tuple[str, str, float, str]:
    return row["measure"], row["curve"], row["x"], row["over"]


def compared(record: Record) -> list[Record]:
    """Each judged number of a figure with its values by target and, for those in real time, their
    differences from virtual time as a share of it. `why` is the reason given for a large one."""
    targets = record["targets"]
    by_target = {name: {_key(row): row for row in one["values"]} for name, one in targets.items()}
    rows: dict[tuple[str, str, float, str], Record] = {}
    for values in by_target.values():
        for key, row in values.items():
            rows.setdefault(key, row)
    return [_compared(record, row, by_target) for row in rows.values()]


def _compared(record: Record, row: Record, by_target: dict[str, dict[Any, Record]]) -> Record:
    values = {name: its.get(_key(row)) for name, its in by_target.items()}
    virtual = values.get(VIRTUAL.runtime)
    differences = {
        name: _difference(virtual, value) for name, value in values.items() if value is not virtual
    }
    far = [name for name, one in differences.items() if one is not None and abs(one) > FAR]
    reasons = [
        one["why"]
        for one in record["differs"]
        if one["measure"] in (None, row["measure"]) and one["curve"] in (None, row["curve"])
    ]
    kept = {name: row[name] for name in ("measure", "curve", "x", "over", "gate")}
    return kept | {
        "texts": {name: value["text"] for name, value in values.items() if value},
        "verdicts": {name: value["verdict"] for name, value in values.items() if value},
        "differences": differences,
        "far": far,
        "why": reasons[0] if far and reasons else None,
    }


def _difference(virtual: Record | None, value: Record | None) -> float | None:
    if not virtual or not value or value["measured"] is None or not virtual["measured"]:
        return None
    return float((value["measured"] - virtual["measured"]) / abs(virtual["measured"]))
