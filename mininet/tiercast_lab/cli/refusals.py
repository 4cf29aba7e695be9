"""What the command line says of an invalid number or choice: the value, and what is valid."""

from __future__ import annotations

import enum
from typing import Any

import typer
from tiercast_controller.base.bounded_yaml import shown
from typer.core import TyperGroup

from tiercast_lab.base.errors import among


class Commands(TyperGroup):
    """Commands whose options refuse as the lab's files do. Typer would name one end of the range,
    and not the value."""

    def invoke(self, ctx: Any) -> Any:  # Typer does not export the type of its contexts
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = _refusal(error)
            raise


def _refusal(error: typer.BadParameter) -> str:
    # The cause is pydantic's ValidationError; importing its type would cost each start a tenth of a
    # second. What a callback of ours refuses has no such cause and says all by itself.
    found: list[dict[str, Any]] = getattr(error.__cause__, "errors", list)()
    if not found or error.param is None:
        return error.message
    seen = found[0]["input"]
    annotation = error.param.type_descriptor.annotation
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return among(seen, [one.value for one in annotation])
    low, high = getattr(error.param, "min", None), getattr(error.param, "max", None)
    if low is None:
        return error.message
    valid = f"{low} or more" if high is None else f"{low} to {high}"
    return f"{shown(seen)}; valid: a whole number, {valid}"
