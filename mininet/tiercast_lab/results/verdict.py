"""Judges a run by its rows: can it be trusted, and were the expected figures met?"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from tiercast_lab.base.frames import as_float
from tiercast_lab.experiment.schema import Expectation
from tiercast_lab.measures import MEASURES, Context, Rows
from tiercast_lab.measures.rows import totals


@dataclass(frozen=True)
class Check:
    """A check of validity. The run is valid only if measured <= bound; None means no bound."""

    name: str
    measured: float | None
    bound: float | None
    unit: str
    purpose: str
    where: str = ""  # what exceeds the bound, and when

    @property
    def ok(self) -> bool:
        return self.bound is None or (self.measured is not None and self.measured <= self.bound)

    def sentence(self) -> str:
        if self.measured is None:
            return f"{self.name}: not measured ({self.purpose})"
        what = f"{self.name}: {self.measured:.4g} {self.unit} > {self.bound:g}"
        return f"{what}{self.where and ': '}{self.where} ({self.purpose})"


@dataclass(frozen=True)
class Bound:
    value: float | None
    unit: str
    purpose: str


BOUNDS = {
    "cpu": Bound(
        75.0,  # times the machine's cores
        "% of one core",
        "CPU of all processes of the run together; a quarter of the cores is left for bursts",
    ),
    "cpu_wait": Bound(
        1.0,
        "ms",
        "from when a program of the run is ready until it has a CPU: each second's mean of the "
        "program that waits longest, averaged over the window",
    ),
    # Shown without a bound: it also includes other work, over which the run's programs have
    # priority.
    "cpu_pressure": Bound(
        None, "%", "share of time in which some task of the whole machine waited for a CPU"
    ),
    "pacer_late_p99": Bound(
        2.0, "ms", "lateness of paced packets over the whole run, 99th percentile"
    ),
    "switch_late_p99": Bound(
        2.0,
        "ms",
        "lateness of departures from switches: 99th percentiles of the intervals, averaged over "
        "packets",
    ),
    "late_max": Bound(
        50.0,
        "ms",
        "largest lateness of any packet: paced by a sender, or leaving a switch or a delay line",
    ),
    "pause": Bound(
        250.0,
        "ms",
        "longest time in which a program of the run did not run; each wakes up every 100 ms",
    ),
    "silence": Bound(
        2.5,
        "s",
        "longest time without a row of a program; programs write and are polled every second",
    ),
    "packet_in_dropped": Bound(
        0.0, "packets", "punted by a switch, such as IGMP reports, and never seen by the controller"
    ),
    "delay_line_late": Bound(
        1e-2, "of all frames", "frames that left a delay line more than 1 ms after they were due"
    ),
    "hidden_loss": Bound(
        1e-4,
        "of all packets",
        "lost outside the emulated queues: kernel drops, refused frames, full sockets, skipped "
        "departures",
    ),
}


def bounds_of(cores: int, exceptions: Mapping[str, float | None]) -> dict[str, float | None]:
    """The bounds that hold on a machine. `exceptions` are those of the kind of switch; they replace
    the common ones. The bound `cpu` is per core."""
    bounds: dict[str, float | None] = {name: bound.value for name, bound in BOUNDS.items()}
    bounds |= exceptions
    per_core = bounds["cpu"]
    return bounds | {"cpu": None if per_core is None else per_core * cores}


# Some kernels have no pressure figures; some switches report no lateness or need no delay line.
NOT_EVERYWHERE = ("cpu_pressure", "switch_late_p99", "delay_line_late")


def validity(
    rows: Rows, context: Context, bounds: Mapping[str, float | None] | None = None
) -> list[Check]:
    """The checks that tell whether the machine kept up during the window. `bounds` are from
    bounds_of."""
    bounds = bounds_of(os.cpu_count() or 1, {}) if bounds is None else bounds
    machine = _window(rows.get("machine"), context)
    final = rows.get("pacer.final")
    exact = {
        "late_max": _latest_packets(rows),
        "pause": _pauses(rows.get("pause")),
        "silence": _silences(rows.get("pause")),
        "packet_in_dropped": _punts_dropped(rows.get("packet_in")),
    }
    measured = {
        "cpu": _mean(machine, "cpu_percent"),
        "cpu_wait": _mean(machine, "cpu_wait_ms"),
        "cpu_pressure": _mean(machine, "pressure_percent"),
        "pacer_late_p99": None if final is None else as_float(final["late_p99_us"].max()) / 1e3,
        "switch_late_p99": _weighted_lateness(_window(rows.get("port"), context)),
        "delay_line_late": _late_share(rows.get("delay_line")),
        "hidden_loss": _hidden_loss(rows),
        **{name: _largest(events) for name, events in exact.items()},
    }
    return [
        Check(
            name,
            measured[name],
            bounds[name],
            bound.unit,
            bound.purpose,
            _above(exact.get(name), bounds[name], bound.unit),
        )
        for name, bound in BOUNDS.items()
        if measured[name] is not None or name not in NOT_EVERYWHERE
        if context.sessions or name != "pacer_late_p99"  # nobody paces
    ]


# For each case the program, its largest value, and the time (s) until which that value counts.
Events = list[tuple[str, float, float]]
MOST_NAMED = 8


def _largest(events: Events | None) -> float | None:
    return None if events is None else max((value for _, value, _ in events), default=0.0)


def _above(events: Events | None, bound: float | None, unit: str) -> str:
    """The programs above the bound, each with its largest value: "tiercast-host h3 312 ms (before
    4.2 s)"."""
    if events is None or bound is None:
        return ""
    worst: dict[str, tuple[float, float]] = {}
    for who, value, until_s in events:
        if value > max(bound, worst.get(who, (bound, 0.0))[0]):
            worst[who] = value, until_s
    named = sorted(worst.items(), key=lambda item: item[1], reverse=True)
    texts = [
        f"{who} {value:.4g} {unit} (before {until_s:.1f} s)" for who, (value, until_s) in named
    ]
    more = len(texts) - MOST_NAMED
    return ", ".join(texts[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _events(frame: pl.DataFrame, who: pl.Expr, value: pl.Expr) -> Events:
    return frame.select(who, value.alias("value"), "time_s").drop_nulls().rows()


def _latest_packets(rows: Rows) -> Events | None:
    """The latest packets of each program, in ms."""
    events: Events = []
    if (pacer := rows.get("pacer")) is not None:
        events += _events(pacer, pl.col("agent"), pl.col("late_max_us") / 1e3)
    if (port := rows.get("port")) is not None:
        place = pl.format("{} {}", "agent", "link")
        events += _events(port, place, pl.col("late_max_us") / 1e3)
    if (lines := rows.get("delay_line")) is not None:
        events += _events(lines, pl.format("{} delay line", "agent"), pl.col("late_max_us") / 1e3)
    return events or None


def _pauses(pause: pl.DataFrame | None) -> Events | None:
    """The longest pauses of each program, in ms."""
    return None if pause is None else _events(pause, pl.col("agent"), pl.col("longest_us") / 1e3)


def _silences(pause: pl.DataFrame | None) -> Events | None:
    """How long each program sent no row, in s: until its next row, or until the last rows of the
    lab at the end of the run."""
    if pause is None:
        return None
    end = as_float(pause.filter(pl.col("agent") == "lab")["time_s"].max() or 0.0)
    events: Events = []
    for (program,), its in pause.sort("time_s").group_by("agent"):
        times = [0.0, *its["time_s"], end]
        events += [
            (program, after - before, after)
            for before, after in zip(times, times[1:], strict=False)
        ]
    return events


def _punts_dropped(packet_in: pl.DataFrame | None) -> Events | None:
    if packet_in is None:
        return None
    return _events(packet_in, pl.col("agent"), pl.col("dropped").cast(pl.Float64))


def _window(frame: pl.DataFrame | None, context: Context) -> pl.DataFrame | None:
    return None if frame is None else frame.filter(pl.col("time_s").is_between(*context.window))


def _mean(frame: pl.DataFrame | None, column: str) -> float | None:
    if frame is None or frame.is_empty() or column not in frame.columns:
        return None
    return as_float(frame[column].mean())


def _weighted_lateness(port: pl.DataFrame | None) -> float | None:
    """The lateness of ports in ms, averaged over packets."""
    if port is None or port["late_p99_us"].is_null().all():
        return None
    sent = port.sort("time_s").with_columns(
        pl.col("tx_packets").diff().over("agent", "port").fill_null(0).alias("sent")
    )
    total = float(sent["sent"].sum())
    return float((sent["sent"] * sent["late_p99_us"]).sum()) / total / 1e3 if total else None


def _late_share(lines: pl.DataFrame | None) -> float | None:
    if lines is None:
        return None
    counts = totals(lines, "frames", "late_over_1ms")
    frames = float(counts["frames"].sum())
    return float(counts["late_over_1ms"].sum()) / frames if frames else None


# Columns with totals since the start, by kind of row.
HIDDEN_LOSSES = {
    "socket": ("dropped", "send_errors"),
    "pacer.final": ("dropped",),
    "delay_line": ("kernel_drops", "send_errors"),
    "udp": ("dropped",),
}


def _hidden_loss(rows: Rows) -> float | None:
    """The packets lost outside the emulated queues, as a share of those that switches and receivers
    received, over the whole run."""
    lost = total = 0.0
    for kind in ("received", "udp"):
        if kind in rows and "packets" in rows[kind]:
            total += float(totals(rows[kind], "packets")["packets"].sum())
    port = rows.get("port")
    if port is not None and not port.is_empty():
        counts = totals(port, "kernel_drops", "send_errors", "rx_packets", of=("agent", "port"))
        lost += float(counts["kernel_drops"].sum()) + float(counts["send_errors"].sum())
        total += float(counts["rx_packets"].sum())
    for kind, columns in HIDDEN_LOSSES.items():
        frame = rows.get(kind)
        if frame is not None and not frame.is_empty() and set(columns) <= set(frame.columns):
            counts = totals(frame, *columns)
            lost += sum(float(counts[column].sum()) for column in columns)
    return lost / total if total else None


@dataclass(frozen=True)
class Figure:
    """An expected figure beside the measured one, in `unit`."""

    name: str
    unit: str
    paper: float | None
    measured: float | None
    tolerance: float | None
    min: float | None
    max: float | None
    gate: bool
    ok: bool


def limits(
    paper: float | None, tolerance: float | None, low: float | None, high: float | None
) -> tuple[float, float]:
    """The range in which a number counts as met: within `tolerance` of `paper` (relative), and
    between `low` and `high`. None means no requirement."""
    lows = [-math.inf] if low is None else [low]
    highs = [math.inf] if high is None else [high]
    if tolerance is not None and paper is not None:
        lows.append(paper - tolerance * abs(paper))
        highs.append(paper + tolerance * abs(paper))
    return max(lows), min(highs)


def meets(
    measured: float | None,
    paper: float | None,
    tolerance: float | None,
    low: float | None,
    high: float | None,
) -> bool:
    """Whether a measured number is within `limits`."""
    lowest, highest = limits(paper, tolerance, low, high)
    return measured is not None and lowest <= measured <= highest


def reaches_over(
    measured: float | None, spread: float | None, lowest: float, highest: float
) -> bool:
    """Whether the confidence interval, measured ± spread, contains a bound. The seeds then do not
    decide on which side of the bound the number is."""
    if measured is None or spread is None:
        return False
    return any(abs(measured - bound) < spread for bound in (lowest, highest))


def required_text(
    show: Callable[[float], str], tolerance: float | None, low: float | None, high: float | None
) -> str:
    """What `meets` requires, in words: "± 15 %, ≤ 2.00 Mbit/s"."""
    parts = [f"± {tolerance * 100:g} %"] if tolerance is not None else []
    parts += [f"≥ {show(low)}"] if low is not None else []
    parts += [f"≤ {show(high)}"] if high is not None else []
    return ", ".join(parts)


def judge(expectation: Expectation, measured: float | None) -> Figure:
    paper = expectation.bound("paper")
    low, high = expectation.bound("min"), expectation.bound("max")
    spec = MEASURES[expectation.measure]
    return Figure(
        name=expectation.name,
        unit=spec.unit,
        paper=paper,
        measured=measured,
        tolerance=expectation.tolerance,
        min=low,
        max=high,
        gate=expectation.gate,
        ok=meets(measured, paper, expectation.tolerance, low, high),
    )


def verdict(
    checks: list[Check], figures: list[Figure], hidden_queues: Sequence[str] = ()
) -> tuple[str, list[str]]:
    """`met`, `not met`, `invalid` or (if nothing was required) `reported`, and the reasons."""
    broken = [check.sentence() for check in checks if not check.ok]
    broken += [f"a second queue behind the emulated one: {text}" for text in hidden_queues]
    if broken:
        return "invalid", broken
    if missed := [figure.name for figure in figures if figure.gate and not figure.ok]:
        return "not met", [f"not met: {', '.join(missed)}"]
    return "met" if any(figure.gate for figure in figures) else "reported", []


def as_dict(value: Check | Figure) -> dict[str, Any]:
    result = asdict(value)
    result["ok"] = value.ok
    return result
