"""docs/add-a-marking.md: its kind of marking runs exactly as printed."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from ..checkout import ROOT
from .marking_program import (
    COMPILED,
    FILES,
    compile_sources,
    digests,
    locked,
    run_command,
    write_sources,
)

pytestmark = pytest.mark.slow

RENEW = "run: make p4"


@dataclass
class Guide:
    folder: Path
    environment: dict[str, str]

    def tiercast(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(ROOT / "tiercast"), *arguments],
            capture_output=True,
            text=True,
            env=os.environ | self.environment | environment,
            timeout=300,
        )

    def run(
        self, *arguments: str, file: str = "hysteresis.yaml", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        where = ["--runtime", "ns3", "--results", str(self.folder / "results")]
        experiment = str(self.folder / file)
        return self.tiercast("run", experiment, *where, *arguments, **environment)

    def marked(self) -> int:
        """Packets that the bottleneck marked in the last run."""
        ports = pl.read_parquet(self.folder / "results/latest/rows/port.parquet")
        return int(ports.filter(pl.col("link") == "0>1").sort("time_s")["marked"][-1])


@pytest.fixture(scope="module")
def guide(tmp_path_factory: pytest.TempPathFactory) -> Guide:
    home = tmp_path_factory.mktemp("home")
    folder = write_sources(home)
    assert digests(folder / "p4src") == locked(COMPILED), f"{COMPILED} is stale; {RENEW}"
    (folder / "p4src/compiled").mkdir()
    run_command("cp tests", home)
    return Guide(folder, {"TIERCAST_MARKINGS": str(folder / "hysteresis.py")})


@pytest.mark.skipif(shutil.which("p4c-bm2-ss") is None, reason="p4c is not installed")
def test_the_compiled_program_is_of_the_page(guide: Guide, tmp_path: Path) -> None:
    compile_sources(guide.folder / "p4src", tmp_path)
    for name in (*FILES, "LOCK"):
        assert (tmp_path / name).read_bytes() == (COMPILED / name).read_bytes(), f"{name}; {RENEW}"


def test_its_experiment_meets_its_figures(guide: Guide) -> None:
    run = guide.run()
    assert run.returncode == 0, run.stdout + run.stderr
    ports = pl.read_parquet(guide.folder / "results/latest/rows/port.parquet")
    bottleneck = ports.filter(pl.col("link") == "0>1").sort("time_s")
    # TCP halves its window for a mark, so it needs no losses to slow down.
    assert bottleneck["marked"][-1] > 100
    assert bottleneck["queue_drops"][-1] == 0


def test_between_the_thresholds_it_depends_on_where_the_queue_comes_from(guide: Guide) -> None:
    """Below `off` nothing is marked; with `off` equal to `on` it is marking at a threshold."""
    marked = {}
    for setting in (
        "kind: hysteresis, on: 20, off: 20",
        "kind: threshold, threshold: 20",
        "kind: hysteresis, on: 20, off: 5",
        "kind: hysteresis, on: 99, off: 99",
    ):
        run = guide.run("--set", f"marking={{{setting}}}")
        assert run.returncode in (0, 1), run.stdout + run.stderr
        marked[setting] = guide.marked()
    step, threshold, hysteresis, never = marked.values()
    assert hysteresis > step
    assert abs(step - threshold) < 0.2 * threshold  # `on` or more, not only more
    assert never == 0


def test_a_kind_without_p4_gives_the_numbers_of_an_action_that_is_there(guide: Guide) -> None:
    kind = str(guide.folder / "delay.py")
    run = guide.run(file="delay.yaml", TIERCAST_MARKINGS=kind)
    assert run.returncode == 0, run.stdout + run.stderr
    by_delay = guide.marked()
    # 80 ms at 2 Mbit/s are 20 packets of 1000 bytes.
    threshold = ["--set", "marking={kind: threshold, threshold: 20}"]
    run = guide.run(*threshold, file="delay.yaml")
    assert run.returncode == 0, run.stdout + run.stderr
    assert by_delay == guide.marked() > 100


def test_it_is_judged_by_itself(guide: Guide) -> None:
    program = str(guide.folder / "p4src/compiled/tiercast.json")
    to = ["--program", program, "--results", str(guide.folder / "results"), "--seconds", "30"]
    judged = guide.tiercast("marking", "{kind: hysteresis, on: 20, off: 5}", *to)
    assert judged.returncode == 0, judged.stderr
    assert re.search(r"^ hysteresis +– .* 1 bit ", judged.stdout, re.M), judged.stdout


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ('kind: Literal["hysteresis"] = "hysteresis"', "", "Hysteresis: no kind; valid: kind: "),
        ('["hysteresis"] = "hysteresis"', '["red"] = "red"', "Hysteresis: kind is 'red'; valid: "),
        ("def entry(", "def entri(", "Hysteresis: no entry(); valid: as in docs/add-a-marking.md"),
        ("traffic: PortTraffic):", "traffic: PortTraffic):\n        traffic.speed", "'speed'"),
        ("return port_entry", "port_entry", "Hysteresis.entry() returned None; valid: port_entry("),
        ("(Marking):", ":", ": no kind of marking; valid: a class derived from Marking"),
        (", traffic: PortTraffic", "", "the arguments of entry are (self, port: int); valid: ("),
        ('("hysteresis",)', '("hyst",)', "Hysteresis.registers: register 'hyst' is not in the P4 "),
    ],
)
def test_a_class_that_is_wrong_is_named_with_its_file(
    guide: Guide, tmp_path: Path, right: str, wrong: str, said: str
) -> None:
    text = (guide.folder / "hysteresis.py").read_text()
    assert right in text
    broken = tmp_path / "broken.py"
    broken.write_text(text.replace(right, wrong))
    run = guide.run(TIERCAST_MARKINGS=str(broken))
    assert run.returncode == 2, run.stdout + run.stderr
    assert str(broken) in run.stderr
    assert said in run.stderr
    assert "Traceback" not in run.stderr


def test_a_register_that_the_program_lacks_is_named_where_the_marking_is_judged(
    guide: Guide, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text((guide.folder / "hysteresis.py").read_text().replace('("hyst', '("hist'))
    program = ["--program", str(guide.folder / "p4src/compiled/tiercast.json")]
    judged = guide.tiercast(
        "marking", "{kind: hysteresis, on: 20, off: 5}", *program, TIERCAST_MARKINGS=str(wrong)
    )
    assert judged.returncode == 2, judged.stderr
    assert (
        f"TIERCAST_MARKINGS: {wrong}: Hysteresis.registers: register 'histeresis' is not in "
        in (judged.stderr)
    )


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [
        (
            ["--set", "marking.off=30"],
            {},
            "marking.off: link 0-1: off is 30; valid: at most on",
        ),
        (["--set", "marking.on=-1"], {}, "marking.on: -1; valid: 0 or more"),
        (["--set", "marking.down=3"], {}, "marking.down: unknown key; valid: kind, on, off"),
        ([], {"TIERCAST_MARKINGS": ""}, "marking.kind: 'hysteresis'; valid: 'codel', "),
        ([], {"TIERCAST_MARKINGS": ""}, " (TIERCAST_MARKINGS is not set)"),
        (
            ["--program", str(ROOT / "p4src/compiled/tiercast.json")],
            {},
            "marking: hysteresis with program, of switch s0: table port_marking of the P4 program "
            "has no action 'hysteresis_marking'; it has: codel, drop_tail, ",
        ),
        (["--program", "/nowhere.json"], {}, "--program /nowhere.json: no such file; valid: "),
        ([], {"TIERCAST_MARKINGS": "/nowhere.py"}, "TIERCAST_MARKINGS: /nowhere.py: FileNotFound"),
    ],
)
def test_what_does_not_fit_is_bad_input(
    guide: Guide, arguments: list[str], environment: dict[str, str], said: str
) -> None:
    run = guide.run(*arguments, **environment)
    assert run.returncode == 2, run.stdout + run.stderr
    assert said in run.stderr
    assert "Traceback" not in run.stderr
    assert "kept" not in run.stdout + run.stderr  # refused before the run began
