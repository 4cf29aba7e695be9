"""Runs an experiment, with its progress in the terminal, and writes its report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import EXIT_OF
from tiercast_lab.base.interrupt import Interrupt
from tiercast_lab.cli.output import console_beside, print_json, print_report, say
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.results.storage import StoredRun, load_run, writing
from tiercast_lab.run.captures import sentences
from tiercast_lab.run.execute import Options, execute
from tiercast_lab.show.run_progress import make_view
from tiercast_lab.show.tables.runs import result_tables


def run_and_report(loaded: LoadedExperiment, options: Options, as_json: bool) -> int:
    """Runs an experiment, writes its report and prints its results. Returns the exit status: 0 met
    (or nothing required), 1 not met, 3 invalid. Raises LabError."""
    console = console_beside(as_json)
    run, report = run_and_store(loaded, options, console)
    if as_json:
        print_json(run_as_json(run, report))
        return EXIT_OF[run.summary["verdict"]]
    return show_results(run, report, console)


def run_as_json(run: StoredRun, report: Path) -> dict[str, Any]:
    """A run as `--json` prints it: where it is stored, and its summary.json."""
    return {"folder": str(run.directory), "report": str(report)} | run.summary


def show_results(run: StoredRun, report: Path, console: Console) -> int:
    """Prints a run's results. Returns its exit status."""
    console.print(result_tables(run.summary))
    for complaint in run.summary["complaints"]:
        console.print(f"note: {complaint}", highlight=False, markup=False)
    for line in sentences(run.summary, run.directory):
        say(line, console)
    print_report(binaries.from_here(report), console)
    return EXIT_OF[run.summary["verdict"]]


def run_and_store(
    loaded: LoadedExperiment, options: Options, console: Console
) -> tuple[StoredRun, Path]:
    """Runs an experiment and writes its report. Returns the stored run and the report's path.
    Raises LabError."""
    with Interrupt() as interrupt, make_view(console) as view:
        executed = execute(loaded, options, view, interrupt)
        # Matplotlib's import takes longer than the checks of an experiment.
        from tiercast_lab.show.run_report import write_report

        with writing(executed.folder):
            run = load_run(executed.folder)
            return run, write_report(run)
