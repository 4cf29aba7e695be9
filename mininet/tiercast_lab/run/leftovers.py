"""Finds and removes what an ended lab left on this machine: the shells of its nodes with everything
in their namespaces, interfaces that never reached one, and temporary folders.

The kernel removes nearly all of this by itself when a lab is killed. What is alive stays: a run
whose lab holds the lock of its temporary folder, or is the parent of its nodes' shells.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tiercast_lab.base import scratch
from tiercast_lab.base.errors import LabError
from tiercast_lab.base.machine import require_root

# As run.mininet.network names them: a node's shell, and an interface, by the run's id.
_SHELL = re.compile(r"mininet:([0-9a-f]{4})-(?:[hst][0-9]+|switches)")
_INTERFACE = re.compile(r"([0-9a-f]{4})-[hst][0-9]+[piw][0-9]+")
_FOLDER = re.compile(re.escape(scratch.PREFIX) + r"([0-9a-f]{4})-[a-z0-9_]+")


@dataclass(frozen=True)
class Leftovers:
    namespaces: dict[str, list[int]]  # the processes in each, by the name of its node's shell
    interfaces: list[str]
    folders: list[Path]
    alive: list[str]  # the ids of runs that go on

    @property
    def any(self) -> bool:
        return bool(self.namespaces or self.interfaces or self.folders)


def find() -> Leftovers:
    """What ended labs left, and the runs that are alive."""
    shells = list(_shells())
    alive = {one.run for one in shells if one.lab_lives}
    for path in Path(tempfile.gettempdir()).glob(f"{scratch.PREFIX}*"):
        if (named := _FOLDER.fullmatch(path.name)) and scratch.is_owned(path):
            alive.add(named[1])
    by_namespace = _processes_by_namespace()
    own = _namespace(os.getpid())
    namespaces = {
        shell.name: by_namespace.get(shell.namespace, [])
        for shell in shells
        if shell.run not in alive and shell.namespace not in ("", own)
    }
    interfaces = [
        name for name in _pairs() if (named := _INTERFACE.fullmatch(name)) and named[1] not in alive
    ]
    return Leftovers(namespaces, interfaces, scratch.orphans(remove=False), sorted(alive))


def remove(found: Leftovers) -> None:
    """Removes what was found. Raises LabError for what cannot be removed."""
    if found.namespaces or found.interfaces:
        require_root()
    for processes in found.namespaces.values():
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    for name in found.interfaces:
        # The other end of a pair goes with the first.
        if name in _pairs():
            done = subprocess.run(
                ["ip", "link", "delete", name], capture_output=True, text=True, check=False
            )
            if done.returncode != 0 and name in _pairs():
                raise LabError(f"{name}: `ip link delete` failed: {done.stderr.strip()}")
    scratch.orphans(remove=True)


@dataclass(frozen=True)
class _Shell:
    name: str
    run: str
    namespace: str
    lab_lives: bool


def _shells() -> Iterator[_Shell]:
    """The shells of this user's Mininet nodes that carry the name of a run."""
    for pid in _pids():
        with contextlib.suppress(OSError, ValueError, IndexError):
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            name = arguments[-2].decode()  # a zero ends the last one
            if (named := _SHELL.fullmatch(name)) is None:
                continue
            # Anyone can give a process that name, in a namespace that is no lab's, and some
            # programs are root's whoever starts them; a shell is not.
            shell = Path(os.readlink(f"/proc/{pid}/exe")).name
            if shell != "bash" or os.stat(f"/proc/{pid}").st_uid != os.getuid():
                continue
            status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            parent = Path(f"/proc/{status[1]}/comm").read_text()
            # A lab is Python; the shells of one that was killed belong to the system's first
            # process, or to another that collects orphans.
            yield _Shell(name, named[1], _namespace(pid), parent.startswith("python"))


def _processes_by_namespace() -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for pid in _pids():
        found.setdefault(_namespace(pid), []).append(pid)
    return found


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _namespace(pid: int) -> str:
    """The network namespace of a process; empty if it has ended, or is not ours to see."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


def _pairs() -> list[str]:
    """The names of the ends of veth pairs in this network namespace."""
    command = ["ip", "-json", "link", "show", "type", "veth"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
    return [link["ifname"] for link in json.loads(done.stdout or "[]") if "ifname" in link]
