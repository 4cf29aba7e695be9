"""The command line: tiercast run, list, doctor, report, explain."""

from __future__ import annotations

import enum
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from tiercast_lab import __version__, binaries
from tiercast_lab.errors import EXIT_INPUT, InputError, LabError

app = typer.Typer(
    name="tiercast",
    help="A laboratory for multicast congestion control on programmable networks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# Tables need no folding in a log.
console = Console(width=None if sys.stdout.isatty() else 120)
# gRPC would report each connection that a run closes at its end.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

RESULTS = binaries.ROOT / "results"


class Runtime(enum.StrEnum):
    mininet = "mininet"
    ns3 = "ns3"


class SwitchName(enum.StrEnum):
    tiercast = "tiercast"
    bmv2 = "bmv2"


def _version(wanted: bool) -> None:
    if wanted:
        console.print(f"tiercast {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command()
def run(
    experiment: Annotated[
        Path, typer.Argument(help="A YAML below experiments/, or its name (see `tiercast list`).")
    ],
    runtime: Annotated[
        Runtime, typer.Option(help="mininet: real time, as root; ns3: virtual time.")
    ] = Runtime.mininet,
    switch: Annotated[
        SwitchName, typer.Option(help="tiercast-switch, or bmv2's simple_switch_grpc.")
    ] = SwitchName.tiercast,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Of all random numbers.")] = 1,
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
        str | None, typer.Option(help="Instead of the experiment's, such as 60s.")
    ] = None,
    results: Annotated[Path, typer.Option(help="Where runs are stored.")] = RESULTS,
) -> None:
    """Run an experiment, judge it, and write results/<run>/report.html.

    Exit status: 0 expected figures met, 1 not met, 2 bad input or something is missing, 3 the
    machine could not keep up, 4 a program of the run ended too early, 130 interrupted.
    """
    from tiercast_lab.machine import require_root

    in_mininet = runtime is Runtime.mininet
    if in_mininet:
        require_root()
    elif switch is not SwitchName.tiercast:
        raise InputError(f"--switch {switch}: --runtime {runtime} runs the engine; valid: tiercast")
    from tiercast_lab.conduct import Options, conduct
    from tiercast_lab.doctor import require_kernel
    from tiercast_lab.experiment import load_experiment
    from tiercast_lab.schemes import known_schemes

    loaded = load_experiment(_find(experiment), known_schemes(), settings, duration)
    if in_mininet:
        require_kernel()
    command = ["./tiercast", *sys.argv[1:]]
    options = Options(seed, runtime, switch, results.resolve(), command)
    raise typer.Exit(conduct(loaded, options, console))


@app.command("list")
def list_experiments() -> None:
    """Experiments and what each shows."""
    from tiercast_lab.yaml_source import load_yaml

    for path in sorted(binaries.EXPERIMENTS.glob("*.yaml")):
        title = load_yaml(path).data.get("title", "")
        console.print(f"{path.stem:<20} {title}", highlight=False, markup=False, soft_wrap=True)


@app.command()
def doctor() -> None:
    """What this machine can and cannot do, what follows, and what to do about it.

    Exit status: 0 if `tiercast run` can work, 2 if it cannot.
    """
    from tiercast_lab.doctor import examine, show

    findings = examine()
    show(findings, console)
    if any(finding.needed and not finding.ok for finding in findings):
        raise typer.Exit(EXIT_INPUT)


@app.command()
def report(
    run_directory: Annotated[
        Path, typer.Argument(metavar="RUN", help="A folder below results/, or its name.")
    ] = Path("latest"),
) -> None:
    """Make the plots and the report of a stored run anew, from its rows."""
    from tiercast_lab.report import write_report

    print(write_report(_stored(run_directory)))


@app.command()
def explain(
    run_directory: Annotated[
        Path, typer.Argument(metavar="RUN", help="A folder below results/, or its name.")
    ],
    receiver: Annotated[str, typer.Option(help="Its name or its node: h3 or 3.")],
    at: Annotated[str, typer.Option(metavar="T", help="A time of the run, such as 45s or 45.2.")],
) -> None:
    """Say in plain language why a receiver's rate was what it was, from the stored rows."""
    from tiercast_lab.explain import explain as lines_of
    from tiercast_lab.explain import look_at

    print("\n".join(lines_of(look_at(_stored(run_directory), receiver, at))))


def _stored(run_directory: Path) -> Any:
    from tiercast_lab.storage import load_run

    directory = run_directory if run_directory.is_dir() else RESULTS / run_directory
    return load_run(directory.resolve())


def _find(experiment: Path) -> Path:
    if experiment.is_file():
        return experiment
    named = binaries.EXPERIMENTS / f"{experiment}.yaml"
    if named.is_file():
        return named
    choices = ", ".join(sorted(path.stem for path in binaries.EXPERIMENTS.glob("*.yaml")))
    raise InputError(f"no experiment {str(experiment)!r}; valid: a YAML file, or one of {choices}")


def main() -> None:
    """Errors meant for people are one text on standard error, without a trace."""
    try:
        app(prog_name="tiercast")
    except LabError as error:
        print(f"tiercast: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
