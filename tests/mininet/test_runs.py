"""Stored runs and their workers: what a key stands for, incomplete runs, workers that die."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
from tiercast_controller.base.installation import ROOT
from tiercast_lab.base import binaries, machine
from tiercast_lab.base.errors import InputError, Interrupted
from tiercast_lab.base.interrupt import Interrupt
from tiercast_lab.results.storage import StoredRun
from tiercast_lab.study import workers
from tiercast_lab.study.runs import Outcome, Store, Task, key_of, run_all
from tiercast_lab.study.target import MININET
from tiercast_lab.study.workers import Job, JobResult, LocalWorkers, make, programs

from .conftest import SCHEMES, Load

OVER = {"window_s": [10.0, 20.0], "periods_s": {}}


def job(load: Load) -> Job:
    return Job("key", "run", load(), 1, [], programs())


def test_a_key_stands_for_all_that_makes_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = programs()
    for folder in ("controller", "mininet"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    monkeypatch.setattr(workers, "LAB", tmp_path / "mininet/tiercast_lab")
    monkeypatch.setattr(workers, "CONTROLLER", tmp_path / "controller/tiercast_controller")
    assert programs() == before

    def changed(name: str) -> bool:
        known = programs()
        path = tmp_path / name
        path.write_text(path.read_text() + "# changed\n")
        return programs() != known

    assert changed("controller/tiercast_controller/multicast/trees.py")
    assert changed("mininet/tiercast_lab/run/ns3/runtime.py")
    assert changed("controller/tiercast_controller/network/marking/red.py")
    assert not changed("mininet/tiercast_lab/run/mininet/runtime.py")
    assert not changed("mininet/tiercast_lab/show/plots.py")
    with monkeypatch.context() as other:  # another ns-3 below the same simulator
        library = tmp_path / "libns3-core.so.37"
        library.write_text("another")
        others = [library, *binaries.linked(binaries.NS3, "libns3")[1:]]
        other.setattr(workers, "_libraries_of_ns3", lambda *_: others)
        assert programs()["libns3-*.so"] != before["libns3-*.so"]
    info = tmp_path / "info"
    info.write_bytes(binaries.P4_INFO.read_bytes() + b"\n")
    monkeypatch.setattr(binaries, "P4_INFO", info)
    assert programs()["info"] != before["tiercast.p4info.txtpb"]


def test_a_simulator_is_known_with_the_libraries_that_it_loads(tmp_path: Path) -> None:
    loaded = binaries.linked(binaries.NS3, "libns3")
    assert any(path.name.startswith("libns3-core.so") for path in loaded)
    assert all(path.is_file() for path in loaded)
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    assert binaries.linked(script, "libns3") == []


@pytest.mark.parametrize("part", ["kernel", "cpu", "cores"])
def test_in_real_time_a_key_stands_for_the_machine_too(
    load: Load, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    loaded = load()
    before = key_of(loaded, 1), key_of(loaded, 1, MININET)
    assert key_of(loaded, 1, MININET) == before[1]
    other = machine.real_time() | {part: "another"}
    monkeypatch.setattr(machine, "real_time", lambda: other)
    assert key_of(loaded, 1) == before[0]
    assert key_of(loaded, 1, MININET) != before[1]


def test_what_is_stored_by_halves_is_named_or_taken_again(stored: StoredRun) -> None:
    store, key = Store(stored.directory.parent), stored.directory.name
    measures = store.measures(key, OVER)
    (kept,) = stored.directory.glob("measures-*.json")
    kept.write_text(kept.read_text()[:100])
    assert store.measures(key, OVER) == measures
    assert json.loads(kept.read_text())["window_s"] == [10.0, 20.0]
    kept.unlink()
    rows = stored.directory / "rows/received.parquet"
    whole = rows.read_bytes()
    rows.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=f"received.parquet: .*without {stored.directory} the run"):
        store.measures(key, OVER)
    (stored.directory / "summary.json").write_text("{")
    with pytest.raises(InputError, match="summary.json: not JSON: "):
        store.measures(key, OVER)


def test_a_full_disk_is_named_and_leaves_no_half_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes) -> int:
        if path.name == "summary.json":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return write(path, content)

    write = Path.write_bytes
    store = Store(tmp_path / "runs")
    files = {"rows/port.parquet": b"1", "summary.json": b"{}"}
    with monkeypatch.context() as changed, pytest.raises(InputError, match="No space left"):
        changed.setattr(Path, "write_bytes", full)
        store.put("key", files)
    assert not list(store.folder.iterdir())
    store.put("key", files)
    store.put("key", files)  # another process was first
    assert [path.name for path in store.folder.iterdir()] == ["key"]


def test_measuring_many_stored_runs_can_be_interrupted(load: Load, tmp_path: Path) -> None:
    task = Task(
        tmp_path / "experiment.yaml", SimpleNamespace(name="run", seed=1, settings=(), places={})
    )
    store = Store(tmp_path / "runs")
    store.put(key_of(load(), 1), {"summary.json": b"{}"})
    interrupt = Interrupt()
    interrupt.signal = signal.SIGINT
    with pytest.raises(Interrupted):
        run_all([task], SCHEMES, store, lambda: None, interrupt, lambda _: None)


def test_an_invalid_run_in_virtual_time_fails_and_is_not_made_again(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it has just been made or was stored before."""
    monkeypatch.setattr(Store, "measures", lambda *_: {"efficiency": 1.0})
    runs = [SimpleNamespace(name="run", seed=seed, settings=(), places={}) for seed in (1, 2)]
    tasks = [Task(Path(load().file), run) for run in runs]
    why = "refused: 0.02 of all messages > 0.01"

    class Machine(LocalWorkers):
        made: ClassVar[list[int]] = []

        def submit(self, job: Job) -> None:
            self.job = job

        def ended(self, timeout_s: float) -> list[tuple[Job, JobResult | None]]:
            self.made.append(self.job.seed)
            told = {1: {"verdict": "met"}, 2: {"verdict": "invalid", "reasons": [why]}}
            files = {"summary.json": json.dumps(told[self.job.seed]).encode()}
            return [(self.job, JobResult(files))]

    def outcomes() -> list[Outcome]:
        store = Store(tmp_path / "runs")
        return run_all(tasks, SCHEMES, store, lambda: Machine(1), Interrupt(), lambda _: None)

    for found in outcomes(), outcomes():
        assert [one.failure for one in found] == ["", f"invalid: {why}"]
        assert [one.invalid for one in found] == [False, True]
        assert [one.measures for one in found] == [{"efficiency": 1.0}, {}]
        assert (found[1].directory / "summary.json").exists()
    assert sorted(Machine.made) == [1, 2]


def test_a_worker_that_dies_in_the_middle_of_its_answer_is_a_dead_worker(load: Load) -> None:
    local = LocalWorkers(1)
    mine, its = local._context.Pipe(duplex=False)
    os.write(its.fileno(), struct.pack("!i", 1000) + b"half of")
    its.close()
    local._running[mine] = one, _ = job(load), SimpleNamespace(join=lambda: None)
    assert local.ended(1) == [(one, None)]


def test_a_fault_of_ours_fails_the_run_with_its_reason(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "execute", lambda *_: 1 // 0)
    assert make(job(load)).failure.startswith("ZeroDivisionError: integer division")


def test_a_simulator_that_says_nothing_can_be_interrupted(
    load: Load, simulator: Callable[[str], Path]
) -> None:
    silent = simulator("echo $$ > $0.pid\nexec sleep 3600\n")
    began = Path(f"{silent}.pid")

    def interrupt() -> None:
        while not began.exists():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(Interrupted):
        make(job(load))


def test_a_simulator_that_dies_in_the_middle_of_a_line_is_named(
    load: Load, simulator: Callable[[str], Path]
) -> None:
    simulator("""
echo '{"at_ns": 0}'
printf '{"time_ns": 12'
echo 'out of memory' >&2
exit 9
""")
    assert make(job(load)).failure == "tiercast-ns3 ended with status 9: out of memory"
