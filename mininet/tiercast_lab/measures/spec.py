"""How to define a measure: with a decorator on the function that computes it.

docs/add-a-measure.md has a complete example.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from tiercast_controller.base import units
from tiercast_controller.base.bounded_yaml import shown

Which = Literal["layers", "receiver", "link", "flow"]
Compute = Callable[..., float | None]


@dataclass(frozen=True)
class Quantity:
    """A kind of value. `parse` converts what an experiment says to a number of `unit`s; `show`
    writes such a number as text."""

    unit: str
    parse: Callable[[object], float]
    show: Callable[[float], str]


@dataclass(frozen=True)
class MeasureSpec:
    """A measure of each session, whose plain name is that of the first, or a measure of the run
    (`of_run`).

    `which` is the key of `expect` that gives the number of layers, the receiver, the link or the
    flow; it becomes the last argument of `compute(rows, context)`. With `whole` it may be left out,
    and the measure then covers all. `beside` is the kind of competing flows that the measure needs.
    """

    compute: Compute
    quantity: Quantity
    purpose: str
    which: Which | None = None
    whole: bool = True
    of_run: bool = False
    beside: Literal["", "tcp", "udp"] = ""

    @property
    def unit(self) -> str:
        return self.quantity.unit

    @property
    def parse(self) -> Callable[[object], float]:
        return self.quantity.parse

    @property
    def show(self) -> Callable[[float], str]:
        return self.quantity.show


MEASURES: dict[str, MeasureSpec] = {}  # by name, in the order of definition


def measure(
    quantity: Quantity,
    purpose: str,
    name: str = "",
    which: Which | None = None,
    whole: bool = True,
    of_run: bool = False,
    beside: Literal["", "tcp", "udp"] = "",
) -> Callable[[Compute], Compute]:
    """Makes the decorated function a measure and returns it unchanged. `name` is given if it is not
    the function's; the other arguments are as in MeasureSpec. Raises ValueError for a wrong
    quantity or `which`, if the name is taken, or if the function does not take the arguments that
    it will be given."""

    def state(compute: Compute) -> Compute:
        its_name = name or compute.__name__
        if its_name in MEASURES:
            raise ValueError(f"measure {its_name!r}: this name is taken; valid: another")
        _check_quantity(quantity, its_name)
        _check_arguments(compute, its_name, which, whole)
        MEASURES[its_name] = MeasureSpec(compute, quantity, purpose, which, whole, of_run, beside)
        return compute

    return state


def _check_quantity(quantity: object, name: str) -> None:
    if not isinstance(quantity, Quantity):
        # `number` for `number()` is a function, which has an address besides its name.
        seen = quantity.__name__ if inspect.isfunction(quantity) else shown(quantity)
        raise ValueError(f"measure {name!r}: its quantity is {seen}; valid: {QUANTITIES}")


def _check_arguments(compute: Compute, name: str, which: Which | None, whole: bool) -> None:
    with_which = "rows, context, which=None" if whole else "rows, context, which"
    if which not in (None, *get_args(Which)):
        valid = ", ".join(get_args(Which))
        raise ValueError(f"measure {name!r}: which is {shown(which)}; valid: {valid}")
    counts = {2} if which is None else {2, 3} if whole else {3}
    signature = inspect.signature(compute)
    try:
        for count in counts:
            signature.bind(*range(count))
    except TypeError:
        valid = "rows, context" if which is None else with_which
        raise ValueError(
            f"measure {name!r}: its arguments are {_without_types(signature)}; valid: ({valid})"
        ) from None


def _without_types(signature: inspect.Signature) -> inspect.Signature:
    arguments = [
        one.replace(annotation=inspect.Parameter.empty) for one in signature.parameters.values()
    ]
    return signature.replace(parameters=arguments, return_annotation=inspect.Signature.empty)


def number(unit: str = "", digits: int = 2) -> Quantity:
    return Quantity(unit, _plain, lambda v: f"{v:.{digits}f} {unit}".rstrip())


def fraction(digits: int = 2) -> Quantity:
    """0..1, shown as a percentage."""
    return Quantity("fraction", units.parse_fraction, lambda v: f"{v * 100:.{digits}f} %")


def _plain(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{value!r} is not a plain number")
    return float(value)


def _seconds(value: object) -> float:
    return units.parse_duration(value) / 1e9


RATE = Quantity("bit/s", units.parse_rate, lambda v: f"{v / 1e6:.2f} Mbit/s")
SECONDS = Quantity("s", _seconds, lambda v: f"{v:.1f} s")
LATENCY = Quantity("s", _seconds, lambda v: f"{v * 1e3:.1f} ms")
# Papers state how often something happens in a run: `840 in 2900s`.
FREQUENCY = Quantity("1/s", units.parse_frequency, lambda v: f"{v:.4g} /s")
QUANTITIES = "number(), fraction(), RATE, SECONDS, LATENCY, FREQUENCY"
