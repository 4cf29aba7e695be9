"""Trials of a marking by itself: one port under traffic that does not react, packet by packet.

tiercast-marking runs the P4 program's own code, in virtual time. docs/marking.md says what each
trial is for.
"""

from __future__ import annotations

import math
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from google.protobuf import json_format
from tiercast.v1.marking_pb2 import MarkingTrial, TrafficClass, TrialPhase
from tiercast.v1.queue_pb2 import PriorityQueues as PriorityQueuesMessage
from tiercast.v1.queue_pb2 import Red as RedMessage
from tiercast.v1.simulation_pb2 import SimulatedPort, SwitchUpdate
from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.network.marking import Marking, PortTraffic, require_registers
from tiercast_controller.network.routing import queue_classes
from tiercast_controller.p4runtime.entities import MulticastGroup, Op, TableEntry, Update, entry
from tiercast_controller.p4runtime.program import Program
from tiercast_controller.p4runtime.roles import Roles
from tiercast_controller.virtual import described

from tiercast_lab.base import binaries
from tiercast_lab.base.errors import InputError, RunFailed
from tiercast_lab.experiment.programs import Files, own

INGRESS, PORT = 1, 2
SWITCH = "s0"
OVERHEAD_BYTES = -14  # rates count IP bytes
NOT_ECT, ECT_1, ECT_0 = 0, 1, 2  # RFC 3168, 5
SESSION, TOP_RANK = 1, 1  # of the classes of a layered session
GROUPS = 0xEFC00000  # 239.192.0.0/14
HOST, HOST_MAC = 0x0A000102, 0x020000000202
SENDER = 0x0AFFFFFE  # dataplane/marking/trial.cpp
# Packets that may wait: at twice the link's rate twice as many arrive while one waits, in bursts
# some more, and tiercast-marking tells 65,536 apart.
MAX_QUEUE = 30_000
FATES = ("left", "marked", "dropped", "dropped_early", "queue_full", "elsewhere")
LEFT, MARKED, DROPPED, EARLY, FULL, ELSEWHERE = range(len(FATES))


@dataclass(frozen=True)
class Class:
    """Packets that are alike. `rank`: of a layered session whose top group has TOP_RANK; None:
    unicast."""

    name: str
    ecn: int = ECT_0
    share: float = 1.0
    rank: int | None = None


@dataclass(frozen=True)
class Phase:
    seconds: float
    load: float  # of the link's first rate
    arrivals: str = "poisson"  # or constant, bursts
    mean_burst: float = 8.0  # packets
    rate: float = 1.0  # of the link, as a share of its first one


@dataclass(frozen=True)
class Link:
    rate: int = 8_000_000  # bit/s
    queue: int = 200  # packets
    packet_bytes: int = 1000

    @property
    def packet_s(self) -> float:
        return 8 * self.packet_bytes / self.rate

    @property
    def traffic(self) -> PortTraffic:
        return PortTraffic(self.rate, self.packet_bytes)


@dataclass(frozen=True)
class Packets:
    """What became of each packet, in the order of arrival: arrays of the same length."""

    arrival_s: np.ndarray
    wait_s: np.ndarray  # nan: it never was to be served
    found: np.ndarray  # packets waiting when it came, the one in service not counted
    left_behind: np.ndarray
    of_class: np.ndarray
    fate: np.ndarray
    registers: Mapping[str, np.ndarray]
    took_s: float = 0.0  # that the trial took

    def __len__(self) -> int:
        return len(self.fate)

    @property
    def hit(self) -> np.ndarray:
        """Whether the marking marked or dropped the packet."""
        return np.isin(self.fate, (MARKED, DROPPED, EARLY))

    def waits(self) -> tuple[float, float, float]:
        """50, 95 and 99 % of the waits of those that came to be served, s; nan without any."""
        served = self.wait_s[~np.isnan(self.wait_s)]
        if not len(served):
            return math.nan, math.nan, math.nan
        p50, p95, p99 = (float(wait) for wait in np.quantile(served, (0.5, 0.95, 0.99)))
        return p50, p95, p99

    def only(self, chosen: np.ndarray) -> Packets:
        columns = {name: getattr(self, name)[chosen] for name in _COLUMNS}
        registers = {name: values[chosen] for name, values in self.registers.items()}
        return replace(self, registers=registers, **columns)


_COLUMNS = ("arrival_s", "wait_s", "found", "left_behind", "of_class", "fate")
_RECORD = [
    ("arrival_ns", "<i8"),
    ("wait_ns", "<i8"),
    ("found", "<u4"),
    ("left_behind", "<u4"),
    ("of_class", "<u2"),
    ("fate", "u1"),
    ("zero", "u1"),
]


@dataclass
class Judge:
    """Runs trials of one marking on one link."""

    marking: Marking
    link: Link = field(default_factory=Link)
    files: Files = field(default_factory=own)  # of the P4 program

    @cached_property
    def program(self) -> Program:
        return self.files.load()

    @cached_property
    def roles(self) -> Roles:
        ranks = range(TOP_RANK + 1)
        return Roles(self.program, {group_of(rank): (SENDER,) for rank in ranks})

    def carry(
        self, phases: Sequence[Phase], classes: Sequence[Class] | None = None, seed: int = 1
    ) -> Packets:
        """Raises InputError if the program has no such marking, and RunFailed."""
        entry = self.marking.entry(PORT, self.link.traffic)
        try:
            self.roles.require_marking(self.marking.kind, entry)
            require_registers(self.marking, self.program)
            self._require_queues()
        except ConfigurationError as error:
            raise InputError(f"{self.marking.kind}: {error}") from None
        classes = classes or self.classes()
        law = self.marking.law(self.link.traffic)
        registers = [] if law is None or law.register is None else [law.register, *law.also]
        trial = trial_of(self.link, phases, classes, seed)
        trial.program = str(self.files.json)
        trial.depth_register = self.program.manifest.depth_register or ""
        trial.updates.extend(self._updates(classes))
        trial.port.MergeFrom(self._queue())
        trial.registers.extend(registers)
        return run_trial([binaries.MARKING], trial)

    def classes(self) -> list[Class]:
        """One that the marking is for: the top group of a session where it looks at ranks."""
        if self.marking.kind == "priority":
            return [Class("top group", rank=TOP_RANK)]
        return [Class("ECT(0)")]

    def _require_queues(self) -> None:
        if self.marking.priority_queues() is not None and not self.roles.has("queue_class"):
            raise ConfigurationError(
                f"it has two queues, so queue_class is needed; {self.program.name} has: "
                f"{self.program.manifest.describe()}"
            )

    def state_bits(self) -> int:
        """Of the registers in which the program keeps the marking's state of a port."""
        return sum(self.program.register_bits(name) for name in self.marking.registers)

    def entry_bits(self) -> int:
        """Of the action data of the port's entry."""
        own = self.marking.entry(PORT, self.link.traffic)
        return sum(map(self.program.action_bits, self.roles.entries([own])))

    def _updates(self, classes: Sequence[Class]) -> Iterator[SwitchUpdate]:
        fixed = [Update(Op.INSERT, one) for one in self.roles.fixed]
        for update in (*fixed, *self.roles.updates(self._described(classes))):
            yield described(self.roles, SWITCH, update)

    def _described(self, classes: Sequence[Class]) -> Iterator[Update]:
        yield Update(Op.INSERT, self.marking.entry(PORT, self.link.traffic))
        if self.marking.priority_queues() is not None:
            yield from (Update(Op.INSERT, one) for one in queue_classes())
        forward = {"port": PORT, "dst_mac": HOST_MAC}
        yield Update(Op.INSERT, entry("ipv4_host", {"dst_addr": HOST}, "forward", forward))
        ranks = sorted({one.rank for one in classes if one.rank is not None})
        for number, rank in enumerate(ranks, 1):
            yield Update(Op.INSERT, MulticastGroup(number, frozenset({PORT})))
            yield Update(Op.INSERT, _replicate(group_of(rank), number))
        if ranks:
            key = {"egress_port": PORT, "session": SESSION}
            yield Update(Op.INSERT, entry("top_group", key, "set_top_group", {"rank": TOP_RANK}))

    def _queue(self) -> SimulatedPort:
        red, two = self.marking.queue_red(), self.marking.priority_queues()
        return SimulatedPort(
            red=None if red is None else RedMessage(**vars(red)),
            priority_queues=None if two is None else PriorityQueuesMessage(**vars(two)),
        )


def trial_of(
    link: Link, phases: Sequence[Phase], classes: Sequence[Class], seed: int
) -> MarkingTrial:
    """Packets at a port with a plain queue."""
    return MarkingTrial(
        port=SimulatedPort(
            port=PORT,
            rate_bps=link.rate,
            queue_packets=link.queue,
            overhead_bytes=OVERHEAD_BYTES,
        ),
        ingress_port=INGRESS,
        seed=seed,
        classes=[_traffic_class(one, link.packet_bytes) for one in classes],
        phases=[_phase(one, link.rate) for one in phases],
    )


def _traffic_class(one: Class, packet_bytes: int) -> TrafficClass:
    group = None if one.rank is None else group_of(one.rank)
    return TrafficClass(
        destination=HOST if group is None else group,
        mac=HOST_MAC if group is None else 0x01005E000000 | group & 0x7FFFFF,
        ecn=one.ecn,
        packet_bytes=packet_bytes,
        share=one.share,
    )


def _phase(one: Phase, rate: int) -> TrialPhase:
    return TrialPhase(
        duration_ns=round(one.seconds * 1e9),
        offered_bps=one.load * rate,
        arrivals=TrialPhase.Arrivals.Value(one.arrivals.upper()),
        mean_burst=one.mean_burst,
        rate_bps=one.rate * rate,
    )


def run_trial(command: Sequence[str | Path], trial: MarkingTrial) -> Packets:
    """Raises RunFailed."""
    line = json_format.MessageToJson(trial, indent=None).encode() + b"\n"
    began = time.monotonic()
    done = subprocess.run(command, input=line, capture_output=True, check=False)
    if done.returncode != 0:
        raise RunFailed(done.stderr.decode().strip() or f"{Path(command[0]).name} failed")
    return _read(done.stdout, list(trial.registers), time.monotonic() - began)


def group_of(rank: int) -> int:
    """The address of a layer of the session."""
    return GROUPS | SESSION << 3 | rank


def _replicate(address: int, number: int) -> TableEntry:
    return entry("ipv4_multicast", {"dst_addr": address}, "replicate", {"mgid": number})


def _read(data: bytes, registers: Sequence[str], took_s: float) -> Packets:
    record = np.dtype(_RECORD + [(name, "<u8") for name in registers])
    if len(data) % record.itemsize:
        raise RunFailed("tiercast-marking ended within a record")
    rows = np.frombuffer(data, record)
    wait = rows["wait_ns"].astype(float)
    return Packets(
        rows["arrival_ns"] / 1e9,
        np.where(wait < 0, np.nan, wait) / 1e9,
        rows["found"].astype(float),
        rows["left_behind"].astype(float),
        rows["of_class"],
        rows["fate"],
        {name: rows[name].astype(float) for name in registers},
        took_s,
    )
