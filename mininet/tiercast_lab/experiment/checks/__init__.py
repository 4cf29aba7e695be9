"""Checks what no key of an experiment can show alone.

Every error is an InputError that names the key that is easiest to change.
"""

from __future__ import annotations

import re
from dataclasses import replace

from tiercast_controller.base.bounded_yaml import shown
from tiercast_controller.network.routes import Routes

from tiercast_lab.base.errors import InputError, listed
from tiercast_lab.experiment.checks.changes import (
    check_changes,
    check_churn,
    check_events,
    check_members,
    late_members,
    with_nodes,
)
from tiercast_lab.experiment.checks.links import (
    check_markings,
    check_ports,
    check_switches,
    links_of,
)
from tiercast_lab.experiment.checks.measured import (
    check_expectations,
    check_observed,
    check_window,
    resolved,
)
from tiercast_lab.experiment.checks.sessions import (
    check_aggregation,
    check_keys,
    sessions_of,
)
from tiercast_lab.experiment.checks.traffic import check_groups, check_traffic, single_flows
from tiercast_lab.experiment.checks.unknown import no_node
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.paths import Paths
from tiercast_lab.experiment.schema import Experiment
from tiercast_lab.experiment.schemes import SchemeInfo
from tiercast_lab.experiment.topology import Topology
from tiercast_lab.experiment.yaml_source import Source


def check(
    source: Source, experiment: Experiment, schemes: dict[str, SchemeInfo], file: str
) -> LoadedExperiment:
    """Returns the experiment with its network, and with its sessions and flows listed one by one.
    Raises InputError."""
    links = links_of(source, experiment.topology)
    nodes = {node for link in links for node in link}
    for key in ("names", "places"):
        for node in getattr(experiment.topology, key):
            if not re.fullmatch("0|[1-9][0-9]{0,5}", node) or int(node) not in nodes:
                raise source.error(("topology", key, node), no_node(shown(node), nodes))
    routes = Routes({link: parameters.path_delay for link, parameters in links.items()})
    listed = sessions_of(source, experiment, schemes, links, nodes)
    sessions = [one.session for one in listed]
    receivers = [one.receivers for one in listed]
    first = sessions[0] if sessions else None
    check_traffic(source, experiment, nodes, len(receivers[0]) if receivers else 0)
    paths = Paths(0, routes, experiment.topology.equal_costs)
    tree = paths.of_session(first.session if first else 0)
    members = {one.session: of_one for one, of_one in zip(sessions, receivers, strict=True)}
    flows = [
        (("traffic", str(index)), one)
        for index, entry in enumerate(experiment.traffic)
        for one in (single_flows(entry, tree, first.sender, receivers[0]) if first else [entry])
    ]
    experiment = experiment.model_copy(
        update={
            "sessions": sessions,
            "churn": [
                with_nodes(source, index, one, first.session if first else 0, members)
                for index, one in enumerate(experiment.churn)
            ],
            "traffic": [one for _, one in flows],
            "expect": [
                resolved(source, index, one, sessions, links, routes)
                for index, one in enumerate(experiment.expect)
            ],
        }
    )
    topology = Topology(
        links,
        [session.sender for session in sessions],
        [node for of_one in receivers for node in of_one],
        [node for entry in experiment.traffic for node in entry.nodes],
    )
    check_ports(source, topology)
    check_switches(source, experiment.topology, topology)
    check_groups(source, experiment)
    check_changes(source, experiment)
    check_events(source, experiment, topology, links)
    check_observed(source, experiment, topology, links)
    check_members(source, experiment, members)
    check_churn(source, experiment)
    check_window(source, experiment)
    loaded = LoadedExperiment(
        experiment,
        topology,
        tuple(receivers),
        tuple(schemes[session.scheme].layered for session in sessions),
        source,
        file,
        {session.scheme: schemes[session.scheme].records for session in sessions},
        {
            session.scheme: {
                name: info.default for name, info in schemes[session.scheme].parameters.items()
            }
            for session in sessions
        },
        tuple(one.path for one in listed),
        tuple(path for path, _ in flows),
    )
    check_aggregation(source, loaded)
    check_keys(source, loaded)
    check_markings(source, loaded)
    check_expectations(source, loaded)
    notes = (*late_members(source, experiment), *_notes(loaded))
    return replace(loaded, notes=notes)


def require_real_time(loaded: LoadedExperiment) -> None:
    """Raises InputError if the experiment asks for what only virtual time has."""
    if keys := loaded.experiment.only_in_virtual_time:
        raise InputError(f"{loaded.file}: {', '.join(keys)}: not in Mininet; valid: --runtime ns3")


def _notes(loaded: LoadedExperiment) -> tuple[str, ...]:
    spread = [name for name, flow in loaded.flows.items() if loaded.is_spread(flow)]
    if not spread:
        return ()
    return (
        f"equal_costs: each connection of {listed(spread)} may take another of several equal "
        "paths; measures count these flows only on links that all of the paths have",
    )
