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
    return Mean(statistics.fmean(known), _half_interval(known), len(known))


def ratio(above: Sequence[float | None], below: Sequence[float | None]) -> Mean | None:
    """Of two means over the same seeds, in the same order. The interval is the ratio estimator's
    (Cochran, Sampling Techniques, 6.4): that of the mean of above - ratio x below, over below's.
    None where a seed has no value, or below's mean is 0."""
    over, under = mean(above), mean(below)
    if over is None or under is None or under.value == 0:
        return None
    value = over.value / under.value
    residuals = [a - value * b for a, b in zip(above, below, strict=True)]  # type: ignore[operator]
    spread = _half_interval(residuals)
    return Mean(value, None if spread is None else spread / abs(under.value), over.runs)


def _half_interval(values: Sequence[float]) -> float | None:
    """Half of the 95 % confidence interval of their mean."""
    if len(values) == 1:
        return None
    freedom = len(values) - 1
    quantile = STUDENT_95[freedom - 1] if freedom <= len(STUDENT_95) else NORMAL_95
    return quantile * statistics.stdev(values) / math.sqrt(len(values))
