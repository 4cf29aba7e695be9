"""IGMP of hosts whose switch's program hands none to the controller: it is heard at the hosts' own
interfaces, as it leaves them, and passed on as if the switch had."""

from __future__ import annotations

import asyncio
import ctypes
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor

from tiercast_controller.controller import Controller

from tiercast_lab.base.errors import RunFailed, listed
from tiercast_lab.base.network_namespace import enter
from tiercast_lab.run.mininet.network import Network

_ETH_P_ALL = 3  # the only packet sockets that see what an interface sends
_SO_ATTACH_FILTER = 26
_FRAME = 2048  # bytes
# Classic BPF (linux/filter.h) as (code, jt, jf, k): frames that the host sends, EtherType IPv4,
# protocol 2.
_SENT_IGMP = (
    (0x30, 0, 0, 0xFFFFF004), (0x15, 0, 5, socket.PACKET_OUTGOING),
    (0x28, 0, 0, 12), (0x15, 0, 3, 0x0800),
    (0x30, 0, 0, 23), (0x15, 0, 1, socket.IPPROTO_IGMP),
    (0x06, 0, 0, _FRAME), (0x06, 0, 0, 0),
)  # fmt: skip


class IgmpListeners:
    """Needs a running event loop from `start` to `close`."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._sockets: list[socket.socket] = []

    def start(self, controller: Controller) -> list[str]:
        """Returns what a user should know. Raises RunFailed."""
        # The others are DPDK ports, whose senders join nothing.
        hosts = [one for one in controller.hosts_not_heard() if one in self._network.nodes]
        loop = asyncio.get_running_loop()
        # A thread enters the namespaces, and ends in the last one.
        with ThreadPoolExecutor(max_workers=1) as thread:
            for host in hosts:
                one = thread.submit(self._open, host).result()
                self._sockets.append(one)
                loop.add_reader(one, self._hear, controller, host, one)
        if not hosts:
            return []
        return [
            f"IGMP of {listed(hosts)} is heard at their interfaces: the P4 program of their "
            "switches hands none to the controller"
        ]

    def close(self) -> None:
        for one in self._sockets:
            asyncio.get_running_loop().remove_reader(one)
            one.close()
        self._sockets.clear()

    def _open(self, host: str) -> socket.socket:
        with open(self._network.namespace_file(host)) as namespace:
            try:
                enter(namespace.fileno(), host)
            except OSError as error:
                raise RunFailed(f"{host}: its namespace: {error.strerror}") from None
        one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
        code = b"".join(struct.pack("HBBI", *instruction) for instruction in _SENT_IGMP)
        held = ctypes.create_string_buffer(code)
        program = struct.pack("HP", len(_SENT_IGMP), ctypes.addressof(held))
        one.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
        one.bind((self._network.interface(host), _ETH_P_ALL))
        return one

    @staticmethod
    def _hear(controller: Controller, host: str, one: socket.socket) -> None:
        while True:
            try:
                frame = one.recv(_FRAME)
            except BlockingIOError:
                return
            controller.take_igmp(host, time.monotonic_ns(), frame)
