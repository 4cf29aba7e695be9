"""TCP flows from one host to another: endless ones, periods of sending, or transfers of random
sizes. Each period and each transfer is a connection (ns3/traffic/tcp_flows.cpp does the same in
virtual time)."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from random import Random

from tiercast_lab.run.mininet.flows.end import End, Options
from tiercast_lab.run.mininet.flows.loop import Loop

# IP and TCP headers of a segment: 20 + 20, and 12 for time stamps, which TCP_MAXSEG includes.
FIXED_HEADERS = 40
HEADERS = 52
CHUNK = bytes(64 * 1024)
# Unsent bytes that may wait in the kernel: enough to keep it busy, few enough to be gone soon after
# a stop.
NOTSENT_LOWAT = 32 * 1024
WINDOW_UNIT = 128  # bytes: the kernel's window scale of 7
# Bytes for which a receiver is woken: a program for each packet would take half a core for 64 flows
# of 0.4 Mbit/s. The kernel acknowledges packets as before. At most a quarter of the window, so that
# what waits here does not close it.
RECEIVE_LOWAT = 16 * 1024
SENDS = 16  # in a row, of CHUNK: other flows have their turn then
TCP_INFO = struct.Struct("=xB66xI4xII16xI52xI")  # TcpInfo's fields in struct tcp_info
RECOVERY, LOSS = 3, 4  # of linux/tcp.h's enum tcp_ca_state
# A flow is looked at three times a round trip, as a recovery takes one at least.
LOOKS = 3
LEAST_LOOK_S, MOST_LOOK_S = 0.01, 0.1


@dataclass(frozen=True)
class TcpInfo:
    """The fields in use of linux/tcp.h's struct tcp_info."""

    state: int  # of congestion control
    rtt_us: int
    ssthresh: int  # packets; 2^31 - 1 before the first loss
    cwnd: int  # packets
    retransmitted: int  # packets
    sent_packets: int  # with data, including retransmissions

    @classmethod
    def of(cls, connection: socket.socket) -> TcpInfo:
        raw = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO.size)
        return cls(*TCP_INFO.unpack(raw))


@dataclass
class Outgoing:
    """A flow at its sending end. Counts of packets are those of its earlier connections."""

    name: str
    port: int
    random: Random
    begun: bool = False
    socket: socket.socket | None = None  # None: between two periods, not begun yet, or ended
    left: float = float("inf")  # payload bytes of the transfer that are not yet in the kernel
    sent_packets: int = 0
    retransmitted: int = 0
    fast_retransmits: int = 0  # beginnings of recovery, of all connections
    timeouts: int = 0  # those in a row, without an acknowledgement between them, count once
    seen: TcpInfo | None = None  # when the connection was last looked at

    def look(self) -> TcpInfo | None:
        """Looks at the connection, and counts what has begun since the last time: the kernel does
        not count for each. None without a connection."""
        if self.socket is None:
            return None
        before, self.seen = self.seen, TcpInfo.of(self.socket)
        was = None if before is None else (before.state, before.ssthresh)
        if self.seen.state == RECOVERY and was != (RECOVERY, self.seen.ssthresh):
            self.fast_retransmits += 1
        if self.seen.state == LOSS and (before is None or before.state != LOSS):
            self.timeouts += 1
        return self.seen


def _connection(flow: Outgoing) -> socket.socket:
    assert flow.socket is not None  # while it is watched
    return flow.socket


class Sender(End):
    def __init__(self, options: Options, loop: Loop) -> None:
        super().__init__(options, loop)
        self.flows = [Outgoing(name, port, self.random(name)) for name, port in options.flows]

    def begin(self) -> None:
        for flow in self.flows:
            self._begin_period(flow)
        self._look()

    def _look(self) -> None:
        if (now := time.monotonic()) >= self.stop_s:
            return
        rtts = [1e-6 * info.rtt_us for flow in self.flows if (info := flow.look()) is not None]
        next_s = min(max(min(rtts, default=1.0) / LOOKS, LEAST_LOOK_S), MOST_LOOK_S)
        self.loop.at(now + next_s, self._look)

    def _begin_period(self, flow: Outgoing) -> None:
        if (now := time.monotonic()) >= self.stop_s:
            return
        if (on := self.options.on) is not None:
            length = on.draw(flow.random)
            if on.in_packets:
                flow.left = length * (self.options.packet_size - HEADERS)
            else:
                self.loop.at(now + length, partial(self._end_period, flow))
        flow.socket = connection = self.open_socket(socket.SOCK_STREAM)
        connection.setblocking(False)
        tcp = socket.IPPROTO_TCP
        connection.setsockopt(tcp, socket.TCP_CONGESTION, self.options.congestion_control.encode())
        connection.setsockopt(tcp, socket.TCP_MAXSEG, self.options.packet_size - FIXED_HEADERS)
        connection.setsockopt(tcp, socket.TCP_NOTSENT_LOWAT, NOTSENT_LOWAT)
        # A close ends the connection at once: what is still waiting is not sent any more.
        linger = struct.pack("ii", 1, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        # Both ends of the first connection have the flow's port, so that its path is known where
        # paths have equal costs. A later one gets a free port: the first may be in TIME-WAIT.
        if not flow.begun:
            connection.bind((self.options.address, flow.port))
            flow.begun = True
        connection.connect_ex((self.options.peer, flow.port))
        self.loop.watch(connection, selectors.EVENT_WRITE, partial(self._send, flow))

    def _send(self, flow: Outgoing) -> None:
        """Gives the kernel more to send. The end of a transfer's data is its last."""
        connection = _connection(flow)
        with self._broken(flow):
            for _ in range(SENDS):
                if flow.left <= 0:
                    connection.shutdown(socket.SHUT_WR)
                    wait = partial(self._wait, flow)
                    self.loop.watch(connection, selectors.EVENT_READ, wait)
                    break
                flow.left -= connection.send(CHUNK[: int(min(flow.left, len(CHUNK)))])

    def _wait(self, flow: Outgoing) -> None:
        """Waits until the receiver has all of a transfer, and closes."""
        with self._broken(flow):
            if not _connection(flow).recv(1):
                self._end_period(flow)

    @contextlib.contextmanager
    def _broken(self, flow: Outgoing) -> Iterator[None]:
        """Ends the program when the flow's connection breaks."""
        try:
            connection = _connection(flow)
            if error := connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(error, os.strerror(error))
            yield
        except BlockingIOError:
            pass  # the kernel has enough for now
        except OSError as error:
            place = f"{self.options.peer}:{flow.port}"
            sys.exit(f"flows: {flow.name} to {place} broke: {error.strerror}")

    def _end_period(self, flow: Outgoing) -> None:
        if flow.socket is None:
            return  # the flow has reached its stop
        self._close(flow)
        off_s = self.off_s(flow.random)
        self.loop.at(time.monotonic() + off_s, partial(self._begin_period, flow))

    def _close(self, flow: Outgoing) -> None:
        if flow.socket is not None and (info := flow.look()) is not None:
            flow.sent_packets += info.sent_packets
            flow.retransmitted += info.retransmitted
            self.loop.close(flow.socket)
            flow.socket = flow.seen = None

    def report(self) -> None:
        for flow in self.flows:
            if (info := flow.look()) is not None:
                self.loop.say(
                    "tcp.sender",
                    flow.name,
                    cwnd=info.cwnd,
                    ssthresh=info.ssthresh,
                    rtt_us=info.rtt_us,
                    sent_packets=flow.sent_packets + info.sent_packets,
                    retransmitted=flow.retransmitted + info.retransmitted,
                    fast_retransmits=flow.fast_retransmits,
                    timeouts=flow.timeouts,
                )

    def end(self) -> None:
        self.report()
        for flow in self.flows:
            self._close(flow)


@dataclass
class Incoming:
    """A flow at its receiving end."""

    name: str
    payload: int = 0  # bytes that this program has read


class Receiver(End):
    def __init__(self, options: Options, loop: Loop) -> None:
        super().__init__(options, loop)
        self.buffer = bytearray(256 * 1024)
        self.begun: list[Incoming] = []
        self.connections: dict[socket.socket, Incoming] = {}
        for name, port in options.flows:
            listener = self.open_socket(socket.SOCK_STREAM)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((options.address, port))
            listener.listen()
            self._limit_window(listener)
            accept = partial(self._accept, listener, Incoming(name))
            loop.watch(listener, selectors.EVENT_READ, accept)

    def _accept(self, listener: socket.socket, flow: Incoming) -> None:
        connection, _ = listener.accept()
        connection.setblocking(False)
        lowat = min(RECEIVE_LOWAT, (self._window() or 4 * RECEIVE_LOWAT) // 4)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, lowat)
        take = partial(self._take, connection, flow)
        self.loop.watch(connection, selectors.EVENT_READ, take)
        self.connections[connection] = flow
        if flow not in self.begun:
            self.begun.append(flow)

    def _take(self, end: socket.socket, flow: Incoming) -> None:
        if self._read(end, flow):
            self._say(flow)

    def _read(self, end: socket.socket, flow: Incoming) -> bool:
        """Reads what is there. Returns whether the connection has ended."""
        try:
            size = end.recv_into(self.buffer)
            self._limit_window(end)
        except BlockingIOError:
            return False
        except ConnectionResetError:
            size = 0  # the sender has ended a period, or the flow
        flow.payload += size
        if size > 0:
            return False
        del self.connections[end]
        self.loop.close(end)
        return True

    def _window(self) -> int:
        """Bytes of payload; 0: not limited."""
        return self.options.window * (self.options.packet_size - HEADERS)

    def _limit_window(self, end: socket.socket) -> None:
        """Limits the window that is advertised; connections inherit it from the listener. The
        kernel raises it again whenever it learns how large packets are, so this is repeated. It is
        told in units of WINDOW_UNIT bytes: a unit more, so that no packet is lost by that."""
        if window := self._window():
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, window + WINDOW_UNIT)

    def report(self) -> None:
        for end, flow in list(self.connections.items()):
            self._read(end, flow)
        for flow in self.begun:
            self._say(flow)

    def _say(self, flow: Incoming) -> None:
        # Counted as for links and sessions: IP bytes of the full packets in which the payload
        # arrived.
        size = self.options.packet_size
        self.loop.say(
            "tcp",
            flow.name,
            bytes=flow.payload * size / (size - HEADERS),
            goodput_bytes=flow.payload,
        )
