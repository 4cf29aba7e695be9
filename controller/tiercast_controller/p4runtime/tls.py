"""TLS towards a P4Runtime server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import grpc

from tiercast_controller.base.errors import ConfigurationError


@dataclass(frozen=True)
class Tls:
    """PEM files. Without `ca` the machine's own authorities count; without `certificate` and `key`
    the client shows no certificate."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    server_name: str = ""  # in the server's certificate, where that is not the address's host

    def credentials(self) -> grpc.ChannelCredentials:
        """Raises ConfigurationError if a file cannot be read, or one of a pair is missing."""
        if (self.certificate is None) != (self.key is None):
            given, missing = (
                ("key", "certificate") if self.certificate is None else ("certificate", "key")
            )
            raise ConfigurationError(f"tls: {given} without {missing}; valid: both, or neither")
        return grpc.ssl_channel_credentials(
            _content(self.ca), _content(self.key), _content(self.certificate)
        )

    @property
    def channel_options(self) -> list[tuple[str, str]]:
        name = self.server_name
        return [("grpc.ssl_target_name_override", name)] if name else []


def _content(path: Path | None) -> bytes | None:
    try:
        return None if path is None else path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"tls: {path}: {error.strerror}") from None
