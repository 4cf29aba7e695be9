"""The P4 programs of a run's switches: one for all, or one for each."""

from __future__ import annotations

from collections.abc import Mapping

from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.network.topology import Topology
from tiercast_controller.p4runtime.program import Program
from tiercast_controller.p4runtime.roles import Roles


def roles_of(
    topology: Topology,
    programs: Program | Mapping[str, Program],
    sources: Mapping[int, tuple[int, ...]],
) -> dict[str, Roles]:
    """The roles of each switch's program. Raises ConfigurationError if a switch has none."""
    made: dict[int, Roles] = {}  # switches share programs
    result = {}
    for switch in topology.switches:
        one = programs if isinstance(programs, Program) else programs.get(switch.name)
        if one is None:
            raise ConfigurationError(f"switch {switch.name} has no program")
        result[switch.name] = made.setdefault(id(one), Roles(one, sources))
    return result


def only_hosts(roles: Mapping[str, Roles]) -> set[str]:
    """The switches whose programs cannot route prefixes."""
    return {name for name, one in roles.items() if not one.has_prefixes}
