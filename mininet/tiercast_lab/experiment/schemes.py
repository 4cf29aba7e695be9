"""The schemes and their parameters, as tiercast-host knows them: nothing here names one."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import InputError

if TYPE_CHECKING:
    from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
    from tiercast_lab.experiment.schema import Session


@dataclass(frozen=True)
class ParameterInfo:
    name: str  # "sim.delta"
    default: float
    min: float
    max: float
    unit: str
    purpose: str = ""
    source: str = ""  # the paper's section, or what its value was calibrated on
    used_by: str = "both"  # of a session: "sender", "receiver" or "both"
    whole: bool = False  # a count, a switch (0 or 1) or a mode


@dataclass(frozen=True)
class SchemeInfo:
    name: str
    parameters: dict[str, ParameterInfo] = field(default_factory=dict)
    layered: bool = True  # else a session has one rate, and one layer
    aggregated: bool = False  # switches can sum up its feedback
    records: tuple[str, ...] = ()  # kinds that its cores trace: "sim.round"


def known_schemes() -> dict[str, SchemeInfo]:
    """Asks `tiercast-host schemes`; InputError where it is not built."""
    binaries.require(binaries.HOST)
    result = _ask_host("schemes")
    command = " ".join(result.args)
    if result.returncode != 0:
        raise InputError(f"`{command}` failed: {result.stderr.strip()}")
    try:
        return parse_schemes(result.stdout)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"`{command}` is from another version ({error!r}); {binaries.remedy(binaries.HOST)}"
        ) from None


def require_accepted(loaded: LoadedExperiment) -> None:
    """InputError for a session whose parameters do not fit together, as the scheme's cores say."""
    for index, session in enumerate(loaded.experiment.sessions):
        own = session.model_copy(update={"session": 0})  # one of many unicast ones
        if refusal := _refusal(tuple(session_options(own))):
            raise InputError(f"{loaded.file}: sessions.{index}: {refusal}")


def session_options(session: Session) -> list[str]:
    """As the sender, the receivers and `tiercast-host check` take them."""
    return [
        f"--scheme={session.scheme}",
        f"--session={session.session}",
        f"--layers={session.layers}",
        f"--packet-size={session.packet_size}",
        *(f"--set={name}={value}" for name, value in session.parameters.items()),
    ]


@cache
def _refusal(options: tuple[str, ...]) -> str:
    """What the cores say against a session, or nothing."""
    result = _ask_host("check", *options)
    if result.returncode == 0:
        return ""
    said = result.stderr.strip().removeprefix("tiercast-host: ")
    return said or f"`{' '.join(result.args)}` ended with status {result.returncode}"


def _ask_host(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(binaries.HOST), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)


def parse_schemes(text: str) -> dict[str, SchemeInfo]:
    keys = [one.name for one in fields(ParameterInfo)]
    return {
        scheme["name"]: SchemeInfo(
            scheme["name"],
            {
                p["name"]: ParameterInfo(**{key: p[key] for key in keys})
                for p in scheme["parameters"]
            },
            scheme["layered"],
            scheme["aggregated"],
            tuple(scheme["records"]),
        )
        for scheme in json.loads(text)
    }
