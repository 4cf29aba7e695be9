"""Temporary folders: removed at the end, and, after a kill, by the next process that makes one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PREFIX = "tiercast-scratch-"
# A younger folder without a lock may belong to a process that has not locked it yet.
MIN_AGE_S = 10.0
# Anyone can make a file with our prefix. Opening a pipe would block.
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@contextlib.contextmanager
def scratch_folder(within: Path | None = None, name: str = "") -> Iterator[Path]:
    """A new temporary folder, below `within` if given; its lock shows that its owner is alive.
    `name` becomes part of its name."""
    _remove_orphans()
    path = Path(tempfile.mkdtemp(prefix=PREFIX + name, dir=within))
    lock = os.open(path, FOLDER)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def _remove_orphans() -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            found = path.lstat()
            if found.st_uid != os.getuid() or time.time() - found.st_mtime < MIN_AGE_S:
                continue
            lock = os.open(path, FOLDER)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)
