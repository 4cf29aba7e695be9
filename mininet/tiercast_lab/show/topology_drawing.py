"""Draws a run's topology as SVG: links by rate, bottlenecks with rates, nodes with names.

Nodes are where the experiment places them. Without places, a tree is drawn from its first sender
down, the receivers at the bottom, and any other graph so that distances in the picture are those in
links as far as the plane allows (stress majorisation: Gansner, Koren and North, 2004).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from tiercast_controller.base.units import format_rate
from tiercast_controller.network.routes import Routes

COLUMN = 58  # px between neighbouring leaves
ROW = 74  # px between generations
MARGIN = 34
SPACING = 92  # px between the nodes of a graph that is no tree, as a rule
WIDEST = 1500  # px
MAJORISATIONS = 200
BOTTLENECK = "#D55E00"
PLAIN = "#9AA5B1"


@dataclass(frozen=True)
class Place:
    x: float
    y: float


def link_ends(network: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """The two nodes of each link, by its name."""
    ends = {}
    for name in network["links"]:
        a, b = map(int, name.split("-"))
        ends[name] = a, b
    return ends


def node_places(network: Mapping[str, Any]) -> dict[int, Place]:
    """Where the nodes are drawn, in px from the upper left corner."""
    routes = Routes(
        {ends: network["links"][name]["delay_ns"] for name, ends in link_ends(network).items()}
    )
    nodes = {int(node): one for node, one in network.get("nodes", {}).items()}
    given = {node: one["place"] for node, one in nodes.items() if one["place"] is not None}
    if given.keys() >= routes.neighbours.keys():
        order = list(routes.neighbours)
        return _on_page(order, np.array([given[node] for node in order], dtype=float))
    if len(network["links"]) < len(routes.neighbours):
        roots = [one["sender_node"] for one in network["sessions"]] or [min(routes.neighbours)]
        return _places(routes, roots[0])
    return _graph_places(routes)


def topology_svg(network: Mapping[str, Any]) -> str:
    nodes = {int(node): one for node, one in network.get("nodes", {}).items()}
    senders = {session["sender_node"] for session in network["sessions"]}
    receivers = [one for session in network["sessions"] for one in session["receivers"].values()]
    places = node_places(network)
    is_tree = len(network["links"]) < len(places)
    width = max(place.x for place in places.values()) + MARGIN
    height = max(place.y for place in places.values()) + MARGIN + 26
    fastest = max(link["rate"] for link in network["links"].values())
    slow = {receiver["bottleneck"] for receiver in receivers}
    slow = {name for name in slow if network["links"][name]["rate"] < fastest}
    used = {name for receiver in receivers for name in receiver["path"]}
    # Room for names beside the outermost nodes.
    beside = max(0, 5 * max((len(one["name"]) for one in nodes.values()), default=0) - MARGIN + 20)
    parts = [
        f'<svg class="topology" viewBox="{-beside} 0 {width + 2 * beside:g} {height:g}" role="img" '
        'aria-label="topology with its bottlenecks">'
    ]
    rates = []
    for name, (first, second) in link_ends(network).items():
        a, b = places[first], places[second]
        rate = network["links"][name]["rate"]
        colour = BOTTLENECK if name in slow else PLAIN
        # In a tree each link is on some path.
        unused = "" if is_tree or name in used else ' stroke-dasharray="4 5"'
        parts.append(
            f'<line x1="{a.x:g}" y1="{a.y:g}" x2="{b.x:g}" y2="{b.y:g}" stroke="{colour}" '
            f'stroke-width="{1.5 + 3 * rate / fastest:.2f}"{unused}>'
            f"<title>{_link_title(network, name)}</title></line>"
        )
        if name in slow:
            x, y = (a.x + b.x) / 2, (a.y + b.y) / 2
            rates.append(f'<text class="rate" x="{x:g}" y="{y:g}">{format_rate(rate)[:-6]}</text>')
    # For a node that receives several sessions, the first one's bandwidth.
    available = {receiver["node"]: receiver["available"][0][1] for receiver in reversed(receivers)}
    for node, place in places.items():
        kind = "sender" if node in senders else "receiver" if node in available else "inner"
        below = [nodes[node]["name"]] if node in nodes else []
        if node in available:
            below.append(f"{available[node] / 1e6:g}")
        parts.append(
            f'<circle class="{kind}" cx="{place.x:g}" cy="{place.y:g}" r="13"/>'
            f'<text x="{place.x:g}" y="{place.y:g}">{node}</text>'
        )
        if below:
            parts.append(
                f'<text class="available" x="{place.x:g}" y="{place.y + 28:g}">'
                f"{escape(' · '.join(below))}</text>"
            )
    return "".join([*parts, *rates, "</svg>"])


def _link_title(network: Mapping[str, Any], name: str) -> str:
    link = network["links"][name]
    return (
        f"{name}: {format_rate(link['rate'])}, {link['delay_ns'] / 1e6:g} ms, queue {link['queue']}"
    )


def _places(tree: Routes[int], root: int) -> dict[int, Place]:
    """Puts the leaves side by side, and each parent above the middle of its children."""
    depths = {node: links for node, (_, links) in tree.distances(root).items()}
    places: dict[int, Place] = {}
    leaves = 0
    for node in _children_first(tree, root):
        below = [one for one in tree.neighbours[node] if depths[one] > depths[node]]
        children = [places[child].x for child in below]
        if children:
            x = (min(children) + max(children)) / 2
        else:
            x = MARGIN + COLUMN * leaves
            leaves += 1
        places[node] = Place(x, MARGIN + ROW * depths[node])
    return places


def _children_first(tree: Routes[int], root: int) -> list[int]:
    """All nodes, each after its children, which keep their order."""
    order, waiting = [], [(root, root)]
    while waiting:
        parent, node = waiting.pop()
        order.append(node)
        waiting += [(node, child) for child in tree.neighbours[node] if child != parent]
    return order[::-1]


def _graph_places(routes: Routes[int]) -> dict[int, Place]:
    """Starts from a circle in the order of the nodes' numbers and reduces the stress: the squares
    of the distances' relative errors. The same graph gives the same picture."""
    order = sorted(routes.neighbours)
    number = {node: place for place, node in enumerate(order)}
    hops = Routes(dict.fromkeys(((a, b) for a in order for b in routes.neighbours[a] if a < b), 1))
    wanted = np.zeros((len(order), len(order)))
    for node in order:
        for other, (_, links) in hops.distances(node).items():
            wanted[number[node], number[other]] = links
    np.fill_diagonal(wanted, 1)
    weights = wanted**-2.0
    np.fill_diagonal(weights, 0)
    inverse = np.linalg.pinv(np.diag(weights.sum(axis=1)) - weights)
    angles = 2 * np.pi * np.arange(len(order)) / len(order)
    at = np.stack([np.cos(angles), np.sin(angles)], axis=1) * wanted.max() / 2
    for _ in range(MAJORISATIONS):
        distance = np.linalg.norm(at[:, None] - at[None], axis=2)
        np.fill_diagonal(distance, 1)
        pull = weights * wanted / np.maximum(distance, 1e-9)
        at = inverse @ (np.diag(pull.sum(axis=1)) - pull) @ at
    return _on_page(order, at)


def _on_page(order: list[int], at: np.ndarray) -> dict[int, Place]:
    """Scales places, whose y points up, to pixels."""
    at = (at - at.min(axis=0)) * [1, -1]
    at[:, 1] -= at[:, 1].min()
    distance = np.linalg.norm(at[:, None] - at[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    nearest = float(np.median(distance.min(axis=1))) or 1.0
    widest = float(at.max()) or 1.0
    at = at * min(SPACING / nearest, WIDEST / widest) + MARGIN
    return {
        node: Place(round(float(x), 1), round(float(y), 1))
        for node, (x, y) in zip(order, at, strict=True)
    }
