"""Reads single numbers from polars, whose aggregates are typed as if they could be of any type."""

from __future__ import annotations


def as_float(value: object) -> float:
    """A number from a numeric column that is not empty."""
    assert isinstance(value, int | float), f"{value!r} is no number"
    return float(value)


def as_float_or_none(value: object) -> float | None:
    """A number from a numeric column, or None if the column is empty."""
    return None if value is None else as_float(value)
