"""Means over seeds, with confidence intervals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

# Two-sided 95 % quantiles of Student's t by degrees of freedom; beyond the table, _quantile.
STUDENT_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14,
              2.13, 2.12, 2.11, 2.10, 2.09, 2.09, 2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05,
              2.05, 2.04)  # fmt: skip
NORMAL_95 = statistics.NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class Mean:
    """A mean over seeds. `spread` is half of the 95 % confidence interval, or None for a single
    run."""

    value: float
    spread: float | None
    runs: int


def mean(values: Sequence[float | None]) -> Mean | None:
    """The mean over all seeds. None if any seed has no value, because the mean of the others would
    be biased."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return Mean(statistics.fmean(known), _half_interval(known), len(known))


def ratio(above: Sequence[float | None], below: Sequence[float | None]) -> Mean | None:
    """The ratio of two means over the same seeds, in the same order. None if a seed has no value or
    the mean of `below` is 0.

    The interval is that of the ratio estimator (Cochran, Sampling Techniques, 6.4): that of the
    mean of above - ratio x below, divided by the mean of `below`.
    """
    over, under = mean(above), mean(below)
    if over is None or under is None or under.value == 0:
        return None
    value = over.value / under.value
    residuals = [a - value * b for a, b in zip(above, below, strict=True)]  # type: ignore[operator]
    spread = _half_interval(residuals)
    return Mean(value, None if spread is None else spread / abs(under.value), over.runs)


def difference(of: Sequence[float | None], against: Sequence[float | None]) -> Mean | None:
    """The difference of two means over independent runs. None if a run has no value.

    The interval is Welch's, with the degrees of freedom of Satterthwaite, rounded down (Welch, The
    generalization of Student's problem, 1947). It is None if either mean is of a single run.
    """
    over, under = mean(of), mean(against)
    if over is None or under is None:
        return None
    value, runs = over.value - under.value, over.runs + under.runs
    if over.spread is None or under.spread is None:
        return Mean(value, None, runs)
    parts = [
        (statistics.variance(known) / len(known), len(known))
        for values in (of, against)
        for known in [[one for one in values if one is not None]]
    ]
    variance = sum(part for part, _ in parts)
    if variance == 0:
        return Mean(value, 0.0, runs)
    freedom = variance**2 / sum(part**2 / (count - 1) for part, count in parts)
    # A whole number may come out a little below itself.
    return Mean(value, _quantile(math.floor(freedom + 1e-9)) * math.sqrt(variance), runs)


def paired_difference(of: Sequence[float | None], against: Sequence[float | None]) -> Mean | None:
    """The same over runs that share their seeds, in the same order: the mean of the differences,
    with the interval of that mean."""
    if mean(of) is None or mean(against) is None:
        return None
    return mean([a - b for a, b in zip(of, against, strict=True)])  # type: ignore[operator]


def _half_interval(values: Sequence[float]) -> float | None:
    """Half of the 95 % confidence interval of the mean."""
    if len(values) == 1:
        return None
    return _quantile(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


def _quantile(freedom: int) -> float:
    """The two-sided 95 % quantile of Student's t. Beyond the table the expansion in 1 / freedom
    around the normal one (Abramowitz and Stegun, 26.7.5), whose first term left out is below 2e-6
    there."""
    if freedom <= len(STUDENT_95):
        return STUDENT_95[freedom - 1]
    z, n = NORMAL_95, freedom
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
    )
