"""What the machine is, and how hard it is pressed while a run goes on."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import time
from pathlib import Path
from typing import Any

from tiercast_lab import __version__, binaries
from tiercast_lab.errors import InputError

PRESSURE = Path("/proc/pressure/cpu")
CONGESTION_CONTROLS = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def require_root() -> None:
    if os.geteuid() != 0:
        raise InputError(
            "root is missing: network namespaces and packet sockets need it; run: sudo ./tiercast …"
        )


def pressure_us() -> float | None:
    """Microseconds since boot in which some task waited for a CPU; None where not measured."""
    try:
        first = PRESSURE.read_text().splitlines()[0]
    except OSError:
        return None
    return float(first.rpartition("total=")[2])


def congestion_controls() -> list[str]:
    """TCP's, of this kernel; empty where it does not say."""
    try:
        return CONGESTION_CONTROLS.read_text().split()
    except OSError:
        return []


def own_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class LoadMeter:
    """CPU of the run's processes and CPU pressure of the machine, between two looks."""

    def __init__(self) -> None:
        self._last = (time.monotonic(), own_cpu_seconds(), 0.0, pressure_us())

    def look(self, children_cpu_s: float, children_wait_s: float) -> dict[str, float]:
        """The row of kind `machine` for the time since the last look."""
        ran = own_cpu_seconds() + children_cpu_s
        now = (time.monotonic(), ran, children_wait_s, pressure_us())
        elapsed = now[0] - self._last[0]
        row = {
            "cpu_percent": 100 * (now[1] - self._last[1]) / elapsed,
            "wait_percent": 100 * (now[2] - self._last[2]) / elapsed,
        }
        if now[3] is not None and self._last[3] is not None:
            row["pressure_percent"] = (now[3] - self._last[3]) / elapsed / 1e4
        self._last = now
        return row


def describe() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "cpu": _cpu_model(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "distribution": platform.freedesktop_os_release().get("PRETTY_NAME"),
        "load": [round(value, 2) for value in os.getloadavg()],
    }


def versions() -> dict[str, str | None]:
    lock = binaries.P4_LOCK
    return {
        "tiercast": __version__,
        "commit": _output("git", "-C", str(binaries.ROOT), "describe", "--always", "--dirty"),
        "kernel": platform.release(),
        "dpdk": _output("pkg-config", "--modversion", "libdpdk"),
        "mininet": _output("dpkg-query", "-W", "-f", "${Version}", "mininet"),
        "python": platform.python_version(),
        "p4_lock": lock.read_text().strip() if lock.exists() else None,
    }


def _cpu_model() -> str | None:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _output(*command: str) -> str | None:
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except OSError:
        return None
    return result.stdout.strip() or None if result.returncode == 0 else None
