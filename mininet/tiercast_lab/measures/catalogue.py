"""Every measure by name: how it is computed, written, read and shown."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from tiercast_lab import units
from tiercast_lab.errors import among
from tiercast_lab.measures import windows
from tiercast_lab.measures.beside_tcp import (
    receiver_tcp_ratio,
    sessions_tcp_ratio,
    tcp_ratio,
    tcp_ratio_extreme,
    tcp_retransmitted,
    tcp_throughput,
)
from tiercast_lab.measures.feedback import (
    feedback_of_one,
    feedback_rate,
    feedback_suppressed,
    feedbacks,
    naks,
    suppression,
)
from tiercast_lab.measures.representatives import (
    clr_delay,
    representative_delay,
    representative_share,
    representative_switches,
    representatives,
)
from tiercast_lab.measures.rows import Context, Rows
from tiercast_lab.measures.session import (
    cumulative_rate,
    efficiency,
    instability,
    join_latency,
    level,
    longest_queue,
    loss,
    marked,
    mean_queue,
    mean_subscribers,
    other_ratio,
    other_throughput,
    queue_drops,
    rate_variation,
    receiver_rate,
    session_throughput,
)
from tiercast_lab.measures.windows import (
    flows_cuts,
    of_flow,
    of_sender,
    receivers_signals,
    signals_per_receiver,
    window_mode,
)


@dataclass(frozen=True)
class MeasureSpec:
    """`parse`: text of an experiment -> unit of the figure; `show`: the reverse."""

    compute: Callable[..., float | None]
    unit: str
    parse: Callable[[object], float]
    show: Callable[[float], str]
    purpose: str
    per_layer: bool = False
    of_traffic: bool = False  # it needs competing flows
    per_receiver: bool = False
    per_session: bool = False  # the first has the plain name


def _plain(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{value!r} is not a plain number")
    return float(value)


def _rate_spec(
    compute: Callable[..., float | None],
    purpose: str,
    per_layer: bool = False,
    of_traffic: bool = False,
) -> MeasureSpec:
    return MeasureSpec(
        compute,
        "bit/s",
        units.parse_rate,
        lambda v: f"{v / 1e6:.2f} Mbit/s",
        purpose,
        per_layer,
        of_traffic,
    )


def _tcp_spec(of: Callable[[list[float]], float], purpose: str) -> MeasureSpec:
    return _rate_spec(
        lambda rows, context: tcp_throughput(rows, context, of), purpose, of_traffic=True
    )


def _time_spec(quantile: float, purpose: str) -> MeasureSpec:
    return MeasureSpec(
        lambda rows, context: join_latency(rows, context, quantile),
        "s",
        lambda text: units.parse_duration(text) / 1e9,
        lambda v: f"{v * 1e3:.1f} ms",
        purpose,
    )


def _fraction_spec(
    compute: Callable[..., float | None], purpose: str, of_traffic: bool = False
) -> MeasureSpec:
    return MeasureSpec(
        compute,
        "fraction",
        units.parse_fraction,
        lambda v: f"{v * 100:.2f} %",
        purpose,
        of_traffic=of_traffic,
    )


def _number_spec(
    compute: Callable[..., float | None],
    unit: str,
    purpose: str,
    digits: int,
    per_layer: bool = False,
    of_traffic: bool = False,
    per_receiver: bool = False,
) -> MeasureSpec:
    return MeasureSpec(
        compute,
        unit,
        _plain,
        lambda v: f"{v:.{digits}f}",
        purpose,
        per_layer,
        of_traffic,
        per_receiver,
    )


def _sender_spec(
    of: Callable[[windows.Sender], float | None], unit: str, purpose: str, digits: int
) -> MeasureSpec:
    number = _number_spec(
        lambda rows, context, agent: of_sender(rows, context, agent, of), unit, purpose, digits
    )
    return replace(number, per_session=True)


def _count_spec(compute: Callable[..., float | None], purpose: str) -> MeasureSpec:
    """How often per second; papers say how often in a run: `840 in 2900s`."""
    return MeasureSpec(compute, "1/s", units.parse_frequency, lambda v: f"{v:.4g} /s", purpose)


def _window_specs() -> dict[str, MeasureSpec]:
    """The rows of RLA's figures 7 to 10."""

    def of(name: str) -> Callable[[object], float | None]:
        return lambda found: getattr(found, name)

    specs = {
        "packet_rate": _sender_spec(
            of("packet_rate"), "packets/s", "packets that all receivers have", 1
        ),
        "cwnd": _sender_spec(of("cwnd"), "packets", "the sender's window, mean over time", 1),
        "rtt": _sender_spec(
            of("rtt"), "s", "until all have acknowledged a packet that left once, mean", 3
        ),
        "window_mode": replace(
            _number_spec(
                window_mode,
                "packets",
                "the sender's window, most frequent together with those of all sessions",
                0,
            ),
            per_session=True,
        ),
        "window_balance": _sender_spec(of("balance"), "", "cwnd / (packet_rate rtt)", 3),
    }
    for name, attribute, purpose in (
        ("congestion_signals", "signals", "congestion signals, of all receivers together"),
        ("window_cuts", "cuts", "cuts of the sender's window"),
        ("forced_cuts", "forced_cuts", "of them forced ones"),
    ):
        compute = partial(of_sender, of=of(attribute))
        specs[name] = replace(_count_spec(compute, purpose), per_session=True)
    specs["signals_per_receiver"] = _count_spec(
        signals_per_receiver, "congestion signals / receivers: as many cuts are expected"
    )
    summaries = {"worst": max, "best": min, "mean": lambda values: sum(values) / len(values)}
    for where, place, purpose in (
        (True, "", "behind the soft bottleneck"),
        (False, "_elsewhere", "of all others"),
    ):
        for which, summary in summaries.items():
            for name, compute in (
                ("signals", receivers_signals),
                ("tcp_cuts", flows_cuts),
            ):
                specs[f"{name}_{which}{place}"] = replace(
                    _count_spec(
                        partial(compute, at_bottleneck=where, of=summary),
                        f"congestion signals of a receiver {purpose}: {which}"
                        if name == "signals"
                        else f"window cuts of a TCP flow {purpose}: {which}",
                    ),
                    of_traffic=True,
                )
    for short, choose, which in (("wtcp", min, "slowest"), ("btcp", max, "fastest")):

        def flow(
            attribute: str, choose: Callable[..., windows.TcpFlow] = choose
        ) -> Callable[..., float | None]:
            return partial(of_flow, choose=choose, of=of(attribute))

        what = f"of the {which} TCP flow"
        for name, unit, digits in (
            ("packet_rate", "packets/s", 1),
            ("cwnd", "packets", 1),
            ("rtt", "s", 3),
        ):
            specs[f"{short}_{name}"] = _number_spec(
                flow(name), unit, f"{name} {what}", digits, of_traffic=True
            )
        for name, purpose in (
            ("cuts", f"window cuts {what}, fast retransmits and time-outs"),
            ("timeouts", f"time-outs {what}"),
        ):
            specs[f"{short}_{name}"] = replace(_count_spec(flow(name), purpose), of_traffic=True)
    return specs


MEASURES: dict[str, MeasureSpec] = {
    "cumulative_rate": _rate_spec(
        cumulative_rate, "sending rate of the n lowest layers", per_layer=True
    ),
    "subscribers": _number_spec(
        mean_subscribers, "receivers", "receivers with at least n layers, time average", 2, True
    ),
    "receiver_rate": MeasureSpec(
        receiver_rate,
        "bit/s",
        units.parse_rate,
        lambda v: f"{v / 1e6:.2f} Mbit/s",
        "received rate of one receiver",
        per_receiver=True,
    ),
    "level": _number_spec(
        level, "layers", "layers that one receiver has, time average", 2, per_receiver=True
    ),
    "rate_variation": _number_spec(
        rate_variation,
        "",
        "standard deviation / mean of one receiver's rate in each second",
        2,
        per_receiver=True,
    ),
    "efficiency": _number_spec(
        efficiency, "", "mean over receivers of received rate / available bandwidth", 3
    ),
    "instability": _number_spec(
        instability,
        "changes/receiver/RTT",
        "subscription changes per receiver and round trip",
        5,
    ),
    "loss": _fraction_spec(loss, "packets lost at receivers"),
    "marked": _fraction_spec(marked, "packets received with CE"),
    "queue_drops": _fraction_spec(queue_drops, "packets dropped at emulated queues"),
    "join_latency_p50": _time_spec(0.50, "join to first packet, median"),
    "join_latency_p99": _time_spec(0.99, "join to first packet, 99th percentile"),
    "feedback_rate": _number_spec(
        feedback_rate, "messages/s", "feedback messages that reach the sender", 1
    ),
    "longest_queue": _number_spec(longest_queue, "packets", "longest queue of any port", 0),
    "mean_queue": _number_spec(
        mean_queue, "packets", "queue at the receivers' bottlenecks, mean over time", 1
    ),
    "representatives": _number_spec(
        representatives, "receivers", "MDP-CC's representatives, the most at once", 0
    ),
    "clr_delay": _number_spec(
        clr_delay, "GRTT", "from a loss on MDP-CC's new worst path until its receiver is CLR", 1
    ),
    "session_throughput": _rate_spec(session_throughput, "received rate, mean over receivers"),
    "other_throughput": _rate_spec(
        other_throughput, "received rate, mean over the receivers of the other sessions"
    ),
    "other_ratio": _number_spec(
        other_ratio, "", "throughput of the first session / that of the others", 2
    ),
    "feedbacks": _number_spec(feedbacks, "messages", "feedback messages that reach the sender", 0),
    "naks": _number_spec(naks, "messages", "PGMCC's feedback without acknowledgements", 0),
    "feedback_suppressed": _number_spec(
        feedback_suppressed, "messages", "feedback that ERMCC's receivers kept to themselves", 0
    ),
    "suppression": _fraction_spec(
        suppression, "loss events that ERMCC's receivers kept to themselves"
    ),
    "feedback_of_one": _number_spec(
        feedback_of_one, "", "ERMCC's feedback / loss events of one receiver", 2
    ),
    "representative_switches": _number_spec(
        representative_switches, "switches", "changes of the representative", 0
    ),
    "representative_share": MeasureSpec(
        representative_share,
        "fraction",
        units.parse_fraction,
        lambda v: f"{v * 100:.1f} %",
        "time in which this receiver is the representative",
        per_receiver=True,
    ),
    "representative_delay": MeasureSpec(
        representative_delay,
        "s",
        lambda text: units.parse_duration(text) / 1e9,
        lambda v: f"{v:.1f} s",
        "from the window's start until this receiver is the representative",
        per_receiver=True,
    ),
    "tcp_ratio": _number_spec(
        tcp_ratio,
        "",
        "throughput of the session / mean of the TCP flows at its bottleneck",
        2,
        of_traffic=True,
    ),
    "receiver_tcp_ratio": _number_spec(
        receiver_tcp_ratio,
        "",
        "throughput of one receiver / mean of the TCP flows at its bottleneck",
        2,
        of_traffic=True,
        per_receiver=True,
    ),
    "sessions_tcp_ratio": _number_spec(
        sessions_tcp_ratio,
        "",
        "mean throughput of all sessions' receivers / mean of the TCP flows",
        2,
        of_traffic=True,
    ),
    "tcp_ratio_to_worst": _number_spec(
        lambda rows, context: tcp_ratio_extreme(rows, context, max),
        "",
        "throughput of the session / slowest TCP flow at its bottleneck; largest of a receiver",
        2,
        of_traffic=True,
    ),
    "tcp_ratio_to_best": _number_spec(
        lambda rows, context: tcp_ratio_extreme(rows, context, min),
        "",
        "throughput of the session / fastest TCP flow at its bottleneck; smallest of a receiver",
        2,
        of_traffic=True,
    ),
    "tcp_throughput": _tcp_spec(
        lambda rates: sum(rates) / len(rates), "TCP flows at the bottleneck, mean"
    ),
    "tcp_worst": _tcp_spec(min, "slowest TCP flow at the bottleneck"),
    "tcp_best": _tcp_spec(max, "fastest TCP flow at the bottleneck"),
    "tcp_retransmitted": _fraction_spec(
        tcp_retransmitted,
        "packets that the TCP flows at the bottleneck sent again",
        of_traffic=True,
    ),
    **_window_specs(),
}


@cache
def measures_version() -> str:
    """Changes with how measures are taken."""
    code = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in code)).hexdigest()[:12]


# What a name of all_measures ends with.
WHICH = {"per_layer": "[1-8]", "per_receiver": r"h\d+(\.s\d+)?", "per_session": r"s\d+"}


def find_spec(name: str) -> MeasureSpec:
    """Raises ValueError for a name that all_measures never gives."""
    name, _, _ = name.partition("@")
    if name in MEASURES and not (MEASURES[name].per_layer or MEASURES[name].per_receiver):
        return MEASURES[name]
    base, _, which = name.rpartition("_")
    spec = MEASURES.get(base)
    if spec is None or not any(
        getattr(spec, per) and re.fullmatch(form, which) for per, form in WHICH.items()
    ):
        valid = []
        for known, one in MEASURES.items():
            if one.per_layer:
                valid.append(f"{known}_<layers>")
            elif one.per_receiver:
                valid.append(f"{known}_h<node>")
            else:
                valid += [known, f"{known}_s<session>"] if one.per_session else [known]
        raise ValueError(f"unknown measure {among(name, valid)}")
    return spec


def spec_of(name: str) -> tuple[MeasureSpec, str]:
    """Of a name that all_measures gives; and what people read."""
    spec = find_spec(name)
    name, _, period = name.partition("@")
    if period:
        return spec, f"{spec_of(name)[1]} ({period})"
    if name in MEASURES:
        return spec, name.replace("_", " ")
    base, _, which = name.rpartition("_")
    shown = base.replace("_", " ")
    if spec.per_receiver:
        return spec, f"{shown}, {which}"
    if spec.per_session:
        return spec, f"{shown}, session {which[1:]}"
    return spec, f"{shown}, {which} layer{'s' if which != '1' else ''}"


def all_measures(rows: Rows, context: Context) -> dict[str, float | None]:
    """Every measure; those per layer as name_1 ... name_n, those per receiver as name_h15. Those
    beside TCP where there is some. And all of these over each period, as name@period."""
    result: dict[str, float | None] = {}
    for period, window in context.periods.items():
        part = all_measures(rows, replace(context, window=window, periods={}))
        result |= {f"{name}@{period}": value for name, value in part.items()}
    for name, spec in MEASURES.items():
        if spec.of_traffic and not context.flows:
            continue
        if spec.per_layer:
            for n in range(1, context.layers + 1):
                result[f"{name}_{n}"] = _plain_value(spec.compute(rows, context, n))
        elif spec.per_receiver:
            for agent in context.members:
                result[f"{name}_{agent}"] = _plain_value(spec.compute(rows, context, agent))
        elif spec.per_session:
            for index, (session, agent) in enumerate(context.senders.items()):
                key = name if index == 0 else f"{name}_s{session}"
                result[key] = _plain_value(spec.compute(rows, context, agent))
        else:
            result[name] = _plain_value(spec.compute(rows, context))
    return result


def _plain_value(value: float | None) -> float | None:
    """No scalar of numpy, of which a comparison is no bool; what is not a number (a mean of
    nothing, a ratio to 0) is no measure."""
    return None if value is None or not math.isfinite(value) else float(value)
