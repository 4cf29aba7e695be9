"""A manifest: what a P4 program's tables are for. A YAML file beside the program
(docs/your-own-program.md).

The controller decides in roles: a unicast route has an address, a port and a next hop's MAC
address. A manifest says, for each role that the program has, which table, action and parameters
these values fill. roles.py translates. What a manifest does not name, the program does not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from tiercast_controller.base import bounded_yaml, units
from tiercast_controller.base.bounded_yaml import Node, shown
from tiercast_controller.base.errors import ConfigurationError, ParameterError
from tiercast_controller.base.installation import DATA
from tiercast_controller.base.strict import Strict

SUFFIX = ".manifest.yaml"
# Of our own program, and of copies of it that have none of their own.
OWN = DATA / f"p4src/tiercast{SUFFIX}"
CPU_PORT = 510
ANY = "any"  # a key that matches every value
EVERY_KIND = "*"  # of marking: the kinds whose actions and parameters the table has by their names


@dataclass(frozen=True)
class Role:
    """Something that the controller writes to switches, and the values that it has for it."""

    tables: tuple[str, ...]  # of the controller's own entries
    action: str
    # The values by their names in manifests: fields of the controller's entries.
    key: Mapping[str, str]
    parameters: Mapping[str, str]
    needed: tuple[str, ...] = ()  # without these values the program cannot do it

    @property
    def values(self) -> dict[str, str]:
        return {**self.key, **self.parameters}


_HOP = {"port": "port", "next_hop_mac": "dst_mac"}
_SPREAD = ("first", "count", "multiplier")
_AGGREGATION = ("slot", "id", "address", "parent", "mac", "upstream_port")
SOURCE = "source"  # of a group: in the controller's entries only beside RPF_PORT, but known
RPF_PORT = "rpf_port"  # the port that leads to a group's source
ROLES = {
    "unicast": Role(
        ("ipv4_host", "ipv4_lpm"), "forward", {"address": "dst_addr"}, _HOP, ("address", "port")
    ),
    "spread": Role(
        ("ipv4_spread",), "spread", {"address": "dst_addr"}, {one: one for one in _SPREAD},
        ("address", *_SPREAD),
    ),
    "next_hop": Role(("next_hop",), "take", {"hop": "hop"}, _HOP, ("hop", "port")),
    "multicast": Role(
        ("ipv4_multicast",), "replicate", {"group": "dst_addr"},
        {"replication_group": "mgid", SOURCE: SOURCE, RPF_PORT: RPF_PORT,
         "former_rpf_port": "former_rpf_port"}, ("group", "replication_group"),
    ),
    "source_guard": Role(
        ("source_guard",), "only_from", {"port": "ingress_port"}, {"address": "address"},
        ("port", "address"),
    ),
    "top_group": Role(
        ("top_group",), "set_top_group", {"port": "egress_port", "session": "session"},
        {"rank": "rank"}, ("port", "session", "rank"),
    ),
    "aggregation": Role(
        ("aggregator",), "aggregate", {"session": "session"}, {one: one for one in _AGGREGATION},
        ("session", *_AGGREGATION),
    ),
    "queue_class": Role(
        ("queue_class",), "set_priority", {"ecn": "ecn"}, {"priority": "priority"},
        ("ecn", "priority"),
    ),
    "accounts": Role(
        ("group_columns",), "set_columns", {"group": "dst_addr"}, {"first": "first"},
        ("group", "first"),
    ),
}  # fmt: skip
MARKING_TABLE, MARKED_PORT = "port_marking", "egress_port"
# What a port's marking may depend on, besides what the experiment says (marking.PortTraffic).
OF_THE_PORT = ("port", "rate_bps", "packet_bytes", "idle_us")
_NAME = r"^[a-z][a-z0-9_]*$"

# The name of a value, a number, a MAC or IPv4 address, or `any`.
Filled = str | int
Fields = dict[str, Filled]


class Block(Strict):
    """Entries of one table: what fills the fields of its key and the parameters of its action."""

    table: str
    key: Fields
    action: str
    parameters: Fields = {}

    @property
    def filled(self) -> list[tuple[str, str, Filled]]:
        """Each as (key or parameters, field, what fills it)."""
        return [
            *(("key", *item) for item in self.key.items()),
            *(("parameters", *item) for item in self.parameters.items()),
        ]


class Cell(Strict):
    """A cell of a register."""

    register_: str = Field(alias="register")
    index: Filled
    value: Filled


class Quantity(Strict):
    """A key of `marking` in experiments, and how its value becomes a number of the program."""

    type: Literal["packets", "size", "time", "rate", "number", "flag"]
    # The unit of the program's number.
    in_: Literal["ns", "us", "ms", "bit/s", "kbit/s"] | None = Field(default=None, alias="in")
    fraction_bits: Annotated[int, Field(ge=0, le=64)] = 0
    # Either may be the name of another value of the kind.
    min: int | float | str | None = None
    max: int | float | str | None = None
    default: int | float | str | bool | None = None

    @model_validator(mode="after")
    def _fits(self) -> Quantity:
        of = {"time": ("ns", "us", "ms"), "rate": ("bit/s", "kbit/s")}.get(self.type, ())
        if self.in_ is not None and self.in_ not in of:
            raise ValueError(f"in is {self.in_}; valid for {self.type}: {', '.join(of) or 'none'}")
        if self.fraction_bits and self.type not in ("packets", "number"):
            raise ValueError(f"{self.type} takes no fraction_bits; valid: packets, number")
        for name in ("min", "max", "default"):
            if (value := getattr(self, name)) is not None:
                if self.type == "flag" and name != "default":
                    raise ValueError(f"flag takes no {name}")
                if name in self.others:
                    continue
                try:
                    read = self.read(value)
                except ValueError as error:
                    raise ValueError(f"{name}: {error}") from None
                if name == "default" and not self.least <= read <= self.most:
                    raise ValueError(f"default is {value}; valid: min to max")
        if self.least > self.most:
            raise ValueError(f"min is {self.min} and max is {self.max}; valid: min below max")
        return self

    @property
    def others(self) -> dict[str, str]:
        """Which of min and max are other values, and their names."""
        ends = {"min": self.min, "max": self.max}
        return {
            end: bound
            for end, bound in ends.items()
            if isinstance(bound, str) and re.match(_NAME, bound)
        }

    @property
    def whole(self) -> bool:
        return self.type not in ("packets", "number") or self.fraction_bits == 0

    def read(self, value: Any) -> Any:
        """The value in ns, bytes, bit/s, or as it is. Raises ValueError."""
        if self.type == "flag":
            if not isinstance(value, bool):
                raise ValueError(f"{shown(value)}; valid: true or false")
            return value
        parse = {"time": units.parse_duration, "size": units.parse_size, "rate": units.parse_rate}
        if self.type in parse:
            return parse[self.type](value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{shown(value)} is not a number")
        if self.whole and value != int(value):
            raise ValueError(f"{shown(value)} is not a whole number")
        return value

    @property
    def least(self) -> float:
        return 0 if self.min is None or "min" in self.others else float(self.read(self.min))

    @property
    def most(self) -> float:
        is_open = self.max is None or "max" in self.others
        return float("inf") if is_open else float(self.read(self.max))

    def text(self, value: Any) -> str:
        """What `read` read, as people write it."""
        forms: dict[str, Any] = {"time": units.format_duration, "rate": units.format_rate}
        forms |= {"size": lambda size: f"{size}B"}
        return str(forms.get(self.type, str)(value))

    def encode(self, value: float) -> int:
        """As the program has it."""
        per = {"us": 1_000, "ms": 1_000_000, "kbit/s": 1_000}.get(self.in_ or "", 1)
        if self.type == "time" and self.in_ is None:
            per = 1_000
        return round(value * (1 << self.fraction_bits) / per)


class Law(Strict):
    """A kind of marking. One without a table and registers has its numbers in the program."""

    table: str | None = None
    key: Fields = {}
    action: str | None = None
    parameters: Fields = {}
    registers: list[Cell] = []
    state: list[str] = []  # the registers, one cell for each port, in which it keeps its state
    values: dict[Annotated[str, Field(pattern=_NAME)], Quantity] = {}

    @model_validator(mode="after")
    def _in_order(self) -> Law:
        for name, quantity in self.values.items():
            for end, other in quantity.others.items():
                if other == name or getattr(self.values.get(other), "type", None) != quantity.type:
                    raise ValueError(
                        f"values.{name}.{end}: {other!r}; valid: a bound, or the name of another "
                        f"value of type {quantity.type}"
                    )
        defaults = {name: one.default for name, one in self.values.items()}
        given = {name: one for name, one in defaults.items() if one is not None}
        try:
            self.require_order({name: self.values[name].read(one) for name, one in given.items()})
        except ParameterError as error:
            raise ValueError(f"defaults: {error}") from None
        return self

    def require_order(self, values: Mapping[str, Any]) -> None:
        """Raises ParameterError if one of `values`, as read, is beyond another one that its min or
        max names."""
        for name, quantity in self.values.items():
            for end, other in quantity.others.items():
                low, high = (name, other) if end == "max" else (other, name)
                if {low, high} <= values.keys() and values[low] > values[high]:
                    texts = [f"{one} {quantity.text(values[one])}" for one in (low, high)]
                    raise ParameterError(
                        f"{' and '.join(texts)}: valid is {low} <= {high}", low, high
                    )

    @property
    def block(self) -> Block | None:
        if self.table is None or self.action is None:
            return None
        return Block(table=self.table, key=self.key, action=self.action, parameters=self.parameters)

    @property
    def cells(self) -> list[tuple[str, str, Filled]]:
        return [
            (f"registers.{at}", name, getattr(cell, name))
            for at, cell in enumerate(self.registers)
            for name in ("index", "value")
        ]


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, dict) else value


Blocks = Annotated[list[Block], BeforeValidator(_listed)]


class Header(Strict):
    """The field of a controller header that has the port."""

    ingress_port: str | None = None
    egress_port: str | None = None


class Counters(Strict):
    """Counters of packets by egress port."""

    left: str | None = None
    marked: str | None = None
    policy_drops: str | None = None
    pruned: str | None = None

    @property
    def named(self) -> dict[str, str]:
        return {name: counter for name, counter in self.model_dump().items() if counter is not None}


class Manifest(Strict):
    unicast: Blocks = []
    spread: Blocks = []
    next_hop: Blocks = []
    multicast: Blocks = []
    source_guard: Blocks = []
    top_group: Blocks = []
    aggregation: Blocks = []
    queue_class: Blocks = []
    accounts: Blocks = []
    igmp: Blocks = []  # the entries that hand IGMP to the controller
    entries: list[Block] = []  # others that each switch gets; constants, like those of `igmp`
    packet_in: Header | None = None
    packet_out: Header | None = None
    cpu_port: Annotated[int, Field(ge=1, le=510)] = CPU_PORT
    counters: Counters = Counters()
    # A meter of packets, a cell for each ingress port: IGMP that is not green is dropped.
    igmp_meter: str | None = None
    # Of a PSA program: the register array in which it finds how many packets wait at each port. The
    # switch keeps it up to date, since PSA tells a program nothing of its queue.
    depth_register: str | None = None
    marking: dict[Annotated[str, Field(pattern=r"^([a-z][a-z0-9_-]{0,31}|\*)$")], Law] = {}

    @property
    def roles(self) -> list[str]:
        """What the program has."""
        found = [name for name in ROLES if getattr(self, name)]
        return found + (["packet_in"] if self.packet_in else [])

    def describe(self) -> str:
        kinds = [kind for kind in self.marking if kind != EVERY_KIND]
        named = self.roles + ([f"marking of kind {', '.join(kinds)}"] if kinds else [])
        return ", ".join(named) or "nothing"


@dataclass(frozen=True)
class ManifestFile:
    """A manifest that was read, with the places of its keys."""

    path: Path
    manifest: Manifest
    # Blocks that come from our own manifest are left out where the program lacks their table.
    inherited: frozenset[str]
    _root: Node

    def error(self, place: Iterable[str | int], text: str) -> ConfigurationError:
        return _error(self.path, self._root, place, text)


def load(path: Path) -> ManifestFile:
    """Reads a manifest. Raises ConfigurationError with file, line, key, value and what is valid."""
    root = bounded_yaml.read(path)
    data = root.plain()
    inherited: frozenset[str] = frozenset()
    if path == OWN:
        inherited = frozenset(Manifest.model_fields)
    elif "extends" in data:
        if (base := data.pop("extends")) != "tiercast":
            raise _error(path, root, ["extends"], f"{shown(base)}; valid: tiercast")
        own = bounded_yaml.read(OWN).plain()
        inherited = frozenset(own.keys() - data.keys() | {"marking"})
        kinds = data.get("marking")
        if not isinstance(kinds, dict | None):
            raise _error(path, root, ["marking"], f"{shown(kinds)}; valid: a mapping, by kind")
        data = own | data | {"marking": own["marking"] | (kinds or {})}
    try:
        return ManifestFile(path, Manifest.model_validate(data), inherited, root)
    except ValidationError as error:
        first = min(error.errors(), key=lambda one: -len(one["loc"]))
        text = first["msg"].removeprefix("Value error, ")
        if first["type"] == "missing":
            text = "this key is missing"
        elif first["type"] == "unknown_key":
            valid = first["ctx"]["named"]
            raise _error(
                path, root, [*first["loc"], first["ctx"]["key"]], f"unknown key; valid: {valid}"
            ) from None
        elif first["type"] == "literal_error":
            text = f"{shown(first['input'])}; valid: {first['ctx']['expected']}"
        elif not isinstance(first["input"], dict | list) and shown(first["input"]) not in text:
            text = f"{shown(first['input'])}: {text[:1].lower()}{text[1:]}"
        raise _error(path, root, first["loc"], text) from None


@cache
def own() -> ManifestFile:
    return load(OWN)


def _error(path: Path, root: Node, place: Iterable[str | int], text: str) -> ConfigurationError:
    """`place` may have parts that the file has not."""
    line, node = 1, root
    names = [str(part) for part in place]
    for name in names:
        if isinstance(node.value, dict) and name in node.value:
            line, node = node.value[name]
        elif isinstance(node.value, list) and name.isdigit() and int(name) < len(node.value):
            node = node.value[int(name)]
            line = node.line
    named = ".".join(names)
    return ConfigurationError(f"{path}:{line}: {named + ': ' if named else ''}{text}")


@lru_cache(maxsize=4096)  # asked for each field of each entry
def constant(value: Filled) -> int | tuple[int, int] | None:
    """The number that a text or number means, an address with its prefix length, or None for the
    name of a value."""
    if isinstance(value, int):
        return value
    if re.fullmatch("0x[0-9a-fA-F]+", value):
        return int(value, 16)
    if re.fullmatch("[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}", value):
        return int(value.replace(":", ""), 16)
    address, slash, length = value.partition("/")
    try:
        number = int(IPv4Address(address))
    except ValueError:
        return None
    if not slash:
        return number
    return (number, int(length)) if length.isdigit() and int(length) <= 32 else None
