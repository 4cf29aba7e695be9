"""The paths that packets take in a run, while its links fail, return and change their delays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tiercast_controller.network.flow_hash import flow_path
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

    def of_flow(self, source: int, destination: int, hashed: int | None) -> list[str]:
        """The path of a flow with this hash as link directions. None: of the directions, those that
        all paths which its packets may take have in common."""
        if self.equal_costs != "flow-hash":
            return directions(self.routes, source, destination)
        if hashed is not None:
            return _named(steps(flow_path(self.routes, source, destination, hashed)))
        equal = self.routes.equal_steps(source, destination)
        return _named(one for (one, *others) in equal if not others)

    def open_to(self, source: int, destination: int, hashed: int | None) -> list[str]:
        """All directions that packets of the flow may take."""
        if self.equal_costs != "flow-hash" or hashed is not None:
            return self.of_flow(source, destination, hashed)
        equal = self.routes.equal_steps(source, destination)
        return _named(step for at_one_place in equal for step in at_one_place)


def directions(routes: Routes[int], sender: int, receiver: int) -> list[str]:
    """The path between two nodes as link directions, named as in rows of ports: "0>1"."""
    return _named(steps(routes.path(sender, receiver)))


def _named(links: Iterable[tuple[int, int]]) -> list[str]:
    return [f"{a}>{b}" for a, b in links]


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
