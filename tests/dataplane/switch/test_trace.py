"""--trace: what a switch reports about the packets that were asked for."""

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from tiercast.v1 import lab_pb2
from tiercast.v1.trace_pb2 import PortTrace

from ...patience import PATIENCE_S

MAC = bytes.fromhex("020000000002")
PORTS = ("--port", "1=p1", "--port", "2=p2,rate=1Mbit/s,queue=1p", "--port", "3=p3",
         "--port", "4=p4,rate=1Mbit/s,delay=5ms,overhead=-14B")  # fmt: skip


def frame(destination: str, port: int = 5500, size: int = 1014) -> bytes:
    head = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:09")
    packet = head / IP(src="10.0.0.2", dst=destination, tos=1) / UDP(sport=1, dport=port)
    return bytes(packet / bytes(size - len(packet)))


class Traced:
    """A running switch and its trace."""

    def __init__(self, switch, path: Path):
        self._switch, self._path = switch, path

    def __call__(self) -> list[dict]:
        """Stops the switch. Returns all events."""
        self._switch.stop()
        return [json.loads(line) for line in self._path.read_text().splitlines()]

    def until(self, text: str, send: Callable[[], object]) -> int:
        """Sends until the trace contains this text, more frames each time: on a busy machine,
        frames that are sent together arrive apart. Returns how many were sent."""
        sent, deadline = 0, time.monotonic() + PATIENCE_S
        while text not in self._path.read_text():
            assert time.monotonic() < deadline, f"no {text} in the trace after {sent} frames"
            for _ in range(sent or 4):
                send()
                sent += 1
            look = time.monotonic() + 0.1
            while text not in self._path.read_text() and time.monotonic() < look:
                time.sleep(0.005)
        return sent


@pytest.fixture
def traced(start, program, tools, p4info, tmp_path):
    """A switch with a host behind port 2 and a group on ports 2 and 3. Sends, and reads its
    trace."""
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

        return Traced(switch, path)

    yield make
    for controller in made:
        controller.close()


def test_a_trace_that_cannot_be_written_is_named_and_status_1(start, tools, network):
    switch = start("--port", "1=p1", "--json", str(tools.TO_PORT_1), "--trace", "/dev/full")
    for _ in range(3):
        network.ports[1].send(frame("10.0.3.2"))
    assert len(network.ports[1].receive(3)) == 3  # packets pass all the same
    assert switch.stop() == 1
    said = "--trace /dev/full: No space left on device; lines are missing in it"
    assert switch.log_path.read_text().count(said) == 1


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
    # Each takes 8 ms on the link behind port 2, and one may wait: sends until one finds no room.
    sent = events.until('"kind":"drop"', lambda: network.ports[1].send(frame("239.192.0.9")))
    assert len(network.ports[3].receive(sent)) == sent
    assert len(network.ports[2].receive(2)) == 2
    seen = events()
    assert [e["copies"] for e in of_kind(seen, "replicate")] == [
        ["port 2, instance 1", "port 3, instance 1"]] * sent  # fmt: skip
    enqueued = of_kind(seen, "enqueue")
    assert sorted(e["port"] for e in enqueued) == [2] * sent + [3] * sent
    # What each copy found at port 2, and what happened to it, follows from its arrival time.
    dropped, dequeued = (
        {(e["packet"], e["copy"]): e for e in of_kind(seen, kind)} for kind in ("drop", "dequeue")
    )
    link_free = 0
    starts: list[int] = []
    for event in (e for e in enqueued if e["port"] == 2):
        copy, now = (event["packet"], event["copy"]), event["time_ns"]
        waiting = sum(start > now for start in starts)
        assert event["waiting_packets"] == waiting
        if waiting:
            assert dropped[copy]["reason"] == "the queue of port 2 is full: 1 packets, 1014 bytes"
            continue
        assert copy not in dropped
        starts.append(max(now, link_free))
        link_free = starts[-1] + 1014 * 8 * 1000  # at 1 Mbit/s
        if copy in dequeued:  # the last one may still be waiting
            assert dequeued[copy]["waited_ns"] == starts[-1] - now
    assert dropped
    # All events of a copy have its number.
    for copy in dropped:
        own = [e["kind"] for e in seen if (e["packet"], e["copy"]) == copy]
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
    # Each takes 8 ms on the link behind port 4, which marks if two wait: sends until one is marked.
    events.until('"mark"', lambda: network.ports[1].send(frame("10.0.4.2")))
    marked: list[bool] = []
    while not any(marked):
        (arrived,) = network.ports[4].receive(1)
        marked.append(arrived.data[15] & 3 == 3)
    seen = events()
    dequeues = of_kind(seen, "dequeue")
    marks = {e["packet"]: e for e in of_kind(seen, "step") if "mark" in e}
    assert marks and marks.keys() == {e["packet"] for e in dequeues if e["enq_qdepth"] >= 2}
    for mark in marks.values():
        assert mark["pipeline"] == "egress"
        assert mark["changes"] == {"ipv4.ecn": "0x01 -> 0x03"}
        assert ".p4:" in mark["source"]
    transmits = {e["packet"]: e for e in of_kind(seen, "transmit")}
    for dequeue in (e for e in dequeues if e["packet"] in transmits):
        took = transmits[dequeue["packet"]]["time_ns"] - dequeue["time_ns"]
        assert took == 8_000_000 + 5_000_000
    assert marked == [packet in marks for packet in transmits][: len(marked)]


def test_a_trace_over_tiercast_v1(start, network, program, tools, p4info):
    """What is refused, and what a hop says."""
    switch = start(*PORTS, *program)
    controller = tools.Controller(switch)
    try:
        assert controller.arbitration_code() == 0
        marking = p4info.entry("port_marking", {1: b"\x04"}, "threshold_marking", b"\x01")
        controller.insert(p4info.host("10.0.4.2", 4, MAC), marking)

        def refused(code: grpc.StatusCode, **port: object) -> str:
            with pytest.raises(grpc.RpcError) as error:
                switch.lab.SetTrace(lab_pb2.SetTraceRequest(ports=[PortTrace(**port)]))
            assert error.value.code() is code
            return error.value.details()

        assert refused(grpc.StatusCode.NOT_FOUND, port=9, share=1) == "no port 9"
        text = refused(grpc.StatusCode.NOT_FOUND, port=4, share=1, registers=["average"])
        assert text.startswith("no register 'average'; valid: ") and "avg_queue" in text
        text = refused(grpc.StatusCode.INVALID_ARGUMENT, port=4, share=1.5)
        assert text == "port 4: share 1.5; valid: above 0, to 1"
        ports = [PortTrace(port=4, share=1, registers=["avg_queue"])]
        switch.lab.SetTrace(lab_pb2.SetTraceRequest(ports=ports))
        hops, deadline = [], time.monotonic() + PATIENCE_S
        while not any(hop.fate == "marked" for hop in hops):
            assert time.monotonic() < deadline
            for _ in range(8):
                network.ports[1].send(frame("10.0.4.2"))
            time.sleep(0.1)
            hops += switch.lab.TakeTrace(lab_pb2.TakeTraceRequest()).hops
        hop = next(hop for hop in hops if hop.fate == "marked")
        assert hop.port == 4 and hop.found_packets > 1 and hop.bytes == 1000
        assert hop.transit_ns - hop.wait_ns == 8_000_000 + 5_000_000
        assert any("queue.enq_depth > threshold" in line for line in hop.lines)
        assert hop.registers[0].value == 0  # the average of ports without one
        switch.lab.SetTrace(lab_pb2.SetTraceRequest())
        network.ports[1].send(frame("10.0.4.2"))
        assert list(switch.lab.TakeTrace(lab_pb2.TakeTraceRequest()).hops) == []
    finally:
        controller.close()


def test_a_switch_that_writes_a_trace_takes_no_other(start, program, tmp_path):
    switch = start(*PORTS, *program, "--trace", str(tmp_path / "trace.jsonl"))
    with pytest.raises(grpc.RpcError, match="writes a trace to a file") as error:
        switch.lab.SetTrace(lab_pb2.SetTraceRequest(ports=[PortTrace(port=1, share=1)]))
    assert error.value.code() is grpc.StatusCode.FAILED_PRECONDITION
