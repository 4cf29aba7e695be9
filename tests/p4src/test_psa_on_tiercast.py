"""The PSA program on tiercast-switch, over P4Runtime.

What test_psa.py checks on bmv2's psa_switch, but with the depth of a queue that is there.
"""

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from .conftest import SLOW_PORT

SESSION, RANK, MGID = 1, 2, 10
GROUP = 0xEFC00000 | SESSION << 3 | RANK
IN = 1  # a port
NOT_ECT, ECT0, CE = 0, 2, 3
COUNT = 20  # frames of a burst: the first is served at once, the others wait
DEPTHS = [0, *range(COUNT - 2, -1, -1)]  # what each leaves behind


@pytest.fixture(scope="module")
def psa(psa_on_tiercast):
    switch = psa_on_tiercast
    switch.insert("ipv4_host", {"hdr.ipv4.dst_addr": 0x0A000102}, "forward",
                  {"port": SLOW_PORT, "dst_mac": 0x020000000102})  # fmt: skip
    switch.insert("ipv4_lpm", {"hdr.ipv4.dst_addr": (0x0A090000, 16)}, "forward",
                  {"port": 3, "dst_mac": 0x020000000901})  # fmt: skip
    switch.replicate(GROUP, MGID, (IN, 3, SLOW_PORT))
    # A key that is a slice of a field is given in the slice's place, as on psa_switch.
    switch.insert("top_group", {"egress_port": SLOW_PORT, "session": SESSION << 3},
                  "set_top_group", {"rank": RANK})  # fmt: skip
    return switch


@pytest.fixture(autouse=True)
def quiet(psa):
    """Nothing from an earlier test is on its way."""
    for port in psa.sockets:
        psa.receive(port, 1 << 30, timeout=0.1)
    return psa


def frame(to: str = "10.0.1.2", ecn: int = ECT0, ttl: int = 64) -> bytes:
    return bytes(
        Ether(src="02:00:00:00:00:03", dst="02:00:00:00:01:01")
        / IP(src="10.0.0.3", dst=to, tos=ecn, ttl=ttl)
        / UDP(sport=1, dport=2) / Raw(bytes(100))
    )  # fmt: skip


def marks(psa, to: str, ecn: int = ECT0) -> list[int]:
    """ECN of the frames of a burst as they leave."""
    psa.burst([frame(to, ecn)] * COUNT)
    return [Ether(received)[IP].tos & 3 for received in psa.receive(SLOW_PORT, COUNT)]


def test_unicast(psa):
    psa.send(IN, frame(), frame(to="10.9.1.1"), frame(to="10.8.0.1"), frame(ttl=1))
    direct = Ether(psa.only(SLOW_PORT))
    assert direct.dst == "02:00:00:00:01:02" and direct[IP].ttl == 63
    checksum = direct[IP].chksum
    del direct[IP].chksum
    assert Ether(bytes(direct))[IP].chksum == checksum
    assert Ether(psa.only(3)).dst == "02:00:00:00:09:01"


def test_multicast_leaves_where_it_did_not_come_from(psa):
    psa.send(IN, frame(to="239.192.0.10"))
    psa.only(SLOW_PORT)
    psa.only(3)
    assert psa.receive(IN, 1, timeout=0.2) == []


def test_threshold_marking_follows_the_queue(psa):
    with psa.policy("threshold_marking", threshold=10):
        assert marks(psa, "10.0.1.2") == [CE if n > 10 else ECT0 for n in DEPTHS]
        assert marks(psa, "10.0.1.2", NOT_ECT) == [NOT_ECT] * COUNT


def test_priority_marking_follows_the_average(psa):
    """docs/p4.md: a <- a - (a >> 3) + (depth << 5); 0 if the link was idle; marked if a >
    threshold."""
    threshold = 5 << 8
    expected, average = [ECT0], 0
    for depth in range(COUNT - 2, -1, -1):
        average += (depth << 5) - (average >> 3)
        expected.append(CE if average > threshold else ECT0)
    with psa.policy("priority_marking", threshold=threshold, idle_us=0):
        assert marks(psa, "239.192.0.10") == expected
        assert {ECT0, CE} == set(expected)
        assert marks(psa, "10.0.1.2") == [ECT0] * COUNT, "only the top group is marked"


def test_drop_tail_drops_above_its_limit(psa):
    with psa.policy("drop_tail", limit=5):
        psa.burst([frame()] * COUNT)
        kept = psa.receive(SLOW_PORT, 1 + 5)
        assert len(kept) == 1 + 5, "the first, and those that leave 0 to 4"
        psa.send(IN, frame(ecn=NOT_ECT))
        assert Ether(psa.only(SLOW_PORT))[IP].tos == NOT_ECT, "the next to leave was sent later"
