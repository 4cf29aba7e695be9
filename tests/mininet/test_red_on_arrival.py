"""RED in the queues of tiercast-switch, in a real run: set by the controller, counted by port and
session. How often it drops is judged in virtual time (tests/ns3/red_test.cpp)."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from .real_run import Started

pytestmark = pytest.mark.mininet

# Link 0-1 is congested: SIM's packets are ECT and get marks, TCP's are not and are dropped.
EXPERIMENT = """\
name: red-on-arrival
title: A queue that drops and marks packets on arrival
topology:
  nodes: [0, 1, 2]
  link: {rate: 10Mbit/s, delay: 2ms, queue: 200p}
  links:
    0-1: {rate: 2Mbit/s, marking: {kind: red, where: arrival, ecn: true, mark_above_max: true}}
    1-2: {}
marking: {kind: none}
sessions:
  - scheme: sim
    sender: 0
    receivers: [2]
    parameters: {sim.initial_rate: 1200kbit/s, sim.min_rate: 1200kbit/s}
traffic:
  - {kind: tcp, from: 0, to: 2, count: 4}
duration: 10s
measure: {last: 5s}
"""
BECAME = ("left", "queue_drops", "policy_drops", "pruned", "waiting")


def test_it_drops_and_marks_and_every_packet_is_accounted_for(tmp_path: Path) -> None:
    (tmp_path / "red.yaml").write_text(EXPERIMENT)
    # Each switch on its own; in other tests one process runs all.
    started = Started(tmp_path, "--links", "veth", experiment=str(tmp_path / "red.yaml"))
    status, out, error = started.finish()
    assert status in (0, 3), out + error  # 3: the machine was busy; the counts hold nevertheless
    started.assert_nothing_is_left()

    run = (tmp_path / "latest").resolve()
    checks = json.loads((run / "summary.json").read_text())["validity"]["checks"]
    (unaccounted,) = [check for check in checks if check["name"] == "unaccounted"]
    assert unaccounted["measured"] == 0
    samples = pl.read_parquet(run / "rows/port.session.parquet")
    assert samples.filter(pl.col("entered") != pl.sum_horizontal(BECAME)).is_empty()
    last = samples.unique(["agent", "port", "session", "layer"], keep="last", maintain_order=True)
    bottleneck = last.filter(pl.col("link") == "0>1")
    (sim,) = bottleneck.filter(pl.col("session") == 1).to_dicts()
    (tcp,) = bottleneck.filter(pl.col("session") == -1).to_dicts()
    assert sim["marked"] > 50 and sim["policy_drops"] == 0
    assert tcp["policy_drops"] > 20 and tcp["marked"] == 0
    assert bottleneck["queue_drops"].sum() == 0  # the average keeps the queue far from 200 packets
    others = last.filter(pl.col("link") != "0>1")
    assert others["policy_drops"].sum() == others["marked"].sum() == 0
    assert " by red " in (run / "logs/s0.log").read_text()
