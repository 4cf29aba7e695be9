"""The check that every packet is accounted for, on rows that satisfy it and rows that do not."""

from __future__ import annotations

import html
import io
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console
from tiercast_lab.base.errors import EXIT_INVALID
from tiercast_lab.cli.running import run_and_store, show_results
from tiercast_lab.measures import Rows
from tiercast_lab.results.conservation import conservation
from tiercast_lab.results.queue_drops import with_queue_drops
from tiercast_lab.results.recorder import Recorder, finish_rows, read_rows
from tiercast_lab.results.verdict import verdict
from tiercast_lab.run.execute import Options
from tiercast_lab.show.wording import check_row

from .conftest import Load, record_port


@pytest.fixture
def rows(tmp_path: Path) -> dict[str, pl.DataFrame]:
    """Two ports, sampled three times. Each count covers the second before it."""
    with Recorder(tmp_path) as recorder:
        for second in (1, 2, 3):
            what = {name: 10.0 * n * second for n, name in enumerate(
                ("left", "queue_drops", "policy_drops", "pruned", "marked"), 1)}  # fmt: skip
            counts = {(1, 0): what, (1, 1): {"left": 7.0, "waiting": 3.0}, (-1, -1): {"left": 1.0}}
            record_port(recorder, second, "0>1", counts)
            record_port(recorder, second, "1>3", {(2, 0): {"left": second, "waiting": 4.0}})
    return finish_rows(tmp_path)


def test_rows_that_hold(rows) -> None:
    (check,) = conservation(Rows(rows))
    assert (check.measured, check.bound, check.ok, check.where) == (0, 0, True, "")
    assert verdict([check], []) == ("reported", [])


def test_a_run_in_which_no_packet_was_sent_holds(rows) -> None:
    """Its session starts just before its end: there are rows of ports, and none of sessions."""
    (check,) = conservation(Rows({"port": rows["port"]}))
    assert (check.measured, check.ok) == (0, True)


@pytest.mark.parametrize("column", ["entered", "left", "queue_drops", "policy_drops", "pruned"])
@pytest.mark.parametrize("by", [-1, 2])
def test_one_packet_at_one_look_makes_a_run_invalid(rows, column: str, by: int) -> None:
    there = (pl.col("time_s") == 2) & (pl.col("session") == 1) & (pl.col("layer") == 0)
    changed = pl.when(there).then(pl.col(column) + by).otherwise(pl.col(column)).alias(column)
    rows["port.session"] = rows["port.session"].with_columns(changed)
    (check,) = conservation(Rows(rows))
    assert check.measured == abs(by)
    name, (reason,) = verdict([check], [])
    assert name == "invalid"
    assert reason.startswith(f"unaccounted: {abs(by)} packets > 0: link 0>1, session 1, layer 0, ")


def test_the_reason_names_link_session_and_numbers(rows) -> None:
    waits = pl.when(pl.col("session") == 2).then(0).otherwise(pl.col("waiting"))
    rows["port.session"] = rows["port.session"].with_columns(waiting=waits)
    (check,) = conservation(Rows(rows))
    assert check.where == (
        "link 1>3, session 2, layer 0, at 1.0 s: 5 entered, but 1 left, the queue dropped 0, its "
        "policy 0, 0 were pruned and 0 wait"
    )


def test_a_port_has_to_hold_as_a_whole(rows) -> None:
    rows["port"] = rows["port"].with_columns(pl.col("queue_drops") + 1)
    (check,) = conservation(Rows(rows))
    assert check.where.startswith("link 0>1, in all, at 1.0 s: 111 entered, but 18 left, the queue")
    assert "; link 1>3, in all, at 1.0 s" in check.where


def test_many_places_are_counted(rows) -> None:
    for kind in ("port", "port.session"):
        rows[kind] = rows[kind].with_columns(pl.col("entered") + 1)
    (check,) = conservation(Rows(rows))
    assert check.where.count("entered, but") == 3 and check.where.endswith("; and 3 more")


def test_queues_that_count_nothing_are_said_not_to(rows) -> None:
    nothing = {name: pl.lit(None, pl.Float64) for name in ("entered", "queue_drops")}
    rows["port"] = rows["port"].with_columns(**nothing, queue_packets=nothing["entered"])
    rows["port.session"] = rows["port.session"].with_columns(**nothing, waiting=nothing["entered"])
    (check,) = conservation(Rows(rows))
    assert check.ok and check.measured is None
    shown = check_row({"ok": True, **check.__dict__})
    assert (shown["measured"], shown["verdict"]) == ("no data", "not checked")


# For a switch whose queues report nothing before the last sample, layer 0 at 1-3: entered, left,
# and what the queue had really dropped. The account is right until a row is changed.
SEEN = [(10, 10, 0), (60, 20, 12), (90, 40, 25), (120, 60, 25), (125, 95, 25), (126, 101, 25)]


def seen(folder: Path, changed: dict[int, dict[str, float | None]] | None = None):
    """The rows of these samples, as read from disk."""
    with Recorder(folder) as recorder:
        for second, (entered, left, _) in enumerate(SEEN, 1):
            last = second == len(SEEN)
            counts = {"entered": entered, "left": left, "policy_drops": 0, "pruned": 0}
            counts |= {"queue_drops": None, "marked": 0}
            counts |= (changed or {}).get(second, {})
            waiting = {"queue_packets": 0 if last else None}
            place = {"port": 2, "link": "1>3"}
            layer = {**counts, "session": 1, "layer": 0, "waiting": waiting["queue_packets"]}
            rest = dict.fromkeys(counts, 0) | {"session": -1, "layer": -1}
            rest |= {"entered": 5, "left": 5, "waiting": layer["waiting"]}
            rest["queue_drops"] = None
            port = {name: counts[name] and counts[name] + rest[name] for name in counts}
            port["queue_drops"] = counts["queue_drops"]
            lost = {"kernel_drops": counts.pop("kernel_drops", 0 if last else None)}
            recorder.add("port", float(second), "s1", {**place, **port, **waiting, **lost})
            for row in (layer, rest):
                row.pop("kernel_drops", None)
                recorder.add("port.session", float(second), "s1", {**place, **row})
    return finish_rows(folder)


def test_drops_that_queues_do_not_tell_are_those_of_what_was_never_served(tmp_path: Path) -> None:
    """The estimate is never too low, at most one queue length too high, and exact in the end."""
    rows = seen(tmp_path)
    layers = rows["port.session"].filter(pl.col("session") == 1)
    drops = layers["queue_drops"].to_list()
    assert drops == [0, 25, 25, 25, 25, 25]
    really = [drops for _, _, drops in SEEN]
    lengths = [entered - left - dropped for entered, left, dropped in SEEN]
    assert all(a <= b <= a + n for a, b, n in zip(really, drops, lengths, strict=True))
    assert rows["port"]["queue_drops"].to_list() == drops
    assert rows["port.session"].filter(pl.col("session") < 0)["queue_drops"].sum() == 0
    assert layers["waiting"].to_list() == [None] * 5 + [0]
    (check,) = conservation(Rows(rows))
    assert (check.measured, check.bound, check.ok) == (0, 0, True)
    # They are stored and can be read back unchanged.
    assert read_rows(tmp_path)["port"].equals(rows["port"])


def test_drops_of_a_run_that_was_broken_off_are_no_more_than_can_be(tmp_path: Path) -> None:
    rows = seen(tmp_path)
    assert rows["port"]["queue_drops"].to_list() == [0, 25, 25, 25, 25, 25]
    rows = {kind: frame.filter(pl.col("time_s") < 4.5) for kind, frame in rows.items()}
    unknown = {kind: frame.with_columns(queue_drops=None) for kind, frame in rows.items()}
    assert with_queue_drops(unknown)["port"]["queue_drops"].to_list() == [0, 40, 50, 60]


@pytest.mark.parametrize("second", [2, 6])
def test_more_that_leave_than_entered(tmp_path: Path, second: int) -> None:
    """Once in a sample where it is unknown what waits, and once in the last."""
    (check,) = conservation(Rows(seen(tmp_path, {second: {"entered": 19}})))
    assert not check.ok
    assert check.where.startswith(f"link 1>3, session 1, layer 0, at {second}.0 s: 19 entered, but")
    assert check.where.endswith("were pruned" if second == 2 else "were pruned and 0 wait")


def test_packets_that_come_in_and_were_never_sent(tmp_path: Path) -> None:
    (check,) = conservation(Rows(seen(tmp_path, {6: {"kernel_drops": -2}})))
    assert (check.measured, check.ok) == (2, False)
    assert check.where == (
        "link 1>3, in all, at 6.0 s: 2 packets came the other way that were never sent"
    )


def test_queues_that_have_not_drained_leave_drops_unknown(tmp_path: Path) -> None:
    rows = seen(tmp_path)
    rows["port"] = rows["port"].with_columns(queue_packets=pl.lit(None, pl.Int64))
    (check,) = conservation(Rows(rows))
    assert not check.ok
    assert check.sentence().startswith("unaccounted: not measured (1>3 had not drained at the last")


def test_a_run_in_which_it_does_not_hold_exits_3(
    load: Load, tmp_path: Path, simulator: Callable[[str], Path]
) -> None:
    """With a simulator that loses a packet on 1-3."""
    with Recorder(tmp_path / "made") as recorder:
        record_port(recorder, 1.0, "1>3", {(1, 0): {"left": 9.0, "waiting": 1.0}})
        record_port(recorder, 20.0, "1>3", {(1, 0): {"left": 99.0}})
    lost = [line.replace('"left": 99', '"left": 98')
            for name in ("port", "port.session")
            for line in (tmp_path / "made" / f"{name}.jsonl").read_text().splitlines()]  # fmt: skip
    simulator("".join(f"echo '{line}'\n" for line in [*lost, json.dumps({"end": True})]))
    results = tmp_path / "results"
    options = Options(1, "ns3", "tiercast", results, ["./tiercast"])
    shown = Console(file=io.StringIO(), width=200)
    assert show_results(*run_and_store(load(), options, shown), shown) == EXIT_INVALID
    summary = json.loads((results / "latest" / "summary.json").read_text())
    assert summary["verdict"] == "invalid"
    (reason,) = summary["reasons"]
    assert "link 1>3, session 1, layer 0, at 20.0 s: 99 entered, but 98 left" in reason
    assert reason[:60] in shown.file.getvalue()
    assert reason[:60] in html.unescape((results / "latest" / "report.html").read_text())
