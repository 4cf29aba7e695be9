"""Explains what happened to one packet at each traced link that it came to, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import polars as pl

from tiercast_lab.base.errors import InputError, among, listed
from tiercast_lab.results.storage import StoredRun

FORM = "SESSION:LAYER:SEQ, such as 1:0:4711; or FLOW:IP_ID, such as tcp1:197"
_OF_SESSION = re.compile(r"([0-9]{1,5}):([0-7]):([0-9]{1,10})")
_OF_FLOW = re.compile(r"([^\s:]+):([0-9]{1,5})")
NEAR = 5  # packets that are named where one was not sampled
_UNICAST = re.compile(r"[0-9.]+:[0-9]+>[0-9.]+:([0-9]+)/(?:tcp|udp)")


@dataclass(frozen=True)
class Hop:
    """A packet at a traced link. Times in s."""

    link: str
    time_s: float
    row: dict[str, Any]

    def sentences(self) -> list[str]:
        row = self.row
        found = _count(row["found_packets"], "packet")
        text = f"{self.link} at {self.time_s:.6f} s: it found {found} waiting"
        if row["wait_ns"] is not None:
            text += f", waited {_ms(row['wait_ns'])}"
        by = f" by {row['by']}" if row["by"] else ""
        arrived = (
            ""
            if row["transit_ns"] is None
            else f"; its last bit was at the other end {_ms(row['transit_ns'])} after it came"
        )
        text += {
            "passed": f" and left without a mark{arrived}.",
            "marked": f" and was marked{by}{arrived}.",
            "dropped": f" and was dropped{by}.",
            "full": " and was dropped: no place was free.",
            "lost": " and was lost on the link.",
        }[row["fate"]]
        return [text, *(f"    {line}" for line in _lines(row))]


@dataclass(frozen=True)
class Explanation:
    packet: str  # in words
    hops: list[Hop]

    def text(self) -> list[str]:
        lines = [self.packet]
        for hop in self.hops:
            lines += hop.sentences()
        return lines

    def as_data(self) -> dict[str, Any]:
        return {
            "packet": self.packet,
            "hops": [
                {"time_s": hop.time_s, **hop.row, "lines": _lines(hop.row)} for hop in self.hops
            ],
        }


def explain_packet(run: StoredRun, packet: str) -> Explanation:
    """`packet`: as FORM says. Raises InputError, for a packet that was not sampled with those that
    were nearest."""
    rows = run.rows.get("trace")
    if rows is None:
        links = [one["link"] for one in run.summary.get("traced", ())]
        reason = f"no packet was sampled at {listed(links)}" if links else "it traced no link"
        raise InputError(f"{run.directory}: {reason}; valid: a run of an experiment with `trace`")
    if match := _OF_SESSION.fullmatch(packet):
        session, layer, sequence = map(int, match.groups())
        return _of_session(run, rows, session, layer, sequence)
    if match := _OF_FLOW.fullmatch(packet):
        return _of_flow(run, rows, match[1], int(match[2]))
    raise InputError(f"--packet {packet!r}; valid: {FORM}")


def _of_session(
    run: StoredRun, rows: pl.DataFrame, session: int, layer: int, sequence: int
) -> Explanation:
    sessions = sorted(rows.filter(pl.col("session") >= 0)["session"].unique())
    if session not in sessions:
        raise InputError(f"--packet: no packets of session {among(session, sessions or ['none'])}")
    mine = rows.filter((pl.col("session") == session) & (pl.col("layer") == layer))
    if mine.is_empty():
        layers = sorted(rows.filter(pl.col("session") == session)["layer"].unique())
        raise InputError(
            f"--packet: no packets of layer {layer} of session {session}; valid: {listed(layers)}"
        )
    found = mine.filter(pl.col("sequence") == sequence)
    name = f"{session}:{layer}:"
    if found.is_empty():
        raise InputError(
            f"--packet {name}{sequence}: not in the sample; near: "
            f"{_near(mine['sequence'], sequence, name)}"
        )
    words = f"Packet {sequence} of layer {layer} of session {session}, "
    return Explanation(words + _size(found), _hops(found))


def _of_flow(run: StoredRun, rows: pl.DataFrame, name: str, ip_id: int) -> Explanation:
    """Identifications wrap after 65536 packets: then all with this one are explained."""
    ports: dict[str, int] = run.summary.get("flow_ports", {})
    if name not in ports:
        raise InputError(f"--packet: no flow {among(name, ports or ['none'])}; or {FORM}")
    of_flow = [
        match is not None and str(ports[name]) == match[1]
        for match in map(_UNICAST.fullmatch, rows["flow"])
    ]
    mine = rows.filter(pl.Series(of_flow, dtype=pl.Boolean))
    if mine.is_empty():
        raise InputError(f"--packet: no packet of {name} is in the sample; valid: {FORM}")
    found = mine.filter(pl.col("ip_id") == ip_id)
    if found.is_empty():
        raise InputError(
            f"--packet {name}:{ip_id}: not in the sample; near: "
            f"{_near(mine['ip_id'], ip_id, name + ':')}"
        )
    # Both ends of a flow have one port. The packets that carry data are the larger ones.
    flow = found.sort("bytes", descending=True)["flow"][0]
    found = found.filter(pl.col("flow") == flow)
    return Explanation(f"Packet {ip_id} of {name}, {_size(found)}", _hops(found))


def _hops(rows: pl.DataFrame) -> list[Hop]:
    return [
        Hop(row["link"], row["time_s"], row) for row in rows.sort("time_s").iter_rows(named=True)
    ]


def _near(numbers: pl.Series, wanted: int, prefix: str) -> str:
    ranked = sorted(numbers.unique(), key=lambda one: abs(one - wanted))[:NEAR]
    return ", ".join(f"{prefix}{one}" for one in sorted(ranked))


def _size(rows: pl.DataFrame) -> str:
    links = _count(rows["link"].n_unique(), "traced link")
    return f"{rows['bytes'][0]} bytes, {rows['flow'][0]}, at {links}:"


def _lines(row: dict[str, Any]) -> list[str]:
    return [line for line in row["lines"].split("\n") if line]


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" + ("" if number == 1 else "s")


def _ms(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e6:.3f} ms"
