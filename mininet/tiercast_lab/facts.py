"""What measures, plots and reports know of a run's network without its YAML: the part `network` of
summary.json."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tiercast_lab.experiment import Loaded, member_name


def network_facts(loaded: Loaded) -> dict[str, Any]:
    """The topology as the report and the measures need it, without the YAML."""
    session, topology = loaded.experiment.sessions[0], loaded.topology
    flows = {
        name: {
            "from": flow.source,
            "to": flow.destination,
            "directions": topology.directions(flow.source, flow.destination),
            "kind": flow.kind,
            "rival": flow.rival,
            "start_s": flow.start_s,
            "stop_s": flow.stop_s,
            "packet_size": loaded.experiment.traffic[flow.entry].packet_size,
        }
        for name, flow in loaded.flows.items()
    }
    contenders = {name: flow for name, flow in flows.items() if flow["rival"]}
    users = Counter(direction for flow in contenders.values() for direction in flow["directions"])
    receivers = {}
    for node in loaded.recorded[0]:
        path = topology.path(session.sender, node)
        directions = topology.directions(session.sender, node)
        link, share = topology.bottleneck(session.sender, node, users)
        direction = directions[path.index(link)]
        receivers[f"h{node}"] = {
            "node": node,
            "path": path,
            "directions": directions,
            "bottleneck": link,
            "share": share,
            "rivals": [
                name for name, flow in contenders.items() if direction in flow["directions"]
            ],
            "available": available_steps(loaded, node),
            "absences": absences(loaded, node),
        }
    return {
        "sender": f"h{session.sender}",
        "sender_node": session.sender,
        "senders": [
            [one.session, member_name(one.sender, one.session if index else None)]
            for index, one in enumerate(loaded.experiment.sessions)
        ],
        "links": {
            link.name: {
                "rate": link.parameters.rate,
                "delay_ns": link.parameters.delay,
                "queue": str(link.parameters.queue),
            }
            for link in topology.links.values()
            if not link.attaches
        },
        "receivers": receivers,
        "members": [
            member_name(node, session.session if index else None)
            for index, (session, nodes) in enumerate(
                zip(loaded.experiment.sessions, loaded.recorded, strict=True)
            )
            for node in nodes
        ],
        "flows": flows,
        "round_trip_s": topology.round_trip(session.sender, loaded.receivers[0]) / 1e9,
    }


def absences(loaded: Loaded, node: int) -> list[tuple[float, float]]:
    """Intervals, s, in which the receiver has left, as `members` says."""
    result = []
    since = None if loaded.experiment.first_join(node) is None else 0.0
    for change in loaded.experiment.member_changes:
        if node not in change.receivers:
            continue
        if not change.joins and since is None:
            since = change.at / 1e9
        elif change.joins and since is not None:
            result.append((since, change.at / 1e9))
            since = None
    if since is not None:
        result.append((since, loaded.experiment.duration / 1e9))
    return result


def available_steps(loaded: Loaded, node: int) -> list[tuple[float, float]]:
    """(time_s, bit/s): the smallest rate on the receiver's path, as the events change it."""
    path = loaded.topology.path(loaded.experiment.sessions[0].sender, node)
    rates = {name: loaded.topology.links[name].parameters.rate for name in path}
    steps = [(0.0, float(min(rate for rate in rates.values() if rate)))]
    for event in loaded.experiment.link_events:
        if event.link in rates and event.rate is not None:
            rates[event.link] = event.rate
            steps.append((event.at / 1e9, float(min(rate for rate in rates.values() if rate))))
    return steps
