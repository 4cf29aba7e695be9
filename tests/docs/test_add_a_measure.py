"""docs/add-a-measure.md: its measure runs exactly as printed."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from ..checkout import ROOT
from .page import write_files

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
    page = (tmp_path / "r/latest/report.html").read_text()
    for command in (f"run {experiment}", "rerun", "report"):
        assert f"env TIERCAST_MEASURES={measures} ./tiercast {command}" in page


def test_it_is_listed(tmp_path: Path) -> None:
    measures, _ = write_files("add-a-measure.md", tmp_path)
    assert "jain_index" in tiercast(measures, "measures").stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 / 0", "ZeroDivisionError"),
        (
            "from tiercast_lab.measures import measure",
            ": no measure; valid: a function with @measure",
        ),
        (
            "from tiercast_lab.measures import measure, number\n"
            "@measure(number(), 'twice')\ndef loss(rows, context): ...",
            "broken.py: measure 'loss': this name is taken; valid: another\n",
        ),
        (
            "from tiercast_lab.measures import measure, number\n"
            "@measure(number(), 'short')\ndef short(rows): ...",
            "measure 'short': its arguments are (rows); valid: (rows, context)",
        ),
        (
            "from tiercast_lab.measures import measure, number\n"
            "@measure(number(), 'near', which='node')\ndef near(rows, context, which): ...",
            "measure 'near': which is 'node'; valid: layers, receiver, link, flow",
        ),
        (
            "from tiercast_lab.measures import measure\n"
            "@measure('Mbit/s', 'fast')\ndef fast(rows, context): ...",
            "measure 'fast': its quantity is 'Mbit/s'; valid: number(), fraction(), RATE, ",
        ),
        (
            "from tiercast_lab.measures import measure, number\n"
            "@measure(number, 'plain')\ndef plain(rows, context): ...",
            "measure 'plain': its quantity is number; valid: number(), ",
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


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("return rows['no such rows']", ":7: jain_index: KeyError: 'no such rows'"),
        ("return 'most'", ": jain_index returned 'most'; valid: a number or None"),
    ],
)
def test_a_measure_that_fails_is_named_and_the_rows_are_kept(
    tmp_path: Path, wrong: str, said: str
) -> None:
    measures, experiment = write_files("add-a-measure.md", tmp_path)
    text = measures.read_text()
    first = "    rates = [receiver_rate"
    assert first in text
    measures.write_text(text.replace(first, f"    {wrong}\n{first}"))
    results = tmp_path / "r"
    run = tiercast(measures, "run", str(experiment), "--runtime", "ns3", "--results", str(results))
    assert run.returncode == 2
    assert f"TIERCAST_MEASURES: {measures}{said}" in run.stderr
    assert "Traceback" not in run.stderr
    (kept,) = results.glob("*/rows/received.parquet")
    stored = kept.parents[1]
    assert f"report {stored}" in run.stdout
    again = tiercast(measures, "report", str(stored))
    assert again.returncode == 2 and said in again.stderr
    # The measure is mended: the rows are judged as they would have been.
    measures.write_text(text)
    assert tiercast(measures, "report", str(stored)).returncode == 0
    summary = json.loads((stored / "summary.json").read_text())
    assert summary["verdict"] == "met" and "grounds" not in summary
    assert [figure["ok"] for figure in summary["expected"]] == [True]
    assert {check["name"] for check in summary["validity"]["checks"]} == {"unaccounted", "refused"}


def test_a_run_is_read_without_the_file_of_its_measure(tmp_path: Path) -> None:
    measures, experiment = write_files("add-a-measure.md", tmp_path)
    results = tmp_path / "r"
    options = ["--runtime", "ns3", "--results", str(results), "--duration", "10s"]
    tiercast(measures, "run", str(experiment), *options, "--set", "measure.last=5s")
    folder = str((results / "latest").resolve())
    with_it = tiercast(measures, "report", folder, "--json")
    assert "jain_index" in json.loads(with_it.stdout)["measures"]
    assert "jain_index" not in with_it.stderr
    without = subprocess.run(
        [str(ROOT / "tiercast"), "report", folder, "--json"],
        capture_output=True,
        text=True,
        env={name: value for name, value in os.environ.items() if name != "TIERCAST_MEASURES"},
        timeout=300,
    )
    assert without.returncode == 0, without.stderr
    summary = json.loads(without.stdout)
    assert "jain_index" not in summary["measures"]
    assert "efficiency" in summary["measures"]
    assert "without the measures of jain.py, which TIERCAST_MEASURES does not name: jain_index" in (
        " ".join(without.stderr.split())
    )
