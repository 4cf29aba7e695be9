"""What `make soak` makes of a run's summary."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tiercast_lab.results.verdict import BOUNDS, Check, as_dict

from ..checkout import ROOT


@pytest.fixture
def soak() -> ModuleType:
    spec = importlib.util.spec_from_file_location("soak", ROOT / "scripts/soak.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["soak"] = module  # where its dataclasses look for their types
    spec.loader.exec_module(module)
    return module


def summary_of(*checks: Check, complaints: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "validity": {
            "valid": all(one.ok for one in checks),
            "checks": [as_dict(one) for one in checks],
        },
        "complaints": list(complaints),
    }


ACCOUNTED = Check("unaccounted", 0.0, 0.0, "packets", "lost")
LATE = Check("late_max", 80.0, BOUNDS["late_max"].value, "ms", "lateness")


@pytest.mark.parametrize(
    ("summary", "status", "said"),
    [
        (summary_of(ACCOUNTED, LATE), 0, "0 packets; run invalid."),  # beside other work
        (
            summary_of(Check("unaccounted", 2.0, 0.0, "packets", "lost")),
            1,
            "- unaccounted: 2 packets > 0 (lost)",
        ),
        (
            summary_of(Check("unaccounted", None, 0.0, "packets", "1>3 had not drained")),
            1,
            "- unaccounted: not measured (1>3 had not drained)",
        ),
        (summary_of(), 1, "unaccounted for: not measured"),
        (
            summary_of(
                ACCOUNTED, Check("switches_away", 1.0, 0.0, "times", "lost with its counts")
            ),
            1,
            "- switches_away: 1 times > 0 (lost with its counts)",
        ),
        (summary_of(ACCOUNTED, complaints=("h3 refused 9 messages",)), 1, "- h3 refused 9"),
    ],
)
def test_a_run_that_cannot_be_trusted_fails(
    soak: ModuleType,
    summary: dict[str, Any],
    status: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(soak, "watch", lambda *_: (json.loads(json.dumps(summary)), [], 600.0))
    monkeypatch.setattr(sys, "argv", ["soak.py", "--minutes=10", f"--results={tmp_path}"])
    assert soak.main() == status
    assert said in capsys.readouterr().out
