"""The P4 programs of a run's switches: one for all, or one for each; and the entries that they get
whoever their members are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.network.aggregation import aggregation_entries
from tiercast_controller.network.routing import static_entries
from tiercast_controller.network.topology import Session, Topology
from tiercast_controller.p4runtime.entities import TableEntry
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


def all_routes(
    topology: Topology, sessions: Sequence[Session], roles: Mapping[str, Roles]
) -> dict[str, list[TableEntry]]:
    """By switch, on the paths that the topology has now: everything that moves with them, but the
    trees."""
    only_hosts = {name for name, one in roles.items() if not one.has_prefixes}
    aggregation = aggregation_entries(topology, sessions)
    return {
        name: [*entries, *aggregation[name]]
        for name, entries in static_entries(topology, only_hosts).items()
    }
