"""What commands that make many runs share: the options for what makes a run, and making them."""

from __future__ import annotations

import enum
import os
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import InputError, among
from tiercast_lab.base.folders import resolved

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tiercast_lab.experiment.schemes import SchemeInfo
    from tiercast_lab.run.mininet.devices import DevicesFile
    from tiercast_lab.study.runs import Outcome, Request, Task
    from tiercast_lab.study.target import Target
    from tiercast_lab.study.workers import Workers


Jobs = Annotated[int, typer.Option(min=1, help="Runs at a time.")]
ALL_CORES = os.cpu_count() or 1


class Runtime(enum.StrEnum):
    mininet = "mininet"
    ns3 = "ns3"


class SwitchName(enum.StrEnum):
    tiercast = "tiercast"
    bmv2 = "bmv2"


class LinkKind(enum.StrEnum):
    memory = "memory"
    veth = "veth"


def names_for(command: str) -> Callable[[str], list[str]]:
    """For the shell's completion: the names that begin with what was typed."""
    return lambda incomplete: [one for one in binaries.names(command) if one.startswith(incomplete)]


def target_of(runtime: Runtime, switch: SwitchName) -> Target:
    """Raises InputError if there is no such combination."""
    from tiercast_lab.study.target import Target

    if runtime is Runtime.ns3 and switch is not SwitchName.tiercast:
        raise InputError(f"--switch {switch}: --runtime {runtime} runs the engine; valid: tiercast")
    return Target(runtime.value, switch.value)


DEVICES = "p4runtime"


def switches_of_run(
    runtime: Runtime, switch: str, ports: Path | None
) -> tuple[str, DevicesFile | None]:
    """The kind of switch as a run stores it, and the switches that the lab does not start. Raises
    InputError."""
    kind, colon, _ = switch.partition(":")
    if kind != DEVICES:
        target_of(runtime, _named(switch))
        if ports is not None:
            raise InputError(f"--ports {ports}: --switch is {switch}; valid: with {DEVICES}")
        return switch, None
    from tiercast_lab.run.mininet.devices import grpc_address, load_devices

    try:
        address = grpc_address(switch) if colon else None
    except ValueError as error:
        raise InputError(f"--switch: {error}") from None
    if runtime is Runtime.ns3:
        raise InputError(f"--switch {switch}: --runtime {runtime} runs the engine; valid: tiercast")
    if ports is None:
        raise InputError(
            f"--switch {switch}: --ports is missing; valid: a file that says which switches these "
            "are and how they are cabled (docs/devices.md)"
        )
    return DEVICES, load_devices(ports, address)


def links_of_run(runtime: Runtime, links: LinkKind | None) -> LinkKind:
    """The kind of links. Raises InputError for one that was asked for and has no meaning."""
    if links is None:
        return LinkKind.memory
    if runtime is Runtime.ns3:
        raise InputError(
            f"--links {links}: --runtime {runtime} has no interfaces; valid: with --runtime "
            f"{Runtime.mininet} and --switch {SwitchName.tiercast}"
        )
    return links


def threads_of_run(runtime: Runtime, threads: int | None) -> int:
    """Raises InputError if they were asked for and have no meaning."""
    if threads is not None and runtime is not Runtime.ns3:
        raise InputError(
            f"--threads {threads}: --runtime {runtime} has a process for each program; valid: with "
            f"--runtime {Runtime.ns3}"
        )
    return threads or 1


def _named(switch: str) -> SwitchName:
    try:
        return SwitchName(switch)
    except ValueError:
        names = [*(one.value for one in SwitchName), DEVICES, f"{DEVICES}://HOST:PORT"]
        raise InputError(f"run: --switch: {among(switch, names)}") from None


def require_target(target: Target) -> None:
    """Raises InputError if runs of this target cannot be made on this machine."""
    from tiercast_lab.base.machine import require_root
    from tiercast_lab.cli.doctor import require_kernel

    if target.in_real_time:
        require_root()
        require_kernel()
    binaries.require(*target.programs)


def make_runs(
    tasks: Sequence[Task[Request]],
    schemes: dict[str, SchemeInfo],
    results: Path,
    start_workers: Callable[[], AbstractContextManager[Workers]],
) -> list[Outcome[Request]]:
    """Makes the runs that are not stored, and shows how far it is."""
    from tiercast_lab.base.interrupt import Interrupt
    from tiercast_lab.show.study_progress import show_runs
    from tiercast_lab.study.runs import Store, run_all

    store = Store(resolved(results) / "runs")
    with Interrupt() as interrupt, show_runs(Console(stderr=True)) as shown:
        return run_all(tasks, schemes, store, start_workers, interrupt, shown)
