"""`tiercast runtimes`: every figure in virtual time and in real time, side by side."""

from __future__ import annotations

from typing import Annotated

import typer
from tiercast_controller.base.installation import IN_CHECKOUT

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import InputError
from tiercast_lab.base.folders import resolved
from tiercast_lab.cli.output import Results, print_json, say
from tiercast_lab.cli.targets import ALL_CORES, Jobs, make_runs, require_target


def runtimes(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FIGURE]...", help="Names in experiments/figures/; all if none."),
    ] = None,
    run: Annotated[
        bool, typer.Option("--run", help="First make the runs that are missing, as root.")
    ] = False,
    jobs: Jobs = ALL_CORES,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print docs/reproduction/runtimes.json.")
    ] = False,
    results: Results = binaries.RESULTS,
) -> None:
    """Write docs/runtimes.md: what each figure measures in virtual time and in Mininet.

    Figures are as scaled for real time, in every runtime. Only stored runs are read: what this
    version has not run keeps what docs/reproduction/runtimes.json has of it. With --run, the
    missing runs are made first, also on bmv2 where it is installed. Exit status: 0 written, 2 bad
    input, 130 interrupted.
    """
    from tiercast_lab.experiment.schemes import known_schemes
    from tiercast_lab.show.docs_pages import runtimes as runtimes_page
    from tiercast_lab.study.figure_spec import all_figures, find_figure
    from tiercast_lab.study.runs import Store
    from tiercast_lab.study.runtimes import record_of, targets_here
    from tiercast_lab.study.workers import LocalWorkers

    if not IN_CHECKOUT:
        raise InputError("it writes docs/runtimes.md; valid: in a checkout of tiercast")
    schemes = known_schemes()
    found = [find_figure(name, schemes) for name in names or ()]
    for one in found:
        if one.path.parent.resolve() != binaries.FIGURES.resolve():
            raise InputError(f"{one.path}: docs/runtimes.md has the figures of {binaries.FIGURES}")
    figures = found or all_figures(schemes, binaries.FIGURES)
    made = []
    for target in targets_here() if run else ():
        require_target(target)
        runnable = [one.on(target) for one in figures if one.mininet.refused is None]
        tasks = [task for one in runnable for task in one.tasks(quick=False)]
        made += make_runs(tasks, schemes, results, lambda: LocalWorkers(jobs))
    store = Store(resolved(results) / "runs")
    before = runtimes_page.read_records()
    for one in figures:
        mine = [outcome for outcome in made if outcome.task.file == one.path]
        before[one.name] = record_of(one, schemes, store, mine, before.get(one.name))
    present = {path.stem for path in binaries.FIGURES.glob("*.yaml")}
    runtimes_page.write({name: one for name, one in before.items() if name in present})
    if as_json:
        print_json(runtimes_page.read_records())
    else:
        say(f"page: {binaries.from_here(runtimes_page.PAGE)}")
