"""IGMP: vectors made by Scapy, every v3 record type against a source, and fuzz."""

import struct
from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.all import IP, Ether
from scapy.layers.igmp import IGMP, IGMPv3_MQ, IGMPv3_MR, IGMPv3_MR_Group
from tiercast_controller.multicast.igmp import (
    GroupRecord,
    IgmpError,
    RecordType,
    Type,
    checksum,
    parse_frame,
    parse_message,
    query,
)

GROUP = IPv4Address("239.192.0.8")
SOURCE = IPv4Address("10.0.0.2")
OTHER = IPv4Address("10.9.9.9")
REPORTER = IPv4Address("10.0.1.2")


def with_checksum(message: bytes) -> bytes:
    message = message[:2] + b"\0\0" + message[4:]
    return message[:2] + struct.pack("!H", checksum(message)) + message[4:]


@pytest.mark.parametrize(
    ("kind", "record"),
    [
        (0x12, RecordType.TO_EXCLUDE),
        (0x16, RecordType.TO_EXCLUDE),
        (0x17, RecordType.TO_INCLUDE),
    ],
)
def test_versions_1_and_2(igmp, kind: int, record: RecordType) -> None:
    message = parse_frame(igmp.v2(str(GROUP), kind))
    assert message.type == kind
    assert message.reporter == REPORTER
    assert message.records == (GroupRecord(record, GROUP),)
    assert message.records[0].wants(SOURCE) is (kind != 0x17)


def test_version_3_with_several_records() -> None:
    records = [
        IGMPv3_MR_Group(rtype=4, maddr="239.192.0.8"),
        IGMPv3_MR_Group(rtype=5, maddr="239.192.0.9", srcaddrs=["10.0.0.2", "10.9.9.9"]),
        IGMPv3_MR_Group(rtype=6, maddr="239.192.0.10", srcaddrs=["10.0.0.2"]),
    ]
    message = parse_message(bytes(IGMPv3_MR(records=records)), REPORTER)
    assert message.type is Type.V3_REPORT
    assert message.records == (
        GroupRecord(RecordType.TO_EXCLUDE, IPv4Address("239.192.0.8")),
        GroupRecord(RecordType.ALLOW, IPv4Address("239.192.0.9"), (SOURCE, OTHER)),
        GroupRecord(RecordType.BLOCK, IPv4Address("239.192.0.10"), (SOURCE,)),
    )


@pytest.mark.parametrize(
    ("kind", "sources", "wants"),
    [
        (RecordType.IS_INCLUDE, (), None),
        (RecordType.IS_INCLUDE, (SOURCE,), True),
        (RecordType.IS_INCLUDE, (OTHER,), None),
        (RecordType.TO_INCLUDE, (), False),
        (RecordType.TO_INCLUDE, (OTHER, SOURCE), True),
        (RecordType.IS_EXCLUDE, (), True),
        (RecordType.IS_EXCLUDE, (SOURCE,), False),
        (RecordType.TO_EXCLUDE, (OTHER,), True),
        (RecordType.TO_EXCLUDE, (SOURCE,), False),
        (RecordType.ALLOW, (SOURCE,), True),
        (RecordType.ALLOW, (OTHER,), None),
        (RecordType.BLOCK, (SOURCE,), False),
        (RecordType.BLOCK, (OTHER,), None),
    ],
)
def test_a_record_says_whether_the_source_is_wanted(kind, sources, wants) -> None:
    assert GroupRecord(kind, GROUP, sources).wants(SOURCE) is wants


def test_unknown_record_types_are_skipped_and_auxiliary_data_too() -> None:
    unknown = struct.pack("!BBH4sI", 9, 1, 0, GROUP.packed, 0xDEADBEEF)
    known = struct.pack("!BBH4s", 4, 0, 0, GROUP.packed)
    body = with_checksum(struct.pack("!BBHHH", 0x22, 0, 0, 0, 2) + unknown + known)
    assert parse_message(body, REPORTER).records == (GroupRecord(RecordType.TO_EXCLUDE, GROUP),)


V2 = bytes.fromhex("1600 0000 efc00008")
V3 = struct.pack("!BBHHHBBH4s", 0x22, 0, 0, 0, 1, 4, 0, 0, GROUP.packed)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (with_checksum(V2)[:7], "7 bytes is shorter than 8"),
        (V2, "checksum is wrong"),
        (with_checksum(b"\x13" + V2[1:]), "type is 0x13, not one of 0x11 QUERY"),
        (with_checksum(V2[:4] + SOURCE.packed), "10.0.0.2 is not a multicast address"),
        (with_checksum(V3[:7] + b"\x02" + V3[8:]), "record 1 of 2 lies beyond"),
        (with_checksum(V3[:11] + b"\x05" + V3[12:]), "5 sources and 0 auxiliary words"),
        (with_checksum(V3[:9] + b"\x01" + V3[10:]), "0 sources and 1 auxiliary words"),
        (with_checksum(b"\x11" + V2[1:] + b"\0\0"), "query of 10 bytes"),
    ],
)
def test_malformed_messages(message: bytes, text: str) -> None:
    with pytest.raises(IgmpError, match=text):
        parse_message(message, REPORTER)


def test_malformed_frames(igmp) -> None:
    good = igmp.v2(str(GROUP))
    parse_frame(good)
    cases = {
        "shorter than an Ethernet header": good[:13],
        "ethertype is 0x86dd": good[:12] + b"\x86\xdd" + good[14:],
        "shorter than an IPv4 header": good[:30],
        "IP version is 6": good[:14] + b"\x66" + good[15:],
        "lengths disagree": good[:40],
        "is a fragment": good[:20] + b"\x20\0" + good[22:],
        "protocol is 17": good[:23] + b"\x11" + good[24:],
        "header checksum is wrong": good[:22] + b"\x09" + good[23:],
    }
    for text, frame in cases.items():
        with pytest.raises(IgmpError, match=text):
            parse_frame(frame)


def test_padding_behind_the_packet_is_ignored(igmp) -> None:
    assert parse_frame(igmp.v2(str(GROUP)).ljust(60, b"\xff")).type is Type.V2_REPORT


@given(st.binary(max_size=200))
def test_fuzz_frames(data: bytes) -> None:
    _never_raises_anything_else(lambda: parse_frame(data))


@given(st.sampled_from(list(Type)), st.binary(max_size=120))
def test_fuzz_messages_with_right_checksum(kind: Type, data: bytes) -> None:
    message = with_checksum(bytes([kind]) + data.ljust(7, b"\0"))
    _never_raises_anything_else(lambda: parse_message(message, REPORTER))


@given(
    st.lists(
        st.tuples(st.integers(0, 255), st.integers(0, 3), st.integers(0, 6), st.binary(max_size=30))
    ),
    st.integers(0, 5),
)
def test_fuzz_version_3_records(records, lie: int) -> None:
    body = struct.pack("!BBHHH", 0x22, 0, 0, 0, len(records) + lie)
    for kind, aux, sources, data in records:
        body += struct.pack("!BBH4s", kind, aux, sources, GROUP.packed) + data
    _never_raises_anything_else(lambda: parse_message(with_checksum(body), REPORTER))


def _never_raises_anything_else(parse) -> None:
    try:
        parse()
    except IgmpError as error:
        assert str(error)


@pytest.mark.parametrize("group", [None, IPv4Address("239.192.0.9")])
@pytest.mark.parametrize("version", [2, 3])
def test_a_query_reads_back_in_scapy(version: int, group: IPv4Address | None) -> None:
    source = IPv4Address("0.0.0.0")
    frame = query(version, 10.0, source, 0x020000000001, 125.0, robustness=3, group=group)
    packet = Ether(frame)
    to = ("01:00:5e:00:00:01", "224.0.0.1") if group is None else ("01:00:5e:40:00:09", str(group))
    assert (packet.dst, packet[IP].dst, packet[IP].ttl) == (*to, 1)
    assert bytes(packet[IP])[20:24] == b"\x94\x04\x00\x00"
    body = bytes(packet[IP])[24 : packet[IP].len]
    assert checksum(body) == 0
    assert checksum(bytes(packet[IP])[:24]) == 0
    asked = "0.0.0.0" if group is None else str(group)
    if version == 2:
        said = IGMP(body)
        assert (len(body), said.type, said.gaddr) == (8, 0x11, asked)
    else:
        said = IGMP(body)[IGMPv3_MQ]
        assert (len(body), said.type, said.gaddr, said.srcaddrs) == (12, 0x11, asked, [])
        assert (said.qrv, said.qqic, said.s) == (3, 125, 0)
    assert body[1] == 100  # tenths of a second
    assert parse_frame(frame).records == ()


def test_a_query_for_a_groups_sources() -> None:
    group, sources = IPv4Address("239.192.0.9"), [SOURCE, IPv4Address("10.0.0.9")]
    frame = query(3, 1, SOURCE, 1, 125, group=group, group_sources=sources, suppresses=True)
    said = Ether(frame)[IGMPv3_MQ]
    assert (said.gaddr, said.numsrc, said.srcaddrs) == (str(group), 2, list(map(str, sources)))
    assert (said.s, said.mrcode) == (1, 10)


@pytest.mark.parametrize("seconds", [0.1, 1, 12.7, 12.8, 25.5])
def test_version_3_response_codes(seconds: float) -> None:
    """RFC 3376 4.1.1: (mant | 0x10) << (exp + 3) from 128 on; steps are 1/16 of the value."""
    code = query(3, seconds, SOURCE, 1, 125)[14 + 24 + 1]
    tenths = code if code < 128 else ((code & 0xF) | 0x10) << ((code >> 4 & 7) + 3)
    assert seconds * 10 * 15 / 16 <= tenths <= round(seconds * 10)


def test_query_bounds() -> None:
    with pytest.raises(ValueError, match=r"max_response_s is 25.6, not within 0.1..25.5"):
        query(3, 25.6, SOURCE, 1, 125)
    with pytest.raises(ValueError, match="version is 1, not 2 or 3"):
        query(1, 10, SOURCE, 1, 125)
