"""Network namespaces that a test or a benchmark makes for itself (root)."""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

CLONE_NEWNET = 0x40000000


def ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"


def command_in(namespace: str, *command: str | os.PathLike[str]) -> list[str]:
    """The command line that runs a command in the namespace."""
    return ["ip", "netns", "exec", namespace, *(str(word) for word in command)]


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Sockets that this thread opens here belong to the namespace, and stay there."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net") as home, open(f"/run/netns/{namespace}") as there:
        if libc.setns(there.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns {namespace}")
        try:
            yield
        finally:
            libc.setns(home.fileno(), CLONE_NEWNET)


class Namespaces:
    """One namespace per name, until close(). They have no IPv6, so that only its frames are
    on their links. Their names on the machine contain this process's id, because tests run side by
    side."""

    _numbers = itertools.count()

    def __init__(self, *names: str) -> None:
        prefix = f"tctest{os.getpid()}x{next(self._numbers)}"
        self._made: dict[str, str] = {}
        try:
            for name in names:
                self._made[name] = f"{prefix}-{name}"
                ip("netns", "add", self._made[name])
                settings = [f"net.ipv6.conf.{of}.disable_ipv6=1" for of in ("all", "default")]
                quiet = command_in(self._made[name], "sysctl", "-qw", *settings)
                subprocess.run(quiet, check=True)
                ip("-n", self._made[name], "link", "set", "lo", "up")
        except BaseException:
            self.close()
            raise

    def __getitem__(self, name: str) -> str:
        """The namespace's name for `ip -n`."""
        return self._made[name]

    def join(self, a: str, interface_a: str, b: str, interface_b: str) -> None:
        """Makes a veth pair between two namespaces, or within one."""
        ip("-n", self[a], "link", "add", interface_a, "type", "veth",
           "peer", "name", interface_b, "netns", self[b])  # fmt: skip
        for namespace, interface in ((a, interface_a), (b, interface_b)):
            ip("-n", self[namespace], "link", "set", interface, "up")

    def close(self) -> None:
        for namespace in self._made.values():
            subprocess.run(["ip", "netns", "delete", namespace], capture_output=True)
        self._made.clear()
