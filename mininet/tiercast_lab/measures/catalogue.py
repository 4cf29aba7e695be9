"""Every measure by name: how it is computed, written, read and shown."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Literal

from tiercast_lab.base import units
from tiercast_lab.base.errors import among
from tiercast_lab.measures import (
    beside_tcp,
    feedback,
    queues,
    representatives,
    session,
    udp,
    windows,
)
from tiercast_lab.measures.context import Context
from tiercast_lab.measures.rows import Rows

Which = Literal["layers", "receiver", "link", "flow"]


@dataclass(frozen=True)
class MeasureSpec:
    """`parse`: text of an experiment -> unit of the figure; `show`: the reverse.

    A measure is of each session, the first by its plain name, or `of_run`. `which`: the key of
    `expect` that says of how many layers, of which receiver, link or flow it is, the last argument
    of `compute(rows, context)`; `whole`: it may be left out, and the measure is of all.
    `beside`: the kind of competing flows that it needs.
    """

    compute: Callable[..., float | None]
    unit: str
    parse: Callable[[object], float]
    show: Callable[[float], str]
    purpose: str
    which: Which | None = None
    whole: bool = True
    of_run: bool = False
    beside: Literal["", "tcp", "udp"] = ""


Compute = Callable[..., float | None]


def _plain(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{value!r} is not a plain number")
    return float(value)


def _seconds(value: object) -> float:
    return units.parse_duration(value) / 1e9


def _rate(compute: Compute, purpose: str) -> MeasureSpec:
    return MeasureSpec(
        compute, "bit/s", units.parse_rate, lambda v: f"{v / 1e6:.2f} Mbit/s", purpose
    )


def _fraction(compute: Compute, purpose: str, digits: int = 2) -> MeasureSpec:
    return MeasureSpec(
        compute, "fraction", units.parse_fraction, lambda v: f"{v * 100:.{digits}f} %", purpose
    )


def _number(compute: Compute, unit: str, purpose: str, digits: int) -> MeasureSpec:
    return MeasureSpec(compute, unit, _plain, lambda v: f"{v:.{digits}f}", purpose)


def _often(compute: Compute, purpose: str) -> MeasureSpec:
    """How often per second; papers say how often in a run: `840 in 2900s`."""
    return MeasureSpec(compute, "1/s", units.parse_frequency, lambda v: f"{v:.4g} /s", purpose)


def _all(specs: dict[str, MeasureSpec], **changes: object) -> dict[str, MeasureSpec]:
    return {name: replace(spec, **changes) for name, spec in specs.items()}


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _of(name: str) -> Callable[[object], float | None]:
    return lambda found: getattr(found, name)


_LAYERS = {
    "cumulative_rate": _rate(
        session.cumulative_rate, "sending rate of the n lowest layers, from bytes sent"
    ),
    "subscribers": _number(
        session.mean_subscribers, "receivers", "receivers with at least n layers, time average", 2
    ),
}

_RECEIVERS = {
    "receiver_rate": _rate(session.receiver_rate, "received rate of one receiver"),
    "level": _number(session.level, "layers", "layers that one receiver has, time average", 2),
    "rate_variation": _number(
        session.rate_variation,
        "",
        "standard deviation / mean of one receiver's rate in each second",
        2,
    ),
    "representative_share": _fraction(
        representatives.representative_share,
        "of the time that one receiver is there, that in which it is the representative: ERMCC's "
        "CR, PGMCC's acker, TFMCC's CLR",
        1,
    ),
    "representative_delay": MeasureSpec(
        representatives.representative_delay,
        "s",
        _seconds,
        lambda v: f"{v:.1f} s",
        "how long one receiver is there before it is the representative; all of its time in the "
        "window where it never is",
    ),
}

_SESSION = {
    "efficiency": _number(
        session.efficiency,
        "",
        "received rate / available bandwidth, mean over receivers and time (SIM 4.1); available is "
        "the smallest rate on the path, as the events change it",
        3,
    ),
    "instability": _number(
        session.instability,
        "changes/receiver/RTT",
        "subscription changes per receiver and round trip (SIM 4.1, read as I(j·d)), those of "
        "receivers that leave and come back among them",
        5,
    ),
    "loss": _fraction(session.loss, "packets lost at all receivers together, of all sent to them"),
    "marked": replace(
        _fraction(
            session.marked,
            "packets with CE at all receivers together, of all received; of a link: those that it "
            "marked, of all of the session that left it",
        ),
        which="link",
    ),
    **{
        f"join_latency_p{percent}": MeasureSpec(
            partial(session.join_latency, quantile=percent / 100),
            "s",
            _seconds,
            lambda v: f"{v * 1e3:.1f} ms",
            f"from a join to the first packet of the layer, {what}; where nobody joined in the "
            "window, of the whole run",
        )
        for percent, what in ((50, "median"), (99, "99th percentile"))
    },
    "feedback_rate": _number(
        feedback.feedback_rate,
        "messages/s",
        "feedback messages that reach the sender, per second",
        1,
    ),
    "feedbacks": _number(
        feedback.feedbacks, "messages", "feedback messages that reach the sender", 0
    ),
    "naks": _number(
        feedback.naks, "messages", "PGMCC: feedback messages that are no acknowledgements", 0
    ),
    "mean_queue": _number(
        queues.mean_queue,
        "packets",
        "packets waiting at the receivers' bottlenecks, mean over the looks at them (one a second)",
        1,
    ),
    "session_throughput": _rate(session.session_throughput, "received rate, mean over receivers"),
    "other_throughput": _rate(
        session.other_throughput, "received rate, mean over the receivers of all other sessions"
    ),
    "other_ratio": _number(
        session.other_ratio,
        "",
        "throughput of the session / that of the others, from when one of them has started",
        2,
    ),
    "representatives": _number(
        representatives.representatives,
        "receivers",
        "MDP-CC: representatives, the most at once",
        0,
    ),
    "clr_delay": _number(
        representatives.clr_delay,
        "GRTT",
        "MDP-CC: from the first loss event at a receiver of what has become the worst path (by its "
        "links' rates) until one of these receivers is CLR; the longest",
        1,
    ),
    "feedback_suppressed": _number(
        feedback.feedback_suppressed,
        "messages",
        "ERMCC: loss events that receivers kept to themselves",
        0,
    ),
    "suppression": _fraction(feedback.suppression, "ERMCC: their share of all loss events (5.4)"),
    "feedback_of_one": _number(
        feedback.feedback_of_one,
        "",
        "ERMCC: reports sent / loss events of one receiver (5.4)",
        2,
    ),
    "representative_switches": _number(
        representatives.representative_switches,
        "switches",
        "how often another receiver became ERMCC's CR, PGMCC's acker, TFMCC's CLR",
        0,
    ),
}

_QUEUES = {
    **_all(
        {
            "queue_drops": _fraction(
                queues.queue_drops,
                "packets that found their queue full, of all that entered queues, or that of one "
                "link",
            ),
            "policy_drops": _fraction(
                queues.policy_drops,
                "packets that the ports' marking dropped (RED, `drop_tail`), of all that entered "
                "queues, or that of one link",
            ),
        },
        which="link",
    ),
    "longest_queue": _number(queues.longest_queue, "packets", "packets waiting at any port", 0),
}

_UDP = {
    "udp_throughput": _rate(udp.udp_throughput, "of all UDP flows together, or one: what arrives"),
    "udp_sent": _rate(udp.udp_sent, "of all UDP flows together, or one: what is sent"),
    "udp_loss": _fraction(
        udp.udp_loss, "of all UDP flows together, or one: packets that do not arrive, of all sent"
    ),
}

_BESIDE_TCP = {
    "tcp_ratio": _number(
        beside_tcp.tcp_ratio,
        "",
        "throughput of the session / mean throughput of the TCP flows at its bottleneck",
        2,
    ),
    "receiver_tcp_ratio": replace(
        _number(beside_tcp.receiver_tcp_ratio, "", "`tcp_ratio` of one receiver alone", 2),
        which="receiver",
        whole=False,
    ),
    "tcp_ratio_to_worst": _number(
        partial(beside_tcp.tcp_ratio_extreme, of=max),
        "",
        "throughput of a receiver / slowest TCP flow at its bottleneck; the largest",
        2,
    ),
    "tcp_ratio_to_best": _number(
        partial(beside_tcp.tcp_ratio_extreme, of=min),
        "",
        "throughput of a receiver / fastest TCP flow at its bottleneck; the smallest",
        2,
    ),
    "sessions_tcp_ratio": _number(
        beside_tcp.sessions_tcp_ratio,
        "",
        "mean throughput of all sessions' receivers / mean of the TCP flows at the session's "
        "bottlenecks",
        2,
    ),
    "tcp_throughput": _rate(
        partial(beside_tcp.tcp_throughput, of=_mean), "of the TCP flows at the bottleneck: mean"
    ),
    "tcp_worst": _rate(
        partial(beside_tcp.tcp_throughput, of=min), "of the TCP flows at the bottleneck: slowest"
    ),
    "tcp_best": _rate(
        partial(beside_tcp.tcp_throughput, of=max), "of the TCP flows at the bottleneck: fastest"
    ),
    "tcp_retransmitted": _fraction(
        beside_tcp.tcp_retransmitted,
        "packets that these flows sent again, of all that they sent",
    ),
}


def _windows() -> dict[str, MeasureSpec]:
    """The rows of RLA's figures 7 to 10."""
    specs = {
        name: _number(partial(windows.of_sender, of=_of(attribute)), unit, purpose, digits)
        for name, attribute, unit, purpose, digits in (
            ("packet_rate", "packet_rate", "packets/s",
             "RLA: packets that all receivers have", 1),
            ("cwnd", "cwnd", "packets", "RLA: the sender's window, mean over time", 1),
            ("rtt", "rtt", "s",
             "RLA: until all have acknowledged a packet that left once, mean", 3),
            ("window_balance", "balance", "", "RLA: cwnd / (packet_rate rtt)", 3),
        )
    }  # fmt: skip
    specs["window_mode"] = _number(
        windows.window_mode,
        "packets",
        "RLA: the sender's window, most frequent together with those of all sessions",
        0,
    )
    for name, attribute, purpose in (
        ("congestion_signals", "signals", "RLA: congestion signals, of all receivers together"),
        ("window_cuts", "cuts", "RLA: cuts of the sender's window"),
        ("forced_cuts", "forced_cuts", "RLA: of them forced ones"),
    ):
        specs[name] = _often(partial(windows.of_sender, of=_of(attribute)), purpose)
    specs["signals_per_receiver"] = _often(
        windows.signals_per_receiver,
        "RLA: congestion signals / receivers; the sender cuts its window as often",
    )
    return specs


def _windows_beside_tcp() -> dict[str, MeasureSpec]:
    specs = {}
    for behind, place, where in (
        (True, "", "at the soft bottleneck"),
        (False, "_elsewhere", "elsewhere"),
    ):
        for which, of in (("worst", max), ("best", min), ("mean", _mean)):
            specs[f"signals_{which}{place}"] = _often(
                partial(windows.receivers_signals, at_bottleneck=behind, of=of),
                f"RLA: congestion signals of a receiver {where}: {which}",
            )
            specs[f"tcp_cuts_{which}{place}"] = _often(
                partial(windows.flows_cuts, at_bottleneck=behind, of=of),
                f"window cuts of a TCP flow {where}: {which}",
            )
    return specs


def _extreme_flows() -> dict[str, MeasureSpec]:
    specs = {}
    for short, choose, flow in (
        ("wtcp", min, "of the slowest of all TCP flows"),
        ("btcp", max, "of the fastest of all TCP flows"),
    ):
        for name, unit, what, digits in (
            ("packet_rate", "packets/s", "packets that it delivers", 1),
            ("cwnd", "packets", "window, mean over time", 1),
            ("rtt", "s", "round trip, mean of its samples", 3),
        ):
            compute = partial(windows.of_flow, choose=choose, of=_of(name))
            specs[f"{short}_{name}"] = _number(compute, unit, f"{flow}: {what}", digits)
        for name, what in (
            ("cuts", "window cuts, fast retransmits and time-outs"),
            ("timeouts", "time-outs"),
        ):
            compute = partial(windows.of_flow, choose=choose, of=_of(name))
            specs[f"{short}_{name}"] = _often(compute, f"{flow}: {what}")
    return specs


MEASURES: dict[str, MeasureSpec] = {
    **_all(_LAYERS, which="layers", whole=False),
    **_SESSION,
    **_all(_RECEIVERS, which="receiver", whole=False),
    **_all(_QUEUES, of_run=True),
    **_all(_BESIDE_TCP, beside="tcp"),
    **_windows(),
    **_all(_windows_beside_tcp(), beside="tcp"),
    **_all(_extreme_flows(), of_run=True, beside="tcp"),
    **_all(_UDP, of_run=True, which="flow", beside="udp"),
}


@cache
def measures_version() -> str:
    """Changes with how measures are taken."""
    code = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in code)).hexdigest()[:12]


# ---- names --------------------------------------------------------------------------------------

# What stands for the value of `which` in a name: cumulative_rate_2, receiver_rate_h3.s2.
FORMS = {
    "layers": "[1-8]",
    "receiver": r"h\d+(\.s\d+)?",
    "link": r"\d+>\d+",
    "flow": r"udp\d+",
}


def name_of(measure: str, which: object = None, session: int | None = None) -> str:
    """As all_measures has it. `session`: its number, None for the first; a receiver's name says it
    already."""
    parts = [measure]
    if which is not None:
        parts.append(str(which))
    if session is not None and MEASURES[measure].which != "receiver":
        parts.append(f"s{session}")
    return "_".join(parts)


@dataclass(frozen=True)
class Name:
    """The parts of a measure's name in a summary."""

    measure: str
    which: str = ""
    session: str = ""
    period: str = ""

    @property
    def spec(self) -> MeasureSpec:
        return MEASURES[self.measure]

    @property
    def shown(self) -> str:
        """As people read it."""
        which = self.which
        if self.spec.which == "layers":
            which += f" layer{'s' if which != '1' else ''}"
        number = f"session {self.session}" if self.session else ""
        text = ", ".join(filter(None, (self.measure.replace("_", " "), which, number)))
        return f"{text} ({self.period})" if self.period else text


def parse_name(name: str) -> Name:
    """Raises ValueError for a name that all_measures never gives."""
    whole, _, period = name.partition("@")
    of_session = re.fullmatch(r"(.+)_s(\d+)", whole)
    candidates = [(whole, "")] + ([(of_session[1], of_session[2])] if of_session else [])
    for text, number in candidates:
        base, _, which = text.rpartition("_")
        for measure, value in [(text, ""), *([(base, which)] if which else [])]:
            if measure in MEASURES and _names(MEASURES[measure], value, number):
                return Name(measure, value, number, period)
    raise ValueError(f"unknown measure {among(whole, _valid_names())}")


def _names(spec: MeasureSpec, which: str, number: str) -> bool:
    """Whether a measure has such a name, with these parts or, where they are empty, without."""
    if number and (spec.of_run or spec.which == "receiver"):
        return False
    if not which:
        return spec.whole
    return spec.which is not None and re.fullmatch(FORMS[spec.which], which) is not None


def _valid_names() -> Iterator[str]:
    for name, spec in MEASURES.items():
        number = "" if spec.of_run or spec.which == "receiver" else "[_s<session>]"
        form = {None: "", "layers": "_<layers>", "receiver": "_h<node>", "link": "_<node>><node>",
                "flow": "_<flow>"}[spec.which]  # fmt: skip
        yield name + (f"[{form}]" if form and spec.whole else form) + number


def find_spec(name: str) -> MeasureSpec:
    """Raises ValueError for a name that all_measures never gives."""
    return parse_name(name).spec


def spec_of(name: str) -> tuple[MeasureSpec, str]:
    """Of a name that all_measures gives; and what people read."""
    parsed = parse_name(name)
    return parsed.spec, parsed.shown


# ---- all of them --------------------------------------------------------------------------------


def all_measures(rows: Rows, context: Context) -> dict[str, float | None]:
    """Every measure of the run and of each session, by its name; those beside competing flows where
    there are some. And all of these over each period, as name@period."""
    result: dict[str, float | None] = {}
    for period, window in context.periods.items():
        part = all_measures(rows, replace(context, window=window, periods={}))
        result |= {f"{name}@{period}": value for name, value in part.items()}
    there = {"": True, "tcp": bool(context.rivals), "udp": bool(context.udp_flows)}
    for one in context.sessions:
        seen, first = replace(context, session=one), one is context.sessions[0]
        for name, spec in MEASURES.items():
            if not there[spec.beside] or (spec.of_run and not first):
                continue
            for which in _each(spec, seen):
                value = _value(rows, seen, spec, which)
                result[name_of(name, which, None if first else one.number)] = value
    return result


def _each(spec: MeasureSpec, context: Context) -> Iterable[object]:
    """Values of `which`; None: of all."""
    every = {
        None: [],
        "layers": range(1, context.session.layers + 1),
        "receiver": context.receivers,
        "link": context.links,
        "flow": context.udp_flows,
    }
    return [*([None] if spec.whole else []), *every[spec.which]]


def _value(rows: Rows, context: Context, spec: MeasureSpec, which: object) -> float | None:
    """None, too, where the session starts after the window."""
    start, end = context.span
    if start >= end and not spec.of_run:
        return None
    value = spec.compute(rows, context, *(() if which is None else (which,)))
    # No scalar of numpy, of which a comparison is no bool; what is not a number (a mean of nothing,
    # a ratio to 0) is no measure.
    return None if value is None or not math.isfinite(value) else float(value)
