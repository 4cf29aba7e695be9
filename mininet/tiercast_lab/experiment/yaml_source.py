"""YAML that remembers the place of each key, so that an error can name file and line."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tiercast_controller.base import bounded_yaml
from tiercast_controller.base.bounded_yaml import MAX_DEPTH, Node, YamlError, shown

from tiercast_lab.base.errors import InputError, listed, require_characters

KeyPath = tuple[str, ...]
_MOST_NAMED = 200  # characters of a key path in an error


@dataclass
class Source:
    """The data of a file and of what it includes, and for each key path its place: `file:line`, or
    the command-line option that set it."""

    data: dict[str, Any]
    places: dict[KeyPath, str] = field(default_factory=dict)
    files: tuple[Path, ...] = ()  # all files that were read for it

    def place(self, path: KeyPath) -> str:
        """The place of a key path, or of the nearest parent that has one."""
        while path not in self.places:
            path = path[:-1]
        return self.places[path]

    def error(self, path: KeyPath, text: str) -> InputError:
        name = ".".join(path)
        name = name if len(name) <= _MOST_NAMED else f"{name[:_MOST_NAMED]}…"
        return InputError(f"{self.place(path)}: {name + ': ' if name else ''}{text}")

    def set(self, path: KeyPath, value: Any, place: str) -> None:
        """Sets a value and creates the mappings that lead to it. Raises InputError if something
        else is in the way."""
        if len(path) > MAX_DEPTH:
            raise InputError(f"{place}: {len(path)} keys deep; valid: up to {MAX_DEPTH}")
        for text in (*path, value):
            if isinstance(text, str):
                require_characters(text, place)
        target: Any = self.data
        for depth in range(1, len(path)):
            at = _index(target, path[:depth], place)
            if isinstance(target, dict) and target.get(at) is None:
                target[at] = {}
                self.places[path[:depth]] = place
            target = target[at]
        target[_index(target, path, place)] = value
        # The keys that were there before no longer have a place.
        self.places = {at: was for at, was in self.places.items() if at[: len(path)] != path}
        self.places[path] = place


def _index(holder: Any, path: KeyPath, place: str) -> str | int:
    """The index or key, in its holder, of the path's last part. Raises InputError if the holder
    cannot have it."""
    *parents, key = path
    above = ".".join(parents)
    if isinstance(holder, dict):
        return key
    if not isinstance(holder, list):
        raise InputError(f"{place}: {above} is {shown(holder)}; valid: a key that holds others")
    if not re.fullmatch("[0-9]{1,6}", key) or int(key) >= len(holder):
        valid = listed(range(len(holder))) or "none, it is empty"
        raise InputError(f"{place}: {above} has no {shown(key)}; valid: {valid}")
    return int(key)


def load_yaml(path: Path) -> Source:
    """Reads a file. Raises InputError if bounded_yaml refuses it or its root is not a mapping."""
    try:
        root = bounded_yaml.read(path)
    except YamlError as error:
        raise InputError(str(error)) from None
    places: dict[KeyPath, str] = {(): f"{path}:1"}
    return Source(_build(root, (), path, places), places, (path.resolve(),))


def read_value(text: str, place: str) -> Any:
    """Reads a single value as if from a file. An InputError names `place`."""
    try:
        return bounded_yaml.parse(text, place).plain()
    except YamlError as error:
        raise InputError(f"{place}: {error.reason}") from None


def _build(node: Node, path: KeyPath, file: Path, places: dict[KeyPath, str]) -> Any:
    if isinstance(node.value, dict):
        result = {}
        for key, (line, value) in node.value.items():
            places[(*path, key)] = f"{file}:{line}"
            result[key] = _build(value, (*path, key), file, places)
        return result
    if isinstance(node.value, list):
        items = []
        for index, item in enumerate(node.value):
            places[(*path, str(index))] = f"{file}:{item.line}"
            items.append(_build(item, (*path, str(index)), file, places))
        return items
    return node.value


def merge(base: Source, over: Source, path: KeyPath = ()) -> Source:
    """Puts `over` on top of `base`, mapping by mapping. `path` says where in `over` the root of
    `base` goes."""
    holder: Any = over.data
    for key in path[:-1]:
        holder = holder[key]
    replaced: set[KeyPath] = set()
    merged = _merged(base.data, holder[path[-1]] if path else over.data, path, replaced)
    places = {
        at: place
        for below, place in base.places.items()
        if below and not _inside(at := (*path, *below), replaced)
    }
    places.update(over.places)
    files = (*over.files, *base.files)
    if not path:
        return Source(merged, places, files)
    holder[path[-1]] = merged
    return Source(over.data, places, files)


def _merged(base: Any, over: Any, path: KeyPath, replaced: set[KeyPath]) -> Any:
    if isinstance(base, dict) and isinstance(over, dict):
        result = dict(base)
        for key, value in over.items():
            at = (*path, key)
            result[key] = _merged(base[key], value, at, replaced) if key in base else value
        return result
    replaced.add(path)
    return over


def _inside(path: KeyPath, replaced: set[KeyPath]) -> bool:
    return any(path[:depth] in replaced for depth in range(len(path)))
