"""The strict reader: the checks of "What is rejected" in docs/wire-format.md, in their order."""

from collections.abc import Callable
from types import SimpleNamespace

from tiercast_wire.group import MAX_SESSION
from tiercast_wire.layers import VERSION, Tiercast
from tiercast_wire.messages import (
    COMMON_BYTES,
    DATA,
    KIND_OFFSET,
    MESSAGES,
    RECORD_COUNT,
    TYPES,
    Field,
    Message,
    messages_of,
)

READABLE = sorted({message.scheme for message in MESSAGES})


class WireError(ValueError):
    """A message was rejected. `error` is the name of the reason in docs/wire-format.md."""

    def __init__(self, error: str, text: str) -> None:
        super().__init__(f"{error}: {text}")
        self.error = error


def parse(message: bytes, scheme: int | None = None) -> Tiercast:
    """Dissects a UDP payload into Scapy layers. If `scheme` is given, no other is accepted. Raises
    WireError."""
    _require_bytes(message, COMMON_BYTES, "the common header")
    common = Tiercast(message[:COMMON_BYTES])
    _require(common.version == VERSION, "version", common.version, f"{VERSION}")
    _require(common.type in TYPES, "type", common.type, f"one of {sorted(TYPES)}")
    schemes = READABLE if scheme is None else [scheme]
    _require(common.scheme in schemes, "scheme", common.scheme, f"one of {schemes}")
    _require(common.flags == 0, "flags", common.flags, "0")
    _require(common.session <= MAX_SESSION, "session", common.session, f"in 0..{MAX_SESSION}")
    _check(_find(message, common), message, common.header_length)
    return Tiercast(message)


def _find(message: bytes, common: Tiercast) -> Message:
    known = messages_of(common.scheme, common.type)
    _require(bool(known), "type", common.type, "one that the scheme has")
    if known[0].kind is None:
        return known[0]
    _require_bytes(message, KIND_OFFSET + 1, "the kind")
    kinds = {one.kind: one for one in known}
    kind = message[KIND_OFFSET]
    _require(kind in kinds, "type", kind, f"one of {sorted(map(str, kinds))}", "kind: ")
    return kinds[kind]


def _check(layout: Message, message: bytes, header_length: int) -> None:
    _require_bytes(message, layout.fixed_bytes, f"{layout.name}'s fixed part")
    values = _values(layout.fields, message[COMMON_BYTES:])
    if not layout.late_kind:
        _check_fields(layout.fields, values, "type")
    _check_fields(layout.fields, values, "record_count")
    records = getattr(values, RECORD_COUNT, 0)
    length = layout.fixed_bytes + layout.record_bytes * records
    _require(header_length == length, "length", header_length, f"{length}")
    if layout.type != DATA:
        _require_bytes(message, length, f"{records} records")
        if len(message) > length:
            raise WireError("length", f"{len(message) - length} bytes after the end")
    if layout.late_kind:
        _check_fields(layout.fields, values, "type")
    _check_fields(layout.fields, values, "rank")
    _check_fields(layout.fields, values, "reserved")
    if layout.payload_length:
        needed = length + getattr(values, layout.payload_length)
        _require_bytes(message, needed, layout.payload_length)
    _check_fields(layout.fields, values, "record")
    before = SimpleNamespace(**{field.name: -1 for field in layout.record})
    _obey(layout.rule, values, before, values, layout.name)
    for index in range(records):
        place = f"record {index}: "
        record = _values(layout.record, message[layout.fixed_bytes + index * layout.record_bytes :])
        _check_fields(layout.record, record, "rank", place)
        _check_fields(layout.record, record, "reserved", place)
        _obey(layout.record_rule, record, before, values, place)
        before = record


def _values(fields: tuple[Field, ...], message: bytes) -> SimpleNamespace:
    values, offset = {}, 0
    for field in fields:
        values[field.name] = int.from_bytes(message[offset : offset + field.bytes], "big")
        offset += field.bytes
    return SimpleNamespace(**values)


def _check_fields(
    fields: tuple[Field, ...], values: SimpleNamespace, error: str, place: str = ""
) -> None:
    for field in fields:
        if field.error == error and field.most is not None:
            value = getattr(values, field.name)
            right = field.least <= value <= field.most
            _require(right, error, value, f"in {field.least}..{field.most}", place)


def _obey(
    rule: str, r: SimpleNamespace, previous: SimpleNamespace, m: SimpleNamespace, place: str
) -> None:
    if rule and not _RULES[rule](r, previous, m):
        raise WireError("record", f"{place} {vars(r)} is against the rule {rule}")


def _newer(a: int, b: int) -> bool:
    return 0 < (a - b) % 2**32 < 2**31


def _bit(value: int, bit: int) -> bool:
    return value & bit != 0


# The rules are the text of the table.
_RULES: dict[str, Callable[[SimpleNamespace, SimpleNamespace, SimpleNamespace], bool]] = {
    rule: eval(f"lambda r, previous, m: {rule}", {"newer": _newer, "bit": _bit})
    for message in MESSAGES
    for rule in (message.rule, message.record_rule)
    if rule
}


def _require(right: bool, error: str, seen: int, valid: str, place: str = "") -> None:
    if not right:
        raise WireError(error, f"{place}{error} is {seen}, not {valid}")


def _require_bytes(message: bytes, needed: int, what: str) -> None:
    if len(message) < needed:
        raise WireError("short", f"{len(message)} bytes, where {what} ends at {needed}")
