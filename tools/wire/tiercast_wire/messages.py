"""All messages of docs/wire-format.md as a table, from which layers, reader and dissector are made.

A message consists of the common header, fixed fields, records of one size and, in data, a payload.
A rule is an expression that both Python and Lua understand: `r` is the message or record being
checked, `previous` the record before it (with all fields -1 before the first), `m` the record's
message; newer(a, b) compares 32-bit serial numbers, and bit(a, b) tests one bit.
"""

from dataclasses import dataclass
from pathlib import Path

DATA, FEEDBACK, CONTROL = 1, 2, 3
TYPES = {DATA: "data", FEEDBACK: "feedback", CONTROL: "control"}
LIST = Path(__file__).resolve().parents[3] / "protocols/schemes/schemes.txt"
SCHEMES = {
    int(number): name
    for number, name in (
        line.split() for line in LIST.read_text().splitlines() if not line.startswith("#")
    )
}
COMMON_BYTES = 8
MAX_RANK = 7
RECORD_COUNT = "record_count"
KIND_OFFSET = 8


@dataclass(frozen=True)
class Field:
    name: str
    bytes: int  # 1, 2, 3 (reserved) or 4
    default: int = 0
    least: int = 0
    most: int | None = None  # None: all values are valid
    error: str = ""  # for a value outside least..most

    @property
    def is_reserved(self) -> bool:
        return self.name.startswith("reserved")


@dataclass(frozen=True)
class Message:
    name: str
    scheme: int
    type: int
    fields: tuple[Field, ...]
    kind: int | None = None  # at KIND_OFFSET, if a scheme's type has several messages
    record: tuple[Field, ...] = ()
    record_name: str = ""
    rule: str = ""  # otherwise the error is "record"
    record_rule: str = ""  # otherwise the error is "record"
    late_kind: bool = False  # a field `kind` is checked after the length, not before record_count
    # the field with the number of bytes that must follow the header, else "short"
    payload_length: str = ""

    @property
    def fixed_bytes(self) -> int:
        return COMMON_BYTES + size(self.fields)

    @property
    def record_bytes(self) -> int:
        return size(self.record)

    @property
    def record_count(self) -> Field | None:
        return next((field for field in self.fields if field.name == RECORD_COUNT), None)


def size(fields: tuple[Field, ...]) -> int:
    return sum(field.bytes for field in fields)


def u8(name: str, default: int = 0) -> Field:
    return Field(name, 1, default)


def u16(name: str, default: int = 0) -> Field:
    return Field(name, 2, default)


def u32(name: str, default: int = 0) -> Field:
    return Field(name, 4, default)


def small(name: str, most: int, error: str = "reserved", least: int = 0) -> Field:
    return Field(name, 1, least, least, most, error)


def reserved(size_: int, name: str = "reserved") -> Field:
    """A reserved field. A message's second one needs another `name`."""
    return Field(name, size_, 0, 0, 0, "reserved")


def kind(value: int) -> Field:
    return Field("kind", 1, value, value, value, "type")


def count(most: int, least: int = 0) -> Field:
    return Field(RECORD_COUNT, 1, 0, least, most, "record_count")


RANK = small("rank", MAX_RANK, "rank")
_NUMBERS = {name: number for number, name in SCHEMES.items()}
SIM, ERMCC, RLA, MLDA, MDPCC, TFMCC, PGMCC, RLM, RLC, PLM = (
    _NUMBERS[name]
    for name in ("sim", "ermcc", "rla", "mlda", "mdpcc", "tfmcc", "pgmcc", "rlm", "rlc", "plm")
)

_SIM = (
    Message(
        "SimData",
        SIM,
        DATA,
        (
            *(RANK, reserved(1), u16("rate_epoch"), u32("seq"), u32("tx_time_us"), u32("fb_req")),
            *(u32("group_rate"), u32("max_rtt_us")),
        ),
    ),
    Message(
        "SimFeedback",
        SIM,
        FEEDBACK,
        (
            *(u32("source"), u32("fb_req"), u32("hold_us"), u32("subtree_rtt_us")),
            *(count(8), reserved(3)),
        ),
        record=(
            *(RANK, reserved(3), u32("reports", 1), u32("congested"), u32("min_cum_rate")),
            *(u32("max_cum_rate"), u32("receivers", 1)),
        ),
        record_name="SimRecord",
        record_rule="r.rank > previous.rank and r.congested <= r.reports"
        " and r.reports <= r.receivers and r.min_cum_rate <= r.max_cum_rate",
    ),
)

_ERMCC = (
    Message(
        "ErmccData",
        ERMCC,
        DATA,
        (
            *(small("cr_valid", 1, "record"), reserved(3), u32("seq"), u32("cr"), u32("mu_hat")),
            *(u32("sigma_hat"), u32("ask_from"), u32("ask_share", 0xFFFFFFFF)),
        ),
    ),
    Message(
        "ErmccFeedback",
        ERMCC,
        FEEDBACK,
        (
            *(small("kind", 2, "type", least=1), reserved(3), u32("source"), u32("seq")),
            *(u32("omega"), u32("mu"), u32("sigma")),
        ),
    ),
)

_RLA = (
    Message(
        "RlaData",
        RLA,
        DATA,
        (
            *(small("flags", 7), reserved(1), u16("payload_length"), u32("seq")),
            # The offset in the object has 64 bits.
            *(u32("tx_time_us"), u32("base"), u32("offset_high"), u32("offset_low")),
        ),
        rule="not newer(r.base, r.seq) and (r.payload_length > 0 or"
        " (r.offset_high == 0 and r.offset_low == 0 and not bit(r.flags, 2)))",
        payload_length="payload_length",
    ),
    Message(
        "RlaAck",
        RLA,
        FEEDBACK,
        (
            *(small("flags", 15), count(3), u16("rwnd"), u32("source"), u32("cum_ack")),
            *(u32("echo_time_us"),),
        ),
        record=(u32("sack_start"), u32("sack_end")),  # start and end, but `end` is a keyword in Lua
        record_name="RlaSack",
        record_rule="newer(r.sack_end, r.sack_start) and newer(r.sack_start, m.cum_ack)"
        " and newer(r.sack_end, m.cum_ack)",
    ),
)

_MLDA = (
    Message(
        "MldaData",
        MLDA,
        DATA,
        (RANK, small("pair", 2), reserved(2), u32("seq"), u32("tx_time_us")),
    ),
    Message(
        "MldaSenderReport",
        MLDA,
        CONTROL,
        (kind(1), count(8, 1), reserved(2), u32("sr_seq"), u32("tx_time_us"), u32("max_rtt_us")),
        kind=1,
        record=(u32("rate", 1),),
        record_name="MldaLayer",
        record_rule="r.rate > 0",
    ),
    Message(
        "MldaReceiverReport",
        MLDA,
        FEEDBACK,
        (
            *(RANK, small("asks_rtt", 1), reserved(2), u32("source"), u32("sr_seq"), u32("rate")),
            *(u32("loss"), u32("rtt_us"), u32("rx_time_us")),
        ),
    ),
    Message(
        "MldaReflection",
        MLDA,
        CONTROL,
        (
            *(kind(2), RANK, small("asks_rtt", 1), reserved(1), u32("source"), u32("sr_seq")),
            *(u32("rate"), u32("rx_time_us"), u32("tx_time_us")),
        ),
        kind=2,
    ),
)

_REPORT = (
    *(u8("flags"), u16("probe_seq"), u32("source"), u32("response_us"), u32("loss"), u32("rate")),
    *(u32("received_rate"), u32("rtt_us")),
)
_NACK = (count(64), u16("object_id"), u32("source"))
_SEGMENTS = (u32("first"), u32("count", 1))
_SEGMENTS_RULE = (
    "r.count > 0 and r.first + r.count <= 4294967295 and r.first >= previous.first + previous.count"
)
_MDPCC = (
    Message(
        "MdpccData",
        MDPCC,
        DATA,
        (
            *(u16("object_id"), u16("segment_size"), u32("seq"), u32("segment")),
            *(u32("segment_count"), u16("payload_length"), reserved(2)),
        ),
    ),
    Message(
        "MdpccProbe",
        MDPCC,
        CONTROL,
        (
            *(kind(1), count(5), u16("probe_seq"), u32("tx_time_us"), u32("grtt_us")),
            *(u32("tx_rate"), u16("group_size", 1), u8("backoff", 4), reserved(1)),
            *(u16("object_id"), u16("segment_size"), u32("segment_count"), u32("next_segment")),
        ),
        kind=1,
        record=(u32("receiver"), u32("rtt_us"), u32("rate"), u8("flags"), reserved(3)),
        record_name="MdpccRepresentative",
    ),
    Message("MdpccReport", MDPCC, FEEDBACK, (kind(1), *_REPORT), kind=1),
    Message("MdpccReportReflection", MDPCC, CONTROL, (kind(2), *_REPORT), kind=2),
    Message(
        *("MdpccNack", MDPCC, FEEDBACK, (kind(2), *_NACK)),
        kind=2,
        record=_SEGMENTS,
        record_name="MdpccSegments",
        record_rule=_SEGMENTS_RULE,
    ),
    Message(
        *("MdpccNackReflection", MDPCC, CONTROL, (kind(3), *_NACK)),
        kind=3,
        record=_SEGMENTS,
        record_name="MdpccSegments",
        record_rule=_SEGMENTS_RULE,
    ),
)

_TFMCC = (
    Message(
        "TfmccData",
        TFMCC,
        DATA,
        (
            *(small("echo_valid", 1, "record"), small("is_clr", 1, "record"), reserved(2)),
            *(u32("seq"), u32("tx_time_us"), u16("fb_round"), reserved(2, "reserved_2")),
            *(u32("supp_rate", 0xFFFFFFFF), u32("max_rtt_us")),
            *(u32("echo_source"), u32("echo_time_us")),
        ),
    ),
    Message(
        "TfmccFeedback",
        TFMCC,
        FEEDBACK,
        (
            *(small("have_rtt", 1, "record"), small("have_loss", 1, "record")),
            *(small("leave", 1, "record"), reserved(1), u32("source"), u16("fb_round")),
            *(reserved(2, "reserved_2"), u32("rate"), u32("time_us"), u32("echo_time_us")),
        ),
    ),
)

_PGMCC = (
    Message(
        "PgmccData",
        PGMCC,
        DATA,
        (small("has_acker", 1), reserved(3), u32("seq"), u32("tx_time_us"), u32("acker")),
    ),
    Message(
        "PgmccFeedback",
        PGMCC,
        FEEDBACK,
        (
            *(small("kind", 4, "type", least=1), reserved(3), u32("source"), u32("rx_max")),
            *(u32("bitmap"), u32("echo_time_us"), u32("hold_us"), u32("loss"), u32("missing")),
        ),
        rule="r.kind == 2 or r.missing == 0",
        late_kind=True,
    ),
    Message(
        "PgmccConfirmation",
        PGMCC,
        CONTROL,
        (kind(1), reserved(3), u32("source"), u32("missing")),
        late_kind=True,
    ),
)

_ANNOUNCEMENT = (RANK, reserved(3), u32("source"))
_RLM = (
    Message("RlmData", RLM, DATA, (RANK, reserved(3), u32("seq"))),
    Message("RlmAnnouncement", RLM, FEEDBACK, _ANNOUNCEMENT),
    Message("RlmAnnouncementReflection", RLM, CONTROL, _ANNOUNCEMENT),
)

_RLC = (Message("RlcData", RLC, DATA, (RANK, small("sync_point", 1), reserved(2), u32("seq"))),)
_PLM = (
    Message(
        "PlmData", PLM, DATA, (RANK, small("pair", 2, "record", least=1), reserved(2), u32("seq"))
    ),
)

MESSAGES = (*_SIM, *_ERMCC, *_RLA, *_MLDA, *_MDPCC, *_TFMCC, *_PGMCC, *_RLM, *_RLC, *_PLM)


def messages_of(scheme: int, type_: int) -> list[Message]:
    return [one for one in MESSAGES if (one.scheme, one.type) == (scheme, type_)]
