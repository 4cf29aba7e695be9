"""What every command of the command line keeps to: its help has examples, wrong arguments get one
line, output that nobody reads is no error, and --json prints JSON alone. The commands are found in
the application, so a new one is tested as soon as it is there."""

from __future__ import annotations

import enum
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest
import typer
from tiercast.v1 import sender_pb2, sender_pb2_grpc, session_pb2
from tiercast_lab.base import binaries
from tiercast_lab.base.errors import EXIT_INPUT, EXIT_MET, EXIT_UNREAD
from tiercast_lab.cli.controller import Unread
from tiercast_lab.cli.main import app, main
from tiercast_lab.show.docs_pages import runtimes as runtimes_page
from typer.core import TyperCommand, TyperGroup

from ..checkout import ROOT

pytestmark = pytest.mark.slow  # its tests start commands


def _commands(group: TyperGroup, *above: str) -> Iterator[tuple[str, TyperCommand]]:
    for name, one in group.commands.items():
        if isinstance(one, TyperGroup):
            yield from _commands(one, *above, name)
        else:
            yield " ".join((*above, name)), one


COMMANDS = dict(_commands(typer.main.get_command(app)))
every_command = pytest.mark.parametrize("command", COMMANDS)
# The controller's program reads the arguments of `tiercast controller` itself, and says of them
# what argparse says (test_stand_alone.py).
own_arguments = pytest.mark.parametrize(
    "command", [name for name, one in COMMANDS.items() if not isinstance(one, Unread)]
)

# What a command needs besides the argument that a test is about.
NEEDED = {
    "receiver": ["h1"], "at": ["1s"], "sender": ["unix:/no/such/socket"], "device": ["d.yaml"],
}  # fmt: skip
NOT_THERE = "no-such-place.yaml"


def options_of(command: str) -> list[Any]:
    return [one for one in COMMANDS[command].params if one.param_type_name == "option"]


def is_choice(option: Any) -> bool:
    annotation = option.type_descriptor.annotation
    return isinstance(annotation, type) and issubclass(annotation, enum.Enum)


def needed_by(command: str) -> list[str]:
    """The options that the command cannot do without."""
    needed = [one for one in options_of(command) if one.required]
    return [text for one in needed for text in (one.opts[0], *NEEDED[one.name])]


Said = tuple[int, str, str]  # exit status, standard output, standard error
Call = Callable[..., Said]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Call:
    """Calls tiercast with arguments."""

    def called(*arguments: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["tiercast", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code, *capfd.readouterr()

    return called


def require_refused(said: Said, *texts: str) -> None:
    """One line on standard error, which has these texts and says what is valid."""
    status, out, error = said
    assert (status, out) == (EXIT_INPUT, ""), error
    assert error.count("\n") == 1 and error.startswith("tiercast: "), error
    for text in (*texts, "valid: "):
        assert text in error


# ------------------------------------------------------------------------------------------- help


@every_command
def test_help_has_examples_that_the_command_takes(command: str, call: Call) -> None:
    status, out, error = call(*command.split(), "--help")
    assert (status, error) == (EXIT_MET, "")
    assert "Examples:" in out
    heading, *examples = filter(None, COMMANDS[command].epilog.split("\n"))
    assert heading == "Examples:" and examples
    for example in examples:
        program, *words = shlex.split(example.rpartition("|")[2])
        name = command.split()
        assert [program, *words[: len(name)]] == ["tiercast", *name]
        COMMANDS[command].make_context(command, words[len(name) :])  # raises if it is refused


# -------------------------------------------------------------------------------- wrong arguments


@own_arguments
def test_an_unknown_option_is_refused_with_those_there_are(command: str, call: Call) -> None:
    known = [one.opts[0] for one in options_of(command)]
    require_refused(call(*command.split(), "--no-such-option"), "'--no-such-option'", *known)


@own_arguments
def test_what_is_missing_is_named(command: str, call: Call) -> None:
    for one in COMMANDS[command].params:
        if one.param_type_name == "option" and not one.is_flag:
            require_refused(call(*command.split(), one.opts[0]), one.opts[0])
    if needed := [one for one in COMMANDS[command].params if one.required]:
        said = call(*command.split())
        require_refused(said)
        names = [one.get_error_hint().replace("'", "") for one in needed]
        assert any(f"{command}: {name} is missing; valid: " in said[2] for name in names)


@own_arguments
def test_what_does_not_exist_is_named(command: str, call: Call, tmp_path: Path) -> None:
    arguments = [one for one in COMMANDS[command].params if one.param_type_name == "argument"]
    # Commands without arguments refuse any.
    word = str(tmp_path) if command == "keys" else NOT_THERE  # it makes what does not exist
    words = [word] * max(1, sum(one.required for one in arguments))
    require_refused(call(*command.split(), *words, *needed_by(command)), word)


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (command, one.opts[0])
        for command in COMMANDS
        for one in options_of(command)
        # Others take texts, whose values test_bad_input.py tries.
        if getattr(one, "min", None) is not None or is_choice(one)
    ],
)
def test_a_value_that_is_none_is_refused(command: str, option: str, call: Call) -> None:
    require_refused(call(*command.split(), option, "no-such"), f"{option}: 'no-such'")


def test_an_unknown_command_is_refused_with_those_there_are(call: Call) -> None:
    require_refused(call("repot"), "no command 'repot'", "did you mean 'report'?")
    require_refused(call("sessions", "lst"), "sessions: no command 'lst'", "list, start, change")
    require_refused(call("--no-such-option"), "'--no-such-option'", "--version")
    require_refused(call("list", "--json=5"), "Option '--json' does not take a value")
    for words in ([], ["sessions"]):  # the help instead
        status, out, error = call(*words)
        assert (status, error) == (EXIT_INPUT, "") and "Usage: tiercast" in out


# --------------------------------------------------------------------------- output, and its reader

PAIR = """\
title: Two receivers
topology: {tree: {depth: 1}, link: {rate: 1Mbit/s, delay: 5ms, queue: 20p}}
sessions: [{scheme: sim, sender: 0, layers: 1}]
duration: 3s
"""
FIGURE = """\
paper: {name: None, figure: "0"}
figure: {points: [{x: 1, set: {sim.delta: 0.9}}], seeds: [1]}
"""
NUMBERS = """\
numbers:
  - name: one.number
    value: "0.9"
    before: –
    otherwise: the default
    commit: "0000000"
    why: of this test
    set: {sim.delta: 0.8}
    figures: [FIGURE]
"""
# Rings that return their own frames, which no test of multicast is made on.
DEVICE = """\
ports: [{device: net_ring, address: 10.0.0.2}, {device: net_ring, address: 10.0.1.2}]
multicast: false
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of an experiment, a figure, numbers and a device, and two runs in results/."""
    folder = tmp_path_factory.mktemp("commands")
    (folder / "figures").mkdir()
    (folder / "pair.yaml").write_text(PAIR)
    (folder / "figures/figure.yaml").write_text(PAIR + FIGURE)
    numbers = NUMBERS.replace("FIGURE", str(folder / "figures/figure.yaml"))
    (folder / "numbers.yaml").write_text(numbers)
    (folder / "device.yaml").write_text(DEVICE)
    for seed in ("1", "2"):
        command = [ROOT / "tiercast", "run", "pair.yaml", "--runtime", "ns3", "--seed", seed]
        subprocess.run([*command, "--results", "results"], cwd=folder, check=True)
    return folder


@pytest.fixture
def sender(tmp_path: Path) -> Iterator[str]:
    """The address of a sender that has a session of one layer."""

    class Sender(sender_pb2_grpc.SenderServicer):
        def ListSessions(self, request: Any, context: Any) -> sender_pb2.ListSessionsResponse:
            layers = [sender_pb2.LayerState(rank=0, rate_Bps=125.0, sent_packets=1 << 60)]
            session = session_pb2.SessionSpec(session=7, count=1, scheme="sim")
            state = sender_pb2.SessionState(session=session, layers=layers)
            return sender_pb2.ListSessionsResponse(time_ns=5, sessions=[state])

    server = grpc.server(futures.ThreadPoolExecutor(1))
    sender_pb2_grpc.add_SenderServicer_to_server(Sender(), server)
    server.add_insecure_port(f"unix:{tmp_path}/sender")
    server.start()
    yield f"unix:{tmp_path}/sender"
    server.stop(None).wait()


# Arguments with which each command that has --json prints something. RUN and OTHER are the runs'
# folders, SENDER is an address, and DIR is a new folder.
PRINTS = {
    "run": "pair.yaml --runtime ns3 --results DIR",
    "figure": "figures/figure.yaml --jobs 1 --results DIR",
    "reproduce": "--jobs 1 --results DIR",
    "runtimes": "--results DIR",
    "marking": "threshold --seconds 1 --flows 0 --results DIR",
    "bench": "--device DEVICE --only capacity --results DIR",
    "calibrated": "--jobs 1 --results DIR",
    "list": "",
    "schemes": "sim",
    "measures": "",
    "doctor": "",
    "clean": "--dry-run",
    "report": "RUN",
    "explain": "RUN --receiver h1 --at 2s",
    "compare": "RUN OTHER --results DIR",
    "rerun": "RUN --results DIR",
    "export": "RUN --csv --to DIR",
    "sessions list": "--sender SENDER",
}
# Has --json, too; it is called by test_sweeps.py alone, since Ray takes long to start.
ELSEWHERE = {"sweep"}
# A prompt, servers, and what has no results.
NO_JSON = {
    *("lab", "watch", "controller", "keys"),
    *("sessions keys", "sessions start", "sessions change", "sessions stop"),
}
# Those that make no run.
QUICK = [name for name in PRINTS if not {"--jobs", "--runtime"} & set(PRINTS[name].split())]


def arguments(command: str, folder: Path, new: Path, sender: str) -> list[str]:
    run, other = sorted(str(one.resolve()) for one in folder.glob("results/2*"))
    words = {"RUN": run, "OTHER": other, "SENDER": sender, "DIR": str(new / "new")}
    words["DEVICE"] = str(folder / "device.yaml")
    return [*command.split(), *(words.get(one, one) for one in PRINTS[command].split())]


def test_every_command_has_json_or_a_reason_not_to() -> None:
    having = {name for name in COMMANDS if any(one.name == "as_json" for one in options_of(name))}
    assert having == PRINTS.keys() | ELSEWHERE and COMMANDS.keys() - having == NO_JSON


@pytest.mark.parametrize("command", PRINTS)
def test_json_is_all_that_is_printed(
    command: str,
    folder: Path,
    call: Call,
    sender: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(binaries, "FIGURES", folder / "figures")
    monkeypatch.setattr(binaries, "CALIBRATED", folder / "numbers.yaml")
    monkeypatch.setattr(runtimes_page, "PAGE", tmp_path / "runtimes.md")
    monkeypatch.setattr(runtimes_page, "RECORDS", tmp_path / "runtimes.json")
    status, out, error = call(*arguments(command, folder, tmp_path, sender), "--json")
    # A machine that cannot run experiments is a finding of the doctor's.
    assert status == EXIT_MET or command == "doctor", error
    assert json.loads(out), error
    assert "Traceback" not in error


@every_command
def test_output_that_nobody_reads_is_no_error(
    command: str, folder: Path, sender: str, tmp_path: Path
) -> None:
    of_it = arguments(command, folder, tmp_path, sender) if command in QUICK else []
    for words in filter(None, ([*command.split(), "--help"], of_it)):
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer) as out:
            done = subprocess.run(
                [ROOT / "tiercast", *words], stdout=out, stderr=subprocess.PIPE, text=True
            )
        assert (done.returncode, done.stderr) == (EXIT_UNREAD, ""), words
