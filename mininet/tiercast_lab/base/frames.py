"""Numbers out of frames: polars types an aggregate as of any column, so it is checked here."""

from __future__ import annotations


def as_float(value: object) -> float:
    """Of a numeric column that is not empty."""
    assert isinstance(value, int | float), f"{value!r} is no number"
    return float(value)


def as_float_or_none(value: object) -> float | None:
    """Of a numeric column; None where it is empty."""
    return None if value is None else as_float(value)
