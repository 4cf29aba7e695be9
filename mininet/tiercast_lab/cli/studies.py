"""Commands that make many runs: `tiercast figure`, `reproduce`, `calibrated` and `sweep`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from tiercast_controller.base.installation import IN_CHECKOUT

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import EXIT_FAILED, EXIT_INVALID, EXIT_OF, InputError
from tiercast_lab.base.folders import resolved
from tiercast_lab.cli.output import AsJson, console, print_json, print_report, typed
from tiercast_lab.cli.targets import (
    ALL_CORES,
    Jobs,
    Runtime,
    SwitchName,
    make_runs,
    names_for,
    require_target,
    target_of,
)

# Each command imports what it uses, because most need only a part of the lab and so start sooner.
if TYPE_CHECKING:
    from tiercast_lab.experiment.schemes import SchemeInfo
    from tiercast_lab.study.figure_spec import FigureSpec

Record = Annotated[
    bool, typer.Option("--record", help="Also write the verdicts into docs/reproduction.md.")
]
Results = Annotated[Path, typer.Option(help="Where reports and runs are stored.")]
InMininet = Annotated[SwitchName, typer.Option(help="In Mininet: tiercast-switch, or bmv2's.")]
Quick = Annotated[bool, typer.Option("--quick", help="One seed and fewer points.")]


def figure(
    name: Annotated[
        str,
        typer.Argument(
            metavar="FIGURE",
            help="A YAML file, or a name in experiments/figures/.",
            autocompletion=names_for("figure"),
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
    status: 0 met, 1 not met (uncertain or not), 2 bad input, 3 a run is invalid, 4 a run
    failed, 5 met, uncertain: a bound is within the 95 % confidence interval, 130 interrupted.
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
    results = resolved(results) / folder
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
    Exit status: 0 all runs are complete, 2 bad input, 3 a run is invalid, 4 a run failed, 130
    interrupted.
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
        folder = resolved(results) / "calibrated" / number.name
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
    verdicts = {summary["verdict"] for _, summaries in made for summary in summaries}
    raise typer.Exit(next((EXIT_OF[one] for one in ("failed", "invalid") if one in verdicts), 0))


def sweep(
    name: Annotated[
        str,
        typer.Argument(
            metavar="SWEEP",
            help="A YAML file, or a name in experiments/sweeps/.",
            autocompletion=names_for("sweep"),
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
    Exit status: 0 all runs are complete, 2 bad input, 3 a run is invalid, 4 a run failed, 130
    interrupted.
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
    folder = resolved(results) / f"sweeps{target.folder}"
    results_of_cells = results_of(found, outcomes)
    with storage.writing(folder):
        path, summary = write_sweep(results_of_cells, folder, typed(), quick)
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
