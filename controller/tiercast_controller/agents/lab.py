"""The Lab service of tiercast.v1, to which agents (senders and receivers) attach.

Each agent has one stream. Every message is checked before it is used. An agent whose Hello is wrong
gets a status that names the value and the valid choices.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import grpc
from tiercast.v1 import lab_pb2, lab_pb2_grpc, session_pb2

from tiercast_controller.agents.keys import RunKeys
from tiercast_controller.agents.listening import (
    SERVER_OPTIONS,
    AddressInUseError,
    SocketFile,
    listen,
)
from tiercast_controller.agents.records import Batch, RecordSink, Reports
from tiercast_controller.base.errors import AgentError, ConfigurationError
from tiercast_controller.base.tls import Access, KeyRole, has_role
from tiercast_controller.network.topology import Member, Session

log = logging.getLogger(__name__)

VERSION = 2
SHA256_BYTES = 32
_MAX_NUMBER = 2**64 - 1  # of a record
_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_BROKEN_STREAM_S = 0.02
_DRAIN_S = 1.0
_RETRY_S = 0.05  # between attempts to listen


@dataclass(eq=False)
class _Account:
    """Of the records of one instance of an agent. Both count from its start."""

    received: int = 0  # number of the next one
    written: int = 0  # those with lower numbers outlive this process


@dataclass(eq=False)
class Agent:
    name: str
    sender: bool  # otherwise a receiver
    scheme: str
    session: int
    id: int
    instance: int
    account: _Account
    reports: Reports
    object_sha256: bytes = b""  # of a sender: of the object that it transfers; empty: of none
    started: bool = False  # in its session
    stopped: bool = False
    left: bool = False  # at least once
    # Messages on their way to the agent; None ends its writer.
    outbox: asyncio.Queue[lab_pb2.ToAgent | None] = field(default_factory=asyncio.Queue)


_Context = grpc.aio.ServicerContext[lab_pb2.FromAgent, lab_pb2.ToAgent]


class _Refused(Exception):
    def __init__(self, code: grpc.StatusCode, text: str):
        super().__init__(text)
        self.code = code


class LabService(lab_pb2_grpc.LabServicer):
    def __init__(
        self,
        sessions: Iterable[Session],
        epoch_ns: int,
        on_records: RecordSink,
        on_agent: Callable[[str, Agent], None],
        top_rank: Callable[[int], int],
        names: Collection[str] | None = None,
        keys: RunKeys | None = None,
        on_lost: Callable[[str, int], None] = lambda agent, records: None,
    ):
        """`on_agent` is called with "attached", "detached" (after Stop, or on the agent's own
        decision) or "lost". `top_rank(session)` is what a sender is told when it starts. `names`
        holds the agents that may attach; None allows any valid name. With `keys` the agents of
        sessions whose feedback no switch aggregates get theirs. `on_lost` is called with the name
        of an agent and the number of records that it has given up, as they were too many to keep
        until they were acknowledged."""
        self.agents: dict[str, Agent] = {}
        self._names = names
        self._sessions = {session.number: session for session in sessions}
        self._keys = {
            session.number: keys.of_session(session.number)
            for session in self._sessions.values()
            if keys is not None and session.aggregation == "sender"
        }
        self._epoch_ns = epoch_ns
        self._on_records = on_records
        self._on_agent = on_agent
        self._on_lost = on_lost
        self._accounts: dict[tuple[str, int], _Account] = {}  # by agent and instance
        self._top_rank = top_rank
        self._started: set[int] = set()
        self._changed = asyncio.Condition()
        self._server: grpc.aio.Server | None = None
        self._socket: SocketFile | None = None
        self._has_roles = False

    async def serve(
        self,
        address: str,
        access: Access = Access(),  # noqa: B008 (frozen)
        patience_s: float = 0,
    ) -> None:
        """Listens on "unix:/path" or "host:port". A lab that serves there has `patience_s` to end.
        Raises ConfigurationError: AddressInUseError if it has not ended."""
        tls = access.at("lab", address, KeyRole.CONTROLLER)
        self._has_roles = tls is not None
        server = grpc.aio.server(options=SERVER_OPTIONS)
        lab_pb2_grpc.add_LabServicer_to_server(self, server)
        deadline_s = time.monotonic() + patience_s
        while True:
            try:
                self._socket = listen(server, address, tls)
                break
            except AddressInUseError:
                if time.monotonic() >= deadline_s:
                    raise
            await asyncio.sleep(_RETRY_S)
        self._server = server
        await server.start()

    def resume(self, written: Mapping[tuple[str, int], int]) -> None:
        """To be called before `serve`: how many records of an agent's instance are written where
        this lab's go. They are not taken again."""
        for key, number in written.items():
            self._accounts[key] = _Account(number, number)

    async def close(self) -> None:
        if self._socket is not None:
            self._socket.remove()  # first, so that from now on the path is another's
        if self._server is not None:
            await self._server.stop(grace=0.5)

    async def wait_agents(self, names: Iterable[str], timeout_s: float) -> None:
        """Waits until all these agents are attached. Raises AgentError with the names of those that
        are not."""
        wanted = set(names)
        try:
            async with asyncio.timeout(timeout_s), self._changed:
                await self._changed.wait_for(lambda: wanted <= self.agents.keys())
        except TimeoutError:
            missing = ", ".join(sorted(wanted - self.agents.keys()))
            raise AgentError(f"not attached within {timeout_s:g} s: {missing}") from None

    async def wait_detached(self, timeout_s: float) -> None:
        """Waits until no agent is attached. Raises AgentError with the names of those that still
        are."""
        try:
            async with asyncio.timeout(timeout_s), self._changed:
                await self._changed.wait_for(lambda: not self.agents)
        except TimeoutError:
            left = ", ".join(sorted(self.agents))
            raise AgentError(f"not ended within {timeout_s:g} s after Stop: {left}") from None

    def start_sessions(self, numbers: Iterable[int] | None = None) -> None:
        """Sends Start to the agents of these sessions (None: of all), including those that attach
        later."""
        numbers = set(self._sessions if numbers is None else numbers)
        unknown = numbers - self._sessions.keys()
        if unknown:
            raise ConfigurationError(f"sessions {sorted(unknown)} are not {self._choices()}")
        self._started |= numbers
        for agent in self.agents.values():
            self._start_if_due(agent)

    def start_agents(self, names: Iterable[str]) -> None:
        """Sends Start to these agents, unless they have started. Raises AgentError if one is not
        attached, or is a sender that has left."""
        for agent in self._named(names):
            if agent.sender and agent.left:
                raise AgentError(f"sender {agent.name!r} has left its session for good")
            self._start(agent)

    def leave_agents(self, names: Iterable[str]) -> None:
        """Sends Leave to these agents: each leaves its session, or knows that the run has begun
        without it. Raises AgentError if one is not attached."""
        for agent in self._named(names):
            agent.left |= agent.started
            agent.started = False
            leave = lab_pb2.Leave(time_ns=time.monotonic_ns())
            agent.outbox.put_nowait(lab_pb2.ToAgent(leave=leave))

    def stop_agents(self, names: Iterable[str] | None = None) -> None:
        """Sends Stop to these agents (None: to all). Each sends its last records and ends. Raises
        AgentError if one is not attached."""
        for agent in self._named(list(self.agents) if names is None else names):
            if not agent.stopped:
                agent.stopped = True
                agent.outbox.put_nowait(lab_pb2.ToAgent(stop=lab_pb2.Stop()))

    def _named(self, names: Iterable[str]) -> Iterator[Agent]:
        for name in names:
            if name not in self.agents:
                choices = ", ".join(sorted(self.agents)) or "none"
                raise AgentError(f"agent {name!r} is not attached; attached are: {choices}")
            yield self.agents[name]

    def tell_membership(self, session: int, top_rank: int) -> None:
        """Tells the session's senders, if they have started, the top rank."""
        for agent in self.agents.values():
            if agent.sender and agent.started and agent.session == session:
                agent.outbox.put_nowait(_membership(session, top_rank))

    # The rpc's name, in the form for asyncio; the stub only has the type of generators.
    async def Attach(  # type: ignore[override]  # noqa: N802
        self, requests: AsyncIterator[lab_pb2.FromAgent], context: _Context
    ) -> None:
        messages = aiter(requests)
        if self._has_roles and not has_role(context.auth_context(), KeyRole.AGENT):
            log.warning("a client without a certificate of role agent was refused")
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED, "a certificate of role agent is needed"
            )
        try:
            agent = self._admit(await anext(messages, None))
        except _Refused as refusal:
            log.warning("an agent was refused: %s", refusal)
            await context.abort(refusal.code, str(refusal))
        self.agents[agent.name] = agent
        agent.outbox.put_nowait(lab_pb2.ToAgent(welcome=self._welcome(agent)))
        if agent.account.written:
            agent.outbox.put_nowait(_acknowledge(agent.account.written))
        self._tell_object(agent)
        self._start_if_due(agent)
        writer = asyncio.create_task(self._write(agent, context), name=f"to {agent.name}")
        how = "lost"
        try:
            await self._announce("attached", agent)
            async for message in messages:
                await self._take(agent, message)
            # A broken stream ends the messages just as a finished one does. gRPC reports the break
            # a moment later, by cancelling this call.
            await asyncio.sleep(_BROKEN_STREAM_S)
            await self._drain(agent, writer)
            how = "detached"
        except _Refused as refusal:
            log.warning("an agent was refused: %s", refusal)
            await self._drain(agent, writer)
            await context.abort(refusal.code, str(refusal))
        finally:
            writer.cancel()
            del self.agents[agent.name]
            await asyncio.gather(writer, self._announce(how, agent), return_exceptions=True)

    def _admit(self, message: lab_pb2.FromAgent | None) -> Agent:
        invalid = grpc.StatusCode.INVALID_ARGUMENT
        if message is None or message.WhichOneof("message") != "hello":
            raise _Refused(invalid, "the first message must be Hello")
        hello = message.hello
        if hello.version != VERSION:
            raise _Refused(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"{hello.name!r}: version {hello.version} of tiercast.v1, not {VERSION}: the agent "
                "and this lab are of different releases",
            )
        if not _NAME.fullmatch(hello.name):
            raise _Refused(
                invalid,
                f"{hello.name[:64]!r} is not a name; valid: letters, digits, '.', '_' and '-', at "
                "most 64",
            )
        if self._names is not None and hello.name not in self._names:
            raise _Refused(
                invalid, f"{hello.name!r} is not an agent; valid: {', '.join(sorted(self._names))}"
            )
        if hello.role not in (lab_pb2.ROLE_SENDER, lab_pb2.ROLE_RECEIVER):
            raise _Refused(invalid, f"{hello.name!r}: role {hello.role} is not 1 or 2")
        session = self._sessions.get(hello.session)
        if session is None:
            raise _Refused(
                invalid, f"{hello.name!r}: session {hello.session} is not {self._choices()}"
            )
        if hello.scheme != session.scheme:
            raise _Refused(
                invalid,
                f"{hello.name!r}: scheme {hello.scheme!r} is not {session.scheme!r}, that of "
                f"session {hello.session}",
            )
        sender = hello.role == lab_pb2.ROLE_SENDER
        for other in self.agents.values():
            if other.name == hello.name:
                raise _Refused(
                    grpc.StatusCode.ALREADY_EXISTS, f"an agent named {hello.name!r} is attached"
                )
            if (
                not sender
                and not other.sender
                and (
                    (other.session, other.id) == (hello.session, hello.id)
                    and hello.session in self._keys
                )
            ):
                raise _Refused(
                    grpc.StatusCode.ALREADY_EXISTS,
                    f"{hello.name!r}: {other.name!r} is number {hello.id} of session "
                    f"{hello.session}, and has its key",
                )
            if sender and other.sender and other.session == hello.session:
                raise _Refused(
                    grpc.StatusCode.ALREADY_EXISTS,
                    f"{hello.name!r}: session {hello.session} has a sender, {other.name!r}",
                )
        if not hello.instance:
            raise _Refused(invalid, f"{hello.name!r}: instance is 0; valid: 1 to 2^64 - 1")
        reports = Reports(sender, session.scheme, session.records)
        account = self._accounts.get((hello.name, hello.instance), _Account())
        # What another lab has acknowledged is not here, but it is not lost.
        account.received = max(account.received, hello.acknowledged)
        account.written = max(account.written, hello.acknowledged)
        if sender and len(hello.object_sha256) not in (0, SHA256_BYTES):
            raise _Refused(
                invalid,
                f"{hello.name!r}: object_sha256 has {len(hello.object_sha256)} bytes; valid: 0, or "
                f"{SHA256_BYTES}",
            )
        return Agent(
            hello.name, sender, hello.scheme, hello.session, hello.id, hello.instance, account,
            reports, hello.object_sha256,
        )  # fmt: skip

    def _tell_object(self, new: Agent) -> None:
        """Tells receivers the digest of their sender's object, whoever of them attached first."""
        session = [one for one in self.agents.values() if one.session == new.session]
        for sender in (one for one in session if one.sender and one.object_sha256):
            said = lab_pb2.ToAgent(object=lab_pb2.Object(sha256=sender.object_sha256))
            for one in session if new is sender else [new]:
                if not one.sender:
                    one.outbox.put_nowait(said)

    def _welcome(self, agent: Agent) -> lab_pb2.Welcome:
        members = self._sessions[agent.session].members if agent.sender else ()
        keys = None
        if agent.session in self._keys:
            receiver = None if agent.sender else agent.id
            keys = self._keys[agent.session].message(receiver)
        return lab_pb2.Welcome(
            epoch_ns=self._epoch_ns, members=map(member_message, members), keys=keys
        )

    def _choices(self) -> str:
        return f"one of {sorted(self._sessions)}"

    def _start_if_due(self, agent: Agent) -> None:
        if agent.session in self._started:
            self._start(agent)

    def _start(self, agent: Agent) -> None:
        if agent.started:
            return
        agent.started = True
        start = lab_pb2.Start(time_ns=time.monotonic_ns())
        agent.outbox.put_nowait(lab_pb2.ToAgent(start=start))
        if agent.sender:
            agent.outbox.put_nowait(_membership(agent.session, self._top_rank(agent.session)))

    async def _take(self, agent: Agent, message: lab_pb2.FromAgent) -> None:
        if message.WhichOneof("message") != "records":
            raise _Refused(
                grpc.StatusCode.INVALID_ARGUMENT, f"{agent.name!r}: only Records follow Hello"
            )
        sequence, account = message.records.sequence, agent.account
        known = max(0, account.received - sequence)
        lost = max(0, sequence - account.received)
        if sequence + len(message.records.records) > _MAX_NUMBER:
            raise _Refused(
                grpc.StatusCode.INVALID_ARGUMENT, f"{agent.name!r}: sequence {sequence} is too high"
            )
        try:
            records = [
                agent.reports.record(
                    r.time_ns, r.kind, [f.name for f in r.fields], [f.value for f in r.fields]
                )
                for r in message.records.records[known:]
            ]
        except ValueError as error:
            raise _Refused(grpc.StatusCode.INVALID_ARGUMENT, f"{agent.name!r}: {error}") from None
        if not records:
            return
        batch = Batch(agent.name, agent.instance, sequence + known, records)
        await self._on_records(batch, partial(self._written, batch, account))
        account.received = batch.end
        # Who never reports anything leaves no trace here.
        self._accounts[agent.name, agent.instance] = account
        if lost:
            log.warning("%s has given up %d records", agent.name, lost)
            self._on_lost(agent.name, lost)

    def _written(self, batch: Batch, account: _Account) -> None:
        account.written = batch.end
        # The stream on which they came may have been broken since, and the agent be back.
        agent = self.agents.get(batch.agent)
        if agent is not None and agent.account is account:
            agent.outbox.put_nowait(_acknowledge(batch.end))

    async def _announce(self, how: str, agent: Agent) -> None:
        self._on_agent(how, agent)
        async with self._changed:
            self._changed.notify_all()

    @staticmethod
    async def _write(agent: Agent, context: _Context) -> None:
        while (message := await agent.outbox.get()) is not None:
            await context.write(message)

    @staticmethod
    async def _drain(agent: Agent, writer: asyncio.Task[None]) -> None:
        """Lets the writer finish: gRPC accepts no status while a message is being written."""
        agent.outbox.put_nowait(None)
        await asyncio.wait({writer}, timeout=_DRAIN_S)


def member_message(member: Member) -> session_pb2.Member:
    return session_pb2.Member(id=member.id, address=str(member.address), below=member.below)


def _acknowledge(sequence: int) -> lab_pb2.ToAgent:
    return lab_pb2.ToAgent(acknowledge=lab_pb2.Acknowledge(sequence=sequence))


def _membership(session: int, top_rank: int) -> lab_pb2.ToAgent:
    return lab_pb2.ToAgent(membership=lab_pb2.Membership(session=session, top_rank=top_rank))
