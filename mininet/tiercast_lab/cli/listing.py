"""What `tiercast list` lists: the experiments, figures and sweeps that tiercast provides, and files
of the user's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiercast_controller.base.bounded_yaml import kind_of_file, shown

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import InputError
from tiercast_lab.experiment.yaml_source import load_yaml

COMMAND_OF = {"experiments": "run", "figures": "figure", "sweeps": "sweep"}
_OF_AN_EXPERIMENT = {"topology", "sessions", "extends"}


@dataclass(frozen=True)
class Entry:
    command: str  # of tiercast, that takes the name: run, figure or sweep
    name: str  # what to type after it
    title: str
    file: Path


def provided(above: Path | None = None) -> dict[str, list[Entry]]:
    """What tiercast provides, or of that what is in a folder `above` it: experiments, figures and
    sweeps, by name."""
    listed = dict(zip(COMMAND_OF, _provided_folders(), strict=True))
    if above is not None:
        listed = {kind: one for kind, one in listed.items() if one.is_relative_to(above.resolve())}
    return {
        kind: [
            Entry(COMMAND_OF[kind], path.stem, str(load_yaml(path).data.get("title", "")), path)
            for path in sorted(folder.glob("*.yaml"))
        ]
        for kind, folder in listed.items()
    }


def _provided_folders() -> tuple[Path, ...]:
    return tuple(one.resolve() for one in (binaries.EXPERIMENTS, binaries.FIGURES, binaries.SWEEPS))


def own(folder: Path, below: bool = False) -> list[Entry]:
    """The experiments, figures and sweeps in a folder of the user's, and `below` it, by file name.
    Files that are none of them, and tiercast's own, are left out. Raises InputError if there is no
    such folder."""
    if (kind := kind_of_file(folder)) != "a directory":
        raise InputError(f"{shown(str(folder))} is {kind or 'no folder'}; valid: a folder")
    return list(_entries(folder, below))


def _entries(folder: Path, below: bool) -> Iterator[Entry]:
    ours = _provided_folders()
    for path in sorted(folder.glob("**/*.yaml" if below else "*.yaml")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if hidden or kind_of_file(path) != "a file" or path.resolve().parent in ours:
            continue
        try:
            data = load_yaml(path).data
        except InputError:
            continue  # a file of something else; `tiercast run` says what is wrong with it
        if "axes" in data:
            command = "sweep"
        elif "figure" in data:
            command = "figure"
        elif _OF_AN_EXPERIMENT & data.keys():
            command = "run"
        else:
            continue
        title = data.get("title", "")
        yield Entry(
            command, str(path.with_suffix("")), title if isinstance(title, str) else "", path
        )


def as_json(entries: list[Entry]) -> list[dict[str, Any]]:
    return [
        {"name": one.name, "title": one.title, "file": str(one.file), "command": one.command}
        for one in entries
    ]
