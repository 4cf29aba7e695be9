"""`tiercast watch`: a web page of runs, under way or stored."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import InputError
from tiercast_lab.cli.output import Results
from tiercast_lab.cli.stored_runs import RUN_HELP, run_names
from tiercast_lab.cli.stored_runs import found as folder_of

DEFAULT_PORT = 8173
DEFAULT = f"127.0.0.1:{DEFAULT_PORT}"
NICENESS = 10  # the programs of a run under way go first


def watch(
    run: Annotated[
        Path | None,
        typer.Argument(
            metavar="[RUN]", help=f"{RUN_HELP} None: the list.", autocompletion=run_names
        ),
    ] = None,
    listen: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS[:PORT]",
            help="Where to listen: loopback, unless others are to read the runs, too.",
        ),
    ] = DEFAULT,
    tls: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Of `tiercast keys`, with the controller's files: HTTPS, for browsers that show a "
            "certificate of role observer or controller.",
        ),
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure", help="Beyond loopback without TLS: everyone who reaches it can read."
        ),
    ] = False,
    results: Results = binaries.RESULTS,
) -> None:
    """Show runs on a web page: those under way as they go on, stored ones at any point in their
    time.

    The page shows the network with its links' load, queues and marks, rates, subscriptions and TCP
    flows, and says of each receiver why its rate is what it is. It reads only what runs store, and
    ends with Ctrl-C (exit status 130).
    """
    from tiercast_controller.base.tls import KeyRole, Tls

    from tiercast_lab.base.certificates import names_in
    from tiercast_lab.base.interrupt import Interrupt
    from tiercast_lab.watch import server
    from tiercast_lab.watch.store import RunStore

    folder, name = results.absolute(), None
    if run is not None:
        directory = folder_of(run, results)
        folder, name = directory.parent, RunStore(directory.parent).directory(directory.name).name
    os.nice(NICENESS)
    address, port = address_and_port(listen)
    files = None if tls is None else Tls.of_folder(tls, KeyRole.CONTROLLER)
    if files is None and not insecure and not server.is_loopback(address):
        raise InputError(
            f"--listen {listen}: everyone who reaches this address could read the runs; valid: "
            "--tls FOLDER (`tiercast keys FOLDER` makes one), --insecure, or an address of the "
            "loopback device"
        )
    with server.listening(address, port) as place:
        at = place.getsockname()[1]
        host = f"[{address}]" if ":" in address else address
        # Whoever opens the page on this machine needs an address that a browser can open.
        shown = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)
        path = "" if name is None else f"runs/{name}"
        print(f"{'http' if files is None else 'https'}://{shown}:{at}/{path}", flush=True)
        if files is None and not server.is_loopback(address):
            print(
                f"warning: everyone who reaches {host}:{at} can read the runs in {folder}: there "
                "is no authentication (nor can anything be changed)",
                flush=True,
            )
        certified = (
            [] if files is None or files.certificate is None else names_in(files.certificate)
        )
        hosts = server.hosts_of(host, certified)
        served = server.server_of(server.application(folder, hosts), files)

        def end() -> None:
            served.should_exit = True

        with Interrupt() as interrupt, interrupt.ending(end):
            served.run(sockets=[place])
            interrupt.check()


def address_and_port(listen: str) -> tuple[str, int]:
    """Raises InputError."""
    address, colon, port = listen.rpartition(":")
    bare_ipv6 = ":" in address and not address.startswith("[")
    if not colon or listen.endswith("]") or bare_ipv6:
        address, port = listen, str(DEFAULT_PORT)
    if not (port.isascii() and port.isdigit() and int(port) < 1 << 16 and address.strip("[]")):
        raise InputError(
            f"--listen {listen}: not an address and a port; valid: such as 127.0.0.1:{DEFAULT_PORT}"
            f", [::1]:{DEFAULT_PORT}, 0.0.0.0; port 0 is any free one"
        )
    return address.strip("[]"), int(port)
