"""Translates between the controller's entries and those of a program, as the program's manifest
says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from p4.config.v1 import p4info_pb2
from tiercast.v1 import simulation_pb2

from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.p4runtime.entities import (
    Between,
    Masked,
    MatchValue,
    Op,
    RegisterCell,
    TableEntry,
    Update,
)
from tiercast_controller.p4runtime.manifest import (
    ANY,
    EVERY_KIND,
    MARKED_PORT,
    MARKING_TABLE,
    OF_THE_PORT,
    ROLES,
    RPF_PORT,
    SOURCE,
    Block,
    Filled,
    Law,
    constant,
)
from tiercast_controller.p4runtime.program import Program, encode

Values = Mapping[str, MatchValue]  # by their names in manifests
Sources = Mapping[int, tuple[int, ...]]  # addresses of the senders, by group address
FATES = ("ingress_fates", "entered", "egress_fates")  # counters
NO_MARKING = "no_marking"  # a port whose queue alone decides
_EXACT = p4info_pb2.MatchField.EXACT
_T = TypeVar("_T")
# The role of each table of the controller's own entries.
_ROLE_OF = {table: name for name, role in ROLES.items() for table in role.tables}


@dataclass(frozen=True)
class _Form:
    """A block of a manifest with the program's names resolved."""

    table: str
    key: tuple[tuple[str, int, int, Filled], ...]  # field, match type, bits, what fills it
    action: str
    parameters: tuple[tuple[str, int, Filled], ...]  # name, bits, what fills it
    needs_priority: bool

    def entry(self, values: Values) -> TableEntry:
        match = tuple(
            (name, _matching(kind, bits, _value(filled, values)))
            for name, kind, bits, filled in self.key
        )
        priority = 1 + sum(
            _specified(value, bits)
            for (_, value), (_, _, bits, _) in zip(match, self.key, strict=True)
        )
        return TableEntry(
            self.table,
            match,
            self.action,
            tuple((name, _number(_value(filled, values))) for name, _, filled in self.parameters),
            priority if self.needs_priority else 0,
        )

    def values(self, entry: TableEntry) -> dict[str, int]:
        """The values that an entry of this form has, by name."""
        match, params = dict(entry.match), dict(entry.params)
        found = {
            filled: _single(match[name])
            for name, _, _, filled in self.key
            if isinstance(filled, str) and constant(filled) is None and filled != ANY
        }
        return found | {
            filled: params[name]
            for name, _, filled in self.parameters
            if isinstance(filled, str) and constant(filled) is None
        }

    @property
    def named(self) -> set[Filled]:
        return {filled for *_, filled in (*self.key, *self.parameters)}

    def is_of(self, entry: TableEntry) -> bool:
        return entry.table == self.table and entry.action == self.action


@dataclass(frozen=True)
class _EveryKind:
    """A table whose actions are kinds of marking, with the parameters' own names."""

    table: str
    field: str  # of its key: the port
    kind: int
    bits: int
    actions: tuple[str, ...]


class Roles:
    """A program's roles. Raises ConfigurationError where the manifest does not fit the program."""

    def __init__(self, program: Program, sources: Sources | None = None):
        """`sources` are needed if the program routes groups by their sources."""
        self.program = program
        self._described = program.described
        self._sources = sources or {}
        manifest = program.manifest
        self._forms: dict[str, list[_Form]] = {
            name: [
                self._form((name,), block, role.values)
                for block in getattr(manifest, name)
                if self._is_there(name, block)
            ]
            for name, role in ROLES.items()
        }
        for name, forms in self._forms.items():
            self._check_needed(name, forms)
        self._laws = {
            kind: self._law_form(kind, law)
            for kind, law in manifest.marking.items()
            if kind != EVERY_KIND
        }
        self._every_kind = self._of_every_kind()
        self._fixed = [
            self._form((name,), block, {}).entry({})
            for name in ("igmp", "entries")
            for block in getattr(manifest, name)
        ]
        self._check_names()
        own = (form for table in (*_ROLE_OF, MARKING_TABLE) for form in self._forms_of(table))
        self._written = {(form.table, form.action) for form in own}
        self._own_tables = {table for table, _ in self._written}

    # -------------------------------------------------------------------------- what it has

    def has(self, role: str) -> bool:
        manifest = self.program.manifest
        if role == "packet_in":
            return manifest.packet_in is not None and manifest.packet_in.ingress_port is not None
        if role == "packet_out":
            return manifest.packet_out is not None and manifest.packet_out.egress_port is not None
        return bool(self._forms[role])

    @property
    def has_accounts(self) -> bool:
        """Whether the program counts fates as ours does (docs/p4.md)."""
        return self.has("accounts") and all(map(self.program.has_counter, FATES))

    @property
    def has_prefixes(self) -> bool:
        """Whether a unicast route may be a prefix."""
        return any(not self._is_exact(form) for form in self._forms["unicast"])

    @property
    def igmp_meter(self) -> str | None:
        """The meter of each port's IGMP; None if the program has none."""
        name = self.program.manifest.igmp_meter
        return name if name is not None and self.program.has_meter(name) else None

    def require_marking(self, kind: str, entry: TableEntry) -> None:
        """Raises ConfigurationError if the program has no such marking."""
        if self._law_of(entry.action) is None and self._every_kind is None:
            if entry.action == NO_MARKING:
                return
            raise ConfigurationError(
                f"{self.program.name} has no marking of kind {kind}; it has: "
                f"{self.program.manifest.describe()}"
            )
        for item in self.entries([entry]):
            self.program.encode_entry(item)
        for cell in self.cells([entry]):
            encode(cell.value, self.program.register_bits(cell.register), cell.register)

    # --------------------------------------------------------------------------- translation

    @property
    def fixed(self) -> list[TableEntry]:
        """The entries that the program gets whatever the experiment is."""
        return self._fixed

    def entries(self, own: Iterable[TableEntry]) -> list[TableEntry]:
        """The program's entries for some of the controller's. A role that the program does not have
        gives none."""
        return [made for item in own for made in self._made(item) if isinstance(made, TableEntry)]

    def cells(self, own: Iterable[TableEntry]) -> list[RegisterCell]:
        """The registers' cells for some of the controller's entries."""
        return [made for item in own for made in self._made(item) if isinstance(made, RegisterCell)]

    def updates(self, own: Iterable[Update]) -> list[Update]:
        """The program's updates for the controller's."""
        result = []
        for update in own:
            if not isinstance(update.entity, TableEntry):
                result.append(update)
                continue
            for made in self._made(update.entity):
                if isinstance(made, TableEntry):
                    result.append(Update(update.op, made))
                elif update.op is not Op.DELETE:
                    result.append(Update(Op.MODIFY, made))
        return result

    def tables(self, own: Iterable[str]) -> list[str]:
        """The program's tables in which the entries of some of the controller's tables are."""
        forms = [form for table in own for form in self._forms_of(table)]
        return list(dict.fromkeys(form.table for form in forms))

    def is_of(self, own: Iterable[str], item: TableEntry) -> bool:
        """Whether one of the program's entries belongs to some of the controller's tables."""
        return any(form.is_of(item) for table in own for form in self._forms_of(table))

    def is_foreign(self, item: TableEntry) -> bool:
        """Whether an entry is in a table of the controller's, with an action that the controller
        gives no entry there: somebody else has written it, over one that is needed, perhaps."""
        return item.table in self._own_tables and (item.table, item.action) not in self._written

    def own(self, tables: Iterable[str], found: Iterable[TableEntry]) -> list[TableEntry]:
        """The controller's entries for those that a program has; entries of no role are left
        out."""
        result: dict[TableEntry, None] = {}
        forms = [(table, form) for table in tables for form in self._forms_of(table)]
        for item in found:
            for table, form in forms:
                if form.is_of(item):
                    role, values = ROLES[_ROLE_OF[table]], form.values(item)
                    match = {f: values[n] for n, f in role.key.items() if n in values}
                    if RPF_PORT not in values:
                        values.pop(SOURCE, None)
                    params = {f: values[n] for n, f in role.parameters.items() if n in values}
                    own = TableEntry(
                        table, tuple(sorted(match.items())), role.action,
                        tuple(sorted(params.items())),
                    )  # fmt: skip
                    result[own] = None
        return list(result)

    def described(self, cell: RegisterCell) -> simulation_pb2.RegisterCell:
        bits = self.program.register_bits(cell.register)
        return simulation_pb2.RegisterCell(
            array=self.program.full_register(cell.register),
            index=cell.index,
            value=cell.value.to_bytes((bits + 7) // 8, "big"),
        )

    # ------------------------------------------------------------------------------ internals

    def _made(self, own: TableEntry) -> Iterable[TableEntry | RegisterCell]:
        if own.table == MARKING_TABLE:
            yield from self._marking(own)
            return
        role = ROLES[_ROLE_OF[own.table]]
        forms = self._forms_of(own.table)
        if not forms:
            return
        fields = dict(own.match) | dict(own.params)
        values: dict[str, MatchValue] = {
            name: fields[field] for name, field in role.values.items() if field in fields
        }
        if own.table in ("ipv4_host", "ipv4_lpm"):
            wants_exact = own.table == "ipv4_host"
            yield next(
                (form for form in forms if self._is_exact(form) == wants_exact), forms[0]
            ).entry(values)
            return
        if own.table == "ipv4_multicast":
            forms = self._as_checked(forms, RPF_PORT in values)
        for form in forms:
            if SOURCE not in form.named or SOURCE in values:
                yield form.entry(values)
                continue
            for source in self._sources.get(own.exact("dst_addr"), ()):
                yield form.entry(values | {SOURCE: source})

    def _as_checked(self, forms: list[_Form], checked: bool) -> list[_Form]:
        """Those that look where a packet comes from, or those that do not, as far as the program
        has them."""
        plain = [form for form in forms if RPF_PORT not in form.named]
        if checked:
            return [form for form in forms if form not in plain] or plain
        if not plain:
            raise ConfigurationError(
                f"{self.program.name} replicates by {RPF_PORT} alone, but a group of any source, "
                "or one without `checks.source`, has none; valid: a block of multicast without it"
            )
        return plain

    def _marking(self, own: TableEntry) -> Iterable[TableEntry | RegisterCell]:
        values: dict[str, MatchValue] = {"port": own.exact(MARKED_PORT), **dict(own.params)}
        law = self._law_of(own.action)
        if law is not None:
            form, cells = law
            if form is not None:
                yield form.entry(values)
            for register, index, value in cells:
                yield RegisterCell(
                    register, _number(_value(index, values)), _number(_value(value, values))
                )
        elif self._every_kind is not None:
            every = self._every_kind
            match = _matching(every.kind, every.bits, values["port"])
            yield TableEntry(every.table, ((every.field, match),), own.action, own.params)

    def _law_of(self, action: str) -> tuple[_Form | None, list[tuple[str, Filled, Filled]]] | None:
        """The kind of marking of an action of the controller's entries."""
        named = "none" if action == NO_MARKING else action.removesuffix("_marking")
        return self._laws.get(named, self._laws.get(action))

    def _forms_of(self, own: str) -> list[_Form]:
        if own != MARKING_TABLE:
            return self._forms[_ROLE_OF[own]]
        forms = [form for form, _ in self._laws.values() if form is not None]
        if self._every_kind is not None:
            table = self._every_kind.table
            forms += [_Form(table, (), one, (), False) for one in self._every_kind.actions]
        return forms

    @staticmethod
    def _is_exact(form: _Form) -> bool:
        return all(kind == _EXACT for _, kind, _, filled in form.key if filled == "address")

    def _is_there(self, role: str, block: Block) -> bool:
        if role not in self._described.inherited:
            return True
        if not self.program.has_table(block.table):
            return False
        return self.program.has_action(block.action)

    def _law_form(
        self, kind: str, law: Law
    ) -> tuple[_Form | None, list[tuple[str, Filled, Filled]]]:
        place = ("marking", kind)
        names = {*OF_THE_PORT, *law.values}
        valid = dict.fromkeys(names, "") if law.values else None
        if (law.table is None) != (law.action is None):
            missing = "action" if law.action is None else "table"
            raise self._described.error((*place, missing), "this key is missing")
        block = law.block
        form = None if block is None else self._form(place, block, valid)
        cells: list[tuple[str, Filled, Filled]] = []
        for at, state in enumerate(law.state):
            self._named((*place, "state", str(at)), self.program.short_register, state)
        for at, cell in enumerate(law.registers):
            where = (*place, "registers", str(at))
            name = self._named((*where, "register"), self.program.short_register, cell.register_)
            for key, filled in (("index", cell.index), ("value", cell.value)):
                self._check_value((*where, key), filled, valid)
            cells.append((name, cell.index, cell.value))
        return form, cells

    def _of_every_kind(self) -> _EveryKind | None:
        law, place = self.program.manifest.marking.get(EVERY_KIND), ("marking", EVERY_KIND)
        if law is None:
            return None
        if law.table is None or list(law.key.values()) != ["port"]:
            raise self._described.error(place, "valid: a table, and a key that port fills")
        if "marking" in self._described.inherited and not self.program.has_table(law.table):
            return None
        table = self._named((*place, "table"), self.program.table, law.table)
        (name,) = law.key
        short, field = self._named(
            (*place, "key", name), lambda one: self.program.field(table, one), name
        )
        actions = tuple(self.program.short_action(one.id) for one in table.action_refs)
        return _EveryKind(
            self.program.short_table(table), short, field.match_type, field.bitwidth, actions
        )

    def _form(
        self, place: tuple[str, ...], block: Block, values: Mapping[str, str] | None
    ) -> _Form:
        """`values` are the names of what a role gives; None: not known, so any."""
        table = self._named((*place, "table"), self.program.table, block.table)
        key = self._key(place, block, table, values)

        def of_table(name: str) -> tuple[str, p4info_pb2.Action]:
            return self.program.action(table, name)

        name, action = self._named((*place, "action"), of_table, block.action)
        return _Form(
            self.program.short_table(table),
            tuple(key),
            name,
            tuple(self._parameters(place, block, action, values)),
            any(kind not in (_EXACT, p4info_pb2.MatchField.LPM) for _, kind, _, _ in key),
        )

    def _key(
        self,
        place: tuple[str, ...],
        block: Block,
        table: p4info_pb2.Table,
        values: Mapping[str, str] | None,
    ) -> list[tuple[str, int, int, Filled]]:
        named: dict[str, tuple[str, int, int, Filled]] = {}

        def of_table(name: str) -> tuple[str, p4info_pb2.MatchField]:
            return self.program.field(table, name)

        for written, filled in block.key.items():
            here = (*place, "key", written)
            short, found = self._named(here, of_table, written)
            self._check_value(here, filled, values, is_key=True)
            self._check_width(here, filled, found.bitwidth)
            if found.match_type == _EXACT and filled == ANY:
                raise self._described.error(here, "any, but it is matched exactly; valid: a value")
            named[short] = (short, found.match_type, found.bitwidth, filled)
        for field in table.match_fields:
            short, _ = self.program.field(table, field.name)
            if short in named:
                continue
            if field.match_type == _EXACT:
                raise self._described.error(
                    (*place, "key"),
                    f"table {block.table} is also matched by {field.name}, exactly; valid: what "
                    "fills it",
                )
            named[short] = (short, field.match_type, field.bitwidth, ANY)
        return [named[name] for name in sorted(named)]

    def _parameters(
        self,
        place: tuple[str, ...],
        block: Block,
        action: p4info_pb2.Action,
        values: Mapping[str, str] | None,
    ) -> list[tuple[str, int, Filled]]:
        named: dict[str, tuple[str, int, Filled]] = {}

        def of_action(name: str) -> p4info_pb2.Action.Param:
            return self.program.param(action, name)

        for written, filled in block.parameters.items():
            here = (*place, "parameters", written)
            found = self._named(here, of_action, written)
            self._check_value(here, filled, values)
            self._check_width(here, filled, found.bitwidth)
            named[found.name] = (found.name, found.bitwidth, filled)
        for param in action.params:
            if param.name not in named:
                raise self._described.error(
                    (*place, "parameters"),
                    f"action {block.action} also has {param.name}; valid: what fills it",
                )
        return [named[name] for name in sorted(named)]

    def _named(self, place: tuple[str, ...], find: Callable[[str], _T], name: str) -> _T:
        try:
            return find(name)
        except ConfigurationError as error:
            raise self._described.error(place, str(error)) from None

    def _check_value(
        self,
        place: tuple[str, ...],
        filled: Filled,
        values: Mapping[str, str] | None,
        is_key: bool = False,
    ) -> None:
        if constant(filled) is not None or (is_key and filled == ANY):
            return
        if values is not None and filled not in values:
            valid = ", ".join([*sorted(values), *([ANY] if is_key else [])])
            raise self._described.error(
                place, f"{filled!r} is no value; valid: {valid or 'none'}, or a number or address"
            )

    def _check_width(self, place: tuple[str, ...], filled: Filled, bits: int) -> None:
        number = constant(filled)
        value = number[0] if isinstance(number, tuple) else number
        if value is not None and not 0 <= value < 1 << bits:
            raise self._described.error(
                place, f"{filled} does not fit bit<{bits}>; valid: 0..{(1 << bits) - 1}"
            )

    def _check_needed(self, name: str, forms: list[_Form]) -> None:
        for form in forms:
            for value in ROLES[name].needed:
                if value not in form.named:
                    raise self._described.error(
                        (name,), f"nothing is filled with {value}; a {name} entry needs it"
                    )

    def _check_names(self) -> None:
        """Headers and counters."""
        manifest, program = self.program.manifest, self.program
        for name in ("packet_in", "packet_out"):
            header = getattr(manifest, name)
            if header is None or name in self._described.inherited:
                continue
            key = "ingress_port" if name == "packet_in" else "egress_port"
            field = getattr(header, key)
            if field is None:
                raise self._described.error((name, key), "this key is missing")

            def require(field: str, header: str = name) -> None:
                program.require_packet_field(header, field)

            self._named((name, key), require, field)
        for name, counter in manifest.counters.named.items():
            self._named(("counters", name), program.counter_id, counter)
        if manifest.igmp_meter is not None and "igmp_meter" not in self._described.inherited:
            self._named(("igmp_meter",), program.meter_id, manifest.igmp_meter)
        depth = manifest.depth_register
        if depth is not None and depth not in program.arrays:
            raise self._described.error(
                ("depth_register",),
                f"{depth!r} is no register of {program.name}; valid: "
                f"{', '.join(program.arrays) or 'none, as it has no registers'}",
            )


def _value(filled: Filled, values: Values) -> MatchValue | str:
    number = constant(filled)
    if number is not None:
        return number
    if filled == ANY:
        return ANY
    if filled not in values:
        raise ConfigurationError(f"{filled!r} is no value; valid: {', '.join(sorted(values))}")
    return values[str(filled)]


def _matching(kind: int, bits: int, value: MatchValue | str) -> MatchValue:
    """A value as a field of this kind is matched."""
    kinds = p4info_pb2.MatchField
    every = (1 << bits) - 1
    number, length = value if isinstance(value, tuple) else (0 if value == ANY else value, bits)
    assert isinstance(number, int)
    length = 0 if value == ANY else length
    if kind == kinds.LPM:
        return number, length
    if kind == kinds.TERNARY:
        return Masked(number, every ^ (every >> length))
    if kind == kinds.RANGE:
        return Between(number, number | every >> length)
    return None if kind == kinds.OPTIONAL and value == ANY else number


def _specified(value: MatchValue, bits: int) -> int:
    """The bits of a field that must have one value: a narrower match wins."""
    if isinstance(value, Masked):
        return value.mask.bit_count()
    if isinstance(value, Between):
        return bits - (value.high - value.low).bit_length()
    if isinstance(value, tuple):
        return value[1]
    return 0 if value is None else bits


def _single(value: MatchValue) -> int:
    match value:
        case Masked():
            return value.value
        case Between():
            return value.low
        case (address, _):
            return address
        case int():
            return value
    return 0


def _number(value: MatchValue | str) -> int:
    assert isinstance(value, int)
    return value
