"""Draws a run's topology as SVG: links by rate, bottlenecks with names, receivers at the bottom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tiercast_lab.base.tree import Edge, Tree
from tiercast_lab.base.units import format_rate

COLUMN = 58  # px between neighbouring leaves
ROW = 74  # px between generations
MARGIN = 34
BOTTLENECK = "#D55E00"
PLAIN = "#9AA5B1"


@dataclass(frozen=True)
class _Place:
    x: float
    y: float


def topology_svg(network: Mapping[str, Any]) -> str:
    names: dict[Edge, str] = {}
    for name in network["links"]:
        parent, child = map(int, name.split("-"))
        names[parent, child] = name
    tree = Tree(names)
    root = network["sessions"][0]["sender_node"]
    receivers = [one for session in network["sessions"] for one in session["receivers"].values()]
    places = _places(tree, root)
    width = max(place.x for place in places.values()) + MARGIN
    height = max(place.y for place in places.values()) + MARGIN + 26
    slow = {receiver["bottleneck"] for receiver in receivers}
    fastest = max(link["rate"] for link in network["links"].values())
    slow = {name for name in slow if network["links"][name]["rate"] < fastest}
    parts = [
        f'<svg class="topology" viewBox="0 0 {width:g} {height:g}" role="img" '
        'aria-label="topology with its bottlenecks">'
    ]
    labels = []
    for parent, child in tree.away_from(root):
        name = names.get((parent, child)) or names[child, parent]
        a, b = places[parent], places[child]
        rate = network["links"][name]["rate"]
        colour = BOTTLENECK if name in slow else PLAIN
        parts.append(
            f'<line x1="{a.x:g}" y1="{a.y:g}" x2="{b.x:g}" y2="{b.y:g}" stroke="{colour}" '
            f'stroke-width="{1.5 + 3 * rate / fastest:.2f}"><title>{_link_title(network, name)}'
            "</title></line>"
        )
        if name in slow:
            x, y = (a.x + b.x) / 2, (a.y + b.y) / 2
            labels.append(f'<text class="rate" x="{x:g}" y="{y:g}">{format_rate(rate)[:-6]}</text>')
    # For a node that receives several sessions, the first one's bandwidth.
    available = {receiver["node"]: receiver["available"][0][1] for receiver in reversed(receivers)}
    for node, place in places.items():
        kind = "sender" if node == root else "receiver" if node in available else "inner"
        parts.append(
            f'<circle class="{kind}" cx="{place.x:g}" cy="{place.y:g}" r="13"/>'
            f'<text x="{place.x:g}" y="{place.y:g}">{node}</text>'
        )
        if node in available:
            parts.append(
                f'<text class="available" x="{place.x:g}" y="{place.y + 28:g}">'
                f"{available[node] / 1e6:g}</text>"
            )
    return "".join([*parts, *labels, "</svg>"])


def _link_title(network: Mapping[str, Any], name: str) -> str:
    link = network["links"][name]
    return (
        f"{name}: {format_rate(link['rate'])}, {link['delay_ns'] / 1e6:g} ms, queue {link['queue']}"
    )


def _places(tree: Tree, root: int) -> dict[int, _Place]:
    """Puts the leaves side by side, and each parent above the middle of its children."""
    depths = tree.distances(root)
    places: dict[int, _Place] = {}
    leaves = 0
    for node in _children_first(tree, root):
        below = [one for one in tree.neighbours[node] if depths[one] > depths[node]]
        children = [places[child].x for child in below]
        if children:
            x = (min(children) + max(children)) / 2
        else:
            x = MARGIN + COLUMN * leaves
            leaves += 1
        places[node] = _Place(x, MARGIN + ROW * depths[node])
    return places


def _children_first(tree: Tree, root: int) -> list[int]:
    """All nodes, each after its children, which keep their order."""
    order, waiting = [], [(root, root)]
    while waiting:
        parent, node = waiting.pop()
        order.append(node)
        waiting += [(node, child) for child in tree.neighbours[node] if child != parent]
    return order[::-1]
