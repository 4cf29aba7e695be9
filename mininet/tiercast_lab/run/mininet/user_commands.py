"""Programs of the user's on hosts of a run: `kind: command` entries of `traffic`.

A command is a shell's, in a namespace of processes of its own: when it ends, or the lab does, all
that it started ends, too. Its output is logs/<name>.log. It finds the address of every host in an
environment variable of the host's name (`$t3`, `$h5`), and `$interface`, `$seed`, `$duration_s` and
`$scratch`, a folder that all commands share and that the run removes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tiercast_lab.base import binaries
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.schema import Traffic
from tiercast_lab.run.mininet.network import Network
from tiercast_lab.run.mininet.processes import Child, Children

POLL_S = 0.1
ROWS_S = 1.0
GRACE_S = 1.0  # between SIGTERM and SIGKILL
# The shell is the first process of its namespace, which a signal from outside ends only if it is
# handled or is SIGKILL; the processes that it waits for get SIGTERM as usual.
OWN_PROCESSES = ["unshare", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"]

# Called with the name of a command and the fields of a row.
RowSink = Callable[[str, dict[str, Any]], None]


def path_of_programs() -> str:
    """PATH of the commands: the user's, behind the folder of tiercast-norm."""
    return os.pathsep.join([str(binaries.NORM.parent), os.environ.get("PATH", os.defpath)])


def require_programs(loaded: LoadedExperiment) -> None:
    """Raises InputError if a program that a command needs is missing."""
    for index, entry in enumerate(loaded.experiment.traffic):
        for program, package in entry.needs.items():
            if shutil.which(program, path=path_of_programs()) is None:
                raise loaded.traffic_error(
                    index, "needs", f"no program {program!r} in PATH; install: {package}"
                )


class UserCommands:
    def __init__(
        self,
        loaded: LoadedExperiment,
        network: Network,
        children: Children,
        seed: int,
        scratch: Path,
    ) -> None:
        """`scratch` exists while the commands run."""
        self._loaded = loaded
        self._network = network
        self._children = children
        self._seed = seed
        self._scratch = scratch
        self._running: dict[str, Child] = {}

    async def run(self, start_s: float, sink: RowSink) -> None:
        """Runs each command from its start to its stop. `start_s` is the run's start on
        CLOCK_MONOTONIC. Children.check finds one that fails."""
        async with asyncio.TaskGroup() as group:
            for name, entry in self._loaded.commands.items():
                group.create_task(self._run(name, entry, start_s, sink))

    async def stop(self) -> None:
        """Ends what still runs."""
        await asyncio.gather(*(self._end(child) for child in self._running.values()))
        self._running.clear()

    async def _run(self, name: str, entry: Traffic, start_s: float, sink: RowSink) -> None:
        await asyncio.sleep(start_s + entry.start / 1e9 - time.monotonic())
        child = self._start(name, entry)
        self._running[name] = child
        stop = self._loaded.experiment.duration if entry.stop is None else entry.stop
        next_row_s = 0.0
        while (now_s := time.monotonic() - start_s) < stop / 1e9:
            if now_s >= next_row_s:
                sink(name, self._counted(entry))
                next_row_s = now_s + ROWS_S
            if (status := child.process.poll()) is not None:
                del self._running[name]
                sink(name, self._counted(entry) | {"status": status})
                return
            await asyncio.sleep(POLL_S)
        sink(name, self._counted(entry))
        await self._end(self._running.pop(name))

    def _start(self, name: str, entry: Traffic) -> Child:
        topology, host = self._loaded.topology, self._host(entry)
        assert entry.run is not None  # Traffic's checks ensure this
        facts = {one.name: one.address for one in topology.hosts.values()}
        facts["interface"] = self._network.interface(host)
        facts["seed"] = str(self._seed)
        facts["duration_s"] = f"{self._loaded.experiment.duration / 1e9:g}"
        facts["scratch"] = str(self._scratch)
        facts["PATH"] = path_of_programs()
        variables = [f"{key}={value}" for key, value in facts.items()]
        return self._children.start(
            self._network.nodes[host],
            f"{name} on {host}",
            ["env", *variables, *OWN_PROCESSES, "sh", "-c", entry.run],
            name,
            handles_sigterm=False,
            users=True,
        )

    def _host(self, entry: Traffic) -> str:
        return f"t{entry.from_}"

    def _counted(self, entry: Traffic) -> dict[str, Any]:
        """What its host has sent and received since the run began: IP bytes."""
        return self._network.counters(self._host(entry))

    async def _end(self, child: Child) -> None:
        child.expected_to_end = True
        if child.process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.process.pid, signal.SIGTERM)
        deadline = time.monotonic() + GRACE_S
        while child.process.poll() is None and time.monotonic() < deadline:
            await asyncio.sleep(POLL_S / 2)
        if child.process.poll() is None:
            child.process.kill()  # unshare, with all of its namespace
            child.process.wait()
