"""Paths that a user named, and what is in a folder. What is not there raises nothing here."""

from __future__ import annotations

import os
from pathlib import Path


def resolved(path: Path) -> Path:
    """The absolute path, with symbolic links followed. Unlike Path.resolve it raises nothing for a
    name that is too long or a loop of links: whoever opens it is told."""
    return Path(os.path.realpath(path))


def stored_names(results: Path) -> list[str]:
    """The names of the runs in a folder, oldest first."""
    return sorted(
        one for one in names_in(results) if os.path.exists(results / one / "summary.json")
    )


def names_in(folder: Path) -> list[str]:
    """Empty if there is no such folder, or it is closed to this user."""
    try:
        return os.listdir(folder)
    except OSError:
        return []
