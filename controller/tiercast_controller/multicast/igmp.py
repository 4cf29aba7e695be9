"""IGMP versions 1, 2 and 3: a strict parser of frames, and the queries of a querier.

The formats are those of RFC 1112, RFC 2236 and RFC 3376. Whatever the bytes, the parser raises
nothing but IgmpError.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address

ETHERTYPE_IPV4 = 0x0800
PROTOCOL_IGMP = 2
ALL_SYSTEMS = IPv4Address("224.0.0.1")


class IgmpError(ValueError):
    """The frame is not a well-formed IGMP message. The text says which field is wrong and how."""


class Type(enum.IntEnum):
    QUERY = 0x11
    V1_REPORT = 0x12
    V2_REPORT = 0x16
    V2_LEAVE = 0x17
    V3_REPORT = 0x22


class RecordType(enum.IntEnum):
    """The group record types of RFC 3376, 4.2.12."""

    IS_INCLUDE = 1
    IS_EXCLUDE = 2
    TO_INCLUDE = 3
    TO_EXCLUDE = 4
    ALLOW = 5
    BLOCK = 6


@dataclass(frozen=True)
class GroupRecord:
    type: RecordType
    group: IPv4Address
    sources: tuple[IPv4Address, ...] = ()

    def wants(self, source: IPv4Address) -> bool | None:
        """Whether the reporter now wants `group` from `source`; None: the record does not say.

        A session has one source, so a filter of any length comes down to this one answer. An
        any-source join is EXCLUDE(); a source-specific one is ALLOW(source) or INCLUDE(source).
        ALLOW and BLOCK change only the sources that they list. So does IS_INCLUDE (RFC 3376 6.4.1):
        a host may split its answer to a query over several records (4.2.16).
        """
        listed = source in self.sources
        if self.type is RecordType.TO_INCLUDE:
            return listed
        if self.type in (RecordType.IS_EXCLUDE, RecordType.TO_EXCLUDE):
            return not listed
        if self.type in (RecordType.IS_INCLUDE, RecordType.ALLOW):
            return True if listed else None
        return False if listed else None


@dataclass(frozen=True)
class Message:
    """A report or leave of any version, as group records. A query has none.

    Versions 1 and 2 know no sources: their report becomes TO_EXCLUDE(), their leave TO_INCLUDE().
    """

    type: Type
    reporter: IPv4Address
    records: tuple[GroupRecord, ...]


def parse_frame(frame: bytes) -> Message:
    """Parses an Ethernet frame that holds an IPv4 packet with an IGMP message. Raises IgmpError."""
    if len(frame) < 14:
        raise IgmpError(f"frame of {len(frame)} bytes is shorter than an Ethernet header (14)")
    (ethertype,) = struct.unpack_from("!H", frame, 12)
    if ethertype != ETHERTYPE_IPV4:
        raise IgmpError(f"ethertype is {ethertype:#06x}, not IPv4 ({ETHERTYPE_IPV4:#06x})")
    return _parse_ipv4(frame[14:])


def _parse_ipv4(packet: bytes) -> Message:
    if len(packet) < 20:
        raise IgmpError(f"packet of {len(packet)} bytes is shorter than an IPv4 header (20)")
    version, header_length = packet[0] >> 4, (packet[0] & 0xF) * 4
    total_length, _, fragment = struct.unpack_from("!HHH", packet, 2)
    if version != 4:
        raise IgmpError(f"IP version is {version}, not 4")
    if not 20 <= header_length <= total_length <= len(packet):
        raise IgmpError(
            f"IPv4 lengths disagree: header {header_length}, total {total_length}, "
            f"received {len(packet)}"
        )
    if fragment & 0x3FFF:
        raise IgmpError("IPv4 packet is a fragment")
    if packet[9] != PROTOCOL_IGMP:
        raise IgmpError(f"IPv4 protocol is {packet[9]}, not IGMP ({PROTOCOL_IGMP})")
    if checksum(packet[:header_length]) != 0:
        raise IgmpError("IPv4 header checksum is wrong")
    return parse_message(packet[header_length:total_length], IPv4Address(packet[12:16]))


def parse_message(message: bytes, reporter: IPv4Address) -> Message:
    """Parses the payload of an IPv4 packet. Raises IgmpError.

    The checksum covers bytes after the known fields; otherwise they are ignored, as required by RFC
    2236 2.5 and RFC 3376 4.2.11.
    """
    if len(message) < 8:
        raise IgmpError(f"IGMP message of {len(message)} bytes is shorter than 8")
    if checksum(message) != 0:
        raise IgmpError("IGMP checksum is wrong")
    try:
        kind = Type(message[0])
    except ValueError:
        choices = ", ".join(f"{t.value:#04x} {t.name}" for t in Type)
        raise IgmpError(f"IGMP type is {message[0]:#04x}, not one of {choices}") from None
    if kind is Type.QUERY:
        if 8 < len(message) < 12:
            raise IgmpError(f"IGMP query of {len(message)} bytes is neither version 2 nor 3")
        return Message(kind, reporter, ())
    if kind is Type.V3_REPORT:
        return Message(kind, reporter, _parse_records(message))
    change = RecordType.TO_INCLUDE if kind is Type.V2_LEAVE else RecordType.TO_EXCLUDE
    return Message(kind, reporter, (GroupRecord(change, _group(message[4:8])),))


def _parse_records(message: bytes) -> tuple[GroupRecord, ...]:
    (count,) = struct.unpack_from("!H", message, 6)
    records = []
    at = 8
    for index in range(count):
        if at + 8 > len(message):
            raise IgmpError(f"group record {index} of {count} lies beyond the message's end")
        kind, aux_words, source_count = struct.unpack_from("!BBH", message, at)
        group = _group(message[at + 4 : at + 8])
        end = at + 8 + 4 * source_count
        if end + 4 * aux_words > len(message):
            raise IgmpError(
                f"group record {index} of {count} has {source_count} sources and {aux_words} "
                f"auxiliary words, which lie beyond the message's end"
            )
        # RFC 3376 4.2.12: unrecognised record types are ignored.
        if kind in RecordType.__members__.values():
            sources = tuple(IPv4Address(message[i : i + 4]) for i in range(at + 8, end, 4))
            records.append(GroupRecord(RecordType(kind), group, sources))
        at = end + 4 * aux_words
    return tuple(records)


def _group(address: bytes) -> IPv4Address:
    group = IPv4Address(address)
    if not group.is_multicast:
        raise IgmpError(f"{group} is not a multicast address")
    return group


def checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071). It is 0 for data that contains its own correct checksum."""
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def query(
    version: int,
    max_response_s: float,
    source: IPv4Address,
    source_mac: int,
    interval_s: float,
    *,
    robustness: int = 2,
    group: IPv4Address | None = None,
    group_sources: Sequence[IPv4Address] = (),
    suppresses: bool = False,
) -> bytes:
    """A query as an Ethernet frame (RFC 2236 3, RFC 3376 4.1): a general one, or one for `group`,
    with version 3 for these of its sources alone.

    `version` is 2 or 3. Hosts answer within `max_response_s`, 0.1..25.5 (in steps of 0.1). Only
    version 3 tells the rest: `interval_s`, up to 31744, is the time between general queries;
    `robustness`, 1..7; `suppresses` is the flag S, with which other routers keep their timers.
    Raises ValueError.
    """
    tenths = round(max_response_s * 10)
    if not 1 <= tenths <= 255:
        raise ValueError(f"max_response_s is {max_response_s}, not within 0.1..25.5")
    # Below 128 the code is the value itself in both versions; above, version 3 uses a float.
    code = tenths if version == 2 else _float_code(tenths)
    asked = bytes(4) if group is None else group.packed
    body = struct.pack("!BBH4s", Type.QUERY, code, 0, asked)
    if version == 3:
        flags = suppresses << 3 | robustness
        interval = _float_code(max(1, round(interval_s)))
        body += struct.pack("!BBH", flags, interval, len(group_sources))
        body += b"".join(one.packed for one in group_sources)
    elif version != 2:
        raise ValueError(f"IGMP version is {version}, not 2 or 3")
    body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
    router_alert = b"\x94\x04\x00\x00"
    to = ALL_SYSTEMS if group is None else group
    header = struct.pack(
        "!BBHHHBBH4s4s4s",
        0x46,
        0xC0,  # internetwork control (RFC 3376 4)
        24 + len(body),
        0,
        0x4000,
        1,
        PROTOCOL_IGMP,
        0,
        source.packed,
        to.packed,
        router_alert,
    )
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    mac = 0x01005E000000 | int(to) & 0x7FFFFF  # RFC 1112 6.4
    ethernet = mac.to_bytes(6, "big") + source_mac.to_bytes(6, "big") + b"\x08\x00"
    return (ethernet + header + body).ljust(60, b"\0")


def _float_code(value: int) -> int:
    """The 8-bit floating point of RFC 3376 4.1.1: rounded down, and exact below 128."""
    if value < 128:
        return value
    exponent = min(7, max(0, value.bit_length() - 8))
    mantissa = min(0xF, (value >> (exponent + 3)) - 0x10)
    return 0x80 | exponent << 4 | mantissa
