"""The competing traffic of a run: starts the programs at both ends of each entry and takes their
rows.

Each program holds one connection to the lab's Unix socket; flows/end.py describes what is sent on
it.
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
from tiercast_lab.run.mininet.network import Network
from tiercast_lab.run.mininet.processes import Children

READY_S = 15.0
END_S = 5.0
KINDS = ("tcp", "tcp.sender", "udp", "pause")  # of rows
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
        entries = {
            index: entry
            for index, entry in enumerate(loaded.experiment.traffic)
            if entry.kind != "command"
        }
        if not entries:
            return
        self._names = set(loaded.flows)
        tune(loaded, network)
        self._server = await asyncio.start_unix_server(self._serve, lab)
        for index, entry in entries.items():
            names = [name for name, flow in loaded.flows.items() if flow.entry == index]
            for role, node in (("receive", entry.to), ("send", entry.from_)):
                name = f"{names[0]}-{role}"
                self.logs.append(name)
                self._names.add(name)
                children.start(
                    network.nodes[f"t{node}"],
                    f"flows {role} {names[0]}",
                    [*command(role, entry, names, loaded, lab, seed), f"--name={name}"],
                    name,
                )
        try:
            async with asyncio.timeout(READY_S), self._changed:
                await self._changed.wait_for(lambda: self._ready == 2 * len(entries))
        except TimeoutError:
            raise RunFailed(
                f"{self._ready} of {2 * len(entries)} programs of `traffic` were ready within "
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
                row = json.loads(line)
                if row == "ready":
                    await self._count(1)
                    continue
                time_ns, kind, agent = row.pop("time_ns"), row.pop("kind"), row.pop("agent")
                if kind not in KINDS or agent not in self._names:
                    raise ValueError(f"kind {kind!r} of {agent!r}; valid: {', '.join(KINDS)}")
                self._sink(time_ns, kind, agent, row)
        except (ValueError, KeyError, AttributeError) as error:
            self._broken = error
        finally:
            await self._count(-1)

    async def _count(self, change: int) -> None:
        async with self._changed:
            self._ready += change
            self._changed.notify_all()


def command(
    role: str, entry: Traffic, names: list[str], loaded: LoadedExperiment, lab: Path, seed: int
) -> list[str]:
    """The command line of one end of an entry. Its flows differ by port."""
    of_run = loaded.flows
    duration = loaded.experiment.duration
    node = entry.from_ if role == "send" else entry.to
    result = [
        *(sys.executable, "-I", "-S", str(PROGRAM), entry.kind, role),
        f"--lab={lab}",
        f"--address={loaded.topology.hosts[f't{node}'].address}",
        f"--packet-size={entry.packet_size}",
        f"--stop={(duration if entry.stop is None else entry.stop) / 1e9}",
    ]
    for name in names:
        result += ["--flow", name, str(of_run[name].port)]
    if role == "receive":
        window = entry.tcp.window if entry.kind == "tcp" else None
        return result if window is None else [*result, f"--window={window}"]
    result += [
        f"--peer={loaded.topology.hosts[f't{entry.to}'].address}",
        f"--start={entry.start / 1e9}",
        f"--seed={seed}",
    ]
    if entry.kind == "tcp":
        result.append(f"--congestion-control={entry.congestion_control}")
    else:
        result += [f"--rate={entry.rate}", f"--ecn={_CODEPOINTS[entry.ecn]}"]
    for key, period in (("on", entry.on), ("off", entry.off)):
        if period is not None:
            result.append(f"--{key}={length(period).text}")
    return result


def length(period: Period) -> Length:
    mean = period.mean if period.in_packets else period.mean / 1e9
    return Length(period.distribution, mean, period.in_packets, period.shape or 0.0)
