"""Where the files that a run needs stand, and what to do when one is missing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tiercast_controller.bounded_yaml import kind_of_file, shown
from tiercast_controller.installation import DATA, IN_CHECKOUT, ROOT

from tiercast_lab.base.errors import InputError, closest

# TIERCAST_BUILD: another build tree, such as one with sanitizers.
BUILD = Path(os.environ.get("TIERCAST_BUILD", ROOT / "build")).resolve()
BUILT = IN_CHECKOUT or "TIERCAST_BUILD" in os.environ


def _program(folder: str, name: str) -> Path:
    """In the build tree; of an installation, beside `tiercast`, or else wherever PATH has it."""
    if BUILT:
        return BUILD / folder / name
    beside = ROOT / "bin" / name
    return beside if beside.exists() else Path(shutil.which(name) or beside)


SWITCH = _program("dataplane/switch", "tiercast-switch")
SENDER = _program("dataplane/sender", "tiercast-send")
HOST = _program("hosts", "tiercast-host")
NS3 = _program("ns3", "tiercast-ns3")
DELAY_LINE = _program("dataplane/delay_line", "tiercast-delay-line")
EXPERIMENTS = DATA / "experiments"
FIGURES = EXPERIMENTS / "figures"
SWEEPS = EXPERIMENTS / "sweeps"
TOPOLOGIES = EXPERIMENTS / "topologies"
BASES = EXPERIMENTS / "bases"
# TIERCAST_P4: the compiled program of another folder (docs/add-a-marking.md).
P4 = Path(os.environ.get("TIERCAST_P4", DATA / "p4src/compiled")).resolve()
P4_JSON = P4 / "tiercast.json"
P4_INFO = P4 / "tiercast.p4info.txtpb"
# Where runs are stored unless `--results` says otherwise: nobody writes into an installation.
RESULTS = ROOT / "results" if IN_CHECKOUT else Path("results")
# What people type.
COMMAND = "./tiercast" if IN_CHECKOUT else "tiercast"
PACKAGE_OF = {NS3: "tiercast-ns3"}


def require(*paths: Path) -> None:
    missing = [path for path in paths if not path.exists()]
    if missing:
        names = ", ".join(map(str, missing))
        raise InputError(f"not {'built' if BUILT else 'installed'}: {names}; {remedy(*missing)}")


def remedy(*missing: Path) -> str:
    """What brings these programs."""
    if BUILT:
        return "run: make programs"
    packages = sorted({PACKAGE_OF.get(path, "tiercast") for path in missing})
    return f"install: {' '.join(packages)}"


def from_here(path: Path) -> Path:
    """As a terminal shows it: from the current folder on, if it is below it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


# What each command takes a name of, and where these are.
NAMED = {
    "run": ("an experiment", EXPERIMENTS),
    "figure": ("a figure", FIGURES),
    "sweep": ("a sweep", SWEEPS),
}


def names(command: str) -> list[str]:
    """What `find` finds in the command's folder."""
    _, folder = NAMED[command]
    return sorted(found.stem for found in folder.glob("*.yaml"))


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
    choices = names(command)
    valid = f"valid: a YAML file, or one of {', '.join(choices)}"
    if is_another := kind_of_file(Path(name)):
        raise InputError(f"{shown(name)} is {is_another}; {valid}")
    raise InputError(
        f"no {what.split()[1]} {shown(name)}; {valid}{closest(Path(name).stem, choices)}"
    )
