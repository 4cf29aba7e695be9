"""`tiercast sessions`: start, change, stop and list the sessions of a running tiercast-send."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from tiercast_controller.base.bounded_yaml import kind_of_file
from tiercast_controller.base.limits import MAX_LAYERS, MAX_SESSION
from tiercast_controller.base.units import format_rate

from tiercast_lab.base.errors import InputError, RunFailed
from tiercast_lab.cli.output import examples, print_json
from tiercast_lab.cli.refusals import Commands

# gRPC is imported where it is used, so that the other commands need not wait for it.
if TYPE_CHECKING:
    from tiercast.v1 import sender_pb2, session_pb2
    from tiercast_controller.agents.keys import RunKeys
    from tiercast_controller.agents.sender import SenderControl

app = typer.Typer(
    cls=Commands,
    help="Sessions of a tiercast-send that was started with --control.",
    no_args_is_help=True,
)

Address = Annotated[
    str, typer.Option("--sender", help="The address of its --control: unix:/path or host:port.")
]
TlsFolder = Annotated[
    Path | None,
    typer.Option(
        "--tls",
        metavar="FOLDER",
        help="Of `tiercast keys`, with the controller's files, or the observer's.",
    ),
]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Connect to an address on TCP without TLS.")
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


SENDER = "--sender unix:/run/send.sock"


@app.command("list", epilog=examples(f"tiercast sessions list {SENDER}"))
def list_sessions(
    sender: Address,
    tls: TlsFolder = None,
    insecure: Insecure = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a ListSessionsResponse of tiercast.v1 as JSON.")
    ] = False,
) -> None:
    """Every running session: layers, rates, exact counts."""
    from google.protobuf import json_format
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    for name in ("session", "scheme", "layers", "sending", "rate", "sent", "dropped"):
        table.add_column(name, justify="left" if name == "scheme" else "right")
    with _connect(sender, tls, insecure) as control:
        found = control.list_sessions()
    if as_json:
        print_json(
            json_format.MessageToDict(
                found, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
            )
        )
        return
    for state in found.sessions:
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


@app.command(
    epilog=examples(
        f"tiercast sessions start {SENDER} 7 --scheme mlda --set mlda.max_rate=4Mbit/s",
        f"tiercast sessions start {SENDER} --file more.json",
        f"tiercast sessions start {SENDER} 7 --keys run.secret",
    )
)
def start(
    sender: Address,
    session: Annotated[int | None, typer.Argument(min=0, max=MAX_SESSION)] = None,
    file: Annotated[
        Path | None, typer.Option(help="Start the sessions of a file of tiercast-send --sessions.")
    ] = None,
    count: Annotated[
        int,
        typer.Option(
            min=1,
            max=MAX_SESSION + 1,
            help="Number of sessions, numbered upwards from the first.",
        ),
    ] = 1,
    scheme: Annotated[str, typer.Option(help="Congestion control.")] = "sim",
    layers: Annotated[int, typer.Option(min=1, max=MAX_LAYERS)] = 1,
    packet_size: Annotated[
        int | None, typer.Option(min=1, max=2**32 - 1, help="IP bytes; 1000 by default.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, max=2**64 - 1, help="Seed of random numbers; by default another one each time."
        ),
    ] = None,
    top_rank: TopRank = None,
    settings: Settings = None,
    keys: Annotated[
        Path | None,
        typer.Option(
            "--keys",
            metavar="SECRET",
            help="Seal messages, with keys of this file's secret; receivers have theirs of "
            "`sessions keys`.",
        ),
    ] = None,
    tls: TlsFolder = None,
    insecure: Insecure = False,
) -> None:
    """Start a session, or those of a file, beside the running ones."""
    from tiercast.v1 import session_pb2

    if (session is None) == (file is None):
        raise InputError("sessions start: give either a session's number or --file")
    if file is not None:
        if keys is not None:
            raise InputError("sessions start: --keys is for a session's number; a file has `keys`")
        specs = _read(file)
    elif session is not None:
        if (last := session + count - 1) > MAX_SESSION:
            raise InputError(
                f"sessions start: --count {count}: sessions up to {last}; valid: up to "
                f"{MAX_SESSION}"
            )
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
        specs = [spec] if keys is None else _with_keys(spec, keys)
    with _connect(sender, tls, insecure) as control:
        control.start(specs)


@app.command(epilog=examples(f"tiercast sessions change {SENDER} 7 --top-rank 2"))
def change(
    sender: Address,
    session: Number,
    top_rank: TopRank = None,
    settings: Settings = None,
    tls: TlsFolder = None,
    insecure: Insecure = False,
) -> None:
    """Change a session's top rank or parameters; --set restarts its congestion control."""
    if top_rank is None and not settings:
        raise InputError("sessions change: nothing to change; give --top-rank or --set")
    with _connect(sender, tls, insecure) as control:
        control.change(session, top_rank, _parameters(settings))


@app.command(epilog=examples(f"tiercast sessions stop {SENDER} 7"))
def stop(
    sender: Address, session: Number, tls: TlsFolder = None, insecure: Insecure = False
) -> None:
    """Stop a session; the others go on."""
    with _connect(sender, tls, insecure) as control:
        control.stop(session)


@app.command(
    epilog=examples(
        "tiercast sessions keys run.secret 7 h15.keys --receiver 15",
        "tiercast sessions keys run.secret 7 sender.keys",
    )
)
def keys(
    secret: Annotated[
        Path,
        typer.Argument(metavar="SECRET", help="A file with the secret; made if there is none."),
    ],
    session: Number,
    output: Annotated[Path, typer.Argument(metavar="NEW-FILE", help="A file that it makes.")],
    receiver: Annotated[
        int | None,
        typer.Option(min=0, max=2**32 - 1, help="The receiver's --id; without it, the sender's."),
    ] = None,
) -> None:
    """Make a file for --keys of tiercast-host, or of tiercast-send, where no lab hands out keys.

    All keys of a secret belong together. Each receiver has a file of its own, which nobody else may
    read. A secret serves one run: with the same keys, messages of an earlier run are refused only
    as long as the clocks of senders and receivers are not set back.
    """
    from google.protobuf import json_format

    message = _secret(secret).of_session(session).message(receiver)
    try:
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise InputError(f"{output}: {error.strerror}; valid: a file that is not there") from None
    try:
        with open(descriptor, "w") as file:
            file.write(json_format.MessageToJson(message, indent=None) + "\n")
    except OSError as error:
        output.unlink(missing_ok=True)  # a part of it would be no keys, and in the way
        raise InputError(f"{output}: {error.strerror}; valid: a disk with free space") from None


def _secret(file: Path) -> RunKeys:
    from tiercast_controller.agents.keys import RunKeys
    from tiercast_controller.base.errors import ConfigurationError

    try:
        return RunKeys.kept_in(file)
    except ConfigurationError as error:
        raise InputError(str(error)) from None


def _with_keys(spec: session_pb2.SessionSpec, secret: Path) -> list[session_pb2.SessionSpec]:
    """The sessions of a spec, each by itself, with its keys."""
    from tiercast.v1 import session_pb2

    run = _secret(secret)
    specs = []
    for i in range(spec.count):
        one = session_pb2.SessionSpec()
        one.CopyFrom(spec)
        one.session, one.count = spec.session + i, 1
        if spec.HasField("seed"):
            one.seed = (spec.seed + i) % 2**64
        one.keys.CopyFrom(run.of_session(one.session).message(None))
        specs.append(one)
    return specs


@contextmanager
def _connect(address: str, tls: Path | None, insecure: bool) -> Iterator[SenderControl]:
    """Connects to the sender. Its errors become errors of the command line."""
    from tiercast_controller.agents.sender import SenderControl
    from tiercast_controller.base.errors import AgentError, RefusedError
    from tiercast_controller.base.tls import Access, KeyRole, key_file

    reads_alone = tls is not None and not (tls / key_file(KeyRole.CONTROLLER)).exists()
    role = KeyRole.OBSERVER if reads_alone else KeyRole.CONTROLLER
    files = Access(tls, insecure).at("--sender", address, role, KeyRole.AGENT)
    try:
        with SenderControl(address, files) as control:
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

    if (kind := kind_of_file(file)) not in ("a file", ""):  # a FIFO would block
        raise InputError(f"{file}: {kind}; valid: a file")
    try:
        read = json_format.Parse(file.read_text(), session_pb2.SessionList())
    except UnicodeDecodeError:
        raise InputError(f"{file}: not a text file; valid: UTF-8") from None
    except (OSError, json_format.ParseError) as error:
        raise InputError(f"{file}: {error}") from None
    return list(read.sessions)
