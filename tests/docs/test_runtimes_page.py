"""docs/runtimes.md is what its records say, and its records are what stored runs measured."""

from __future__ import annotations

import json
import re
import shutil
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from tiercast_lab.base.interrupt import Interrupt
from tiercast_lab.experiment.schemes import known_schemes
from tiercast_lab.show.docs_pages import runtimes as runtimes_page
from tiercast_lab.study.figure_results import VERDICTS, FigureResults, Judged
from tiercast_lab.study.figure_spec import FigureSpec, find_figure
from tiercast_lab.study.runs import Store, key_of, run_all
from tiercast_lab.study.runtimes import Record, compared, record_of
from tiercast_lab.study.target import MININET, VIRTUAL
from tiercast_lab.study.workers import LocalWorkers

from ..checkout import ROOT

FIGURES = {path.stem for path in (ROOT / "experiments/figures").glob("*.yaml")}

FIGURE = """\
    name: two-rates
    title: One link at two rates
    paper: {name: SIM, figure: "0"}
    topology:
      nodes: [0, 1, 2]
      link: {rate: 2Mbit/s, delay: 5ms, queue: 50p}
      links: {0-1: {}, 1-2: {}}
    sessions:
      - {scheme: sim, sender: 0, receivers: [2], layers: 1}
    duration: 40s
    measure: {last: 5s}
    figure:
      points:
        - {x: 1, set: {topology.link.rate: 1Mbit/s}}
        - {x: 2}
      seeds: [1]
      expect:
        - {measure: session_throughput, at: 1, paper: 1Mbit/s, tolerance: 20%}
        - {measure: session_throughput, at: 2, over: {at: 1}, min: 1.5, max: 2.5}
        - {measure: efficiency, min: 0.5, gate: false}
        - {measure: efficiency, min: 0.6, gate: false}
      mininet:
        set: {duration: 10s}
        why: forty seconds are long
        differs:
          - {measure: session_throughput, why: the other link is faster}
    """


def test_the_page_is_made_of_its_records() -> None:
    made = runtimes_page.page(runtimes_page.read_records())
    assert runtimes_page.PAGE.read_text() == made, "run: tiercast runtimes"


def test_every_figure_is_on_the_page() -> None:
    """A figure that came since the page was written has no record yet."""
    records = runtimes_page.read_records()
    assert records
    assert set(records) <= FIGURES
    page = runtimes_page.PAGE.read_text()
    assert all(f"`{name}`" in page for name in records)


def test_the_page_on_trust_has_its_numbers() -> None:
    both = re.search(
        r"Of their (\d+) numbers (\d+) are within 10 %, and", runtimes_page.PAGE.read_text()
    )
    assert both is not None
    trust = (ROOT / "docs/trust.md").read_text()
    assert (
        f"Of {both[1]} numbers of figures that were run in both, {both[2]} are within 10 %" in trust
    )


def test_every_large_difference_has_its_reason() -> None:
    for record in runtimes_page.read_records().values():
        far = [row for row in compared(record) if row["far"]]
        assert all(row["why"] for row in far), f"{record['figure']}: `differs` in its file"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs of both points in virtual time, and a store with them."""
    folder = tmp_path_factory.mktemp("runtimes")
    (folder / "two-rates.yaml").write_text(textwrap.dedent(FIGURE))
    tasks = spec(folder).on(VIRTUAL).tasks(quick=False)
    outcomes = run_all(
        tasks, known_schemes(), Store(folder / "runs"), lambda: LocalWorkers(2), Interrupt(),
        lambda _: None,
    )  # fmt: skip
    assert [one.failure for one in outcomes] == ["", ""]
    return folder


def spec(folder: Path) -> FigureSpec:
    return find_figure(str(folder / "two-rates.yaml"), known_schemes())


def record(folder: Path, store: Path, before: Record | None = None) -> Record:
    return record_of(spec(folder), known_schemes(), Store(store), before=before)


def with_real(folder: Path, store: Path, points: tuple[int, ...], invalid: bool = False) -> Path:
    """A store that holds, as the real runs of these points, the virtual run of the other point: its
    numbers are known, and differ."""
    shutil.copytree(folder / "runs", store)
    virtual = spec(folder).on(VIRTUAL).tasks(quick=False)
    schemes = known_schemes()
    keys = [key_of(task.load(schemes), 1) for task in virtual]
    for index in points:
        key = key_of(virtual[index].load(schemes), 1, MININET)
        place = store / (f"{key}-invalid" if invalid else key)
        shutil.copytree(store / keys[1 - index], place)
        if invalid:
            summary = json.loads((place / "summary.json").read_text())
            reasons = [
                "cpu: 170 % of one core > 150 (CPU of all programs; a quarter is left)",
                "late: not measured (lateness)",
                "pause: 300 ms > 250: lab 300 ms (before 3 s) and 2 more (longest; of a program)",
            ]
            summary |= {"verdict": "invalid", "reasons": reasons}
            (place / "summary.json").write_text(json.dumps(summary))
    return store


def test_numbers_come_from_stored_runs_and_are_those_of_the_scaled_figure(
    folder: Path, tmp_path: Path
) -> None:
    made = record(folder, with_real(folder, tmp_path / "runs", (0, 1)))
    rows = compared(made)
    # One row a number, though efficiency is judged twice.
    assert [(one["measure"], one["x"]) for one in rows] == [
        ("session_throughput", 1), ("session_throughput", 2), ("efficiency", 1), ("efficiency", 2),
    ]  # fmt: skip
    first, ratio = rows[0], rows[1]
    # The other point has twice the rate, of which SIM takes nine tenths or more.
    assert first["differences"]["mininet"] == pytest.approx(1.0, abs=0.15)
    assert first["why"] == "the other link is faster"
    share = made["targets"]["mininet"]["values"][1]["measured"]
    other = made["targets"]["ns3"]["values"][1]["measured"]
    assert share == pytest.approx(1 / other)
    assert ratio["differences"]["mininet"] == pytest.approx(share / other - 1)
    summaries = [json.loads(one.read_text()) for one in folder.glob("runs/*/summary.json")]
    assert {one["duration_s"] for one in summaries} == {10.0}


def test_of_several_bounds_of_a_number_the_worst_verdict_stands(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = FigureResults.judge
    for number, worst in enumerate(VERDICTS):
        best_first = ("", *reversed(VERDICTS[number:]))

        def judged(results: FigureResults, verdicts: tuple[str, ...] = best_first) -> list[Judged]:
            one = judge(results)[0]
            return [replace(one, verdict=verdict) for verdict in verdicts]

        monkeypatch.setattr(FigureResults, "judge", judged)
        (row,) = record(folder, folder / "runs")["targets"]["ns3"]["values"]
        assert row["verdict"] == worst


def test_the_page_shows_both_and_their_difference(folder: Path, tmp_path: Path) -> None:
    made = record(folder, with_real(folder, tmp_path / "runs", (0, 1)))
    page = runtimes_page.page({"two-rates": made})
    assert "**1 of 1 figures were run in both.** Of their 4 numbers 2 are within 10 %, and" in page
    assert "Scaled: duration=10s. Why: forty seconds are long." in page
    (line,) = re.findall(r"^\| session throughput \| 1 \|.*$", page, re.M)
    _, _, _, virtual, real, difference, _ = (cell.strip() for cell in line.split("|"))
    assert re.fullmatch(r"0\.9\d Mbit/s|1\.00 Mbit/s", virtual)
    assert re.fullmatch(r"(1\.[89]\d|2\.00) Mbit/s \(\*\*not met\*\*\)", real)
    percent = float(difference.strip("*% "))
    shown = [float(one.split()[0]) for one in (virtual, real)]
    assert percent == pytest.approx(100 * (shown[1] / shown[0] - 1), abs=2)  # two digits are shown
    assert re.search(r"^- session throughput at 1, .*: the other link is faster$", page, re.M)


def test_a_large_difference_without_a_reason_is_shown_as_such(folder: Path, tmp_path: Path) -> None:
    made = record(folder, with_real(folder, tmp_path / "runs", (0, 1))) | {"differs": []}
    assert ": **no reason is known yet**" in runtimes_page.page({"two-rates": made})


def test_a_figure_that_was_run_in_part_has_no_numbers(folder: Path, tmp_path: Path) -> None:
    made = record(folder, with_real(folder, tmp_path / "runs", (0,)))
    assert made["targets"]["mininet"]["values"] == []
    page = runtimes_page.page({"two-rates": made})
    assert "virtual time: 2 runs, 2 of 2 met, Mininet: 1 of 2 runs." in page


def test_an_invalid_run_gives_its_reason_and_no_number(folder: Path, tmp_path: Path) -> None:
    made = record(folder, with_real(folder, tmp_path / "runs", (0, 1), invalid=True))
    assert made["targets"]["mininet"]["values"] == []
    page = runtimes_page.page({"two-rates": made})
    assert (
        "Mininet: 0 of 2 runs.\n"
        "  - Mininet: invalid: cpu: 170 % of one core > 150; late: not measured; "
        "pause: 300 ms > 250.\n"
    ) in page


def test_why_a_switch_has_no_numbers_is_said_beside_those_of_the_other(
    folder: Path, tmp_path: Path
) -> None:
    made = record(folder, with_real(folder, tmp_path / "runs", (0, 1)))
    refused = {"stored": 0, "values": [], "reasons": ["--switch bmv2: its queues have no RED"]}
    made["targets"]["bmv2"] |= refused
    page = runtimes_page.page({"two-rates": made})
    assert " | 0 of 2 runs | " in page
    assert f"\n- {runtimes_page.NAMES['bmv2']}: --switch bmv2: its queues have no RED.\n" in page


def test_what_is_no_longer_stored_stays_unless_the_figure_is_scaled_otherwise(
    folder: Path, tmp_path: Path
) -> None:
    made = record(folder, with_real(folder, tmp_path / "runs", (0, 1)))
    assert record(folder, tmp_path / "empty", before=made) == made
    otherwise = made | {"scaling": ["Scaled: duration=20s. Why: it was"]}
    assert record(folder, tmp_path / "empty", before=otherwise)["targets"]["ns3"]["values"] == []
