"""What every kind of marking has in common: its class, and how numbers become the program's.

Numbers are converted to fixed point only by `fixed` and `whole` (docs/p4.md).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from tiercast_controller.base.bounded_yaml import shown
from tiercast_controller.base.errors import ConfigurationError, ParameterError
from tiercast_controller.base.plugins import imported_from, named
from tiercast_controller.base.strict import Strict
from tiercast_controller.p4runtime.entities import TableEntry
from tiercast_controller.p4runtime.entities import entry as table_entry
from tiercast_controller.p4runtime.program import Program

QUEUE_BITS = 8  # fraction bits of a queue's length in packets
WORD = 1 << 32
DEPTH = 1 << 19  # of a queue's length as reported by the switch


@dataclass(frozen=True)
class QueueRed:
    """RED on arrival, decided by a port's queue: the fields of tiercast.v1.Red."""

    min_th: float
    max_th: float
    max_p: float
    weight: float
    mean_packet_bytes: float
    gentle: bool
    wait: bool
    ecn: bool
    mark_above_max: bool


@dataclass(frozen=True)
class PriorityQueues:
    """Two queues of a port, of which packets with a priority are served first: the fields of
    tiercast.v1.PriorityQueues."""

    low_share: float  # of the bytes sent while both wait, for packets without a priority
    queues: int = 2


@dataclass(frozen=True)
class PortQueue:
    """What a port's queue does besides holding packets in order."""

    red: QueueRed | None = None
    priority: PriorityQueues | None = None


@dataclass(frozen=True)
class Law:
    """With what probability a kind of marking marks or drops a packet, from what it looks at."""

    probability: Callable[[float], float]
    of: str  # what it looks at, in words, such as "average queue"
    unit: str
    # A register of the program, by egress port, that holds it, and its units in a `unit`; None: the
    # packets that the packet found waiting.
    register: str | None = None
    scale: float = 1.0
    least_found: int = 0  # packets that find fewer waiting are spared
    # Further registers, and whether a packet is spared, by the registers' cells.
    also: tuple[str, ...] = ()
    spared: Callable[[Mapping[str, float]], bool] | None = None


@dataclass(frozen=True)
class PortTraffic:
    """The properties of a port on which a marking depends besides its own keys."""

    rate_bps: int  # of the link, in IP bytes
    packet_bytes: int  # of a typical packet
    idle_us: int = 0  # a packet that found the queue empty and waited no longer found the link idle


class Marking(Strict):
    """A kind of marking: a class of this package, or one from a file in TIERCAST_MARKINGS."""

    kind: str
    # The program's registers, one cell for each port, in which it keeps its state.
    registers: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def entry(self, port: int, traffic: PortTraffic) -> TableEntry:
        """The entry of port_marking. Raises ParameterError for a value that the program cannot
        hold, with the parameter, the value and the valid range."""

    def queue_red(self) -> QueueRed | None:
        """What the port's queue does on arrival of packets, besides what the entry says."""
        return None

    def priority_queues(self) -> PriorityQueues | None:
        """The port's queues, if it has two. Packets of L4S then wait in the one that is served
        first (p4src/lib/queue_class.p4)."""
        return None

    def law(self, traffic: PortTraffic) -> Law | None:
        """Its equation; None where the decision is no function of one quantity."""
        return None

    def at(self, rate_bps: int, packet_bytes: int, idle_us: int = 0) -> PortPolicy | None:
        """The policy of a port; None for a port that has no rate, and so no queue."""
        traffic = PortTraffic(rate_bps, packet_bytes, idle_us)
        return PortPolicy(self, traffic) if rate_bps else None


@dataclass(frozen=True)
class PortPolicy:
    """A marking at a port."""

    marking: Marking
    traffic: PortTraffic

    def entry(self, port: int) -> TableEntry:
        """Raises ConfigurationError if the class of a user's file returns no entry, and
        ParameterError as Marking.entry does."""
        made: object = self.marking.entry(port, self.traffic)
        if not isinstance(made, TableEntry):
            raise ConfigurationError(
                f"{named(type(self.marking))}.entry() returned {shown(made)}; "
                "valid: port_entry(...)"
            )
        return made

    def queue(self) -> PortQueue:
        return PortQueue(self.marking.queue_red(), self.marking.priority_queues())


def require_registers(marking: Marking, program: Program) -> None:
    """Raises ConfigurationError if the class of a user's file names a register that the program
    does not have. A user's program may keep the state of our own kinds elsewhere."""
    kind = type(marking)
    for name in kind.registers if imported_from(kind) else ():
        try:
            program.register_bits(name)
        except ConfigurationError as error:
            raise ConfigurationError(f"{named(kind)}.registers: {error}") from None


def port_entry(port: int, action: str, parameters: Mapping[str, int]) -> TableEntry:
    """An entry of port_marking."""
    return table_entry("port_marking", {"egress_port": port}, action, parameters)


def whole(name: str, value: int, limit: int) -> int:
    """Returns `value` if it is below `limit`. Raises ParameterError otherwise."""
    if not 0 <= value < limit:
        raise ParameterError(f"{name} is {value}; valid: 0..{limit - 1}", name)
    return value


def fixed(
    name: str,
    value: float,
    fraction_bits: int,
    limit: int = WORD,
    rounded: Callable[[float], int] = round,
) -> int:
    """`value` with that many fraction bits. Raises ParameterError if the result is not below
    `limit`."""
    scaled = value * (1 << fraction_bits)
    units = rounded(scaled) if math.isfinite(scaled) else -1
    if not 0 <= units < limit:
        highest = (limit - 1) / (1 << fraction_bits)
        raise ParameterError(f"{name} is {value:g}; valid: 0..{highest:.9g}", name)
    return units
