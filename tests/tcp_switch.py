"""tiercast-switch on a port of the loopback device, with two switches that are linked to each other
and to nothing else: it needs neither interfaces nor root."""

from __future__ import annotations

import queue
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
from p4.v1 import p4runtime_pb2 as p4
from p4.v1 import p4runtime_pb2_grpc
from tiercast_controller.base.tls import Tls

from .checkout import BUILD
from .free_port import free_port
from .patience import PATIENCE_S, wait_until

BINARY = BUILD / "dataplane/switch/tiercast-switch"


def command(address: str, folder: Path, *options: str) -> list[str]:
    """The first switch, device 1, listens at `address`; `options` are for both."""
    return [
        str(BINARY), *options, "--log-level", "warning",
        "--switch", "--name", "a", "--device-id", "1", "--port", "1=link:b.1", "--grpc", address,
        "--switch", "--name", "b", "--device-id", "2", "--port", "1=link:a.1",
        "--grpc", f"unix:{folder}/b.sock",
    ]  # fmt: skip


def listens(address: str) -> bool:
    """Whether somebody does at "unix:/path" or "host:port"."""
    host, _, port = address.rpartition(":")
    is_unix = host == "unix"
    with socket.socket(socket.AF_UNIX if is_unix else socket.AF_INET) as probe:
        try:
            probe.connect(port if is_unix else (host, int(port)))
        except OSError:
            return False
    return True


@contextmanager
def running_switch(folder: Path, *options: str) -> Iterator[str]:
    """The address that it listens at."""
    address = f"127.0.0.1:{free_port()}"
    process = subprocess.Popen(command(address, folder, *options))
    try:
        wait_until(lambda: listens(address) or process.poll() is not None, "it listens")
        assert process.poll() is None, "the switch ended"
        yield address
    finally:
        process.terminate()
        process.wait()


def channel(address: str, tls: Tls | None) -> grpc.Channel:
    if tls is None:
        return grpc.insecure_channel(address)
    return grpc.secure_channel(address, tls.credentials(), tls.channel_options)


def arbitration(stub: p4runtime_pb2_grpc.P4RuntimeStub, election_id: p4.Uint128) -> grpc.StatusCode:
    """The status of a stream that asks to be primary; OK if it becomes that. (grpc.aio would say
    INTERNAL where a call has been refused before it could send.)"""
    requests: queue.SimpleQueue[p4.StreamMessageRequest | None] = queue.SimpleQueue()
    request = p4.StreamMessageRequest()
    request.arbitration.device_id = 1
    request.arbitration.election_id.CopyFrom(election_id)
    requests.put(request)
    stream = stub.StreamChannel(iter(requests.get, None), timeout=PATIENCE_S)
    try:
        assert next(stream).arbitration.status.code == 0
    except grpc.RpcError as error:
        return error.code()
    finally:
        requests.put(None)
    return grpc.StatusCode.OK
