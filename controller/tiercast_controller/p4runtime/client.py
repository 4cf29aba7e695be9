"""A P4Runtime client for one switch of either kind: tiercast-switch or bmv2.

This file has arbitration, the pipeline, writes with readable errors, reads, packet-in and
packet-out. tiercast.v1's Switch service is at the same address and shares the channel.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import grpc
from google.rpc import code_pb2, status_pb2
from p4.v1 import p4runtime_pb2 as p4
from p4.v1 import p4runtime_pb2_grpc
from tiercast.v1 import lab_pb2, lab_pb2_grpc, trace_pb2

from tiercast_controller.base.errors import NotPrimaryError, SwitchError, UnsupportedError
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

log = logging.getLogger(__name__)

PACKET_IN_QUEUE = 4096  # packets; any more are dropped and counted
_OPS = {Op.INSERT: p4.Update.INSERT, Op.MODIFY: p4.Update.MODIFY, Op.DELETE: p4.Update.DELETE}
# There is one copy per port, and instances need only be distinct per port.
_REPLICA_INSTANCE = 1
_CHANNEL_OPTIONS: list[tuple[str, int | str]] = [
    ("grpc.max_receive_message_length", -1),
    # Switches start at the same time as the controller, so retry at once, not after a second.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
]


@dataclass(frozen=True)
class PacketIn:
    time_ns: int  # CLOCK_MONOTONIC when the controller received it
    port: int  # where the packet came in
    frame: bytes


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
    """Usage: connect(), set_pipeline(), then any method, and close() at the end.

    `lost` fails with a SwitchError if the stream ends or another controller takes over the switch.
    """

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
        self.packet_in: asyncio.Queue[PacketIn] = asyncio.Queue(PACKET_IN_QUEUE)
        self.packet_in_dropped = 0
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._device_id = device_id
        self._address = address
        self._role = role
        # A restarted controller has a later time, hence a higher id, and wins (P4Runtime 5).
        self._election_id = p4.Uint128(high=0, low=time.time_ns())
        self._channel = (
            grpc.aio.insecure_channel(address, options=_CHANNEL_OPTIONS)
            if tls is None
            else grpc.aio.secure_channel(
                address, tls.credentials(), options=[*_CHANNEL_OPTIONS, *tls.channel_options]
            )
        )
        self._p4 = p4runtime_pb2_grpc.P4RuntimeStub(self._channel)
        self._links = lab_pb2_grpc.SwitchStub(self._channel)
        self._stream: (
            grpc.aio.StreamStreamCall[p4.StreamMessageRequest, p4.StreamMessageResponse] | None
        ) = None
        self._reader: asyncio.Task[None] | None = None
        self._primary: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def connect(self, timeout_s: float = 10) -> None:
        """Becomes primary. Raises NotPrimaryError, or SwitchError if nothing answers in time."""
        self._stream = self._p4.StreamChannel(wait_for_ready=True)
        self._reader = asyncio.create_task(self._read_stream(), name=f"{self.name} stream")
        request = p4.StreamMessageRequest()
        request.arbitration.device_id = self._device_id
        request.arbitration.election_id.CopyFrom(self._election_id)
        if self._role:
            request.arbitration.role.name = self._role
        try:
            async with asyncio.timeout(timeout_s):
                # A stream that the switch refused cannot be written to; its reader has the reason.
                with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
                    await self._stream.write(request)
                await asyncio.shield(self._primary)
        except TimeoutError:
            raise SwitchError(
                f"{self.name}: no answer on {self._address} within {timeout_s:g} s"
            ) from None

    async def close(self) -> None:
        """Releases the switch. Its state does not change."""
        if not self.lost.done():
            self.lost.cancel()
        if self._stream is not None:
            self._stream.cancel()
        if self._reader is not None:
            await asyncio.gather(self._reader, return_exceptions=True)
        for future in (self._primary, self.lost):
            if future.done() and not future.cancelled():
                future.exception()  # marks the exception as retrieved, to avoid asyncio's warning
        await self._channel.close()

    async def set_pipeline(self, timeout_s: float = 30) -> bool:
        """Loads the program unless the switch already runs it. Returns whether it was loaded.

        Loading clears a switch's tables. A controller that restarts finds them as it left them.
        """
        cookie = self.program.cookie
        running = await self.running_cookie(timeout_s)
        if running == cookie:
            return False
        if running is not None:
            # Not every switch clears its groups when another program is loaded.
            groups = await self.read_groups()
            await self.write([Update(Op.DELETE, MulticastGroup(m, frozenset())) for m in groups])
        request = p4.SetForwardingPipelineConfigRequest(
            device_id=self._device_id,
            role=self._role,
            election_id=self._election_id,
            action=p4.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
            config=p4.ForwardingPipelineConfig(
                p4info=self.program.p4info,
                p4_device_config=self.program.device_config,
                cookie=p4.ForwardingPipelineConfig.Cookie(cookie=cookie),
            ),
        )
        try:
            await self._p4.SetForwardingPipelineConfig(request, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise self._error("the program was refused", error) from None
        return True

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
        """Writes one batch, in any order that the switch chooses. Raises WriteError."""
        if not updates:
            return
        request = p4.WriteRequest(
            device_id=self._device_id, role=self._role, election_id=self._election_id
        )
        for update in updates:
            request.updates.add(type=_OPS[update.op], entity=self._encode(update.entity))
        try:
            await self._p4.Write(request, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise self._write_error(updates, error) from None

    async def set_clone_sessions(self, sessions: Mapping[int, int]) -> None:
        """Sets clone sessions, each with the port of its one replica, whether or not the switch has
        them already: not every switch can be read. Raises WriteError."""
        wanted = [CloneSession(number, port) for number, port in sessions.items()]
        try:
            await self.write([Update(Op.INSERT, session) for session in wanted])
        except WriteError as error:
            if any(failed.code != "ALREADY_EXISTS" for failed in error.failed):
                raise
            await self.write([Update(Op.MODIFY, failed.update.entity) for failed in error.failed])

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
        wanted = p4.Entity()
        wanted.packet_replication_engine_entry.multicast_group_entry.SetInParent()
        groups = {}
        async for entity in self._read([wanted]):
            group = entity.packet_replication_engine_entry.multicast_group_entry
            groups[group.multicast_group_id] = frozenset(
                decode(r.port) if r.WhichOneof("port_kind") == "port" else r.egress_port
                for r in group.replicas
            )
        return groups

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

    async def read_meter(self, meter: str, indices: Collection[int]) -> dict[int, int]:
        """The committed rate of some cells of a meter, in units/s, by index; 0: it limits
        nothing."""
        identifier = self.program.meter_id(meter)
        wanted = [
            p4.Entity(meter_entry=p4.MeterEntry(meter_id=identifier, index=p4.Index(index=index)))
            for index in indices
        ]
        found = dict.fromkeys(indices, 0)
        if wanted:
            async for entity in self._read(wanted):
                found[entity.meter_entry.index.index] = entity.meter_entry.config.cir
        return found

    async def packet_out(self, port: int, frame: bytes) -> None:
        """Sends a frame out of a port."""
        if self._stream is None:
            raise SwitchError(f"{self.name}: packet-out before connect()")
        header = self.program.manifest.packet_out
        if header is None or header.egress_port is None:
            raise SwitchError(f"{self.name}: {self.program.name} has no packet_out")
        packet = self.program.encode_packet_out(frame, **{header.egress_port: port})
        try:
            await self._stream.write(p4.StreamMessageRequest(packet=packet))
        except (grpc.RpcError, asyncio.InvalidStateError) as error:
            raise SwitchError(f"{self.name}: packet-out failed: the stream is closed") from error

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

    async def _read_stream(self) -> None:
        assert self._stream is not None
        try:
            async for response in self._stream:
                kind = response.WhichOneof("update")
                if kind == "packet":
                    self._on_packet(response.packet)
                elif kind == "arbitration":
                    self._on_arbitration(response.arbitration)
                elif kind == "error":
                    log.warning("%s: %s", self.name, response.error.message)
            reason = SwitchError(f"{self.name}: the switch closed the stream")
        except grpc.aio.AioRpcError as error:
            reason = self._error("the stream was lost", error)
        except asyncio.CancelledError:
            return
        self._fail(reason)

    def _on_packet(self, packet: p4.PacketIn) -> None:
        header = self.program.manifest.packet_in
        if header is None or header.ingress_port is None:
            return  # nothing says where it came in
        port = self.program.decode_packet_in(packet).get(header.ingress_port, 0)
        try:
            self.packet_in.put_nowait(PacketIn(time.monotonic_ns(), port, packet.payload))
        except asyncio.QueueFull:
            self.packet_in_dropped += 1

    def _on_arbitration(self, arbitration: p4.MasterArbitrationUpdate) -> None:
        if arbitration.status.code == code_pb2.OK:
            if not self._primary.done():
                self._primary.set_result(None)
            return
        self._fail(
            NotPrimaryError(
                f"{self.name}: another controller is primary with election id "
                f"{arbitration.election_id.low}, ours is {self._election_id.low}"
            )
        )

    def _fail(self, reason: SwitchError) -> None:
        for future in (self._primary, self.lost):
            if not future.done():
                future.set_exception(reason)

    def _error(self, what: str, error: grpc.aio.AioRpcError) -> SwitchError:
        code = error.code()
        kind = UnsupportedError if code is grpc.StatusCode.UNIMPLEMENTED else SwitchError
        return kind(f"{self.name}: {what}: {code.name}: {error.details()}")

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


def updates_to(
    installed: Iterable[TableEntry], desired: Iterable[TableEntry]
) -> list[list[Update]]:
    """Batches of updates that turn one set of entries into another. Correct entries are left
    alone."""
    old = {e.key: e for e in installed}
    new = {e.key: e for e in desired}
    delete = [Update(Op.DELETE, e) for key, e in old.items() if key not in new]
    write = [
        Update(Op.MODIFY if key in old else Op.INSERT, e)
        for key, e in new.items()
        if old.get(key) != e
    ]
    return [batch for batch in (delete, write) if batch]
