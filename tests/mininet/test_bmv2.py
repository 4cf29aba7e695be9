"""bmv2 as the switch: the commands that it gets, and (if it is installed) a real run."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from tiercast_controller.network.fates import EgressFates, IngressFates, PortFates
from tiercast_lab.base.errors import EXIT_INPUT, InputError
from tiercast_lab.experiment.topology import Switch
from tiercast_lab.results.queue_drops import with_queue_drops
from tiercast_lab.results.storage import load_run
from tiercast_lab.run.mininet import fate_counts
from tiercast_lab.run.mininet.bmv2 import Bmv2Switches, packets_per_second
from tiercast_lab.run.mininet.pauses import BEAT_S, AnswerWatch
from tiercast_lab.run.mininet.switches import PORT_COLUMNS, SESSION_COLUMNS

from ..bmv2 import HAS_BMV2, needs_switch
from ..checkout import ROOT
from .conftest import SMALL, skip_if_invalid


def test_rates_are_those_of_full_packets() -> None:
    assert packets_per_second(6_000_000, 1000) == 750
    assert packets_per_second(1_000_000, 1000) == 125
    assert packets_per_second(1000, 1500) == 1  # 0 would mean no limit


def test_what_it_cannot_do_is_refused(load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: None)
    with pytest.raises(InputError, match="simple_switch_grpc is not in PATH"):
        Bmv2Switches(lambda link: 1000).check(load())
    monkeypatch.setattr(shutil, "which", lambda program: f"/usr/bin/{program}")
    with pytest.raises(InputError, match="link 0-1 has a queue limit in bytes; valid: packets"):
        Bmv2Switches(lambda link: 1000).check(load(SMALL.replace("50p", "30kB")))
    delayed = load(settings=["events=[{at: 5s, link: 1-3, delay: 9ms}]"])
    with pytest.raises(InputError, match="event at 5s changes what bmv2 cannot"):
        Bmv2Switches(lambda link: 1000).check(delayed)
    arrival = SMALL.replace("1-3: {rate", "1-3: {marking: {kind: red, where: arrival}, rate")
    said = (
        r"topology\.links\.1-3\.marking: link 1-3 has red with `where: arrival`, and bmv2's queues "
        "have none; valid: where: departure"
    )
    with pytest.raises(InputError, match=said):
        Bmv2Switches(lambda link: 1000).check(load(arrival))
    Bmv2Switches(lambda link: 1000).check(load(arrival.replace("arrival", "departure")))
    two = SMALL.replace("1-3: {rate", "1-3: {marking: {kind: dualpi2}, rate")
    said = (
        r"topology\.links\.1-3\.marking: link 1-3 has dualpi2, whose two queues share a rate, and "
        "bmv2's priority queues have a rate each; valid: a marking of one queue, such as pi2"
    )
    with pytest.raises(InputError, match=said):
        Bmv2Switches(lambda link: 1000).check(load(two))


class Counters:
    """A controller whose switches report these counts for their port 2 and none for the others."""

    def __init__(self) -> None:
        self.polls = 0
        self.entered = 31  # by layer 0

    async def fates(self, switch: str) -> dict[int, PortFates]:
        self.polls += 1
        ingress = IngressFates(10, 1, 2, 3, 4, 5, 6, 7)
        layers = {
            (1, 0): EgressFates(self.entered, 20, 5, 3, 1),
            (1, 1): EgressFates(0, 0, 0, 0, 0),
            (1, 2): EgressFates(9, 0, 0, 0, 0),
        }
        return {2: PortFates(ingress, EgressFates(6, 4, 0, 2, 0), layers)}

    def packet_ins_dropped(self, switch: str) -> int:
        return 7

    def policed(self, switch: str, port: int) -> int:
        return 0


async def test_rows_are_those_of_its_counters_and_null_where_it_counts_nothing(load) -> None:
    switch = load().topology.switches["s1"]
    rows = await Bmv2Switches(lambda link: 1000).poll(Counters(), switch)
    place = {"port": 2, "link": "1>3"}
    assert [kind for kind, _ in rows] == [
        *("pause", "packet_in", "port"),
        *("port.session", "port.session", "port.session"),
    ]
    assert rows[0][1] == {"longest_us": 0}  # it was not asked
    assert rows[1][1] == {"packets": None, "dropped": 7}
    assert rows[2][1] == place | dict.fromkeys(PORT_COLUMNS) | {
        "rx_packets": 38, "invalid": 1, "expired": 2, "no_group": 3, "no_route": 4,
        "tx_packets": 24, "entered": 46, "left": 24, "marked": 5, "policy_drops": 5, "pruned": 1,
    }  # fmt: skip
    keys = ("session", "layer", "entered", "left", "marked", "policy_drops", "pruned")
    counted = [(-1, -1, 6, 4, 0, 2, 0), (1, 0, 31, 20, 5, 3, 1), (1, 2, 9, 0, 0, 0, 0)]
    assert [row for _, row in rows[3:]] == [
        place | dict.fromkeys(SESSION_COLUMNS) | dict(zip(keys, columns, strict=True))
        for columns in counted
    ]


async def test_what_queues_dropped_is_said_once_they_have_drained(load, monkeypatch) -> None:
    """Queues count as drained neither after the first poll, because a packet comes after it, nor
    while counts change. s0's port 1 leads to s1, whose port 1 leads back."""
    monkeypatch.setattr(fate_counts, "STILL_S", 0.01)
    topology = load().topology
    monkeypatch.setattr(fate_counts, "_lost_between", lambda topology, fates: {("s1", 2): 3})
    controller, kind = Counters(), Bmv2Switches(lambda link: 1000)

    async def one_more() -> None:
        while not controller.polls:
            await asyncio.sleep(0)
        controller.entered = 32

    asking = asyncio.create_task(one_more())
    await kind.settle(controller, topology)
    await asking
    assert controller.polls == 3 * len(topology.switches)
    rows = await kind.poll(controller, topology.switches["s1"])
    assert controller.polls == 3 * len(topology.switches)
    port, *layers = [row for kind, row in rows if kind in ("port", "port.session")]
    assert (port["queue_packets"], port["kernel_drops"]) == (0, 3)
    assert [row["waiting"] for row in layers] == [0, 0, 0]
    sample = {"time_s": 1.0, "agent": "s1"}
    read = with_queue_drops({
        "port": pl.DataFrame([sample | port]),
        "port.session": pl.DataFrame([sample | row for row in layers]),
    })  # fmt: skip
    assert read["port"]["queue_drops"].to_list() == [17]
    assert read["port.session"]["queue_drops"].to_list() == [0, 8, 9]

    class Restless(Counters):
        async def fates(self, switch: str) -> dict[int, PortFates]:
            self.entered += 1
            return await super().fates(switch)

    monkeypatch.setattr(fate_counts, "PATIENCE_S", 0.05)
    kind = Bmv2Switches(lambda link: 1000)
    await kind.settle(Restless(), topology)
    rows = await kind.poll(Restless(), topology.switches["s1"])
    assert rows[2][1]["queue_packets"] is None


def test_what_was_lost_between_two_switches(load) -> None:
    """The loss follows from what left one switch and what came in at the other; for hosts' links it
    is unknown."""
    topology = load().topology
    nothing = IngressFates(0, 0, 0, 0, 0, 0, 0, 0)

    def fates(switch: Switch) -> dict[int, PortFates]:
        """Each port reports what left it. What came in is always 9, and 1 for the controller."""
        came = replace(nothing, forwarded=9, to_controller=1)
        return {
            port: PortFates(came, EgressFates(99, 10 * switch.number + port, 0, 0, 0), {})
            for port in range(1, len(switch.ports) + 1)
        }

    counted = {switch.name: fates(switch) for switch in topology.switches.values()}
    lost = fate_counts._lost_between(topology, counted)
    s0, s1 = topology.switches["s0"], topology.switches["s1"]
    assert lost["s1", s1.port_to("s0")] == s0.port_to("s1") - 10
    assert lost["s0", s0.port_to("s1")] == 10 + s1.port_to("s0") - 10
    assert len(lost) == 2 * 2  # links 0-1 and 0-2, both directions


async def test_who_does_not_answer_is_silent_since_before_he_was_asked() -> None:
    watch, answers = AnswerWatch(), asyncio.Event()
    asking = asyncio.create_task(watch.watch(answers.wait))
    await asyncio.sleep(0)
    asked = time.monotonic()
    await asyncio.sleep(0.05)
    waited_us = 1e6 * (BEAT_S + time.monotonic() - asked)
    assert watch.take_longest_us() >= waited_us
    assert watch.take_longest_us() >= waited_us  # it still does not answer
    answers.set()
    await asyncio.sleep(0)
    watch.take_longest_us()
    assert watch.take_longest_us() == 0  # it has not been asked since
    asking.cancel()


@pytest.mark.alone
@pytest.mark.mininet
def test_the_same_experiment_runs_on_it_or_says_what_is_missing(tmp_path: Path) -> None:
    command = [ROOT / "tiercast", "run", "sim-smoke", "--switch", "bmv2", "--results", tmp_path]
    result = subprocess.run(command, capture_output=True, text=True)
    if not HAS_BMV2:
        assert result.returncode == EXIT_INPUT
        assert "is not in PATH; build behavioral-model" in result.stderr
        return
    assert result.returncode in (0, 3), result.stdout + result.stderr
    summary = json.loads((tmp_path / "latest" / "summary.json").read_text())
    assert summary["switch"] == "bmv2"
    assert summary["complaints"] == []
    # bmv2's own limiter holds 1-3 to 1 Mbit/s, so h3 never gets more.
    assert summary["measures"]["longest_queue"]["value"] is None
    names = {check["name"] for check in summary["validity"]["checks"]}
    assert "delay_line_late" in names and "switch_late_p99" not in names
    skip_if_invalid(summary)
    assert summary["verdict"] == "met"

    # Every packet that left a switch arrived at the next one. Every packet that entered a queue and
    # did not leave was dropped: on the one link that is too slow for two layers.
    ports = load_run(tmp_path / "latest").rows["port"].sort("time_s")
    last = {row["link"]: row for row in ports.group_by("link").last().iter_rows(named=True)}
    for link, back in (("0>1", "1>0"), ("1>0", "0>1"), ("0>2", "2>0"), ("2>0", "0>2")):
        assert last[link]["left"] == last[back]["rx_packets"] > 100, link
        assert last[back]["kernel_drops"] == 0
    assert last["1>3"]["queue_drops"] == last["1>3"]["entered"] - last["1>3"]["left"]
    assert {link for link, row in last.items() if row["queue_drops"]} <= {"1>3"}
    assert last["1>3"]["marked"] > 0


# Queues of a few packets, behind which receivers join and leave all the time, and a TCP flow.
CHURN = """\
name: churn
title: Receivers that come and go behind queues that overflow
topology:
  tree: {depth: 2}
  link: {rate: 6Mbit/s, delay: 5ms, queue: 50p}
  links:
    1-3: {rate: 1Mbit/s, queue: 8p}
    2-5: {rate: 500kbit/s, queue: 5p}
marking: {kind: none}
sessions:
  - {scheme: rlc, sender: 0, layers: 6}
traffic:
  - {kind: tcp, from: 0, to: 3, start: 5s}
duration: 20s
measure: {last: 15s}
expect:
  - {measure: queue_drops, link: 1-3, min: 0.5%}
  - {measure: queue_drops, link: 1-4, max: 0%}
"""


@pytest.mark.alone
@pytest.mark.mininet
@needs_switch
def test_what_small_queues_drop_is_exact_while_members_come_and_go(tmp_path: Path) -> None:
    (tmp_path / "churn.yaml").write_text(CHURN)
    command = [ROOT / "tiercast", "run", tmp_path / "churn.yaml", "--switch", "bmv2"]
    result = subprocess.run([*command, "--results", tmp_path / "r"], capture_output=True, text=True)
    assert result.returncode in (0, 3), result.stdout + result.stderr
    run = load_run(tmp_path / "r/latest")
    (check,) = (c for c in run.summary["validity"]["checks"] if c["name"] == "unaccounted")
    assert (check["measured"], check["bound"]) == (0, 0)
    skip_if_invalid(run.summary)  # no account includes a frame that a socket lost
    assert run.summary["verdict"] == "met"

    leaves = run.rows["controller.igmp"].filter(pl.col("action") == "leave")
    assert len(leaves) >= 5
    ports = run.rows["port"].unique(["agent", "port"], keep="last", maintain_order=True)
    last = {row["link"]: row for row in ports.iter_rows(named=True)}
    layers = run.rows["port.session"].unique(
        ["link", "session", "layer"], keep="last", maintain_order=True
    )

    def of(link: str, column: str, session: int) -> int:
        mine = layers.filter((pl.col("link") == link) & (pl.col("session") == session))
        return int(mine[column].sum())

    for row in (*last.values(), *layers.iter_rows(named=True)):
        served = row["left"] + row["policy_drops"] + row["pruned"]
        assert row["entered"] == served + row["queue_drops"], row
    for link in ("0>1", "1>0", "0>2", "1>3", "3>1"):
        back = ">".join(reversed(link.split(">")))
        assert last[link]["left"] == last[back]["rx_packets"], link
    # Packets counted by other programs: what TCP's host sent entered the slow queue, and its
    # receiver got what was not dropped.
    sent = last["0>t0"]["rx_packets"]
    assert of("1>3", "entered", -1) == sent and of("1>3", "queue_drops", -1) > 10
    assert of("1>3", "left", -1) == of("3>t3", "entered", -1) + of("3>h3", "entered", -1)
    # Whatever the receivers missed was dropped there. They cannot see drops of a layer that they
    # were leaving.
    received = {row["agent"]: row for row in run.rows["received"].iter_rows(named=True)}
    for agent, slow, end in (("h3", "1>3", "3>h3"), ("h5", "2>5", "2>5")):
        assert received[agent]["lost"] <= of(slow, "queue_drops", 1), agent
        assert received[agent]["packets"] <= of(end, "left", 1), agent
    assert received["h3"]["lost"] > 0
    assert received["h4"]["lost"] == last["1>4"]["queue_drops"] == 0

    # Earlier samples never show more drops than the last one, and drops never decrease.
    for (_, _), samples in run.rows["port"].group_by("agent", "port", maintain_order=True):
        drops = samples["queue_drops"]
        assert drops.is_sorted() and not drops.has_nulls()
    assert not (run.directory / "rows/port.jsonl").exists()
    explained = subprocess.run(
        [ROOT / "tiercast", "explain", run.directory, "--receiver", "h3", "--at", "18s"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "of its packets dropped: " in explained.stdout
    assert "does not count" not in explained.stdout
