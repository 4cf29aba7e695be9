"""--trace: what a switch says of the packets that were asked for."""

import json
import socket

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

MAC = bytes.fromhex("020000000002")
PORTS = ("--port", "1=p1", "--port", "2=p2,rate=1Mbit/s,queue=1p", "--port", "3=p3",
         "--port", "4=p4,rate=1Mbit/s,delay=5ms,overhead=-14B")  # fmt: skip


def frame(destination: str, port: int = 5500, size: int = 1014) -> bytes:
    head = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:09")
    packet = head / IP(src="10.0.0.2", dst=destination, tos=1) / UDP(sport=1, dport=port)
    return bytes(packet / bytes(size - len(packet)))


@pytest.fixture
def traced(start, program, tools, p4info, tmp_path):
    """A switch with a host behind port 2 and a group on ports 2 and 3; send and read its trace."""
    made = []

    def make(*options: str):
        path = tmp_path / "trace.jsonl"
        switch = start(*PORTS, *program, "--trace", str(path), *options)
        controller = tools.Controller(switch)
        assert controller.arbitration_code() == 0
        made.append(controller)
        group = p4info.entry("ipv4_multicast", {1: socket.inet_aton("239.192.0.9")},
                             "replicate", b"\x07")  # fmt: skip
        marking = p4info.entry("port_marking", {1: b"\x04"}, "threshold_marking", b"\x01")
        controller.insert(p4info.host("10.0.2.2", 2, MAC), p4info.host("10.0.4.2", 4, MAC),
                          p4info.group(7, 2, 3), group, marking)  # fmt: skip

        def events() -> list[dict]:
            switch.stop()
            return [json.loads(line) for line in path.read_text().splitlines()]

        return events

    yield make
    for controller in made:
        controller.close()


def of_kind(events: list[dict], kind: str) -> list[dict]:
    return [event for event in events if event["kind"] == kind]


def test_a_forwarded_packet_says_where_it_was_and_why(traced, network):
    events = traced()
    network.ports[1].send(frame("10.0.2.2"))
    assert len(network.ports[2].receive(1)) == 1
    seen = events()
    kinds = [event["kind"] for event in seen]
    assert kinds[:2] == ["receive", "parse"]
    assert seen[0]["port"] == 1 and seen[0]["bytes"] == 1014
    assert "ipv4" in " ".join(seen[1]["states"])
    (table,) = [e for e in of_kind(seen, "table") if e["table"] == "ipv4_host"]
    assert table["key"] == {"hdr.ipv4.dst_addr": "0x0a000202"}
    assert table["hit"] and table["entry"] == {"hdr.ipv4.dst_addr": "0x0a000202"}
    assert table["action"] == "forward"
    assert table["data"] == {"port": "0x02", "dst_mac": "0x020000000002"}
    assert ".p4:" in table["source"]
    changes = {name: change for e in of_kind(seen, "step") for name, change in e["changes"].items()}
    assert changes["ipv4.ttl"] == "0x40 -> 0x3f"
    assert changes["ethernet.dst_addr"].endswith("-> 0x020000000002")
    (enqueue,) = of_kind(seen, "enqueue")
    assert (enqueue["port"], enqueue["waiting_packets"], enqueue["bytes"]) == (2, 0, 1014)
    (dequeue,) = of_kind(seen, "dequeue")
    assert dequeue["waited_ns"] == 0
    (transmit,) = of_kind(seen, "transmit")
    assert transmit["time_ns"] - dequeue["time_ns"] == 1014 * 8 * 1000  # at 1 Mbit/s
    assert {event["packet"] for event in seen} == {1}


def test_a_drop_says_who(traced, network):
    events = traced()
    network.ports[1].send(frame("10.9.9.9"))
    network.ports[1].send(frame("10.0.2.2"))
    assert len(network.ports[2].receive(1)) == 1
    seen = events()
    (drop,) = of_kind(seen, "drop")
    assert drop["packet"] == 1 and drop["where"] == "ingress"
    assert drop["reason"] == "the program drops it"
    (by,) = [e for e in of_kind(seen, "step") if e["packet"] == 1 and "drop" in e["text"]]
    assert (drop["by"], drop["source"]) == (by["action"], by["source"])
    assert drop["source"].startswith("tiercast.p4:")


def test_copies_and_a_full_queue(traced, network):
    events = traced()
    for _ in range(4):  # 8 ms each on the link behind port 2, one may wait
        network.ports[1].send(frame("239.192.0.9"))
    assert len(network.ports[3].receive(4)) == 4
    assert len(network.ports[2].receive(2)) == 2
    seen = events()
    assert [e["copies"] for e in of_kind(seen, "replicate")] == [
        ["port 2, instance 1", "port 3, instance 1"]] * 4  # fmt: skip
    enqueued = of_kind(seen, "enqueue")
    assert sorted(e["port"] for e in enqueued) == [2] * 4 + [3] * 4
    assert [e["waiting_packets"] for e in enqueued if e["port"] == 2] == [0, 0, 1, 1]
    drops = of_kind(seen, "drop")
    assert [e["reason"] for e in drops] == [
        "the queue of port 2 is full: 1 packets, 1014 bytes"] * 2  # fmt: skip
    waited = [e["waited_ns"] for e in of_kind(seen, "dequeue") if e["port"] == 2]
    assert waited[0] == 0 and 0 < waited[1] <= 1014 * 8 * 1000
    # A copy's number is in all its events.
    for drop in drops:
        own = [
            e["kind"] for e in seen if (e["packet"], e["copy"]) == (drop["packet"], drop["copy"])
        ]
        assert own == ["enqueue", "drop"]


def test_filter_and_sample(traced, network):
    events = traced("--trace-filter", "udp=5500,dst=10.0.2.0/24,port=1", "--trace-sample", "1/3")
    for port, destination in ((9, "10.0.2.2"), (5500, "10.0.3.2")):
        network.ports[1].send(frame(destination, port, 100))
    network.ports[3].send(frame("10.0.2.2", size=100))
    for number in range(7):
        network.ports[1].send(frame("10.0.2.2", size=100 + number))
        assert network.ports[2].receive(1)
    network.ports[1].drain()
    assert [e["bytes"] for e in of_kind(events(), "receive")] == [100, 103, 106]


def test_a_mark_says_who(traced, network):
    events = traced()
    for _ in range(4):
        network.ports[1].send(frame("10.0.4.2"))
    marked = [f.data[15] & 3 == 3 for f in network.ports[4].receive(4)]
    assert marked == [False, False, False, True]
    seen = events()
    (mark,) = [e for e in of_kind(seen, "step") if "mark" in e]
    assert mark["packet"] == 4 and mark["pipeline"] == "egress"
    assert mark["changes"] == {"ipv4.ecn": "0x01 -> 0x03"}
    assert ".p4:" in mark["source"]
    (dequeue,) = [e for e in of_kind(seen, "dequeue") if e["packet"] == 4]
    assert dequeue["enq_qdepth"] == 2
    (transmit,) = [e for e in of_kind(seen, "transmit") if e["packet"] == 4]
    assert transmit["time_ns"] - dequeue["time_ns"] == 8_000_000 + 5_000_000
