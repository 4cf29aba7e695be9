"""DPDK's SWX pipeline, beside which `make bench-switch` measures the engine, does the same work:
the same frames leave both. Skipped where SWX's programs cannot be compiled."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether

from ...checkout import BUILD, ROOT

BENCH = BUILD / "dataplane/switch/bench/swx/tiercast-swx-bench"
PROGRAMS = ROOT / "tests/data/p4"
sys.path.append(str(ROOT / "scripts"))

import swx  # noqa: E402

COPIES = [2, 3, 4, 5]
KNOWN, UNKNOWN = "10.0.0.2", "10.9.9.9"


def ip_frame(destination: str, **fields: Any) -> bytes:
    header = IP(src="10.0.0.1", dst=destination, **fields)
    payload = UDP() if header.proto == 17 else TCP(sport=1, dport=80)
    ethernet = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    return bytes(ethernet / header / payload / (b"x" * 500))


FRAMES = {
    "known": ip_frame(KNOWN),
    "last hop": ip_frame(KNOWN, ttl=2),
    "UDP": ip_frame(KNOWN, proto=17),
    "checksum of 0": ip_frame(KNOWN, chksum=0),
    "wrong checksum": ip_frame(KNOWN, chksum=0x1234),
    "TTL 1": ip_frame(KNOWN, ttl=1),
    "unknown": ip_frame(UNKNOWN),
}
LEAVES = ("known", "last hop", "UDP")  # of the router that verifies


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What leaves either for each frame, by case."""
    folder = tmp_path_factory.mktemp("swx")
    try:
        swx.compile_programs(BENCH, folder, may_download=False)
    except swx.SwxUnavailable as reason:
        pytest.skip(str(reason))
    given = [word for frame in FRAMES.values() for word in ("--frame", frame.hex())]
    done = subprocess.run(
        [BENCH, "run", "--libraries", folder, "--programs", PROGRAMS, *given],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {one["case"]: one["frames"] for one in json.loads(done.stdout)}


def test_the_same_frames_leave(results: dict[str, list[dict[str, Any]]]) -> None:
    assert len(results) == 4
    for case, frames in results.items():
        for name, one in zip(FRAMES, frames, strict=True):
            assert one["ours"] == one["swx"], (case, name)


@pytest.mark.parametrize("case", ["router", "4 copies, deep", "4 copies, shared"])
def test_what_leaves(results: dict[str, list[dict[str, Any]]], case: str) -> None:
    for name, one in zip(FRAMES, results[case], strict=True):
        ports = ([2] if case == "router" else COPIES) if name in LEAVES else []
        assert [port for port, _ in one["swx"]] == ports, name
        for _, frame in one["swx"]:
            sent, left = Ether(FRAMES[name]), Ether(bytes.fromhex(frame))
            assert left[IP].ttl == sent[IP].ttl - (1 if case == "router" else 0)
            assert left[IP].id == (sent[IP].id if case == "router" else 7)
            assert left[IP].payload == sent[IP].payload
