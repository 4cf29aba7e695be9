"""On any connected graph in virtual time: each receiver gets each packet once, over the shortest
path by delay."""

from __future__ import annotations

import itertools
import random
import subprocess
from pathlib import Path

import networkx
import polars as pl
import pytest

ROOT = Path(__file__).resolve().parents[2]
SESSION = """\
sessions: [{{scheme: sim, sender: {sender}, session: 1, receivers: {receivers}, layers: 1,
  parameters: {{sim.initial_rate: 400kbit/s, sim.max_rate: 400kbit/s}}}}]
duration: 5s
measure: {{last: 3s}}
"""


def drawn(seed: int) -> tuple[networkx.Graph, int, list[int]]:
    """A graph of 4 to 14 nodes with delays that make paths unique, a sender and receivers."""
    draw = random.Random(seed)
    count = draw.randrange(4, 15)
    links = {(draw.randrange(node), node) for node in range(1, count)}
    pairs = sorted(set(itertools.combinations(range(count), 2)) - links)
    links |= set(draw.sample(pairs, min(len(pairs), draw.randrange(1, count))))
    graph: networkx.Graph = networkx.Graph()
    graph.add_weighted_edges_from((a, b, draw.randrange(10**6, 10**7)) for a, b in sorted(links))
    sender, *receivers = draw.sample(range(count), draw.randrange(2, count))
    return graph, sender, receivers


@pytest.mark.parametrize("seed", range(20))
def test_each_receiver_gets_each_packet_once(seed: int, tmp_path: Path) -> None:
    graph, sender, receivers = drawn(seed)
    links = "".join(f"    {a}-{b}: {{delay: {d}ns}}\n" for a, b, d in graph.edges.data("weight"))
    file = tmp_path / "graph.yaml"
    file.write_text(
        f"topology:\n  nodes: {list(graph)}\n"
        "  link: {rate: 10Mbit/s, delay: 1ms, queue: 100p}\n"
        f"  links:\n{links}" + SESSION.format(sender=sender, receivers=receivers)
    )
    command = [ROOT / "tiercast", "run", file, "--runtime=ns3", "--results", tmp_path / "r"]
    subprocess.run(command, check=True, capture_output=True)
    rows = tmp_path / "r/latest/rows"
    sent = pl.read_parquet(rows / "layer.parquet")["sent_packets"].max()
    assert sent > 100
    received = pl.read_parquet(rows / "received.parquet").group_by("agent").last()
    got = {one["agent"]: one for one in received.iter_rows(named=True)}
    assert sorted(got) == sorted(f"h{node}" for node in receivers)
    for one in got.values():
        # What was sent before it joined, within 100 ms, or was on the way at the end, is missing.
        assert one["lost"] == 0
        assert 0.9 * sent <= one["packets"] <= sent
    ports = pl.read_parquet(rows / "port.session.parquet")
    used = set(ports.filter((pl.col("session") == 1) & (pl.col("entered") > 0))["link"])
    wanted = {
        f"{a}>{b}"
        for node in receivers
        for a, b in itertools.pairwise(networkx.dijkstra_path(graph, sender, node))
    }
    assert {link for link in used if "h" not in link} == wanted
