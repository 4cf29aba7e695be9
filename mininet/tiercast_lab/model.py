"""What every part of a YAML file shares: unknown keys are errors, values do not change."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from tiercast_lab import units
from tiercast_lab.errors import InputError, closest
from tiercast_lab.yaml_source import KeyPath, Source


class Strict(BaseModel):
    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        if isinstance(data, dict):
            fields = cls.model_fields.items()
            require_known(data, [field.alias or name for name, field in fields])
        return data


def require_known(data: Iterable[str], valid: Iterable[str]) -> None:
    """The error names the first key that is not among the valid ones."""
    valid = list(valid)
    for key in data:
        if key not in valid:
            raise PydanticCustomError(
                "unknown_key",
                "unknown key; valid: {valid}",
                {"key": key, "valid": ", ".join(valid)},
            )


M = TypeVar("M", bound=Strict)


def validate(model: type[M], source: Source) -> M:
    """InputError for the first thing that is wrong, with its place in the file."""
    try:
        return model.model_validate(source.data)
    except ValidationError as error:
        raise _explain(source, error) from None


# What pydantic's words for a wrong value mean to somebody who does not write Python.
_VALID = {
    "string_pattern_mismatch": "text that matches {pattern}",
    "literal_error": "{expected}",
    "greater_than_equal": "{ge} or more",
    "less_than_equal": "{le} or less",
    "too_short": "at least {min_length} of them",
    "too_long": "at most {max_length} of them",
    "list_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "string_type": "text",
}
_KINDS = {"int": "a whole number", "float": "a number", "bool": "true or false"}


def _valid(error: ErrorDetails, seen: object) -> str | None:
    kind = error["type"]
    if kind in _VALID:
        bounds = {key: units.format_like(seen, v) for key, v in error.get("ctx", {}).items()}
        return _VALID[kind].format(**bounds)
    return _KINDS.get(kind.partition("_")[0])


def _explain(source: Source, error: ValidationError) -> InputError:
    first = error.errors()[0]
    # Tags of unions ("literal['auto']", "function-before[...]") are no keys of the file.
    path: KeyPath = ()
    node: Any = source.data
    for part in first["loc"]:
        inside_mapping = isinstance(node, dict) and part in node
        inside_list = isinstance(node, list) and isinstance(part, int) and part < len(node)
        if not inside_mapping and not inside_list:
            if first["type"] == "missing":
                path = (*path, str(part))
            break
        node = node[part]
        path = (*path, str(part))
    if first["type"] == "unknown_key":
        key = first["ctx"]["key"]
        valid = first["ctx"]["valid"]
        hint = closest(str(key), valid.split(", "))
        return source.error((*path, str(key)), f"unknown key; valid: {valid}{hint}")
    if first["type"] == "missing":
        return source.error(path, "this key is missing")
    if (valid := _valid(first, node)) is not None:
        # pydantic tells its literals as a text alone: "'a', 'b' or 'c'".
        literals = re.findall("'([^']*)'", valid) if first["type"] == "literal_error" else []
        return source.error(path, f"{node!r}; valid: {valid}{closest(str(node), literals)}")
    text = first["msg"].removeprefix("Value error, ")
    seen = "" if repr(node) in text or isinstance(node, (dict, list)) else f" (seen: {node!r})"
    return source.error(path, text + seen)
