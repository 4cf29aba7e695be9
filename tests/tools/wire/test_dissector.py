"""tiercast.lua in tshark, on a capture of all vectors."""

import os
import subprocess
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import wrpcap
from tiercast_wire.messages import MESSAGES, SCHEMES

from .vectors import COMMON, GROUPS, VECTORS, Vector

DISSECTOR = Path(__file__).resolve().parents[3] / "tools" / "wire" / "tiercast.lua"
DERIVED = ["message", "payload", "error", "group.session", "group.rank"]
READABLE = {message.scheme for message in MESSAGES}
# The dissector takes all schemes, also those without a number, but a vector may expect a reader of
# only one.
TRIAL = 255
NAMED = [
    vector
    for vector in VECTORS
    if vector.message and not (vector.error == "scheme" and vector.message[2] in {*SCHEMES, TRIAL})
]


def columns_of(scheme: int) -> tuple[list[str], list[str]]:
    """The names of the scheme's fields and of its records' fields, without reserved ones."""
    of_scheme = [message for message in MESSAGES if message.scheme == scheme]
    fields = dict.fromkeys(field.name for one in of_scheme for field in one.fields)
    records = dict.fromkeys(field.name for one in of_scheme for field in one.record)
    return ([one for one in names if not one.startswith("reserved")] for names in (fields, records))


def tshark(tmp_path: Path, capture: Path, columns: list[str]) -> list[dict[str, str]]:
    """One row of columns per frame. Commas separate the values of a field that occurs several
    times."""
    command = ["tshark", "-X", f"lua_script:{DISSECTOR}", "-r", str(capture), "-T", "fields"]
    command += ["-E", "separator=;"]
    for column in columns:
        command += ["-e", f"tiercast.{column}"]
    # Without the settings and plugins of the user who runs this.
    environment = {**os.environ, "HOME": str(tmp_path), "WIRESHARK_CONFIG_DIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
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
    """What tshark says about each vector, by its name. Both ports accept all types."""
    folder = tmp_path_factory.mktemp("vectors")
    capture = folder / "vectors.pcap"
    wrpcap(
        str(capture),
        [frame(vector.message, "10.0.0.1", 5500 + i % 2) for i, vector in enumerate(NAMED)],
    )
    columns = [*COMMON, *DERIVED]
    for scheme in READABLE:
        fields, records = columns_of(scheme)
        prefix = SCHEMES[scheme]
        columns += [f"{prefix}.{name}" for name in fields]
        columns += [f"{prefix}.record.{name}" for name in records]
    found = tshark(folder, capture, columns)
    assert len(found) == len(NAMED)
    return {vector.name: row for vector, row in zip(NAMED, found, strict=True)}


@pytest.mark.parametrize("vector", NAMED, ids=str)
def test_vector(vector: Vector, rows: dict[str, dict[str, str]]) -> None:
    row = rows[vector.name]
    assert row["error"] == (vector.error or "")
    if vector.parts is None:
        return
    assert row["message"] == vector.layer
    assert row["payload"] == vector.parts.get("payload", "")
    for name in COMMON:
        assert int(row[name], 0) == vector.parts["common"][name], name
    fields, records = columns_of(vector.scheme)
    prefix = SCHEMES[vector.scheme]
    for name in fields:
        assert row[f"{prefix}.{name}"] == str(vector.parts["fields"].get(name, "")), name
    for name in records:
        records_here = vector.parts.get("records", [])
        values = ",".join(str(record[name]) for record in records_here if name in record)
        assert row[f"{prefix}.record.{name}"] == values, name


def test_a_scheme_without_a_table_is_shown_and_not_rejected(tmp_path: Path) -> None:
    """A scheme from outside the tree has number 255, and no fields that the dissector knows."""
    head = bytes.fromhex("0101ff00000c0007")  # data, 12 bytes of headers, session 7
    messages = [
        head + bytes.fromhex("0000002a") + b"abc",
        bytes.fromhex("0102ff0000080007"),
        head + b"abc",  # a byte of the headers is missing
        bytes.fromhex("0101ff0000070007"),
        bytes.fromhex("0101fe0000080007"),  # a number that is nobody's
    ]
    capture = tmp_path / "trial.pcap"
    wrpcap(str(capture), [frame(one, "239.192.0.56", 5500) for one in messages])
    columns = ["scheme", "session", "headers", "payload", "error"]
    rows = tshark(tmp_path, capture, columns)
    assert [tuple(row.values()) for row in rows] == [
        ("255", "7", "0000002a", "616263", ""),
        ("255", "7", "", "", ""),
        ("255", "7", "", "", "short"),
        ("255", "7", "", "", "length"),
        ("254", "7", "", "", "scheme"),
    ]


def test_group_addresses(tmp_path: Path) -> None:
    capture = tmp_path / "groups.pcap"
    message = next(vector.message for vector in VECTORS if vector.parts)
    wrpcap(str(capture), [frame(message, group["address"], 5500) for group in GROUPS])
    seen = tshark(tmp_path, capture, ["group.session", "group.rank"])
    expected = [(str(group["session"]), str(group["rank"])) for group in GROUPS]
    assert [(row["group.session"], row["group.rank"]) for row in seen] == expected
