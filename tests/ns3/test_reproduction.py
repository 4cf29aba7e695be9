"""One or two figures of each paper, judged as by `tiercast figure NAME --quick`.

All of them are run by `tiercast reproduce`. The ones here take seconds, and were met.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "figure", ["sim-7", "ermcc-12", "rla-sessions", "mlda-4", "mlda-11", "rmcc-4"]
)
def test_a_figure_is_reproduced(figure: str, tmp_path: Path) -> None:
    command = [ROOT / "tiercast", "figure", figure, "--quick", "--json", "--results", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    (summary,) = json.loads(done.stdout)
    missed = [one for one in summary["expected"] if one["gate"] and not one["ok"]]
    assert not missed
    assert (done.returncode, summary["verdict"]) == (0, "met")
