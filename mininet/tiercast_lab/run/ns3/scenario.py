"""An experiment as tiercast-ns3 reads it (docs/ns3.md)."""

from __future__ import annotations

import random
from typing import Any

from tiercast_lab.base import binaries
from tiercast_lab.experiment.loaded_experiment import Flow, LoadedExperiment
from tiercast_lab.experiment.quantities import START_SPREAD_NS
from tiercast_lab.experiment.schema import Experiment, LinkEvent, Period
from tiercast_lab.experiment.topology import Topology

OVERHEAD_BYTES = -14  # rates and queues count IP bytes, as in Mininet


def scenario(loaded: LoadedExperiment, seed: int) -> dict[str, Any]:
    """The first line that tiercast-ns3 reads (ns3/scenario.h)."""
    experiment, topology = loaded.experiment, loaded.topology
    flows = loaded.flows.items()
    return {
        "program": str(binaries.P4_JSON),
        "seed": seed,
        "duration_ns": experiment.duration,
        "record_every_ns": experiment.record_every or 0,
        "switches": _switches(loaded),
        "hosts": [
            {
                "name": host.name,
                "number": host.number,
                "address": host.address,
                "gateway": host.gateway,
                "mac": host.mac,
                "gateway_mac": host.gateway_mac,
                "switch": host.switch,
                "switch_port": topology.switches[host.switch].port_to(host.name),
            }
            for host in topology.hosts.values()
        ],
        "sessions": _sessions(loaded, seed),
        "tcp": [_tcp_flow(experiment, name, flow) for name, flow in flows if flow.kind == "tcp"],
        "udp": [
            _flow(experiment, name, flow) | {"rate_bps": experiment.traffic[flow.entry].rate}
            for name, flow in flows
            if flow.kind == "udp"
        ],
        "members": _member_changes(experiment),
        "events": [
            change for event in experiment.link_events for change in _changes(topology, event)
        ],
    }


def _member_changes(experiment: Experiment) -> list[dict[str, Any]]:
    first_joins = experiment.first_joins
    changes = [
        {"at_ns": change.at, "session": session, "host": f"h{node}", "joins": change.joins}
        for (session, node), mine in experiment.member_changes.items()
        for change in mine
        if change.at != first_joins.get((session, node))  # it starts then
    ]
    return sorted(changes, key=lambda change: change["at_ns"])


def _switches(loaded: LoadedExperiment) -> list[dict[str, Any]]:
    topology = loaded.topology
    # Hosts whose receivers have no rows, and so their ports.
    unrecorded = {f"h{node}" for nodes in loaded.receivers for node in nodes} - {
        f"h{node}" for nodes in loaded.recorded for node in nodes
    }
    return [
        {
            "name": switch.name,
            "ports": [
                _port(topology, switch.name, number) | {"recorded": neighbour not in unrecorded}
                for number, (neighbour, _) in enumerate(switch.ports, 1)
            ],
        }
        for switch in topology.switches.values()
    ]


def _sessions(loaded: LoadedExperiment, seed: int) -> list[dict[str, Any]]:
    experiment = loaded.experiment
    first_joins = experiment.first_joins
    random_numbers = random.Random(seed)
    return [
        {
            "scheme": session.scheme,
            "session": session.session,
            "layers": session.layers,
            "packet_size": session.packet_size,
            "seed": _session_seed(seed, session.session) if suffix else seed,
            "start_ns": session.start,
            "suffix": suffix,
            "sender": f"h{session.sender}",
            "receivers": [
                {
                    "host": f"h{node}",
                    "start_ns": max(session.start, first_joins.get((session.session, node), 0))
                    + random_numbers.randrange(START_SPREAD_NS),
                    "recorded": node in recorded,
                }
                for node in receivers
            ],
            "set": [f"{name}={value}" for name, value in session.parameters.items()],
        }
        for session, receivers, recorded, suffix in zip(
            experiment.sessions,
            loaded.receivers,
            map(set, loaded.recorded),
            _suffixes(experiment),
            strict=True,
        )
    ]


def _tcp_flow(experiment: Experiment, name: str, flow: Flow) -> dict[str, Any]:
    entry = experiment.traffic[flow.entry]
    return _flow(experiment, name, flow) | {
        "congestion": entry.congestion_control,
        "sack": True,  # as a kernel has it
        "ecn": entry.ecn,
        "delayed_acks": entry.delayed_acks,
        "overhead_ns": entry.overhead,
        "window_packets": entry.window or 0,
    }


def _flow(experiment: Experiment, name: str, flow: Flow) -> dict[str, Any]:
    entry = experiment.traffic[flow.entry]
    description = {
        "name": name,
        "from": f"t{flow.source}",
        "to": f"t{flow.destination}",
        "start_ns": round(flow.start_s * 1e9),
        "stop_ns": round(flow.stop_s * 1e9),
        "packet_size": entry.packet_size,
    }
    if entry.on is not None and entry.off is not None:
        description |= {"on": _period(entry.on), "off": _period(entry.off)}
    return description


def _period(period: Period) -> dict[str, Any]:
    shape = {} if period.shape is None else {"shape": period.shape}
    unit = "mean_packets" if period.in_packets else "mean_ns"
    return {"distribution": period.distribution, unit: period.mean} | shape


def _session_seed(seed: int, session: int) -> int:
    """Of each session but the first: agents of two sessions may be at one node, and an agent's
    random numbers follow from its session's seed and its node's number."""
    return random.Random(f"session {session} of {seed}").getrandbits(32)


def _suffixes(experiment: Experiment) -> list[str]:
    """What the agents' names end with in the rows of each session (experiment.member_name)."""
    return ["", *(f".s{session.session}" for session in experiment.sessions[1:])]


def _port(topology: Topology, switch: str, number: int) -> dict[str, Any]:
    neighbour, link = topology.switches[switch].ports[number - 1]
    parameters, to_host = link.sent_by(switch), neighbour in topology.hosts
    return {
        "port": number,
        "rate_bps": parameters.rate,
        "queue_packets": parameters.queue.packets,
        "queue_bytes": parameters.queue.bytes,
        "delay_ns": parameters.delay,
        # A host delays nothing itself: its link's upstream delay is added where it arrives.
        "rx_delay_ns": parameters.delay if to_host else 0,
        "overhead_bytes": OVERHEAD_BYTES,
        "fair_queueing": parameters.fair,
        "peer": neighbour,
        "peer_port": 0 if to_host else topology.switches[neighbour].port_to(switch),
        "link": topology.switches[switch].direction(number),
    }


def _changes(topology: Topology, event: LinkEvent) -> list[dict[str, Any]]:
    """An event at each end of its link that is a switch."""
    link = topology.links[event.link]
    changes = []
    for end, other in ((link.a, link.b), (link.b, link.a)):
        if end not in topology.switches:
            continue
        limited = end == link.a or not link.parameters.one_way
        queue = event.queue if limited else None
        change = {
            "at_ns": event.at,
            "switch": end,
            "port": topology.switches[end].port_to(other),
            "rate_bps": event.rate if limited else None,
            "queue_packets": queue and queue.packets,
            "queue_bytes": queue and queue.bytes,
            "delay_ns": event.delay,
            "rx_delay_ns": event.delay if other in topology.hosts else None,
        }
        changes.append({key: value for key, value in change.items() if value is not None})
    return changes
