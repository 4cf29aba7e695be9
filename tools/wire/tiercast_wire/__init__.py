"""The wire format (docs/wire-format.md) for Python: Scapy layers and a strict reader.

from tiercast_wire import SimData, Tiercast, parse
message = bytes(Tiercast(session=1) / SimData(rank=2, seq=7) / bytes(100))
parse(message).seq
"""

from tiercast_wire.group import Group, group_address, group_mac, group_of
from tiercast_wire.layers import (
    DATA_PORT,
    FEEDBACK_PORT,
    SimData,
    SimFeedback,
    SimRecord,
    Tiercast,
)
from tiercast_wire.reader import WireError, parse

__all__ = [
    "DATA_PORT",
    "FEEDBACK_PORT",
    "Group",
    "SimData",
    "SimFeedback",
    "SimRecord",
    "Tiercast",
    "WireError",
    "group_address",
    "group_mac",
    "group_of",
    "parse",
]
