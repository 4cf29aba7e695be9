"""A run in Mininet, from the network's first namespace to the last row.

The order of things: network -> switches -> controller -> agents -> Start -> rows until the end ->
Stop -> last rows -> everything is removed. Whatever happens on the way, what was made is removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tiercast_controller as control

from tiercast_lab import binaries
from tiercast_lab.commands import receiver_command, sender_command
from tiercast_lab.description import described_sessions, described_topology
from tiercast_lab.errors import InputError, LabError, RunFailed
from tiercast_lab.execution import Execution
from tiercast_lab.interrupt import Interrupt
from tiercast_lab.machine import LoadMeter
from tiercast_lab.network import Network, hidden_queues
from tiercast_lab.processes import Children
from tiercast_lab.progress import RUNNING
from tiercast_lab.scratch import scratch_folder
from tiercast_lab.switches import SwitchKind
from tiercast_lab.traffic import TrafficPrograms, require_congestion_controls

POLL_S = 1.0  # of ports and load
WATCH_S = 0.2  # a crash is noticed within this time
CRASH_S = 1.0  # between a program's last sign of life and the end of its process
CONTROLLER_NICE = -10  # of this process: joins wait for it


@dataclass(kw_only=True)
class Run(Execution):
    """The folder's id is part of every name that the run makes."""

    switches: SwitchKind

    def check(self) -> None:
        binaries.require(binaries.SENDER, binaries.HOST, binaries.P4_JSON, binaries.P4_INFO)
        self.switches.check(self.loaded)
        if keys := self.loaded.experiment.only_in_virtual_time:
            raise InputError(
                f"{self.loaded.file}: {', '.join(keys)}: not in Mininet; valid: --runtime ns3"
            )
        require_congestion_controls(self.loaded)

    def execute(self, interrupt: Interrupt) -> None:
        _log_to(self.logs / "controller.log")
        network = Network(self.loaded.topology, self.folder.id)
        children = Children(self.logs)
        with scratch_folder(name=f"{self.folder.id}-") as sockets:
            try:
                self._execute(network, children, sockets, interrupt)
            except LabError:
                interrupt.check()  # Ctrl-C reaches what the lab was calling, too: `ip` then fails
                raise
            finally:
                self.enter("removing the network")
                self.complaints += children.stop()
                network.remove()

    def _execute(
        self, network: Network, children: Children, sockets: Path, interrupt: Interrupt
    ) -> None:
        self.view.say(
            f"{self.loaded.experiment.name}: {len(self.loaded.topology.switches)} switches, "
            f"{len(self.loaded.topology.hosts)} hosts, run {self.folder.id}"
        )
        self.enter("making the network")
        network.build(interrupt.check)
        for session in self.loaded.experiment.sessions:
            network.without_address(f"h{session.sender}")
        self.switches.prepare(network)
        self.metadata["before"] = network.describe()
        if found := hidden_queues(self.metadata["before"]):
            raise RunFailed("a hidden second queue: " + "; ".join(found))
        interrupt.check()
        with _priority(CONTROLLER_NICE):
            asyncio.run(_Live(self, network, children, sockets, interrupt).run())
        self.metadata["after"] = network.describe()
        self.complaints += children.stop()
        for switch, fields in self.switches.final_rows(network.topology, children.logs):
            self.recorder.add("wire", self.progress.duration_s, switch, fields)


class _Live:
    """The part of a run in which programs run."""

    def __init__(
        self, run: Run, network: Network, children: Children, sockets: Path, interrupt: Interrupt
    ) -> None:
        self.run_ = run
        self.network = network
        self.children = children
        self.sockets = sockets
        self.interrupt = interrupt
        self.traffic = TrafficPrograms(self._on_traffic)
        self.start_ns = 0

    async def run(self) -> None:
        controller = self._controller()
        work = asyncio.create_task(self._work(controller))
        watch = asyncio.create_task(self._watch(controller))
        try:
            done, _ = await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
            # A crash is the cause, a failed call to the crashed program its consequence.
            if work in done and work.exception() is not None:
                await asyncio.wait({watch}, timeout=CRASH_S)
            if watch.done():
                watch.result()
            work.result()
        except control.ControllerError as error:
            raise RunFailed(str(error)) from error
        finally:
            for task in (work, watch):
                task.cancel()
            await asyncio.gather(work, watch, return_exceptions=True)
            await self.traffic.close()
            with contextlib.suppress(control.ControllerError):
                await controller.stop(timeout_s=2)

    async def _watch(self, controller: control.Controller) -> None:
        while True:
            self.interrupt.check()
            self.run_.recorder.check()
            self.children.check()
            if controller.failed.done():
                await asyncio.sleep(CRASH_S / 2)
                self.children.check()
                controller.failed.result()
            await asyncio.sleep(WATCH_S)

    async def _work(self, controller: control.Controller) -> None:
        run, topology = self.run_, self.network.topology
        run.enter("starting switches")
        for switch in topology.switches.values():
            run.switches.start(switch, self.network, self.children, self._socket(switch.name))
        await controller.start()
        await run.switches.configure(self.network)
        run.enter("starting agents")
        agents = self._start_agents()
        await self.traffic.start(run.loaded, self.network, self.children, self._socket("traffic"))
        await controller.wait_agents(agents)
        # One poll before the start: "since the last" figures then begin with the run.
        await self._poll_ports(controller, record=False)
        load = LoadMeter(self.children.turns)
        self.start_ns = time.monotonic_ns()
        run.enter(RUNNING)
        self.traffic.begin(self.start_ns)
        controller.start_sessions()
        events = asyncio.create_task(self._events(controller))
        try:
            await self._measure(controller, load)
            if events.done():
                events.result()
        finally:
            events.cancel()
        run.enter("ending")
        for child in self.children.children:
            child.expected_to_end = child.log.stem in (*agents, *self.traffic.logs)
        controller.stop_agents()
        await self.traffic.stop()
        await controller.wait_agents_ended()
        for child in self.children.children:
            if child.expected_to_end:
                await self._expect_success(child)
        # Nobody sends any more: what each port was handed, and what became of it.
        await self._poll_ports(controller)

    async def _expect_success(self, child: Any) -> None:
        for _ in range(15):
            if (status := child.process.poll()) is not None:
                if status != 0:
                    raise RunFailed(self.children.obituary(child, status))
                return
            await asyncio.sleep(WATCH_S)

    async def _measure(self, controller: control.Controller, load: LoadMeter) -> None:
        """Looks at ports and load each second until the run's time is over."""
        run = self.run_
        duration_s = run.loaded.experiment.duration / 1e9
        ticks = math.ceil(duration_s / POLL_S)
        for tick in range(1, ticks + 1):
            await asyncio.sleep(max(0.0, min(tick * POLL_S, duration_s) - self._now_s()))
            await self._poll_ports(controller)
            self.run_.take("machine", self._now_s(), "lab", load.look())
            run.view.update(run.progress)

    async def _poll_ports(self, controller: control.Controller, record: bool = True) -> None:
        switches = list(self.network.topology.switches.values())
        polled = await asyncio.gather(*(self.run_.switches.poll(controller, s) for s in switches))
        now_s = self._now_s()
        for switch, rows in zip(switches, polled, strict=True):
            for kind, fields in rows if record else []:
                self.run_.take(kind, now_s, switch.name, fields)

    async def _events(self, controller: control.Controller) -> None:
        run = self.run_
        for event in run.loaded.experiment.link_events:
            await asyncio.sleep(max(0.0, event.at / 1e9 - self._now_s()))
            await run.switches.apply(controller, self.network, event)

    def _start_agents(self) -> list[str]:
        run, topology = self.run_, self.network.topology
        lab, names = self._socket("lab"), []
        for session, receivers in zip(
            run.loaded.experiment.sessions, run.loaded.receivers, strict=True
        ):
            source = topology.hosts[f"h{session.sender}"]
            interface = self.network.interface(source.name)
            command = sender_command(session, source, interface, lab, run.seed)
            self._start_agent("tiercast-send", source.name, command)
            for node in receivers:
                host = topology.hosts[f"h{node}"]
                interface = self.network.interface(host.name)
                command = receiver_command(session, host, interface, source, lab, run.seed)
                self._start_agent("tiercast-host", host.name, command)
            names += [source.name, *(f"h{node}" for node in receivers)]
        return names

    def _start_agent(self, program: str, host: str, command: list[str]) -> None:
        self.children.start(self.network.nodes[host], f"{program} {host}", command, host)

    def _controller(self) -> control.Controller:
        run = self.run_
        return control.Controller(
            described_topology(
                run.loaded, run.switches.idle_us, lambda name: f"unix:{self._socket(name)}"
            ),
            described_sessions(run.loaded),
            control.Program.load(binaries.P4_JSON, binaries.P4_INFO),
            lab_address=f"unix:{self._socket('lab')}",
            on_records=self._on_records,
            on_event=self._on_event,
            agents=[one.name for one in run.loaded.topology.hosts.values() if not one.of_traffic],
        )

    def _socket(self, name: str) -> Path:
        return self.sockets / f"{name}.sock"

    def _now_s(self) -> float:
        return (time.monotonic_ns() - self.start_ns) / 1e9

    def _on_traffic(self, time_ns: int, kind: str, agent: str, fields: dict[str, Any]) -> None:
        self.run_.take(kind, (time_ns - self.start_ns) / 1e9, agent, fields)

    async def _on_records(self, agent: control.Agent, records: Sequence[control.Record]) -> None:
        for record in records:
            time_s = (record.time_ns - self.start_ns) / 1e9
            self.run_.take(record.kind, time_s, agent.name, record.fields)

    def _on_event(self, event: control.Event) -> None:
        if self.start_ns:
            time_s = (event.time_ns - self.start_ns) / 1e9
            self.run_.take(f"controller.{event.kind}", time_s, "controller", event.fields)


@contextlib.contextmanager
def _priority(nice: int) -> Iterator[None]:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    # A container may forbid it; late joins then show in the run's figures.
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)


def _log_to(path: Path) -> None:
    """The controller's log goes to a file: the terminal belongs to the view."""
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("tiercast_controller")
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
