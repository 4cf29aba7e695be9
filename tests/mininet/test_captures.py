"""Captures of a real run: they count what the rows count, and what the kernel counted."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from tiercast_lab.base.errors import InputError
from tiercast_lab.run.mininet.link_captures import require_dumpcap

from ..captures import counted, frames, in_rows, received
from .real_run import Started

EXPERIMENT = """\
name: captured
topology:
  tree: {depth: 2}
  link: {rate: 3Mbit/s, delay: 5ms, queue: 50p}
  links:
    1-3: {rate: 500kbit/s, queue: 6p}
sessions:
  - {scheme: sim, sender: 0, layers: 2}
  - {scheme: rlm, sender: 0, session: 2, layers: 2}
duration: 6s
"""
LINKS = ("0-1", "1-3", "h0")


@pytest.mark.mininet
def test_a_capture_counts_what_the_rows_count(tmp_path: Path) -> None:
    file = tmp_path / "captured.yaml"
    file.write_text(EXPERIMENT)
    asked = [option for link in LINKS for option in ("--capture", link)]
    started = Started(tmp_path / "results", *asked, experiment=str(file))
    status, out, error = started.finish()
    assert status in (0, 3), out + error
    started.assert_nothing_is_left()
    run = (tmp_path / "results/latest").resolve()
    summary = json.loads((run / "summary.json").read_text())
    assert summary["complaints"] == []
    assert [one["link"] for one in summary["captures"]] == list(LINKS)
    assert in_rows(run / "rows", "1>3").total() < in_rows(run / "rows", "0>1").total()
    for one in summary["captures"]:
        counts = counted(frames(run / one["file"], tmp_path))
        there, back = one["directions"]
        # The rows are those of the switch's port. What came back is counted when it comes in; the
        # kernel of a host repeats its last IGMP reports after that, when all else has ended.
        assert counts[there] == in_rows(run / "rows", there)
        assert sum(counts[back].values()) - received(run / "rows", there) in (0, 1, 2)
        for way, numbers in one["directions"].items():
            # What arrived is the kernel's count.
            assert numbers == {"frames": counts[way].total(), "missed": 0, "full": False}
        assert one["cpu_s"] > 0
        assert f"capture of {one['link']}: {run / one['file']}: {there} " in out
    assert list((run / "captures").glob("*.pcap")) == []


@pytest.mark.mininet
def test_an_interrupted_run_keeps_what_was_captured(tmp_path: Path) -> None:
    started = Started(tmp_path, "--capture", "1-3")
    started.wait_for_second(5)
    started.process.send_signal(signal.SIGINT)
    assert started.finish()[0] == 130
    started.assert_nothing_is_left()
    [capture] = tmp_path.glob("*/captures/*")
    assert capture.name == "1-3.pcapng"
    assert len(frames(capture, tmp_path)) > 100  # at least 500 kbit/s of 1000-byte packets


def test_without_dumpcap_its_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_dumpcap()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="dumpcap is not in PATH; install: wireshark-common"):
        require_dumpcap()
