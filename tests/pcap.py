"""Capture files in libpcap's format, of Ethernet frames."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path


def write_pcap(path: Path, frames: Sequence[bytes]) -> Path:
    """The frames are a microsecond apart."""
    header = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    records = (struct.pack("<IIII", 1, n, len(f), len(f)) + f for n, f in enumerate(frames))
    path.write_bytes(header + b"".join(records))
    return path


def read_pcap(path: Path) -> list[bytes]:
    """Of a file that is not there, no frames."""
    if not path.exists():
        return []
    data, at, frames = path.read_bytes(), 24, []
    while at + 16 <= len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        frames.append(data[at + 16 : at + 16 + length])
        at += 16 + length
    return frames
