"""The agents of a run: their names and seeds, and when each comes and goes.

All of this is the same in real and in virtual time."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address

from tiercast_controller.network.aggregation import aggregator
from tiercast_controller.network.topology import Member

from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.quantities import START_SPREAD_NS
from tiercast_lab.experiment.schema import Session, member_name


@dataclass(frozen=True)
class AgentChange:
    """An agent joins its session, or leaves it."""

    at: int  # ns
    agent: str
    joins: bool


@dataclass(frozen=True)
class SessionAgents:
    """One session's agents. `starts` are the times, in ns, at which the receivers join first."""

    session: Session
    receivers: tuple[int, ...]  # nodes
    starts: tuple[int, ...]
    suffix: str  # of their names, behind the host's
    seed: int

    @property
    def sender(self) -> str:
        return f"h{self.session.sender}{self.suffix}"

    @property
    def names(self) -> list[str]:
        return [self.sender, *(f"h{node}{self.suffix}" for node in self.receivers)]


def session_agents(loaded: LoadedExperiment, seed: int) -> list[SessionAgents]:
    """The agents of each session in a run with this seed. Receivers first join at a random moment
    within START_SPREAD_NS."""
    experiment = loaded.experiment
    first_joins = experiment.first_joins
    random_numbers = random.Random(seed)
    result = []
    for index, (session, receivers) in enumerate(
        zip(experiment.sessions, loaded.receivers, strict=True)
    ):
        starts = tuple(
            max(session.start, first_joins.get((session.session, node), 0))
            + random_numbers.randrange(START_SPREAD_NS)
            for node in receivers
        )
        number = session.session if index else None
        suffix = member_name(0, number).removeprefix("h0")
        own = _session_seed(seed, session.session) if index else seed
        result.append(SessionAgents(session, receivers, starts, suffix, own))
    return result


def _session_seed(seed: int, session: int) -> int:
    """The seed of any session but the first. Two sessions may have agents on one node, and an agent
    draws its random numbers from its session's seed and its node's number."""
    return random.Random(f"session {session} of {seed}").getrandbits(32)


def members(
    loaded: LoadedExperiment, session: Session, receivers: Iterable[int]
) -> tuple[Member, ...]:
    """Whose feedback the session's sender accepts: the receivers', and, if the network aggregates
    feedback, that of the aggregator next to it."""
    hosts = loaded.topology.hosts
    found = [hosts[f"h{node}"] for node in receivers]
    result = [Member(host.number, IPv4Address(host.address)) for host in found]
    if session.aggregation == "network":
        nearest = loaded.topology.switches[hosts[f"h{session.sender}"].switch]
        result.append(aggregator(IPv4Address(nearest.address), len(found)))
    return tuple(result)


def agent_changes(loaded: LoadedExperiment, seed: int) -> list[AgentChange]:
    """Every join and leave of a run before its end, in the order of time."""
    changes = [
        change
        for agents in session_agents(loaded, seed)
        for change in _changes_of(loaded, agents)
        if change.at < loaded.experiment.duration
    ]
    return sorted(changes, key=lambda change: change.at)


def _changes_of(loaded: LoadedExperiment, agents: SessionAgents) -> Iterator[AgentChange]:
    session, experiment = agents.session, loaded.experiment
    yield AgentChange(session.start, agents.sender, joins=True)
    for node, start in zip(agents.receivers, agents.starts, strict=True):
        name = f"h{node}{agents.suffix}"
        yield AgentChange(start, name, joins=True)
        for change in experiment.later_changes(session.session, node):
            yield AgentChange(change.at, name, change.joins)
    if session.stop is not None:
        for name in reversed(agents.names):
            yield AgentChange(session.stop, name, joins=False)
