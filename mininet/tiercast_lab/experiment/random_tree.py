"""Random trees: shape, rates and delays from a seed."""

from __future__ import annotations

import random
from collections import deque

Span = tuple[int, int]  # from, to, both included


class Draw:
    """Numbers from a seed, the same with every release of Python: of `random` only random() is."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def whole(self, span: Span) -> int:
        """Each of the span's numbers as often as the others."""
        first, last = span
        return first + int(self._random.random() * (last - first + 1))

    def log_uniform(self, span: Span) -> int:
        """With three digits, as it is shown, so that a network can be written down and repeated."""
        first, last = span
        value = first * (last / first) ** self._random.random()
        return min(max(int(float(f"{value:.3g}")), first), last)

    def parts(self, whole: int, count: int) -> list[int]:
        """`whole` as a sum of `count` numbers of 1 or more, each such sum equally likely."""
        cuts: set[int] = set()
        while len(cuts) < count - 1:
            cuts.add(self.whole((1, whole - 1)))
        ends = [0, *sorted(cuts), whole]
        return [b - a for a, b in zip(ends, ends[1:], strict=False)]


def draw_links(draw: Draw, leaves: int, fanout: Span, depth: int) -> list[tuple[int, int]]:
    """Links of a tree with so many leaves, parent first, numbered level by level from the root, 0.

    A node has a number of children of the span `fanout`, fewer where fewer leaves are below it, and
    these leaves are divided among them. The nodes before the last level have what is left.
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
