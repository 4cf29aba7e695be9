"""A program's connection to a lab on TCP, with tiercast-host as the program."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tiercast_controller.agents.lab import LabService
from tiercast_controller.agents.records import Batch
from tiercast_controller.base.tls import Access
from tiercast_controller.network.topology import Session

from ..agent.network import HOST
from ..free_port import free_port
from ..patience import PATIENCE_S


async def ignore(_batch: Batch, written: Callable[[], None]) -> None:
    written()


@asynccontextmanager
async def lab(access: Access) -> AsyncIterator[tuple[LabService, str]]:
    address = f"127.0.0.1:{free_port()}"
    service = LabService([Session(1, 1, "h0")], 0, ignore, lambda how, agent: None, lambda _: -1)
    await service.serve(address, access)
    try:
        yield service, address
    finally:
        await service.close()


async def started(address: str, *options: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        str(HOST), "recv", "--interface=lo", "--source=127.0.0.9", "--id=15", "--name=h15",
        "--session=1", f"--lab={address}", *options, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


async def end_of(process: asyncio.subprocess.Process) -> tuple[int | None, str]:
    async with asyncio.timeout(PATIENCE_S):
        _, said = await process.communicate()
    return process.returncode, said.decode()


async def test_it_attaches_with_the_key_of_an_agent(keys: Path) -> None:
    async with lab(Access(tls=keys)) as (service, address):
        host = await started(address, f"--tls={keys}")
        await service.wait_agents(["h15"], PATIENCE_S)
        service.stop_agents()
        status, said = await end_of(host)
        assert status == 0, said


async def test_without_tls_it_does_not_attach_to_a_lab_on_tcp(keys: Path) -> None:
    async with lab(Access(tls=keys)) as (service, address):
        status, said = await end_of(await started(address))
        assert status == 2 and f"--lab {address}: TCP without TLS; valid: --tls FOLDER" in said
        host = await started(address, "--insecure")  # the lab does not understand it
        status, said = await end_of(host)
        assert status == 1 and "nobody answers there" in said or "lost the lab" in said
        assert not service.agents


async def test_it_does_not_attach_to_a_lab_of_another_authority(keys: Path, tmp_path: Path) -> None:
    from tiercast_lab.base.certificates import make_keys

    make_keys(tmp_path / "others", [], days=2)
    async with lab(Access(tls=tmp_path / "others")) as (service, address):
        status, said = await end_of(await started(address, f"--tls={keys}"))
        assert status == 1 and "nobody answers there" in said
        assert not service.agents
