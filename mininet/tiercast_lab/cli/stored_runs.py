"""The commands over stored runs: report, explain, compare, rerun, export."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import EXIT_MET, EXIT_NOT_MET, EXIT_OF, InputError, among, listed
from tiercast_lab.base.folders import names_in, resolved, stored_names
from tiercast_lab.cli.output import (
    AsJson,
    Results,
    console,
    console_beside,
    examples,
    print_json,
    print_report,
    say,
    typed,
)

# Each command imports what it uses, because most need only a part of the lab and so start sooner.
if TYPE_CHECKING:
    from tiercast_lab.results.storage import StoredRun

RUN_HELP = "A run's folder, its name in results/, or an experiment's: the last run of it."

EXPLAIN_EXAMPLES = examples(
    "tiercast explain latest --receiver h25 --at 60s",
    "tiercast explain sim-session --receiver 25 --at 60 --json",
    "tiercast explain latest --packet 1:0:4711",
    "tiercast explain latest --packet tcp1:197",
)

COMPARE_EXAMPLES = examples(
    "tiercast compare 20261123-101500-sim-session-1a2b 20261123-101700-sim-session-3c4d",
    "tiercast compare results/*-sim-session-* --json",
)

RERUN_EXAMPLES = examples(
    "tiercast rerun latest",
    "tiercast rerun /media/a-colleagues/20261123-101500-sim-session-1a2b",
)

EXPORT_EXAMPLES = examples(
    "tiercast export latest --csv",
    "tiercast export 20261123-101500-sim-session-1a2b --csv --to tables",
)


def add_to(app: typer.Typer) -> None:
    """Adds the commands to tiercast's."""
    app.command(epilog=examples("tiercast report", "tiercast report latest --json"))(report)
    app.command(epilog=EXPLAIN_EXAMPLES)(explain)
    app.command(epilog=COMPARE_EXAMPLES)(compare)
    app.command(epilog=RERUN_EXAMPLES)(rerun)
    app.command(epilog=EXPORT_EXAMPLES)(export)


def run_names(incomplete: str) -> list[str]:
    """For the shell's completion: the names of stored runs that begin with what was typed."""
    return [one for one in stored_names(binaries.RESULTS) if one.startswith(incomplete)]


Run = Annotated[Path, typer.Argument(metavar="RUN", help=RUN_HELP, autocompletion=run_names)]


def report(
    run_directory: Run = Path("latest"),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what `tiercast run --json` printed.")
    ] = False,
    results: Results = binaries.RESULTS,
) -> None:
    """Rebuild the plots and the report of a stored run from its rows. A run that was not judged
    because a measure failed is judged first."""
    from tiercast_lab.cli.running import run_as_json
    from tiercast_lab.experiment.schemes import known_schemes
    from tiercast_lab.results.judging import judged_now
    from tiercast_lab.results.storage import reading, writing
    from tiercast_lab.show.plots import write_plots
    from tiercast_lab.show.run_report import write_report

    directory = found(run_directory, results)
    with reading(directory), writing(directory):
        stored = judged_now(_stored(directory), known_schemes())
        write_plots(stored)
        made = write_report(stored)
    if as_json:
        print_json(run_as_json(stored, made))
    else:
        print(made)


def explain(
    run_directory: Run,
    receiver: Annotated[
        str | None, typer.Option(help="The receiver's name or node: h3 or 3.")
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="T", help="A time of the run, such as 45s or 45.2.")
    ] = None,
    packet: Annotated[
        str | None,
        typer.Option(
            metavar="SESSION:LAYER:SEQ",
            help="A packet of a run with `trace`, or of a flow: FLOW:IP_ID.",
        ),
    ] = None,
    as_json: AsJson = False,
    results: Results = binaries.RESULTS,
) -> None:
    """Say in plain language, from the stored rows, why a receiver's rate was what it was; or with
    --packet, what happened to a packet at each traced link, and the lines of the P4 program that
    decided it."""
    from tiercast_lab.results.explain import packet as packets
    from tiercast_lab.results.explain import receiver as explanations
    from tiercast_lab.results.explain.snapshot import snapshot_at
    from tiercast_lab.results.storage import reading

    if packet is not None and (receiver is not None or at is not None):
        raise InputError(
            "explain: --packet beside --receiver or --at; valid: --packet, or the other two"
        )
    directory = found(run_directory, results)
    if packet is not None:
        with reading(directory):
            explained = packets.explain_packet(_stored(directory), packet)
        if as_json:
            print_json(explained.as_data())
        else:
            print("\n".join(explained.text()))
        return
    with reading(directory):
        stored = _stored(directory)
        if receiver is None or at is None:
            missing = "--receiver" if receiver is None else "--at"
            raise InputError(
                f"explain: {missing} is missing; valid: --receiver h3 --at 45s, or --packet "
                "1:0:4711"
            )
        snapshot = snapshot_at(stored, receiver, at)
        if as_json:
            print_json(explanations.as_data(snapshot))
        else:
            print("\n".join(explanations.explain(snapshot)))


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Two or more of them.", autocompletion=run_names),
    ],
    as_json: AsJson = False,
    results: Results = binaries.RESULTS,
) -> None:
    """Compare stored runs: their measures, what differs in their experiments, and their charts.

    Runs that differ only in their seed are taken together, as means with 95 % confidence intervals;
    differences are against the first. Writes results/comparisons/<name>.html, with the charts of
    all runs on top of each other. Exit status: 0, or 2 for bad input.
    """
    from tiercast_lab.results.storage import load_run, reading, writing
    from tiercast_lab.show.comparison_report import write_comparison
    from tiercast_lab.show.tables.comparisons import comparison_tables
    from tiercast_lab.study import comparison

    if len(runs) < 2:
        others = [one for one in stored_names(results) if one not in (runs[0].name, "latest")]
        raise InputError(
            f"RUN: {runs[0]} alone; valid: two or more, such as {runs[0]} "
            f"{others[-1] if others else 'and another of the same experiment'}"
        )
    compared = comparison.compare([load_run(found(one, results)) for one in runs])
    folder = resolved(results) / "comparisons"
    with writing(folder):
        page = write_comparison(compared, folder, typed())
    if as_json:
        print_json(comparison.as_json(compared) | {"page": str(page)})
        return
    with reading(folder):
        console.print(comparison_tables(compared))
    print_report(binaries.from_here(page))


def rerun(
    run_directory: Run,
    results: Annotated[Path, typer.Option(help="Where the new run is stored.")] = binaries.RESULTS,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the new run, as `tiercast run`, and what differs.")
    ] = False,
) -> None:
    """Run a stored run again, from its folder: its experiment, settings, seed and runtime.

    Measures, markings and schemes of one's own have to be there as they were: TIERCAST_MEASURES,
    TIERCAST_MARKINGS, and a build with the same SCHEMES.

    In virtual time the rows of all tables are compared with the stored ones: exit status 0 if they
    are identical, 1 if not, with the first difference. In real time no two runs are identical: the
    measures of both are shown, and the exit status is the new run's, as for `tiercast run`. 2 bad
    input or something is missing, 4 a program of the run ended too early, 130 interrupted.
    """
    from tiercast_lab.base.machine import require_root
    from tiercast_lab.cli.doctor import require_kernel
    from tiercast_lab.cli.running import run_and_store, run_as_json
    from tiercast_lab.experiment.schemes import known_schemes, require_accepted
    from tiercast_lab.results import again
    from tiercast_lab.results.storage import load_run, reading
    from tiercast_lab.run.execute import Options
    from tiercast_lab.show.tables.comparisons import comparison_tables
    from tiercast_lab.study import comparison

    stored = load_run(found(run_directory, binaries.RESULTS))
    summary = stored.summary
    if not stored.complete:
        raise InputError(
            f"{stored.directory}: {'; '.join(stored.reasons)}; valid: a run that ended"
        )
    runtime, switch = again.runtime_of(stored)
    if runtime == "mininet":
        require_root()
    loaded = again.experiment_of(stored, known_schemes())
    require_accepted(loaded)
    if runtime == "mininet":
        require_kernel()
    with reading(stored.directory):
        before = stored.rows  # a damaged table is named before the run, not after it
    links = summary.get("links", "veth")
    options = Options(summary["seed"], runtime, switch, resolved(results), typed(), links=links)
    to = console_beside(as_json)
    made, report = run_and_store(loaded, options, to)
    print_report(binaries.from_here(report), to)
    new = run_as_json(made, report) | {"stored": str(stored.directory)}
    if runtime == "mininet":
        both = comparison.compare([stored, made])
        if as_json:
            print_json(new | {"comparison": comparison.as_json(both)})
        else:
            console.print(comparison_tables(both))
            say("in real time no two runs are identical; A is the stored run, B the new one")
        raise typer.Exit(EXIT_OF[made.summary["verdict"]])
    first, changed = again.first_difference(before, made.rows), again.changed_parts(stored, made)
    if as_json:
        difference = None if first is None else vars(first)
        print_json(new | {"first_difference": difference, "changed_parts": changed})
    elif first is None:
        rows = sum(len(frame) for frame in before.values())
        say(f"identical: {rows:,} rows in {len(before)} tables")
    else:
        say(f"not identical; the first difference: {first}")
        for part in changed:
            say(f"  another {part}")
    raise typer.Exit(EXIT_MET if first is None else EXIT_NOT_MET)


def export(
    run_directory: Run,
    csv: Annotated[bool, typer.Option("--csv", help="As CSV, one file for each table.")] = False,
    to: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Into this folder, not the run's own csv/.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files of an earlier export.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the folder and each table's rows as JSON.")
    ] = False,
    results: Results = binaries.RESULTS,
) -> None:
    """Write every table of a run's rows as CSV, with columns.csv, which says what each column is.

    Replaces no file unless told to with --overwrite.
    """
    from tiercast_lab.results.export import export_csv
    from tiercast_lab.results.storage import reading

    directory = found(run_directory, results)
    if not csv:
        raise InputError("export: no format; valid: --csv")
    with reading(directory):
        stored = _stored(directory)
        folder = stored.directory / "csv" if to is None else to.absolute()
        written = export_csv(stored, folder, overwrite)
    if as_json:
        print_json(vars(written) | {"folder": str(folder)})
        return
    tables, rows = len(written.tables), sum(written.tables.values())
    say(f"{tables} tables, {rows:,} rows: {binaries.from_here(folder)}")


def found(run: Path, results: Path) -> Path:
    """The folder of a run, given by its path or its name in `results`. Raises InputError, with the
    names of those that are there."""
    directory = _directory_of(run, results)
    if not os.path.lexists(directory) and directory.parent == results.absolute():
        names = stored_names(results)
        if not names:
            raise InputError(f"RUN: no run {run.name!r}: {results} has none; valid: a run's folder")
        raise InputError(f"RUN: no run {among(run.name, names)}")
    return resolved(directory)


def _directory_of(run: Path, results: Path) -> Path:
    """The folder of a path, of a name in `results`, or of an experiment's last run."""
    # A name is a folder here only if there is no such run: an experiment is often in a folder of
    # its name.
    if len(run.parts) != 1 or os.path.exists(run / "summary.json"):
        return run.absolute()
    if os.path.lexists(named := results / run):
        return named.absolute()
    of_it = re.compile(rf"\d{{8}}-\d{{6}}-{re.escape(run.name)}-[0-9a-f]{{4}}")
    last = max((one for one in names_in(results) if of_it.fullmatch(one)), default=None)
    return (results / last if last else (run if os.path.isdir(run) else named)).absolute()


def _stored(directory: Path) -> StoredRun:
    from tiercast_lab.results.storage import load_run

    run = load_run(resolved(directory))
    run.require_rows()
    for file in sorted(set(run.left_out.values())):
        names = listed([name for name, of in run.left_out.items() if of == file])
        say(
            f"without the measures of {file}, which TIERCAST_MEASURES does not name: {names}",
            console_beside(True),
        )
    return run
