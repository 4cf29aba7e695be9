"""What receivers lose is what ports dropped, and every packet of a run is accounted for."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import polars as pl
import pytest

from ..checkout import ROOT

pytestmark = pytest.mark.slow


# Each receiver is behind a link that drops or marks in its own way. Sessions have one layer each,
# so every receiver is sent every packet.
EXPERIMENT = """\
name: drops
title: Links that drop, each in its own way
topology:
  tree: {depth: 2}
  link: {rate: 6Mbit/s, delay: 5ms, queue: 50p}
  links:
    1-3: {rate: 1Mbit/s, queue: 300p, marking: {kind: red}}
    1-4: {rate: 1Mbit/s, queue: 12p, marking: {kind: priority}}
    2-5: {rate: 1Mbit/s, marking: {kind: drop_tail, limit: 5}}
    2-6: {rate: 1Mbit/s, queue: 8p}
marking: {kind: none}
sessions:
  - {scheme: sim, sender: 0}
  - {scheme: ermcc, sender: 0, session: 2}
traffic:
  - {kind: udp, from: 0, to: 3, rate: 300kbit/s, start: 10s}
  - {kind: tcp, from: 0, to: 6, start: 10s, stack: kernel}
duration: 60s
measure: {last: 50s}
expect:
  - {measure: policy_drops, link: 1-3, min: 0.5%}
  - {measure: queue_drops, link: 1-3, max: 0%}
  - {measure: policy_drops, link: 2-5, min: 0.5%}
  - {measure: queue_drops, link: 2-5, max: 0%}
  - {measure: queue_drops, link: 2-6, min: 0.5%}
  - {measure: policy_drops, link: 2-6, max: 0%}
  - {measure: marked, link: 1-4, min: 1%}
  - {measure: marked, link: 1-4, session: 2, max: 0%}  # ERMCC's packets are not ECT
  - {measure: marked, link: 1-3, max: 0%}
  - {measure: loss, min: 0.5%}
  - {measure: loss, session: 2, min: 0.5%}
  - {measure: udp_loss, min: 0.5%}
"""
PATHS = {"h3": ["0>1", "1>3"], "h4": ["0>1", "1>4"], "h5": ["0>2", "2>5"], "h6": ["0>2", "2>6"]}


@pytest.fixture(scope="module", params=["arrival", "departure"])
def drops(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drops")
    text = EXPERIMENT.replace("{kind: red}", f"{{kind: red, where: {request.param}}}")
    (folder / "drops.yaml").write_text(text)
    command = [ROOT / "tiercast", "run", str(folder / "drops.yaml"), "--runtime", "ns3"]
    done = subprocess.run([*command, "--results", folder / "r"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return (folder / "r/latest").resolve()


def last(run: Path, kind: str, *keys: str) -> pl.DataFrame:
    rows = pl.read_parquet(run / f"rows/{kind}.parquet")
    return rows.unique([*keys], keep="last", maintain_order=True)


def test_every_packet_is_accounted_for(drops: Path) -> None:
    summary = json.loads((drops / "summary.json").read_text())
    check, refused = summary["validity"]["checks"]
    assert (check["name"], check["measured"], check["bound"], check["ok"]) == (
        *("unaccounted", 0, 0, True),
    )
    assert (refused["name"], refused["measured"], refused["ok"]) == ("refused", 0, True)
    ports = last(drops, "port", "agent", "port")
    sessions = last(drops, "port.session", "agent", "port", "session", "layer")
    assert set(sessions["session"]) == {1, 2, -1}
    for column in ("entered", "left", "queue_drops", "policy_drops", "marked", "pruned"):
        assert sessions[column].sum() == ports[column].sum()


@pytest.mark.parametrize("agent", PATHS)
@pytest.mark.parametrize("session", [1, 2])
def test_what_a_receiver_lost_is_what_the_ports_on_its_path_dropped(
    drops: Path, agent: str, session: int
) -> None:
    name = agent if session == 1 else f"{agent}.s{session}"
    received = pl.read_parquet(drops / "rows/received.parquet").filter(pl.col("agent") == name)
    samples = pl.read_parquet(drops / "rows/port.session.parquet").filter(
        pl.col("link").is_in(PATHS[agent]) & (pl.col("session") == session)
    )
    counts = samples.group_by("time_s").agg(
        dropped=pl.sum("queue_drops") + pl.sum("policy_drops"), port_marked=pl.sum("marked")
    )
    # A receiver notices a loss when a later packet arrives, and a mark when the packet itself
    # arrives. So it lags behind the port, but in some of the last ten samples it does not.
    both = counts.sort("time_s").join_asof(received.sort("time_s"), on="time_s").drop_nulls("lost")
    for there, here in (("dropped", "lost"), ("port_marked", "marked")):
        behind = both[there] - both[here]
        assert behind.min() == 0
        assert behind.tail(10).min() == 0
    assert both["dropped"][-1] > 0


def test_explain_names_who_dropped_and_marked(drops: Path) -> None:
    samples = pl.read_parquet(drops / "rows/port.session.parquet")

    def explained(receiver: str, link: str, column: str) -> str:
        """The explanation right after the second in which a port dropped or marked most of session
        1's packets."""
        port = samples.filter((pl.col("link") == link) & (pl.col("session") == 1))
        at = port["time_s"][port[column].diff().arg_max()]
        command = [ROOT / "tiercast", "explain", drops, "--receiver", receiver, "--at", f"{at}s"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert " by red at 1>3; marked: none" in explained("h3", "1>3", "policy_drops")
    assert " by priority at 1>4" in explained("h4", "1>4", "marked")
    # Its packets are not ECT, so the link's policy does nothing to them; the queue may be full.
    not_marked = r"dropped: (none|\d+ by the full queue at 1>4); marked: none"
    assert re.search(not_marked, explained("h4.s2", "1>4", "marked"))
    assert " by drop_tail at 2>5; marked: none" in explained("h5", "2>5", "policy_drops")
    assert " by the full queue at 2>6; marked: none" in explained("h6", "2>6", "queue_drops")
