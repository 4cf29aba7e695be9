"""tiercast-send with many sessions: exact counts, bytes, devices that refuse, the link."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.utils import PcapReader
from tiercast_wire import group_address, parse

from ...agent.network import (
    EAL,
    HOST_IP,
    HOST_MAC,
    SENDER,
    SENDER_IP,
    SENDER_MAC,
    Ended,
    Link,
    Program,
    drain,
    ip,
    run,
)
from ...namespaces import command_in
from ...patience import PATIENCE_S, wait_until
from .line import FAR_END

pytestmark = pytest.mark.slow


def rlm(session: int, count: int, packets_per_second: float, **fields: object) -> dict:
    """Sessions whose eight layers each have one fixed rate."""
    size = fields.get("packet_size", 1000)
    rate = f"{packets_per_second * size * 8}"
    rates = {"rlm.base_rate": rate, "rlm.step_rate": rate, "rlm.growth": "1"}
    return {
        "session": session,
        "count": count,
        "scheme": "rlm",
        "layers": 8,
        "parameters": {**rates, "rlm.max_rate": "100e9"},
        **fields,
    }


def arguments(tmp_path: Path, device: str, sessions: list[dict], *options: str) -> list[str]:
    path = tmp_path / "sessions.json"
    path.write_text(json.dumps({"sessions": sessions}))
    own = [f"--address={SENDER_IP}", f"--sessions={path}", f"--trace={tmp_path / 't.jsonl'}"]
    return [str(SENDER), device, *EAL, "--", *own, *options]


def send(tmp_path: Path, device: str, sessions: list[dict], *options: str) -> Ended:
    return run(arguments(tmp_path, device, sessions, *options), tmp_path / "t.jsonl")


def check_counts(ended: Ended) -> list[dict]:
    """Checks generated = sent + dropped for each layer and in all. Returns the records of the
    layers."""
    assert ended.status == 0, ended.stderr
    layers = ended.of("layer")
    for layer in layers:
        assert layer["generated_packets"] == layer["sent_packets"] + layer["dropped_packets"]
    worker = ended.of("worker")[-1]
    for name in ("generated_packets", "sent_packets", "dropped_packets", "sent_bytes"):
        assert worker[name] == sum(layer[name] for layer in layers)
    # Lateness is unknown for a departure that found no buffer.
    assert ended.of("pacer.final")[-1]["count"] <= worker["generated_packets"]
    return layers


@pytest.mark.parametrize("mode", [[], ["--poll"]])
def test_counts_are_exact(tmp_path: Path, mode: list[str]) -> None:
    sessions = [rlm(0, 20, 50), rlm(100, 1, 10, layers=3, packet_size=46)]
    ended = send(tmp_path, "--vdev=net_null0,no-rx=1", sessions, "--duration=1s", *mode)
    layers = check_counts(ended)
    assert len(layers) == 20 * 8 + 3
    worker = ended.of("worker")[-1]
    assert worker["dropped_packets"] == 0
    # The dry run, in virtual time, checks how many these sessions send per second.
    assert worker["sent_packets"] > 0


def test_every_packet_of_a_capture(tmp_path: Path) -> None:
    capture, payload = tmp_path / "out.pcap", tmp_path / "payload"
    payload.write_bytes(b"0123456789" * 7)
    sessions = [rlm(3, 2, 40, packet_size=300), {"session": 9, "layers": 2, "packet_size": 60}]
    options = ["--vlan=100:5", f"--payload={payload}", f"--mac={SENDER_MAC}", "--duration=500ms"]
    ended = send(tmp_path, f"--vdev=net_pcap0,tx_pcap={capture}", sessions, *options)
    layers = check_counts(ended)
    with PcapReader(str(capture)) as reader:
        frames = [bytes(frame) for frame in reader]
    sent: dict[tuple[int, int], list[int]] = {}
    for frame in frames:
        packet = Ether(frame)
        assert (packet.src, packet[Dot1Q].vlan, packet[Dot1Q].prio) == (SENDER_MAC, 100, 5)
        again = Ether(frame)
        del again[IP].chksum, again[UDP].chksum  # so that Scapy computes its own
        assert bytes(again) == frame
        data = parse(bytes(packet[UDP].payload))
        assert packet[IP].dst == str(group_address(data.session, data.rank))
        assert len(packet[IP]) == (60 if data.session == 9 else 300)
        assert packet[IP].tos == (2 if data.session == 9 else 0)  # ECT(0): SIM's, not RLM's
        sent.setdefault((data.session, data.rank), []).append(data.seq)
    for layer in layers:
        seqs = sent[int(layer["session"]), int(layer["rank"])]
        assert len(seqs) == layer["sent_packets"] > 1
        assert [(seq - seqs[0]) % 2**32 for seq in seqs] == list(range(len(seqs)))
    # The payload's stream continues from packet to packet, whichever the session.
    stream = b""
    for frame in frames:
        message = bytes(Ether(frame)[UDP].payload)
        stream += message[32 if parse(message).session == 9 else 16 :]
    assert stream == (b"0123456789" * (len(stream) // 10 + 1))[: len(stream)]


def test_a_device_that_stops_draining_costs_exactly_what_it_refuses(tmp_path: Path) -> None:
    """Nobody empties the ring: it takes as many packets as fit, and refuses the rest."""
    command = arguments(tmp_path, "--log-level=error", [rlm(0, 10, 500)], "--duration=1s")
    far_end = "ring=1,descriptors=512,stall_after=0"
    preloaded = ["env", f"LD_PRELOAD={FAR_END}", f"TIERCAST_FAR_END={far_end}"]
    ended = run([*preloaded, *command], tmp_path / "t.jsonl")
    check_counts(ended)
    worker = ended.of("worker")[-1]
    assert worker["sent_packets"] == 511  # the number that fits into a ring of 512 descriptors
    assert worker["dropped_packets"] > 0
    assert ended.of("feedback")[-1]["accepted"] == 0


def test_faults_of_the_list_are_named(tmp_path: Path) -> None:
    null = "--vdev=net_null0,no-rx=1"
    for sessions, text in [
        ([{"session": 1, "scheme": "udp"}], "unknown scheme 'udp'"),
        ([{"session": 1, "packet_size": 20}], "packet_size = 20"),
        ([{"session": 1}, {"session": 1}], "session 1 is running already"),
    ]:
        ended = send(tmp_path, null, sessions, "--duration=1s")
        assert ended.status == 2
        assert text in ended.stderr
    for option, text in [
        ("--vlan=5000", "--vlan: '5000'"),
        ("--ramp=x", "--ramp"),
        ("--lab=unix:/x", "--lab takes one session; leave out --sessions"),
        ("--payload=/nonexistent", "/nonexistent"),
    ]:
        ended = send(tmp_path, null, [{"session": 1}], "--duration=1s", option)
        assert ended.status == 2
        assert text in ended.stderr


def test_a_dry_run_needs_no_device(tmp_path: Path) -> None:
    prefix = tmp_path / "plan"
    path = tmp_path / "sessions.json"
    path.write_text(json.dumps({"sessions": [rlm(0, 5, 100)]}))
    ended = run(
        [str(SENDER), f"--address={SENDER_IP}", f"--sessions={path}", "--duration=1s",
         f"--dry-run={prefix}"]
    )  # fmt: skip
    assert ended.status == 0, ended.stderr
    plan = json.loads(prefix.with_suffix(".json").read_text())
    assert plan["packets"] == 5 * 8 * 100
    assert {layer["packets"] for layer in plan["layers"]} == {100}
    assert sum(entry["count"] for entry in plan["gaps"]) == 5 * 8 * 99
    # Each gap is 10 ms, so all are in the same bin.
    assert len(plan["gaps"]) == 1
    with PcapReader(str(prefix.with_suffix(".pcap"))) as reader:
        assert sum(1 for _ in reader) == plan["packets"]


def test_link_down_gateway_and_feedback(link: Link, tmp_path: Path) -> None:
    """On a veth: ARP for the next hop, frames dropped while the link is down, exact counts."""
    raw = link.packet_socket("R")
    raw.settimeout(PATIENCE_S)
    command = arguments(
        tmp_path, "--vdev=net_af_packet0,iface=s0", [rlm(0, 2, 50)], f"--gateway={HOST_IP}"
    )
    inside = command_in(link.namespaces["S"], *command)
    trace = tmp_path / "t.jsonl"
    sender = Program(inside, trace)
    link.programs.append(sender)
    try:
        while ARP not in (frame := Ether(raw.recv(2048))) or frame[ARP].op != 1:
            pass
        asked = frame[ARP]
        assert (asked.psrc, asked.pdst, asked.hwsrc) == (SENDER_IP, HOST_IP, SENDER_MAC)
        reply = ARP(op=2, hwsrc=HOST_MAC, psrc=HOST_IP, hwdst=SENDER_MAC, pdst=SENDER_IP)
        raw.send(bytes(Ether(src=HOST_MAC, dst=SENDER_MAC) / reply))
        raw.send(bytes(Ether(src=HOST_MAC, dst=SENDER_MAC) / IP(src=HOST_IP, dst=SENDER_IP)
                       / UDP(sport=1, dport=5501) / b"\x01\x02garbage!"))  # fmt: skip
        wait_until(lambda: links(sender) == [1], "the link is up")
        link.set_up("S", False)
        wait_until(lambda: links(sender) == [1, 0], "the link is seen to be down")
        wait_until(lambda: last(sender, "worker", "dropped_packets") >= 100, "drops")
        link.set_up("S", True)
        wait_until(lambda: links(sender) == [1, 0, 1], "the link is seen to be up")
        wait_until(lambda: last(sender, "feedback", "malformed") >= 1, "what is no feedback")
    finally:
        raw.close()
        sender.terminate()
    ended = sender.wait()
    check_counts(ended)
    assert ended.of("worker")[-1]["dropped_packets"] >= 100
    assert ended.of("feedback")[-1]["malformed"] >= 1


def last(sender: Program, kind: str, field: str) -> float:
    """A field of the last record of this kind. There is one record per second."""
    found = [record[field] for record in sender.records() if record["kind"] == kind]
    return found[-1] if found else 0


def send_or_drop(sender: Program, fate: str, layers: int) -> None:
    """Waits until each of `layers` layers with the same rate has sent (or dropped) two more
    packets."""
    goal = last(sender, "worker", fate) + 3 * layers
    wait_until(lambda: last(sender, "worker", fate) >= goal, f"more {fate}")


def links(sender: Program) -> list[float]:
    """Whether the link was up, at the start and after each change."""
    return [record["up"] for record in sender.records() if record["kind"] == "link"]


def test_what_a_link_that_is_down_refuses_is_dropped(link: Link, tmp_path: Path) -> None:
    """The link goes down twice. Each layer's counts are exact, and everything that was sent
    arrives."""
    member = link.group_socket(str(group_address(3, 0)))
    trace = tmp_path / "t.jsonl"
    command = arguments(
        tmp_path, "--vdev=net_af_packet0,iface=s0", [rlm(3, 4, 100)], "--max-sessions=8"
    )
    sender = Program(command_in(link.namespaces["S"], *command), trace)
    link.programs.append(sender)
    received = 0
    for _ in range(2):
        assert select.select([member], [], [], PATIENCE_S)[0], "no packet"
        link.set_up("S", False)
        send_or_drop(sender, "dropped_packets", 4 * 8)
        received += drain(member)
        link.set_up("S", True)
    assert select.select([member], [], [], PATIENCE_S)[0], "no packet after the interface came up"
    sender.terminate()
    layers = check_counts(sender.wait())
    assert len(layers) == 4 * 8
    assert all(layer["dropped_packets"] > 0 for layer in layers)
    while received < layers[0]["sent_packets"] and select.select([member], [], [], PATIENCE_S)[0]:
        received += drain(member)
    assert received + drain(member) == layers[0]["sent_packets"]


def test_a_driver_says_that_the_link_changed(link: Link, tmp_path: Path) -> None:
    """net_tap has to be polled: it has an interrupt, as NICs do, but does not pass it on."""
    trace = tmp_path / "t.jsonl"
    command = arguments(tmp_path, "--vdev=net_tap0,iface=tap0", [rlm(3, 2, 100)])
    sender = Program(command_in(link.namespaces["S"], *command), trace)
    link.programs.append(sender)
    for state, expected in ((None, [1]), ("down", [1, 0]), ("up", [1, 0, 1])):
        if state:
            ip("-n", link.namespaces["S"], "link", "set", "tap0", state)
        wait_until(lambda: links(sender) == expected, f"link changes {expected}")  # noqa: B023
        send_or_drop(sender, "sent_packets" if expected[-1] else "dropped_packets", 2 * 8)
    sender.terminate()
    layers = check_counts(sender.wait())
    assert all(layer["dropped_packets"] > 0 for layer in layers)
    assert all(layer["sent_packets"] > 0 for layer in layers)


@pytest.mark.skipif(
    shutil.which("dpdk-testpmd") is None or len(os.sched_getaffinity(0)) < 2,
    reason="its peer is dpdk-testpmd, which needs two processors",
)
def test_a_driver_interrupts_when_the_link_changed(tmp_path: Path) -> None:
    """net_vhost interrupts when a peer comes and goes."""
    trace, path = tmp_path / "t.jsonl", tmp_path / "vhost"
    sender = Program(
        arguments(tmp_path, f"--vdev=net_vhost0,iface={path}", [rlm(3, 2, 100)]), trace
    )
    try:
        wait_until(lambda: links(sender) == [0], "the link is down")
        lcores = ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))
        eal = [*EAL, "-l", lcores, f"--vdev=net_virtio_user0,path={path}"]
        eal[eal.index("-m") + 1] = "128"
        peer = subprocess.Popen(
            ["dpdk-testpmd", *eal, "--", "-i", "--total-num-mbufs=2048"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            wait_until(lambda: links(sender) == [0, 1], "a peer has come")
        finally:
            peer.communicate(b"quit\n", timeout=PATIENCE_S)
        wait_until(lambda: links(sender) == [0, 1, 0], "the peer has gone")
        send_or_drop(sender, "dropped_packets", 2 * 8)
    finally:
        sender.terminate()
        ended = sender.wait()
    layers = check_counts(ended)
    assert all(layer["dropped_packets"] > 0 for layer in layers)
