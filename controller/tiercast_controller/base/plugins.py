"""Loads Python files from outside the tree that add markings or measures."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from importlib import util
from pathlib import Path

from tiercast_controller.base.errors import ConfigurationError

# The variables of the environment that list such files.
MEASURES, MARKINGS = "TIERCAST_MEASURES", "TIERCAST_MARKINGS"

_imported: dict[str, tuple[str, Path]] = {}  # variable and file by the name of the module


def files_of(variable: str) -> list[Path]:
    """The files listed in the environment variable, separated by ":"."""
    return [Path(name) for name in os.environ.get(variable, "").split(os.pathsep) if name]


def without(variable: str) -> str:
    """` (VARIABLE is not set)`, for an error about an unknown name, or an empty text if it is."""
    return "" if files_of(variable) else f" ({variable} is not set)"


def import_files(variable: str, page: str, what: str, defined: Callable[[], int]) -> None:
    """Imports these files. Raises ConfigurationError for one that cannot be read, that fails, or
    that defines nothing: `defined` counts what there is, and `what` says what is needed and what is
    valid. `page` names the page that has an example."""
    for path in files_of(variable):
        before = defined()
        try:
            name = f"{variable.lower()}_{path.stem}"
            spec = util.spec_from_file_location(name, path)
            if spec is None or spec.loader is None:
                raise ValueError("not a .py file")
            _imported[name] = variable, path
            spec.loader.exec_module(util.module_from_spec(spec))
        except Exception as error:
            if "; valid: " in str(error):  # such as that of a decorator: it says all
                raise ConfigurationError(f"{variable}: {path}: {error}") from error
            raise ConfigurationError(
                f"{variable}: {path}: {type(error).__name__}: {error}; "
                f"valid: Python files such as that of docs/{page}"
            ) from error
        if defined() == before:
            raise ConfigurationError(f"{variable}: {path}: no {what}")


def imported_from(defined: Callable[..., object]) -> Path | None:
    """The file that import_files imported and in which a function or class is; None for ours."""
    found = _imported.get(defined.__module__)
    return found and found[1]


def named(defined: Callable[..., object]) -> str:
    """A function or class as an error names it: with such a file, if it is in one."""
    return ": ".join([*map(str, _imported.get(defined.__module__, ())), defined.__name__])


def fault(error: BaseException, called: Callable[..., object] | None = None) -> str | None:
    """An error of such a file as its author needs it: file, line and what is wrong. None for an
    error of ours. `called`: the function that was called. What is wrong with it may have no line of
    its own in the traceback, such as arguments that it does not take."""
    text = f"{type(error).__name__}: {error}"
    files = {str(path) for _, path in _imported.values()}
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename in files:
            return f"{frame.filename}:{frame.lineno}: {frame.name}: {text}"
    if called is not None and (path := imported_from(called)):
        return f"{path}: {called.__name__}: {text}"
    return None
