"""A run that goes on until its user leaves it, and does what is typed meanwhile.

The run has a thread of its own, in which its loop and its processes live; the terminal has the main
thread, and orders changes through `Lab.do`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tiercast_controller.controller import Controller

from tiercast_lab.base.errors import InputError, RunFailed, among
from tiercast_lab.base.interrupt import Interrupt
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.quantities import START_SPREAD_NS
from tiercast_lab.experiment.schema import Session
from tiercast_lab.run.agents import AgentChange, SessionAgents, agent_changes, session_agents
from tiercast_lab.run.mininet.leftovers import Leftovers
from tiercast_lab.run.mininet.load import LoadMeter
from tiercast_lab.run.mininet.network import Network
from tiercast_lab.run.mininet.processes import Children
from tiercast_lab.run.mininet.runtime import Live, MininetRun
from tiercast_lab.run.typed_changes import TICK_NS, TypedChanges

T = TypeVar("T")


class Lab:
    """What the run and the terminal share."""

    def __init__(self, typed: TypedChanges, on_end: Callable[[], None]) -> None:
        self.typed = typed
        self.on_end = on_end  # called in the run's thread when it ends, for whatever reason
        self.running = threading.Event()  # while changes can be ordered
        self.folder: Path | None = None
        self.network: Network | None = None
        self._live: LabLive | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def attach(self, live: LabLive) -> None:
        """Called in the run's thread, when everything runs."""
        self._live, self._loop = live, asyncio.get_running_loop()
        self.folder, self.network = live.run_.folder.path, live.network
        self.running.set()

    def do(self, order: Callable[[LabLive], Coroutine[Any, Any, T]]) -> T:
        """Has the run carry out an order, and returns its result or raises its error."""
        if self._live is None or self._loop is None or not self.running.is_set():
            raise RunFailed("the lab has ended")
        done: Future[T] = asyncio.run_coroutine_threadsafe(order(self._live), self._loop)
        return done.result()

    def end(self) -> None:
        """Asks the run to end."""
        if self._live is not None and self._loop is not None and self.running.is_set():
            self.running.clear()
            self._loop.call_soon_threadsafe(self._live.over.set)


@dataclass(kw_only=True)
class LabRun(MininetRun):
    lab: Lab

    def execute(self, interrupt: Interrupt) -> None:
        try:
            super().execute(interrupt)
        finally:
            self.lab.running.clear()
            self.lab.on_end()

    def prepare_senders(self, network: Network) -> None:
        """Their kernels keep the address, so that `h0 ping h3` works (LabLive.share_echoes)."""

    def live(
        self, network: Network, children: Children, sockets: Path, interrupt: Interrupt
    ) -> Live:
        return LabLive(self, network, children, sockets, interrupt)

    def lived(self) -> LoadedExperiment | None:
        """The experiment as it was, once the run has ended; None if no session was started."""
        return self.lab.typed.until(round(self.progress.duration_s * 1e9))


@dataclass
class _Member:
    """A receiver of a session."""

    agent: str
    node: int
    present: bool = False


@dataclass
class SessionState:
    """A session, and who is in it now."""

    session: Session
    agents: SessionAgents
    members: list[_Member]
    started: float | None = None  # s
    stopped: float | None = None
    coming: list[asyncio.Task[None]] = field(default_factory=list)
    # The experiment's first joins, as agent and time in ns, that came earlier, as the session was
    # started by hand.
    by_hand: set[tuple[str, int]] = field(default_factory=set)

    @property
    def state(self) -> str:
        if self.stopped is not None:
            return "stopped"
        return "waits" if self.started is None else "runs"


class LabLive(Live):
    """Its methods change_* and the like are called in the run's loop, with what the user typed for
    errors. They raise InputError for what cannot be done."""

    run_: LabRun

    def __init__(
        self,
        run: LabRun,
        network: Network,
        children: Children,
        sockets: Path,
        interrupt: Interrupt,
    ) -> None:
        super().__init__(run, network, children, sockets, interrupt)
        self.over = asyncio.Event()
        self.lab = run.lab
        self._reached: Controller | None = None
        self.sessions: dict[int, SessionState] = {}
        for agents in session_agents(run.loaded, run.seed):
            members = [_Member(f"h{node}{agents.suffix}", node) for node in agents.receivers]
            number = agents.session.session
            self.sessions[number] = SessionState(agents.session, agents, members)
        self._of_agent = {
            agent: state for state in self.sessions.values() for agent in state.agents.names
        }

    # -------------------------------------------------------------------------- what the run calls

    def agent_changes(self) -> list[AgentChange]:
        if self.lab.typed.idle:
            return []
        changes = agent_changes(self.run_.loaded, self.run_.seed)
        for change in changes:
            if change.at == 0 and change.joins:  # these start with the run
                self._note(change)
        return changes

    def change_agent(self, controller: Controller, change: AgentChange) -> None:
        """Of the experiment's changes, those of a session that was stopped, or of a member that
        was already changed, have nothing left to do."""
        state = self._of_agent[change.agent]
        sender = change.agent == state.agents.sender
        if state.stopped is not None or (sender and change.joins and state.started is not None):
            return
        if (change.agent, change.at) in state.by_hand:
            return
        self._note(change)
        super().change_agent(controller, change)

    async def go_on(self, controller: Controller, load: LoadMeter) -> None:
        self._reached = controller
        # DPDK took the senders' interfaces down and up, so their kernels forgot the way.
        for host in {f"h{state.session.sender}" for state in self.sessions.values()}:
            self.network.restore_gateway(host)
            self.share_echoes(host)
        self.network.join_neighbours()
        with Leftovers(self.network, self.children):
            self.lab.attach(self)
            measuring = asyncio.create_task(self.measure(controller, load))
            leaving = asyncio.create_task(self.over.wait())
            try:
                await asyncio.wait({measuring, leaving}, return_when=asyncio.FIRST_COMPLETED)
                if measuring.done():
                    measuring.result()
            finally:
                self.lab.end()
                for task in (measuring, leaving, *self._coming()):
                    task.cancel()
                self.run_.progress.duration_s = self._end_s()
        await asyncio.sleep(self.run_.progress.duration_s - self.now_s())

    def share_echoes(self, host: str) -> None:
        """While a session runs, its tiercast-send answers echo requests to the sender's host, so
        the kernel must not answer them, too."""
        runs = any(
            f"h{state.session.sender}" == host and state.state == "runs"
            for state in self.sessions.values()
        )
        self.network.ignore_echoes(host, runs)

    def _end_s(self) -> float:
        end_ns = self.lab.typed.end_at(round(self.now_s() * 1e9))
        return min(end_ns / 1e9, self.run_.progress.duration_s)

    def _coming(self) -> list[asyncio.Task[None]]:
        return [task for state in self.sessions.values() for task in state.coming]

    def _note(self, change: AgentChange) -> None:
        state = self._of_agent[change.agent]
        if change.agent == state.agents.sender:
            if change.joins:
                state.started = self.now_s()
            else:
                state.stopped = self.now_s()
            self.share_echoes(f"h{state.session.sender}")
            return
        for member in state.members:
            if member.agent == change.agent:
                member.present = change.joins

    # ---------------------------------------------------------------------- what the user types

    async def change_link(self, keys: dict[str, Any], typed: str) -> float:
        """`keys` as those of an entry of `events`. Returns the time of the change, in s."""
        at = self._tick()
        event = self.lab.typed.change_link(at, keys, typed)
        await self.run_.switches.apply(self._connected, self.network, event)
        return at / 1e9

    async def join(self, node: int, session: int | None, joins: bool, typed: str) -> float:
        """A receiver joins or leaves a session, by default the first. Returns the time, in s."""
        state = self._session(session)
        number = state.session.session
        if state.state != "runs":
            how = "has stopped" if state.state == "stopped" else "has not started"
            raise InputError(f"{typed}: session {number} {how}; valid: {self._valid('runs')}")
        nodes = [member.node for member in state.members]
        if node not in nodes:
            names = [f"h{one}" for one in nodes]
            raise InputError(f"{typed}: no receiver of session {number} {among(f'h{node}', names)}")
        member = state.members[nodes.index(node)]
        if member.present == joins:
            is_now = "is a member already" if joins else "is no member"
            raise InputError(f"{typed}: {member.agent} {is_now}")
        at = self._tick()
        self.lab.typed.change_member(at, number, node, joins, typed)
        super().change_agent(self._connected, AgentChange(at, member.agent, joins))
        member.present = joins
        return at / 1e9

    async def start(self, session: int | None, typed: str) -> list[int]:
        """Starts a session, by default all that wait. Returns their numbers."""
        return self._all("waits", session, typed, self._start)

    async def stop(self, session: int | None, typed: str) -> list[int]:
        """Stops a session for good, by default all that run. Returns their numbers."""
        return self._all("runs", session, typed, self._stop)

    def _all(
        self, state: str, number: int | None, typed: str, order: Callable[[int, str], list[int]]
    ) -> list[int]:
        chosen = [one for one, its in self.sessions.items() if its.state == state]
        if number is not None:
            if self._session(number).state != state:
                raise InputError(
                    f"{typed}: session {number} {self._session(number).state}; valid: "
                    f"{self._valid(state)}"
                )
            chosen = [number]
        if not chosen:
            raise InputError(f"{typed}: {self._valid(state)}")
        done: list[int] = []
        for one in chosen:
            if one not in done:
                done += order(one, typed)
        return done

    def _start(self, number: int, typed: str) -> list[int]:
        at = self._tick()
        together = self.lab.typed.start(at, number, typed)
        for one in together:
            state = self.sessions[one]
            state.started = at / 1e9
            self.share_echoes(f"h{state.session.sender}")
            self._connected.start_agents([state.agents.sender])
            for member, first in zip(state.members, state.agents.starts, strict=True):
                # As in a run: each receiver joins a little later, by chance.
                after = first - state.session.start
                if after < START_SPREAD_NS:
                    state.by_hand.add((member.agent, first))
                    task = asyncio.create_task(self._come(state, member, after / 1e9))
                    state.coming.append(task)
        return together

    async def _come(self, state: SessionState, member: _Member, after_s: float) -> None:
        await asyncio.sleep(after_s)
        if state.stopped is None and not member.present:
            self._connected.start_agents([member.agent])
            member.present = True

    def _stop(self, number: int, typed: str) -> list[int]:
        at = self._tick()
        together = self.lab.typed.stop(at, number, typed)
        for one in together:
            state = self.sessions[one]
            state.stopped = at / 1e9
            self.share_echoes(f"h{state.session.sender}")
            self._connected.leave_agents(reversed(state.agents.names))
            for member in state.members:
                member.present = False
        return together

    def _session(self, number: int | None) -> SessionState:
        if number is None:
            return next(iter(self.sessions.values()))
        if number not in self.sessions:
            raise InputError(f"no session {among(number, self.sessions)}")
        return self.sessions[number]

    def _valid(self, state: str) -> str:
        found = [str(one) for one, its in self.sessions.items() if its.state == state]
        text = {"runs": "runs", "waits": "waits to be started"}[state]
        return f"{', '.join(found)}, which {text}" if found else f"no session {text}"

    @property
    def _connected(self) -> Controller:
        if self._reached is None:
            raise RunFailed("the lab is not running")
        return self._reached

    def _tick(self) -> int:
        """The time of a change that is made now."""
        return round(self.now_s() * 1e9) // TICK_NS * TICK_NS
