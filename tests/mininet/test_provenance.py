"""A run identifies the files that were used by their contents, not by what a lock says about
them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from tiercast_controller.base.installation import ROOT
from tiercast_lab.base import binaries
from tiercast_lab.base.interrupt import Interrupt
from tiercast_lab.experiment.loading import load_experiment
from tiercast_lab.experiment.schemes import known_schemes
from tiercast_lab.run.execute import Options, execute
from tiercast_lab.run.progress import SilentView


def files_of_a_run(results: Path) -> dict[str, str]:
    file = binaries.EXPERIMENTS / "sim-smoke.yaml"
    loaded = load_experiment(file, known_schemes(), duration="0.1s")
    options = Options(1, "ns3", "tiercast", results, [])
    execute(loaded, options, SilentView(), Interrupt())
    return json.loads((results / "latest/summary.json").read_text())["files"]


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_each_file_that_ran_is_named_with_what_it_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "tiercast.json"
    other.write_bytes(binaries.P4_JSON.read_bytes() + b"\n")
    monkeypatch.setattr(binaries, "P4_JSON", other)
    files = files_of_a_run(tmp_path / "results")
    assert files[str(other)] == sha256(other)
    for path in (binaries.P4_INFO, binaries.EXPERIMENTS / "sim-smoke.yaml"):
        assert files[str(path.relative_to(ROOT))] == sha256(path)
    ran = [held for name, held in files.items() if name.endswith("tiercast-ns3")]
    assert ran == [sha256(binaries.NS3)]


def test_base_and_included_topology_are_among_them(tmp_path: Path) -> None:
    (tmp_path / "bases").mkdir()
    (tmp_path / "bases/mine.yaml").write_text("sessions: [{scheme: sim, sender: 0}]\n")
    link = "{rate: 1Mbit/s, delay: 1ms, queue: 9p}"
    (tmp_path / "topologies").mkdir()
    (tmp_path / "topologies/pair.yaml").write_text(f"tree: {{depth: 1}}\nlink: {link}\n")
    file = tmp_path / "it.yaml"
    file.write_text("extends: mine\ntopology: {include: pair}\n")
    loaded = load_experiment(file, known_schemes())
    names = {path.relative_to(tmp_path).as_posix() for path in loaded.sources}
    assert names == {"it.yaml", "bases/mine.yaml", "topologies/pair.yaml"}
