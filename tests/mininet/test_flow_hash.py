"""Flows between kernels take the paths that the experiment's summary says (`equal_costs:
flow-hash`)."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from .test_run import Started

SPREAD = """\
topology:
  nodes: [0, 1, 2, 3, 9]
  equal_costs: flow-hash
  link: {rate: 20Mbit/s, delay: 5ms, queue: 200p}
  links: {0-1: {}, 0-2: {}, 0-3: {}, 1-9: {}, 2-9: {}, 3-9: {}}
sessions: [{scheme: sim, sender: 0, session: 1, receivers: [9], layers: 1}]
traffic:
  - {kind: udp, from: 0, to: 9, rate: 160kbit/s, count: 6, stop: 6s}
  - {kind: tcp, from: 0, to: 9, count: 6, window: 4p, stop: 6s}
duration: 8s
measure: {last: 5s}
"""


@pytest.mark.alone
@pytest.mark.mininet
def test_each_flow_takes_its_path(tmp_path: Path) -> None:
    """On each link there are exactly the packets of its flows, by their senders' own counts."""
    file = tmp_path / "spread.yaml"
    file.write_text(SPREAD)
    started = Started(tmp_path, experiment=str(file))
    status, out, error = started.finish()
    assert status in (0, 3), out + error
    directory = (tmp_path / "latest").resolve()
    flows = json.loads((directory / "summary.json").read_text())["network"]["flows"]
    sent = {}
    for kind in ("udp", "tcp.sender"):
        rows = pl.read_parquet(directory / f"rows/{kind}.parquet")
        rows = rows.filter(pl.col("sent_packets").is_not_null())
        sent |= dict(rows.group_by("agent").agg(pl.col("sent_packets").max()).iter_rows())
    assert sent.keys() == flows.keys() and min(sent.values()) > 0
    ports = pl.read_parquet(directory / "rows/port.session.parquet")
    ports = ports.filter(pl.col("session") == -1)
    used = []
    for link in ("0>1", "0>2", "0>3", "1>9", "2>9", "3>9"):
        mine = [name for name, flow in flows.items() if link in flow["directions"]]
        used.append(len(mine))
        entered = ports.filter(pl.col("link") == link)["entered"].max() or 0
        # Without data: TCP's SYN, its acknowledgement, the reset, and one for each acknowledgement
        # that comes after it.
        extra = entered - sum(sent[name] for name in mine)
        assert 0 <= extra <= 8 * sum(name.startswith("tcp") for name in mine)
    assert used[:3] == used[3:] and sum(used[:3]) == 12 and min(used) > 0
