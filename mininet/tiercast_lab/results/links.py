"""What happened to the packets on each link of a run: dropped, lost, duplicated or marked."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

import polars as pl

from tiercast_lab.measures.rows import LINK_LOSSES, WIRE
from tiercast_lab.results.storage import StoredRun

OTHERS = -1  # the session of packets that belong to none: feedback, TCP, UDP


@dataclass
class LinkCounts:
    """The packets of the whole run in one direction of a link; None where the switch does not
    count."""

    link: str  # such as "1>3"
    policy: str  # the kind of its marking
    entered: int | None
    left: int | None
    queue_drops: int | None
    policy_drops: int | None
    pruned: int | None
    waiting: int | None
    # Lost on the wire or because the link was down, and made by the wire; None in a run whose wires
    # only delay.
    link_losses: int | None
    duplicated: int | None
    # By session; of a switch that counts no sessions all are of OTHERS.
    marked: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    @property
    def affected(self) -> int:
        """The packets that were dropped, lost, duplicated or marked."""
        by_link = (self.link_losses or 0) + (self.duplicated or 0)
        dropped = (self.queue_drops or 0) + (self.policy_drops or 0)
        return dropped + sum(self.marked.values()) + by_link


def link_counts(run: StoredRun) -> list[LinkCounts]:
    """The links on which any packet entered or left, except those that attach hosts."""
    rows, links = run.rows, run.summary["network"]["links"]
    if "port" not in rows:
        return []
    found: dict[str, LinkCounts] = {}
    last = rows["port"].unique(["agent", "port"], keep="last", maintain_order=True)
    counts: tuple[str, ...] = ("entered", "left", "queue_drops", "policy_drops", "pruned")
    if set(WIRE) <= set(last.columns):
        last = last.with_columns(link_losses=pl.sum_horizontal(*LINK_LOSSES))
    else:
        last = last.with_columns(link_losses=None, duplicated=None)
    counts += ("link_losses", "duplicated")
    for port in last.select("link", "queue_packets", "marked", *counts).iter_rows(named=True):
        name = _name_of(run, port["link"])
        if name in links and (port["entered"] or port["left"]):
            found[port["link"]] = LinkCounts(
                link=port["link"],
                policy=links[name]["marking"],
                waiting=port["queue_packets"],
                **{name: port[name] for name in counts},
            )
            if port["entered"] is None and port["marked"]:
                found[port["link"]].marked[OTHERS] = port["marked"]
    if "port.session" in rows:
        keys = ["agent", "port", "session", "layer"]
        last = rows["port.session"].unique(keys, keep="last", maintain_order=True)
        for link, session, marked in last.select("link", "session", "marked").iter_rows():
            if link in found:
                found[link].marked[session] += marked
    return sorted(found.values(), key=lambda one: numbers_of(one.link))


def numbers_of(link: str) -> list[int]:
    """A sort key that puts 0>2 before 0>10."""
    return [int(number) for number in re.findall(r"\d+", link)]


def policy_of(run: StoredRun, direction: str) -> str:
    """What a link does besides limiting its queue: the kind of its marking."""
    return str(run.summary["network"]["links"][_name_of(run, direction)]["marking"])


def _name_of(run: StoredRun, direction: str) -> str:
    """The link's name as the experiment spells it."""
    a, _, b = direction.partition(">")
    return f"{a}-{b}" if f"{a}-{b}" in run.summary["network"]["links"] else f"{b}-{a}"
