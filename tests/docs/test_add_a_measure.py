"""docs/add-a-measure.md: its measure runs exactly as printed."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from .page import ROOT, write_files

pytestmark = pytest.mark.slow


def tiercast(measures: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"TIERCAST_MEASURES": str(measures)}
    command = [str(ROOT / "tiercast"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)


def test_its_experiment_is_judged_by_it(tmp_path: Path) -> None:
    measures, experiment = write_files("add-a-measure.md", tmp_path)
    run = tiercast(
        measures, "run", str(experiment), "--runtime", "ns3", "--results", str(tmp_path / "r")
    )
    assert run.returncode == 0, run.stdout + run.stderr
    # ERMCC has a single rate, so three receivers behind one queue get the same number of packets.
    assert re.search(r"jain index .* 1\.000 .* met", run.stdout)


def test_it_is_listed(tmp_path: Path) -> None:
    measures, _ = write_files("add-a-measure.md", tmp_path)
    assert "jain_index" in tiercast(measures, "measures").stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 / 0", "ZeroDivisionError"),
        (
            "from tiercast_lab.measures import measure, number\n"
            "@measure(number(), 'twice')\ndef loss(rows, context): ...",
            "'loss': this name is taken",
        ),
    ],
)
def test_a_file_that_fails_is_named(tmp_path: Path, text: str, said: str) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(text)
    for path in (broken, tmp_path / "missing.py"):
        run = tiercast(path, "measures")
        assert run.returncode == 2
        assert f"TIERCAST_MEASURES: {path}: " in run.stderr
        assert "Traceback" not in run.stderr
    assert said in tiercast(broken, "measures").stderr
