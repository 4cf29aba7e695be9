"""TCP in virtual time against published formulas, which know nothing of this program: what a loss
rate makes of a window, and of a rate, for a kernel's stack and for ns-2's of the papers."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from ..checkout import ROOT

pytestmark = pytest.mark.slow


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


AT_RANDOM = {"rate": "4Mbit/s", "queue": 60, "marking": "{kind: red, min_th: 5, max_th: 40}"}


@dataclass(frozen=True)
class Flow:
    packet_rate: float  # packets/s that were sent
    window: float  # packets, mean
    rtt: float  # s, mean
    p: float  # loss events (fast retransmits and time-outs) per packet that was sent
    timeouts: float  # of the loss events


def flows(folder: Path, seconds: tuple[int, int], **setup: object) -> list[Flow]:
    """Of a run between two times of it."""
    rows = run(folder, ALONE.format(duration=seconds[1], **setup))
    rows = rows.filter(pl.col("time_s").is_between(*seconds))
    return [_flow(mine) for _, mine in sorted(rows.group_by("agent"))]


def run(folder: Path, text: str) -> pl.DataFrame:
    """The sending ends' rows, by time."""
    experiment = folder / "tcp.yaml"
    experiment.write_text(text)
    command = [ROOT / "tiercast", "run", experiment, "--runtime", "ns3", "--results", folder / "r"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert done.returncode in (0, 1), done.stderr
    directory = (folder / "r/latest").resolve()
    assert json.loads((directory / "summary.json").read_text())["verdict"] == "reported"
    return pl.read_parquet(directory / "rows/tcp.sender.parquet").sort("time_s")


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


KERNEL = "stack: kernel"
RENO = "stack: ns2, window: 1000p"
SACK = "stack: ns2, sack: true, window: 1000p"


def periodic(p: float) -> float:
    """Packets: the mean window of a flow that loses a packet in every 1/p. M. Mathis, J. Semke, J.
    Mahdavi, T. Ott, "The Macroscopic Behavior of the TCP Congestion Avoidance Algorithm", CCR 27
    (3), 1997, section 2: a window that goes from W/2 to W, a packet in a round trip, sends 3/8 W^2
    packets meanwhile, and 3/4 W is its mean. Both stacks grow by what is acknowledged, however many
    acknowledgements say so."""
    return math.sqrt(3 / (2 * p))


def independent(p: float) -> float:
    """Packets: the mean window where each packet is lost with probability p. T. Ott, J. Kemperman,
    M. Mathis, "The stationary behavior of ideal TCP congestion avoidance", 1996; it is equation (1)
    of the RLA paper."""
    return math.sqrt(2 * (1 - p) / p)


@pytest.mark.parametrize("queue", [5, 40])
@pytest.mark.parametrize("tcp", [KERNEL, RENO, SACK])
def test_a_lone_flows_window_is_the_periodic_models(tmp_path: Path, tcp: str, queue: int) -> None:
    """Behind drop tail a flow alone loses periodically: one packet in 300 and in 1500."""
    setup = {"rate": "1600kbit/s", "marking": "{kind: none}"}
    [flow] = flows(tmp_path, (50, 450), queue=queue, flows=1, tcp=tcp, **setup)
    assert flow.timeouts == 0
    # A window of 20 to 50 packets steps by one, and is cut a round trip after the loss.
    assert flow.window == pytest.approx(periodic(flow.p), rel=0.1), flow
    # Little's law: the window is on the way, but for what recovery holds back.
    assert flow.packet_rate * flow.rtt == pytest.approx(flow.window, rel=0.1), flow


@pytest.mark.parametrize("count", [4, 8])
@pytest.mark.parametrize("tcp", [KERNEL, SACK])
def test_windows_behind_red_are_between_the_models(tmp_path: Path, tcp: str, count: int) -> None:
    """RED's losses are at random, but for a distance between them: neither periodic nor
    independent. One event in 140 and in 50 packets."""
    mine = flows(tmp_path, (50, 300), flows=count, tcp=tcp, **AT_RANDOM)
    p, window = (statistics.mean(getattr(flow, one) for flow in mine) for one in ("p", "window"))
    assert 0.9 * periodic(p) < window < 1.1 * independent(p), (p, window)


def padhye(p: float, rtt: float, timeout: float) -> float:
    """Packets/s: J. Padhye, V. Firoiu, D. Towsley, J. Kurose, "Modeling TCP Throughput: A Simple
    Model and its Empirical Validation", SIGCOMM 1998, equation (30) with b = 1 and no window limit:
    of a Reno without SACK."""
    repairs = rtt * math.sqrt(2 * p / 3)
    return 1 / (repairs + timeout * min(1, 3 * math.sqrt(3 * p / 8)) * p * (1 + 32 * p**2))


@pytest.mark.parametrize("count", [4, 10, 20])
def test_renos_rate_is_padhyes(tmp_path: Path, count: int) -> None:
    """Events in 1 to 6 % of the packets, and up to a third of them time-outs."""
    mine = flows(tmp_path, (50, 300), flows=count, tcp=RENO, **AT_RANDOM)
    # Round trips of 120 to 170 ms are one or two ticks of 100 ms: a time-out takes three.
    ratios = [flow.packet_rate / padhye(flow.p, flow.rtt, 0.3) for flow in mine]
    # The model takes the rest of a round as lost with the first packet. RED does not do that, so
    # the rates are the model's or somewhat above.
    assert 0.9 < statistics.mean(ratios) < 1.25, (ratios, mine[0])


OUTAGE = (
    ALONE + "events: [{{at: {down}s, link: 0-1, up: false}}, {{at: {up}s, link: 0-1, up: true}}]"
)


@pytest.mark.parametrize(("stack", "first_data_s"), [("linux", 5), ("ns2", 7)])
def test_a_syn_is_repeated_after_the_stacks_time(
    tmp_path: Path, stack: str, first_data_s: float
) -> None:
    """TCP_TIMEOUT_INIT is a second; ns-3 waits three."""
    rows = run(
        tmp_path,
        OUTAGE.format(
            **{"rate": "1600kbit/s", "marking": "{kind: none}", "queue": 20, "flows": 1},
            **{"duration": 10, "down": 3, "up": 4.5, "tcp": f"stack: {stack}, start: 4s"},
        ),
    )
    sending = rows.filter(pl.col("sent_packets") > 0)["time_s"][0]
    assert first_data_s < sending <= first_data_s + 1


@pytest.mark.parametrize("stack", ["linux", "ns2"])
def test_a_connection_survives_forty_seconds_without_a_link(tmp_path: Path, stack: str) -> None:
    """Linux gives up after tcp_retries2 = 15 time-outs, and ns-2 never does. The next packet comes
    with a time-out that has doubled meanwhile."""
    rows = run(
        tmp_path,
        OUTAGE.format(
            **{"rate": "1600kbit/s", "marking": "{kind: none}", "queue": 20, "flows": 1},
            **{"duration": 120, "down": 4, "up": 44, "tcp": f"stack: {stack}"},
        ),
    )
    without = rows.filter(pl.col("time_s").is_between(10, 44))
    assert (without["cwnd"] == 1).all()
    after = rows.filter(pl.col("cwnd") > 1, pl.col("time_s") > 44)["time_s"][0]
    assert 45 < after < 110
    # Half of what was on the way when the link failed: a connection of its own would have no limit.
    assert 2 <= rows["ssthresh"][-1] < 100


def test_the_last_row_is_of_a_flow_that_still_runs(tmp_path: Path) -> None:
    setup = {"rate": "1600kbit/s", "marking": "{kind: none}", "queue": 20, "flows": 1}
    rows = run(tmp_path, ALONE.format(duration=10, tcp="stack: linux", **setup))
    assert rows["cwnd"][-1] > 0
    assert rows["rtt_us"][-1] > 100_000
