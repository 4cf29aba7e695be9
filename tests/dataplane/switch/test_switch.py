"""Frames through a running tiercast-switch: forwarding, the emulated links, packet-in and
packet-out."""

import array
import contextlib
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import time
from dataclasses import dataclass
from types import SimpleNamespace

import grpc
import pytest
from p4.v1 import p4runtime_pb2 as p4
from p4.v1 import p4runtime_pb2_grpc
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from tiercast.v1 import lab_pb2

from ...namespaces import command_in
from ...patience import wait_until

GROUP = "239.192.0.8"  # session 1, rank 0
NEXT_HOP = bytes.fromhex("020000000002")
MAC = "02:00:00:00:00:01"
SLOW_RATE = 2_000_000  # bit/s of port 3, which counts IP bytes
LONG_DELAY_NS = 20_000_000  # of port 4
PORTS = (
    "--port", "1=p1", "--port", "2=p2",
    "--port", "3=p3,rate=2Mbit/s,queue=200p,overhead=-14B",
    "--port", "4=p4,delay=20ms",
)  # fmt: skip


def datagram(destination: str, size: int = 1000, number: int = 0, ttl: int = 64) -> bytes:
    """An Ethernet frame whose IP packet has `size` bytes."""
    payload = struct.pack("!I", number).ljust(size - 28, b"\0")
    return bytes(
        Ether(src=MAC, dst="02:00:00:00:01:00")
        / IP(src="10.0.1.2", dst=destination, ttl=ttl)
        / UDP(sport=5500, dport=5500)
        / payload
    )


def send_burst(network, destination: str, count: int) -> None:
    """Sends numbered frames into port 1 as fast as possible."""
    frames = [datagram(destination, number=number) for number in range(count)]
    for frame in frames:
        network.ports[1].send(frame)


def numbers(frames) -> list[int]:
    return [struct.unpack("!I", frame.data[42:46])[0] for frame in frames]


@pytest.fixture
def switch(start, program):
    return start(*PORTS, *program)


def route(controller, p4info, address: str, port: int) -> None:
    controller.insert(p4info.host(address, port, NEXT_HOP))


def ports_of(switch) -> dict[int, lab_pb2.PortStats]:
    return {port.port: port for port in switch.lab.GetPorts(lab_pb2.GetPortsRequest()).ports}


def test_it_says_for_how_long_it_did_not_run(switch):
    def longest_us() -> float:
        return switch.lab.GetPorts(lab_pb2.GetPortsRequest()).longest_pause_us

    longest_us()
    os.kill(switch.process.pid, signal.SIGSTOP)
    stopped = time.monotonic()
    time.sleep(0.3)
    paused_us = 1e6 * (time.monotonic() - stopped)
    os.kill(switch.process.pid, signal.SIGCONT)
    assert longest_us() >= paused_us
    # Each poll starts from zero, and a switch without work still runs its loop.
    wait_until(lambda: longest_us() < paused_us, "a poll without the pause")


def test_packets_that_no_controller_gets_are_counted(start, network, program, tools):
    switch = start("--port", "1=p1", "--port", "2=p2", *program)
    membership = b"\x16\0" + struct.pack("!H", 0xFFFF) + socket.inet_aton(GROUP)
    report = bytes(
        Ether(src=MAC, dst="01:00:5e:40:00:08") / IP(dst=GROUP, ttl=1, proto=2) / membership
    )

    def counts() -> tuple[int, int]:
        health = switch.lab.GetPorts(lab_pb2.GetPortsRequest())
        return health.packet_ins, health.packet_ins_dropped

    network.ports[2].send(report)
    wait_until(lambda: counts() == (1, 1), "the packet that nobody gets")
    controller = tools.Controller(switch)
    assert controller.arbitration_code() == 0
    network.ports[2].send(report)
    assert controller.next().packet.payload == report
    assert counts() == (2, 1)
    controller.close()


def test_unicast_is_routed(network, controller, p4info):
    route(controller, p4info, "10.0.2.2", 2)
    network.ports[1].send(datagram("10.0.2.2", ttl=9))
    (frame,) = network.ports[2].receive(1)
    packet = Ether(frame.data)
    assert packet.dst == "02:00:00:00:00:02"
    assert packet[IP].ttl == 8
    checksum = packet[IP].chksum
    del packet[IP].chksum
    assert Ether(bytes(packet))[IP].chksum == checksum


def test_what_no_table_knows_is_dropped(network, controller):
    network.ports[1].send(datagram("10.0.9.9"))
    assert not network.ports[2].receive(1, timeout=0.3)


def test_multicast_reaches_every_port_of_the_group_but_the_ingress(network, controller, p4info):
    controller.insert(
        p4info.group(7, 1, 2, 4),
        p4info.entry("ipv4_multicast", {1: socket.inet_aton(GROUP)}, "replicate", b"\x07"),
    )
    network.ports[1].send(datagram(GROUP))
    for number in (2, 4):
        (frame,) = network.ports[number].receive(1)
        assert Ether(frame.data)[IP].dst == GROUP
    assert not network.ports[1].receive(1, timeout=0.2)
    controller.modify(p4info.group(7, 4))
    network.ports[1].send(datagram(GROUP))
    assert len(network.ports[4].receive(1)) == 1
    assert not network.ports[2].receive(1, timeout=0.2)


def test_igmp_comes_in_at_the_controller_with_its_port(network, controller):
    membership = b"\x16\0" + struct.pack("!H", 0xFFFF) + socket.inet_aton(GROUP)  # IGMPv2
    report = bytes(
        Ether(src=MAC, dst="01:00:5e:40:00:08") / IP(dst=GROUP, ttl=1, proto=2) / membership
    )
    network.ports[2].send(report)
    packet = controller.next().packet
    assert packet.payload == report
    assert {item.metadata_id: item.value for item in packet.metadata}[1] == b"\x02"
    assert not network.ports[1].receive(1, timeout=0.2)


def test_packet_out_leaves_by_the_named_port(network, controller):
    frame = datagram("10.0.2.2")
    packet = p4.PacketOut(payload=frame)
    packet.metadata.add(metadata_id=1, value=b"\x02")
    packet.metadata.add(metadata_id=2, value=b"\x00")
    controller.outgoing.put(p4.StreamMessageRequest(packet=packet))
    assert network.ports[2].receive(1)[0].data == frame


def test_malformed_packet_out_is_reported(controller):
    packet = p4.PacketOut(payload=b"frame")
    packet.metadata.add(metadata_id=7, value=b"\x02")
    controller.outgoing.put(p4.StreamMessageRequest(packet=packet))
    error = controller.next().error
    assert error.canonical_code == 3  # INVALID_ARGUMENT
    assert error.packet_out.packet_out == packet


def test_counters_and_registers(network, controller, p4info):
    route(controller, p4info, "10.0.2.2", 2)
    for _ in range(5):
        network.ports[1].send(datagram("10.0.2.2"))
    assert len(network.ports[2].receive(5)) == 5
    (cell,) = controller.read(p4info.counter("egress_fates", 2))
    assert cell.counter_entry.data == p4.CounterData(packet_count=5, byte_count=5 * 1014)
    assert len(controller.read(p4info.counter("ingress_fates"))) == 512 * 10

    controller.modify(p4info.register("avg_queue", 3, b"\x01\x00"))
    (cell,) = controller.read(p4info.register("avg_queue", 3))
    assert cell.register_entry.data.bitstring == b"\x01\x00"


@dataclass(frozen=True)
class Passage:
    """The engine's ideal times of a frame at a port, in ns. A late machine does not change them."""

    received: int
    enqueued: int
    transmitted: int


@pytest.fixture
def passages(tmp_path):
    """passages(port, count) waits until `count` frames have left the port, and returns their
    passages in order. `make bench-switch` measures how late the machine was."""

    def of(port: int, count: int) -> list[Passage]:
        def events(kind: str) -> dict[tuple[int, int], int]:
            return {(e["packet"], e["copy"]): e["time_ns"] for e in told
                    if e["kind"] == kind and e["port"] == port}  # fmt: skip

        told: list[dict] = []

        def complete() -> bool:
            text = (tmp_path / "trace.jsonl").read_text()
            told[:] = map(json.loads, text[: text.rfind("\n") + 1].splitlines())
            return len(events("transmit")) == count

        wait_until(complete, f"{count} frames leave")
        received = {e["packet"]: e["time_ns"] for e in told if e["kind"] == "receive"}
        enqueued = events("enqueue")
        return [Passage(received[copy[0]], enqueued[copy], time_ns)
                for copy, time_ns in events("transmit").items()]  # fmt: skip

    return of


@pytest.fixture
def traced_switch(start, program, tmp_path):
    return start(*PORTS, *program, "--trace", str(tmp_path / "trace.jsonl"))


def check_fifo(passed: list[Passage], rate_bps: int, delay_ns: int = 0) -> None:
    """Checks that frames of 1000 IP bytes leave one after the other at this rate, to the
    nanosecond."""
    service_ns = 8_000 * 10**9 // rate_bps
    link_free = 0
    for one in passed:
        link_free = max(one.enqueued, link_free) + service_ns
        assert one.transmitted == link_free + delay_ns


def check_never_early(passed: list[Passage], frames) -> None:
    """Checks that no frame was on the wire before its ideal time."""
    before, realtime, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
    slack = after - before + 1_000_000  # covers the error of the clocks' offset, which NTP may slew
    for one, frame in zip(passed, frames, strict=True):
        assert frame.time_ns - realtime + after >= one.transmitted - slack


def test_a_saturated_port_sends_at_its_rate(
    network, traced_switch, controller_of, p4info, passages
):
    """150 frames of 1000 IP bytes at 2 Mbit/s leave 4 ms apart."""
    route(controller_of(traced_switch), p4info, "10.0.3.2", 3)
    send_burst(network, "10.0.3.2", 150)
    frames = network.ports[3].receive(150)
    assert numbers(frames) == list(range(150))
    passed = passages(3, 150)
    check_fifo(passed, SLOW_RATE)
    check_never_early(passed, frames)
    stats = ports_of(traced_switch)[3]
    assert stats.tx_packets == 150
    assert stats.tx_bytes == 150 * 1000
    # At most as many are waiting as were enqueued before this number had been transmitted.
    most = max(sum(other.transmitted > one.enqueued for other in passed[:n])
               for n, one in enumerate(passed))  # fmt: skip
    assert stats.max_queue_packets == most
    assert stats.queue_drops == 0


def test_a_full_queue_drops_the_tail_and_counts_it(network, switch, controller, p4info):
    """The link stands still until all have arrived: one is in service, ten wait."""
    route(controller, p4info, "10.0.3.2", 3)
    switch.lab.SetLink(lab_pb2.SetLinkRequest(port=3, queue_packets=10, rate_bps=8))
    send_burst(network, "10.0.3.2", 60)
    longest = []

    def all_have_come() -> bool:
        stats = ports_of(switch)
        longest.append(stats[3].max_queue_packets)
        return stats[1].rx_packets == 60

    wait_until(all_have_come, "all have come")
    stats = ports_of(switch)[3]
    assert (stats.queue_packets, stats.queue_drops, max(longest)) == (10, 49, 10)
    switch.lab.SetLink(lab_pb2.SetLinkRequest(port=3, rate_bps=SLOW_RATE))
    assert numbers(network.ports[3].receive(11)) == list(range(11))
    assert ports_of(switch)[3].tx_packets == 11


def test_an_idle_link_adds_its_delay_alone(network, traced_switch, controller_of, p4info, passages):
    route(controller_of(traced_switch), p4info, "10.0.4.2", 4)
    for _ in range(5):
        sent = network.ports[1].send(datagram("10.0.4.2"))
        (frame,) = network.ports[4].receive(1)
        assert frame.time_ns - sent >= LONG_DELAY_NS
    for one in passages(4, 5):
        assert (one.enqueued, one.transmitted) == (one.received, one.received + LONG_DELAY_NS)


def test_rx_delay_is_added_to_frames_from_the_port(
    network, traced_switch, controller_of, p4info, passages
):
    route(controller_of(traced_switch), p4info, "10.0.2.2", 2)
    traced_switch.lab.SetLink(lab_pb2.SetLinkRequest(port=1, rx_delay_ns=30_000_000))
    sent = network.ports[1].send(datagram("10.0.2.2"))
    (frame,) = network.ports[2].receive(1)
    assert frame.time_ns - sent >= 30_000_000
    [one] = passages(2, 1)
    assert one.enqueued == one.transmitted == one.received + 30_000_000


def test_set_link_changes_the_rate_at_once(network, traced_switch, controller_of, p4info, passages):
    route(controller_of(traced_switch), p4info, "10.0.3.2", 3)
    traced_switch.lab.SetLink(lab_pb2.SetLinkRequest(port=3, rate_bps=8_000_000))
    send_burst(network, "10.0.3.2", 150)
    assert numbers(network.ports[3].receive(150)) == list(range(150))
    check_fifo(passages(3, 150), 8_000_000)


def test_port_statistics_and_lateness(network, switch, controller, p4info):
    route(controller, p4info, "10.0.4.2", 4)
    ports_of(switch)  # starts a new interval
    send_burst(network, "10.0.4.2", 50)
    assert len(network.ports[4].receive(50)) == 50
    ports = ports_of(switch)
    assert [p.name for p in ports.values()] == ["p1", "p2", "p3", "p4"]
    assert ports[1].rx_packets == 50
    assert ports[1].rx_bytes == 50 * 1014  # no overhead is set, so Ethernet bytes count
    assert ports[4].tx_packets == 50
    assert (ports[1].kernel_drops, ports[4].send_errors) == (0, 0)
    assert 0 <= ports[4].late_p50_us <= ports[4].late_p99_us <= ports[4].late_max_us
    assert ports[4].late_max_us > 0
    assert ports_of(switch)[4].late_max_us == 0  # nothing has left since


def host_socket(network, tools) -> socket.socket:
    """A UDP socket behind port 1, on the kernel's stack with its offloads on."""
    with tools.inside(network.hosts):
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


@pytest.fixture
def host_address(network):
    def ip(*arguments: str) -> None:
        subprocess.run(["ip", "-n", network.hosts, *arguments], check=True)

    ip("address", "add", "10.0.1.2/24", "dev", "h1")
    ip("neighbour", "replace", "10.0.1.1", "lladdr", "02:00:00:00:01:00", "dev", "h1")
    ip("route", "add", "10.0.0.0/16", "via", "10.0.1.1")
    yield
    ip("address", "del", "10.0.1.2/24", "dev", "h1")


def test_checksums_left_to_a_device_are_completed(network, controller, p4info, tools, host_address):
    route(controller, p4info, "10.0.2.2", 2)
    with host_socket(network, tools) as udp:
        udp.sendto(b"payload", ("10.0.2.2", 5500))
    (frame,) = network.ports[2].receive(1)
    packet = Ether(frame.data)
    checksum = packet[UDP].chksum
    del packet[UDP].chksum
    assert Ether(bytes(packet))[UDP].chksum == checksum


def test_frames_above_the_mtu_are_counted_not_forwarded(
    network, switch, controller, p4info, tools, host_address
):
    udp_segment = 103
    route(controller, p4info, "10.0.2.2", 2)
    with host_socket(network, tools) as udp:
        udp.setsockopt(socket.SOL_UDP, udp_segment, 1000)
        udp.sendto(b"\0" * 4000, ("10.0.2.2", 5500))
        assert not network.ports[2].receive(1, timeout=0.3)
        assert ports_of(switch)[1].kernel_drops == 1
        udp.setsockopt(socket.SOL_UDP, udp_segment, 0)
        udp.sendto(b"after", ("10.0.2.2", 5500))
    assert len(network.ports[2].receive(1)) == 1


@pytest.mark.parametrize("size", [14, 60, 61, 1514])
def test_frames_of_every_size_pass_whole(network, start, tools, size):
    start("--port", "1=p1", "--port", "2=p2", "--json", str(tools.TO_PORT_1))
    sent = bytes(12) + b"\x88\xb5" + bytes(n & 0xFF for n in range(size - 14))
    network.ports[2].send(sent)
    (frame,) = network.ports[1].receive(1)
    assert frame.data[4:] == sent[4:]


@pytest.mark.parametrize("tags", [b"\x81\x00\x20\x05", b"\x88\xa8\x00\x07\x81\x00\x20\x05"])
def test_vlan_tags_stay_in_the_frame(network, start, tools, tags):
    start("--port", "1=p1", "--port", "2=p2", "--json", str(tools.TO_PORT_1))
    network.ports[2].send(bytes(12) + tags + b"\x88\xb5" + b"payload")
    (frame,) = network.ports[1].receive(1)
    # The receiving kernel removes the outer tag and reports it.
    assert frame.outer_tag == int.from_bytes(tags[:4], "big")
    assert frame.data[12:] == tags[4:] + b"\x88\xb5" + b"payload"


def test_offloads_are_off(switch, network, tools):
    siocethtool = 0x8946
    getters = {"rx": 0x14, "tx": 0x16, "sg": 0x18, "tso": 0x1E, "gso": 0x23, "gro": 0x2B}
    with tools.inside(network.switch):
        control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with control:
        for name, command in getters.items():
            value = array.array("I", [command, 1])
            request = struct.pack("16sP", b"p1", value.buffer_info()[0])
            fcntl.ioctl(control, siocethtool, request)
            assert value[1] == 0, f"{name} is on"


def test_no_queueing_discipline_is_behind_a_port(network, controller, p4info):
    """The qdisc's counters would show frames that did not bypass it."""
    tc = command_in(network.switch, "tc")
    subprocess.run([*tc, "qdisc", "replace", "dev", "p2", "root", "pfifo"], check=True)
    try:
        route(controller, p4info, "10.0.2.2", 2)
        send_burst(network, "10.0.2.2", 10)
        assert len(network.ports[2].receive(10)) == 10
        shown = subprocess.run([*tc, "-s", "qdisc", "show", "dev", "p2"], check=True,
                               capture_output=True, text=True).stdout  # fmt: skip
        assert "Sent 0 bytes 0 pkt" in shown
    finally:
        subprocess.run([*tc, "qdisc", "del", "dev", "p2", "root"], check=True)


def test_timestamps_of_two_switches_lie_on_one_epoch(start, network, tools):
    """A probe passes two processes, of which the second was started later. Its times are
    CLOCK_MONOTONIC's."""
    program = ("--json", str(tools.PROGRAMS / "probe.json"))

    def pass_on(sender: int, receiver: int) -> tuple[int, int]:
        """Ingress and egress time (us) that the switch between two ports writes into a probe."""
        network.ports[sender].send(bytes([receiver]) + bytes(59))
        [frame] = network.ports[receiver].receive(1)
        return struct.unpack_from("!HIHI", frame.data, 18)[1::2]

    start("--port", "1=p1", "--port", "2=p2", *program)
    time.sleep(1.1)  # with its own epoch it would be off by this: ten times the slack below
    start("--port", "3=p3", "--port", "4=p4", *program)
    moments = [time.monotonic_ns() // 1000 & 0xFFFFFFFF]
    for sender, receiver in ((1, 2), (3, 4), (2, 1)):
        moments += pass_on(sender, receiver)
    moments.append(time.monotonic_ns() // 1000 & 0xFFFFFFFF)
    # The kernel's stamps use another clock, and reading both may be interrupted.
    slack = 100_000
    steps = [later - earlier for earlier, later in zip(moments, moments[1:], strict=False)]
    assert min(steps) > -slack, moments


def test_members_that_watch_a_port_without_a_link_are_left_out(start, network, tools):
    """Port 3 loses its carrier and gets it back. A group and an action set that watch it follow."""
    switch = start("--port", "1=p1", "--port", "2=p2", "--port", "3=p3")
    switch.kind = "tiercast"
    peer = tools.Peer(switch, 1, "externs")
    watch = r'weight: 1 watch_port: "\003"'

    def forward(port: int) -> str:
        return f'action {{ action_id: $forward params {{ param_id: 1 value: "\\00{port}" }} }}'

    def entry(table: str, key: int, action: str) -> str:
        match = f'match {{ field_id: 1 exact {{ value: "\\00{key}" }} }}'
        return f"table_entry {{ table_id: ${table} {match} action {{ {action} }} }}"

    profile = "action_profile_id: $paths"
    choices = (
        f"action_profile_actions {{ {forward(2)} {watch} }} "
        f"action_profile_actions {{ {forward(1)} weight: 1 }}"
    )
    for text in (
        f"action_profile_member {{ {profile} member_id: 1 {forward(2)} }}",
        f"action_profile_member {{ {profile} member_id: 2 {forward(1)} }}",
        f"action_profile_group {{ {profile} group_id: 1 members {{ member_id: 1 {watch} }} "
        "members { member_id: 2 weight: 1 } }",
        entry("balance", 1, "action_profile_group_id: 1"),
        entry("limited", 1, f"action_profile_action_set {{ {choices} }}"),
    ):
        assert peer.do(f"INSERT {text}") == "OK", text
    balance, limited = 1, 2

    def by_port_2() -> int:
        """How many of two flows through each table leave by port 2; the others leave by port 1."""
        for kind in (balance, limited):
            for flow in (0, 1):
                frame = bytes(12) + b"\x88\xb5" + bytes([kind, 1, flow, 0])
                network.ports[1].send(frame.ljust(60, b"\0"))
        came = tools.receive_anywhere({n: network.ports[n] for n in (1, 2)}, 4)
        return came.count(2)

    def far_end(state: str) -> None:
        subprocess.run(["ip", "-n", network.hosts, "link", "set", "h3", state], check=True)

    assert by_port_2() == 2
    try:
        far_end("down")
        wait_until(lambda: by_port_2() == 0, "port 3 is known to be down")
        # A new program keeps this state, and so does a new group.
        peer.controller.set_pipeline(
            p4.SetForwardingPipelineConfigRequest.RECONCILE_AND_COMMIT, peer.config
        )
        assert by_port_2() == 0
    finally:
        far_end("up")
    wait_until(lambda: by_port_2() == 2, "port 3 is known to be up")
    with contextlib.suppress(OSError):  # ENETDOWN, once
        network.ports[3].receive(1, timeout=0.05)
    peer.close()


def test_digests_without_a_reader_are_dropped_and_counted(start, network, tools):
    """What waits for a stream is bounded, packets continue, and the log reports it."""
    switch = start("--port", "1=p1", "--port", "2=p2")
    # A window that accepts little of what is sent.
    options = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1024)]
    channel = grpc.insecure_channel(switch.address, options=options)
    stub = p4runtime_pb2_grpc.P4RuntimeStub(channel)
    peer = tools.Peer(SimpleNamespace(p4runtime=stub, kind="tiercast"), 1, "externs")
    config = "config { max_list_size: 1 }"
    assert peer.do(f"INSERT digest_entry {{ digest_id: $learnt_t {config} }}") == "OK"
    peer.controller.stop_reading()
    learn, size = 6, 60
    for number in range(12_000):
        frame = bytes(6) + number.to_bytes(6, "big") + b"\x88\xb5" + bytes([learn, 0, 0, 0])
        network.ports[1].send(frame.ljust(size, b"\0"))
        if number % 64 == 63:
            assert len(network.ports[2].receive(64)) == 64
    channel.close()
    assert switch.stop() == 0
    log = switch.log_path.read_text()
    assert " digests dropped" in log, log
    assert log.count("stream messages dropped (reported once)") == 1
