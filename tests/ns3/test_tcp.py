"""TCP in virtual time against published formulas, which know nothing of this program: what a loss
rate makes of a window, and of a rate, for a kernel's stack and for ns-2's of the papers."""

from __future__ import annotations

import json
import math
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]

ALONE = """\
name: tcp
title: TCP flows on a link of their own
topology:
  nodes: [0, 1, 2]
  link: {{rate: {rate}, delay: 50ms, queue: {queue}p}}
  links: {{0-1: {{}}, 0-2: {{}}}}
marking: {marking}
sessions: [{{scheme: sim, sender: 0, receivers: [2]}}]
traffic: [{{kind: tcp, from: 0, to: 1, count: {flows}, {tcp}}}]
duration: {duration}s
"""


@dataclass(frozen=True)
class Flow:
    packet_rate: float  # packets/s that were sent
    window: float  # packets, mean
    rtt: float  # s, mean
    p: float  # loss events (fast retransmits and time-outs) per packet that was sent
    timeouts: float  # of the loss events


def flows(folder: Path, seconds: tuple[int, int], **setup: object) -> list[Flow]:
    """Of a run between two times of it."""
    experiment = folder / "tcp.yaml"
    experiment.write_text(ALONE.format(duration=seconds[1], **setup))
    command = [ROOT / "tiercast", "run", experiment, "--runtime", "ns3", "--results", folder / "r"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert done.returncode in (0, 1), done.stderr
    directory = (folder / "r/latest").resolve()
    assert json.loads((directory / "summary.json").read_text())["verdict"] == "reported"
    rows = pl.read_parquet(directory / "rows/tcp.sender.parquet").sort("time_s")
    rows = rows.filter(pl.col("time_s").is_between(*seconds))
    return [_flow(mine) for _, mine in sorted(rows.group_by("agent"))]


def _flow(rows: pl.DataFrame) -> Flow:
    def counted(name: str) -> float:
        return float(rows[name][-1] - rows[name][0])

    cuts = counted("fast_retransmits") + counted("timeouts")
    return Flow(
        packet_rate=counted("sent_packets") / (rows["time_s"][-1] - rows["time_s"][0]),
        window=float(rows["cwnd_mean"].mean()),
        rtt=float(rows["rtt_mean_us"].mean()) / 1e6,
        p=cuts / counted("sent_packets"),
        timeouts=counted("timeouts") / max(cuts, 1),
    )


# M. Mathis, J. Semke, J. Mahdavi, T. Ott, "The Macroscopic Behavior of the TCP Congestion Avoidance
# Algorithm", CCR 27 (3), 1997, section 2: a window between W/2 and W sends 3/8 W^2 packets for a
# loss, b times as many if an acknowledgement is for b of them; so its mean, 3/4 W, is
# sqrt(3 / (2 b p)).
@pytest.mark.parametrize("queue", [5, 15, 40])
@pytest.mark.parametrize(
    ("tcp", "b"),
    [
        ("stack: kernel", 2),
        ("stack: kernel, delayed_acks: false", 1),
        ("stack: ns2, window: 1000p", 1),
        ("stack: ns2, window: 1000p, sack: true", 1),
    ],
)
def test_a_lone_flows_window_is_the_periodic_models(
    tmp_path: Path, tcp: str, b: int, queue: int
) -> None:
    """Behind drop tail a flow alone loses periodically: the model's assumption. The link's rate and
    the queue make losses of 1 in 200 to 1 in 3000 packets."""
    [flow] = flows(
        tmp_path,
        (100, 700),
        rate="1600kbit/s",
        queue=queue,
        marking="{kind: none}",
        flows=1,
        tcp=tcp,
    )
    assert flow.timeouts == 0
    # Of 10 to 50 packets a window steps by one, and one or two rounds pass between a loss and the
    # cut: 10 %.
    assert flow.window == pytest.approx(math.sqrt(1.5 / (b * flow.p)), rel=0.1), flow
    # Little's law, with the queue in both: the window is what is on the way.
    assert flow.packet_rate * flow.rtt == pytest.approx(flow.window, rel=0.05), flow


def padhye(p: float, rtt: float, timeout: float, b: int) -> float:
    """Packets/s: J. Padhye, V. Firoiu, D. Towsley, J. Kurose, "Modeling TCP Throughput: A Simple
    Model and its Empirical Validation", SIGCOMM 1998, equation (30) without a window limit."""
    duplicates = rtt * math.sqrt(2 * b * p / 3)
    return 1 / (duplicates + timeout * min(1, 3 * math.sqrt(3 * b * p / 8)) * p * (1 + 32 * p**2))


@pytest.mark.parametrize("count", [4, 10, 20])
@pytest.mark.parametrize(
    ("tcp", "b"),
    [("stack: kernel", 2), ("stack: ns2, window: 1000p", 1), ("stack: ns2, sack: true", 1)],
)
def test_flows_rates_behind_random_losses_are_padhyes(
    tmp_path: Path, tcp: str, b: int, count: int
) -> None:
    """RED drops at random: loss events of 0.5 to 5 % as the number of flows grows. The model's own
    authors find measured rates within a quarter of it on most of their paths."""
    mine = flows(
        tmp_path,
        (50, 450),
        rate="4Mbit/s",
        queue=60,
        marking="{kind: red, min_th: 5, max_th: 40}",
        flows=count,
        tcp=tcp,
    )
    ratios = [
        flow.packet_rate / padhye(flow.p, flow.rtt, max(4 * flow.rtt, 0.2), b) for flow in mine
    ]
    assert sum(ratios) / count == pytest.approx(1, abs=0.25), (ratios, mine[0])
