"""The runs beside NORM and UFTP: the files agree, a run in which both deliver what they send, and
the page that is made of such runs."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from tiercast_lab.base import binaries
from tiercast_lab.base.errors import LabError
from tiercast_lab.experiment.loading import load_experiment
from tiercast_lab.experiment.schemes import known_schemes
from tiercast_lab.results.recorder import Recorder
from tiercast_lab.results.storage import StoredRun

from ..checkout import ROOT
from .conftest import LATE, add_health, record_port, skip_if_invalid, store
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


def peers_page() -> ModuleType:
    """scripts/peers_page.py as a module."""
    spec = importlib.util.spec_from_file_location("peers_page", ROOT / "scripts/peers_page.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclass looks itself up there
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_rows_figures(tmp_path: Path) -> None:
    """A stored run in which every rate is known: receivers n of NORM get 100 n kbit/s and send n
    packets/s; UFTP's get half, and send twice as many."""
    loaded = load_experiment(ROOT / "experiments/peers-tcp.yaml", known_schemes())
    recorder = Recorder(tmp_path / "run/rows")
    for second in range(131):
        for number in range(1, 11):
            uftp = number > 5
            nth = (number - 1) % 5 + 1
            counts = {
                "rx_bytes": 100e3 / 8 * nth * second * (0.5 if uftp else 1.0),
                "tx_packets": nth * second * (2.0 if uftp else 1.0),
                "rx_packets": 0.0,
                "tx_bytes": 0.0,
            }
            recorder.add("command", float(second), f"command{number}", counts)
        for name, rate in (("tcp1", 400e3), ("tcp2", 100e3)):
            row = {"bytes": rate / 8 * second, "goodput_bytes": 0.0}
            recorder.add("tcp", float(second), name, row)
        add_health(recorder, float(second))
        load = {"cpu_percent": 80.0, "cpu_wait_ms": 0.05, "pressure_percent": 90.0}
        recorder.add("machine", float(second), "lab", load)
        record_port(recorder, float(second), "0>1", {(-1, -1): {"left": 1.0}})
    recorder.add("pacer.final", 130.0, "h0", {**LATE, "dropped": 0.0})
    run = store(loaded, recorder)
    logs = run.directory / "logs"
    logs.mkdir()
    (logs / "command4.log").write_text(
        '{"event": "joined"}\n{"event": "first", "waited_s": 0.25}\n'
    )
    page = peers_page()
    sides = page.sides(run)
    # The first three; the fourth comes later, and the fifth is the sender.
    assert sides["NORM"] == page.Side(
        pytest.approx(200e3), pytest.approx(6), 0.25, 400e3, None, None
    )
    assert sides["UFTP"] == page.Side(
        pytest.approx(100e3), pytest.approx(12), None, 100e3, None, None
    )
    table = page.table("NORM", {"reno": [sides["NORM"]]})
    assert table.splitlines()[-1] == "| TCP Reno | 200 | 400 | **0.50** | 6.0 | – | 250 | – |"


def test_the_page_is_of_such_runs_alone(stored: StoredRun) -> None:
    page = peers_page()
    with pytest.raises(LabError, match=r"not a run of experiments/peers-\*\.yaml"):
        page.sides(stored)
