"""The quantities that an experiment states, and their ranges."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from tiercast_controller.base import units
from tiercast_controller.base.units import Duration, Queue

from tiercast_lab.experiment.model import Choice

# In virtual time each receiver starts at a random moment within this time, drawn from the seed: no
# two runs of a real network are the same.
START_SPREAD_NS = 100_000_000
MAX_SEED = 2**32 - 1

# Ranges of an experiment's values. tiercast-switch, tiercast-send, tiercast-host and tiercast-ns3
# accept all of them; docs/experiments.md explains why some accept more.
MAX_NODES = 1 << 18  # for which there are addresses (topology.Host)
MAX_DURATION = 100_000 * 10**9  # ns
MIN_DURATION = 10**8  # ns; all receivers start within it
DEFAULT_DURATION = 60 * 10**9  # ns
MAX_DELAY = 60 * 10**9  # ns, as in tiercast-switch
MIN_PERIOD = 10**6  # ns, of anything that repeats
MAX_CHANGES = 100_000  # of links and members in a run
MAX_FLOWS = 60_000  # each has its own port
FIRST_FLOW_PORT = 5502  # the two before are tiercast's own (docs/wire-format.md)
MAX_ENTRIES = 10_000  # of a list
MAX_SENDERS = 100  # of a session
MAX_GROUPS = 1000  # of `multicast`
# IP bytes of a data packet: the default, and the lab's range. The headers of every scheme fit into
# the smallest packet, and the largest fits the MTU of the lab's links. The programs accept 46 to
# 9000, for NICs (protocols/core/session_config.h).
PACKET_SIZE = 1000
MIN_PACKET_SIZE = 100
MIN_FLOW_PACKET_SIZE = 128  # of TCP and UDP flows: Linux's smallest segment of 88 bytes, plus 40
MAX_PACKET_SIZE = 1500

Rate = Annotated[int, BeforeValidator(units.parse_rate)]
# 0 would mean unlimited.
LinkRate = Annotated[Rate, Field(ge=1)]
Delay = Annotated[Duration, Field(le=MAX_DELAY)]
RunTime = Annotated[Duration, Field(le=MAX_DURATION)]
Every = Annotated[RunTime, Field(ge=MIN_PERIOD)]
Size = Annotated[int, BeforeValidator(units.parse_size)]
Packets = Annotated[int, BeforeValidator(units.parse_packets)]
QueueLimit = Annotated[Queue, BeforeValidator(units.parse_queue)]
Scheduling = Choice[Literal["fifo", "fair", "layered"]]
NodeNumber = Annotated[int, Field(ge=0, lt=MAX_NODES)]


def require_rising(least: float | None, most: float | None) -> None:
    """Raises ValueError for bounds that nothing can meet."""
    if least is not None and most is not None and least > most:
        raise ValueError("min is above max; valid: min, max or both, min at most max")
