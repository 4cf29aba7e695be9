"""The command line as a user sees it: first lines, exit statuses, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from tiercast_lab.base.errors import EXIT_INPUT
from tiercast_lab.cli import doctor
from tiercast_lab.show.run_report import write_report

from ..patience import PATIENCE_S, wait_until
from .conftest import ROOT

SWEEP = ROOT / "experiments/sweeps/matrix.yaml"


def tiercast(*arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "tiercast", *arguments], capture_output=True, text=True, **options
    )


def test_version_and_list() -> None:
    assert tiercast("--version").stdout.startswith("tiercast ")
    experiments, figures, sweeps = tiercast("list").stdout.split("\n\n")
    figure_heading, *figures = figures.splitlines()
    assert figure_heading == "for `tiercast figure` and `tiercast reproduce`:"
    sweep_heading, *sweeps = sweeps.splitlines()
    assert sweep_heading == "for `tiercast sweep`:"
    lists = (experiments.splitlines(), ""), (figures, "figures"), (sweeps, "sweeps")
    for listed, folder in lists:
        assert [line.split()[0] for line in listed] == [
            path.stem for path in sorted((ROOT / "experiments" / folder).glob("*.yaml"))
        ]
        assert all(len(line.split(maxsplit=1)[1]) > 10 for line in listed)


def test_runs_from_any_folder(tmp_path: Path) -> None:
    link = tmp_path / "tiercast"
    link.symlink_to(ROOT / "tiercast")
    result = subprocess.run([link, "list"], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0 and "sim-session" in result.stdout


def test_a_kernel_feature_that_is_missing_is_the_first_line() -> None:
    dropped = ["setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw"]
    command = [*dropped, ROOT / "tiercast", "run", "sim-smoke"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (EXIT_INPUT, "")
    assert result.stderr.startswith(
        "tiercast: packet sockets: Operation not permitted; run as root"
    )


def test_bad_input_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    for arguments, said in [
        (["nosuch"], "no experiment 'nosuch'; valid: a YAML file, or one of basic-"),
        (["sim-sesion"], "(did you mean 'sim-session'?)"),
        (["sim-2"], "'sim-2' is a figure; valid: tiercast figure sim-2"),
        (["matrix"], "'matrix' is a sweep; valid: tiercast sweep matrix"),
        ([SWEEP], "axes: it is a sweep; valid: tiercast sweep "),
        (["basic-ermcc", "--set", "sim.nosuch=1"], "unknown parameter of sim; valid: sim."),
        (["sim-smoke", "--set", "sim.dleta=1"], "(did you mean 'sim.delta'?)"),
        (["sim-smoke", "--set", "sessions.0.scheme=ftp"], "unknown scheme 'ftp'; valid: "),
        (["sim-smoke", "--set", "sim.nosuch=1"], "unknown parameter of sim; valid: sim."),
        (["sim-smoke", "--duration", "20"], "--duration 20: duration: "),
        (["sim-smoke", "--switch", "ovs"], "'ovs'"),
    ]:
        result = tiercast("run", *arguments, "--results", tmp_path / "results")
        assert result.returncode == EXIT_INPUT, result.stderr
        assert said in result.stderr.replace("\n", " ")
        assert "Traceback" not in result.stderr
    assert not (tmp_path / "results").exists()


def test_schemes_and_their_parameters_are_listed() -> None:
    result = tiercast("schemes")
    assert result.returncode == 0 and "tfmcc" in result.stdout
    listed = tiercast("schemes", "sim").stdout
    assert "docs/protocols/sim.md has the rules" in listed
    assert "sim.delta" in listed and "0.1 to 0.999" in listed and "calibrated" in listed
    page = tiercast("schemes", "sim", "--markdown").stdout
    assert "\n| sim.increase | 35 kbit/s | 1 bit/s to 1 Gbit/s | sender | rate added to " in page
    assert "\n| sim.cumulative | 1 | 0 or 1 | sender | " in page
    assert "\n| sim.initial_rtt | 100 ms | 100 us to 2 s | " in page
    assert "\n| sim.settle_epochs | 1 epoch | 0 to 1000 | receiver | " in page
    assert "\n| sim.max_children | 4096 children | 1 to 1,000,000 | " in page
    assert tiercast("schemes", "--markdown").returncode == EXIT_INPUT
    wrong = tiercast("schemes", "tfmc")
    assert (wrong.returncode, wrong.stdout) == (EXIT_INPUT, "")
    assert "unknown scheme 'tfmc'; valid: sim, " in wrong.stderr
    assert "did you mean 'tfmcc'?" in wrong.stderr


def test_other_commands_say_which_one_takes_it() -> None:
    for command, name, said in [
        ("figure", "basic-sim", "'basic-sim' is an experiment; valid: tiercast run basic-sim"),
        ("sweep", "sim-2", "'sim-2' is a figure; valid: tiercast figure sim-2"),
        ("sweep", ROOT / "experiments/sim-smoke.yaml", "it is an experiment; valid: tiercast run "),
    ]:
        result = tiercast(command, name)
        assert (result.returncode, result.stdout) == (EXIT_INPUT, "")
        assert said in result.stderr


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    short = ["run", "basic-pgmcc", "--runtime", "ns3", "--duration", "5s", "--results"]
    inside = tmp_path / "file"
    inside.touch()
    result = tiercast(*short, inside)
    assert (result.returncode, "Traceback" in result.stderr) == (EXIT_INPUT, False)
    assert f"{inside}/" in result.stderr and "Not a directory; valid: " in result.stderr
    # A disk of 60 kB in its own mount namespace.
    full = tmp_path / "full"
    full.mkdir()
    script = 'mount -t tmpfs -o size=60k none "$0" && exec "$@"'
    command = ["unshare", "-m", "sh", "-c", script, full, ROOT / "tiercast", *short, full]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == EXIT_INPUT, result.stderr
    assert "No space left on device; valid: " in result.stderr
    assert "Traceback" not in result.stderr


def test_root_is_asked_for_in_the_first_line() -> None:
    result = tiercast("run", "sim-smoke", user="nobody")
    assert result.returncode == EXIT_INPUT
    assert result.stderr.splitlines()[0].startswith("tiercast: root is missing")
    assert "sudo" in result.stderr


def test_report_is_remade_by_name_or_path(stored) -> None:
    before = write_report(stored).read_bytes()
    stored.directory.joinpath("report.html").unlink()
    result = tiercast("report", stored.directory)
    assert result.returncode == 0
    assert result.stdout.strip() == str(stored.directory / "report.html")
    assert stored.directory.joinpath("report.html").read_bytes() == before
    assert tiercast("report", "nosuch").returncode == EXIT_INPUT


def test_doctor_says_what_follows_and_what_to_do() -> None:
    findings = doctor.examine()
    assert {f.name for f in findings} >= {
        *("root", "namespaces", "veth", "packet sockets", "mininet", "DPDK", "cores"),
        *("netem", "huge pages", "p4c", "bmv2"),
    }
    for finding in findings:
        assert finding.seen
        assert finding.name == "kernel" or (finding.follows and finding.do)
    result = tiercast("doctor")
    assert result.returncode == (2 if any(f.needed and not f.ok for f in findings) else 0)
    assert os.geteuid() != 0 or "yes root" in result.stdout


def test_doctor_names_missing_root_first() -> None:
    first = tiercast("doctor", user="nobody").stdout.splitlines()[0]
    assert first.split()[:2] == ["NO", "root"]


def test_ctrl_c_before_a_run_begins_ends_it_without_a_trace() -> None:
    process = subprocess.Popen(
        [ROOT / "tiercast", "run", "sim-smoke"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    # polars is the last large import, and it hooks the signal.
    maps = Path(f"/proc/{process.pid}/maps")
    wait_until(lambda: "polars" in maps.read_text(), "polars is imported")
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, b"Traceback" in output) == (130, False), output.decode()
