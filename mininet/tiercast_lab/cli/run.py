"""`tiercast run`: one experiment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tiercast_lab.base import binaries
from tiercast_lab.base.folders import resolved
from tiercast_lab.cli.capture import Capture, CaptureBytes, CaptureSnaplen, capture_options
from tiercast_lab.cli.marking import ProgramOption, require_program
from tiercast_lab.cli.output import Results, console_beside, say, typed
from tiercast_lab.cli.targets import (
    LinkKind,
    Runtime,
    SwitchName,
    links_of_run,
    names_for,
    switches_of_run,
    threads_of_run,
)


def run(
    experiment: Annotated[
        str,
        typer.Argument(
            metavar="EXPERIMENT",
            help="A YAML file, or a name from `tiercast list`.",
            autocompletion=names_for("run"),
        ),
    ],
    runtime: Annotated[
        Runtime, typer.Option(help="mininet: real time, as root; ns3: virtual time.")
    ] = Runtime.mininet,
    switch: Annotated[
        str,
        typer.Option(
            metavar="[tiercast|bmv2|p4runtime[://HOST:PORT]]",
            help="tiercast-switch, bmv2's simple_switch_grpc, or switches that run already.",
        ),
    ] = SwitchName.tiercast.value,
    ports: Annotated[
        Path | None,
        typer.Option(help="With --switch p4runtime: a file that says which switches these are."),
    ] = None,
    links: Annotated[
        LinkKind | None,
        typer.Option(
            help="In Mininet with tiercast-switch: memory: one process runs all switches; "
            "veth: each has a process and a namespace.",
            show_default=LinkKind.memory.value,
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=256,
            help="In virtual time: threads, of use from some hundred switches on; the rows are the "
            "same.",
            show_default="1",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Seed of all random numbers.")
    ] = 1,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a key of the YAML (topology.link.queue=20p) or a parameter of a scheme "
            "(sim.delta=0.9); repeatable.",
        ),
    ] = None,
    duration: Annotated[
        str | None, typer.Option(help="Duration, instead of the experiment's, such as 60s.")
    ] = None,
    program: ProgramOption = None,
    results: Results = binaries.RESULTS,
    capture: Capture = None,
    capture_bytes: CaptureBytes = None,
    capture_snaplen: CaptureSnaplen = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the run's folder and its summary.json.")
    ] = False,
) -> None:
    """Run an experiment, judge it, and write results/<run>/report.html.

    With --json the progress goes to standard error. Exit status: 0 expected figures met, 1 not met,
    2 bad input or something is missing, 3 the machine could not keep up, 4 a program of the run
    ended too early, 70 a bug in tiercast, 130 interrupted.
    """
    from tiercast_lab.base.machine import require_root

    in_mininet = runtime is Runtime.mininet
    switch, devices = switches_of_run(runtime, switch, ports)
    link_kind = links_of_run(runtime, links)
    threads_in_run = threads_of_run(runtime, threads)
    if program is not None:
        require_program(program)
    if in_mininet:
        require_root()
    from tiercast_lab.cli.doctor import require_kernel
    from tiercast_lab.experiment.loading import load_experiment, without_effect
    from tiercast_lab.experiment.schemes import known_schemes, require_accepted

    schemes = known_schemes()
    if program is not None:
        settings = [*(settings or []), f"program={json.dumps(str(program.absolute()))}"]
    loaded = load_experiment(binaries.find("run", experiment), schemes, settings, duration)
    require_accepted(loaded)
    for text in (*loaded.notes, *without_effect(loaded, settings or [], schemes)):
        say(f"note: {text}", console_beside(as_json))
    if in_mininet:
        require_kernel()
    # What only a run needs takes a while to import: errors in the input do not wait for it.
    from tiercast_lab.cli.running import run_and_report
    from tiercast_lab.run.execute import Options

    captures = capture_options(capture, capture_bytes, capture_snaplen)
    options = Options(
        seed, runtime, switch, resolved(results), typed(), captures, devices,
        link_kind.value, threads_in_run,
    )  # fmt: skip
    raise typer.Exit(run_and_report(loaded, options, as_json))
