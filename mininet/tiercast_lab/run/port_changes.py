"""What a change of a link means for the ports of the switches at its ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tiercast.v1 import queue_pb2

from tiercast_lab.experiment.schema import LinkEvent
from tiercast_lab.experiment.topology import Topology
from tiercast_lab.experiment.wire import Wire


def port_changes(topology: Topology, event: LinkEvent) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """For each port that changes its switch, its number, and the fields of SetLinkRequest and
    PortChange (proto/tiercast/v1) by name; None leaves a field as it is."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for link, sender, receiver in topology.sides(event.link):
        limited = sender == link.a or not link.parameters.one_way
        wire = event.wire if limited else Wire(up=event.wire.up)
        if sender in topology.switches:
            fields = {"delay_ns": event.delay, "wire": wire_message(wire)}
            if limited:
                fields["rate_bps"] = event.rate
                fields["queue_packets"] = None if event.queue is None else event.queue.packets
                fields["queue_bytes"] = None if event.queue is None else event.queue.bytes
            place = sender, topology.switches[sender].port_to(receiver)
        else:
            # A host can do nothing to packets, so the switch does it when they arrive.
            fields = {"rx_delay_ns": event.delay, "rx_wire": wire_message(wire)}
            place = receiver, topology.switches[receiver].port_to(sender)
        found.setdefault(place, {}).update(fields)
    for (switch, port), fields in found.items():
        if any(value is not None for value in fields.values()):
            yield switch, port, fields


def wire_message(wire: Wire) -> queue_pb2.Wire | None:
    """None if it changes nothing."""
    if not wire.changes:
        return None
    loss, reorder = wire.loss, wire.reorder
    return queue_pb2.Wire(
        up=wire.up,
        loss=None
        if loss is None
        else queue_pb2.Loss(
            to_bad=loss.to_bad, to_good=loss.to_good, in_bad=loss.in_bad, in_good=loss.in_good
        ),
        jitter_ns=wire.jitter,
        reorder=None
        if reorder is None
        else queue_pb2.Reordering(share=reorder.share, delay_ns=reorder.delay),
        duplicate=wire.duplicate,
    )
