"""A marking under TCP: flows that react to it, through one port, in virtual time.

The flows are ns-3's, and the port is that of a whole run (docs/ns3.md) with two switches; its trace
says how long packets waited. docs/marking.md says what each trial is for.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from tiercast_controller.base.units import format_duration
from tiercast_controller.network.marking import Marking

from tiercast_lab.base.errors import RunFailed
from tiercast_lab.base.interrupt import Interrupt
from tiercast_lab.base.scratch import scratch_folder
from tiercast_lab.experiment.loaded_experiment import LoadedExperiment
from tiercast_lab.experiment.loading import experiment_of
from tiercast_lab.experiment.programs import Files, own
from tiercast_lab.experiment.tcp_stack import SCALABLE
from tiercast_lab.experiment.yaml_source import Source
from tiercast_lab.measures.rows import increase
from tiercast_lab.results.storage import StoredRun, load_run
from tiercast_lab.run.execute import Options, execute
from tiercast_lab.run.progress import SilentView
from tiercast_lab.study.marking import DROPPED, EARLY, FULL, MARKED, Link, Packets
from tiercast_lab.study.marking_steps import END_S, STEP, Over, over
from tiercast_lab.study.traced_packets import packets_of

WARM_S = 10.0  # before anything is measured: slow starts are over
SAMPLE = 4  # one in so many packets is traced
PORT = "0>1"
ETHERNET_BYTES = 14


@dataclass(frozen=True)
class Tcp:
    """The flows of a trial. All negotiate ECN; Classic ones are ECT(0), scalable ones ECT(1)."""

    flows: int = 10
    rtt: int = 40_000_000  # ns, without queueing
    classic: str = "reno"


@dataclass(frozen=True)
class FlowKind:
    """Flows that are alike, in one trial. Shares are of their packets at the port; waits are of
    those that it served, in s."""

    control: str
    goodputs: list[float]  # of each flow, bit/s of IP
    marked: float
    dropped: float
    wait_p50: float
    wait_p95: float
    wait_p99: float

    @property
    def mean(self) -> float:
        """bit/s of a flow."""
        return float(np.mean(self.goodputs))

    @property
    def waits(self) -> tuple[float, float, float]:
        return self.wait_p50, self.wait_p95, self.wait_p99


@dataclass(frozen=True)
class UnderTcp:
    """A steady load of TCP. Shares are of the packets that came to the port."""

    title: str
    utilisation: float
    marked: float
    dropped: float
    queue_full: float
    wait_p50: float  # s, of all packets that the port served
    wait_p95: float
    wait_p99: float
    jain: float  # index between all flows' goodputs
    kinds: list[FlowKind] = field(default_factory=list)

    @property
    def waits(self) -> tuple[float, float, float]:
        return self.wait_p50, self.wait_p95, self.wait_p99

    @property
    def ratio(self) -> float | None:
        """Goodput of a scalable flow / that of a Classic one; None without both."""
        if len(self.kinds) < 2 or not self.kinds[0].mean:
            return None
        return self.kinds[1].mean / self.kinds[0].mean

    @property
    def goodput(self) -> float:
        """bit/s, all flows together."""
        return sum(sum(kind.goodputs) for kind in self.kinds)


def jain(rates: Sequence[float]) -> float:
    """Jain's index of fairness: 1 if all are equal, 1/n if one has all; nan without any rate."""
    squares = len(rates) * sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / squares if squares else math.nan


@dataclass(frozen=True)
class TcpJudge:
    """Runs trials of one marking on one link, as study.marking.Judge."""

    marking: Marking
    link: Link = field(default_factory=Link)
    tcp: Tcp = field(default_factory=Tcp)
    files: Files = field(default_factory=own)
    seed: int = 1

    def steady(self, seconds: float) -> list[UnderTcp]:
        """One flow, several, and as many scalable as Classic ones."""
        classic, many = self.tcp.classic, self.tcp.flows
        half = max(1, many // 2)
        loads = [{classic: 1}, {classic: many}, {classic: half, SCALABLE: half}]
        distinct = [load for at, load in enumerate(loads) if load not in loads[:at]]
        return [self._steady(load, seconds) for load in distinct]

    def steps(self) -> list[Over]:
        """Twice as many flows for a while, and half the rate."""
        classic, many = self.tcp.classic, self.tcp.flows
        begin, end = (f"{at}s" for at in STEP)
        more = self._flows(classic, many, range(int(STEP[0]), int(STEP[0]) + 1), end)
        flows = self._flows(classic, many)
        rates = [
            {"at": begin, "link": PORT, "rate": f"{self.link.rate // 2}bit/s"},
            {"at": end, "link": PORT, "rate": f"{self.link.rate}bit/s"},
        ]
        titles = (
            f"{many}, {2 * many}, {many} {classic}", f"rate 1, 0.5, 1 under {many} {classic}"
        )  # fmt: skip
        runs = (self._run([*flows, *more], END_S), self._run(flows, END_S, rates))
        return [
            over(title, _packets(run.rows["trace"]))
            for title, run in zip(titles, runs, strict=True)
        ]

    def _steady(self, load: dict[str, int], seconds: float) -> UnderTcp:
        flows = [flow for control, count in load.items() for flow in self._flows(control, count)]
        end = WARM_S + seconds
        run = self._run(flows, end)
        port = run.rows.of("port", PORT, "link")
        grown = {
            name: increase(port, name, WARM_S, end)
            for name in ("entered", "marked", "policy_drops", "queue_drops", "tx_bytes",
                         "tx_packets")
        }  # fmt: skip
        sent_bits = 8 * (grown["tx_bytes"] - ETHERNET_BYTES * grown["tx_packets"])
        entered = grown["entered"] or math.nan
        names = iter(run.summary["flow_ports"].items())
        kinds = [
            self._kind(run, control, [next(names) for _ in range(count)], end)
            for control, count in load.items()
        ]
        p50, p95, p99 = _packets(run.rows["trace"].filter(pl.col("time_s") >= WARM_S)).waits()
        return UnderTcp(
            ", ".join(f"{count} {control}" for control, count in load.items()),
            utilisation=sent_bits / seconds / self.link.rate,
            marked=grown["marked"] / entered,
            dropped=grown["policy_drops"] / entered,
            queue_full=grown["queue_drops"] / entered,
            wait_p50=p50,
            wait_p95=p95,
            wait_p99=p99,
            jain=jain([rate for kind in kinds for rate in kind.goodputs]),
            kinds=kinds,
        )

    def _kind(
        self, run: StoredRun, control: str, flows: list[tuple[str, int]], end: float
    ) -> FlowKind:
        rates = [
            8 * increase(run.rows.of("tcp", name), "bytes", WARM_S, end) / (end - WARM_S)
            for name, _ in flows
        ]
        ports = "|".join(str(port) for _, port in flows)
        mine = run.rows["trace"].filter(
            pl.col("flow").str.contains(f":({ports})>") & (pl.col("time_s") >= WARM_S)
        )
        packets = _packets(mine)
        count = len(packets) or math.nan
        p50, p95, p99 = packets.waits()
        return FlowKind(
            control,
            rates,
            marked=float((packets.fate == MARKED).sum()) / count,
            dropped=float(np.isin(packets.fate, (DROPPED, EARLY, FULL)).sum()) / count,
            wait_p50=p50,
            wait_p95=p95,
            wait_p99=p99,
        )

    def _flows(
        self, control: str, count: int, within: range = range(1), stop: str | None = None
    ) -> list[dict[str, Any]]:
        """Entries of `traffic`. They start within a second, and a packet's time may pass before
        they send: flows of one round trip would otherwise stay in step with the queue."""
        draw = random.Random(f"{self.seed} {control} {within}")
        flow = {
            "kind": "tcp",
            "from": 0,
            "to": 1,
            "congestion_control": control,
            "packet_size": f"{self.link.packet_bytes}B",
            "ecn": "l4s" if control == SCALABLE else True,
            "overhead": format_duration(round(self.link.packet_s * 1e9)),
        } | ({} if stop is None else {"stop": stop})
        starts = (round((within.start + draw.random()) * 1e9) for _ in range(count))
        return [flow | {"start": format_duration(start)} for start in starts]

    def _run(
        self, flows: list[dict[str, Any]], seconds: float, events: Sequence[dict[str, Any]] = ()
    ) -> StoredRun:
        """Raises InputError, RunFailed and Interrupted."""
        loaded = self._experiment(flows, seconds, events)
        with scratch_folder() as folder, Interrupt() as interrupt:
            options = Options(self.seed, "ns3", "tiercast", folder, [])
            executed = execute(loaded, options, SilentView(), interrupt)
            if executed.summary["verdict"] != "reported":
                raise RunFailed(f"{loaded.file}: {'; '.join(executed.summary['reasons'])}")
            run = load_run(executed.folder)
            return StoredRun(run.directory, run.summary, run.rows)

    def _experiment(
        self, flows: list[dict[str, Any]], seconds: float, events: Sequence[dict[str, Any]]
    ) -> LoadedExperiment:
        name = f"{self.marking.kind} under TCP"
        data: dict[str, Any] = {
            "name": "marking-under-tcp",
            "topology": {
                "tree": {"depth": 1, "fanout": 2},
                "link": {
                    "rate": f"{self.link.rate}bit/s",
                    "delay": format_duration(self.tcp.rtt // 2),
                    "queue": f"{self.link.queue}p",
                },
            },
            "sessions": [],
            "traffic": flows,
            "events": list(events),
            "marking": {"kind": "none"},
            "trace": {"link": PORT, "sample": f"1/{SAMPLE}"},
            "duration": format_duration(round(seconds * 1e9)),
        }
        if self.files != own():
            data["program"] = self.files.data
        loaded = experiment_of(Source(data, {(): name}), Path(name), {})
        marked = loaded.experiment.model_copy(update={"marking": self.marking})
        return replace(loaded, experiment=marked)


def _packets(rows: pl.DataFrame) -> Packets:
    packets = packets_of(rows)
    assert packets is not None  # no register is asked for
    return packets
