"""What all parts of a YAML file share, and errors that say what is wrong and where."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, core_schema
from tiercast_controller.base import units
from tiercast_controller.base.bounded_yaml import number_of, shown

from tiercast_lab.base.errors import InputError, closest, listed
from tiercast_lab.experiment.yaml_source import KeyPath, Source


def _number_of_key(key: object) -> object:
    """Keys are text, but those of some mappings stand for numbers."""
    return number_of(key) if isinstance(key, str) else key


class _Choices:
    """For a Literal: makes an error carry its choices as a list; pydantic gives them as one
    text."""

    def __get_pydantic_core_schema__(self, literal: Any, handler: object) -> CoreSchema:
        choices = get_args(literal)

        def require(value: Any) -> Any:
            if value not in choices:
                raise PydanticCustomError("choice", "none of the choices", {"choices": choices})
            return value

        return core_schema.no_info_plain_validator_function(require)


def _one_line(text: str) -> str:
    if "\n" in text:
        raise ValueError(f"{shown(text)} has more than one line; valid: one")
    return text


NumberKey = Annotated[float, BeforeValidator(_number_of_key)]
NodeKey = Annotated[int, BeforeValidator(_number_of_key)]
# Text for people, also used in the names of curves and cells.
Line = Annotated[str, Field(max_length=300), AfterValidator(_one_line)]


def refused(key: str, value: object, error: ValueError) -> PydanticCustomError:
    """The error of a value that the validator of its model refused, as one of its key's."""
    return PydanticCustomError("bound", "{text}", {"key": key, "value": value, "text": str(error)})


L = TypeVar("L")
Choice = Annotated[L, _Choices()]  # used as Choice[Literal["fifo", "fair"]]

M = TypeVar("M", bound=BaseModel)


def validate(model: type[M], source: Source, context: Mapping[str, Any] | None = None) -> M:
    """Validates the source. Raises InputError for the first error, with its place in the file."""
    try:
        return model.model_validate(source.data, context=context)
    except ValidationError as error:
        raise _explain(source, error, getattr(model, "read_before", ())) from None


# Pydantic's error messages, rewritten for a reader who does not know Python.
_VALID = {
    "string_pattern_mismatch": "text that matches {pattern}",
    "string_too_long": "at most {max_length} characters",
    "greater_than": "above {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "below {lt}",
    "less_than_equal": "{le} or less",
    "too_short": "at least {min_length} of them",
    "too_long": "at most {max_length} of them",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "string_type": "text",
    "finite_number": "a finite number",
}
_KINDS = {"int": "a whole number", "float": "a number", "bool": "true or false"}
_OF_INTEREST = 50  # errors of a file: the first is reported, with others at the same place


def _valid(error: ErrorDetails, seen: object) -> str | None:
    kind = error["type"]
    if kind == "choice":
        *others, last = map(repr, error["ctx"]["choices"])
        return f"{', '.join(others)} or {last}" if others else last
    if kind == "literal_error":
        return str(error["ctx"]["expected"])
    if kind in _VALID:
        bounds = {key: units.format_like(seen, v) for key, v in error.get("ctx", {}).items()}
        shown_bounds = {k: f"{v:g}" if isinstance(v, float) else v for k, v in bounds.items()}
        return _VALID[kind].format(**shown_bounds)
    wanted = _KINDS.get(kind.partition("_")[0])
    quoted = isinstance(seen, str) and number_of(seen) is not None
    return f"{wanted}, without quotes" if wanted and quoted else wanted


def _choices(error: ErrorDetails) -> Sequence[str]:
    if error["type"] == "choice":
        choices: Sequence[str] = error["ctx"]["choices"]
        return choices
    if error["type"] == "literal_error":
        return re.findall("'([^']*)'", error["ctx"]["expected"])
    return ()


@dataclass(frozen=True)
class _Found:
    """One of pydantic's errors, with the key path that it concerns and the value found there."""

    path: KeyPath
    seen: Any
    error: ErrorDetails

    @classmethod
    def at(cls, data: Any, error: ErrorDetails) -> _Found:
        path: KeyPath = ()
        for place, part in enumerate(error["loc"], 1):
            inside_mapping = isinstance(data, dict) and part in data
            inside_list = isinstance(data, list) and isinstance(part, int) and part < len(data)
            if not inside_mapping and not inside_list:
                if error["type"] == "missing" and place == len(error["loc"]):
                    path = (*path, str(part))
                elif part == "[key]":
                    data = path[-1]
                # Otherwise it is the tag of a union ("literal['auto']", "red"), not a key.
                continue
            data = data[part]
            path = (*path, str(part))
        if (key := error.get("ctx", {}).get("key")) and error["type"] in ("choice", "bound"):
            path, data = (*path, key), data[key]
        return cls(path, data, error)


def _explain(source: Source, error: ValidationError, before: Iterable[str]) -> InputError:
    """`before`: keys of the file that are valid, too, but are no longer there."""
    errors = error.errors(include_url=False, include_input=False)[:_OF_INTEREST]
    found = [_Found.at(source.data, one) for one in errors]
    # Each form of a union reports an error. The one that got furthest into the value is the form
    # meant.
    path = found[0].path
    for one in found:
        if one.path[: len(path)] == path:
            path = one.path
    found = [one for one in found if one.path == path]
    first, seen = found[0].error, found[0].seen
    if first["type"] == "unknown_key":
        key, valid = first["ctx"]["key"], first["ctx"]["valid"]
        valid = [*valid, *(one for one in before if not path and one != key)]
        text = f"unknown key; valid: {listed(valid)}{closest(str(key), valid)}"
        return source.error((*path, str(key)), text)
    if first["type"] == "missing":
        return source.error(path, "this key is missing")
    valid = [_valid(one.error, seen) for one in found]
    if None not in valid:
        choices = [choice for one in found for choice in _choices(one.error)]
        text = " or ".join(dict.fromkeys(valid))
        meant = closest(str(seen), choices) or first.get("ctx", {}).get("otherwise", "")
        return source.error(path, f"{shown(seen)}; valid: {text}{meant}")
    error_there = found[valid.index(None)].error
    text = error_there["msg"].removeprefix("Value error, ")
    if error_there["type"] == "bound":  # a whole number was taken for a real one
        text = text.replace(shown(error_there["ctx"]["value"]), shown(seen), 1)
    already_shown = shown(seen) in text or isinstance(seen, (dict, list))
    return source.error(path, text if already_shown else f"{text} (seen: {shown(seen)})")
