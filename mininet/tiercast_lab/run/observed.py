"""What a run observes inside its switches, in either runtime: which ports are traced, which cells
are read, and their rows (docs/tracing.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tiercast.v1 import simulation_pb2, trace_pb2
from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.network.marking import PortTraffic
from tiercast_controller.p4runtime.program import Program

from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.observed_schema import State, entry_path
from tiercast_lab.experiment.yaml_source import KeyPath

Row = dict[str, float | str | None]
REGISTER = "register."  # before a register's name, as a column


@dataclass(frozen=True)
class TracedPort:
    """A direction of a link whose packets are traced."""

    switch: str
    port: int
    link: str  # the direction, as in rows of ports
    share: float
    registers: tuple[str, ...]
    marking: dict[str, Any] | None  # its keys; None: a port without a rate, and so without any
    traffic: PortTraffic

    def message(self) -> trace_pb2.PortTrace:
        return trace_pb2.PortTrace(port=self.port, share=self.share, registers=self.registers)

    @property
    def described(self) -> dict[str, Any]:
        """As summary.json has it."""
        return {
            "link": self.link,
            "share": self.share,
            "registers": list(self.registers),
            "marking": self.marking,
            "rate_bps": self.traffic.rate_bps,
            "packet_bytes": self.traffic.packet_bytes,
        }


@dataclass(frozen=True)
class StateRead:
    """Cells of one array at one switch."""

    switch: str
    array: str
    is_register: bool
    indices: tuple[int, ...]
    every: int  # ns
    link: str = ""  # the direction whose port is the index

    def message(self) -> simulation_pb2.StateRead:
        name = {"register" if self.is_register else "counter": self.array}
        return simulation_pb2.StateRead(
            **name, indices=self.indices, every_ns=self.every, link=self.link
        )


def traced_ports(loaded: LoadedExperiment) -> list[TracedPort]:
    """In the order of `trace`."""
    topology, result = loaded.topology, []
    for entry in loaded.experiment.trace:
        for switch, far in _switch_ends(loaded, entry.link):
            port = topology.switches[switch].port_to(far)
            link = topology.switches[switch].ports[port - 1][1]
            marking = loaded.experiment.marking_of(link.name)
            traffic = PortTraffic(link.sent_by(switch).rate, loaded.packet_size_of(link.name))
            law = marking.law(traffic) if traffic.rate_bps else None
            of_law = () if law is None or law.register is None else (law.register, *law.also)
            # A program of the user's may keep such a law's state elsewhere.
            program = loaded.programs[switch].load()
            of_law = tuple(name for name in of_law if program.has_register(name))
            result.append(
                TracedPort(
                    switch,
                    port,
                    topology.switches[switch].direction(port),
                    entry.sample,
                    tuple(dict.fromkeys((*of_law, *entry.registers))),
                    marking.model_dump() if traffic.rate_bps else None,
                    traffic,
                )
            )
    return result


def state_reads(loaded: LoadedExperiment) -> list[StateRead]:
    """In the order of `state`."""
    return [read for entry in loaded.experiment.state for read in _reads(loaded, entry)]


def _reads(loaded: LoadedExperiment, entry: State) -> Iterator[StateRead]:
    is_register = entry.register_ is not None
    if entry.link is None:
        assert entry.index is not None  # State's checks ensure this
        yield StateRead(f"s{entry.node}", entry.array, is_register, entry.index, entry.every)
        return
    for switch, far in _switch_ends(loaded, entry.link):
        port = loaded.topology.switches[switch].port_to(far)
        link = loaded.topology.switches[switch].direction(port)
        yield StateRead(switch, entry.array, is_register, (port,), entry.every, link)


def of_switch(ports: Iterable[TracedPort], switch: str) -> list[trace_pb2.PortTrace]:
    return [one.message() for one in ports if one.switch == switch]


def require_observable(loaded: LoadedExperiment, programs: Mapping[str, Program]) -> None:
    """Raises InputError for a register, counter or cell that the program of its switch does not
    have."""
    for index, entry in enumerate(loaded.experiment.trace):
        for name in entry.registers:
            path = (*entry_path(loaded.data, "trace", index), "registers")
            for switch, _ in _switch_ends(loaded, entry.link):
                program = programs[switch]
                _cells(loaded, path, program, program.register_cells, name, program.full_register)
    for index, state in enumerate(loaded.experiment.state):
        key = "counter" if state.register_ is None else "register"
        path = entry_path(loaded.data, "state", index)
        for read in _reads(loaded, state):
            program = programs[read.switch]
            cells, full = (
                (program.register_cells, program.full_register)
                if read.is_register
                else (program.counter_cells, program.full_counter)
            )
            size = _cells(loaded, (*path, key), program, cells, state.array, full)
            if (wrong := _outside(read.indices, size)) is not None:
                raise loaded.error(
                    (*path, "index"), f"{wrong} of {state.array}; valid: 0 to {size - 1}"
                )


def _cells(
    loaded: LoadedExperiment, path: KeyPath, program: Program, size: Any, name: str, full: Any
) -> int:
    try:
        cells = int(size(name))
        if full(name) != name:
            raise ConfigurationError(f"{name!r}; valid: {full(name)}, its whole name")
        return cells
    except ConfigurationError as error:
        raise loaded.error(path, f"{error} ({program.name})") from None


def _outside(indices: Collection[int], size: int) -> int | None:
    return next((index for index in indices if index >= size), None)


def _switch_ends(loaded: LoadedExperiment, link: str) -> Iterator[tuple[str, str]]:
    """The switches that send on a link, each with the far end."""
    for _, near, far in loaded.topology.sides(link):
        if near in loaded.topology.switches:
            yield near, far


def hop_row(hop: trace_pb2.Hop, registers: Iterable[str], link: str) -> Row:
    """A row of kind `trace`, as tiercast-ns3 writes it."""
    names = (
        *("flow", "fate", "by", "port", "session", "layer", "sequence", "ip_id", "bytes"),
        *("found_packets", "found_bytes"),
    )
    row: Row = {"link": link, "lines": "\n".join(hop.lines)}
    row |= {name: getattr(hop, name) for name in names}
    row["left_packets"] = hop.left_packets if hop.HasField("left_packets") else None
    row["wait_ns"] = hop.wait_ns if hop.HasField("wait_ns") else None
    row["transit_ns"] = hop.transit_ns if hop.HasField("transit_ns") else None
    row["red_average"] = hop.red_average if hop.HasField("red_average") else None
    for name, cell in zip(registers, hop.registers, strict=True):
        row[REGISTER + name] = cell.value if cell.HasField("value") else None
    return row


def state_row(read: StateRead, index: int, cell: int | tuple[int, int]) -> Row:
    """A row of kind `state`. `cell`: a register's value, or a counter's packets and bytes."""
    packets, nbytes = cell if isinstance(cell, tuple) else (None, None)
    place: Mapping[str, str] = {"link": read.link} if read.link else {}
    return {
        **place,
        "name": read.array,
        "index": index,
        "value": None if isinstance(cell, tuple) else cell,
        "packets": packets,
        "bytes": nbytes,
    }
