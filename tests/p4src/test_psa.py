"""The PSA program on bmv2's psa_switch: forwarding, marking and RED do the same as in v1model.

psa_switch gives a program no queue depth. The program reads it from the register queue_depth, which
these tests write (p4src/tiercast_psa.p4).
"""

import time

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

SESSION, RANK, MGID = 1, 2, 10
GROUP = f"239.192.0.{SESSION << 3 | RANK}"
IN, OUT = 1, 2  # ports
NOT_ECT, ECT0, CE = 0, 2, 3
GAP = 0.0003  # seconds between frames; psa_switch loses some that come faster
BATCH = 100  # frames; the receiving socket holds about 250


@pytest.fixture(scope="module")
def psa(psa_switch):
    psa_switch.cli(
        f"table_add ipv4_host forward 10.0.1.2 => {OUT} 02:00:00:00:01:02",
        "table_add ipv4_lpm forward 10.9.0.0/16 => 3 02:00:00:00:09:01",
        f"mc_mgrp_create {MGID}",
        f"mc_node_create 0 {IN} {OUT} 3",
        f"mc_node_associate {MGID} 0",
        f"table_add ipv4_multicast replicate {GROUP} => {MGID}",
        f"table_add top_group set_top_group {OUT} {SESSION << 3} => {RANK}",
    )
    return psa_switch


@pytest.fixture(autouse=True)
def quiet(psa):
    """Nothing from an earlier test is on its way, and no port has a policy or an old average."""
    for port in psa.sockets:
        psa.receive(port, 1 << 30, timeout=0.1)
    psa.cli(
        "table_clear port_marking",
        *(f"register_reset {name}" for name in ("queue_depth", "avg_queue", "red_average")),
    )
    return psa


def frame(to: str = "10.0.1.2", ecn: int = ECT0, number: int = 0, ttl: int = 64) -> bytes:
    return bytes(
        Ether(src="02:00:00:00:00:03", dst="02:00:00:00:01:01")
        / IP(src="10.0.0.3", dst=to, tos=ecn, id=number, ttl=ttl)
        / UDP(sport=1, dport=2) / Raw(bytes(100))
    )  # fmt: skip


def policy(psa, action: str, *parameters: int) -> None:
    values = " ".join(str(parameter) for parameter in parameters)
    psa.cli(f"table_add port_marking {action} {OUT} => {values}")


def depth(psa, packets: int) -> None:
    psa.cli(f"register_write queue_depth {OUT} {packets}")


def through(psa, frames: list[bytes]) -> list[IP]:
    """The packets that come out for `frames`, in the order of sending."""
    out: list[IP] = []
    for at in range(0, len(frames), BATCH):
        batch = frames[at : at + BATCH]
        for one in batch:
            psa.send(IN, one)
            time.sleep(GAP)
        for received in psa.receive(OUT, len(batch), timeout=2):
            packet = Ether(received)
            checksum = packet[IP].chksum
            del packet[IP].chksum
            assert Ether(bytes(packet))[IP].chksum == checksum
            out.append(packet[IP])
    return out


def test_unicast(psa):
    psa.send(IN, frame(), frame(to="10.9.1.1"), frame(to="10.8.0.1"), frame(ttl=1))
    direct = psa.only(OUT)
    assert Ether(direct).dst == "02:00:00:00:01:02" and Ether(direct)[IP].ttl == 63
    routed = psa.only(3)
    assert Ether(routed).dst == "02:00:00:00:09:01"


def test_multicast_leaves_where_it_did_not_come_from(psa):
    psa.send(IN, frame(to=GROUP))
    psa.only(OUT)
    psa.only(3)
    assert psa.receive(IN, 1, timeout=0.2) == []


def test_priority_marking_follows_the_average(psa):
    """docs/p4.md: a <- a - (a >> 3) + (depth << 5); marked if a > threshold."""
    threshold = 5 << 8
    policy(psa, "priority_marking", threshold, 0)
    average = 0
    for packets, count in ((40, 12), (3, 40), (0, 20)):
        depth(psa, packets)
        expected = []
        for _ in range(count):
            average = average - (average >> 3) + (packets << 5)
            expected.append(CE if average > threshold else ECT0)
        out = through(psa, [frame(to=GROUP, number=n) for n in range(count)])
        assert [packet.id for packet in out] == list(range(count))
        assert [packet.tos & 3 for packet in out] == expected
        assert psa.register("avg_queue", OUT) == average
    # Only the top group is marked, and only packets that can be.
    depth(psa, 40)
    assert through(psa, [frame(to=GROUP)] * 12)[-1].tos & 3 == CE
    assert through(psa, [frame(to=GROUP, ecn=NOT_ECT)])[0].tos & 3 == NOT_ECT
    assert through(psa, [frame()])[0].tos & 3 == ECT0


def test_an_idle_link_forgets(psa):
    policy(psa, "priority_marking", 5 << 8, 1_000_000)  # a second: longer than any wait
    depth(psa, 40)
    assert through(psa, [frame(to=GROUP)] * 12)[-1].tos & 3 == CE
    depth(psa, 0)
    assert through(psa, [frame(to=GROUP)])[0].tos & 3 == ECT0
    assert psa.register("avg_queue", OUT) == 0


def test_threshold_marking_and_drop_tail(psa):
    policy(psa, "threshold_marking", 10)
    for packets, ecn in ((10, ECT0), (11, CE)):
        depth(psa, packets)
        assert through(psa, [frame()])[0].tos & 3 == ecn
    psa.cli("table_clear port_marking")
    policy(psa, "drop_tail", 11)
    assert through(psa, [frame()]) == []
    depth(psa, 10)
    assert len(through(psa, [frame()])) == 1


def red(**changes: int) -> list[int]:
    """Between 0 and 16 packets, p_b rises by 1/32 per packet."""
    parameters = {
        "min_th": 0, "max_th": 16 << 8, "slope": 1 << 19, "max_p": 1 << 23, "gentle_slope": 0,
        "ecn": 1, "mark_above_max": 0, "wait": 0, "limit": 0, "idle_us": 0,
        "transmission_us": 1000, "idle_rate": 1050, "idle_limit_us": 2_000_000,
    }  # fmt: skip
    return list((parameters | changes).values())


def test_red_marks_by_its_law(psa):
    """With the average held at 8 packets, p_b is 8/32, so the distance between marks is uniform on
    1 .. 4 (docs/p4.md). Of n packets 0.4 n are marked on average, with variance n (15/12) /
    2.5^3."""
    policy(psa, "red", *red())
    depth(psa, 8)
    psa.cli(f"register_write red_average {OUT} {8 << 18}")
    count = 1000
    out = through(psa, [frame(number=n) for n in range(count)])
    assert [packet.id for packet in out] == list(range(count))
    assert psa.register("red_average", OUT) == 8 << 18
    marks = [packet.id for packet in out if packet.tos & 3 == CE]
    assert abs(len(marks) - 0.4 * count) <= 4 * (count * (15 / 12) / 2.5**3) ** 0.5
    distances = [b - a for a, b in zip(marks, marks[1:], strict=False)]
    assert set(distances) == {1, 2, 3, 4}


def test_red_drops_what_cannot_be_marked(psa):
    policy(psa, "red", *red())
    depth(psa, 8)
    psa.cli(f"register_write red_average {OUT} {8 << 18}")
    out = through(psa, [frame(number=n, ecn=NOT_ECT) for n in range(100)])
    kept = [-1, *(packet.id for packet in out)]
    assert 40 <= len(out) <= 80 and {packet.tos & 3 for packet in out} == {NOT_ECT}
    assert max(b - a for a, b in zip(kept, kept[1:], strict=False)) >= 2
    # Above max_th everything is dropped, also with a full queue.
    psa.cli(f"register_write red_average {OUT} {40 << 18}", f"register_write queue_depth {OUT} 40")
    assert through(psa, [frame() for _ in range(5)]) == []
    depth(psa, 1)
    assert len(through(psa, [frame() for _ in range(5)])) == 5, "fewer than two wait"
    depth(psa, 40)
    psa.cli("table_clear port_marking", f"register_write red_average {OUT} 0")
    policy(psa, "red", *red(limit=40))
    assert through(psa, [frame()]) == []
