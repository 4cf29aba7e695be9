"""What trials say of a marking: its probability beside its equation, delays and shares over load,
reactions to steps, and what falls on whom."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from tiercast_controller.network.marking import DualPi2, Law, Marking, NoMarking

from tiercast_lab.experiment.programs import Files, own
from tiercast_lab.study.beside_ns3 import Ns3Disc, discs_of, is_built
from tiercast_lab.study.confidence import NORMAL_95
from tiercast_lab.study.marking import (
    DROPPED,
    EARLY,
    ECT_0,
    ECT_1,
    FULL,
    LEFT,
    MARKED,
    NOT_ECT,
    TOP_RANK,
    Class,
    Judge,
    Link,
    Packets,
    Phase,
)
from tiercast_lab.study.marking_steps import Over, over
from tiercast_lab.study.marking_tcp import Tcp, TcpJudge, UnderTcp

LOADS = (0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.5, 2.0)
ARRIVALS = ("poisson", "bursts")
LEAST_IN_BIN = 100  # packets, fewer say nothing
BINS = 24

# What a packet sees of any law: there is no equation of it alone.
FOUND = Law(lambda _: math.nan, "packets found waiting", "packets")


@dataclass(frozen=True)
class Bin:
    """Packets that saw about the same."""

    at: float  # mean of what they saw
    packets: int
    share: float  # of them that were marked or dropped
    low: float  # of the share's 95 % interval (Wilson's)
    high: float
    equation: float  # mean of the equation over them


@dataclass(frozen=True)
class AtLoad:
    """Shares are of the packets that arrived; waits are of those that left, in s."""

    load: float
    arrivals: str
    utilisation: float
    marked: float
    dropped: float
    queue_full: float
    wait_p50: float
    wait_p95: float
    wait_p99: float


@dataclass(frozen=True)
class OfClass:
    name: str
    packets: int
    marked: float
    dropped: float


@dataclass(frozen=True)
class OfQueues:
    """Equal traffic that is not ECT and that is L4S's at a port with two queues. Shares are of each
    one's packets; waits in s."""

    load: float
    classic_wait_p50: float
    classic_wait_p95: float
    l4s_wait_p50: float
    l4s_wait_p95: float
    classic_dropped: float
    l4s_marked: float
    l4s_dropped: float
    # k times the root of classic_dropped: what l4s_marked should be, below overload.
    coupled: float


@dataclass(frozen=True)
class Judgement:
    kind: str
    keys: dict[str, Any]
    law: Law | None
    curve: list[Bin]
    queue: list[Bin]  # over the packets that were found waiting, without an equation
    loads: list[AtLoad]
    steps: list[Over]
    classes: list[OfClass]
    queues: list[OfQueues]  # of a law with two
    # The same loads through ns-3's queue discs of this law, by ns-3's names.
    ns3: dict[str, list[AtLoad]]
    tcp: list[UnderTcp]
    tcp_steps: list[Over]
    state_bits: int  # in registers, for a port
    entry_bits: int  # of the port's action data
    cost: float  # time of a trial, as a multiple of the same one's without marking
    name: str = ""  # shown to people

    def as_json(self) -> dict[str, Any]:
        data = asdict(self) | {"law": None}
        if self.law is not None:
            data["law"] = {"of": self.law.of, "unit": self.law.unit}
        return data

    @property
    def outside(self) -> int:
        """Bins whose interval leaves the equation out."""
        room = 1e-9  # of rounding, at 0 and 1
        return sum(not one.low - room <= one.equation <= one.high + room for one in self.curve)


def judge(
    marking: Marking,
    link: Link,
    seconds: float,
    seed: int = 1,
    files: Files | None = None,
    tcp: Tcp | None = None,
) -> Judgement:
    """All trials of one marking; each load and arrival process for `seconds` of virtual time.
    `files` None: our own program. `tcp` None: no trials under TCP, which need tiercast-ns3."""
    files = files or own()
    of = Judge(marking, link, files)
    law = marking.law(link.traffic)
    ramp = of.carry([Phase(seconds / 2, load) for load in LOADS], seed=seed)
    plain = Judge(NoMarking(), link, files).carry(
        [Phase(seconds / 2, load) for load in LOADS], of.classes(), seed
    )
    discs = discs_of(marking, link) if is_built() else {}
    under = None if tcp is None else TcpJudge(marking, link, tcp, files, seed)
    return Judgement(
        kind=marking.kind,
        name=marking.kind,
        keys=marking.model_dump(exclude={"kind"}),
        law=law,
        curve=[] if law is None else curve(ramp, law),
        queue=curve(ramp, FOUND),
        loads=[
            at_load(of.carry([Phase(seconds, load, kind)], seed=seed), load, kind, link)
            for kind in ARRIVALS
            for load in LOADS
        ],
        steps=[
            over(title, of.carry(phases))
            for title, phases in (
                ("load 0.7, 1.3, 0.7", [Phase(10, 0.7), Phase(20, 1.3), Phase(10, 0.7)]),
                (
                    "rate 1, 0.5, 1 at load 0.7",
                    [Phase(10, 0.7), Phase(20, 0.7, rate=0.5), Phase(10, 0.7, rate=1.0)],
                ),
            )
        ],
        classes=by_class(of, seconds, seed),
        queues=[] if marking.priority_queues() is None else by_queue(of, seconds, seed),
        ns3={
            name: [
                at_load(
                    Ns3Disc(disc, link, of.classes()).carry([Phase(seconds, load, kind)], seed),
                    load,
                    kind,
                    link,
                )
                for kind in ARRIVALS
                for load in LOADS
            ]
            for name, disc in discs.items()
        },
        tcp=[] if under is None else under.steady(seconds),
        tcp_steps=[] if under is None else under.steps(),
        state_bits=of.state_bits(),
        entry_bits=of.entry_bits(),
        cost=ramp.took_s / plain.took_s,
    )


def curve(packets: Packets, law: Law, least: int = LEAST_IN_BIN) -> list[Bin]:
    """The share of marked or dropped packets over what the law looks at. Packets that the law
    spares, and those that the full queue dropped, are left out, and so are ranges with fewer than
    `least` packets."""
    seen = packets.found if law.register is None else packets.registers[law.register] / law.scale
    judged = ~np.isnan(packets.wait_s) | (packets.fate == EARLY)
    judged &= packets.found >= law.least_found
    if law.spared is not None:
        names, columns = list(packets.registers), list(packets.registers.values())
        cells = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
        judged &= ~np.fromiter((law.spared(one) for one in cells), bool, len(packets))
    seen, hit = seen[judged], packets.hit[judged]
    if len(seen) == 0:
        return []
    top = float(np.quantile(seen, 0.999))
    edges = np.linspace(0, max(top, 1e-9), BINS + 1)
    if law.register is None and top <= 2 * BINS:
        edges = np.arange(-0.5, math.ceil(top) + 1)
    places = np.digitize(seen, edges) - 1
    # What equals the last edge belongs to the last range: of a full queue, that is most packets.
    places[seen == edges[-1]] = len(edges) - 2
    result = []
    for place in range(len(edges) - 1):
        chosen = places == place
        count = int(chosen.sum())
        if count < least:
            continue
        share = float(hit[chosen].mean())
        low, high = wilson(share, count)
        equation = float(np.mean([law.probability(x) for x in seen[chosen]]))
        result.append(Bin(float(seen[chosen].mean()), count, share, low, high, equation))
    return result


def wilson(share: float, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of `count` independent trials."""
    z = NORMAL_95
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + (z / 2 / count) ** 2)
    return max(0.0, middle - half), min(1.0, middle + half)


def at_load(packets: Packets, load: float, arrivals: str, link: Link) -> AtLoad:
    left = np.isin(packets.fate, (LEFT, MARKED))
    begins = packets.arrival_s + np.nan_to_num(packets.wait_s)
    last = float(begins[left].max()) + link.packet_s if left.any() else 1.0
    p50, p95, p99 = packets.only(left).waits()
    total = len(packets)
    return AtLoad(
        load,
        arrivals,
        utilisation=float(left.sum()) * link.packet_s / last,
        marked=float((packets.fate == MARKED).sum()) / total,
        dropped=float(np.isin(packets.fate, (DROPPED, EARLY)).sum()) / total,
        queue_full=float((packets.fate == FULL).sum()) / total,
        wait_p50=p50,
        wait_p95=p95,
        wait_p99=p99,
    )


def by_queue(of: Judge, seconds: float, seed: int) -> list[OfQueues]:
    assert isinstance(of.marking, DualPi2)
    classes = [Class("Classic", NOT_ECT, 0.6), Class("L4S", ECT_1, 0.4)]
    result = []
    for load in LOADS:
        # The probability first has to come up.
        phases = [Phase(10, load), Phase(seconds, load)]
        packets = of.carry(phases, classes, seed)
        classic, l4s = (
            packets.only((packets.of_class == number) & (packets.arrival_s > 10))
            for number in range(2)
        )
        dropped = float((classic.fate == DROPPED).mean())
        result.append(
            OfQueues(
                load,
                classic_wait_p50=float(np.nanquantile(classic.wait_s, 0.5)),
                classic_wait_p95=float(np.nanquantile(classic.wait_s, 0.95)),
                l4s_wait_p50=float(np.nanquantile(l4s.wait_s, 0.5)),
                l4s_wait_p95=float(np.nanquantile(l4s.wait_s, 0.95)),
                classic_dropped=dropped,
                l4s_marked=float((l4s.fate == MARKED).mean()),
                l4s_dropped=float((l4s.fate == DROPPED).mean()),
                coupled=of.marking.coupling * math.sqrt(dropped),
            )
        )
    return result


def by_class(of: Judge, seconds: float, seed: int) -> list[OfClass]:
    """Equal traffic of each class, at load 1.1."""
    classes = [
        Class("unicast, not ECT", NOT_ECT),
        Class("unicast, ECT(0)", ECT_0),
        Class("unicast, ECT(1)", ECT_1),
        Class("top group", ECT_0, rank=TOP_RANK),
        Class("lower group", ECT_0, rank=TOP_RANK - 1),
    ]
    packets = of.carry([Phase(seconds, 1.1)], classes, seed)
    result = []
    for number, one in enumerate(classes):
        mine = packets.only(packets.of_class == number)
        marked = float((mine.fate == MARKED).mean())
        dropped = float(np.isin(mine.fate, (DROPPED, EARLY)).mean())
        result.append(OfClass(one.name, len(mine), marked, dropped))
    return result
