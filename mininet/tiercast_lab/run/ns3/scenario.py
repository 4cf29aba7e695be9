"""Writes an experiment as the scenario that tiercast-ns3 reads
(proto/tiercast/v1/simulation.proto)."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import asdict
from ipaddress import IPv4Address
from typing import Any

from google.protobuf import proto
from tiercast.v1 import queue_pb2, session_pb2, simulation_pb2
from tiercast_controller.agents.lab import member_message

from tiercast_lab.base import binaries
from tiercast_lab.experiment.loaded_experiment import Flow, LoadedExperiment
from tiercast_lab.experiment.programs import own
from tiercast_lab.experiment.schema import Experiment, Period
from tiercast_lab.experiment.tcp_stack import TcpSender
from tiercast_lab.experiment.topology import Host, Topology
from tiercast_lab.run.agents import members, session_agents
from tiercast_lab.run.captures import Captures
from tiercast_lab.run.observed import of_switch, state_reads, traced_ports
from tiercast_lab.run.port_changes import port_changes, wire_message

# The time from the arrival of an IGMP report at the switch until its tables are changed. In Mininet
# the median is 5 to 15 ms.
CONTROL_DELAY_NS = 10_000_000
OVERHEAD_BYTES = -14  # rates and queues count IP bytes, as in Mininet: without the Ethernet header


def delimited(message: simulation_pb2.Scenario | simulation_pb2.ControllerAnswer) -> bytes:
    """As tiercast-ns3 reads it: its length, and the message."""
    output = io.BytesIO()
    proto.serialize_length_prefixed(message, output)
    return output.getvalue()


def scenario(
    loaded: LoadedExperiment, seed: int, captures: Captures | None = None
) -> simulation_pb2.Scenario:
    experiment, topology = loaded.experiment, loaded.topology
    flows = loaded.flows.items()
    captured = {} if captures is None else _captured(captures)
    return simulation_pb2.Scenario(
        program=str(binaries.P4_JSON),
        seed=seed,
        duration_ns=experiment.duration,
        record_every_ns=experiment.record_every or 0,
        switches=_switches(loaded, captured),
        hosts=(_host(topology, host) for host in topology.hosts.values()),
        sessions=_sessions(loaded, seed),
        tcp=(_tcp_flow(experiment, name, flow) for name, flow in flows if flow.kind == "tcp"),
        udp=(_udp_flow(experiment, name, flow) for name, flow in flows if flow.kind == "udp"),
        members=_member_changes(loaded),
        changes=(
            simulation_pb2.PortChange(at_ns=event.at, switch=switch, port=port, **fields)
            for event in experiment.link_events
            for switch, port, fields in port_changes(topology, event)
        ),
        records_wires=_records_wires(loaded),
        control_delay_ns=CONTROL_DELAY_NS,
    )


def _host(topology: Topology, host: Host) -> simulation_pb2.SimulatedHost:
    return simulation_pb2.SimulatedHost(
        name=host.name,
        number=host.number,
        address=int(IPv4Address(host.address)),
        gateway=int(IPv4Address(host.gateway)),
        mac=_number(host.mac),
        gateway_mac=_number(host.gateway_mac),
        switch=host.switch,
        switch_port=topology.switches[host.switch].port_to(host.name),
    )


def _number(mac: str) -> int:
    return int(mac.replace(":", ""), 16)


def _member_changes(loaded: LoadedExperiment) -> list[simulation_pb2.MemberChange]:
    experiment = loaded.experiment
    changes = [
        simulation_pb2.MemberChange(
            at_ns=change.at, session=session, host=f"h{node}", joins=change.joins
        )
        for session, node in experiment.member_changes
        for change in experiment.later_changes(session, node)
    ]
    return sorted(changes, key=lambda change: change.at_ns)


def _captured(captures: Captures) -> dict[tuple[str, str], simulation_pb2.Capture]:
    """The capture of each direction, by the nodes at its ends."""
    return {
        (way.sender, way.receiver): simulation_pb2.Capture(
            path=str(way.part),
            snap_bytes=captures.options.snap_bytes,
            max_bytes=captures.options.max_bytes,
        )
        for way in captures.directions
    }


def _switches(
    loaded: LoadedExperiment, captured: Mapping[tuple[str, str], simulation_pb2.Capture]
) -> list[simulation_pb2.SimulatedSwitch]:
    topology = loaded.topology
    # Hosts whose receivers have no rows. Their switch ports have none either.
    unrecorded = {f"h{node}" for nodes in loaded.receivers for node in nodes} - {
        f"h{node}" for nodes in loaded.recorded for node in nodes
    }
    traced, state = traced_ports(loaded), state_reads(loaded)
    return [
        simulation_pb2.SimulatedSwitch(
            name=switch.name,
            program=""
            if loaded.programs[switch.name] == own()
            else str(loaded.programs[switch.name].json),
            depth_register=loaded.programs[switch.name].load().manifest.depth_register or "",
            traces=of_switch(traced, switch.name),
            state=(read.message() for read in state if read.switch == switch.name),
            ports=(
                _port(loaded, switch.name, number, neighbour not in unrecorded, captured)
                for number, (neighbour, _) in enumerate(switch.ports, 1)
            ),
        )
        for switch in topology.switches.values()
    ]


def _sessions(loaded: LoadedExperiment, seed: int) -> list[simulation_pb2.SimulatedSession]:
    return [
        simulation_pb2.SimulatedSession(
            session=session_pb2.SessionSpec(
                scheme=one.session.scheme,
                session=one.session.session,
                layers=one.session.layers,
                packet_size=one.session.packet_size,
                seed=one.seed,
                parameters={name: str(value) for name, value in one.session.parameters.items()},
                members=map(member_message, members(loaded, one.session, one.receivers)),
            ),
            start_ns=one.session.start,
            stop_ns=one.session.stop or 0,
            suffix=one.suffix,
            sender=f"h{one.session.sender}",
            receivers=(
                simulation_pb2.SimulatedReceiver(
                    host=f"h{node}",
                    start_ns=start,
                    recorded=node in recorded,
                    lie=one.session.lies.get(node, ""),
                )
                for node, start in zip(one.receivers, one.starts, strict=True)
            ),
        )
        for one, recorded in zip(
            session_agents(loaded, seed), map(set, loaded.recorded), strict=True
        )
    ]


def _tcp_flow(experiment: Experiment, name: str, flow: Flow) -> simulation_pb2.TcpFlow:
    entry = experiment.traffic[flow.entry]
    tcp = entry.tcp
    return simulation_pb2.TcpFlow(
        **_of_any_flow(experiment, name, flow),
        congestion=entry.congestion_control,
        sack=tcp.sack,
        ecn=bool(entry.ecn),
        l4s=entry.ecn == "l4s",
        delayed_acks=tcp.delayed_acks,
        overhead_ns=entry.overhead,
        window_packets=tcp.window or 0,
        sender=_tcp_sender(tcp.sender),
        ack_delay_ns=tcp.ack_delay or 0,
    )


def _tcp_sender(sender: TcpSender) -> simulation_pb2.TcpSender:
    return simulation_pb2.TcpSender(
        initial_window_packets=sender.initial_window,
        rate_reduction=sender.rate_reduction,
        reno_recovery=sender.reno_recovery,
        restart_timer=sender.restart_timer,
        limited_transmit=sender.limited_transmit,
        whole_packets=sender.whole_packets,
        clock_tick_ns=sender.clock_tick,
        min_timeout_ns=sender.min_timeout,
        min_above_rtt=sender.min_above_rtt,
        connect_timeout_ns=sender.connect_timeout,
        data_retries=sender.data_retries,
    )


def _udp_flow(experiment: Experiment, name: str, flow: Flow) -> simulation_pb2.UdpFlow:
    rate = experiment.traffic[flow.entry].rate
    assert rate is not None  # Traffic's checks ensure this
    ecn = experiment.traffic[flow.entry].ecn
    return simulation_pb2.UdpFlow(
        **_of_any_flow(experiment, name, flow), rate_bps=rate, ecn=bool(ecn), l4s=ecn == "l4s"
    )


def _of_any_flow(experiment: Experiment, name: str, flow: Flow) -> dict[str, Any]:
    """The fields that TcpFlow and UdpFlow share."""
    entry = experiment.traffic[flow.entry]
    return {
        "name": name,
        "source": f"t{flow.source}",
        "destination": f"t{flow.destination}",
        "start_ns": round(flow.start_s * 1e9),
        "stop_ns": round(flow.stop_s * 1e9),
        "packet_size": entry.packet_size,
        "port": flow.port,
        "on_off": _on_off(entry.on, entry.off),
    }


def _on_off(on: Period | None, off: Period | None) -> simulation_pb2.OnOff | None:
    if on is None or off is None:
        return None
    return simulation_pb2.OnOff(on=_length(on), off=_length(off))


def _length(period: Period) -> simulation_pb2.Length:
    length = simulation_pb2.Length(
        distribution=simulation_pb2.Length.Distribution.Value(period.distribution.upper()),
        shape=period.shape or 0.0,
    )
    if period.in_packets:
        length.mean_packets = period.mean
    else:
        length.mean_ns = period.mean
    return length


def _port(
    loaded: LoadedExperiment,
    switch: str,
    number: int,
    recorded: bool,
    captured: Mapping[tuple[str, str], simulation_pb2.Capture],
) -> simulation_pb2.SimulatedPort:
    topology = loaded.topology
    neighbour, link = topology.switches[switch].ports[number - 1]
    parameters, to_host = link.sent_by(switch), neighbour in topology.hosts
    return simulation_pb2.SimulatedPort(
        port=number,
        rate_bps=parameters.rate,
        queue_packets=parameters.queue.packets,
        queue_bytes=parameters.queue.bytes,
        delay_ns=parameters.delay,
        # A host cannot delay packets, so the switch delays what arrives from its link.
        rx_delay_ns=parameters.delay if to_host else 0,
        overhead_bytes=OVERHEAD_BYTES,
        fair_queueing=parameters.scheduling != "fifo",
        layered=parameters.scheduling == "layered",
        peer=neighbour,
        peer_port=0 if to_host else topology.switches[neighbour].port_to(switch),
        link=topology.switches[switch].direction(number),
        recorded=recorded,
        red=_red(loaded, link.name) if parameters.rate else None,
        priority_queues=_priority_queues(loaded, link.name) if parameters.rate else None,
        wire=wire_message(parameters.wire),
        rx_wire=wire_message(link.sent_by(neighbour).wire) if to_host else None,
        capture=captured.get((switch, neighbour)),
        rx_capture=captured.get((neighbour, switch)) if to_host else None,
    )


def _red(loaded: LoadedExperiment, link: str) -> queue_pb2.Red | None:
    red = loaded.experiment.marking_of(link).queue_red()
    return None if red is None else queue_pb2.Red(**asdict(red))


def _priority_queues(loaded: LoadedExperiment, link: str) -> queue_pb2.PriorityQueues | None:
    two = loaded.experiment.marking_of(link).priority_queues()
    return None if two is None else queue_pb2.PriorityQueues(**asdict(two))


def _records_wires(loaded: LoadedExperiment) -> bool:
    """Whether wires ever do more than delay. Where they do not, rows have no columns for it."""
    at_first = (link.parameters.wire for link in loaded.topology.links.values())
    later = (event.wire for event in loaded.experiment.link_events)
    return any(wire.changes for wire in (*at_first, *later))
