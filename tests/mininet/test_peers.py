"""The runs beside NORM and UFTP: the files agree, a run in which both deliver what they send, and
the page that is made of such runs."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
import yaml
from tiercast_lab.base import binaries

from .conftest import ROOT, skip_if_invalid
from .real_run import Started

BASE = ROOT / "experiments/bases/peers.yaml"


def test_the_file_beside_tcp_has_the_base_programs() -> None:
    """A list replaces the base's, so it has to repeat them."""
    base, tcp = (yaml.safe_load(path.read_text())["traffic"]
                 for path in (BASE, ROOT / "experiments/peers-tcp.yaml"))  # fmt: skip
    assert [one["kind"] for one in tcp[:2]] == ["tcp", "tcp"]
    assert tcp[2:] == base


RUN = """
topology:
  nodes: [0, 1, 2, 3, 4]
  link: {rate: 10Mbit/s, delay: 1ms, queue: 100p}
  links: {0-1: {rate: 2Mbit/s, delay: 10ms, queue: 45kB}, 1-2: {}, 1-3: {}, 4-0: {}}
marking: {kind: none}
sessions: [{scheme: tfmcc, sender: 4, receivers: [0]}]
multicast:
  - {group: 230.4.4.2, senders: [0]}
  - {group: 230.4.4.1, senders: [4]}
  - {group: 230.5.5.1, senders: [4]}
traffic:
  - {kind: command, from: 2, run: "NORM receive --id=2 & UFTPD -U 0x00000002 -D FOLDER/2"}
  - {kind: command, from: 3, run: "NORM receive --id=3 & UFTPD -U 0x00000003 -D FOLDER/3"}
  - {kind: command, from: 0, run: "NORM send --id=1"}
  - {kind: command, from: 4, start: 2s, run: "uftp -I $interface -P 230.5.5.1 -t 8 -C tfmcc FILE"}
duration: 30s
"""
SIZE = 300_000


@pytest.mark.alone
@pytest.mark.mininet
@pytest.mark.skipif(
    shutil.which("uftp") is None or not binaries.NORM.exists(), reason="uftp or libnorm-dev missing"
)
def test_both_deliver_what_they_send(tmp_path: Path) -> None:
    """UFTP ends with the file at both receivers; NORM's stream arrives in order, without a gap."""
    sent = tmp_path / "file"
    sent.write_bytes(hashlib.shake_256(b"peers").digest(SIZE))
    for node in "23":
        (tmp_path / node).mkdir()
    text = RUN.replace("UFTPD", "exec uftpd -q -d -t -I $interface -M 230.4.4.1")
    text = text.replace("FILE", str(sent)).replace("FOLDER", str(tmp_path))
    text = text.replace("NORM", "tiercast-norm")
    text = text.replace("--id", "--group=230.4.4.2 --interface=$interface --id")
    file = tmp_path / "peers.yaml"
    file.write_text(text)
    status, out, error = Started(tmp_path / "results", experiment=str(file)).finish()
    assert status in (0, 3), out + error
    folder = (tmp_path / "results/latest").resolve()
    summary = json.loads((folder / "summary.json").read_text())
    checks = {one["name"]: one["measured"] for one in summary["validity"]["checks"]}
    assert checks["unaccounted"] == 0
    skip_if_invalid(summary)
    said = (folder / "logs/command4.log").read_text()
    for number, node in enumerate("23", 1):
        assert (tmp_path / node / "file").read_bytes() == sent.read_bytes(), said
        log = (folder / f"logs/command{number}.log").read_text()
        events = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
        assert [one["event"] for one in events[:2]] == ["joined", "first"]
        assert events[-1]["read"] > SIZE and events[-1]["breaks"] == 0
