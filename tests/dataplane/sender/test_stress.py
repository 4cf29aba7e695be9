"""tiercast-send when things go wrong at full speed: forged feedback, a device that stops draining,
a core that is asked for more than it can do. The checks do not depend on the machine's speed:
counts are exact, and other sessions continue."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP, IPOption_Router_Alert
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw
from scapy.utils import checksum
from tiercast_wire import Tiercast
from tiercast_wire.layers import LAYERS

from ...agent.network import HOST_IP, HOST_MAC, SENDER_IP
from ...patience import wait_until
from .line import Line, constant, departures

pytestmark = pytest.mark.slow

SESSIONS = 20
ANNOUNCEMENT = LAYERS["RlmAnnouncement"](source=7, rank=0)
SENDER_MAC = "00:00:00:00:00:00"  # a ring device's


def feedback(session: int, destination: str = SENDER_IP, port: int = 5501) -> bytes:
    message = Tiercast(session=session, scheme=8, type=2) / ANNOUNCEMENT
    ip = IP(src=HOST_IP, dst=destination)
    return bytes(Ether(src=HOST_MAC, dst=SENDER_MAC) / ip / UDP(sport=4, dport=port) / message)


def igmp_query(message: bytes) -> bytes:
    ip = IP(src=HOST_IP, dst="224.0.0.1", ttl=1, proto=2, options=[IPOption_Router_Alert()])
    message = b"\x11" + message[1:]
    message = message[:2] + checksum(message).to_bytes(2, "big") + message[4:]
    return bytes(Ether(src=HOST_MAC, dst="01:00:5e:00:00:01") / ip / Raw(message))


def flipped(frame: bytes, at: int) -> bytes:
    return frame[:at] + bytes([frame[at] ^ 1]) + frame[at + 1 :]


SOUND = [feedback(session) for session in range(1, SESSIONS + 1)]
MALFORMED = [
    flipped(SOUND[0], 24),  # IP checksum
    flipped(SOUND[0], 40),  # UDP checksum
    SOUND[0][:45],
    SOUND[0][:20],
    SOUND[0][:14],
    flipped(SOUND[0], 14),  # version and header length of IP
]
FOREIGN = [
    feedback(SESSIONS + 1),
    feedback(1, "10.9.0.99"),
    feedback(1, port=5500),
    bytes(Ether(src=HOST_MAC, dst=SENDER_MAC, type=0x86DD) / bytes(60)),
]
GROUP = bytes([239, 192, 0, 8])  # session 1's base layer
QUERIES = [  # IGMP: a member of no group owes no report
    igmp_query(bytes(8)),  # version 1
    igmp_query(bytes([0, 1, 0, 0]) + bytes(4)),  # version 2, general: an answer within 100 ms
    igmp_query(bytes([0, 1, 0, 0]) + GROUP),  # and for a group
    igmp_query(bytes([0, 1, 0, 0]) + bytes(4) + bytes([2, 125, 0, 0])),  # version 3
    igmp_query(bytes([0, 1, 0, 0]) + GROUP + bytes([2, 125, 0, 0])),
]
ASKED = [bytes(Ether(src=HOST_MAC, dst="ff:ff:ff:ff:ff:ff")
               / ARP(op=1, hwsrc=HOST_MAC, psrc=HOST_IP, pdst=SENDER_IP))]  # fmt: skip


def framed(frames: list[bytes]) -> bytes:
    """The frames in the form that the far end reads."""
    return b"".join(len(frame).to_bytes(2, "big") + frame for frame in frames)


def ring(folder: Path, frames: list[bytes] | None = None, **settings: object) -> dict[str, object]:
    far_end: dict[str, object] = {"ring": 1, "report": folder / "report.json", **settings}
    if frames:
        (folder / "frames").write_bytes(framed(frames))
        far_end["frames"] = folder / "frames"
    return far_end


KINDS = [*SOUND, *MALFORMED, *FOREIGN, *ASKED, *QUERIES]


def check_fates(line: Line, report: dict) -> dict:
    """Every frame of KINDS has exactly one fate, whatever the load. Returns the sender's counts."""
    counted = line.records("feedback")[-1]
    assert report["offered"] > len(KINDS)

    def handed(frames: list[bytes]) -> int:
        return sum(report["handed"][KINDS.index(frame)] for frame in frames)

    # Whatever found room in the ring, and did not stay there, was received.
    assert counted["received"] == report["offered"] - report["refused"] - report["unread"]
    assert counted["received"] == handed(KINDS)
    # Everything received has exactly one fate.
    fates = ("accepted", "refused", "malformed", "foreign", "late", "answered", "learned",
             "igmp_query", "ring_full", "implausible")  # fmt: skip
    assert counted["received"] == sum(counted[fate] for fate in fates)
    assert counted["malformed"] == handed(MALFORMED)
    assert counted["igmp_query"] == handed(QUERIES) > 0
    assert counted["refused"] == counted["learned"] == 0
    # Valid feedback becomes foreign when its session ends.
    assert counted["foreign"] >= handed(FOREIGN)
    assert 0 < counted["answered"] <= handed(ASKED)
    if counted["ring_full"] == 0:
        assert counted["answered"] == handed(ASKED)
        after_end = counted["foreign"] - handed(FOREIGN)
        assert counted["accepted"] + counted["late"] + after_end == handed(SOUND)
    # Only data, answers and what RLM's sender repeats have left: no report in answer to a query.
    worker = line.records("worker")[-1]
    line.check_counts()
    repeated = len(line.records("rlm.announcement")) + worker["trace_lost"]
    left = worker["control_sent"] + worker["control_dropped"]
    assert counted["answered"] <= left <= counted["answered"] + repeated
    return counted


def take_all_kinds(line: Line) -> None:
    """Waits until the sender has received each of KINDS ten times and sent for each session."""
    wait_until(
        lambda: line.control.list_sessions().sessions[-1].layers[0].sent_packets > 10, "packets"
    )
    wait_until(
        lambda: any(r["received"] > 10 * len(KINDS) and r["accepted"] > 0 and r["answered"] > 0
                    for r in line.records("feedback")), "feedback"
    )  # fmt: skip


@pytest.mark.parametrize(("rate", "until"), [(1e4, 0.5), (1e6, 0.5), (1e6, 1000)])
def test_forged_and_malformed_feedback_is_counted_one_by_one(
    tmp_path: Path, rate: float, until: float
) -> None:
    """With `until` = 1000 s it continues while the sender ends."""
    line = Line(tmp_path, [constant(1, "400kbit/s", count=SESSIONS)])
    far_end = ring(tmp_path, KINDS, rate=rate, until=until, descriptors=1024)
    with line.sender(None, far_end=far_end):
        take_all_kinds(line)
    report = json.loads((tmp_path / "report.json").read_text())
    check_fates(line, report)
    assert report["unread"] < 1024
    worker = line.records("worker")[-1]
    assert report["taken"] + report["left"] == worker["sent_packets"] + worker["control_sent"]


@pytest.mark.parametrize("mode", [[], ["--poll"]])
def test_two_cores_one_sends_and_one_receives(tmp_path: Path, mode: list[str]) -> None:
    """The first core of -l receives frames and hands them to the other, which has the sessions: no
    frame is lost on the way without being counted."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("-l 0,1 needs two processors; this machine gives one")
    first, second, *_ = sorted(os.sched_getaffinity(0))
    line = Line(tmp_path, [constant(1, "400kbit/s", count=SESSIONS)])
    report_file = tmp_path / "report.json"
    (tmp_path / "frames").write_bytes(framed(KINDS))
    far_end = {"frames": tmp_path / "frames", "rate": 2e5, "report": report_file}
    with line.sender("net_null0,no-rx=1", *mode, far_end=far_end, lcores=f"{first},{second}"):
        take_all_kinds(line)
    check_fates(line, json.loads(report_file.read_text()))
    # Each lcore has its own task: the one that receives is not a worker.
    assert {worker["lcore"] for worker in line.records("worker")} == {second}


def test_a_device_that_stops_draining_costs_what_it_refuses_and_nothing_else(
    tmp_path: Path,
) -> None:
    record = tmp_path / "record"
    line = Line(tmp_path, [constant(1, "4Mbit/s", count=10)])  # 10,000 packets/s in all
    far_end = ring(tmp_path, stall_after=2000, stall_for=0.3, descriptors=512, record=record,
                   count=1_000_000)  # fmt: skip
    with line.sender(None, "--ramp=10ms", far_end=far_end) as control:

        def total(name: str) -> int:
            return sum(getattr(layer, name) for state in control.list_sessions().sessions
                       for layer in state.layers)  # fmt: skip

        wait_until(lambda: total("dropped_packets") > 100, "the ring is full")
        dropped = total("dropped_packets")
        wait_until(lambda: total("sent_packets") > 8000, "it sends again")
    report = json.loads((tmp_path / "report.json").read_text())
    sent = line.check_counts()
    worker = line.records("worker")[-1]
    assert worker["dropped_packets"] >= dropped
    assert report["taken"] + report["left"] == sent
    # It kept handing over at its rate, and did not catch up with a burst afterwards.
    times, groups = departures(record)
    for group in np.unique(groups):
        mine = times[groups == group]
        assert len(mine) <= (mine[-1] - mine[0]) / 1e6 + 3


def test_what_is_due_within_a_quantum_leaves_together(tmp_path: Path) -> None:
    """200 layers of 5,000 packets/s, spread over their interval: ten are due in each 10 us, and one
    driver call takes them (the record stamps each call once). A core that is late hands over even
    more at a time, at least eight. The ring of built packets wraps after 32, and then it is two
    calls: so at least 8 / (1 + 8 / 32) packets a call. Without a quantum it is hardly more than
    one."""
    line = Line(tmp_path, [constant(1, "20Mbit/s", count=200)])
    record = tmp_path / "record"
    far_end = {"record": record, "count": 200_000}
    options = ("--poll", "--quantum=10us", "--ramp=200us")
    with line.sender("net_null0,no-rx=1", *options, far_end=far_end) as control:
        wait_until(
            lambda: control.list_sessions().sessions[-1].layers[0].sent_packets > 500, "packets"
        )
    line.check_counts()
    times, _ = departures(record)
    assert len(times) / len(np.unique(times)) > 6


def test_a_core_that_is_asked_for_too_much_says_so_and_leaves_out(tmp_path: Path) -> None:
    record = tmp_path / "record"
    line = Line(tmp_path, [constant(1, "4Gbit/s", count=200)])  # 200 M packets/s
    far_end = {"record": record, "count": 500_000}
    with line.sender("net_null0", far_end=far_end):
        wait_until(
            lambda: any(r["generated_packets"] > 500_000 for r in line.records("worker")),
            "all is recorded, and a second is over, in which it says so",
        )
    line.check_counts()
    worker = line.records("worker")[-1]
    assert worker["given_up_packets"] > worker["generated_packets"]
    assert "is behind: it skipped" in line.stderr
    # Once all have started, none sends more than the others, except by a turn or two after a stall
    # of the machine in the middle of one.
    _, groups = departures(record)
    started = np.unique(groups, return_index=True)[1]
    assert len(started) == 200
    shares = np.unique(groups[max(started) :], return_counts=True)[1]
    assert max(shares) - min(shares) <= 16


def test_a_core_that_has_no_time_hears_some_feedback_and_counts_all(tmp_path: Path) -> None:
    """One core is asked for more packets than it can send, under a flood. Departures come first,
    but congestion control still gets some feedback."""
    line = Line(tmp_path, [constant(1, "16Gbit/s", count=SESSIONS)])  # 80 M packets/s
    (tmp_path / "frames").write_bytes(framed(KINDS))
    report = tmp_path / "report.json"
    far_end = {"frames": tmp_path / "frames", "rate": 1e6, "report": report, "descriptors": 512}
    with line.sender("net_null0,no-rx=1", "--poll", far_end=far_end):
        take_all_kinds(line)
    counted = check_fates(line, json.loads(report.read_text()))
    worker = line.records("worker")[-1]
    assert worker["given_up_packets"] > 0
    assert counted["accepted"] > 0
