"""tiercast-switch-dpdk on devices without hardware: net_pcap, net_ring, net_null."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest
from p4.v1 import p4runtime_pb2 as p4
from p4.v1 import p4runtime_pb2_grpc
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from tiercast.v1 import lab_pb2, lab_pb2_grpc

from ...checkout import BUILD
from ...patience import PATIENCE_S, wait_until
from ...pcap import read_pcap, write_pcap

BINARY = BUILD / "dataplane/switch/dpdk/tiercast-switch-dpdk"
EAL = ("--no-huge", "--no-shconf", "-m", "64", "--no-pci", "--no-telemetry")

pytestmark = pytest.mark.skipif(not BINARY.exists(), reason=f"{BINARY}: not built (needs DPDK)")


def command(devices: list[str], *arguments: str) -> list[str]:
    vdevs = [f"--vdev={device}" for device in devices]
    return [str(BINARY), *EAL, *vdevs, "--", "--device-id", "1", *arguments]


@contextlib.contextmanager
def running(directory: Path, devices: list[str], *arguments: str) -> Iterator[SimpleNamespace]:
    """A switch that polls: it takes a whole CPU until the context ends."""
    address = f"unix:{directory}/dpdk.sock"
    log_path = directory / "dpdk.log"
    with log_path.open("w") as log:
        process = subprocess.Popen(
            command(devices, "--grpc", address, *arguments), stdout=log, stderr=log
        )
    backoff = [(f"grpc.{kind}_reconnect_backoff_ms", 20) for kind in ("initial", "max")]
    channel = grpc.insecure_channel(address, options=backoff)
    try:
        grpc.channel_ready_future(channel).result(timeout=PATIENCE_S)
        yield SimpleNamespace(
            kind="tiercast",
            p4runtime=p4runtime_pb2_grpc.P4RuntimeStub(channel),
            lab=lab_pb2_grpc.SwitchStub(channel),
        )
        process.terminate()
        assert process.wait(timeout=PATIENCE_S) == 0, log_path.read_text()
    except grpc.FutureTimeoutError:
        pytest.fail(f"the switch did not listen:\n{log_path.read_text()}")
    finally:
        process.kill()
        process.wait()
        channel.close()


def ports(switch) -> dict[int, lab_pb2.PortStats]:
    return {each.port: each for each in switch.lab.GetPorts(lab_pb2.GetPortsRequest()).ports}


def probe(out_port: int, number: int, size: int = 60) -> bytes:
    """A frame for probe.p4: it leaves by out_port, with times written to bytes 2 to 29."""
    return (bytes([out_port]) + bytes(29) + number.to_bytes(4, "big")).ljust(size, b"\xaa")


def untouched(frame: bytes) -> bytes:
    return frame[:2] + frame[30:]


def pcap_device(directory: Path, number: int, frames: list[bytes]) -> tuple[str, Path]:
    received = write_pcap(directory / f"in{number}.pcap", frames)
    sent = directory / f"out{number}.pcap"
    return f"net_pcap{number},rx_pcap={received},tx_pcap={sent}", sent


def test_frames_of_a_capture_leave_into_another(tmp_path, tools):
    frames = [probe(2 + n % 2, n, 60 + n) for n in range(300)]
    jumbo = bytes([2]) + bytes(5000)  # in several buffers: dropped and counted
    first, _ = pcap_device(tmp_path, 0, [*frames[:100], jumbo, *frames[100:]])
    second, out2 = pcap_device(tmp_path, 1, [])
    third, out3 = pcap_device(tmp_path, 2, [])
    arguments = [f"--port={n}=dpdk:net_pcap{n - 1}" for n in (1, 2, 3)]
    program = str(tools.PROGRAMS / "probe.json")
    with running(tmp_path, [first, second, third], "--json", program, *arguments) as switch:
        wait_until(
            lambda: ports(switch)[2].tx_packets + ports(switch)[3].tx_packets == 300, "frames"
        )
        stats = ports(switch)
    assert (stats[1].rx_packets, stats[1].kernel_drops, stats[1].name) == (300, 1, "net_pcap0")
    assert stats[1].rx_bytes == sum(map(len, frames))
    assert [stats[port].send_errors for port in (1, 2, 3)] == [0, 0, 0]
    for port, path in ((2, out2), (3, out3)):
        sent = [untouched(frame) for frame in read_pcap(path)]
        assert sent == [untouched(frame) for frame in frames if frame[0] == port]


def test_a_dpdk_port_has_a_link_behind_it(tmp_path, tools):
    """20 frames of 1000 bytes at 1 Mbit/s leave 8 ms apart, behind a queue of 10: 9 are lost."""
    first, _ = pcap_device(tmp_path, 0, [probe(2, n, 1000) for n in range(20)])
    second, out = pcap_device(tmp_path, 1, [])
    link = "dpdk:net_pcap1,rate=1Mbit/s,queue=10p"
    program = str(tools.PROGRAMS / "probe.json")
    with running(tmp_path, [first, second], "--json", program, "--port", "1=dpdk:net_pcap0",
                 "--port", f"2={link}") as switch:  # fmt: skip
        wait_until(lambda: ports(switch)[2].tx_packets == 11, "frames")
        stats = ports(switch)[2]
    assert stats.queue_drops == 9
    sent = read_pcap(out)
    assert [int.from_bytes(frame[30:34], "big") for frame in sent] == list(range(11))
    # In us, and ideal: a late thread changes none of them.
    egress = [int.from_bytes(frame[24:30], "big") for frame in sent]
    assert [b - a for a, b in zip(egress, egress[1:], strict=False)] == [8000] * 10


def test_a_frame_comes_back_from_a_ring_and_p4runtime_is_served(tmp_path, tools, p4info):
    """A packet-out goes into net_ring, which returns what is sent to it; then the tables decide."""
    first, out = pcap_device(tmp_path, 0, [])
    mac = bytes.fromhex("020000000009")
    frame = bytes(Ether(src="02:00:00:00:00:01") / IP(dst="10.0.2.2", ttl=9) / UDP() / bytes(40))
    with running(tmp_path, [first, "net_ring0"], "--port", "1=dpdk:net_pcap0",
                 "--port", "2=dpdk:net_ring0") as switch:  # fmt: skip
        controller = tools.Controller(switch)
        assert controller.arbitration_code() == 0
        action = p4.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
        controller.set_pipeline(action, p4info.config())
        controller.insert(p4info.host("10.0.2.2", 1, mac))
        packet = p4.PacketOut(payload=frame)
        packet.metadata.add(metadata_id=1, value=b"\x02")
        packet.metadata.add(metadata_id=2, value=b"\x00")
        controller.outgoing.put(p4.StreamMessageRequest(packet=packet))
        wait_until(lambda: ports(switch)[1].tx_packets == 1, "a frame")
        stats = ports(switch)
        controller.close()
    assert (stats[2].tx_packets, stats[2].rx_packets) == (1, 1)
    [forwarded] = read_pcap(out)
    assert forwarded[:6] == mac
    assert Ether(forwarded)[IP].ttl == 8


def test_net_null_floods_and_the_switch_still_answers(tmp_path, tools):
    """net_null receives without end. The switch keeps serving, and ends when it is told to."""
    arguments = ("--port", "1=dpdk:net_null0", "--port", "2=dpdk:net_null1")
    program = str(tools.TO_PORT_1)
    with running(tmp_path, ["net_null0", "net_null1"], "--json", program, *arguments) as switch:
        wait_until(lambda: ports(switch)[1].tx_packets > 100_000, "a flood")
        stats = ports(switch)
        assert stats[1].send_errors == 0
        assert stats[2].tx_packets == 0
        assert stats[1].rx_packets > 0 and stats[2].rx_packets > 0


@pytest.mark.parametrize(
    ("devices", "port", "says"),
    [
        ([], "1=dpdk:net_null0", ["no DPDK device 'net_null0'", "devices: none"]),
        (["net_null0"], "1=dpdk:net_null7", ["'net_null7'", "devices: net_null0"]),
        (["net_null0"], "1=dpdk:", ["no DPDK device ''"]),
        (["net_pcap0,rx_pcap=/no/such/file"], "1=dpdk:net_pcap0", ["net_pcap0"]),
    ],
)
def test_a_wrong_device_is_named(tools, devices, port, says):
    ended = subprocess.run(
        command(devices, "--json", str(tools.TO_PORT_1), "--port", port),
        capture_output=True, text=True,
    )  # fmt: skip
    assert ended.returncode == 2, ended.stderr
    for text in says:
        assert text in ended.stderr


def test_the_usual_program_knows_no_devices(tools):
    ended = subprocess.run(
        [tools.BINARY, "--device-id", "1", "--json", str(tools.TO_PORT_1),
         "--port", "1=dpdk:net_null0"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert ended.returncode == 2
    assert "dpdk:net_null0" in ended.stderr
