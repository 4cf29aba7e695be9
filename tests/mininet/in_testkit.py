"""Runs an experiment's first session and its TCP flows in the testkit (`protocols/testkit`, whose
links, marking and TCP are other code), for tests that compare it with the lab's runtimes."""

from __future__ import annotations

import itertools
import json
import subprocess
from dataclasses import asdict, dataclass

import networkx
from tiercast_lab.base import binaries
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.run.ns3.scenario import CONTROL_DELAY_NS


@dataclass(frozen=True)
class Got:
    """What receivers and flows got over the experiment's window."""

    rates: dict[str, float]  # bit/s, by the name of a receiver or a flow
    losses: dict[str, float]  # lost / (lost + received), by the name of a receiver


def in_testkit(loaded: LoadedExperiment, seed: int) -> Got:
    """The experiment's network may be any connected graph: the testkit has the tree of the
    shortest paths by delay from the session's sender, on which all flows must run."""
    session, receivers = loaded.experiment.sessions[0], loaded.receivers[0]
    graph: networkx.Graph = networkx.Graph()
    for link in loaded.topology.links.values():
        if not link.attaches:
            a, b = map(int, link.name.split("-"))
            graph.add_edge(a, b, delay=link.parameters.delay, parameters=link.parameters)
    paths = networkx.single_source_dijkstra_path(graph, session.sender, weight="delay")
    # The testkit's node 0 is the sender's, and a parent's number is below its children's.
    order = sorted(paths, key=lambda node: (len(paths[node]), node))
    number = {node: index for index, node in enumerate(order)}
    parents = {node: paths[node][-2] for node in order[1:]}
    tree = networkx.Graph(parents.items())
    for flow in loaded.flows.values():
        shortest = networkx.dijkstra_path(graph, flow.source, flow.destination, weight="delay")
        assert all(itertools.starmap(tree.has_edge, itertools.pairwise(shortest))), (
            f"the testkit has no path for the flow from {flow.source} to {flow.destination}"
        )
    red = loaded.experiment.marking.queue_red()
    if red is not None:
        # The testkit's RED has these; its packets are of 1000 B.
        said = (red.gentle, red.wait, red.ecn, red.mark_above_max, red.mean_packet_bytes)
        assert said == (False, False, False, False, 1000), red
    links = [graph.edges[parents[node], node]["parameters"] for node in order[1:]]
    question = {
        "parents": [0, *(number[parents[node]] for node in order[1:])],
        "links": [
            {
                "rate_bps": link.rate,
                "delay_ns": link.delay,
                "queue_packets": link.queue.packets,
                "queue_bytes": link.queue.bytes,
            }
            for link in links
        ],
        "marking": loaded.experiment.marking.kind == "priority",
        "red": None if red is None else asdict(red),
        "control_delay_ns": CONTROL_DELAY_NS,
        "scheme": session.scheme,
        "layers": session.layers,
        "receivers": [number[node] for node in receivers],
        "seed": seed,
        "set": [f"{name}={value}" for name, value in session.parameters.items()],
        "tcp": [[number[flow.source], number[flow.destination]] for flow in loaded.flows.values()],
        "window_s": list(loaded.window),
    }
    done = subprocess.run(
        [binaries.BUILD / "tests/protocols/testkit_run"],
        input=json.dumps(question),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    names = [f"h{node}" for node in receivers]
    rates = answer["received_bps"] + answer["tcp_bps"]
    counts = zip(names, answer["lost"], answer["packets"], strict=True)
    return Got(
        dict(zip([*names, *loaded.flows], rates, strict=True)),
        {name: lost / max(1, lost + received) for name, lost, received in counts},
    )
