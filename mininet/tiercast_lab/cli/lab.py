"""`tiercast lab`: an experiment that goes on, with a prompt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from tiercast_controller.base import units

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import InputError
from tiercast_lab.base.folders import resolved
from tiercast_lab.cli.capture import Capture, CaptureBytes, CaptureSnaplen, capture_options
from tiercast_lab.cli.output import Results, console, examples, say, typed

if TYPE_CHECKING:
    from tiercast_lab.experiment.loaded_experiment import LoadedExperiment

LONGEST = "120min"
EXAMPLES = examples(
    "tiercast lab sim-smoke",
    "tiercast lab my.yaml --idle",
    "echo 'link 1-3 down' | tiercast lab sim-smoke",
    "tiercast lab sim-smoke --script commands.txt",
)


def lab(
    experiment: Annotated[
        str,
        typer.Argument(
            metavar="EXPERIMENT",
            help="A YAML file, or a name from `tiercast list`.",
            autocompletion=lambda incomplete: [
                one for one in binaries.names("run") if one.startswith(incomplete)
            ],
        ),
    ],
    script: Annotated[
        Path | None, typer.Option(help="Read commands from this file, then end.")
    ] = None,
    idle: Annotated[
        bool,
        typer.Option(
            "--idle", help="Only the network: sessions wait for `start`; no traffic, no events."
        ),
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Seed of all random numbers.")
    ] = 1,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="As for `tiercast run`; repeatable."),
    ] = None,
    longest: Annotated[
        str, typer.Option(metavar="TIME", help="The lab ends by itself after this time.")
    ] = LONGEST,
    results: Results = binaries.RESULTS,
    capture: Capture = None,
    capture_bytes: CaptureBytes = None,
    capture_snaplen: CaptureSnaplen = None,
) -> None:
    """Run an experiment in Mininet until you leave it, and change it at a prompt.

    `help` at the prompt lists the commands: links fail and change, receivers leave and join,
    sessions start and stop, hosts ping each other, and Mininet's own work, too. Without a terminal
    the commands are read from standard input. At the end the run is stored with its report, and
    with all changes as an experiment that can be run again. Nothing is expected of it. Exit status:
    0, 2 bad input (a script ends at its first refused line), 3 the machine could not keep up, 4 a
    program of the run ended too early, 130 interrupted.
    """
    from tiercast_lab.base.machine import require_root
    from tiercast_lab.cli.doctor import require_kernel
    from tiercast_lab.cli.lab_terminal import run_lab
    from tiercast_lab.experiment.loading import experiment_of, load_experiment, without_effect
    from tiercast_lab.experiment.schemes import known_schemes, require_accepted
    from tiercast_lab.experiment.yaml_source import Source
    from tiercast_lab.run.execute import Options
    from tiercast_lab.run.typed_changes import TypedChanges, lab_data

    require_root()
    if script is not None and not script.is_file():
        raise InputError(f"--script {script}: no such file; valid: a file of commands")
    try:
        longest_ns = units.parse_duration(longest)
    except ValueError as error:
        raise InputError(f"--longest: {error}") from None
    file, schemes = binaries.find("run", experiment), known_schemes()
    given = load_experiment(file, schemes, settings)
    require_accepted(given)
    require_kernel()

    def load(source: Source) -> LoadedExperiment:
        return experiment_of(replace(source, files=given.sources), file, schemes)

    loaded = load(Source(lab_data(given.data, longest_ns, idle), {(): str(file)}))
    for text in (*loaded.notes, *without_effect(given, settings or [], schemes)):
        say(f"note: {text}")
    changes = TypedChanges(loaded, load, idle)
    captures = capture_options(capture, capture_bytes, capture_snaplen)
    # Each switch has its own namespace, with interfaces to look at.
    options = Options(
        seed, "mininet", "tiercast", resolved(results), typed(), captures, links="veth"
    )
    raise typer.Exit(run_lab(loaded, changes, options, script, console))


def add_to(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(lab)
