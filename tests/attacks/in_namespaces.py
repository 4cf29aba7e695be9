"""Attacks of a host on a network of real switches with the real controller, in namespaces of their
own. h1 and h2 are at the same switch; h2 is the attacker, and h0 the sender of session 1. Each
function needs a running event loop and root."""

import asyncio
import socket
import statistics
import struct
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import IPv4Address
from pathlib import Path

from tiercast_controller.multicast.igmp import Type, checksum
from tiercast_controller.network.topology import group_address
from tiercast_controller.p4runtime.program import Program

from ..checkout import ROOT
from ..controller.chain import PORT, Network, Receiver, Run
from ..namespaces import command_in
from .row import Row

WHERE = "namespaces"
GROUP = group_address(1, 0)
ALL_ROUTERS = IPv4Address("224.0.0.2")
SEND_FRAMES = Path(ROOT) / "scripts/send_frames.py"
P99_MS, CPU_SHARE, GROWN_MB = 100, 0.30, 5  # bounds under a flood of IGMP


def frame(network: Network, source: IPv4Address, to: IPv4Address, protocol: int, body: bytes,
          options: bytes = b"", ttl: int = 9) -> bytes:  # fmt: skip
    """Of h2's interface, whatever address it claims."""
    words = (20 + len(options)) // 4
    header = struct.pack("!BBHHHBBH4s4s", 0x40 | words, 0, 4 * words + len(body), 0, 0, ttl,
                         protocol, 0, source.packed, to.packed) + options  # fmt: skip
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    mac = bytes.fromhex("0200000100ff")
    if to.is_multicast:
        mac = b"\x01\0\x5e" + (int(to) & 0x7FFFFF).to_bytes(3, "big")
    own = network.topology.host("h2").mac.to_bytes(6, "big")
    return (mac + own + b"\x08\0" + header + body).ljust(60, b"\0")


def datagram(network: Network, source: IPv4Address, to: IPv4Address) -> bytes:
    text = b"forged, from h2"
    return frame(network, source, to, 17, struct.pack("!HHHH", PORT, PORT, 8 + len(text), 0) + text)


def igmp(network: Network, source: IPv4Address, kind: Type, is_right: bool = True) -> bytes:
    body = struct.pack("!BBH4s", kind, 0, 0, GROUP.packed)
    right = checksum(body) if is_right else checksum(body) ^ 1
    body = body[:2] + struct.pack("!H", right) + body[4:]
    to = ALL_ROUTERS if kind is Type.V2_LEAVE else GROUP
    return frame(network, source, to, 2, body, options=b"\x94\x04\0\0", ttl=1)


async def send(network: Network, frames: list[bytes], per_s: float) -> float:
    """h2 sends these frames of 60 bytes; the rate that it kept."""
    assert all(len(one) == 60 for one in frames)
    command = command_in(network.namespace("h2"), sys.executable, str(SEND_FRAMES), "eth0",
                         str(per_s))  # fmt: skip
    sender = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await sender.communicate(b"".join(frames))
    return float(said)


@asynccontextmanager
async def running(network: Network, program: Program) -> AsyncIterator[Run]:
    run = Run(network, program)
    await run.controller.start()
    try:
        yield run
    finally:
        await run.controller.stop()


async def refused(run: Run) -> tuple[int, int]:
    """The packets from h2 that its switch refused, and its reports above the rate."""
    fates = await run.controller.fates("s3")
    assert fates is not None
    in_ = fates[3].ingress
    return in_.refused, in_.policed


def address(network: Network, host: str) -> IPv4Address:
    return network.topology.host(host).interface.ip


def source_of(network: Network) -> socket.socket:
    made = network.socket_in("h0")
    made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 9)
    return made


async def injected_data(network: Network, program: Program, count: int = 500) -> Row:
    """Datagrams to a session's group: in its source's name, in another host's, in the attacker's
    own; and before, between and after them the source's own."""
    claimed = [address(network, name) for name in ("h0", "h1", "h2")]
    async with running(network, program) as run:
        member, source = Receiver(network, "h1"), source_of(network)
        member.join(0)
        await run.changes(1)
        source.sendto(b"first", (str(GROUP), PORT))
        received = await member.receive(1)
        before, _ = await refused(run)
        forged = [datagram(network, one, GROUP) for one in claimed for _ in range(count)]
        await send(network, forged, per_s=5000)
        source.sendto(b"last", (str(GROUP), PORT))
        received += await member.receive(1)
        received += member.drain()
        counted = (await refused(run))[0] - before
    delivered = len(received) - 2
    return Row(
        f"data to a session's group, {count} frames each in the names of its source, of another "
        "host, and in the attacker's own",
        WHERE,
        f"0 delivered, {3 * count} counted; the source's own arrive",
        f"{delivered} delivered, {counted} counted",
        received == [b"first", b"last"] and counted == 3 * count,
    )


async def forged_feedback(network: Network, program: Program, count: int = 500) -> Row:
    """Datagrams to a session's source in the name of a member, and one in the attacker's own."""
    async with running(network, program) as run:
        source = Receiver(network, "h0")
        before, _ = await refused(run)
        forged = datagram(network, address(network, "h1"), address(network, "h0"))
        await send(network, [forged] * count, per_s=5000)
        own = network.socket_in("h2")
        own.sendto(b"in its own name", (str(address(network, "h0")), PORT))
        received = await source.receive(1)
        received += source.drain()
        counted = (await refused(run))[0] - before
    return Row(
        f"feedback to a session's source in a member's name, {count} frames",
        WHERE,
        f"0 delivered, {count} counted; one in the sender's own name arrives",
        f"{len(received) - 1} delivered, {counted} counted",
        received == [b"in its own name"] and counted == count,
    )


async def forged_leave(network: Network, program: Program, count: int = 50) -> Row:
    """IGMP in the name of a member, and a leave of the attacker, which is no member."""
    async with running(network, program) as run:
        member, source = Receiver(network, "h1"), source_of(network)
        member.join(0)
        await run.changes(1)
        before, _ = await refused(run)
        forged = igmp(network, address(network, "h1"), Type.V2_LEAVE)
        own = igmp(network, address(network, "h2"), Type.V2_LEAVE)
        await send(network, [forged] * count + [own], per_s=1000)
        source.sendto(b"still there", (str(GROUP), PORT))
        received = await member.receive(1)
        counted = (await refused(run))[0] - before
        changes = len(run.igmp())
    return Row(
        f"{count} leaves in the name of a member",
        WHERE,
        f"{count} counted; the member gets what follows",
        f"{counted} counted, {changes - 1} members lost",
        received == [b"still there"] and counted == count and changes == 1,
    )


async def igmp_flood(
    network: Network, program: Program, is_right: bool, per_s: int = 50_000, seconds: float = 4
) -> Row:
    """A flood of reports, while h1 joins and leaves one layer after the other."""
    async with running(network, program) as run:
        member = Receiver(network, "h1")
        _, before = await refused(run)
        rejected = sum(event.kind == "igmp.rejected" for event in run.events)
        grown, used, began = _resident_mb(), time.process_time(), time.monotonic()
        flood = [igmp(network, address(network, "h2"), Type.V2_REPORT, is_right)]
        sender = asyncio.create_task(send(network, flood * int(per_s * seconds), per_s))
        joins_ms: list[float] = []
        while not sender.done():
            for change, keep in ((member.join, True), (member.leave, False)):
                seen, at = _changes_of_h1(run), time.monotonic()
                change(1)
                async with asyncio.timeout(30):
                    while _changes_of_h1(run) == seen:
                        await asyncio.sleep(0.002)
                if keep:
                    joins_ms.append((time.monotonic() - at) * 1e3)
            await asyncio.sleep(0.01)
        kept = await sender
        cpu = (time.process_time() - used) / (time.monotonic() - began)
        grown = _resident_mb() - grown
        policed = (await refused(run))[1] - before
        rejected = sum(event.kind == "igmp.rejected" for event in run.events) - rejected
    p99 = statistics.quantiles(joins_ms, n=100)[98] if len(joins_ms) > 1 else joins_ms[0]
    bad = "" if is_right else "bad "
    return Row(
        f"{per_s} {bad}reports/s of one host for {seconds:g} s",
        WHERE,
        f"others join within {P99_MS} ms (p99); controller at most {CPU_SHARE:.0%} of a core and "
        f"{GROWN_MB} MB more; counted",
        f"{kept:.0f}/s sent; {len(joins_ms)} joins, p99 {p99:.0f} ms; {cpu:.0%} of a core, "
        f"{grown:+.1f} MB; {policed} counted at the port, {rejected} refused by the controller",
        p99 <= P99_MS and cpu <= CPU_SHARE and grown <= GROWN_MB and policed > 0,
    )


def _changes_of_h1(run: Run) -> int:
    return sum(event["port"] == 2 for event in run.igmp())


def _resident_mb() -> float:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096 / 1e6
