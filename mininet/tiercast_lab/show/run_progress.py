"""What the terminal shows while a run goes on."""

from __future__ import annotations

from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tiercast_lab.run.progress import RUNNING, Progress, View

PLAIN_PERIOD_S = 5.0


class TerminalView(View, Protocol):
    """A view that shows while it is entered."""

    def __enter__(self) -> TerminalView: ...
    def __exit__(self, *error: object) -> None: ...


def make_view(console: Console) -> TerminalView:
    return LiveView(console) if console.is_terminal else PlainView(console)


class PlainView:
    """One line every five seconds, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next_s = 0.0

    def __enter__(self) -> PlainView:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def update(self, progress: Progress) -> None:
        if progress.phase != RUNNING or progress.now_s < self._next_s:
            return
        self._next_s = progress.now_s - progress.now_s % PLAIN_PERIOD_S + PLAIN_PERIOD_S
        self.say(progress_line(progress))


def progress_line(progress: Progress) -> str:
    rates = "/".join(f"{rate / 1e6:.2f}" for rate in progress.cumulative_rates)
    counts = "/".join(map(str, progress.subscribers))
    return (
        f"{progress.now_s:5.0f} s  rates {rates} Mbit/s  subscribers {counts}  "
        f"{_beside_tcp(progress)}"
        f"efficiency {_number(progress.efficiency)}  longest queue {_queue(progress)}  "
        f"{_fates(progress)}  {_keeping_up(progress)}"
    )


class LiveView:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False)

    def update(self, progress: Progress) -> None:
        self._live.update(_screen(progress))


def _screen(progress: Progress) -> Group:
    if progress.phase != RUNNING and not progress.now_s:
        return Group(Text(f"{progress.phase} …"))
    layers = Table(box=None, pad_edge=False)
    layers.add_column("layers", justify="right")
    layers.add_column("cumulative rate", justify="right")
    layers.add_column("subscribers", justify="right")
    layers.add_column("")
    rates, counts = progress.cumulative_rates, progress.subscribers
    top = max([*rates, 1.0])
    for n, (rate, count) in enumerate(zip(rates, counts, strict=True), 1):
        layers.add_row(
            str(n),
            f"{rate / 1e6:.2f} Mbit/s",
            str(count),
            ProgressBar(total=top, completed=rate, width=30),
        )
    overview = Table.grid(padding=(0, 2))
    overview.add_row("time", f"{progress.now_s:.0f} of {progress.duration_s:.0f} s", progress.phase)
    overview.add_row("efficiency", _number(progress.efficiency), "")
    if beside := _beside_tcp(progress):
        overview.add_row("throughput", beside, "")
    overview.add_row("longest queue", _queue(progress), "")
    overview.add_row("packets so far", _fates(progress), "")
    troubles = progress.troubles()
    overview.add_row(
        "machine",
        Text(_keeping_up(progress), style="bold red" if troubles else "green"),
        "",
    )
    return Group(overview, Text(), layers)


def _beside_tcp(progress: Progress) -> str:
    """The TCP flows' rates, or their range if there are more than four. Empty without such
    flows."""
    rates = [f"{rate / 1e6:.2f}" for rate in progress.tcp_rates]
    if not rates:
        return ""
    shown = "/".join(rates) if len(rates) <= 4 else f"{rates[0]}..{rates[-1]} ({len(rates)} flows)"
    received = progress.received
    mine = "–" if received is None else f"{received / 1e6:.2f}"
    return f"received {mine} beside TCP {shown} Mbit/s  "


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _queue(progress: Progress) -> str:
    longest = progress.longest_queue
    return "–" if longest is None else f"{longest[0]} packets ({longest[1]})"


def _fates(progress: Progress) -> str:
    """Packets dropped or marked at all ports since the start."""
    known = ("–" if count is None else str(count) for count in progress.fates or [None] * 3)
    by_queues, by_policies, marked = known
    waiting = " or waiting there" if progress.drops_include_waiting else ""
    return f"dropped {by_queues} by queues{waiting}, {by_policies} by policies, marked {marked}"


def _keeping_up(progress: Progress) -> str:
    if progress.virtual:
        return "virtual time"
    troubles = progress.troubles()
    cpu = "" if progress.cpu_percent is None else f" (CPU {progress.cpu_percent:.0f} %)"
    if troubles:
        return f"does not keep up: {', '.join(troubles)}"
    return f"keeps up{cpu}"
