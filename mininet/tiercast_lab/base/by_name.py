"""Modules that are found by their names: a scheme's own, one file each, and no list of them."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType


def module_of(package: str, name: str) -> ModuleType | None:
    """None where the package has no module of that name, which need not be a module's name."""
    path = f"{package}.{name}"
    if not name.isidentifier() or importlib.util.find_spec(path) is None:
        return None
    return importlib.import_module(path)
