"""Starts the processes of a run in the nodes' namespaces, watches them and ends them.

The kernel kills each child when the lab dies (PR_SET_PDEATHSIG), so a killed lab leaves no process
behind, not even a stopped one. Programs that sleep between events run under SCHED_RR if the machine
allows it, so that other work on the machine does not delay packets.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiercast_lab.base.errors import RunFailed

# Imported for typing only: runs in virtual time do not need Mininet.
if TYPE_CHECKING:
    from tiercast_lab.run.mininet.network import NamespaceNode

GRACE_S = 3.0  # between SIGTERM and SIGKILL
POLL_S = 0.2
REAL_TIME = ["chrt", "--rr", "1"]


@dataclass(frozen=True)
class Turns:
    """The turns on the CPUs that all threads of a program have had since it started
    (/proc/PID/task/*/schedstat)."""

    count: int = 0
    ran_s: float = 0.0
    waited_s: float = 0.0  # time spent ready to run but without a CPU


@dataclass
class Child:
    name: str  # such as "tiercast-switch s1"
    process: subprocess.Popen[bytes]
    log: Path
    turns: Turns = Turns()  # as of the last poll
    expected_to_end: bool = False
    handles_sigterm: bool = True  # it ends with status 0 after SIGTERM
    users: bool = False  # a program of the user's: it may end by itself, with status 0
    nodes: tuple[str, ...] = ()  # that it runs, if they are several
    # Starts it again where it has been killed, and how often that is still done.
    again: Callable[[], subprocess.Popen[bytes]] | None = None
    restarts: int = 0
    ended: Turns = Turns()  # of its earlier processes


class Children:
    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.children: list[Child] = []
        self._name_of: dict[str, str] = {}  # by what a child runs
        self.real_time = real_time_allowed()

    def start(
        self,
        node: NamespaceNode | None,
        name: str,
        command: list[str],
        log: str,
        handles_sigterm: bool = True,
        users: bool = False,
        nodes: tuple[str, ...] = (),
        restarts: int = 0,
    ) -> Child:
        """Starts a command in the node's namespace (None: in this one), with its output in
        <logs>/<log>.log. A program of the `users` is not scheduled in real time, as it may never
        sleep. `check` starts it again, so many times at most, where it has been killed."""
        scheduling = REAL_TIME if self.real_time and not users else []
        path = self.logs / f"{log}.log"

        def start() -> subprocess.Popen[bytes]:
            begin: Callable[..., subprocess.Popen[bytes]] = _start if node is None else node.popen
            with path.open("ab") as output:
                return begin(
                    ["setpriv", "--pdeathsig", "KILL", *scheduling, *command],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )

        child = Child(
            name,
            start(),
            path,
            handles_sigterm=handles_sigterm,
            users=users,
            nodes=nodes,
            again=start,
            restarts=restarts,
        )
        self.children.append(child)
        for runs in (log, *nodes):
            self._name_of.setdefault(runs, name)
        return child

    def name_of(self, agent: str) -> str:
        """The name of the child that runs a node or a flow: its output goes to <logs>/<agent>.log,
        or it runs several nodes. What is no child, such as a switch that the lab did not start,
        keeps its name."""
        return self._name_of.get(agent, agent)

    def stopped(self, patience_s: float = 0.0) -> list[str]:
        """The names of the children that someone has stopped and that do not continue within
        `patience_s`."""
        deadline = time.monotonic() + patience_s
        while True:
            names = [
                child.name
                for child in self.children
                if any(state == "T" for state, _ in _threads(child.process.pid).values())
            ]
            if not names or time.monotonic() >= deadline:
                return names
            time.sleep(POLL_S)

    def hindered(self) -> str:
        """The children that cannot run: "stopped: …" or "ready, but without a CPU: …"; empty if all
        can. Polls twice, POLL_S apart."""
        before = {child.name: _threads(child.process.pid) for child in self.children}
        time.sleep(POLL_S)
        waiting = [
            child.name
            for child in self.children
            if any(
                state == "R" and before[child.name].get(thread) == (state, ran_ns)
                for thread, (state, ran_ns) in _threads(child.process.pid).items()
            )
        ]
        found = {"stopped": self.stopped(), "ready, but without a CPU": waiting}
        return "; ".join(f"{what}: {', '.join(names)}" for what, names in found.items() if names)

    def check(self) -> list[Child]:
        """Raises RunFailed if a child has ended during the run. One that somebody has killed is
        started again, if it may be; returns these. A crash is a fault of the program, and no reason
        to go on."""
        restarted = []
        for child in self.children:
            status = child.process.poll()
            may_end = child.expected_to_end or (child.users and status == 0)
            if status is None or may_end:
                continue
            if status != -signal.SIGKILL or not child.restarts or child.again is None:
                raise RunFailed(self.cause_of_end(child, status))
            child.restarts -= 1
            child.ended, child.turns = _sum(child.ended, child.turns), Turns()
            child.process = child.again()
            restarted.append(child)
        return restarted

    def cause_of_end(self, child: Child, status: int) -> str:
        how = (
            f"was ended by {signal.Signals(-status).name}"
            if status < 0
            else f"ended with exit status {status}"
        )
        lines = tail(child.log, 12)
        quoted = "\n".join(f"    {line}" for line in lines) or "    (it wrote nothing)"
        return f"{child.name} {how} while the run went on; the end of {child.log}:\n{quoted}"

    def turns(self) -> list[Turns]:
        """The turns of each child, in the order in which the children were started."""
        for child in self.children:
            now = _turns(child.process.pid)
            # The times of a thread that has ended are lost; the last known values then stay.
            if now.count >= child.turns.count:
                child.turns = now
            if child.users:  # how long it waits for a CPU says nothing about the emulation
                child.turns = replace(child.turns, waited_s=0.0)
        return [_sum(child.ended, child.turns) for child in self.children]

    def stop(self, grace_s: float = GRACE_S) -> list[str]:
        """Ends all children with SIGTERM, then SIGKILL. Returns a complaint about each that did not
        end with status 0."""
        running = [child for child in self.children if child.process.poll() is None]
        for child in running:
            child.expected_to_end = True
            child.process.terminate()
        deadline = time.monotonic() + grace_s
        complaints = []
        for child in running:
            try:
                status = child.process.wait(max(0.0, deadline - time.monotonic()))
                if status != 0 and child.handles_sigterm:
                    complaints.append(f"{child.name} ended with status {status} after SIGTERM")
            except subprocess.TimeoutExpired:
                _give_up_real_time(child.process.pid)
                # Each child leads its own process group, so everything that it started is killed
                # with it.
                os.killpg(child.process.pid, signal.SIGKILL)
                child.process.wait()
                complaints.append(f"{child.name} did not end within {grace_s:g} s of SIGTERM")
        self.children.clear()
        self._name_of.clear()
        return complaints


def _start(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
    """As a node's popen: in a process group of its own."""
    return subprocess.Popen(command, start_new_session=True, **options)


def real_time_allowed() -> bool:
    # The test process sleeps. A busy one would wait for its turn behind others.
    process = subprocess.Popen(["sleep", "60"])
    try:
        os.sched_setscheduler(process.pid, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        return False
    else:
        _give_up_real_time(process.pid)
        return True
    finally:
        process.kill()
        process.wait()


def _give_up_real_time(pid: int) -> None:
    """Returns the process to normal scheduling, so that it gets its share of the CPUs, for example
    to end, while others take them in real time."""
    for thread in _thread_ids(pid):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(int(thread), os.SCHED_OTHER, os.sched_param(0))


def _thread_ids(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []  # the process has ended


def _threads(pid: int) -> dict[str, tuple[str, int]]:
    """The state (R: ready or running, T: stopped) and the CPU time, in ns, of each thread."""
    result = {}
    for thread in _thread_ids(pid):
        with contextlib.suppress(OSError):
            stat = Path(f"/proc/{pid}/task/{thread}/stat").read_text()
            ran = Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[0]
            result[thread] = stat.rpartition(") ")[2][0], int(ran)
    return result


def _sum(a: Turns, b: Turns) -> Turns:
    return Turns(a.count + b.count, a.ran_s + b.ran_s, a.waited_s + b.waited_s)


def _turns(pid: int) -> Turns:
    ran = waited = turns = 0
    for thread in _thread_ids(pid):
        try:
            with open(f"/proc/{pid}/task/{thread}/schedstat") as file:
                on_cpu, on_queue, count = file.read().split()
        except OSError:
            continue
        ran += int(on_cpu)
        waited += int(on_queue)
        turns += int(count)
    return Turns(turns, ran / 1e9, waited / 1e9)


def tail(path: Path, lines: int) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()[-lines:]
    except OSError:
        return []
