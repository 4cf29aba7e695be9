"""What the terminal shows while many runs go on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text
from tiercast_controller.base import units

from tiercast_lab.run.progress import Tally


@contextlib.contextmanager
def show_runs(console: Console) -> Iterator[Callable[[Tally], None]]:
    """Shows the progress of many runs and the time left. Yields a function that takes their
    tally."""
    if not console.is_terminal:
        yield _PlainRuns(console).say
        return
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        said = 0

        def draw(tally: Tally) -> None:
            nonlocal said
            for note in tally.notes[said:]:
                console.print(note, highlight=False, markup=False)
            said = len(tally.notes)
            grid = Table.grid(padding=(0, 2))
            grid.add_row(
                f"{tally.done} of {tally.total} runs",
                ProgressBar(total=max(tally.total, 1), completed=tally.done, width=40),
                *_side_notes(tally),
            )
            names = list(tally.running.values())[:RUNS_SHOWN]
            live.update(Group(grid, *(Text(f"  {name}", style="dim") for name in names)))

        yield draw


RUNS_SHOWN = 4


class _PlainRuns:
    """At most twenty lines, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = -1
        self._said = 0  # notes

    def say(self, tally: Tally) -> None:
        for note in tally.notes[self._said :]:
            self._console.print(note, highlight=False, markup=False, soft_wrap=True)
        self._said = len(tally.notes)
        step = tally.done * 20 // max(tally.total, 1)
        if step != self._last:
            self._last = step
            text = ", ".join([f"{tally.done} of {tally.total} runs", *_side_notes(tally)])
            self._console.print(text, highlight=False, markup=False)


def _side_notes(tally: Tally) -> list[str]:
    parts = [f"{tally.found} found"] if tally.found else []
    if tally.deaths:
        parts.append(f"{tally.deaths} worker{'s' if tally.deaths > 1 else ''} died")
    if tally.crowded:
        parts.append(f"{tally.crowded} made again alone")
    if tally.left_s is not None and tally.done < tally.total:
        parts.append(f"{units.format_span(tally.left_s)} left")
    return parts
