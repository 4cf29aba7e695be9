"""docs/add-a-scheme.md: its scheme, in a folder outside the tree, runs like the ten others."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from ..checkout import BUILD as WHOLE_BUILD
from ..checkout import ROOT
from .page import write_files

pytestmark = pytest.mark.slow

BUILD = WHOLE_BUILD / "tests/docs/add-a-scheme"


def tiercast(*arguments: str, build: Path = BUILD) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"TIERCAST_BUILD": str(build)}
    command = [str(ROOT / "tiercast"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)


def test_scheme_is_listed_with_its_parameters() -> None:
    shown = tiercast("schemes", "aimd")
    assert shown.returncode == 0, shown.stderr
    assert "aimd.decrease" in shown.stdout
    assert "0.75" in shown.stdout
    assert "docs/protocols" not in shown.stdout  # it has no page there


@pytest.mark.parametrize("seed", ["1", "2"])
def test_its_experiment_meets_its_figures(tmp_path: Path, seed: str) -> None:
    experiment = str(BUILD / "aimd.yaml")
    options = ["--runtime", "ns3", "--seed", seed, "--results", str(tmp_path)]
    run = tiercast("run", experiment, *options)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "verdict: met" in run.stdout


def test_its_test_is_built_and_passes_as_the_page_says(tmp_path: Path) -> None:
    write_files("add-a-scheme.md", tmp_path / "my")
    for name in ("base", "protocols"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "build").symlink_to(WHOLE_BUILD)
    page = (ROOT / "docs/add-a-scheme.md").read_text()
    commands = re.findall(r"^    ((?:g\+\+|my/aimd_test).*)$", page, re.M)
    assert len(commands) == 2
    for command in commands:
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    assert "PASSED  ] 12 tests" in done.stdout


def test_a_scheme_of_the_tree_still_runs(tmp_path: Path) -> None:
    run = tiercast("run", "basic-ermcc", "--runtime", "ns3", "--results", str(tmp_path))
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_run_whose_packets_are_refused_is_invalid_and_says_who_refused_what(
    tmp_path: Path,
) -> None:
    """With a scheme whose messages do not pass its own check."""
    options = ["--runtime", "ns3", "--results", str(tmp_path)]
    run = tiercast("run", str(BUILD / "aimd.yaml"), *options, build=BUILD / "broken")
    assert run.returncode == 3, run.stdout + run.stderr
    said = " ".join(run.stdout.split())
    found = (
        r"refused: 1 of all messages > 0\.01: h0 refused \d+ feedback messages as invalid; "
        r"h2 refused \d+ messages as invalid; h3 "
    )
    assert re.search(found, said), said


def test_a_folder_without_its_header_is_refused(tmp_path: Path) -> None:
    alone = [f"-DTIERCAST_WITH_{part}=OFF" for part in ("GRPC", "DPDK", "NS3")]
    options = ["-DBUILD_TESTING=OFF", f"-DTIERCAST_SCHEMES={tmp_path}/aimd", *alone]
    command = ["cmake", "-S", str(ROOT), "-B", str(tmp_path / "build"), "-G", "Ninja", *options]
    made = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert made.returncode != 0
    reason = (
        f"scheme aimd: {tmp_path}/aimd/aimd.h is missing; valid: a folder that has it "
        "(`make programs SCHEMES=<folder>`)"
    )
    assert reason in " ".join(made.stderr.split())
