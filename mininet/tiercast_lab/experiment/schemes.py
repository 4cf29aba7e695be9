"""The schemes and their parameters, as reported by tiercast-host. No scheme is named here."""

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
    name: str  # such as "sim.delta"
    default: float
    min: float
    max: float
    unit: str
    purpose: str = ""
    source: str = ""  # the section of the paper, or what the value was calibrated on
    used_by: str = "both"  # which end uses it: "sender", "receiver" or "both"
    whole: bool = False  # a count, a switch (0 or 1) or a mode


@dataclass(frozen=True)
class SchemeInfo:
    name: str
    parameters: dict[str, ParameterInfo] = field(default_factory=dict)
    layered: bool = True  # otherwise a session has one rate and one layer
    aggregated: bool = False  # whether switches can aggregate its feedback
    records: tuple[str, ...] = ()  # the kinds of rows that its cores trace, such as "sim.round"
    lies: dict[str, str] = field(default_factory=dict)  # that members can tell, and their meanings


def known_schemes() -> dict[str, SchemeInfo]:
    """Asks `tiercast-host schemes`. Raises InputError if it is not built."""
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
    """Raises InputError if the scheme's cores refuse the combination of a session's parameters."""
    for index, session in enumerate(loaded.experiment.sessions):
        # The copies of a unicast session share one check.
        own = session.model_copy(update={"session": 0})
        if refusal := _refusal(tuple(session_options(own))):
            raise loaded.error(loaded.session_paths[index], refusal)


def session_options(session: Session) -> list[str]:
    """The options of a session for the sender, the receivers and `tiercast-host check`."""
    return [
        f"--scheme={session.scheme}",
        f"--session={session.session}",
        f"--layers={session.layers}",
        f"--packet-size={session.packet_size}",
        *(f"--set={name}={value}" for name, value in session.parameters.items()),
    ]


@cache
def _refusal(options: tuple[str, ...]) -> str:
    """Why the cores refuse a session; empty if they accept it."""
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
            scheme["lies"],
        )
        for scheme in json.loads(text)
    }
