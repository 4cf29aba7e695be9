"""Real runs that are disturbed: programs are stopped, CPUs are taken away, links are cut.

A busy machine may add its own reasons to those that are asserted here.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tiercast_lab.base.errors import EXIT_FAILED, EXIT_INVALID
from tiercast_lab.results.verdict import BOUNDS

from ..bmv2 import HAS_BMV2
from ..patience import wait_until
from .real_run import Started, everything

pytestmark = [pytest.mark.mininet, pytest.mark.timeout(240)]

# The experiments' programs: as they appear in a command line, and as a run's reasons name them.
SMOKE = {
    "--name=h3": "tiercast-host h3",
    "--name=h0": "tiercast-send h0",
    "--name=s0": "tiercast-switch",
    "lab": "lab",
}
BESIDE_TCP = {
    " flows-send ": "flows send",
    " flows-receive ": "flows receive",
}
OF_EVERYTHING = {
    "--name=h4": "tiercast-host h4",  # comes and goes
    "--name=h3.s2": "tiercast-send h3.s2",  # of the second session
    " flows-send ": "flows send",
}
ON_BMV2 = {
    "s0.sock --cpu-port": "simple_switch_grpc s0",
    "-s0w1,": "tiercast-delay-line s0",
}


def start(results: Path, programs: dict[str, str], seconds: int) -> Started:
    """Starts a run of the experiment with these programs."""
    arguments = ["--set", "measure.last=1s", "--duration", f"{seconds}s"]
    if programs is ON_BMV2:
        if not HAS_BMV2:
            pytest.skip("bmv2 is not in PATH")
        arguments += ["--switch", "bmv2"]
    experiment = "basic-ermcc" if programs is BESIDE_TCP else "sim-smoke"
    if programs is OF_EVERYTHING:
        experiment = str(everything(results)[0])
    return Started(results, *arguments, experiment=experiment)


def stop(started: Started, program: str, seconds: float) -> float:
    """Stops a program. Returns the least time for which it was stopped, in ms."""
    pid = started.process.pid if program == "lab" else started.wait_for(program)
    os.kill(pid, signal.SIGSTOP)
    stopped = time.monotonic()
    time.sleep(seconds)
    paused = 1e3 * (time.monotonic() - stopped)
    os.kill(pid, signal.SIGCONT)
    return paused


def reasons(started: Started, results: Path) -> dict[str, str]:
    """The reasons of a run that was judged invalid, by the name of the check."""
    status, out, error = started.finish()
    assert (status, error) == (EXIT_INVALID, ""), out + error
    started.assert_nothing_is_left()
    summary = json.loads((results / "latest/summary.json").read_text())
    assert summary["verdict"] == "invalid"
    return dict(reason.split(": ", 1) for reason in summary["reasons"])


def pause_of(program: str, reason: str) -> float:
    """The pause in ms that a reason states."""
    found = re.search(rf"{program} ([0-9.]+) ms \(before [0-9.]+ s\)", reason)
    assert found, reason
    return float(found[1])


@pytest.mark.parametrize(
    "programs",
    [SMOKE, BESIDE_TCP, OF_EVERYTHING, ON_BMV2],
    ids=["smoke", "beside TCP", "everything", "on bmv2"],
)
def test_a_stop_of_300_ms_is_named(tmp_path: Path, programs: dict[str, str]) -> None:
    """Every program is stopped in turn, the first one as soon as the run begins."""
    started = start(tmp_path, programs, 5)
    started.wait_for_second(0)
    stopped = {program: stop(started, program, 0.3) for program in programs}
    why = reasons(started, tmp_path)
    for program, named in programs.items():
        # The reason shows four digits.
        assert pause_of(named, why["pause"]) >= 0.999 * stopped[program]
    if "--name=h0" in stopped:
        assert BOUNDS["late_max"].value < pause_of("h0", why["late_max"])


@pytest.mark.parametrize("program", [*SMOKE, " flows-receive ", "--name=h3.s2", *ON_BMV2])
def test_a_stop_of_3_s_that_the_run_ends_in_is_named(tmp_path: Path, program: str) -> None:
    programs = next(one for one in (SMOKE, BESIDE_TCP, OF_EVERYTHING, ON_BMV2) if program in one)
    named = programs[program]
    started = start(tmp_path, programs, 7)
    started.wait_for_second(5)
    stopped = stop(started, program, 3)
    why = reasons(started, tmp_path)
    assert pause_of(named, why["pause"]) >= 0.999 * stopped
    assert f"{named} " in why["silence"]


@pytest.mark.parametrize(
    ("programs", "program"),
    [
        (SMOKE, "--name=s0"),
        (BESIDE_TCP, " flows-send "),
        *((ON_BMV2, one) for one in ON_BMV2),
    ],
)
def test_a_program_that_stays_stopped_breaks_the_run_off_as_invalid(
    tmp_path: Path, programs: dict[str, str], program: str
) -> None:
    started = start(tmp_path, programs, 2)
    started.wait_for_second(0)
    os.kill(started.wait_for(program), signal.SIGSTOP)
    status, _, error = started.finish()
    assert status == EXIT_INVALID
    assert re.search(f"[; ]stopped( when the run ended)?: {programs[program]}\n", error)
    started.assert_nothing_is_left()
    (summary,) = tmp_path.glob("*/summary.json")
    assert json.loads(summary.read_text())["verdict"] == "incomplete"


def test_cpus_that_others_take_in_real_time_make_a_run_invalid(tmp_path: Path) -> None:
    started = start(tmp_path, SMOKE, 5)
    started.wait_for_second(0)
    # The kernel ends each process after a second on a CPU, because nothing else might get to run
    # and end it. All of them wait for the same pipe to close, or the first would keep the next from
    # being started.
    loop = ["prlimit", "--rttime=1000000:1000000", "chrt", "-f", "50"]
    loop += ["sh", "-c", "read line; while :; do :; done"]
    waiting, begin = os.pipe()
    loops = [
        subprocess.Popen(loop, stdin=waiting, stderr=subprocess.DEVNULL)
        for _ in os.sched_getaffinity(0)
    ]
    stats = [Path(f"/proc/{one.pid}/stat") for one in loops]
    wait_until(lambda: all("(sh) S " in stat.read_text() for stat in stats), "all loops wait")
    os.close(begin)
    os.close(waiting)
    try:
        why = reasons(started, tmp_path)
    finally:
        for one in loops:
            one.kill()
            one.wait()
    assert all(one.returncode == -signal.SIGKILL for one in loops), "no real time is allowed here"
    assert pause_of("tiercast-s[a-z]+ [hs]0", why["pause"]) > BOUNDS["pause"].value


def test_an_interface_that_vanishes_ends_the_run_and_is_named(tmp_path: Path) -> None:
    started = start(tmp_path, SMOKE, 10)
    started.wait_for_second(0)
    pid = started.wait_for("--name=h3")
    interface = f"{started.run}-h3p1"
    inside = ["nsenter", f"--target={pid}", "--net"]
    subprocess.run([*inside, "ip", "link", "delete", interface], check=True)
    status, _, error = started.finish()
    assert status == EXIT_FAILED
    assert error.startswith("tiercast: vanished while the run went on: interface ")
    assert f"{interface} of h3" in error and f"{started.run}-s1p2 of s1" in error
    started.assert_nothing_is_left()
