"""The rows of a run in virtual time do not depend on its threads."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest
from tiercast.v1.simulation_pb2 import ControllerAnswer
from tiercast_controller.virtual import VirtualController
from tiercast_lab.base import binaries
from tiercast_lab.experiment.loading import load_experiment
from tiercast_lab.experiment.schemes import known_schemes
from tiercast_lab.run.controller_input import (
    Reach,
    described_sessions,
    described_topology,
    programs_for,
)
from tiercast_lab.run.ns3.scenario import delimited, scenario

from ..virtual_time import run_in_virtual_time
from .test_graphs import drawn

pytestmark = pytest.mark.slow

# Joins and leaves, several sessions, TCP, faults of links, layers that receivers drop.
EXPERIMENTS = {
    "sim-session": "10s",
    "sim-churn": "20s",
    "links": "60s",
    "basic-rlm": "20s",
    "traffic": "20s",
}
# In a small network most windows have too little work for threads.
LARGE = ["topology.tree.depth=7", "topology.link.delay=3ms"]
GRAPH = """\
name: graph
title: Links that lose, delay, reorder and fail
topology:
  nodes: {nodes}
  link: {{rate: 2Mbit/s, delay: 1ms, queue: 20p}}
  links:
{links}sessions:
  - {{scheme: {scheme}, sender: {sender}, receivers: {receivers}}}
leave_latency: 1s
events:
  - {{at: 4s, link: {one}, loss: 5%, jitter: 3ms, duplicate: 2%,
     reorder: {{share: 5%, delay: 7ms}}}}
  - {{at: 6s, link: {other}, up: false}}
  - {{at: 7s, link: {other}, up: true, delay: 15ms}}
members:
  - {{at: 5s, receivers: [{receiver}]}}
  - {{at: 8s, receivers: [{receiver}]}}
duration: 12s
measure: {{last: 6s}}
"""


def rows(
    file: Path, duration: str, threads: int, results: Path, settings: list[str] | None = None
) -> dict[str, bytes]:
    loaded = load_experiment(file, known_schemes(), settings, duration)
    run = run_in_virtual_time(loaded, 1, results / str(threads), threads)
    return {path.name: path.read_bytes() for path in (run.directory / "rows").iterdir()}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_threads_do_not_change_the_rows(name: str, tmp_path: Path) -> None:
    file = binaries.find("run", name)
    alone = rows(file, EXPERIMENTS[name], 1, tmp_path)
    assert len(alone["received.parquet"]) > 1000
    for threads in (2, 3):
        assert rows(file, EXPERIMENTS[name], threads, tmp_path) == alone


def test_threads_do_not_change_the_rows_of_a_large_network(tmp_path: Path) -> None:
    file = binaries.find("run", "sim-aggregation")
    assert rows(file, "3s", 2, tmp_path, LARGE) == rows(file, "3s", 1, tmp_path, LARGE)


@pytest.mark.parametrize(
    ("seed", "scheme"), [(1, "sim"), (2, "tfmcc"), (3, "rlc"), (4, "mlda"), (5, "rlm")]
)
def test_threads_do_not_change_the_rows_of_a_graph_with_faults(
    seed: int, scheme: str, tmp_path: Path
) -> None:
    graph, sender, receivers = drawn(seed)
    draw = random.Random(seed)
    links = "".join(f"    {a}-{b}: {{delay: {d}ns}}\n" for a, b, d in graph.edges.data("weight"))
    one, other = draw.sample(["{}-{}".format(*link) for link in graph.edges], 2)
    file = tmp_path / "graph.yaml"
    file.write_text(
        GRAPH.format(
            nodes=list(graph),
            links=links,
            scheme=scheme,
            sender=sender,
            receivers=receivers,
            one=one,
            other=other,
            receiver=receivers[0],
        )  # fmt: skip
    )
    alone = rows(file, "12s", 1, tmp_path)
    for threads in (2, 3):
        assert rows(file, "12s", threads, tmp_path) == alone


def test_an_answer_that_takes_effect_too_early_is_refused() -> None:
    """Switches have then gone on beyond that time."""
    loaded = load_experiment(binaries.find("run", "sim-smoke"), known_schemes(), duration="30s")
    controller = VirtualController(
        described_topology(loaded, lambda one: Reach("", one.device_id)),
        described_sessions(loaded),
        programs_for(loaded),
    )
    lines = [
        delimited(scenario(loaded, seed=1)),
        delimited(ControllerAnswer(updates=controller.first_updates())),
        delimited(ControllerAnswer(delay_ns=9_999_999)),
    ]
    done = subprocess.run([binaries.NS3], input=b"".join(lines), capture_output=True)
    assert done.returncode == 2
    assert "delay_ns 9999999; valid: at least the scenario's control_delay_ns, 10000000" in (
        done.stderr.decode()
    )


@pytest.mark.parametrize("threads", ["0", "257", "two", ""])
def test_a_wrong_number_of_threads_is_refused(threads: str) -> None:
    done = subprocess.run([binaries.NS3, "--threads", threads], input=b"", capture_output=True)
    assert done.returncode == 2
    assert "--threads N" in done.stderr.decode()


def test_the_option_reaches_the_simulator(tmp_path: Path) -> None:
    command = [binaries.COMMAND, "run", "sim-smoke", "--runtime=ns3", "--duration=30s", "--json"]
    done = subprocess.run(
        [*command, "--threads=2", f"--results={tmp_path}"], capture_output=True, text=True
    )
    assert done.returncode in (0, 1), done.stderr
    assert json.loads(done.stdout)["runtime"] == "ns3"
