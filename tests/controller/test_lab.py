"""The Lab service over a Unix socket, with real gRPC at both ends."""

import asyncio
import hmac
import os
import shutil
import socket
import struct
from collections.abc import Callable
from ipaddress import IPv4Address
from pathlib import Path

import grpc
import pytest
from tiercast.v1 import lab_pb2, lab_pb2_grpc
from tiercast_controller.agents.keys import RunKeys
from tiercast_controller.agents.lab import LabService
from tiercast_controller.agents.listening import AddressInUseError
from tiercast_controller.agents.records import RECEIVERS, Batch
from tiercast_controller.base.errors import AgentError, ConfigurationError
from tiercast_controller.base.tls import Access, KeyRole, Tls
from tiercast_controller.controller import is_elsewhere
from tiercast_controller.network.topology import Member, Session

from ..free_port import free_port
from ..patience import PATIENCE_S

SENDER, RECEIVER = lab_pb2.ROLE_SENDER, lab_pb2.ROLE_RECEIVER


def fields(kind: str, value: float) -> list[lab_pb2.Field]:
    """All fields of a receiver's record of this kind."""
    return [lab_pb2.Field(name=name, value=value) for name in RECEIVERS[kind]]


def numbered(number: int) -> lab_pb2.Record:
    top = [lab_pb2.Field(name="top", value=number)]
    return lab_pb2.Record(time_ns=number, kind="subscription", fields=top)


class AgentStream:
    """The agent's end of a stream."""

    def __init__(self, address: str, tls: Tls | None = None):
        self._channel = (
            grpc.aio.insecure_channel(address)
            if tls is None
            else grpc.aio.secure_channel(address, tls.credentials(), tls.channel_options)
        )
        self.call = lab_pb2_grpc.LabStub(self._channel).Attach(wait_for_ready=True)

    async def hello(
        self, role=RECEIVER, name="h15", scheme="sim", session=1, version=2, object_sha256=b"",
        number=15, instance=1, acknowledged=0,
    ):  # fmt: skip
        hello = lab_pb2.Hello(
            role=role, name=name, scheme=scheme, session=session, id=number, version=version,
            object_sha256=object_sha256, instance=instance, acknowledged=acknowledged,
        )  # fmt: skip
        await self.call.write(lab_pb2.FromAgent(hello=hello))
        return self

    async def records(self, *records: lab_pb2.Record, sequence: int = 0) -> None:
        batch = lab_pb2.Records(records=records, sequence=sequence)
        await self.call.write(lab_pb2.FromAgent(records=batch))

    async def numbered(self, *numbers: int) -> None:
        """Records of these numbers in a row, which say it."""
        await self.records(*map(numbered, numbers), sequence=numbers[0])

    async def next(self):
        """The next message as (kind, message); (None, status code) at the end."""
        message = await asyncio.wait_for(self.call.read(), PATIENCE_S)
        if message is grpc.aio.EOF:
            return None, await self.call.code()
        kind = message.WhichOneof("message")
        return kind, getattr(message, kind)

    async def refusal(self) -> tuple[grpc.StatusCode, str]:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            while True:
                kind, _ = await self.next()
                assert kind is not None, "ended with OK"
        return raised.value.code(), raised.value.details()

    async def close(self) -> None:
        self.call.cancel()
        await self._channel.close()


class Bench:
    def __init__(self, directory, names=None, keys=None):
        self.address = f"unix:{directory}/lab.sock"
        self.received: list[Batch] = []
        self.lost: list = []
        self.writes = True  # what it takes; or keeps it
        self.unwritten: list = []
        self.states: list = []
        self.agents: list[AgentStream] = []
        self.service = LabService(
            [Session(1, 5, "h0"), Session(2, 1, "h0")],
            epoch_ns=123456789,
            on_records=self._on_records,
            on_agent=lambda state, agent: self.states.append((agent.name, state)),
            top_rank=lambda session: 2 if session == 1 else -1,
            names=names,
            keys=keys,
            on_lost=lambda agent, records: self.lost.append((agent, records)),
        )

    async def _on_records(self, batch, written) -> None:
        self.received.append(batch)
        self.unwritten.append(written)
        if self.writes:
            self.write()

    def write(self) -> None:
        for written in self.unwritten:
            written()
        self.unwritten.clear()

    @property
    def numbers(self) -> list[int]:
        """Of numbered records."""
        return [record.time_ns for batch in self.received for record in batch.records]

    def agent(self, tls: Tls | None = None) -> AgentStream:
        self.agents.append(AgentStream(self.address, tls))
        return self.agents[-1]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture
async def bench(socket_directory):
    bench = Bench(socket_directory)
    await bench.service.serve(bench.address)
    yield bench
    for agent in bench.agents:
        await agent.close()
    await bench.service.close()


async def test_a_sender_hears_who_its_members_are(bench) -> None:
    members = (Member(15, IPv4Address("10.0.15.2")), Member(16, IPv4Address("10.0.16.2")))
    bench.service._sessions[1] = Session(1, 5, "h0", members=members)
    _, welcome = await (await bench.agent().hello(SENDER, "h0")).next()
    assert [(one.id, one.address) for one in welcome.members] == [
        (15, "10.0.15.2"),
        (16, "10.0.16.2"),
    ]
    _, welcome = await (await bench.agent().hello(RECEIVER, "h15")).next()
    assert not welcome.members


@pytest.mark.parametrize("sender_first", [True, False])
async def test_receivers_hear_the_digest_of_the_object(bench, sender_first) -> None:
    digest = bytes(range(32))
    roles = [(SENDER, "h0"), (RECEIVER, "h15")]
    attached = {}
    for role, name in roles if sender_first else reversed(roles):
        agent = bench.agent()
        attached[role] = await agent.hello(
            role, name, object_sha256=digest if role == SENDER else b""
        )
        assert (await agent.next())[0] == "welcome"
    kind, said = await attached[RECEIVER].next()
    assert (kind, said.sha256) == ("object", digest)
    bench.service.start_sessions([1])
    assert (await attached[SENDER].next())[0] == "start"  # and nothing before it


async def test_a_digest_of_another_length_is_refused(bench) -> None:
    sender = await bench.agent().hello(SENDER, "h0", object_sha256=b"short")
    code, text = await sender.refusal()
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "object_sha256 has 5 bytes; valid: 0, or 32" in text


async def keys_of(bench, role, name, session=1, number=15):
    agent = bench.agent()
    await agent.hello(role, name, session=session, number=number)
    _, welcome = await agent.next()
    return welcome.keys if welcome.HasField("keys") else None


async def test_without_keys_nobody_gets_any(bench) -> None:
    assert await keys_of(bench, SENDER, "h0") is None
    assert await keys_of(bench, RECEIVER, "h15") is None


async def test_each_receiver_has_a_key_that_its_sender_can_make(socket_directory) -> None:
    """Others in each session and each run."""
    seen: set[bytes] = set()
    for run in range(2):
        directory = socket_directory / str(run)
        directory.mkdir()
        bench = Bench(directory, keys=RunKeys())
        await bench.service.serve(bench.address)
        for session in (1, 2):
            sender = await keys_of(bench, SENDER, f"h0.{session}", session)
            for number in (15, 16):
                own = await keys_of(bench, RECEIVER, f"h{number}.{session}", session, number)
                assert (own.nonce, own.group) == (sender.nonce, sender.group)
                made = hmac.digest(sender.feedback, struct.pack("!I", number), "sha256")
                assert own.feedback == made
                assert len(own.feedback) == len(own.group) == 32 and len(own.nonce) == 16
                seen |= {own.feedback}
            seen |= {sender.group, sender.feedback}
        seen.add(sender.nonce)
        twice = await bench.agent().hello(RECEIVER, "other")
        code, text = await twice.refusal()
        assert code is grpc.StatusCode.ALREADY_EXISTS
        assert "'h15.1' is number 15 of session 1, and has its key" in text
        for agent in bench.agents:
            await agent.close()
        await bench.service.close()
    assert len(seen) == 2 * (2 * 4 + 1)


def test_controllers_that_share_a_file_hand_out_the_same_keys(tmp_path) -> None:
    file = tmp_path / "run.secret"

    def keys(name=file) -> list[object]:
        return [RunKeys.kept_in(name).of_session(number).message(15) for number in (1, 2)]

    first = keys()
    assert file.stat().st_mode & 0o777 == 0o600 and first[0] != first[1]
    assert [one.name for one in tmp_path.iterdir()] == [file.name]
    assert keys() == first != keys(tmp_path / "other.secret")


@pytest.mark.parametrize("content", [b"", b"secret\n", b"0" * 63, b"0" * 65, b"\xff" * 64])
def test_a_file_that_is_no_secret_is_refused(tmp_path, content) -> None:
    file = tmp_path / "run.secret"
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(ConfigurationError, match="run.secret: not a secret; valid: 64 hex digits"):
        RunKeys.kept_in(file)
    assert file.read_bytes() == content


def test_a_secret_that_others_may_use_is_refused(tmp_path) -> None:
    file = tmp_path / "run.secret"
    file.write_text("0" * 64)
    file.chmod(0o640)
    with pytest.raises(ConfigurationError, match=r"others may use it \(mode 640\); valid: 600"):
        RunKeys.kept_in(file)


@pytest.mark.parametrize(
    ("name", "said"),
    [("none/run.secret", "No such file"), (".", "Is a directory"), ("a pipe", "not a secret")],
)
def test_a_secret_that_cannot_be_kept_is_named(tmp_path, name, said) -> None:
    os.mkfifo(tmp_path / "a pipe", 0o600)
    with pytest.raises(ConfigurationError, match=f"{tmp_path / name}: {said}"):
        RunKeys.kept_in(tmp_path / name)


@pytest.mark.parametrize(
    ("address", "elsewhere"),
    [(None, False), ("unix:/run/lab.sock", False), ("10.0.0.1:5000", True), ("lab:5000", True)],
)
def test_keys_are_on_where_agents_come_over_tcp(address, elsewhere) -> None:
    assert is_elsewhere(address) == elsewhere


async def test_a_run_of_a_sender_and_a_receiver(bench) -> None:
    sender = await bench.agent().hello(SENDER, "h0")
    receiver = await bench.agent().hello(RECEIVER, "h15")
    await bench.service.wait_agents(["h0", "h15"], PATIENCE_S)
    for agent in (sender, receiver):
        kind, welcome = await agent.next()
        assert (kind, welcome.epoch_ns) == ("welcome", 123456789)
    bench.service.start_sessions([1])
    assert (await receiver.next())[0] == "start"
    assert (await sender.next())[0] == "start"
    kind, membership = await sender.next()
    assert (kind, membership.session, membership.top_rank) == ("membership", 1, 2)
    bench.service.tell_membership(1, -1)
    kind, membership = await sender.next()
    assert (kind, membership.top_rank) == ("membership", -1)
    bench.service.tell_membership(2, 0)  # no agent here has this session

    await receiver.records(
        lab_pb2.Record(
            time_ns=5,
            kind="received",
            fields=fields("received", 1),
        )
    )
    bench.service.stop_agents()
    assert {(await receiver.next())[0] for _ in range(2)} == {"acknowledge", "stop"}
    assert (await sender.next())[0] == "stop"
    await receiver.records(
        lab_pb2.Record(time_ns=6, kind="socket", fields=fields("socket", 0)), sequence=1
    )
    kind, said = await receiver.next()
    assert (kind, said.sequence) == ("acknowledge", 2)
    for agent in (sender, receiver):
        await agent.call.done_writing()
        assert await agent.next() == (None, grpc.StatusCode.OK)
    await bench.service.wait_detached(PATIENCE_S)
    received = [
        (b.agent, [(r.time_ns, r.kind, r.fields) for r in b.records]) for b in bench.received
    ]
    assert received == [
        ("h15", [(5, "received", dict.fromkeys(RECEIVERS["received"], 1.0))]),
        ("h15", [(6, "socket", dict.fromkeys(RECEIVERS["socket"], 0.0))]),
    ]
    assert sorted(bench.states) == [
        ("h0", "attached"),
        ("h0", "detached"),
        ("h15", "attached"),
        ("h15", "detached"),
    ]


async def test_an_agent_that_attaches_late_starts_at_once(bench) -> None:
    bench.service.start_sessions()
    agent = await bench.agent().hello()
    assert [(await agent.next())[0] for _ in range(2)] == ["welcome", "start"]


async def acknowledged(agent: AgentStream) -> int:
    kind, said = await agent.next()
    assert kind == "acknowledge"
    return said.sequence


async def test_records_are_acknowledged_once_they_are_written(bench) -> None:
    bench.writes = False
    agent = await bench.agent().hello()
    assert (await agent.next())[0] == "welcome"
    await agent.numbered(0, 1)
    await agent.numbered(2)
    await until(lambda: len(bench.received) == 2)
    bench.service.stop_agents()
    assert (await agent.next())[0] == "stop"  # and nothing before it
    bench.write()
    assert [await acknowledged(agent) for _ in range(2)] == [2, 3]
    assert [(one.sequence, one.end) for one in bench.received] == [(0, 2), (2, 3)]


async def test_records_that_come_again_are_taken_once(bench) -> None:
    """The agent cannot know what has arrived of what it sent on a stream that broke."""
    first = await bench.agent().hello()
    assert (await first.next())[0] == "welcome"
    await first.numbered(0, 1)
    assert await acknowledged(first) == 2
    bench.writes = False
    await first.numbered(2)
    await until(lambda: len(bench.received) == 2)
    await first.close()
    await bench.service.wait_detached(PATIENCE_S)

    second = await bench.agent().hello(acknowledged=2)
    assert (await second.next())[0] == "welcome"
    assert await acknowledged(second) == 2  # it may not have heard that
    bench.write()  # what came on the first stream
    assert await acknowledged(second) == 3
    await second.numbered(2)
    await second.numbered(2, 3)
    await until(lambda: len(bench.received) == 3)
    bench.write()
    assert await acknowledged(second) == 4
    assert bench.numbers == [0, 1, 2, 3] and bench.lost == []


async def test_an_agent_that_was_started_again_counts_from_0(bench) -> None:
    first = await bench.agent().hello(instance=7)
    assert (await first.next())[0] == "welcome"
    await first.numbered(0, 1, 2)
    assert await acknowledged(first) == 3
    await first.close()
    await bench.service.wait_detached(PATIENCE_S)
    second = await bench.agent().hello(instance=8)
    assert (await second.next())[0] == "welcome"
    await second.numbered(0, 1)
    assert await acknowledged(second) == 2  # and not, at first, 3
    assert bench.numbers == [0, 1, 2, 0, 1] and bench.lost == []
    assert [one.instance for one in bench.received] == [7, 8]


async def test_records_that_the_agent_has_given_up_are_counted(bench) -> None:
    agent = await bench.agent().hello()
    await agent.numbered(0)
    await agent.numbered(5, 6)
    await until(lambda: bench.numbers == [0, 5, 6])
    await until(lambda: bench.lost == [("h15", 4)])


async def test_a_lab_takes_nothing_that_its_predecessor_has_written(bench) -> None:
    bench.service.resume({("h15", 1): 2, ("h16", 1): 9})
    agent = await bench.agent().hello()
    assert (await agent.next())[0] == "welcome"
    assert await acknowledged(agent) == 2
    await agent.numbered(0, 1)
    await agent.numbered(2)
    assert await acknowledged(agent) == 3
    assert bench.numbers == [2]


async def test_what_another_lab_has_acknowledged_is_not_lost(bench) -> None:
    """One whose records are elsewhere."""
    agent = await bench.agent().hello(acknowledged=5)
    assert (await agent.next())[0] == "welcome"
    assert await acknowledged(agent) == 5
    await agent.numbered(5)
    assert await acknowledged(agent) == 6
    await agent.numbered(7)
    assert await acknowledged(agent) == 8
    assert bench.numbers == [5, 7] and bench.lost == [("h15", 1)]


async def test_a_number_that_is_too_high_is_refused(bench) -> None:
    agent = await bench.agent().hello()
    await agent.records(numbered(0), sequence=2**64 - 1)
    code, text = await agent.refusal()
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert text == f"'h15': sequence {2**64 - 1} is too high"


NO_NAME = "is not a name; valid: letters, digits, '.', '_' and '-', at most 64"


@pytest.mark.parametrize(
    ("hello", "code", "text"),
    [
        (
            {"version": 1},
            "FAILED_PRECONDITION",
            "'h15': version 1 of tiercast.v1, not 2: the agent and this lab are of different "
            "releases",
        ),
        ({"instance": 0}, "INVALID_ARGUMENT", "'h15': instance is 0; valid: 1 to 2^64 - 1"),
        ({"name": ""}, "INVALID_ARGUMENT", f"'' {NO_NAME}"),
        ({"name": "../h15"}, "INVALID_ARGUMENT", f"'../h15' {NO_NAME}"),
        ({"role": 0}, "INVALID_ARGUMENT", "'h15': role 0 is not 1 or 2"),
        ({"role": 7}, "INVALID_ARGUMENT", "'h15': role 7 is not 1 or 2"),
        ({"session": 9}, "INVALID_ARGUMENT", "'h15': session 9 is not one of [1, 2]"),
        (
            {"scheme": "rla"},
            "INVALID_ARGUMENT",
            "'h15': scheme 'rla' is not 'sim', that of session 1",
        ),
    ],
)
async def test_a_wrong_hello_is_refused(bench, hello, code, text) -> None:
    agent = await bench.agent().hello(**hello)
    assert await agent.refusal() == (grpc.StatusCode[code], text)
    assert bench.states == []


async def test_names_and_senders_are_unique(bench) -> None:
    await bench.agent().hello(SENDER, "h0")
    await bench.service.wait_agents(["h0"], PATIENCE_S)
    exists = grpc.StatusCode.ALREADY_EXISTS
    assert await (await bench.agent().hello(RECEIVER, "h0", session=2)).refusal() == (
        exists,
        "an agent named 'h0' is attached",
    )
    assert await (await bench.agent().hello(SENDER, "h1")).refusal() == (
        exists,
        "'h1': session 1 has a sender, 'h0'",
    )


async def test_hello_comes_first_and_once(bench) -> None:
    agent = bench.agent()
    await agent.records()
    assert (await agent.refusal())[1] == "the first message must be Hello"
    agent = await bench.agent().hello()
    await agent.hello()
    assert (await agent.refusal())[1] == "'h15': only Records follow Hello"


@pytest.mark.parametrize("kind", ["../../x", "/x", "rla.window", "layer"])
async def test_a_kind_that_is_not_of_the_list_ends_the_stream(bench, kind: str) -> None:
    agent = await bench.agent().hello()
    await agent.records(lab_pb2.Record(time_ns=5, kind=kind))
    code, text = await agent.refusal()
    assert code == grpc.StatusCode.INVALID_ARGUMENT
    assert text.startswith(
        f"'h15': kind {kind!r}; valid: received, subscription, join, socket, seal.refused, pause, "
    )
    assert bench.received == []


async def test_only_the_agents_of_the_run_attach(socket_directory) -> None:
    bench = Bench(socket_directory, names=["h0", "h15"])
    await bench.service.serve(bench.address)
    try:
        agent = await bench.agent().hello(name="h16")
        said = "'h16' is not an agent; valid: h0, h15"
        assert await agent.refusal() == (grpc.StatusCode.INVALID_ARGUMENT, said)
        assert (await (await bench.agent().hello()).next())[0] == "welcome"
    finally:
        for agent in bench.agents:
            await agent.close()
        await bench.service.close()


async def test_a_lost_agent_is_told_from_one_that_ended(bench) -> None:
    agent = await bench.agent().hello()
    await bench.service.wait_agents(["h15"], PATIENCE_S)
    agent.call.cancel()
    await bench.service.wait_detached(PATIENCE_S)
    assert bench.states == [("h15", "attached"), ("h15", "lost")]
    again = await bench.agent().hello()
    assert (await again.next())[0] == "welcome"


async def test_waiting_names_who_is_missing(bench) -> None:
    await bench.agent().hello()
    with pytest.raises(AgentError, match=r"not attached within 0\.3 s: h16, h17"):
        await bench.service.wait_agents(["h15", "h16", "h17"], 0.3)
    with pytest.raises(AgentError, match=r"not ended within 0\.1 s after Stop: h15"):
        await bench.service.wait_detached(0.1)
    with pytest.raises(AgentError, match="'h16' is not attached; attached are: h15"):
        bench.service.stop_agents(["h16"])
    with pytest.raises(ConfigurationError, match=r"sessions \[3\] are not one of \[1, 2\]"):
        bench.service.start_sessions([3])


async def test_an_address_that_cannot_be_used(bench) -> None:
    with pytest.raises(ConfigurationError, match="unix:/nowhere/lab.sock: No such file"):
        await LabService([], 0, bench._on_records, lambda *_: None, lambda _: -1).serve(
            "unix:/nowhere/lab.sock"
        )


async def test_a_file_that_is_no_socket_is_left_alone(tmp_path) -> None:
    bench = Bench(tmp_path)
    (tmp_path / "lab.sock").write_text("mine")
    with pytest.raises(ConfigurationError, match=r"lab.sock: the file exists and is not a socket"):
        await bench.service.serve(bench.address)
    assert (tmp_path / "lab.sock").read_text() == "mine"


@pytest.mark.parametrize("is_tcp", [False, True])
async def test_an_address_that_a_lab_serves_is_refused(socket_directory, is_tcp) -> None:
    first, second = Bench(socket_directory), Bench(socket_directory)
    if is_tcp:
        first.address = second.address = f"127.0.0.1:{free_port()}"
    await first.service.serve(first.address, Access(insecure=True))
    with pytest.raises(AddressInUseError, match=f"{first.address}: another process serves it"):
        await second.service.serve(first.address, Access(insecure=True))
    agent = await first.agent().hello()
    assert (await agent.next())[0] == "welcome"
    await agent.close()
    await first.service.close()


async def test_a_lab_that_ends_leaves_the_address_to_the_next(socket_directory) -> None:
    """The next one may be waiting for it, or have come before the first has closed all."""
    benches = [Bench(socket_directory) for _ in range(3)]
    path = socket_directory / "lab.sock"
    await benches[0].service.serve(benches[0].address)
    waiting = asyncio.create_task(benches[1].service.serve(benches[1].address, patience_s=60))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    await benches[0].service.close()
    await waiting
    await benches[0].service.close()  # removes nothing that is not its own
    path.unlink()  # as somebody who thinks that nobody serves it
    await benches[2].service.serve(benches[2].address)
    await benches[1].service.close()
    agent = await benches[2].agent().hello()
    assert (await agent.next())[0] == "welcome"
    await agent.close()
    await benches[2].service.close()
    assert list(socket_directory.iterdir()) == []


async def test_the_file_of_a_dead_lab_is_replaced(socket_directory) -> None:
    bench = Bench(socket_directory)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(socket_directory / "lab.sock"))
    await bench.service.serve(bench.address)
    agent = await bench.agent().hello()
    assert (await agent.next())[0] == "welcome"
    await agent.close()
    await bench.service.close()


async def test_over_tcp_only_agents_may_report(tmp_path, keys) -> None:
    bench = Bench(tmp_path)
    bench.address = f"127.0.0.1:{free_port()}"
    await bench.service.serve(bench.address, Access(tls=keys))
    try:
        own = await bench.agent(Tls.of_folder(keys, KeyRole.AGENT, KeyRole.CONTROLLER)).hello()
        assert (await own.next())[0] == "welcome"
        for role in (KeyRole.OBSERVER, KeyRole.CONTROLLER):
            other = bench.agent(Tls.of_folder(keys, role, KeyRole.CONTROLLER))
            code, text = await other.refusal()
            assert code is grpc.StatusCode.PERMISSION_DENIED
            assert "role agent is needed" in text
        assert bench.service.agents.keys() == {"h15"}
    finally:
        for agent in bench.agents:
            await agent.close()
        await bench.service.close()


def test_a_key_that_others_may_use_is_refused_however_it_is_named(
    keys: Path, tmp_path: Path
) -> None:
    """`tls` of a switch names a folder, or its files."""
    keys = shutil.copytree(keys, tmp_path / "keys")
    key = keys / "controller.key"
    named = Tls(keys / "ca.pem", keys / "controller.pem", key)
    assert named.credentials() and named.server_credentials()
    key.chmod(0o644)
    for use in (
        named.credentials,
        named.server_credentials,
        lambda: Tls.of_folder(keys, KeyRole.CONTROLLER),
    ):
        with pytest.raises(ConfigurationError, match=r"controller.key: .*\(mode 644\); valid: 600"):
            use()


async def test_tcp_without_tls_is_refused_unless_the_user_says_so(tmp_path) -> None:
    bench = Bench(tmp_path)
    bench.address = f"127.0.0.1:{free_port()}"
    with pytest.raises(ConfigurationError, match="TCP without TLS; valid: --tls FOLDER"):
        await bench.service.serve(bench.address)
    await bench.service.serve(bench.address, Access(insecure=True))
    agent = await bench.agent().hello()
    assert (await agent.next())[0] == "welcome"
    await agent.close()
    await bench.service.close()
