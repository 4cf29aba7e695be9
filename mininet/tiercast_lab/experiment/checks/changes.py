"""What changes during a run: links, members, churn."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tiercast_controller.base import units

from tiercast_lab.experiment.checks.unknown import no_link, no_receiver, no_session
from tiercast_lab.experiment.quantities import MAX_CHANGES, START_SPREAD_NS
from tiercast_lab.experiment.schema import (
    Churn,
    Event,
    Experiment,
    MemberEvent,
)
from tiercast_lab.experiment.topology import Edge, Link, Topology
from tiercast_lab.experiment.wire import WIRE_KEYS
from tiercast_lab.experiment.yaml_source import Source


def check_changes(source: Source, experiment: Experiment) -> None:
    """Raises InputError if there are more changes than a run can hold, before they are listed."""
    changes = 0
    lists: dict[str, Sequence[Event | MemberEvent]] = {
        "events": experiment.events, "members": experiment.members,
    }  # fmt: skip
    for key, events in lists.items():
        for index, event in enumerate(events):
            each = len(event.receivers) if isinstance(event, MemberEvent) else 1
            changes += each * len(experiment.times(event))
            if changes > MAX_CHANGES:
                raise source.error(
                    (key, str(index)), f"{changes} changes; valid: up to {MAX_CHANGES} in a run"
                )
    for index, churn in enumerate(experiment.churn):
        changes += 2 * (experiment.end_of(churn.session) // churn.arrivals.every)
        if changes > MAX_CHANGES:
            raise source.error(
                ("churn", str(index), "arrivals", "every"),
                f"about {changes} changes; valid: up to {MAX_CHANGES} in a run",
            )


def check_events(
    source: Source, experiment: Experiment, topology: Topology, links: Collection[Edge]
) -> None:
    """Checks the changes of links."""
    names = set()
    if experiment.events:
        names = {name for a, b in links for name in (f"{a}-{b}", f"{a}>{b}", f"{b}>{a}")}
    for index, event in enumerate(experiment.events):
        path = ("events", str(index))
        if event.link not in names:
            text = f"{no_link(event.link, links)}; or a direction, such as 1>0"
            raise source.error((*path, "link"), text)
        sides = topology.sides(event.link)
        why, without = _lacks(topology, *sides[0]) if len(sides) == 1 else ("", ())
        for key in without:
            if getattr(event, key) is not None:
                valid = [one for one in ("delay", *WIRE_KEYS) if one not in without]
                raise source.error(
                    (*path, key),
                    f"{event.link} {why}; valid: {', '.join(valid)}, or the other direction",
                )
        if event.at >= experiment.duration:
            raise source.error(
                (*path, "at"),
                f"{units.format_duration(event.at)} is not before the end of the run "
                f"({units.format_duration(experiment.duration)})",
            )


def _lacks(topology: Topology, link: Link, sender: str, _: str) -> tuple[str, Sequence[str]]:
    """The keys of an event that would have no effect on one direction of a link, and why."""
    if link.parameters.one_way and sender != link.a:
        without = [key for key in ("rate", "queue", *WIRE_KEYS) if key != "up"]
        return "is the direction that `one_way` leaves alone", without
    if sender in topology.hosts:
        return "leaves a host, and hosts have no queue", ("rate", "queue")
    return "", ()


def with_nodes(
    source: Source, index: int, churn: Churn, first: int, members: Mapping[int, Sequence[int]]
) -> Churn:
    """The churn with its receivers as nodes. `members` are the receivers of each session; `first`
    is the number of the first one."""
    path = ("churn", str(index))
    number = first if churn.session is None else churn.session
    if number not in members:
        raise source.error((*path, "session"), no_session(number, members))
    if churn.receivers == "all":
        return churn.model_copy(update={"receivers": list(members[number])})
    for i, node in enumerate(churn.receivers):
        if node not in members[number]:
            raise source.error(
                (*path, "receivers", str(i)), no_receiver(number, node, members[number])
            )
    return churn


def check_members(
    source: Source, experiment: Experiment, members: Mapping[int, Collection[int]]
) -> None:
    """Checks that whoever leaves or joins is a receiver of that session, and that no receiver
    leaves before it has certainly started."""
    starts = {session.session: session.start for session in experiment.sessions}
    members = {number: frozenset(nodes) for number, nodes in members.items()}
    for index, event in enumerate(experiment.members):
        path = ("members", str(index))
        session = experiment.sessions[0].session if event.session is None else event.session
        if session not in members:
            raise source.error((*path, "session"), no_session(session, members))
        if event.at >= (end := experiment.end_of(session)) and end < experiment.duration:
            raise source.error(
                (*path, "at"),
                f"{units.format_duration(event.at)}; valid: before session {session} stops "
                f"({units.format_duration(end)})",
            )
        for i, node in enumerate(event.receivers):
            if node not in members[session]:
                raise source.error(
                    (*path, "receivers", str(i)),
                    no_receiver(session, node, members[session]),
                )
    first_joins = experiment.first_joins
    for (session, node), changes in sorted(experiment.member_changes.items()):
        leaves = [one.at for one in changes if not one.joins]
        start = max(starts[session], first_joins.get((session, node), 0))
        if leaves and leaves[0] < start + START_SPREAD_NS:
            raise source.error(
                ("members",),
                f"node {node} leaves at {units.format_duration(leaves[0])}; valid: from "
                f"{units.format_duration(start + START_SPREAD_NS)} on, when it has started",
            )


def late_members(source: Source, experiment: Experiment) -> list[str]:
    """Notes about changes of members that do not happen, as with a --duration that is shorter."""
    end = experiment.duration
    return [
        f"{source.place(('members', str(index)))}: members.{index}.at: "
        f"{units.format_duration(event.at)} is not before the end of the run "
        f"({units.format_duration(end)}): nobody {event.action}s then"
        for index, event in enumerate(experiment.members)
        if event.at >= end
    ]


def check_churn(source: Source, experiment: Experiment) -> None:
    """Checks that arrivals lie within their session, and that each receiver comes and goes by one
    rule."""
    taken = {
        (experiment.number_of(event.session), node)
        for event in experiment.members
        for node in event.receivers
    }
    for index, churn in enumerate(experiment.churn):
        path = ("churn", str(index))
        number = experiment.number_of(churn.session)
        begin, end = experiment.start_of(number), experiment.end_of(number)
        stop = end if churn.arrivals.stop is None else churn.arrivals.stop
        if stop <= begin:
            raise source.error(
                (*path, "arrivals", "stop"),
                f"{units.format_duration(stop)}; valid: after session {number} starts "
                f"({units.format_duration(begin)})",
            )
        for key, at, most in (("stop", stop, end), ("start", churn.arrivals.start, stop)):
            if at > most or (key == "start" and at == most):
                raise source.error(
                    (*path, "arrivals", key),
                    f"{units.format_duration(at)}; valid: before {units.format_duration(most)}",
                )
        assert not isinstance(churn.receivers, str)
        for i, node in enumerate(churn.receivers):
            if (number, node) in taken:
                here = (*path, "receivers", str(i))
                raise source.error(
                    here if here in source.places else path,
                    f"receiver {node} of session {number} comes and goes by another entry, too; "
                    "valid: once in `churn` or in `members`",
                )
            taken.add((number, node))
