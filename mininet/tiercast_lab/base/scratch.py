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
    orphans(remove=True)
    path = Path(tempfile.mkdtemp(prefix=PREFIX + name, dir=within))
    lock = os.open(path, FOLDER)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def orphans(remove: bool) -> list[Path]:
    """The folders of this user whose owners have ended. They are removed if `remove`."""
    found = []
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError), _locked(path) as seen:
            if seen.st_uid != os.getuid() or time.time() - seen.st_mtime < MIN_AGE_S:
                continue
            found.append(path)
            if remove:
                shutil.rmtree(path, ignore_errors=True)
    return sorted(found)


def is_owned(path: Path) -> bool:
    """Whether the owner of a temporary folder is alive, or may be."""
    try:
        with _locked(path) as seen:
            return time.time() - seen.st_mtime < MIN_AGE_S
    except BlockingIOError:
        return True
    except OSError:  # no folder, or not of this user
        return path.is_dir()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[os.stat_result]:
    """Holds the lock of a folder, and says what the folder is: what is at the path may be another
    one by now. Raises BlockingIOError if its owner has it."""
    lock = os.open(path, FOLDER)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield os.fstat(lock)
    finally:
        os.close(lock)
