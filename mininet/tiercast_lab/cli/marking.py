"""`tiercast marking`: judges kinds of marking by themselves, side by side."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from tiercast_controller.base.bounded_yaml import kind_of_file

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import InputError, among, writing
from tiercast_lab.base.folders import resolved
from tiercast_lab.cli.output import console, print_json, print_report, say, typed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table
    from tiercast_controller.network.marking import Marking

    from tiercast_lab.experiment.programs import Files
    from tiercast_lab.study.marking import Link
    from tiercast_lab.study.marking_results import Judgement

ProgramOption = Annotated[
    Path | None,
    typer.Option(
        "--program", metavar="FILE", help="A P4 program of your own, .p4 or .json "
        "(docs/your-own-program.md).",
    ),
]  # fmt: skip
# Of a program that --program may name.
_SUFFIXES = (".p4", ".json")
# Kinds that have no default for a key they need.
_NEEDED = {"threshold": {"threshold": 20}, "drop_tail": {"limit": 50}}


def marking(
    kinds: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KIND]...",
            help="Kinds of `marking`, or the whole key, such as '{kind: red, ecn: true}'. All "
            "kinds of the program if none.",
        ),
    ] = None,
    rate: Annotated[str, typer.Option(help="Of the link.")] = "8Mbit/s",
    queue: Annotated[str, typer.Option(help="Packets that may wait.")] = "200p",
    packet_size: Annotated[str, typer.Option(help="Of all packets.")] = "1000B",
    seconds: Annotated[
        float, typer.Option(min=1, max=10_000, help="Virtual time at each load.")
    ] = 60.0,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1)] = 1,
    flows: Annotated[
        int, typer.Option(min=0, max=100, help="TCP flows where there are several; 0: no TCP.")
    ] = 10,
    rtt: Annotated[str, typer.Option(help="TCP's round trip without queueing.")] = "40ms",
    tcp: Annotated[str, typer.Option(help="Classic TCP's congestion control.")] = "reno",
    program: ProgramOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
    results: Annotated[Path, typer.Option(help="Where the report goes.")] = binaries.RESULTS,
) -> None:
    """Judge markings by themselves: one link, packet by packet, under traffic that does not react
    and under TCP.

    For each kind: its probability beside its equation, waits, losses and utilisation over load 0.5
    to 2, steps of load and rate, what falls on which class of traffic, and what it costs; and under
    one TCP flow, several, and DCTCP beside Classic ones: utilisation, waits and fairness. The P4
    program's own code decides, in virtual time. The report is results/marking/report.html. Exit
    status: 0 judged, 2 bad input, 130 interrupted.
    """
    from rich.table import Table
    from tiercast_controller.base import units

    from tiercast_lab.experiment.programs import named, own
    from tiercast_lab.experiment.quantities import MAX_PACKET_SIZE, MIN_FLOW_PACKET_SIZE
    from tiercast_lab.experiment.tcp_stack import OF_NS3
    from tiercast_lab.show.marking_report import settled, with_names, write_report
    from tiercast_lab.study.beside_ns3 import is_built
    from tiercast_lab.study.marking import MAX_QUEUE, Link
    from tiercast_lab.study.marking_results import judge
    from tiercast_lab.study.marking_tcp import Tcp

    def read(option: str, parse: Any, text: str) -> Any:
        try:
            value = parse(text)
        except ValueError as error:
            raise InputError(f"--{option}: {error}") from None
        if value < 1:
            raise InputError(f"--{option} is {text}; valid: above 0")
        return value

    link = Link(
        read("rate", units.parse_rate, rate),
        read("queue", units.parse_packets, queue),
        read("packet-size", units.parse_size, packet_size),
    )
    if link.queue > MAX_QUEUE:
        raise InputError(f"--queue is {queue}; valid: 1p to {MAX_QUEUE}p")
    if not 28 <= link.packet_bytes <= 65_000:
        raise InputError(f"--packet-size is {packet_size}; valid: 28B to 65000B")
    under = None
    if flows and not is_built():
        say(f"no TCP: {binaries.from_here(binaries.NS3)} is not built; make programs makes it")
    elif flows:
        under = Tcp(flows, read("rtt", units.parse_duration, rtt), tcp)
        if tcp not in OF_NS3:
            raise InputError(f"--tcp: ns-3 has no {among(tcp, OF_NS3)}")
        if not MIN_FLOW_PACKET_SIZE <= link.packet_bytes <= MAX_PACKET_SIZE:
            raise InputError(
                f"--packet-size is {packet_size}; valid with TCP: {MIN_FLOW_PACKET_SIZE}B to "
                f"{MAX_PACKET_SIZE}B (without: --flows 0)"
            )
    if program is not None:
        require_program(program)
    files, declared = (own(), {}) if program is None else named(program, "--program")
    binaries.require(binaries.MARKING, files.json, files.p4info)
    chosen = [_marking(text, declared, link) for text in kinds or _all_kinds(files, declared)]
    folder = resolved(results) / "marking"
    with writing(folder):  # before the trials, which take long
        folder.mkdir(parents=True, exist_ok=True)
    judged = []
    with console.status("") as status:
        for number, one in enumerate(chosen, 1):
            text = f"{one.kind} ({number} of {len(chosen)})"
            if console.is_terminal:
                status.update(text)
            elif not as_json:
                say(text)
            judged.append(judge(one, link, seconds, seed, files, under))
    judged = with_names(judged)
    with writing(folder):
        page = write_report(judged, link, seconds, folder, shlex.join(typed()), under)
    if as_json:
        print_json({"report": str(page), "judged": [one.as_json() for one in judged]})
        return
    table = Table(box=None, header_style="dim")
    headings = ("kind", "equation missed", "wait p95 at 0.95", "at 1.2", "carried at 1.2",
                "load step settles", "state of a port", "time")  # fmt: skip
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "kind" else "right")
    for result in judged:
        below, above = (
            next(r for r in result.loads if r.load == load and r.arrivals == "poisson")
            for load in (0.95, 1.2)
        )
        table.add_row(
            result.name,
            f"{result.outside} of {len(result.curve)}" if result.curve else "–",
            f"{1e3 * below.wait_p95:.1f} ms",
            f"{1e3 * above.wait_p95:.1f} ms",
            f"{above.utilisation:.3f}",
            settled(result.steps[0]),
            f"{result.state_bits} bit{'s' * (result.state_bits != 1)}",
            f"{result.cost:.2f}",
        )
    console.print(table)
    say("time: of a trial, the same one without marking = 1")
    if under is not None:
        console.print(_tcp_table(judged))
    print_report(page)


def require_program(program: Path) -> None:
    """Raises InputError for a --program that is no file. Later it would be a key of an experiment,
    and be named as one."""
    valid = f"valid: a {' or '.join(_SUFFIXES)} file (relative to the current folder)"
    if (kind := kind_of_file(program)) != "a file":
        raise InputError(
            f"--program {program}: {f'is {kind}' if kind else 'no such file'}; {valid}"
        )
    if program.suffix not in _SUFFIXES:
        raise InputError(f"--program {program}; {valid}")


def _tcp_table(judged: Sequence[Judgement]) -> Table:
    from rich.table import Table

    from tiercast_lab.show.marking_report import TCP_HEADINGS, tcp_row

    table = Table(box=None, header_style="dim")
    for heading in TCP_HEADINGS:
        table.add_column(heading, justify="left" if heading in ("kind", "flows") else "right")
    for one in judged:
        for load in one.tcp:
            table.add_row(*tcp_row(one.name, load))
    return table


def _all_kinds(files: Files, declared: dict[str, type[Marking]]) -> list[str]:
    from tiercast_controller.network.marking import KINDS
    from tiercast_controller.p4runtime.manifest import EVERY_KIND

    kinds = files.load().manifest.marking
    found = [kind for kind in KINDS if EVERY_KIND in kinds or kind in kinds]
    if not found and not declared:
        raise InputError(f"--program {files.json}: its manifest names no marking")
    return [*found, *declared]


def _marking(text: str, declared: dict[str, type[Marking]], link: Link) -> Marking:
    """`declared` are the kinds of a program. Raises InputError."""
    from pydantic import TypeAdapter, ValidationError
    from tiercast_controller.base.bounded_yaml import parse
    from tiercast_controller.base.errors import ConfigurationError, ParameterError
    from tiercast_controller.base.plugins import without
    from tiercast_controller.network.marking import (
        KINDS,
        OF_PROGRAMS,
        PLUGINS,
        AnyMarking,
        PortPolicy,
    )

    kinds = KINDS | declared
    if text.lstrip().startswith("{"):
        try:
            data = parse(text, "marking").plain()
        except ConfigurationError as error:
            raise InputError(str(error)) from None
    elif text in kinds:
        data = {"kind": text} | _NEEDED.get(text, {})
    else:
        raise InputError(f"no kind of marking {among(text, kinds, without(PLUGINS))}")
    try:
        found: Marking = TypeAdapter(AnyMarking).validate_python(
            data, context={OF_PROGRAMS: declared}
        )
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{text}: {place or 'marking'}: {first['msg']}") from None
    try:
        PortPolicy(found, link.traffic).entry(1)
    except ParameterError as error:
        raise InputError(f"{text}: {error}") from None
    return found
