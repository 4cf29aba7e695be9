"""What the commands share: the terminal, and the command line as it was typed."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from tiercast_lab.base import binaries

# Tables need not be folded to fit a log.
console = Console(width=None if sys.stdout.isatty() else 120)


def say(text: str, to: Console = console) -> None:
    """Prints a line as it is: not folded, not coloured."""
    to.print(text, highlight=False, markup=False, soft_wrap=True)


def print_report(path: Path, to: Console = console) -> None:
    say(f"report: {path}", to)


def typed() -> list[str]:
    """The command line, for the report's "do it again"."""
    return [binaries.COMMAND, *sys.argv[1:]]
