"""`tiercast controller`: the controller on its own, for a network that runs already."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand


class Unread(TyperCommand):
    """A command that reads its arguments itself, --help among them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # Typer does not export contexts
        ctx.args = args
        return args


def controller(context: typer.Context) -> None:
    """Run the controller on its own, against the switches in a YAML file."""
    # Importing it takes longer than all that other commands need.
    from tiercast_controller.__main__ import main

    try:
        status = main(context.args, "tiercast controller")
    except SystemExit as end:  # argparse's, after --help and wrong arguments
        status = end.code if isinstance(end.code, int) else 0
    raise typer.Exit(status)
