"""How a switch chooses among equal next hops for a flow (p4src/lib/equal_paths.p4)."""

from __future__ import annotations

import hashlib
import struct
import zlib
from ipaddress import IPv4Address

from tiercast_controller.network.routes import Node, Routes, numbers_of

TCP, UDP = 6, 17  # IP's numbers


def flow_hash(
    source: IPv4Address, destination: IPv4Address, protocol: int, ports: tuple[int, int] = (0, 0)
) -> int:
    """32 bits, the same at every switch. `ports`: source and destination of TCP and UDP; zeros for
    fragments, packets with IP options, and other protocols."""
    packed = struct.pack("!IIHHB", int(source), int(destination), *ports, protocol)
    return zlib.crc32(packed)


def multiplier(switch: int | str) -> int:
    """The odd number of 32 bits with which a switch multiplies hashes, so that flows which chose
    alike at one switch spread again at the next. It depends on the switch's number alone: s3 and 3
    have the same."""
    digest = hashlib.blake2b(numbers_of(switch).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") | 1


def chosen(hashed: int, multiplier: int, count: int) -> int:
    """The place of the flow's next hop among `count`, 0 to count - 1: of equal parts of a range of
    16 bits, the one that the product's upper half falls into (RFC 2992)."""
    return ((hashed * multiplier & 0xFFFFFFFF) >> 16) * count >> 16


def flow_path(routes: Routes[Node], a: Node, b: Node, hashed: int) -> list[Node]:
    """The nodes of the flow's path from `a` to `b`, both included; empty if there is none."""
    hops = routes.next_hops(b)
    if a != b and a not in hops:
        return []
    path = [a]
    while path[-1] != b:
        equal = hops[path[-1]]
        path.append(equal[chosen(hashed, multiplier(path[-1]), len(equal))])
    return path
