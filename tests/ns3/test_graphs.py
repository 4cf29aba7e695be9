"""On any connected graph in virtual time: each receiver gets each packet once, over the shortest
path by delay."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
from pathlib import Path

import networkx
import polars as pl
import pytest

from ..checkout import ROOT

pytestmark = pytest.mark.slow

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


HOST_FIRST = """\
topology:
  nodes: [0, 1, 2]
  link: {rate: 10Mbit/s, delay: 5ms, queue: 100p}
  links: {0-1: {rate: 1Mbit/s}, 1-2: {}}
sessions: [{scheme: rlc, sender: 2, receivers: [0], layers: 4}]
duration: 5s
"""


def test_a_link_may_be_named_from_its_host(tmp_path: Path) -> None:
    """Node 0 is a host. Its end of the link can come first or last: the rows are the same."""
    received = []
    for name in ("0-1", "1-0"):
        file = tmp_path / "first.yaml"
        file.write_text(HOST_FIRST.replace("0-1", name))
        command = [ROOT / "tiercast", "run", file, "--runtime=ns3", "--results", tmp_path / "r"]
        subprocess.run(command, check=True, capture_output=True)
        received.append(pl.read_parquet(tmp_path / "r/latest/rows/received.parquet"))
    assert received[0].equals(received[1])
    assert received[0]["packets"].max() > 100


FAILING = """\
topology:
  nodes: [0, 1, 2, 3, 4]
  link: {rate: 10Mbit/s, delay: 5ms, queue: 100p}
  links: {0-1: {}, 1-3: {}, 0-2: {delay: 10ms}, 2-3: {}, 3-4: {}}
sessions: [{scheme: sim, sender: 0, session: 1, receivers: [3, 4], layers: 1,
  parameters: {sim.initial_rate: 400kbit/s, sim.min_rate: 400kbit/s, sim.max_rate: 400kbit/s}}]
traffic: [{kind: udp, from: 0, to: 4, rate: 400kbit/s}]
events: [{at: 10s, link: 1-3, up: false}, {at: 20s, link: 1-3, up: true}]
duration: 30s
measure: {last: 20s}
"""


FAILED, RETURNS = "{at: 10s, link: 1-3, up: false}", "{at: 20s, link: 1-3, up: true}"
CHANGES = {
    "a link fails": [],
    "a link is down at first": [("1-3: {}", "1-3: {up: false}"), (f"{FAILED}, ", "")],
    "a link gets slow": [
        (FAILED, "{at: 10s, link: 1-3, delay: 20ms}"),
        (RETURNS, "{at: 20s, link: 1-3, delay: 5ms}"),
    ],
    # 0-2-3 takes longer than 0-1-3 in the direction back alone.
    "one direction gets slow": [
        (FAILED, "{at: 10s, link: 3>1, delay: 20ms}"),
        (RETURNS, "{at: 20s, link: 3>1, delay: 5ms}"),
    ],
}


@pytest.mark.parametrize("change", CHANGES)
def test_paths_move_when_a_link_fails_and_when_it_returns(tmp_path: Path, change: str) -> None:
    """0-1-3 is the shorter path. 50 packets/s of the session and of UDP take it, then 0-2-3, then
    0-1-3 again; what is on the failed link, or sent to it before the switches know, is lost."""
    from_the_start = change == "a link is down at first"
    file = tmp_path / "failing.yaml"
    text = FAILING
    for old, new in CHANGES[change]:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    command = [ROOT / "tiercast", "run", file, "--runtime=ns3", "--results", tmp_path / "r"]
    subprocess.run(command, check=True, capture_output=True)
    rows = tmp_path / "r/latest/rows"
    ports = pl.read_parquet(rows / "port.parquet")

    def left(link: str, start: float, end: float) -> int:
        of_link = ports.filter(pl.col("link") == link).sort("time_s")
        counts = [of_link.filter(pl.col("time_s") <= at)["left"].max() for at in (start, end)]
        return counts[1] - counts[0]

    for start, end, used, unused in (
        (2, 9, "2>3", "1>3") if from_the_start else (2, 9, "1>3", "2>3"),
        (11, 19, "2>3", "1>3"),
        (21, 29, "1>3", "2>3"),
    ):
        assert left(unused, start, end) == 0
        assert left(used, start, end) == pytest.approx(100 * (end - start), rel=0.05)
    received = pl.read_parquet(rows / "received.parquet").group_by("agent").last()
    for one in received.iter_rows(named=True):
        # 5 ms of the link at 50 packets/s, and the time until the switches have changed.
        assert one["lost"] <= 3
        assert one["packets"] > 0.98 * 30 * 50
    summary = json.loads((tmp_path / "r/latest/summary.json").read_text())
    steps = summary["network"]["sessions"][0]["receivers"]["h4"]["available"]
    assert [at for at, _ in steps] == ([0, 20] if from_the_start else [0, 10, 20])
    assert all(rate == 10e6 for _, rate in steps)  # there is always a path
    said = {
        at: subprocess.run(
            [ROOT / "tiercast", "explain", tmp_path / "r/latest", "--receiver=4", f"--at={at}s"],
            check=True, capture_output=True, text=True,
        ).stdout
        for at in (9, 15, 25)
    }  # fmt: skip
    assert " since " not in said[9].split("path")[-1].split("why")[0]
    assert ("0>2, 2>3, 3>4 since 10 s" in said[15]) == (not from_the_start)
    assert "0>1, 1>3, 3>4 since 20 s" in said[25]


SHARED = """\
topology:
  nodes: [0, 1, 2, 3, 9]
  equal_costs: session-hash
  link: {rate: 10Mbit/s, delay: 5ms, queue: 100p}
  links: {0-1: {}, 0-2: {}, 0-3: {}, 1-9: {}, 2-9: {}, 3-9: {}}
sessions:
"""
ONE_OF_SHARED = """\
  - {{scheme: sim, sender: 0, session: {}, receivers: [9], layers: 1, parameters:
     {{sim.initial_rate: 400kbit/s, sim.min_rate: 400kbit/s, sim.max_rate: 400kbit/s}}}}
"""


def test_sessions_share_equal_paths_and_move_around_a_failure(tmp_path: Path) -> None:
    """Each of eight sessions takes the path that the summary says, alone; when 0-2 fails, only
    those over it move."""
    file = tmp_path / "shared.yaml"
    sessions = "".join(ONE_OF_SHARED.format(number) for number in range(1, 9))
    file.write_text(
        SHARED + sessions + "events: [{at: 6s, link: 0-2, up: false}, {at: 12s, link: 0-2, "
        "up: true}]\nduration: 18s\nmeasure: {last: 12s}\n"
    )
    command = [ROOT / "tiercast", "run", file, "--runtime=ns3", "--results", tmp_path / "r"]
    subprocess.run(command, check=True, capture_output=True)
    latest = tmp_path / "r/latest"
    summary = json.loads((latest / "summary.json").read_text())
    (check,) = [one for one in summary["validity"]["checks"] if one["name"] == "unaccounted"]
    assert check["measured"] == 0
    ports = pl.read_parquet(latest / "rows/port.session.parquet")
    first: dict[int, list[str]] = {}
    for session in summary["network"]["sessions"]:
        (receiver,) = session["receivers"].values()
        parts = [(0, receiver["directions"])]
        parts += [(one["from_s"], one["directions"]) for one in receiver["later"]]
        first[session["session"]] = parts[0][1]
        assert [at for at, _ in parts] == ([0, 6, 12] if "0>2" in parts[0][1] else [0])
        for start, end in ((1, 5), (7, 11), (13, 17)):
            path = [ways for at, ways in parts if at <= start][-1]
            mine = ports.filter(pl.col("session") == session["session"])
            for link in ("0>1", "0>2", "0>3", "1>9", "2>9", "3>9"):
                of_link = mine.filter(pl.col("link") == link)
                counts = [
                    of_link.filter(pl.col("time_s") <= at)["left"].max() or 0 for at in (start, end)
                ]
                wanted = 50 * (end - start) if link in path else 0
                assert counts[1] - counts[0] == pytest.approx(wanted, rel=0.05)
    assert {ways[0] for ways in first.values()} == {"0>1", "0>2", "0>3"}


def test_aggregation_in_the_network_is_refused_with_shared_paths(tmp_path: Path) -> None:
    file = tmp_path / "shared.yaml"
    file.write_text(
        SHARED + ONE_OF_SHARED.format(1).replace("layers: 1", "layers: 1, aggregation: network")
    )
    command = [ROOT / "tiercast", "run", file, "--runtime=ns3", "--results", tmp_path / "r"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    said = " ".join(done.stderr.split())
    assert "sessions.0.aggregation: network needs feedback to come back along the tree" in said
