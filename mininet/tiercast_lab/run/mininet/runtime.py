"""A run in Mininet, from the network's first namespace to the last row.

The order is: network, switches, controller, agents, Start, rows until the end, Stop, last rows,
removal. Whatever happens on the way, everything that was made is removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import math
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiercast_controller.agents.records import Batch
from tiercast_controller.base.errors import ControllerError, UnreachableError
from tiercast_controller.controller import Controller, Event

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import InputError, LabError, RunFailed, RunInvalid
from tiercast_lab.base.interrupt import Interrupt
from tiercast_lab.base.scratch import scratch_folder
from tiercast_lab.experiment.checks import require_real_time
from tiercast_lab.experiment.topology import Host, Switch
from tiercast_lab.run.agents import AgentChange, agent_changes, session_agents
from tiercast_lab.run.controller_input import (
    described_groups,
    described_sessions,
    described_topology,
    programs_for,
)
from tiercast_lab.run.mininet.commands import receiver_command, sender_command, veth_eal
from tiercast_lab.run.mininet.igmp_listeners import IgmpListeners
from tiercast_lab.run.mininet.link_captures import LinkCaptures, require_dumpcap
from tiercast_lab.run.mininet.load import LoadMeter
from tiercast_lab.run.mininet.network import Network, hidden_queues
from tiercast_lab.run.mininet.pauses import LoopWatch
from tiercast_lab.run.mininet.processes import GRACE_S, Children
from tiercast_lab.run.mininet.switches import SwitchKind
from tiercast_lab.run.mininet.traffic import (
    TrafficPrograms,
    require_congestion_controls,
    require_no_l4s,
    require_one_stack,
)
from tiercast_lab.run.mininet.user_commands import UserCommands, require_programs
from tiercast_lab.run.observed import Row, StateRead, state_reads, state_row
from tiercast_lab.run.progress import RUNNING
from tiercast_lab.run.runtime import Run

POLL_S = 1.0  # of ports and load
WATCH_S = 0.2  # a crash is noticed within this time
END_S = 0.01  # between polls of a program that is about to end
DRAIN_S = 3.0  # from the end of all agents to empty queues
DRAIN_POLL_S = 0.1
CRASH_S = 1.0  # from a program's last message to the end of its process
CONTROLLER_NICE = -10  # of this process, because joins wait for it
_M_ARENA_MAX = -8  # of mallopt(3)


@dataclass(kw_only=True)
class MininetRun(Run):
    """The run's id is part of the name of everything that the run makes."""

    switches: SwitchKind

    def check(self) -> None:
        binaries.require(binaries.SENDER, binaries.HOST, *self.programs_of_switches)
        self.switches.check(self.loaded)
        programs_for(self.loaded)
        require_real_time(self.loaded)
        require_congestion_controls(self.loaded)
        require_no_l4s(self.loaded)
        require_one_stack(self.loaded)
        require_programs(self.loaded)
        for way in self.captures.directions:
            if way.receiver in self.switches.elsewhere:
                raise InputError(
                    f"--capture {way.name}: {way.receiver} was not started here, so nothing can "
                    "listen there; valid: directions towards hosts and switches of the lab"
                )
        if self.captures.all:
            require_dumpcap()

    @property
    def files(self) -> list[Path]:
        programs = [binaries.SENDER, binaries.HOST, *self.switches.programs()]
        return [*programs, *self.programs_of_switches]

    def hidden_queues(self) -> list[str]:
        return [text for state in self.metadata.values() for text in hidden_queues(state)]

    def execute(self, interrupt: Interrupt) -> None:
        _log_to(self.logs / "controller.log")
        network = Network(
            self.loaded.topology, self.folder.id, self.switches.elsewhere, self.switches.in_memory
        )
        children = Children(self.logs)
        with scratch_folder(name=f"{self.folder.id}-") as sockets:
            try:
                self._execute(network, children, sockets, interrupt)
            except LabError:
                interrupt.check()  # Ctrl-C also hits the commands that the lab calls: `ip` fails
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
        if any(entry.stack == "ns2" for entry in self.loaded.experiment.traffic):
            self.view.say(
                "`stack: ns2`: a kernel has its windows and acknowledgements, not its timers"
            )
        self.enter("making the network")
        network.build(interrupt.check)
        self.prepare_senders(network)
        self.switches.prepare(network)
        self.metadata["before"] = network.describe()
        if found := hidden_queues(self.metadata["before"]):
            raise RunFailed("a hidden second queue: " + "; ".join(found))
        interrupt.check()
        with _priority(CONTROLLER_NICE):
            live = self.live(network, children, sockets, interrupt)
            asyncio.run(live.run())
        network.check()
        self.metadata["after"] = network.describe()
        if stopped := children.stopped(patience_s=GRACE_S):
            # A stopped program could not report for how long it was stopped.
            raise RunInvalid(f"stopped when the run ended: {', '.join(stopped)}")
        self.complaints += children.stop()
        ended: set[tuple[str, str]] = set()
        for time_ns, kind, agent, fields in self.switches.logged_rows(
            network.topology, children.logs
        ):
            time_s = (time_ns - live.start_ns) / 1e9
            # The first row after the end also covers the run's last second; later rows cover only
            # what came afterwards.
            if time_s >= 0 and (kind, agent) not in ended:
                self.recorder.add(kind, time_s, agent, fields)
            if time_s >= self.progress.duration_s:
                ended.add((kind, agent))

    def prepare_senders(self, network: Network) -> None:
        """tiercast-send takes over the interface of its host, unless that is a receiver, too."""
        receive = {node for nodes in self.loaded.receivers for node in nodes}
        send = {one.sender for one in self.loaded.experiment.sessions}
        for host in {f"h{node}" for node in send - receive} - self.switches.dpdk.keys():
            network.without_address(host)

    def live(
        self, network: Network, children: Children, sockets: Path, interrupt: Interrupt
    ) -> Live:
        return Live(self, network, children, sockets, interrupt)


class Live:
    """The part of a run during which its programs run."""

    def __init__(
        self,
        run: MininetRun,
        network: Network,
        children: Children,
        sockets: Path,
        interrupt: Interrupt,
    ) -> None:
        self.run_ = run
        self.network = network
        self.children = children
        self.sockets = sockets
        self.interrupt = interrupt
        self.traffic = TrafficPrograms(self._on_traffic)
        scratch = sockets / "commands"
        scratch.mkdir()
        self.commands = UserCommands(run.loaded, network, children, run.seed, scratch)
        self.captures = LinkCaptures(run.captures, network, children)
        self.igmp = IgmpListeners(network)
        self.loop_watch = LoopWatch()
        self.watches: list[asyncio.Task[None]] = []  # for the rows of kind `pause`
        self._timed: list[asyncio.Task[None]] = []  # what happens while the run goes on
        self._returned = asyncio.Queue[str]()  # the switches that died and are back
        self.start_ns = 0
        self.skipped: dict[str, int] = {}  # packets that were not traced, by switch

    async def run(self) -> None:
        # With an arena for each of gRPC's threads, what one frees is not used again by others, and
        # memory creeps up for hours.
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
        controller = self._controller()
        self.watches.append(asyncio.create_task(self.loop_watch.watch()))
        work = asyncio.create_task(self._work(controller))
        watch = asyncio.create_task(self._watch(controller))
        try:
            done, _ = await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
            # If a program crashed, that is the cause; a failed call to it is only the consequence.
            if work in done and work.exception() is not None:
                await asyncio.wait({watch}, timeout=CRASH_S)
            if watch.done():
                watch.result()
            work.result()
        except ControllerError as error:
            # A program that was stopped or got no CPU has not failed.
            if hindered := self.children.hindered():
                raise RunInvalid(f"{error}; {hindered}") from error
            raise RunFailed(str(error)) from error
        finally:
            tasks = (work, watch, *self.watches)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.traffic.close()
            await self.commands.stop()
            self.igmp.close()
            with contextlib.suppress(ControllerError):
                await controller.stop(timeout_s=2)

    async def _watch(self, controller: Controller) -> None:
        while True:
            self.interrupt.check()
            self.run_.recorder.check()
            self.network.check()  # first: without an interface programs end
            self._check_children()
            self._check_timed()
            if controller.failed.done():
                await asyncio.sleep(CRASH_S / 2)
                self._check_children()
                controller.failed.result()
            await asyncio.sleep(WATCH_S)

    def _check_timed(self) -> None:
        """One that has failed ends the run now: what would come after it does not happen."""
        for task in self._timed:
            if task.done() and not task.cancelled():
                task.result()

    def _check_children(self) -> None:
        """A switch that somebody has killed goes on: the controller brings it back."""
        for child in self.children.check():
            when = f"at {self.now_s():.1f} s" if self.start_ns else "before the start"
            text = f"{child.name} was killed {when}, and started again"
            self.run_.complaints.append(text)
            self.run_.view.say(text)

    async def _is_away(self, controller: Controller, switch: Switch) -> bool:
        """Whether a switch that does not answer is one that the controller waits for; it may be
        told a moment later."""
        deadline = time.monotonic() + CRASH_S
        while not controller.is_away(switch.name) and time.monotonic() < deadline:
            await asyncio.sleep(END_S)
        return controller.is_away(switch.name)

    async def _work(self, controller: Controller) -> None:
        run, topology = self.run_, self.network.topology
        run.enter("starting switches")
        run.switches.start(self.network, self.children, self._socket)
        await controller.start()
        for text in await run.switches.configure(controller, self.network):
            run.view.say(text)
        for text in self.igmp.start(controller):
            run.view.say(text)
        for read in state_reads(run.loaded):
            await self._cells(controller, read)  # so that a switch that cannot says so now
        await self.captures.start()
        run.enter("starting agents")
        agents = self._start_agents()
        await self.traffic.start(
            run.loaded, self.network, self.children, self._socket("traffic"), run.seed
        )
        await controller.wait_agents(agents)
        switches = topology.switches.values()
        self.watches += [
            asyncio.create_task(run.switches.watch(controller, switch)) for switch in switches
        ]
        # One poll before the start, so that figures "since the last poll" start with the run.
        await asyncio.gather(*(run.switches.poll(controller, switch) for switch in switches))
        load = LoadMeter(self.children.turns)
        self.loop_watch.take_longest_us()
        self.start_ns = time.monotonic_ns()
        for child in self.children.children:
            if not child.users:  # those report no pauses
                run.take("pause", 0.0, child.name, {"longest_us": 0.0})
        self.traffic.begin(self.start_ns)
        changes = self.agent_changes()
        at_once = [one.agent for one in changes if one.at == 0 and one.joins]
        controller.start_agents(at_once)
        controller.leave_agents(name for name in agents if name not in at_once)
        run.enter(RUNNING)
        self._timed = [
            asyncio.create_task(self._events(controller)),
            asyncio.create_task(self._restore(controller)),
            asyncio.create_task(self._members(controller, changes)),
            asyncio.create_task(self.commands.run(self.start_ns / 1e9, self._on_command)),
            *(
                asyncio.create_task(self._read_state(controller, read))
                for read in state_reads(run.loaded)
            ),
        ]
        try:
            await self.go_on(controller, load)
            self._check_timed()
        finally:
            for task in self._timed:
                task.cancel()
        run.enter("ending")
        await self.commands.stop()
        ending = [
            child
            for child in self.children.children
            if child.log.stem in (*agents, *self.traffic.logs)
        ]
        for child in ending:
            child.expected_to_end = True
        run.recorder.hurry()  # agents wait until their last records are written
        controller.stop_agents()
        await self.traffic.stop()
        await controller.wait_agents_ended()
        for child in ending:
            await self._expect_success(child)
        # Nothing is being sent any more, so now each port's account can be closed.
        await run.switches.settle(controller, topology)
        if run.captures.all:
            await self._drain(controller)
        await asyncio.gather(*(self._poll(controller, switch) for switch in switches))
        await self.captures.stop()
        run.complaints += [
            f"{name}: {skipped} packets of the sample were not traced: too many in a second"
            for name, skipped in self.skipped.items()
            if skipped
        ]

    def agent_changes(self) -> list[AgentChange]:
        """Who comes and goes when."""
        return agent_changes(self.run_.loaded, self.run_.seed)

    def change_agent(self, controller: Controller, change: AgentChange) -> None:
        order = controller.start_agents if change.joins else controller.leave_agents
        order([change.agent])

    async def go_on(self, controller: Controller, load: LoadMeter) -> None:
        """Takes rows until the run's time is over."""
        await self.measure(controller, load)

    async def _drain(self, controller: Controller) -> None:
        """Waits until no frame is in a queue or on a wire, so that the last rows count what the
        captures have. A queue that takes longer is left as it is."""
        deadline = time.monotonic() + DRAIN_S
        switches = self.network.topology.switches.values()
        while time.monotonic() < deadline:
            polled = await asyncio.gather(*(self._poll(controller, switch) for switch in switches))
            ports = [fields for rows in polled for kind, fields in rows if kind == "port"]
            if not any(port["queue_packets"] or port["on_wire"] for port in ports):
                return
            await asyncio.sleep(DRAIN_POLL_S)

    async def _expect_success(self, child: Any) -> None:
        deadline = time.monotonic() + GRACE_S
        while (status := child.process.poll()) is None and time.monotonic() < deadline:
            await asyncio.sleep(END_S)
        if status:
            raise RunFailed(self.children.cause_of_end(child, status))

    async def measure(self, controller: Controller, load: LoadMeter) -> None:
        """Polls each switch and samples the load once a second until the run's time is over. A
        switch that does not answer delays none of the others."""
        polls = [
            asyncio.create_task(self._poll_each_second(controller, switch))
            for switch in self.network.topology.switches.values()
        ]
        polls.append(asyncio.create_task(self._sample_load(load)))
        try:
            await asyncio.gather(*polls)
        finally:
            for poll in polls:
                poll.cancel()

    async def _seconds(self) -> AsyncIterator[None]:
        """Yields at each second of the run, skipping those already past, and at its end."""
        end_s = self.run_.progress.duration_s
        next_s = 0.0
        while next_s < end_s:
            # Always later than the last one: a sleep may end some nanoseconds early.
            now_s = max(self.now_s(), next_s)
            next_s = min(end_s, POLL_S * math.floor(now_s / POLL_S + 1))
            await asyncio.sleep(next_s - self.now_s())
            yield

    async def _poll_each_second(self, controller: Controller, switch: Switch) -> None:
        async for _ in self._seconds():
            await self._poll(controller, switch)

    async def _poll(self, controller: Controller, switch: Switch) -> list[tuple[str, Row]]:
        """Takes a switch's newest rows; none while it is away."""
        try:
            rows = await self.run_.switches.poll(controller, switch)
            now_s = self.now_s()
            hops, skipped = await self.run_.switches.take_trace(controller, switch)
        except UnreachableError:
            if not await self._is_away(controller, switch):
                raise
            return []
        self.skipped[switch.name] = skipped
        for kind, fields in rows:
            self._take(kind, now_s, switch.name, fields)
        for time_ns, row in hops:
            self._take("trace", (time_ns - self.start_ns) / 1e9, switch.name, row)
        return rows

    async def _cells(
        self, controller: Controller, read: StateRead
    ) -> Mapping[int, int | tuple[int, int]]:
        if read.is_register:
            return await controller.register_cells(read.switch, read.array, read.indices)
        return await controller.counter_cells(read.switch, read.array, read.indices)

    async def _read_state(self, controller: Controller, read: StateRead) -> None:
        """Reads each `every` from the start on. Times that pass while a read takes long are left
        out."""
        every_s, next_s = read.every / 1e9, 0.0
        while next_s < self.run_.progress.duration_s:
            await asyncio.sleep(max(0.0, next_s - self.now_s()))
            before_s = self.now_s()
            cells: Mapping[int, int | tuple[int, int]] = {}
            try:
                cells = await self._cells(controller, read)
            except UnreachableError:
                switch = self.network.topology.switches[read.switch]
                if not await self._is_away(controller, switch):
                    raise
            time_s = (before_s + self.now_s()) / 2
            for index in cells:
                self._take("state", time_s, read.switch, state_row(read, index, cells[index]))
            next_s = every_s * math.floor(self.now_s() / every_s + 1)

    async def _sample_load(self, load: LoadMeter) -> None:
        run = self.run_
        async for _ in self._seconds():
            now_s = self.now_s()
            run.take("machine", now_s, "lab", load.sample())
            longest_us = self.loop_watch.take_longest_us()
            run.take("pause", now_s, "lab", {"longest_us": longest_us})
            run.view.update(run.progress)

    def _take(self, kind: str, time_s: float, agent: str, fields: dict[str, Any]) -> None:
        """Takes a row. A row of kind `pause` names a program rather than a node or a flow."""
        if kind == "pause":
            agent = self.children.name_of(agent)
        self.run_.take(kind, time_s, agent, fields)

    async def _events(self, controller: Controller) -> None:
        run = self.run_
        for event in run.loaded.experiment.link_events:
            await asyncio.sleep(max(0.0, event.at / 1e9 - self.now_s()))
            await run.switches.apply(controller, self.network, event)

    async def _restore(self, controller: Controller) -> None:
        while True:
            await self.run_.switches.restore(controller, self.network, await self._returned.get())

    async def _members(self, controller: Controller, changes: list[AgentChange]) -> None:
        """Lets agents come and go as they do in this run."""
        for change in changes:
            await asyncio.sleep(max(0.0, change.at / 1e9 - self.now_s()))
            self.change_agent(controller, change)

    def _start_agents(self) -> list[str]:
        run, topology = self.run_, self.network.topology
        lab, names = self._socket("lab"), []
        for agents in session_agents(run.loaded, run.seed):
            source = topology.hosts[f"h{agents.session.sender}"]
            eal = run.switches.dpdk.get(source.name) or veth_eal(
                self.network.interface(source.name)
            )
            command = sender_command(agents, source, eal, lab)
            self._start_agent("tiercast-send", agents.sender, source, command)
            for node in agents.receivers:
                host = topology.hosts[f"h{node}"]
                interface = self.network.interface(host.name)
                command = receiver_command(agents, host, interface, source, lab)
                self._start_agent("tiercast-host", host.name + agents.suffix, host, command)
            names += agents.names
        return names

    def _start_agent(self, program: str, name: str, host: Host, command: list[str]) -> None:
        node = self.network.nodes.get(host.name)
        self.children.start(node, f"{program} {name}", command, name)

    def _controller(self) -> Controller:
        run, querier = self.run_, self.run_.loaded.experiment.querier
        return Controller(
            described_topology(
                run.loaded, lambda switch: run.switches.reach(switch, self._socket(switch.name))
            ),
            described_sessions(run.loaded),
            programs_for(run.loaded),
            groups=described_groups(run.loaded),
            lab_address=f"unix:{self._socket('lab')}",
            on_records=self._on_records,
            on_event=self._on_event,
            querier=querier.querier if querier else None,
            leave_latency_s=run.loaded.experiment.leave_latency / 1e9,
            keys=run.loaded.experiment.keys,
            agents=[name for one in session_agents(run.loaded, run.seed) for name in one.names],
            patience_s=run.switches.patience_s,
        )

    def _socket(self, name: str) -> Path:
        return self.sockets / f"{name}.sock"

    def now_s(self) -> float:
        return (time.monotonic_ns() - self.start_ns) / 1e9

    def _on_command(self, name: str, fields: dict[str, Any]) -> None:
        self._take("command", self.now_s(), name, fields)

    def _on_traffic(self, time_ns: int, kind: str, agent: str, fields: dict[str, Any]) -> None:
        self._take(kind, (time_ns - self.start_ns) / 1e9, agent, fields)

    async def _on_records(self, batch: Batch, written: Callable[[], None]) -> None:
        for record in batch.records:
            time_s = (record.time_ns - self.start_ns) / 1e9
            self._take(record.kind, time_s, batch.agent, record.fields)
        loop = asyncio.get_running_loop()

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and the agents with it
                loop.call_soon_threadsafe(written)

        self.run_.recorder.when_written(tell)

    def _on_event(self, event: Event) -> None:
        if event.kind == "records":
            name, lost = event.fields["name"], event.fields["lost"]
            self.run_.complaints.append(f"{name}: {lost} records were lost: the lab was too slow")
        if event.kind == "switch" and event.fields.get("restarted"):
            self._returned.put_nowait(event.fields["switch"])
        if self.start_ns:
            time_s = (event.time_ns - self.start_ns) / 1e9
            self.run_.take(f"controller.{event.kind}", time_s, "controller", event.fields)


@contextlib.contextmanager
def _priority(nice: int) -> Iterator[None]:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    # A container may forbid this. Late joins then show in the run's measures.
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)


def _log_to(path: Path) -> None:
    """Sends the controller's log to a file, because the terminal belongs to the view."""
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("tiercast_controller")
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
