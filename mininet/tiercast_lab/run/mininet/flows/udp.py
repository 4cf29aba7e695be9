"""UDP flows at a constant rate, always or in periods (ns3/traffic/udp_flows.cpp does the same in
virtual time)."""

from __future__ import annotations

import selectors
import socket
import struct
import time
from dataclasses import dataclass, field
from functools import partial
from random import Random

from tiercast_lab.run.mininet.flows.end import End, Options
from tiercast_lab.run.mininet.flows.loop import Loop

HEADERS = 28  # IP and UDP
# What may wait for the receiving program: more than a fast flow sends in the longest pause of a
# valid run.
RECEIVE_BUFFER = 4 << 20
TAKES = 64  # packets in a row: other flows have their turn then
SO_RCVBUFFORCE, SO_MEMINFO = 33, 55  # of asm-generic/socket.h
MEMINFO_VALUES = 9  # of linux/sock_diag.h, up to SK_MEMINFO_DROPS


@dataclass
class Source:
    name: str
    # Not connected: ICMP, which anybody may forge, then is no error of it.
    socket: socket.socket
    peer: tuple[str, int]
    random: Random
    # ns since the run's start, as in virtual time: a period of 0.25 s has exactly 25 packets of
    # 0.01 s.
    next: int = 0  # when the next packet is due
    period_ends: int = 0
    packets: int = 0


class Sender(End):
    def __init__(self, options: Options, loop: Loop) -> None:
        super().__init__(options, loop)
        self.payload = bytes(options.packet_size - HEADERS)
        self.gap = 8 * 10**9 * options.packet_size // options.rate
        self.stop = round(1e9 * options.stop)
        self.flows = []
        for name, port in options.flows:
            connection = self.open_socket(socket.SOCK_DGRAM)
            connection.bind((options.address, port))
            if options.ecn:
                connection.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, options.ecn)
            peer = options.peer, port
            self.flows.append(Source(name, connection, peer, self.random(name)))

    def begin(self) -> None:
        for flow in self.flows:
            self._begin_period(flow, round(1e9 * self.options.start))

    def _begin_period(self, flow: Source, at: int) -> None:
        """The first packet leaves at once. Periods follow one another from the flow's start on,
        however late this program is."""
        if at >= self.stop:
            return
        on = self.options.on
        length = self.stop if on is None else round(1e9 * on.draw(flow.random))
        flow.next, flow.period_ends = at, min(self.stop, at + length)
        self._send(flow)

    def _send(self, flow: Source) -> None:
        now = time.monotonic_ns() - round(1e9 * self.loop.start_s)
        # Packets that are overdue leave together, so that the rate does not depend on the machine.
        while flow.next <= now and flow.next < flow.period_ends:
            flow.socket.sendto(self.payload, flow.peer)
            flow.packets += 1
            flow.next += self.gap
        if flow.next < flow.period_ends:
            self.loop.at(self.loop.start_s + flow.next / 1e9, partial(self._send, flow))
        elif flow.period_ends < self.stop:
            following = flow.period_ends + round(1e9 * self.off_s(flow.random))
            begin = partial(self._begin_period, flow, following)
            self.loop.at(self.loop.start_s + following / 1e9, begin)

    def report(self) -> None:
        for flow in self.flows:
            self.loop.say(
                "udp",
                flow.name,
                sent_bytes=flow.packets * self.options.packet_size,
                sent_packets=flow.packets,
            )


@dataclass
class Sink:
    name: str
    socket: socket.socket
    packets: int = 0
    buffer: bytearray = field(default_factory=lambda: bytearray(1))


def drops_of(sink: socket.socket) -> int:
    """The packets for which the socket's buffer had no room."""
    memory = struct.unpack(f"{MEMINFO_VALUES}I", sink.getsockopt(
        socket.SOL_SOCKET, SO_MEMINFO, 4 * MEMINFO_VALUES
    ))  # fmt: skip
    return int(memory[-1])


class Receiver(End):
    def __init__(self, options: Options, loop: Loop) -> None:
        super().__init__(options, loop)
        self.flows = []
        for name, port in options.flows:
            connection = self.open_socket(socket.SOCK_DGRAM)
            connection.setblocking(False)
            connection.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER)
            connection.bind((options.address, port))
            sink = Sink(name, connection)
            self.flows.append(sink)
            loop.watch(connection, selectors.EVENT_READ, partial(self._take, sink))

    def _take(self, sink: Sink) -> None:
        try:
            for _ in range(TAKES):
                sink.socket.recv_into(sink.buffer)  # the rest of the packet is thrown away
                sink.packets += 1
        except BlockingIOError:
            pass

    def report(self) -> None:
        for flow in self.flows:
            self.loop.say(
                "udp",
                flow.name,
                bytes=flow.packets * self.options.packet_size,
                packets=flow.packets,
                dropped=drops_of(flow.socket),
            )
