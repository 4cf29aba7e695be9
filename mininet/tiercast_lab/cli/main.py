"""The command line: its commands, and what becomes of their errors."""

from __future__ import annotations

import inspect
import os
import shlex
import sys
import traceback
from typing import TYPE_CHECKING, Annotated

import typer
from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.base.installation import VERSION
from tiercast_controller.base.plugins import fault
from tiercast_controller.usage import EXAMPLES as CONTROLLER_EXAMPLES
from typer.core import TyperCommand
from typer.exceptions import TyperException

from tiercast_lab.base.errors import (
    EXIT_FAULT,
    EXIT_INPUT,
    EXIT_MET,
    EXIT_UNREAD,
    LabError,
    require_characters,
)
from tiercast_lab.cli import catalogue, lab, sessions, stored_runs, studies
from tiercast_lab.cli.bench import bench
from tiercast_lab.cli.clean import clean
from tiercast_lab.cli.controller import Unread, controller
from tiercast_lab.cli.keys import keys
from tiercast_lab.cli.marking import marking
from tiercast_lab.cli.output import (
    OutputError,
    console,
    examples,
    name_output_errors,
    typed,
)
from tiercast_lab.cli.refusals import Commands, refusal
from tiercast_lab.cli.run import run
from tiercast_lab.cli.runtimes import runtimes
from tiercast_lab.cli.watch import watch

if TYPE_CHECKING:
    from collections.abc import Callable

app = typer.Typer(
    name="tiercast",
    cls=Commands,
    help="A laboratory for multicast congestion control on programmable networks.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(sessions.app, name="sessions")


def _version(wanted: bool) -> None:
    if wanted:
        console.print(f"tiercast {VERSION}", highlight=False)
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def _add(
    command: Callable[..., None],
    *lines: str,
    name: str | None = None,
    cls: type[TyperCommand] = TyperCommand,
) -> None:
    """A command, and the examples that its help ends with."""
    app.command(name, cls=cls, epilog=examples(*lines))(command)


_add(
    run,
    "tiercast run sim-session --runtime ns3",
    "tiercast run sim-aggregation --runtime ns3 --threads 2 --set topology.tree.depth=10",
    "tiercast run my.yaml --duration 60s --set sim.delta=0.9",
    "tiercast run sim-smoke --runtime ns3 --json",
    "tiercast run my.yaml --switch p4runtime://192.0.2.7:9559 --ports ports.yaml",
)
_add(
    studies.figure,
    "tiercast figure sim-2",
    "tiercast figure rmcc-3 --quick --jobs 1",
    "tiercast figure sim-2 --runtime mininet",
    "tiercast figure my-figure.yaml --json",
)
_add(
    studies.reproduce,
    "tiercast reproduce --quick",
    "tiercast reproduce --paper RLA",
    "tiercast reproduce --jobs 1 --results /data/results",
)
_add(runtimes, "tiercast runtimes", "tiercast runtimes sim-2 --run")
_add(
    bench,
    "tiercast bench --device my-switch.yaml",
    "tiercast bench --device embedded.yaml --quick --only aggregated --only join-delay",
)
_add(marking, "tiercast marking", "tiercast marking codel '{kind: red, gentle: true}'")
_add(
    studies.calibrated,
    "tiercast calibrated sim.delta mlda.initial_increase",
    "tiercast calibrated --record",
)
_add(
    studies.sweep,
    "tiercast sweep matrix --quick",
    "tiercast sweep matrix --only scheme=sim --only scheme=tfmcc",
    "tiercast sweep my-sweep.yaml --jobs 1 --results /data/results",
    "tiercast sweep matrix --address auto",
    "tiercast sweep my-sweep.yaml --runtime mininet",
)
_add(catalogue.list_experiments, "tiercast list", "tiercast list my --json", name="list")
_add(catalogue.schemes, "tiercast schemes", "tiercast schemes sim --json")
_add(catalogue.measures, "tiercast measures", "tiercast measures --json")
_add(catalogue.doctor, "tiercast doctor", "tiercast doctor --dpdk")
_add(clean, "tiercast clean --dry-run", "tiercast clean")
_add(
    keys,
    "tiercast keys lab-keys",
    "tiercast keys lab-keys --host lab.example --host 192.0.2.7 --days 30",
)
_add(controller, *(f"tiercast controller {one}" for one in CONTROLLER_EXAMPLES), cls=Unread)
stored_runs.add_to(app)
lab.add_to(app)
_add(
    watch,
    "tiercast watch",
    "tiercast watch sim-session --listen 127.0.0.1:8000",
    "tiercast watch --listen 0.0.0.0 --tls lab-keys",
)


def _unwrapped(text: str) -> str:
    """Joins each paragraph into one line, because help is folded to the terminal's width."""
    return "\n\n".join(part.replace("\n", " ") for part in inspect.cleandoc(text).split("\n\n"))


for _command in app.registered_commands:
    if _command.callback is not None and _command.callback.__doc__ is not None:
        _command.help = _unwrapped(_command.callback.__doc__)


def main() -> None:
    """Prints an expected error as one text on standard error. An unexpected one gets a stack trace,
    and a text that says that it is a bug."""
    name_output_errors()
    try:
        status = _run()
        sys.stdout.flush()
    except BrokenPipeError:
        status = _unread()
    except OutputError as error:
        print(
            f"tiercast: standard output: {error.strerror or error}; valid: a file or terminal that "
            "can be written to",
            file=sys.stderr,
        )
        _drop_output()
        status = EXIT_INPUT
    except SystemExit as end:
        # Rich has turned the error into this one.
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        status = _unread()
    sys.exit(status)


def _run() -> int:
    """Runs the command that was typed. Returns its exit status."""
    try:
        for argument in sys.argv:
            require_characters(argument)
        return app(prog_name="tiercast", standalone_mode=False) or EXIT_MET
    except LabError as error:
        print(f"tiercast: {error}", file=sys.stderr)
        return error.exit_status
    except ConfigurationError as error:  # from a file that the environment names
        print(f"tiercast: {error}", file=sys.stderr)
    except TyperException as error:
        # Without arguments, help has been shown instead.
        if said := refusal(error):
            print(f"tiercast: {said}", file=sys.stderr)
    except (BrokenPipeError, OutputError):
        raise
    except Exception as error:
        if place := fault(error):  # in a file that the environment names
            print(f"tiercast: {place}", file=sys.stderr)
            return EXIT_INPUT
        traceback.print_exc()
        print(
            f"tiercast: {type(error).__name__}: a bug in tiercast, not in your input; please "
            f"report it with the lines above, the input file, and: {shlex.join(typed())}",
            file=sys.stderr,
        )
        return EXIT_FAULT
    return EXIT_INPUT


def _unread() -> int:
    """The status is not 1, which is a verdict, but says that the reader of the output has gone."""
    _drop_output()
    return EXIT_UNREAD


def _drop_output() -> None:
    """What is left in the buffers cannot be written; Python would complain of that as it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
