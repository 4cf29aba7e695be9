"""Entering a network namespace."""

from __future__ import annotations

import ctypes
import os

CLONE_NEWNET = 0x40000000  # of linux/sched.h


def enter(namespace: int, name: str) -> None:
    """Sockets that this thread opens from now on belong to the namespace, and stay there.
    `namespace` is a descriptor of its file, and `name` says which it is. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)
