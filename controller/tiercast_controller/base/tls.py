"""Mutual TLS at addresses on TCP: files, and what their roles may do (docs/security.md)."""

from __future__ import annotations

import enum
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import grpc

from tiercast_controller.base.errors import ConfigurationError

DOMAIN = "tiercast.internal"


class KeyRole(enum.StrEnum):
    """What the holder of a key may do: control everything; serve, and report to the controller;
    read."""

    CONTROLLER = "controller"
    AGENT = "agent"
    OBSERVER = "observer"

    @property
    def name_in_certificate(self) -> str:
        """A DNS name, so that gRPC checks a server's role (proto/access.cpp has the same)."""
        return f"{self}.{DOMAIN}"


CA = "ca.pem"


def certificate_file(role: KeyRole) -> str:
    return f"{role}.pem"


def key_file(role: KeyRole) -> str:
    return f"{role}.key"


def require_private(place: str, mode: int) -> None:
    """Raises ConfigurationError if others than its owner may use a file of that mode."""
    if mode & 0o077:
        raise ConfigurationError(
            f"{place}: others may use it (mode {mode & 0o777:03o}); valid: 600"
        )


@dataclass(frozen=True)
class Tls:
    """PEM files of one end. Without `ca` the machine's own authorities count; without `certificate`
    and `key` a client shows no certificate."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    server_name: str = ""  # in the server's certificate, where that is not the address's host

    @classmethod
    def of_folder(cls, folder: Path, role: KeyRole, server: KeyRole | None = None) -> Tls:
        """The files of a role in a folder of `tiercast keys`. A client accepts servers of role
        `server` alone. Raises ConfigurationError if one is missing, or others may use the key."""
        ca, certificate, key = folder / CA, folder / certificate_file(role), folder / key_file(role)
        for file in (ca, certificate):
            _content(file)
        _content(key, is_secret=True)
        return cls(ca, certificate, key, server.name_in_certificate if server else "")

    def credentials(self) -> grpc.ChannelCredentials:
        """A client's. Raises ConfigurationError if a file cannot be read, one of a pair is missing,
        or others may use the key."""
        if (self.certificate is None) != (self.key is None):
            given, missing = (
                ("key", "certificate") if self.certificate is None else ("certificate", "key")
            )
            raise ConfigurationError(f"tls: {given} without {missing}; valid: both, or neither")
        return grpc.ssl_channel_credentials(
            _content(self.ca), _content(self.key, is_secret=True), _content(self.certificate)
        )

    @property
    def channel_options(self) -> list[tuple[str, str]]:
        name = self.server_name
        return [("grpc.ssl_target_name_override", name)] if name else []

    def server_credentials(self) -> grpc.ServerCredentials:
        """A server's: clients must show a certificate. Raises ConfigurationError."""
        certificate, key = _content(self.certificate), _content(self.key, is_secret=True)
        if certificate is None or key is None:
            raise ConfigurationError("tls: a server needs a certificate and its key")
        return grpc.ssl_server_credentials(
            [(key, certificate)], _content(self.ca), require_client_auth=True
        )


def is_local(address: str) -> bool:
    """Whether an address is a Unix socket's, which the permissions of a file guard."""
    return address.startswith("unix:")


@dataclass(frozen=True)
class Access:
    """The options --tls and --insecure. Addresses on TCP need one of them."""

    tls: Path | None = None  # a folder of `tiercast keys`
    insecure: bool = False

    def at(
        self, place: str, address: str, role: KeyRole, server: KeyRole | None = None
    ) -> Tls | None:
        """What to serve an address with as `role`, or to connect to a server of role `server`.
        None: no TLS. Raises ConfigurationError, which begins with `place`."""
        if is_local(address):
            return None
        if self.tls is not None:
            return Tls.of_folder(self.tls, role, server)
        if self.insecure:
            return None
        raise ConfigurationError(
            f"{place} {address}: TCP without TLS; valid: --tls FOLDER (`tiercast keys FOLDER` "
            "makes one), --insecure where nobody else reaches the address, or unix:/path"
        )


def has_role(peer: Mapping[str, Iterable[bytes] | None], role: KeyRole) -> bool:
    """Whether the other end's certificate has a role, by gRPC's auth_context()."""
    names = peer.get("x509_subject_alternative_name") or ()
    return role.name_in_certificate.encode() in names


def _content(path: Path | None, *, is_secret: bool = False) -> bytes | None:
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            if is_secret:
                # Of the file that is read: the name may lead to another one by now.
                require_private(f"tls: {path}", os.fstat(file.fileno()).st_mode)
            return file.read()
    except OSError as error:
        raise ConfigurationError(f"tls: {path}: {error.strerror}") from None
