"""The program for TCP flows on the loopback, and flows between hosts' kernels in a real run."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple, TextIO

import polars as pl
import pytest
from tiercast_lab.base.errors import InputError
from tiercast_lab.base.lengths import Length
from tiercast_lab.run.mininet.flows import tcp
from tiercast_lab.run.mininet.flows.end import REPORT_S, Options, phase_s
from tiercast_lab.run.mininet.traffic import PROGRAM, require_one_stack
from tiercast_lab.run.mininet.user_commands import require_programs

from ..checkout import ROOT
from ..free_port import free_port
from ..namespaces import Namespaces
from ..patience import PATIENCE_S, wait_until
from .conftest import SMALL, Load, skip_if_invalid
from .test_run import Started

ADDRESSES = {"receive": "127.0.0.2", "send": "127.0.0.1"}


def start(folder: Path, server: socket.socket, ends: list[Options], role: str) -> Program:
    """Starts the program of these ends; it is ready."""
    file = folder / f"{role}.json"
    file.write_text(json.dumps([end.write() for end in ends]))
    lab = server.getsockname()
    program = subprocess.Popen(
        [sys.executable, "-I", "-S", PROGRAM, f"flows-{role}", lab, file], stderr=subprocess.PIPE
    )
    connection, _ = server.accept()
    lines = connection.makefile("rw")
    assert lines.readline() == '"ready"\n'
    return Program(program, connection, lines)


class Program(NamedTuple):
    process: subprocess.Popen
    connection: socket.socket
    lines: TextIO

    def begin(self, start_ns: int) -> None:
        self.lines.write(f"{start_ns}\n")
        self.lines.flush()

    def end(self) -> list[dict]:
        """Its rows, once it has ended well."""
        self.connection.shutdown(socket.SHUT_WR)
        rows = [row for line in self.lines for row in json.loads(line)]
        assert self.process.wait(PATIENCE_S) == 0, self.process.stderr.read()
        return rows


def listening(path: Path) -> socket.socket:
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()
    server.settimeout(PATIENCE_S)
    return server


class Lab:
    """The lab's end of the Unix socket, for both ends of two flows on the loopback."""

    def __init__(self, folder: Path, start_s: float, stop_s: float) -> None:
        self.server = listening(folder / "lab.sock")
        self.ports = [free_port(), free_port()]
        flows = [(f"tcp{number}", port) for number, port in enumerate(self.ports, 1)]
        self.programs = {}
        for role, address in ADDRESSES.items():
            end = Options(
                kind="tcp", role=role, flows=flows, address=address, peer=ADDRESSES["receive"],
                start=start_s, stop=stop_s,
            )  # fmt: skip
            self.programs[role] = start(folder, self.server, [end], role)
        self.start_ns = time.monotonic_ns()
        for program in self.programs.values():
            program.begin(self.start_ns)

    def flows(self) -> str:
        """The kernel's data on the senders' connections, one line each."""
        ports = " or ".join(f"dport = :{port}" for port in self.ports)
        command = ["ss", "-tinHO", "state", "established", f"dst 127.0.0.2 and ( {ports} )"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def wait_for_flows(self, count: int) -> None:
        wait_until(lambda: len(self.flows().splitlines()) == count, f"{count} flows")

    def end(self) -> dict[str, list[dict]]:
        """The rows of both programs, which must have ended well."""
        return {role: program.end() for role, program in self.programs.items()}

    def close(self) -> None:
        for program in self.programs.values():
            program.process.kill()
            program.process.wait()
        self.server.close()


START_S, STOP_S = 0.2, 3.0


def run_flows(
    folder: Path,
    kind: str,
    seconds: float,
    look: Callable[[int], None] = lambda port: None,
    receiver: str = ADDRESSES["receive"],
    **options: object,
) -> dict[str, list[dict]]:
    """The rows of both ends of one flow, "f", on the loopback: from the start until it stops after
    `seconds`, and a report more. `look` is called with its port a second before it stops. The
    receiving end has the address `receiver`."""
    port = free_port()
    programs = {}
    with listening(folder / "lab.sock") as server:
        try:
            for role, address in (ADDRESSES | {"receive": receiver}).items():
                end = Options(
                    kind=kind, role=role, flows=[("f", port)], address=address,
                    peer=ADDRESSES["receive"], stop=seconds, **options,
                )  # fmt: skip
                programs[role] = start(folder, server, [end], role)
            for program in programs.values():
                program.begin(time.monotonic_ns())
            time.sleep(seconds - 1)
            look(port)
            time.sleep(1.5)
            return {
                role: [row for row in program.end() if row["agent"] == "f"]
                for role, program in programs.items()
            }
        finally:
            for program in programs.values():
                program.process.kill()


def test_ends_do_not_report_all_at_once() -> None:
    """Two hundred of them, in tenths of the interval: about twenty in each."""
    names = [f"tcp{number}-{role}" for number in range(1, 101) for role in ("send", "receive")]
    phases = [phase_s(name) for name in names]
    assert all(0 <= phase < REPORT_S for phase in phases)
    tenths = Counter(int(10 * phase / REPORT_S) for phase in phases)
    assert all(5 <= tenths[tenth] <= 45 for tenth in range(10))


def test_udp_has_its_rate_and_one_port_at_both_ends(tmp_path: Path) -> None:
    def look(port: int) -> None:
        shown = subprocess.run(["ss", "-uanHO"], capture_output=True, text=True, check=True).stdout
        assert f" 127.0.0.1:{port} " in shown and f" 127.0.0.2:{port} " in shown

    rows = run_flows(tmp_path, "udp", seconds=2, look=look, rate=800_000, packet_size=1000)
    sent, arrived = rows["send"][-1], rows["receive"][-1]
    # 100 packets a second from 0 on, whatever the machine's load: overdue ones are sent together.
    assert (sent["sent_packets"], sent["sent_bytes"]) == (200, 200_000)
    assert (arrived["packets"], arrived["bytes"]) == (200, 200_000)


def test_one_program_has_the_ends_of_many_hosts(tmp_path: Path) -> None:
    """The same ports in two namespaces, and more sockets than `select` takes: each flow's only
    packet arrives."""
    count = 600
    namespaces = Namespaces("a", "b")
    programs = {}
    try:
        with listening(tmp_path / "lab.sock") as server:
            for role, address in ADDRESSES.items():
                ends = [
                    Options(
                        kind="udp", role=role, address=address, peer=ADDRESSES["receive"],
                        namespace=f"/run/netns/{namespaces[host]}", rate=8000, stop=1,
                        flows=[(f"{host}{number}", 20_000 + number) for number in range(count)],
                    )
                    for host in ("a", "b")
                ]  # fmt: skip
                programs[role] = start(tmp_path, server, ends, role)
            for program in programs.values():
                program.begin(time.monotonic_ns())
            time.sleep(1.5)
            rows = [row for row in programs["receive"].end() if row["kind"] == "udp"]
            arrived = {row["agent"]: row["packets"] for row in rows}
            assert arrived == {f"{host}{number}": 1 for host in "ab" for number in range(count)}
    finally:
        for program in programs.values():
            program.process.kill()
        namespaces.close()


def test_a_namespace_that_is_gone_is_named(tmp_path: Path) -> None:
    end = Options(
        kind="udp", role="send", flows=[("f", 20_000)], address="127.0.0.1", stop=1, rate=8000,
        namespace="/run/netns/no-such",
    )  # fmt: skip
    (tmp_path / "ends.json").write_text(json.dumps([end.write()]))
    with listening(tmp_path / "lab.sock"):
        done = subprocess.run(
            [sys.executable, PROGRAM, "flows-send", tmp_path / "lab.sock", tmp_path / "ends.json"],
            capture_output=True, text=True,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("flows: ") and "'/run/netns/no-such'" in done.stderr


def test_udp_that_is_refused_keeps_its_rate(tmp_path: Path) -> None:
    """Nobody has the port at the address, so the kernel answers each packet with ICMP."""
    rows = run_flows(tmp_path, "udp", seconds=2, receiver="127.0.0.3", rate=800_000)
    assert rows["send"][-1]["sent_packets"] == 200
    assert rows["receive"][-1]["packets"] == 0


def test_udp_in_periods_sends_in_the_share_of_its_on_time(tmp_path: Path) -> None:
    """Constant periods of 0.25 s on and off: of 3 s, packets in 1.5 s, the first at each start."""
    period = Length("constant", 0.25)
    rows = run_flows(tmp_path, "udp", seconds=3, rate=800_000, on=period, off=period)
    assert rows["send"][-1]["sent_packets"] == 6 * 25
    assert rows["receive"][-1]["packets"] == 6 * 25


def test_each_transfer_is_a_connection_and_arrives_whole(tmp_path: Path) -> None:
    rows = run_flows(
        tmp_path, "tcp", seconds=2, congestion_control="cubic",
        on=Length("constant", 20, in_packets=True), off=Length("constant", 0.1),
    )  # fmt: skip
    goodput = rows["receive"][-1]["goodput_bytes"]
    transfers = goodput / (20 * (1000 - tcp.HEADERS))
    # 0.1 s each, and the last one may have been cut by the stop.
    assert 3 <= transfers <= 20
    assert rows["receive"][-1]["bytes"] == pytest.approx(goodput * 1000 / 948)


def test_a_window_is_as_many_full_packets(tmp_path: Path) -> None:
    """What the kernel lets the sender have on the way, which `ss` shows."""

    def look(port: int) -> None:
        filtered = ["ss", "-tinHO", "state", "established", f"dst 127.0.0.2 and dport = :{port}"]
        shown = subprocess.run(filtered, capture_output=True, text=True, check=True).stdout
        [window] = re.findall(r"snd_wnd:(\d+)", shown)
        assert 20 * (1000 - tcp.HEADERS) <= int(window) < 21 * (1000 - tcp.HEADERS)

    run_flows(tmp_path, "tcp", seconds=2, look=look, window=20)


def test_a_timed_period_of_tcp_ends_with_a_reset(tmp_path: Path) -> None:
    period = Length("constant", 0.3)
    rows = run_flows(tmp_path, "tcp", seconds=2, on=period, off=period)
    counts = [row["goodput_bytes"] for row in rows["receive"]]
    assert counts == sorted(counts) and counts[-1] > 0
    reports = {row["time_ns"] // 200_000_000 for row in rows["send"]}
    # On for about half of the time: there are no rows of a sender without a connection.
    assert 2 <= len(reports) <= 8


def test_beginnings_of_recovery_and_loss_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a recovery right after another, which has another threshold."""
    open_, disorder, recovery, loss = 0, 1, tcp.RECOVERY, tcp.LOSS
    seen = [
        *((open_, 99), (disorder, 99), (recovery, 10), (recovery, 10), (open_, 10)),
        *((recovery, 7), (recovery, 5), (loss, 5), (loss, 5), (open_, 5), (loss, 5)),
    ]
    states = iter(tcp.TcpInfo(state, 0, threshold, 1, 0, 0) for state, threshold in seen)
    monkeypatch.setattr(tcp.TcpInfo, "of", lambda _: next(states))
    with socket.socket() as connection:
        flow = tcp.Outgoing("tcp1", 1, Random(1), socket=connection)
        for _ in seen:
            flow.look()
    assert (flow.fast_retransmits, flow.timeouts) == (3, 2)


@pytest.mark.parametrize(
    ("length", "mean"),
    [
        (Length("constant", 0.5), 0.5),
        (Length("exponential", 2.0), 2.0),
        (Length("pareto", 3.0, shape=2.5), 3.0),
        (Length("pareto", 20, in_packets=True, shape=2.5), 20),
    ],
)
def test_lengths_have_their_mean(length: Length, mean: float) -> None:
    """100,000 draws: six standard errors of Pareto's with shape 2.5 (its deviation is 1.34 times
    the mean less its least) are 3 % of the mean."""
    random = Random(7)
    drawn = [length.draw(random) for _ in range(100_000)]
    assert sum(drawn) / len(drawn) == pytest.approx(mean, rel=0.03)
    if length.in_packets:
        assert all(one == round(one) >= 1 for one in drawn)


@pytest.mark.alone
@pytest.mark.mininet
def test_every_kind_of_traffic_in_a_real_run(tmp_path: Path) -> None:
    """BBR, ECN, a window limit, transfers and UDP in bursts, on kernels that are told so."""
    status, out, error = Started(tmp_path, "--duration", "12s", experiment="traffic").finish()
    assert status in (0, 3), out + error
    directory = (tmp_path / "latest").resolve()
    rows = directory / "rows"
    received = pl.read_parquet(rows / "tcp.parquet").group_by("agent").agg(pl.col("bytes").max())
    assert set(received["agent"]) == {"tcp1", "tcp2", "tcp3", "tcp4"}
    assert received["bytes"].min() > 10_000
    # Marks are of the flow with ECN and of SIM's packets; session -1 is all that is no session's.
    ports = pl.read_parquet(rows / "port.session.parquet").filter(pl.col("link") == "0>1")
    others = ports.filter(pl.col("session") == -1)
    assert others["marked"].max() > 0
    udp = pl.read_parquet(rows / "udp.parquet")
    for flow in ("udp1", "udp2"):
        of_flow = udp.filter(pl.col("agent") == flow)
        sent, arrived = of_flow["sent_packets"].max(), of_flow["packets"].max()
        assert 0 < arrived <= sent
        assert of_flow["sent_bytes"].max() == 1000 * sent


def test_a_kernel_has_one_way_with_a_pair_of_hosts(load: Load) -> None:
    def check(second: str) -> None:
        flow = "{kind: tcp, from: 0, to: 3"
        text = f"traffic: [{flow}}}, {flow}, {second}}}]"
        require_one_stack(load(textwrap.dedent(SMALL) + text))

    check("congestion_control: cubic")
    with pytest.raises(InputError, match=r"traffic\.1\.ecn: it is True, but traffic\.0's is False"):
        check("ecn: true")
    with pytest.raises(InputError, match=r"traffic\.1\.sack: it is False.*from there"):
        check("sack: false")
    check("window: 20p")


@pytest.fixture
def lab(tmp_path: Path):
    lab = Lab(tmp_path, START_S, STOP_S)
    yield lab
    lab.close()


def test_flows_begin_and_stop_with_reno_and_their_packet_size(lab: Lab) -> None:
    lab.wait_for_flows(2)
    shown = lab.flows()
    assert shown.count(" reno ") == 2
    assert shown.count(f" mss:{1000 - tcp.HEADERS} ") == 2
    for port in lab.ports:  # the flow's, at both ends
        assert re.search(rf"127\.0\.0\.1:{port} +127\.0\.0\.2:{port}\b", shown)
    lab.wait_for_flows(0)  # by themselves: the lab has sent nothing
    rows = lab.end()
    programs = {role: f"flows-{role}" for role in rows}
    for role, name in programs.items():
        assert {row["agent"] for row in rows[role]} == {"tcp1", "tcp2", name}
        mine = [row for row in rows[role] if row["agent"] == name]
        assert {row["kind"] for row in mine} == {"pause"}
        assert all(row["longest_us"] > 0 for row in mine)
    for flow in ("tcp1", "tcp2"):
        received = [row for row in rows["receive"] if row["agent"] == flow]
        sent = [row for row in rows["send"] if row["agent"] == flow]
        assert {row["kind"] for row in received} == {"tcp"}
        assert {row["kind"] for row in sent} == {"tcp.sender"}
        counts = [row["goodput_bytes"] for row in received]
        assert counts == sorted(counts) and counts[-1] > 100_000
        assert received[-1]["bytes"] == pytest.approx(counts[-1] * 1000 / 948)
        # On a busy machine they may be late, but they are never early.
        times = [(row["time_ns"] - lab.start_ns) / 1e9 for row in (*received, *sent)]
        assert min(times) >= START_S and max(times) >= STOP_S
        assert all(row["cwnd"] >= 1 and row["rtt_us"] > 0 for row in sent)


def test_both_ends_say_for_how_long_they_did_not_run(lab: Lab) -> None:
    """They are stopped before the flows begin; the ends report the pause at the latest when the lab
    ends them."""
    for program in lab.programs.values():
        program.process.send_signal(signal.SIGSTOP)
    time.sleep(0.3)
    for program in lab.programs.values():
        program.process.send_signal(signal.SIGCONT)
    lab.wait_for_flows(2)
    lab.wait_for_flows(0)
    for role, rows in lab.end().items():
        pauses = [row for row in rows if row["kind"] == "pause"]
        assert {row["agent"] for row in pauses} == {f"flows-{role}"}
        assert max(row["longest_us"] for row in pauses) >= 300_000


@pytest.mark.parametrize("how", ["SIGTERM", "the lab dies"])
def test_programs_end_when_told(lab: Lab, how: str) -> None:
    if how == "SIGTERM":
        for program in lab.programs.values():
            program.process.send_signal(signal.SIGTERM)
    else:
        for program in lab.programs.values():
            program.connection.shutdown(socket.SHUT_RDWR)
    for program in lab.programs.values():
        assert program.process.wait(PATIENCE_S) == 0, program.process.stderr.read()


def test_a_flow_that_breaks_is_named(lab: Lab) -> None:
    lab.wait_for_flows(2)
    lab.programs["receive"].process.kill()
    sender = lab.programs["send"].process
    assert sender.wait(PATIENCE_S) == 1
    said = sender.stderr.read().decode()
    assert any(f"to 127.0.0.2:{port}" in said for port in lab.ports)


@pytest.mark.alone
@pytest.mark.mininet
def test_a_session_and_a_flow_share_a_link(tmp_path: Path) -> None:
    options = ("--duration", "20s", "--set", "measure.last=12s")
    started = Started(tmp_path, *options, experiment="basic-sim")
    status, out, error = started.finish()
    started.assert_nothing_is_left()
    assert status in (0, 1, 3), out + error
    assert "beside TCP" in out
    directory = (tmp_path / "latest").resolve()
    summary = json.loads((directory / "summary.json").read_text())
    measures = {name: measure["value"] for name, measure in summary["measures"].items()}
    assert measures["tcp_worst"] == measures["tcp_best"] == measures["tcp_throughput"]
    figure = {f["name"]: f for f in summary["expected"]}["tcp_ratio"]
    ratio = measures["session_throughput"] / measures["tcp_throughput"]
    assert figure["measured"] == pytest.approx(ratio, rel=0.01)
    # No packet exceeds the MTU: the queue holds 50 packets of 1000 B and no more.
    port = pl.read_parquet(directory / "rows/port.parquet").filter(pl.col("link") == "0>1")
    assert port["tx_bytes"][-1] / port["tx_packets"][-1] <= 1000
    assert port["max_queue_bytes"].max() <= 50 * 1000
    metadata = json.loads((directory / "metadata.json").read_text())
    for host in ("t0", "t1"):
        on = set(metadata["before"][host]["offloads_on"])
        assert not on & {
            "tcp-segmentation-offload",
            "generic-segmentation-offload",
            "generic-receive-offload",
            "tx-checksumming",
        }
    # The two share what the link carries, 2 Mbit/s of IP bytes, and TCP leaves nothing unused.
    skip_if_invalid(summary)
    total = measures["tcp_throughput"] + measures["session_throughput"]
    assert total == pytest.approx(2e6, rel=0.05)


@pytest.mark.mininet
def test_an_interrupted_run_leaves_no_flow(tmp_path: Path) -> None:
    started = Started(tmp_path, experiment="basic-sim")
    while "beside TCP" not in (line := started.process.stdout.readline()):
        assert line
    started.process.send_signal(signal.SIGINT)
    status, _, error = started.finish()
    assert (status, error.strip()) == (130, "tiercast: interrupted by SIGINT")
    started.assert_nothing_is_left()


COMMANDS = """
topology:
  nodes: [0, 1, 2]
  link: {rate: 2Mbit/s, delay: 5ms, queue: 50p}
  links: {0-1: {}, 1-2: {}}
sessions: [{scheme: tfmcc, sender: 0, receivers: [2]}]
traffic:
  - {kind: command, from: 2, run: "iperf3 -s -1"}
  - {kind: command, from: 0, start: 1s, run: "iperf3 -c $t2 -C cubic -t 4 --json"}
  - {kind: command, from: 0, stop: 3s, run: "echo $interface $seed $duration_s; sleep 1003 & wait"}
duration: 8s
"""


@pytest.mark.alone
@pytest.mark.mininet
def test_commands_of_the_user_run_on_hosts(tmp_path: Path) -> None:
    """Two that end by themselves, and one that its stop ends, with what it started."""
    file = tmp_path / "commands.yaml"
    file.write_text(COMMANDS)
    status, out, error = Started(tmp_path, "--seed", "5", experiment=str(file)).finish()
    assert status in (0, 3), out + error
    directory = (tmp_path / "latest").resolve()
    said = json.loads((directory / "logs/command2.log").read_text())
    received = said["end"]["sum_received"]["bytes"]
    assert received > 100_000
    rows = pl.read_parquet(directory / "rows/command.parquet").sort("time_s")
    server = rows.filter(pl.col("agent") == "command1")
    # Its host has received that, with headers; the rows are of every second.
    assert received < server["rx_bytes"][-1] < 1.3 * received + 10_000
    assert server["status"][-1] == 0 and len(server) >= 5
    ended = rows.filter(pl.col("agent") == "command3")
    assert ended["time_s"][-1] == pytest.approx(3, abs=0.5) and ended["status"][-1] is None
    name, seed, duration = (directory / "logs/command3.log").read_text().split()
    assert (name.endswith("-t0p1"), seed, duration) == (True, "5", "8")
    assert not subprocess.run(["pgrep", "-f", "sleep 1003"], capture_output=True).stdout


@pytest.mark.mininet
def test_a_command_that_fails_ends_the_run(tmp_path: Path) -> None:
    file = tmp_path / "commands.yaml"
    run = '"echo why it failed; exit 7"'
    file.write_text(COMMANDS.replace('"iperf3 -s -1"', run).replace("duration: 8s", "duration: 6s"))
    started = Started(tmp_path, experiment=str(file))
    status, _, error = started.finish()
    assert status == 4
    assert "command1 on t2 ended with exit status 7" in error and "why it failed" in error
    started.assert_nothing_is_left()


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("{kind: command, from: 0}", "command needs 'run'"),
        ("{kind: tcp, from: 0, to: 3, run: ls}", "tcp takes no 'run'"),
        ("{kind: tcp, from: 0}", "tcp needs 'to'"),
        ("{kind: command, from: 0, run: ls, count: 2}", "command takes no 'count'; valid: from, "),
        ("{kind: command, from: 99, run: ls}", "traffic.0.from: no node 99"),
    ],
)
def test_commands_are_checked(load: Load, entry: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        load(textwrap.dedent(SMALL) + f"traffic: [{entry}]")


def test_virtual_time_has_no_commands(tmp_path: Path) -> None:
    file = tmp_path / "commands.yaml"
    file.write_text(COMMANDS)
    command = [ROOT / "tiercast", "run", file, "--runtime=ns3", "--results", tmp_path / "r"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "traffic.0.kind: a command needs a host with a kernel; valid:" in done.stderr


def test_programs_that_a_command_needs(load: Load) -> None:
    """Found in PATH, which begins with the folder of our own; a missing one is named, with what to
    install."""
    entry = "{{kind: command, from: 0, run: ls, needs: {{{}}}}}"
    text = textwrap.dedent(SMALL) + "traffic:\n  - {kind: tcp, from: 0, to: 3}\n  - "
    require_programs(load(text + entry.format("ls: coreutils")))
    with pytest.raises(InputError) as error:
        require_programs(load(text + entry.format("ls: coreutils, no-such: a package")))
    assert str(error.value).endswith(
        "experiment.yaml:17: traffic.1.needs: no program 'no-such' in PATH; install: a package"
    )
    with pytest.raises(InputError, match="udp takes no 'needs'"):
        load(text + "{kind: udp, from: 0, to: 3, rate: 1Mbit/s, needs: {ls: coreutils}}")


CUTS = """
topology:
  nodes: [0, 1, 2, 3]
  link: {rate: 2Mbit/s, delay: 10ms, queue: 10p}
  links: {0-1: {}, 1-2: {}, 2-3: {}}
marking: {kind: none}
sessions: []
traffic: [{kind: tcp, from: 0, to: 3, stop: 20s}]
events: [{at: 10s, link: 1-2, up: false}, {at: 13s, link: 1-2, up: true}]
duration: 22s
measure: {last: 20s}
"""


@pytest.mark.alone
@pytest.mark.mininet
def test_window_cuts_are_those_that_the_kernel_counts(tmp_path: Path) -> None:
    """Of the only flow of a host, so that the host's counters are the flow's."""
    file = tmp_path / "cuts.yaml"
    file.write_text(CUTS)
    started = Started(tmp_path, experiment=str(file))
    host = started.wait_for(f"mininet:{started.run}-t0")
    counters: dict[str, int] = {}
    while started.process.poll() is None:
        with contextlib.suppress(OSError, ValueError):
            names, numbers = Path(f"/proc/{host}/net/netstat").read_text().splitlines()[:2]
            counters = dict(zip(names.split()[1:], map(int, numbers.split()[1:]), strict=True))
        time.sleep(0.2)
    status, out, error = started.finish()
    assert status in (0, 3), out + error
    rows = pl.read_parquet((tmp_path / "latest").resolve() / "rows/tcp.sender.parquet")
    recoveries = counters["TCPSackRecovery"] + counters["TCPRenoRecovery"]
    assert recoveries >= 10 and rows["fast_retransmits"].max() == recoveries
    assert 1 <= rows["timeouts"].max() <= counters["TCPTimeouts"]


OUTAGE = """\
name: outage
title: A link is down for four seconds
topology:
  nodes: [0, 1, 2, 3]
  link: {{rate: 2Mbit/s, delay: 10ms, queue: 20p}}
  links: {{0-1: {{}}, 1-2: {{}}, 2-3: {{}}}}
marking: {{kind: none}}
sessions: []
traffic: [{{kind: tcp, from: 0, to: 3, stack: {stack}}}]
events: [{{at: 5s, link: 1-2, up: false}}, {{at: 9s, link: 1-2, up: true}}]
duration: 12s
measure: {{last: 10s}}
"""


@pytest.mark.alone
@pytest.mark.mininet
def test_the_stack_linux_repeats_a_lost_packet_when_linux_does(tmp_path: Path) -> None:
    """In the first two seconds of an outage Linux's time-out, 0.34 s here, ends twice, and that of
    RFC 6298 once. Linux may have sent a tail loss probe (RFC 8985) before."""

    def repeated(runtime: str, stack: str) -> int:
        folder = tmp_path / f"{runtime}-{stack}"
        folder.mkdir()
        (folder / "outage.yaml").write_text(OUTAGE.format(stack=stack))
        done = subprocess.run(
            [ROOT / "tiercast", "run", folder / "outage.yaml", f"--runtime={runtime}",
             f"--results={folder}"],
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode in (0, 3), done.stdout + done.stderr
        sent = pl.read_parquet(folder / "latest/rows/tcp.sender.parquet")
        most = [sent.filter(pl.col("time_s") < t)["retransmitted"].max() for t in (5.1, 7.1)]
        return most[1] - most[0]

    assert repeated("mininet", "kernel") in (2, 3)
    assert repeated("ns3", "linux") == 2
    assert repeated("ns3", "kernel") == 1
