"""Fixtures: a registry of schemes, small experiments, and a stored run whose rows are all known."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiercast_lab.base import binaries
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.loading import load_experiment
from tiercast_lab.experiment.schemes import ParameterInfo, SchemeInfo
from tiercast_lab.measures import Rows, all_measures, context_of
from tiercast_lab.results import storage
from tiercast_lab.results.recorder import Recorder, finish_rows
from tiercast_lab.results.verdict import as_dict, bounds_of, judge, validity, verdict
from tiercast_lab.run.network_summary import network_summary

from ..conftest import KEPT_UP_NOT

SCHEMES = {
    "sim": SchemeInfo(
        "sim",
        {
            "sim.delta": ParameterInfo("sim.delta", 0.875, 0.1, 0.99, ""),
            "sim.add_after": ParameterInfo("sim.add_after", 4, 1, 1000, "cuts", whole=True),
        },
        aggregated=True,
        lies={"rate_zero": "reports that it receives nothing", "million_receivers": "counts wrong"},
    ),
    "single": SchemeInfo("single", layered=False),
}

SMALL = """\
    name: small
    title: A small tree
    topology:
      tree: {depth: 2}
      link: {rate: 6Mbit/s, delay: 5ms, queue: 50p}
      links:
        1-3: {rate: 1Mbit/s}
    sessions:
      - {scheme: sim, sender: 0, layers: 2}
    duration: 20s
    measure: {last: 10s}
    expect:
      - {measure: cumulative_rate, layers: 2, paper: 6Mbit/s, tolerance: 10%}
      - {measure: efficiency, min: 0.9}
    """

Load = Callable[..., LoadedExperiment]


@pytest.fixture
def simulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """simulator(script) lets a shell script run instead of tiercast-ns3, once the lab has told it
    the scenario. Returns its path."""

    def make(script: str) -> Path:
        path = tmp_path / "tiercast-ns3"
        take = Path(__file__).with_name("take_messages.py")
        path.write_text(f"#!/bin/sh\n{sys.executable} {take}\n{script}")
        path.chmod(0o755)
        monkeypatch.setattr(binaries, "NS3", path)
        return path

    return make


def skip_if_invalid(summary: dict) -> None:
    """Skips the rest of a test, which judges rates in real time, if the machine could not keep
    up."""
    if summary["verdict"] == "invalid":
        pytest.skip(f"{KEPT_UP_NOT}: " + "; ".join(summary["reasons"]))


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Loads an experiment given as YAML text. Its file is `tmp_path/experiment.yaml`."""

    def from_text(text: str = SMALL, **options: object) -> LoadedExperiment:
        path = tmp_path / "experiment.yaml"
        path.write_text(textwrap.dedent(text))
        return load_experiment(path, SCHEMES, **options)

    return from_text


def record_port(
    recorder: Recorder,
    time_s: float,
    link: str,
    counts: dict[tuple[int, int], dict[str, float]],
    **more: float,
) -> None:
    """Records a sample of a port: packets by session and layer, whose sum is the port's. Counts
    that are not given are 0, and everything is counted as having entered."""
    a, _, b = link.partition(">")
    place = {"port": float(b), "link": link}
    names = ("left", "queue_drops", "policy_drops", "pruned", "waiting", "marked")
    total = dict.fromkeys(("entered", *names), 0)
    for (session, layer), given in counts.items():
        mine = {name: int(given.get(name, 0)) for name in names}
        mine["entered"] = sum(mine.values()) - mine["marked"]
        total = {name: total[name] + mine[name] for name in total}
        row = {**place, "session": session, "layer": layer, **mine}
        recorder.add("port.session", time_s, f"s{a}", row)
    clean = {"kernel_drops": 0.0, "send_errors": 0.0, **LATE}
    packets = {"rx_packets": total["left"], "tx_packets": total["left"]}
    queue = {"queue_packets": total.pop("waiting"), "max_queue_packets": total["queue_drops"]}
    recorder.add("port", time_s, f"s{a}", {**place, **total, **packets, **queue, **clean, **more})


@pytest.fixture
def stored(load: Load, tmp_path: Path) -> storage.StoredRun:
    """A run in which every figure is known: layer 0 is sent at 1 and layer 1 at 5 Mbit/s from the
    start, and each receiver gets what its path has room for: h3 one layer, the others two."""
    loaded = load()
    recorder = Recorder(tmp_path / "results" / "run" / "rows")
    available = {3: 1e6, 4: 6e6, 5: 6e6, 6: 6e6}  # bit/s
    for node in available:
        recorder.add("subscription", 0.0, f"h{node}", {"top": 0})
        recorder.add("join", 0.02, f"h{node}", {"rank": 0, "latency_us": 20_000 + node})
        if node != 3:
            recorder.add("subscription", 5.0, f"h{node}", {"top": 1})
    for tick in range(1, 101):
        t = tick * 0.2
        for rank, rate in enumerate((1e6, 5e6)):
            fields = {"rank": rank, "rate_Bps": rate / 8, "sent_bytes": rate / 8 * t}
            recorder.add("layer", t, "h0", fields)
        for node, rate in available.items():
            size = rate / 8 * t
            fields = {"bytes": size, "packets": size / 1000, "lost": 0.0, "marked": size / 10_000}
            recorder.add("received", t, f"h{node}", fields)
    for second in range(1, 21):
        counts = {(1, 0): {"left": 750.0 * second, "waiting": 2.0}}
        record_port(recorder, float(second), "0>1", counts, max_queue_packets=float(second))
        load_figures = {"cpu_percent": 80.0, "cpu_wait_ms": 0.05, "pressure_percent": 90.0}
        recorder.add("machine", float(second), "lab", load_figures)
        add_health(recorder, float(second))
    menu = {"active": 1.0, "limit_1_Bps": 5e5, "min_Bps": 125e3, "max_Bps": 750e3}
    recorder.add("sim.menu", 10.0, "h0", menu)
    recorder.add("pacer.final", 20.0, "h0", {**LATE, "dropped": 0.0})
    return store(loaded, recorder)


@pytest.fixture
def beside_tcp(load: Load, tmp_path: Path) -> storage.StoredRun:
    """A single-rate session beside two TCP flows on 0-1. The session and tcp1 get 2 Mbit/s, tcp2 1
    Mbit/s. The session's records give the sender's rate and who limits it at odd seconds, and h3's
    loss at 4 s."""
    text = textwrap.dedent(SMALL).replace("scheme: sim", "scheme: single")
    text = text.replace(", layers: 2}", "}").replace("layers: 2, paper", "layers: 1, paper")
    text = text.replace("expect:", "expect:\n  - {measure: tcp_ratio, min: 0.5, max: 2}")
    loaded = load(text + "traffic:\n  - {kind: tcp, from: 0, to: 1, count: 2}\n")
    recorder = Recorder(tmp_path / "results" / "beside" / "rows")
    for tick in range(0, 101):
        t = tick * 0.2
        layer = {"rank": 0, "rate_Bps": 250_000.0, "sent_bytes": 250_000 * t}
        recorder.add("layer", t, "h0", layer)
        recorder.add("feedback", t, "h0", {"accepted": 10 * t})
        for node in (3, 4, 5, 6):
            counts = {"packets": 250 * t, "lost": 5 * t, "marked": 0.0}
            recorder.add("received", t, f"h{node}", {"bytes": 250_000 * t, **counts})
        for name, rate in (("tcp1", 250_000), ("tcp2", 125_000)):
            recorder.add("tcp", t, name, {"bytes": rate * t, "goodput_bytes": 0.9 * rate * t})
            sender = {"cwnd": 20, "ssthresh": 10, "rtt_us": 90_000}
            recorder.add("tcp.sender", t, name, {**sender, "sent_packets": 1, "retransmitted": 0})
    for second in range(1, 21):
        counts = {
            (1, 0): {"left": 500.0 * second, "queue_drops": 2.0 * second, "marked": 9.0},
            (-1, -1): {"left": 250.0 * second, "queue_drops": 1.0 * second, "waiting": 2.0},
        }
        record_port(recorder, float(second), "0>1", counts, max_queue_packets=float(second))
        load_figures = {"cpu_percent": 80.0, "cpu_wait_ms": 0.05, "pressure_percent": 90.0}
        recorder.add("machine", float(second), "lab", load_figures)
        add_health(recorder, float(second))
        if second % 2:
            fields = {"rate_Bps": 250_000.0 + second, "limiting": 3.0, "rtt_us": 1000.0 * second}
            recorder.add("single.rate", float(second), "h0", fields)
    recorder.add("single.loss", 4.0, "h3", {"loss": 0.01})
    recorder.add("pacer.final", 20.0, "h0", {**LATE, "dropped": 0.0})
    for node in (3, 4, 5, 6):
        recorder.add("subscription", 0.1, f"h{node}", {"top": 0})
    return store(loaded, recorder)


LATE = {"late_p99_us": 300.0, "late_max_us": 2000.0}
PROGRAMS = ("lab", "tiercast-switch s0", "tiercast-send h0", "tiercast-host h3")


def add_health(recorder: Recorder, second: float) -> None:
    """Adds the rows of a second in which every program ran as it should."""
    for program in PROGRAMS:
        recorder.add("pause", second, program, {"longest_us": 101_000.0})
    recorder.add("pacer", second, "h0", {**LATE, "dropped": 0.0})
    recorder.add("packet_in", second, "s0", {"packets": 10.0, "dropped": 0.0})


def begun(loaded: LoadedExperiment, directory: Path) -> dict[str, Any]:
    """The summary of a small run at its start."""
    return {
        "format": storage.FORMAT,
        "run": directory.name,
        "title": loaded.experiment.title,
        "started": "2026-01-01T00:00:00+0000",
        "command": ["./tiercast", "run", "small"],
        "experiment": loaded.data,
        "seed": 1,
        "runtime": "mininet",
        "switch": "tiercast",
        "versions": {"tiercast": "0"},
        "machine": {"cores": 2},
        "network": network_summary(loaded),
        "duration_s": 20.0,
        "window_s": list(loaded.window),
    }


def store(loaded: LoadedExperiment, recorder: Recorder) -> storage.StoredRun:
    directory = recorder.folder.parent
    summary = begun(loaded, directory) | {"complaints": []}
    context = context_of(json.loads(json.dumps(summary)))
    with recorder:
        pass  # everything it was given is written on exit
    frames = finish_rows(recorder.folder)
    measures = all_measures(Rows(frames), context)
    checks = validity(frames, context, bounds_of(2, {}))
    figures = [judge(e, measures[e.name]) for e in loaded.experiment.expect]
    summary["verdict"], summary["reasons"] = verdict(checks, figures)
    summary["validity"] = {"checks": [as_dict(c) for c in checks], "hidden_queues": []}
    summary["measures"] = {name: {"value": value} for name, value in measures.items()}
    summary["expected"] = [as_dict(f) for f in figures]
    storage.write_json(directory / "summary.json", summary)
    return storage.load_run(directory)
