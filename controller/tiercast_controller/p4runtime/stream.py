"""The stream between a controller and a switch: who is the primary, packets in and packets out.

P4Runtime's arbitration: of the controllers whose streams are open, the one with the highest
election id is the primary. When the primary's stream ends, a switch has none until one asks with an
id that is at least the highest so far; older ones make the next one the primary (P4Runtime 5). Both
tell every stream what has become of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import random
import time
from dataclasses import dataclass
from typing import Any

import grpc
from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2 as p4
from p4.v1 import p4runtime_pb2_grpc

from tiercast_controller.base.errors import (
    NotPrimaryError,
    SwitchError,
    UnreachableError,
    UnsupportedError,
)
from tiercast_controller.p4runtime.program import Program

log = logging.getLogger(__name__)

PACKET_IN_QUEUE = 4096  # packets; any more are dropped and counted
# For so long, and by chance up to twice as long, a standby leaves a switch that answers to its
# primary, which may be about to return to it. So a primary's pause between two attempts, and the
# channel's (to which gRPC adds up to a fifth), are shorter together.
GRACE_S = 1.0
LONGEST_PAUSE_S = 0.25
RECONNECT_S = 0.5
_GONE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
# How far above the highest election id this process asks. Several that wait for the same primary's
# end must not ask with the same id, which is refused; the same one must win at every switch.
_ABOVE = random.randrange(1, 1 << 16)


@dataclass(frozen=True)
class PacketIn:
    time_ns: int  # CLOCK_MONOTONIC when the controller received it
    port: int  # where the packet came in
    frame: bytes


class Standing(enum.Enum):
    """Who is a switch's primary."""

    OURS = enum.auto()
    ANOTHERS = enum.auto()
    NOBODYS = enum.auto()


_STANDINGS: dict[int, Standing] = {code_pb2.OK: Standing.OURS, code_pb2.NOT_FOUND: Standing.NOBODYS}


class ControlStream:
    """Usage: watch() or connect(), and close() at the end. After `lost` either may be called
    again."""

    def __init__(
        self,
        name: str,
        address: str,
        device_id: int,
        role: str,
        program: Program,
        stub: p4runtime_pb2_grpc.P4RuntimeAsyncStub,
    ):
        self.packet_in: asyncio.Queue[PacketIn] = asyncio.Queue(PACKET_IN_QUEUE)
        self.packet_in_dropped = 0
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.standing: Standing | None = None  # None: the switch has not said
        # Set when `standing` may have changed, or the stream has ended.
        self.changed = asyncio.Event()
        # A restarted controller has a later time, hence a higher id, and wins (P4Runtime 5).
        self._election_id = time.time_ns()
        self._highest = 0  # that the switch has seen
        self._connected = False
        # gRPC takes one write at a time; a second one would break the call so that it never ends.
        self._writing = asyncio.Lock()
        self._name = name
        self._address = address
        self._device_id = device_id
        self._role = role
        self._program = program
        self._stub = stub
        # With the highest election id that the switch had seen by then.
        self._answers: asyncio.Queue[tuple[Standing, int]] = asyncio.Queue()
        self._call: (
            grpc.aio.StreamStreamCall[p4.StreamMessageRequest, p4.StreamMessageResponse] | None
        ) = None
        self._reader: asyncio.Task[None] | None = None

    @property
    def election_id_message(self) -> p4.Uint128:
        return p4.Uint128(high=self._election_id >> 64, low=self._election_id & (1 << 64) - 1)

    async def watch(self) -> None:
        """Opens the stream, and asks who is the primary without wanting to be it. Returns when the
        switch has said so; then `standing` follows what it says. Waits for as long as nothing
        answers. Raises SwitchError if the stream ends."""
        await self._open()
        await self._ask(None)
        await self._next_answer()

    async def connect(self, timeout_s: float = 10) -> None:
        """Becomes primary. Raises NotPrimaryError, or SwitchError if nothing answers in time."""
        try:
            async with asyncio.timeout(timeout_s):
                if self._call is None or self._call.done() or self.lost.done():
                    await self._open()
                self._connected = False  # until it has answered, also on a stream that lives
                await self._claim()
        except TimeoutError:
            await self._end()
            raise UnreachableError(
                f"{self._name}: no answer on {self._address} within {timeout_s:g} s"
            ) from None
        self._connected = True

    async def packet_out(self, port: int, frame: bytes) -> None:
        """Sends a frame out of a port."""
        if self._call is None:
            raise SwitchError(f"{self._name}: packet-out before connect()")
        header = self._program.manifest.packet_out
        if header is None or header.egress_port is None:
            raise SwitchError(f"{self._name}: {self._program.name} has no packet_out")
        packet = self._program.encode_packet_out(frame, **{header.egress_port: port})
        if not self._connected:
            raise UnreachableError(f"{self._name}: packet-out while the stream is closed")
        try:
            async with self._writing:
                await self._call.write(p4.StreamMessageRequest(packet=packet))
        except (grpc.RpcError, asyncio.InvalidStateError) as error:
            raise UnreachableError(
                f"{self._name}: packet-out failed: the stream is closed"
            ) from error

    def give_up(self, reason: SwitchError) -> None:
        """Ends the stream, so that `lost` fails with this reason."""
        self._fail(reason)
        if self._call is not None:
            self._call.cancel()

    async def close(self) -> None:
        """Releases the switch."""
        if not self.lost.done():
            self.lost.cancel()
        await self._end()
        if not self.lost.cancelled():
            self.lost.exception()  # marks it as retrieved, to avoid asyncio's warning

    # ------------------------------------------------------------------------------ internals

    async def _open(self) -> None:
        await self._end()
        if self.lost.done():
            self.lost = asyncio.get_running_loop().create_future()
        self._connected, self.standing, self._highest = False, None, 0
        self._answers = asyncio.Queue()
        self._call = self._stub.StreamChannel(wait_for_ready=True)
        self._reader = asyncio.create_task(self._read(self._call), name=f"{self._name} stream")

    async def _end(self) -> None:
        if self._call is not None:
            self._call.cancel()
        if self._reader is not None:
            await asyncio.gather(self._reader, return_exceptions=True)
        self._call = self._reader = None

    async def _claim(self) -> None:
        while True:
            await self._ask(self._election_id)
            answer, highest = await self._next_answer()
            # What tells of none but lower ids was said to another's ask, before ours was read.
            while answer is not Standing.OURS and highest < self._election_id:
                answer, highest = await self._next_answer()
            if answer is Standing.OURS:
                return
            if answer is Standing.ANOTHERS:
                raise self._not_primary()
            # Nobody is, but one with a higher id was: we waited for its end, or the clock of ours
            # was set back.
            self._election_id = highest + _ABOVE

    async def _ask(self, election_id: int | None) -> None:
        assert self._call is not None
        request = p4.StreamMessageRequest()
        request.arbitration.device_id = self._device_id
        if election_id is not None:
            request.arbitration.election_id.CopyFrom(self.election_id_message)
        if self._role:
            request.arbitration.role.name = self._role
        while not self._answers.empty():
            self._answers.get_nowait()  # to what was asked before
        # A stream that the switch refused cannot be written to; its reader has the reason.
        with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
            async with self._writing:
                await self._call.write(request)

    async def _next_answer(self) -> tuple[Standing, int]:
        answer = asyncio.ensure_future(self._answers.get())
        either: set[asyncio.Future[Any]] = {answer, self.lost}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                self.lost.result()
            return answer.result()
        finally:
            answer.cancel()

    async def _read(
        self, call: grpc.aio.StreamStreamCall[p4.StreamMessageRequest, p4.StreamMessageResponse]
    ) -> None:
        reason: SwitchError
        try:
            async for response in call:
                kind = response.WhichOneof("update")
                if kind == "packet":
                    self._on_packet(response.packet)
                elif kind == "arbitration":
                    self._on_arbitration(response.arbitration)
                elif kind == "error":
                    log.warning("%s: %s", self._name, response.error.message)
            reason = UnreachableError(f"{self._name}: the switch closed the stream")
        except grpc.aio.AioRpcError as error:
            reason = error_of(f"{self._name}: the stream was lost", error)
        except asyncio.CancelledError:
            return
        self._fail(reason)

    def _on_packet(self, packet: p4.PacketIn) -> None:
        header = self._program.manifest.packet_in
        if header is None or header.ingress_port is None:
            return  # nothing says where it came in
        port = self._program.decode_packet_in(packet).get(header.ingress_port, 0)
        try:
            self.packet_in.put_nowait(PacketIn(time.monotonic_ns(), port, packet.payload))
        except asyncio.QueueFull:
            self.packet_in_dropped += 1

    def _on_arbitration(self, arbitration: p4.MasterArbitrationUpdate) -> None:
        self.standing = _STANDINGS.get(arbitration.status.code, Standing.ANOTHERS)
        self._highest = arbitration.election_id.high << 64 | arbitration.election_id.low
        self.changed.set()
        if not self._connected:
            self._answers.put_nowait((self.standing, self._highest))
        elif self.standing is not Standing.OURS:
            self._fail(self._not_primary())

    def _not_primary(self) -> NotPrimaryError:
        return NotPrimaryError(
            f"{self._name}: another controller is primary with election id {self._highest}, ours "
            f"is {self._election_id}"
        )

    def _fail(self, reason: SwitchError) -> None:
        self.standing, self._connected = None, False
        self.changed.set()
        if not self.lost.done():
            self.lost.set_exception(reason)
            self.lost.exception()  # whoever needs it asks; asyncio need not warn


def error_of(what: str, error: grpc.aio.AioRpcError) -> SwitchError:
    """A failed call as an error of ours."""
    code = error.code()
    kind = (
        UnsupportedError
        if code is grpc.StatusCode.UNIMPLEMENTED
        else UnreachableError
        if code in _GONE
        else SwitchError
    )
    return kind(f"{what}: {code.name}: {error.details()}")
