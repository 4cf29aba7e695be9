"""`tiercast keys`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tiercast_lab.cli.output import say


def keys(
    folder: Annotated[Path, typer.Argument(metavar="NEW-LAB", help="A folder that it makes.")],
    host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A name or address by which browsers and Prometheus reach a server, besides "
            "localhost; repeatable.",
        ),
    ] = None,
    days: Annotated[
        int, typer.Option(min=1, max=3650, help="How long the certificates are valid.")
    ] = 365,
) -> None:
    """Make the keys of a lab whose programs talk over TCP: one for each role.

    Writes an authority's certificate (ca.pem), and certificate and key for a controller, for agents
    (switches, senders and receivers) and for observers. Copy ca.pem and the two files of its role
    to a machine; programs take the folder by --tls. Controllers may make every call, agents serve
    and report, observers read. Nothing is overwritten. The authority's own key is not kept: for
    other certificates make a new folder.
    """
    from tiercast_lab.base.certificates import make_keys

    make_keys(folder, host or (), days)
    say(f"{folder}: ca.pem, and .pem and .key of controller, agent and observer; {days} days")
