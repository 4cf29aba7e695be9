"""Kinds of marking that a program's manifest declares: their keys, as classes like the others."""

from __future__ import annotations

import keyword
import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, create_model

from tiercast_controller.base.errors import ParameterError
from tiercast_controller.network.marking import KINDS
from tiercast_controller.network.marking.base import Marking, PortTraffic, port_entry
from tiercast_controller.p4runtime.entities import TableEntry
from tiercast_controller.p4runtime.manifest import (
    EVERY_KIND,
    OF_THE_PORT,
    Law,
    ManifestFile,
    Quantity,
)

MAX_BITS = 64


class ProgramMarking(Marking):
    """A kind whose keys a manifest declares. Its entry has their values, and what a port's marking
    may depend on, for the manifest to choose from."""

    declared: ClassVar[Law] = Law()

    def entry(self, port: int, traffic: PortTraffic) -> TableEntry:
        keys = self.declared.values
        self.declared.require_order({name: getattr(self, name) for name in keys})
        values = {
            "rate_bps": traffic.rate_bps,
            "packet_bytes": traffic.packet_bytes,
            "idle_us": traffic.idle_us,
        }
        for name, quantity in keys.items():
            number = quantity.encode(getattr(self, name))
            if number >= 1 << MAX_BITS:
                raise ParameterError(f"{name} is {getattr(self, name)}; valid: a lower one", name)
            values[name] = number
        return port_entry(port, self.kind, values)


def kinds_of(described: ManifestFile) -> dict[str, type[Marking]]:
    """The kinds that a manifest declares, besides those that are the controller's. Raises
    ConfigurationError."""
    found: dict[str, type[Marking]] = {}
    for kind, law in described.manifest.marking.items():
        if kind == EVERY_KIND:
            continue
        if kind in KINDS:
            if law.values:
                raise described.error(
                    ("marking", kind, "values"),
                    f"{kind} is one of tiercast's kinds, with keys of its own; valid: no values, "
                    "or another name",
                )
            continue
        for name in law.values:
            if hasattr(ProgramMarking, name) or name in (*OF_THE_PORT, "kind"):
                raise described.error(
                    ("marking", kind, "values", name), f"{name!r} is taken; valid: another name"
                )
            if keyword.iskeyword(name):
                raise described.error(
                    ("marking", kind, "values", name),
                    f"{name!r} is a word of Python; valid: another name",
                )
        fields: dict[str, Any] = {name: _field(quantity) for name, quantity in law.values.items()}
        fields["kind"] = (Literal[kind], kind)
        made = create_model(
            f"Marking_{kind}", __base__=ProgramMarking, __module__=__name__, **fields
        )
        made.declared = law
        made.registers = tuple(law.state)
        made.__doc__ = f"The kind {kind} of {described.path}."
        found[kind] = made
    return found


def merged(kinds: Iterable[tuple[ManifestFile, Mapping[str, type[Marking]]]]) -> dict[str, Any]:
    """The kinds of several manifests. Raises ConfigurationError if two declare one kind with
    different keys."""
    result: dict[str, type[Marking]] = {}
    first: dict[str, ManifestFile] = {}
    for described, of_one in kinds:
        for kind, made in of_one.items():
            if kind in result:
                before = first[kind].manifest.marking[kind].values
                if before != described.manifest.marking[kind].values:
                    raise described.error(
                        ("marking", kind),
                        f"{first[kind].path} declares a kind of this name with other values; "
                        "valid: another name, or the same values",
                    )
                continue
            result[kind], first[kind] = made, described
    return result


def _field(quantity: Quantity) -> tuple[Any, Any]:
    """The type and the default of a key."""
    default = ... if quantity.default is None else quantity.read(quantity.default)
    if quantity.type == "flag":
        return bool, default
    bounds: dict[str, Any] = {"ge": _number(quantity, quantity.least)}
    if math.isfinite(quantity.most):
        bounds["le"] = _number(quantity, quantity.most)
    if quantity.type in ("packets", "number"):
        return Annotated[int if quantity.whole else float, Field(**bounds)], default
    return Annotated[int, Field(**bounds), BeforeValidator(quantity.read)], default


def _number(quantity: Quantity, bound: float) -> int | float:
    return int(bound) if quantity.whole else bound
