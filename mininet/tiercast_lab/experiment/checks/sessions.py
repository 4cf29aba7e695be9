"""Sessions: who sends, who receives, by which scheme, and until when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tiercast_controller.base import units
from tiercast_controller.base.bounded_yaml import shown
from tiercast_controller.base.limits import MAX_SESSION

from tiercast_lab.base.errors import among, closest
from tiercast_lab.experiment.checks.unknown import no_node, no_receiver
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.quantities import START_SPREAD_NS
from tiercast_lab.experiment.schema import (
    Experiment,
    Session,
)
from tiercast_lab.experiment.schemes import SchemeInfo
from tiercast_lab.experiment.topology import Edge
from tiercast_lab.experiment.yaml_source import KeyPath, Source


@dataclass(frozen=True)
class ListedSession:
    path: KeyPath  # of the entry that it comes from
    session: Session
    receivers: tuple[int, ...]  # their nodes


def sessions_of(
    source: Source,
    experiment: Experiment,
    schemes: dict[str, SchemeInfo],
    links: Collection[Edge],
    nodes: set[int],
) -> list[ListedSession]:
    """All sessions, with unicast ones listed one by one."""
    degree = Counter(node for link in links for node in link)
    leaves = [node for node in sorted(degree) if degree[node] == 1]
    result: list[ListedSession] = []
    numbers: set[int] = set()
    for index, session in enumerate(experiment.sessions):
        path = ("sessions", str(index))
        if session.scheme not in schemes:
            raise source.error(
                (*path, "scheme"), f"unknown scheme {among(session.scheme, schemes)}"
            )
        _check_scheme(source, path, session, schemes)
        _check_times(source, path, session, experiment.duration)
        senders = session.senders or [session.sender]
        _check_senders(source, path, senders, nodes)
        if session.receivers == "leaves":
            wanted = leaves
        else:
            wanted = list(session.receivers)
            # Of several senders each may receive the others.
            apart = senders if len(senders) == 1 else []
            _check_receivers(source, (*path, "receivers"), wanted, apart, nodes)
        listed_sessions = [
            pair
            for sender in senders
            for pair in _unicast(
                session.model_copy(update={"sender": sender, "senders": []}),
                tuple(node for node in wanted if node != sender),
            )
        ]
        if not all(of_one for _, of_one in listed_sessions) or not listed_sessions:
            text = "there are no receivers: the leaves are the nodes with one link; valid: a list"
            raise source.error((*path, "receivers"), text)
        _check_lies(source, path, session, schemes[session.scheme], wanted)
        last = session.session + len(listed_sessions) - 1
        if last > MAX_SESSION:
            raise source.error(
                (*path, "session"), f"sessions up to {last}; valid: up to {MAX_SESSION}"
            )
        for offset, (plain, of_one) in enumerate(listed_sessions):
            one = plain.model_copy(update={"session": session.session + offset})
            if one.session in numbers:
                raise source.error(
                    (*path, "session"), f"session {one.session} is given twice; valid: once"
                )
            numbers.add(one.session)
            result.append(ListedSession(path, one, of_one))
    return result


def _check_senders(source: Source, path: KeyPath, senders: Sequence[int], nodes: set[int]) -> None:
    for index, node in enumerate(senders):
        several = (*path, "senders", str(index))
        here = several if several in source.places else (*path, "sender")
        if node not in nodes:
            raise source.error(here, no_node(node, nodes))
        if node in senders[:index]:
            raise source.error(here, f"node {node} is given twice; valid: once")


def _check_receivers(
    source: Source, path: KeyPath, receivers: Sequence[int], senders: list[int], nodes: set[int]
) -> None:
    before: set[int] = set()
    for index, node in enumerate(receivers):
        here = (*path, str(index))
        if node not in nodes:
            raise source.error(here, no_node(node, nodes))
        if node in senders:
            raise source.error(here, f"{node} is the sender's node; valid: another")
        if node in before:
            raise source.error(here, f"node {node} is given twice; valid: once")
        before.add(node)


def _unicast(session: Session, receivers: tuple[int, ...]) -> Iterator[tuple[Session, Any]]:
    """The session with its receivers or, if it is unicast, one session for each of them. Their
    numbers are still to be set."""
    if not session.unicast:
        yield session.model_copy(update={"lies": _lies_among(session, receivers)}), receivers
        return
    for node in receivers:
        own = {"receivers": [node], "unicast": False, "lies": _lies_among(session, (node,))}
        yield session.model_copy(update=own), (node,)


def _lies_among(session: Session, receivers: tuple[int, ...]) -> dict[int, str]:
    return {node: lie for node, lie in session.lies.items() if node in receivers}


def _check_lies(
    source: Source, path: KeyPath, session: Session, scheme: SchemeInfo, receivers: Sequence[int]
) -> None:
    for node, lie in session.lies.items():
        here = (*path, "lies", str(node))
        if node not in receivers:
            raise source.error(here, no_receiver(session.session, node, receivers))
        if lie not in scheme.lies:
            raise source.error(here, f"{scheme.name} has no lie {among(lie, scheme.lies)}")


def _check_scheme(
    source: Source, path: KeyPath, session: Session, schemes: dict[str, SchemeInfo]
) -> None:
    scheme = schemes[session.scheme]
    if session.layers > 1 and not scheme.layered:
        raise source.error(
            (*path, "layers"),
            f"{session.layers}, but {scheme.name} has one rate for all receivers; valid: 1",
        )
    if session.aggregation == "network" and not scheme.aggregated:
        able = ", ".join(one.name for one in schemes.values() if one.aggregated) or "no scheme"
        raise source.error(
            (*path, "aggregation"),
            f"switches can aggregate the feedback of {able} only; valid: sender",
        )
    for name, value in session.parameters.items():
        if wrong := wrong_parameter(name, value, scheme):
            raise source.error((*path, "parameters", name), wrong)


def wrong_parameter(name: str, value: object, scheme: SchemeInfo) -> str:
    """Says what is wrong with a parameter of a scheme; empty if nothing is."""
    info = scheme.parameters.get(name)
    if info is None:
        names = list(scheme.parameters)
        return f"unknown parameter of {scheme.name}; valid: {', '.join(names) or 'none'}" + closest(
            name, names
        )
    number: object = value
    seen = f"{value:g}" if isinstance(value, float) else shown(value)
    try:
        if isinstance(value, str) and info.unit == "bit/s":
            number = units.parse_rate(value)
        elif isinstance(value, str) and info.unit == "s":
            number = units.parse_duration(value) / 1e9
    except ValueError as error:
        return str(error)
    valid = f"{info.min:g} to {info.max:g} {info.unit}".rstrip()
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return f"{seen} is not a number; valid: {valid}"
    if not info.min <= number <= info.max:
        return f"{seen} is out of range; valid: {valid}"
    if info.whole and number != int(number):
        return f"{seen} is not a whole number; valid: {valid}"
    return ""


def _check_times(source: Source, path: KeyPath, session: Session, duration: int) -> None:
    if session.start >= duration:
        raise source.error(
            (*path, "start"),
            f"{units.format_duration(session.start)}; valid: before the end of the run "
            f"({units.format_duration(duration)})",
        )
    least = session.start + START_SPREAD_NS
    if session.stop is not None and not least <= session.stop <= duration:
        raise source.error(
            (*path, "stop"),
            f"{units.format_duration(session.stop)}; valid: from {units.format_duration(least)}, "
            f"when all receivers have started, to the end of the run "
            f"({units.format_duration(duration)})",
        )


def check_keys(source: Source, loaded: LoadedExperiment) -> None:
    """Switches have no keys, so they cannot sum up what is sealed."""
    if not loaded.experiment.keys:
        return
    for index, session in enumerate(loaded.experiment.sessions):
        if session.aggregation == "network":
            raise source.error(
                ("sessions", str(index), "aggregation"),
                "switches cannot aggregate what is sealed (keys: true); valid: sender",
            )


def check_aggregation(source: Source, loaded: LoadedExperiment) -> None:
    """Raises InputError where feedback that is to be aggregated takes another path than data."""
    if loaded.experiment.topology.equal_costs == "one" or loaded.topology.is_tree:
        return
    for index, session in enumerate(loaded.experiment.sessions):
        if session.aggregation == "network":
            raise source.error(
                ("sessions", str(index), "aggregation"),
                "network needs feedback to come back along the tree, and with `equal_costs: "
                f"{loaded.experiment.topology.equal_costs}` it may not; valid: sender",
            )
