"""The base of models of YAML: unknown keys are errors, and values are not converted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError


class Strict(BaseModel):
    """Values have the types that the file gives them: "5" is not a number, and 1 is not true."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        arbitrary_types_allowed=True,
        defer_build=True,  # one validator for a whole file, when it is read, not one for each model
    )

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        if isinstance(data, dict):
            fields = cls.model_fields.items()
            require_known(data, [field.alias or name for name, field in fields])
        return data


def require_known(data: Iterable[str], valid: Iterable[str]) -> None:
    """Raises an error that names the first key that is not valid."""
    valid = list(valid)
    for key in data:
        if key not in valid:
            context = {"key": key, "valid": valid, "named": ", ".join(valid)}
            raise PydanticCustomError("unknown_key", "unknown key {key}; valid: {named}", context)
