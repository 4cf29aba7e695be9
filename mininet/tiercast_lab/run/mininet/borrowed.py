"""Interfaces of this machine that a run moves into one of its namespaces, and gives back."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence

from tiercast_lab.base.errors import RunFailed

COMMAND_S = 10.0


class BorrowedInterface:
    """An interface, from when the object is made until `give_back`. Its namespace outlives the
    node, so that a virtual interface is not removed with it."""

    def __init__(self, interface: str, pid: int, name: str, address: str | None) -> None:
        """Moves `interface` into the network namespace of the process `pid`, where it is called
        `name` and has the MAC `address` (None: its own). Raises RunFailed."""
        self.interface = interface
        self.name = name
        [before] = json.loads(_ip(["-json", "link", "show", interface]))
        self._address = before["address"]
        self._was_up = "UP" in before["flags"]
        self._home = os.open("/proc/self/ns/net", os.O_RDONLY)
        self._namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        try:
            _ip(["link", "set", interface, "down"])
            _ip(["link", "set", interface, "netns", str(pid), "name", name])
            if address is not None:
                _ip(["link", "set", name, "address", address], self._namespace)
        except RunFailed:
            self.give_back()
            raise

    def give_back(self) -> None:
        """Whatever became of the node. A failure is not reported, as the run ends anyway."""
        back = f"/proc/{os.getpid()}/fd/{self._home}"
        for command in (
            ["link", "set", self.name, "down"],
            ["link", "set", self.name, "address", self._address],
            ["link", "set", self.name, "netns", back, "name", self.interface],
        ):
            _ip(command, self._namespace, check=False)
        _ip(["link", "set", self.interface, "up" if self._was_up else "down"], check=False)
        os.close(self._namespace)
        os.close(self._home)


def _ip(command: Sequence[str], namespace: int | None = None, check: bool = True) -> str:
    inside = [] if namespace is None else ["nsenter", f"--net=/proc/{os.getpid()}/fd/{namespace}"]
    done = subprocess.run(
        [*inside, "ip", *command], capture_output=True, text=True, timeout=COMMAND_S, check=False
    )
    if check and done.returncode:
        raise RunFailed(f"`ip {' '.join(command)}` failed: {done.stderr.strip()}")
    return done.stdout
