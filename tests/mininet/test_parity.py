"""The same experiment in the testkit, in ns-3 and in Mininet gives the same shares
(docs/ns3.md)."""

from __future__ import annotations

import subprocess
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from tiercast_lab.base import binaries
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.loading import load_experiment
from tiercast_lab.experiment.schemes import known_schemes
from tiercast_lab.measures.beside_tcp import flow_rate
from tiercast_lab.measures.rows import received_rate
from tiercast_lab.results.storage import StoredRun, load_run

from ..checkout import ROOT
from ..virtual_time import run_in_virtual_time
from .conftest import skip_if_invalid
from .in_testkit import in_testkit

pytestmark = pytest.mark.slow

SEEDS = (1, 2)
# The largest difference, as a share of the smallest rate on the path, for each receiver and flow:
# between the means over the seeds in virtual time, and from these to the one run in real time.
BAND = 0.1
DURATION = {"sim-smoke": ("25s", "10s"), "basic-ermcc": ("30s", "15s")}  # duration and window

Shares = dict[str, float]


def shares(loaded: LoadedExperiment, rates: dict[str, float]) -> Shares:
    """Converts bit/s of receivers and flows to shares of the smallest link rate on their paths."""
    topology, sender = loaded.topology, loaded.experiment.sessions[0].sender
    ends = {f"h{node}": (sender, node) for node in loaded.receivers[0]}
    ends |= {name: (flow.source, flow.destination) for name, flow in loaded.flows.items()}
    return {
        name: rates[name]
        / min(topology.links[link].parameters.rate for link in topology.path(*path))
        for name, path in ends.items()
    }


def in_mininet(loaded: LoadedExperiment, seed: int, results: Path) -> StoredRun:
    duration, window = DURATION[loaded.experiment.name]
    command = [ROOT / "tiercast", "run", loaded.file, "--seed", str(seed), "--duration", duration]
    command += ["--set", f"measure.last={window}", "--results", results]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in (0, 1, 3), done.stderr
    return load_run((results / "latest").resolve())


def shares_of(loaded: LoadedExperiment, run: StoredRun) -> Shares:
    skip_if_invalid(run.summary)
    edges = np.array(run.context.window)
    received = {
        agent: received_rate(run.rows, receiver, agent, edges)
        for agent, receiver in run.context.receivers.items()
    }
    flows = {
        name: flow_rate(run.rows, name, flow, edges) for name, flow in run.context.flows.items()
    }
    return shares(loaded, {name: float(rate[0]) for name, rate in (received | flows).items()})


def mean(runs: list[Shares]) -> Shares:
    return {name: fmean(run[name] for run in runs) for name in runs[0]}


def load(experiment: str) -> LoadedExperiment:
    duration, window = DURATION[experiment]
    file = binaries.EXPERIMENTS / f"{experiment}.yaml"
    return load_experiment(file, known_schemes(), [f"measure.last={window}"], duration)


@pytest.fixture(scope="module", params=DURATION)
def virtual(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple:
    """An experiment, and its shares in ns-3."""
    loaded = load(request.param)
    folder = tmp_path_factory.mktemp("ns3")
    runs = [run_in_virtual_time(loaded, seed, folder / str(seed)) for seed in SEEDS]
    return loaded, mean([shares_of(loaded, run) for run in runs])


def test_the_testkit_and_ns3_give_the_same_shares(virtual: tuple) -> None:
    loaded, in_ns3 = virtual
    seen = mean([shares(loaded, in_testkit(loaded, seed).rates) for seed in SEEDS])
    print(loaded.experiment.name, "testkit", seen, "ns-3", in_ns3)
    assert seen == pytest.approx(in_ns3, abs=BAND)


@pytest.mark.alone
@pytest.mark.mininet
def test_mininet_and_ns3_give_the_same_shares(virtual: tuple, tmp_path: Path) -> None:
    loaded, in_ns3 = virtual
    seen = shares_of(loaded, in_mininet(loaded, SEEDS[0], tmp_path))
    print(loaded.experiment.name, "Mininet", seen, "ns-3", in_ns3)
    assert seen == pytest.approx(in_ns3, abs=BAND)
