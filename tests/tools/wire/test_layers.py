"""The Scapy layers and the reader against the vectors, and against each other."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw
from tiercast_wire import (
    DATA_PORT,
    FEEDBACK_PORT,
    Tiercast,
    WireError,
    group_address,
    group_mac,
    group_of,
    parse,
)
from tiercast_wire.layers import LAYERS, RECORDS
from tiercast_wire.lua import DISSECTOR, with_table
from tiercast_wire.messages import DATA, MESSAGES, RECORD_COUNT, Field, Message, size

from . import make_vectors
from .vectors import DATA as DATA_FOLDER
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
BY_NAME = {message.name: message for message in MESSAGES}


def build(layer: str, parts: dict[str, Any], derived: bool) -> bytes:
    """Builds a message. With `derived`, it leaves out what the layers can derive (type, scheme,
    kind, header_length, record_count)."""
    left_out = {"type", "scheme", "header_length", RECORD_COUNT} if derived else set()
    if derived and BY_NAME[layer].kind is not None:
        left_out.add("kind")
    common = {name: value for name, value in parts["common"].items() if name not in left_out}
    fields = {name: value for name, value in parts["fields"].items() if name not in left_out}
    if "records" in parts:
        record = RECORDS[BY_NAME[layer].record_name]
        fields["records"] = [record(**one) for one in parts["records"]]
    packet = Tiercast(**common) / LAYERS[layer](**fields)
    if parts.get("payload"):
        packet = packet / Raw(bytes.fromhex(parts["payload"]))
    return bytes(packet)


def without_reserved(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if not name.startswith("reserved")}


def parts_of(packet: Packet) -> dict[str, Any]:
    """All fields in the form of the vectors. Reserved fields, which must be 0, are left out."""
    body = packet.payload
    fields = without_reserved(body.fields)
    parts: dict[str, Any] = {"common": dict(packet.fields), "fields": fields}
    if body.message.record:
        records = fields.pop("records")
        parts["records"] = [without_reserved(record.fields) for record in records]
    if body.message.type == DATA:
        parts["payload"] = bytes(body.payload).hex()
    return parts


def test_vectors_cover_every_error() -> None:
    assert {vector.error for vector in INVALID} == ERRORS
    assert len({vector.name for vector in VECTORS}) == len(VECTORS)


def test_vectors_cover_every_message_valid_and_not() -> None:
    for vectors in (VALID, INVALID):
        assert {vector.layer for vector in vectors} == BY_NAME.keys()


def test_vectors_are_those_that_the_script_makes(tmp_path: Path) -> None:
    make_vectors.main(tmp_path)
    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    stored = {path.name: path.read_text() for path in (DATA_FOLDER / "wire").iterdir()}
    assert made == stored


def test_the_dissector_has_this_table() -> None:
    text = DISSECTOR.read_text()
    renew = "run `../../.venv/bin/python -m tiercast_wire.lua` in tools/wire"
    assert with_table(text) == text, renew


# docs/wire-format.md states a message's size in the heading of its section.
def test_the_headings_of_the_docs_give_these_sizes() -> None:
    docs = (DATA_FOLDER.parents[1] / "docs" / "wire-format.md").read_text()
    headings = [line for line in docs.splitlines() if line.startswith("## ")]
    for message in MESSAGES:
        named = [
            heading
            for heading in headings
            if f", {message.fixed_bytes} bytes" in heading
            and (not message.record or f" records of {message.record_bytes}" in heading)
        ]
        assert named, (message.name, message.fixed_bytes, message.record_bytes)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.name)
def test_fields_are_aligned(message: Message) -> None:
    for fields, start in ((message.fields, 8), (message.record, 0)):
        offset = start
        for field in fields:
            if not field.is_reserved:
                assert offset % field.bytes == 0, field.name
            offset += field.bytes
        assert offset % 4 == 0


@pytest.mark.parametrize("vector", VALID, ids=str)
@pytest.mark.parametrize("derived", [False, True], ids=["all fields", "derived fields"])
def test_building_gives_the_bytes(vector: Vector, derived: bool) -> None:
    assert vector.parts is not None
    assert build(vector.layer, vector.parts, derived) == vector.message


@pytest.mark.parametrize("vector", VALID, ids=str)
def test_reading_gives_the_fields(vector: Vector) -> None:
    packet = parse(vector.message)
    assert packet.payload.name == vector.layer
    assert parts_of(packet) == vector.parts


@pytest.mark.parametrize("vector", INVALID, ids=str)
def test_what_is_wrong_is_named(vector: Vector) -> None:
    with pytest.raises(WireError) as caught:
        parse(vector.message, vector.scheme)
    assert caught.value.error == vector.error


@pytest.mark.parametrize("vector", VALID, ids=str)
def test_every_shorter_message_is_short_or_only_lacks_payload(vector: Vector) -> None:
    assert vector.parts is not None
    message = BY_NAME[vector.layer]
    needed = vector.parts["common"]["header_length"]
    needed += vector.parts["fields"].get(message.payload_length, 0)
    for end in range(len(vector.message)):
        if message.type == DATA and end >= needed:
            parse(vector.message[:end])
        else:
            with pytest.raises(WireError, match="short"):
                parse(vector.message[:end])


u8 = st.integers(0, 255)
sessions = st.integers(0, 32767)


def values(draw: st.DrawFn, fields: tuple[Field, ...]) -> dict[str, int]:
    return {
        field.name: draw(
            st.integers(
                field.least, 2 ** (8 * field.bytes) - 1 if field.most is None else field.most
            )
        )
        for field in fields
        if not field.is_reserved and field.name != RECORD_COUNT
    }


# For messages whose parts must fit together: changes any values so that they do.
def fit(message: Message, fields: dict[str, int], records: list[dict[str, int]]) -> None:
    if message.name == "RlaData":
        fields["base"] = (fields["seq"] - fields["base"] % 2**31) % 2**32
        fields["payload_length"] %= 65
        if fields["payload_length"] == 0:
            fields |= {"offset_high": 0, "offset_low": 0, "flags": fields["flags"] & ~2}
    if message.name == "PgmccFeedback" and fields["kind"] != 2:
        fields["missing"] = 0
    if message.name == "SimFeedback":
        for rank, record in zip(sorted({r["rank"] for r in records}), records, strict=False):
            record["rank"] = rank
        del records[len({r["rank"] for r in records}) :]
    at = 0
    for record in records:
        if message.name == "SimFeedback":
            names = ("congested", "reports", "receivers")
            record |= zip(names, sorted(record[name] for name in names), strict=True)
            names = ("min_cum_rate", "max_cum_rate")
            record |= zip(names, sorted(record[name] for name in names), strict=True)
        elif message.name == "RlaAck":
            start = fields["cum_ack"] + 1 + record["sack_start"] % (2**31 - 1)
            end = start + 1 + record["sack_end"] % (2**31 - 1)
            record |= {"sack_start": start % 2**32, "sack_end": end % 2**32}
        elif message.record_name == "MdpccSegments":
            record["first"] = at + record["first"] % 1000
            record["count"] = 1 + record["count"] % 2**25
            at = record["first"] + record["count"]
        elif message.name == "MldaSenderReport":
            record["rate"] = max(1, record["rate"])


@st.composite
def messages(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    message = draw(st.sampled_from(MESSAGES))
    fields = values(draw, message.fields)
    records: list[dict[str, int]] = []
    if message.record_count is not None:
        least, most = message.record_count.least, message.record_count.most
        for _ in range(draw(st.integers(least, min(most or 0, 8)))):
            records.append(values(draw, message.record))
    fit(message, fields, records)
    length = message.fixed_bytes + size(message.record) * len(records)
    common = dict(version=1, type=message.type, scheme=message.scheme, flags=0)
    common |= dict(header_length=length, session=draw(sessions))
    parts: dict[str, Any] = {"common": common, "fields": fields}
    if message.record:
        fields[RECORD_COUNT] = len(records)
        parts["records"] = records
    if message.type == DATA:
        least = fields["payload_length"] if message.payload_length else 0
        parts["payload"] = draw(st.binary(min_size=least, max_size=least + 64)).hex()
    return message.name, parts


@given(messages())
def test_round_trip(case: tuple[str, dict[str, Any]]) -> None:
    layer, parts = case
    message = build(layer, parts, derived=True)
    packet = parse(message)
    assert packet.payload.name == layer
    assert parts_of(packet) == parts
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
