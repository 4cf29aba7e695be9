"""The prompt of `tiercast lab`: Mininet's own, with what can be done to sessions and links."""

from __future__ import annotations

import contextlib
import inspect
import math
import os
import re
import select
import shlex
import shutil
import sys
import termios
import time
from cmd import Cmd
from collections.abc import Iterable, Iterator
from typing import Any

from mininet.cli import CLI
from mininet.log import lg
from mininet.net import Mininet
from rich.console import Console
from rich.table import Table
from tiercast_controller.base import units

from tiercast_lab.base.errors import InputError, LabError, among
from tiercast_lab.experiment.yaml_source import read_value
from tiercast_lab.results.explain.receiver import explain
from tiercast_lab.results.explain.snapshot import snapshot_at
from tiercast_lab.results.storage import load_run, reading
from tiercast_lab.run.mininet.lab import Lab, SessionState
from tiercast_lab.run.mininet.network import Network
from tiercast_lab.show.run_progress import progress_line

PROMPT = "tiercast> "
PREFIX = 24  # of a host's subnet
POLL_S = 0.05
LINK_KEYS = ("rate", "delay", "queue", "loss", "jitter", "reorder", "duplicate")
# Mininet's commands for what a lab does not have: switches that speak OpenFlow.
NOT_HERE = ("dpctl", "ports", "switch")

HELP = """\
sessions                     every session: its state, and who is in it
start [SESSION]              start a session, or all that wait
stop [SESSION]               stop a session for good, or all that run
leave h3 [SESSION]           a receiver leaves a session; without a number, the first
join h3 [SESSION]            ... and joins it again
link 1-3 down                a link fails; link 1-3 up: it returns
link 1-3 rate 2Mbit/s        it changes; also delay 20ms, queue 20p, loss 2%, jitter 1ms,
                             duplicate 1%, several at once; 1>3 is one direction
explain h3                   why its rate is what it is
status                       rates, subscribers, queues, and whether the machine keeps up
wait 5s                      let time pass
h3 ping h4                   any command on a host or switch; names become addresses
pingall, iperf h3 h4         Mininet's; xterm h3, nodes, net, intfs, dump, sh, py, source, time
help COMMAND                 more about one
exit                         or Ctrl-D: end the lab and write its report; Ctrl-C: cancel the line

Times, rates and queues are written as in an experiment. What you change is stored as its timed
events, so the lab can be run again.
"""


class Script(InputError):
    """A line of a script was refused."""


class LabNet(Mininet):
    """A network that is there already, as Mininet's commands want to have it."""

    def __init__(self, network: Network) -> None:
        # Mininet's own would make another network.
        self.hosts = [network.nodes[name] for name in network.topology.hosts]
        self.switches = [network.nodes[name] for name in network.topology.switches]
        self.controllers: list[Any] = []
        self.links = network.links
        self.nameToNode = dict(network.nodes)
        self.terms: list[Any] = []
        for name, node in network.nodes.items():
            node.name = name  # without the run's id
        for host in network.topology.hosts.values():
            interface = network.nodes[host.name].defaultIntf()
            interface.ip, interface.prefixLen = host.address, PREFIX

    def ping(self, hosts: Any = None, timeout: str | None = None) -> Any:
        if shutil.which("ping") is None:
            raise InputError("ping is not in PATH; install: iputils-ping")
        return super().ping(hosts, timeout)


class LabConsole(CLI):
    prompt = PROMPT

    def __init__(self, lab: Lab, console: Console) -> None:
        assert lab.network is not None  # the lab runs
        Cmd.__init__(self)
        for handler in lg.handlers:  # what Mininet's commands say is their result, not an error
            handler.stream = sys.stdout
        self.mn = LabNet(lab.network)
        self.locals = {"net": self.mn}
        self.inputFile = None
        self._lab = lab
        self._console = console
        self._typed = ""  # the line that is being carried out

    # ----------------------------------------------------------------------------------- the loop

    def interact(self) -> None:
        """Reads lines from the terminal until `exit` or Ctrl-D."""
        import readline  # noqa: F401  # input() then edits lines and has a history

        before = termios.tcgetattr(sys.stdin)
        while True:
            try:
                self.cmdloop()
                return
            except KeyboardInterrupt:
                self._end_commands()
                print()
            finally:
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)

    def read(self, lines: Iterable[str], place: str) -> None:
        """Carries out the lines of a script. Raises Script for the first that is refused."""
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            print(f"{PROMPT}{line.rstrip()}", flush=True)
            try:
                if self._carry_out(line):
                    return
            except InputError as error:
                raise Script(f"{place}, line {number}: {error}") from None

    def onecmd(self, line: str) -> Any:
        try:
            return self._carry_out(line)
        except LabError as error:
            print(f"error: {error}", file=sys.stderr)
            return None

    def _carry_out(self, line: str) -> Any:
        self._typed = line = self.precmd(line).strip()
        try:
            return super().onecmd(line)
        except SystemExit:  # Mininet's, of a ping that was answered too often
            return None
        finally:
            sys.stdout.flush()

    def _end_commands(self) -> None:
        """Ends what still runs in the nodes."""
        for node in self.mn.values():
            while node.waiting:
                node.sendInt()
                node.waitOutput()

    def default(self, line: str) -> None:
        name = line.split()[0]
        if name not in self.mn:
            commands = [one[3:] for one in self.get_names() if one.startswith("do_")]
            raise InputError(f"no command or node {among(name, [*commands, *self.mn])}")
        if len(line.split()) == 1:
            raise InputError(f"{name}: no command; valid: such as {name} ip address")
        super().default(line)

    def waitForNode(self, node: Any) -> None:
        """Shows what a command in a node says until it ends, and passes on what is typed."""
        with _unbuffered() as typed:
            poller = select.poll()
            for readable in (node.stdout.fileno(), *typed):
                poller.register(readable, select.POLLIN)
            while node.waiting:
                try:
                    for readable, _ in poller.poll():
                        if readable in typed:
                            node.write(os.read(readable, 1).decode(errors="replace"))
                        else:
                            print(node.monitor(), end="", flush=True)
                except KeyboardInterrupt:
                    node.sendInt()

    def get_names(self) -> list[str]:
        hidden = {f"do_{name}" for name in NOT_HERE}
        return [name for name in super().get_names() if name not in hidden]

    # ------------------------------------------------------------------------------------ commands

    def do_help(self, line: str) -> None:
        """help [COMMAND]: what there is, or more about one command."""
        method = getattr(self, f"do_{line.strip()}", None)
        if line.strip() and method is None:
            raise InputError(f"no command {among(line.strip(), self._commands())}")
        print(HELP if method is None else inspect.cleandoc(method.__doc__ or line), end="")
        print() if method else None

    def do_sessions(self, line: str) -> None:
        """sessions: number, scheme, state, sender, and who is in it and who is not."""
        self._arguments(line, 0, 0)
        table = Table(box=None, header_style="bold")
        for name in ("session", "scheme", "state", "sender", "members", "absent"):
            table.add_column(name, justify="right" if name == "session" else "left")
        for number, state in self._lab.do(_sessions).items():
            members = [one for one in state.members if one.present]
            absent = [one for one in state.members if not one.present]
            table.add_row(
                str(number),
                state.session.scheme,
                _state(state),
                f"h{state.session.sender}",
                " ".join(f"h{one.node}" for one in members),
                " ".join(f"h{one.node}" for one in absent),
            )
        self._console.print(table)

    def do_start(self, line: str) -> None:
        """start [SESSION]: starts a session that waits, or all that do. Its receivers join at a
        random moment of the next 100 ms."""
        number = self._number(self._arguments(line, 0, 1))
        self._say_sessions("started", self._lab.do(lambda live: live.start(number, self._typed)))

    def do_stop(self, line: str) -> None:
        """stop [SESSION]: stops a session, or all that run, for good: its receivers leave, and a
        sender that has left cannot start again."""
        number = self._number(self._arguments(line, 0, 1))
        self._say_sessions("stopped", self._lab.do(lambda live: live.stop(number, self._typed)))

    def do_join(self, line: str) -> None:
        """join HOST [SESSION]: a receiver joins a session, by default the first: join h3"""
        self._member(line, joins=True)

    def do_leave(self, line: str) -> None:
        """leave HOST [SESSION]: a receiver leaves a session, by default the first: leave h3"""
        self._member(line, joins=False)

    def _member(self, line: str, joins: bool) -> None:
        host, *rest = self._arguments(line, 1, 2)
        if not re.fullmatch("h?[0-9]{1,6}", host):
            raise InputError(f"{self._typed}: {host!r}; valid: a host, such as h3")
        node, number = int(host.removeprefix("h")), self._number(rest)
        at_s = self._lab.do(lambda live: live.join(node, number, joins, self._typed))
        print(f"{at_s:.3f} s: h{node} {'joins' if joins else 'leaves'}")

    def do_link(self, line: str) -> None:
        """link LINK up|down
        link LINK KEY VALUE ...: rate, delay, queue, loss, jitter, reorder, duplicate

        Changes both directions of a link, such as 1-3 (or s1 s3), or one, such as 1>3:
          link 1-3 down
          link 1-3 up
          link 1-3 rate 2Mbit/s delay 20ms
          link 1>3 loss 2%
        """
        link, keys = link_change(self._split(line), self.mn, self._typed)
        changes = {"link": link, **keys}
        at_s = self._lab.do(lambda live: live.change_link(changes, self._typed))
        print(f"{at_s:.3f} s: {self._typed}")

    def do_explain(self, line: str) -> None:
        """explain RECEIVER [TIME]: why its rate is, or was, what it is: explain h3"""
        receiver, *when = self._arguments(line, 1, 2)
        assert self._lab.folder is not None  # the lab runs
        with reading(self._lab.folder):
            run = load_run(self._lab.folder)
            now = when or [f"{math.floor(1000 * run.end_s) / 1000}"]
            lines = explain(snapshot_at(run, receiver, *now))
        # The first lines of an unfinished run say that it is one.
        print("\n".join(line for line in lines if not any(one in line for one in run.reasons)))

    def do_status(self, line: str) -> None:
        """status: time, rates of the layers and their subscribers, queues, packets that were
        dropped, and whether the machine keeps up."""
        self._arguments(line, 0, 0)
        print(progress_line(self._lab.do(_progress)))

    def do_wait(self, line: str) -> None:
        """wait TIME: lets time pass: wait 5s"""
        [text] = self._arguments(line, 1, 1)
        try:
            end = time.monotonic() + units.parse_duration(text) / 1e9
        except ValueError as error:
            raise InputError(f"{self._typed}: {error}") from None
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, POLL_S))

    # ------------------------------------------------------------------------------------- helpers

    def _commands(self) -> list[str]:
        return [name[3:] for name in self.get_names() if name.startswith("do_")]

    def _split(self, line: str) -> list[str]:
        try:
            return shlex.split(line)
        except ValueError as error:
            raise InputError(f"{self._typed}: {error}") from None

    def _arguments(self, line: str, least: int, most: int) -> list[str]:
        words = self._split(line)
        if not least <= len(words) <= most:
            usage = inspect.cleandoc(self._documentation()).partition(":")[0]
            raise InputError(f"{self._typed}: {len(words)} arguments; valid: {usage}")
        return words

    def _documentation(self) -> str:
        method = getattr(self, f"do_{self._typed.split()[0]}")
        return str(method.__doc__)

    def _number(self, words: list[str]) -> int | None:
        if not words:
            return None
        if not re.fullmatch("[0-9]{1,6}", words[0]):
            raise InputError(f"{self._typed}: {words[0]!r}; valid: a session's number")
        return int(words[0])

    def _say_sessions(self, what: str, numbers: list[int]) -> None:
        several = "s" if len(numbers) > 1 else ""
        print(f"{what}: session{several} {', '.join(map(str, numbers))}")


def link_change(words: list[str], nodes: Any, typed: str) -> tuple[str, dict[str, Any]]:
    """The link and the keys of the event that a line asks for. Raises InputError."""
    if len(words) > 1 and words[0] in nodes and words[1] in nodes:  # as Mininet has it
        words = [f"{words[0][1:]}-{words[1][1:]}", *words[2:]]
    valid = f"up, down, or {', '.join(LINK_KEYS)} with a value"
    if len(words) < 2:
        raise InputError(f"{typed}: valid: link 1-3 and {valid}")
    link, *rest = words
    keys: dict[str, Any] = {}
    while rest:
        word = rest.pop(0)
        if word in ("up", "down"):
            keys["up"] = word == "up"
        elif word in LINK_KEYS and rest:
            keys[word] = read_value(rest.pop(0), typed)
        elif word in LINK_KEYS:
            raise InputError(f"{typed}: {word} has no value")
        else:
            raise InputError(f"{typed}: {among(word, ['up', 'down', *LINK_KEYS])}")
    return link, keys


async def _sessions(live: Any) -> dict[int, SessionState]:
    found: dict[int, SessionState] = live.sessions
    return found


async def _progress(live: Any) -> Any:
    return live.run_.progress


def _state(state: SessionState) -> str:
    at_s = state.stopped if state.stopped is not None else state.started
    return state.state if at_s is None else f"{state.state} since {at_s:.1f} s"


@contextlib.contextmanager
def _unbuffered() -> Iterator[tuple[int, ...]]:
    """The terminal's file descriptor, which then passes on each key at once; nothing where standard
    input is no terminal."""
    if not sys.stdin.isatty():
        yield ()
        return
    before = termios.tcgetattr(sys.stdin)
    keys = termios.tcgetattr(sys.stdin)
    keys[3] &= ~termios.ICANON
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, keys)
    try:
        yield (sys.stdin.fileno(),)
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
