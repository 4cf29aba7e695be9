"""YAML with a memory of where each key stands, so that an error can name file and line."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tiercast_lab.errors import InputError

KeyPath = tuple[str, ...]
# libyaml's where PyYAML has it: ten times as fast, and the papers' figures are many files.
Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass
class Source:
    """The data of a file (and of what it includes), with file and line of each key path."""

    data: dict[str, Any]
    places: dict[KeyPath, str] = field(default_factory=dict)

    def place(self, path: KeyPath) -> str:
        """`file:line` of a key path, or of its nearest parent that stands in a file."""
        while path not in self.places:
            path = path[:-1]
        return self.places[path]

    def error(self, path: KeyPath, text: str) -> InputError:
        name = ".".join(path)
        return InputError(f"{self.place(path)}: {name + ': ' if name else ''}{text}")


def load_yaml(path: Path) -> Source:
    """Raises InputError for an unreadable file, a syntax error, a repeated key, or no mapping."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text file"
        raise InputError(f"{path}: {reason}") from None
    loader = Loader(text)
    try:
        root = loader.get_single_node()
        places: dict[KeyPath, str] = {(): f"{path}:1"}
        data = _build(loader, root, (), path, places)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise InputError(f"{path}:{line}: {error.problem}") from None
    finally:
        loader.dispose()
    if not isinstance(data, dict):
        raise InputError(f"{path}:1: the file must be a mapping of keys to values")
    return Source(data, places)


def _build(
    loader: yaml.SafeLoader,
    node: yaml.Node | None,
    path: KeyPath,
    file: Path,
    places: dict[KeyPath, str],
) -> Any:
    if isinstance(node, yaml.MappingNode):
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(
                    problem="a key must be plain text", problem_mark=key_node.start_mark
                )
            key = str(key_node.value)
            here = f"{file}:{key_node.start_mark.line + 1}"
            if key in result:
                raise InputError(f"{here}: key '{key}' stands twice; valid: once")
            places[(*path, key)] = here
            result[key] = _build(loader, value_node, (*path, key), file, places)
        return result
    if isinstance(node, yaml.SequenceNode):
        items = []
        for index, item in enumerate(node.value):
            places[(*path, str(index))] = f"{file}:{item.start_mark.line + 1}"
            items.append(_build(loader, item, (*path, str(index)), file, places))
        return items
    return None if node is None else loader.construct_object(node, deep=True)


def merge(base: Source, over: Source, path: KeyPath = ()) -> Source:
    """`over` on top of `base`, mapping by mapping; `path`: where base's root goes in `over`."""
    places = {(*path, *key): place for key, place in base.places.items() if key}
    places.update(over.places)
    target = over.data
    for key in path[:-1]:
        target = target[key]
    if path:
        target[path[-1]] = _merged(base.data, target[path[-1]])
        return Source(over.data, places)
    return Source(_merged(base.data, over.data), places)


def _merged(base: Any, over: Any) -> Any:
    if isinstance(base, dict) and isinstance(over, dict):
        result = dict(base)
        for key, value in over.items():
            result[key] = _merged(base[key], value) if key in base else value
        return result
    return over
