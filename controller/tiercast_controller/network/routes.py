"""The rule by which all of tiercast chooses paths: the controller's unicast routes and multicast
trees, and what the lab measures and draws."""

from __future__ import annotations

import hashlib
import heapq
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Generic, TypeVar

Node = TypeVar("Node", int, str)

# ns, added to the delay of a link that is down: more than any path has. So paths lead around it if
# they can, and stay where they were if they cannot.
DOWN = 1 << 62


class LinkDelays(Generic[Node]):
    """What links count for when paths are chosen, while they fail, return and change.

    A link counts with the longer delay of its two directions, and is down if either direction is:
    a change of both, one after the other, moves paths once.
    """

    def __init__(self) -> None:
        self._delays: dict[tuple[Node, Node], int] = {}  # ns, by direction
        self._links: list[tuple[Node, Node]] = []
        self._down: set[tuple[Node, Node]] = set()  # directions

    def add(self, a: Node, b: Node, delay_ns: int) -> None:
        """Adds a link that is up; the delay is of both directions."""
        self._links.append((a, b))
        self._delays[a, b] = self._delays[b, a] = delay_ns

    def change(self, a: Node, b: Node, up: bool | None, delay_ns: int | None) -> bool:
        """Changes the direction from `a` to `b`; None: as it was. Returns whether the link counts
        for something else now."""
        before = self._of(a, b)
        if up is not None:
            (self._down.discard if up else self._down.add)((a, b))
        if delay_ns is not None:
            self._delays[a, b] = delay_ns
        return self._of(a, b) != before

    def of_links(self) -> dict[tuple[Node, Node], int]:
        """ns, by link, for Routes."""
        return {(a, b): self._of(a, b) for a, b in self._links}

    def _of(self, a: Node, b: Node) -> int:
        failed = (a, b) in self._down or (b, a) in self._down
        return max(self._delays[a, b], self._delays[b, a]) + (DOWN if failed else 0)


class Routes(Generic[Node]):
    """The shortest path by delay between any two nodes of a graph.

    Of paths with the same delay, the one with the fewest links counts. Of those, compare the links
    that only one of the two has, sorted by their ends' numbers (or names, in which s2 comes before
    s10): the path that has the last of these links loses. So all pairs have exactly one path, a
    part of a path is a path, and a path back is the path there: the switches' next hops towards a
    host, the tree of a source, and the measures agree, whoever computes them.

    With a key the links are sorted by a hash of it and their ends' numbers instead: the same holds,
    and another key may take another of the equal paths.
    """

    def __init__(self, delays: Mapping[tuple[Node, Node], int], key: int | None = None) -> None:
        """`delays`: the delay of each link in ns, at least 0, the same in both directions."""
        self._key = key
        self._keyed: dict[int, Routes[Node]] = {}
        self.neighbours: dict[Node, list[Node]] = {}
        for a, b in delays:
            self.neighbours.setdefault(a, []).append(b)
            self.neighbours.setdefault(b, []).append(a)
        self._delays: dict[tuple[Node, Node], int] = dict(delays)
        self._delays.update({(b, a): delay for (a, b), delay in delays.items()})
        self._links: list[tuple[Node, Node]] = list(delays)
        self._towards: dict[Node, dict[Node, Node]] = {}
        self._next_hops: dict[Node, dict[Node, list[Node]]] = {}

    def keyed(self, key: int) -> Routes[Node]:
        """The paths of the same graph with a key."""
        if key not in self._keyed:
            delays = {link: self._delays[link] for link in self._links}
            self._keyed[key] = Routes(delays, key)
        return self._keyed[key]

    def towards(self, root: Node) -> dict[Node, Node]:
        """For each node that has a path to the root: the next node on it. Nearer nodes first; the
        root has no entry."""
        if root not in self._towards:
            found = self._in_a_forest(root) if self._is_forest else self._in_a_mesh(root)
            self._towards[root] = found
        return self._towards[root]

    def away_from(self, root: Node) -> Iterator[tuple[Node, Node]]:
        """The links of the root's paths to all nodes as (parent, child), nearer ones first."""
        for child, parent in self.towards(root).items():
            yield parent, child

    def distances(self, root: Node) -> dict[Node, tuple[int, int]]:
        """Of the path from the root to each node: its delay in ns, and its links."""
        result = {root: (0, 0)}
        for parent, child in self.away_from(root):
            delay, links = result[parent]
            result[child] = delay + self._delays[parent, child], links + 1
        return result

    def path(self, a: Node, b: Node) -> list[Node]:
        """The nodes from `a` to `b`, both included; empty if there is no path. Takes time in
        proportion to the path's length in a tree, and once for all paths from `a` elsewhere."""
        if self._is_forest:
            return self._through_the_forest(a, b)
        found = [b]
        towards = self.towards(a)
        while found[-1] != a:
            if found[-1] not in towards:
                return []
            found.append(towards[found[-1]])
        return found[::-1]

    def next_hops(self, root: Node) -> dict[Node, list[Node]]:
        """For each node that has a path to the root: the next nodes on all paths of its cost, which
        are those of the least delay and, among these, of the fewest links; s2 before s10."""
        if root not in self._next_hops:
            cost = self.distances(root)

            def leads(node: Node, hop: Node) -> bool:
                delay, links = cost[hop]
                return cost[node] == (delay + self._delays[node, hop], links + 1)

            self._next_hops[root] = {
                node: sorted(
                    (hop for hop in self.neighbours[node] if leads(node, hop)), key=_in_order
                )
                for node in cost
                if node != root
            }
        return self._next_hops[root]

    def equal_steps(self, a: Node, b: Node) -> list[list[tuple[Node, Node]]]:
        """The links of all paths of least cost from `a` to `b`, by their place on the path; empty
        if there is no path."""
        hops = self.next_hops(b)
        found = []
        nodes = [a] if a in hops else []
        while nodes and nodes != [b]:
            found.append([(node, hop) for node in nodes for hop in hops[node]])
            nodes = list(dict.fromkeys(hop for _, hop in found[-1]))
        return found

    def parts(self) -> list[Node]:
        """A node of each part of the graph; one, if it is connected."""
        return [node for node, above in self._parents.items() if node == above]

    @cached_property
    def _is_forest(self) -> bool:
        """Whether there is at most one path between any two nodes, which is then found in linear
        time."""
        return len(self._links) == len(self.neighbours) - len(self.parts())

    def _in_a_forest(self, root: Node) -> dict[Node, Node]:
        found: dict[Node, Node] = {}
        waiting = deque([(root, root)])
        while waiting:
            before, node = waiting.popleft()
            for child in self.neighbours.get(node, ()):
                if child != before:
                    found[child] = node
                    waiting.append((node, child))
        return found

    def _in_a_mesh(self, root: Node) -> dict[Node, Node]:
        """Dijkstra's algorithm. No two paths have the same cost: as a last resort it is the set of
        their links, as a number whose highest bit is the last link."""
        found: dict[Node, Node] = {}
        done: set[Node] = set()
        waiting: list[tuple[int, int, int, Node, Node]] = [(0, 0, 0, root, root)]
        while waiting:
            delay, hops, links, node, before = heapq.heappop(waiting)
            if node in done:
                continue
            done.add(node)
            if node != before:
                found[node] = before
            for child in self.neighbours.get(node, ()):
                if child not in done:
                    further = delay + self._delays[node, child]
                    used = links | self._bits[node, child]
                    heapq.heappush(waiting, (further, hops + 1, used, child, node))
        return found

    def _through_the_forest(self, a: Node, b: Node) -> list[Node]:
        up: list[Node] = [a]
        down: list[Node] = [b]
        while up[-1] != down[-1]:
            higher = up if self._depths[up[-1]] >= self._depths[down[-1]] else down
            parent = self._parents[higher[-1]]
            if parent == higher[-1]:
                return []
            higher.append(parent)
        return up + down[-2::-1] if len(down) > 1 else up

    @cached_property
    def _bits(self) -> dict[tuple[Node, Node], int]:
        order = sorted(self._links, key=lambda link: sorted(map(_in_order, link)))
        if self._key is not None:
            order.sort(key=partial(_hash, self._key))
        bits = {link: 1 << place for place, link in enumerate(order)}
        return {**bits, **{(b, a): bit for (a, b), bit in bits.items()}}

    @cached_property
    def _parents(self) -> dict[Node, Node]:
        """A spanning forest; a root is its own parent."""
        result: dict[Node, Node] = {}
        for root in self.neighbours:
            if root in result:
                continue
            result[root] = root
            waiting = deque([root])
            while waiting:
                node = waiting.popleft()
                for child in self.neighbours[node]:
                    if child not in result:
                        result[child] = node
                        waiting.append(child)
        return result

    @cached_property
    def _depths(self) -> dict[Node, int]:
        result: dict[Node, int] = {}
        for node, parent in self._parents.items():  # parents come before their children
            result[node] = 0 if node == parent else result[parent] + 1
        return result


def steps(nodes: Sequence[Node]) -> Iterator[tuple[Node, Node]]:
    """The links of a path, in order."""
    return zip(nodes, nodes[1:], strict=False)


def numbers_of(node: int | str) -> str:
    """For hashes: of s3 and of 3 it is "3". Without a number it is the name."""
    return "".join(re.findall("[0-9]+", str(node))) or str(node)


def _hash(key: int, link: tuple[int | str, int | str]) -> bytes:
    numbers = sorted(map(numbers_of, link))
    return hashlib.blake2b(f"{key} {' '.join(numbers)}".encode(), digest_size=8).digest()


def _in_order(node: int | str) -> list[tuple[int, str]]:
    """A sort key that puts s2 before s10."""
    parts = re.split("([0-9]+)", str(node))
    return [(int(part), "") if part.isdigit() else (0, part) for part in parts]
