"""Interfaces of this machine that a run moves into one of its namespaces, and gives back."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence

from tiercast_lab.base.errors import RunFailed

COMMAND_S = 10.0
# Waits for the end of its standard input, which is the lab's end, however it comes. Arguments: the
# file descriptors of the namespaces (there, here), the names (there, here), the MAC, up or down.
GIVE_BACK = """
read -r _
there="nsenter --net=/proc/self/fd/$1 ip link set dev $3"
$there down
$there address "$5"
$there netns "/proc/$$/fd/$2" name "$4"
nsenter --net="/proc/self/fd/$2" ip link set dev "$4" "$6"
"""


class BorrowedInterface:
    """An interface, from when the object is made until `give_back`, or until the lab is killed. Its
    namespace outlives the node, so that a virtual interface is not removed with it."""

    def __init__(self, interface: str, pid: int, name: str, address: str | None) -> None:
        """Moves `interface` into the network namespace of the process `pid`, where it is called
        `name` and has the MAC `address` (None: its own). Raises RunFailed."""
        self.name = name
        [before] = json.loads(_ip(["-json", "link", "show", interface]))
        state = "up" if "UP" in before["flags"] else "down"
        with open(f"/proc/{pid}/ns/net") as there, open("/proc/self/ns/net") as here:
            namespaces = (there.fileno(), here.fileno())
            self._guard = subprocess.Popen(
                ["sh", "-c", GIVE_BACK, "sh", *map(str, namespaces)]
                + [name, interface, before["address"], state],
                stdin=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=namespaces,
                start_new_session=True,
            )
            try:
                _ip(["link", "set", interface, "down"])
                _ip(["link", "set", interface, "netns", str(pid), "name", name])
                if address is not None:
                    inside = ["nsenter", f"--net=/proc/{os.getpid()}/fd/{there.fileno()}"]
                    _ip(["link", "set", name, "address", address], inside)
            except RunFailed:
                self.give_back()
                raise

    def give_back(self) -> None:
        """Whatever became of the node. A failure is not reported, as the run ends anyway."""
        self._guard.communicate()


def _ip(command: Sequence[str], inside: Sequence[str] = ()) -> str:
    done = subprocess.run(
        [*inside, "ip", *command], capture_output=True, text=True, timeout=COMMAND_S, check=False
    )
    if done.returncode:
        raise RunFailed(f"`ip {' '.join(command)}` failed: {done.stderr.strip()}")
    return done.stdout
