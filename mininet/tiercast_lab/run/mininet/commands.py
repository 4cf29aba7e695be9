"""Builds the command lines of a run's programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tiercast_controller.p4runtime.manifest import CPU_PORT

from tiercast_lab.base import binaries
from tiercast_lab.experiment.schemes import session_options
from tiercast_lab.experiment.topology import Host, Link, Switch, Topology
from tiercast_lab.run.agents import SessionAgents

# Rates and queues count IP bytes, as in ns-2, so the Ethernet header is left out.
OVERHEAD = "-14B"
LATE_NS = 500_000
LEAST_LATE_NS = 10_000  # no machine sleeps and wakes more often than that


def switch_command(options: list[str]) -> list[str]:
    """`options` are switch_options()."""
    return [str(binaries.SWITCH), *options]


def switches_command(options: Iterable[list[str]], topology: Topology) -> list[str]:
    """One process that runs switches with these options."""
    command = [str(binaries.SWITCH)]
    if (sleeps := max_sleeps(topology)) is not None:
        command.append(f"--max-sleeps={sleeps}")
    return [*command, *(word for its in options for word in ("--switch", *its))]


def max_sleeps(topology: Topology) -> int | None:
    """How often in a second linked switches may sleep. What leaves them for a host is then late by
    at most a tenth of the shortest delay of the network's links, and by at most LATE_NS. None: as
    often as they like, as no delay is long enough."""
    delays = (link.parameters.delay for link in topology.links.values() if not link.attaches)
    late_ns = min(min(delays, default=0) // 10, LATE_NS)
    return None if late_ns < LEAST_LATE_NS else 1_000_000_000 // late_ns


def switch_options(
    switch: Switch,
    topology: Topology,
    interfaces: Sequence[str],
    socket: Path,
    seed: int,
    cpu_port: int = CPU_PORT,
    depth_register: str | None = None,
) -> list[str]:
    """`interfaces` are those of the switch's ports, or links in memory. `seed` is the run's; the
    last two are as the program's manifest has them."""
    place = list(topology.switches).index(switch.name)
    options = [
        f"--name={switch.name}",
        f"--device-id={switch.device_id}",
        f"--grpc=unix:{socket}",
        # As in virtual time (ns3/network/virtual_network.cpp): each switch has numbers of its own.
        f"--seed={seed + 1 + place}",
        *([f"--cpu-port={cpu_port}"] if cpu_port != CPU_PORT else []),
        *([] if depth_register is None else [f"--depth-register={depth_register}"]),
    ]
    for number, interface in enumerate(interfaces, 1):
        neighbour, link = switch.ports[number - 1]
        to_host = neighbour in topology.hosts
        options.append(f"--port={number}={interface},{_port(link, to_host)}")
    return options


def _port(link: Link, to_host: bool) -> str:
    parameters = link.parameters
    parts = [f"overhead={OVERHEAD}"]
    if parameters.rate:
        parts.append(f"rate={parameters.rate}bit/s")
    if parameters.queue.packets or parameters.queue.bytes:
        parts.append(f"queue={parameters.queue}")
    if parameters.scheduling != "fifo":
        parts.append(f"scheduling={parameters.scheduling}")
    if parameters.delay:
        parts.append(f"delay={parameters.delay}ns")
        if to_host:
            # A host cannot delay packets, so the switch delays what arrives from its link.
            parts.append(f"rx-delay={parameters.delay}ns")
    return ",".join(parts)


def _agent(agents: SessionAgents, host: Host, lab: Path) -> list[str]:
    return [
        *session_options(agents.session),
        f"--id={host.number}",
        f"--name={host.name}{agents.suffix}",
        f"--lab=unix:{lab}",
        # Each node has its own seed, so that no two draw the same numbers.
        f"--seed={(agents.seed << 16) + host.number}",
    ]


def veth_eal(interface: str) -> list[str]:
    """Arguments of the EAL for a veth: a packet socket instead of a PCI device, ordinary memory
    instead of huge pages, and no files that another DPDK process could find. Without -l it may use
    every core."""
    return [
        f"--vdev=net_af_packet0,iface={interface}",
        "--no-huge",
        "--no-pci",
        "--no-shconf",
        "--no-telemetry",
        "-m",
        "64",
    ]


def sender_command(agents: SessionAgents, host: Host, eal: list[str], lab: Path) -> list[str]:
    addresses = [
        f"--address={host.address}",
        f"--mac={host.mac}",
        f"--gateway-mac={host.gateway_mac}",
    ]
    return [str(binaries.SENDER), *eal, "--", *_agent(agents, host, lab), *addresses]


def receiver_command(
    agents: SessionAgents, host: Host, interface: str, source: Host, lab: Path
) -> list[str]:
    return [
        str(binaries.HOST),
        "recv",
        *_agent(agents, host, lab),
        f"--interface={interface}",
        f"--source={source.address}",
        *([f"--lie={lie}"] if (lie := agents.session.lies.get(host.number)) else []),
    ]
