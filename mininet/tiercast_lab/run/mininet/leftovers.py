"""Ends what users started in the nodes of a lab (`h3 iperf -s &`), also when the lab is killed.

While a lab goes on, a process of its own waits for the end of its standard input, which is the
lab's end, however it comes. It then kills whatever is left in the nodes' network namespaces.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tiercast_lab.run.mininet.network import Network
    from tiercast_lab.run.mininet.processes import Children


class Leftovers:
    def __init__(self, network: Network, children: Children) -> None:
        nodes = network.nodes.values()
        self._namespaces = [os.stat(f"/proc/{node.pid}/ns/net").st_ino for node in nodes]
        self._shells = {node.pid for node in nodes}
        self._children = children
        self._watcher: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Leftovers:
        self._watcher = subprocess.Popen(
            [sys.executable, "-S", __file__, *map(str, self._namespaces)],
            stdin=subprocess.PIPE,
            start_new_session=True,
            env={},
        )
        return self

    def __exit__(self, *error: object) -> None:
        """The run ends its own programs, each of which leads a process group, and the nodes."""
        groups = {child.process.pid for child in self._children.children}
        for pid in _inside(self._namespaces) - self._shells:
            with contextlib.suppress(ProcessLookupError):
                if os.getpgid(pid) not in groups:
                    os.kill(pid, signal.SIGKILL)
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.communicate()


def _inside(namespaces: list[int]) -> set[int]:
    """The processes in these network namespaces."""
    found = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                inode = os.stat(f"/proc/{name}/ns/net").st_ino
            except OSError:
                continue  # it has ended
            if inode in namespaces:
                found.add(int(name))
    return found


def main() -> None:
    namespaces = [int(text) for text in sys.argv[1:]]
    sys.stdin.read()
    while left := _inside(namespaces):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
