"""docs/reproduction.md is what its records say, of every figure that there is."""

from typing import Any

import pytest
from tiercast_lab.base.errors import InputError
from tiercast_lab.show import reproduction_page

from .page import ROOT

FIGURES = sorted(path.stem for path in (ROOT / "experiments/figures").glob("*.yaml"))


def test_the_page_is_made_of_its_records() -> None:
    made = reproduction_page.page(reproduction_page.read_records())
    assert reproduction_page.PAGE.read_text() == made, "run: tiercast figure NAME --record"


def test_every_figure_has_a_record() -> None:
    assert sorted(one["figure"] for one in reproduction_page.read_records()) == FIGURES


def test_every_analysis_is_there() -> None:
    for path in reproduction_page.ANALYSES.values():
        assert (ROOT / "docs" / path).exists()


def summary(**changes: Any) -> dict[str, Any]:
    row = {
        "measure": "loss", "curve": "SIM", "x": 2, "over": "", "paper_text": "1.00 %",
        "required": "≤ 2.00 %", "text": "3.00 %", "ok": False, "gate": True,
    }  # fmt: skip
    return {
        "figure": "sim-2", "title": "A title", "paper": "SIM, figure 2", "paper_name": "SIM",
        "again": "./tiercast figure sim-2", "quick": False, "runs": [{}, {}, {}],
        "versions": {"commit": "abc"}, "verdict": "not met", "expected": [row], "failures": [],
    } | changes  # fmt: skip


def test_a_verdict_takes_the_place_of_the_last_one(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = tmp_path / "figures.json"
    records.write_text(reproduction_page.RECORDS.read_text())
    monkeypatch.setattr(reproduction_page, "RECORDS", records)
    monkeypatch.setattr(reproduction_page, "PAGE", tmp_path / "page.md")
    reproduction_page.keep([summary()])
    page = (tmp_path / "page.md").read_text()
    assert len(reproduction_page.read_records()) == len(FIGURES)
    assert "| SIM | figure 2 | `sim-2` | whole, 3 | abc | **not met** | 0 of 1 |" in page
    assert "- SIM, figure 2: SIM loss\n" in page
    assert "| SIM loss | 2 | 1.00 % | ≤ 2.00 % | 3.00 % | **not met** |" in page


@pytest.mark.parametrize("changes", [{"quick": True}, {"verdict": "failed"}])
def test_what_was_not_run_whole_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="--record: sim-2 was .*valid: the whole of a figure"):
        reproduction_page.keep([summary(**changes)])
