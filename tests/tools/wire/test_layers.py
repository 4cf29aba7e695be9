"""The Scapy layers and the reader against the vectors, and against each other."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import NoPayload, Packet, Raw
from tiercast_wire import (
    DATA_PORT,
    FEEDBACK_PORT,
    SimData,
    SimFeedback,
    SimRecord,
    Tiercast,
    WireError,
    group_address,
    group_mac,
    group_of,
    parse,
)

from .vectors import GROUPS, INVALID, NOT_GROUPS, VALID, VECTORS, Vector

ERRORS = {
    "short",
    "version",
    "type",
    "scheme",
    "flags",
    "session",
    "record_count",
    "length",
    "rank",
    "reserved",
    "record",
}
DATA_TYPE = 1


def only(layer: type[Packet], fields: dict[str, Any]) -> dict[str, Any]:
    """Those of the fields that the layer has."""
    names = {field.name for field in layer.fields_desc}
    return {name: value for name, value in fields.items() if name in names}


def build(fields: dict[str, Any], derived: bool) -> bytes:
    """derived: leave out what the layers can derive (type, scheme, header_length, record_count)."""
    left_out = {"type", "scheme", "header_length", "record_count"} if derived else set()
    given_fields = {name: value for name, value in fields.items() if name not in left_out}
    common = Tiercast(**only(Tiercast, given_fields))
    if fields["type"] == DATA_TYPE:
        above: Packet = SimData(**only(SimData, given_fields))
        if fields["payload"]:
            above = above / Raw(bytes.fromhex(fields["payload"]))
    else:
        records = [SimRecord(**record) for record in fields["records"]]
        above = SimFeedback(**{**only(SimFeedback, given_fields), "records": records})
    return bytes(common / above)


def fields_of(packet: Packet) -> dict[str, Any]:
    """All fields in the form of the vectors; reserved ones, which must be 0, are left out."""
    seen: dict[str, Any] = {}
    layer = packet
    while not isinstance(layer, NoPayload | Raw):
        seen |= layer.fields
        layer = layer.payload
    if SimFeedback in packet:
        seen["records"] = [dict(record.fields) for record in packet[SimFeedback].records]
        for record in seen["records"]:
            del record["reserved"]
    else:
        seen["payload"] = bytes(packet[SimData].payload).hex()
    del seen["reserved"]
    return seen


def test_vectors_cover_every_error() -> None:
    assert {vector.error for vector in INVALID} == ERRORS
    assert len({vector.name for vector in VECTORS}) == len(VECTORS)


@pytest.mark.parametrize("vector", VALID, ids=str)
@pytest.mark.parametrize("derived", [False, True], ids=["all fields", "derived fields"])
def test_building_gives_the_bytes(vector: Vector, derived: bool) -> None:
    assert build(vector.fields, derived) == vector.message


@pytest.mark.parametrize("vector", VALID, ids=str)
def test_reading_gives_the_fields(vector: Vector) -> None:
    assert fields_of(parse(vector.message)) == vector.fields


@pytest.mark.parametrize("vector", INVALID, ids=str)
def test_what_is_wrong_is_named(vector: Vector) -> None:
    with pytest.raises(WireError) as caught:
        parse(vector.message)
    assert caught.value.error == vector.error


@pytest.mark.parametrize("vector", VALID, ids=str)
def test_every_shorter_message_is_short_or_only_lacks_payload(vector: Vector) -> None:
    for size in range(len(vector.message)):
        if vector.fields["type"] == DATA_TYPE and size >= vector.fields["header_length"]:
            parse(vector.message[:size])
        else:
            with pytest.raises(WireError, match="short"):
                parse(vector.message[:size])


u8, u16, u32 = (st.integers(0, 2**bits - 1) for bits in (8, 16, 32))
sessions = st.integers(0, 32767)


@st.composite
def data_messages(draw: st.DrawFn) -> dict[str, Any]:
    numbers = {name: draw(u32) for name in ("seq", "tx_time_us", "fb_req")}
    return {
        **dict(version=1, type=1, scheme=1, flags=0, header_length=32, session=draw(sessions)),
        **dict(rank=draw(st.integers(0, 7)), rate_epoch=draw(u16), **numbers),
        **dict(group_rate=draw(u32), max_rtt_us=draw(u32)),
        "payload": draw(st.binary(max_size=64)).hex(),
    }


@st.composite
def feedback_messages(draw: st.DrawFn) -> dict[str, Any]:
    records = []
    for rank in sorted(draw(st.sets(st.integers(0, 7)))):
        congested, reports, receivers = sorted(draw(st.tuples(u32, u32, u32)))
        low, high = sorted(draw(st.tuples(u32, u32)))
        records.append(
            dict(rank=rank, reports=reports, congested=congested, receivers=receivers)
            | dict(min_cum_rate=low, max_cum_rate=high)
        )
    count = len(records)
    return {
        **dict(version=1, type=2, scheme=1, flags=0, header_length=28 + 24 * count),
        **dict(session=draw(sessions), source=draw(u32), fb_req=draw(u32), hold_us=draw(u32)),
        **dict(subtree_rtt_us=draw(u32), record_count=count, records=records),
    }


@given(st.one_of(data_messages(), feedback_messages()))
def test_round_trip(fields: dict[str, Any]) -> None:
    message = build(fields, derived=True)
    packet = parse(message)
    assert fields_of(packet) == fields
    assert bytes(packet) == message


def assert_read_or_rejected(message: bytes) -> None:
    try:
        packet = parse(message)
    except WireError as error:
        assert error.error in ERRORS
    else:
        assert bytes(packet) == message


@given(st.binary(max_size=256))
def test_any_bytes_are_read_or_rejected(message: bytes) -> None:
    assert_read_or_rejected(message)


@given(
    st.sampled_from([vector.message for vector in VALID]),
    st.lists(st.tuples(st.integers(0, 51), u8), min_size=1, max_size=3),
)
def test_changed_messages_are_read_or_rejected(
    message: bytes, changes: list[tuple[int, int]]
) -> None:
    changed = bytearray(message)
    for offset, value in changes:
        changed[offset % len(changed)] = value
    assert_read_or_rejected(bytes(changed))


@pytest.mark.parametrize("port", [DATA_PORT, FEEDBACK_PORT])
@pytest.mark.parametrize("vector", VALID, ids=str)
def test_a_frame_is_taken_apart_by_its_udp_port(vector: Vector, port: int) -> None:
    frame = Ether() / IP(dst="10.0.0.2") / UDP(sport=1234, dport=port) / Raw(vector.message)
    assert bytes(Ether(bytes(frame))[Tiercast]) == vector.message


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group["address"])
def test_groups(group: dict[str, Any]) -> None:
    assert str(group_address(group["session"], group["rank"])) == group["address"]
    assert group_of(group["address"]) == (group["session"], group["rank"])
    assert group_mac(group["address"]) == group["mac"]


@pytest.mark.parametrize("address", NOT_GROUPS)
def test_other_addresses_are_no_groups(address: str) -> None:
    assert group_of(address) is None


@pytest.mark.parametrize("session, rank", [(-1, 0), (32768, 0), (0, -1), (0, 8)])
def test_groups_out_of_range(session: int, rank: int) -> None:
    with pytest.raises(ValueError, match=r"not in 0\.\."):
        group_address(session, rank)


@given(sessions, st.integers(0, 7))
def test_group_round_trip(session: int, rank: int) -> None:
    assert group_of(group_address(session, rank)) == (session, rank)
