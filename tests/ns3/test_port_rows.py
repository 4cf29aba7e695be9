"""Rows of ports in virtual time: their sums agree, and a port without rows gets some if they do
not."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tiercast.v1.simulation_pb2 import ControllerAnswer, Scenario
from tiercast_controller.virtual import VirtualController
from tiercast_lab.experiment.loading import load_experiment
from tiercast_lab.experiment.schemes import known_schemes
from tiercast_lab.run.controller_input import (
    Reach,
    described_sessions,
    described_topology,
    programs_for,
)
from tiercast_lab.run.ns3.runtime import answer
from tiercast_lab.run.ns3.scenario import delimited, scenario

from ..checkout import BUILD, ROOT

# Two sessions and TCP. RED is in the middle, on arrival or at departure, followed by a port that
# drops the tail by policy, one with a short queue, and one with room. Link 0-1 slows down and
# recovers.
EXPERIMENT = """\
name: accounts
title: Ports that drop and mark
topology:
  nodes: [0, 1, 2, 3, 4]
  link: {rate: 10Mbit/s, delay: 2ms, queue: 50p}
  links:
    0-1: {rate: 2Mbit/s, marking: {kind: red, ecn: true, min_th: 2, max_th: 6, max_p: 0.2}}
    1-2: {rate: 400kbit/s, marking: {kind: drop_tail, limit: 4}}
    1-3: {rate: 400kbit/s, queue: 4p, marking: {kind: none}}
    1-4: {marking: {kind: none}}
sessions:
  - {scheme: sim, sender: 0, layers: 3, parameters: {sim.initial_rate: 600kbit/s, sim.min_rate: 500kbit/s}}
  - {scheme: rlm, sender: 0, session: 2, layers: 3}
traffic:
  - {kind: tcp, from: 0, to: 1}
events:
  - {at: 8s, link: 0-1, rate: 800kbit/s}
  - {at: 14s, link: 0-1, rate: 2Mbit/s, queue: 10p}
duration: 20s
measure: {last: 10s}
"""  # noqa: E501
RED, DROP_TAIL, SHORT, ROOM = "0>1", "1>2", "1>3", "1>4"
BECAME = ("left", "queue_drops", "policy_drops", "pruned", "waiting")


@pytest.fixture(scope="module", params=["arrival", "departure"])
def rows(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, pl.DataFrame]:
    folder = tmp_path_factory.mktemp("port-rows")
    text = EXPERIMENT.replace("kind: red,", f"kind: red, where: {request.param},")
    (folder / "accounts.yaml").write_text(text)
    command = [ROOT / "tiercast", "run", folder / "accounts.yaml", "--runtime=ns3"]
    subprocess.run([*command, "--results", folder / "r"], check=True, capture_output=True)
    kinds = (folder / "r/latest/rows").glob("*.parquet")
    return {path.stem: pl.read_parquet(path).sort("time_s", maintain_order=True) for path in kinds}


def unbalanced(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.filter(pl.col("entered") != pl.sum_horizontal(BECAME))


def test_whatever_entered_is_accounted_for_each_second(rows: dict[str, pl.DataFrame]) -> None:
    sessions = rows["port.session"]
    assert sessions["time_s"].n_unique() == 20
    assert unbalanced(sessions).is_empty()
    ports = rows["port"].rename({"queue_packets": "waiting"})
    assert unbalanced(ports).is_empty()
    names = ["entered", "marked", *BECAME]
    place = ["time_s", "agent", "port"]
    sums = sessions.group_by(place).agg(pl.col(names).sum())
    both = ports.join(sums, on=place, suffix="_sum")
    assert both.height == sums.height > 0
    for name in names:
        assert both[name].equals(both[f"{name}_sum"].rename(name)), name


def last(rows: dict[str, pl.DataFrame], kind: str, link: str) -> pl.DataFrame:
    frame = rows[kind].filter(pl.col("link") == link)
    return frame.filter(pl.col("time_s") == frame["time_s"].max())


def test_each_drop_has_its_cause(rows: dict[str, pl.DataFrame]) -> None:
    def counts(link: str) -> dict[str, Any]:
        return last(rows, "port", link).row(0, named=True)

    red = counts(RED)
    # SIM responds to marks and RLM does not; TCP here has no ECN.
    assert red["marked"] > 0
    assert red["policy_drops"] > 100
    by_session = last(rows, "port.session", RED).group_by("session").agg(pl.col("marked").sum())
    marks = dict(by_session.iter_rows())
    assert marks[1] == red["marked"]
    assert marks[2] == marks[-1] == 0
    # Its policy's limit is below the queue's; the other port has no policy.
    assert counts(DROP_TAIL)["policy_drops"] > 100
    assert counts(DROP_TAIL)["queue_drops"] == 0
    assert counts(SHORT)["queue_drops"] > 100
    assert counts(SHORT)["policy_drops"] == 0
    assert counts(ROOM)["queue_drops"] == counts(ROOM)["policy_drops"] == 0


def test_what_left_for_a_receiver_is_what_it_received(rows: dict[str, pl.DataFrame]) -> None:
    for receiver, link in (("h2", DROP_TAIL), ("h3", SHORT), ("h4", ROOM)):
        for session, agent in ((1, receiver), (2, f"{receiver}.s2")):
            layers = last(rows, "port.session", link).filter(pl.col("session") == session)
            received = rows["received"].filter(pl.col("agent") == agent)["packets"].max()
            # At the end the link holds one packet in service, and 2 ms of packets behind it.
            assert 0 <= layers["left"].sum() - received <= 4, (agent, link)


def played(tmp_path: Path, break_columns: bool) -> list[dict[str, Any]]:
    """The rows of a run of 5 s in which only h15 is recorded. With `break_columns` the program is
    told to count groups where it has no cells."""
    file = ROOT / "experiments/sim-session.yaml"
    settings = ["record_receivers=1", "duration=5s", "measure.last=5s"]
    loaded = load_experiment(file, known_schemes(), settings)
    controller = VirtualController(
        described_topology(loaded, lambda one: Reach("", one.device_id)),
        described_sessions(loaded),
        programs_for(loaded),
    )
    first = controller.first_updates()
    if break_columns:
        for update in first:
            if update.entry.table == "group_columns":
                update.entry.arguments[:] = [b"\xff\xff\xff"]
    child = subprocess.Popen(
        [BUILD / "ns3/tiercast-ns3"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )

    def tell(message: Scenario | ControllerAnswer) -> None:
        child.stdin.write(delimited(message))
        child.stdin.flush()

    tell(scenario(loaded, seed=1))
    tell(ControllerAnswer(updates=first))
    found = []
    for line in child.stdout:
        message = json.loads(line)
        if "ask" in message:
            tell(answer(controller, message))
        found.append(message)
    child.stdin.close()
    assert child.wait() == 0
    return [row for row in found if row.get("kind") == "port.session"]


def test_a_port_without_rows_has_some_where_packets_are_missing(tmp_path: Path) -> None:
    sound = played(tmp_path, break_columns=False)
    assert unbalanced(pl.DataFrame(sound)).is_empty()
    recorded = {row["link"] for row in sound}
    assert "7>15" in recorded
    assert "14>30" not in recorded
    broken = [row for row in played(tmp_path, break_columns=True) if row["link"] not in recorded]
    assert {row["time_ns"] for row in broken} == {5_000_000_000}
    assert {row["link"] for row in broken} >= {"14>29", "14>30"}
    assert unbalanced(pl.DataFrame(broken)).height > 0
