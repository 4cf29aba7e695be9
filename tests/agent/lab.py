"""A lab for tests: tiercast.v1.Lab on a Unix socket. The test decides what it sends."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from tiercast.v1 import lab_pb2, lab_pb2_grpc


class Lab(lab_pb2_grpc.LabServicer):
    def __init__(self, directory: Path):
        self.address = f"unix:{directory}/lab.sock"
        self.hellos: queue.Queue[lab_pb2.Hello] = queue.Queue()
        self.records: list[tuple[str, str, dict[str, float]]] = []  # agent, kind, fields
        # Agents that closed their half of the stream.
        self.detached: queue.Queue[str] = queue.Queue()
        self._outboxes: dict[str, queue.Queue[lab_pb2.ToAgent | None]] = {}
        self._server = grpc.server(ThreadPoolExecutor(8))
        lab_pb2_grpc.add_LabServicer_to_server(self, self._server)
        self._server.add_insecure_port(self.address)
        self._server.start()

    def say(self, agent: str, **message: Any) -> None:
        self._outboxes[agent].put(lab_pb2.ToAgent(**message))

    def welcome(self, agent: str, **welcome: Any) -> None:
        self.say(agent, welcome=lab_pb2.Welcome(epoch_ns=1, **welcome))

    def start(self, agent: str, **welcome: Any) -> None:
        """With what the Welcome says besides."""
        self.welcome(agent, **welcome)
        self.say(agent, start=lab_pb2.Start(time_ns=time.monotonic_ns()))

    def leave(self, agent: str) -> None:
        self.say(agent, leave=lab_pb2.Leave(time_ns=time.monotonic_ns()))

    def membership(self, agent: str, session: int, top_rank: int) -> None:
        self.say(agent, membership=lab_pb2.Membership(session=session, top_rank=top_rank))

    def stop(self, agent: str) -> None:
        self.say(agent, stop=lab_pb2.Stop())

    def last(self, kind: str, **fields: float) -> dict[str, float]:
        """The last record of this kind in which these fields have these values."""
        for _, k, values in reversed(self.records):
            if k == kind and all(values[name] == value for name, value in fields.items()):
                return values
        return {}

    def close(self) -> None:
        for outbox in self._outboxes.values():
            outbox.put(None)
        self._server.stop(grace=None).wait()

    def Attach(  # noqa: N802 (the rpc's name)
        self, requests: Iterator[lab_pb2.FromAgent], context: grpc.ServicerContext
    ) -> Iterator[lab_pb2.ToAgent]:
        hello = next(requests).hello
        outbox = self._outboxes[hello.name] = queue.Queue()
        self.hellos.put(hello)

        def listen() -> None:
            try:
                for message in requests:
                    for record in message.records.records:
                        fields = {f.name: f.value for f in record.fields}
                        self.records.append((hello.name, record.kind, fields))
                    end = message.records.sequence + len(message.records.records)
                    self.say(hello.name, acknowledge=lab_pb2.Acknowledge(sequence=end))
                self.detached.put(hello.name)
            except grpc.RpcError:
                pass
            outbox.put(None)

        with ThreadPoolExecutor(1) as listener:
            listener.submit(listen)
            while (message := outbox.get()) is not None:
                yield message
