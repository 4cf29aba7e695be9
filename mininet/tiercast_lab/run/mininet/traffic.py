"""The competing traffic of a run: starts the programs of its flows and takes their rows.

One program has all sending ends, and one all receiving ends. Each holds one connection to the lab's
Unix socket; flows/loop.py describes what is sent on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tiercast_lab.base import machine
from tiercast_lab.base.errors import InputError, RunFailed
from tiercast_lab.base.lengths import Length
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.schema import Period, Traffic
from tiercast_lab.run.mininet import flows
from tiercast_lab.run.mininet.flows.end import Options
from tiercast_lab.run.mininet.network import Network
from tiercast_lab.run.mininet.processes import Children

READY_S = 15.0
END_S = 5.0
KINDS = ("tcp", "tcp.sender", "udp", "pause")  # of rows
ROLES = ("receive", "send")  # of the programs of a run
PROGRAM = Path(flows.__file__).with_name("__main__.py")

_CODEPOINTS: dict[bool | str, int] = {False: 0, True: 2, "l4s": 1}  # of `ecn` (RFC 3168, 5)

# Called with time_ns of CLOCK_MONOTONIC, kind, agent and fields.
RowSink = Callable[[int, str, str, dict[str, Any]], None]


def require_congestion_controls(loaded: LoadedExperiment) -> None:
    available = machine.congestion_controls()
    for index, entry in enumerate(loaded.experiment.traffic):
        if entry.kind == "tcp" and entry.congestion_control not in available:
            raise loaded.traffic_error(
                index,
                "congestion_control",
                f"this kernel has no {entry.congestion_control}; it has: "
                f"{', '.join(available) or 'none'}; run: modprobe tcp_{entry.congestion_control}",
            )


def require_no_l4s(loaded: LoadedExperiment) -> None:
    """Linux's DCTCP sends ECT(0), and its TCP Prague is no part of it."""
    for index, entry in enumerate(loaded.experiment.traffic):
        if entry.kind == "tcp" and entry.ecn == "l4s":
            raise loaded.traffic_error(
                index,
                "ecn",
                "l4s: this kernel's TCP sends ECT(0) alone; valid: true, false, kind: udp, or "
                "--runtime ns3",
            )


def require_one_stack(loaded: LoadedExperiment) -> None:
    """A kernel has one way with all connections between two hosts, and one for SACK with all that
    a host opens. Raises InputError where two entries want different ones."""
    of_pair: dict[tuple[int, int], tuple[int, Traffic]] = {}
    of_sender: dict[int, tuple[int, Traffic]] = {}
    for index, entry in enumerate(loaded.experiment.traffic):
        if entry.kind != "tcp":
            continue
        first, other = of_pair.setdefault(entry.ends, (index, entry))
        for key, mine in _stack(entry).items():
            if mine != (theirs := _stack(other)[key]):
                raise _differs(loaded, index, key, mine, first, theirs, "with the same ends")
        first, other = of_sender.setdefault(entry.ends[0], (index, entry))
        if entry.tcp.sack != other.tcp.sack:
            sacks = (entry.tcp.sack, other.tcp.sack)
            raise _differs(loaded, index, "sack", sacks[0], first, sacks[1], "from there")


def _stack(entry: Traffic) -> dict[str, object]:
    tcp = entry.tcp
    return {
        "stack": entry.stack,
        "ecn": entry.ecn,
        "delayed_acks": tcp.delayed_acks,
    }


def _differs(
    loaded: LoadedExperiment,
    index: int,
    key: str,
    value: object,
    first: int,
    other: object,
    where: str,
) -> InputError:
    theirs = ".".join(loaded.traffic_paths[first])
    return loaded.traffic_error(
        index,
        key,
        f"it is {value}, but {theirs}'s is {other}; valid in Mininet: the same for all flows "
        f"{where}, or --runtime ns3",
    )


def tune(loaded: LoadedExperiment, network: Network) -> None:
    """Makes the kernels work as the entries of `traffic` want it."""
    for entry in loaded.experiment.traffic:
        if entry.kind != "tcp":
            continue
        source, destination = (f"t{node}" for node in entry.ends)
        wanted = ["features ecn"] if entry.ecn else []
        wanted.append(f"initcwnd {entry.tcp.sender.initial_window}")
        network.tune_tcp(source, destination, wanted, entry.tcp.sack)
        acks = [] if entry.tcp.delayed_acks else ["quickack 1"]
        network.tune_tcp(destination, source, acks, sack=True)


class TrafficPrograms:
    def __init__(self, sink: RowSink) -> None:
        self.logs: list[str] = []  # the names of the programs' logs, without ".log"
        self._sink = sink
        self._ready = 0
        self._changed = asyncio.Condition()
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None
        self._broken: Exception | None = None
        self._names: set[str] = set()  # the flows and programs that rows may name

    async def start(
        self, loaded: LoadedExperiment, network: Network, children: Children, lab: Path, seed: int
    ) -> None:
        """Returns when every program is up and every receiver listens. Raises RunFailed."""
        entries = [
            index
            for index, entry in enumerate(loaded.experiment.traffic)
            if entry.kind != "command"
        ]
        if not entries:
            return
        self._names = set(loaded.flows)
        tune(loaded, network)
        self._server = await asyncio.start_unix_server(self._serve, lab)
        for role in ROLES:
            name = f"flows-{role}"
            ends = [
                end(role, index, loaded, network.namespace_file, seed).write() for index in entries
            ]
            path = lab.with_name(f"{name}.json")
            path.write_text(json.dumps(ends))
            command = [sys.executable, "-I", "-S", str(PROGRAM), name, str(lab), str(path)]
            children.start(None, f"flows {role}", command, name)
            self.logs.append(name)
            self._names.add(name)
        try:
            async with asyncio.timeout(READY_S), self._changed:
                await self._changed.wait_for(lambda: self._ready == len(ROLES))
        except TimeoutError:
            raise RunFailed(
                f"{self._ready} of {len(ROLES)} programs of `traffic` were ready within "
                f"{READY_S:g} s"
            ) from None

    def begin(self, start_ns: int) -> None:
        """Tells the programs when the run starts, in ns of CLOCK_MONOTONIC."""
        for writer in self._writers:
            writer.write(f"{start_ns}\n".encode())

    async def stop(self) -> None:
        """Lets the programs write their last rows and end, and returns when all rows are in. Raises
        RunFailed."""
        for writer in self._writers:
            with contextlib.suppress(OSError):
                writer.write_eof()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_S), self._changed:
                await self._changed.wait_for(lambda: self._ready == 0)
        await self.close()
        if self._broken is not None:
            raise RunFailed(f"a row of `traffic` cannot be read: {self._broken}")

    async def close(self) -> None:
        for writer in self._writers:
            writer.close()
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        try:
            while line := await reader.readline():
                said = json.loads(line)
                if said == "ready":
                    await self._count(1)
                    continue
                for row in said:
                    time_ns, kind, agent = row.pop("time_ns"), row.pop("kind"), row.pop("agent")
                    if kind not in KINDS or agent not in self._names:
                        raise ValueError(f"kind {kind!r} of {agent!r}; valid: {', '.join(KINDS)}")
                    self._sink(time_ns, kind, agent, row)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self._broken = error
        finally:
            await self._count(-1)

    async def _count(self, change: int) -> None:
        async with self._changed:
            self._ready += change
            self._changed.notify_all()


def end(
    role: str, index: int, loaded: LoadedExperiment, namespace: Callable[[str], str], seed: int
) -> Options:
    """One end of an entry of `traffic`, whose flows differ by port. `namespace` has a host's."""
    entry = loaded.experiment.traffic[index]
    stop = loaded.experiment.duration if entry.stop is None else entry.stop
    here, there = (f"t{node}" for node in (entry.ends if role == "send" else entry.ends[::-1]))
    hosts = loaded.topology.hosts
    tcp = entry.kind == "tcp"
    return Options(
        kind=entry.kind,
        role=role,
        flows=[(name, one.port) for name, one in loaded.flows.items() if one.entry == index],
        namespace=namespace(here),
        address=hosts[here].address,
        peer=hosts[there].address,
        packet_size=entry.packet_size,
        start=entry.start / 1e9,
        stop=stop / 1e9,
        window=(entry.tcp.window or 0) if tcp else 0,
        congestion_control=entry.congestion_control,
        rate=entry.rate or 0,
        ecn=0 if tcp else _CODEPOINTS[entry.ecn],
        on=length(entry.on),
        off=length(entry.off),
        seed=seed,
    )


def length(period: Period | None) -> Length | None:
    if period is None:
        return None
    mean = period.mean if period.in_packets else period.mean / 1e9
    return Length(period.distribution, mean, period.in_packets, period.shape or 0.0)
