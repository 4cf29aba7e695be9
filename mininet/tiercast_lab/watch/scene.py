"""What the page needs to know of a run before any of its rows: where the nodes are drawn, links,
sessions, receivers and flows. Rates are in bit/s, times in s."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tiercast_controller.base.units import parse_queue

from tiercast_lab.experiment.topology import UNLIMITED
from tiercast_lab.measures.context import Flow, Receiver, Session
from tiercast_lab.results.storage import StoredRun
from tiercast_lab.show.topology_drawing import MARGIN, link_ends, node_places

LEAST_STEP_S = 1.0  # ports report once a second
# Numbers in all frames of a run together, about. Frames of a large or long run are further apart.
MOST_NUMBERS = 400_000
OF_A_DIRECTION, OF_A_RECEIVER = 4, 2  # numbers in a frame


@dataclass(frozen=True)
class Scene:
    """The parts of a run in the order in which each frame lists their numbers."""

    step_s: float  # between frames
    directions: tuple[str, ...]  # of links: "0>1"
    # For each of them, the IP bytes of a packet where a switch counts packets alone; 0: unknown.
    packet_sizes: tuple[int, ...]
    sessions: tuple[Session, ...]
    receivers: Mapping[str, Receiver]
    flows: Mapping[str, Flow]


def scene_of(run: StoredRun) -> Scene:
    sessions = run.context.sessions
    receivers = {name: one for session in sessions for name, one in session.receivers.items()}
    network = run.summary["network"]
    ways = {
        direction: network["links"][name].get("packet_size", 0)
        for name, (a, b) in link_ends(network).items()
        for direction in (f"{a}>{b}", f"{b}>{a}")
    }
    directions = tuple(ways)
    numbers = OF_A_DIRECTION * len(directions) + OF_A_RECEIVER * len(receivers)
    numbers += len(run.context.flows) + sum(2 * session.layers for session in sessions)
    step_s = math.ceil(run.summary["duration_s"] * numbers / MOST_NUMBERS) * LEAST_STEP_S
    step_s = max(step_s, LEAST_STEP_S)
    sizes = tuple(ways.values())
    return Scene(step_s, directions, sizes, sessions, receivers, run.context.flows)


def described(run: StoredRun, scene: Scene) -> dict[str, Any]:
    """The scene as the page reads it."""
    network, summary = run.summary["network"], run.summary
    places = node_places(network)
    senders = {session["sender_node"] for session in network["sessions"]}
    receiving = {receiver.node for receiver in scene.receivers.values()}
    return {
        "run": summary["run"],
        "title": summary["title"],
        "started": summary["started"],
        "runtime": summary["runtime"],
        "seed": summary["seed"],
        "duration": summary["duration_s"],
        "window": summary["window_s"],
        "step": scene.step_s,
        "width": max(place.x for place in places.values()) + MARGIN,
        "height": max(place.y for place in places.values()) + MARGIN,
        "nodes": [
            {
                "node": node,
                "x": place.x,
                "y": place.y,
                "kind": "sender" if node in senders
                else "receiver" if node in receiving else "inner",
                "name": network.get("nodes", {}).get(str(node), {}).get("name", ""),
            }
            for node, place in places.items()
        ],
        "directions": [
            direction
            for name, (a, b) in link_ends(network).items()
            for direction in _directions(network["links"][name], a, b, run.context.links)
        ],
        "sessions": [
            {
                "session": one["session"],
                "scheme": one["scheme"],
                "layers": one["layers"],
                "sender": one["sender"],
                "node": one["sender_node"],
                "receivers": list(one["receivers"]),
            }
            for one in network["sessions"]
        ],
        "receivers": [
            {
                "name": name,
                "node": one["node"],
                "session": session["session"],
                "path": one["directions"],
                "bottleneck": scene.receivers[name].bottlenecks[0].direction,
                "available": one["available"],
            }
            for session in network["sessions"]
            for name, one in session["receivers"].items()
        ],
        "flows": [
            {"name": name, "kind": one["kind"], "path": one["directions"]}
            for name, one in network["flows"].items()
        ],
    }  # fmt: skip


def _directions(
    link: Mapping[str, Any], a: int, b: int, used: tuple[str, ...]
) -> list[dict[str, Any]]:
    queue = parse_queue(link["queue"])
    found = []
    for one, other in ((a, b), (b, a)):
        name, limited = f"{one}>{other}", one == a or not link.get("one_way")
        rate = link["rate"] if limited else UNLIMITED
        found.append(
            {
                "name": name,
                "from": one,
                "to": other,
                "used": name in used,  # by a session's data or a flow
                "unlimited": rate == UNLIMITED,
                # Steps of the rate; 0: down, or unlimited.
                "rates": link.get("rates", {}).get(name, [[0.0, rate]]),
                "delay_ms": link["delay_ns"] / 1e6,
                "queue": link["queue"] if limited else "no queue",
                "queue_packets": queue.packets if limited else None,
                "queue_bytes": queue.bytes if limited else None,
                "marking": link["marking"],
            }
        )
    return found
