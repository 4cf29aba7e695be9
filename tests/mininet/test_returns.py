"""A run in Mininet whose switches are killed: it goes on, and says so."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import polars as pl
import pytest
from tiercast_lab.measures import Rows
from tiercast_lab.results.returns import returns, switches_away

from ..bmv2 import needs_bmv2
from .real_run import Started


def rows_of(*events: tuple[float, str, str, bool | None]) -> Rows:
    names = ("time_s", "switch", "state", "restarted")
    frame = pl.DataFrame([dict(zip(names, event, strict=True)) for event in events])
    return Rows({"controller.switch": frame.with_columns(agent=pl.lit("controller"))})


def test_each_time_that_a_switch_was_away_is_named() -> None:
    away = switches_away(
        rows_of(
            (1.0, "s1", "away", None),
            (1.5, "s2", "away", None),
            (2.0, "s1", "back", True),
            (3.0, "s1", "mended", None),
            (4.0, "s1", "away", None),
            (4.5, "s1", "back", False),
        )
    )
    assert [tuple(one.values()) for one in away] == [
        ("s1", 1.0, 2.0, True),
        ("s2", 1.5, None, None),
        ("s1", 4.0, 4.5, False),
    ]
    (check,) = returns(away)
    assert not check.ok and check.measured == 3
    assert check.where == "s1 from 1.0 to 2.0 s; s2 from 1.5 s on; s1 from 4.0 to 4.5 s"


def test_a_run_without_that_has_no_such_check() -> None:
    assert switches_away(Rows({})) == returns([]) == []


@pytest.mark.mininet
@pytest.mark.parametrize(
    ("options", "program", "killed"),
    [
        ("--links=memory", "--name=s1", ["s0", "s1", "s2"]),  # one process is all switches
        ("--links=veth", "--name=s1", ["s1"]),
        pytest.param("--switch=bmv2", "s1.sock", ["s1"], marks=needs_bmv2),
    ],
)
def test_a_killed_switch_comes_back_while_the_run_goes_on(
    tmp_path: Path, options: str, program: str, killed: list[str]
) -> None:
    started = Started(tmp_path, options)
    started.wait_for_second(5)
    os.kill(started.wait_for(program), signal.SIGKILL)
    status, out, error = started.finish()
    assert (status, error) == (3, ""), out + error
    started.assert_nothing_is_left()

    directory = (tmp_path / "latest").resolve()
    summary = json.loads((directory / "summary.json").read_text())
    assert summary["verdict"] == "invalid"
    away = summary["switches_away"]
    assert sorted(one["switch"] for one in away) == killed
    assert all(one["restarted"] and one["from_s"] < one["to_s"] for one in away)
    assert any(reason.startswith("switches_away: ") for reason in summary["reasons"])
    assert any(" was killed at " in text for text in summary["complaints"])

    rows = {path.stem: pl.read_parquet(path) for path in (directory / "rows").glob("*.parquet")}
    back_s = max(one["to_s"] for one in away)
    received = rows["received"].sort("time_s")
    for host in ("h3", "h4", "h5", "h6"):
        its = received.filter(pl.col("agent") == host)
        before = its.filter(pl.col("time_s") <= back_s)["packets"].max()
        assert its["packets"].max() > before, f"{host} receives nothing any more"
    # Every switch, with the rates of its links, marks and counts as before.
    port = rows["port"].filter(pl.col("time_s") > back_s + 1)
    assert set(port["agent"]) == {"s0", "s1", "s2"}
    slow = port.filter(pl.col("link") == "1>3").sort("time_s").to_dicts()
    passed_s = slow[-1]["time_s"] - slow[0]["time_s"]
    left = slow[-1]["left"] - slow[0]["left"]
    # 1 Mbit/s, in packets of 1000 bytes. The sender has two layers of more than that in all.
    assert 50 < left / passed_s < 1.1 * 125
    states = rows["controller.switch"].filter(pl.col("switch") == "s1").sort("time_s")["state"]
    assert states.to_list() == ["away", "back"]
