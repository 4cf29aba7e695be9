"""Describes an experiment's network and sessions to the controller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface

from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.base.tls import Tls
from tiercast_controller.network import topology as control
from tiercast_controller.network.marking import PriorityMarking, require_registers
from tiercast_controller.p4runtime.program import Program
from tiercast_controller.p4runtime.roles import Roles

from tiercast_lab.base.errors import InputError, listed
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.programs import Files
from tiercast_lab.experiment.topology import Switch
from tiercast_lab.experiment.yaml_source import KeyPath
from tiercast_lab.run.agents import members
from tiercast_lab.run.observed import require_observable


def programs_for(loaded: LoadedExperiment) -> dict[str, Program]:
    """The P4 program of each switch. Raises InputError if one lacks what the experiment needs."""
    roles: dict[Files, Roles] = {}
    result = {}
    for name, files in loaded.programs.items():
        if files not in roles:
            try:
                roles[files] = Roles(files.load(), {})
            except ConfigurationError as error:
                raise InputError(str(error)) from None
        result[name] = roles[files].program
        for role, path, why in _needs(loaded):
            if not roles[files].has(role):
                raise _lacking(loaded, name, path, f"{why}, so {role}", roles[files])
    _check_markings(loaded, roles)
    require_observable(loaded, result)
    return result


def _needs(loaded: LoadedExperiment) -> Iterator[tuple[str, KeyPath, str]]:
    """The roles that the experiment needs on every switch, each with the key path that needs it,
    and why."""
    experiment = loaded.experiment
    for index, session in enumerate(experiment.sessions):
        path = ("sessions", str(index))
        yield "multicast", path, f"{session.scheme} sends to groups"
        yield "unicast", path, f"the reports of {session.scheme} go to their sender"
        if session.aggregation == "network":
            yield "aggregation", (*path, "aggregation"), "the network aggregates feedback"
    for index, entry in enumerate(experiment.traffic):
        yield "unicast", ("traffic", str(index)), f"{entry.kind} has routes"
    for index, _ in enumerate(experiment.multicast):
        yield "multicast", ("multicast", str(index)), "a group is replicated"
    if experiment.querier is not None:
        yield "packet_in", ("querier",), "hosts' answers are heard"
        yield "packet_out", ("querier",), "hosts are asked"
    if experiment.topology.equal_costs == "flow-hash" and not loaded.topology.is_tree:
        for role in ("spread", "next_hop"):
            yield role, ("topology", "equal_costs"), "flows spread over equal paths"


def _check_markings(loaded: LoadedExperiment, roles: Mapping[Files, Roles]) -> None:
    """Raises InputError if a program has no action for the marking of a link that leaves its
    switch."""
    checked: set[tuple[int, int]] = set()  # for links with the same marking, one check is enough
    for name, link in loaded.topology.links.items():
        path, marking = loaded.experiment.placed_marking(name)
        for end in (link.a, link.b):
            if end not in loaded.topology.switches:
                continue
            policy = marking.at(link.sent_by(end).rate, loaded.packet_size_of(name))
            one = roles[loaded.programs[end]]
            if policy is None or (id(marking), id(one)) in checked:
                continue
            checked.add((id(marking), id(one)))
            try:
                one.require_marking(marking.kind, policy.entry(port=1))
                require_registers(marking, one.program)
            except ConfigurationError as error:
                switch = loaded.topology.switches[end]
                program = ".".join(loaded.experiment.placed_program(switch.number))
                raise loaded.error(
                    path, f"{marking.kind} with {program}, of switch {end}: {error}"
                ) from None
            if marking.kind == PriorityMarking.model_fields["kind"].default and not one.has(
                "top_group"
            ):
                raise _lacking(
                    loaded, end, path, "priority marks a session's top group, so top_group", one
                )
            if marking.priority_queues() is not None and not one.has("queue_class"):
                raise _lacking(
                    loaded, end, path, f"{marking.kind} has two queues, so queue_class", one
                )


def _lacking(
    loaded: LoadedExperiment, switch: str, path: KeyPath, needed: str, roles: Roles
) -> InputError:
    number = loaded.topology.switches[switch].number
    manifest = roles.program.described.path
    place = ".".join(loaded.experiment.placed_program(number))
    return loaded.error(
        path,
        f"{needed} is needed; {place} of switch {switch}, {roles.program.name}, has by "
        f"{manifest}: {roles.program.manifest.describe()}",
    )


def without_accounts(loaded: LoadedExperiment) -> list[str]:
    """What a user should know of programs that do not count what ours does."""
    lacking = [
        name for name, files in loaded.programs.items() if not Roles(files.load(), {}).has_accounts
    ]
    if not lacking:
        return []
    return [
        f"the P4 program of {listed(lacking)} has no accounts: there `pruned`, `invalid`, "
        "`expired`, `no_group` and `no_route` are left out, and what egress drops counts as "
        "policy_drops"
    ]


@dataclass(frozen=True)
class Reach:
    """How the controller reaches a switch, and what it must know of it."""

    address: str  # of its P4Runtime server, as gRPC has it
    device_id: int  # P4Runtime's
    # us: a packet that found the queue empty and waited no longer than this found the link idle.
    idle_us: int = 0
    role: str = ""  # P4Runtime's
    tls: Tls | None = None
    # The switch's own number of each port of the experiment; None: they are the same.
    ports: Mapping[int, int] | None = None

    def port(self, number: int) -> int:
        return number if self.ports is None else self.ports[number]


def described_topology(
    loaded: LoadedExperiment, reach: Callable[[Switch], Reach]
) -> control.Topology:
    """The network as the controller needs it."""
    experiment, topology = loaded.experiment, loaded.topology
    described = control.Topology(experiment.topology.equal_costs, experiment.checks)
    reaches = {name: reach(switch) for name, switch in topology.switches.items()}
    for switch in topology.switches.values():
        how = reaches[switch.name]
        described.add_switch(
            control.Switch(
                switch.name,
                how.device_id,
                how.address,
                mac=0x020000020000 + switch.number,
                ip=IPv4Address(switch.address),
                role=how.role,
                tls=how.tls,
            )
        )
    for host in topology.hosts.values():
        interface = IPv4Interface(f"{host.address}/24")
        mac = int(host.mac.replace(":", ""), 16)
        described.add_host(control.Host(host.name, interface, mac))
    for link in topology.links.values():
        marking, packet_size = experiment.marking_of(link.name), loaded.packet_size_of(link.name)
        # The experiment may name a host's end first.
        near, far = (link.a, link.b) if link.a in topology.switches else (link.b, link.a)
        policy = marking.at(link.sent_by(near).rate, packet_size, reaches[near].idle_us)
        port = reaches[near].port(topology.switches[near].port_to(far))
        delay = link.parameters.delay
        if far in topology.hosts:
            described.connect(near, port, far, marking=policy, delay_ns=delay)
        else:
            back = reaches[far].port(topology.switches[far].port_to(near))
            policy_back = marking.at(link.sent_by(far).rate, packet_size, reaches[far].idle_us)
            described.connect(near, port, far, back, policy, policy_back, delay)
            if link.parameters.wire.up is False:
                described.change_link(near, port, up=False)
                described.change_link(far, back, up=False)
    return described


def described_groups(loaded: LoadedExperiment) -> list[control.AnySourceGroup]:
    return [
        control.AnySourceGroup(one.group, tuple(f"t{node}" for node in one.senders))
        for one in loaded.experiment.multicast
    ]


def described_sessions(loaded: LoadedExperiment) -> list[control.Session]:
    return [
        control.Session(
            s.session,
            s.layers,
            f"h{s.sender}",
            s.scheme,
            s.aggregation,
            loaded.records[s.scheme],
            members(loaded, s, receivers),
        )
        for s, receivers in zip(loaded.experiment.sessions, loaded.receivers, strict=True)
    ]
