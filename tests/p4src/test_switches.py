"""The program on running switches: the same tests on tiercast-switch and on bmv2."""

import ipaddress
import time

import pytest
from scapy.layers.inet import IP, UDP, IPOption_Router_Alert
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from tiercast_wire.layers import SimData, SimFeedback, SimRecord, Tiercast

SESSION = 1
GROUP = 0xEFC00000 | SESSION << 3  # rank 0
UP, SLOW = 1, 4  # ports; UP leads to the sender
SENDER, SENDER_MAC = 0x0A000002, 0x020000000002
AGGREGATOR = {
    "slot": 3, "id": 77, "address": 0x0A090909, "parent": SENDER, "mac": 0x0200000000AA,
    "upstream_port": UP,
}  # fmt: skip
ROUTER_MAC = "02:00:00:00:01:01"
MARKED_SESSION, TOP_RANK = 2, 3  # at the slow port; without an aggregator


def marked_group(rank: int) -> int:
    return 0xEFC00000 | MARKED_SESSION << 3 | rank


@pytest.fixture(scope="module")
def configured(switch):
    switch.insert("ipv4_host", {"hdr.ipv4.dst_addr": SENDER}, "forward",
                  {"port": UP, "dst_mac": SENDER_MAC})  # fmt: skip
    switch.insert("ipv4_host", {"hdr.ipv4.dst_addr": 0x0A000102}, "forward",
                  {"port": SLOW, "dst_mac": 0x020000000102})  # fmt: skip
    switch.replicate(GROUP, 8, (2, 3))
    switch.insert("aggregator", {"session": SESSION}, "aggregate", AGGREGATOR)
    for rank in (0, TOP_RANK):
        switch.replicate(marked_group(rank), 16 + rank, (SLOW,))
    switch.insert("top_group", {"egress_port": SLOW, "session": MARKED_SESSION}, "set_top_group",
                  {"rank": TOP_RANK})  # fmt: skip
    return switch


@pytest.fixture(autouse=True)
def quiet(configured):
    """Nothing of an earlier test is still on its way."""
    for port in configured.sockets:
        configured.receive(port, 1 << 30, timeout=0.1)
    return configured


def data(fb_req: int, seq: int = 0, ecn: int = 2) -> bytes:
    header = SimData(rank=0, seq=seq, fb_req=fb_req, group_rate=12500, max_rtt_us=50_000)
    return bytes(
        Ether(src="02:00:00:00:00:02", dst="01:00:5e:40:00:08")
        / IP(src="10.0.0.2", dst="239.192.0.8", tos=ecn)
        / UDP(sport=5500, dport=5500)
        / Tiercast(session=SESSION) / header / Raw(bytes(900))
    )  # fmt: skip


def feedback(source: int, fb_req: int, *records: SimRecord, hold_us: int = 0) -> bytes:
    return bytes(
        Ether(src=f"02:00:00:00:09:{source:02x}", dst=ROUTER_MAC)
        / IP(src=f"10.0.9.{source}", dst="10.0.0.2", id=4711)
        / UDP(sport=5501, dport=5501)
        / Tiercast(session=SESSION)
        / SimFeedback(source=source, fb_req=fb_req, hold_us=hold_us, records=list(records))
    )


def record(rank: int, congested: int, rate: int) -> SimRecord:
    return SimRecord(rank=rank, congested=congested, min_cum_rate=rate, max_cum_rate=rate)


def unicast(number: int, ecn: int = 2) -> bytes:
    return bytes(
        Ether(src="02:00:00:00:00:03", dst=ROUTER_MAC)
        / IP(src="10.0.0.3", dst="10.0.1.2", tos=ecn, id=number)
        / UDP(sport=1, dport=2) / Raw(bytes(972))
    )  # fmt: skip


def summary_of(frames: list[bytes]) -> SimFeedback:
    """The only frame, which must be sound and name nobody but the aggregator."""
    (frame,) = frames
    packet = Ether(frame)
    assert packet.src == "02:00:00:00:00:aa" and packet.dst == "02:00:00:00:00:02"
    assert packet[IP].src == "10.9.9.9" and packet[IP].dst == "10.0.0.2"
    assert packet[IP].id == 0 and packet[IP].ttl == 64 and packet[UDP].dport == 5501
    assert len(frame) == 14 + packet[IP].len and packet[UDP].len == packet[IP].len - 20
    checksum = packet[IP].chksum
    del packet[IP].chksum
    assert Ether(bytes(packet))[IP].chksum == checksum
    assert packet[SimFeedback].source == AGGREGATOR["id"]
    return packet[SimFeedback]


def records_of(message: SimFeedback) -> list[tuple[int, ...]]:
    return [
        (r.rank, r.reports, r.congested, r.min_cum_rate, r.max_cum_rate, r.receivers)
        for r in message.records
    ]


def test_feedback_is_aggregated(quiet):
    switch = quiet
    # The first round: nobody is known, so it lasts two of the sender's round-trip times.
    switch.send(UP, data(100))
    assert len(switch.receive(2, 1)) == len(switch.receive(3, 1)) == 1
    switch.send(2, feedback(20, 100, record(1, 1, 3000)))
    switch.send(3, feedback(21, 100, record(1, 0, 5000)))
    assert switch.receive(UP, 1, timeout=0.05) == []
    time.sleep(0.1)
    switch.send(UP, data(100, seq=1))
    first = summary_of(switch.receive(UP, 2, timeout=0.5))
    assert first.fb_req == 100 and first.hold_us >= 100_000
    assert records_of(first) == [(1, 2, 1, 3000, 5000, 2)]
    assert len(switch.receive(2, 2, timeout=0.5)) == 1, "the data went its way"

    # A later one ends with the last child's answer. One child speaks for several groups.
    merged = switch.counter("feedback_merged", AGGREGATOR["slot"])
    switch.send(UP, data(101, seq=2))
    switch.receive(2, 1)
    switch.send(2, feedback(20, 101, *(record(rank, 1, 100 * rank) for rank in range(8))))
    assert switch.receive(UP, 1, timeout=0.05) == []
    switch.send(3, feedback(21, 101, record(7, 0, 900)))
    second = summary_of(switch.receive(UP, 2, timeout=0.5))
    assert second.fb_req == 101 and second.subtree_rtt_us > 0
    assert records_of(second) == [
        *((rank, 1, 1, 100 * rank, 100 * rank, 1) for rank in range(7)),
        (7, 2, 1, 700, 900, 2),
    ]
    assert switch.counter("feedback_merged", AGGREGATOR["slot"]) == merged + 2

    # An answer much later than the average says so upstream at once.
    switch.send(UP, data(102, seq=3))
    switch.receive(2, 1)
    switch.send(2, feedback(20, 102, record(0, 0, 100)))
    time.sleep(0.3)
    switch.send(3, feedback(21, 102, record(0, 0, 200), hold_us=1000))
    third = summary_of(switch.receive(UP, 2, timeout=0.5))
    assert third.subtree_rtt_us >= 299_000

    # What comes after it is late, what is no message is refused; neither leaves.
    late = switch.counter("feedback_late", AGGREGATOR["slot"])
    refused = switch.counter("feedback_refused", AGGREGATOR["slot"])
    switch.send(2, feedback(22, 102, record(0, 1, 1)))
    switch.send(2, feedback(20, 102, SimRecord(rank=1, reports=1, congested=2)))
    assert switch.receive(UP, 1, timeout=0.3) == []
    assert switch.counter("feedback_late", AGGREGATOR["slot"]) == late + 1
    assert switch.counter("feedback_refused", AGGREGATOR["slot"]) == refused + 1


def test_a_group_goes_where_it_is_wanted(quiet):
    frame = data(90)
    quiet.send(UP, frame)
    for port in (2, 3):
        (copy,) = quiet.receive(port, 2, timeout=0.3)
        assert copy[:14] == frame[:14], "multicast keeps its addresses"
        assert copy[22] == frame[22] - 1 and copy[34:] == frame[34:]
    quiet.send(2, frame)
    assert len(quiet.receive(3, 2, timeout=0.3)) == 1
    assert quiet.receive(2, 1, timeout=0.1) == [], "not back to where it came from"


def test_igmp_goes_to_the_controller_alone(quiet):
    report = bytes(
        Ether(src="02:00:00:00:00:03", dst="01:00:5e:40:00:08")
        / IP(src="10.0.0.3", dst="239.192.0.8", proto=2, ttl=1, options=[IPOption_Router_Alert()])
        / Raw(bytes.fromhex("16000000efc00008"))
    )
    quiet.send(3, report)
    assert quiet.packet_in() == (3, report)
    assert all(quiet.receive(port, 1, timeout=0.1) == [] for port in quiet.sockets)


def test_the_controllers_frames_leave_as_they_are(quiet):
    frame = bytes(Ether(src=ROUTER_MAC, dst="ff:ff:ff:ff:ff:ff", type=0x88B5) / Raw(bytes(60)))
    quiet.packet_out(2, frame)
    assert quiet.receive(2, 2, timeout=0.3) == [frame]


def test_other_feedback_is_unicast(quiet):
    frame = bytearray(feedback(20, 5, record(1, 1, 3000)))
    frame[14 + 20 + 8 + 7] = 2  # session 2 has no aggregator here
    quiet.send(2, bytes(frame))
    (out,) = quiet.receive(UP, 1)
    assert out[14 + 20 + 8 :] == bytes(frame[14 + 20 + 8 :])


BURST = 40
# Seconds between packets of a burst, at least; the link needs 10 ms for each. bmv2 loses frames
# that come faster, before its program sees them.
GAP = 0.0003


def ecn_of(frames: list[bytes]) -> list[int]:
    return [frame[15] & 3 for frame in frames]


def burst(switch, ecn: int = 2) -> list[bytes]:
    for number in range(BURST):
        switch.send(2, unicast(number, ecn))
        time.sleep(GAP)
    return switch.receive(SLOW, BURST, timeout=0.3)


def test_no_policy_marks_nothing(quiet):
    assert ecn_of(burst(quiet)) == [2] * BURST


def test_priority_marking(quiet):
    """Half of the burst is of the top group. The average (weight 1/8) passes 5 packets after a few
    departures, and lags 7 packets behind a queue that gets shorter by one at each: so marking goes
    on to the end, and is the top group's alone."""
    idle_us = 5000 if quiet.kind == "bmv2" else 0
    before = quiet.counter("marked", SLOW)
    with quiet.policy("priority_marking", threshold=5 << 8, idle_us=idle_us):
        for number in range(BURST):
            rank = TOP_RANK if number % 2 else 0
            packet = Ether(unicast(number))
            packet[IP].dst = str(ipaddress.ip_address(marked_group(rank)))
            packet.dst = "01:00:5e:40:00:10"
            del packet[IP].chksum
            quiet.send(2, bytes(packet))
            time.sleep(GAP)
        out = [Ether(frame)[IP] for frame in quiet.receive(SLOW, BURST, timeout=0.3)]
    assert [packet.id for packet in out] == list(range(BURST))
    marks = [packet.id for packet in out if packet.tos & 3 == 3]
    assert len(marks) >= 12 and 1 not in marks
    assert marks == list(range(marks[0], BURST, 2)), "from some packet on, every second one"
    assert marks[0] % 2 == 1, "the top group's"
    assert quiet.counter("marked", SLOW) == before + len(marks)


def test_threshold_marking(quiet):
    with quiet.policy("threshold_marking", threshold=10):
        marks = ecn_of(burst(quiet))
    assert len(marks) == BURST
    # 12 find at most 10 waiting, and as many more as leave meanwhile.
    assert 5 <= marks.count(3) <= BURST - 12
    assert set(marks[:12]) == {2}


def test_drop_tail(quiet):
    with quiet.policy("drop_tail", limit=10):
        out = burst(quiet)
    # 11 find fewer than 10 waiting, and as many more as leave meanwhile.
    assert 11 <= len(out) <= BURST - 5
    assert [Ether(frame)[IP].id for frame in out[:11]] == list(range(11))


def red(**changes: int) -> dict[str, int]:
    return {
        "min_th": 0, "max_th": 0, "slope": 0, "max_p": 0, "gentle_slope": 0, "ecn": 1,
        "mark_above_max": 1, "wait": 0, "limit": 0, "idle_us": 0, "transmission_us": 10_000,
        "idle_rate": 105, "idle_limit_us": 20_000_000,
    } | changes  # fmt: skip


def test_red_above_its_thresholds(quiet):
    """Three find fewer than two waiting, and more where a busy machine sends slowly: those are
    neither marked nor dropped. In bmv2 the first one waits until its thread takes it, and the third
    may find two."""
    spared = 2 if quiet.kind == "bmv2" else 3
    with quiet.policy("red", **red()):
        marks = ecn_of(burst(quiet))
        assert len(marks) == BURST and marks[:spared] == [2] * spared
        assert 1 <= marks.count(3) <= BURST - spared
        time.sleep(0.02)  # bmv2 sends a frame when its time on the link begins
        before = quiet.counter("dropped", SLOW)
        out = burst(quiet, ecn=0)
        time.sleep(0.3)  # in bmv2 a dropped packet takes its time on the link
        assert [Ether(frame)[IP].id for frame in out[:spared]] == list(range(spared))
        assert len(out) < BURST
        assert quiet.counter("dropped", SLOW) == before + BURST - len(out)
    with quiet.policy("red", **red(mark_above_max=0)):
        assert spared <= len(burst(quiet)) < BURST


def test_red_below_its_thresholds(quiet):
    with quiet.policy("red", **red(min_th=1 << 16, max_th=1 << 17)):
        assert ecn_of(burst(quiet)) == [2] * BURST


def test_red_marks_by_chance(quiet):
    """p_b is a quarter of the average, which a burst raises to n^2 / 1024 at its n-th packet at
    most: so the probabilities of 8 bursts add up to 43 at most. A mark takes between 0 and 1 of
    them, uniformly (docs/p4.md): 86 marks are expected at most, with a standard deviation of 5.4
    (a renewal process: variance 43 * (1/12) / (1/2)^3). Where a busy machine sends more slowly,
    the queue is shorter and marks are fewer."""
    marks_by_burst = []
    with quiet.policy(
        "red", **red(max_th=1 << 16, slope=1 << 22, idle_us=5000, idle_limit_us=20_000)
    ):
        for _ in range(8):
            marks_by_burst.append(ecn_of(burst(quiet)).count(3))
            time.sleep(0.1)  # the average starts from 0
    assert 4 <= sum(marks_by_burst) <= 86 + 4 * 5.4, marks_by_burst
