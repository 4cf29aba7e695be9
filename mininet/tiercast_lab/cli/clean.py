"""`tiercast clean`."""

from __future__ import annotations

from typing import Annotated

import typer

from tiercast_lab.cli.output import AsJson, print_json, say


def clean(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be removed.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove what an ended lab left on this machine, and nothing else.

    That is: namespaces of its nodes with the processes in them, interfaces, sockets and temporary
    folders. A lab that is killed usually leaves only its folder of sockets. What belongs to a run
    that is alive stays, and so do stored runs.
    """
    from tiercast_lab.run import leftovers

    found = leftovers.find()
    if not dry_run:
        leftovers.remove(found)
    if as_json:
        folders = {"folders": [str(folder) for folder in found.folders]}
        print_json({"removed": not dry_run} | vars(found) | folders)
        return
    for run in found.alive:
        say(f"left alone: run {run}, which is alive")
    done = "would remove" if dry_run else "removed"
    for name, processes in found.namespaces.items():
        say(f"{done}: the namespace of {name}, with {len(processes)} processes")
    for interface in found.interfaces:
        say(f"{done}: interface {interface}")
    for folder in found.folders:
        say(f"{done}: {folder}")
    if not found.any:
        say("nothing to remove")
