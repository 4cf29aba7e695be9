"""IGMP's querier: when hosts are asked for their groups, and what (RFC 2236, RFC 3376)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address

from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.multicast.igmp import query

_MAC = 0x020000000001
MAX_ROBUSTNESS = 7  # what a query has room for
MAX_COUNT = 100
# Sends a frame out of a port of a switch. One that is away misses it.
Send = Callable[[str, int, bytes], Awaitable[None]]
Port = tuple[str, int]  # switch and port


@dataclass(frozen=True)
class Querier:
    """Sends general queries to every host port, so that members that vanish silently expire, and
    asks for a group when a host leaves it. The names are those of RFC 3376, 8."""

    interval_s: float = 125.0  # 8.2
    max_response_s: float = 10.0  # 8.3; 0.1..25.5
    version: int = 3  # 2 or 3
    address: IPv4Address = IPv4Address("0.0.0.0")  # the source address of queries (RFC 4541 2.1.1)
    robustness: int = 2  # 8.1: queries or reports that may be lost before a membership expires
    startup_interval_s: float | None = None  # 8.6; None: a quarter of `interval_s`
    last_member_interval_s: float = 1.0  # 8.8; 0.1..25.5
    last_member_count: int | None = None  # 8.9; None: `robustness`; 0: leaves take effect at once

    def __post_init__(self) -> None:
        """Raises ConfigurationError if a value is out of its range."""
        if not self.interval_s > self.max_response_s:
            raise ConfigurationError(
                f"querier: interval_s {self.interval_s} must exceed "
                f"max_response_s {self.max_response_s}"
            )
        if not 1 <= self.robustness <= MAX_ROBUSTNESS:
            raise ConfigurationError(
                f"querier: robustness is {self.robustness}, not within 1..{MAX_ROBUSTNESS}"
            )
        if self.startup_interval_s is not None and not self.startup_interval_s > 0:
            raise ConfigurationError(
                f"querier: startup_interval_s is {self.startup_interval_s}, not above 0"
            )
        if not 0 <= self.specific_queries <= MAX_COUNT:
            raise ConfigurationError(
                f"querier: last_member_count is {self.last_member_count}, not within 0..{MAX_COUNT}"
            )
        for name in ("max_response_s", "last_member_interval_s"):
            if not 0.1 <= getattr(self, name) <= 25.5:
                raise ConfigurationError(
                    f"querier: {name} is {getattr(self, name)}, not within 0.1..25.5"
                )
        if self.version not in (2, 3):
            raise ConfigurationError(f"querier: IGMP version is {self.version}, not 2 or 3")

    @property
    def lifetime_s(self) -> float:
        """The group membership interval (8.4)."""
        return self.robustness * self.interval_s + self.max_response_s

    @property
    def startup_s(self) -> float:
        """Between the queries with which the querier starts."""
        return self.interval_s / 4 if self.startup_interval_s is None else self.startup_interval_s

    @property
    def known_after_s(self) -> float:
        """From the first query at the start until every member has been heard."""
        return self.robustness * self.startup_s + self.max_response_s

    @property
    def specific_queries(self) -> int:
        return self.robustness if self.last_member_count is None else self.last_member_count

    @property
    def leave_latency_s(self) -> float:
        """The last member query time (8.8): the tree is pruned so long after a leave."""
        return self.specific_queries * self.last_member_interval_s

    def general(self) -> bytes:
        return query(
            self.version,
            self.max_response_s,
            self.address,
            _MAC,
            self.interval_s,
            robustness=self.robustness,
        )

    def specific(
        self, group: IPv4Address, sources: Sequence[IPv4Address], suppresses: bool
    ) -> bytes:
        """A query for a group, or for some of its sources."""
        return query(
            self.version,
            self.last_member_interval_s,
            self.address,
            _MAC,
            self.interval_s,
            robustness=self.robustness,
            group=group,
            group_sources=sources,
            suppresses=suppresses,
        )


class Inquiries:
    """Carries out a Querier's timing: usage is to run its coroutines beside."""

    def __init__(self, querier: Querier, send: Send):
        self.querier = querier
        self._send = send
        # The queries that are left of each that runs, by port, group, and whether it is of sources.
        self._left: dict[tuple[Port, IPv4Address, bool], int] = {}

    async def ask_for_ever(self, ports: Collection[Port]) -> None:
        """Asks every interval, and at first more often (8.6, 8.7)."""
        asked = 0
        while True:
            for port in ports:
                await self._send(*port, self.querier.general())
            asked += 1
            starting = asked < self.querier.robustness
            await asyncio.sleep(self.querier.startup_s if starting else self.querier.interval_s)

    async def ask_anew(self, ports: Collection[Port]) -> None:
        """Asks as at the start, at ports whose reports may have been missed."""
        for number in range(self.querier.robustness):
            if number:
                await asyncio.sleep(self.querier.startup_s)
            for port in ports:
                await self._send(*port, self.querier.general())

    def ask_for(
        self,
        port: Port,
        group: IPv4Address,
        sources: Sequence[IPv4Address],
        ends_s: Callable[[], float],
    ) -> Coroutine[None, None, None] | None:
        """Asks who else wants a group, or some of its sources, that a host has just left (RFC 2236
        3, RFC 3376 6.6.3). `ends_s` says when the place expires, CLOCK_MONOTONIC; once it has been
        confirmed, other routers are told to keep their timers. None: such an inquiry runs, and asks
        as often as a new one would."""
        key = port, group, bool(sources)
        runs = key in self._left
        self._left[key] = self.querier.specific_queries
        return None if runs else self._ask_until_none_is_left(key, sources, ends_s)

    async def _ask_until_none_is_left(
        self,
        key: tuple[Port, IPv4Address, bool],
        sources: Sequence[IPv4Address],
        ends_s: Callable[[], float],
    ) -> None:
        port, group, _ = key
        try:
            while True:
                confirmed = ends_s() > time.monotonic() + self.querier.leave_latency_s
                await self._send(*port, self.querier.specific(group, sources, confirmed))
                self._left[key] -= 1
                if self._left[key] <= 0:
                    return
                await asyncio.sleep(self.querier.last_member_interval_s)
        finally:
            del self._left[key]
