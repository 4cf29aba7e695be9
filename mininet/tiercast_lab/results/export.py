"""Writes a run's rows as CSV: one file for each table, and columns.csv, which says what each column
of each table is, with its unit."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tiercast_lab.base.errors import InputError, writing
from tiercast_lab.base.whole_file import write_whole
from tiercast_lab.measures.rows import LINK_LOSSES
from tiercast_lab.results.storage import StoredRun

COLUMNS = "columns.csv"
DOCUMENT = "docs/experiments.md, What is stored"

# The unit that the end of a column's name gives, and what such a column is.
_SUFFIXES = {
    "_s": "s",
    "_ms": "ms",
    "_us": "us",
    "_ns": "ns",
    "_Bps": "B/s",
    "_bps": "bit/s",
    "_bytes": "B",
    "_packets": "packets",
    "_percent": "%",
}
# Unit and meaning, by column; by table and column where tables differ.
_KNOWN: dict[str, tuple[str, str]] = {
    "time_s": ("s", "since the start of the run"),
    "agent": ("", "the host, switch, flow or program that the row is about"),
    "link": ("", "a direction of a link: 0>1 leads from node 0 to node 1"),
    "port": ("", "number of the switch's port"),
    "session": ("", "number of the session; -1: all other packets"),
    "layer": ("", "number of the layer, from 0; -1: of no layer"),
    "rank": ("", "number of the layer, from 0"),
    "top": ("", "the highest layer that is subscribed; -1: none"),
    "rank_top": ("", "the highest layer that is subscribed; -1: none"),
    "bytes": ("B", "IP bytes received since the start"),
    "packets": ("packets", "received since the start"),
    "lost": ("packets", "lost since the start, as the core counts them"),
    "marked": ("packets", "marked (CE) since the start"),
    "delivered": ("B", "of the object that is transferred, since the start"),
    "complete": ("", "1 once the whole object is there"),
    "entered": ("packets", "handed to the port's queue since the start"),
    "left": ("packets", "of those, whose service began"),
    "queue_drops": ("packets", "of those, dropped because the queue was full"),
    "policy_drops": ("packets", "of those, dropped by the port's policy (RED, drop tail)"),
    "pruned": ("packets", "of those, replicas that would have left where they came in"),
    "waiting": ("packets", "in the queue now"),
    "queue_packets": ("packets", "in the queue now"),
    "max_queue_packets": ("packets", "the longest queue since the last row"),
    "max_queue_bytes": ("B", "the longest queue since the last row"),
    "duplicated": ("packets", "copies that the link made since the start"),
    "on_wire": ("packets", "in service or on the wire now"),
    "rx_link_losses": ("packets", "lost on the wire towards this port since the start"),
    "rx_duplicated": ("packets", "copies made on the wire towards this port since the start"),
    "invalid": ("packets", "refused since the start: header, checksum or length"),
    "expired": ("packets", "dropped since the start: their time to live was over"),
    "no_group": ("packets", "dropped since the start: nobody had joined their group"),
    "no_route": ("packets", "dropped since the start: no route"),
    "policed": ("packets", "of IGMP, dropped since the start: above the port's rate"),
    "kernel_drops": ("packets", "dropped by the kernel at this port since the start"),
    "send_errors": ("packets", "that could not be sent, since the start"),
    "accepted": ("messages", "of feedback, accepted since the start"),
    "refused": ("messages", "of feedback, refused by the core since the start"),
    "malformed": ("messages", "of feedback, malformed, since the start"),
    "foreign": ("messages", "not for this session, since the start"),
    "control_dropped": ("messages", "that the sender could not send, since the start"),
    "dropped": ("packets", "dropped by this program or its socket"),
    "count": ("packets", "sent since the last row"),
    "cwnd": ("packets", "the congestion window"),
    "cwnd_mean": ("packets", "the congestion window, mean since the last row"),
    "ssthresh": ("packets", "the slow start threshold"),
    "fast_retransmits": ("", "since the start"),
    "timeouts": ("", "since the start"),
    "retransmitted": ("packets", "since the start"),
    "rx_packets": ("packets", "received at this port since the start"),
    "rx_bytes": ("B", "received at this port since the start"),
    "tx_packets": ("packets", "sent from this port since the start"),
    "tx_bytes": ("B", "sent from this port since the start"),
    "generated_packets": ("packets", "that were due since the start: sent and dropped"),
    "sent_packets": ("packets", "since the start"),
    "dropped_packets": ("packets", "that the device or its interface refused since the start"),
    "late_p50_us": ("us", "lateness of departures since the last row, median"),
    "late_p99_us": ("us", "lateness of departures since the last row, 99 % quantile"),
    "late_p999_us": ("us", "lateness of departures since the last row, 99.9 % quantile"),
    "late_max_us": ("us", "lateness of departures since the last row, highest"),
    "rtt_us": ("us", "round-trip time"),
    "goodput_bytes": ("B", "read by the receiving program since the start, without headers"),
    "sent_bytes": ("B", "IP bytes sent since the start"),
    "latency_us": ("us", "from the call to join until the first packet"),
    "longest_us": ("us", "the longest time since the last row in which the program did not run"),
    "cpu_percent": ("%", "of one core, used by the run's programs since the last row"),
    "cpu_wait_ms": (
        "ms",
        "mean wait for a core since the last row, of the program that waits most",
    ),
    "pressure_percent": ("%", "of the time since the last row in which a task waited for a core"),
    "status": ("", "the program's exit status"),
    "trace.bytes": ("B", "of the IP packet"),
    "flow": ("", "source > destination / protocol, with ports"),
    "fate": ("", "passed, marked, dropped (by the marking), full (the queue was), lost"),
    "by": ("", "the program's action that marked or dropped, or the part of the switch"),
    "lines": ("", "of the P4 program that decided, one a line; or the switch's reason"),
    "sequence": ("", "of the packet in its layer, or TCP's; -1: neither"),
    "ip_id": ("", "IPv4's identification"),
    "found_packets": ("packets", "that waited when it came, the one in service not counted"),
    "found_bytes": ("B", "that waited when it came"),
    "left_packets": ("packets", "that waited when its service began"),
    "wait_ns": ("ns", "until its service began, or egress dropped it"),
    "transit_ns": ("ns", "until its last bit was at the other end of the link"),
    "red_average": ("packets", "the average of RED on arrival"),
    "state.name": ("", "of the register or counter"),
    "state.index": ("", "of its cell"),
    "state.value": ("", "of a register's cell"),
    "state.packets": ("packets", "of a counter's cell"),
    "state.bytes": ("B", "of a counter's cell"),
    "layer.rate_Bps": ("B/s", "the rate that the core has set for this layer"),
    "received.rate_Bps": ("B/s", "the core's estimate of its received rate"),
    "socket.invalid": ("messages", "refused by the core since the start"),
    "packet_in.packets": ("packets", "punted to the controller since the start"),
    "packet_in.dropped": ("packets", "of those, dropped on the way to the controller"),
    **{name: ("packets", "lost by the link since the start") for name in LINK_LOSSES},
}


@dataclass(frozen=True)
class Exported:
    folder: Path
    tables: dict[str, int]  # the number of rows of each


def export_csv(run: StoredRun, folder: Path, overwrite: bool) -> Exported:
    """Writes the tables into the folder, which is made if there is none. Raises InputError if a
    file is already there, unless it may be overwritten, and if the disk refuses."""
    tables = {f"{kind}.csv": frame for kind, frame in run.rows.items()}
    contents = {**tables, COLUMNS: columns_of(run)}
    if os.path.lexists(folder) and not folder.is_dir():
        raise InputError(f"{folder}: it is not a folder; valid: a folder, there or new (--to DIR)")
    there = [name for name in contents if os.path.lexists(folder / name)]
    if there and not overwrite:
        raise InputError(
            f"{folder}: it has {there[0]} and {len(there) - 1} more of the files already; valid: "
            "another folder (--to DIR), or --overwrite"
        )
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, frame in contents.items():
            content = io.BytesIO()  # polars's own errors do not say that a disk is full
            frame.write_csv(content)
            write_whole(folder / name, content.getvalue())
    return Exported(folder, {kind: len(frame) for kind, frame in run.rows.items()})


def columns_of(run: StoredRun) -> pl.DataFrame:
    """Each column of each table, with its unit (empty for a name, a number or a share) and its
    meaning."""
    rows = []
    for kind, frame in run.rows.items():
        of_scheme = kind.split(".")[0] in {
            one["scheme"] for one in run.summary["network"]["sessions"]
        }
        for column in frame.columns:
            unit, meaning = _described(kind, column, of_scheme)
            rows.append((kind, column, unit, meaning))
    return pl.DataFrame(rows, ["table", "column", "unit", "meaning"], orient="row")


def _described(kind: str, column: str, of_scheme: bool) -> tuple[str, str]:
    unit = next((unit for end, unit in _SUFFIXES.items() if column.endswith(end)), "")
    if of_scheme and column not in ("time_s", "agent", "rank", "layer"):
        return unit, f"docs/protocols/{kind.split('.')[0]}.md"
    if column.startswith("register."):
        return "", "the register's last value in the decision, as the program has it"
    return _KNOWN.get(f"{kind}.{column}") or _KNOWN.get(column) or (unit, DOCUMENT)
