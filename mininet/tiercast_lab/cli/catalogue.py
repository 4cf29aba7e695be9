"""What there is: `tiercast list`, `schemes` and `measures`; and what this machine can do with it:
`tiercast doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tiercast_lab.base.errors import EXIT_INPUT, InputError, among
from tiercast_lab.cli.output import AsJson, console, print_json, say


def list_experiments(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FOLDER]", help="List only what is in this folder and those below it."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the experiments and what each shows, the figures of the papers, the sweeps, and files of
    your own in the current folder."""
    from tiercast_lab.cli import listing

    own = listing.own(Path()) if folder is None else listing.own(folder, below=True)
    provided = dict.fromkeys(listing.COMMAND_OF, list[listing.Entry]()) | listing.provided(folder)
    if as_json:
        lists = {kind: listing.as_json(entries) for kind, entries in provided.items()}
        print_json(lists | {"own": listing.as_json(own)})
        return
    headings = [
        ("", provided["experiments"]),
        ("for `tiercast figure` and `tiercast reproduce`:", provided["figures"]),
        ("for `tiercast sweep`:", provided["sweeps"]),
    ]
    for command in listing.COMMAND_OF.values():
        mine = [one for one in own if one.command == command]
        headings.append((f"your own, for `tiercast {command}`:", mine))
    if not any(entries for _, entries in headings):
        say(f"no experiment, figure or sweep in {folder}")
    is_first = True
    for heading, entries in headings:
        if heading and entries:
            say(heading if is_first else f"\n{heading}")
        is_first = is_first and not entries
        for one in entries:
            say(f"{one.name:<20} {one.title}".rstrip())


def schemes(
    name: Annotated[
        str | None, typer.Argument(metavar="SCHEME", help="Show this scheme's parameters.")
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the table of docs/protocols/SCHEME.md.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the schemes, or one scheme's parameters with defaults, ranges and sources."""
    from tiercast_lab.experiment.schemes import known_schemes
    from tiercast_lab.show.tables import schemes as tables

    known = known_schemes()
    if name is not None and name not in known:
        raise InputError(f"unknown scheme {among(name, known)}")
    if as_json:
        chosen = list(known.values()) if name is None else [known[name]]
        print_json([tables.as_json(one) for one in chosen])
    elif name is None:
        if markdown:
            raise InputError(
                "--markdown shows one scheme; valid: tiercast schemes SCHEME --markdown"
            )
        console.print(tables.schemes_table(known))
    elif markdown:
        print(tables.parameters_markdown(known[name]))
    else:
        console.print(tables.parameters_table(known[name]))


def measures(
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the table of docs/experiments.md.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List every measure: its name in `expect`, its definition and its unit."""
    from tiercast_lab.measures import table
    from tiercast_lab.show.tables.measures import measures_table

    if as_json:
        print_json(table.as_json())
    elif markdown:
        print(table.markdown())
    else:
        console.print(measures_table())


def doctor(
    dpdk: Annotated[
        bool, typer.Option("--dpdk", help="Check for tiercast-send on a NIC (docs/dpdk.md).")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what this machine can and cannot do, what follows from that, and what to do about it.

    Exit status: 0 if `tiercast run` can work in Mininet, 2 if it cannot (--runtime ns3 needs only
    the line `virtual time`); with --dpdk always 0.
    """
    from tiercast_lab.cli import doctor_dpdk
    from tiercast_lab.cli.doctor import examine, show

    findings = doctor_dpdk.examine() if dpdk else examine()
    if as_json:
        print_json([vars(one) for one in findings])
    else:
        show(findings, console)
    if any(finding.needed and not finding.ok for finding in findings):
        raise typer.Exit(EXIT_INPUT)
