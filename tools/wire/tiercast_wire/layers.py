"""Scapy layers, one for each message in messages.py: Tiercast / SimData / payload, Tiercast /
SimFeedback(records=[SimRecord(...)]), Tiercast / MdpccProbe(...), and so on.

They build and dissect whatever they are given, valid or not; reader.parse() checks it. Fields that
are left out when a message is built are filled in: type, scheme and kind from the layer above,
header_length and record_count from the contents.
"""

from typing import Any

from scapy.fields import (
    ByteEnumField,
    ByteField,
    FieldLenField,
    IntField,
    PacketListField,
    ShortField,
    X3BytesField,
)
from scapy.layers.inet import UDP
from scapy.packet import Packet, Raw, bind_layers, bind_top_down

from tiercast_wire.messages import (
    COMMON_BYTES,
    DATA,
    KIND_OFFSET,
    MESSAGES,
    RECORD_COUNT,
    SCHEMES,
    SIM,
    TYPES,
    Field,
    Message,
    messages_of,
)

DATA_PORT = 5500
FEEDBACK_PORT = 5501
VERSION = 1
_FIELDS = {1: ByteField, 2: ShortField, 3: X3BytesField, 4: IntField}


class Tiercast(Packet):
    name = "tiercast"
    fields_desc = [
        ByteField("version", VERSION),
        ByteEnumField("type", DATA, TYPES),
        ByteEnumField("scheme", SIM, SCHEMES),
        ByteField("flags", 0),
        ShortField("header_length", None),  # bytes; None: as many as the message needs
        ShortField("session", 0),
    ]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        if self.header_length is None:
            message = getattr(self.payload, "message", None)
            length = COMMON_BYTES
            if message is not None:
                records = self.payload.records if message.record else []
                length = message.fixed_bytes + message.record_bytes * len(records)
            pkt = pkt[:4] + length.to_bytes(2, "big") + pkt[6:]
        return pkt + pay

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        for message in messages_of(self.scheme, self.type):
            at = KIND_OFFSET - COMMON_BYTES
            if message.kind is None or payload[at : at + 1] == bytes([message.kind]):
                return LAYERS[message.name]
        return Raw


class Record(Packet):
    """What the records of all messages have in common."""

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        return b"", s  # the rest is the next record


def _descriptions(fields: tuple[Field, ...]) -> list[Any]:
    return [_FIELDS[field.bytes](field.name, field.default) for field in fields]


def _layer(message: Message) -> type[Packet]:
    described: list[Any] = _descriptions(message.fields)
    if message.record:
        record = RECORDS.setdefault(
            message.record_name,
            type(
                message.record_name,
                (Record,),
                {"name": message.record_name, "fields_desc": _descriptions(message.record)},
            ),
        )
        described = [
            FieldLenField(RECORD_COUNT, None, count_of="records", fmt="B")
            if one.name == RECORD_COUNT
            else one
            for one in described
        ]
        described.append(
            PacketListField("records", [], record, count_from=lambda packet: packet.record_count)
        )
    body = {"name": message.name, "fields_desc": described, "message": message}
    layer: type[Packet] = type(message.name, (Packet,), body)
    bind_top_down(Tiercast, layer, type=message.type, scheme=message.scheme)
    return layer


RECORDS: dict[str, type[Packet]] = {}
LAYERS: dict[str, type[Packet]] = {message.name: _layer(message) for message in MESSAGES}

SimData = LAYERS["SimData"]
SimFeedback = LAYERS["SimFeedback"]
SimRecord = RECORDS["SimRecord"]

bind_layers(UDP, Tiercast, dport=DATA_PORT)
bind_layers(UDP, Tiercast, dport=FEEDBACK_PORT)
