"""Reactions of a port to a step: how long packets wait, over time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tiercast_lab.study.marking import Packets

STEP, END_S = (10.0, 30.0), 40.0  # s: when a step begins and ends, and the trial
STEP_S = 0.1  # of the curves over time
SETTLED = 1.25  # times the mean wait of the second half of a step


@dataclass(frozen=True)
class Over:
    """A reaction to a step: values in STEP_S long intervals, nan where nothing left."""

    title: str
    times: list[float]
    wait: list[float]  # s, mean
    hits: list[float]  # share
    # After its peak, when the mean wait of a second first is at most SETTLED times that of the
    # step's second half: s from the step. None: not in the first half.
    settled_s: float | None


def over(
    title: str, packets: Packets, step: tuple[float, float] = STEP, end_s: float = END_S
) -> Over:
    """`step`: when it begins and ends, s."""
    edges = np.arange(0, end_s + STEP_S / 2, STEP_S)
    place = np.digitize(packets.arrival_s, edges) - 1
    wait, hits = [], []
    for index in range(len(edges) - 1):
        here = place == index
        waits = packets.wait_s[here & ~np.isnan(packets.wait_s)]
        wait.append(float(waits.mean()) if len(waits) else math.nan)
        hits.append(float(packets.hit[here].mean()) if here.any() else math.nan)
    first, last = (round(at / STEP_S) for at in step)
    return Over(title, list(edges[:-1]), wait, hits, _settled(np.array(wait[first:last])))


def _settled(waits: np.ndarray) -> float | None:
    """None if that is not in the first half."""
    second = np.ones(round(1 / STEP_S)) * STEP_S
    means = np.convolve(np.nan_to_num(waits), second, "valid")
    half = len(waits) // 2
    final = float(np.nanmean(waits[half:]))
    peak = int(np.argmax(means[:half]))
    low = np.flatnonzero(means[peak:half] <= SETTLED * final)
    return float((peak + low[0]) * STEP_S) if len(low) else None
