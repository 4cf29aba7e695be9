"""Binds a server to an address that nobody else serves, which gRPC does not see to: it lets two
servers share a TCP port, and takes the file of a Unix socket from a server that runs
(proto/control_server.cpp guards C++ programs)."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from pathlib import Path

import grpc

from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.base.tls import Tls, is_local

# Without this, two servers could share a TCP port and each get half of the calls.
SERVER_OPTIONS = [("grpc.so_reuseport", 0)]


class AddressInUseError(ConfigurationError):
    """Another server listens there."""

    def __init__(self, address: str):
        super().__init__(f"cannot listen on {address}: another process serves it")


class SocketFile:
    """The file of a Unix socket. gRPC binds it under a private name and removes that name when it
    ends, so it can remove no file of a later server; the file itself is renamed into place."""

    def __init__(self, path: Path):
        self._path = path
        # As short as a name can be: a socket's path has room for 107 bytes.
        self._private = path.with_name(f".{os.getpid():x}")
        self._own: tuple[int, int] | None = None

    @property
    def private_address(self) -> str:
        return f"unix:{self._private}"

    def try_out(self) -> None:
        """Raises OSError with the kernel's reason why it cannot be bound, which gRPC only logs."""
        self._private.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as probe:
            probe.bind(str(self._private))
        self._private.unlink()

    def publish(self) -> None:
        """To be called once it is bound."""
        self._own = _identity(self._private)
        self._private.rename(self._path)

    def remove(self) -> None:
        """Unless it is another server's by now."""
        with contextlib.suppress(FileNotFoundError):
            if _identity(self._path) == self._own:
                self._path.unlink()


def _identity(path: Path) -> tuple[int, int]:
    """A file system may give the number of a file that is gone to the next."""
    status = path.lstat()
    return status.st_ino, status.st_mtime_ns


def listen(server: grpc.aio.Server, address: str, tls: Tls | None) -> SocketFile | None:
    """Binds a server with SERVER_OPTIONS to "unix:/path" or "host:port". Returns the file, which is
    to be removed before the server ends. Raises ConfigurationError: AddressInUseError where another
    one serves the address."""
    file = None
    try:
        if is_local(address):
            path = Path(address.removeprefix("unix:"))
            _require_free_file(path, address)
            file = SocketFile(path)
            file.try_out()
        else:
            _require_free_port(address)
        bound = address if file is None else file.private_address
        if tls is None:
            server.add_insecure_port(bound)
        else:
            server.add_secure_port(bound, tls.server_credentials())
        if file is not None:
            file.publish()
    except (OSError, RuntimeError) as error:
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise AddressInUseError(address) from None
        why = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"cannot listen on {address}: {why}") from None
    return file


def _require_free_file(path: Path, address: str) -> None:
    """A file that a dead server has left is free."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ConfigurationError(f"cannot listen on {address}: the file exists and is not a socket")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return
        except BlockingIOError:
            pass  # somebody serves it, with others waiting
    raise AddressInUseError(address)


def _require_free_port(address: str) -> None:
    host, _, port = address.rpartition(":")
    family, kind, _, _, place = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[
        0
    ]
    if family == socket.AF_INET6 and not socket.has_dualstack_ipv6():
        return  # gRPC serves "[::]" over IPv4 where there is no IPv6
    with socket.socket(family, kind) as probe:
        # As gRPC, for which a connection that has just ended is in nobody's way.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(place)
        probe.listen(1)
