"""Attacks on the control plane over TCP, on the loopback device: a switch that a controller owns, a
lab to which an agent has attached, and a sender. Each function makes what it attacks, in `folder`,
and needs a running event loop."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
from p4.v1 import p4runtime_pb2 as p4
from p4.v1 import p4runtime_pb2_grpc
from tiercast.v1 import lab_pb2, lab_pb2_grpc, sender_pb2, sender_pb2_grpc, session_pb2
from tiercast_controller.agents.lab import LabService
from tiercast_controller.agents.records import Batch
from tiercast_controller.base.tls import Access, KeyRole, Tls
from tiercast_controller.network.topology import Session
from tiercast_controller.p4runtime.client import P4RuntimeClient
from tiercast_controller.p4runtime.entities import MulticastGroup, Op, Update
from tiercast_controller.p4runtime.program import Program
from tiercast_lab.base.certificates import make_keys
from tiercast_lab.results.recorder import Recorder

from .. import tcp_switch
from ..agent.network import EAL, SENDER
from ..free_port import free_port
from ..patience import PATIENCE_S
from ..tcp_switch import arbitration, listens, running_switch
from .row import Row

WHERE = "loopback"
HIGHEST = p4.Uint128(high=2**64 - 1, low=2**64 - 1)


def keys_in(folder: Path) -> Path:
    keys = folder / "keys"
    make_keys(keys, [], days=1)
    return keys


async def primary(address: str, tls: Tls | None) -> grpc.StatusCode:
    """How a stream ends that asks to be primary with the highest election id; OK if it is."""

    def ask() -> grpc.StatusCode:
        with tcp_switch.channel(address, tls) as there:
            return arbitration(p4runtime_pb2_grpc.P4RuntimeStub(there), HIGHEST)

    return await asyncio.to_thread(ask)


async def write(there: grpc.aio.Channel) -> grpc.StatusCode:
    request = p4.WriteRequest(device_id=1, election_id=HIGHEST)
    try:
        await p4runtime_pb2_grpc.P4RuntimeStub(there).Write(request, timeout=PATIENCE_S)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@asynccontextmanager
async def owned_switch(
    folder: Path, keys: Path, program: Program
) -> AsyncIterator[tuple[P4RuntimeClient, str]]:
    with running_switch(folder, "--tls", str(keys)) as address:
        tls = Tls.of_folder(keys, KeyRole.CONTROLLER, KeyRole.AGENT)
        owner = P4RuntimeClient("a", 1, address, program, tls=tls)
        await owner.connect(PATIENCE_S)
        try:
            await owner.set_pipeline()
            yield owner, address
        finally:
            await owner.close()


async def still_primary(owner: P4RuntimeClient) -> bool:
    await owner.write([Update(Op.INSERT, MulticastGroup(7, frozenset({1})))])
    return not owner.lost.done() and await owner.read_groups() == {7: frozenset({1})}


def channel(address: str, tls: Tls | None) -> grpc.aio.Channel:
    if tls is None:
        return grpc.aio.insecure_channel(address)
    return grpc.aio.secure_channel(address, tls.credentials(), options=tls.channel_options)


def listed(codes: Sequence[grpc.StatusCode]) -> str:
    return ", ".join(dict.fromkeys(code.name for code in codes))


async def stranger(folder: Path, program: Program) -> Row:
    """Asks for a higher election id, and writes: in plain text, with a certificate of another
    authority, and with none."""
    keys, others = keys_in(folder), folder / "others"
    make_keys(others, [], days=1)
    of_others = Tls.of_folder(others, KeyRole.CONTROLLER, KeyRole.AGENT)
    name = KeyRole.AGENT.name_in_certificate
    shown = [
        None,
        Tls(keys / "ca.pem", of_others.certificate, of_others.key, name),
        Tls(keys / "ca.pem", server_name=name),
    ]
    codes = []
    async with owned_switch(folder, keys, program) as (owner, address):
        for tls in shown:
            async with channel(address, tls) as there:
                codes += [await primary(address, tls), await write(there)]
        stays = await still_primary(owner)
    return Row(
        "a stranger over TCP takes the highest election id, and writes",
        WHERE,
        "refused without a certificate of the lab; the owner stays primary",
        f"{listed(codes)}; the owner {'is' if stays else 'is no longer'} primary",
        set(codes) == {grpc.StatusCode.UNAVAILABLE} and stays,
    )


async def observer(folder: Path, program: Program) -> Row:
    """Asks for a higher election id, and writes, with an observer's key and an agent's."""
    keys = keys_in(folder)
    codes = []
    async with owned_switch(folder, keys, program) as (owner, address):
        for role in (KeyRole.OBSERVER, KeyRole.AGENT):
            tls = Tls.of_folder(keys, role, KeyRole.AGENT)
            async with channel(address, tls) as there:
                codes += [await primary(address, tls), await write(there)]
        stays = await still_primary(owner)
    return Row(
        "the same with the keys of an observer and of an agent",
        WHERE,
        "PERMISSION_DENIED; the owner stays primary",
        f"{listed(codes)}; the owner {'is' if stays else 'is no longer'} primary",
        set(codes) == {grpc.StatusCode.PERMISSION_DENIED} and stays,
    )


async def path_as_kind(folder: Path, program: Program) -> Row:
    """An agent reports records whose kinds and fields are paths, or not those of its scheme."""
    keys, run = keys_in(folder), folder / "run"
    kinds = {
        "../x": "top",
        "/x": "top",
        "sim.../x": "top",
        "nothing": "top",
        "subscription": "../x",
    }
    with Recorder(run) as recorder:

        async def store(batch: Batch, written: Callable[[], None]) -> None:
            for one in batch.records:
                recorder.add(one.kind, 0, batch.agent, one.fields)
            written()

        service = LabService(
            [Session(1, 1, "h0", records=("sim.round",))], 0, store, lambda how, agent: None,
            lambda session: -1,
        )  # fmt: skip
        address = f"127.0.0.1:{free_port()}"
        await service.serve(address, Access(tls=keys))
        codes = []
        try:
            for kind, field in kinds.items():
                codes.append(await reported(address, keys, kind, field))
        finally:
            await service.close()
    written = sorted(path.name for path in folder.rglob("*x*")) + [p.name for p in run.iterdir()]
    return Row(
        "an agent reports kinds and fields such as ../x",
        WHERE,
        "INVALID_ARGUMENT; no file is written",
        f"{listed(codes)}; {len(written)} files",
        set(codes) == {grpc.StatusCode.INVALID_ARGUMENT} and not written,
    )


async def reported(address: str, keys: Path, kind: str, field: str) -> grpc.StatusCode:
    tls = Tls.of_folder(keys, KeyRole.AGENT, KeyRole.CONTROLLER)
    async with channel(address, tls) as there:
        stream = lab_pb2_grpc.LabStub(there).Attach(timeout=PATIENCE_S)
        hello = lab_pb2.Hello(
            role=lab_pb2.ROLE_RECEIVER, name="h1", scheme="sim", session=1, version=2, instance=1
        )
        record = lab_pb2.Record(kind=kind, fields=[lab_pb2.Field(name=field, value=1)])
        await stream.write(lab_pb2.FromAgent(hello=hello))
        await stream.write(lab_pb2.FromAgent(records=lab_pb2.Records(records=[record])))
        try:
            while await stream.read() is not grpc.aio.EOF:
                pass
        except grpc.aio.AioRpcError as error:
            return error.code()
        return await stream.code()


async def files_of_the_sender(folder: Path, program: Program) -> Row:
    """A caller of tiercast-send names files that are none of its business, without and with
    --input-root."""
    keys, root = keys_in(folder), folder / "root"
    root.mkdir()
    (root / "out").symlink_to("/etc/passwd")
    codes = []
    for options in ([], [f"--input-root={root}"]):
        address = f"127.0.0.1:{free_port()}"
        process = subprocess.Popen(
            [str(SENDER), "--vdev=net_null0,no-rx=1", *EAL, "--", "--address=10.0.0.2",
             "--max-sessions=4", f"--control={address}", f"--tls={keys}", *options],
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not listens(address):
                    assert process.poll() is None, "the sender ended"
                    await asyncio.sleep(0.02)
            tls = Tls.of_folder(keys, KeyRole.CONTROLLER, KeyRole.AGENT)
            async with channel(address, tls) as there:
                for file in ("/etc/passwd", "../../../../etc/passwd", "out"):
                    codes.append(await transferred(there, file))
        finally:
            process.terminate()
            process.wait()
    return Row(
        "a caller of tiercast-send over TCP names /etc/passwd, also through .. and a link",
        WHERE,
        "refused without --input-root, and with it outside the folder",
        listed(codes),
        set(codes) == {grpc.StatusCode.INVALID_ARGUMENT},
    )


async def transferred(there: grpc.aio.Channel, file: str) -> grpc.StatusCode:
    spec = session_pb2.SessionSpec(session=2, scheme="rla", input=file)
    try:
        await sender_pb2_grpc.SenderStub(there).StartSessions(
            sender_pb2.StartSessionsRequest(sessions=[spec]), timeout=PATIENCE_S
        )
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


ATTACKS = (stranger, observer, path_as_kind, files_of_the_sender)
