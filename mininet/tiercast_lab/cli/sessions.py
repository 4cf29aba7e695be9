"""`tiercast sessions`: start, change, stop and list the sessions of a running tiercast-send."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from tiercast_controller.base.limits import MAX_LAYERS, MAX_SESSION

from tiercast_lab.base.errors import InputError, RunFailed
from tiercast_lab.base.units import format_rate

# gRPC is imported where it is used, so that the other commands need not wait for it.
if TYPE_CHECKING:
    from tiercast.v1 import sender_pb2, session_pb2
    from tiercast_controller.agents.sender import SenderControl

app = typer.Typer(
    help="Sessions of a tiercast-send that was started with --control.", no_args_is_help=True
)

Address = Annotated[
    str, typer.Option("--sender", help="The address of its --control: unix:/path or host:port.")
]
Number = Annotated[int, typer.Argument(min=0, max=MAX_SESSION, help="The session's number.")]
TopRank = Annotated[
    int | None,
    typer.Option(
        min=-1, max=MAX_LAYERS - 1, help="Highest rank that anybody subscribes to; -1: nobody."
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A scheme's parameter; repeatable."),
]


@app.command("list")
def list_sessions(sender: Address) -> None:
    """Every running session: layers, rates, exact counts."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    for name in ("session", "scheme", "layers", "sending", "rate", "sent", "dropped"):
        table.add_column(name, justify="left" if name == "scheme" else "right")
    with _connect(sender) as control:
        for state in control.list_sessions().sessions:
            table.add_row(*_row(state))
    Console().print(table)


def _row(state: sender_pb2.SessionState) -> tuple[str, ...]:
    return (
        str(state.session.session),
        state.session.scheme or "sim",
        str(len(state.layers)),
        str(sum(layer.rate_Bps > 0 for layer in state.layers)),
        format_rate(8 * sum(layer.rate_Bps for layer in state.layers)),
        str(sum(layer.sent_packets for layer in state.layers)),
        str(sum(layer.dropped_packets for layer in state.layers)),
    )


@app.command()
def start(
    sender: Address,
    session: Annotated[int | None, typer.Argument(min=0, max=MAX_SESSION)] = None,
    file: Annotated[
        Path | None, typer.Option(help="Start the sessions of a file of tiercast-send --sessions.")
    ] = None,
    count: Annotated[
        int, typer.Option(min=1, help="Number of sessions, numbered upwards from the first.")
    ] = 1,
    scheme: Annotated[str, typer.Option(help="Congestion control.")] = "sim",
    layers: Annotated[int, typer.Option(min=1, max=MAX_LAYERS)] = 1,
    packet_size: Annotated[
        int | None, typer.Option(min=1, help="IP bytes; 1000 by default.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**64 - 1, help="Seed of random numbers.")] = 1,
    top_rank: TopRank = None,
    settings: Settings = None,
) -> None:
    """Start a session, or those of a file, beside the running ones."""
    from tiercast.v1 import session_pb2

    if (session is None) == (file is None):
        raise InputError("sessions start: give either a session's number or --file")
    if file is not None:
        specs = _read(file)
    elif session is not None:
        spec = session_pb2.SessionSpec(
            session=session,
            count=count,
            scheme=scheme,
            layers=layers,
            packet_size=packet_size or 0,
            seed=seed,
            parameters=_parameters(settings),
        )
        if top_rank is not None:
            spec.top_rank = top_rank
        specs = [spec]
    with _connect(sender) as control:
        control.start(specs)


@app.command()
def change(
    sender: Address, session: Number, top_rank: TopRank = None, settings: Settings = None
) -> None:
    """Change a session's top rank or parameters; --set restarts its congestion control."""
    if top_rank is None and not settings:
        raise InputError("sessions change: nothing to change; give --top-rank or --set")
    with _connect(sender) as control:
        control.change(session, top_rank, _parameters(settings))


@app.command()
def stop(sender: Address, session: Number) -> None:
    """Stop a session; the others go on."""
    with _connect(sender) as control:
        control.stop(session)


@contextmanager
def _connect(address: str) -> Iterator[SenderControl]:
    """Connects to the sender. Its errors become errors of the command line."""
    from tiercast_controller.agents.sender import SenderControl
    from tiercast_controller.base.errors import AgentError, RefusedError

    try:
        with SenderControl(address) as control:
            yield control
    except RefusedError as error:
        raise InputError(str(error)) from None
    except AgentError as error:
        raise RunFailed(str(error)) from None


def _parameters(settings: list[str] | None) -> dict[str, str]:
    parameters = {}
    for setting in settings or ():
        name, equals, value = setting.partition("=")
        if not (name and equals and value):
            raise InputError(f"--set {setting}: not NAME=VALUE, such as sim.delta=0.875")
        parameters[name] = value
    return parameters


def _read(file: Path) -> list[session_pb2.SessionSpec]:
    from google.protobuf import json_format
    from tiercast.v1 import session_pb2

    try:
        read = json_format.Parse(file.read_text(), session_pb2.SessionList())
    except (OSError, json_format.ParseError) as error:
        raise InputError(f"{file}: {error}") from None
    return list(read.sessions)
