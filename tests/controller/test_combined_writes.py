"""Writes to a switch that wait for each other go out together, and fail apart."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from tiercast_controller.base.errors import SwitchError
from tiercast_controller.p4runtime.client import FailedUpdate, WriteError
from tiercast_controller.p4runtime.combined_writes import MOST, CombinedWrites
from tiercast_controller.p4runtime.entities import MulticastGroup, Op, Update


def inserts(*numbers: int) -> list[Update]:
    return [Update(Op.INSERT, MulticastGroup(number, frozenset({1}))) for number in numbers]


class Switch:
    """Takes writes one by one, each when the test lets it."""

    def __init__(self) -> None:
        self.written: list[list[int]] = []
        self.refused: set[int] = set()
        self.gone = False
        self.may_answer = asyncio.Semaphore(0)

    async def write(self, updates: Sequence[Update]) -> None:
        self.written.append([update.entity.mgid for update in updates])
        await self.may_answer.acquire()
        if self.gone:
            raise SwitchError("s0: the switch closed the stream")
        failed = [
            FailedUpdate(update, "ALREADY_EXISTS", "")
            for update in updates
            if update.entity.mgid in self.refused
        ]
        if failed:
            raise WriteError("s0", failed, len(updates))


async def started(work: Sequence[asyncio.Task]) -> None:
    for _ in range(3):
        await asyncio.sleep(0)
    assert not any(task.done() for task in work)


async def test_those_of_a_turn_and_those_that_wait_go_out_together() -> None:
    switch = Switch()
    writes = CombinedWrites("s0", switch.write)
    tasks = [asyncio.create_task(writes.write(inserts(n, n + 100))) for n in range(3)]
    await started(tasks)
    tasks += [asyncio.create_task(writes.write(inserts(n))) for n in (7, 8, 9)]
    await started(tasks)
    assert switch.written == [[0, 100, 1, 101, 2, 102]]
    switch.may_answer.release()
    await asyncio.gather(*tasks[:3])
    await started(tasks[3:])
    assert switch.written[1:] == [[7, 8, 9]]
    switch.may_answer.release()
    await asyncio.gather(*tasks)


async def test_a_write_has_a_bound() -> None:
    switch = Switch()
    writes = CombinedWrites("s0", switch.write)
    sizes = [MOST - 1, 1, 1, 2 * MOST, 1]
    tasks = [asyncio.create_task(writes.write(inserts(*range(size)))) for size in sizes]
    for _ in sizes:
        switch.may_answer.release()
    await asyncio.gather(*tasks)
    # A batch that is larger by itself goes out whole: its updates are the caller's to divide.
    assert [len(one) for one in switch.written] == [MOST, 1, 2 * MOST, 1]


async def test_who_fails_is_told_and_nobody_else() -> None:
    switch = Switch()
    switch.refused = {2, 3, 5}
    writes = CombinedWrites("s0", switch.write)
    tasks = [asyncio.create_task(writes.write(inserts(*n))) for n in ([1], [2, 3], [4], [5, 6])]
    switch.may_answer.release()
    first, second, third, fourth = await asyncio.gather(*tasks, return_exceptions=True)
    assert first is None and third is None
    assert [one.update.entity.mgid for one in second.failed] == [2, 3]
    assert "2 of 2 updates failed" in str(second)
    assert [one.update.entity.mgid for one in fourth.failed] == [5]
    assert "1 of 2 updates failed" in str(fourth)


async def test_a_switch_that_is_gone_fails_all_that_went_with_it() -> None:
    switch = Switch()
    switch.gone = True
    writes = CombinedWrites("s0", switch.write)
    tasks = [asyncio.create_task(writes.write(inserts(n))) for n in range(2)]
    switch.may_answer.release()
    for task in tasks:
        with pytest.raises(SwitchError, match="closed the stream"):
            await task
    switch.gone = False
    switch.may_answer.release()
    await writes.write(inserts(9))  # the next is tried again


async def test_a_writer_that_is_cancelled_harms_nobody() -> None:
    switch = Switch()
    writes = CombinedWrites("s0", switch.write)
    tasks = [asyncio.create_task(writes.write(inserts(n))) for n in range(2)]
    await started(tasks)
    tasks[0].cancel()
    await started(tasks[1:])
    switch.may_answer.release()
    await tasks[1]
    assert tasks[0].cancelled()


async def test_close_leaves_no_one_waiting() -> None:
    switch = Switch()
    writes = CombinedWrites("s0", switch.write)
    tasks = [asyncio.create_task(writes.write(inserts(1)))]
    await started(tasks)
    tasks.append(asyncio.create_task(writes.write(inserts(2))))
    await started(tasks)
    await writes.close()
    for task in tasks:
        with pytest.raises(asyncio.CancelledError):
            await task
