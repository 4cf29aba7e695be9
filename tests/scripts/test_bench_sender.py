"""`make bench-sender` in its check mode: every part runs, and the figures have the form that the
charts and docs/performance.md need. No figure is judged here."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from ..checkout import ROOT

pytestmark = pytest.mark.slow


def test_every_part_runs_and_is_drawn(tmp_path: Path) -> None:
    output = tmp_path / "sender.json"
    done = subprocess.run(
        [ROOT / ".venv/bin/python", ROOT / "scripts/bench_sender.py", "--check",
         f"--output={output}", f"--charts={tmp_path}"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(output.read_text())
    assert results["limits"]["64"].keys() == {"bare_loop", "testpmd", "testpmd_burst_1"}
    assert all(one["packets_per_s"] > 0 for one in results["limits"]["64"].values())
    [null], [ring] = results["throughput"], results["ring_throughput"]
    assert (null["device"], ring["device"]) == ("net_null", "net_ring")
    assert all(row["layers"] == 8 and row["packets_per_s"] > 0 for row in (null, ring))
    assert ring["lost_on_the_way"] == 0
    [gap] = results["gaps"]
    for subject in ("bare_loop", "sender"):
        assert gap[subject]["packets"] > 100
        assert gap[subject]["p50_ns"] <= gap[subject]["p99_ns"] <= gap[subject]["max_ns"]
    for cores in ("two cores", "one core"):
        feedback = results["feedback"][cores]
        for kind in ("none", "sound", "forged"):
            fates = ("accepted", "refused", "malformed", "foreign", "ring_full")
            counted = sum(feedback[kind][f"feedback_{fate}"] for fate in fates)
            assert feedback[kind]["feedback_received"] >= counted
        assert feedback["sound"]["feedback_accepted"] > 0
        assert feedback["forged"]["feedback_accepted"] == 0
    assert results["change"]["calls"] > 0
    assert results["veth"]["sizes"]["64"]["packets_per_s"] > 0
    assert results["lab"]["lost"] == 0
    assert 0 < results["lab"]["late_p50_us"] <= results["lab"]["late_p99_us"]
    assert results["lab"]["sender_cpu"] > 0 and results["lab"]["host_cpu"] > 0
    assert {goal["met"] for goal in results["goals"]} <= {True, False}
    # Running a single part replaces only its own figures.
    done = subprocess.run(
        [ROOT / ".venv/bin/python", ROOT / "scripts/bench_sender.py", "--check",
         f"--output={output}", "--only", "limits"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    again = json.loads(output.read_text())
    assert again["limits"] != results["limits"]
    assert again["gaps"] == results["gaps"]
    for name in ("packets", "gaps"):
        assert (tmp_path / f"sender-{name}.svg").read_text().startswith("<?xml")
