"""What the commands share: the terminal, and the command line as it was typed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from tiercast_lab.base import binaries

# Tables need not be folded to fit a log.
console = Console(width=None if sys.stdout.isatty() else 120)

AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]


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
    """The command line, for the report's "do it again"."""
    return [binaries.COMMAND, *sys.argv[1:]]
