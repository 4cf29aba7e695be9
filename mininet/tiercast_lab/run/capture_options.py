"""What the command line asks to be captured (captures.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Holds Ethernet, IP, UDP and the longest header of any scheme (tests/ns3/test_captures.py).
SNAP_BYTES = 576
MAX_BYTES = 100_000_000
MIN_MAX_BYTES = 1000


@dataclass(frozen=True)
class CaptureOptions:
    links: Sequence[str] = ()
    max_bytes: int = MAX_BYTES  # of each direction's pcap file
    snap_bytes: int = SNAP_BYTES  # of each frame
