"""tiercast-recv: exact counts of what was made on purpose (a capture file, a ring), and real
streams of tiercast-send over a veth, with IGMP on the wire. The veth needs root."""

from __future__ import annotations

import json
import os
import random
import select
import time
import urllib.request
from collections import Counter
from pathlib import Path

import pytest
from scapy.layers.igmp import IGMP
from scapy.layers.inet import ICMP, IP, UDP, IPOption_Router_Alert
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw
from scapy.utils import PcapReader, PcapWriter, checksum
from tiercast_wire import group_address, group_mac

from ...agent.network import (
    EAL,
    HOST_IP,
    HOST_MAC,
    SENDER_IP,
    Link,
    Program,
    fixed_rate,
    run,
)
from ...checkout import BUILD
from ...namespaces import command_in
from ...patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow

RECEIVER = BUILD / "dataplane/receiver/tiercast-recv"
FAR_END = BUILD / "dataplane/sender/bench/libtiercast-far-end.so"
MEMORY = [*EAL[: EAL.index("-m")], "-m", "128", *EAL[EAL.index("-m") + 2 :]]


def rlm(session: int, rank: int, seq: int, ce: bool = False, size: int = 100) -> bytes:
    """A data packet of RLM's, as docs/wire-format.md describes it."""
    message = bytes([1, 1, 8, 0]) + (16).to_bytes(2, "big") + session.to_bytes(2, "big")
    message += bytes([rank, 0, 0, 0]) + (seq % 2**32).to_bytes(4, "big")
    ip = IP(src=SENDER_IP, dst=str(group_address(session, rank)), tos=3 if ce else 2)
    frame = Ether(src="02:00:00:00:00:02", dst=group_mac(group_address(session, rank))) / ip
    return bytes(frame / UDP(sport=5500, dport=5500) / Raw(message.ljust(size, b"\0")))


def found(path: Path) -> dict:
    return json.loads(path.read_text())


def streams(port: dict) -> dict[tuple[int, int], dict]:
    return {(s["session"], s["rank"]): s for s in port["streams"]}


def check_fates(port: dict) -> None:
    frames = dict(port["frames"])
    assert frames.pop("received") == sum(frames[name] for name in frames if name != "bytes")
    assert frames["data"] == sum(s["received"] for s in port["streams"])
    for s in port["streams"]:
        assert s["received"] == s["in_order"] + s["reordered"] + s["duplicates"] + s["stale"]


def write_capture(path: Path, frames: list[bytes]) -> None:
    with PcapWriter(str(path), linktype=1) as writer:
        for frame in frames:
            writer.write(Ether(frame))


def receive_capture(tmp_path: Path, frames: list[bytes], *options: str, outside: str = "") -> dict:
    capture, report = tmp_path / "in.pcap", tmp_path / "found.json"
    write_capture(capture, frames)
    device = f"--vdev=net_pcap0,rx_pcap={capture}{outside}"
    program = Program([str(RECEIVER), device, *MEMORY, "--", f"--json={report}",
                       f"--metrics=127.0.0.1:{PORT}", *options], None)  # fmt: skip
    wait_until(lambda: metric("tiercast_receiver_frames_total") >= len(frames), "all are received")
    program.terminate()
    ended = program.wait()
    assert ended.status == 0, ended.stderr
    assert f"{len(frames)} frames" in ended.stdout
    return found(report)["ports"][0]


PORT = 19000 + random.SystemRandom().randrange(10000)


def metric(name: str, **labels: str) -> float:
    """The sum of a metric's values with these labels; -1 as long as nothing is served."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=2) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return -1
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in lines
        if line.startswith(name + "{") and all(text in line for text in wanted)
    )


def test_losses_duplicates_reorderings_and_marks_made_on_purpose(tmp_path: Path) -> None:
    """Three streams whose arrivals are known; the numbers of the second wrap."""
    sent: list[tuple[int, int, bool]] = []  # session, number, marked
    for seq in range(400):
        if seq % 40 != 7:  # ten are lost
            sent.append((1, seq, seq % 5 == 0))
        if seq % 50 == 3:  # eight come twice
            sent.append((1, seq, False))
        sent.append((2, seq - 200, False))
    # Stream 2 by itself: pairs (18, 19), (38, 39) ... change places.
    second = [i for i, one in enumerate(sent) if one[0] == 2]
    for k in range(19, 400, 20):
        a, b = second[k - 1], second[k]
        sent[a], sent[b] = sent[b], sent[a]
    frames = [rlm(session, 2, seq, ce) for session, seq, ce in sent]
    port = receive_capture(tmp_path, frames, "--any")
    check_fates(port)
    one, two = streams(port)[1, 2], streams(port)[2, 2]
    assert (one["lost"], one["duplicates"], one["reordered"]) == (10, 8, 0)
    assert one["received"] == 398
    assert one["marked"] == sum(ce for session, _, ce in sent if session == 1)
    assert one["loss_ratio"] == 10 / 400
    assert (two["lost"], two["duplicates"], two["reordered"]) == (0, 0, 20)
    assert (two["extent_max"], two["extent_mean"], two["extent_unknown"]) == (1, 1, 0)
    assert two["received"] == 400 and two["restarts"] == 0
    assert one["bytes"] == 398 * (100 + 28)


def test_each_frame_has_one_fate(tmp_path: Path) -> None:
    good = rlm(1, 0, 7)
    broken = bytearray(good)
    broken[60] ^= 1
    control = bytearray(good)
    control[43] = 3
    control[40:42] = b"\0\0"
    other = Ether(dst="01:00:5e:01:02:03") / IP(src=SENDER_IP, dst="239.1.2.3")
    query = b"\x11\x64\0\0\0\0\0\0"
    query = query[:2] + checksum(query).to_bytes(2, "big") + query[4:]
    router = IP(src="10.9.0.1", dst="224.0.0.1", ttl=1, proto=2, options=[IPOption_Router_Alert()])
    frames = [
        good,
        rlm(1, 0, 8),
        rlm(1, 1, 0),  # not joined
        bytes(broken),
        good[:50],
        bytes(control),
        bytes(other / UDP(dport=5500) / Raw(b"x" * 40)),
        bytes(other / UDP(dport=53) / Raw(b"x" * 40)),
        bytes(Ether(src=HOST_MAC, dst="ff:ff:ff:ff:ff:ff") / ARP(pdst=HOST_IP, psrc="10.9.0.1")),
        bytes(Ether(src=HOST_MAC, dst="ff:ff:ff:ff:ff:ff") / ARP(pdst="10.9.0.77")),
        bytes(Ether(dst="00:00:00:00:00:01") / IP(src="10.9.0.1", dst=HOST_IP) / ICMP()),
        bytes(Ether(dst="01:00:5e:00:00:01") / router / Raw(query)),
        bytes(Ether(dst="01:00:5e:00:00:01") / router / Raw(query[:4])),
        bytes(Ether(type=0x86DD) / Raw(b"\x60" + b"\0" * 60)),
    ]
    answers = tmp_path / "out.pcap"
    port = receive_capture(
        tmp_path, frames, f"--address={HOST_IP}", f"--source={SENDER_IP}", "--session=1/0",
        outside=f",tx_pcap={answers}",
    )  # fmt: skip
    check_fates(port)
    frames_found = port["frames"]
    assert frames_found["data"] == 2
    assert frames_found["control"] == 1
    assert frames_found["malformed"] == 4  # two broken, an IGMP cut off, and UDP of no scheme
    assert frames_found["answered"] == 2
    assert frames_found["igmp_query"] == 1
    assert frames_found["foreign"] == 4
    with PcapReader(str(answers)) as reader:
        sent = [Ether(bytes(frame)) for frame in reader]
    replies = [frame for frame in sent if ARP in frame and frame[ARP].op == 2]
    assert [reply[ARP].psrc for reply in replies] == [HOST_IP]


def test_streams_beyond_the_room_are_counted(tmp_path: Path) -> None:
    frames = [rlm(session, 0, seq) for seq in range(3) for session in range(20)]
    port = receive_capture(tmp_path, frames, "--any", "--streams=15")
    check_fates(port)
    assert len(port["streams"]) == 15
    assert port["frames"]["no_room"] == 15


def test_ports_share_lcores_and_a_capture(tmp_path: Path) -> None:
    """Three ports over two receiving threads: each has its own account, the capture has all."""
    devices, sent = [], []
    for port in range(3):
        frames = [rlm(port, 0, seq) for seq in range(200) if seq % (port + 2) != 1]
        write_capture(tmp_path / f"in{port}.pcap", frames)
        devices.append(f"--vdev=net_pcap{port},rx_pcap={tmp_path}/in{port}.pcap")
        sent.append(len(frames))
    report, capture = tmp_path / "found.json", tmp_path / "c.pcap"
    cpus = ",".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0)))
    program = Program([str(RECEIVER), f"--lcores=(0-2)@({cpus})", *devices, *MEMORY, "--", "--any",
                       f"--json={report}", f"--pcap={capture}", f"--metrics=127.0.0.1:{PORT}"],
                      None)  # fmt: skip
    wait_until(lambda: metric("tiercast_receiver_frames_total") >= sum(sent), "all are received")
    program.terminate()
    ended = program.wait()
    assert ended.status == 0, ended.stderr
    for number, port in enumerate(found(report)["ports"]):
        check_fates(port)
        (stream,) = port["streams"]
        assert (stream["session"], stream["received"]) == (number, sent[number])
        missing = [seq for seq in range(200) if seq % (number + 2) == 1]
        last = max(set(range(200)) - set(missing))
        assert stream["lost"] == sum(seq < last for seq in missing)
    with PcapReader(str(capture)) as reader:
        groups = Counter(Ether(bytes(frame))[IP].dst for frame in reader)
    assert groups == {str(group_address(port, 0)): sent[port] for port in range(3)}


@pytest.mark.parametrize(("session", "count"), [(1, 3), (2, 0)])
def test_a_capture_that_cannot_be_written_is_status_1(
    tmp_path: Path, session: int, count: int
) -> None:
    """There is no room for three frames, nor for the header of a file without any."""
    write_capture(tmp_path / "in.pcap", [rlm(1, 0, seq) for seq in range(3)])
    program = Program([str(RECEIVER), f"--vdev=net_pcap0,rx_pcap={tmp_path}/in.pcap", *MEMORY, "--",
                       "--any", "--pcap=/dev/full", f"--pcap-session={session}",
                       f"--metrics=127.0.0.1:{PORT}"], None)  # fmt: skip
    wait_until(lambda: metric("tiercast_receiver_frames_total") >= 3, "all are received")
    program.terminate()
    ended = program.wait()
    assert ended.status == 1
    assert "--pcap: /dev/full: No space left on device" in ended.stderr
    assert f"/dev/full: 0 frames captured, {count} left out" in ended.stdout


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_other_threads_leave_the_receiving_cpu(tmp_path: Path) -> None:
    cpu, *others = sorted(os.sched_getaffinity(0))
    program = Program([str(RECEIVER), "-l", str(cpu), "--vdev=net_null0,no-rx=1", *MEMORY, "--",
                       "--any", f"--pcap={tmp_path}/out.pcap", f"--metrics=127.0.0.1:{PORT}",
                       f"--ready={tmp_path}/ready"], None)  # fmt: skip
    wait_until((tmp_path / "ready").exists, "it receives")
    tasks = list(Path(f"/proc/{program.process.pid}/task").iterdir())
    allowed = Counter(frozenset(os.sched_getaffinity(int(task.name))) for task in tasks)
    program.terminate()
    assert program.wait().status == 0
    assert allowed[frozenset([cpu])] == 1  # the one that receives
    assert allowed[frozenset(others)] > 200  # the main thread, that of the capture, and HTTP's


def test_a_ring_hands_over_what_is_counted(tmp_path: Path) -> None:
    """net_ring at 50,000 frames a second: what the far end handed over is what was counted."""
    frames = [rlm(session, rank, 5) for session in range(40) for rank in range(8)]
    file, far, report = tmp_path / "frames", tmp_path / "far.json", tmp_path / "found.json"
    file.write_bytes(b"".join(len(f).to_bytes(2, "big") + f for f in frames))
    settings = f"ring=1,frames={file},rate=50000,report={far},until=1"
    ended = run(["env", f"LD_PRELOAD={FAR_END}", f"TIERCAST_FAR_END={settings}", str(RECEIVER),
                 *MEMORY, "--", "--any", f"--json={report}", "--duration=2s"])  # fmt: skip
    assert ended.status == 0, ended.stderr
    port = found(report)["ports"][0]
    check_fates(port)
    handed = json.loads(far.read_text())["handed"]
    assert port["frames"]["received"] == sum(handed) > 0
    by_layer = streams(port)
    for (session, rank), count in zip(
        ((s, r) for s in range(40) for r in range(8)), handed, strict=True
    ):
        if count == 0:
            continue
        stream = by_layer[session, rank]
        # One number again and again.
        assert (stream["in_order"], stream["duplicates"]) == (1, count - 1)


def receiver(link: Link, *options: str, ring: str = "") -> tuple[Program, Path]:
    """In namespace R. Returns once it receives. `ring`: more arguments of the device."""
    report, ready = link.directory / "found.json", link.directory / "ready"
    for path in (report, ready):
        path.unlink(missing_ok=True)
    device = f"--vdev=net_af_packet0,iface=r0{ring}"
    own = [f"--address={HOST_IP}", f"--json={report}", f"--ready={ready}", *options]
    program = link._start("R", [str(RECEIVER), device, *MEMORY, "--", *own], report)
    wait_until(ready.exists, "the receiver is ready")
    return program, report


def end(program: Program, report: Path) -> dict:
    program.terminate()
    program.process.communicate(timeout=PATIENCE_S)
    assert program.process.returncode == 0
    return found(report)["ports"][0]


def test_a_real_stream_with_its_pcap_and_a_restart(link: Link) -> None:
    capture = link.directory / "c.pcap"
    program, report = receiver(
        link, f"--source={SENDER_IP}", "--session=1/0-2", f"--pcap={capture}", "--pcap-session=1/1"
    )
    sent: Counter[int] = Counter()
    for _ in range(2):
        sender = link.sender("--layers=3", "--duration=1s")
        ended = sender.wait()
        assert ended.status == 0, ended.stderr
        for rank, layer in ended.layers().items():
            sent[rank] += int(layer["sent_packets"])
    port = end(program, report)
    check_fates(port)
    assert port["missed"] == 0
    by_layer = streams(port)
    for rank in range(3):
        stream = by_layer[1, rank]
        assert stream["in_order"] == stream["received"] == sent[rank] > 0
        assert (stream["lost"], stream["restarts"]) == (0, 1)
        latency = stream["latency_us"]
        assert latency["count"] == sent[rank]
        assert 0 <= latency["min"] <= latency["mean"] <= latency["max"]
        assert sum(count for _, count in stream["latency_bins_ns"]) == sent[rank]
        assert stream["gap_us"]["count"] == sent[rank] - 1
    with PcapReader(str(capture)) as reader:
        groups = Counter(Ether(bytes(frame))[IP].dst for frame in reader)
    assert groups == {str(group_address(1, 1)): sent[1]}


JUMBO_RING = ",framesz=9216,blocksz=36864"


def test_packets_of_9000_bytes(link: Link) -> None:
    """Sender, veth and analyser. Whoever made the interfaces has chosen their MTU."""
    link.set_mtu(9000)
    capture = link.directory / "c.pcap"
    program, report = receiver(
        link, f"--source={SENDER_IP}", "--session=1/0", "--packet-size=9000", f"--pcap={capture}",
        ring=JUMBO_RING,
    )  # fmt: skip
    sender = link.sender(
        *fixed_rate("20Mbit/s", layers=1), "--packet-size=9000", "--duration=1s",
        device=f"net_af_packet0,iface=s0{JUMBO_RING}",
    )  # fmt: skip
    ended = sender.wait()
    assert ended.status == 0, ended.stderr
    port = end(program, report)
    check_fates(port)
    assert port["frames"]["malformed"] == 0
    sent = ended.layers()[0]["sent_packets"]
    stream = streams(port)[1, 0]
    assert stream["in_order"] == stream["received"] == sent > 0
    assert stream["bytes"] == sent * 9000
    with PcapReader(str(capture)) as reader:
        assert {len(bytes(frame)) for frame in reader} == {9014}
    assert link.mtu("S") == link.mtu("R") == 9000


def test_a_packet_size_above_the_mtu_is_refused(link: Link) -> None:
    device = "--vdev=net_af_packet0,iface=r0"
    refused = run(command_in(link.namespaces["R"], RECEIVER, device, *MEMORY, "--", "--any",
                             "--packet-size=2000"))  # fmt: skip
    assert refused.status == 2
    assert "--packet-size: 2000 is above the MTU of r0; valid: up to 1500" in refused.stderr


def igmp_frames(raw, until) -> list[Ether]:  # type: ignore[no-untyped-def]
    """What arrives until a frame for which `until` holds."""
    seen: list[Ether] = []
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if not select.select([raw], [], [], 0.2)[0]:
            continue
        frame = Ether(raw.recv(2048))
        if IP not in frame or frame[IP].proto != 2 or frame[IP].src != HOST_IP:
            continue
        seen.append(frame)
        if until(frame):
            return seen
    raise AssertionError(f"not seen; but: {[frame.summary() for frame in seen]}")


def test_igmp_on_the_wire(link: Link) -> None:
    """Reports of version 3, answers to a query of version 3 and of version 2, and the leaves, as
    Scapy reads them."""
    group = str(group_address(1, 0))
    raw = link.packet_socket("S")
    program, report = receiver(link, f"--source={SENDER_IP}", "--session=1/0")

    def records(frame: Ether) -> list[tuple[int, str, list[str]]]:
        report = IGMP(bytes(frame[IP].payload))
        assert checksum(bytes(frame[IP].payload)) == 0
        return [(r.rtype, r.maddr, list(r.srcaddrs)) for r in report.records]

    def is_v3(kind: int):  # type: ignore[no-untyped-def]
        def match(frame: Ether) -> bool:
            payload = bytes(frame[IP].payload)
            return payload[0] == 0x22 and records(frame) == [(kind, group, [SENDER_IP])]

        return match

    joined = igmp_frames(raw, is_v3(5))[-1]  # ALLOW_NEW_SOURCES
    assert (joined[IP].dst, joined[IP].ttl, joined[IP].tos) == ("224.0.0.22", 1, 0xC0)
    assert joined.dst == "01:00:5e:00:00:16"

    def ask(message: bytes) -> None:
        message = message[:2] + checksum(message).to_bytes(2, "big") + message[4:]
        router = IP(src="10.9.0.1", dst="224.0.0.1", ttl=1, proto=2,
                    options=[IPOption_Router_Alert()])  # fmt: skip
        raw.send(bytes(Ether(dst="01:00:5e:00:00:01") / router / Raw(message)))

    ask(b"\x11\x0a\0\0\0\0\0\0\2\x7d\0\0")  # version 3, within a second
    igmp_frames(raw, is_v3(1))  # MODE_IS_INCLUDE
    ask(b"\x11\x0a\0\0\0\0\0\0")  # version 2
    answer = igmp_frames(raw, lambda frame: bytes(frame[IP].payload)[0] == 0x16)[-1]
    assert answer[IP].dst == answer[IGMP].gaddr == group
    program.terminate()
    left = igmp_frames(raw, lambda frame: bytes(frame[IP].payload)[0] == 0x17)[-1]
    assert (left[IP].dst, left[IGMP].gaddr) == ("224.0.0.2", group)
    port = end(program, report)
    assert port["frames"]["igmp_query"] == 2
    assert port["igmp_sent"] >= 4


def test_faults_are_named(tmp_path: Path) -> None:
    def refused(*arguments: str) -> str:
        ended = run([str(RECEIVER), *arguments])
        assert ended.status == 2, ended.stderr
        assert ended.stdout == ""
        return ended.stderr

    assert "no EAL arguments" in refused("--any")
    null = ("--vdev=net_null0,no-rx=1", *MEMORY)
    assert "there is no CPU 4000" in refused("-l", "0,4000", *null, "--", "--any")
    assert "--session" in refused(*null, "--", "--session=9/9")
    assert "/nonexistent/x" in refused(*null, "--", "--any", "--json=/nonexistent/x")
    assert "/nonexistent/y" in refused(*null, "--", "--any", "--pcap=/nonexistent/y")
    assert "--ready: /nonexistent/z" in refused(*null, "--", "--any", "--ready=/nonexistent/z")
    assert run([str(RECEIVER), "--help"]).stdout.count("tiercast-recv") > 3
