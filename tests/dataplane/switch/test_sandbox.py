"""What tiercast-switch gives up once its sockets are open (docs/security.md). base/sandbox_test.cpp
tries what is then refused."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ...checkout import ROOT
from ...patience import PATIENCE_S, wait_until
from ...tcp_switch import command

DAC_OVERRIDE = 1 << 1
ROUTER = ROOT / "tests/data/p4/router.json"  # this build has no native code for it


@contextmanager
def switch(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A switch that serves, and its log."""
    sockets, log = folder / "a.sock", folder / "log"
    words = command(f"unix:{sockets}", folder, "--log-level", "info", *options)
    at = words.index("warning")
    del words[at - 1 : at + 1]
    cache = {"TIERCAST_CACHE": str(folder / "cache")}
    with log.open("w") as output:
        process = subprocess.Popen(words, stderr=output, text=True, env=os.environ | cache)
    try:
        wait_until(
            lambda: process.poll() is not None or log.read_text().count("listening at") == 2,
            "it serves",
        )
        assert process.poll() is None, log.read_text()
        yield process, log
    finally:
        process.terminate()
        process.wait()


def statuses(pid: int) -> list[dict[str, str]]:
    """Of each thread: the lines of its status."""
    found = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        lines = (thread / "status").read_text().splitlines()
        found.append({key: value.strip() for key, _, value in (x.partition(":") for x in lines)})
    return found


def children(pid: int) -> list[int]:
    return [int(x) for x in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_confined(pid: int) -> bool:
    return all(one["Seccomp"] == "2" for one in statuses(pid))


def test_no_thread_keeps_what_it_does_not_need(tmp_path: Path) -> None:
    with switch(tmp_path) as (process, _):
        wait_until(lambda: is_confined(process.pid), "the sandbox")
        threads = statuses(process.pid)
        assert len(threads) > 2
        for one in threads:
            assert one["NoNewPrivs"] == "1"
            for kind in ("CapPrm", "CapEff", "CapInh"):
                assert int(one[kind], 16) & ~DAC_OVERRIDE == 0
        (builder,) = children(process.pid)
        wait_until(lambda: statuses(builder)[0]["NoNewPrivs"] == "1", "the builder drops rights")
        wait_until(lambda: int(statuses(builder)[0]["CapEff"], 16) == 0, "all of them")


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    with switch(tmp_path, "--no-sandbox") as (process, _):
        for one in statuses(process.pid):
            assert (one["Seccomp"], one["NoNewPrivs"]) == ("0", "0")
        assert children(process.pid) == []


def test_programs_are_still_compiled(tmp_path: Path) -> None:
    with switch(tmp_path, "--json", str(ROUTER)) as (process, log):
        wait_until(lambda: log.read_text().count("runs as native code") == 2, "native code")
        assert "compiled by" in log.read_text()
        assert is_confined(process.pid)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_compiler_outlives_it(tmp_path: Path, number: int) -> None:
    with switch(tmp_path, "--json", str(ROUTER)) as (process, _):
        (builder,) = children(process.pid)
        process.send_signal(number)
        process.wait(timeout=PATIENCE_S)
        wait_until(lambda: not Path(f"/proc/{builder}/cwd").exists(), "the builder's end")
        cache = tmp_path / "cache"
        assert not cache.exists() or list(cache.glob(".compile-*")) == []
