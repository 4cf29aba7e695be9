"""What the commands share: the terminal, and the command line as it was typed."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from tiercast_controller.base import plugins

from tiercast_lab.base import binaries

if TYPE_CHECKING:
    from typing_extensions import Buffer

# Tables need not be folded to fit a log.
console = Console(width=None if sys.stdout.isatty() else 200)

AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]
Results = Annotated[Path, typer.Option(help="Where runs are stored.")]


class OutputError(OSError):
    """Standard output refuses what is written to it: its disk is full, for example."""


class _Output(io.FileIO):
    def write(self, data: Buffer, /) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(error.errno, error.strerror) from None


def name_output_errors() -> None:
    """From now on errors of standard output are OutputErrors, apart from those of other files."""
    before = sys.stdout
    if before is not sys.__stdout__ or not isinstance(before, io.TextIOWrapper):
        return
    before.flush()
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_Output(before.fileno(), "w", closefd=False)),
        encoding=before.encoding,
        errors=before.errors,
        line_buffering=before.line_buffering,
    )


def console_beside(as_json: bool) -> Console:
    """The terminal of what a person reads: standard error where standard output is to hold JSON and
    nothing else."""
    return Console(stderr=True) if as_json else console


def examples(*lines: str) -> str:
    """The end of a command's help. An empty line between the examples keeps each on its own."""
    return "\n\n".join(("Examples:", *lines))


def print_json(value: Any) -> None:
    from tiercast_lab.results.storage import to_json  # imports polars, which not every command uses

    print(to_json(value))


def say(text: str, to: Console = console) -> None:
    """Prints a line as it is: not folded, not coloured."""
    to.print(text, highlight=False, markup=False, soft_wrap=True)


def print_report(path: Path, to: Console = console) -> None:
    say(f"report: {path}", to)


def typed() -> list[str]:
    """The command line, for the report's "do it again", with what names code outside the tree."""
    variables = (plugins.MEASURES, plugins.MARKINGS)
    named = [f"{name}={os.environ[name]}" for name in variables if os.environ.get(name)]
    return [*(["env", *named] if named else []), binaries.COMMAND, *sys.argv[1:]]
