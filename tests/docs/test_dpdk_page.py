"""The commands of docs/dpdk.md that need no NIC, and its sessions that fill a line."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from ..agent.network import SENDER
from ..checkout import BUILD, ROOT
from .page import write_files

PAGE = (ROOT / "docs/dpdk.md").read_text()
LINE_BPS = 10e9
OVERHEAD_BYTES = 38  # Ethernet's header, FCS, preamble and gap


def test_its_sessions_fill_the_line_and_no_more(tmp_path: Path) -> None:
    """By the schedule, which needs no device and no clock."""
    (sessions,) = write_files("dpdk.md", tmp_path)
    plan = tmp_path / "plan"
    subprocess.run(
        [SENDER, "--address=10.0.0.2", f"--sessions={sessions}", "--duration=10ms",
         f"--dry-run={plan}"], check=True, capture_output=True,
    )  # fmt: skip
    layers = json.loads(plan.with_suffix(".json").read_text())["layers"]
    assert len(layers) == 1000
    size = json.loads(sessions.read_text())["sessions"][0]["packet_size"]
    packets_per_s = sum(layer["rate_Bps"] for layer in layers) / size
    assert 0.999 < packets_per_s * (size + OVERHEAD_BYTES) * 8 / LINE_BPS <= 1
    assert f"{packets_per_s / 1e6:.2f} M packets/s in all" in PAGE


@pytest.mark.slow
def test_its_commands_without_a_nic(tmp_path: Path) -> None:
    write_files("dpdk.md", tmp_path)
    commands = [
        line.partition("  #")[0].replace("/tmp/", f"{tmp_path}/")
        for line in re.findall(
            r"^    (EAL=.*|tiercast-\S+ .*--vdev=net_(?:null|pcap).*)$", PAGE, re.M
        )
    ]
    assert len(commands) == 6
    found = ":".join(str(BUILD / "dataplane" / one) for one in ("sender", "receiver"))
    script = "\n".join([f"set -e; PATH={found}:$PATH", *commands])
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    wanted = [int(one) for one in re.findall(r"^sent \d+ of (\d+) wanted", done.stdout, re.M)]
    assert wanted[:2] == [72, 72]  # 36 packets/s, as the page says, for two seconds
    assert wanted[2] == pytest.approx(2 * 14.88e6, rel=0.01)
    assert json.loads((tmp_path / "found.json").read_text())
