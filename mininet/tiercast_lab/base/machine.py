"""Describes the machine and the software on it, and measures how busy its CPUs are."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tiercast_controller.base.installation import IN_CHECKOUT, ROOT, VERSION

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import InputError

PRESSURE = Path("/proc/pressure/cpu")
CONGESTION_CONTROLS = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def require_root() -> None:
    if os.geteuid() != 0:
        raise InputError(
            "root is missing: network namespaces and packet sockets need it; "
            f"run: sudo {binaries.COMMAND} …"
        )


def pressure_us() -> float | None:
    """Microseconds since boot during which some task waited for a CPU; None if the kernel does not
    say."""
    try:
        first = PRESSURE.read_text().splitlines()[0]
    except OSError:
        return None
    return float(first.rpartition("total=")[2])


def congestion_controls() -> list[str]:
    """The TCP congestion controls that this kernel has loaded; empty if it does not say."""
    try:
        return CONGESTION_CONTROLS.read_text().split()
    except OSError:
        return []


def describe() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "cpu": _cpu_model(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "distribution": platform.freedesktop_os_release().get("PRETTY_NAME"),
        "load": [round(value, 2) for value in os.getloadavg()],
    }


def real_time() -> dict[str, Any]:
    """What of the machine shapes a run in real time, besides the lab's own programs."""
    return {"kernel": platform.release(), "cpu": _cpu_model(), "cores": os.cpu_count()}


def versions() -> dict[str, str | None]:
    return {
        "tiercast": VERSION,
        "commit": _commit(),
        "kernel": platform.release(),
        "dpdk": _dpdk(),
        "mininet": _package("mininet"),
        "bmv2": _output("simple_switch_grpc", "--version"),
        "ns3": _package("libns3.[0-9]*"),
        "p4c": _p4c(),
        "python": platform.python_version(),
        "polars": version("polars"),
        "numpy": version("numpy"),
    }


def _package(name: str) -> str | None:
    """The version of a Debian package; of several that a pattern finds, the first."""
    said = _output("dpkg-query", "-W", "-f", "${Version}\\n", name)
    return said.splitlines()[0] if said else None


def _p4c() -> str | None:
    """The compiler of the P4 program, as its LOCK names it: "p4c-bm2-ss 1.2.5.16"."""
    try:
        first = binaries.P4_LOCK.read_text().splitlines()[0]
    except (OSError, ValueError, IndexError):
        return None
    return first.partition("compiler ")[2] or None


def _dpdk() -> str | None:
    """The DPDK version that the sender was linked with or, before it is built, the installed
    one."""
    said = _output(str(binaries.SENDER), "--version") or ""
    linked = said.partition("(DPDK ")[2].removesuffix(")")
    return linked or _output("pkg-config", "--modversion", "libdpdk")


def _commit() -> str | None:
    """The checkout's commit, with "-dirty" if anything but the documents was changed."""
    if not IN_CHECKOUT:
        return None
    git = ["git", "-C", str(ROOT)]
    changed = _output(
        *git, "status", "--porcelain", "--untracked-files=no", "--", ":!docs", ":!*.md"
    )
    commit = _output(*git, "describe", "--always")
    return f"{commit}-dirty" if commit and changed else commit


def digests(files: Iterable[Path]) -> dict[str, str]:
    """SHA-256 of each file's present contents, by path; paths inside tiercast are relative to
    it."""
    return {shown_path(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def shown_path(path: Path) -> str:
    """The path by which a run names a file: relative to tiercast if it is inside."""
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


def _cpu_model() -> str | None:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _output(*command: str) -> str | None:
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):  # a busy machine costs the version, not the run
        return None
    return result.stdout.strip() or None if result.returncode == 0 else None
