"""The program on running switches: the same tests on tiercast-switch and on bmv2."""

import ipaddress
import time

import pytest
from p4.v1 import p4runtime_pb2 as p4
from scapy.layers.inet import IP, UDP, IPOption_Router_Alert
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from tiercast_wire.layers import SimData, SimFeedback, SimRecord, Tiercast

from ..patience import wait_until
from .conftest import BMV2_GAP_S, CPU_PORT, PORTS

pytestmark = pytest.mark.slow

SESSION = 1
UP, SLOW = 1, 4  # ports; UP leads to the sender
SENDER, SENDER_MAC = 0x0A000002, 0x020000000002
AGGREGATOR = {
    "slot": 3, "id": 77, "address": 0x0A090909, "parent": SENDER, "mac": 0x0200000000AA,
    "upstream_port": UP,
}  # fmt: skip
ROUTER_MAC = "02:00:00:00:01:01"
MAX_RTT_US = 500_000  # as reported by the sender: rounds long enough for a busy machine to answer
MARKED_SESSION, TOP_RANK = 2, 3  # uses the slow port; has no aggregator
# By (session, rank): the column of egress_fates for the group at port 0.
COLUMNS = {(SESSION, 0): 512, (MARKED_SESSION, 0): 517, (MARKED_SESSION, TOP_RANK): 522}
# By (session, rank): the replication group.
GROUPS = {(SESSION, 0): 8, (MARKED_SESSION, 0): 16, (MARKED_SESSION, TOP_RANK): 19}
GUARDED = 5, 40  # a session that only its source may send, and its replication group
# Rows of the counters (docs/p4.md, "Fates").
(
    FORWARDED, INVALID, EXPIRED, NO_GROUP, NO_ROUTE, TO_CONTROLLER, AGGREGATED, FROM_CONTROLLER,
    REFUSED, POLICED,
) = range(10)  # fmt: skip
LEFT, LEFT_MARKED, DROPPED, PRUNED = range(4)


def group(session: int, rank: int) -> int:
    return 0xEFC00000 | session << 3 | rank


@pytest.fixture(scope="module")
def configured(switch):
    switch.insert("ipv4_host", {"hdr.ipv4.dst_addr": SENDER}, "forward",
                  {"port": UP, "dst_mac": SENDER_MAC})  # fmt: skip
    switch.insert("ipv4_host", {"hdr.ipv4.dst_addr": 0x0A000102}, "forward",
                  {"port": SLOW, "dst_mac": 0x020000000102})  # fmt: skip
    switch.replicate(group(SESSION, 0), GROUPS[SESSION, 0], (2, 3))
    switch.insert("aggregator", {"session": SESSION}, "aggregate", AGGREGATOR)
    for (session, rank), first in COLUMNS.items():
        switch.insert("group_columns", {"hdr.ipv4.dst_addr": group(session, rank)}, "set_columns",
                      {"first": first})  # fmt: skip
    for rank in (0, TOP_RANK):
        switch.replicate(group(MARKED_SESSION, rank), GROUPS[MARKED_SESSION, rank], (SLOW,))
    switch.insert("top_group", {"egress_port": SLOW, "session": MARKED_SESSION}, "set_top_group",
                  {"rank": TOP_RANK})  # fmt: skip
    return switch


@pytest.fixture(autouse=True)
def quiet(configured):
    """Waits until nothing from an earlier test is on its way."""
    for port in configured.sockets:
        configured.receive(port, 1 << 30, timeout=0.1)
    return configured


def data(fb_req: int, seq: int = 0, ecn: int = 2) -> bytes:
    header = SimData(rank=0, seq=seq, fb_req=fb_req, group_rate=12500, max_rtt_us=MAX_RTT_US)
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


def group_packet(session: int, rank: int, number: int = 0) -> bytes:
    """A packet of a layer that is no message of any scheme."""
    packet = Ether(unicast(number))
    packet[IP].dst = str(ipaddress.ip_address(group(session, rank)))
    packet.dst = f"01:00:5e:40:00:{session << 3 | rank:02x}"
    del packet[IP].chksum
    return bytes(packet)


def unicast(number: int, ecn: int = 2) -> bytes:
    return bytes(
        Ether(src="02:00:00:00:00:03", dst=ROUTER_MAC)
        / IP(src="10.0.0.3", dst="10.0.1.2", tos=ecn, id=number)
        / UDP(sport=1, dport=2) / Raw(bytes(972))
    )  # fmt: skip


def summary_of(frame: bytes) -> SimFeedback:
    """Reads a summary. It must be valid and name nobody but the aggregator."""
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
    # In the first round no child is known yet, so it lasts two of the sender's round-trip times.
    switch.send(UP, data(100))
    assert len(switch.receive(2, 1)) == len(switch.receive(3, 1)) == 1
    switch.send(2, feedback(20, 100, record(1, 1, 3000)))
    switch.send(3, feedback(21, 100, record(1, 0, 5000)))
    assert switch.receive(UP, 1, timeout=0.05) == []
    time.sleep(2 * MAX_RTT_US / 1e6)
    switch.send(UP, data(100, seq=1))
    first = summary_of(switch.only(UP))
    assert first.fb_req == 100 and first.hold_us >= 2 * MAX_RTT_US
    assert records_of(first) == [(1, 2, 1, 3000, 5000, 2)]
    switch.only(2)  # the data was forwarded

    # A later round ends with the last child's answer. A child may report on several groups.
    merged = switch.counter("feedback_merged", AGGREGATOR["slot"])
    switch.send(UP, data(101, seq=2))
    switch.receive(2, 1)
    switch.send(2, feedback(20, 101, *(record(rank, 1, 100 * rank) for rank in range(8))))
    assert switch.receive(UP, 1, timeout=0.05) == []
    switch.send(3, feedback(21, 101, record(7, 0, 900)))
    second = summary_of(switch.only(UP))
    assert second.fb_req == 101 and second.subtree_rtt_us > 0
    assert records_of(second) == [
        *((rank, 1, 1, 100 * rank, 100 * rank, 1) for rank in range(7)),
        (7, 2, 1, 700, 900, 2),
    ]
    assert switch.counter("feedback_merged", AGGREGATOR["slot"]) == merged + 2

    # An answer that is much later than the average is sent upstream at once.
    switch.send(UP, data(102, seq=3))
    switch.receive(2, 1)
    switch.send(2, feedback(20, 102, record(0, 0, 100)))
    time.sleep(0.3)
    switch.send(3, feedback(21, 102, record(0, 0, 200), hold_us=1000))
    third = summary_of(switch.only(UP))
    assert third.subtree_rtt_us >= 299_000

    # Answers after that are late, and what is no message is refused; neither leaves the switch.
    late = switch.counter("feedback_late", AGGREGATOR["slot"])
    refused = switch.counter("feedback_refused", AGGREGATOR["slot"])
    switch.send(2, feedback(22, 102, record(0, 1, 1)))
    switch.send(2, feedback(20, 102, SimRecord(rank=1, reports=1, congested=2)))
    assert switch.receive(UP, 1, timeout=0.3) == []
    assert switch.counter("feedback_late", AGGREGATOR["slot"]) == late + 1
    assert switch.counter("feedback_refused", AGGREGATOR["slot"]) == refused + 1


def grown(now: list[int], before: list[int]) -> list[int]:
    return [b - a for a, b in zip(before, now, strict=True)]


def fates(switch) -> dict[tuple[str, int, int], int]:
    """All counts of fates: packets by ("in", port, fate) and ("out", column, fate). And what
    entered queues: by ("entered", port, 0) and ("entered", 512 + group, 0)."""
    ports = (*PORTS, CPU_PORT)
    found = [("in", port, switch.ingress(port)) for port in ports]
    for column in (*ports, *(first + port for first in COLUMNS.values() for port in PORTS)):
        found.append(("out", column, switch.egress(column)))
    for cell in (*ports, *(512 + mgid for mgid in GROUPS.values())):
        found.append(("entered", cell, switch.counters("entered", [cell])))
    return {(side, place, f): n for side, place, row in found for f, n in enumerate(row)}


def send(switch, port: int, frame: bytes, count: int) -> None:
    for _ in range(count):
        switch.send(port, frame)
        time.sleep(BMV2_GAP_S)


def test_every_fate_is_counted_where_it_falls(quiet):
    """Sends a different number of packets for each fate. They are counted at the right port and in
    the right column, and nothing else is counted."""
    expired, wrong = Ether(unicast(0)), Ether(unicast(0))
    expired[IP].ttl = 1
    wrong[IP].chksum = 1
    unknown = Ether(unicast(0))
    unknown[IP].dst = "10.0.99.9"
    for packet in (expired, unknown):
        del packet[IP].chksum
    unwanted = group_packet(MARKED_SESSION, 1)
    arp = Ether(src="02:00:00:00:00:03", dst="ff:ff:ff:ff:ff:ff", type=0x0806) / Raw(bytes(28))
    frame = bytes(Ether(src=ROUTER_MAC, dst="ff:ff:ff:ff:ff:ff", type=0x88B5) / Raw(bytes(60)))
    before = fates(quiet)
    sent = (unicast(1), expired, wrong, arp, unwanted, unknown, igmp_report())
    for count, packet in enumerate(sent, 2):
        send(quiet, 2, bytes(packet), count)
    send(quiet, UP, group_packet(SESSION, 0), 9)
    send(quiet, 3, group_packet(SESSION, 0), 10)
    send(quiet, 3, feedback(20, 1, SimRecord(rank=1, reports=1, congested=2)), 11)  # invalid
    for _ in range(12):
        quiet.packet_out(2, frame)
    assert len(quiet.receive(2, 9 + 10 + 12)) == 9 + 10 + 12
    assert len(quiet.receive(SLOW, 2)) == 2
    for _ in range(8):
        assert quiet.packet_in() is not None
    with quiet.policy("drop_tail", limit=0):
        send(quiet, 2, unicast(2), 13)
        assert quiet.receive(SLOW, 1, timeout=0.5) == []
    now = fates(quiet)
    assert {key: now[key] - before[key] for key in now if now[key] != before[key]} == {
        ("in", 2, FORWARDED): 2 + 13,
        ("in", 2, EXPIRED): 3,
        ("in", 2, INVALID): 4 + 5,
        ("in", 2, NO_GROUP): 6,
        ("in", 2, NO_ROUTE): 7,
        ("in", 2, TO_CONTROLLER): 8,
        ("in", UP, FORWARDED): 9,
        ("in", 3, FORWARDED): 10,
        ("in", 3, AGGREGATED): 11,
        ("in", CPU_PORT, FROM_CONTROLLER): 12,
        ("entered", SLOW, 0): 2 + 13,
        ("entered", CPU_PORT, 0): 8,
        ("entered", 512 + GROUPS[SESSION, 0], 0): 9 + 10,
        ("entered", 2, 0): 12,
        ("out", SLOW, LEFT): 2,
        ("out", SLOW, DROPPED): 13,
        ("out", 2, LEFT): 12,
        ("out", CPU_PORT, LEFT): 8,
        ("out", COLUMNS[SESSION, 0] + 2, LEFT): 9 + 10,
        ("out", COLUMNS[SESSION, 0] + 3, LEFT): 9,
        ("out", COLUMNS[SESSION, 0] + 3, PRUNED): 10,
    }


def test_a_group_goes_where_it_is_wanted(quiet):
    frame = data(90)
    quiet.send(UP, frame)
    for port in (2, 3):
        copy = quiet.only(port)
        assert copy[:14] == frame[:14], "multicast keeps its addresses"
        assert copy[22] == frame[22] - 1 and copy[34:] == frame[34:]
    quiet.send(2, frame)
    quiet.only(3)
    assert quiet.receive(2, 1, timeout=0.1) == [], "not back to where it came from"


def claiming(frame: bytes, source: str) -> bytes:
    """The frame with another source address."""
    packet = Ether(frame)
    packet[IP].src = source
    del packet[IP].chksum
    return bytes(packet)


def test_what_is_not_from_where_it_claims_to_be_is_refused(quiet):
    """A group of one source; a host's own address; both counted at the port."""
    session, mgid = GUARDED
    quiet.replicate_from(group(session, 0), mgid, (SLOW,), source=0x0A000003, port=UP, former=UP)
    own = claiming(group_packet(session, 0), "10.0.0.3")
    guard = {"ingress_port": 2}, "only_from", {"address": 0x0A000302}
    quiet.insert("source_guard", *guard)
    try:
        before = quiet.ingress(2)
        quiet.send(UP, own)
        assert quiet.only(SLOW)[14 + 20 :] == own[14 + 20 :]
        other = quiet.ingress(UP)
        quiet.send(UP, claiming(own, "10.0.0.4"))
        send(quiet, 2, own, 2)
        send(quiet, 2, claiming(own, "10.0.3.2"), 3)
        send(quiet, 2, claiming(unicast(1), "10.0.0.4"), 4)
        send(quiet, 2, claiming(igmp_report(), "10.0.0.4"), 5)
        quiet.send(2, claiming(unicast(1), "10.0.3.2"))
        quiet.send(2, claiming(igmp_report(), "10.0.3.2"))
        received = quiet.only(SLOW)
        assert Ether(received)[IP].src == "10.0.3.2"
        assert quiet.packet_in() is not None and quiet.packet_in(timeout=0.1) is None
        counted = grown(quiet.ingress(2), before)
        assert (counted[REFUSED], counted[FORWARDED]) == (2 + 3 + 4 + 5, 1)
        assert counted[TO_CONTROLLER] == 1 and sum(counted) == 2 + 3 + 4 + 5 + 2
        assert grown(quiet.ingress(UP), other)[REFUSED] == 1
    finally:
        quiet.write(p4.Update.DELETE, quiet.entity("source_guard", *guard))


def test_igmp_above_a_ports_rate_is_dropped(quiet):
    """Ten at once, then one a second: as many as that in the time that it took."""
    before = quiet.ingress(3)
    since = time.monotonic()
    quiet.limit_igmp(3, rate_per_s=1, burst=10)
    send(quiet, 3, igmp_report(), 40)
    wait_until(lambda: sum(grown(quiet.ingress(3), before)) == 40, "all are counted")
    took_s = time.monotonic() - since
    counted = grown(quiet.ingress(3), before)
    assert counted[TO_CONTROLLER] + counted[POLICED] == 40
    assert 10 <= counted[TO_CONTROLLER] <= 10 + took_s
    for _ in range(counted[TO_CONTROLLER]):
        assert quiet.packet_in() is not None
    assert quiet.packet_in(timeout=0.2) is None
    quiet.limit_igmp(3, rate_per_s=0, burst=0)
    send(quiet, 3, igmp_report(), 20)
    for _ in range(20):
        assert quiet.packet_in() is not None


def igmp_report() -> bytes:
    return bytes(
        Ether(src="02:00:00:00:00:03", dst="01:00:5e:40:00:08")
        / IP(src="10.0.0.3", dst="239.192.0.8", proto=2, ttl=1, options=[IPOption_Router_Alert()])
        / Raw(bytes.fromhex("16000000efc00008"))
    )


def test_igmp_goes_to_the_controller_alone(quiet):
    report = igmp_report()
    quiet.send(3, report)
    assert quiet.packet_in() == (3, report)
    assert all(quiet.receive(port, 1, timeout=0.1) == [] for port in quiet.sockets)


def test_the_controllers_frames_leave_as_they_are(quiet):
    frame = bytes(Ether(src=ROUTER_MAC, dst="ff:ff:ff:ff:ff:ff", type=0x88B5) / Raw(bytes(60)))
    quiet.packet_out(2, frame)
    assert quiet.only(2) == frame


def test_other_feedback_is_unicast(quiet):
    frame = bytearray(feedback(20, 5, record(1, 1, 3000)))
    frame[14 + 20 + 8 + 7] = 2  # session 2 has no aggregator here
    quiet.send(2, bytes(frame))
    (out,) = quiet.receive(UP, 1)
    assert out[14 + 20 + 8 :] == bytes(frame[14 + 20 + 8 :])


BURST = 40


def ecn_of(frames: list[bytes]) -> list[int]:
    return [frame[15] & 3 for frame in frames]


def leave(switch, count: int) -> list[bytes]:
    """The frames that leave the slow port. From tiercast-switch, whose times are ideal, `count`
    frames; from bmv2, where the machine decides, those that arrive until nothing comes for a
    while."""
    if switch.kind == "bmv2":
        return switch.receive(SLOW, BURST, timeout=1)
    return switch.receive(SLOW, count) + switch.receive(SLOW, 1, timeout=0.3)


def burst(switch, ecn: int = 2, count: int = BURST) -> list[bytes]:
    """Sends a burst of BURST packets, of which `count` leave."""
    switch.burst([unicast(number, ecn) for number in range(BURST)])
    return leave(switch, count)


def ids_of(frames: list[bytes]) -> list[int]:
    return [Ether(frame)[IP].id for frame in frames]


def test_no_policy_marks_nothing(quiet):
    assert ecn_of(burst(quiet)) == [2] * BURST


def test_priority_marking(quiet):
    """Half of the burst belongs to the top group. The average (weight 1/8) passes 5 packets after a
    few departures, and then lags 7 packets behind a queue that shrinks by one per departure. So
    marking continues to the end, and only for the top group."""
    idle_us = 5000 if quiet.kind == "bmv2" else 0
    columns = [COLUMNS[MARKED_SESSION, rank] + SLOW for rank in (0, TOP_RANK)]
    before = [quiet.egress(column) for column in columns]
    with quiet.policy("priority_marking", threshold=5 << 8, idle_us=idle_us):
        ranks = [TOP_RANK if number % 2 else 0 for number in range(BURST)]
        quiet.burst([group_packet(MARKED_SESSION, rank, n) for n, rank in enumerate(ranks)])
        out = [Ether(frame)[IP] for frame in leave(quiet, BURST)]
    assert [packet.id for packet in out] == list(range(BURST))
    marks = [packet.id for packet in out if packet.tos & 3 == 3]
    # 39 are waiting when the second one leaves, so the average exceeds 5 at the third departure. In
    # bmv2 fewer wait, because some leave while others arrive.
    assert marks[0] > 1 if quiet.kind == "bmv2" else marks[0] == 3
    last = marks[-1] if quiet.kind == "bmv2" else BURST - 1
    assert marks == list(range(marks[0], last + 1, 2)), "from some packet on, every second one"
    assert marks[0] % 2 == 1, "the top group's"
    half, marked = BURST // 2, len(marks)
    assert grown(quiet.egress(columns[0]), before[0]) == [half, 0, 0, 0]
    assert grown(quiet.egress(columns[1]), before[1]) == [half - marked, marked, 0, 0]


def test_threshold_marking(quiet):
    with quiet.policy("threshold_marking", threshold=10):
        marks = ecn_of(burst(quiet))
    assert len(marks) == BURST
    # 12 packets find at most 10 waiting; in bmv2 more, by as many as leave in the meantime.
    assert set(marks[:12]) == {2}
    assert marks.count(3) >= 5 if quiet.kind == "bmv2" else set(marks[12:]) == {3}


def test_drop_tail(quiet):
    with quiet.policy("drop_tail", limit=10):
        out = burst(quiet, count=11)
    # 11 packets find fewer than 10 waiting; in bmv2 more, by as many as leave in the meantime.
    assert ids_of(out[:11]) == list(range(11))
    assert len(out) <= BURST - 5 if quiet.kind == "bmv2" else len(out) == 11


def red(**changes: int) -> dict[str, int]:
    return {
        "min_th": 0, "max_th": 0, "slope": 0, "max_p": 0, "gentle_slope": 0, "ecn": 1,
        "mark_above_max": 1, "wait": 0, "limit": 0, "idle_us": 0, "transmission_us": 10_000,
        "idle_rate": 105, "idle_limit_us": 20_000_000,
    } | changes  # fmt: skip


def test_red_above_its_thresholds(quiet):
    """The first three packets find fewer than two waiting, and are neither marked nor dropped. In
    bmv2 the first one waits until its thread takes it, so the third may find two; and as many more
    as leave in the meantime find fewer."""
    bmv2 = quiet.kind == "bmv2"
    spared = 2 if bmv2 else 3
    with quiet.policy("red", **red()):
        marks = ecn_of(burst(quiet))
        assert len(marks) == BURST and marks[:spared] == [2] * spared
        assert marks.count(3) >= 1 if bmv2 else set(marks[spared:]) == {3}
        time.sleep(0.02)  # bmv2 sends a frame when its time on the link begins
        before = quiet.egress(SLOW)
        out = burst(quiet, ecn=0, count=spared)
        # In bmv2 even a dropped packet takes its time on the link.
        wait_until(lambda: sum(grown(quiet.egress(SLOW), before)) == BURST, "all fates")
        assert ids_of(out[:spared]) == list(range(spared))
        assert len(out) < BURST if bmv2 else len(out) == spared
        assert grown(quiet.egress(SLOW), before) == [len(out), 0, BURST - len(out), 0]
    with quiet.policy("red", **red(mark_above_max=0)):
        out = burst(quiet, count=spared)
        assert spared <= len(out) < BURST if bmv2 else len(out) == spared


def test_red_below_its_thresholds(quiet):
    with quiet.policy("red", **red(min_th=1 << 16, max_th=1 << 17)):
        assert ecn_of(burst(quiet)) == [2] * BURST


def test_red_marks_by_chance(quiet):
    """p_b is a quarter of the average, which a burst raises to at most n^2 / 1024 at its n-th
    packet. So the probabilities in 8 bursts add up to at most 43. The distance between marks takes
    between 0 and 1 of this sum, uniformly (docs/p4.md): at most 86 marks are expected, with a
    standard deviation of 5.4 (a renewal process: variance 43 * (1/12) / (1/2)^3). If bmv2 receives
    the packets more slowly, its queue is shorter and there are fewer marks."""
    marks_by_burst = []
    with quiet.policy(
        "red", **red(max_th=1 << 16, slope=1 << 22, idle_us=5000, idle_limit_us=20_000)
    ):
        for _ in range(8):
            marks_by_burst.append(ecn_of(burst(quiet)).count(3))
            time.sleep(0.1)  # the average starts from 0
    assert 4 <= sum(marks_by_burst) <= 86 + 4 * 5.4, marks_by_burst
