"""bmv2 as the switch: what it is told, and a real run where it is installed."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from tiercast_controller.fates import EgressFates, IngressFates, PortFates
from tiercast_lab.base.errors import EXIT_INPUT, InputError
from tiercast_lab.results.storage import load_run
from tiercast_lab.run.mininet.bmv2 import Bmv2Switches, packets_per_second
from tiercast_lab.run.mininet.pauses import BEAT_S, AnswerWatch
from tiercast_lab.run.mininet.switches import PORT_COLUMNS

from .conftest import ROOT, SMALL, skip_if_invalid


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
    with pytest.raises(InputError, match="event at 5s changes what cannot"):
        Bmv2Switches(lambda link: 1000).check(delayed)


async def test_rows_are_those_of_its_counters_and_null_where_it_counts_nothing(load) -> None:
    ingress = IngressFates(10, 1, 2, 3, 4, 5, 6, 7)
    nothing = EgressFates(0, 0, 0, 0)

    class OnePort:
        async def fates(self, switch: str) -> dict[int, PortFates]:
            layers = {(1, 0): EgressFates(20, 5, 3, 1), (1, 1): nothing}
            return {2: PortFates(ingress, EgressFates(4, 0, 2, 0), layers)}

        def packet_ins_dropped(self, switch: str) -> int:
            return 7

    switch = load().topology.switches["s1"]
    rows = await Bmv2Switches(lambda link: 1000).poll(OnePort(), switch)
    place = {"port": 2, "link": "1>3"}
    unknown = dict.fromkeys(("entered", "queue_drops"))
    assert [kind for kind, _ in rows] == [
        *("pause", "packet_in"),
        *("port", "port.session", "port.session"),
    ]
    assert rows[0][1] == {"longest_us": 0}  # nobody asked it
    assert rows[1][1] == {"packets": None, "dropped": 7}
    assert rows[2][1] == place | dict.fromkeys(PORT_COLUMNS) | unknown | {
        "rx_packets": 38, "invalid": 1, "expired": 2, "no_group": 3, "no_route": 4,
        "tx_packets": 24, "left": 24, "marked": 5, "policy_drops": 5, "pruned": 1,
    }  # fmt: skip
    counted = [
        {"session": -1, "layer": -1, "left": 4, "marked": 0, "policy_drops": 2, "pruned": 0},
        {"session": 1, "layer": 0, "left": 20, "marked": 5, "policy_drops": 3, "pruned": 1},
    ]
    assert [row for _, row in rows[3:]] == [
        place | unknown | {"waiting": None} | columns for columns in counted
    ]


async def test_who_does_not_answer_is_silent_since_before_he_was_asked() -> None:
    watch, answers = AnswerWatch(), asyncio.Event()
    asking = asyncio.create_task(watch.watch(answers.wait))
    await asyncio.sleep(0)
    asked = time.monotonic()
    await asyncio.sleep(0.05)
    waited_us = 1e6 * (BEAT_S + time.monotonic() - asked)
    assert watch.take_longest_us() >= waited_us
    assert watch.take_longest_us() >= waited_us  # it still does not
    answers.set()
    await asyncio.sleep(0)
    watch.take_longest_us()
    assert watch.take_longest_us() == 0  # it was not asked since
    asking.cancel()


@pytest.mark.mininet
def test_the_same_experiment_runs_on_it_or_says_what_is_missing(tmp_path: Path) -> None:
    command = [ROOT / "tiercast", "run", "sim-smoke", "--switch", "bmv2", "--results", tmp_path]
    result = subprocess.run(command, capture_output=True, text=True)
    if not all(map(shutil.which, ("simple_switch_grpc", "simple_switch_CLI"))):
        assert result.returncode == EXIT_INPUT
        assert "is not in PATH; build behavioral-model" in result.stderr
        return
    assert result.returncode in (0, 3), result.stdout + result.stderr
    summary = json.loads((tmp_path / "latest" / "summary.json").read_text())
    assert summary["switch"] == "bmv2"
    assert summary["complaints"] == []
    # Its own limiter holds 1-3 to 1 Mbit/s: h3 never gets more.
    assert summary["measures"]["longest_queue"]["value"] is None
    names = {check["name"] for check in summary["validity"]["checks"]}
    assert "delay_line_late" in names and "switch_late_p99" not in names
    skip_if_invalid(summary)
    assert summary["verdict"] == "met"

    # What left a switch came to the next one, but for what was on its way in the last sample.
    ports = load_run(tmp_path / "latest").rows["port"].sort("time_s")
    last = {row["link"]: row for row in ports.group_by("link").last().iter_rows(named=True)}
    for link, back in (("0>1", "1>0"), ("1>0", "0>1"), ("0>2", "2>0"), ("2>0", "0>2")):
        assert 0 <= last[link]["left"] - last[back]["rx_packets"] < 20, link
        assert last[link]["left"] > 100 and last[link]["queue_drops"] is None
    assert last["1>3"]["marked"] > 0
