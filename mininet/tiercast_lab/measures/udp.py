"""Measures of UDP flows: all together or one."""

from __future__ import annotations

from functools import partial

from tiercast_lab.measures.context import Context
from tiercast_lab.measures.rows import Rows, increase
from tiercast_lab.measures.spec import RATE, fraction, measure

of_flows = partial(measure, which="flow", of_run=True, beside="udp")


@of_flows(RATE, "rate that arrives, all UDP flows together or one")
def udp_throughput(rows: Rows, context: Context, flow: str | None = None) -> float | None:
    """bit/s that arrives: IP bytes."""
    return _rate(rows, context, "bytes", flow)


@of_flows(RATE, "rate that is sent, all UDP flows together or one")
def udp_sent(rows: Rows, context: Context, flow: str | None = None) -> float | None:
    """bit/s that is sent: IP bytes."""
    return _rate(rows, context, "sent_bytes", flow)


@of_flows(fraction(), "packets that do not arrive / packets sent, all UDP flows together or one")
def udp_loss(rows: Rows, context: Context, flow: str | None = None) -> float | None:
    """Packets that did not arrive / packets sent. Those in flight at the start of the window count
    in place of those in flight at its end."""
    sent, arrived = (_increase(rows, context, name, flow) for name in ("sent_packets", "packets"))
    return max(0.0, 1 - arrived / sent) if sent else None


def _rate(rows: Rows, context: Context, column: str, flow: str | None) -> float | None:
    """The rate in bit/s over the part of the window from the flows' first start to their last
    stop."""
    parts = [context.flows[name].presence(context.window) for name in _named(context, flow)]
    there = [one for one in parts if one is not None]
    if "udp" not in rows or not there:
        return None
    seconds = max(stop for _, stop in there) - min(start for start, _ in there)
    return 8 * _increase(rows, context, column, flow) / seconds


def _increase(rows: Rows, context: Context, column: str, flow: str | None) -> float:
    """In real time each row has the counters of one end."""
    return sum(
        increase(mine.drop_nulls(column), column, *context.window, context.flows[name].there)
        for name in _named(context, flow)
        if column in (mine := rows.of("udp", name))
    )


def _named(context: Context, flow: str | None) -> list[str]:
    return [name for name in context.udp_flows if flow in (None, name)]
