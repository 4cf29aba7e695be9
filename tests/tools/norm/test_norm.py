"""tiercast-norm between two namespaces (root)."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ...checkout import BUILD
from ...namespaces import Namespaces, command_in, ip
from ...patience import PATIENCE_S, wait_until

PROGRAM = BUILD / "tools/norm/tiercast-norm"
pytestmark = [
    pytest.mark.skipif(not PROGRAM.exists(), reason="built without libnorm-dev"),
    pytest.mark.slow,
]


@pytest.fixture
def two() -> Iterator[Namespaces]:
    namespaces = Namespaces("a", "b")
    try:
        namespaces.join("a", "eth", "b", "eth")
        for number, name in enumerate("ab", 1):
            ip("-n", namespaces[name], "address", "add", f"10.9.0.{number}/24", "dev", "eth")
            ip("-n", namespaces[name], "route", "add", "224.0.0.0/4", "dev", "eth")
        yield namespaces
    finally:
        namespaces.close()


@pytest.mark.parametrize("feedback", [[], ["--unicast-feedback"]])
def test_a_receiver_reads_what_the_sender_writes(
    two: Namespaces, tmp_path: Path, feedback: list[str]
) -> None:
    common = ["--group=230.4.4.2", "--interface=eth", "--port=6100"]
    logs = {name: tmp_path / name for name in ("send", "receive")}
    running = {}

    def said(name: str) -> list[dict]:
        return [json.loads(line) for line in logs[name].read_text().splitlines(keepends=True)
                if line.endswith("\n")]  # fmt: skip

    try:
        for where, name, more in (
            ("b", "receive", ["--id=2", *feedback]),
            ("a", "send", ["--id=1"]),
        ):
            command = command_in(two[where], PROGRAM, name, *common, *more)
            with logs[name].open("w") as log:
                running[name] = subprocess.Popen(command, stdout=log)
            wait_until(lambda name=name: said(name), f"{name} has begun")
        wait_until(lambda: said("receive")[-1].get("read", 0) > 10_000, "data has been read")
        wait_until(lambda: "grtt_s" in said("send")[-1], "the sender has reported")
    finally:
        for process in running.values():
            process.send_signal(signal.SIGTERM)
        statuses = {name: process.wait(PATIENCE_S) for name, process in running.items()}
    assert statuses == {"send": 0, "receive": 0}
    events = [one["event"] for one in said("receive")]
    assert events[:2] == ["joined", "first"] and set(events[2:-1]) == {"second"}
    assert events[-1] == "end"
    first, end = said("receive")[1], said("receive")[-1]
    assert 0 < first["waited_s"] < PATIENCE_S
    assert end["breaks"] == 0 and 10_000 < end["read"] <= said("send")[-1]["written"]
    assert [one["event"] for one in said("send")][0] == "started"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "the first argument is `send` or `receive`"),
        (["listen"], "the first argument is `send` or `receive`"),
        (["send"], "--group, --interface and --id are needed"),
        (["send", "--group=10.0.0.1"], "--group: '10.0.0.1'; valid: 224.0.0.0 to 239.255.255.255"),
        (["send", "--group=here"], "--group: 'here'; valid: 224.0.0.0 to"),
        (
            ["send", "--group=230.4.4.2", "--id=1", "--interface=none"],
            "--interface: no 'none' here",
        ),
        (["send", "--id=0"], "--id: '0'; valid: 1 to 4294967294"),
        (["send", "--id=x"], "--id: 'x'; valid: 1 to"),
        (["send", "--port=65536"], "--port: '65536'; valid: 1 to 65535"),
        (["send", "--packet-size=100"], "--packet-size: '100'; valid: 200 to 1500"),
        (["send", "--start-rate=fast"], "--start-rate: 'fast'; valid: such as 6Mbit/s"),
        (["send", "--rate"], "unknown argument '--rate'; see --help"),
    ],
)
def test_arguments_are_checked(arguments: list[str], said: str) -> None:
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith(f"tiercast-norm: {said}"), done.stderr


def test_it_says_its_version() -> None:
    done = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True)
    assert done.stdout.startswith("tiercast-norm ") and done.returncode == 0
