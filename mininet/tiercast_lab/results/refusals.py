"""Checks whether a program refused what another one sent. If so, sender and receivers of a session
do not use the same format, and the run's measures say nothing about the scheme.

And says what switches and senders refused as forged: that a host lies, or floods the controller, is
no fault of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from tiercast_lab.measures import Rows
from tiercast_lab.measures.rows import totals
from tiercast_lab.results.verdict import Check

BOUND = 0.01
UNIT = "of all messages"
PURPOSE = "messages that a program refused, of those it was handed; of the one that refused most"
SHOWN = 3


@dataclass(frozen=True)
class _Refusals:
    """A program's counters, totals since its start, in rows of a kind."""

    kind: str
    taken: str  # the counter of accepted messages, in rows of `taken_kind`
    taken_kind: str
    refused: dict[str, str]  # what each counter of refused messages means


_OF_PROGRAMS = (
    _Refusals("socket", "packets", "received", {"invalid": "messages as invalid"}),
    _Refusals(
        "feedback",
        "accepted",
        "feedback",
        {
            "refused": "feedback messages as invalid",
            "malformed": "feedback messages as malformed: of no scheme that it knows, or cut short",
        },
    ),
)


_FORGED = {  # what each field of a row "feedback.refused" means
    "non_member": "messages of no member",
    "impersonated": "in a member's name from another address",
    "implausible": "that cannot be true",
}


def refusals(rows: Rows) -> list[Check]:
    """The check with the largest share of refused messages, and which program refused what. Empty
    if no program counts that."""
    shares: list[tuple[float, str]] = []
    for one in _OF_PROGRAMS:
        if one.kind not in rows or one.taken_kind not in rows:
            continue
        taken = dict(totals(rows[one.taken_kind], one.taken).iter_rows())
        for agent, *counts in totals(rows[one.kind], *one.refused).iter_rows():
            refused = sum(counts)
            handed = refused + taken.get(agent, 0)
            of_each = zip(counts, one.refused.values(), strict=True)
            said = [f"{count:.0f} {what}" for count, what in of_each if count]
            share = refused / handed if handed else 0.0
            shares.append((share, f"{agent} refused {', '.join(said)}"))
    if not shares:
        return []
    shares.sort(key=lambda one: (-one[0], one[1]))
    above = [sentence for share, sentence in shares if share > BOUND]
    named = above[:SHOWN] + ([f"and {len(above) - SHOWN} more"] if len(above) > SHOWN else [])
    return [Check("refused", shares[0][0], BOUND, UNIT, PURPOSE, where="; ".join(named))]


def refused_at_ports(rows: Rows) -> list[dict[str, Any]]:
    """What each port refused over the run: packets that were not from where they claimed to be, and
    IGMP above the port's rate (docs/security.md). Ports that refused nothing are left out."""
    if "port.refused" not in rows:
        return []
    last = rows["port.refused"].group_by("agent", "port", "link", maintain_order=True).last()
    counts = pl.col("refused", "policed").cast(pl.Int64)
    shown = last.select("agent", pl.col("port").cast(pl.Int64), "link", counts)
    return [
        {"switch": switch, "port": port, "link": link, "refused": refused, "policed": policed}
        for switch, port, link, refused, policed in shown.iter_rows()
    ]


def refused_by_senders(rows: Rows) -> list[dict[str, Any]]:
    """The feedback that each sender refused over the run, because it was not from the receiver in
    whose name it spoke (docs/security.md). Senders that refused nothing are left out."""
    return _refused(rows, "feedback.refused", "sender", *_FORGED)


def refused_seals(rows: Rows) -> list[dict[str, Any]]:
    """The messages that each program refused for their seals. Those that refused none are left
    out."""
    return _refused(rows, "seal.refused", "agent", "forged", "replayed")


def _refused(rows: Rows, kind: str, who: str, *fields: str) -> list[dict[str, Any]]:
    if kind not in rows:
        return []
    return [{who: agent, **dict(zip(fields, map(int, counts), strict=True))}
            for agent, *counts in totals(rows[kind], *fields).iter_rows()]  # fmt: skip


def complaints(
    ports: list[dict[str, Any]], senders: list[dict[str, Any]], seals: list[dict[str, Any]]
) -> list[str]:
    """A sentence for each port and each program."""
    sentences = []
    for port in ports:
        said = []
        if port["refused"]:
            said.append(f"{port['refused']} packets that were not from where they claimed to be")
        if port["policed"]:
            said.append(f"{port['policed']} reports of IGMP above its rate")
        sentences.append(f"port {port['port']} of {port['switch']} refused {' and '.join(said)}")
    for sender in senders:
        said = [f"{sender[name]} {what}" for name, what in _FORGED.items() if sender[name]]
        sentences.append(f"{sender['sender']} refused feedback: {' and '.join(said)}")
    for one in seals:
        sentences.append(
            f"{one['agent']} refused {one['forged']} messages with a wrong seal, and "
            f"{one['replayed']} that were seen before"
        )
    return sentences
