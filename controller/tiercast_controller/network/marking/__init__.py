"""The kinds of marking: what a port does about congestion. Each kind has one class.

A class is the only place in Python that describes its kind: the keys of `marking`, in an experiment
and in the YAML of a controller that runs on its own, their ranges, the entry of the P4 table
`port_marking` and, for RED on arrival and two queues, the settings of the port's queue.
docs/add-a-marking.md has a complete kind; of_program.py makes classes of kinds that a program's
manifest declares (docs/your-own-program.md). Unless stated otherwise, quantities are in packets.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import PlainValidator, ValidationInfo
from pydantic_core import PydanticCustomError

from tiercast_controller.base import plugins
from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.base.plugins import import_files, named, without
from tiercast_controller.network.marking.base import (
    Law,
    Marking,
    PortPolicy,
    PortQueue,
    PortTraffic,
    PriorityQueues,
    QueueRed,
    fixed,
    port_entry,
    require_registers,
    whole,
)
from tiercast_controller.network.marking.codel import Codel
from tiercast_controller.network.marking.dualpi2 import DualPi2
from tiercast_controller.network.marking.pi import Pi2, Pie
from tiercast_controller.network.marking.priority import PriorityMarking
from tiercast_controller.network.marking.red import Red
from tiercast_controller.network.marking.threshold import DropTail, NoMarking, ThresholdMarking

__all__ = [
    "AnyMarking",
    "Codel",
    "DropTail",
    "DualPi2",
    "Law",
    "Marking",
    "NoMarking",
    "Pi2",
    "Pie",
    "PortPolicy",
    "PortQueue",
    "PortTraffic",
    "PriorityMarking",
    "PriorityQueues",
    "QueueRed",
    "Red",
    "ThresholdMarking",
    "fixed",
    "port_entry",
    "require_registers",
    "whole",
]

PLUGINS = plugins.MARKINGS
PAGE = "add-a-marking.md"


def _kinds() -> dict[str, type[Marking]]:
    """All classes by their kind."""
    kinds: dict[str, type[Marking]] = {}
    for one in Marking.__subclasses__():
        place = named(one)
        kind = one.model_fields["kind"].default
        if not isinstance(kind, str):
            raise ConfigurationError(f'{place}: no kind; valid: kind: Literal["name"] = "name"')
        if kind in kinds:
            taken = ", ".join(kinds)
            raise ConfigurationError(f"{place}: kind is {kind!r}; valid: none of {taken}")
        if inspect.isabstract(one):
            missing = ", ".join(f"{name}()" for name in sorted(one.__abstractmethods__))
            raise ConfigurationError(f"{place}: no {missing}; valid: as in docs/{PAGE}")
        _check_arguments(one, place)
        kinds[kind] = one
    return kinds


def _check_arguments(one: type[Marking], place: str) -> None:
    signature = inspect.signature(one.entry)
    try:
        signature.bind("self", "port", "traffic")
    except TypeError:
        raise ConfigurationError(
            f"{place}: the arguments of entry are {signature}; valid: (self, port, traffic)"
        ) from None


import_files(
    PLUGINS,
    PAGE,
    "kind of marking; valid: a class derived from Marking",
    lambda: len(Marking.__subclasses__()),
)
KINDS = _kinds()
DEFAULT_KIND = "priority"
# In the context of a validation: kinds that programs' manifests declare, by name (of_program.py).
OF_PROGRAMS = "markings"


def _read(data: Any, info: ValidationInfo) -> Marking:
    if isinstance(data, Marking):
        return data
    if not isinstance(data, dict):
        raise PydanticCustomError("dict_type", "no mapping of keys to values")
    kinds = KINDS | ((info.context or {}).get(OF_PROGRAMS) or {})
    kind = data.get("kind", DEFAULT_KIND)
    if not isinstance(kind, str) or kind not in kinds:
        context = {
            "key": "kind",
            "choices": tuple(kinds),
            "named": ", ".join(kinds),
            "otherwise": without(PLUGINS),
        }
        raise PydanticCustomError("choice", "kind is none of {named}{otherwise}", context)
    found: Marking = kinds[kind].model_validate(data, context=info.context)
    return found


# `marking` in a YAML: the class of its kind, or of DEFAULT_KIND if it gives none.
if TYPE_CHECKING:
    AnyMarking = Marking
else:
    AnyMarking = Annotated[Marking, PlainValidator(_read)]
