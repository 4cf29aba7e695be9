"""What a running tiercast-switch reports for each port: who dropped packets, and what was
marked."""

import re
import socket

import grpc
import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from tiercast.v1 import lab_pb2, queue_pb2

from ...patience import wait_until

PORTS = ("--port", "1=p1", "--port", "2=p2", "--port", "3=p3,rate=8bit/s,queue=8p,overhead=-14B")
OUT = 3  # its link stands still until a test says otherwise: one frame in service, eight wait
LAYERS = ("239.192.0.8", "239.192.0.9")  # session 1
RIVAL = "10.0.3.2"
REST = (-1, -1)
# The n-th of these ten finds n - 2 waiting, so the last one finds the queue full.
FRAMES = (*[LAYERS[0]] * 4, *[LAYERS[1]] * 3, *[RIVAL] * 3)
COUNTS = ("entered", "left", "marked", "queue_drops", "policy_drops", "pruned", "waiting")
MAX_TH = 15


def frame(destination: str) -> bytes:
    """A frame of the session that can be marked, or one that is neither."""
    ect0 = 2 if destination in LAYERS else 0
    ip = IP(src="10.0.1.2", dst=destination, tos=ect0)
    return bytes(Ether(dst="02:00:00:00:01:00") / ip / UDP(sport=5500, dport=5500) / bytes(900))


def number(value: int) -> bytes:
    return value.to_bytes(4)


def drop_tail(limit: int) -> tuple[str, bytes]:
    return "drop_tail", number(limit)


def red(ecn: bool) -> tuple[str, ...]:
    """Above max_th, where the test puts the average, ECT packets are marked if `ecn`."""
    thresholds = (5 << 8, MAX_TH << 8)
    slope_max_p_gentle = ((1 << 24) // 100, (1 << 24) // 10, 0)
    ecn_mark_wait = (ecn, ecn, False)
    limit_idle = (0, 0, 1000, 1 << 19, 1 << 12)
    values = (*thresholds, *slope_max_p_gentle, *ecn_mark_wait, *limit_idle)
    return "red", *(number(int(value)) for value in values)


@pytest.fixture
def switch(start, program):
    return start(*PORTS, *program)


@pytest.fixture
def controller(switch, tools, p4info):
    made = tools.Controller(switch)
    assert made.arbitration_code() == 0
    made.insert(p4info.host(RIVAL, OUT, bytes.fromhex("020000000302")))
    for index, group in enumerate(map(socket.inet_aton, LAYERS), 1):
        made.insert(
            p4info.group(index, 1, OUT),
            p4info.entry("ipv4_multicast", {1: group}, "replicate", number(index)),
            p4info.entry("group_columns", {1: group}, "set_columns", number(512 + 8 * index)),
        )
    yield made
    made.close()


def ports_of(switch) -> dict[int, lab_pb2.PortStats]:
    return {port.port: port for port in switch.lab.GetPorts(lab_pb2.GetPortsRequest()).ports}


def sessions(port: lab_pb2.PortStats) -> dict[tuple[int, int], dict[str, int]]:
    """Counts that are not 0, by session and layer. For each, the sum must be what entered."""
    found = {}
    for one in port.sessions:
        counts = {name: getattr(one, name) for name in COUNTS}
        became = sum(counts[name] for name in COUNTS if name not in ("entered", "marked"))
        assert became == counts["entered"], one
        found[one.session, one.layer] = {name: count for name, count in counts.items() if count}
    for name in COUNTS[:-1]:
        assert getattr(port, name) == sum(getattr(one, name) for one in port.sessions), name
    assert port.queue_packets == sum(one.waiting for one in port.sessions)
    return found


def send_all(network, switch) -> None:
    for destination in FRAMES:
        network.ports[1].send(frame(destination))
    wait_until(lambda: ports_of(switch)[1].rx_packets == len(FRAMES), "all have come")


def set_policy(controller, p4info, policy) -> None:
    action, *arguments = policy
    controller.insert(p4info.entry("port_marking", {1: bytes([OUT])}, action, *arguments))


def release(network, switch, controller, p4info, left: int) -> dict:
    """Lets everything that waits go. RED's average is then far above its thresholds."""
    average = (4 * MAX_TH << 18).to_bytes(4)
    controller.modify(p4info.register("red_average", OUT, average))
    switch.lab.SetLink(lab_pb2.SetLinkRequest(port=OUT, rate_bps=0))
    assert len(network.ports[OUT].receive(left)) == left
    return sessions(ports_of(switch)[OUT])


def test_what_waits_and_what_the_queue_drops(network, switch, controller):
    send_all(network, switch)
    ports = ports_of(switch)
    assert sessions(ports[OUT]) == {
        REST: {"entered": 3, "queue_drops": 1, "waiting": 2},
        (1, 0): {"entered": 4, "left": 1, "waiting": 3},
        (1, 1): {"entered": 3, "waiting": 3},
    }
    # The groups also go back to port 1.
    assert sessions(ports[1]) == {
        (1, 0): {"entered": 4, "pruned": 4},
        (1, 1): {"entered": 3, "pruned": 3},
    }
    assert sessions(ports[2]) == {}
    assert (ports[1].forwarded, ports[1].no_route, ports[OUT].forwarded) == (10, 0, 0)


@pytest.mark.parametrize(
    ("policy", "left", "expected", "said"),
    [
        (
            drop_tail(5), 6,
            {
                REST: {"entered": 3, "queue_drops": 1, "policy_drops": 2},
                (1, 0): {"entered": 4, "left": 4},
                (1, 1): {"entered": 3, "left": 2, "policy_drops": 1},
            },
            "left 6, marked 0, dropped by the queue 1, by drop_tail 3, pruned 0, waiting 0",
        ),
        (
            red(ecn=False), 3,
            {
                REST: {"entered": 3, "queue_drops": 1, "policy_drops": 2},
                (1, 0): {"entered": 4, "left": 3, "policy_drops": 1},
                (1, 1): {"entered": 3, "policy_drops": 3},
            },
            "left 3, marked 0, dropped by the queue 1, by red 6, pruned 0, waiting 0",
        ),
        (
            red(ecn=True), 7,
            {
                REST: {"entered": 3, "queue_drops": 1, "policy_drops": 2},
                (1, 0): {"entered": 4, "left": 4, "marked": 1},
                (1, 1): {"entered": 3, "left": 3, "marked": 3},
            },
            "left 7, marked 4, dropped by the queue 1, by red 2, pruned 0, waiting 0",
        ),
    ],
    ids=["drop_tail", "red", "red_ecn"],
)  # fmt: skip
def test_who_dropped_and_what_was_marked(
    network, switch, controller, p4info, policy, left, expected, said
):
    set_policy(controller, p4info, policy)
    send_all(network, switch)
    assert release(network, switch, controller, p4info, left) == expected
    assert switch.stop() == 0
    line = f"port {OUT} (p3): rx 0 packets; entered 10, {said}; kernel drops 0"
    assert line in switch.log_path.read_text()


def test_red_on_arrival_is_set_read_and_counted(network, switch, controller):
    red = queue_pb2.Red(
        min_th=1, max_th=3, max_p=0.1, weight=1, mean_packet_bytes=500, ecn=True,
        mark_above_max=True,
    )  # fmt: skip
    switch.lab.SetLink(lab_pb2.SetLinkRequest(port=OUT, red=red))
    assert ports_of(switch)[OUT].red == red
    assert not ports_of(switch)[1].HasField("red")
    # With a weight of 1 the average is what a packet finds: from 3 on ECT packets are marked, and
    # the others dropped before they have a place.
    send_all(network, switch)
    waiting = sessions(ports_of(switch)[OUT])
    assert waiting[REST] == {"entered": 3, "policy_drops": 3}
    assert (waiting[1, 0]["waiting"], waiting[1, 1]["waiting"]) == (3, 3)
    switch.lab.SetLink(lab_pb2.SetLinkRequest(port=OUT, rate_bps=0))
    left = [IP(sent.data[14:]) for sent in network.ports[OUT].receive(7)]
    assert [ip.tos & 3 for ip in left] == [2] * 4 + [3] * 3
    for ip in left:
        stated = ip.chksum
        del ip.chksum
        assert IP(bytes(ip)).chksum == stated
    assert sessions(ports_of(switch)[OUT]) == {
        REST: {"entered": 3, "policy_drops": 3},
        (1, 0): {"entered": 4, "left": 4},
        (1, 1): {"entered": 3, "left": 3, "marked": 3},
    }
    with pytest.raises(grpc.RpcError) as refused:
        red.max_p = 2
        switch.lab.SetLink(lab_pb2.SetLinkRequest(port=OUT, red=red))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "port 3: red: max_p 2.000000, valid: above 0, to 1" in refused.value.details()
    switch.lab.SetLink(lab_pb2.SetLinkRequest(port=OUT, red=queue_pb2.Red()))
    assert not ports_of(switch)[OUT].HasField("red")


def test_a_wire_loses_duplicates_and_goes_down(network, switch, controller):
    def set_wire(port, **wires):
        switch.lab.SetLink(lab_pb2.SetLinkRequest(port=port, **wires))

    set_wire(OUT, rate_bps=0, wire=queue_pb2.Wire(duplicate=1))
    send_all(network, switch)
    network.ports[OUT].receive(2 * len(FRAMES))
    port = ports_of(switch)[OUT]
    assert (port.left, port.duplicated) == (len(FRAMES), len(FRAMES))
    assert (port.tx_packets, port.link_losses, port.on_wire) == (2 * len(FRAMES), 0, 0)
    assert sum(one.duplicated for one in port.sessions) == len(FRAMES)

    # The change of one leaves the other.
    set_wire(OUT, wire=queue_pb2.Wire(loss=queue_pb2.Loss(in_good=1)))
    network.ports[1].send(frame(LAYERS[0]))
    wait_until(lambda: ports_of(switch)[OUT].link_losses == 1, "the wire has lost it")
    port = ports_of(switch)[OUT]
    assert (port.left, port.duplicated) == (len(FRAMES) + 1, len(FRAMES))
    assert [one.link_losses for one in port.sessions if (one.session, one.layer) == (1, 0)] == [1]

    set_wire(OUT, wire=queue_pb2.Wire(up=False))
    network.ports[1].send(frame(LAYERS[0]))
    wait_until(lambda: ports_of(switch)[OUT].down_drops == 1, "it has found the link down")
    assert ports_of(switch)[OUT].left == len(FRAMES) + 1

    set_wire(1, rx_wire=queue_pb2.Wire(up=False))
    network.ports[1].send(frame(LAYERS[0]))
    wait_until(lambda: ports_of(switch)[1].rx_link_losses == 1, "it was lost on its way in")
    assert ports_of(switch)[OUT].entered == len(FRAMES) + 2

    none = queue_pb2.Wire(up=True, loss=queue_pb2.Loss(), duplicate=0)
    set_wire(1, rx_wire=none)
    set_wire(OUT, wire=none)
    network.ports[1].send(frame(LAYERS[0]))
    assert len(network.ports[OUT].receive(1)) == 1
    with pytest.raises(grpc.RpcError) as refused:
        set_wire(OUT, wire=queue_pb2.Wire(duplicate=1.5))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "port 3: wire: duplicate 1.500000, valid: 0 to 1" in refused.value.details()


def test_why_packets_were_not_passed_on(network, switch, controller):
    nobodys = [IP(dst="10.0.9.9")] * 3 + [IP(dst="239.192.0.10")]
    for packet in (*nobodys, IP(dst=RIVAL, ttl=1), IP(dst=RIVAL, chksum=1)):
        network.ports[1].send(bytes(Ether(dst="02:00:00:00:01:00") / packet))
    wait_until(lambda: ports_of(switch)[1].rx_packets == 6, "all have come")
    port = ports_of(switch)[1]
    counts = (port.forwarded, port.invalid, port.expired, port.no_group, port.no_route)
    assert counts == (0, 1, 1, 1, 3)
    assert switch.stop() == 0
    lines = switch.log_path.read_text()
    why = re.escape("rx 6 packets (invalid 1, expired 1, no group 1, no route 3); entered 0,")
    assert re.search(why, lines), lines


def test_a_program_without_such_counters_says_what_the_queue_did(network, start, tools):
    """again.json sends everything to port 1, and counts nothing."""
    ports = ("--port", "1=p1,rate=8bit/s,queue=2p", "--port", "2=p2")
    switch = start(*ports, "--json", str(tools.TO_PORT_1))
    for _ in range(5):
        network.ports[2].send(bytes(60))
    wait_until(lambda: ports_of(switch)[2].rx_packets == 5, "all have come")
    port = ports_of(switch)[1]
    assert (port.entered, port.queue_drops, port.queue_packets) == (5, 2, 2)
    assert (port.left, port.marked, port.policy_drops) == (1, 0, 0)
    assert not any(port.HasField(name) for name in ("pruned", "forwarded", "no_route"))
    assert [(one.session, one.entered, one.waiting) for one in port.sessions] == [(-1, 5, 2)]


def test_what_a_wire_loses_follows_from_the_seed(network, start, tools):
    """Of 64 frames a half; two seeds that are not the same agree on all with a chance of 2^-64."""

    def kept(seed: int, device_id: int) -> list[int]:
        ports = ("--port", "1=p1", "--port", "2=p2", "--json", str(tools.TO_PORT_1))
        switch = start(*ports, "--seed", str(seed), device_id=device_id)
        half = queue_pb2.Wire(loss=queue_pb2.Loss(in_good=0.5))
        switch.lab.SetLink(lab_pb2.SetLinkRequest(port=2, rx_wire=half))
        for n in range(64):
            network.ports[2].send(bytes(Ether(dst="02:00:00:00:01:00")) + bytes(50) + bytes([n]))
        wait_until(lambda: ports_of(switch)[2].rx_packets == 64, "all have come")
        count = 64 - ports_of(switch)[2].rx_link_losses
        found = [one.data[-1] for one in network.ports[1].receive(count)]
        switch.stop()
        return found

    assert kept(5, 1) == kept(5, 2) != kept(6, 2)
