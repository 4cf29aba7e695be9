"""Several switches in one process, and several threads for one switch."""

import json
import signal
import socket
import struct
import subprocess
import threading

from ...namespaces import command_in

MAC = bytes.fromhex("020000000009")


def udp_frame(source: int, number: int) -> bytes:
    """A frame to 10.0.0.9 with a source and a number."""
    payload = struct.pack("!II", source, number).ljust(200, b"\0")
    ip = bytearray(struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28 + len(payload), 0, 0, 64, 17, 0,
                               socket.inet_aton(f"10.0.1.{source}"),
                               socket.inet_aton("10.0.0.9")))  # fmt: skip
    total = sum(struct.unpack("!10H", ip))
    total = (total & 0xFFFF) + (total >> 16)
    ip[10:12] = struct.pack("!H", ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF)
    udp = struct.pack("!HHHH", 9000, 9000, 8 + len(payload), 0)
    return MAC + bytes.fromhex("0200000000010800") + ip + udp + payload


def test_two_switches_in_one_process(network, start, program, tools, tmp_path):
    other = tmp_path / "other.sock"

    def command(device_id: int, address: str) -> list[str]:
        return [str(tools.BINARY), *program,
                "--switch", "--device-id", "1", "--grpc", address,
                "--port", "1=p1", "--port", "2=p2",
                "--switch", "--device-id", "2", "--grpc", f"unix:{other}",
                "--port", "1=p3", "--port", "2=p4"]  # fmt: skip

    both = start(command=command)
    second = tools.connect(f"unix:{other}")
    try:
        controllers = [tools.Controller(both, device_id=1), tools.Controller(second, device_id=2)]
        for controller in controllers:
            assert controller.arbitration_code() == 0
        # Each switch has its own tables: the same host is behind another port.
        info = tools.P4Info()
        controllers[0].insert(info.host("10.0.0.9", 1, MAC))
        controllers[1].insert(info.host("10.0.0.9", 2, MAC))
        assert len(controllers[0].read(info.hosts())) == 1
        network.ports[2].send(udp_frame(2, 0))
        network.ports[3].send(udp_frame(3, 0))
        assert [len(network.ports[n].receive(1)) for n in (1, 4)] == [1, 1]
        assert [len(network.ports[n].receive(1, timeout=0.2)) for n in (2, 3)] == [0, 0]
        for controller in controllers:
            controller.close()
    finally:
        second.channel.close()
    assert both.stop(signal.SIGTERM) == 0
    assert not both.path.exists() and not other.exists()


def test_switches_that_share_an_interface_are_refused(network, tools):
    done = subprocess.run(
        command_in(network.switch, tools.BINARY, "--grpc", "127.0.0.1:1",
                   "--switch", "--device-id", "1", "--port", "1=p1",
                   "--switch", "--device-id", "2", "--port", "1=p2"),
        capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 2
    assert "switches 1 and 2 both have --grpc 127.0.0.1:1" in done.stderr


def test_workers_lose_and_reorder_nothing(network, start, program, tools):
    """Three ports flood a fourth. Each source's frames stay in order, and every frame is counted
    once."""
    frames = 3000
    switch = start(*program, "--workers", "4",
                   *(word for n in range(1, 5) for word in ("--port", f"{n}=p{n}")))  # fmt: skip
    controller = tools.Controller(switch)
    assert controller.arbitration_code() == 0
    info = tools.P4Info()
    controller.insert(info.host("10.0.0.9", 1, MAC))

    def flood(source: int) -> None:
        for number in range(frames):
            network.ports[source].send(udp_frame(source, number))

    senders = [threading.Thread(target=flood, args=(source,)) for source in (2, 3, 4)]
    for sender in senders:
        sender.start()
    received: dict[int, list[int]] = {2: [], 3: [], 4: []}
    for frame in network.ports[1].receive(3 * frames):
        source, number = struct.unpack("!II", frame.data[42:50])
        received[source].append(number)
    for sender in senders:
        sender.join()
    for numbers in received.values():
        assert numbers == list(range(frames))
    entity = controller.read(info.counter("egress_fates", 1))[0]
    assert entity.counter_entry.data.packet_count == 3 * frames
    ports = switch.lab.GetPorts(tools.lab.GetPortsRequest())
    assert sum(port.kernel_drops + port.send_errors for port in ports.ports) == 0
    controller.close()


def test_workers_keep_the_links_rate(network, start, program, tools, tmp_path):
    """8 Mbit/s and frames of 242 bytes: 0.242 ms each in ideal time, whichever thread handles
    them."""
    trace = tmp_path / "trace.jsonl"
    switch = start(*program, "--workers", "2", "--port", "1=p1,rate=8Mbit/s",
                   "--port", "2=p2", "--port", "3=p3", "--trace", str(trace))  # fmt: skip
    controller = tools.Controller(switch)
    assert controller.arbitration_code() == 0
    controller.insert(tools.P4Info().host("10.0.0.9", 1, MAC))
    frames = 400
    for number in range(frames):
        network.ports[2 + number % 2].send(udp_frame(2 + number % 2, number))
    assert len(network.ports[1].receive(frames)) == frames
    controller.close()
    assert switch.stop() == 0
    events = [json.loads(line) for line in trace.read_text().splitlines()]
    enqueued, transmitted = (
        [e["time_ns"] for e in events if e["kind"] == kind] for kind in ("enqueue", "transmit")
    )
    assert len(transmitted) == frames
    link_free = 0
    for arrived, left in zip(enqueued, transmitted, strict=True):
        link_free = max(arrived, link_free) + 242_000
        assert left == link_free


def test_a_worker_for_each_port_at_most(network, tools):
    done = subprocess.run(
        command_in(network.switch, tools.BINARY, "--device-id", "1", "--grpc",
                   "127.0.0.1:1", "--port", "1=p1", "--workers", "2"),
        capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 2 and "--workers 2: at most one for each of 1 ports" in done.stderr
