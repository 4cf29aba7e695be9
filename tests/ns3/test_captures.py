"""Captures in virtual time: they count what the rows count, and Wireshark reads them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import polars as pl
import pytest
from tiercast.v1.simulation_pb2 import Capture, ControllerAnswer
from tiercast_controller.virtual import VirtualController
from tiercast_lab.experiment.loading import load_experiment
from tiercast_lab.experiment.schemes import known_schemes
from tiercast_lab.run.capture_options import MAX_BYTES, SNAP_BYTES
from tiercast_lab.run.controller_input import (
    Reach,
    described_sessions,
    described_topology,
    programs_for,
)
from tiercast_lab.run.ns3.scenario import delimited, scenario

from ..captures import counted, frames, in_rows, longest_header, received
from ..checkout import BUILD, ROOT
from ..patience import PATIENCE_S

pytestmark = pytest.mark.slow

# 1-3 and 0-2 drop, 1-4 loses and duplicates, 0-1 fails for a second. The sessions stop before the
# end, so nothing is under way when the last rows are written.
EXPERIMENT = """\
name: captured
title: Links that drop, lose and fail
topology:
  tree: {depth: 2}
  link: {rate: 6Mbit/s, delay: 5ms, queue: 50p}
  links:
    1-3: {rate: 1Mbit/s, queue: 12p}
    1-4: {loss: 2%, duplicate: 1%}
    0-2: {rate: 1Mbit/s, marking: {kind: drop_tail, limit: 5}}
sessions:
  - {scheme: sim, sender: 0, layers: 3, stop: 8s}
  - {scheme: rlm, sender: 0, session: 2, layers: 2, stop: 8s}
traffic:
  - {kind: udp, from: 0, to: 3, rate: 300kbit/s, stop: 8s}
events:
  - {at: 4s, link: 0-1, up: false}
  - {at: 5s, link: 0-1, up: true}
duration: 10s
"""
LINKS = ("0-1", "1-3", "1-4", "0-2", "h0", "t0")


def run(folder: Path, *options: str, experiment: str = "captured.yaml") -> Path:
    (folder / "captured.yaml").write_text(EXPERIMENT)
    command = [ROOT / "tiercast", "run", experiment, "--runtime", "ns3", "--results", "results"]
    done = subprocess.run([*command, *options], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder / "output").write_text(done.stdout)
    return (folder / "results/latest").resolve()


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    asked = [option for link in LINKS for option in ("--capture", link)]
    return run(tmp_path_factory.mktemp("captured"), *asked)


@pytest.mark.parametrize("link", LINKS)
def test_a_capture_counts_what_the_rows_count(captured: Path, link: str, tmp_path: Path) -> None:
    found = frames(captured / "captures" / f"{link}.pcapng", tmp_path)
    counts = counted(found)
    a, b = link.split("-") if "-" in link else ("0", link)
    there, back = f"{a}>{b}", f"{b}>{a}"
    assert counts.keys() <= {there, back} and len(counts) >= 1
    rows = captured / "rows"
    assert counts.get(there, {}) == in_rows(rows, there)
    assert sum(counts.get(back, {}).values()) == received(rows, there)
    if b in ("1", "2"):  # a switch, whose port has rows
        assert counts[back] == in_rows(rows, back)
    assert [one for one in found if one["tiercast.error"]] == []
    assert any("SimData session 1" in one["_ws.col.Info"] for one in found) or link == "t0"
    summary = json.loads((captured / "summary.json").read_text())
    [mine] = [one for one in summary["captures"] if one["link"] == link]
    assert mine["file"] == f"captures/{link}.pcapng"
    for way, numbers in mine["directions"].items():
        assert numbers == {
            "frames": sum(counts.get(way, {}).values()),
            "missed": None,
            "full": False,
        }


def test_the_experiment_dropped_lost_and_duplicated(captured: Path) -> None:
    ports = pl.read_parquet(captured / "rows/port.parquet").sort("time_s")
    last = {one["link"]: one for one in ports.unique("link", keep="last").to_dicts()}
    assert last["1>3"]["queue_drops"] > 0
    assert last["1>4"]["link_losses"] > 0 and last["1>4"]["duplicated"] > 0
    assert last["0>2"]["policy_drops"] > 0
    assert last["0>1"]["down_drops"] + last["0>1"]["link_losses"] > 0
    assert all(one["queue_packets"] == one["on_wire"] == 0 for one in last.values())


def test_a_file_that_cannot_be_closed_is_an_error(tmp_path: Path) -> None:
    """What is in memory until the end of the run finds no room."""
    (tmp_path / "idle.yaml").write_text(
        "name: idle\ntopology: {tree: {depth: 1}, link: {rate: 1Mbit/s, delay: 1ms, queue: 9p}}\n"
        "sessions: [{scheme: sim, sender: 0, layers: 1, start: 190ms}]\n"
        "traffic: [{kind: udp, from: 0, to: 1, rate: 100kbit/s}]\nduration: 200ms\n"
    )
    loaded = load_experiment(tmp_path / "idle.yaml", known_schemes(), [])
    controller = VirtualController(
        described_topology(loaded, lambda one: Reach("", one.device_id)),
        described_sessions(loaded),
        programs_for(loaded),
    )
    message = scenario(loaded, seed=1)
    message.switches[0].ports[0].capture.CopyFrom(
        Capture(path="/dev/full", snap_bytes=SNAP_BYTES, max_bytes=MAX_BYTES)
    )
    first = ControllerAnswer(updates=controller.first_updates())
    done = subprocess.run(
        [BUILD / "ns3/tiercast-ns3"], input=delimited(message) + delimited(first),
        capture_output=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (
        2,
        b"tiercast-ns3: /dev/full: No space left on device\n",
    )
    assert b'"end"' not in done.stdout


def test_times_are_virtual_and_those_of_arrival(captured: Path, tmp_path: Path) -> None:
    """A frame that finds 0-1 idle arrives after its serialisation, 1000 bytes at 6 Mbit/s, and
    5 ms. The link from h0 has no rate and no delay."""
    sent, arrived = (
        [
            float(one["frame.time_epoch"])
            for one in frames(captured / f"captures/{link}.pcapng", tmp_path)
            if one["tiercast.group.session"] and one["frame.interface_name"] == way
        ]
        for link, way in (("h0", "h0>0"), ("0-1", "0>1"))
    )
    assert arrived == sorted(arrived) and arrived[-1] < 10
    least = 8000 / 6e6 + 0.005
    # No frame is sooner, so of those sent at least so long before it is one of the latest.
    took = [at - max(one for one in sent if one <= at - least + 2e-9) for at in arrived]
    assert min(took) == pytest.approx(least, abs=2e-9)  # times are whole nanoseconds


def test_frames_are_cut_behind_the_longest_header(captured: Path, tmp_path: Path) -> None:
    assert longest_header() <= SNAP_BYTES
    found = frames(captured / "captures/1-3.pcapng", tmp_path)
    assert all(int(one["frame.cap_len"]) == min(int(one["frame.len"]), SNAP_BYTES) for one in found)
    short = run(tmp_path, "--capture", "3-1", "--capture-snaplen", "60")  # 3-1 is 1-3
    cut = frames(short / "captures/1-3.pcapng", tmp_path)
    assert len(cut) == len(found)
    assert max(int(one["frame.cap_len"]) for one in cut) == 60


def test_a_capture_ends_when_its_file_is_full(captured: Path, tmp_path: Path) -> None:
    full = run(tmp_path, "--capture", "0-1", "--capture-bytes", "20kB")
    summary = json.loads((full / "summary.json").read_text())
    [way, back] = summary["captures"][0]["directions"].values()
    assert way["full"] and not back["full"]
    # A record is a header of 16 bytes and up to SNAP_BYTES; the one that reaches the limit is kept.
    assert way["frames"] >= (20_000 - 24) / (16 + SNAP_BYTES)
    size = (full / "captures/0-1.pcapng").stat().st_size
    assert size < 1.2 * (20_000 + 16 + SNAP_BYTES) + 200 * back["frames"] + 1000
    all_of_it = frames(captured / "captures/0-1.pcapng", tmp_path)
    kept = frames(full / "captures/0-1.pcapng", tmp_path)
    ways = [
        [one for one in found if one["frame.interface_name"] == "0>1"]
        for found in (all_of_it, kept)
    ]
    assert ways[1] == ways[0][: way["frames"]]
    said = (tmp_path / "output").read_text()
    assert re.search(r"0>1 \d+ frames until the file was full \(--capture-bytes\)", said)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--capture", "1-9"], "no link '1-9'; valid: 0-1, 0-2, 1-3, 1-4, 2-5, 2-6, h0, t0"),
        (["--capture", "1-3", "--capture-bytes", "5"], "'5' is not a size"),
        (["--capture", "1-3", "--capture-bytes", "5B"], "5B; valid: 1kB to 1000MB"),
        (["--capture", "1-3", "--capture-snaplen", "41"], "valid: a whole number, 42 to 65535"),
        (["--capture-bytes", "1MB"], "nothing is captured; valid: with --capture LINK"),
    ],
)  # fmt: skip
def test_what_cannot_be_captured_is_refused(tmp_path: Path, options: list[str], error: str) -> None:
    (tmp_path / "captured.yaml").write_text(EXPERIMENT)
    command = [
        ROOT / "tiercast",
        "run",
        "captured.yaml",
        "--runtime",
        "ns3",
        "--results",
        "results",
    ]
    done = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert error in " ".join(done.stderr.replace("│", " ").split())
    assert not (tmp_path / "results").exists()
