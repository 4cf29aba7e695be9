"""What every part of a YAML file shares: unknown keys are errors, values do not change."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from tiercast_lab.errors import InputError
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
        close = difflib.get_close_matches(str(key), valid.split(", "), 1)
        hint = f" (did you mean '{close[0]}'?)" if close else ""
        return source.error((*path, str(key)), f"unknown key; valid: {valid}{hint}")
    text = first["msg"].removeprefix("Value error, ")
    if first["type"] == "missing":
        return source.error(path, "this key is missing")
    seen = "" if repr(node) in text or isinstance(node, (dict, list)) else f" (seen: {node!r})"
    return source.error(path, text + seen)
