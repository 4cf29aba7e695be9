"""docs/reproduction.md is what its records say, of every figure that there is."""

import json
from pathlib import Path
from typing import Any

import pytest
from tiercast_lab.base.errors import InputError
from tiercast_lab.show.docs_pages import reproduction as reproduction_page

from ..checkout import ROOT

FIGURES = sorted(path.stem for path in (ROOT / "experiments/figures").glob("*.yaml"))


def test_the_page_is_made_of_its_records() -> None:
    made = reproduction_page.page(reproduction_page.read_records())
    assert reproduction_page.PAGE.read_text() == made, "run: tiercast reproduce --record"


def test_every_record_is_of_a_figure_that_is_there() -> None:
    """A figure that came since its paper was recorded has none yet."""
    records = [one["figure"] for one in reproduction_page.read_records()["figures"]]
    assert records
    assert set(records) <= set(FIGURES)
    assert len(set(records)) == len(records)


def test_every_analysis_is_there() -> None:
    for path in reproduction_page.ANALYSES.values():
        assert (ROOT / "docs" / path).exists()


def row(**changes: Any) -> dict[str, Any]:
    return {
        "measure": "loss", "curve": "SIM", "x": 2, "over": "", "paper_text": "1.00 %",
        "required": "≤ 2.00 %", "text": "3.00 %", "ok": False, "gate": True, "verdict": "not met",
    } | changes  # fmt: skip


def stored(folder: Path, name: str, commit: str | None = "abc", program: str = "1" * 64) -> Path:
    """A stored run, as far as its origin is concerned."""
    (folder / name).mkdir()
    files = {"build/ns3/tiercast-ns3": program, f"experiments/{name}.yaml": name}
    told = {"versions": {"commit": commit}, "files": files}
    (folder / name / "summary.json").write_text(json.dumps(told))
    return folder / name


@pytest.fixture
def summary(tmp_path: Path) -> dict[str, Any]:
    return {
        "figure": "sim-2", "title": "A title", "paper": "SIM, figure 2", "paper_name": "SIM",
        "again": "./tiercast figure sim-2", "quick": False,
        "runs": [{"seed": seed, "directory": str(stored(tmp_path, f"run-{seed}"))}
                 for seed in (1, 2, 3)],
        "versions": {"commit": "abc"}, "verdict": "not met", "expected": [row()], "failures": [],
        "as_first_set_up": None,
    }  # fmt: skip


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(reproduction_page, "RECORDS", tmp_path / "figures.json")
    monkeypatch.setattr(reproduction_page, "PAGE", tmp_path / "page.md")
    return tmp_path / "page.md"


def test_the_page_says_what_was_run_at_which_commit(kept: Path, summary: dict[str, Any]) -> None:
    reproduction_page.keep([summary])
    page = kept.read_text()
    assert "- SIM: abc\n" in page
    assert "| SIM | figure 2 | [`sim-2`](#sim-2) | whole, 3 | 3 | **not met** | 0 of 1 |" in page
    assert '<a id="sim-2"></a>\n\n## A title: not met\n' in page
    assert "## Not met\n\n- SIM, figure 2: SIM loss: 3.00 % (≤ 2.00 %)\n\n## Why\n" in page
    assert "| SIM loss | 2 | 1.00 % | ≤ 2.00 % | 3.00 % | **not met** |" in page


def test_what_the_seeds_do_not_decide_stands_apart(kept: Path, summary: dict[str, Any]) -> None:
    """And a tolerance stands beside the paper's number."""
    near = row(required="± 25 %", paper_text="1.00 %", text="1.30 % ± 0.20 %")
    uncertain = {"figure": "sim-3", "paper": "SIM, figure 3", "expected": [near]}
    both = [summary | uncertain | {"verdict": "not met, uncertain"}, summary]
    reproduction_page.keep(both)
    page = kept.read_text()
    assert (
        "## Not met\n\n- SIM, figure 2: SIM loss: 3.00 % (≤ 2.00 %)\n\nNot met, but uncertain:\n\n"
        "- SIM, figure 3: SIM loss: 1.30 % ± 0.20 % (1.00 % ± 25 %)\n\n## Why\n"
    ) in page
    reproduction_page.keep([one | {"verdict": "met"} for one in both])
    assert "## Not met\n\nNone.\n" in kept.read_text()


def test_the_first_set_up_stands_in_the_same_table(kept: Path, summary: dict[str, Any]) -> None:
    good = row(ok=True, verdict="met, uncertain", text="1.90 % ± 0.20 %")
    first = {
        "called": "as first set up", "now_with": "RED at arrival",
        "reason": "ns-2's decides there.", "commit": "1f20cd4",
        "verdict": "not met", "expected": [row()],
    }  # fmt: skip
    changes = {"verdict": "met, uncertain", "expected": [good], "as_first_set_up": first}
    reproduction_page.keep([summary | changes])
    page = kept.read_text()
    text = (
        "met, uncertain with RED at arrival; as first set up: not met (SIM loss: 3.00 % (≤ 2.00 %))"
    )
    assert f"| {text} | 1 of 1, 1 uncertain |" in page
    assert f"{text}. Why it was changed: ns-2's decides there. Recorded at commit 1f20cd4." in page
    assert "| as first set up: SIM loss | 2 | 1.00 % | ≤ 2.00 % | 3.00 % | **not met** |" in page
    assert "0 of 1 met; 1 met, uncertain." in page


def test_recording_one_paper_keeps_the_others(kept: Path, summary: dict[str, Any]) -> None:
    reproduction_page.keep([summary | {"figure": "rla-7", "paper_name": "RLA"}])
    reproduction_page.keep([summary | {"verdict": "met"}, summary | {"figure": "sim-3"}])
    reproduction_page.keep([summary])  # sim-3 is no figure any more
    records = reproduction_page.read_records()
    assert records["commits"] == {"RLA": "abc", "SIM": "abc"}
    verdicts = {one["figure"]: one["verdict"] for one in records["figures"]}
    assert verdicts == {"rla-7": "not met", "sim-2": "not met"}


@pytest.mark.parametrize("changes", [{"quick": True}, {"verdict": "failed"}])
def test_what_was_not_run_whole_is_refused(
    kept: Path, summary: dict[str, Any], changes: dict[str, Any]
) -> None:
    with pytest.raises(InputError, match="--record: sim-2 was .*valid: every figure run comp"):
        reproduction_page.keep([summary | changes])
    assert not kept.exists()


@pytest.mark.parametrize(
    ("run", "text"),
    [
        ({"commit": "def"}, r"the runs are of 2 commits: abc \(the verdict on sim-2\); def \("),
        ({"commit": None}, "of 2 commits"),
        ({"program": "2" * 64}, "made by several build/ns3/tiercast-ns3: 111111111111 .*; 2222222"),
    ],
)
def test_runs_of_several_origins_are_refused(
    kept: Path, tmp_path: Path, summary: dict[str, Any], run: dict[str, Any], text: str
) -> None:
    other = stored(tmp_path, "other", **run)
    summary["runs"].append({"seed": 4, "directory": str(other)})
    with pytest.raises(InputError, match=f"--record: .*{text}"):
        reproduction_page.keep([summary])
    assert not kept.exists()


@pytest.mark.parametrize(
    ("commit", "quick", "text"),
    [
        ("abc-dirty", False, "commit abc-dirty does not say what runs"),
        (None, False, "commit unknown"),
        ("abc", True, "--record: not --quick"),
    ],
)
def test_what_could_not_be_recorded_is_refused_before_it_runs(
    monkeypatch: pytest.MonkeyPatch, commit: str | None, quick: bool, text: str
) -> None:
    monkeypatch.setattr(reproduction_page.machine, "versions", lambda: {"commit": commit})
    with pytest.raises(InputError, match=text):
        reproduction_page.require_recordable(quick)
