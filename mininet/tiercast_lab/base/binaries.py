"""Where the files that a run needs stand, and what to do when one is missing."""

from __future__ import annotations

import os
from pathlib import Path

from tiercast_controller.bounded_yaml import kind_of_file, shown

from tiercast_lab.base.errors import InputError, closest

ROOT = Path(__file__).resolve().parents[3]
# TIERCAST_BUILD: another build tree, such as one with sanitizers.
BUILD = Path(os.environ.get("TIERCAST_BUILD", ROOT / "build")).resolve()

SWITCH = BUILD / "dataplane/switch/tiercast-switch"
SENDER = BUILD / "dataplane/sender/tiercast-send"
HOST = BUILD / "hosts/tiercast-host"
NS3 = BUILD / "ns3/tiercast-ns3"
DELAY_LINE = BUILD / "dataplane/delay_line/tiercast-delay-line"
EXPERIMENTS = ROOT / "experiments"
FIGURES = EXPERIMENTS / "figures"
SWEEPS = EXPERIMENTS / "sweeps"
TOPOLOGIES = EXPERIMENTS / "topologies"
BASES = EXPERIMENTS / "bases"
# TIERCAST_P4: the compiled program of another folder (docs/add-a-marking.md).
P4 = Path(os.environ.get("TIERCAST_P4", ROOT / "p4src/compiled")).resolve()
P4_JSON = P4 / "tiercast.json"
P4_INFO = P4 / "tiercast.p4info.txtpb"


def require(*paths: Path) -> None:
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        raise InputError(f"not built: {', '.join(missing)}; run: make programs")


def from_here(path: Path) -> Path:
    """As a terminal shows it: from the current folder on, if it is below it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


# What each command takes a name of, and where these are.
NAMED = {
    "run": ("an experiment", EXPERIMENTS),
    "figure": ("a figure", FIGURES),
    "sweep": ("a sweep", SWEEPS),
}


def find(command: str, name: str) -> Path:
    """The YAML that `tiercast COMMAND NAME` means: a file, or a name in the command's folder."""
    if os.path.isfile(name):
        return Path(name)
    what, folder = NAMED[command]
    if os.path.isfile(path := folder / f"{name}.yaml"):
        return path
    for other, (kind, place) in NAMED.items():
        if os.path.isfile(place / f"{name}.yaml"):
            raise InputError(f"{name!r} is {kind}; valid: tiercast {other} {name}")
    choices = sorted(found.stem for found in folder.glob("*.yaml"))
    valid = f"valid: a YAML file, or one of {', '.join(choices)}"
    if is_another := kind_of_file(Path(name)):
        raise InputError(f"{shown(name)} is {is_another}; {valid}")
    raise InputError(
        f"no {what.split()[1]} {shown(name)}; {valid}{closest(Path(name).stem, choices)}"
    )
