"""The file of the agents' records: whatever its writer dies of, the next one continues it, and
every batch is there once."""

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest
from tiercast_controller.agents import record_file
from tiercast_controller.agents.record_file import RecordFile
from tiercast_controller.agents.records import Batch, Record
from tiercast_controller.base.errors import ConfigurationError

from ..patience import PATIENCE_S

INSTANCE = 0x0123456789ABCDEF


def batch(sequence: int, records: int = 1, agent: str = "h1", instance: int = INSTANCE) -> Batch:
    numbers = range(sequence, sequence + records)
    return Batch(
        agent, instance, sequence, [Record(n, "subscription", {"top": float(n)}) for n in numbers]
    )


async def opened(path: Path, patience_s: float = 0) -> RecordFile:
    file = RecordFile(path)
    await file.open(patience_s)
    return file


async def keep(file: RecordFile, *batches: Batch) -> None:
    """Returns when all are written."""
    written: list[int] = []
    for one in batches:
        await file.take(one, lambda one=one: written.append(one.end))
    async with asyncio.timeout(PATIENCE_S):
        while len(written) < len(batches):
            await asyncio.sleep(0.005)
    assert written == [one.end for one in batches]


def blocked_disk(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """What is written reaches the disk once the event is set."""
    may_sync, synced = threading.Event(), os.fdatasync

    def wait_and_sync(descriptor: int) -> None:
        may_sync.wait(PATIENCE_S)
        synced(descriptor)

    monkeypatch.setattr(os, "fdatasync", wait_and_sync)
    return may_sync


def test_a_batch_is_its_records_and_a_line_that_ends_it() -> None:
    assert batch(7, 2).lines().decode().splitlines() == [
        '{"time_ns": 7, "agent": "h1", "kind": "subscription", "top": 7.0}',
        '{"time_ns": 8, "agent": "h1", "kind": "subscription", "top": 8.0}',
        '{"kind": "batch", "agent": "h1", "instance": "0123456789abcdef", "sequence": 7, "end": 9}',
    ]


async def test_the_next_one_continues_where_the_last_was_killed(tmp_path) -> None:
    """Whichever byte was the last that reached the disk."""
    path = tmp_path / "records.jsonl"
    batches = [batch(0, 2), batch(0, agent="h2"), batch(2), batch(0, instance=5), batch(1, 1, "h2")]
    file = await opened(path)
    await keep(file, *batches)
    await file.close()
    whole = path.read_bytes()
    assert whole == b"".join(one.lines() for one in batches)
    ends, end = [], 0
    for one in batches:
        end += len(one.lines())
        ends.append(end)
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        file = await opened(path)
        count = sum(end <= size for end in ends)
        known = {(one.agent, one.instance): one.end for one in batches[:count]}
        assert file.written == known, size
        assert path.read_bytes() == whole[: ends[count - 1] if count else 0], size
        await keep(file, *batches[count:])
        await file.close()
        assert path.read_bytes() == whole, size


async def test_a_record_is_on_the_disk_before_it_counts_as_written(tmp_path, monkeypatch) -> None:
    path = tmp_path / "records.jsonl"
    file = await opened(path)
    may_sync = blocked_disk(monkeypatch)
    written: list[str] = []
    await file.take(batch(0), lambda: written.append("first"))
    async with asyncio.timeout(PATIENCE_S):
        while path.stat().st_size < len(batch(0).lines()):
            await asyncio.sleep(0.005)
    # While the disk is busy, others are taken.
    await file.take(batch(1), lambda: written.append("second"))
    assert written == []
    may_sync.set()
    await file.close()
    assert written == ["first", "second"]


async def test_a_disk_that_is_full_loses_nothing_and_doubles_nothing(tmp_path, monkeypatch) -> None:
    path = tmp_path / "records.jsonl"
    file = await opened(path)
    await keep(file, batch(0))
    real, attempts = os.write, 0

    def write(descriptor: int, content: memoryview) -> int:
        nonlocal attempts
        attempts += 1
        if attempts in (1, 3):
            return real(descriptor, content[:20])
        if attempts in (2, 4):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, content)

    monkeypatch.setattr(record_file, "_FULL_S", 0.01)
    monkeypatch.setattr(os, "write", write)
    await keep(file, batch(1), batch(2, 3))
    await file.close()
    assert path.read_bytes() == b"".join(one.lines() for one in (batch(0), batch(1), batch(2, 3)))


async def test_closing_does_not_wait_for_a_full_disk(tmp_path, monkeypatch) -> None:
    path = tmp_path / "records.jsonl"
    file = await opened(path)

    def refuse(descriptor: int, content: memoryview) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    written: list[bool] = []
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", refuse)
        await file.take(batch(0), lambda: written.append(True))
        await asyncio.wait_for(file.close(), PATIENCE_S)
    assert not written
    file = await opened(path)
    await keep(file, batch(0))
    await file.close()
    assert path.read_bytes() == batch(0).lines()


async def test_who_brings_more_than_the_disk_takes_waits(tmp_path, monkeypatch) -> None:
    file = await opened(tmp_path / "records.jsonl")
    monkeypatch.setattr(record_file, "MAX_WAITING_BYTES", 1)
    may_sync = blocked_disk(monkeypatch)
    await file.take(batch(0), lambda: None)
    second = asyncio.create_task(file.take(batch(1), lambda: None))
    third = asyncio.create_task(file.take(batch(2), lambda: None))
    await asyncio.sleep(0.05)
    assert not second.done() and not third.done()
    second.cancel()  # its stream broke
    may_sync.set()
    await asyncio.wait_for(third, PATIENCE_S)
    await file.close()
    assert (tmp_path / "records.jsonl").read_bytes() == batch(0).lines() + batch(2).lines()


async def test_one_controller_has_the_file(tmp_path) -> None:
    path = tmp_path / "records.jsonl"
    first = await opened(path)
    await keep(first, batch(0))
    with pytest.raises(ConfigurationError, match="records.jsonl: another controller writes it"):
        await opened(path)
    waiting = asyncio.create_task(opened(path, PATIENCE_S))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    RecordFile(path).check()  # as a standby does, when it starts
    await keep(first, batch(1))
    await first.close()
    second = await waiting
    assert second.written == {("h1", INSTANCE): 2}
    await second.close()


@pytest.mark.parametrize("content", [b"root:x:0:0", b'{"time_ms": 1}\n', b"\n"])
async def test_a_file_of_somebody_else_is_left_alone(tmp_path, content) -> None:
    path = tmp_path / "passwd"
    path.write_bytes(content)
    for use in (RecordFile(path).check, lambda: None):
        with pytest.raises(ConfigurationError, match="passwd: not a file of records; valid: one"):
            use()
            await opened(path)
    assert path.read_bytes() == content


async def test_a_place_where_no_file_can_be_is_named(tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, said in (
        ("none/records", "No such file"),
        (".", "Is a directory"),
        ("pipe", "not a file of records"),
    ):
        with pytest.raises(ConfigurationError, match=f"records: {tmp_path / name}: {said}"):
            RecordFile(tmp_path / name).check()
