"""Runs in virtual time that a test's own process makes: to start a command costs as much as a short
run. `tiercast run` itself is tested in tests/mininet and tests/ns3."""

from __future__ import annotations

from pathlib import Path

from tiercast_lab.base.interrupt import Interrupt
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.results.storage import StoredRun, load_run
from tiercast_lab.run.execute import Options, execute
from tiercast_lab.run.progress import SilentView


def run_in_virtual_time(
    loaded: LoadedExperiment, seed: int, results: Path, threads: int = 1
) -> StoredRun:
    options = Options(seed, "ns3", "tiercast", results, [], threads=threads)
    with Interrupt() as interrupt:
        return load_run(execute(loaded, options, SilentView(), interrupt).folder)
