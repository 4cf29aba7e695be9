"""Draws random trees (shape, rates and delays) and random rates, each from one seed."""

from __future__ import annotations

import random
from collections import deque

Span = tuple[int, int]  # (from, to), both included


class Draw:
    """Random numbers from a seed. They are the same in every Python release, because only random()
    is used: Python guarantees no other method."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def whole(self, span: Span) -> int:
        """A whole number of the span, all equally likely."""
        first, last = span
        return first + int(self._random.random() * (last - first + 1))

    def share(self) -> float:
        """A number from 0 to below 1, all equally likely."""
        return self._random.random()

    def log_uniform(self, span: Span) -> int:
        """A log-uniform number of the span, rounded to the three digits that are shown, so that the
        network can be written down and repeated."""
        first, last = span
        value = first * (last / first) ** self._random.random()
        return min(max(int(float(f"{value:.3g}")), first), last)

    def parts(self, whole: int, count: int) -> list[int]:
        """`whole` as a sum of `count` numbers, each at least 1; all such sums are equally
        likely."""
        cuts: set[int] = set()
        while len(cuts) < count - 1:
            cuts.add(self.whole((1, whole - 1)))
        ends = [0, *sorted(cuts), whole]
        return [b - a for a, b in zip(ends, ends[1:], strict=False)]


def draw_links(draw: Draw, leaves: int, fanout: Span, depth: int) -> list[tuple[int, int]]:
    """The links of a tree with `leaves` leaves, parent first, numbered level by level from the
    root, 0.

    A node has between fanout[0] and fanout[1] children, or fewer if fewer leaves are below it, and
    divides its leaves among them. On the level just above the last, each of its leaves becomes a
    child.
    """
    links: list[tuple[int, int]] = []
    waiting = deque([(0, leaves, 1)])  # node, leaves below it, level of its children
    while waiting:
        node, below, level = waiting.popleft()
        count = below if level == depth else min(draw.whole(fanout), below)
        for part in draw.parts(below, count):
            child = len(links) + 1
            links.append((node, child))
            if part > 1:
                waiting.append((child, part, level + 1))
    return links
