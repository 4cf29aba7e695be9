"""`tiercast bench`: benchmarks of a device by RFC 2544 and RFC 3918."""

from __future__ import annotations

import json
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from tiercast_controller.base import units

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import InputError, among, writing
from tiercast_lab.base.folders import resolved
from tiercast_lab.base.whole_file import write_whole
from tiercast_lab.cli.output import console, print_json, print_report, say, typed

if TYPE_CHECKING:
    from tiercast_lab.bench.suite import Suite

SIZES = (64, 128, 256, 512, 1024, 1280, 1518)  # RFC 2544 section 9.1, RFC 3918 section 3.1.3
QUICK_SIZES = (64, 512, 1518)
SMALLEST, LARGEST = 64, 9000


def bench(
    device: Annotated[
        list[Path],
        typer.Option(
            help="YAML that describes the device (docs/bench.md); several are measured one after "
            "the other, and put side by side.",
            metavar="FILE",
        ),
    ],
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="TEST", help="Only this test; may be repeated."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Three frame sizes, trials of 1 s, coarse searches.")
    ] = False,
    sizes: Annotated[
        str | None,
        typer.Option(help="Frame sizes with FCS, such as 64,512,9000.", metavar="BYTES,..."),
    ] = None,
    trial: Annotated[
        str | None, typer.Option(help="Length of a trial (60s; --quick: 1s).", metavar="TIME")
    ] = None,
    loss: Annotated[
        float, typer.Option(min=0, max=0.5, help="Share of frames that a passing trial may lose.")
    ] = 0.0,
    late: Annotated[
        str | None,
        typer.Option(
            help="A search's trial fails if frames arrive later than this after its end (a "
            "thirtieth of its length, at least 20ms).",
            metavar="TIME",
        ),
    ] = None,
    tries: Annotated[
        int | None,
        typer.Option(min=1, max=10, help="A rate fails when so many trials do (1; embedded: 2)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
    results: Annotated[Path, typer.Option(help="Where the report goes.")] = binaries.RESULTS,
) -> None:
    """Benchmark a device by the book: RFC 2544 and RFC 3918.

    Throughput in one and both directions, latency, loss, bursts and reset of unicast; aggregated,
    mixed and scaled multicast throughput, latency, join and leave delays and group capacity of
    multicast. The report is results/bench-NAME/report.html, with bench.json beside it. Exit status:
    0 measured, 2 bad input, 4 the device or the tester failed, 130 interrupted.
    """
    from tiercast_lab.base.interrupt import Interrupt
    from tiercast_lab.base.machine import describe
    from tiercast_lab.bench import suite as suites
    from tiercast_lab.bench.device_file import read_device
    from tiercast_lab.bench.trials import Plan
    from tiercast_lab.show.bench_report import write_comparison, write_report

    for name in only or []:
        if name not in suites.TESTS:
            raise InputError(f"--only: no test {among(name, suites.TESTS)}")
    described = [read_device(file) for file in device]
    names = [
        one.name or one.embedded or file.stem for one, file in zip(described, device, strict=True)
    ]
    folders = [resolved(results) / f"bench-{_safe(name)}" for name in names]
    if len(set(folders)) < len(names):
        raise InputError(f"--device: two have the same name; give each a `name`: {names}")
    chosen = _sizes(sizes) if sizes is not None else QUICK_SIZES if quick else SIZES
    try:
        trial_s = units.parse_duration(trial) / 1e9 if trial else 1.0 if quick else 60.0
    except ValueError as error:
        raise InputError(f"--trial: {error}") from None
    try:
        late_s = units.parse_duration(late) / 1e9 if late else None
    except ValueError as error:
        raise InputError(f"--late: {error}") from None
    if not 0.05 <= trial_s <= 3600:
        raise InputError(f"--trial is {trial}; valid: 50ms to 60min")
    for folder in folders:
        with writing(folder):  # before the trials, which take long
            folder.mkdir(parents=True, exist_ok=True)
    machine = describe()
    facts = [f"{machine['cores']} CPUs ({machine['cpu']})"]
    found, pages = [], []
    with Interrupt() as interrupt, console.status("") as status:
        # Without a terminal a line for each test has to do.
        begins = status.update if console.is_terminal else partial(typer.echo, err=True)
        for one, name, folder in zip(described, names, folders, strict=True):
            plan = Plan(
                chosen, trial_s, loss=loss, late_s=late_s,
                wait_s=0.5 if quick else 2.0,
                resolution=0.05 if quick else 0.01,
                tries=tries or (2 if one.embedded else 1),
                joins=3 if quick else 10,
                latency_trials=1 if quick else 20,
                reset_s=20.0 if quick else 60.0,
            )  # fmt: skip
            suite = suites.run(
                one, name, plan, only or [], interrupt,
                lambda text, name=name: status.update(f"{name}: {text}"),  # type: ignore[misc]
                lambda test, name=name: begins(f"{name}: {test}"),  # type: ignore[misc]
            )  # fmt: skip
            with writing(folder):
                pages.append(write_report(suite, folder, shlex.join(typed()), facts))
                content = json.dumps({"machine": machine} | suite.as_json(), indent=1) + "\n"
                write_whole(folder / "bench.json", content)
            found.append(suite)
            if not as_json:
                _print(suite)
    if len(found) > 1:
        folder = resolved(results) / "bench"
        with writing(folder):
            pages.append(write_comparison(found, folder, shlex.join(typed()), facts))
    if as_json:
        all_ = [
            {"report": str(page)} | suite.as_json()
            for page, suite in zip(pages, found, strict=False)
        ]
        print_json(all_)
        return
    for page in pages:
        print_report(page)


def _safe(name: str) -> str:
    """As a part of a folder's name."""
    return "".join(c if c.isalnum() or c in ".-" else "-" for c in name)


def _print(suite: Suite) -> None:
    from rich.table import Table

    from tiercast_lab.show.bench_report import cell

    say(f"{suite.name}:")
    for outcome in suite.outcomes:
        table = Table(box=None, header_style="dim", title=f"{outcome.name} ({outcome.section})",
                      title_justify="left")  # fmt: skip
        for heading in outcome.headings:
            table.add_column(heading, justify="right")
        for row in outcome.rows:
            table.add_row(*map(cell, row))
        console.print(table)
    for missing in suite.missing:
        say(f"not measured: {missing.name}: {missing.why}")


def _sizes(text: str) -> tuple[int, ...]:
    found = []
    for part in text.split(","):
        if not part.strip().isdecimal() or not SMALLEST <= int(part) <= LARGEST:
            raise InputError(
                f"--sizes: '{part}' is not a frame size; valid: {SMALLEST} to {LARGEST} bytes, "
                "with FCS, separated by commas"
            )
        found.append(int(part))
    return tuple(sorted(set(found)))
