"""docs/reproduction/changes.md is what its list and records say, with all that is calibrated."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tiercast_lab.base.errors import InputError
from tiercast_lab.experiment.calibrated_schema import Calibrated
from tiercast_lab.experiment.schemes import known_schemes
from tiercast_lab.show.docs_pages import changes as changes_page
from tiercast_lab.study.calibrated import calibrated_numbers, figures_otherwise, find_calibrated

from ..checkout import ROOT


def test_the_page_is_made_of_its_list_and_records() -> None:
    made = changes_page.page(calibrated_numbers(), changes_page.read_records())
    assert changes_page.PAGE.read_text() == made, "run: tiercast calibrated NAME --record"


def test_every_calibrated_parameter_is_listed() -> None:
    listed = {one.name for one in calibrated_numbers()}
    calibrated = {
        name
        for scheme in known_schemes().values()
        for name, parameter in scheme.parameters.items()
        if "calibrated" in parameter.source
    }
    # ERMCC's beta is listed as a choice of long standing, whatever its default is.
    assert calibrated - {"ermcc.beta"} <= listed


def test_every_commit_is_in_the_history() -> None:
    for one in calibrated_numbers():
        git = ["git", "-C", str(ROOT), "cat-file", "-e", f"{one.commit}^{{commit}}"]
        assert subprocess.run(git, check=False).returncode == 0, one.name


def test_the_other_values_can_be_set_in_each_figure() -> None:
    schemes = known_schemes()
    for number in find_calibrated([]):
        for figure in figures_otherwise(number, schemes):
            other = [task for task in figure.tasks(quick=False) if task.run.first]
            loaded = other[0].load(schemes)
            parameters = [one.parameters for one in loaded.experiment.sessions]
            for key in number.set:
                if key.partition(".")[0] in schemes:
                    assert any(key in one for one in parameters), (number.name, figure.name)


def test_an_unknown_number_is_named() -> None:
    with pytest.raises(InputError, match="no calibrated number 'sim.alpha'; valid: "):
        find_calibrated(["sim.alpha"])


def test_what_was_measured_takes_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes_page, "RECORDS", tmp_path / "changes.json")
    monkeypatch.setattr(changes_page, "PAGE", tmp_path / "changes.md")
    number = Calibrated(
        name="sim.delta", value="0.965", before="–", otherwise="0.875, PROTOCOLS", commit="cee4b72",
        why="a reason", set={"sim.delta": 0.875}, figures=["sim-2", "sim-7"],
    )  # fmt: skip
    row = {
        "measure": "efficiency", "curve": "", "x": 0, "over": "", "text": "0.85",
        "required": "≥ 0.90", "ok": False, "gate": True,
    }  # fmt: skip
    summary: dict[str, Any] = {
        "figure": "sim-2", "versions": {"commit": "abc"}, "quick": False, "verdict": "met",
        "expected": [row | {"ok": True}],
        "as_first_set_up": {"verdict": "not met", "expected": [row]},
    }  # fmt: skip
    page = changes_page.page([number], {})
    assert (
        "**Of 2 comparisons with another value 0 were run whole and 0 quickly, with one seed; "
        "2 were not run.**\nWhat the verdicts would be" in page
    )
    changes_page.record([(number, [summary])], [number])
    page = (tmp_path / "changes.md").read_text()
    assert "Of 2 comparisons with another value 1 were run whole and 0 quickly" in page
    assert "1 were not run." in page
    assert (
        "| `sim.delta` | `sim.delta=0.875` | `sim-2` | whole, abc | met "
        "| not met: efficiency: 0.85 (≥ 0.90) |" in page
    )
    assert "| `sim.delta` | `sim.delta=0.875` | `sim-7` | not run yet | |  |" in page
    quickly = summary | {"figure": "sim-7", "quick": True}
    changes_page.record([(number, [summary, quickly])], [number])
    page = (tmp_path / "changes.md").read_text()
    assert "1 were run whole and 1 quickly, with one seed; 0 were not run.**\nWhat" in page
    changes_page.record([(number, [summary, quickly | {"quick": False}])], [number])
    page = (tmp_path / "changes.md").read_text()
    assert "2 were run whole" in page and "What the verdicts would be" not in page
