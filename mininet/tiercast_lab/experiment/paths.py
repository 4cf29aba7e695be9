"""The paths that packets take in a run, while its links fail, return and change their delays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tiercast_controller.network.routes import LinkDelays, Routes, steps
from tiercast_controller.network.topology import EqualCosts

from tiercast_lab.experiment.schema import LinkEvent
from tiercast_lab.experiment.topology import Topology


@dataclass(frozen=True)
class Paths:
    """The paths from a time of the run until the next ones."""

    start: int  # ns
    routes: Routes[int]  # of unicast
    equal_costs: EqualCosts = "one"

    def of_session(self, session: int) -> Routes[int]:
        """The paths of the session's tree."""
        return self.routes if self.equal_costs == "one" else self.routes.keyed(session)


def directions(routes: Routes[int], sender: int, receiver: int) -> list[str]:
    """The path between two nodes as link directions, named as in rows of ports: "0>1"."""
    return [f"{a}>{b}" for a, b in steps(routes.path(sender, receiver))]


def paths_of_run(
    topology: Topology, events: Iterable[LinkEvent], equal_costs: EqualCosts
) -> list[Paths]:
    """The paths from 0 on, and from each time at which an event may move one. `events` are in the
    order of time."""
    if topology.is_tree:
        return [Paths(0, topology.routes)]  # there are no equal paths
    delays: LinkDelays[int] = LinkDelays()
    for link in topology.links.values():
        if not link.attaches:
            a, b = map(int, link.name.split("-"))
            delays.add(a, b, link.parameters.delay)
            delays.change(a, b, link.parameters.wire.up, None)
    known = {tuple(delays.of_links().values()): topology.routes}
    result = [Paths(0, topology.routes, equal_costs)]
    for event in events:
        changes = [
            delays.change(int(sender[1:]), int(receiver[1:]), event.wire.up, event.delay)
            for _, sender, receiver in topology.sides(event.link)
        ]
        if not any(changes):
            continue
        links = delays.of_links()
        routes = known.setdefault(tuple(links.values()), Routes(links))
        if result[-1].start == event.at:
            result.pop()
        result.append(Paths(event.at, routes, equal_costs))
    return result
