"""The schemes and their parameters, as tiercast-host knows them: nothing here names one."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field

from tiercast_lab import binaries
from tiercast_lab.errors import InputError


@dataclass(frozen=True)
class ParameterInfo:
    name: str  # "sim.delta"
    default: float
    min: float
    max: float
    unit: str
    purpose: str = ""
    source: str = ""  # the paper's section, or what its value was calibrated on


@dataclass(frozen=True)
class SchemeInfo:
    name: str
    parameters: dict[str, ParameterInfo] = field(default_factory=dict)
    layered: bool = True  # else a session has one rate, and one layer


def known_schemes() -> dict[str, SchemeInfo]:
    """Asks `tiercast-host schemes`; InputError where it is not built."""
    binaries.require(binaries.HOST)
    command = [str(binaries.HOST), "schemes"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    if result.returncode != 0:
        raise InputError(f"`{' '.join(command)}` failed: {result.stderr.strip()}")
    return parse_schemes(result.stdout)


def parse_schemes(text: str) -> dict[str, SchemeInfo]:
    keys = ("name", "default", "min", "max", "unit", "purpose", "source")
    return {
        scheme["name"]: SchemeInfo(
            scheme["name"],
            {
                p["name"]: ParameterInfo(**{key: p[key] for key in keys})
                for p in scheme["parameters"]
            },
            scheme["layered"],
        )
        for scheme in json.loads(text)
    }
