"""The command line: tiercast run, figure, reproduce, calibrated, sweep, list, schemes, measures and
doctor; sessions, marking, runtimes, watch, and the commands over stored runs, have modules of
their own."""

from __future__ import annotations

import inspect
import json
import os
import shlex
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.base.installation import IN_CHECKOUT, VERSION
from tiercast_controller.base.plugins import fault
from typer.exceptions import TyperException

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import (
    EXIT_FAILED,
    EXIT_FAULT,
    EXIT_INPUT,
    EXIT_INVALID,
    EXIT_MET,
    EXIT_OF,
    EXIT_UNREAD,
    InputError,
    LabError,
    among,
    require_characters,
)
from tiercast_lab.cli import lab, sessions, stored_runs
from tiercast_lab.cli.bench import bench
from tiercast_lab.cli.capture import Capture, CaptureBytes, CaptureSnaplen, capture_options
from tiercast_lab.cli.clean import clean
from tiercast_lab.cli.keys import keys
from tiercast_lab.cli.marking import ProgramOption, marking
from tiercast_lab.cli.output import (
    AsJson,
    OutputError,
    console,
    console_beside,
    examples,
    name_output_errors,
    print_json,
    print_report,
    say,
    typed,
)
from tiercast_lab.cli.refusals import Commands, refusal
from tiercast_lab.cli.runtimes import runtimes
from tiercast_lab.cli.targets import (
    LinkKind,
    Runtime,
    SwitchName,
    make_runs,
    require_target,
    switches_of_run,
    target_of,
)
from tiercast_lab.cli.watch import watch

# Each command imports what it uses, because most need only a part of the lab and so start sooner.
if TYPE_CHECKING:
    from collections.abc import Callable

    from tiercast_lab.experiment.schemes import SchemeInfo
    from tiercast_lab.study.figure_spec import FigureSpec

app = typer.Typer(
    name="tiercast",
    cls=Commands,
    help="A laboratory for multicast congestion control on programmable networks.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(sessions.app, name="sessions")
# Otherwise gRPC would report each connection that a run closes at its end.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")


def _names(command: str) -> Callable[[str], list[str]]:
    """For the shell's completion: the names that begin with what was typed."""
    return lambda incomplete: [one for one in binaries.names(command) if one.startswith(incomplete)]


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


RUN_EXAMPLES = examples(
    "tiercast run sim-session --runtime ns3",
    "tiercast run my.yaml --duration 60s --set sim.delta=0.9",
    "tiercast run sim-smoke --runtime ns3 --json",
    "tiercast run my.yaml --switch p4runtime://192.0.2.7:9559 --ports ports.yaml",
)


@app.command(epilog=RUN_EXAMPLES)
def run(
    experiment: Annotated[
        str,
        typer.Argument(
            metavar="EXPERIMENT",
            help="A YAML file, or a name from `tiercast list`.",
            autocompletion=_names("run"),
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
        LinkKind,
        typer.Option(
            help="In Mininet with tiercast-switch: memory: one process runs all switches; "
            "veth: each has a process and a namespace."
        ),
    ] = LinkKind.memory,
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
    results: Annotated[Path, typer.Option(help="Where runs are stored.")] = binaries.RESULTS,
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
        seed, runtime, switch, results.resolve(), typed(), captures, devices, links.value
    )
    raise typer.Exit(run_and_report(loaded, options, as_json))


FIGURE_EXAMPLES = examples(
    "tiercast figure sim-2",
    "tiercast figure rmcc-3 --quick --jobs 1",
    "tiercast figure sim-2 --runtime mininet",
    "tiercast figure my-figure.yaml --json",
)

REPRODUCE_EXAMPLES = examples(
    "tiercast reproduce --quick",
    "tiercast reproduce --paper RLA",
    "tiercast reproduce --jobs 1 --results /data/results",
)

CALIBRATED_EXAMPLES = examples(
    "tiercast calibrated sim.delta mlda.initial_increase",
    "tiercast calibrated --record",
)

SWEEP_EXAMPLES = examples(
    "tiercast sweep matrix --quick",
    "tiercast sweep matrix --only scheme=sim --only scheme=tfmcc",
    "tiercast sweep my-sweep.yaml --jobs 1 --results /data/results",
    "tiercast sweep matrix --address auto",
    "tiercast sweep my-sweep.yaml --runtime mininet",
)

Results = Annotated[Path, typer.Option(help="Where reports and runs are stored.")]
Record = Annotated[
    bool, typer.Option("--record", help="Also write the verdicts into docs/reproduction.md.")
]
InMininet = Annotated[SwitchName, typer.Option(help="In Mininet: tiercast-switch, or bmv2's.")]
Quick = Annotated[bool, typer.Option("--quick", help="One seed and fewer points.")]
Jobs = Annotated[int, typer.Option(min=1, help="Runs at a time.")]
ALL_CORES = os.cpu_count() or 1


@app.command(epilog=FIGURE_EXAMPLES)
def figure(
    name: Annotated[
        str,
        typer.Argument(
            metavar="FIGURE",
            help="A YAML file, or a name in experiments/figures/.",
            autocompletion=_names("figure"),
        ),
    ],
    runtime: Annotated[
        Runtime, typer.Option(help="ns3: virtual time; mininet: real time, as root, as scaled.")
    ] = Runtime.ns3,
    switch: InMininet = SwitchName.tiercast,
    scaled: Annotated[
        bool, typer.Option("--scaled", help="In virtual time, but as scaled for real time.")
    ] = False,
    quick: Quick = False,
    as_json: AsJson = False,
    jobs: Jobs = ALL_CORES,
    results: Results = binaries.RESULTS,
) -> None:
    """Reproduce one figure or table of a paper, and judge it.

    Means over seeds are judged against the paper's numbers and drawn in
    results/figures/report.html (figures-mininet/ in real time). Stored runs are not repeated. Exit
    status: 0 met, 1 not met (uncertain or not), 2 bad input, 3 a run in real time is invalid, 4 a
    run failed, 5 met, uncertain: a bound is within the 95 % confidence interval, 130 interrupted.
    """
    from tiercast_lab.experiment.schemes import known_schemes
    from tiercast_lab.study.figure_spec import find_figure

    schemes = known_schemes()
    found = find_figure(name, schemes)
    target = target_of(runtime, switch)
    if target.in_real_time or scaled:
        found = found.on(target)
    require_target(target)
    _reproduce([found], schemes, quick, as_json, jobs, False, results)


@app.command(epilog=REPRODUCE_EXAMPLES)
def reproduce(
    paper: Annotated[
        str | None, typer.Option(help="Only the figures of this paper, such as SIM.")
    ] = None,
    quick: Quick = False,
    as_json: AsJson = False,
    jobs: Jobs = ALL_CORES,
    record: Record = False,
    results: Results = binaries.RESULTS,
) -> None:
    """Reproduce every figure of the papers in experiments/figures/, with one report for all.

    Shows the number of runs and the time left. Runs are stored, so an interrupted reproduction
    resumes where it stopped. The report is results/figures/report.html, its tables report.md, all
    numbers report.json. Exit status as for `tiercast figure`. With --record, every run has to be of
    the checkout's commit.
    """
    from tiercast_lab.experiment.schemes import known_schemes
    from tiercast_lab.show.docs_pages import reproduction as reproduction_page
    from tiercast_lab.study.figure_spec import all_figures

    if record:
        reproduction_page.require_recordable(quick)
    schemes = known_schemes()
    by_paper: dict[str, list[FigureSpec]] = {}
    for one in all_figures(schemes, binaries.FIGURES):
        if one.experiment.paper:
            by_paper.setdefault(one.experiment.paper.name, []).append(one)
    papers = [name for name in by_paper if paper is None or name.lower() == paper.lower()]
    if not papers:
        raise InputError(f"--paper {paper}: no figure of it; valid: {', '.join(sorted(by_paper))}")
    figures = [one for name in papers for one in by_paper[name]]
    _reproduce(figures, schemes, quick, as_json, jobs, record, results)


def _reproduce(
    figures: list[FigureSpec],
    schemes: dict[str, SchemeInfo],
    quick: bool,
    as_json: bool,
    jobs: int,
    record: bool,
    results: Path,
) -> None:
    from tiercast_lab.results import storage
    from tiercast_lab.show.docs_pages import reproduction as reproduction_page
    from tiercast_lab.show.figure_report import write_figure, write_report
    from tiercast_lab.show.tables.studies import figure_tables, verdict_table
    from tiercast_lab.study.figure_results import FigureResults
    from tiercast_lab.study.workers import LocalWorkers

    figures = [one for one in figures if one.tasks(quick)]  # some have no quick points
    if not figures:
        raise InputError("--quick: the figure has no quick points; valid: without --quick")
    tasks = [task for one in figures for task in one.tasks(quick)]
    outcomes = make_runs(tasks, schemes, results, lambda: LocalWorkers(jobs))
    folder = f"figures{figures[0].target.folder}" + ("-scaled" if figures[0].is_variant else "")
    results = results.resolve() / folder
    summaries = []
    with storage.writing(results):
        for one in figures:
            mine = [outcome for outcome in outcomes if outcome.task.file == one.path]
            summaries.append(write_figure(FigureResults(one, mine), results, quick))
        path = write_report(summaries, results, typed())
    if record:
        reproduction_page.keep(summaries)
    if as_json:
        print_json(summaries)
    else:
        for summary in summaries:
            console.print(figure_tables(summary))
        if len(summaries) > 1:
            console.print(verdict_table(summaries))
        print_report(path)
    verdicts = {summary["verdict"] for summary in summaries}
    raise typer.Exit(EXIT_OF[next(one for one in EXIT_OF if one in verdicts)])


app.command(epilog=examples("tiercast runtimes", "tiercast runtimes sim-2 --run"))(runtimes)
app.command(
    epilog=examples(
        "tiercast bench --device my-switch.yaml",
        "tiercast bench --device embedded.yaml --quick --only aggregated --only join-delay",
    )
)(bench)
app.command(
    epilog=examples("tiercast marking", "tiercast marking codel '{kind: red, gentle: true}'")
)(marking)


@app.command(epilog=CALIBRATED_EXAMPLES)
def calibrated(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Such as sim.delta; all if none."),
    ] = None,
    quick: Quick = False,
    as_json: AsJson = False,
    jobs: Jobs = ALL_CORES,
    record: Annotated[
        bool, typer.Option("--record", help="Also write docs/reproduction/changes.md.")
    ] = False,
    results: Results = binaries.RESULTS,
) -> None:
    """Run figures with the numbers that were chosen here, and with the papers' values.

    The numbers are in experiments/calibrated/numbers.yaml. Each figure's table has both results.
    Exit status: 0 all runs are complete, 2 bad input, 4 a run failed, 130 interrupted.
    """
    from tiercast_lab.experiment.schemes import known_schemes
    from tiercast_lab.results import storage
    from tiercast_lab.show.docs_pages import changes as changes_page
    from tiercast_lab.show.figure_report import write_figure
    from tiercast_lab.show.tables.studies import figure_tables
    from tiercast_lab.study.calibrated import calibrated_numbers, figures_otherwise, find_calibrated
    from tiercast_lab.study.figure_results import FigureResults
    from tiercast_lab.study.workers import LocalWorkers

    if record and not IN_CHECKOUT:
        raise InputError("--record writes docs/reproduction/; valid: in a checkout of tiercast")
    schemes = known_schemes()
    chosen = [(one, figures_otherwise(one, schemes)) for one in find_calibrated(names or [])]
    tasks = [task for _, figures in chosen for one in figures for task in one.tasks(quick)]
    outcomes = iter(make_runs(tasks, schemes, results, lambda: LocalWorkers(jobs)))
    made = []
    for number, figures in chosen:
        folder = results.resolve() / "calibrated" / number.name
        with storage.writing(folder):
            summaries = [
                write_figure(
                    FigureResults(one, [next(outcomes) for _ in one.tasks(quick)]), folder, quick
                )
                for one in figures
            ]
        made.append((number, summaries))
        for summary in summaries:
            if not as_json:
                console.print(figure_tables(summary))
    if as_json:
        print_json([summary for _, summaries in made for summary in summaries])
    if record:
        changes_page.record(made, calibrated_numbers())
    failed = any(summary["failures"] for _, summaries in made for summary in summaries)
    raise typer.Exit(EXIT_FAILED if failed else 0)


@app.command(epilog=SWEEP_EXAMPLES)
def sweep(
    name: Annotated[
        str,
        typer.Argument(
            metavar="SWEEP",
            help="A YAML file, or a name in experiments/sweeps/.",
            autocompletion=_names("sweep"),
        ),
    ],
    runtime: Annotated[
        Runtime, typer.Option(help="ns3: virtual time; mininet: real time, as root.")
    ] = Runtime.ns3,
    switch: InMininet = SwitchName.tiercast,
    quick: Annotated[bool, typer.Option("--quick", help="Only the first seed.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="AXIS=NAME", help="Only this setting of an axis; repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print sweep.json.")] = False,
    jobs: Jobs = ALL_CORES,
    address: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Address of a running Ray cluster: auto, HOST:PORT, ray://HOST:PORT. Without it "
            "Ray is started here, with --jobs runs at a time.",
        ),
    ] = None,
    results: Results = binaries.RESULTS,
) -> None:
    """Run schemes x topologies x parameters x seeds, as tasks of Ray.

    Writes results/sweeps/<name>/report.html (sweeps-mininet/ in real time), with the mean and 95 %
    confidence interval of each measure in each cell. Stored runs are not repeated; a run whose
    worker dies is, and one in real time that could not keep up beside others is made again alone.
    Exit status: 0 all runs are complete, 2 bad input, 3 a run in real time is invalid, 4 a run
    failed, 130 interrupted.
    """
    from tiercast_lab.experiment.schemes import known_schemes
    from tiercast_lab.results import storage
    from tiercast_lab.show.sweep_report import write_sweep
    from tiercast_lab.show.tables.studies import sweep_table
    from tiercast_lab.study.ray_workers import RayWorkers
    from tiercast_lab.study.sweep_results import results_of
    from tiercast_lab.study.sweep_spec import find_sweep

    schemes = known_schemes()
    target = target_of(runtime, switch)
    found = find_sweep(name, schemes).only(only or [])
    if address is None:
        require_target(target)
    tasks = found.tasks(quick, target)
    outcomes = make_runs(tasks, schemes, results, lambda: RayWorkers(jobs, address))
    folder = results.resolve() / f"sweeps{target.folder}"
    results_of_cells = results_of(found, outcomes)
    with storage.writing(folder):
        path, summary = write_sweep(results_of_cells, folder, typed())
    if as_json:
        print_json(summary)
    else:
        console.print(sweep_table(results_of_cells))
        for failure in summary["failures"]:
            console.print(f"failed: {failure}", highlight=False, markup=False)
        print_report(path)
    if any(one.failure and not one.invalid for one in outcomes):
        raise typer.Exit(EXIT_FAILED)
    raise typer.Exit(EXIT_INVALID if summary["failures"] else 0)


@app.command("list", epilog=examples("tiercast list", "tiercast list my --json"))
def list_experiments(
    folder: Annotated[
        Path, typer.Argument(metavar="[FOLDER]", help="Where files of your own are.")
    ] = Path(),
    as_json: AsJson = False,
) -> None:
    """List the experiments and what each shows, the figures of the papers, the sweeps, and those
    of your own in FOLDER, by default the current one."""
    from tiercast_lab.cli import listing

    provided, own = listing.provided(), listing.own(folder)
    if as_json:
        lists = {kind: listing.as_json(entries) for kind, entries in provided.items()}
        print_json(lists | {"own": listing.as_json(own)})
        return
    headings = (
        ("", provided["experiments"]),
        ("for `tiercast figure` and `tiercast reproduce`:", provided["figures"]),
        ("for `tiercast sweep`:", provided["sweeps"]),
        ("your own, for `tiercast run`:", [one for one in own if one.command == "run"]),
        ("your own, for `tiercast sweep`:", [one for one in own if one.command == "sweep"]),
    )
    for heading, entries in headings:
        if heading and entries:
            say(f"\n{heading}")
        for one in entries:
            say(f"{one.name:<20} {one.title}".rstrip())


@app.command(epilog=examples("tiercast schemes", "tiercast schemes sim --json"))
def schemes(
    name: Annotated[
        str | None, typer.Argument(metavar="SCHEME", help="Show this scheme's parameters.")
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the table of docs/protocols/SCHEME.md.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the schemes, or one scheme's parameters with defaults, ranges and sources."""
    from tiercast_lab.experiment.schemes import known_schemes
    from tiercast_lab.show.tables import schemes as tables

    known = known_schemes()
    if name is not None and name not in known:
        raise InputError(f"unknown scheme {among(name, known)}")
    if as_json:
        chosen = list(known.values()) if name is None else [known[name]]
        print_json([tables.as_json(one) for one in chosen])
    elif name is None:
        if markdown:
            raise InputError(
                "--markdown shows one scheme; valid: tiercast schemes SCHEME --markdown"
            )
        console.print(tables.schemes_table(known))
    elif markdown:
        print(tables.parameters_markdown(known[name]))
    else:
        console.print(tables.parameters_table(known[name]))


@app.command(epilog=examples("tiercast measures", "tiercast measures --json"))
def measures(
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the table of docs/experiments.md.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List every measure: its name in `expect`, its definition and its unit."""
    from tiercast_lab.measures import table
    from tiercast_lab.show.tables.measures import measures_table

    if as_json:
        print_json(table.as_json())
    elif markdown:
        print(table.markdown())
    else:
        console.print(measures_table())


@app.command(epilog=examples("tiercast doctor", "tiercast doctor --dpdk"))
def doctor(
    dpdk: Annotated[
        bool, typer.Option("--dpdk", help="Check for tiercast-send on a NIC (docs/dpdk.md).")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what this machine can and cannot do, what follows from that, and what to do about it.

    Exit status: 0 if `tiercast run` can work, 2 if it cannot; with --dpdk always 0.
    """
    from tiercast_lab.cli import doctor_dpdk
    from tiercast_lab.cli.doctor import examine, show

    findings = doctor_dpdk.examine() if dpdk else examine()
    if as_json:
        print_json([vars(one) for one in findings])
    else:
        show(findings, console)
    if any(finding.needed and not finding.ok for finding in findings):
        raise typer.Exit(EXIT_INPUT)


app.command(epilog=examples("tiercast clean --dry-run", "tiercast clean"))(clean)
app.command(
    epilog=examples(
        "tiercast keys lab-keys",
        "tiercast keys lab-keys --host lab.example --host 192.0.2.7 --days 30",
    )
)(keys)
stored_runs.add_to(app)
lab.add_to(app)

app.command(
    epilog=examples(
        "tiercast watch",
        "tiercast watch sim-session --listen 127.0.0.1:8000",
        "tiercast watch --listen 0.0.0.0 --tls lab-keys",
    )
)(watch)


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
