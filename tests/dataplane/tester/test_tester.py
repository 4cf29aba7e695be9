"""tiercast-tester on a ring that returns its frames, and on two ports that are cabled to each other
(root)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ...checkout import BUILD
from ...namespaces import Namespaces, command_in, ip

pytestmark = pytest.mark.slow

TESTER = BUILD / "dataplane/tester/tiercast-tester"
EAL = ["--no-huge", "--no-shconf", "-m", "256", "--no-pci", "--no-telemetry"]


@contextmanager
def running(devices: list[str], *options: str, namespace: str = "") -> Iterator[Any]:
    names = [device.partition(",")[0] for device in devices]
    ports = [f"--port={name}=10.0.{i}.2" for i, name in enumerate(names)]
    command = [str(TESTER), *EAL, *(f"--vdev={d}" for d in devices), "--", *ports, *options]
    if namespace:
        command = command_in(namespace, *command)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin and process.stdout

        def ask(**command: Any) -> Any:
            process.stdin.write(json.dumps(command) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        try:
            yield ask
            process.stdin.close()
            assert process.wait(30) == 0
        finally:
            process.kill()


@pytest.mark.parametrize("frame", [64, 65, 512, 1518])
def test_a_ring_returns_every_frame(frame: int) -> None:
    with running(["net_ring0"]) as ask:
        for rate in (20_000, 0):
            answer = ask(do="trial", **{"from": 0}, frame=frame, rate=rate, frames=500, wait_s=0.1,
                         each=True, to=[{"first": "239.192.0.0", "count": 7},
                                        {"host": "10.0.9.9", "mac": "02:00:00:00:00:09",
                                         "weight": 3}])  # fmt: skip
            (port,) = answer["ports"]
            assert answer["sent"] == port["received"] == 500
            assert port["duplicates"] == port["reordered"] == 0
            each = {one["destination"]: one["received"] for one in port["each"]}
            groups = {f"239.192.0.{i}": 50 for i in range(7)}
            assert each == groups | {"10.0.9.9": 150}
            latency = port["latency"]
            assert latency["count"] == 500
            assert 0 <= latency["min_ns"] <= latency["mean_ns"] <= latency["max_ns"]
        # Absolute schedule: 500 frames at 20,000/s never leave sooner.
        answer = ask(do="trial", **{"from": 0}, frame=frame, rate=20_000, frames=500, wait_s=0,
                     to=[{"first": "239.192.0.0"}])  # fmt: skip
        assert answer["last_ns"] - answer["first_ns"] >= 499 / 20_000 * 1e9 - 1e6


def test_a_ring_returns_jumbo_frames() -> None:
    with running(["net_ring0"], "--packet-size=9000") as ask:
        trial = {"from": 0, "rate": 0, "frames": 500, "wait_s": 0.1,
                 "to": [{"first": "239.192.0.0"}]}  # fmt: skip
        answer = ask(do="trial", frame=9018, **trial)
        assert answer["sent"] == answer["ports"][0]["received"] == 500
        refused = ask(do="trial", frame=9019, **trial)["error"]
        assert "frame: 9019 bytes; valid: 64 to 9018" in refused


def test_frames_of_an_earlier_trial_do_not_count() -> None:
    with running(["net_ring0"]) as ask:
        one = {"from": 0, "frame": 64, "rate": 0, "wait_s": 0, "to": [{"first": "239.192.0.0"}]}
        ask(do="trial", frames=300, **one)
        answer = ask(do="trial", frames=10, **(one | {"wait_s": 0.2}))
        assert answer["ports"][0]["received"] == 10


def test_two_ports_cabled_to_each_other() -> None:
    namespaces = Namespaces("wire")
    try:
        namespaces.join("wire", "end0", "wire", "end1")
        devices = ["net_af_packet0,iface=end0", "net_af_packet1,iface=end1"]
        with running(devices, namespace=namespaces["wire"]) as ask:
            ports = ask(do="ports")["ports"]
            assert [port["interface"] for port in ports] == ["end0", "end1"]
            groups = {"first": "239.192.0.0", "count": 4, "source": "10.0.0.2"}
            change = {"at_s": 0.05, "port": 1, "join": True, "groups": groups}
            burden = {"from": 1, "rate": 500.0, "to": [{"host": "10.0.0.2",
                      "mac": ports[0]["mac"]}]}  # fmt: skip
            answer = ask(do="trial", **{"from": 0}, frame=128, rate=2000, frames=400, wait_s=0.3,
                         to=[groups], changes=[change], burden=burden)  # fmt: skip
            assert answer["sent"] == answer["ports"][1]["received"] == 400
            assert answer["ports"][0]["received"] == 0
            back = {"from": 1, "to": [{"host": "10.0.0.2", "mac": ports[0]["mac"]}]}
            both = ask(do="trial", **{"from": 0}, frame=128, rate=2000, frames=300, wait_s=0.3,
                       to=[groups], back=back)  # fmt: skip
            assert both["sent"] == both["ports"][1]["received"] == 300
            assert both["back"]["sent"] == both["ports"][0]["received"] == 300
            (at,) = answer["changed_ns"]
            assert at >= answer["first_ns"]
            assert ask(do="leave", port=1, groups=groups)["at_ns"] > at
    finally:
        namespaces.close()


def test_jumbo_frames_between_two_ports() -> None:
    namespaces = Namespaces("wire")
    try:
        namespaces.join("wire", "end0", "wire", "end1")
        for name in ("end0", "end1"):
            ip("-n", namespaces["wire"], "link", "set", name, "mtu", "9000")
        ring = "framesz=9216,blocksz=36864"
        devices = [f"net_af_packet{i},iface=end{i},{ring}" for i in range(2)]
        with running(devices, "--packet-size=9000", namespace=namespaces["wire"]) as ask:
            answer = ask(do="trial", **{"from": 0}, frame=9018, rate=1000, frames=300, wait_s=0.3,
                         to=[{"first": "239.192.0.0"}])  # fmt: skip
            assert answer["sent"] == answer["ports"][1]["received"] == 300
    finally:
        namespaces.close()


@pytest.mark.parametrize("beside", ["", "burden", "back"])
def test_a_change_that_finds_no_room_ends_its_trial(beside: str) -> None:
    with running(["net_ring0", "net_ring1"], "--streams=8") as ask:
        to = [{"first": "239.192.0.0"}]
        other = {"from": 1, "to": to, "rate": 100.0}
        change = {"at_s": 0.05, "port": 0, "join": True,
                  "groups": {"first": "239.0.0.0", "count": 9}}  # fmt: skip
        # At this rate the frames would take ten minutes.
        answer = ask(do="trial", **{"from": 0}, frame=64, rate=100, frames=60_000, to=to,
                     changes=[change], **({beside: other} if beside else {}))  # fmt: skip
        assert answer == {"error": "port 0: no room for 9 groups"}
        assert ask(do="trial", **{"from": 0}, frame=64, frames=3, wait_s=0.1, to=to)["sent"] == 3


def test_wrong_commands_are_answered_with_their_fault() -> None:
    with running(["net_ring0"], "--streams=8") as ask:
        to = [{"first": "239.192.0.0"}]
        for command, text in [
            ({"do": "dance"}, "valid: ports, join, leave, trial"),
            ({}, "do"),
            ({"do": "trial", "from": 3, "frame": 64, "frames": 1, "to": to}, "port 3"),
            ({"do": "trial", "from": 0, "frame": 63, "frames": 1, "to": to}, "64 to 1518"),
            ({"do": "trial", "from": 0, "frame": 64, "frames": 1, "to": []}, "no destination"),
            (
                {"do": "trial", "from": 0, "frame": 64, "frames": 1, "rate": -1, "to": to},
                "rate: -1 frames/s; valid: 0 or above",
            ),
            (
                {"do": "trial", "from": 0, "frame": 64, "frames": -1, "to": to},
                "frames: -1; valid: whole numbers from 0",
            ),
            ({"do": "join", "port": 0, "groups": {"first": "10.0.0.1"}}, "not a group"),
            ({"do": "join", "port": 0, "groups": {"first": "239.0.0.0", "count": 9}}, "no room"),
        ]:
            assert text in ask(**command)["error"]
        assert ask(do="trial", **{"from": 0}, frame=64, frames=3, wait_s=0.1, to=to)["sent"] == 3
