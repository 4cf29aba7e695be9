"""Describes an experiment's network and sessions to the controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface

from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.network import topology as control
from tiercast_controller.p4runtime.program import Program
from tiercast_controller.p4runtime.tls import Tls

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import InputError
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.topology import Switch
from tiercast_lab.run.observed import require_observable


def program_for(loaded: LoadedExperiment) -> Program:
    """The switches' P4 program. Raises InputError if it has no action for a link's marking."""
    program = Program.load(binaries.P4_JSON, binaries.P4_INFO)
    require_observable(loaded, program)
    checked: set[int] = set()  # for links with the same marking, one check is enough
    for name, link in loaded.topology.links.items():
        path, marking = loaded.experiment.placed_marking(name)
        policy = marking.at(link.parameters.rate, loaded.packet_size_of(name))
        if policy is None or id(marking) in checked:
            continue
        checked.add(id(marking))
        try:
            program.encode_entry(policy.entry(port=1))
        except ConfigurationError as error:
            raise InputError(
                f"{loaded.file}: {'.'.join(path)}: {marking.kind} with {binaries.P4_JSON}: {error}"
                " (TIERCAST_P4 selects another program)"
            ) from None
    return program


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
    described = control.Topology(experiment.topology.equal_costs)
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
        )
        for s in loaded.experiment.sessions
    ]
