"""`querier` of an experiment: hosts are asked for their groups in real time, as by IGMP; in virtual
time it is a leave latency."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import polars as pl
import pytest
from tiercast_lab.base.errors import InputError
from tiercast_lab.results.storage import load_run

from .conftest import SMALL
from .real_run import Started

# Members that are silent for 2 x 1 s + 0.5 s are gone.
ASKED = """\
title: Hosts are asked for their groups
topology: {tree: {depth: 1}, link: {rate: 3Mbit/s, delay: 5ms, queue: 50p}}
sessions: [{scheme: tfmcc, sender: 0}]
querier: {interval: 1s, max_response: 500ms, last_member_interval: 200ms, version: VERSION}
members: [{at: 7s, receivers: [2]}]
duration: 10s
"""


@pytest.mark.parametrize(
    ("querier", "said"),
    [
        ("querier: {interval: 10s}", r"querier: interval 10\.0 must exceed max_response 10\.0"),
        ("querier: {robustness: 8}", r"querier: robustness is 8, not within 1\.\.7"),
        ("querier: {last_member_interval: 1ms}", r"interval is 0\.001, not within 0\.1\.\.25\.5"),
        ("querier: {version: 1}", r"querier\.version"),
        ("querier: {}\nleave_latency: 1s", "'leave_latency' and 'querier', which has its own"),
    ],
)
def test_values_are_checked(load, querier: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        load(dedent(SMALL) + querier)


def test_it_has_a_leave_latency_of_its_own(load) -> None:
    asked = load(dedent(SMALL) + "querier: {last_member_interval: 200ms, last_member_count: 3}")
    assert asked.experiment.leaves_after == 600_000_000
    assert load(dedent(SMALL) + "leave_latency: 1s").experiment.leaves_after == 1_000_000_000


@pytest.mark.mininet
@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_members_that_answer_stay_and_one_that_leaves_goes(tmp_path: Path, version: int) -> None:
    file = tmp_path / "asked.yaml"
    file.write_text(ASKED.replace("VERSION", str(version)))
    started = Started(tmp_path / "r", experiment=str(file))
    status, out, error = started.finish()
    assert status in (0, 3), out + error
    run = load_run((tmp_path / "r/latest").resolve())
    reports = run.rows["controller.igmp"].sort("time_s")
    assert reports["action"].to_list() == ["join", "join", "expire"]
    ports = dict(reports.filter(pl.col("action") == "join").select("reporter", "port").iter_rows())
    assert reports["port"][2] == ports["10.0.2.2"]
    assert reports["time_s"][2] >= 7.4  # two queries, 0.2 s apart
