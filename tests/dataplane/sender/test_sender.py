"""tiercast-send on devices without a network (exact counts, bytes of each packet) and on a veth
(spacing, feedback, ARP, the lab's commands). The veth needs root."""

from __future__ import annotations

import os
import random
import select
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw
from scapy.utils import PcapReader
from tiercast.v1 import session_pb2
from tiercast_wire import SimFeedback, SimRecord, Tiercast, group_address, group_mac, parse

from ...agent.lab import Lab
from ...agent.network import (
    HOST_IP,
    HOST_MAC,
    SENDER_IP,
    SENDER_MAC,
    SESSION,
    Ended,
    Link,
    drain,
    fixed_rate,
    run,
    sender_arguments,
)
from ...patience import PATIENCE_S, wait_until
from .test_stress import ASKED, QUERIES

pytestmark = pytest.mark.slow

LAYERS = 5


def test_counts_are_exact_on_net_null(tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    options = [*fixed_rate("800kbit/s"), "--duration=2s"]
    ended = run(sender_arguments("--vdev=net_null0", trace, *options), trace)
    assert ended.status == 0, ended.stderr
    layers = ended.layers()
    assert sorted(layers) == list(range(LAYERS))
    for layer in layers.values():
        assert layer["generated_packets"] == layer["sent_packets"] + layer["dropped_packets"]
        assert layer["dropped_packets"] == 0
        assert layer["sent_bytes"] == layer["sent_packets"] * 1000
        assert layer["rate_Bps"] == 1e5
    final = ended.of("pacer.final")[-1]
    for rank in range(LAYERS):
        check_rate(ended, rank, 100)
    assert final["count"] == sum(layer["sent_packets"] for layer in layers.values())
    assert final["count"] == sum(record["count"] for record in ended.of("pacer"))


def test_a_flood_leaves_the_main_thread_its_turn(tmp_path: Path) -> None:
    """net_null always has something to receive, so the worker never sleeps; both share a CPU."""
    trace = tmp_path / "t.jsonl"
    arguments = sender_arguments(
        "--vdev=net_null0", trace, *fixed_rate("800kbit/s"), "--duration=1s"
    )
    cpu = min(os.sched_getaffinity(0))
    ended = run(["taskset", "--cpu-list", str(cpu), *arguments], trace)
    assert ended.status == 0, ended.stderr
    assert sorted(ended.layers()) == list(range(LAYERS))


def test_jumbo_packets_need_no_kernel_interface(tmp_path: Path) -> None:
    capture, trace = tmp_path / "out.pcap", tmp_path / "t.jsonl"
    options = [*fixed_rate("9Mbit/s", layers=1), "--duration=500ms", "--packet-size=9000"]
    ended = run(sender_arguments(f"--vdev=net_pcap0,tx_pcap={capture}", trace, *options), trace)
    assert ended.status == 0, ended.stderr
    with PcapReader(str(capture)) as reader:
        frames = [bytes(frame) for frame in reader]
    assert len(frames) == ended.layers()[0]["sent_packets"] > 1
    assert {len(frame) for frame in frames} == {9014}


def test_packets_above_the_interfaces_mtu_are_refused(link: Link) -> None:
    """Whoever made the interface has chosen its MTU: it stays as it is."""

    def refusal(size: int, arguments: str = "") -> str:
        device = f"net_af_packet0,iface=s0{arguments}"
        ended = link.sender(f"--packet-size={size}", device=device).wait()
        assert ended.status == 2 and ended.stdout == ""
        return ended.stderr

    assert "--packet-size: 1501 is above the MTU of s0; valid: up to 1500" in refusal(1501)
    link.set_mtu(4000)
    large = ",framesz=16384,blocksz=16384"
    assert "--packet-size: 4001 is above the MTU of s0; valid: up to 4000" in refusal(4001, large)
    assert "framesz=2048; valid: framesz=4080 or more" in refusal(4000)
    uneven = "blocksz: 12288 is not filled by frames of framesz=5120"
    assert uneven in refusal(4000, ",framesz=5120,blocksz=12288")
    assert "framesz: 65536; valid: up to 65424" in refusal(4000, ",framesz=65536,blocksz=65536")
    assert link.mtu("S") == 4000


def check_rate(ended: Ended, rank: int, per_second: float) -> None:
    """Checks a layer's records, each with the program's own time. There are never more packets than
    the rate allows, however late they were. If none was late by an interval or more, which a
    sleeping pacer leaves out (PROTOCOLS 0.4), there are also no fewer."""
    records = [record for record in ended.of("layer") if record["rank"] == rank]
    times = [record["time_ns"] / 1e9 for record in records]
    sent = [record["sent_packets"] for record in records]
    assert len(records) > 3 and sent[-1] > sent[0]
    # A record has the time at which it is begun, and counts what was sent until it is written.
    assert sent[-2] - sent[0] <= per_second * (times[-1] - times[0]) + 2
    if ended.of("pacer.final")[-1]["late_max_us"] < 1e6 / per_second:
        assert sent[-1] - sent[0] >= per_second * (times[-2] - times[1]) - 2


def test_every_byte_of_a_packet(tmp_path: Path) -> None:
    capture, trace = tmp_path / "out.pcap", tmp_path / "t.jsonl"
    options = [*fixed_rate("1Mbit/s", layers=3), "--duration=500ms", f"--mac={SENDER_MAC}"]
    options += ["--packet-size=700"]
    ended = run(sender_arguments(f"--vdev=net_pcap0,tx_pcap={capture}", trace, *options), trace)
    assert ended.status == 0, ended.stderr
    with PcapReader(str(capture)) as reader:
        frames = [bytes(frame) for frame in reader]
    counts = [0, 0, 0]
    first_seq: dict[int, int] = {}
    for number, frame in enumerate(frames):
        assert len(frame) == 714
        packet = Ether(frame)
        message = frame[42:]
        data = parse(message)
        assert packet.src == SENDER_MAC
        assert packet.dst == group_mac(group_address(SESSION, data.rank))
        ip = packet[IP]
        assert (ip.version, ip.ihl, ip.tos, ip.ttl, ip.flags) == (4, 5, 2, 64, "DF")
        assert (ip.src, ip.dst) == (SENDER_IP, str(group_address(SESSION, data.rank)))
        assert ip.id == number
        assert (packet[UDP].sport, packet[UDP].dport) == (5500, 5500)
        # Scapy's own checksums, computed again.
        again = Ether(frame)
        del again[IP].chksum, again[UDP].chksum
        assert bytes(again) == frame
        first = first_seq.setdefault(data.rank, data.seq)
        assert data.seq == (first + counts[data.rank]) % 2**32
        counts[data.rank] += 1
        assert message[32:] == bytes(i % 256 for i in range(32, 672))
    assert {r: layer["sent_packets"] for r, layer in ended.layers().items()} == {
        rank: count for rank, count in enumerate(counts)
    }
    assert min(counts) > 1


@pytest.mark.parametrize("ecn", [0, 1])
def test_packets_are_ecn_capable_if_marks_are_heeded(tmp_path: Path, ecn: int) -> None:
    capture, trace = tmp_path / "out.pcap", tmp_path / "t.jsonl"
    options = ["--scheme=rlm", f"--set=rlm.ecn={ecn}", "--duration=300ms"]
    ended = run(sender_arguments(f"--vdev=net_pcap0,tx_pcap={capture}", trace, *options), trace)
    assert ended.status == 0, ended.stderr
    with PcapReader(str(capture)) as reader:
        assert {frame[IP].tos for frame in reader} == {2 if ecn else 0}


def test_what_leaves_arrives_at_its_rate(link: Link) -> None:
    """750 packets per second on a veth. `make bench-sender` measures how late they are and what
    they cost."""
    members = [link.group_socket(str(group_address(SESSION, rank))) for rank in range(LAYERS)]
    sender = link.sender(*fixed_rate("1.2Mbit/s"))
    wait_until(lambda: len(sender.records()) > 15 * LAYERS, "three seconds of records")
    sender.terminate()
    ended = sender.wait()
    assert ended.status == 0, ended.stderr
    arrived = [0] * LAYERS
    for rank, member in enumerate(members):
        sent = ended.layers()[rank]["sent_packets"]
        while arrived[rank] < sent and select.select([member], [], [], PATIENCE_S)[0]:
            arrived[rank] += drain(member)
        assert arrived[rank] + drain(member) == sent
        check_rate(ended, rank, 150)
    final = ended.of("pacer.final")[-1]
    assert final["count"] == sum(arrived)
    assert final["late_p50_us"] <= final["late_p99_us"] <= final["late_max_us"]
    assert final["dropped"] == 0


def test_answers_arp_and_echo(link: Link) -> None:
    sender = link.sender(*fixed_rate("100kbit/s"))
    wait_until(lambda: bool(sender.records()), "sender runs")
    raw = link.packet_socket("R")

    def ask(request: Ether) -> Ether:
        raw.settimeout(PATIENCE_S)
        raw.send(bytes(request))
        while True:
            frame = Ether(raw.recv(2048))
            if frame.dst == HOST_MAC and frame.src == SENDER_MAC:
                return frame

    who_has = ARP(op=1, hwsrc=HOST_MAC, psrc=HOST_IP, pdst=SENDER_IP)
    answer = ask(Ether(src=HOST_MAC, dst="ff:ff:ff:ff:ff:ff") / who_has)
    assert (answer[ARP].op, answer[ARP].hwsrc, answer[ARP].psrc) == (2, SENDER_MAC, SENDER_IP)
    ping = IP(src=HOST_IP, dst=SENDER_IP) / ICMP(id=7, seq=1) / b"payload"
    answer = ask(Ether(src=HOST_MAC, dst=SENDER_MAC) / ping)
    assert (answer[ICMP].type, answer[ICMP].id, answer[Raw].load) == (0, 7, b"payload")
    sender.terminate()
    assert sender.wait().status == 0


@pytest.mark.parametrize("runtime", [[], ["--max-sessions=2"]])
def test_answers_no_igmp_query(link: Link, runtime: list[str]) -> None:
    """It is a member of no group but 224.0.0.1, and for that one no IGMP message is sent."""
    sender = link.sender(*fixed_rate("100kbit/s"), *runtime)
    wait_until(lambda: bool(sender.records()), "sender runs")
    raw = link.packet_socket("R")
    for query in QUERIES:
        raw.send(query)
    # An answer to a later frame shows that it has seen the queries. The longest time that a query
    # gives a member to answer is 100 ms.
    time.sleep(0.3)
    raw.send(ASKED[0])
    seen: list[Ether] = []
    raw.settimeout(PATIENCE_S)
    while not any(ARP in frame for frame in seen):
        frame = Ether(raw.recv(2048))
        seen += [frame] if frame.src == SENDER_MAC else []
    assert not [frame for frame in seen if IP in frame and frame[IP].proto == 2]
    sender.terminate()
    counted = sender.wait().of("feedback")[-1]
    assert counted["igmp_query" if runtime else "foreign"] == len(QUERIES)
    assert counted["malformed"] == 0


def test_what_an_interface_that_is_down_refuses_is_dropped(link: Link) -> None:
    member = link.group_socket(str(group_address(SESSION, 0)))
    sender = link.sender(*fixed_rate("800kbit/s", layers=1))

    def dropped() -> list[float]:
        return [r["dropped_packets"] for r in sender.records() if r["kind"] == "layer"]

    assert select.select([member], [], [], PATIENCE_S)[0], "no packet"
    link.set_up("S", False)
    wait_until(lambda: any(count >= 20 for count in dropped()), "drops")
    received = drain(member)
    link.set_up("S", True)  # the kernel may take another second to report that the carrier is back
    assert select.select([member], [], [], PATIENCE_S)[0], "no packet after the interface came up"
    records = len(dropped())
    wait_until(lambda: len(dropped()) > records + 3, "it goes on")
    assert len(set(dropped()[records + 1 :])) == 1, "nothing is dropped any more"
    sender.terminate()
    ended = sender.wait()
    assert ended.status == 0, ended.stderr
    layer = ended.layers()[0]
    assert layer["generated_packets"] == layer["sent_packets"] + layer["dropped_packets"]
    while received < layer["sent_packets"] and select.select([member], [], [], PATIENCE_S)[0]:
        received += drain(member)
    assert received + drain(member) == layer["sent_packets"]


def feedback(source: int = 15, **fields: int) -> Tiercast:
    record = SimRecord(rank=0, min_cum_rate=1000, max_cum_rate=1000)
    return Tiercast(session=SESSION) / SimFeedback(source=source, records=[record], **fields)


def frame(message: bytes | Tiercast, *, dst: str = SENDER_IP, dport: int = 5501) -> Ether:
    ip = IP(src=HOST_IP, dst=dst)
    return Ether(src=HOST_MAC, dst=SENDER_MAC) / ip / UDP(sport=40000, dport=dport) / message


def forged() -> tuple[list[bytes], list[bytes]]:
    """Frames that are (malformed, foreign)."""
    good = bytes(frame(feedback()))
    message = good[42:]
    ip_checksum, udp_checksum = bytearray(good), bytearray(good)
    ip_checksum[24] ^= 1
    udp_checksum[40] ^= 1
    malformed = [
        bytes(ip_checksum),
        bytes(udp_checksum),
        good[:60],
        bytes(frame(b"")),
        bytes(frame(message[:5])),
        bytes(frame(b"\x02" + message[1:])),  # version 2
        bytes(frame(message[:1] + b"\x09" + message[2:])),  # unknown type
        bytes(frame(random.Random(1).randbytes(200))),
    ]
    foreign = [
        bytes(frame(feedback(), dst="10.9.0.3")),
        bytes(frame(feedback(), dport=5500)),
        bytes(frame(message[:6] + (SESSION + 1).to_bytes(2, "big") + message[8:])),
        bytes(frame(message[:2] + b"\x02" + message[3:])),  # another scheme
        bytes(Ether(src=HOST_MAC, dst=SENDER_MAC, type=0x86DD) / bytes(60)),
    ]
    return malformed, foreign


def test_forged_feedback_is_counted_and_ignored(link: Link) -> None:
    sender = link.sender(*fixed_rate("500kbit/s"))
    wait_until(lambda: bool(sender.records()), "sender runs")
    raw = link.packet_socket("R")
    malformed, foreign = forged()
    for bad in [*malformed, *foreign] * 20:
        raw.send(bad)
    # Refused by the core: a request number that was never sent, and (behind a valid common header)
    # fewer records than announced.
    raw.send(bytes(frame(feedback(fb_req=0))))
    raw.send(bytes(frame(bytes(feedback())[:-24])))

    def counted(kind: str, field: str) -> bool:
        return any(r["kind"] == kind and r[field] for r in sender.records())

    wait_until(lambda: counted("feedback", "refused"), "feedback is counted")
    wait_until(lambda: counted("feedback.refused", "implausible"), "feedback is counted")
    sender.terminate()
    ended = sender.wait()
    assert ended.status == 0, ended.stderr
    last = ended.of("feedback")[-1]
    assert last["malformed"] == 20 * len(malformed)
    assert last["foreign"] >= 20 * len(foreign)  # includes the kernel's IGMP
    assert (last["accepted"], last["refused"]) == (0, 1)
    assert ended.of("feedback.refused")[-1]["implausible"] == 1
    assert ended.of("pacer.final")[-1]["dropped"] == 0


# Member 15 is this host, and 16 another one.
MEMBERS = {15: HOST_IP, 16: "10.9.0.16"}


def test_feedback_is_accepted_from_the_member_that_it_names(link: Link) -> None:
    options = [f"--member={number}={address}" for number, address in MEMBERS.items()]
    sender = link.sender(*fixed_rate("500kbit/s"), *options)
    wait_until(lambda: bool(sender.records()), "sender runs")
    raw = link.packet_socket("R")
    for source in (16, 16, 17, 15):  # the last one reaches the core, which has asked nothing yet
        raw.send(bytes(frame(feedback(source, fb_req=0))))
    wait_until(lambda: any(r.get("implausible") for r in sender.records()), "feedback is counted")
    sender.terminate()
    ended = sender.wait()
    assert ended.status == 0, ended.stderr
    last, refused = ended.of("feedback")[-1], ended.of("feedback.refused")[-1]
    assert (last["accepted"], last["refused"]) == (0, 0)
    counted = [refused[name] for name in ("impersonated", "non_member", "implausible")]
    assert counted == [2, 1, 1]


@pytest.fixture
def lab() -> Iterator[Lab]:
    with tempfile.TemporaryDirectory(prefix="tiercast-") as directory:
        lab = Lab(Path(directory))
        yield lab
        lab.close()


@pytest.mark.parametrize("mode", [[], ["--poll"]])
def test_membership_from_the_lab_starts_and_stops_layers(
    link: Link, lab: Lab, mode: list[str]
) -> None:
    own = [f"--lab={lab.address}", "--name=h0", "--id=3", *mode]
    sender = link.sender(*fixed_rate("1Mbit/s"), *own)
    hello = lab.hellos.get(timeout=PATIENCE_S)
    assert (hello.role, hello.name, hello.scheme) == (1, "h0", "sim")
    assert (hello.session, hello.id, hello.version) == (SESSION, 3, 2)
    time.sleep(0.3)
    assert not lab.records  # nothing happens before Start
    lab.start("h0")
    wait_until(lambda: lab.last("layer", rank=0) != {}, "records after Start")
    assert lab.last("layer", rank=0)["sent_packets"] == 0  # nobody subscribes

    def running() -> list[int]:
        return [r for r in range(LAYERS) if lab.last("layer", rank=r)["rate_Bps"] > 0]

    for top, layers in ((1, [0, 1]), (3, [0, 1, 2, 3]), (0, [0]), (-1, [])):
        lab.membership("h0", SESSION, top)
        wait_until(lambda expected=layers: running() == expected, f"top {top}")
    sent = lab.last("layer", rank=0)["sent_packets"]
    assert sent > 0
    assert lab.last("layer", rank=4)["sent_packets"] == 0
    lab.stop("h0")
    ended = sender.wait()
    assert ended.status == 0, ended.stderr
    assert lab.detached.get(timeout=PATIENCE_S) == "h0"
    assert lab.last("pacer.final")["count"] == sum(
        lab.last("layer", rank=r)["sent_packets"] for r in range(LAYERS)
    )


def test_the_lab_names_the_members(link: Link, lab: Lab) -> None:
    sender = link.sender(*fixed_rate("1Mbit/s"), f"--lab={lab.address}", "--name=h0")
    lab.hellos.get(timeout=PATIENCE_S)
    members = [session_pb2.Member(id=i, address=address) for i, address in MEMBERS.items()]
    lab.start("h0", members=members)
    wait_until(lambda: lab.last("layer", rank=0) != {}, "records after Start")
    raw = link.packet_socket("R")
    for source in (15, 16, 17, 17):
        raw.send(bytes(frame(feedback(source, fb_req=0))))
    counts = {"non_member": 2, "impersonated": 1, "implausible": 1}
    wait_until(lambda: lab.last("feedback.refused", **counts) != {}, "refusals")
    assert lab.last("feedback")["accepted"] == 0
    lab.stop("h0")
    assert sender.wait().status == 0


def test_a_lost_lab_ends_it_with_status_1(link: Link, lab: Lab) -> None:
    sender = link.sender(f"--lab={lab.address}", "--name=h0")
    lab.hellos.get(timeout=PATIENCE_S)
    lab.start("h0")
    lab.close()
    ended = sender.wait()
    assert ended.status == 1
    assert "lost the lab" in ended.stderr and lab.address in ended.stderr


def test_sigterm_ends_it_with_all_records(link: Link) -> None:
    sender = link.sender(*fixed_rate("1Mbit/s"))
    wait_until(lambda: bool(sender.records()), "sender runs")
    sender.terminate()
    ended = sender.wait()
    assert ended.status == 0, ended.stderr
    assert len(ended.of("pacer.final")) == 1


NULL = "--vdev=net_null0"


@pytest.mark.parametrize(
    ("device", "options", "expected"),
    [
        ("--vdev=net_af_packet0,iface=nosuch0", [], ["nosuch0", "net_af_packet0,iface=NAME", "lo"]),
        ("--vdev=net_bogus0", [], ["net_bogus0", "net_af_packet"]),
        ("--bogus", [], ["--bogus"]),
        ("--log-level=warning", [], ["give 0 usable devices"]),
        (NULL, ["--scheme=sym"], ["--scheme", "sym", "sim"]),
        (NULL, ["--set=sim.dleta=1"], ["--set", "sim.dleta", "sim.delta"]),
        (NULL, ["--layers=9"], ["--layers", "9", "1 to 8"]),
        (NULL, ["--packet-size=9001"], ["--packet-size", "9001", "46 to 9000"]),
        (NULL, ["--mac=xx"], ["--mac", "xx"]),
        (NULL, ["--address=239.192.0.8"], ["--address"]),
        (NULL, ["--trace=/nonexistent/t"], ["--trace", "/nonexistent/t"]),
    ],
)
def test_wrong_arguments(device: str, options: list[str], expected: list[str]) -> None:
    arguments = [argument for argument in sender_arguments(device, "-") if argument != "--trace=-"]
    if any(option.startswith("--address") for option in options):
        arguments = [argument for argument in arguments if not argument.startswith("--address")]
    ended = run([*arguments, *options])
    assert ended.status == 2, ended.stderr
    for text in expected:
        assert text in ended.stderr
    assert ended.stdout == ""


def test_help_and_version_need_no_device() -> None:
    program = sender_arguments(NULL, "-")[0]
    assert run([program, "--version"]).stdout.startswith("tiercast-send ")
    help_text = run([program, "--help"])
    assert help_text.status == 0
    assert "Examples:" in help_text.stdout
