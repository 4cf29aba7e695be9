"""The tiercast controller: P4Runtime to every switch, multicast trees from IGMP, agents' server."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# A module is imported when one of its names is first used: reading a YAML needs no gRPC.
_MODULES = {
    "controller": ("Controller", "Event", "Querier"),
    "errors": (
        "AgentError",
        "ConfigurationError",
        "ControllerError",
        "NotPrimaryError",
        "ParameterError",
        "SwitchError",
        "UnsupportedError",
    ),
    "fates": ("EgressFates", "IngressFates", "PortFates"),
    "lab": ("Agent",),
    "marking": (
        "AnyMarking",
        "DropTail",
        "Marking",
        "NoMarking",
        "PortPolicy",
        "PortTraffic",
        "PriorityMarking",
        "Red",
        "ThresholdMarking",
    ),
    "program": ("Program",),
    "records": ("Record",),
    "topology": ("Host", "Session", "Switch", "Topology", "group_address"),
    "virtual": ("VirtualController",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_MODULE_OF[name]}", __name__), name)
    globals()[name] = value  # which is found without this function from then on
    return value
