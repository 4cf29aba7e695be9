"""One experiment from the YAML to the verdict: run, rows, measures, summary, plots, report."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from tiercast_lab import machine, storage
from tiercast_lab.errors import EXIT_INVALID, EXIT_MET, EXIT_NOT_MET
from tiercast_lab.execution import Execution
from tiercast_lab.experiment import Loaded
from tiercast_lab.facts import network_facts
from tiercast_lab.interrupt import Interrupt
from tiercast_lab.live import View, make_view, result_tables
from tiercast_lab.measures import Context, all_measures, context_of
from tiercast_lab.progress import Progress
from tiercast_lab.report import write_report
from tiercast_lab.verdict import as_dict, bounds_of, judge, validity, verdict

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
    """The exit status: 0 met (or nothing required), 1 not met, 3 invalid. Raises LabError else."""
    # Imported here: what only lists or reports needs neither Mininet nor gRPC.
    from tiercast_lab.network import hidden_queues

    run_id = storage.new_run_id(options.results)
    with storage.writing(options.results):
        directory = storage.make_run_directory(options.results, loaded.experiment.name, run_id)
    summary: dict[str, Any] = {
        "format": storage.FORMAT,
        "run": directory.name,
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
        "layered": loaded.layered,
        "layers": loaded.experiment.sessions[0].layers,
        "duration_s": loaded.experiment.duration / 1e9,
        **loaded.measured_over,
    }
    context = context_of(summary)
    view = make_view(console)
    run = _make_run(loaded, options, run_id, directory, view, context)
    bounds = run.progress.bounds
    with Interrupt() as interrupt, view:
        run.execute(interrupt)
        run.enter("judging and plotting")
        frames = run.recorder.frames()
        with storage.writing(directory):
            storage.write_rows(directory, frames)
            storage.write_json(directory / "metadata.json", run.metadata)
        # Virtual time waits for the machine.
        checks = [] if run.progress.virtual else validity(frames, context, bounds)
        measures = all_measures(frames, context)
        figures = [judge(e, measures[e.name]) for e in loaded.experiment.expect]
        hidden = [text for state in run.metadata.values() for text in hidden_queues(state)]
        summary["verdict"], summary["reasons"] = verdict(checks, figures, hidden)
        summary["complaints"] = run.complaints
        summary["validity"] = {
            "valid": summary["verdict"] != "invalid",
            "checks": [as_dict(check) for check in checks],
            "hidden_queues": hidden,
        }
        summary |= storage.measured(measures)
        summary["expected"] = [as_dict(figure) for figure in figures]
        with storage.writing(directory):
            storage.write_json(directory / "summary.json", summary)
            report = write_report(storage.load_run(directory)) if options.report else None
            storage.point_latest(directory)
    console.print(result_tables(summary))
    for complaint in run.complaints:
        console.print(f"note: {complaint}", highlight=False, markup=False)
    if report is not None:
        console.print(f"report: {_short(report)}", highlight=False, markup=False, soft_wrap=True)
    return STATUS[summary["verdict"]]


def _make_run(
    loaded: Loaded, options: Options, run_id: str, directory: Path, view: View, context: Context
) -> Execution:
    duration_s = loaded.experiment.duration / 1e9
    given = {
        "loaded": loaded,
        "id": run_id,
        "directory": directory,
        "seed": options.seed,
        "view": view,
    }
    if options.runtime == "ns3":
        from tiercast_lab.virtual import VirtualRun

        progress = Progress(context, duration_s, {}, virtual=True)
        return VirtualRun(**given, progress=progress)
    from tiercast_lab.runtime import Run

    switches = _switch_kind(options.switch, loaded)
    progress = Progress(context, duration_s, bounds_of(os.cpu_count() or 1, switches.bounds))
    return Run(**given, progress=progress, switches=switches)


def _switch_kind(name: str, loaded: Loaded) -> Any:
    if name == "bmv2":
        from tiercast_lab.bmv2 import Bmv2Switches

        return Bmv2Switches(loaded.experiment.sessions[0].packet_size)
    from tiercast_lab.switches import TiercastSwitches

    return TiercastSwitches()


def _short(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
