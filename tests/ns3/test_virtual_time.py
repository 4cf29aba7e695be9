"""Experiments over ns-3: the figures of runs in Mininet, identical rows in a second run, TCP's
behaviour, errors."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import polars as pl
import pytest
from tiercast.v1.simulation_pb2 import Scenario
from tiercast_lab.base import binaries
from tiercast_lab.experiment.loading import load_experiment
from tiercast_lab.experiment.schemes import known_schemes
from tiercast_lab.run.ns3.scenario import delimited, scenario

from ..checkout import ROOT
from ..patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow


def run(results: Path, *arguments: str) -> tuple[int, Path]:
    command = [ROOT / "tiercast", "run", *arguments, "--runtime", "ns3", "--results", results]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, (results / "latest").resolve()


def rows(run_directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (run_directory / "rows").iterdir()}


def test_sims_session_meets_the_papers_figures(tmp_path: Path) -> None:
    status, directory = run(tmp_path, "sim-session")
    summary = json.loads((directory / "summary.json").read_text())
    assert (status, summary["verdict"]) == (0, "met"), summary["reasons"]
    assert summary["runtime"] == "ns3"
    assert (directory / "report.html").stat().st_size > 50_000


def test_receivers_without_rows_change_nothing(tmp_path: Path) -> None:
    everybody = run(tmp_path / "1", "sim-session", "--duration=10s")[1]
    some = run(tmp_path / "2", "sim-session", "--duration=10s", "--set=record_receivers=4")[1]
    names = ["h15", "h19", "h23", "h27"]
    kinds = ("received", "subscription", "join")
    for kind in kinds:
        full, sampled = (pl.read_parquet(r / f"rows/{kind}.parquet") for r in (everybody, some))
        assert sampled.equals(full.filter(pl.col("agent").is_in(names))), kind


# RLM's and MLDA's receivers draw random times.
@pytest.mark.parametrize("experiment", ["sim-session", "basic-rlm", "basic-mlda"])
def test_a_run_is_a_function_of_its_yaml_and_seed(tmp_path: Path, experiment: str) -> None:
    first = rows(run(tmp_path / "1", experiment, "--duration=20s")[1])
    again = rows(run(tmp_path / "2", experiment, "--duration=20s")[1])
    other = rows(run(tmp_path / "3", experiment, "--duration=20s", "--seed=2")[1])
    assert first == again
    assert first["received.parquet"] != other["received.parquet"]


def tcp_beside_a_trickle(
    folder: Path, traffic: str, marking: str = "none", duration: int = 40, window: str = "last: 30s"
) -> Path:
    """TCP flows on a link of 2 Mbit/s from 0 to 1, beside SIM, which is held to 100 kbit/s."""
    experiment = folder / "tcp.yaml"
    experiment.write_text(f"""\
name: tcp
title: TCP flows
topology: {{include: shared-bottleneck}}
marking: {{kind: {marking}}}
sessions:
  - scheme: sim
    sender: 0
    parameters: {{sim.max_rate: 100kbit/s, sim.initial_rate: 100kbit/s}}
traffic:
{traffic}
duration: {duration}s
measure: {{{window}}}
""")
    return run(folder / "r", str(experiment))[1]


def mbit(run_directory: Path, flow: str, start: float, end: float) -> float:
    tcp = pl.read_parquet(run_directory / "rows/tcp.parquet").sort("time_s")
    mine = tcp.filter((pl.col("agent") == flow) & pl.col("time_s").is_between(start, end))
    return 8e-6 * (mine["bytes"][-1] - mine["bytes"][0]) / (mine["time_s"][-1] - mine["time_s"][0])


@pytest.mark.parametrize("congestion_control", ["reno", "cubic"])
def test_tcp_fills_a_bottleneck_and_its_flows_share_it(
    tmp_path: Path, congestion_control: str
) -> None:
    """Two flows of ns-3's TCP over the engine's queue."""
    flows = f"{{kind: tcp, from: 0, to: 1, count: 2, congestion_control: {congestion_control}}}"
    directory = tcp_beside_a_trickle(tmp_path, f"  - {flows}", duration=120)
    rates = [mbit(directory, flow, 20, 120) for flow in ("tcp1", "tcp2")]
    # 2 Mbit/s less SIM's layer; retransmissions count as TCP's own loss.
    assert 1.7 < sum(rates) < 1.92, rates
    # Drop tail is not fair queueing, but neither flow may starve.
    assert min(rates) > 0.25 * max(rates), rates


def test_a_flow_that_stops_sends_nothing_more(tmp_path: Path) -> None:
    directory = tcp_beside_a_trickle(
        tmp_path,
        "  - {kind: tcp, from: 0, to: 1, stop: 20s}\n  - {kind: tcp, from: 0, to: 1, start: 21s}",
    )
    assert mbit(directory, "tcp1", 0, 20) > 1.6
    assert mbit(directory, "tcp1", 21, 40) == 0  # a queue and a round trip later
    assert mbit(directory, "tcp2", 30, 40) > 1.7


def test_each_flow_has_packets_of_its_size(tmp_path: Path) -> None:
    directory = tcp_beside_a_trickle(
        tmp_path,
        "  - {kind: tcp, from: 0, to: 1, stop: 19s, packet_size: 600B}\n"
        "  - {kind: tcp, from: 0, to: 1, start: 20s, packet_size: 1400B}",
    )
    port = pl.read_parquet(directory / "rows/port.parquet").filter(pl.col("link") == "0>1")
    for start, end, size in ((5, 18, 600), (25, 40, 1400)):
        part = port.filter(pl.col("time_s").is_between(start, end)).sort("time_s")
        sent = {name: part[name][-1] - part[name][0] for name in ("tx_bytes", "tx_packets")}
        # SIM's packets have 1000 B.
        assert sent["tx_bytes"] / sent["tx_packets"] == pytest.approx(size, rel=0.06)


def test_flows_with_ecn_are_marked_where_others_lose_packets(tmp_path: Path) -> None:
    measured = {}
    for ecn in ("true", "false"):
        (folder := tmp_path / ecn).mkdir()
        flows = f"  - {{kind: tcp, from: 0, to: 1, ecn: {ecn}}}"
        directory = tcp_beside_a_trickle(folder, flows, "red, ecn: true")
        summary = json.loads((directory / "summary.json").read_text())
        measured[ecn] = {name: one["value"] for name, one in summary["measures"].items()}
        ports = pl.read_parquet(directory / "rows/port.parquet").filter(pl.col("link") == "0>1")
        measured[ecn]["drops"] = (
            ports["queue_drops"][-1] - ports.filter(pl.col("time_s") >= 10)["queue_drops"][0]
        )
    assert measured["true"]["tcp_retransmitted"] == measured["true"]["drops"] == 0
    assert measured["false"]["tcp_retransmitted"] > 0.001
    for one in measured.values():
        assert one["tcp_throughput"] > 1.6e6
    # Marks limit the queue as drops do: it stays far below the link's 50 packets.
    assert measured["true"]["mean_queue"] < 15


def test_a_session_that_ignores_marks_loses_packets_where_tcp_is_marked(tmp_path: Path) -> None:
    experiment = tmp_path / "rla.yaml"
    experiment.write_text("""\
name: rla
title: RLA, which knows no marks, beside TCP with ECN
topology: {include: shared-bottleneck}
marking: {kind: red, ecn: true}
sessions:
  - {scheme: rla, sender: 0}
traffic:
  - {kind: tcp, from: 0, to: 1, ecn: true}
duration: 60s
measure: {last: 50s}
""")
    _, directory = run(tmp_path / "r", str(experiment))
    summary = json.loads((directory / "summary.json").read_text())
    measured = {name: one["value"] for name, one in summary["measures"].items()}
    assert measured["marked"] == 0
    assert measured["loss"] > 0.001
    assert measured["tcp_retransmitted"] < measured["loss"]
    assert measured["session_throughput"] < 2 * measured["tcp_throughput"]


def test_the_window_may_end_before_the_run(tmp_path: Path) -> None:
    directory = tcp_beside_a_trickle(
        tmp_path, "  - {kind: tcp, from: 0, to: 1, start: 35s}", window="last: 30s, until: 30s"
    )
    summary = json.loads((directory / "summary.json").read_text())
    assert summary["window_s"] == [0, 30]
    assert summary["measures"]["tcp_throughput"]["value"] is None


def test_a_session_beside_unicast_ones(tmp_path: Path) -> None:
    """Two receivers on separate links, each beside a TCP flow and a unicast session."""
    experiment = tmp_path / "star.yaml"
    experiment.write_text("""\
name: star
title: Unicast sessions beside one to all
topology: {tree: {depth: 1}, link: {rate: 1Mbit/s, delay: 20ms, queue: 50p}}
marking: {kind: none}
sessions:
  - {scheme: ermcc, sender: 0}
  - {scheme: ermcc, sender: 0, session: 2, unicast: true}
traffic:
  - {kind: tcp, from: 0, to: receivers}
duration: 60s
measure: {last: 40s}
""")
    _, directory = run(tmp_path / "r", str(experiment))
    summary = json.loads((directory / "summary.json").read_text())
    measured = {name: one["value"] for name, one in summary["measures"].items()}
    throughputs = [measured[f"{of}_throughput"] for of in ("session", "other", "tcp")]
    assert 0.85e6 < sum(throughputs) < 1.01e6  # together they fill the links
    assert min(throughputs) > 0.15e6
    assert measured["feedbacks"] > 5
    # One of the two reports all of its losses, the other almost none.
    assert 0.2 < measured["suppression"] < 0.8
    shares = [measured[f"representative_share_h{node}"] for node in (1, 2)]
    assert sum(shares) == pytest.approx(1, abs=0.1)
    assert measured["representative_share_h1"] is not None


ON_OFF = """\
name: on-off
title: Traffic that comes and goes
topology: {include: shared-bottleneck, link: {rate: 20Mbit/s}, links: {0-1: {rate: 20Mbit/s}}}
marking: {kind: none}
sessions:
  - scheme: sim
    sender: 0
    layers: 1
    parameters: {sim.max_rate: 100kbit/s, sim.initial_rate: 100kbit/s}
traffic:
  - kind: udp
    from: 0
    to: 1
    count: 20
    rate: 200kbit/s
    on: {distribution: exponential, mean: 1s}
    off: {distribution: exponential, mean: 3s}
  - kind: tcp
    from: 0
    to: 1
    count: 20
    on: {distribution: pareto, shape: 1.8, mean: 20p}
    off: {distribution: constant, mean: 1s}
  - kind: tcp
    from: 1
    to: 0
    start: 5s
    stop: 42s
    on: {distribution: constant, mean: 10s}
    off: {distribution: constant, mean: 5s}
duration: 60s
measure: {last: 50s}
"""


@pytest.fixture(scope="module")
def on_off(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("on-off")
    (folder / "on-off.yaml").write_text(ON_OFF)
    return run(folder / "r", str(folder / "on-off.yaml"))[1]


def received_bytes(run_directory: Path, kind: str, agents: list[str]) -> pl.DataFrame:
    """Bytes by second, for all of these flows together."""
    rows = pl.read_parquet(run_directory / f"rows/{kind}.parquet")
    mine = rows.filter(pl.col("agent").is_in(agents))
    return mine.group_by("time_s").agg(pl.col("bytes").sum()).sort("time_s")


def test_udp_that_did_not_arrive_was_dropped(tmp_path: Path) -> None:
    """1.5 Mbit/s into a link of 1 Mbit/s, with nothing else on it: a third is lost, all of it at
    that port."""
    (tmp_path / "udp.yaml").write_text("""\
name: udp
title: UDP that does not fit
topology:
  nodes: [0, 1, 2]
  link: {rate: 1Mbit/s, delay: 5ms, queue: 20p}
  links: {0-1: {}, 0-2: {}}
sessions: [{scheme: sim, sender: 0, receivers: [2]}]
traffic: [{kind: udp, from: 0, to: 1, rate: 1500kbit/s, start: 5s}]
duration: 30s
measure: {last: 20s}
""")
    directory = run(tmp_path / "r", str(tmp_path / "udp.yaml"))[1]
    udp, port = (pl.read_parquet(directory / f"rows/{kind}.parquet") for kind in ("udp", "port"))
    (link,) = port.filter((pl.col("link") == "0>1") & (pl.col("time_s") == 30)).to_dicts()
    (flow,) = udp.filter(pl.col("time_s") == 30).to_dicts()
    assert flow["bytes"] == 1000 * flow["packets"]
    assert flow["sent_bytes"] == 1000 * flow["sent_packets"]
    under_way = flow["sent_packets"] - flow["packets"] - link["queue_drops"]
    # On the link and on the wire.
    assert link["queue_packets"] <= under_way <= link["queue_packets"] + 2
    measures = json.loads((directory / "summary.json").read_text())["measures"]
    for name, value in (("udp_sent", 1.5e6), ("udp_throughput", 1e6), ("udp_loss", 1 / 3)):
        assert measures[name]["value"] == pytest.approx(value, rel=0.01), name  # whole packets


def test_receivers_of_every_session_that_left_count_no_more(tmp_path: Path) -> None:
    """In each session one receiver leaves and comes back, and the other is its only subscriber."""
    (tmp_path / "members.yaml").write_text("""\
name: members
title: Members of two sessions
topology: {tree: {depth: 1, fanout: 2}, link: {rate: 4Mbit/s, delay: 5ms, queue: 50p}}
sessions:
  - {scheme: sim, sender: 0}
  - {scheme: ermcc, sender: 0, session: 2, start: 2s}
members:
  - {at: 10s, every: 15s, receivers: [1]}
  - {at: 11s, every: 14s, receivers: [2], session: 2}
duration: 30s
measure: {last: 8s, until: 20s}
""")
    directory = run(tmp_path / "r", str(tmp_path / "members.yaml"))[1]
    levels = pl.read_parquet(directory / "rows/subscription.parquet")
    for agent, left, back in (("h1", 10.0, 25.0), ("h2.s2", 11.0, 25.0)):
        changes = levels.filter(pl.col("agent") == agent)["time_s", "top"].rows()[1:]
        assert changes[:2] == [(left, -1), (back, 0)]
    measures = json.loads((directory / "summary.json").read_text())["measures"]
    got = {name: measure["value"] for name, measure in measures.items()}
    assert got["session_throughput"] == got["receiver_rate_h2"] > 1e5
    assert got["session_throughput_s2"] == got["receiver_rate_h1.s2"] > 1e5
    assert got["receiver_rate_h1"] is None and got["receiver_rate_h2.s2"] is None


def test_udp_flows_are_on_for_their_share_of_the_time(on_off: Path) -> None:
    flows = received_bytes(on_off, "udp", [f"udp{n}" for n in range(1, 21)])
    # 1 s of 4 at 200 kbit/s each. The standard deviation of the mean is about 8 %.
    assert flows["bytes"][-1] * 8 / 60 == pytest.approx(20 * 50e3, rel=0.25)
    single = received_bytes(on_off, "udp", ["udp1"])["bytes"].diff().drop_nulls() * 8
    assert single.max() <= 200e3 + 8000  # one packet more or less in a second
    assert single.min() == 0


def test_tcp_transfers_have_their_mean_size(on_off: Path) -> None:
    flows = received_bytes(on_off, "tcp", [f"tcp{n}" for n in range(1, 21)])
    # 20 packets of 1000 B, followed by a second of silence. The round trip is 40 ms, and 20 packets
    # take two or three of them. Pareto with 1.8 has no variance, hence the wide bounds.
    transfers = flows["bytes"][-1] / 20e3
    assert 0.6 < transfers / (20 * 60 / 1.1) < 1.5


def test_a_period_ends_with_what_is_on_its_way(on_off: Path) -> None:
    """On from 5, 20 and 35 s for 10 s each, the last period until 42 s. Each is a new
    connection."""
    flow = received_bytes(on_off, "tcp", ["tcp21"])
    by_second = dict(zip(flow["time_s"].round(3), flow["bytes"].diff(), strict=True))
    grown = {t for t, size in by_second.items() if size}
    on = {*range(6, 16), *range(21, 31), *range(36, 43)}
    # The rest, if any, arrives in the second after each period.
    assert on <= grown <= on | {16, 31, 43}
    sender = pl.read_parquet(on_off / "rows/tcp.sender.parquet")
    off = sender.filter((pl.col("agent") == "tcp21") & (pl.col("time_s").is_between(16, 19)))
    assert off["cwnd"].to_list() == [0] * len(off)


def test_a_link_changes_at_its_time(tmp_path: Path) -> None:
    experiment = tmp_path / "event.yaml"
    experiment.write_text("""\
name: event
title: A link that becomes slower
topology:
  nodes: [0, 1, 2]
  link: {rate: 6Mbit/s, delay: 5ms, queue: 50p}
  links: {0-1: {}, 1-2: {}}
sessions:
  - {scheme: sim, sender: 0, receivers: [2], layers: 1}
events:
  - {at: 40s, link: 0-1, rate: 1Mbit/s}
duration: 80s
measure: {last: 20s}
""")
    _, directory = run(tmp_path / "r", str(experiment))
    received = pl.read_parquet(directory / "rows/received.parquet")

    def mbit(start: float, end: float) -> float:
        part = received.filter(pl.col("time_s").is_between(start, end))
        return 8e-6 * (part["bytes"][-1] - part["bytes"][0]) / (end - start)

    assert mbit(30, 40) > 3
    assert 0.7 < mbit(60, 80) < 1.05


@pytest.mark.parametrize(
    ("begins", "then", "status", "text"),
    [
        (False, b"", 2, "scenario: no message"),
        (False, b"nonsense", 2, "scenario: no message"),
        (False, delimited(Scenario()), 2, "scenario: program; valid: the path of"),
        (True, b"", 1, "the controller is gone"),
        (True, b"\x05{}", 2, "the controller's answer: no message"),
    ],
)
def test_bad_input_is_named(begins: bool, then: bytes, status: int, text: str) -> None:
    loaded = load_experiment(binaries.find("run", "sim-smoke"), known_schemes())
    said = delimited(scenario(loaded, seed=1)) if begins else b""
    done = subprocess.run([binaries.NS3], input=said + then, capture_output=True)
    assert done.returncode == status
    assert text in done.stderr.decode()


def test_bmv2_is_no_switch_of_virtual_time(tmp_path: Path) -> None:
    done = subprocess.run(
        [ROOT / "tiercast", "run", "sim-session", "--runtime=ns3", "--switch=bmv2"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "valid: tiercast" in done.stderr


def test_an_interrupt_ends_the_run_and_its_program(tmp_path: Path) -> None:
    command = [ROOT / "tiercast", "run", "sim-session", "--runtime=ns3", "--duration=3600s",
               "--results", tmp_path]  # fmt: skip
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        for line in child.stdout:
            if "rates" in line:
                break
        simulators = children_of(child.pid)
        assert simulators
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=PATIENCE_S)
    finally:
        child.kill()
    assert child.returncode == 130
    wait_until(
        lambda: not any(Path(f"/proc/{pid}").exists() for pid in simulators), "tiercast-ns3 ends"
    )


def children_of(pid: int) -> list[int]:
    return [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]


def test_tcp_as_in_ns2(tmp_path: Path) -> None:
    """Receivers acknowledge each packet, senders wait a random time before a transmission, the way
    back has no queue, and the records have the window's cuts and means."""
    experiment = tmp_path / "ns2.yaml"
    experiment.write_text("""\
name: ns2
title: TCP as in ns-2
topology:
  tree: {depth: 2, fanout: [1, 2]}
  link: {rate: 2Mbit/s, delay: 10ms, queue: 20p}
  one_way: true
marking: {kind: none}
sessions:
  - {scheme: sim, sender: 0, receivers: [2],
     parameters: {sim.max_rate: 100kbit/s, sim.initial_rate: 100kbit/s}}
traffic:
  - {kind: tcp, from: 0, to: [3], delayed_acks: false, overhead: 4ms}
duration: 40s
measure: {last: 30s}
record_every: 5s
""")
    _, directory = run(tmp_path / "r", str(experiment))
    sent = pl.read_parquet(directory / "rows/tcp.sender.parquet")
    # Every 5 s, and at the end.
    assert sent["time_s"].to_list() == [5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0]
    settled = sent.filter(pl.col("time_s") > 10)
    # A sawtooth between half of what link (10 packets) and queue (20) hold, and all of it.
    assert 15 < settled["cwnd_mean"].mean() < 30
    assert 0.04 < settled["rtt_mean_us"].mean() / 1e6 < 0.04 + 21 * 0.004
    cuts = settled["fast_retransmits"][-1] - settled["fast_retransmits"][0]
    assert 3 < cuts < 60
    assert settled["timeouts"][-1] == settled["timeouts"][0]
    port = pl.read_parquet(directory / "rows/port.parquet").sort("time_s")
    to_receiver = port.filter(pl.col("link") == "1>3")
    sent_packets, acknowledgements = to_receiver["tx_packets"][-1], to_receiver["rx_packets"][-1]
    assert acknowledgements == pytest.approx(sent_packets, rel=0.02)
    back = port.filter(pl.col("link") == "1>0")
    assert back["tx_packets"][-1] >= acknowledgements - 20
    assert back["max_queue_packets"].max() <= 1
    assert back["queue_drops"].max() == 0


def test_a_window_with_a_limit(tmp_path: Path) -> None:
    """ns-2's window_. One flow that the limit keeps below what the link holds loses nothing. Two
    flows that overflow the queue cut to half of the limit, not to half of what they would have
    grown to."""
    experiment = tmp_path / "window.yaml"
    experiment.write_text("""\
name: window
title: A limit of TCP's window
topology:
  tree: {depth: 2, fanout: [1, 3]}
  link: {rate: 10Mbit/s, delay: 10ms, queue: 100p}
  links:
    1-3: {rate: 2Mbit/s, queue: 20p}
    1-4: {rate: 2Mbit/s, queue: 20p}
marking: {kind: none}
sessions:
  - {scheme: sim, sender: 0, receivers: [2],
     parameters: {sim.max_rate: 100kbit/s, sim.initial_rate: 100kbit/s}}
traffic:
  - {kind: tcp, from: 0, to: 3, window: 8p}
  - {kind: tcp, from: 0, to: 4, window: 20p, count: 2}
duration: 40s
measure: {last: 30s}
record_every: 1s
""")
    _, directory = run(tmp_path / "r", str(experiment))
    rows = pl.read_parquet(directory / "rows/tcp.sender.parquet").sort("time_s")
    sent = rows.filter(pl.col("time_s") < 40)  # no window exists after the flows' end
    alone, *both = sent.sort("agent", "time_s").partition_by("agent", maintain_order=True)
    assert set(alone["cwnd"]) == {8}
    assert alone["retransmitted"][-1] == 0
    # 8 packets in a round trip, which takes 40 ms plus serialisation.
    rate = (alone["sent_packets"][-1] - alone["sent_packets"][9]) / 30
    assert 8 / 0.06 < rate < 8 / 0.04
    for flow in both:
        assert flow["cwnd"].max() <= 20
        assert flow["fast_retransmits"][-1] > 0
        assert flow["ssthresh"][-1] <= 10


def test_ecn_beside_losses(tmp_path: Path) -> None:
    """Slow start fills RED's queue until everything is dropped, and marks arrive together with
    losses. A window that was cut for losses is not cut again for marks, and it grows while the
    losses are repaired."""
    experiment = tmp_path / "ecn.yaml"
    experiment.write_text("""\
name: ecn
title: TCP with ECN over 200 ms
topology:
  tree: {depth: 1, fanout: 4}
  link: {rate: 4Mbit/s, delay: 100ms, queue: 50p}
  links:
    0-2: {rate: 2Mbit/s}
    0-3: {rate: 3Mbit/s}
marking: {kind: red, ecn: true}
sessions:
  - {scheme: sim, sender: 0, receivers: [1],
     parameters: {sim.max_rate: 100kbit/s, sim.initial_rate: 100kbit/s}}
traffic:
  - {kind: tcp, from: 0, to: [2, 3, 4], ecn: true, stack: kernel}
duration: 30s
measure: {last: 20s}
record_every: 1s
""")
    _, directory = run(tmp_path / "r", str(experiment))
    rows = pl.read_parquet(directory / "rows/tcp.sender.parquet").sort("agent", "time_s")
    sent = rows.filter((pl.col("time_s") > 5) & (pl.col("time_s") < 30))
    for flow in sent.partition_by("agent"):
        assert flow["retransmitted"][0] > 50  # from slow start
        assert flow["retransmitted"][-1] == flow["retransmitted"][0]
        assert flow["cwnd_mean"].min() > 4
    received = pl.read_parquet(directory / "rows/tcp.parquet").filter(pl.col("time_s") == 30)
    for flow, link in zip(received.sort("agent")["bytes"], (2e6, 3e6, 4e6), strict=True):
        assert 0.6 * link < flow * 8 / 30 < link


# h15 leaves at 5 s; its report takes 5 ms to the switch, and the tables change 10 ms later. A layer
# of 250 kbit/s has a packet every 32 ms.
@pytest.mark.parametrize(("latency", "stops"), [("0s", 5.015), ("1s", 6.015)])
def test_a_leave_takes_effect_its_latency_later(tmp_path: Path, latency: str, stops: float) -> None:
    experiment = tmp_path / "leave.yaml"
    experiment.write_text(f"""\
topology: {{include: sim-figure-1}}
sessions:
  - {{scheme: rlm, sender: 0, receivers: [15, 16], parameters: {{rlm.base_rate: 250kbit/s}}}}
leave_latency: {latency}
marking: {{kind: none}}
members: [{{at: 5s, receivers: [15]}}, {{at: 7s, every: 400ms, receivers: [16]}}]
duration: 10s
""")
    ports = pl.read_parquet(run(tmp_path / "r", str(experiment))[1] / "rows/port.session.parquet")

    def served(link: str, start: float, end: float) -> int:
        """Packets from one row, at a whole second, until another."""
        mine = ports.filter(pl.col("link") == link).sort("time_s")
        until = [mine.filter(pl.col("time_s") <= at)["left"][-1] for at in (start, end)]
        return until[1] - until[0]

    gap = 0.032
    assert served("7>15", 3, 10) == pytest.approx((stops - 3) / gap, abs=1.5)
    # Away for 0.4 s at a time: with a latency of a second the tree is never pruned.
    if latency == "1s":
        assert served("7>16", 7, 9) == pytest.approx(2 / gap, abs=1.5)
    else:
        assert served("7>16", 7, 9) < 0.75 * 2 / gap
