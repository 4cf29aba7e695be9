"""What the command line says of wrong arguments, in one line: the value, and what is valid."""

from __future__ import annotations

import enum
from typing import Any

import typer
from tiercast_controller.base.bounded_yaml import shown
from typer.core import TyperGroup
from typer.exceptions import TyperException

from tiercast_lab.base.errors import InputError, among


class Commands(TyperGroup):
    """A group that names its commands where an unknown one is given."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # Typer does not export contexts
        # What begins like an option is one, and refused as such.
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            raise InputError(f"{_of(ctx)}no command {among(args[0], self.commands)}")
        return super().resolve_command(ctx, args)


def refusal(error: TyperException) -> str:
    """One line for what Typer refuses. It would name one end of a range, and no valid option."""
    # The classes of these errors are private; what they know is not.
    context: Any = getattr(error, "ctx", None)
    parameter: Any = getattr(error, "param", None)
    option: str | None = getattr(error, "option_name", None)
    if context is None:  # a value that is missing, or one where none belongs
        valid = f"{option} VALUE" if "requires" in error.message else option
        return f"{error.message.rstrip('.')}; valid: {valid}"
    place = _of(context)
    if isinstance(error, typer.BadParameter) and parameter is not None:
        name = parameter.get_error_hint().replace("'", "")
        if not error.message:
            return f"{place}{name} is missing; valid: {_valid(parameter, context)}"
        return f"{place}{name}: {_invalid(error, parameter)}"
    if option is not None:
        options = [text for one in context.command.params for text in one.opts if text[0] == "-"]
        return f"{place}no option {among(option, [*options, '--help'])}"
    if not error.message:  # no arguments: Typer has shown the help
        return ""
    usage = " ".join(context.command.collect_usage_pieces(context))
    message = error.message[:1].lower() + error.message[1:]
    return f"{place}{message}; valid: {context.command_path} {usage}"


def _of(context: Any) -> str:
    """The command's name, as the beginning of a message; empty for tiercast itself."""
    _, _, name = context.command_path.partition(" ")
    return f"{name}: " if name else ""


def _valid(parameter: Any, context: Any) -> str:
    help_text = (getattr(parameter, "help", None) or "").partition("  [")[0].rstrip(".")
    return help_text or f"see {context.command_path} --help"


def _invalid(error: typer.BadParameter, parameter: Any) -> str:
    # The cause is pydantic's ValidationError; importing its type would cost each start a tenth of a
    # second. What a callback of ours refuses has no such cause and says all by itself.
    found: list[dict[str, Any]] = getattr(error.__cause__, "errors", list)()
    if not found:
        return error.message
    seen = found[0]["input"]
    annotation = parameter.type_descriptor.annotation
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return among(seen, [one.value for one in annotation])
    low, high = getattr(parameter, "min", None), getattr(parameter, "max", None)
    if low is None:
        return error.message
    valid = f"{low} or more" if high is None else f"{low} to {high}"
    kind = "a number" if annotation is float else "a whole number"
    return f"{shown(seen)}; valid: {kind}, {valid}"
