"""Links between switches of one process: `--port 2=link:s2.1`."""

import json
import signal

import pytest

from ...patience import wait_until
from .test_switch import NEXT_HOP, datagram, numbers, ports_of

FRAMES = 150
SERVICE_NS = 4_000_000  # of 1000 IP bytes at 2 Mbit/s
DELAY_NS = 5_000_000
RATE = "rate=2Mbit/s,delay=5ms,overhead=-14B"


@pytest.fixture
def chain(start, program, tools, tmp_path):
    """p1, s1, s2, s3, p2; the link from s1 to s2 is slow. Returns the switches, as gRPC has them,
    and reads their traces."""
    sockets = {name: tmp_path / f"{name}.sock" for name in ("s1", "s2", "s3")}
    ports = {
        "s1": ["--port", "1=p1", "--port", f"2=link:s2.1,{RATE}"],
        "s2": ["--port", "1=link:s1.2", "--port", "2=link:s3.1"],
        "s3": ["--port", "1=link:s2.2", "--port", "2=p2"],
    }

    def command(device_id: int, address: str) -> list[str]:
        words = ["chrt", "--rr", "10", str(tools.BINARY), *program]
        for number, (name, its) in enumerate(ports.items(), 1):
            at = address if name == "s1" else f"unix:{sockets[name]}"
            words += ["--switch", "--name", name, "--device-id", str(number), "--grpc", at, *its]
            words += ["--trace", str(tmp_path / f"{name}.jsonl")]
        return words

    process = start(command=command)
    others = [tools.connect(f"unix:{sockets[name]}") for name in ("s2", "s3")]
    controllers = []
    for number, switch in enumerate([process, *others], 1):
        controllers.append(tools.Controller(switch, device_id=number))
        assert controllers[-1].arbitration_code() == 0
    yield process, controllers
    for controller in controllers:
        controller.close()
    for switch in others:
        switch.channel.close()


def test_frames_arrive_when_they_were_due(chain, network, tools, tmp_path):
    """Each link hands a frame over at its ideal time, to the nanosecond, however late the machine
    was; none is lost or overtaken."""
    process, controllers = chain
    info = tools.P4Info()
    for controller in controllers:
        controller.insert(info.host("10.0.0.9", 2, NEXT_HOP))
    for number in range(FRAMES):
        network.ports[1].send(datagram("10.0.0.9", number=number))
    assert numbers(network.ports[2].receive(FRAMES)) == list(range(FRAMES))

    def times(name: str, kind: str, port: int) -> list[int]:
        text = (tmp_path / f"{name}.jsonl").read_text()
        told = map(json.loads, text[: text.rfind("\n") + 1].splitlines())
        return [one["time_ns"] for one in told if (one["kind"], one.get("port")) == (kind, port)]

    wait_until(lambda: len(times("s3", "transmit", 2)) == FRAMES, "the traces are written")
    left, link_free = times("s1", "transmit", 2), 0
    for received, at in zip(times("s1", "receive", 1), left, strict=True):
        link_free = max(received, link_free) + SERVICE_NS
        assert at == link_free + DELAY_NS
    assert times("s2", "receive", 1) == left
    assert times("s3", "receive", 1) == times("s2", "transmit", 2) == left
    assert process.stop(signal.SIGTERM) == 0


def test_a_circle_of_frames_stops_nothing(start, network, tools):
    """Both switches send every frame to port 1, so frames go round for ever. The switches still
    answer, and end."""
    common = ["--json", str(tools.TO_PORT_1)]
    process = start(
        command=lambda _, address: [
            str(tools.BINARY), *common,
            "--switch", "--name", "s1", "--device-id", "1", "--grpc", address,
            "--port", "1=link:s2.1", "--port", "2=p1",
            "--switch", "--name", "s2", "--device-id", "2", "--port", "1=link:s1.1",
        ])  # fmt: skip

    network.ports[1].send(datagram("10.0.0.9"))
    wait_until(lambda: ports_of(process)[1].rx_packets > 1000, "the frame goes round")
    assert process.stop(signal.SIGTERM) == 0
