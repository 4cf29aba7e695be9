"""One experiment from the YAML to the verdict: run, rows, measures, summary, plots, report."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from tiercast_lab.base import machine
from tiercast_lab.base.errors import EXIT_INVALID, EXIT_MET, EXIT_NOT_MET, LabError, writing
from tiercast_lab.base.interrupt import Interrupt
from tiercast_lab.experiment.schema import Loaded
from tiercast_lab.measures import Context, Rows, all_measures, context_of
from tiercast_lab.results import storage
from tiercast_lab.results.conservation import conservation
from tiercast_lab.results.recorder import Recorder, finish_rows
from tiercast_lab.results.storage import RunFolder
from tiercast_lab.results.verdict import as_dict, bounds_of, judge, validity, verdict
from tiercast_lab.run.network_summary import network_facts
from tiercast_lab.run.progress import Progress
from tiercast_lab.run.runtime import Execution
from tiercast_lab.show.run_report import write_report
from tiercast_lab.show.terminal import View, make_view, result_tables

STATUS = {
    "met": EXIT_MET,
    "reported": EXIT_MET,
    "not met": EXIT_NOT_MET,
    "invalid": EXIT_INVALID,
}


@dataclass(frozen=True)
class Options:
    seed: int
    runtime: str
    switch: str
    results: Path
    command: list[str]  # as typed, for the report's "how to repeat"
    report: bool = True


def conduct(loaded: Loaded, options: Options, console: Console) -> int:
    """The exit status: 0 met (or nothing required), 1 not met, 3 invalid. Raises LabError else;
    of a run that had begun, what there is of it is kept."""
    folder = RunFolder(options.results, loaded.experiment.name)
    summary = _known_before(loaded, options, folder)
    view = make_view(console)
    run = _make_run(loaded, options, folder, view, context_of(summary))
    run.check()
    summary["files"] = machine.digests([*loaded.sources, *run.files])
    folder.make(summary)
    with Interrupt() as interrupt, view:
        try:
            with run.recorder:
                run.execute(interrupt)
            run.enter("judging and plotting")
            with writing(folder.path):
                rows = Rows(finish_rows(folder.rows))
            summary |= _judged(run, rows)
            with writing(folder.path):
                _write(run, summary)
        except BaseException as error:
            _keep(run, summary, error)
            raise
        with writing(folder.path):
            report = write_report(storage.load_run(folder.path)) if options.report else None
            folder.point_latest()
    console.print(result_tables(summary))
    for complaint in run.complaints:
        console.print(f"note: {complaint}", highlight=False, markup=False)
    if report is not None:
        console.print(f"report: {_short(report)}", highlight=False, markup=False, soft_wrap=True)
    return STATUS[summary["verdict"]]


def _known_before(loaded: Loaded, options: Options, folder: RunFolder) -> dict[str, Any]:
    return {
        "format": storage.FORMAT,
        "run": folder.path.name,
        "title": loaded.experiment.title,
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": options.command,
        "file": loaded.file,
        "experiment": loaded.data,
        "seed": options.seed,
        "runtime": options.runtime,
        "switch": options.switch,
        "versions": machine.versions(),
        "machine": machine.describe(),
        "network": network_facts(loaded),
        "duration_s": loaded.experiment.duration / 1e9,
        **loaded.measured_over,
    }


def _judged(run: Execution, rows: Rows) -> dict[str, Any]:
    context, expected = run.progress.context, run.loaded.experiment.expect
    # Virtual time waits for the machine.
    checks = [] if run.progress.virtual else validity(rows, context, run.progress.bounds)
    checks += conservation(rows)
    measures = all_measures(rows, context)
    figures = [judge(e, measures[e.name]) for e in expected]
    hidden = _hidden_queues(run.metadata)
    name, reasons = verdict(checks, figures, hidden)
    return {
        "verdict": name,
        "reasons": reasons,
        "complaints": run.complaints,
        "validity": {
            "valid": name != "invalid",
            "checks": [as_dict(check) for check in checks],
            "hidden_queues": hidden,
        },
        **storage.measured(measures),
        "expected": [as_dict(figure) for figure in figures],
    }


def _hidden_queues(states: dict[str, Any]) -> list[str]:
    """Of the network's before and after; virtual time has neither."""
    if not states:
        return []
    from tiercast_lab.run.mininet.network import hidden_queues

    return [text for state in states.values() for text in hidden_queues(state)]


def _write(run: Execution, summary: dict[str, Any]) -> None:
    run.folder.release_reserve()
    run.folder.write("metadata.json", run.metadata)
    run.folder.write("summary.json", summary)


def _keep(run: Execution, summary: dict[str, Any], error: BaseException) -> None:
    """What there is of a run that was broken off. The disk may be full."""
    reason = str(error) if isinstance(error, LabError) else f"{type(error).__name__}: {error}"
    summary |= storage.unfinished(reason) | {"complaints": run.complaints}
    with contextlib.suppress(OSError):
        _write(run, summary)
    with contextlib.suppress(OSError, LabError):
        finish_rows(run.folder.rows)
    run.view.say(f"kept, without a verdict: {_short(run.folder.path)}")


def _make_run(
    loaded: Loaded, options: Options, folder: RunFolder, view: View, context: Context
) -> Execution:
    duration_s = loaded.experiment.duration / 1e9
    given = {
        "loaded": loaded,
        "folder": folder,
        "seed": options.seed,
        "view": view,
        "recorder": Recorder(folder.rows),
    }
    if options.runtime == "ns3":
        from tiercast_lab.run.ns3.runtime import VirtualRun

        progress = Progress(context, duration_s, {}, virtual=True)
        return VirtualRun(**given, progress=progress)
    from tiercast_lab.run.mininet.runtime import Run

    switches = _switch_kind(options.switch, loaded)
    progress = Progress(context, duration_s, bounds_of(os.cpu_count() or 1, switches.bounds))
    return Run(**given, progress=progress, switches=switches)


def _switch_kind(name: str, loaded: Loaded) -> Any:
    if name == "bmv2":
        from tiercast_lab.run.mininet.bmv2 import Bmv2Switches

        return Bmv2Switches(loaded.experiment.sessions[0].packet_size)
    from tiercast_lab.run.mininet.switches import TiercastSwitches

    return TiercastSwitches()


def _short(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
