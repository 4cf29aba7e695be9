"""Runs that do not finish because they are killed, interrupted, out of disk space or refused: what
is kept, and what is left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tiercast_lab.base.errors import EXIT_FAILED, EXIT_INPUT, EXIT_INTERRUPTED
from tiercast_lab.base.scratch import MIN_AGE_S, scratch_folder
from tiercast_lab.results.recorder import read_rows
from tiercast_lab.results.storage import StoredRun, load_run

from ..checkout import ROOT
from .real_run import Started, processes


def tiercast(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [ROOT / "tiercast", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def wait(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def kept_run(results: Path) -> StoredRun:
    (directory,) = (path for path in results.iterdir() if path.is_dir())
    return load_run(directory)


def assert_it_can_be_read(run: StoredRun, reason: str) -> None:
    """`report` and `explain` work on the run, and first say that it was broken off and why."""
    assert run.summary["verdict"] == "incomplete"
    assert reason in run.reasons[0]
    end = f"its rows end at {run.end_s:.1f} s of {run.summary['duration_s']:g} s"
    result = tiercast("report", run.directory)
    assert result.returncode == 0, result.stderr
    page = (run.directory / "report.html").read_text()
    head = page[page.index("<header>") : page.index("</header>")]
    assert ">incomplete<" in head and end in head
    receiver = next(iter(run.context.receivers))
    result = tiercast("explain", run.directory, "--receiver", receiver, "--at", run.end_s)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[1].startswith("  incomplete  ")
    assert end in result.stdout and "received " in result.stdout
    late = tiercast("explain", run.directory, "--receiver", receiver, "--at", run.end_s + 1)
    assert late.returncode == EXIT_INPUT and "outside the run; valid: 0s to " in late.stderr


# ---------------------------------------------------------------------- in virtual time


class Virtual:
    """A long run in virtual time that has rows on disk."""

    def __init__(self, results: Path) -> None:
        self.process = subprocess.Popen(
            [ROOT / "tiercast", "run", "sim-session", "--runtime", "ns3", "--duration", "50min"]
            + ["--results", str(results)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for kind in ("received", "port"):
            wait(lambda kind=kind: bool(list(results.glob(f"*/rows/{kind}.jsonl"))))
        wait(lambda: read_rows(next(results.glob("*/rows")))["port"]["time_s"].max() >= 3)
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        self.simulator = int(children.read_text())

    def finish(self) -> tuple[int, str]:
        _, error = self.process.communicate()
        assert not Path(f"/proc/{self.simulator}").exists()
        return self.process.returncode, error


@pytest.mark.slow
def test_a_lab_that_is_killed_leaves_its_rows(tmp_path: Path) -> None:
    virtual = Virtual(tmp_path)
    os.kill(virtual.simulator, signal.SIGSTOP)
    virtual.process.kill()
    wait(lambda: not Path(f"/proc/{virtual.simulator}").exists())
    assert virtual.finish()[0] == -signal.SIGKILL
    run = kept_run(tmp_path)
    assert run.end_s >= 3
    assert_it_can_be_read(run, "it has not ended: it goes on, or its lab was killed")


@pytest.mark.slow
def test_a_simulator_that_is_killed_leaves_its_rows(tmp_path: Path) -> None:
    virtual = Virtual(tmp_path)
    os.kill(virtual.simulator, signal.SIGKILL)
    status, error = virtual.finish()
    assert (status, error) == (
        EXIT_FAILED,
        "tiercast: tiercast-ns3 ended with status -9: no message\n",
    )
    run = kept_run(tmp_path)
    assert run.end_s >= 3 and list((run.directory / "rows").glob("*.jsonl")) == []
    assert_it_can_be_read(run, "tiercast-ns3 ended with status -9")


@pytest.mark.slow
def test_tiercast_may_be_process_1(tmp_path: Path) -> None:
    """As in a container: its children's parent is that process, and lives."""
    run = [ROOT / "tiercast", "run", "sim-smoke", "--runtime", "ns3", "--duration", "9s"]
    result = subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", *run, "--results", tmp_path],
        capture_output=True,
        text=True,
    )
    assert result.stderr == ""
    assert load_run((tmp_path / "latest").resolve()).end_s == 9


@pytest.mark.slow
def test_ctrl_c_leaves_rows(tmp_path: Path) -> None:
    virtual = Virtual(tmp_path)
    virtual.process.send_signal(signal.SIGINT)
    assert virtual.finish() == (EXIT_INTERRUPTED, "tiercast: interrupted by SIGINT\n")
    assert not (tmp_path / "latest").exists()
    run = kept_run(tmp_path)
    assert run.end_s >= 3
    assert_it_can_be_read(run, "interrupted by SIGINT")


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [[], ["--capture", "0-1"]])
def test_a_disk_that_gets_full_ends_the_run_and_keeps_what_it_took(
    tmp_path: Path, arguments: list[str]
) -> None:
    """A disk of 1 MB in its own mount namespace; its contents are then copied."""
    full, kept = tmp_path / "full", tmp_path / "kept"
    full.mkdir()
    script = (
        'mount -t tmpfs -o size=1m none "$0"; kept=$1; shift; "$@"; s=$?; cp -a "$0" $kept; exit $s'
    )
    run = [ROOT / "tiercast", "run", "sim-session", "--runtime", "ns3", "--results", full]
    result = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, full, kept, *run, *arguments],
        capture_output=True,
        text=True,
    )
    said, status = "No space left on device; valid: a writable folder with free space", EXIT_INPUT
    if result.returncode == EXIT_FAILED and arguments:  # the simulator, which captures, was first
        said, status = ".pcap: No space left on device", EXIT_FAILED
    assert result.returncode == status and said in result.stderr, result.stderr
    assert "Traceback" not in result.stderr
    assert "kept, without a verdict: " in result.stdout
    left = kept_run(kept)
    if arguments:  # which may leave no room for rows
        assert left.reasons[0] in result.stderr
        assert list(left.directory.glob("captures/*.pcapng")) == []  # no room for a whole one
    else:
        assert left.end_s > 1
        assert_it_can_be_read(left, said.partition(";")[0])


def test_a_run_without_rows_says_where_its_logs_are(stored: StoredRun) -> None:
    summary = stored.summary | {"verdict": "incomplete", "reasons": ["interrupted by SIGINT"]}
    (stored.directory / "summary.json").write_text(json.dumps(summary))
    shutil.rmtree(stored.directory / "rows")
    for command in (["report"], ["explain", "--receiver", "h3", "--at", "0s"]):
        result = tiercast(command[0], stored.directory, *command[1:])
        assert result.returncode == EXIT_INPUT
        said = f"{stored.directory}: interrupted by SIGINT; it has no rows; what there is: "
        assert said in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--switch=bmv2", "--set", "topology.link.queue=30kB"], "--switch bmv2: "),
        (["--set", "record_every=1s"], "record_every: not in Mininet; valid: --runtime ns3"),
    ],
)
def test_a_run_that_is_refused_leaves_nothing(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    result = tiercast("run", "sim-smoke", *arguments, "--results", tmp_path / "results")
    assert (result.returncode, said in result.stderr) == (EXIT_INPUT, True), result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_named_as_scratch_hangs_nobody(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    pipe = tmp_path / "tiercast-scratch-x"
    os.mkfifo(pipe)
    os.utime(pipe, (0, 0))
    with scratch_folder():
        pass
    assert list(tmp_path.iterdir()) == [pipe]


# ---------------------------------------------------------------------- in Mininet


@pytest.mark.mininet
@pytest.mark.parametrize("program", ["tiercast-send", "tiercast-host"])
def test_kill_of_a_program_ends_the_run_and_keeps_its_rows(tmp_path: Path, program: str) -> None:
    started = Started(tmp_path)
    started.wait_for_second(5)
    os.kill(started.wait_for(program), signal.SIGKILL)
    status, _, error = started.finish()
    assert status == EXIT_FAILED
    assert error.startswith(f"tiercast: {program} ")
    assert "was ended by SIGKILL while the run went on; the end of " in error
    started.assert_nothing_is_left()
    run = kept_run(tmp_path)
    # Killed at 5 s or later: at most the last second of what the programs reported is lost.
    assert run.rows["received"]["time_s"].max() >= 4
    assert run.rows["port"]["time_s"].max() >= 4
    assert_it_can_be_read(run, "was ended by SIGKILL")


@pytest.mark.mininet
def test_kill_of_the_lab_leaves_rows_and_no_process(tmp_path: Path) -> None:
    started = Started(tmp_path)
    started.wait_for_second(5)
    for program in ("tiercast-switch", "tiercast-host"):
        os.kill(started.wait_for(program), signal.SIGSTOP)
    started.process.kill()
    started.process.communicate()
    wait(lambda: not processes(f"tiercast-scratch-{started.run}-"))
    wait(lambda: not processes(f"mininet:{started.run}-"))
    run = kept_run(tmp_path)
    assert run.rows["received"]["time_s"].max() >= 4
    assert_it_can_be_read(run, "it has not ended: it goes on, or its lab was killed")
    # The folder of its sockets is removed by the next run, or by whatever needs such a folder next.
    old = time.time() - 2 * MIN_AGE_S
    for left in Path("/tmp").glob(f"tiercast-scratch-{started.run}-*"):
        os.utime(left, (old, old))
    with scratch_folder():
        started.assert_nothing_is_left()
