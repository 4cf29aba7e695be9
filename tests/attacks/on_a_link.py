"""Attacks on the real sender and a real host, at the ends of a veth in namespaces of their own.
There is no switch between them: these are what remains where no place is checked. Needs root."""

import hashlib
import random
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from ipaddress import IPv4Address
from pathlib import Path

from tiercast.v1 import session_pb2
from tiercast_controller.agents.keys import RunKeys
from tiercast_controller.multicast.igmp import checksum

from ..agent.lab import Lab
from ..agent.network import HOST_IP, HOST_MAC, SENDER_IP, SENDER_MAC, SESSION, Link
from ..patience import PATIENCE_S, wait_until
from .row import Row

WHERE = "namespaces"
ATTACKER, ATTACKER_MAC = "10.9.0.66", "02:00:00:00:00:42"
GROUP = f"239.192.0.{SESSION << 3}"


def attacked(attack: Callable[[Link], Row]) -> Row:
    with tempfile.TemporaryDirectory() as scratch:
        link = Link(Path(scratch))
        try:
            link.make()
            return attack(link)
        finally:
            link.remove()


def frame(source: str, to: str, port: int, message: bytes, to_mac: str, from_mac: str) -> bytes:
    """A datagram without a checksum of UDP."""
    udp = struct.pack("!HHHH", port, port, 8 + len(message), 0) + message
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 9, 17, 0,
                         IPv4Address(source).packed, IPv4Address(to).packed)  # fmt: skip
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    macs = bytes.fromhex((to_mac + from_mac).replace(":", ""))
    return (macs + b"\x08\0" + header + udp).ljust(60, b"\0")


def heard_of_host(raw: socket.socket) -> bytes | None:
    """The next message of the host to the sender; None: none has come for a while."""
    try:
        heard, place = raw.recvfrom(2048)
    except TimeoutError:
        return None
    ends = socket.inet_aton(HOST_IP) + socket.inet_aton(SENDER_IP)
    own = heard[6:12] == bytes.fromhex(HOST_MAC.replace(":", "")) and heard[26:34] == ends
    return heard[42:] if place[2] == socket.PACKET_OUTGOING and own else b""


def forged_feedback(link: Link, rounds: int = 10, copies: int = 25) -> Row:
    """SIM's feedback of an attacker that is no member: each message of the member that it hears,
    sent again from its own address, in the member's name and in its own."""
    host = link.host(15, "--scheme=sim")
    wait_until(lambda: GROUP in link.joined_groups(), "IGMP membership")
    limits = [f"--set=sim.{name}=400kbit/s" for name in ("min_rate", "initial_rate", "max_rate")]
    sender = link.sender("--scheme=sim", *limits, f"--member=15={HOST_IP}")
    own, sent = 0, 0
    with closing(link.packet_socket("R")) as raw:
        deadline = time.monotonic() + PATIENCE_S
        while sent < 2 * rounds * copies and time.monotonic() < deadline:
            if not (message := heard_of_host(raw)):
                continue
            own += 1
            for forged in (message, message[:8] + struct.pack("!I", 66) + message[12:]):
                for _ in range(copies):
                    raw.send(frame(ATTACKER, SENDER_IP, 5501, forged, SENDER_MAC, ATTACKER_MAC))
                    sent += 1

        def counted() -> tuple[int, int]:
            rows = [r for r in sender.records() if r["kind"] == "feedback.refused"]
            return (int(rows[-1]["impersonated"]), int(rows[-1]["non_member"])) if rows else (0, 0)

        wait_until(lambda: sum(counted()) >= sent, "all is counted")
        for program in (host, sender):
            program.terminate()
            program.wait()
        while (message := heard_of_host(raw)) is not None:
            own += bool(message)
    of_core = [r for r in sender.records() if r["kind"] == "feedback"][-1]
    refused = [r for r in sender.records() if r["kind"] == "feedback.refused"][-1]
    reached = of_core["accepted"] + of_core["refused"] + refused["implausible"]
    accepted = max(0, int(reached) - own)
    impersonated, non_member = counted()
    return Row(
        f"feedback of a non-member to tiercast-send: {sent // 2} messages in a member's name, and "
        "as many in its own",
        WHERE,
        "0 accepted, all counted; the member's own arrive",
        f"{accepted} accepted, {impersonated} and {non_member} counted; {own} of the member",
        accepted == 0 and impersonated == non_member == rounds * copies and of_core["accepted"] > 0,
    )


def icmp_refusal(of_port: int) -> bytes:
    """ICMP of an attacker: the sender's host has nobody at a port that the host wrote to."""
    quoted = frame(HOST_IP, SENDER_IP, of_port, b"", SENDER_MAC, HOST_MAC)[14:42]
    body = struct.pack("!BBHI", 3, 3, 0, 0) + quoted
    body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(body), 0, 0, 9, 1, 0,
                         IPv4Address(ATTACKER).packed, IPv4Address(HOST_IP).packed)  # fmt: skip
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    macs = bytes.fromhex((HOST_MAC + ATTACKER_MAC).replace(":", ""))
    return macs + b"\x08\0" + header + body


def forged_icmp(link: Link, count: int = 50_000) -> Row:
    """ICMP port unreachable for the flow on which a host hears its sender alone, as fast as one
    socket sends it, during a session."""
    host = link.host(15, "--scheme=sim")
    wait_until(lambda: GROUP in link.joined_groups(), "IGMP membership")
    sender = link.sender("--scheme=sim", f"--member=15={HOST_IP}")

    def last(kind: str, field: str) -> int:
        rows = [row for row in host.records() if row["kind"] == kind]
        return int(rows[-1][field]) if rows else 0

    wait_until(lambda: last("received", "packets") > 0, "data")
    forged = icmp_refusal(5500)
    with closing(link.packet_socket("S")) as raw:
        for _ in range(count):
            if not host.running():
                break
            raw.send(forged)
    before = last("received", "packets")
    wait_until(lambda: not host.running() or (last("received", "packets") > before
                                              and last("socket", "foreign") > 0),
               "what came of it")  # fmt: skip
    host.terminate()
    ended = host.wait()
    sender.terminate()
    sender.wait()
    counted = int(ended.of("socket")[-1]["foreign"]) if ended.of("socket") else 0
    arrives = int(ended.of("received")[-1]["packets"]) > before
    return Row(
        f"ICMP port unreachable in another host's name, {count} for the flow of a receiver",
        WHERE,
        "the receiver goes on, and counts errors",
        f"status {ended.status}, {counted} counted, data {'arrives' if arrives else 'is lost'}",
        ended.status == 0 and counted > 0 and arrives,
    )


def replayed_feedback(link: Link, rounds: int = 10, copies: int = 25) -> Row:
    """SIM's feedback where the lab has handed out keys. The attacker has the member's address and
    hears what it says: it sends each message again, and once more with a larger counter."""
    with tempfile.TemporaryDirectory(prefix="tiercast-") as directory:
        lab = Lab(Path(directory))
        try:
            return _replayed(link, lab, rounds, copies)
        finally:
            lab.close()


def _replayed(link: Link, lab: Lab, rounds: int, copies: int) -> Row:
    keys = RunKeys().of_session(SESSION)
    limits = [f"--set=sim.{name}=400kbit/s" for name in ("min_rate", "initial_rate", "max_rate")]
    host = link.host(15, "--scheme=sim", f"--lab={lab.address}")
    sender = link.sender("--scheme=sim", *limits, f"--lab={lab.address}", "--name=h0")
    for _ in range(2):
        lab.hellos.get(timeout=PATIENCE_S)
    lab.start("h15", keys=keys.message(15))
    wait_until(lambda: GROUP in link.joined_groups(), "IGMP membership")
    members = [session_pb2.Member(id=15, address=HOST_IP)]
    lab.start("h0", keys=keys.message(None), members=members)
    lab.membership("h0", SESSION, 0)
    own, sent = 0, 0
    with closing(link.packet_socket("R")) as raw:
        deadline = time.monotonic() + PATIENCE_S
        while sent < 2 * rounds * copies and time.monotonic() < deadline:
            if not (message := heard_of_host(raw)):
                continue
            own += 1
            (counter,) = struct.unpack("!Q", message[-24:-16])
            ahead = message[:-24] + struct.pack("!Q", counter + 1000) + message[-16:]
            for forged in (message, ahead):
                for _ in range(copies):
                    raw.send(frame(HOST_IP, SENDER_IP, 5501, forged, SENDER_MAC, ATTACKER_MAC))
                    sent += 1

        def counted() -> tuple[int, int]:
            last = lab.last("seal.refused")
            return int(last.get("replayed", 0)), int(last.get("forged", 0))

        wait_until(lambda: sum(counted()) >= sent, "all is counted")
        for agent in ("h15", "h0"):
            lab.stop(agent)
        host.wait()
        ended = sender.wait()
        while (message := heard_of_host(raw)) is not None:
            own += bool(message)
    of_core = lab.last("feedback")
    reached = of_core["accepted"] + of_core["refused"]
    reached += lab.last("feedback.refused").get("implausible", 0)
    accepted = max(0, int(reached) - own)
    replayed, forged_ones = counted()
    return Row(
        f"a member's sealed feedback, {sent // 2} times as it was heard and {sent // 2} times with "
        "a larger counter, from the member's own address",
        WHERE,
        "0 accepted, all counted; the member's own arrive",
        f"{accepted} accepted, {replayed} replayed, {forged_ones} forged; {own} of the member",
        ended.status == 0
        and accepted == 0
        and replayed == forged_ones == rounds * copies
        and of_core["accepted"] > 0,
    )


def object_under_attack(link: Link) -> Row:
    """An object of 400 kB by MDP-CC. The attacker answers each data packet that it hears with a
    forged one for a later segment, in the sender's name. The receiver knows the object's digest."""
    original, copy = link.directory / "original", link.directory / "copy"
    original.write_bytes(random.Random(5).randbytes(400_000))
    digest = hashlib.sha256(original.read_bytes()).hexdigest()
    host = link.host(15, "--scheme=mdpcc", f"--output={copy}", f"--sha256={digest}")
    wait_until(lambda: GROUP in link.joined_groups(), "IGMP membership")
    ended = threading.Event()
    with closing(link.packet_socket("S")) as raw:
        attack = threading.Thread(target=_inject, args=(raw, ended))
        attack.start()
        try:
            sender = link.sender("--scheme=mdpcc", f"--input={original}", f"--member=15={HOST_IP}")
            sent = sender.wait(timeout=5 * PATIENCE_S)
            received = host.wait(timeout=5 * PATIENCE_S)
        finally:
            ended.set()
            attack.join()
    same = copy.read_bytes() == original.read_bytes()
    named = f"sent {digest}" in received.stderr
    return Row(
        "forged segments of an object of 400 kB, in its sender's name, where no switch checks it",
        WHERE,
        "identical, or status 1 naming the digests",
        f"{'identical' if same else 'not identical'}, status {received.status}"
        f"{', the digests named' if named else ''}",
        sent.status == 0 and (received.status == 0 if same else received.status == 1 and named),
    )


def _inject(raw: socket.socket, ended: threading.Event) -> None:
    while not ended.is_set():
        try:
            heard = raw.recv(2048)
        except TimeoutError:
            continue
        message = heard[42:]
        is_data = heard[12:14] == b"\x08\0" and message[:3] == b"\x01\x01\x05"
        if not is_data or message[28:36] == FORGED[:8]:
            continue
        (segment,) = struct.unpack("!I", message[16:20])
        later = message[:16] + struct.pack("!I", segment + 20) + message[20:28]
        forged = later + FORGED[: len(message) - 28]
        raw.send(frame(SENDER_IP, GROUP, 5500, forged, "01:00:5e:40:00:08", SENDER_MAC))


FORGED = b"forged! " * 200
