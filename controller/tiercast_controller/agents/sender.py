"""Controls the sessions of a running tiercast-send over tiercast.v1.Sender."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import grpc
from tiercast.v1 import sender_pb2, sender_pb2_grpc, session_pb2

from tiercast_controller.base.errors import AgentError, RefusedError
from tiercast_controller.base.tls import Tls

_MAX_MESSAGE = 64 << 20  # bytes; a list of 100,000 layers takes some megabytes
_TIMEOUT_S = 30.0
_NOBODY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)

_Request = TypeVar("_Request")
_Response = TypeVar("_Response")


class SenderControl:
    """Every call raises RefusedError with the sender's reason, or AgentError if nobody answers."""

    def __init__(self, address: str, tls: Tls | None = None):
        """`address` is "unix:/path" or "host:port"; `tls` None means no TLS. Raises
        ConfigurationError if a file of `tls` cannot be read."""
        self.address = address
        options: list[tuple[str, int | str]] = [
            ("grpc.max_receive_message_length", _MAX_MESSAGE),
            ("grpc.enable_http_proxy", 0),
        ]
        self._channel = (
            grpc.insecure_channel(address, options)
            if tls is None
            else grpc.secure_channel(address, tls.credentials(), [*options, *tls.channel_options])
        )
        self._stub = sender_pb2_grpc.SenderStub(self._channel)

    def __enter__(self) -> SenderControl:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def start(self, sessions: Sequence[session_pb2.SessionSpec]) -> None:
        """Starts all of these sessions, or none."""
        self._call(
            self._stub.StartSessions, sender_pb2.StartSessionsRequest(sessions=list(sessions))
        )

    def change(
        self, session: int, top_rank: int | None = None, parameters: Mapping[str, str] | None = None
    ) -> None:
        """Changes a session. `top_rank` is the highest rank that anyone subscribes to, or -1. If
        `parameters` are given, the session's congestion control restarts."""
        request = sender_pb2.ChangeSessionRequest(session=session, parameters=parameters or {})
        if top_rank is not None:
            request.top_rank = top_rank
        self._call(self._stub.ChangeSession, request)

    def stop(self, session: int) -> None:
        self._call(self._stub.StopSession, sender_pb2.StopSessionRequest(session=session))

    def list_sessions(self) -> sender_pb2.ListSessionsResponse:
        """Every running session with its layers' counts, and when they were taken."""
        return self._call(self._stub.ListSessions, sender_pb2.ListSessionsRequest())

    def _call(
        self, method: grpc.UnaryUnaryMultiCallable[_Request, _Response], request: _Request
    ) -> _Response:
        try:
            return method(request, timeout=_TIMEOUT_S)
        except grpc.RpcError as error:
            if error.code() in _NOBODY:
                raise AgentError(
                    f"no sender answers at {self.address}: {error.details()}"
                ) from None
            raise RefusedError(f"the sender at {self.address}: {error.details()}") from None
