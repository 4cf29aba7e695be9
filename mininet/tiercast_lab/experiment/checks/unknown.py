"""What is said of a name that the network does not have."""

from __future__ import annotations

from collections.abc import Collection

from tiercast_lab.base.errors import among, listed
from tiercast_lab.experiment.topology import Edge


def no_receiver(session: int, node: int, valid: Collection[int]) -> str:
    return f"no receiver of session {session} is at node {node}; valid: {listed(sorted(valid))}"


def no_session(number: int, valid: Collection[int]) -> str:
    return f"no session {number}; valid: {listed(sorted(valid))}"


def no_node(node: int | str, nodes: Collection[int]) -> str:
    valid = sorted(nodes)
    text = f"{valid[0]}..{valid[-1]}" if len(valid) > 12 else ", ".join(map(str, valid))
    return f"no node {node}; valid: {text}"


def no_link(name: str, links: Collection[Edge]) -> str:
    return f"no link {among(name, [f'{a}-{b}' for a, b in links])}"
