"""An experiment that has been read and checked, and what follows from it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from tiercast_controller.network.flow_hash import TCP, UDP, flow_hash

from tiercast_lab.base.errors import InputError
from tiercast_lab.experiment import programs
from tiercast_lab.experiment.paths import Paths, paths_of_run
from tiercast_lab.experiment.programs import Files
from tiercast_lab.experiment.quantities import FIRST_FLOW_PORT, PACKET_SIZE
from tiercast_lab.experiment.schema import Experiment, Traffic
from tiercast_lab.experiment.topology import Topology
from tiercast_lab.experiment.yaml_source import KeyPath, Source

RECORDED_ALL = 2048
RECORDED = 256


@dataclass(frozen=True)
class Flow:
    """One of the flows that an entry of `traffic` stands for."""

    entry: int
    kind: str  # of its rows: "tcp" or "udp"
    rival: bool
    source: int  # node numbers
    destination: int
    port: int  # of both ends; TCP's connections after the first are sent from a free one
    start_s: float
    stop_s: float
    # By which switches spread it over equal paths. None: they do not, or each of its connections
    # has a path of its own (Paths.of_flow).
    hash: int | None = None

    @property
    def ends(self) -> tuple[int, int, int | None]:
        """As Paths wants it."""
        return self.source, self.destination, self.hash


@dataclass(frozen=True)
class LoadedExperiment:
    """A checked experiment."""

    experiment: Experiment
    topology: Topology
    receivers: tuple[tuple[int, ...], ...]  # node numbers, per session
    # For each session: whether its scheme has layers. Otherwise all its receivers get one rate.
    layered: tuple[bool, ...]
    source: Source  # the YAML after includes and options
    file: str
    records: Mapping[str, tuple[str, ...]]  # the kinds of rows that the cores trace, by scheme
    # The values of the parameters that no session sets, by scheme, in the parameters' units.
    defaults: Mapping[str, Mapping[str, float]]
    # The key path of each of the experiment's sessions and flows: an entry may stand for many.
    session_paths: tuple[KeyPath, ...]
    traffic_paths: tuple[KeyPath, ...]
    notes: tuple[str, ...] = ()  # what the user should know

    @property
    def data(self) -> dict[str, Any]:
        return self.source.data

    @property
    def sources(self) -> tuple[Path, ...]:
        """The files that were read: its own, its base and its includes."""
        return self.source.files

    def error(self, path: KeyPath, text: str) -> InputError:
        """An error at a key of the file, with its line."""
        return self.source.error(path, text)

    def traffic_error(self, index: int, key: str, text: str) -> InputError:
        """An error at a key of experiment.traffic[index]."""
        return self.error((*self.traffic_paths[index], key), text)

    @cached_property
    def programs(self) -> dict[str, Files]:
        """The P4 program of each switch, by its name."""
        ours = programs.own()
        return {
            name: ours if (found := self.experiment.program_of(switch.number)) is None
            else found.files
            for name, switch in self.topology.switches.items()
        }  # fmt: skip

    @cached_property
    def paths(self) -> list[Paths]:
        """The paths from 0 on, and from each time at which they may move."""
        experiment = self.experiment
        return paths_of_run(self.topology, experiment.link_events, experiment.topology.equal_costs)

    @property
    def flows(self) -> dict[str, Flow]:
        """The flows by name, in the order of `traffic`: tcp1, tcp2, ..., udp1, ..."""
        end = self.experiment.duration
        numbers: Counter[str] = Counter()
        flows: dict[str, Flow] = {}
        for index, one in enumerate(self.experiment.traffic):
            if one.kind == "command":
                continue
            source, destination = one.ends
            for _ in range(one.count):
                numbers[one.kind] += 1
                flows[f"{one.kind}{numbers[one.kind]}"] = Flow(
                    entry=index,
                    kind=one.kind,
                    rival=one.is_rival,
                    source=source,
                    destination=destination,
                    port=FIRST_FLOW_PORT + len(flows),
                    start_s=one.start / 1e9,
                    stop_s=(end if one.stop is None else min(one.stop, end)) / 1e9,
                    hash=self._hash(one, FIRST_FLOW_PORT + len(flows)),
                )
        return flows

    def _hash(self, entry: Traffic, port: int) -> int | None:
        if self.experiment.topology.equal_costs != "flow-hash" or self.topology.is_tree:
            return None
        if entry.kind == "tcp" and entry.on is not None:
            return None
        source, destination = (
            IPv4Address(self.topology.hosts[f"t{node}"].address) for node in entry.ends
        )
        protocol = TCP if entry.kind == "tcp" else UDP
        return flow_hash(source, destination, protocol, (port, port))

    def is_spread(self, flow: Flow) -> bool:
        """Whether each connection of the flow may take another of several equal paths."""
        if self.experiment.topology.equal_costs != "flow-hash" or flow.hash is not None:
            return False
        return any(paths.open_to(*flow.ends) != paths.of_flow(*flow.ends) for paths in self.paths)

    @property
    def commands(self) -> dict[str, Traffic]:
        """The user's programs by name, in the order of `traffic`: command1, command2, ..."""
        entries = [one for one in self.experiment.traffic if one.kind == "command"]
        return {f"command{number}": one for number, one in enumerate(entries, 1)}

    def packet_size_of(self, link: str) -> int:
        """The size in IP bytes of the largest data packets of any session or flow that crosses the
        link in either direction; PACKET_SIZE if none does."""
        return self._packet_sizes.get(link, PACKET_SIZE)

    @cached_property
    def _packet_sizes(self) -> dict[str, int]:
        sizes: dict[str, int] = defaultdict(int)
        experiment, topology = self.experiment, self.topology
        for session, receivers in zip(experiment.sessions, self.receivers, strict=True):
            routes = self.paths[0].of_session(session.session)
            for link in topology.links_to(session.sender, receivers, routes):
                sizes[link] = max(sizes[link], session.packet_size)
        for flow in self.flows.values():
            for link in map(topology.link_of, self.paths[0].open_to(*flow.ends)):
                sizes[link] = max(sizes[link], experiment.traffic[flow.entry].packet_size)
        return sizes

    @property
    def recorded(self) -> tuple[tuple[int, ...], ...]:
        """The receivers that have rows, per session."""
        most = self.experiment.record_receivers
        result = []
        for receivers in self.receivers:
            wanted = most or (len(receivers) if len(receivers) <= RECORDED_ALL else RECORDED)
            wanted = min(wanted, len(receivers))
            result.append(tuple(receivers[i * len(receivers) // wanted] for i in range(wanted)))
        return tuple(result)

    @property
    def window(self) -> tuple[float, float]:
        """Start and end of the measured part of the run, in s."""
        measure, end = self.experiment.measure, self.experiment.duration
        end = measure.until or end
        last = end * 2 // 3 if measure.last is None else measure.last
        return (end - last) / 1e9, end / 1e9

    @property
    def measured_over(self) -> dict[str, Any]:
        """The window and the periods, in s, as they appear in summary.json."""
        periods = self.experiment.measure.periods.items()
        return {
            "window_s": list(self.window),
            "periods_s": {name: [start / 1e9, end / 1e9] for name, (start, end) in periods},
        }
