"""The strict reader of SIM messages: docs/wire-format.md, "What is rejected", check by check."""

from tiercast_wire.group import MAX_RANK, MAX_SESSION
from tiercast_wire.layers import (
    COMMON_BYTES,
    MAX_RECORDS,
    SCHEME_SIM,
    SIM_DATA_BYTES,
    SIM_FEEDBACK_BYTES,
    SIM_RECORD_BYTES,
    TYPE_DATA,
    TYPES,
    VERSION,
    SimData,
    SimFeedback,
    SimRecord,
    Tiercast,
)


class WireError(ValueError):
    """A message was rejected; `error` is its name in docs/wire-format.md."""

    def __init__(self, error: str, text: str) -> None:
        super().__init__(f"{error}: {text}")
        self.error = error


def parse(message: bytes) -> Tiercast:
    """A UDP payload as Scapy layers. Raises WireError."""
    _require_bytes(message, COMMON_BYTES, "the common header")
    common = Tiercast(message[:COMMON_BYTES])
    _require(common.version == VERSION, "version", common.version, f"{VERSION}")
    _require(common.type in TYPES, "type", common.type, f"one of {sorted(TYPES)}")
    _require(common.scheme == SCHEME_SIM, "scheme", common.scheme, f"{SCHEME_SIM} (SIM)")
    _require(common.flags == 0, "flags", common.flags, "0")
    _require(common.session <= MAX_SESSION, "session", common.session, f"in 0..{MAX_SESSION}")
    if common.type == TYPE_DATA:
        return _parse_data(message, common)
    return _parse_feedback(message, common)


def _parse_data(message: bytes, common: Tiercast) -> Tiercast:
    _require_bytes(message, SIM_DATA_BYTES, "SIM's data header")
    _require(
        common.header_length == SIM_DATA_BYTES, "length", common.header_length, f"{SIM_DATA_BYTES}"
    )
    packet = Tiercast(message)
    data = packet[SimData]
    _require(data.rank <= MAX_RANK, "rank", data.rank, f"in 0..{MAX_RANK}")
    _require(data.reserved == 0, "reserved", data.reserved, "0")
    return packet


def _parse_feedback(message: bytes, common: Tiercast) -> Tiercast:
    _require_bytes(message, SIM_FEEDBACK_BYTES, "SIM's feedback header")
    count = SimFeedback(message[COMMON_BYTES:SIM_FEEDBACK_BYTES]).record_count
    _require(count <= MAX_RECORDS, "record_count", count, f"in 0..{MAX_RECORDS}")
    length = SIM_FEEDBACK_BYTES + SIM_RECORD_BYTES * count
    _require(
        common.header_length == length,
        "length",
        common.header_length,
        f"{length} with {count} records",
    )
    _require_bytes(message, length, f"{count} records")
    if len(message) > length:
        raise WireError("length", f"{len(message) - length} bytes after the last record")
    packet = Tiercast(message)
    feedback = packet[SimFeedback]
    _require(feedback.reserved == 0, "reserved", feedback.reserved, "0")
    rank_before = -1
    for index, record in enumerate(feedback.records):
        _check_record(record, rank_before, f"record {index}: ")
        rank_before = record.rank
    return packet


def _check_record(record: SimRecord, rank_before: int, place: str) -> None:
    _require(record.rank <= MAX_RANK, "rank", record.rank, f"in 0..{MAX_RANK}", place)
    _require(record.reserved == 0, "reserved", record.reserved, "0", place)
    if record.rank <= rank_before:
        raise WireError("record", f"{place}rank {record.rank} after rank {rank_before}")
    if not record.congested <= record.reports <= record.receivers:
        raise WireError(
            "record",
            f"{place}{record.congested} congested of {record.reports} reports "
            f"of {record.receivers} receivers",
        )
    if record.min_cum_rate > record.max_cum_rate:
        raise WireError(
            "record",
            f"{place}min_cum_rate {record.min_cum_rate} above max_cum_rate {record.max_cum_rate}",
        )


def _require(right: bool, error: str, seen: int, valid: str, place: str = "") -> None:
    if not right:
        raise WireError(error, f"{place}{error} is {seen}, not {valid}")


def _require_bytes(message: bytes, needed: int, what: str) -> None:
    if len(message) < needed:
        raise WireError("short", f"{len(message)} bytes, where {what} ends at {needed}")
