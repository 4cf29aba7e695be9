"""The paths of the programs and data files that a run needs, and what to do when one is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tiercast_controller.base.bounded_yaml import kind_of_file, shown
from tiercast_controller.base.installation import DATA, IN_CHECKOUT, ROOT

from tiercast_lab.base.errors import InputError, closest
from tiercast_lab.base.folders import names_in

# TIERCAST_BUILD selects another build tree, for example one with sanitizers.
BUILD = Path(os.environ.get("TIERCAST_BUILD", ROOT / "build")).resolve()
BUILT = IN_CHECKOUT or "TIERCAST_BUILD" in os.environ


def _program(folder: str, name: str) -> Path:
    """The path of a program: in the build tree, or, for an installation, beside `tiercast` and
    otherwise in PATH."""
    if BUILT:
        return BUILD / folder / name
    beside = ROOT / "bin" / name
    return beside if beside.exists() else Path(shutil.which(name) or beside)


SWITCH = _program("dataplane/switch", "tiercast-switch")
SWITCH_DPDK = _program("dataplane/switch/dpdk", "tiercast-switch-dpdk")
SENDER = _program("dataplane/sender", "tiercast-send")
TESTER = _program("dataplane/tester", "tiercast-tester")
HOST = _program("hosts", "tiercast-host")
NS3 = _program("ns3", "tiercast-ns3")
DELAY_LINE = _program("dataplane/delay_line", "tiercast-delay-line")
MARKING = _program("dataplane/marking", "tiercast-marking")
NORM = _program("tools/norm", "tiercast-norm")
EXPERIMENTS = DATA / "experiments"
FIGURES = EXPERIMENTS / "figures"
SWEEPS = EXPERIMENTS / "sweeps"
CALIBRATED = EXPERIMENTS / "calibrated/numbers.yaml"
TOPOLOGIES = EXPERIMENTS / "topologies"
BASES = EXPERIMENTS / "bases"
P4 = DATA / "p4src/compiled"  # of switches whose experiment names no program
P4_JSON = P4 / "tiercast.json"
P4_INFO = P4 / "tiercast.p4info.txtpb"
P4_LOCK = P4 / "LOCK"  # the compiler and the sources of the two
# Runs are stored here unless `--results` or TIERCAST_RESULTS says otherwise. An installation may be
# read-only, so its runs go into the current folder.
RESULTS = Path(
    os.environ.get("TIERCAST_RESULTS") or (ROOT / "results" if IN_CHECKOUT else "results")
)
# The command as the user types it.
COMMAND = "./tiercast" if IN_CHECKOUT else "tiercast"
PACKAGE_OF = {NS3: "tiercast-ns3"}


def linked(program: Path, prefix: str) -> list[Path]:
    """The shared libraries of a program whose names begin so, as the loader finds them. None if it
    is no dynamic executable."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    found = (line.partition(" => ") for line in map(str.strip, said.splitlines()))
    return [
        Path(place.rpartition(" (")[0])
        for name, _, place in found
        if name.startswith(prefix) and place.startswith("/")
    ]


def require(*paths: Path) -> None:
    missing = [path for path in paths if not path.exists()]
    if missing:
        names = ", ".join(map(str, missing))
        raise InputError(f"not {'built' if BUILT else 'installed'}: {names}; {remedy(*missing)}")


def remedy(*missing: Path) -> str:
    """What the user has to run to get these programs."""
    if BUILT:
        return "run: make programs"
    packages = sorted({PACKAGE_OF.get(path, "tiercast") for path in missing})
    return f"install: {' '.join(packages)}"


def from_here(path: Path) -> Path:
    """The path as a terminal shows it: relative to the current folder if it lies below it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


# For each command: what its name argument means, and the folder where those names are found.
NAMED = {
    "run": ("an experiment", EXPERIMENTS),
    "figure": ("a figure", FIGURES),
    "sweep": ("a sweep", SWEEPS),
}


_FOLDERS = {folder.resolve() for _, folder in NAMED.values()}


def names(command: str) -> list[str]:
    """The names that `find` accepts for the command, sorted."""
    _, folder = NAMED[command]
    return sorted(found.stem for found in folder.glob("*.yaml"))


def find(command: str, name: str) -> Path:
    """The YAML file that `tiercast COMMAND NAME` means: a path, with or without .yaml, so also a
    name in the current folder; or a name in the command's folder.

    Raises InputError, with the valid names, if there is no such file, and if both are there.
    """
    if os.path.isfile(name):
        return Path(name)
    what, folder = NAMED[command]
    own, path = Path(f"{name}.yaml"), folder / f"{name}.yaml"
    is_own = os.path.isfile(own) and own.resolve().parent not in _FOLDERS
    if os.path.isfile(path):
        if is_own and not own.samefile(path):
            raise InputError(f"{name!r} is {what} of tiercast and a file; valid: {own}, or {path}")
        return path
    if is_own:
        return own
    for other, (kind, place) in NAMED.items():
        if os.path.isfile(place / f"{name}.yaml"):
            raise InputError(f"{name!r} is {kind}; valid: tiercast {other} {name}")
    choices = names(command)
    valid = f"valid: a YAML file, or one of {', '.join(choices)}"
    if is_another := kind_of_file(Path(name)):
        raise InputError(f"{shown(name)} is {is_another}; {valid}")
    meant = _closest_file(name) or closest(Path(name).stem, choices)
    raise InputError(f"no {what.split()[1]} {shown(name)}; {valid}{meant}")


def _closest_file(name: str) -> str:
    """As `closest`, among the YAML files beside the one that a path means. A plain name is that of
    something tiercast provides."""
    folder, file = os.path.split(name)
    if not folder and not file.endswith(".yaml"):
        return ""
    there = sorted(one for one in names_in(Path(folder)) if one.endswith(".yaml"))
    return closest(file, there, name.removesuffix(file))
