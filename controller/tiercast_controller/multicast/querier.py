"""IGMP's querier: how often hosts are asked for their groups."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address

from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.multicast.igmp import general_query

_ROBUSTNESS = 2  # queries or reports that may be lost before a membership expires (RFC 3376 8.1)
_MAC = 0x020000000001


@dataclass(frozen=True)
class Querier:
    """Sends general queries to every host port, so that members that vanish silently expire."""

    interval_s: float = 125.0  # RFC 3376 8.2
    max_response_s: float = 10.0  # RFC 3376 8.3; 0.1..25.5
    version: int = 3  # 2 or 3
    address: IPv4Address = IPv4Address("0.0.0.0")  # the source address of queries (RFC 4541 2.1.1)

    @property
    def lifetime_s(self) -> float:
        """The group membership interval (RFC 3376 8.4)."""
        return _ROBUSTNESS * self.interval_s + self.max_response_s

    @property
    def frame(self) -> bytes:
        """A general query. Raises ConfigurationError if a value is out of its range."""
        if not self.interval_s > self.max_response_s:
            raise ConfigurationError(
                f"querier: interval_s {self.interval_s} must exceed "
                f"max_response_s {self.max_response_s}"
            )
        try:
            return general_query(
                self.version, self.max_response_s, self.address, _MAC, self.interval_s
            )
        except ValueError as error:
            raise ConfigurationError(f"querier: {error}") from None
