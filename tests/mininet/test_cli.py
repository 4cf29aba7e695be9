"""The command line as a user sees it: first lines, exit statuses, nothing left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from tiercast_lab.base.errors import EXIT_INPUT
from tiercast_lab.cli import doctor
from tiercast_lab.show.run_report import write_report

from ..checkout import ROOT
from ..patience import PATIENCE_S, wait_until

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


OWN = """\
title: My pair of receivers, at last
topology: {tree: {depth: 1}, link: {rate: 1Mbit/s, delay: 5ms, queue: 20p}}
sessions: [{scheme: sim, sender: 0, layers: 2}]
duration: 1s
"""


@pytest.mark.slow
def test_files_of_the_users_own_are_listed_apart_and_run_by_name(tmp_path: Path) -> None:
    (tmp_path / "my-pair.yaml").write_text(OWN)
    (tmp_path / "my-sweep.yaml").write_text("title: Mine\nexperiment: my-pair\naxes: {}\n")
    (tmp_path / "compose.yaml").write_text("services: {}\n")
    (tmp_path / "broken.yaml").write_text(": [")
    here = tiercast("list", cwd=tmp_path).stdout
    *_, own, sweeps = here.split("\n\n")
    assert own.splitlines() == [
        "your own, for `tiercast run`:",
        f"{'my-pair':<20} My pair of receivers, at last",
    ]
    assert sweeps.splitlines() == ["your own, for `tiercast sweep`:", f"{'my-sweep':<20} Mine"]
    (tmp_path / "more/.hidden").mkdir(parents=True)
    for folder in ("more", "more/.hidden"):
        (tmp_path / folder / "other.yaml").write_text(OWN)
    elsewhere = tiercast("list", tmp_path).stdout.splitlines()
    assert elsewhere[0] == "your own, for `tiercast run`:"
    assert elsewhere[1:3] == [
        f"{tmp_path / name} My pair of receivers, at last" for name in ("more/other", "my-pair")
    ]
    assert elsewhere[3:5] == ["", "your own, for `tiercast sweep`:"] and len(elsewhere) == 6
    (tmp_path / "more/none").mkdir()
    nothing = tiercast("list", tmp_path / "more/none").stdout
    assert nothing == f"no experiment, figure or sweep in {tmp_path / 'more/none'}\n"
    lists = json.loads(tiercast("list", "--json", cwd=tmp_path).stdout)
    assert lists["own"][0] == {
        **{"name": "my-pair", "title": "My pair of receivers, at last"},
        **{"file": "my-pair.yaml", "command": "run"},
    }
    assert {one["name"] for one in lists["figures"]} >= {"sim-2", "rmcc-3"}
    results = tmp_path / "results"
    made = ("--runtime", "ns3", "--results", results)
    assert tiercast("run", "my-pair", *made, cwd=tmp_path).returncode == 0
    assert tiercast("run", tmp_path / "my-pair", *made).returncode == 0
    assert len(list(results.glob("2*-my-pair-*"))) == 2
    # A name that means two files is refused, and one of tiercast's own folders is no user's.
    (tmp_path / "sim-smoke.yaml").write_text(OWN)
    refused = tiercast("run", "sim-smoke", *made, cwd=tmp_path)
    assert refused.returncode == EXIT_INPUT
    assert "'sim-smoke' is an experiment of tiercast and a file; valid: sim-smoke.yaml, or" in (
        refused.stderr
    )
    refused = tiercast("run", "sim-2", *made, cwd=ROOT / "experiments/figures")
    assert "'sim-2' is a figure; valid: tiercast figure sim-2" in refused.stderr
    assert "your own" not in tiercast("list", cwd=ROOT / "experiments").stdout
    ours = tiercast("list", ROOT / "experiments/figures").stdout.splitlines()
    assert ours[0].startswith("for `tiercast figure`") and ours[1].startswith("ermcc-12 ")
    assert not [line for line in ours if "sweep" in line or "your own" in line]
    (tmp_path / "my-figure.yaml").write_text(OWN + "figure: {}\n")
    assert "your own, for `tiercast figure`:" in tiercast("list", tmp_path).stdout
    assert "is no folder; valid: a folder" in tiercast("list", tmp_path / "nosuch").stderr


def test_tables_are_printed_as_json(tmp_path: Path) -> None:
    schemes = {one["name"]: one for one in json.loads(tiercast("schemes", "--json").stdout)}
    assert {"sim", "tfmcc"} <= schemes.keys() and schemes["sim"]["layered"]
    (sim,) = json.loads(tiercast("schemes", "sim", "--json").stdout)
    assert sim == schemes["sim"]
    delta = next(one for one in sim["parameters"] if one["name"] == "sim.delta")
    assert (delta["min"], delta["max"]) == (0.1, 0.999)
    measures = {one["name"]: one for one in json.loads(tiercast("measures", "--json").stdout)}
    assert measures["cumulative_rate"]["unit"] == "bit/s"
    assert measures["cumulative_rate"]["key"] == "layers"
    findings = {one["name"]: one for one in json.loads(tiercast("doctor", "--json").stdout)}
    assert findings["kernel"]["ok"] and findings["root"]["needed"]


def test_runs_from_any_folder(tmp_path: Path) -> None:
    link = tmp_path / "tiercast"
    link.symlink_to(ROOT / "tiercast")
    result = subprocess.run([link, "list"], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0 and "sim-session" in result.stdout


def test_a_build_that_is_older_than_the_checkout_says_so(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    for folder in ("proto/tiercast/v1", "build/python/tiercast/v1"):
        (checkout / folder).mkdir(parents=True)
    shutil.copy(ROOT / "tiercast", checkout)
    for name in (".venv", "controller", "mininet"):
        (checkout / name).symlink_to(ROOT / name)
    stub = checkout / "build/python/tiercast/v1/lab_pb2.py"
    sources = [checkout / name for name in ("proto/tiercast/v1/session.proto", "requirements.lock")]
    for path in (stub, *sources):
        path.touch()
        os.utime(path, (1000, 1000))

    def said() -> tuple[int, str, str]:
        done = subprocess.run([checkout / "tiercast", "--version"], capture_output=True, text=True)
        return done.returncode, done.stdout.partition(" ")[0], done.stderr

    assert said() == (0, "tiercast", "")
    for path in sources:
        os.utime(path, (2000, 2000))
        older = f"build/python is older than {path.relative_to(checkout)}"
        assert said() == (2, "", f"tiercast: {older}; run: make -C {checkout} programs\n")
        os.utime(path, (1000, 1000))
    stub.unlink()
    assert said()[0] == 2


def test_a_kernel_feature_that_is_missing_is_the_first_line() -> None:
    dropped = ["setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw"]
    command = [*dropped, ROOT / "tiercast", "run", "sim-smoke"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (EXIT_INPUT, "")
    assert result.stderr.startswith(
        "tiercast: packet sockets: Operation not permitted; run as root"
    )


def test_bad_input_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "saw.yaml").touch()
    for arguments, said in [
        (["nosuch"], "no experiment 'nosuch'; valid: a YAML file, or one of basic-"),
        (["sim-sesion"], "(did you mean 'sim-session'?)"),
        ([tmp_path / "swa.yaml"], f"(did you mean '{tmp_path}/saw.yaml'?)"),
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


@pytest.mark.parametrize("kind", ["marking", "bench-a"])
def test_a_report_that_cannot_be_written_is_named_before_the_trials(
    kind: str, tmp_path: Path
) -> None:
    (tmp_path / kind).touch()
    (tmp_path / "a.yaml").write_text("name: a\nembedded: tiercast-switch\n")
    command = ["bench", "--device", tmp_path / "a.yaml"] if kind != "marking" else ["marking"]
    result = tiercast(*command, "--results", tmp_path)
    assert (result.returncode, result.stdout) == (EXIT_INPUT, "")
    assert result.stderr == (
        f"tiercast: {tmp_path / kind}: File exists; valid: a writable folder with free space\n"
    )


def test_devices_whose_reports_would_be_one_folder_are_refused(tmp_path: Path) -> None:
    for number, name in enumerate(("a b", "a-b")):
        text = f"name: {name}\nembedded: tiercast-switch\n"
        (tmp_path / f"{number}.yaml").write_text(text)
    files = [f"--device={number}.yaml" for number in (0, 1)]
    result = tiercast("bench", *files, "--results", tmp_path / "results", cwd=tmp_path)
    assert (result.returncode, (tmp_path / "results").exists()) == (EXIT_INPUT, False)
    assert "--device: two have the same name; give each a `name`: " in result.stderr


def test_a_file_in_a_folder_that_is_closed_to_the_user_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "closed/folder").mkdir(parents=True)
    (tmp_path / "closed").chmod(0o700)
    result = tiercast("run", tmp_path / "closed/folder/x.yaml", "--runtime", "ns3", user="nobody")
    assert (result.returncode, "Traceback" in result.stderr) == (EXIT_INPUT, False), result.stderr
    assert result.stderr.startswith("tiercast: no experiment ") and "; valid: " in result.stderr


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
        *("netem", "huge pages", "p4c", "bmv2", "dumpcap", "tshark"),
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
