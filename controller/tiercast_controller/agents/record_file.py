"""The file in which a controller keeps the agents' records, so that the next one continues it.

It has the lines of Batch.lines, one batch after the other. Records are acknowledged once they are
on the disk (fdatasync), so whatever a controller or its machine dies of, what was acknowledged is
there. The file itself says which batches have been written, so nothing is written twice. A batch
that was not written to its end is cut off.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import mmap
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tiercast_controller.agents.records import Batch
from tiercast_controller.base.errors import ConfigurationError

log = logging.getLogger(__name__)

MAX_WAITING_BYTES = 4 << 20  # of batches that are not on the disk yet; then agents wait
_RETRY_S = 0.05  # between attempts to get the file
_FULL_S = 1.0  # between attempts to write to a disk that refuses
_BEGIN = b'{"time_ns": '
_BATCH = re.compile(
    rb'\n\{"kind": "batch", "agent": "([^"]+)", "instance": "([0-9a-f]{16})", '
    rb'"sequence": [0-9]+, "end": ([0-9]+)\}\n'
)


class RecordFile:
    """One process has it at a time. Needs a running event loop."""

    def __init__(self, path: Path):
        self.path = path
        # By agent and instance: number of the record after the last that is written.
        self.written: dict[tuple[str, int], int] = {}
        self._descriptor = -1
        self._bytes = 0  # that are on the disk
        self._waiting: list[tuple[bytes, Callable[[], None]]] = []
        self._waiting_bytes = 0
        self._changed = asyncio.Condition()
        self._closing = False
        self._writer: asyncio.Task[None] | None = None

    def check(self) -> None:
        """Whether `open` can use the file, whoever has it now. Makes it if it is not there. Raises
        ConfigurationError."""
        with _named(self.path):
            os.close(_open(self.path))

    async def open(self, patience_s: float = 0) -> None:
        """A controller that has the file has `patience_s` to end. Fills in `written`. Raises
        ConfigurationError if it has not ended, or this is no file of records, or cannot be
        written."""
        with _named(self.path):
            self._descriptor = _open(self.path)
            deadline_s = time.monotonic() + patience_s
            while not _lock(self._descriptor):
                if time.monotonic() >= deadline_s:
                    raise ConfigurationError(f"records: {self.path}: another controller writes it")
                await asyncio.sleep(_RETRY_S)
            await asyncio.to_thread(self._recover)
        self._writer = asyncio.create_task(self._write(), name=f"records to {self.path}")

    async def take(self, batch: Batch, written: Callable[[], None]) -> None:
        """A RecordSink. Waits while too much is waiting for the disk."""
        lines = batch.lines()
        if self._writer is not None and self._writer.done():
            self._writer.result()
        async with self._changed:
            await self._changed.wait_for(lambda: self._waiting_bytes < MAX_WAITING_BYTES)
            self._waiting.append((lines, written))
            self._waiting_bytes += len(lines)
            self._changed.notify_all()

    async def close(self) -> None:
        """Writes what has been taken, if the disk lets it, and gives the file to the next."""
        if self._writer is not None:
            async with self._changed:
                self._closing = True
                self._changed.notify_all()
            await asyncio.gather(self._writer, return_exceptions=True)
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    async def _write(self) -> None:
        """Whatever has come while the disk was busy goes to it together."""
        complained = False
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: self._waiting or self._closing)
                batches = list(self._waiting)
            if not batches:
                return
            try:
                await asyncio.to_thread(self._append, b"".join(lines for lines, _ in batches))
            except OSError as error:
                if not complained:
                    log.error("records: %s: %s: they wait", self.path, error.strerror)
                    complained = True
                if self._closing:
                    return
                await asyncio.sleep(_FULL_S)
                continue
            complained = False
            async with self._changed:
                del self._waiting[: len(batches)]
                self._waiting_bytes -= sum(len(lines) for lines, _ in batches)
                self._changed.notify_all()
            for _, written in batches:
                written()

    def _append(self, content: bytes) -> None:
        self._cut()  # what is left of an attempt that failed
        rest = memoryview(content)
        while rest:  # a disk that is nearly full accepts only a part
            rest = rest[os.write(self._descriptor, rest) :]
        os.fdatasync(self._descriptor)
        self._bytes += len(content)

    def _cut(self) -> int:
        """Cuts off what is behind the last whole batch. Returns how many bytes that were."""
        extra = os.fstat(self._descriptor).st_size - self._bytes
        if extra:
            os.ftruncate(self._descriptor, self._bytes)
        return extra

    def _recover(self) -> None:
        """Finds what is written, and cuts off what was not written to its end."""
        if os.fstat(self._descriptor).st_size:
            with mmap.mmap(self._descriptor, 0, access=mmap.ACCESS_READ) as content:
                for found in _BATCH.finditer(content):
                    self.written[found[1].decode(), int(found[2], 16)] = int(found[3])
                    self._bytes = found.end()
        if extra := self._cut():
            log.warning("records: %s: cut off %d bytes of an unfinished batch", self.path, extra)
        os.fdatasync(self._descriptor)
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)  # the name of a new file
        finally:
            os.close(folder)


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigurationError(f"records: {path}: {error.strerror}") from None


def _open(path: Path) -> int:
    # Without O_NONBLOCK a named pipe would be waited for.
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o644)
    status = os.fstat(descriptor)
    is_ours = stat.S_ISREG(status.st_mode) and (
        os.pread(descriptor, len(_BEGIN), 0) == _BEGIN[: status.st_size]
    )
    if not is_ours:
        os.close(descriptor)
        raise ConfigurationError(
            f"records: {path}: not a file of records; valid: one that a controller has written, or "
            "no such file"
        )
    return descriptor


def _lock(descriptor: int) -> bool:
    """The kernel gives it back when the process ends, whatever it ends of."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
