"""Where the files that a run needs stand, and what to do when one is missing."""

from __future__ import annotations

import os
from pathlib import Path

from tiercast_lab.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
# TIERCAST_BUILD: another build tree, such as one with sanitizers.
BUILD = Path(os.environ.get("TIERCAST_BUILD", ROOT / "build")).resolve()

SWITCH = BUILD / "dataplane/switch/tiercast-switch"
SENDER = BUILD / "dataplane/sender/tiercast-send"
HOST = BUILD / "hosts/tiercast-host"
NS3 = BUILD / "ns3/tiercast-ns3"
WIRE = BUILD / "dataplane/wire/tiercast-wire"
EXPERIMENTS = ROOT / "experiments"
FIGURES = EXPERIMENTS / "figures"
SWEEPS = EXPERIMENTS / "sweeps"
TOPOLOGIES = EXPERIMENTS / "topologies"
BASES = EXPERIMENTS / "bases"
P4_JSON = ROOT / "p4src/compiled/tiercast.json"
P4_INFO = ROOT / "p4src/compiled/tiercast.p4info.txtpb"
P4_LOCK = ROOT / "p4src/compiled/LOCK"


def require(*paths: Path) -> None:
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        raise InputError(f"not built: {', '.join(missing)}; run: make build")
