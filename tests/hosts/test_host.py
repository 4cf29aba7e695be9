"""tiercast-host recv in a namespace (IGMP joins, CE marks, counts, feedback), and a whole session
with tiercast-send at the other end of a veth. Needs root."""

from __future__ import annotations

import json
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Ether
from tiercast_lab.cli.sessions import app
from tiercast_wire import SimData, SimFeedback, Tiercast, group_address, group_mac, parse
from typer.testing import CliRunner

from ..agent.lab import Lab
from ..agent.network import (
    HOST,
    HOST_IP,
    HOST_MAC,
    SENDER_IP,
    SENDER_MAC,
    SESSION,
    Link,
    Program,
    fixed_rate,
    run,
)
from ..namespaces import ip
from ..patience import PATIENCE_S, wait_until

CE, ECT0 = 3, 2


def group(rank: int) -> str:
    return str(group_address(SESSION, rank))


def data_frame(seq: int, *, rank: int = 0, tos: int = ECT0, src: str = SENDER_IP,
               fb_req: int = 1, payload: int = 940, to: str = "",
               to_mac: str = "") -> bytes:  # fmt: skip
    message = Tiercast(session=SESSION) / SimData(rank=rank, seq=seq, fb_req=fb_req)
    ether = Ether(src=SENDER_MAC, dst=to_mac or group_mac(group_address(SESSION, rank)))
    header = IP(src=src, dst=to or group(rank), tos=tos)
    return bytes(ether / header / UDP(sport=5500, dport=5500) / message / bytes(payload))


def test_marks_losses_and_strangers_are_counted(link: Link) -> None:
    host = link.host(15)
    wait_until(lambda: group(0) in link.joined_groups(), "IGMP membership")
    raw = link.packet_socket("S")
    for seq in range(20):
        if seq in (5, 6):  # lost
            continue
        raw.send(data_frame(seq, tos=CE if seq % 4 == 0 else ECT0))
    raw.send(data_frame(100, src="10.9.0.77"))  # not from the session's sender
    raw.send(data_frame(100, rank=3))  # not joined, so the kernel keeps it
    raw.send(data_frame(20)[:-1] + b"\x01")  # UDP checksum: the kernel drops it
    bad = bytearray(data_frame(20))
    bad[42], bad[40], bad[41] = 9, 0, 0  # version 9, without a UDP checksum
    raw.send(bytes(bad))

    def socket() -> dict:
        records = [r for r in host.records() if r["kind"] == "socket"]
        return records[-1] if records else {}

    wait_until(lambda: socket().get("invalid") == 1, "the last packet is counted")
    # The kernel notices a wrong checksum when the packet is read, and counts it as a drop of the
    # socket, which it reports with the next packet that is queued.
    raw.send(data_frame(20))
    wait_until(lambda: socket().get("dropped") == 1, "the drop is told")
    host.terminate()
    ended = host.wait()
    assert ended.status == 0, ended.stderr
    received = ended.of("received")[-1]
    assert received["packets"] == 19
    assert received["bytes"] == 19 * 1000
    assert received["marked"] == 5
    assert received["lost"] == 2
    last = ended.of("socket")[-1]
    assert (last["foreign"], last["invalid"], last["dropped"]) == (1, 1, 1)


def test_feedback_goes_to_the_sender_and_answers_the_request(link: Link) -> None:
    raw = link.packet_socket("S")
    host = link.host(15)
    wait_until(lambda: group(0) in link.joined_groups(), "IGMP membership")
    deadline = time.monotonic() + PATIENCE_S
    seq, answers = 0, []
    while not answers:
        assert time.monotonic() < deadline, "no feedback"
        raw.send(data_frame(seq, fb_req=77))
        seq += 1
        try:
            while True:
                frame = Ether(raw.recv(2048))
                if ARP in frame and frame[ARP].pdst == SENDER_IP and frame[ARP].op == 1:
                    reply = ARP(
                        op=2, hwsrc=SENDER_MAC, psrc=SENDER_IP, hwdst=HOST_MAC, pdst=HOST_IP
                    )
                    raw.send(bytes(Ether(src=SENDER_MAC, dst=HOST_MAC) / reply))
                elif UDP in frame and frame[UDP].dport == 5501:
                    answers.append(frame)
        except TimeoutError:
            pass
    answer = answers[0]
    assert (answer[IP].src, answer[IP].dst) == (HOST_IP, SENDER_IP)
    checked = Ether(bytes(answer))
    del checked[UDP].chksum
    assert bytes(checked) == bytes(answer)  # no checksum is left to an offload
    message = parse(bytes(answer)[42 : 14 + answer[IP].len])
    assert isinstance(message[SimFeedback], SimFeedback)
    assert (message[SimFeedback].source, message[SimFeedback].fb_req) == (15, 77)
    host.terminate()
    assert host.wait().status == 0


def test_a_session_of_two_receivers(link: Link) -> None:
    """Receivers add one layer after the other, here by RLM's timers, and lose nothing."""
    settings = {"base_rate": "400kbit/s", "step_rate": "400kbit/s", "growth": 1,
                "join_init": "0.2s", "detect_init": "0.1s", "detect_var_init": "0s"}  # fmt: skip
    options = [
        "--scheme=rlm",
        "--layers=3",
        *(f"--set=rlm.{name}={x}" for name, x in settings.items()),
    ]
    hosts = [link.host(number, *options) for number in (15, 16)]
    for host in hosts:
        wait_until(lambda: count(host, "subscription") > 0, "IGMP membership")  # noqa: B023
    sender = link.sender(*options)
    for host in hosts:
        wait_until(lambda: count(host, "join") == 3, "three layers are joined")  # noqa: B023
    sender.terminate()
    sent = sender.wait()
    assert link.joined_groups() == {group(rank) for rank in range(3)}
    ended = []
    for host in hosts:
        take_all(host, sent.layers()[0]["sent_packets"])
        host.terminate()
        ended.append(host.wait())
    assert sent.status == 0, sent.stderr
    feedback = sent.of("feedback")[-1]
    assert feedback["accepted"] > 0  # announcements of their experiments
    assert (feedback["malformed"], feedback["refused"]) == (0, 0)
    layers = sent.layers()
    for end in ended:
        assert end.status == 0, end.stderr
        received = end.of("received")[-1]
        assert received["lost"] == 0
        assert received["marked"] == 0
        assert received["packets"] <= sum(layer["sent_packets"] for layer in layers.values())
        assert received["packets"] >= layers[0]["sent_packets"]
        joins = end.of("join")
        assert [join["rank"] for join in joins] == [0, 1, 2]
        # How long a join takes is checked on runs that can be trusted (join_latency_p99), and in
        # virtual time.
        assert all(join["latency_us"] > 0 for join in joins)
        assert [record["top"] for record in end.of("subscription")] == [0, 1, 2, -1]
        assert end.of("socket")[-1]["dropped"] == 0
    assert link.joined_groups() == set()


def test_keys_from_files_seal_a_session_without_a_lab(link: Link, tmp_path: Path) -> None:
    """Host 16 has host 15's keys, so what it says is refused."""
    secret = tmp_path / "run.secret"

    def keys(name: str, *options: str) -> str:
        made = tmp_path / name
        arguments = ["keys", str(secret), str(SESSION), str(made), *options]
        done = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert done.exit_code == 0 and made.stat().st_mode & 0o777 == 0o600
        return f"--keys={made}"

    own = keys("h15.keys", "--receiver=15")
    hosts = [link.host(number, own) for number in (15, 16)]
    for host in hosts:
        wait_until(lambda: count(host, "subscription") > 0, "IGMP membership")  # noqa: B023
    sender = link.sender(keys("sender.keys"))

    def most(kind: str, field: str) -> float:
        return max((one[field] for one in sender.records() if one["kind"] == kind), default=0)

    wait_until(lambda: most("feedback", "accepted") > 5, "host 15 is heard")
    wait_until(lambda: most("seal.refused", "forged") > 5, "host 16 is refused")
    for program in (*hosts, sender):
        program.terminate()
        assert program.wait().status == 0

    (tmp_path / "h15.keys").chmod(0o644)
    refused = run([str(HOST), "recv", "--interface=lo", f"--source={SENDER_IP}", own])
    assert refused.status == 2
    assert "h15.keys: others may use it, and it has keys (mode 644); valid: 600" in refused.stderr
    (tmp_path / "h15.keys").chmod(0o600)
    (tmp_path / "h15.keys").write_text("{}")
    refused = run([str(HOST), "recv", "--interface=lo", f"--source={SENDER_IP}", own])
    assert refused.status == 2 and "h15.keys: no keys in it; valid: a file of" in refused.stderr


def test_it_joins_at_start_and_leaves_at_stop(link: Link, lab: Lab) -> None:
    host = link.host(15, f"--lab={lab.address}")
    hello = lab.hellos.get(timeout=PATIENCE_S)
    assert (hello.role, hello.name, hello.id, hello.session) == (2, "h15", 15, SESSION)
    time.sleep(0.3)
    assert link.joined_groups() == set()
    lab.start("h15")
    wait_until(lambda: link.joined_groups() == {group(0)}, "join at Start")
    wait_until(lambda: lab.last("received") != {}, "records")
    lab.stop("h15")
    assert host.wait().status == 0
    assert lab.detached.get(timeout=PATIENCE_S) == "h15"
    assert lab.last("subscription", top=-1) != {}
    assert link.joined_groups() == set()


def test_it_leaves_and_comes_back_and_its_counts_go_on(link: Link, lab: Lab) -> None:
    host = link.host(15, f"--lab={lab.address}")
    lab.hellos.get(timeout=PATIENCE_S)
    raw = link.packet_socket("S")

    def last_of(kind: str, what: str) -> float:
        return lab.last(kind).get(what, 0)

    lab.welcome("h15")
    lab.leave("h15")  # the run begins without it
    wait_until(lambda: lab.last("pause") != {}, "an absent host reports that it runs")
    assert lab.last("received") == {}
    for turn in (1, 2):
        lab.start("h15")
        wait_until(lambda: link.joined_groups() == {group(0)}, "join at Start")
        for seq in range(5):
            raw.send(data_frame(1000 * turn + seq))
        wait_until(lambda: last_of("received", "packets") == 5 * turn, "packets of this turn")  # noqa: B023
        lab.leave("h15")
        wait_until(lambda: link.joined_groups() == set(), "all groups are left")
        raw.send(data_frame(1000 * turn + 10))  # nobody wants it
    seen = len(lab.records)
    wait_until(lambda: len(lab.records) > seen, "records while it is absent")
    assert {kind for _, kind, _ in lab.records[seen:]} == {"pause"}
    assert last_of("received", "packets") == 10
    assert last_of("received", "lost") == 0  # a new member knows nothing of the packets in between
    lab.stop("h15")
    assert host.wait().status == 0


def test_two_hosts_each_get_what_their_sender_sends_to_them_alone(link: Link) -> None:
    other = "10.9.0.77"
    hosts = {SENDER_IP: link.host(15), other: link.host(16, source=other)}
    wait_until(
        lambda: all(count(host, "subscription") for host in hosts.values()), "both have started"
    )
    raw = link.packet_socket("S")
    for seq in range(6):
        for number, source in enumerate(hosts):
            if seq < 3 + number:
                raw.send(data_frame(seq, src=source, to=HOST_IP, to_mac=HOST_MAC))
    for number, host in enumerate(hosts.values()):
        take_all(host, 3 + number)
        host.terminate()
        ended = host.wait()
        assert ended.of("received")[-1]["packets"] == 3 + number
        assert ended.of("socket")[-1]["foreign"] == 0


def test_a_kernel_that_has_the_senders_address_refuses_no_feedback(link: Link) -> None:
    ip("-n", link.namespaces["S"], "addr", "add", f"{SENDER_IP}/24", "dev", "s0")
    host, sender = link.host(15), link.sender(*fixed_rate("400kbit/s", layers=1))
    wait_until(lambda: any(r["kind"] == "feedback" and r["accepted"] for r in sender.records()),
               "feedback")  # fmt: skip

    def refused(port: int) -> bool:
        with link.inside("R"), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.settimeout(0.5)
            probe.connect((SENDER_IP, port))
            probe.send(b"x")
            try:
                probe.recv(1)
            except ConnectionRefusedError:
                return True
            except TimeoutError:
                return False
        raise AssertionError("nobody answers")

    assert refused(5502)  # as a kernel does
    assert not refused(5501)
    host.terminate()  # first: who sends to a port that is gone is refused
    assert host.wait().of("socket")[-1]["send_errors"] == 0
    sender.terminate()
    ended = sender.wait()
    assert ended.status == 0, ended.stderr
    assert ended.of("feedback")[-1]["malformed"] == 1  # the probe's


def test_a_lab_that_is_lost_ends_it_with_status_1(link: Link, lab: Lab) -> None:
    host = link.host(15, f"--lab={lab.address}")
    lab.hellos.get(timeout=PATIENCE_S)
    lab.start("h15")
    wait_until(lambda: link.joined_groups() == {group(0)}, "join at Start")
    lab.close()
    ended = host.wait()
    assert ended.status == 1
    assert "h15: lost the lab" in ended.stderr
    assert link.joined_groups() == set()


def count(program: Program, kind: str) -> int:
    return sum(record["kind"] == kind for record in program.records())


def take_all(host: Program, packets: float) -> None:
    """Waits until the host's records count `packets` packets."""
    wait_until(
        lambda: any(r["packets"] >= packets for r in host.records() if r["kind"] == "received"),
        f"{packets} packets are received",
    )


def test_all_of_a_fast_layer_is_received(link: Link) -> None:
    """750 packets per second. `make bench-sender` measures what that costs."""
    host = link.host(15, "--layers=1")
    wait_until(lambda: group(0) in link.joined_groups(), "IGMP membership")
    sender = link.sender(*fixed_rate("6Mbit/s", layers=1), "--duration=2s")
    sent = sender.wait().layers()[0]["sent_packets"]
    take_all(host, sent)
    host.terminate()
    received = host.wait().of("received")[-1]
    assert received["packets"] == sent > 0
    assert received["bytes"] == sent * 1000
    assert received["lost"] == 0


@pytest.fixture
def lab() -> Iterator[Lab]:
    with tempfile.TemporaryDirectory(prefix="tiercast-") as directory:
        lab = Lab(Path(directory))
        yield lab
        lab.close()


def test_schemes_are_json() -> None:
    ended = run([str(HOST), "schemes"])
    assert ended.status == 0
    sim = next(scheme for scheme in json.loads(ended.stdout) if scheme["name"] == "sim")
    assert sim["id"] == 1
    delta = next(p for p in sim["parameters"] if p["name"] == "sim.delta")
    assert delta["min"] < delta["default"] < delta["max"]
    texts = {"unit", "used_by", "purpose", "source"}
    assert set(delta) == {"name", "default", "min", "max", "whole"} | texts
    assert (delta["used_by"], delta["whole"]) == ("sender", False)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], ["subcommand"]),
        (["recv"], ["--interface"]),
        (["recv", "--interface=nosuch0", "--source=10.0.0.2"], ["--interface", "nosuch0", "lo"]),
        (["recv", "--interface=lo", "--source=10.0.0"], ["--source", "10.0.0"]),
        (["recv", "--interface=lo", "--source=10.0.0.2", "--scheme=rlm9"], ["--scheme", "sim"]),
        (["recv", "--interface=lo", "--source=10.0.0.2", "--session=40000"], ["40000", "32767"]),
    ],
)
def test_wrong_arguments(options: list[str], expected: list[str]) -> None:
    ended = run([str(HOST), *options])
    assert ended.status == 2
    for text in expected:
        assert text in ended.stderr
    assert ended.stdout == ""


def test_help_has_examples() -> None:
    for arguments in (["--help"], ["recv", "--help"]):
        ended = run([str(HOST), *arguments])
        assert ended.status == 0
        assert "Examples:" in ended.stdout
    assert run([str(HOST), "--version"]).stdout.startswith("tiercast-host ")
