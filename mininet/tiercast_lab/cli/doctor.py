"""Finds out what this machine can and cannot do, and what follows from anything missing."""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text
from tiercast_controller.base.installation import IN_CHECKOUT, ROOT

from tiercast_lab.base import binaries, machine
from tiercast_lab.base.errors import InputError
from tiercast_lab.run.mininet.processes import real_time_allowed

MIN_CORES = 2


@dataclass(frozen=True)
class Finding:
    name: str
    ok: bool
    seen: str
    follows: str = ""  # what follows from its absence
    do: str = ""
    needed: bool = False  # `tiercast run` needs it in Mininet


def examine() -> list[Finding]:
    return [check() for check in CHECKS]


def require_kernel() -> None:
    """Raises InputError for the first kernel feature that a run needs and this machine lacks."""
    for check in (_namespaces, _veth, _packet_sockets):
        finding = check()
        if not finding.ok:
            raise InputError(f"{finding.name}: {finding.seen}; {finding.do}")


def show(findings: list[Finding], console: Console) -> None:
    """Shows the findings. Whatever a run needs and lacks comes first, so that the first line names
    it."""
    for finding in sorted(findings, key=lambda f: f.ok or not f.needed):
        mark = (
            ("yes", "green") if finding.ok else ("NO", "bold red" if finding.needed else "yellow")
        )
        line = Text.assemble(
            (f"{mark[0]:<4}", mark[1]), (f"{finding.name:<16}", "bold"), finding.seen
        )
        console.print(line, soft_wrap=True, highlight=False)
        if not finding.ok:
            for text in (f"so: {finding.follows}", f"do: {finding.do}"):
                console.print(f"{'':<20}{text}", soft_wrap=True, highlight=False, markup=False)


def _root() -> Finding:
    return Finding(
        "root",
        os.geteuid() == 0,
        f"user id {os.geteuid()}",
        "no experiment can run in Mininet; --runtime ns3, figures, sweeps, list and report work",
        f"run: sudo {binaries.COMMAND} …",
        needed=True,
    )


def _namespaces() -> Finding:
    ok, said = _try("unshare", "--net", "true")
    return Finding(
        "namespaces",
        ok,
        "network namespaces can be created" if ok else said,
        "no experiment can run in Mininet",
        "use a kernel with CONFIG_NET_NS; in a container: start it privileged",
        needed=True,
    )


def _veth() -> Finding:
    # The pair is made inside its own namespace and disappears with it.
    ok, said = _try(
        "unshare", "--net", "ip", "link", "add", "doctor0", "type", "veth", "peer", "doctor1"
    )
    return Finding(
        "veth",
        ok,
        "veth pairs can be created" if ok else said,
        "no experiment can run in Mininet",
        "use a kernel with CONFIG_VETH; in a container: start it privileged",
        needed=True,
    )


def _packet_sockets() -> Finding:
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()
        ok, said = True, "packet sockets can be opened"
    except OSError as error:
        ok, said = False, error.strerror or str(error)
    return Finding(
        "packet sockets",
        ok,
        said,
        "switches and senders cannot reach their interfaces",
        "run as root, on a kernel with CONFIG_PACKET; in a container: add CAP_NET_RAW",
        needed=True,
    )


def _mininet() -> Finding:
    try:
        from mininet.net import VERSION

        ok, said = shutil.which("mnexec") is not None, f"version {VERSION}"
    except ImportError:
        ok, said = False, f"not found by {sys.executable}"
    return Finding(
        "mininet",
        ok,
        said,
        "no experiment can run in Mininet",
        "run: make setup" if IN_CHECKOUT else "install: mininet",
        needed=True,
    )


def _dpdk() -> Finding:
    version = machine.versions()["dpdk"]
    return Finding(
        "DPDK",
        version is not None,
        f"version {version}" if version else "libdpdk is not installed",
        "there is no sender",
        "run: make setup" if binaries.BUILT else binaries.remedy(binaries.SENDER),
        needed=True,
    )


def _programs() -> Finding:
    wanted = (binaries.SWITCH, binaries.SENDER, binaries.HOST)
    missing = [path for path in wanted if not path.exists()]
    names = ", ".join(path.name for path in missing)
    found = "built" if binaries.BUILT else "installed"
    return Finding(
        "programs",
        not missing,
        f"missing: {names}" if missing else f"switch, sender and host are {found}",
        "no experiment can run in Mininet",
        binaries.remedy(*missing),
        needed=True,
    )


def _ns3() -> Finding:
    ok = binaries.NS3.exists()
    return Finding(
        "virtual time",
        ok,
        f"{binaries.NS3} is there" if ok else f"missing: {binaries.NS3.name}",
        "no experiment can run in virtual time, no figure and no sweep",
        binaries.remedy(binaries.NS3),
    )


def _cores() -> Finding:
    cores = len(os.sched_getaffinity(0))
    return Finding(
        "cores",
        cores >= MIN_CORES,
        f"{cores}",
        "runs will often be invalid: switches, hosts and sender share one core",
        f"use a machine with {MIN_CORES} cores or more",
    )


def _pressure() -> Finding:
    ok = machine.pressure_us() is not None
    return Finding(
        "CPU pressure",
        ok,
        str(machine.PRESSURE) if ok else f"{machine.PRESSURE} is missing",
        "a run's validity is judged by CPU time and lateness only",
        "boot with psi=1 on a kernel with CONFIG_PSI",
    )


def _real_time() -> Finding:
    ok = real_time_allowed()
    return Finding(
        "real time",
        ok,
        "SCHED_RR can be set" if ok else "SCHED_RR cannot be set",
        "other work on the machine makes packets late, and runs invalid",
        "run as root; in a container: add CAP_SYS_NICE",
    )


def _netem() -> Finding:
    ok, said = _try("unshare", "--net", "tc", "qdisc", "add", "dev", "lo", "root", "netem")
    return Finding(
        "netem",
        ok,
        "tc netem works" if ok else said.partition("\n")[0],
        "nothing for tiercast-switch, which delays packets itself; with --switch bmv2 "
        "tiercast-delay-line delays them",
        "nothing",
    )


def _huge_pages() -> Finding:
    total = 0
    for pool in Path("/sys/kernel/mm/hugepages").glob("hugepages-*/nr_hugepages"):
        total += int(pool.read_text())
    return Finding(
        "huge pages",
        total > 0,
        f"{total} reserved",
        "nothing in Mininet, where the sender uses none; a sender on a real NIC needs them",
        "for a NIC: echo 512 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
    )


def _p4c() -> Finding:
    path = shutil.which("p4c-bm2-ss") or shutil.which("p4c")
    ok, said = _try(path, "--version") if path else (False, "not found in PATH")
    return Finding(
        "p4c",
        ok,
        said.partition("\n")[2] or said,
        "no `program: FILE.p4`, but FILE.json; p4src has its compiled output",
        "only for P4 sources of your own or changed ones: install p4c 1.2.5 or newer",
    )


def _bmv2() -> Finding:
    path = shutil.which("simple_switch_grpc")
    return Finding(
        "bmv2",
        path is not None,
        path or "simple_switch_grpc is not in PATH",
        "--switch bmv2 does not work; the default, tiercast-switch, does",
        "only for --switch bmv2: build behavioral-model with its P4Runtime server",
    )


def _dumpcap() -> Finding:
    path = shutil.which("dumpcap")
    return Finding(
        "dumpcap",
        path is not None,
        path or "dumpcap is not in PATH",
        "--capture works in virtual time only",
        "only for --capture in Mininet: apt install wireshark-common",
    )


def _tshark() -> Finding:
    """Wireshark's programs decode the schemes' messages with a dissector in Lua."""
    ok, said = _try("tshark", "-v")
    version = said.partition(" (Git")[0].partition("\n")[0].rstrip(".")
    lua = re.search(r"with\s+Lua", said) is not None
    places = ("tools/wire", "lib/wireshark/plugins", "lib/*/wireshark/plugins")
    found = [path for place in places for path in ROOT.glob(f"{place}/tiercast.lua")]
    dissector = f"the dissector {found[0]}" if found else "no dissector tiercast.lua"
    return Finding(
        "tshark",
        ok and lua and bool(found),
        f"{version}, {'with' if lua else 'without'} Lua; {dissector}" if ok else "not in PATH",
        "captures cannot be read, or not the schemes' messages in them, on this machine",
        "only to read captures: apt install tshark, or wireshark; docs/experiments.md, Captures",
    )


def _tcp_reno() -> Finding:
    available = machine.congestion_controls()
    return Finding(
        "TCP Reno",
        "reno" in available,
        f"the kernel has {', '.join(available) or 'no known congestion control'}",
        "experiments with competing TCP traffic (`traffic:`) do not run",
        "use a kernel with TCP; reno is part of every one",
    )


def _kernel() -> Finding:
    return Finding("kernel", True, f"{platform.release()} on {platform.machine()}")


CHECKS: tuple[Callable[[], Finding], ...] = (
    _root,
    _namespaces,
    _veth,
    _packet_sockets,
    _mininet,
    _dpdk,
    _programs,
    _ns3,
    _cores,
    _kernel,
    _pressure,
    _real_time,
    _netem,
    _tcp_reno,
    _huge_pages,
    _p4c,
    _bmv2,
    _dumpcap,
    _tshark,
)


def _try(*command: str) -> tuple[bool, str]:
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except OSError as error:
        return False, f"{command[0]}: {error.strerror}"
    return result.returncode == 0, (result.stdout + result.stderr).strip()
