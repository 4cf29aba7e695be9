"""Means over seeds, with confidence intervals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

# Two-sided 95 % quantiles of Student's t, by degrees of freedom; above, the normal one.
STUDENT_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14,
              2.13, 2.12, 2.11, 2.10, 2.09, 2.09, 2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05,
              2.05, 2.04)  # fmt: skip
NORMAL_95 = 1.96


@dataclass(frozen=True)
class Mean:
    """Over seeds; `spread` is half of the 95 % confidence interval, None of a single run."""

    value: float
    spread: float | None
    runs: int


def mean(values: Sequence[float | None]) -> Mean | None:
    """None where a seed has no value, too: the mean of the others would be that of a choice."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    if len(known) == 1:
        return Mean(known[0], None, 1)
    freedom = len(known) - 1
    quantile = STUDENT_95[freedom - 1] if freedom <= len(STUDENT_95) else NORMAL_95
    spread = quantile * statistics.stdev(known) / math.sqrt(len(known))
    return Mean(statistics.fmean(known), spread, len(known))
