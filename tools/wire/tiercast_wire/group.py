"""Group addresses: 239.192.0.0/14 + (session << 3 | rank)."""

from ipaddress import IPv4Address, IPv4Network
from typing import NamedTuple

GROUPS = IPv4Network("239.192.0.0/14")
RANK_BITS = 3
MAX_RANK = (1 << RANK_BITS) - 1
MAX_SESSION = (1 << (GROUPS.max_prefixlen - GROUPS.prefixlen - RANK_BITS)) - 1


class Group(NamedTuple):
    session: int  # 0..32767
    rank: int  # 0..7, 0 is the bottom layer


def group_address(session: int, rank: int) -> IPv4Address:
    """The address of a session's group. Raises ValueError for a session or rank out of range."""
    if not 0 <= session <= MAX_SESSION:
        raise ValueError(f"session {session}: not in 0..{MAX_SESSION}")
    if not 0 <= rank <= MAX_RANK:
        raise ValueError(f"rank {rank}: not in 0..{MAX_RANK}")
    return GROUPS.network_address + (session << RANK_BITS | rank)


def group_of(address: IPv4Address | str) -> Group | None:
    """The session and rank of an address; None for an address outside 239.192.0.0/14."""
    address = IPv4Address(address)
    if address not in GROUPS:
        return None
    suffix = int(address) - int(GROUPS.network_address)
    return Group(suffix >> RANK_BITS, suffix & MAX_RANK)


def group_mac(address: IPv4Address | str) -> str:
    """The Ethernet address of an IPv4 group (RFC 1112, 6.4)."""
    low = int(IPv4Address(address)) & 0x7FFFFF
    return ":".join(f"{byte:02x}" for byte in (0x01005E000000 | low).to_bytes(6, "big"))
