"""A member that subscribes to all layers, behind queues for each flow: what it costs the member
beside it and a TCP flow."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiercast_lab.experiment.loading import load_experiment
from tiercast_lab.experiment.schemes import known_schemes
from tiercast_lab.results.storage import StoredRun

from ..virtual_time import run_in_virtual_time

pytestmark = pytest.mark.slow

# The session's share of 1-2 is 500 kbit/s, which is five of RLC's layers of 32, 32, 64, ... kbit/s.
EXPERIMENT = """\
name: inflated
title: A member that subscribes to all layers, one that does not, and TCP
topology:
  nodes: [0, 1, 2, 3, 4]
  link: {{rate: 10Mbit/s, delay: 5ms, queue: 50p}}
  links: {{0-1: {{}}, 1-2: {{rate: 1Mbit/s, scheduling: {scheduling}}}, 2-3: {{}}, 2-4: {{}}}}
marking: {{kind: none}}
sessions:
  - {{scheme: rlc, sender: 0, receivers: [3, 4], layers: 7, lies: {{3: inflated_subscription}}}}
traffic:
  - {{kind: tcp, from: 0, to: 4, congestion_control: reno}}
duration: 40s
measure: {{last: 20s}}
"""


@pytest.fixture
def run(request: pytest.FixtureRequest, tmp_path: Path) -> StoredRun:
    file = tmp_path / "inflated.yaml"
    file.write_text(EXPERIMENT.format(scheduling=request.param))
    return run_in_virtual_time(load_experiment(file, known_schemes()), 1, tmp_path / "results")


def share(run: StoredRun, measure: str) -> float:
    """Of the link's 1 Mbit/s."""
    value: float = run.summary["measures"][measure]["value"]
    return value / 1e6


@pytest.mark.parametrize("run", ["fair"], indirect=True)
def test_fair_queues_save_other_flows_alone(run: StoredRun) -> None:
    assert share(run, "receiver_rate_h3") > 0.45
    assert share(run, "receiver_rate_h4") < 0.1
    assert share(run, "tcp_worst") > 0.45


@pytest.mark.parametrize("run", ["layered"], indirect=True)
def test_layered_queues_save_the_member_beside_it_too(run: StoredRun) -> None:
    assert share(run, "receiver_rate_h4") > 0.4
    assert share(run, "tcp_worst") > 0.45
    # What its session's queue drops is of layers that the other one does not have.
    assert run.rows["received"].filter(agent="h4")["lost"].max() == 0
