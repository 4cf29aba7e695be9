"""Rows reach the disk within a second, whole or cut at a line, and read the same before and after
the run ends."""

from __future__ import annotations

import math
import threading
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from tiercast_lab.base.errors import InputError, RunFailed
from tiercast_lab.results import recorder as recorder_module
from tiercast_lab.results.recorder import FLUSH_S, Recorder, finish_rows, read_rows, write_parquet

from ..patience import PATIENCE_S, wait_until


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Rows of two kinds, not in the order of time, as a run leaves them that is broken off."""
    with Recorder(tmp_path / "rows") as recorder:
        for time_s in (0.2, 0.1, 0.3):
            recorder.add("received", time_s, "h3", {"bytes": 1000, "rate_Bps": time_s})
        recorder.add("received", 0.4, "h4", {"bytes": 2.5, "rate_Bps": math.inf, "top": 1})
        recorder.add("port", 1.0, "s1", {"link": "1>3", "drops": 0})
    return tmp_path / "rows"


def test_rows_come_back_as_they_were_given(rows: Path) -> None:
    assert sorted(path.name for path in rows.iterdir()) == ["port.jsonl", "received.jsonl"]
    read = read_rows(rows)
    expected = pl.DataFrame(
        {
            "time_s": [0.1, 0.2, 0.3, 0.4],
            "agent": ["h3", "h3", "h3", "h4"],
            "bytes": [1000.0, 1000.0, 1000.0, 2.5],
            "rate_Bps": [0.1, 0.2, 0.3, None],
            "top": [None, None, None, 1],
        }
    )
    assert_frame_equal(read["received"], expected, check_exact=True)
    assert read["port"].row(0, named=True) == {
        **{"time_s": 1.0, "agent": "s1", "link": "1>3", "drops": 0}
    }


def test_rows_are_on_the_disk_while_the_run_goes_on(tmp_path: Path) -> None:
    assert FLUSH_S < 1
    with Recorder(tmp_path) as recorder:
        recorder.add("received", 0.2, "h3", {"bytes": 1})
        # Another process can read what is there, so this one need not end well.
        wait_until(lambda: len(read_rows(tmp_path).get("received", ())) == 1, "a row")


def test_who_asks_hears_when_rows_are_in_their_files(tmp_path: Path) -> None:
    heard = threading.Event()
    lines: list[int] = []

    def look() -> None:
        lines.append(len((tmp_path / "received.jsonl").read_bytes().splitlines()))
        heard.set()

    with Recorder(tmp_path) as recorder:
        for time_s in (0.2, 0.4):
            recorder.add("received", time_s, "h3", {"bytes": 1})
        recorder.when_written(look)
        assert heard.wait(PATIENCE_S)
    assert lines == [2]


def test_rows_need_not_wait_where_somebody_waits_for_them(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(recorder_module, "FLUSH_S", 10 * PATIENCE_S)
    with Recorder(tmp_path) as recorder:
        recorder.hurry()
        for time_s in (0.2, 0.4):
            heard = threading.Event()
            recorder.add("received", time_s, "h3", {"bytes": 1})
            recorder.when_written(heard.set)
            assert heard.wait(PATIENCE_S)


def test_the_last_line_may_be_half_a_one(rows: Path) -> None:
    lines = rows / "received.jsonl"
    whole = lines.read_bytes()
    for size in range(len(whole)):
        lines.write_bytes(whole[:size])
        read = read_rows(rows)
        assert len(read.get("received", ())) == whole[:size].count(b"\n")


def test_a_run_that_ends_has_parquet(rows: Path) -> None:
    before = read_rows(rows)
    # A lab that is killed while it writes Parquet leaves part of a file beside the lines.
    (rows / "received.parquet").write_bytes(b"PAR1")
    for frames in (read_rows(rows), finish_rows(rows), read_rows(rows)):
        assert frames.keys() == before.keys()
        for kind, frame in frames.items():
            assert_frame_equal(frame, before[kind], check_exact=True)
    assert sorted(path.name for path in rows.iterdir()) == ["port.parquet", "received.parquet"]
    (rows / "port.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="port.parquet: not Parquet"):
        read_rows(rows)


@pytest.mark.parametrize("kind", ["../x", "a/b", "", ".", "A", "a..b"])
def test_a_kind_becomes_no_path(tmp_path: Path, kind: str) -> None:
    with Recorder(tmp_path / "rows") as recorder, pytest.raises(RunFailed, match="valid: "):
        recorder.add(kind, 0.0, "h3", {})
    assert list(tmp_path.rglob("*.jsonl")) == []


def test_fields_do_not_replace_what_every_row_has(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        recorder.add("received", 0.2, "h3", {"time_ns": 7.0, "agent": 1.0, "kind": 2.0})
    assert read_rows(tmp_path)["received"].rows() == [(0.2, "h3")]


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    (tmp_path / "received.jsonl").symlink_to("/dev/full")
    said = f"{tmp_path}: No space left on device; valid: "
    with pytest.raises(InputError, match=said), Recorder(tmp_path) as recorder:
        recorder.add("received", 0.2, "h3", {"bytes": 1})
    with pytest.raises(InputError, match=said):
        recorder.check()


@pytest.mark.parametrize("fate", [None, "", "gone"])
def test_a_fate_that_means_nothing_is_refused(tmp_path: Path, fate: str | None) -> None:
    rows = {"time_s": [1.0, 2.0], "agent": ["s0", "s0"], "fate": ["passed", fate]}
    write_parquet(tmp_path, "trace", pl.DataFrame(rows))
    with pytest.raises(InputError, match=rf"trace has {fate!r} in fate; valid: passed, marked, "):
        read_rows(tmp_path)
