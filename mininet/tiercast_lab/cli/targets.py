"""What commands that make many runs share: the options for what makes a run, and making them."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from rich.console import Console

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tiercast_lab.experiment.schemes import SchemeInfo
    from tiercast_lab.study.runs import Outcome, Request, Task
    from tiercast_lab.study.target import Target
    from tiercast_lab.study.workers import Workers


class Runtime(enum.StrEnum):
    mininet = "mininet"
    ns3 = "ns3"


class SwitchName(enum.StrEnum):
    tiercast = "tiercast"
    bmv2 = "bmv2"


def target_of(runtime: Runtime, switch: SwitchName) -> Target:
    """Raises InputError if there is no such combination."""
    from tiercast_lab.study.target import Target

    if runtime is Runtime.ns3 and switch is not SwitchName.tiercast:
        raise InputError(f"--switch {switch}: --runtime {runtime} runs the engine; valid: tiercast")
    return Target(runtime.value, switch.value)


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

    store = Store(results.resolve() / "runs")
    with Interrupt() as interrupt, show_runs(Console(stderr=True)) as shown:
        return run_all(tasks, schemes, store, start_workers, interrupt, shown)
