"""Quantities that an experiment states, and their ranges."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from tiercast_lab.base import units
from tiercast_lab.base.units import Queue
from tiercast_lab.experiment.model import Choice

# Receivers start within this time of each other, as the seed decides, in virtual time: no two runs
# of a real network are the same.
START_SPREAD_NS = 100_000_000
MAX_SEED = 2**32 - 1

# Ranges of what an experiment says. tiercast-switch, tiercast-send, tiercast-host and tiercast-ns3
# take all of them; what they take beyond has its reason in docs/experiments.md.
MAX_NODES = 1 << 18  # that have addresses (topology.Host)
MAX_DURATION = 100_000 * 10**9  # ns
MIN_DURATION = 10**8  # ns; receivers start within it
DEFAULT_DURATION = 60 * 10**9  # ns
MAX_DELAY = 60 * 10**9  # ns, as of tiercast-switch
MIN_PERIOD = 10**6  # ns; of what comes again and again
MAX_CHANGES = 100_000  # of links, and of members, in a run
MAX_FLOWS = 60_000  # each has a port of its own (traffic.FIRST_PORT)
MAX_ENTRIES = 10_000  # of a list
# IP bytes of a data packet: the default, and the range of the lab. The headers of every scheme fit,
# and the packet fits the MTU of the lab's links. The programs take 46 to 9000, for NICs
# (protocols/core/session_config.h).
PACKET_SIZE = 1000
MIN_PACKET_SIZE = 100
MIN_FLOW_PACKET_SIZE = 128  # of TCP and UDP flows: Linux's smallest segment, 88 bytes, and 40
MAX_PACKET_SIZE = 1500

Rate = Annotated[int, BeforeValidator(units.parse_rate)]
# A nanosecond, in which virtual time counts, for the smallest packet.
LinkRate = Annotated[Rate, Field(ge=1)]
Duration = Annotated[int, BeforeValidator(units.parse_duration)]
Delay = Annotated[Duration, Field(le=MAX_DELAY)]
RunTime = Annotated[Duration, Field(le=MAX_DURATION)]
Every = Annotated[RunTime, Field(ge=MIN_PERIOD)]
Size = Annotated[int, BeforeValidator(units.parse_size)]
Packets = Annotated[int, BeforeValidator(units.parse_packets)]
QueueLimit = Annotated[Queue, BeforeValidator(units.parse_queue)]
Scheduling = Choice[Literal["fifo", "fair"]]
NodeNumber = Annotated[int, Field(ge=0, lt=MAX_NODES)]
