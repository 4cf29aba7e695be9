"""What `cmake --install` puts below a prefix, and `make deb` packs, works from there alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiercast_controller.base.installation import IN_CHECKOUT, ROOT
from tiercast_lab.base import binaries

PROGRAMS = (
    "switch",
    "send",
    "host",
    "delay-line",
    "stf",
    "marking",
    "switch-dpdk",
    "norm",
    "recv",
    "tester",
)


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installation that was moved afterwards: nothing in it may name its old place."""
    folder = tmp_path_factory.mktemp("installation")
    for component in ("tiercast", "tiercast-ns3"):
        command = ["cmake", "--install", binaries.BUILD, "--component", component]
        subprocess.run([*command, "--prefix", folder / "first"], check=True)
    return (folder / "first").rename(folder / "usr")


def installed(prefix: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs `tiercast` from another folder as bin/tiercast does, but with this environment's
    libraries; those of a package are in lib/tiercast/site-packages."""
    paths = [str(prefix / "lib/tiercast" / name) for name in ("packages", "stubs")]
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("TIERCAST_")
    } | {"PYTHONPATH": os.pathsep.join(paths), "PATH": str(prefix / "bin")}
    command = [sys.executable, "-P", "-m", "tiercast_lab", *arguments]
    return subprocess.run(
        command, cwd=prefix.parent, env=environment, capture_output=True, text=True
    )


def test_an_installation_has_the_programs_and_a_licence_for_each_package(prefix: Path) -> None:
    names = {path.name for path in (prefix / "bin").iterdir()}
    assert names == {"tiercast", "tiercast-ns3"} | {f"tiercast-{name}" for name in PROGRAMS}
    documents = prefix / "share/doc"
    assert "GNU GENERAL PUBLIC LICENSE" in (documents / "tiercast-ns3/copyright").read_text()
    assert "MIT License" in (documents / "tiercast/copyright").read_text()
    assert list(prefix.rglob("wireshark/plugins/tiercast.lua"))


def test_an_installation_has_every_experiment_and_no_test(prefix: Path) -> None:
    data = prefix / "share/tiercast"
    for folder, pattern in (("experiments", "*.yaml"), ("p4src", "*.p4"), ("p4src", "*.json")):
        here, there = (
            {path.relative_to(top): path.read_bytes() for path in (top / folder).rglob(pattern)}
            for top in (ROOT, data)
        )
        assert here and here == there
    assert not [path for path in prefix.rglob("*test*") if "tests" in path.parts]


def test_nothing_in_an_installation_names_the_checkout(prefix: Path) -> None:
    assert IN_CHECKOUT
    for path in [*(prefix / "bin").iterdir(), *(prefix / "lib").rglob("*.py")]:
        assert str(ROOT).encode() not in path.read_bytes(), path


def test_an_installation_runs_an_experiment_from_any_folder(prefix: Path) -> None:
    said = installed(prefix, "run", "sim-smoke", "--runtime=ns3")
    assert said.returncode in (0, 1), said.stdout + said.stderr
    assert said.stdout.splitlines()[-1].startswith("report: results/")
    assert (prefix.parent / "results/latest/report.html").exists()
    version = installed(prefix, "--version").stdout
    assert version.split() == ["tiercast", (ROOT / "VERSION").read_text().strip()]


def test_a_program_that_is_not_installed_is_named_with_its_package(prefix: Path) -> None:
    simulator = prefix / "bin/tiercast-ns3"
    away = simulator.rename(prefix / "away")
    try:
        said = installed(prefix, "run", "sim-smoke", "--runtime=ns3")
    finally:
        away.rename(simulator)
    assert said.returncode == 2
    assert said.stderr == f"tiercast: not installed: {simulator}; install: tiercast-ns3\n"
