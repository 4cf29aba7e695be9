"""A compiled P4 program: translates names to P4Runtime ids and back.

This file turns an entry named in Python into a message. No id is written in code: all of them come
from P4Info, so another program with the same names works unchanged.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar

from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2
from tiercast.v1 import simulation_pb2

from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.p4runtime import manifest as manifests
from tiercast_controller.p4runtime.entities import Between, Masked, MatchValue, TableEntry
from tiercast_controller.p4runtime.manifest import Manifest, ManifestFile


def encode(value: int, bitwidth: int, what: str) -> bytes:
    """The canonical byte string of P4Runtime 8.4: big endian, no leading zero bytes, not empty."""
    if not 0 <= value < 1 << bitwidth:
        raise ConfigurationError(f"{what}: {value} does not fit bit<{bitwidth}>")
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def decode(value: bytes) -> int:
    return int.from_bytes(value, "big")


# The kinds of objects in P4Info.
_Object = TypeVar(
    "_Object",
    p4info_pb2.Table,
    p4info_pb2.Action,
    p4info_pb2.Counter,
    p4info_pb2.Meter,
    p4info_pb2.Register,
    p4info_pb2.ControllerPacketMetadata,
)
_Field = TypeVar(
    "_Field",
    p4info_pb2.MatchField,
    p4info_pb2.Action.Param,
    p4info_pb2.ControllerPacketMetadata.Metadata,
)
_Item = TypeVar("_Item")


class _Names(Generic[_Item]):
    """The objects of one kind, by full name or, if it is unique, by the last part of the name."""

    def __init__(self, kind: str, items: Iterable[tuple[str, int, _Item]]):
        self.kind = kind
        self._by_name: dict[str, _Item] = {}
        self._names: list[str] = []
        self.by_id: dict[int, _Item] = {}
        self.short: dict[int, str] = {}
        short_count: dict[str, int] = {}
        items = list(items)
        for name, _, _ in items:
            tail = name.rsplit(".", 1)[-1]
            short_count[tail] = short_count.get(tail, 0) + 1
        for name, identifier, item in items:
            tail = name.rsplit(".", 1)[-1]
            self._by_name[name] = item
            if short_count[tail] == 1:
                self._by_name[tail] = item
            self.by_id[identifier] = item
            self.short[identifier] = tail if short_count[tail] == 1 else name
            self._names.append(self.short[identifier])

    def __getitem__(self, name: str) -> _Item:
        try:
            return self._by_name[name]
        except KeyError:
            choices = ", ".join(sorted(self._names)) or "none"
            near = difflib.get_close_matches(name, self._names, 1)
            meant = f" (did you mean {near[0]!r}?)" if near else ""
            raise ConfigurationError(
                f"{self.kind} {name!r} is not in the P4 program; it has: {choices}{meant}"
            ) from None

    def __contains__(self, name: str) -> bool:
        return name in self._by_name


class Program:
    """P4Info, bmv2 JSON and manifest of one program. Immutable."""

    def __init__(
        self,
        p4info: p4info_pb2.P4Info,
        device_config: bytes,
        described: ManifestFile | None = None,
        name: str = "the P4 program",
    ):
        """`described` None: the manifest of our own program. `name` is for messages."""
        self.name = name
        self.p4info = p4info
        self.described = described or manifests.own()
        self.device_config = device_config
        self._tables = _of_preamble("table", p4info.tables)
        self._actions = _of_preamble("action", p4info.actions)
        self._counters = _of_preamble("counter", p4info.counters)
        self._meters = _of_preamble("meter", p4info.meters)
        self._registers = _of_preamble("register", p4info.registers)
        self._packet_headers = _of_preamble("packet header", p4info.controller_packet_metadata)
        self._match_fields = {
            t.preamble.id: _of_fields(f"match field of table {t.preamble.name}", t.match_fields)
            for t in p4info.tables
        }
        self._params = {
            a.preamble.id: _of_fields(f"parameter of action {a.preamble.name}", a.params)
            for a in p4info.actions
        }
        self._metadata = {
            h.preamble.name: _of_fields(f"field of {h.preamble.name}", h.metadata)
            for h in p4info.controller_packet_metadata
        }

    @classmethod
    def load(
        cls,
        json: Path | str,
        p4info: Path | str,
        manifest: Path | str | None = None,
        name: str | None = None,
    ) -> Program:
        """Reads p4c's outputs, and the manifest if there is one. `name` is for messages; None: the
        JSON's path. Raises ConfigurationError with the file's name."""
        try:
            text = Path(p4info).read_text(encoding="utf-8")
            device_config = Path(json).read_bytes()
        except OSError as error:
            raise ConfigurationError(f"{error.filename}: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise ConfigurationError(
                f"{p4info}: not P4Info text: byte {error.start} is {error.object[error.start]:#04x}"
                ", which is no UTF-8; valid: what p4c writes with --p4runtime-files FILE.p4info.txt"
            ) from None
        try:
            message = text_format.Parse(text, p4info_pb2.P4Info())
        except text_format.ParseError as error:
            raise ConfigurationError(f"{p4info}: not P4Info text: {error}") from None
        return cls(message, device_config, _described(manifest), name or str(json))

    @property
    def is_psa(self) -> bool:
        """Whether it is for the Portable Switch Architecture. p4c's P4Info says v1model even so."""
        return b'"psa_ingress_input_metadata"' in self.device_config

    @cached_property
    def arrays(self) -> list[str]:
        """The names of its register arrays, as the switch knows them. p4c's P4Info of a PSA program
        leaves them out. Raises ConfigurationError."""
        try:
            return [str(one["name"]) for one in json.loads(self.device_config)["register_arrays"]]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ConfigurationError(
                f"{self.name}: no bmv2 JSON: {type(error).__name__}: {error}; valid: what p4c "
                "writes with -o FILE.json"
            ) from None

    @property
    def manifest(self) -> Manifest:
        return self.described.manifest

    def table(self, name: str) -> p4info_pb2.Table:
        return self._tables[name]

    def has_table(self, name: str) -> bool:
        return name in self._tables

    def has_action(self, name: str) -> bool:
        return name in self._actions

    def has_register(self, name: str) -> bool:
        return name in self._registers

    def has_counter(self, name: str) -> bool:
        return name in self._counters

    def short_table(self, table: p4info_pb2.Table) -> str:
        return self._tables.short[table.preamble.id]

    def field(self, table: p4info_pb2.Table, name: str) -> tuple[str, p4info_pb2.MatchField]:
        """A field of a table's key, with the name that entries read back have."""
        fields = self._match_fields[table.preamble.id]
        found = fields[name]
        return fields.short[found.id], found

    def action(self, table: p4info_pb2.Table, name: str) -> tuple[str, p4info_pb2.Action]:
        """An action of a table, with the name that entries read back have."""
        found = self._action_of(table, name)
        return self._actions.short[found.preamble.id], found

    def short_action(self, number: int) -> str:
        return self._actions.short[number]

    def param(self, action: p4info_pb2.Action, name: str) -> p4info_pb2.Action.Param:
        return self._params[action.preamble.id][name]

    def short_register(self, name: str) -> str:
        return self._registers.short[self._registers[name].preamble.id]

    def require_packet_field(self, header: str, field: str) -> None:
        self._header(header)[field]

    @property
    def cookie(self) -> int:
        """Identifies this program on a switch: 64 bits of a hash over both files."""
        digest = hashlib.sha256(self.device_config)
        digest.update(self.p4info.SerializeToString(deterministic=True))
        return int.from_bytes(digest.digest()[:8], "big")

    def table_id(self, table: str) -> int:
        return self._tables[table].preamble.id

    def counter_id(self, counter: str) -> int:
        return self._counters[counter].preamble.id

    def meter_id(self, meter: str) -> int:
        return self._meters[meter].preamble.id

    def has_meter(self, name: str) -> bool:
        return name in self._meters

    def register_id(self, register: str) -> int:
        return self._registers[register].preamble.id

    def register_cells(self, register: str) -> int:
        """The number of cells of a register array."""
        return self._registers[register].size

    def counter_cells(self, counter: str) -> int:
        """The number of cells of an indexed counter."""
        return self._counters[counter].size

    def full_register(self, register: str) -> str:
        """The name that the switch knows it by."""
        return self._registers[register].preamble.name

    def full_counter(self, counter: str) -> str:
        return self._counters[counter].preamble.name

    def register_bits(self, register: str) -> int:
        """Of one cell."""
        return self._registers[register].type_spec.bitstring.bit.bitwidth

    def action_bits(self, entry: TableEntry) -> int:
        """Of the data of the entry's action."""
        action = self._action_of(self._tables[entry.table], entry.action)
        return sum(param.bitwidth for param in action.params)

    def _action_of(self, table: p4info_pb2.Table, name: str) -> p4info_pb2.Action:
        """The action of this name. Raises ConfigurationError if the table has no such action."""
        if name in self._actions:
            action = self._actions[name]
            if any(one.id == action.preamble.id for one in table.action_refs):
                return action
        choices = ", ".join(sorted(self._actions.short[one.id] for one in table.action_refs))
        raise ConfigurationError(
            f"table {self._tables.short[table.preamble.id]} of the P4 program has no action "
            f"{name!r}; it has: {choices}"
        )

    def encode_entry(self, entry: TableEntry) -> p4runtime_pb2.TableEntry:
        """The entry as a message. Raises ConfigurationError if a name is unknown or a value too
        wide."""
        table = self._tables[entry.table]
        fields = self._match_fields[table.preamble.id]
        message = p4runtime_pb2.TableEntry(table_id=table.preamble.id)
        for name, value in entry.match:
            field = fields[name]
            _add_match(message, field, value, f"{entry.table}.{name}")
        message.priority = entry.priority
        if len(entry.match) != len(table.match_fields):
            wanted = ", ".join(f.name for f in table.match_fields)
            raise ConfigurationError(f"{entry}: table {entry.table} needs {wanted}")
        action = self._action_of(table, entry.action)
        params = self._params[action.preamble.id]
        message.action.action.action_id = action.preamble.id
        for name, value in entry.params:
            param = params[name]
            message.action.action.params.add(
                param_id=param.id, value=encode(value, param.bitwidth, f"{entry.action}.{name}")
            )
        if len(entry.params) != len(action.params):
            wanted = ", ".join(p.name for p in action.params) or "no parameter"
            raise ConfigurationError(f"{entry}: action {entry.action} needs {wanted}")
        return message

    def decode_entry(self, message: p4runtime_pb2.TableEntry) -> TableEntry:
        """The inverse of encode_entry."""
        fields = self._match_fields[message.table_id]
        action = message.action.action
        params = self._params[action.action_id]
        given = {m.field_id: m for m in message.match}
        match = {
            fields.short[number]: _match_value(field, given.get(number))
            for number, field in fields.by_id.items()
        }
        return TableEntry(
            self._tables.short[message.table_id],
            tuple(sorted(match.items())),
            self._actions.short[action.action_id],
            tuple(sorted((params.short[p.param_id], decode(p.value)) for p in action.params)),
            message.priority,
        )

    def describe_entry(self, entry: TableEntry) -> simulation_pb2.TableEntry:
        """The entry by full names, with match fields and parameters in the program's order. Raises
        the same errors as encode_entry."""
        message = self.encode_entry(entry)
        table, action = self._tables[entry.table], self._actions[entry.action]
        fields = {field.field_id: field for field in message.match}
        params = {param.param_id: param.value for param in message.action.action.params}
        described = simulation_pb2.TableEntry(
            table=table.preamble.name,
            action=action.preamble.name,
            arguments=[params[p.id] for p in action.params],
            priority=message.priority,
        )
        for number in (field.id for field in table.match_fields):
            match = fields.get(number)
            kind = match.WhichOneof("field_match_type") if match else None
            if match is None:
                described.match.add(any=True)
            elif kind == "lpm":
                described.match.add(value=match.lpm.value, prefix_bits=match.lpm.prefix_len)
            elif kind == "ternary":
                described.match.add(value=match.ternary.value, mask=match.ternary.mask)
            elif kind == "range":
                described.match.add(value=match.range.low, high=match.range.high)
            elif kind == "optional":
                described.match.add(value=match.optional.value)
            else:
                described.match.add(value=match.exact.value)
        return described

    def decode_packet_in(self, packet: p4runtime_pb2.PacketIn) -> dict[str, int]:
        """The packet_in header of a packet from the CPU port, by field names."""
        fields = self._header("packet_in")
        return {
            fields.short[m.metadata_id]: decode(m.value)
            for m in packet.metadata
            if m.metadata_id in fields.short
        }

    def encode_packet_out(self, payload: bytes, **values: int) -> p4runtime_pb2.PacketOut:
        """A packet-out. Fields of its header that are not given are zero (padding)."""
        fields = self._header("packet_out")
        for name in values:
            fields[name]
        message = p4runtime_pb2.PacketOut(payload=payload)
        for identifier, field in fields.by_id.items():
            value = values.get(fields.short[identifier], 0)
            message.metadata.add(
                metadata_id=identifier,
                value=encode(value, field.bitwidth, f"packet_out.{field.name}"),
            )
        return message

    def _header(self, name: str) -> _Names[p4info_pb2.ControllerPacketMetadata.Metadata]:
        self._packet_headers[name]
        return self._metadata[name]


def _described(manifest: Path | str | None) -> ManifestFile | None:
    return manifests.load(Path(manifest)) if manifest else None


def _add_match(
    message: p4runtime_pb2.TableEntry,
    field: p4info_pb2.MatchField,
    value: MatchValue,
    what: str,
) -> None:
    """Adds a field's match. One that matches every value is left out, as P4Runtime 9.1.1 asks."""
    kinds, bits = p4info_pb2.MatchField, field.bitwidth
    match = p4runtime_pb2.FieldMatch(field_id=field.id)
    match value:
        case int() if field.match_type == kinds.EXACT:
            match.exact.value = encode(value, bits, what)
        case int() if field.match_type == kinds.OPTIONAL:
            match.optional.value = encode(value, bits, what)
        case None if field.match_type == kinds.OPTIONAL:
            return
        case (address, length) if field.match_type == kinds.LPM:
            if length == 0:
                return
            match.lpm.value, match.lpm.prefix_len = encode(address, bits, what), length
        case Masked() if field.match_type == kinds.TERNARY:
            if value.mask == 0:
                return
            match.ternary.value = encode(value.value, bits, what)
            match.ternary.mask = encode(value.mask, bits, what)
        case Between() if field.match_type == kinds.RANGE:
            if (value.low, value.high) == (0, (1 << bits) - 1):
                return
            match.range.low = encode(value.low, bits, what)
            match.range.high = encode(value.high, bits, what)
        case _:
            kind = kinds.MatchType.Name(field.match_type).lower()
            raise ConfigurationError(f"{what} is matched {kind}; {value!r} is not such a value")
    message.match.append(match)


def _match_value(
    field: p4info_pb2.MatchField, match: p4runtime_pb2.FieldMatch | None
) -> MatchValue:
    """The inverse of _add_match."""
    kinds = p4info_pb2.MatchField
    if field.match_type == kinds.LPM:
        return (decode(match.lpm.value), match.lpm.prefix_len) if match else (0, 0)
    if field.match_type == kinds.TERNARY:
        found = match.ternary if match else p4runtime_pb2.FieldMatch.Ternary()
        return Masked(decode(found.value), decode(found.mask))
    if field.match_type == kinds.RANGE:
        whole = Between(0, (1 << field.bitwidth) - 1)
        return Between(decode(match.range.low), decode(match.range.high)) if match else whole
    if field.match_type == kinds.OPTIONAL:
        return decode(match.optional.value) if match else None
    return decode(match.exact.value) if match else 0


def _of_preamble(kind: str, items: Iterable[_Object]) -> _Names[_Object]:
    return _Names(kind, ((i.preamble.name, i.preamble.id, i) for i in items))


def _of_fields(kind: str, items: Iterable[_Field]) -> _Names[_Field]:
    return _Names(kind, ((i.name, i.id, i) for i in items))
