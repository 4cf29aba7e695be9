"""Scapy layers: Tiercast / SimData / payload, and Tiercast / SimFeedback(records=[SimRecord(...)]).

They build and take apart what they are given, right or wrong; reader.parse() judges. What is left
out when a message is built: type and scheme follow from the layer above, header_length and
record_count from what is there.
"""

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
from scapy.packet import Packet, bind_layers

DATA_PORT = 5500
FEEDBACK_PORT = 5501
VERSION = 1
TYPE_DATA = 1
TYPE_FEEDBACK = 2
SCHEME_SIM = 1
TYPES = {TYPE_DATA: "data", TYPE_FEEDBACK: "feedback"}
SCHEMES = {
    SCHEME_SIM: "sim",
    2: "ermcc",
    3: "rla",
    4: "mlda",
    5: "mdpcc",
    6: "tfmcc",
    7: "pgmcc",
    8: "rlm",
}
COMMON_BYTES = 8
SIM_DATA_BYTES = 32  # with the common header, as the next one
SIM_FEEDBACK_BYTES = 28
SIM_RECORD_BYTES = 24
MAX_RECORDS = 8


class SimRecord(Packet):
    name = "SIM feedback record"
    fields_desc = [
        ByteField("rank", 0),
        X3BytesField("reserved", 0),
        IntField("reports", 1),
        IntField("congested", 0),
        IntField("min_cum_rate", 0),  # bytes/s
        IntField("max_cum_rate", 0),  # bytes/s
        IntField("receivers", 1),
    ]

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        return b"", s  # what follows is the next record


class SimFeedback(Packet):
    name = "SIM feedback"
    fields_desc = [
        IntField("source", 0),
        IntField("fb_req", 0),
        IntField("hold_us", 0),
        IntField("subtree_rtt_us", 0),
        FieldLenField("record_count", None, count_of="records", fmt="B"),
        X3BytesField("reserved", 0),
        PacketListField("records", [], SimRecord, count_from=lambda packet: packet.record_count),
    ]


class SimData(Packet):
    name = "SIM data"
    fields_desc = [
        ByteField("rank", 0),
        ByteField("reserved", 0),
        ShortField("rate_epoch", 0),
        IntField("seq", 0),
        IntField("tx_time_us", 0),
        IntField("fb_req", 0),
        IntField("group_rate", 0),  # bytes/s
        IntField("max_rtt_us", 0),
    ]


class Tiercast(Packet):
    name = "tiercast"
    fields_desc = [
        ByteField("version", VERSION),
        ByteEnumField("type", TYPE_DATA, TYPES),
        ByteEnumField("scheme", SCHEME_SIM, SCHEMES),
        ByteField("flags", 0),
        ShortField("header_length", None),  # bytes; None: as the message needs
        ShortField("session", 0),
    ]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        if self.header_length is None:
            if isinstance(self.payload, SimData):
                length = SIM_DATA_BYTES
            elif isinstance(self.payload, SimFeedback):
                length = SIM_FEEDBACK_BYTES + SIM_RECORD_BYTES * len(self.payload.records)
            else:
                length = COMMON_BYTES
            pkt = pkt[:4] + length.to_bytes(2, "big") + pkt[6:]
        return pkt + pay


bind_layers(UDP, Tiercast, dport=DATA_PORT)
bind_layers(UDP, Tiercast, dport=FEEDBACK_PORT)
bind_layers(Tiercast, SimData, type=TYPE_DATA, scheme=SCHEME_SIM)
bind_layers(Tiercast, SimFeedback, type=TYPE_FEEDBACK, scheme=SCHEME_SIM)
