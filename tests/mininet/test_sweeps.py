"""Sweeps: what a file may contain, means and tables, and real runs as Ray tasks."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import polars as pl
import pytest
from rich.console import Console
from tiercast_lab.base import binaries
from tiercast_lab.base.errors import InputError
from tiercast_lab.base.interrupt import Interrupt
from tiercast_lab.experiment.schemes import known_schemes
from tiercast_lab.run.progress import Tally
from tiercast_lab.show import sweep_plot
from tiercast_lab.show.study_progress import show_runs
from tiercast_lab.show.sweep_report import whole_results, write_sweep
from tiercast_lab.show.tables.studies import sweep_table
from tiercast_lab.study import workers
from tiercast_lab.study.runs import Outcome, Store, run_all
from tiercast_lab.study.sweep_results import results_of
from tiercast_lab.study.sweep_spec import SweepSpec, find_sweep
from tiercast_lab.study.workers import Job, JobResult, LocalWorkers

from ..checkout import ROOT
from ..patience import PATIENCE_S, wait_until

ONE_LINK = """\
    name: one-link
    title: One link
    topology:
      nodes: [0, 1, 2]
      link: {rate: 2Mbit/s, delay: 5ms, queue: 50p}
      links: {0-1: {}, 1-2: {}}
    sessions:
      - {scheme: tfmcc, sender: 0, receivers: [2]}
    duration: 10s
    measure: {last: 5s}
    """

SWEEP = """\
    name: tiny
    title: Two schemes at two rates
    experiment: one-link
    axes:
      scheme:
        - {name: TFMCC, set: {sessions.0.scheme: tfmcc}}
        - {name: SIM, set: {sessions.0.scheme: sim, sessions.0.layers: 2}}
      rate: {key: topology.link.rate, values: [1Mbit/s, 2Mbit/s]}
    seeds: [1, 2]
    measures: [session_throughput, efficiency]
    exclude:
      - {where: {scheme: SIM, rate: 2Mbit/s}, why: it is told apart}
    """


SETTINGS = """\
- {name: TFMCC, set: {sessions.0.scheme: tfmcc}}
    - {name: SIM, set: {sessions.0.scheme: sim, sessions.0.layers: 2}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "one-link.yaml").write_text(textwrap.dedent(ONE_LINK))
    path = tmp_path / "tiny.yaml"
    path.write_text(textwrap.dedent(SWEEP))
    return path


def outcomes_of(sweep: SweepSpec) -> list[Outcome]:
    return [
        Outcome(task, Path(), {"session_throughput": 1e6 * task.run.seed, "efficiency": 0.5})
        for task in sweep.tasks(quick=False)
    ]


def test_runs_are_cells_times_seeds_without_those_left_out(file: Path) -> None:
    sweep = find_sweep(str(file), known_schemes())
    assert [(str(task.run.cell), task.run.seed) for task in sweep.tasks(quick=False)] == [
        (cell, seed)
        for cell in ("TFMCC, 1Mbit/s", "TFMCC, 2Mbit/s", "SIM, 1Mbit/s")
        for seed in (1, 2)
    ]
    assert len(sweep.tasks(quick=True)) == 3
    assert [one.x for one in sweep.sweep.axes["rate"]] == [1, 2]
    experiment = sweep.tasks(quick=True)[2].load(known_schemes()).experiment
    assert (experiment.sessions[0].scheme, experiment.sessions[0].layers) == ("sim", 2)
    assert experiment.topology.link.rate == 1_000_000
    only = sweep.only(["scheme=TFMCC", "rate=2Mbit/s"])
    assert [str(task.run.cell) for task in only.tasks(quick=True)] == ["TFMCC, 2Mbit/s"]


def test_schemes_of_the_registry_make_an_axis(file: Path) -> None:
    schemes = known_schemes()
    before, _, after = file.read_text().partition("  scheme:\n")
    rest = after[after.index("  rate:") : after.index("exclude:")]
    form = "{schemes: all, layers: 3, set: {rlm: {sessions.0.layers: 6}}}"
    file.write_text(f"{before}  scheme: {form}\n{rest}")
    cells = {
        task.run.cell.names["scheme"]: task
        for task in find_sweep(str(file), schemes).tasks(quick=True)
    }
    assert list(cells) == list(schemes)
    layers = {
        name: task.load(schemes).experiment.sessions[0].layers for name, task in cells.items()
    }
    assert layers == {n: 6 if n == "rlm" else 3 if s.layered else 1 for n, s in schemes.items()}


def test_cells_have_means_and_confidence_intervals(file: Path, tmp_path: Path) -> None:
    sweep = find_sweep(str(file), known_schemes())
    results = results_of(sweep, outcomes_of(sweep))
    report, summary = write_sweep(results, tmp_path, ["sweep"])
    table = sweep_table(results)
    assert table.row_count == len(results.cells)
    assert "left out" in list(table.columns[-1].cells)
    assert any(" ± " in cell for cell in table.columns[-1].cells)
    first = summary["cells"][0]["measures"]["session_throughput"]
    assert first["value"] == 1.5e6
    assert first["spread"] == pytest.approx(12.71 * 0.5e6)  # s = 0.707e6, of two runs; t(1) = 12.71
    table = pl.read_parquet(report.parent / "cells.parquet")
    assert table.shape == (4, 7)
    assert table.equals(pl.read_csv(report.parent / "cells.csv", schema=table.schema))
    assert table["session_throughput"].to_list() == [1.5e6, 1.5e6, 1.5e6, None]
    assert summary["cells"][3]["excluded"] == "it is told apart"
    assert summary["seeds"] == [1, 2]
    # A mean covers all seeds, or there is none.
    lacking = [replace(outcomes_of(sweep)[0], measures={"efficiency": 0.5})]
    cells = results_of(sweep, lacking + outcomes_of(sweep)[1:]).cells
    assert cells[0].means["session_throughput"] is None
    assert cells[0].means["efficiency"].runs == 2
    first, *others = outcomes_of(sweep)
    failed = results_of(sweep, [replace(first, measures={}, failure="it died"), *others])
    assert failed.cells[0].means == {"session_throughput": None, "efficiency": None}
    assert failed.cells[1].means["efficiency"].runs == 2
    html = report.read_text()
    assert f"1.50 Mbit/s ± {12.71 * 0.5:.2f} Mbit/s" in html
    assert "left out: it is told apart" in html
    assert json.loads((report.parent / "sweep.json").read_text())["runs"] == 6


def test_pages_are_not_written_from_a_part_of_a_sweep(file: Path, tmp_path: Path) -> None:
    sweep = find_sweep(str(file), known_schemes())

    def written(spec: SweepSpec, quick: bool = False, failure: str = "") -> Path:
        outcomes = [
            replace(one, failure=failure)
            for one in outcomes_of(spec)
            if not quick or one.task.run.seed == 1
        ]
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        report, _ = write_sweep(results_of(spec, outcomes), folder, ["sweep"], quick)
        return report.parent

    assert whole_results(written(sweep))["runs"] == 6
    for folder, wrong in (
        (written(sweep.only(["scheme=SIM"])), "only of --only scheme=SIM;"),
        (written(sweep, quick=True), "only of --quick;"),
        (written(sweep, failure="it died"), "tiny: TFMCC, 1Mbit/s, seed 1: it died; "),
        (tmp_path / "none", "No such file or directory;"),
    ):
        valid = r".*valid: what `\S*tiercast sweep \S+` writes where no run fails$"
        with pytest.raises(InputError, match=f"sweep.json: {wrong}{valid}"):
            whole_results(folder)
    folder = written(sweep.only(["scheme=SIM", "rate=1Mbit/s"]), quick=True)
    for script in "lies_page.py", "matrix_page.py":
        command = [sys.executable, ROOT / "scripts" / script, folder]
        made = subprocess.run(command, capture_output=True, text=True)
        assert made.returncode == 1
        assert "only of --only scheme=SIM --only rate=1Mbit/s --quick" in made.stderr
        assert "Traceback" not in made.stderr


def population(file: Path) -> SweepSpec:
    """Five rates and two schemes; SIM's last cell is left out."""
    text = file.read_text().replace("values: [1Mbit/s, 2Mbit/s]", "values: 1..5")
    text = text.replace("rate: 2Mbit/s}", "rate: 5..5}").replace("[1, 2]", "[1]")
    text = text.replace("topology.link.rate", "sessions.0.session")
    file.write_text(text + "distribution_over: rate\n")
    return find_sweep(str(file), known_schemes())


def test_a_measure_is_distributed_over_a_population(file: Path, tmp_path: Path) -> None:
    sweep = population(file)
    values = {"1": 0.7, "2": 0.9, "3": None, "4": 0.8, "5": 0.2}
    outcomes = [
        Outcome(task, Path(), {"efficiency": values[task.run.cell.names["rate"]]})
        for task in sweep.tasks(quick=False)
    ]
    results = results_of(sweep, outcomes)
    report, summary = write_sweep(results, tmp_path, ["sweep"])
    tfmcc, sim = results.distributions("efficiency")
    assert (str(tfmcc), tfmcc.values, tfmcc.missing) == ("TFMCC", [0.2, 0.7, 0.8, 0.9], 1)
    assert (str(sim), sim.values, sim.missing) == ("SIM", [0.7, 0.8, 0.9], 1)  # 5 is left out
    assert [tfmcc.quantile(share) for share in (0, 0.5, 1)] == [0.2, 0.75, 0.9]
    assert tfmcc.quantile(0.05) == pytest.approx(0.2 + 0.15 * 0.5)
    assert results.distributions("session_throughput") == []
    died = [replace(outcomes[0], measures={}, failure="it died"), *outcomes[1:]]
    (some, _) = results_of(sweep, died).distributions("efficiency")
    assert (some.values, some.missing) == ([0.2, 0.8, 0.9], 2)
    lowest = summary["distributions"][0]["lowest"]
    assert (lowest["value"], lowest["cell"]["rate"]) == (0.2, "5")
    assert "sessions.0.session=5" in lowest["command"]  # it repeats this run
    assert summary["distributions"][0]["quantiles"]["0.5"] == 0.75
    assert (report.parent / "efficiency.png").stat().st_size > 5_000
    html = report.read_text()
    assert "# TFMCC, rate 5: 0.200" in html
    assert "4 (+ 1 without a value)" in html
    table = sweep_table(results)
    assert list(table.columns[3].cells) == ["0.200", "0.700"]


@pytest.mark.parametrize("axes", ["scheme", "scheme, marking, room"])
def test_every_kind_of_axes_is_drawn(file: Path, tmp_path: Path, axes: str) -> None:
    lines = ["axes:"]
    for axis in axes.split(", "):
        lines += [f"  {axis}:", "    - {name: a}", "    - {name: b}"]
    before, _, after = file.read_text().partition("axes:")
    rest = after[after.index("seeds:") : after.index("exclude:")]
    file.write_text(before + "\n".join(lines) + "\n" + rest)
    sweep = find_sweep(str(file), known_schemes())
    report, _ = write_sweep(results_of(sweep, outcomes_of(sweep)), tmp_path, ["sweep"])
    for measure in ("session_throughput", "efficiency"):
        assert (report.parent / f"{measure}.png").stat().st_size > 5_000


@pytest.mark.parametrize(
    ("old", "new", "line", "text"),
    [
        ("title:", "titel:", 2, "titel: unknown key; valid: name, title"),
        ("experiment: one-link", "experiment: two", 3, "experiment: no experiment 'two'; valid: "),
        ("experiment: one-link", "seeds: [1]", 9, "is given twice"),
        ("sessions.0.scheme: sim,", "sessions.0.scheme: sum,", 7, "unknown scheme 'sum'; valid: "),
        ("sessions.0.layers: 2", "sessions.0.layers: 9", 7, "9; valid: 8 or less"),
        (
            "values: [1Mbit/s, 2Mbit/s]",
            "values: [fast, 2Mbit/s]",
            8,
            "topology.link.rate: 'fast' is not a rate",
        ),
        ("values: [1Mbit/s, 2Mbit/s]", "value: [1]", 8, "axes.rate.value: unknown key; valid: key"),
        (SETTINGS, "{schemes: [sum]}\n", 6, "schemes: no scheme 'sum'; valid: all, sim, "),
        ("name: SIM", "name: TFMCC", 7, "axes.scheme.1: 'TFMCC' is given twice; valid: once"),
        ("  rate: {key", "  runs: {key", 8, "axes.runs: cells.csv already has a column 'runs'"),
        ("  rate: {key", "  efficiency: {key", 8, "cells.csv already has a column 'efficiency'"),
        ("seeds: [1, 2]", "seeds: [1, 1]", 9, "'1' is given twice; valid: once"),
        (
            "seeds:",
            "  again: {key: topology.link.rate, values: [3Mbit/s]}\nseeds:",
            9,
            "axes.again: it sets topology.link.rate again, so that the axis 'rate' has no effect",
        ),
        (
            "seeds:",
            "  all: [{name: a, set: {topology.link: {rate: 3Mbit/s}}}]\nseeds:",
            9,
            "axes.all: it sets topology.link.rate again",
        ),
        ("efficiency]", "speed]", 10, "measures.1: unknown measure 'speed'; valid: "),
        ("values: [1Mbit/s, 2Mbit/s]", "values: 9..1", 8, "'9..1' is not 1 to 1000 numbers"),
        ("seeds: [1, 2]", "distribution_over: rat", 1, "rat'; valid: scheme, rate (did you mean"),
        ("rate: 2Mbit/s}", "delay: long}", 12, "no such axis; valid: scheme, rate"),
        ("rate: 2Mbit/s}", "rate: 3Mbit/s}", 12, "no '3Mbit/s'; valid: 1Mbit/s, 2Mbit/s"),
    ],
)
def test_what_is_wrong_is_named(file: Path, old: str, new: str, line: int, text: str) -> None:
    content = file.read_text()
    assert old in content
    file.write_text(content.replace(old, new))
    with pytest.raises(InputError) as error:
        for task in find_sweep(str(file), known_schemes()).tasks(quick=True):
            task.load(known_schemes())
    assert text in str(error.value)
    assert f"tiny.yaml:{line}:" in str(error.value)


def test_a_curve_that_the_first_panel_lacks_is_in_the_legend(file: Path) -> None:
    before, _, after = file.read_text().partition("exclude:")
    queue = "  queue: [{name: short}, {name: long}]\nseeds:"
    exclude = "exclude:\n  - {where: {scheme: SIM, queue: short}, why: it is}\n"
    file.write_text(before.replace("seeds:", queue) + exclude)
    sweep = find_sweep(str(file), known_schemes())
    drawing = sweep_plot._lines(results_of(sweep, outcomes_of(sweep)), "efficiency", "rate")
    assert [text.get_text() for text in drawing.legends[0].get_texts()] == ["TFMCC", "SIM"]
    plt.close(drawing)


def test_a_name_with_an_underscore_is_in_the_legend(file: Path) -> None:
    file.write_text(file.read_text().replace("SIM", "_SIM"))
    sweep = find_sweep(str(file), known_schemes())
    lines = sweep_plot._lines(results_of(sweep, outcomes_of(sweep)), "efficiency", "rate")
    file.write_text(file.read_text().replace("seeds:", "distribution_over: rate\nseeds:"))
    sweep = find_sweep(str(file), known_schemes())
    shares = sweep_plot._distributions(results_of(sweep, outcomes_of(sweep)), "efficiency")
    for drawing in (lines, shares):
        shown = [text.get_text() for text in drawing.legends[0].get_texts()]
        assert shown == ["TFMCC", "_SIM"]
        plt.close(drawing)


def test_a_sweep_may_extend_another(file: Path) -> None:
    (file.parent / "sweeps").mkdir()
    file.rename(file.parent / "sweeps" / "tiny.yaml")
    shutil.copy(file.parent / "one-link.yaml", file.parent / "sweeps")
    file.write_text("extends: tiny\nname: other\naxes: {rate: {values: [3Mbit/s]}}\nexclude: []\n")
    shutil.copy(file, file.parent / "sweeps" / "other.yaml")
    sweep = find_sweep(str(file), known_schemes())
    assert (sweep.sweep.name, sweep.sweep.seeds) == ("other", [1, 2])
    assert [str(cell) for cell in sweep.cells] == ["TFMCC, 3Mbit/s", "SIM, 3Mbit/s"]


def test_every_sweep_of_the_repository_loads() -> None:
    schemes = known_schemes()
    for path in binaries.SWEEPS.glob("*.yaml"):
        for task in find_sweep(str(path), schemes).tasks(quick=True):
            task.load(schemes)


def tiercast(*arguments: object, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [ROOT / "tiercast", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True, **options,
    )  # fmt: skip


def test_a_wrong_choice_is_named_on_the_command_line(file: Path) -> None:
    for arguments, text in (
        (["nothing"], "no sweep 'nothing'; valid: a YAML file, or one of"),
        ([file, "--only", "scheme=RLM"], "no scheme 'RLM'; valid: TFMCC, SIM"),
        ([file, "--only", "colour=red"], "no axis 'colour'; valid: scheme, rate"),
    ):
        process = tiercast("sweep", *arguments)
        _, errors = process.communicate()
        assert process.returncode == 2
        assert text in errors


# ---- workers ------------------------------------------------------------------------------------


class Fragile(LocalWorkers):
    """The first worker dies. `foreign` is what each worker says about its programs."""

    def __init__(self, foreign: str = "") -> None:
        super().__init__(1)
        self.foreign = foreign
        self.submitted: list[str] = []

    def submit(self, job: Job) -> None:
        self.submitted.append(job.name)
        self._job = job

    def ended(self, timeout_s: float) -> list[tuple[Job, JobResult | None]]:
        made = JobResult({"summary.json": b'{"measures": {"efficiency": {"value": 1}}}'})
        if self.foreign:
            made = JobResult(foreign=self.foreign)
        return [(self._job, None if len(self.submitted) == 1 and not self.foreign else made)]


def test_a_run_whose_worker_died_is_made_again(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Store, "measures", lambda *_: {"efficiency": 1.0})
    fragile, seen = Fragile(), []
    store = Store(tmp_path / "runs")
    tasks = find_sweep(str(file), known_schemes()).tasks(quick=True)

    def note(tally: Tally) -> None:
        seen.append((tally.done, tally.deaths))

    outcomes = run_all(tasks, known_schemes(), store, lambda: fragile, Interrupt(), note)
    assert [one.failure for one in outcomes] == ["", "", ""]
    names = [task.run.name for task in tasks]
    assert sorted(fragile.submitted) == sorted([fragile.submitted[0], *names])
    assert seen[-1] == (3, 1)


def test_a_note_on_the_experiment_is_said_once(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Store, "measures", lambda *_: {"efficiency": 1.0})
    late = "members: [{at: 30s, receivers: [2], action: leave}]\n"
    (tmp_path / "one-link.yaml").write_text(textwrap.dedent(ONE_LINK) + late)
    tasks = find_sweep(str(file), known_schemes()).tasks(quick=False)
    assert len(tasks) == 6
    out = io.StringIO()
    with show_runs(Console(file=out)) as shown:
        store = Store(tmp_path / "runs")
        run_all(tasks, known_schemes(), store, Fragile, Interrupt(), shown)
    (note,) = [line for line in out.getvalue().splitlines() if line.startswith("note: ")]
    assert note.startswith(f"note: {tasks[0].run.name} and 5 more: ")
    assert note.endswith(": members.0.at: 30s is not before the end of the run (10s): "
                         "nobody leaves then")  # fmt: skip


def test_a_node_with_other_programs_is_named(file: Path, tmp_path: Path) -> None:
    task = find_sweep(str(file), known_schemes()).tasks(quick=True)[0]
    loaded = task.load(known_schemes())
    other = workers.programs() | {"tiercast-ns3": "0123456789abcdef"}
    made = workers.make(Job("key", "run", loaded, 1, [], other))
    assert "another tiercast-ns3" in made.foreign
    assert "valid: 0123456789ab" in made.foreign
    assert os.uname().nodename in made.foreign
    with pytest.raises(InputError, match="another tiercast-ns3"):
        run_all(
            [task], known_schemes(), Store(tmp_path / "runs"), lambda: Fragile(made.foreign),
            Interrupt(), lambda _: None,
        )  # fmt: skip


def simulators_below(pid: int) -> list[tuple[int, int]]:
    """(tiercast-ns3, its parent) for all descendants of a process."""
    children: dict[int, list[tuple[int, str]]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, tail = stat.read_text().rpartition(")")
        except OSError:
            continue
        children.setdefault(int(tail.split()[1]), []).append(
            (int(stat.parent.name), head.partition("(")[2])
        )
    found, waiting = [], [pid]
    while waiting:
        parent = waiting.pop()
        for child, name in children.get(parent, []):
            waiting.append(child)
            if name == binaries.NS3.name:
                found.append((child, parent))
    return found


def wait_for_simulator(pid: int, but: int = 0) -> tuple[int, int]:
    deadline = time.monotonic() + 5 * PATIENCE_S  # Ray has to start first
    while time.monotonic() < deadline:
        for found in simulators_below(pid):
            if found[0] != but:
                return found
        time.sleep(0.01)
    raise AssertionError("no run began")


@pytest.mark.slow
def test_ray_makes_what_is_missing_and_leaves_nothing_behind(file: Path, tmp_path: Path) -> None:
    temporary = Path("/tmp") / f"tc-{os.getpid()}"  # Ray's sockets need a short path
    temporary.mkdir()
    environment = os.environ | {"TMPDIR": str(temporary)}
    results = tmp_path / "results"
    # Long enough to be caught while they run.
    file.write_text(file.read_text() + "set: {duration: 40s}\n")
    command = ["sweep", file, "--jobs", 1, "--results", results, "--json"]
    runs = results / "runs"
    shared = set(Path("/dev/shm").iterdir())
    try:
        first = tiercast(*command, env=environment)
        # Ray's workers have the lowest priority.
        wait_until(lambda: any(runs.glob("*/summary.json")), "a stored run", 5 * PATIENCE_S)
        first.send_signal(signal.SIGINT)
        _, errors = first.communicate()
        assert first.returncode == 130, errors
        assert "interrupted by SIGINT" in errors
        kept = {path: path.stat().st_mtime_ns for path in runs.glob("*/summary.json")}
        assert 1 <= len(kept) < 6
        assert not list(temporary.iterdir())

        second = tiercast(*command, env=environment)
        _, worker = wait_for_simulator(second.pid)
        os.kill(worker, signal.SIGKILL)
        output, errors = second.communicate()
        assert second.returncode == 0, errors
        assert "1 worker died" in errors
        assert "Traceback" not in errors
        assert f"{len(kept)} of 6 runs, {len(kept)} found" in errors
        cells = json.loads(output)["cells"]
        assert [len(cell["runs"]) for cell in cells] == [2, 2, 2, 0]
        throughput = cells[2]["measures"]["session_throughput"]
        assert 0.7e6 < throughput["value"] < 1.0e6  # SIM's layers fill the 1 Mbit/s link
        made = {path: path.stat().st_mtime_ns for path in runs.glob("*/summary.json")}
        assert len(made) == 6
        assert made | kept == made  # those from before are unchanged

        third = tiercast(*command, env=environment)
        again, errors = third.communicate()
        assert "6 of 6 runs, 6 found" in errors
        assert "Traceback" not in errors
        assert json.loads(again)["cells"] == cells
        assert made == {path: path.stat().st_mtime_ns for path in runs.glob("*/summary.json")}
        assert not list(temporary.iterdir())
    finally:
        shutil.rmtree(temporary)
    assert set(Path("/dev/shm").iterdir()) <= shared
