"""tiercast-send with several ports and lcores: which port each packet leaves by, and exact
accounts. The devices are capture files, so nothing depends on the machine's speed."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet
from scapy.utils import PcapReader, PcapWriter
from tiercast_wire import Tiercast, group_address
from tiercast_wire.layers import LAYERS

from ...agent.network import EAL, HOST_IP, HOST_MAC, SENDER, Ended, run

pytestmark = pytest.mark.slow

ADDRESSES = ["10.9.0.2", "10.9.1.2"]
MACS = ["02:00:00:00:00:02", "02:00:00:00:01:02"]
MEMORY = [*EAL[: EAL.index("-m")], "-m", "128", *EAL[EAL.index("-m") + 2 :]]


def rlm(session: int, layers: int = 8, **more: object) -> dict[str, object]:
    """A session whose layers send 250 packets/s each."""
    parameters = {"rlm.base_rate": "200kbit/s", "rlm.step_rate": "200kbit/s", "rlm.growth": "1",
                  "rlm.max_rate": "1Gbit/s"}  # fmt: skip
    return {"session": session, "scheme": "rlm", "layers": layers, "packetSize": 100,
            "parameters": parameters, **more}  # fmt: skip


def frames_of(capture: Path) -> list[Ether]:
    with PcapReader(str(capture)) as reader:
        return [Ether(bytes(frame)) for frame in reader]


def lcores(workers: int) -> str:
    """A main lcore and `workers` more, all of which may run on any CPU."""
    cpus = ",".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0)))
    return f"--lcores=(0-{workers})@({cpus})"


def send(tmp_path: Path, devices: list[str], workers: int, sessions: list, *more: str) -> Ended:
    file, trace = tmp_path / "sessions.json", tmp_path / "t.jsonl"
    file.write_text(json.dumps({"sessions": sessions}))
    trace.unlink(missing_ok=True)
    addresses = ADDRESSES[: len(devices)]
    return run([str(SENDER), lcores(workers), *(f"--vdev={device}" for device in devices), *MEMORY,
                "--", f"--sessions={file}", f"--trace={trace}", "--address", *addresses, *more],
               trace)  # fmt: skip


def test_each_session_leaves_by_its_port_and_is_counted_there(tmp_path: Path) -> None:
    devices = []
    for i, address in enumerate(ADDRESSES):
        with PcapWriter(str(tmp_path / f"in{i}.pcap"), linktype=1) as writer:
            ask = Ether(src=HOST_MAC, dst="ff:ff:ff:ff:ff:ff") / ARP(psrc="10.9.0.1", pdst=address)
            other = ADDRESSES[1 - i]
            wrong = Ether(src=HOST_MAC, dst="ff:ff:ff:ff:ff:ff") / ARP(psrc="10.9.0.1", pdst=other)
            writer.write([ask, wrong])
        # A file for each transmit queue.
        files = [f"tx_pcap={tmp_path}/out{i}{queue}.pcap" for queue in range(2 - i)]
        devices.append(",".join([f"net_pcap{i},rx_pcap={tmp_path}/in{i}.pcap", *files]))
    sessions = [rlm(1, port="net_pcap1"), rlm(2, port="net_pcap0"), rlm(3, port="net_pcap0"),
                rlm(10, count=6)]  # fmt: skip
    ended = send(tmp_path, devices, 3, sessions, "--duration=1s", "--mac", *MACS)
    assert ended.status == 0, ended.stderr
    found: Counter[tuple[int, str]] = Counter()
    for i, mac in enumerate(MACS):
        answered = 0
        for capture in tmp_path.glob(f"out{i}*.pcap"):
            for frame in frames_of(capture):
                assert frame.src == mac
                if ARP in frame:
                    assert (frame[ARP].op, frame[ARP].psrc) == (2, ADDRESSES[i])
                    answered += 1
                    continue
                assert frame[IP].src == ADDRESSES[i]
                found[i, frame[IP].dst] += 1
        assert answered == 1  # not for the other port's address
    layers = ended.of("layer")
    assert len(layers) == 9 * 8
    ports_of: dict[int, set[int]] = {}
    for layer in layers:
        session, rank = int(layer["session"]), int(layer["rank"])
        group = str(group_address(session, rank))
        counts = {port: found[port, group] for port in (0, 1) if found[port, group] > 0}
        assert list(counts.values()) == [layer["sent_packets"]]  # all of it by one port
        ports_of.setdefault(session, set()).update(counts)
    assert (ports_of[1], ports_of[2], ports_of[3]) == ({1}, {0}, {0})
    # 72 layers over three workers, two of which are port 0's: 24 each.
    running = [record for record in ended.of("worker") if record["layers"] > 0]
    last = {record["lcore"]: (record["port"], record["layers"]) for record in running}
    assert last == {1: (0, 24), 2: (1, 24), 3: (0, 24)}
    sent = {int(w["lcore"]): w for w in ended.of("worker")[-3:]}
    for port, workers in ((0, (1, 3)), (1, (2,))):
        by_port = sum(n for (at, _), n in found.items() if at == port)
        assert by_port == sum(sent[lcore]["sent_packets"] for lcore in workers)


def test_each_port_hears_feedback_for_its_own_sessions(tmp_path: Path) -> None:
    """The second port gets the same four messages again and again."""
    source = {"source": 7, "rank": 0}

    def feedback(session: int, destination: str) -> Packet:
        message = Tiercast(session=session, scheme=8, type=2) / LAYERS["RlmAnnouncement"](**source)
        ip = IP(src=HOST_IP, dst=destination)
        return Ether(src=HOST_MAC, dst=MACS[1]) / ip / UDP(sport=4, dport=5501) / message

    own, others = feedback(1, ADDRESSES[1]), feedback(2, ADDRESSES[1])
    with PcapWriter(str(tmp_path / "in.pcap"), linktype=1) as writer:
        writer.write([own, others, feedback(1, ADDRESSES[0]), own])
    devices = [
        "net_null0,no-rx=1",
        f"net_pcap1,rx_pcap={tmp_path}/in.pcap,infinite_rx=1,tx_pcap={tmp_path}/out.pcap",
    ]
    sessions = [rlm(1, port="net_pcap1"), rlm(2, port="net_null0")]
    ended = send(tmp_path, devices, 2, sessions, "--duration=1s", "--mac", *MACS)
    assert ended.status == 0, ended.stderr
    counted = ended.of("feedback")[-1]
    assert counted["accepted"] > 0 and counted["refused"] == counted["malformed"] == 0
    # Half is for the session of this port. Only what comes while it runs is accepted.
    assert counted["foreign"] >= counted["received"] // 2
    assert {record["session"] for record in ended.of("rlm.announcement")} == {1}


def test_sessions_spread_by_their_layers(tmp_path: Path) -> None:
    """Of eight layers and of one in turn: by number alone, one of two workers would have all the
    large ones."""
    sessions = [rlm(1 + i, 8 if i % 2 == 0 else 1) for i in range(8)]
    ended = send(tmp_path, ["net_null0,no-rx=1"], 2, sessions, "--duration=1500ms")
    assert ended.status == 0, ended.stderr
    running = {r["lcore"]: r["layers"] for r in ended.of("worker") if r["layers"] > 0}
    assert running == {1: 18, 2: 18}


@pytest.mark.parametrize(
    ("workers", "port", "addresses", "expected"),
    [
        (1, "", ADDRESSES, ["2 ports need 3 lcores", "give 2", "-l 0-2"]),
        (2, "net_null7", ADDRESSES, ["session 1", "net_null7", "net_null0, net_null1"]),
        (2, "", [*ADDRESSES, "10.9.2.2"], ["--address", "3 values for 2 ports"]),
    ],
)
def test_faults_are_named(
    tmp_path: Path, workers: int, port: str, addresses: list[str], expected: list[str]
) -> None:
    file = tmp_path / "sessions.json"
    file.write_text(json.dumps({"sessions": [rlm(1, port=port)]}))
    ended = run([str(SENDER), lcores(workers), "--vdev=net_null0,no-rx=1",
                 "--vdev=net_null1,no-rx=1", *MEMORY, "--", f"--sessions={file}", "--address",
                 *addresses])  # fmt: skip
    assert ended.status == 2, ended.stderr
    for text in expected:
        assert text in ended.stderr
    assert ended.stdout == ""
