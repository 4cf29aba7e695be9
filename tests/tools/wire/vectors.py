"""tests/data/wire-vectors.json, read once."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATH = Path(__file__).resolve().parents[2] / "data" / "wire-vectors.json"
DOCUMENT = json.loads(PATH.read_text())
GROUPS: list[dict[str, Any]] = DOCUMENT["groups"]
NOT_GROUPS: list[str] = DOCUMENT["not_groups"]


@dataclass(frozen=True)
class Vector:
    name: str
    message: bytes
    fields: dict[str, Any] | None  # None where the message is to be rejected
    error: str | None

    def __str__(self) -> str:
        return self.name


VECTORS = [
    Vector(one["name"], bytes.fromhex(one["hex"]), one.get("fields"), one.get("error"))
    for one in DOCUMENT["vectors"]
]
VALID = [vector for vector in VECTORS if vector.fields is not None]
INVALID = [vector for vector in VECTORS if vector.error is not None]
