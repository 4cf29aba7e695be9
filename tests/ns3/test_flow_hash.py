"""Flows that spread over equal paths, in virtual time: each takes the path that the summary says,
also while a link is down."""

from __future__ import annotations

import itertools
import json
import subprocess
from pathlib import Path

import networkx
import polars as pl
import pytest

from ..checkout import ROOT

pytestmark = pytest.mark.slow

LINKS = [(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (3, 5), (4, 6), (4, 7), (5, 7), (6, 9), (7, 9)]
HEAD = f"""\
topology:
  nodes: {sorted({node for link in LINKS for node in link})}
  equal_costs: flow-hash
  link: {{rate: 100Mbit/s, delay: 5ms, queue: 1000p}}
  links: {{{", ".join(f"{a}-{b}: {{}}" for a, b in LINKS)}}}
sessions: [{{scheme: sim, sender: 0, session: 1, receivers: [9], layers: 1, parameters:
  {{sim.initial_rate: 400kbit/s, sim.min_rate: 400kbit/s, sim.max_rate: 400kbit/s}}}}]
traffic:
"""


def run(text: str, folder: Path) -> tuple[dict, Path, str]:
    """The summary, the rows' folder, and what was said."""
    file = folder / "spread.yaml"
    file.write_text(text)
    command = [ROOT / "tiercast", "run", file, "--runtime=ns3", "--results", folder / "r"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    latest = folder / "r/latest"
    summary = json.loads((latest / "summary.json").read_text())
    (check,) = [one for one in summary["validity"]["checks"] if one["name"] == "unaccounted"]
    assert check["measured"] == 0
    return summary, latest / "rows", done.stdout + done.stderr


def paths(flow: dict) -> list[tuple[float, list[str]]]:
    later = [(one["from_s"], one["directions"]) for one in flow["later"]]
    return [(0.0, flow["directions"]), *later]


class Unicast:
    """Packets of no session that left a port."""

    def __init__(self, rows: Path) -> None:
        self.ports = pl.read_parquet(rows / "port.session.parquet").filter(pl.col("session") == -1)

    def left(self, link: str, until_s: float = 1e9) -> int:
        mine = self.ports.filter((pl.col("link") == link) & (pl.col("time_s") <= until_s))
        return int(mine["left"].max() or 0)


FLOWS, SLOWEST = 8, 4  # packets/s


def test_each_udp_flow_takes_its_path_and_only_few_move_when_a_link_fails(tmp_path: Path) -> None:
    """Each sends twice as many packets as the one before, so that a link's count names its
    flows."""
    udp = "".join(
        f"  - {{kind: udp, from: 0, to: 9, rate: {8 * (SLOWEST << number)}kbit/s}}\n"
        for number in range(FLOWS)
    )
    events = "events: [{at: 6s, link: 0-2, up: false}, {at: 12s, link: 0-2, up: true}]\n"
    summary, rows, _ = run(HEAD + udp + events + "duration: 18s\nmeasure: {last: 12s}\n", tmp_path)
    graph: networkx.Graph = networkx.Graph(LINKS)
    whole = list(networkx.all_shortest_paths(graph, 0, 9))
    graph.remove_edge(0, 2)
    without = list(networkx.all_shortest_paths(graph, 0, 9))
    unicast, flows = Unicast(rows), summary["network"]["flows"]
    taken = [paths(flows[f"udp{number}"]) for number in range(1, FLOWS + 1)]
    for start, end, valid in ((1, 5, whole), (7, 11, without), (13, 17, whole)):
        now = [[ways for at, ways in one if at <= start][-1] for one in taken]
        for ways in now:
            nodes = [int(ways[0][0]), *(int(way.split(">")[1]) for way in ways)]
            assert nodes in valid
        for a, b in LINKS:
            counted = unicast.left(f"{a}>{b}", end) - unicast.left(f"{a}>{b}", start)
            wanted = sum(
                (SLOWEST << number) * (end - start)
                for number, ways in enumerate(now)
                if f"{a}>{b}" in ways
            )
            assert abs(counted - wanted) <= FLOWS  # a packet of each at the window's ends
        assert len({tuple(ways) for ways in now}) > 1
    for one in taken:
        assert one[0][1] == one[-1][1]  # it is back where it was
        if "0>2" in one[0][1]:
            assert [at for at, _ in one] == [0, 6, 12]


def test_tcp_flows_take_their_paths_and_the_measures_say_what_they_do_not_know(
    tmp_path: Path,
) -> None:
    """One connection each: the data take the path of the flow's ports. With a connection for each
    transfer, paths are not known, and the run says so."""
    count = 12
    tcp = f"  - {{kind: tcp, from: 0, to: 9, count: {count}, window: 4p, stop: 8s}}\n"
    summary, rows, said = run(HEAD + tcp + "duration: 9s\nmeasure: {last: 6s}\n", tmp_path)
    assert "each connection of" not in said
    sent = pl.read_parquet(rows / "tcp.sender.parquet").group_by("agent").last()
    packets = dict(sent.select("agent", "sent_packets").iter_rows())
    flows = summary["network"]["flows"]
    assert not any(flow["spread"] for flow in flows.values())
    unicast = Unicast(rows)
    for a, b in LINKS:
        mine = [name for name, flow in flows.items() if f"{a}>{b}" in flow["directions"]]
        # Without data: SYN, its acknowledgement, the reset, and one for each acknowledgement that
        # comes after it. SIM's feedback comes the other way.
        extra = unicast.left(f"{a}>{b}") - sum(packets[name] for name in mine)
        assert 0 <= extra <= 8 * len(mine)
    receiver = summary["network"]["sessions"][0]["receivers"]["h9"]
    place = receiver["directions"][receiver["path"].index(receiver["bottleneck"])]
    assert receiver["rivals"] == [
        name for name, flow in flows.items() if place in flow["directions"]
    ]

    transfers = tcp.replace("window: 4p", "window: 4p, on: {distribution: constant, mean: 20p}, "
                            "off: {distribution: constant, mean: 500ms}")  # fmt: skip
    summary, rows, said = run(HEAD + transfers + "duration: 9s\nmeasure: {last: 6s}\n", tmp_path)
    assert "each connection of tcp1, tcp2, " in " ".join(said.split())
    for flow in summary["network"]["flows"].values():
        assert flow["spread"]
        assert flow["directions"] == []  # no link is on all paths
    unicast = Unicast(rows)
    first = [unicast.left(f"0>{node}") for node in (1, 2, 3)]
    # 8 s of a transfer and half a second each: well over 100 connections.
    assert min(first) > sum(first) / 5


def test_sessions_share_the_paths_too(tmp_path: Path) -> None:
    sessions = ", ".join(
        f"{{scheme: sim, sender: 0, session: {number}, receivers: [9], layers: 1}}"
        for number in range(1, 9)
    )
    head = HEAD[: HEAD.index("sessions:")]
    text = head + f"sessions: [{sessions}]\nduration: 3s\nmeasure: {{last: 2s}}\n"
    summary, _, _ = run(text, tmp_path)
    ways = {
        tuple(receiver["directions"])
        for session in summary["network"]["sessions"]
        for receiver in session["receivers"].values()
    }
    shortest = networkx.all_shortest_paths(networkx.Graph(LINKS), 0, 9)
    assert len(ways) > 1
    assert ways <= {tuple(f"{a}>{b}" for a, b in itertools.pairwise(one)) for one in shortest}


def test_aggregation_in_the_network_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "spread.yaml"
    text = HEAD.replace("layers: 1,", "layers: 1, aggregation: network,").replace("traffic:\n", "")
    file.write_text(text + "duration: 3s\n")
    command = [ROOT / "tiercast", "run", file, "--runtime=ns3", "--results", tmp_path / "r"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "with `equal_costs: flow-hash` it may not" in " ".join(done.stderr.split())
