"""Tracks which members are behind which port, by (group, switch, port), from IGMP reports.

Every reporter is tracked, so a leave takes effect as soon as no other reporter remains on the port,
or the leave latency after it. With versions 1 and 2, hosts that share a link suppress each other's
reports, which hides members; a port that leads to a single host, as all of ours do, avoids this.
The time is passed in (`now`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Generic, TypeVar

NEVER = float("inf")

# Stands for any host that joined before this controller started. Any leave removes it.
UNKNOWN_REPORTER = IPv4Address(0)


@dataclass(frozen=True)
class LayerMember:
    """A place of membership: where a tree has to lead."""

    session: int
    rank: int
    switch: str
    port: int


@dataclass(frozen=True)
class GroupMember:
    """The same of a group of any source."""

    group: IPv4Address
    switch: str
    port: int


Place = TypeVar("Place", LayerMember, GroupMember)


class Membership(Generic[Place]):
    def __init__(self, lifetime_s: float = NEVER, leave_latency_s: float = 0):
        """A member that is silent for `lifetime_s` is gone. NEVER if there is no querier. A
        reporter is gone `leave_latency_s` after its leave, unless it joins again: IGMP's last
        member query time (RFC 3376 6.4.2, 8.8)."""
        self._lifetime_s = lifetime_s
        self._leave_latency_s = leave_latency_s
        self._reporters: dict[Place, dict[IPv4Address, float]] = {}

    def join(self, member: Place, reporter: IPv4Address, now_s: float) -> bool:
        """Returns whether this is the first reporter at that place."""
        reporters = self._reporters.setdefault(member, {})
        first = not reporters
        reporters.pop(UNKNOWN_REPORTER, None)
        reporters[reporter] = now_s + self._lifetime_s
        return first

    def leave(self, member: Place, reporter: IPv4Address, now_s: float) -> bool:
        """Returns whether the place has lost its last reporter. With a leave latency none does
        before `expire`."""
        reporters = self._reporters.get(member)
        if reporters is None:
            return False
        left = [one for one in (reporter, UNKNOWN_REPORTER) if one in reporters]
        for one in left:
            deadline = reporters.pop(one)
            if self._leave_latency_s > 0:
                reporters[reporter] = min(deadline, now_s + self._leave_latency_s)
        return self._drop_if_empty(member)

    def loses_s(self, member: Place, reporter: IPv4Address) -> float:
        """When the place loses a reporter unless that reports; NEVER if it has no such reporter, or
        does not lose it."""
        return self._reporters.get(member, {}).get(reporter, NEVER)

    def ends_s(self, member: Place) -> float:
        """When the place loses its last reporter unless one reports; 0 if there is none."""
        return max(self._reporters.get(member, {}).values(), default=0)

    def doubt(self, switch: str, until_s: float) -> None:
        """Reports at a switch may have been missed: whoever does not report by `until_s` is
        gone."""
        for place, reporters in self._reporters.items():
            if place.switch == switch:
                for reporter, deadline in reporters.items():
                    reporters[reporter] = min(deadline, until_s)

    def reporters_at(self, switch: str, port: int) -> set[IPv4Address]:
        """Of all groups at a port."""
        return {
            reporter
            for place, reporters in self._reporters.items()
            if (place.switch, place.port) == (switch, port)
            for reporter in reporters
        }

    def expire(self, now_s: float) -> list[Place]:
        """Forgets reporters that were not heard in time. Returns the places that lost their last
        one."""
        gone = []
        for member, reporters in list(self._reporters.items()):
            for reporter in [r for r, deadline in reporters.items() if deadline <= now_s]:
                del reporters[reporter]
            if self._drop_if_empty(member):
                gone.append(member)
        return gone

    def members(self) -> Iterable[Place]:
        return self._reporters.keys()

    def _drop_if_empty(self, member: Place) -> bool:
        if self._reporters[member]:
            return False
        del self._reporters[member]
        return True
