"""tiercast.lua in tshark, on a capture of all vectors."""

import os
import subprocess
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import wrpcap

from .vectors import GROUPS, VECTORS, Vector

DISSECTOR = Path(__file__).resolve().parents[3] / "tools" / "wire" / "tiercast.lua"
SCALARS = [
    *("version", "type", "scheme", "flags", "header_length", "session", "rank", "rate_epoch"),
    *("seq", "tx_time_us", "fb_req", "group_rate", "max_rtt_us", "payload", "source", "hold_us"),
    *("subtree_rtt_us", "record_count"),
]
RECORD = ["rank", "reports", "congested", "min_cum_rate", "max_cum_rate", "receivers"]
DERIVED = ["error", "group.session", "group.rank"]


def tshark(tmp_path: Path, capture: Path, columns: list[str]) -> list[dict[str, str]]:
    """One row of columns a frame; a field that occurs several times is separated by commas."""
    command = ["tshark", "-X", f"lua_script:{DISSECTOR}", "-r", str(capture), "-T", "fields"]
    command += ["-E", "separator=;"]
    for column in columns:
        command += ["-e", f"tiercast.{column}"]
    # Not the settings and plugins of whoever runs this.
    environment = {**os.environ, "HOME": str(tmp_path), "WIRESHARK_CONFIG_DIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "lua" not in done.stderr.lower(), done.stderr
    return [dict(zip(columns, line.split(";"), strict=True)) for line in done.stdout.splitlines()]


def frame(message: bytes, destination: str, port: int) -> Ether:
    ip = IP(src="10.0.0.2", dst=destination, tos=2)
    return (
        Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
        / ip
        / UDP(sport=40000, dport=port)
        / Raw(message)
    )


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """What tshark says of each vector, by its name. Both ports take both types."""
    folder = tmp_path_factory.mktemp("vectors")
    capture = folder / "vectors.pcap"
    named = [
        vector for vector in VECTORS if vector.message
    ]  # without a byte no dissector is called
    wrpcap(
        str(capture),
        [frame(vector.message, "10.0.0.1", 5500 + i % 2) for i, vector in enumerate(named)],
    )
    columns = [*SCALARS, *(f"record.{name}" for name in RECORD), *DERIVED]
    found = tshark(folder, capture, columns)
    assert len(found) == len(named)
    return {vector.name: row for vector, row in zip(named, found, strict=True)}


@pytest.mark.parametrize("vector", [v for v in VECTORS if v.message], ids=str)
def test_vector(vector: Vector, rows: dict[str, dict[str, str]]) -> None:
    row = rows[vector.name]
    assert row["error"] == (vector.error or "")
    if vector.fields is None:
        return
    for name in SCALARS:
        expected = vector.fields.get(name, "")
        if name == "flags":
            assert int(row[name], 16) == expected
        else:
            assert row[name] == str(expected), name
    for name in RECORD:
        values = ",".join(str(record[name]) for record in vector.fields.get("records", []))
        assert row[f"record.{name}"] == values, name


def test_group_addresses(tmp_path: Path) -> None:
    capture = tmp_path / "groups.pcap"
    message = next(vector.message for vector in VECTORS if vector.fields)
    wrpcap(str(capture), [frame(message, group["address"], 5500) for group in GROUPS])
    seen = tshark(tmp_path, capture, ["group.session", "group.rank"])
    expected = [(str(group["session"]), str(group["rank"])) for group in GROUPS]
    assert [(row["group.session"], row["group.rank"]) for row in seen] == expected
