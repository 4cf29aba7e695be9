"""`tiercast lab`: a script, a terminal, and labs that are broken off."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
from pathlib import Path

import polars as pl
import pytest
from tiercast_lab.experiment.loading import load_experiment
from tiercast_lab.experiment.schemes import known_schemes

from ..checkout import ROOT
from ..patience import wait_until
from .real_run import Started, processes

pytestmark = pytest.mark.mininet

# Nothing is asserted about how much of anything there is: a slow machine may take its time.
# Each test looks for a sleep of its own length, since others run beside it.
SCRIPT = """\
# one line of each kind
wait 1s
pingall
link 1-3 rate 400kbit/s delay 20ms
leave h4
sessions
wait 1s
link 1-3 down
h4 sh -c 'ping -c 1 -W 1 h3 > /dev/null || echo no answer from h3'
link s1 h3 up
join 4
wait 2s
explain h3
status
h5 echo it is h6
h5 sleep 1001 &
stop
sessions
h3 ping -c 1 h0
"""


class Lab(Started):
    """A `tiercast lab` that has printed its run's id."""

    def __init__(self, results: Path, *arguments: str) -> None:
        self.results = results
        command = [ROOT / "tiercast", "lab", "sim-smoke", "--results", results, *arguments]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.run = self.process.stdout.readline().rpartition("run ")[2].strip()

    def read_until(self, text: str) -> str:
        said = ""
        while text not in (line := self.process.stdout.readline()):
            assert line, said
            said += line
        return said + line


def test_a_script_is_carried_out_and_stored(tmp_path: Path) -> None:
    script = tmp_path / "commands"
    script.write_text(SCRIPT)
    lab = Lab(tmp_path / "results", "--script", str(script), "--capture", "1-3")
    status, said, error = lab.finish()
    assert status in (0, 3), said + error
    lab.assert_nothing_is_left()
    assert processes("sleep 1001") == []
    # h0 is the sender's host, whose interface tiercast-send has; it is in this, too.
    assert "*** Results: 0% dropped (20/20 received)" in said
    assert "no answer from h3" in said
    assert "it is 10.0.6.2" in said
    assert "1 packets transmitted, 1 received, 0% packet loss" in said.partition("\nstopped")[2]
    assert re.search(r"1 +sim +runs since \S+ s +h0 +h3 h5 h6 +h4 *\n", said)
    assert re.search(r"1 +sim +stopped since \S+ s +h0 +h3 h4 h5 h6 *\n", said)
    assert "sim, receiver h3 at" in said and "it goes on" not in said

    run = (tmp_path / "results/latest").resolve()
    stored = load_experiment(run / "experiment.yaml", known_schemes()).experiment
    first, second, third = stored.link_events
    assert (first.link, first.rate, first.delay) == ("1-3", 400_000, 20_000_000)
    assert (second.wire.up, third.wire.up) == (False, True)
    [left, came] = stored.member_changes[1, 4]
    assert (left.joins, came.joins) == (False, True)
    assert first.at < left.at < second.at < third.at < came.at < stored.sessions[0].stop
    assert stored.sessions[0].stop < stored.duration
    summary = json.loads((run / "summary.json").read_text())
    assert summary["verdict"] in ("reported", "invalid") and summary["complaints"] == []
    assert summary["duration_s"] == stored.duration / 1e9
    checks = {check["name"]: check for check in summary["validity"]["checks"]}
    assert checks["unaccounted"]["ok"] and checks["refused"]["ok"]
    receiver = summary["network"]["sessions"][0]["receivers"]["h3"]
    assert [rate for _, rate in receiver["available"]] == [1e6, 4e5, 0.0, 4e5]
    # What happened is in the rows, at the times that are stored.
    subscribed = pl.read_parquet(run / "rows/join.parquet").filter(pl.col("agent") == "h4")
    assert subscribed.filter(pl.col("time_s") >= came.at / 1e9).height > 0
    assert subscribed.filter(pl.col("time_s").is_between(left.at / 1e9, came.at / 1e9)).is_empty()
    assert (run / "report.html").exists() and (run / "captures/1-3.pcapng").exists()
    # It can be run again, here in virtual time.
    again = subprocess.run(
        [ROOT / "tiercast", "run", run / "experiment.yaml", "--runtime", "ns3"]
        + ["--results", tmp_path / "again"],
        capture_output=True,
        text=True,
    )
    assert again.returncode == 0, again.stdout + again.stderr


def test_an_idle_lab_starts_what_it_is_told(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "--idle")
    commands = "sessions\nwait 500ms\nstart\nwait 1s\nsessions\nexit\nnever carried out\n"
    said, error = lab.process.communicate(commands)
    assert lab.process.returncode in (0, 3), said + error
    lab.assert_nothing_is_left()
    assert re.search(r"1 +sim +waits +h0 +h3 h4 h5 h6", said) and "started: session 1" in said
    run = (tmp_path / "latest").resolve()
    [session] = load_experiment(run / "experiment.yaml", known_schemes()).experiment.sessions
    assert session.start >= 500_000_000
    layers = pl.read_parquet(run / "rows/layer.parquet")
    assert layers["time_s"].min() >= session.start / 1e9


def test_a_script_ends_at_its_first_refused_line(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    said, error = lab.process.communicate("wait 200ms\njoin h9\nh3 touch never\n")
    assert lab.process.returncode == 2, said + error
    assert error == (
        "tiercast: standard input, line 2: join h9: no receiver of session 1 'h9'; valid: h3, h4, "
        "h5, h6\n"
    )
    lab.assert_nothing_is_left()
    assert json.loads((tmp_path / "latest/summary.json").read_text())["verdict"] != "incomplete"


class Terminal:
    """A lab whose standard input and output are a terminal of its own."""

    def __init__(self, *arguments: str) -> None:
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execv(ROOT / "tiercast", ["tiercast", "lab", *arguments])
        self.said = ""

    def type(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def read_until(self, text: str) -> str:
        """What it has said since the last call, up to the end of `text`."""

        def has_said() -> bool:
            if select.select([self.terminal], [], [], 0)[0]:
                self.said += os.read(self.terminal, 4096).decode(errors="replace")
            return text in self.said

        wait_until(has_said, f"the terminal says {text!r}")
        said, _, self.said = self.said.partition(text)
        return said + text

    def end(self) -> int:
        """Its exit status."""
        said = b""
        while True:
            try:
                said += os.read(self.terminal, 4096)
            except OSError:  # it has ended
                break
        self.said += said.decode(errors="replace")
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_a_terminal(tmp_path: Path) -> None:
    """Ctrl-C cancels the line, or the command in a node; Ctrl-D ends the lab."""
    lab = Terminal("sim-smoke", "--idle", "--results", str(tmp_path))
    run = re.search(r"run ([0-9a-f]{4})", lab.read_until("Ctrl-D ends the lab"))[1]
    lab.read_until("tiercast> ")
    lab.type(f"h3 touch {tmp_path}/never")
    lab.read_until("never")
    lab.type("\3")
    lab.read_until("tiercast> ")
    lab.type("h3 echo one plus $((1 + 1))\n")
    lab.read_until("one plus 2")
    lab.type("h3 echo sleeps $((1 + 2)); sleep 1002; echo slept\n")
    lab.read_until("sleeps 3")
    wait_until(lambda: bool(processes("sleep 1002")), "h3 sleeps")
    lab.type("\3")
    wait_until(lambda: not processes("sleep 1002"), "Ctrl-C reaches h3")
    lab.read_until("tiercast> ")
    lab.type("frobnicate\n")
    lab.read_until("error: no command or node 'frobnicate'; valid: ")
    lab.read_until("tiercast> ")
    lab.type("\4")
    assert lab.end() == 0, lab.said
    assert "kept, without a verdict: " in lab.said
    assert not (tmp_path / "never").exists()
    assert processes(f"{run}-") == []
    [summary] = tmp_path.glob("*/summary.json")
    assert json.loads(summary.read_text())["reasons"] == ["no session was started"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_lab_that_is_broken_off_leaves_nothing(tmp_path: Path, number: int) -> None:
    lab = Lab(tmp_path)
    sleep = f"sleep {1100 + number}"
    lab.process.stdin.write(f"h3 {sleep} &\nh4 echo runs\n")
    lab.process.stdin.flush()
    lab.read_until("h4 echo runs")
    wait_until(lambda: bool(processes(sleep)), "h3 sleeps")
    lab.process.send_signal(number)
    status, _, error = lab.finish()
    assert (status, error.strip()) == (
        (130, "tiercast: interrupted by SIGTERM") if number == signal.SIGTERM else (-number, "")
    )
    wait_until(lambda: not processes(sleep), "what was started in h3 is ended")
    wait_until(lambda: not processes(f"{lab.run}-"), "the lab's processes are ended")
    [summary] = tmp_path.glob("*/summary.json")
    assert json.loads(summary.read_text())["verdict"] == "incomplete"
