"""The tiercast controller: P4Runtime to every switch, multicast trees from IGMP, agents' home."""

from .controller import Controller, Event, Querier
from .errors import (
    AgentError,
    ConfigurationError,
    ControllerError,
    NotPrimaryError,
    SwitchError,
    UnsupportedError,
)
from .fates import EgressFates, IngressFates, PortFates
from .lab import Agent, Record
from .port_policy import DropTail, PortPolicy, PriorityMarking, Red, ThresholdMarking
from .program import Program
from .topology import Host, Session, Switch, Topology, group_address
from .virtual import VirtualController

__all__ = [
    "Agent",
    "AgentError",
    "ConfigurationError",
    "Controller",
    "ControllerError",
    "DropTail",
    "EgressFates",
    "Event",
    "Host",
    "IngressFates",
    "NotPrimaryError",
    "PortFates",
    "PortPolicy",
    "PriorityMarking",
    "Program",
    "Querier",
    "Record",
    "Red",
    "Session",
    "Switch",
    "SwitchError",
    "ThresholdMarking",
    "Topology",
    "UnsupportedError",
    "VirtualController",
    "group_address",
]
