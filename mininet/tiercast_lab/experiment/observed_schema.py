"""The schema of what a run observes inside its switches: packets at links (`trace`), and registers
and counters of the P4 program (`state`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field, model_validator
from tiercast_controller.base import units
from tiercast_controller.base.bounded_yaml import shown
from tiercast_controller.base.strict import Strict

from tiercast_lab.experiment.model import Line
from tiercast_lab.experiment.quantities import Every, NodeNumber
from tiercast_lab.experiment.yaml_source import KeyPath

MOST_ONE_IN = 10**9
MAX_REGISTERS = 16  # of an entry of `trace`
MAX_CELLS = 1024  # of an entry of `state`
DEFAULT_SHARE = 0.01
DEFAULT_EVERY = 100_000_000  # ns
_ONE_IN = re.compile(r"1/([1-9][0-9]{0,9})")
_SPAN = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
_VALID_SHARE = f"1/1 to 1/{MOST_ONE_IN}, or a share such as 1% (or a plain 0.01)"


def _share(value: object) -> float:
    """Of "1/100", "1%" or 0.01."""
    if isinstance(value, str) and (match := _ONE_IN.fullmatch(value.strip())):
        share = 1 / int(match[1])
    else:
        try:
            share = units.parse_fraction(value)
        except ValueError:
            raise ValueError(f"{shown(value)} is no sample; valid: {_VALID_SHARE}") from None
    if not 1 / MOST_ONE_IN <= share <= 1:
        raise ValueError(f"{shown(value)} is no sample; valid: {_VALID_SHARE}")
    return share


def _indices(value: object) -> object:
    """Of 3, "0-3" or [1, 3]."""
    if isinstance(value, bool) or not isinstance(value, (int, str, list)):
        raise ValueError(f"{shown(value)} is no index; valid: 3, 0-3, or a list of both")
    parts = value if isinstance(value, list) else [value]
    found: list[int] = []
    for part in parts:
        if isinstance(part, int) and not isinstance(part, bool) and part >= 0:
            found.append(part)
        elif isinstance(part, str) and (match := _SPAN.fullmatch(part.strip())):
            first, last = int(match[1]), int(match[2])
            if first > last or last - first >= MAX_CELLS:
                raise ValueError(
                    f"{shown(part)}; valid: from the lower to the higher index, at most "
                    f"{MAX_CELLS} of them"
                )
            found += range(first, last + 1)
        else:
            raise ValueError(f"{shown(part)} is no index; valid: 3, 0-3, or a list of both")
    if not 1 <= len(found) <= MAX_CELLS or len(set(found)) < len(found):
        raise ValueError(f"{len(found)} indices; valid: 1 to {MAX_CELLS}, each once")
    return tuple(found)


class Trace(Strict):
    """Packets at the queue of a link, and why they were marked or dropped: both directions of
    "1-3", or the one named "1>3"."""

    link: Line
    sample: Annotated[float, BeforeValidator(_share)] = DEFAULT_SHARE  # of the packets
    # Of the P4 program, besides those of the link's own marking.
    registers: Annotated[list[Line], Field(max_length=MAX_REGISTERS)] = []


class State(Strict):
    """Cells of a register or counter of the P4 program, read at regular times: those of the ports
    of a link, or `index` at the switch of a node."""

    register_: Annotated[Line | None, Field(alias="register")] = None
    counter: Line | None = None
    link: Line | None = None
    node: NodeNumber | None = None
    index: Annotated[tuple[int, ...] | None, BeforeValidator(_indices)] = None
    every: Every = DEFAULT_EVERY

    @model_validator(mode="after")
    def _one_array_somewhere(self) -> State:
        if (self.register_ is None) == (self.counter is None):
            raise ValueError("valid: exactly one of 'register' and 'counter'")
        if self.link is None and (self.node is None or self.index is None):
            raise ValueError("valid: 'link', or 'node' with 'index'")
        if self.link is not None and (self.node is not None or self.index is not None):
            raise ValueError("'link' takes no 'node' and no 'index': its port is the index")
        return self

    @property
    def array(self) -> str:
        """The name of the register or counter."""
        return self.register_ or self.counter or ""


V = TypeVar("V")


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, dict) else value


OneOrMore = Annotated[list[V], BeforeValidator(_as_list)]


def entry_path(data: Mapping[str, Any], key: str, index: int) -> KeyPath:
    """Where an entry of `trace` or `state` is: the only one may stand without a list."""
    return (key,) if isinstance(data[key], dict) else (key, str(index))
