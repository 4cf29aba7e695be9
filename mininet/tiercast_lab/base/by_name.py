"""Finds a scheme's modules by their name, so that no list of them has to be kept."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType


def module_of(package: str, name: str) -> ModuleType | None:
    """The module `package.name`, or None if there is none. `name` need not be a valid
    identifier."""
    path = f"{package}.{name}"
    if not name.isidentifier() or importlib.util.find_spec(path) is None:
        return None
    return importlib.import_module(path)
