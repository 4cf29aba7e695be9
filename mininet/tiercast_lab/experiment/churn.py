"""Receivers that come and go by a process, as the list of their joins and leaves.

Arrivals are a Poisson process. At each of them one of the receivers that are away, each equally
likely, joins; if none is away, nobody does. How long it stays is drawn when it arrives. The numbers
are the churn's own, from its seed and its place in the list, so every run of an experiment has the
same changes, in real and in virtual time.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from tiercast_lab.base.lengths import Length
from tiercast_lab.experiment.quantities import START_SPREAD_NS

# A receiver's first join is up to START_SPREAD_NS later than its arrival.
MIN_STAY_NS = START_SPREAD_NS


@dataclass(frozen=True)
class MemberChange:
    at: int  # ns
    joins: bool


def member_changes(
    receivers: Sequence[int], every: int, stay: Length, begin: int, end: int, until: int, seed: str
) -> Mapping[int, list[MemberChange]]:
    """The changes of each receiver in the order of time, a join first; empty for one that never
    arrives. `every` is the mean time between two arrivals from `begin` to `until`, in ns like all
    times; `stay` is in s. At `end` the session is over: nobody leaves then."""
    random = Random(f"churn {seed}")
    away, leaving = list(receivers), list[tuple[int, int]]()
    changes: dict[int, list[MemberChange]] = {node: [] for node in receivers}
    between = Length("exponential", every)
    at = begin
    while (at := at + round(between.draw(random))) < until:
        while leaving and leaving[0][0] <= at:
            away.append(heapq.heappop(leaving)[1])
        if not away:
            continue
        node = away.pop(int(random.random() * len(away)))
        changes[node].append(MemberChange(at, joins=True))
        gone = at + max(MIN_STAY_NS, round(stay.draw(random) * 1e9))
        if gone < end:
            changes[node].append(MemberChange(gone, joins=False))
            heapq.heappush(leaving, (gone, node))
    return changes
