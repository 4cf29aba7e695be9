"""The keys by which the agents of a run seal their messages to each other (docs/security.md)."""

from __future__ import annotations

import contextlib
import hmac
import os
import re
import secrets
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tiercast.v1 import session_pb2

from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.base.tls import require_private

NONCE_BYTES, KEY_BYTES = 16, 32  # of session_pb2.Keys
_SECRET = re.compile(rb"([0-9a-f]{64})\n?")


@dataclass(frozen=True, repr=False)
class SessionKeys:
    """Of one session in one run."""

    nonce: bytes  # of the run
    group: bytes
    feedback: bytes

    def message(self, receiver: int | None) -> session_pb2.Keys:
        """For the sender, or for the receiver with this number."""
        feedback = self.feedback
        if receiver is not None:
            feedback = hmac.digest(feedback, receiver.to_bytes(4, "big"), "sha256")
        return session_pb2.Keys(nonce=self.nonce, group=self.group, feedback=feedback)


class RunKeys:
    """All keys of a run: each is made of the run's secret by HKDF-Expand (RFC 5869, 2.3)."""

    def __init__(self, secret: bytes | None = None):
        """`secret` has KEY_BYTES uniformly random ones; None draws it."""
        self._secret = secrets.token_bytes(KEY_BYTES) if secret is None else secret

    @classmethod
    def kept_in(cls, file: Path) -> RunKeys:
        """Those of the secret in a file, which is made if it is not there. So controllers that
        name the same file hand out the same keys. Raises ConfigurationError if it cannot be read
        or made, is no secret, or others may use it."""
        try:
            with contextlib.suppress(FileExistsError):
                _make(file)
            # Without O_NONBLOCK a named pipe would be waited for.
            with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
                mode = os.fstat(opened.fileno()).st_mode
                text = opened.read(KEY_BYTES * 4) if stat.S_ISREG(mode) else b""
        except OSError as error:
            raise ConfigurationError(f"keys: {file}: {error.strerror}") from None
        if stat.S_ISREG(mode):
            require_private(f"keys: {file}", mode)
        found = _SECRET.fullmatch(text)
        if found is None:
            raise ConfigurationError(
                f"keys: {file}: not a secret; valid: {2 * KEY_BYTES} hex digits, or no such file"
            )
        return cls(bytes.fromhex(found[1].decode()))

    def of_session(self, number: int) -> SessionKeys:
        return SessionKeys(
            self._expand("nonce")[:NONCE_BYTES],
            self._expand(f"group {number}"),
            self._expand(f"feedback {number}"),
        )

    def _expand(self, use: str) -> bytes:
        return hmac.digest(self._secret, use.encode() + b"\x01", "sha256")


def _make(file: Path) -> None:
    """Raises FileExistsError. Nobody ever sees a file without its secret."""
    if file.exists():
        return
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)  # mode 600
    try:
        with os.fdopen(handle, "w") as opened:
            opened.write(secrets.token_hex(KEY_BYTES) + "\n")
        os.link(name, file)
    finally:
        os.unlink(name)
