"""Figures in real time: what a `mininet` block may say, which runs follow, and how many at once."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
from pathlib import Path

import pytest
from tiercast_lab.base import binaries
from tiercast_lab.base.errors import InputError
from tiercast_lab.base.interrupt import Interrupt
from tiercast_lab.experiment.schemes import known_schemes
from tiercast_lab.run.mininet.traffic import require_one_stack
from tiercast_lab.run.progress import Tally
from tiercast_lab.study.figure_spec import FigureSpec, all_figures, find_figure
from tiercast_lab.study.runs import Store, key_of, run_all, stored_outcome
from tiercast_lab.study.target import MININET, MININET_BMV2, VIRTUAL, is_installed
from tiercast_lab.study.workers import Job, JobResult, LocalWorkers, cores_taken

from ..checkout import ROOT
from .conftest import skip_if_invalid

FIGURE = """\
    name: two-rates
    title: Two rates of two curves
    topology:
      nodes: [0, 1, 2]
      link: {rate: 2Mbit/s, delay: 5ms, queue: 50p}
      links: {0-1: {}, 1-2: {}}
    sessions:
      - {scheme: sim, sender: 0, receivers: [2], layers: 1}
    duration: 40s
    measure: {last: 20s, periods: {late: [30s, 40s]}}
    figure:
      x: rate (Mbit/s)
      points:
        - {x: 1, set: {topology.link.rate: 1Mbit/s}}
        - {x: 2}
      curves:
        - {name: one layer}
        - {name: two layers, set: {sessions.0.layers: 2}}
      expect:
        - {measure: session_throughput, at: 1, paper: 1Mbit/s, tolerance: 20%}
        - {measure: session_throughput, at: 2, over: {at: 1}, min: 1.5, max: 2.5}
        - {measure: efficiency, curve: two layers, min: 0.5}
        - {measure: efficiency, curve: one layer, paper: {1: 1, 2: 1}, min: 0.5, gate: false}
      mininet:
        set: {duration: 20s, measure: {last: 10s}}
        points: [1, {x: 2, set: {topology.link.rate: 1500kbit/s}}]
        curves: [one layer]
        seeds: [7]
        why: forty seconds are long
        judges: rates of 1 and 1.5 Mbit/s, of one layer
    """


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "two-rates.yaml"
    path.write_text(textwrap.dedent(FIGURE))
    return path


def block(file: Path, text: str) -> FigureSpec:
    """The figure with this text as its `mininet` block."""
    content = file.read_text()
    file.write_text(content[: content.index("  mininet:")] + textwrap.indent(text, "  "))
    return find_figure(str(file), known_schemes())


def test_runs_in_real_time_are_those_of_the_block(file: Path) -> None:
    figure = find_figure(str(file), known_schemes())
    assert len(figure.tasks(quick=False)) == 12
    tasks = figure.on(MININET).tasks(quick=False)
    assert [(one.run.curve, one.run.x, one.run.seed) for one in tasks] == [
        ("one layer", 1, 7), ("one layer", 2, 7),
    ]  # fmt: skip
    first, second = (one.load(known_schemes()) for one in tasks)
    assert [one.experiment.duration for one in (first, second)] == [20 * 10**9] * 2
    assert first.window == (10.0, 20.0)
    rates = [one.topology.links["0-1"].parameters.rate for one in (first, second)]
    assert rates == [1_000_000, 1_500_000]
    assert tasks[0].command[3] == "--runtime=mininet"
    assert figure.on(MININET_BMV2).tasks(False)[0].command[3:5] == [
        "--runtime=mininet", "--switch=bmv2",
    ]  # fmt: skip
    # The same set-up in virtual time, for comparison.
    again = figure.on(VIRTUAL).tasks(quick=False)
    assert [one.run.settings for one in again] == [one.run.settings for one in tasks]


def test_what_is_left_out_is_not_judged(file: Path) -> None:
    section = find_figure(str(file), known_schemes()).on(MININET).section
    assert [(one.measure, one.curve) for one in section.expect] == [
        ("session_throughput", "one layer"),
        ("session_throughput", "one layer"),
        ("efficiency", "one layer"),
    ]
    assert section.expect[1].over.curve == "one layer"
    assert section.expect[2].paper == {1: 1.0, 2: 1.0}
    assert section.as_first_set_up is None


def test_the_scaling_is_told(file: Path) -> None:
    figure = find_figure(str(file), known_schemes())
    assert figure.scaling == []
    told = figure.on(MININET).scaling
    assert told[0] == (
        "Scaled: duration=20s, measure={last: 10s}, 1 of 2 curves, 1 of 3 seeds, "
        "points of its own. Why: forty seconds are long"
    )
    assert told[1] == "The numbers then judge: rates of 1 and 1.5 Mbit/s, of one layer"
    assert block(file, "mininet: {cores: 1.5}\n").on(MININET).scaling == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{refused: too many, seeds: [1]}", "'refused' and 'seeds'; valid: one of them"),
        ("{seeds: [1]}", "what is scaled needs 'why'"),
        ("{curves: [three], why: a}", "no curve 'three'; valid: one layer, two layers"),
        ("{points: [3], why: a}", "mininet: no point at 3; valid: 1, 2"),
        ("{points: [1, 1], why: a, judges: b}", "a point or a curve is given twice; valid: once"),
        ("{cores: 0}", "figure.mininet.cores: 0; valid: above 0"),
        ("{slow: true}", "figure.mininet.slow: unknown key; valid: refused, set, points"),
        # What changes the numbers' meaning has to be told.
        ("{set: {topology.link.delay: 1ms}, why: a}", "it sets topology.link.delay: the numbers"),
        ("{set: {measure.periods.late: [5s, 9s]}, why: a}", "it sets measure.periods.late"),
        ("{curves: [one layer], why: a}", "2 required numbers of points and curves that it leaves"),
        ("{points: [1], why: a}", "2 required numbers of points and curves that it leaves out"),
        (
            "{set: {topology.link.rate: 3Mbit/s}, why: a, judges: b}",
            "'set' makes one layer at 2 the same run as one layer at 1",
        ),
    ],
)
def test_a_wrong_block_is_named(file: Path, text: str, error: str) -> None:
    with pytest.raises(InputError) as found:
        block(file, f"mininet: {text}\n")
    assert error in str(found.value)
    assert "two-rates.yaml:" in str(found.value)


def test_a_count_over_another_time_has_to_be_told(file: Path) -> None:
    content = file.read_text()
    old, new = "measure: efficiency, curve: two layers, min: 0.5", "measure: feedbacks, min: 100"
    file.write_text(content.replace(old, new))
    with pytest.raises(InputError, match="feedbacks counts over another time: the numbers judge s"):
        block(file, "mininet: {set: {duration: 35s}, why: a}\n")
    told = "mininet: {set: {duration: 35s}, why: a, judges: feedback of 35 s}\n"
    assert block(file, told).on(MININET).section.expect[2].measure == "feedbacks"


def test_fewer_draws_have_to_be_told(file: Path) -> None:
    file.write_text(file.read_text().replace("  x: rate", "  seeded: [traffic.0.x]\n  x: rate"))
    with pytest.raises(InputError, match="1 draw from a seed instead of 3"):
        block(file, "mininet: {seeds: [1], why: a}\n")


def test_a_refusal_names_the_place_and_the_reason(file: Path) -> None:
    figure = block(file, "mininet:\n  refused: a million receivers\n")
    line = file.read_text().splitlines().index("    refused: a million receivers") + 1
    with pytest.raises(InputError) as found:
        figure.on(MININET)
    assert str(found.value) == (
        f"{file}:{line}: two-rates is not run in real time: a million receivers; "
        "valid: --runtime ns3"
    )


def test_what_only_virtual_time_has_is_refused_before_a_run(file: Path) -> None:
    content = file.read_text()
    file.write_text(content.replace("nodes: [0, 1, 2]", "nodes: [0, 1, 2]\n  one_way: true"))
    figure = find_figure(str(file), known_schemes())
    with pytest.raises(InputError, match=r"topology\.one_way: not in Mininet; valid: --runtime"):
        figure.on(MININET).tasks(False)[0].load(known_schemes())
    figure.on(VIRTUAL).tasks(False)[0].load(known_schemes())


@pytest.mark.slow
def test_every_figure_of_the_repository_runs_in_real_time_or_says_why_not() -> None:
    schemes = known_schemes()
    refused = []
    for figure in all_figures(schemes, binaries.FIGURES):
        if figure.mininet.refused is not None:
            refused.append(figure.name)
            continue
        scaled = figure.on(MININET)
        assert scaled.section.expect, figure.name
        for task in scaled.tasks(quick=False):
            require_one_stack(task.load(schemes))
    assert refused == ["groups", "sim-6"]


def test_the_command_line_names_what_it_cannot_run(file: Path, tmp_path: Path) -> None:
    def fails(*arguments: object) -> str:
        command = [ROOT / "tiercast", "figure", file, "--results", tmp_path / "none", *arguments]
        found = subprocess.run(command, capture_output=True, text=True)
        assert found.returncode == 2
        assert not (tmp_path / "none").exists()
        return found.stderr

    assert "--switch bmv2: --runtime ns3 runs the engine; valid: tiercast" in fails(
        "--switch", "bmv2"
    )
    block(file, "mininet: {refused: too many receivers}\n")
    assert "two-rates is not run in real time: too many" in fails("--runtime", "mininet")


# ---- which runs are made, and how many at once --------------------------------------------------


def test_a_run_is_known_by_what_makes_it(file: Path) -> None:
    schemes = known_schemes()
    figure = find_figure(str(file), schemes)
    loaded = figure.on(VIRTUAL).tasks(False)[0].load(schemes)
    keys = {key_of(loaded, 7, target) for target in (VIRTUAL, MININET)}
    assert len(keys) == 2
    assert key_of(loaded, 7) == key_of(loaded, 7, VIRTUAL)


def summary_of(cpu: float, reasons: tuple[str, ...] = ()) -> bytes:
    return json.dumps({
        "verdict": "invalid" if reasons else "met",
        "reasons": list(reasons),
        "validity": {"checks": [{"name": "cpu", "measured": cpu}]},
        "measures": {},
    }).encode()  # fmt: skip


def test_a_run_takes_the_cores_that_it_was_measured_to_take() -> None:
    assert cores_taken(json.loads(summary_of(96.0))) == pytest.approx(1.28)  # 75 % of each
    assert cores_taken({}) is None
    assert cores_taken({"validity": {"checks": []}}) is None


class Machine(LocalWorkers):
    """A machine of some cores on which each run takes `cpu` % of one, and on which runs that
    `crowded` names are invalid beside others, and those that `slow` names always."""

    def __init__(self, cores: int, cpu: float, crowded: str = "", slow: str = "") -> None:
        super().__init__(cores)
        self.cpu, self.crowded, self.slow = cpu, crowded, slow
        self.jobs: list[Job] = []
        self.history: list[list[tuple[str, float]]] = []  # names and cores of what ran at once

    def submit(self, job: Job) -> None:
        self.jobs.append(job)

    def ended(self, timeout_s: float) -> list[tuple[Job, JobResult | None]]:
        self.history.append([(job.name, job.cores) for job in self.jobs])
        beside = len(self.jobs) > 1
        job = self.jobs.pop(0)
        late = (self.crowded and self.crowded in job.name and beside) or (
            self.slow and self.slow in job.name
        )
        reasons = ("late_max: 80 ms > 50",) if late else ()
        files = {"summary.json": summary_of(self.cpu, reasons)}
        return [(job, JobResult(files))]


def made_on(
    machine: Machine, file: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[list, list[Tally]]:
    monkeypatch.setattr(Store, "measures", lambda *_: {"efficiency": 1.0})
    figure = block(file, "mininet: {seeds: [1, 2, 3], why: a}\n")
    tasks = [one for one in figure.on(MININET).tasks(False) if one.run.x == 1][:3]
    seen: list[Tally] = []
    outcomes = run_all(
        tasks, known_schemes(), Store(folder / "runs"), lambda: machine, Interrupt(), seen.append
    )
    return outcomes, seen


def test_as_many_run_at_once_as_the_cores_carry(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of the first nothing is known: it has the machine. It takes 1.28 cores, so that three have
    # room on four.
    machine = Machine(4, 96.0)
    made_on(machine, file, tmp_path, monkeypatch)
    assert [len(one) for one in machine.history] == [1, 2, 1]
    assert machine.history[0][0][1] == 4
    assert [cores for _, cores in machine.history[1]] == [pytest.approx(1.28)] * 2
    # On two cores one has room at a time.
    machine = Machine(2, 96.0)
    made_on(machine, file, tmp_path / "two", monkeypatch)
    assert [len(one) for one in machine.history] == [1, 1, 1]


def test_a_run_that_could_not_keep_up_beside_others_is_made_again_alone(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(4, 96.0, crowded="seed")
    outcomes, seen = made_on(machine, file, tmp_path, monkeypatch)
    assert [one.failure for one in outcomes] == ["", "", ""]
    assert seen[-1].crowded == 1  # of the two that ran at once, the one that ended first
    assert seen[-1].done == 3
    again = machine.history[-1]
    assert len(again) == 1
    assert again[0][1] == 4


def test_a_run_that_had_no_other_beside_it_is_not_made_again(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has room for itself alone, though it is given less than the machine."""
    machine = Machine(2, 96.0, slow="seed 1")
    outcomes, seen = made_on(machine, file, tmp_path, monkeypatch)
    assert [one.invalid for one in outcomes] == [True, False, False]
    assert (len(machine.history), seen[-1].crowded) == (3, 0)


def test_a_run_that_is_invalid_alone_is_kept_to_look_at(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(2, 170.0, slow="seed 2")
    outcomes, _ = made_on(machine, file, tmp_path, monkeypatch)
    assert [one.failure for one in outcomes] == ["", "invalid: late_max: 80 ms > 50", ""]
    assert [one.invalid for one in outcomes] == [False, True, False]
    assert outcomes[1].directory.name.endswith("-invalid")
    assert (outcomes[1].directory / "summary.json").exists()
    # It stands for no run: the next call makes it again, and a page says why it has no numbers.
    store = Store(tmp_path / "runs")
    stored = stored_outcome(outcomes[1].task, known_schemes(), store)
    assert stored is not None
    assert stored.failure == "invalid: late_max: 80 ms > 50"
    again = Machine(2, 170.0)
    outcomes, _ = made_on(again, file, tmp_path, monkeypatch)
    assert [name[-6:] for one in again.history for name, _ in one] == ["seed 2"]
    assert [one.failure for one in outcomes] == ["", "", ""]


# ---- real runs ----------------------------------------------------------------------------------


@pytest.mark.alone
@pytest.mark.mininet
def test_a_figure_runs_in_mininet_and_measures_what_virtual_time_does(
    file: Path, tmp_path: Path
) -> None:
    """SIM fills a link of 1 Mbit/s in either runtime. The band of 10 % is test_parity's."""
    block(
        file,
        "mininet: {set: {duration: 15s, measure.last: 5s, measure.periods.late: [10s, 15s]}, "
        "points: [1], curves: [one layer], seeds: [1], why: short, judges: one point}\n",
    )
    results = tmp_path / "results"

    def figure(*options: str) -> tuple[dict, str]:
        command = [ROOT / "tiercast", "figure", file, *options, "--results", results, "--json"]
        made = subprocess.run(command, capture_output=True, text=True)
        assert made.returncode in (0, 1, 3), made.stderr
        (summary,) = json.loads(made.stdout)
        return summary, made.stderr

    real, _ = figure("--runtime", "mininet")
    assert real["again"].endswith("two-rates.yaml --runtime=mininet")
    assert real["runtime"] == "Mininet"
    assert "Why: short" in real["scaling"][0]
    assert "in Mininet" in (results / "figures-mininet/report.html").read_text()
    assert "Why: short" in (results / "figures-mininet/report.html").read_text()
    skip_if_invalid({"verdict": real["verdict"], "reasons": real["failures"]})
    _, told = figure("--runtime", "mininet")
    assert "1 of 1 runs, 1 found" in told
    virtual, _ = figure("--scaled")
    assert virtual["runtime"] == "virtual time"
    rates = [one["runs"][0]["measures"]["session_throughput"] for one in (real, virtual)]
    assert rates[0] == pytest.approx(rates[1], rel=0.1)
    assert is_installed(MININET)


@pytest.mark.alone
@pytest.mark.mininet
def test_a_sweep_runs_in_mininet_as_tasks_of_ray(tmp_path: Path) -> None:
    """Three runs by the cores that they take, and the same cells as in virtual time."""
    experiment = textwrap.dedent(FIGURE)
    experiment = experiment[: experiment.index("figure:")].replace("two-rates", "one-link")
    experiment = experiment.replace(", periods: {late: [30s, 40s]}", "")
    (tmp_path / "one-link.yaml").write_text(experiment)
    sweep = {
        "name": "real", "title": "A sweep in real time", "experiment": "one-link",
        "set": {"duration": "10s", "measure.last": "3s"}, "cores": 0.5,
        "axes": {"rate": {"key": "topology.link.rate", "values": ["1Mbit/s", "2Mbit/s"]}},
        "seeds": [1, 2], "measures": ["session_throughput"],
    }  # fmt: skip
    file, results = tmp_path / "real.yaml", tmp_path / "results"
    file.write_text(json.dumps(sweep))

    def cells(*options: str) -> list[dict]:
        command = [ROOT / "tiercast", "sweep", file, *options, "--jobs", "2", "--json"]
        made = subprocess.run(
            [*command, "--results", results], capture_output=True, text=True, env=os.environ
        )
        skip_if_invalid({
            "verdict": "invalid" if made.returncode == 3 else "", "reasons": [made.stderr],
        })  # fmt: skip
        assert made.returncode == 0, made.stderr
        found: list[dict] = json.loads(made.stdout)["cells"]
        return found

    real = cells("--runtime", "mininet")
    assert "4 runs in Mininet" in (results / "sweeps-mininet/real/report.html").read_text()
    summaries = [json.loads(path.read_text()) for path in results.glob("runs/*/summary.json")]
    assert [(one["runtime"], one["verdict"]) for one in summaries] == [("mininet", "reported")] * 4
    virtual = cells()
    for mine, other in zip(real, virtual, strict=True):
        rates = [one["measures"]["session_throughput"]["value"] for one in (mine, other)]
        assert rates[0] == pytest.approx(rates[1], rel=0.1)  # test_parity's band
