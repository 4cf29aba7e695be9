"""Limits what one host port can make the controller do, so that no host can keep others from
joining.

The switch limits reports before they get here, where its program has a meter for that
(`igmp_meter`). Here the rest is limited: how many group records a port's reports hold, and how many
reporters it has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from ipaddress import IPv4Address

REPORTS_PER_S = 200  # of a host port; a host with 8 sessions of 8 layers sends 64 when it starts
REPORTS_AT_ONCE = 200
RECORDS_PER_REPORT = 8  # on average: the layers of a session
REPORTERS = 64  # of a host port

_RECORD_BYTES = 8  # of a group record without sources (RFC 3376, 4.2.4)
_OVERHEAD_BYTES = 46  # Ethernet, IPv4 with Router Alert, and the report's own 8 bytes

Port = tuple[str, int]  # switch and port


@dataclass
class _PortState:
    tokens: float = REPORTS_AT_ONCE * RECORDS_PER_REPORT  # group records
    at_s: float = 0
    reporters: set[IPv4Address] = field(default_factory=set)
    reports: int = 0
    strangers: int = 0


class Policer:
    """Has no clock. `is_on` False: it lets everything through."""

    def __init__(self, is_on: bool, reporters_of: Callable[[Port], Collection[IPv4Address]]):
        """`reporters_of` says who has joined anything at a port."""
        self._is_on = is_on
        self._reporters_of = reporters_of
        self._ports: dict[Port, _PortState] = {}

    def admits(self, port: Port, frame_bytes: int, now_s: float) -> bool:
        """Whether a report of this size may be read. To be asked before it is."""
        if not self._is_on:
            return True
        state = self._ports.setdefault(port, _PortState(at_s=now_s))
        most, rate = (one * RECORDS_PER_REPORT for one in (REPORTS_AT_ONCE, REPORTS_PER_S))
        state.tokens = min(most, state.tokens + rate * max(0.0, now_s - state.at_s))
        state.at_s = max(state.at_s, now_s)
        records = max(1, (frame_bytes - _OVERHEAD_BYTES) // _RECORD_BYTES)
        if state.tokens < records:
            state.reports += 1
            return False
        state.tokens -= records
        return True

    def knows(self, port: Port, reporter: IPv4Address) -> bool:
        """Whether a port may have this reporter besides those that it has."""
        if not self._is_on:
            return True
        state = self._ports.setdefault(port, _PortState())
        if reporter not in state.reporters and len(state.reporters) >= REPORTERS:
            state.reporters = set(self._reporters_of(port))  # without those that have left
            if len(state.reporters) >= REPORTERS and reporter not in state.reporters:
                state.strangers += 1
                return False
        state.reporters.add(reporter)
        return True

    def refused(self, port: Port) -> tuple[int, int]:
        """Reports above the port's rate, and reports of reporters above its number."""
        state = self._ports.get(port)
        return (state.reports, state.strangers) if state else (0, 0)
