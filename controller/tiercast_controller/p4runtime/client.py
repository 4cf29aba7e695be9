"""A P4Runtime client for one switch of either kind: tiercast-switch or bmv2.

This file has the pipeline, writes with readable errors, and reads; stream.py has arbitration,
packet-in and packet-out. tiercast.v1's Switch service is at the same address and shares the
channel.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import grpc
from google.rpc import code_pb2, status_pb2
from p4.v1 import p4runtime_pb2 as p4
from p4.v1 import p4runtime_pb2_grpc
from tiercast.v1 import lab_pb2, lab_pb2_grpc, trace_pb2

from tiercast_controller.base.errors import NotPrimaryError, SwitchError, UnreachableError
from tiercast_controller.base.tls import Tls
from tiercast_controller.p4runtime.entities import (
    CloneSession,
    Entity,
    MeterCell,
    MulticastGroup,
    Op,
    RegisterCell,
    TableEntry,
    Update,
)
from tiercast_controller.p4runtime.program import Program, decode, encode
from tiercast_controller.p4runtime.stream import RECONNECT_S, ControlStream, PacketIn, error_of

__all__ = ["FailedUpdate", "P4RuntimeClient", "PacketIn", "WriteError"]

_OPS = {Op.INSERT: p4.Update.INSERT, Op.MODIFY: p4.Update.MODIFY, Op.DELETE: p4.Update.DELETE}
# There is one copy per port, and instances need only be distinct per port.
_REPLICA_INSTANCE = 1
Replica = tuple[int, int]  # its egress port and instance
_VERDICT_S = 1.0  # for which a denied controller waits to hear that there is another primary
_CHANNEL_OPTIONS: list[tuple[str, int | str]] = [
    ("grpc.max_receive_message_length", -1),
    # Switches start at the same time as the controller, so retry at once, not after a second.
    # (min_reconnect_backoff_ms is something else: how long a switch may take to answer, 20 s.)
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", round(1000 * RECONNECT_S)),
    ("grpc.enable_http_proxy", 0),  # a switch is reached as its address says
]


@dataclass(frozen=True)
class FailedUpdate:
    update: Update
    code: str  # from gRPC, such as "ALREADY_EXISTS"
    text: str

    def __str__(self) -> str:
        return f"{self.update}: {self.code}{': ' + self.text if self.text else ''}"


class WriteError(SwitchError):
    """Some updates of a batch failed. The others were applied (CONTINUE_ON_ERROR)."""

    def __init__(self, switch: str, failed: Sequence[FailedUpdate], total: int):
        self.failed = failed
        lines = "".join(f"\n  {item}" for item in failed)
        super().__init__(f"{switch}: {len(failed)} of {total} updates failed:{lines}")


class P4RuntimeClient:
    """Usage: connect(), set_pipeline(), then any method, and close() at the end. After `lost`,
    connect() may be called again."""

    def __init__(
        self,
        name: str,
        device_id: int,
        address: str,
        program: Program,
        role: str = "",
        tls: Tls | None = None,
    ):
        """`role` is P4Runtime's, empty for the one with access to everything; `tls` None means no
        TLS. Raises ConfigurationError if a file of `tls` cannot be read."""
        self.name = name
        self.program = program
        self.written = 0  # updates that the switch has acknowledged
        self._device_id = device_id
        self._role = role
        self._channel = (
            grpc.aio.insecure_channel(address, options=_CHANNEL_OPTIONS)
            if tls is None
            else grpc.aio.secure_channel(
                address, tls.credentials(), options=[*_CHANNEL_OPTIONS, *tls.channel_options]
            )
        )
        self._p4 = p4runtime_pb2_grpc.P4RuntimeStub(self._channel)
        self._links = lab_pb2_grpc.SwitchStub(self._channel)
        self.stream = ControlStream(name, address, device_id, role, program, self._p4)

    @property
    def lost(self) -> asyncio.Future[None]:
        """Of the last connect(): fails with a SwitchError if the stream ends or another controller
        takes over the switch."""
        return self.stream.lost

    @property
    def packet_in(self) -> asyncio.Queue[PacketIn]:
        return self.stream.packet_in

    @property
    def packet_in_dropped(self) -> int:
        return self.stream.packet_in_dropped

    async def connect(self, timeout_s: float = 10) -> None:
        """As ControlStream.connect."""
        await self.stream.connect(timeout_s)

    async def packet_out(self, port: int, frame: bytes) -> None:
        """As ControlStream.packet_out."""
        await self.stream.packet_out(port, frame)

    async def close(self) -> None:
        """Releases the switch. Its state does not change."""
        await self.stream.close()
        await self._channel.close()

    async def set_pipeline(self, timeout_s: float = 30) -> bool:
        """Loads the program unless the switch already runs it. Returns whether it was loaded.

        Loading clears a switch's tables. A controller that restarts finds them as it left them.
        """
        running = await self.running_cookie(timeout_s)
        if running == self.program.cookie:
            return False
        if running is not None:
            # Not every switch clears its groups when another program is loaded.
            groups = await self.read_groups()
            await self.write([Update(Op.DELETE, MulticastGroup(m, frozenset())) for m in groups])
        request = p4.SetForwardingPipelineConfigRequest(
            device_id=self._device_id,
            role=self._role,
            election_id=self.stream.election_id_message,
            action=p4.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
            config=p4.ForwardingPipelineConfig(
                p4info=self.program.p4info,
                p4_device_config=self.program.device_config,
                cookie=p4.ForwardingPipelineConfig.Cookie(cookie=self.program.cookie),
            ),
        )
        try:
            await self._p4.SetForwardingPipelineConfig(request, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            refused = self._error("the program was refused", error)
            raise await self._or_displaced(refused, error) from None
        return True

    async def runs_program(self, timeout_s: float = 30) -> bool:
        return await self.running_cookie(timeout_s) == self.program.cookie

    async def version(self, timeout_s: float = 5) -> str:
        """The version of P4Runtime that the switch speaks, such as "1.4.1"; "unknown" if it does
        not say."""
        try:
            response = await self._p4.Capabilities(p4.CapabilitiesRequest(), timeout=timeout_s)
        except grpc.aio.AioRpcError:
            return "unknown"
        return response.p4runtime_api_version or "unknown"

    async def running_cookie(self, timeout_s: float) -> int | None:
        """The cookie of the program that the switch runs (0: it has none). None: it runs no
        program."""
        request = p4.GetForwardingPipelineConfigRequest(
            device_id=self._device_id,
            response_type=p4.GetForwardingPipelineConfigRequest.COOKIE_ONLY,
        )
        try:
            response = await self._p4.GetForwardingPipelineConfig(request, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
                return None
            raise self._error("the running program could not be read", error) from None
        return response.config.cookie.cookie

    async def write(self, updates: Sequence[Update], timeout_s: float = 5) -> None:
        """Writes one batch, in any order that the switch chooses. Raises WriteError,
        or NotPrimaryError if the switch has another primary."""
        if not updates:
            return
        request = p4.WriteRequest(
            device_id=self._device_id, role=self._role, election_id=self.stream.election_id_message
        )
        for update in updates:
            request.updates.add(type=_OPS[update.op], entity=self._encode(update.entity))
        try:
            await self._p4.Write(request, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            refused = self._write_error(updates, error)
            raise await self._or_displaced(refused, error) from None
        self.written += len(updates)

    async def read_entries(self, tables: Iterable[str]) -> list[TableEntry]:
        """All entries of some tables, without default actions."""
        entities = [
            p4.Entity(table_entry=p4.TableEntry(table_id=self.program.table_id(table)))
            for table in tables
        ]
        if not entities:
            return []
        return [
            self.program.decode_entry(entity.table_entry)
            async for entity in self._read(entities)
            if not entity.table_entry.is_default_action and not entity.table_entry.is_const
        ]

    async def read_groups(self) -> dict[int, frozenset[int]]:
        """All multicast groups: egress ports by group id."""
        return ports_of(await self.read_replicas())

    async def read_replicas(self) -> dict[int, list[Replica]]:
        """All multicast groups: their replicas by group id."""
        wanted = p4.Entity()
        wanted.packet_replication_engine_entry.multicast_group_entry.SetInParent()
        groups = {}
        async for entity in self._read([wanted]):
            group = entity.packet_replication_engine_entry.multicast_group_entry
            groups[group.multicast_group_id] = [
                (_port_of(replica), replica.instance) for replica in group.replicas
            ]
        return groups

    async def read_clone_sessions(self) -> dict[int, int | None]:
        """All clone sessions: the port of the one replica by the session's number; None if it has
        other replicas. Raises UnsupportedError on bmv2."""
        wanted = p4.Entity()
        wanted.packet_replication_engine_entry.clone_session_entry.SetInParent()
        sessions = {}
        async for entity in self._read([wanted]):
            session = entity.packet_replication_engine_entry.clone_session_entry
            ports = [_port_of(replica) for replica in session.replicas]
            sessions[session.session_id] = ports[0] if len(ports) == 1 else None
        return sessions

    async def read_counter(self, counter: str) -> dict[int, tuple[int, int]]:
        """All cells of an indexed counter: (packets, bytes) by index."""
        wanted = p4.Entity(
            counter_entry=p4.CounterEntry(counter_id=self.program.counter_id(counter))
        )
        return {
            e.counter_entry.index.index: (
                e.counter_entry.data.packet_count,
                e.counter_entry.data.byte_count,
            )
            async for e in self._read([wanted])
        }

    async def read_cells(self, cells: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Some cells of indexed counters, in one request: packets by (counter, index)."""
        wanted, names = [], {}
        for counter, index in cells:
            identifier = self.program.counter_id(counter)
            names[identifier] = counter
            cell = p4.CounterEntry(counter_id=identifier, index=p4.Index(index=index))
            wanted.append(p4.Entity(counter_entry=cell))
        return {
            (names[e.counter_entry.counter_id], e.counter_entry.index.index): (
                e.counter_entry.data.packet_count
            )
            async for e in self._read(wanted)
        }

    async def read_register(self, register: str) -> dict[int, int]:
        """All cells of a register of bit<> values, by index. Raises UnsupportedError on bmv2."""
        wanted = p4.Entity(
            register_entry=p4.RegisterEntry(register_id=self.program.register_id(register))
        )
        return {
            e.register_entry.index.index: decode(e.register_entry.data.bitstring)
            async for e in self._read([wanted])
        }

    async def read_register_cells(self, register: str, indices: Iterable[int]) -> dict[int, int]:
        """Some cells of a register of bit<> values, by index, in one request."""
        identifier = self.program.register_id(register)
        wanted = [
            p4.Entity(
                register_entry=p4.RegisterEntry(register_id=identifier, index=p4.Index(index=index))
            )
            for index in indices
        ]
        return {
            e.register_entry.index.index: decode(e.register_entry.data.bitstring)
            async for e in self._read(wanted)
        }

    async def read_counter_cells(
        self, counter: str, indices: Iterable[int]
    ) -> dict[int, tuple[int, int]]:
        """Some cells of a counter, in one request: (packets, bytes) by index."""
        identifier = self.program.counter_id(counter)
        wanted = [
            p4.Entity(
                counter_entry=p4.CounterEntry(counter_id=identifier, index=p4.Index(index=index))
            )
            for index in indices
        ]
        return {
            e.counter_entry.index.index: (
                e.counter_entry.data.packet_count,
                e.counter_entry.data.byte_count,
            )
            async for e in self._read(wanted)
        }

    async def read_meter(self, meter: str, indices: Collection[int]) -> list[MeterCell]:
        """Some cells of a meter; one of rate 0 limits nothing."""
        identifier = self.program.meter_id(meter)
        wanted = [
            p4.Entity(meter_entry=p4.MeterEntry(meter_id=identifier, index=p4.Index(index=index)))
            for index in indices
        ]
        if not wanted:
            return []
        return [
            MeterCell(
                meter,
                entity.meter_entry.index.index,
                entity.meter_entry.config.cir,
                entity.meter_entry.config.cburst,
            )
            async for entity in self._read(wanted)
        ]

    async def set_link(self, request: lab_pb2.SetLinkRequest, timeout_s: float = 5) -> None:
        """Changes a link. Raises UnsupportedError on bmv2."""
        try:
            await self._links.SetLink(request, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise self._error(f"SetLink of port {request.port}", error) from None

    async def get_ports(self, timeout_s: float = 5) -> lab_pb2.GetPortsResponse:
        """The statistics of all ports. Raises UnsupportedError on bmv2."""
        try:
            return await self._links.GetPorts(lab_pb2.GetPortsRequest(), timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise self._error("GetPorts", error) from None

    async def set_trace(self, ports: Iterable[trace_pb2.PortTrace], timeout_s: float = 5) -> None:
        """Traces packets at these ports alone. Raises UnsupportedError on bmv2."""
        try:
            await self._links.SetTrace(lab_pb2.SetTraceRequest(ports=ports), timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise self._error("SetTrace", error) from None

    async def take_trace(self, timeout_s: float = 5) -> lab_pb2.TakeTraceResponse:
        try:
            return await self._links.TakeTrace(lab_pb2.TakeTraceRequest(), timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise self._error("TakeTrace", error) from None

    def _encode(self, entity: Entity) -> p4.Entity:
        if isinstance(entity, TableEntry):
            return p4.Entity(table_entry=self.program.encode_entry(entity))
        message = p4.Entity()
        if isinstance(entity, RegisterCell):
            cell = message.register_entry
            cell.register_id = self.program.register_id(entity.register)
            cell.index.index = entity.index
            bits = self.program.register_bits(entity.register)
            cell.data.bitstring = encode(entity.value, bits, entity.register)
            return message
        if isinstance(entity, MeterCell):
            metered = message.meter_entry
            metered.meter_id = self.program.meter_id(entity.meter)
            metered.index.index = entity.index
            if entity.rate:
                metered.config.cir = metered.config.pir = entity.rate
                metered.config.cburst = metered.config.pburst = entity.burst
            return message
        if isinstance(entity, CloneSession):
            clones = message.packet_replication_engine_entry.clone_session_entry
            clones.session_id = entity.number
            if entity.port is not None:
                clones.replicas.add(egress_port=entity.port, instance=_REPLICA_INSTANCE)
            return message
        group = message.packet_replication_engine_entry.multicast_group_entry
        group.multicast_group_id = entity.mgid
        for port in sorted(entity.ports):
            # bmv2 does not know the newer field `port`.
            group.replicas.add(egress_port=port, instance=_REPLICA_INSTANCE)
        return message

    async def _read(self, entities: Iterable[p4.Entity]) -> AsyncIterator[p4.Entity]:
        request = p4.ReadRequest(device_id=self._device_id, role=self._role, entities=entities)
        try:
            async for response in self._p4.Read(request, timeout=10):
                for entity in response.entities:
                    yield entity
        except grpc.aio.AioRpcError as error:
            raise self._error("Read", error) from None

    async def _or_displaced(self, refused: SwitchError, error: grpc.aio.AioRpcError) -> SwitchError:
        """`refused`, or the reason for which the stream has ended since: the switch denies a change
        before it says there that another controller is the primary; one that has died and returned
        knows of no stream."""
        if error.code() is not grpc.StatusCode.PERMISSION_DENIED:
            return refused
        lost = self.lost
        await asyncio.wait({lost}, timeout=_VERDICT_S)
        reason = lost.exception() if lost.done() and not lost.cancelled() else None
        if isinstance(reason, (NotPrimaryError, UnreachableError)):
            return type(reason)(f"{refused}; {reason}")
        return refused

    def _error(self, what: str, error: grpc.aio.AioRpcError) -> SwitchError:
        return error_of(f"{self.name}: {what}", error)

    def _write_error(self, updates: Sequence[Update], error: grpc.aio.AioRpcError) -> SwitchError:
        """The failed updates. P4Runtime 12.3: the details hold one p4.v1.Error per update, OK for
        those that succeeded."""
        for key, value in error.trailing_metadata() or ():
            if key != "grpc-status-details-bin" or not isinstance(value, bytes):
                continue
            details = status_pb2.Status.FromString(value).details
            if len(details) != len(updates):
                break
            failed = []
            for update, detail in zip(updates, details, strict=True):
                reason = p4.Error()
                detail.Unpack(reason)
                if reason.canonical_code != code_pb2.OK:
                    code = code_pb2.Code.Name(reason.canonical_code)
                    failed.append(FailedUpdate(update, code, reason.message))
            if failed:
                return WriteError(self.name, failed, len(updates))
        return self._error(f"Write of {len(updates)} updates, first {updates[0]}", error)


def ports_of(groups: Mapping[int, Iterable[Replica]]) -> dict[int, frozenset[int]]:
    """The egress ports of each group."""
    return {number: frozenset(port for port, _ in its) for number, its in groups.items()}


def one_for_each_port(replicas: Collection[Replica]) -> bool:
    """Whether a group has the replicas that this client writes for its ports."""
    ports = {port for port, _ in replicas}
    return sorted(replicas) == [(port, _REPLICA_INSTANCE) for port in sorted(ports)]


def _port_of(replica: p4.Replica) -> int:
    if replica.WhichOneof("port_kind") == "port":
        return decode(replica.port)
    return replica.egress_port
