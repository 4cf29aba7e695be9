"""Reads tests/data/wire-vectors.json (SIM, and groups) and tests/data/wire/*.json once."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiercast_wire.messages import SCHEMES, SIM

DATA = Path(__file__).resolve().parents[2] / "data"
DOCUMENT = json.loads((DATA / "wire-vectors.json").read_text())
GROUPS: list[dict[str, Any]] = DOCUMENT["groups"]
NOT_GROUPS: list[str] = DOCUMENT["not_groups"]
COMMON = ("version", "type", "scheme", "flags", "header_length", "session")


@dataclass(frozen=True)
class Vector:
    name: str
    layer: str  # of the message that it is, or almost is
    scheme: int
    message: bytes
    # Of a valid message: by part ("common", "fields", "records", "payload"). Else None.
    parts: dict[str, Any] | None
    error: str | None

    def __str__(self) -> str:
        return self.name


def _sim(one: dict[str, Any]) -> Vector:
    """In SIM's file all fields of a vector are in one object, which P4's tests read as well."""
    message = bytes.fromhex(one["hex"])
    layer = "SimFeedback" if message[1:2] == b"\2" else "SimData"
    parts = None
    if "fields" in one:
        fields = one["fields"]
        parts = {"common": {name: fields[name] for name in COMMON}}
        inner = ("records", "payload")
        parts["fields"] = {k: v for k, v in fields.items() if k not in (*COMMON, *inner)}
        parts |= {name: fields[name] for name in inner if name in fields}
    return Vector(one["name"], layer, SIM, message, parts, one.get("error"))


def _other(scheme: int, one: dict[str, Any]) -> Vector:
    inner = ("common", "fields", "records", "payload")
    parts = {name: one[name] for name in inner if name in one} if "fields" in one else None
    return Vector(
        one["name"], one["message"], scheme, bytes.fromhex(one["hex"]), parts, one.get("error")
    )


def _read(schemes: dict[int, str]) -> list[Vector]:
    found = [_sim(one) for one in DOCUMENT["vectors"]]
    for number, name in schemes.items():
        path = DATA / "wire" / f"{name}.json"
        if path.exists():
            found += [_other(number, one) for one in json.loads(path.read_text())["vectors"]]
    return found


VECTORS = _read(SCHEMES)
VALID = [vector for vector in VECTORS if vector.parts is not None]
INVALID = [vector for vector in VECTORS if vector.error is not None]
