"""The emulated network: one namespace per node, plain veth links, static addresses. Switches that
one process runs, with links in its memory, share a namespace.

Mininet's Node and Link classes make the namespaces and veth pairs. Its Mininet class is not used on
purpose: it raises limits and sysctls of the whole machine, and its clean-up removes what other runs
made. Interfaces are named `<run>-<node>p<port>`. They exist only in the nodes' namespaces and
disappear with them.
"""

from __future__ import annotations

import json
import logging
import select
import subprocess
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import FileIO
from typing import Any

from mininet.link import Intf, Link
from mininet.node import Node

from tiercast_lab.base.errors import RunFailed, RunInvalid
from tiercast_lab.experiment.topology import Host, Topology
from tiercast_lab.run.mininet.borrowed import BorrowedInterface

# Importing mininet.log replaces the default logger class with one that writes to the terminal.
logging.setLoggerClass(logging.Logger)

# IPv6 and its neighbour discovery would put their own packets on the links.
SYSCTLS = {
    "net.ipv6.conf.all.disable_ipv6": 1,
    "net.ipv6.conf.default.disable_ipv6": 1,
    "net.ipv4.ip_forward": 0,
    "net.ipv4.conf.all.rp_filter": 0,
    "net.ipv4.conf.default.rp_filter": 0,
    # IGMPv3 only: with no fallback to older versions and their timers, joins and leaves are
    # reported at once.
    "net.ipv4.conf.all.force_igmp_version": 3,
    "net.ipv4.igmp_max_memberships": 64,
    # A TCP flow starts without what earlier flows learned, and its segments have one known size.
    "net.ipv4.tcp_no_metrics_save": 1,
    "net.ipv4.tcp_timestamps": 1,
    # Flows that want it otherwise say so (tune_tcp).
    "net.ipv4.tcp_sack": 1,
    "net.ipv4.tcp_ecn": 2,
}

ETHERNET = 14  # bytes of a frame's header
SWITCHES = "switches"  # the namespace of switches that one process runs
SHELL = ["sh", "-e", "-x"]  # -x: the last line "+ command" names the one that failed
SHELL_POLL_MS = 200
COMMAND_S = 60.0  # usually milliseconds, but seconds on a machine whose CPUs are busy

# With any of these offloads the kernel would pass on packets larger than the MTU or without a
# checksum.
OFFLOADS = ("rx", "tx", "sg", "tso", "gso", "gro")


class NamespaceNode(Node):
    """A Mininet node that runs commands with exec and checks them, rather than typing them into a
    shell.

    Its shell belongs to the terminal until mnexec has detached it: Ctrl-C may end it before."""

    def read(self, size: int = 1024) -> Any:
        """Reads what the shell says, as Mininet does, but does not wait for one that has ended: its
        pty stays open, so nothing would ever come. Raises RunFailed."""
        output = select.poll()
        output.register(self.stdout, select.POLLIN)
        while not (self.readbuf or output.poll(SHELL_POLL_MS)):
            if (status := self.shell.poll()) is not None:
                raise RunFailed(f"{self.name}: the namespace's shell ended with status {status}")
        return super().read(size)

    def run(self, *command: str, stdin: str = "") -> str:
        """Runs a command in the namespace and returns its output. Raises RunFailed with its error
        text."""
        status, out, said = self._run(command, stdin)
        if status != 0:
            raise RunFailed(f"{self.name}: `{' '.join(command)}` failed: {said}")
        return out

    def run_script(self, *commands: str) -> str:
        """Runs shell commands in one process, stopping at the first that fails, and returns their
        output. Raises RunFailed with the failed command and its error text."""
        status, out, said = self._run(SHELL, "\n".join(commands))
        if status != 0:
            failed, _, said = f"\n{said}".rpartition("\n+ ")[2].partition("\n")
            raise RunFailed(f"{self.name}: `{failed}` failed: {said}")
        return out

    def _run(self, command: Sequence[str], stdin: str) -> tuple[int, str, str]:
        """Exit status, output and error text."""
        process = self.popen(
            list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            out, err = process.communicate(stdin.encode(), timeout=COMMAND_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise RunInvalid(
                f"{self.name}: `{' '.join(command)}` did not end within {COMMAND_S:g} s"
            ) from None
        return process.returncode, out.decode(), (err or out).decode().strip()


class QuietIntf(Intf):
    """An interface that leaves its configuration to Network, which does it in one batch per
    node."""

    def config(self, **_params: Any) -> dict[str, Any]:
        return {}


class Network:
    """The network of a run. `build` makes it; `remove` removes it, at any time and as often as
    called."""

    def __init__(
        self,
        topology: Topology,
        run: str,
        elsewhere: Mapping[str, Mapping[str, str]] | None = None,
        in_memory: Collection[str] = (),
    ) -> None:
        """`elsewhere` has the switches and hosts that are no nodes of this network, and for each
        switch the interfaces here that are cabled to it, by its neighbours. `in_memory` names the
        links that have no interfaces, as one process runs all switches."""
        self.topology = topology
        self.run = run
        self._elsewhere = elsewhere or {}
        self._in_memory = in_memory
        self._borrowed: list[BorrowedInterface] = []
        self.nodes: dict[str, NamespaceNode] = {}  # by name; switches of one process have the same
        self.links: list[Link] = []
        self._interfaces: dict[str, list[str]] = {}  # by node
        # By namespace, which has the name of its node, or SWITCHES.
        self._namespaces: dict[str, NamespaceNode] = {}
        # An open /proc/PID/net/dev: it stays readable after the namespace's shell is killed.
        self._devices: dict[str, FileIO] = {}

    def namespace_file(self, node: str) -> str:
        """For setns(2), while the node exists."""
        return f"/proc/{self.nodes[node].pid}/ns/net"

    def interface(self, node: str, port: int = 1) -> str:
        return f"{self.run}-{node}p{port}"

    def build(self, checkpoint: Callable[[], None]) -> None:
        """Makes the nodes and links. Calls `checkpoint` between steps; it raises if the run was
        interrupted."""
        for name in [*self.topology.switches, *self.topology.hosts]:
            if name in self._elsewhere:
                continue
            checkpoint()
            namespace = self._namespace(name)
            if namespace not in self._namespaces:
                # In process lists Mininet shows its shell as `mininet:<run>-<namespace>`.
                node = NamespaceNode(f"{self.run}-{namespace}")
                self._namespaces[namespace] = node
                self._devices[namespace] = FileIO(f"/proc/{node.pid}/net/dev")
            self.nodes[name] = self._namespaces[namespace]
            self._interfaces[name] = []
        for link in self.topology.links.values():
            if link.name in self._in_memory:
                continue
            checkpoint()
            if not {link.a, link.b} & self._elsewhere.keys():
                self._connect(link.a, link.b)
                continue
            for end, other in ((link.a, link.b), (link.b, link.a)):
                if end in self._elsewhere and other not in self._elsewhere:
                    self._borrow(self._elsewhere[end][other], other, end)

        def configure(namespace: str) -> None:
            checkpoint()
            names = self._interfaces_in(namespace)
            host = self.topology.hosts.get(namespace)
            self._configure(namespace, names, _addresses(host, names[0]) if host else [])

        # Most of the time that a network takes: each namespace needs some programs, one after
        # another.
        with ThreadPoolExecutor() as pool:
            for _ in pool.map(configure, self._namespaces):
                pass

    def _namespace(self, node: str) -> str:
        return SWITCHES if self._in_memory and node in self.topology.switches else node

    def _interfaces_in(self, namespace: str) -> list[str]:
        return [
            name
            for node, names in self._interfaces.items()
            if self._namespace(node) == namespace
            for name in names
        ]

    def _end(self, node: str, neighbour: str) -> dict[str, Any]:
        if host := self.topology.hosts.get(node):
            return {"name": self.interface(node), "port": 1, "addr": host.mac}
        port = self.topology.switches[node].port_to(neighbour)
        return {"name": self.interface(node, port), "port": port, "addr": None}

    def _connect(self, a: str, b: str) -> None:
        end_a, end_b = self._end(a, b), self._end(b, a)
        number = len(self.links)
        self._interfaces[a].append(end_a["name"])
        self._interfaces[b].append(end_b["name"])
        self.links.append(
            Link(
                self.nodes[a],
                self.nodes[b],
                port1=end_a["port"],
                port2=end_b["port"],
                intfName1=end_a["name"],
                intfName2=end_b["name"],
                addr1=end_a["addr"] or f"02:00:00:02:{number >> 8:02x}:{number & 255:02x}",
                addr2=end_b["addr"] or f"02:00:00:03:{number >> 8:02x}:{number & 255:02x}",
                intf=QuietIntf,
            )
        )

    def _borrow(self, interface: str, node: str, neighbour: str) -> None:
        """Makes an interface of this machine the node's way to a neighbour elsewhere."""
        end = self._end(node, neighbour)
        self._interfaces[node].append(end["name"])
        self._borrowed.append(
            BorrowedInterface(interface, self.nodes[node].pid, end["name"], end["addr"])
        )

    def restore_gateway(self, host: str) -> None:
        """Gives back what a host's kernel forgets when its interface goes down."""
        commands = _to_gateway(self.topology.hosts[host], self.interface(host))
        self.nodes[host].run_script(*(f"ip {command}" for command in commands))

    def inner_pair(self, switch: str, port: int) -> tuple[str, str]:
        """The names of a veth pair inside the switch's namespace: the switch's end, then the delay
        line's."""
        return f"{self.run}-{switch}i{port}", f"{self.run}-{switch}w{port}"

    def add_inner_pair(self, switch: str, port: int) -> None:
        """Makes a port for a switch that reaches its link through a delay line."""
        ends = self.inner_pair(switch, port)
        self._interfaces[switch] += ends
        self.nodes[switch].run(
            "ip", "link", "add", "name", ends[0], "type", "veth", "peer", "name", ends[1]
        )
        self._configure(switch, list(ends), [])

    def without_address(self, host: str) -> None:
        """Removes the address of a host's interface, because a user-space stack takes the interface
        over."""
        self.nodes[host].run("ip", "address", "flush", "dev", self.interface(host))

    def join_neighbours(self) -> None:
        """Two hosts of one node share a subnet, but no link: they need their gateway."""
        hosts = self.topology.hosts.values()
        for host in hosts:
            for peer in hosts:
                if peer is not host and peer.number == host.number:
                    self.nodes[host.name].run(
                        *("ip", "route", "replace", f"{peer.address}/32", "via", host.gateway),
                        *("dev", self.interface(host.name)),
                    )

    def ignore_echoes(self, host: str, ignore: bool) -> None:
        """Whether a host's kernel leaves echo requests to a user-space stack."""
        setting = f"net.ipv4.icmp_echo_ignore_all={int(ignore)}"
        self.nodes[host].run("sysctl", "-q", "-w", setting)

    def tune_tcp(self, host: str, peer: str | None, attributes: Sequence[str], sack: bool) -> None:
        """Sets how a host's TCP works towards the host `peer`: `attributes` of the route, as in
        ip-route(8), and whether the connections that it opens, to anywhere, offer SACK."""
        commands = [] if sack else ["sysctl -q -w net.ipv4.tcp_sack=0"]
        if peer is not None and attributes:
            to, via = self.topology.hosts[peer].address, self.topology.hosts[host].gateway
            device = self.interface(host)
            commands.append(
                f"ip route replace {to}/32 via {via} dev {device} {' '.join(attributes)}"
            )
        if commands:
            self.nodes[host].run_script(*commands)

    def _configure(self, namespace: str, interfaces: list[str], commands: list[str]) -> None:
        batch = ["link set lo up", *(f"link set {name} up" for name in interfaces), *commands]
        features = " ".join(f"{offload} off" for offload in OFFLOADS)
        self._namespaces[namespace].run_script(
            "sysctl -q -w " + " ".join(f"{key}={value}" for key, value in SYSCTLS.items()),
            "\n".join(["ip -batch - <<END", *batch, "END"]),
            *(f"ethtool -K {name} {features}{self._if_possible(name)}" for name in interfaces),
        )

    def _if_possible(self, interface: str) -> str:
        """A NIC may have features that cannot be changed."""
        borrowed = any(one.name == interface for one in self._borrowed)
        return " || true" if borrowed else ""

    def describe(self) -> dict[str, Any]:
        """The interfaces of every namespace with their qdiscs, offloads and counters; the offloads
        that are on at any of them, and the namespace's sysctls."""
        names = self._namespaces
        with ThreadPoolExecutor() as pool:
            return dict(zip(names, pool.map(self._describe, names), strict=True))

    def _describe(self, name: str) -> dict[str, Any]:
        interfaces = self._interfaces_in(name)
        said = self._namespaces[name].run_script(
            "ip -json -statistics link show",
            "echo ---",
            f"sysctl {' '.join(SYSCTLS)}",
            *(
                command
                for interface in interfaces
                for command in ("echo ---", f"ethtool --json --show-features {interface}")
            ),
        )
        links, sysctls, *features = said.split("---\n")
        offloads = {
            interface: sorted(
                key
                for key, value in json.loads(one)[0].items()
                if key != "ifname" and value["active"] and not value["fixed"]
            )
            for interface, one in zip(interfaces, features, strict=True)
        }
        return {
            "interfaces": {
                link["ifname"]: {
                    "qdisc": link["qdisc"],
                    "mtu": link["mtu"],
                    "offloads_on": offloads[link["ifname"]],
                    "borrowed": any(one.name == link["ifname"] for one in self._borrowed),
                    "rx": link["stats64"]["rx"],
                    "tx": link["stats64"]["tx"],
                }
                for link in json.loads(links)
                if link["ifname"] != "lo"
            },
            "offloads_on": sorted({one for of_one in offloads.values() for one in of_one}),
            "sysctls": dict(line.split(" = ") for line in sysctls.splitlines()),
        }

    def counters(self, host: str) -> dict[str, int]:
        """What a host has received and sent since it was made: IP bytes and packets."""
        devices = self._devices[host]
        devices.seek(0)
        [line] = [one for one in devices.read().decode().splitlines() if self.run in one]
        numbers = [int(one) for one in line.split(":")[1].split()]
        result: dict[str, int] = {}
        for way, first in (("rx", 0), ("tx", 8)):
            octets, packets = numbers[first : first + 2]
            result |= {f"{way}_bytes": octets - ETHERNET * packets, f"{way}_packets": packets}
        return result

    def received(self, node: str, interface: str) -> int:
        """The packets that an interface has received since it was made."""
        devices = self._devices[self._namespace(node)]
        devices.seek(0)
        [line] = [one for one in devices.read().decode().splitlines() if f"{interface}:" in one]
        return int(line.split(":")[1].split()[1])

    def hidden_queues(self) -> list[str]:
        """The interfaces that have a queueing discipline: a second queue behind the emulated
        one."""
        return hidden_queues(self.describe())

    def check(self) -> None:
        """Raises RunFailed if an interface of the network has disappeared."""
        nodes_in: dict[str, list[str]] = defaultdict(list)
        for node in self._interfaces:
            nodes_in[self._namespace(node)].append(node)
        gone = []
        for namespace, devices in self._devices.items():
            devices.seek(0)
            there = devices.read().decode()
            gone += [
                f"{name} of {node}"
                for node in nodes_in[namespace]
                for name in self._interfaces[node]
                if f"{name}:" not in there
            ]
        if gone:
            raise RunFailed(f"vanished while the run went on: interface {', '.join(gone)}")

    def remove(self) -> None:
        while self._borrowed:
            self._borrowed.pop().give_back()
        for devices in self._devices.values():
            devices.close()
        self._devices.clear()
        # Deleting one end of a pair deletes both. The node may already be gone.
        deletions = [
            subprocess.Popen(
                ["mnexec", "-a", str(link.intf1.node.pid)]
                + ["ip", "link", "delete", link.intf1.name],
                stderr=subprocess.DEVNULL,
            )
            for link in self.links
            if link.intf1.node.shell is not None
        ]
        for deletion in deletions:
            deletion.wait()
        self.links.clear()
        for node in self._namespaces.values():
            if node.shell is not None:
                node.terminate()
        self._namespaces.clear()
        self.nodes.clear()


def _addresses(host: Host, interface: str) -> list[str]:
    """Commands of ip."""
    address = f"address add {host.address}/24 dev {interface}"
    return [address, *_to_gateway(host, interface)]


def _to_gateway(host: Host, interface: str) -> list[str]:
    """Commands of ip."""
    return [
        f"neighbour replace {host.gateway} lladdr {host.gateway_mac} dev {interface} nud permanent",
        f"route replace default via {host.gateway} dev {interface}",
    ]


def hidden_queues(description: dict[str, Any]) -> list[str]:
    return [
        f"{node}: {name} has qdisc {interface['qdisc']}"
        for node, state in description.items()
        for name, interface in state["interfaces"].items()
        # That of a NIC is the host's own, in front of the device and not behind a queue of it.
        if interface["qdisc"] != "noqueue" and not interface["borrowed"]
    ]
