"""One end of the flows of a `traffic` entry."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import asdict, dataclass
from random import Random
from typing import Any
from zlib import crc32

from tiercast_lab.base.lengths import Length
from tiercast_lab.base.network_namespace import enter
from tiercast_lab.run.mininet.flows.loop import Loop

REPORT_S = 0.2


@dataclass(frozen=True, kw_only=True)
class Options:
    kind: str  # "tcp", "udp"
    role: str  # "send", "receive"
    flows: list[tuple[str, int]]  # name and port
    address: str  # of this host
    namespace: str = ""  # the file of this host's network namespace; empty: the program's own
    packet_size: int = 1000  # IP bytes of a full packet
    start: float = 0.0  # s after the run's start
    stop: float
    window: int = 0  # the largest of TCP, in packets; 0: none. The rest is of senders.
    peer: str = ""  # address of the receiving host
    congestion_control: str = "reno"
    rate: int = 0  # of each UDP flow, IP bits/s
    ecn: int = 0  # codepoint of UDP's packets (RFC 3168)
    on: Length | None = None
    off: Length | None = None
    seed: int = 1

    def write(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    @classmethod
    def read(cls, fields: dict[str, Any]) -> Options:
        on, off = (Length(**given) if (given := fields[key]) else None for key in ("on", "off"))
        flows = [(name, port) for name, port in fields["flows"]]
        return cls(**{**fields, "flows": flows, "on": on, "off": off})


def phase_s(name: str) -> float:
    """When the end of a flow of this name reports, after each multiple of REPORT_S. The ends of a
    run report one after another: all at once they would keep the CPUs from switches and senders
    for milliseconds."""
    return REPORT_S * crc32(name.encode()) / 2**32


class End:
    def __init__(self, options: Options, loop: Loop) -> None:
        self.options = options
        self.loop = loop
        self._namespace: int | None = None
        if options.namespace:
            self._namespace = os.open(options.namespace, os.O_RDONLY)
        self._first_report_s = 0.0
        loop.add(self._start, self.report)

    @property
    def stop_s(self) -> float:
        return self.loop.start_s + self.options.stop

    def open_socket(self, kind: socket.SocketKind) -> socket.socket:
        """An IPv4 socket in the host's namespace, whichever this program was in before."""
        if self._namespace is not None:
            enter(self._namespace, self.options.namespace)
        return socket.socket(socket.AF_INET, kind)

    def random(self, flow: str) -> Random:
        """The flow's own random numbers: another flow beside it does not change its periods."""
        return Random(f"{self.options.seed} {flow}")

    def off_s(self, random: Random) -> float:
        """The time until a flow's next period, which it draws."""
        assert self.options.off is not None  # an entry with `on` has it
        return self.options.off.draw(random)

    def begin(self) -> None:
        """Called at the flows' start."""

    def end(self) -> None:
        """Called at the flows' stop."""

    def report(self) -> None:
        """Says a row for each flow."""

    def _start(self) -> None:
        self.loop.at(self.loop.start_s + self.options.start, self.begin)
        self.loop.at(self.stop_s, self.end)
        name = f"{self.options.flows[0][0]}-{self.options.role}"
        self._first_report_s = self.loop.start_s + phase_s(name)
        self.loop.at(self._first_report_s, self._report)

    def _report(self) -> None:
        self.report()
        done = (time.monotonic() - self._first_report_s) // REPORT_S
        self.loop.at(self._first_report_s + REPORT_S * (1 + done), self._report)
