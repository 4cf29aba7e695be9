"""Describes an experiment's network and sessions to the controller."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Interface

from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.network import topology as control
from tiercast_controller.p4runtime.program import Program

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import InputError
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment


def program_for(loaded: LoadedExperiment) -> Program:
    """The switches' P4 program. Raises InputError if it has no action for a link's marking."""
    program = Program.load(binaries.P4_JSON, binaries.P4_INFO)
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


def described_topology(
    loaded: LoadedExperiment, idle_us: int, address_of: Callable[[str], str]
) -> control.Topology:
    """The network as the controller needs it. `idle_us` is a property of the kind of switch
    (SwitchKind); `address_of` gives the P4Runtime address of a switch by its name."""
    experiment, topology = loaded.experiment, loaded.topology
    described = control.Topology(experiment.topology.equal_costs)
    for switch in topology.switches.values():
        described.add_switch(
            control.Switch(
                switch.name,
                switch.device_id,
                address_of(switch.name),
                mac=0x020000020000 + switch.number,
                ip=IPv4Address(switch.address),
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
        policy = marking.at(link.sent_by(near).rate, packet_size, idle_us)
        port, delay = topology.switches[near].port_to(far), link.parameters.delay
        if far in topology.hosts:
            described.connect(near, port, far, marking=policy, delay_ns=delay)
        else:
            back = topology.switches[far].port_to(near)
            policy_back = marking.at(link.sent_by(far).rate, packet_size, idle_us)
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
