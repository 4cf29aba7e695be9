"""DualPI2 between TCP flows in virtual time: a scalable flow beside a Classic one (RFC 9332)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import polars as pl
import pytest

from ..checkout import ROOT

pytestmark = pytest.mark.slow


def test_a_scalable_flow_shares_the_link_with_a_classic_one(tmp_path: Path) -> None:
    """With k = 2 flows of equal round trips have about equal rates (RFC 9332, C.1): within a factor
    of 1.6, since one Classic flow's rate follows some tens of drops. L4S waits for a packet or two,
    Classic around the target of 15 ms."""
    command = [ROOT / "tiercast", "run", ROOT / "experiments/dualpi2.yaml", "--runtime", "ns3"]
    done = subprocess.run([*command, "--results", tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = tmp_path / "latest/rows"
    read = pl.read_parquet(rows / "tcp.parquet").filter(pl.col("time_s") > 20)
    rates = {
        name: read.filter(pl.col("agent") == name)["bytes"].max()
        - read.filter(pl.col("agent") == name)["bytes"].min()
        for name in ("tcp1", "tcp2")
    }
    print(rates)
    assert 1 / 1.6 < rates["tcp2"] / rates["tcp1"] < 1.6
    assert sum(rates.values()) * 8 / 100 > 0.9 * 10e6  # of 10 Mbit/s
    traced = pl.read_parquet(rows / "trace.parquet").filter(pl.col("time_s") > 20)
    classic = traced.filter(pl.col("flow").str.contains(":5502>"))
    l4s = traced.filter(pl.col("flow").str.contains(":5503>"))
    assert l4s["wait_ns"].quantile(0.99) < 5e6  # the packet in service, and one or two Classic ones
    assert 10e6 < classic["wait_ns"].quantile(0.95) < 45e6
    assert set(classic["fate"]) == {"passed", "dropped"}
    assert set(l4s["fate"]) == {"passed", "marked"}
    # p_CL = k p' and p_C = p'^2, so the share of marks is 2 sqrt of the share of drops. Of the few
    # drops in the sample the root is known to a fifth; p' varies, and the ramp marks, too.
    drops, marks = (classic["fate"] == "dropped").mean(), (l4s["fate"] == "marked").mean()
    assert marks == pytest.approx(2 * drops**0.5, rel=0.4)
