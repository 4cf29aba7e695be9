"""Reads YAML as JSON's types, within limits, and remembers the line of each value.

Values are mappings (keys are text), lists, text, 64-bit whole numbers, finite numbers, true, false
and null. A word that YAML 1.1 and 1.2 read differently is refused, unless it is a number in JSON:
`yes`, `010`, `0x1F`, `1_000` and `1:30` need quotes or another spelling; `1e5` is a number; a date
is text. Tags, directives, a second document, NaN and infinity are refused, too.

The limits hold while the text is read, before anything is built from it: 300,000 brackets use no
stack, and aliases of aliases take no more time than a file within the limits.
"""

from __future__ import annotations

import math
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tiercast_controller.base.errors import ConfigurationError

MAX_BYTES = 1 << 20
MAX_DEPTH = 64
MAX_NODES = 100_000  # values; an alias counts as everything that it stands for

# libyaml's parser, if PyYAML has it: it is ten times as fast.
_Parser = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
NO_CHARACTER = re.compile("[\ud800-\udfff]")  # half of a UTF-16 pair: a byte that is not UTF-8
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class YamlError(ConfigurationError):
    """The text names file and line, what is there and what is valid; `reason` is the text without
    the place."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Node:
    """A value: None, bool, int, float, str, list[Node], or {key: (line of the key, Node)}."""

    value: Any
    line: int  # counted from 1
    size: int = 1  # number of nodes, including this one
    depth: int = 0  # lists and mappings around the innermost value, including this one

    def plain(self) -> Any:
        """The value as JSON would have it. What an alias stands for is copied, so nothing is
        shared."""
        if isinstance(self.value, list):
            return [one.plain() for one in self.value]
        if isinstance(self.value, dict):
            return {key: one.plain() for key, (_, one) in self.value.items()}
        return self.value


def read(path: Path) -> Node:
    """Reads a file whose root is a mapping. Raises YamlError."""
    root = parse(read_text(path), str(path))
    if not isinstance(root.value, dict):
        raise YamlError(f"{path}:1", "the file is not a mapping; valid: lines of `key: value`")
    return root


def read_text(path: Path) -> str:
    """Reads a regular file of at most MAX_BYTES at once, and never waits for a FIFO or a device.
    Raises YamlError."""
    kind = kind_of_file(path)
    if kind not in ("a file", ""):
        raise YamlError(str(path), f"{kind}; valid: a file")
    try:
        # If the file has become a FIFO in the meantime, do not wait for it either.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            content = file.read(MAX_BYTES + 1) or b""
    except (OSError, ValueError) as error:  # ValueError: the name contains a NUL
        raise YamlError(str(path), getattr(error, "strerror", None) or str(error)) from None
    if len(content) > MAX_BYTES:
        raise YamlError(str(path), f"more than {MAX_BYTES} bytes; valid: at most that many")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise YamlError(f"{path}:{line}", "not a text file; valid: UTF-8") from None


def kind_of_file(path: Path) -> str:
    """ "a file", "a directory", "a FIFO", ...; empty if there is none."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return ""
    kinds = {
        stat.S_IFREG: "a file",
        stat.S_IFDIR: "a directory",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "no file")


def parse(text: str, place: str) -> Node:
    """Parses a text. `place` names its origin in errors: `place:line: ...`. Raises YamlError."""
    return _Reader(text, place).document()


def _line_of(event: yaml.Event) -> int:
    assert event.start_mark is not None  # a parser's events always have a mark
    return event.start_mark.line + 1


class _Reader:
    def __init__(self, text: str, place: str) -> None:
        self._text = text
        self._place = place
        self._nodes = 0
        self._anchors: dict[str, Node | None] = {}  # None: still being read

    def document(self) -> Node:
        if found := re.search("^%", self._text, re.MULTILINE):
            line = self._text.count("\n", 0, found.start()) + 1
            raise self._refused(line, "a directive of YAML; valid: no line that begins with %")
        if found := NO_CHARACTER.search(self._text):
            line = self._text.count("\n", 0, found.start()) + 1
            raise self._refused(line, f"{found[0]!r} is not a character; valid: UTF-8")
        try:
            self._parser = _Parser(self._text)
        except yaml.YAMLError as error:  # SafeLoader checks characters at once
            raise self._explained(error) from None
        try:
            self._next()  # the start of the stream
            if isinstance(event := self._next(), yaml.StreamEndEvent):
                return Node(None, 1)
            root = self._value(self._next(), 0)
            self._next()  # the end of the document
            if not isinstance(event := self._next(), yaml.StreamEndEvent):
                raise self._refused(_line_of(event), "a second document; valid: one")
            return root
        except yaml.YAMLError as error:
            raise self._explained(error) from None
        finally:
            self._parser.dispose()

    def _next(self) -> yaml.Event:
        event: yaml.Event = self._parser.get_event()
        return event

    def _value(self, event: yaml.Event, depth: int) -> Node:
        line = _line_of(event)
        if isinstance(event, yaml.AliasEvent):
            return self._anchored(event, line, depth)
        assert isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent)
        if event.tag is not None:
            raise self._refused(
                line, f"the tag {shown(event.tag)}; valid: none, and quotes around text"
            )
        self._count(line, 1, depth if isinstance(event, yaml.ScalarEvent) else depth + 1)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        if isinstance(event, yaml.ScalarEvent):
            node = Node(self._scalar(event, line), line)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self._list(line, depth)
        else:
            node = self._mapping(line, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _list(self, line: int, depth: int) -> Node:
        items = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            items.append(self._value(event, depth + 1))
        return _container(items, items, line)

    def _mapping(self, line: int, depth: int) -> Node:
        entries: dict[str, tuple[int, Node]] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            at = _line_of(event)
            if not isinstance(event, yaml.ScalarEvent) or event.tag or event.anchor:
                raise self._refused(at, "a key must be plain text")
            key = self._text_of(event, at)
            if key in entries:
                raise self._refused(at, f"key {shown(key)} is given twice; valid: once")
            entries[key] = at, self._value(self._next(), depth + 1)
        return _container(entries, [node for _, node in entries.values()], line)

    def _anchored(self, event: yaml.AliasEvent, line: int, depth: int) -> Node:
        name = event.anchor
        if name not in self._anchors:
            raise self._refused(line, f"no anchor {shown(name)} before it")
        node = self._anchors[name]
        if node is None:
            raise self._refused(line, f"anchor {shown(name)} contains itself; valid: no loop")
        self._count(line, node.size, depth + node.depth)
        return node

    def _count(self, line: int, nodes: int, depth: int) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise self._refused(line, f"more than {MAX_NODES} values; valid: at most that many")
        if depth > MAX_DEPTH:
            raise self._refused(
                line, f"nested more than {MAX_DEPTH} deep; valid: at most that deep"
            )

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> Any:
        text = self._text_of(event, line)
        if not event.implicit[0]:  # quoted, or a block
            return text
        if text in _WORDS:
            return _WORDS[text]
        if why := _ambiguous(text):
            raise self._refused(line, f"{shown(text)} {why}")
        number = number_of(text)
        if isinstance(number, int) and not -(1 << 63) <= number < 1 << 64:
            raise self._refused(line, f"{shown(text)} has more than 64 bits; valid: fewer digits")
        if number is not None and not math.isfinite(number):
            raise self._refused(line, f"{shown(text)} is not a JSON number; valid: a finite one")
        return text if number is None else number

    def _text_of(self, event: yaml.ScalarEvent, line: int) -> str:
        if found := _CONTROL.search(event.value):
            raise self._refused(line, f"the control character {found[0]!r} in a text")
        return event.value

    def _refused(self, line: int, text: str) -> YamlError:
        return YamlError(f"{self._place}:{line}", text)

    def _explained(self, error: yaml.YAMLError) -> YamlError:
        if isinstance(error, yaml.MarkedYAMLError):
            mark = error.problem_mark or error.context_mark
            if mark is None:
                return self._refused(1, str(error.problem))
            text = str(error.problem)
            # libyaml names neither a tab in the indentation nor another character that begins no
            # value.
            lines = self._text.split("\n")
            found = "".join(lines[mark.line : mark.line + 1])[mark.column : mark.column + 1]
            if found == "\t":
                text = "a tab; valid: spaces"
            elif found and "cannot start any token" in text:
                text = f"{found!r} begins no value; valid: quotes around the text"
            elif text.endswith(("',' or '}'", "',' or ']'")) and error.context_mark is not None:
                text += f", for the bracket in line {error.context_mark.line + 1}"
            elif text.endswith(("expected key", "expected '-' indicator")):
                text += " (is the line indented as those beside it?)"
            return self._refused(mark.line + 1, text)
        # A character that is not allowed in YAML; its position counts bytes.
        position = getattr(error, "position", 0)
        line = self._text.encode(errors="replace").count(b"\n", 0, position) + 1
        return self._refused(line, str(getattr(error, "reason", error)))


def _container(value: Any, nodes: list[Node], line: int) -> Node:
    size = 1 + sum(node.size for node in nodes)
    return Node(value, line, size, 1 + max((node.depth for node in nodes), default=0))


_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_AMBIGUOUS = {
    "yes|Yes|YES|on|On|ON": "is true to some and text to others; valid: true, or quotes",
    "no|No|NO|off|Off|OFF": "is false to some and text to others; valid: false, or quotes",
    r"[-+]?0[0-9_]+(\.[0-9_]*)?": (
        "is octal to some and decimal to others; valid: no zero in front, or quotes"
    ),
    "[-+]?0[box][0-9a-fA-F_]+": "is not a JSON number; valid: a decimal one, or quotes",
    r"(?=.*_)[-+]?[0-9][0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?": (
        "is a number to some and text to others; valid: no underscore, or quotes"
    ),
    r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?": (
        "is of base 60 to some and text to others; valid: a decimal number, or quotes"
    ),
    r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)": "is not a JSON number; valid: a finite one",
}


def _ambiguous(text: str) -> str:
    """Why YAML 1.1 and 1.2 read the text differently, and what to write instead; empty if they
    agree."""
    return next((why for form, why in _AMBIGUOUS.items() if re.fullmatch(form, text)), "")


def number_of(text: str) -> int | float | None:
    """The number that a text means in JSON; None if it means none. Infinite beyond a float's
    range."""
    if _WHOLE.fullmatch(text):
        return int(text[:22])  # with more digits it exceeds 64 bits anyway
    return float(text) if _NUMBER.fullmatch(text) else None


def shown(value: object, most: int = 60) -> str:
    """A value for an error message: as Python writes it, with the middle left out if it is long."""
    if isinstance(value, str) and len(value) > 2 * most:
        value = value[:most] + "…" + value[-most // 2 :]
    text = repr(value)
    return text if len(text) <= 2 * most else f"{text[:most]}…{text[-most // 2 :]}"
