"""Endless TCP flows from one host to another: the program that runs at either end of a `traffic`
entry.

It is run by its path and uses only the standard library, so that it starts fast. It sends `ready`
on the lab's socket once it can begin, waits there for the start of the run, and then writes a JSON
line for each flow five times a second. It ends when the lab closes the socket, or at SIGTERM.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import selectors
import signal
import socket
import struct
import sys
import time
from dataclasses import dataclass

REPORT_S = 0.2
PAUSE_REPORTS = 5  # every fifth report includes a row of kind `pause`
BEAT_S = 0.1  # the loop runs at least this often (pauses.py)
# IP and TCP headers of a segment: 20 + 20, and 12 for time stamps, which TCP_MAXSEG includes.
FIXED_HEADERS = 40
HEADERS = 52
CHUNK = bytes(64 * 1024)
# Unsent bytes that may wait in the kernel: enough to keep it busy, few enough to be gone soon after
# a stop.
NOTSENT_LOWAT = 32 * 1024


@dataclass(frozen=True)
class TcpInfo:
    """The fields in use of linux/tcp.h's struct tcp_info."""

    rtt_us: int
    ssthresh: int  # packets; 2^31 - 1 before the first loss
    cwnd: int  # packets
    retransmitted: int  # packets
    sent_packets: int  # with data, including retransmissions

    @classmethod
    def of(cls, connection: socket.socket) -> TcpInfo:
        raw = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 160)
        rtt, ssthresh, cwnd = (struct.unpack_from("=I", raw, at)[0] for at in (68, 76, 80))
        return cls(
            rtt,
            ssthresh,
            cwnd,
            struct.unpack_from("=I", raw, 100)[0],
            struct.unpack_from("=I", raw, 156)[0],
        )


@dataclass
class Flow:
    name: str
    port: int
    socket: socket.socket | None = None  # None: not begun yet, or ended
    payload: int = 0  # bytes that the receiver read


class End:
    """What both ends have in common: the lab's socket, the clock, the reports."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.longest_pause_s = 0.0
        self.flows = [Flow(name, int(port)) for name, port in options.flow]
        self.selector = selectors.DefaultSelector()
        self.lab = socket.socket(socket.AF_UNIX)
        self.lab.connect(options.lab)

    def wait_for_start(self) -> int:
        """Waits for the start of the run and returns it, in ns of CLOCK_MONOTONIC."""
        self.lab.sendall(b'"ready"\n')
        line = self.lab.makefile("r").readline()
        if not line:
            sys.exit(0)  # the run was broken off before it began
        return int(json.loads(line))

    def run(self) -> None:
        start_s = self.wait_for_start() / 1e9
        self.selector.register(self.lab, selectors.EVENT_READ, self.lab)
        # (s of CLOCK_MONOTONIC, what is due), soonest first.
        due = [(start_s + self.options.start, self.begin), (start_s + self.options.stop, self.end)]
        next_report, reports = start_s, 0
        now = start_s
        while True:
            last_turn, now = now, time.monotonic()
            self.longest_pause_s = max(self.longest_pause_s, now - last_turn)
            while due and due[0][0] <= now:
                due.pop(0)[1]()
            if next_report <= now:
                self.report()
                reports += 1
                if reports % PAUSE_REPORTS == 0:
                    self.say_pause()
                next_report += REPORT_S * (1 + (now - next_report) // REPORT_S)
            wake = min([next_report, now + BEAT_S, *(at for at, _ in due)])
            for key, _ in self.selector.select(max(0.0, wake - time.monotonic())):
                if key.fileobj is self.lab:
                    self.report()
                    self.longest_pause_s = max(self.longest_pause_s, time.monotonic() - now)
                    self.say_pause()
                    sys.exit(0)
                self.ready(key.data)

    def say_pause(self) -> None:
        self.say("pause", self.options.name, longest_us=1e6 * self.longest_pause_s)
        self.longest_pause_s = 0.0

    def say(self, kind: str, agent: str, **fields: float) -> None:
        row = {"time_ns": time.monotonic_ns(), "kind": kind, "agent": agent, **fields}
        # A lab that has ended closes the socket. The next use of the socket ends this program.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.lab.sendall(json.dumps(row).encode() + b"\n")

    def drop(self, flow: Flow) -> None:
        if flow.socket is not None:
            self.selector.unregister(flow.socket)
            flow.socket.close()
            flow.socket = None

    def begin(self) -> None: ...

    def end(self) -> None: ...

    def report(self) -> None: ...

    def ready(self, what: object) -> None: ...


class Sender(End):
    def begin(self) -> None:
        for flow in self.flows:
            flow.socket = connection = socket.socket(socket.AF_INET)
            connection.setblocking(False)
            tcp = socket.IPPROTO_TCP
            connection.setsockopt(
                tcp, socket.TCP_CONGESTION, self.options.congestion_control.encode()
            )
            mss = self.options.packet_size - FIXED_HEADERS
            connection.setsockopt(tcp, socket.TCP_MAXSEG, mss)
            connection.setsockopt(tcp, socket.TCP_NOTSENT_LOWAT, NOTSENT_LOWAT)
            # The close at `stop` ends the flow at once: what is still waiting is not sent any more.
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            connection.connect_ex((self.options.peer, flow.port))
            self.selector.register(connection, selectors.EVENT_WRITE, flow)

    def ready(self, what: object) -> None:
        assert isinstance(what, Flow) and what.socket is not None
        try:
            if error := what.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(error, os.strerror(error))
            while True:
                what.socket.send(CHUNK)
        except BlockingIOError:
            pass  # the kernel has enough for now
        except OSError as error:
            place = f"{self.options.peer}:{what.port}"
            sys.exit(f"tcp_flows: {what.name} to {place} broke: {error.strerror}")

    def report(self) -> None:
        for flow in self.flows:
            if flow.socket is not None:
                info = TcpInfo.of(flow.socket)
                self.say(
                    "tcp.sender",
                    flow.name,
                    cwnd=info.cwnd,
                    ssthresh=info.ssthresh,
                    rtt_us=info.rtt_us,
                    sent_packets=info.sent_packets,
                    retransmitted=info.retransmitted,
                )

    def end(self) -> None:
        self.report()
        for flow in self.flows:
            self.drop(flow)


class Receiver(End):
    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        self.buffer = bytearray(256 * 1024)
        for flow in self.flows:
            listener = socket.create_server(("", flow.port))
            self.selector.register(listener, selectors.EVENT_READ, (listener, flow))

    def ready(self, what: object) -> None:
        if isinstance(what, tuple):
            listener, flow = what
            flow.socket, _ = listener.accept()
            flow.socket.setblocking(False)
            self.selector.register(flow.socket, selectors.EVENT_READ, flow)
            return
        assert isinstance(what, Flow) and what.socket is not None
        try:
            size = what.socket.recv_into(self.buffer)
        except BlockingIOError:
            return
        except ConnectionResetError:
            size = 0  # the sender has reached its `stop`
        what.payload += size
        if size == 0:
            self._say(what)
            self.drop(what)

    def report(self) -> None:
        for flow in self.flows:
            if flow.socket is not None:
                self._say(flow)

    def _say(self, flow: Flow) -> None:
        # Counted as for links and sessions: IP bytes of the full packets in which the payload
        # arrived.
        size = self.options.packet_size
        self.say(
            "tcp",
            flow.name,
            bytes=flow.payload * size / (size - HEADERS),
            goodput_bytes=flow.payload,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=("send", "receive"))
    parser.add_argument("--name", required=True, help="of this program in its rows")
    parser.add_argument("--lab", required=True, help="the lab's Unix socket")
    parser.add_argument("--flow", nargs=2, metavar=("NAME", "PORT"), action="append", required=True)
    parser.add_argument("--peer", help="address of the receiving host")
    parser.add_argument("--packet-size", type=int, default=1000, help="IP bytes of a full packet")
    parser.add_argument("--congestion-control", default="reno")
    parser.add_argument("--start", type=float, default=0.0, help="s after the run's start")
    parser.add_argument("--stop", type=float, required=True, help="s after the run's start")
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    end = (Sender if options.role == "send" else Receiver)(options)
    try:
        end.run()
    except OSError as error:
        sys.exit(f"tcp_flows: {error}")


if __name__ == "__main__":
    main()
