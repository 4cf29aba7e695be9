"""A network's nodes as a tree: exactly one path joins any two of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

Edge = tuple[int, int]


class Tree:
    def __init__(self, links: Iterable[Edge]) -> None:
        """`links`: the links of one tree, or of several separate ones."""
        self.neighbours: dict[int, list[int]] = {}
        for a, b in links:
            self.neighbours.setdefault(a, []).append(b)
            self.neighbours.setdefault(b, []).append(a)

    def away_from(self, root: int) -> Iterator[Edge]:
        """Yields each link as (parent, child), the links nearest to the root first."""
        waiting = deque([(root, root)])
        while waiting:
            before, node = waiting.popleft()
            for child in self.neighbours[node]:
                if child != before:
                    yield node, child
                    waiting.append((node, child))

    def distances(self, root: int) -> dict[int, int]:
        """The number of links from the root to each node."""
        result = {root: 0}
        for parent, child in self.away_from(root):
            result[child] = result[parent] + 1
        return result

    def path(self, a: int, b: int) -> list[int]:
        """The nodes from `a` to `b`, both included; both must be in the same tree. Takes time in
        proportion to their depths."""
        up, down = [a], [b]
        while up[-1] != down[-1]:
            if self._depths[up[-1]] >= self._depths[down[-1]]:
                up.append(self._parents[up[-1]])
            else:
                down.append(self._parents[down[-1]])
        return [*up, *reversed(down[:-1])]

    @cached_property
    def _parents(self) -> dict[int, int]:
        result: dict[int, int] = {}
        for root in self.neighbours:
            if root not in result:
                result[root] = root
                result.update((child, parent) for parent, child in self.away_from(root))
        return result

    @cached_property
    def _depths(self) -> dict[int, int]:
        result: dict[int, int] = {}
        for node, parent in self._parents.items():  # parents come before their children
            result[node] = 0 if node == parent else result[parent] + 1
        return result


class Trees:
    """Nodes that are joined link by link as long as no loop results (union-find)."""

    def __init__(self, nodes: Iterable[int]) -> None:
        self._above = {node: node for node in nodes}

    def top(self, node: int) -> int:
        """The representative of the node's tree: the same for all its nodes until that tree is
        joined to another."""
        while self._above[node] != node:
            # Path halving: the next search takes half as many steps.
            self._above[node] = node = self._above[self._above[node]]
        return node

    def join(self, a: int, b: int) -> bool:
        """Joins two trees; returns False if a path already joins the nodes."""
        a, b = self.top(a), self.top(b)
        self._above[b] = a
        return a != b


def steps(nodes: Sequence[int]) -> Iterator[Edge]:
    """The links of a path, in order."""
    return zip(nodes, nodes[1:], strict=False)
