"""Loads Python files from outside the tree that add markings or measures."""

from __future__ import annotations

import os
from importlib import util
from pathlib import Path

from tiercast_controller.base.errors import ConfigurationError


def files_of(variable: str) -> list[Path]:
    """The files listed in the environment variable, separated by ":"."""
    return [Path(name) for name in os.environ.get(variable, "").split(os.pathsep) if name]


def import_files(variable: str, page: str) -> None:
    """Imports these files. Raises ConfigurationError for one that cannot be read or that fails.
    `page` names the page that has an example."""
    for path in files_of(variable):
        try:
            spec = util.spec_from_file_location(f"{variable.lower()}_{path.stem}", path)
            if spec is None or spec.loader is None:
                raise ValueError("not a .py file")
            spec.loader.exec_module(util.module_from_spec(spec))
        except Exception as error:
            raise ConfigurationError(
                f"{variable}: {path}: {type(error).__name__}: {error}; "
                f"valid: Python files such as that of docs/{page}"
            ) from error
