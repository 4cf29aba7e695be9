"""Sessions of a running tiercast-send start, change and stop (tiercast.v1.Sender), and its figures
for Prometheus. No network: net_null."""

from __future__ import annotations

import json
import socket
import subprocess
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tiercast.v1 import session_pb2
from tiercast_controller.agents.sender import SenderControl
from tiercast_controller.base.errors import RefusedError
from tiercast_lab.base.errors import InputError, RunFailed
from tiercast_lab.cli.sessions import app
from tiercast_wire import group_address
from typer.testing import CliRunner

from ...agent.network import run, sender_arguments
from ...checkout import ROOT
from ...free_port import free_port
from ...patience import PATIENCE_S, wait_until
from .line import Line, check_rate, constant, departures

NULL = "net_null0"
SHORT = session_pb2.Keys(nonce=b"abc", group=bytes(32), feedback=bytes(32))
RATE_BPS = 40_000  # per layer: 10 packets/s of 500 bytes


def test_others_depart_without_a_gap_while_sessions_come_and_go(tmp_path: Path) -> None:
    """100 sessions of 8 layers run; one is started, one is changed, one is stopped. The counts and
    the order of departures show it, however late each packet is. Schedules are checked to the
    nanosecond in virtual time (SenderSessions.TheyStartChangeAndStopWhileOthersRun), lateness in
    `make bench-sender`."""
    record = tmp_path / "record"
    line = Line(tmp_path, [constant(1, f"{10 * RATE_BPS}bit/s", count=100, layers=8)])
    far_end = {"record": record, "count": 1_000_000}
    with line.sender(NULL, "--ramp=100ms", far_end=far_end, urgent=True) as control:

        def layers(session: int) -> list:
            states = control.list_sessions().sessions
            return next((s.layers for s in states if s.session.session == session), [])

        def sent(session: int) -> list[int]:
            return [layer.sent_packets for layer in layers(session)]

        def send_on(packets: int = 30) -> None:
            """Waits until all commands were obeyed, and an untouched session has sent `packets`
            more packets."""
            goal = sent(20)[0] + packets
            wait_until(lambda: sent(20)[0] >= goal, "packets go on leaving")

        wait_until(lambda: len(sent(100)) == 8, "all run")
        send_on()
        control.start([constant(200, f"{20 * RATE_BPS}bit/s")])
        wait_until(lambda: sum(sent(200)) > 60, "the new session sends")

        control.change(50, top_rank=2)
        wait_until(lambda: [x.rate_Bps > 0 for x in layers(50)] == [True] * 3 + [False] * 5, "50")
        send_on(3)  # packets that were ready have left
        silent = sent(50)
        send_on()
        assert sent(50)[3:] == silent[3:]
        assert all(now > then for now, then in zip(sent(50)[:3], silent[:3], strict=True))

        control.change(51, parameters={"rlm.base_rate": f"{30 * RATE_BPS}bit/s"})
        rates = [30 * RATE_BPS / 8] + [10 * RATE_BPS / 8] * 7
        wait_until(lambda: [x.rate_Bps for x in layers(51)] == pytest.approx(rates), "51's rates")
        changed_at = control.list_sessions().time_ns
        send_on()

        control.stop(52)
        before_52_ended = sent(20)[0]
        send_on()
        states = {state.session.session for state in control.list_sessions().sessions}
        assert states == {*range(1, 52), *range(53, 101), 200}
    times, groups = departures(record)
    assert line.check_counts() == len(times)

    def of(session: int, rank: int) -> np.ndarray:
        return np.flatnonzero(groups == int(group_address(session, rank)))

    # The untouched sessions send 100 packets/s from beginning to end, on an absolute schedule.
    left_out = line.left_out()
    for session in (1, 20, 49, 53, 99):
        for rank in (0, 7):
            check_rate(times[of(session, rank)], 100, left_out)
    check_rate(times[of(200, 0)], 200, left_out)
    changed = times[of(51, 0)]
    check_rate(changed[changed > changed_at], 300, left_out)
    # Session 52 stopped before another session had sent three more packets.
    assert max(of(52, rank)[-1] for rank in range(8)) < of(20, 0)[before_52_ended + 3]


def test_a_session_that_restarts_has_another_seed(tmp_path: Path) -> None:
    """A seed gives the first packet numbers: with the old ones, receivers would take a restarted
    session's packets for late ones. What follows a given seed can be repeated."""
    given, drawn = constant(1, "400kbit/s", count=2), constant(3, "400kbit/s")
    given.seed = 5
    seen = []
    for _ in range(2):
        line = Line(tmp_path, [given, drawn])
        with line.sender(NULL) as control:

            def seeds(control: SenderControl = control) -> dict[int, int]:
                listed = control.list_sessions().sessions
                return {one.session.session: one.session.seed for one in listed}

            control.start([constant(4, "400kbit/s")])
            before = seeds()
            for session in before:
                control.change(session, parameters={"rlm.base_rate": "200kbit/s"})
            once = seeds()
            control.change(1, parameters={"rlm.base_rate": "100kbit/s"})
            control.change(2, top_rank=-1)  # restarts nothing
            twice = seeds()
        assert (before[1], before[2], twice[2]) == (5, 6, once[2])
        assert all(once[session] != before[session] for session in before)
        assert twice[1] not in (once[1], before[1])
        seen.append((before, once, twice))
    for first, again in zip(*seen, strict=True):
        assert (first[1], first[2]) == (again[1], again[2])
        assert first[3] != again[3] and first[4] != again[4]


def test_the_last_figures_of_layers_come_once_their_session_has_ended(tmp_path: Path) -> None:
    """With the rates that they had, whether the session or the sender was stopped."""
    line = Line(tmp_path, [constant(1, "400kbit/s", count=3, layers=2)])

    def ended() -> list[tuple[float, float, float]]:
        rows = line.records("layer")
        return sorted((row["session"], row["rank"], row["rate_Bps"]) for row in rows)

    of_2 = [(2.0, rank, 50_000.0) for rank in (0.0, 1.0)]
    of_3 = [(3.0, 0.0, 25_000.0), (3.0, 1.0, 25_000.0)]
    with line.sender(NULL) as control:
        wait_until(lambda: len(control.list_sessions().sessions[1].layers) == 2, "it runs")
        control.stop(2)
        wait_until(lambda: ended() == of_2, "figures of 2")
        control.change(3, parameters={"rlm.base_rate": "200kbit/s", "rlm.step_rate": "200kbit/s"})
        wait_until(lambda: len(ended()) == 4, "figures of 3 as it was")
        wait_until(
            lambda: {
                layer.rate_Bps
                for one in control.list_sessions().sessions
                if one.session.session == 3
                for layer in one.layers
            } == {25_000},
            "3's new rates",
        )  # fmt: skip
    of_1 = [(1.0, rank, 50_000.0) for rank in (0.0, 1.0)]
    assert ended() == sorted([*of_1, *of_2, *of_3, *((3.0, rank, 50_000.0) for rank in (0.0, 1.0))])
    line.check_counts()


def test_requests_that_cannot_be_met_are_refused_and_change_nothing(tmp_path: Path) -> None:
    line = Line(tmp_path, [constant(1, "1Mbit/s", count=2, layers=2)])
    with line.sender(NULL) as control:
        for call, texts in (
            (lambda: control.start([constant(2, "1Mbit/s")]), ["session 2 is running already"]),
            (lambda: control.start([constant(40_000, "1Mbit/s")]), ["session", "40000", "32767"]),
            (
                lambda: control.start([session_pb2.SessionSpec(session=9, scheme="sym")]),
                ["sym", "sim"],
            ),
            (
                lambda: control.start([session_pb2.SessionSpec(session=9, packet_size=1400)]),
                ["packet_size = 1400", "1000"],
            ),
            (lambda: control.start([constant(3, "1Mbit/s", count=500)]), ["no room", "500", "300"]),
            # If the last of several cannot start, none does.
            (
                lambda: control.start([constant(5, "1Mbit/s"), constant(6, "1Mbit/s", count=500)]),
                [],
            ),
            (
                lambda: control.start([constant(5, "1Mbit/s"), constant(5, "1Mbit/s")]),
                ["session 5"],
            ),
            (
                lambda: control.start(
                    [
                        constant(5, "1Mbit/s"),
                        session_pb2.SessionSpec(session=6, input="/nonexistent"),
                    ]
                ),
                ["/nonexistent"],
            ),
            (lambda: control.start([constant(6, "1Mbit/s", count=32_762)] * 40), ["32768"]),
            (
                lambda: control.start([session_pb2.SessionSpec(session=9, keys=SHORT)]),
                ["keys.nonce has 3 bytes; valid: 16"],
            ),
            (lambda: control.change(7, top_rank=0), ["session 7 is not running; running: 1 to 2"]),
            (lambda: control.change(1, top_rank=5), ["top_rank = 5", "-1 to 1"]),
            (lambda: control.change(1, parameters={"rlm.grwth": "1"}), ["rlm.grwth", "rlm.growth"]),
            (lambda: control.change(1, parameters={"rlm.join_max": "1s"}), ["rlm.join_max"]),
            (lambda: control.stop(7), ["session 7 is not running"]),
        ):
            with pytest.raises(RefusedError) as refused:
                call()
            for text in texts:
                assert text in str(refused.value)
        sessions = control.list_sessions().sessions
        assert [state.session.session for state in sessions] == [1, 2]
        wait_until(
            lambda: (
                {x.rate_Bps for state in control.list_sessions().sessions for x in state.layers}
                == {125_000}
            ),
            "all layers' rates",
        )
    line.check_counts()
    # None of them sent, not even for a moment.
    assert {layer["session"] for layer in line.records("layer")} == {1, 2}


def test_command_line_of_a_person(tmp_path: Path) -> None:
    line = Line(tmp_path, [constant(1, "1Mbit/s")])

    def sessions(command: str, *arguments: str) -> str:
        """Runs a command in this process: starting another one takes longer than everything
        here."""
        result = CliRunner().invoke(
            app, [command, f"--sender={line.control_address}", *arguments], catch_exceptions=True
        )
        return result.stdout + str(result.exception or "")

    with line.sender(NULL):
        sessions("start", "5", "--scheme=rlm", "--layers=3", "--count=2", "--set=rlm.growth=1",
                 "--set=rlm.base_rate=64kbit/s")  # fmt: skip
        sessions("change", "6", "--top-rank=1")
        sessions("stop", "1")
        secret = f"--keys={tmp_path / 'run.secret'}"
        sessions("start", "8", "--count=2", secret)
        listed = json.loads(sessions("list", "--json"))["sessions"]
        assert [one["session"]["session"] for one in listed] == [5, 6, 8, 9]
        assert not any("keys" in one["session"] for one in listed)
        assert len({one["session"]["seed"] for one in listed}) == 4, "each start drew its own"
        for number in ("8", "9"):
            sessions("stop", number)
        rows = [row.split() for row in sessions("list").splitlines()]
        assert rows[0] == ["session", "scheme", "layers", "sending", "rate", "sent", "dropped"]
        assert [row[:4] for row in rows[1:]] == [["5", "rlm", "3", "3"], ["6", "rlm", "3", "2"]]
        with pytest.raises(InputError, match="session 7 is not running; running: 5 to 6"):
            app(["stop", f"--sender={line.control_address}", "7"], standalone_mode=False)
    with pytest.raises(RunFailed, match="no sender answers"):
        app(["list", f"--sender={line.control_address}"], standalone_mode=False)
        assert "session 1 does not run" in sessions("stop", "1")
        assert "NAME=VALUE" in sessions("change", "6", "--set=x")
        assert "nothing to change" in sessions("change", "6")
        for arguments, texts in (
            (("start", "9", "--scheme=tcp"), ("unknown scheme 'tcp'", "sim", "rlm")),
            (("start", "9", "--scheme=rlm", "--set=rlm.x=1"), ("rlm.x", "rlm.base_rate")),
            (("start", "9", "--scheme=rlm", "--set=rlm.base_rate=fast"), ("rlm.base_rate", "fast")),
            (("start", "9", "--packet-size=20000"), ("packet_size = 20000", "46 to 9000")),
            (("start", "5"), ("session 5 is running already",)),
            (("start", "9", f"--file={tmp_path}"), ("either",)),
            (("start", f"--file={tmp_path}", secret), ("a file has `keys`",)),
            (("start", f"--file={tmp_path}"), (str(tmp_path),)),
            (("stop", "7"), ("session 7 is not running", "5 to 6")),
        ):
            said = sessions(*arguments)
            assert all(text in said for text in texts), (arguments, said)
    assert "no sender answers at" in sessions("list")
    # The same as a command, with the exit status of its errors.
    done = subprocess.run(
        [ROOT / "tiercast", "sessions", "list", "--sender=unix:/nonexistent/socket"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 4
    assert "no sender answers at unix:/nonexistent/socket" in done.stderr


def get(port: int, path: str = "/metrics") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE_S) as answer:
        return answer.read().decode()


def test_prometheus_reads_the_figures(tmp_path: Path) -> None:
    port = free_port()
    line = Line(tmp_path, [constant(1, "4Mbit/s", layers=2)])
    with line.sender(NULL, f"--metrics=127.0.0.1:{port}"):

        def figures() -> dict:
            return {f.name: f for f in text_string_to_metric_families(get(port))}

        def sent() -> float:
            family = figures()["tiercast_sender_sent_packets"]
            assert family.type == "counter"
            return family.samples[0].value

        wait_until(lambda: sent() > 0, "it sends")
        first = sent()
        wait_until(lambda: sent() > first, "it goes on sending")
        second = figures()
        assert second["tiercast_sender_layers"].samples[0].value == 2
        assert second["tiercast_sender_link_up"].samples[0].value == 1
        lateness = second["tiercast_sender_lateness_seconds"]
        assert lateness.type == "histogram"
        buckets = [s for s in lateness.samples if s.name.endswith("_bucket")]
        count = next(s.value for s in lateness.samples if s.name.endswith("_count"))
        assert buckets[-1].labels["le"] == "+Inf" and buckets[-1].value == count > 0
        assert [b.value for b in buckets] == sorted(b.value for b in buckets)
        # Bad input from anyone who can reach the port.
        for junk in (b"\0" * 5000, b"GET /metrics\r\n\r\n", b"GET " + b"/" * 70_000 + b" HTTP/1.1"):
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as bad:
                bad.sendall(junk)
        with pytest.raises(urllib.error.HTTPError):
            get(port, "/../etc/passwd")
        assert "tiercast_sender_sent_packets_total" in get(port)
    line.check_counts()


@pytest.mark.parametrize("option", ["--metrics=203.0.113.1:9464", "--control=unix:/nonexistent/s"])
def test_an_address_that_cannot_be_served_is_named(tmp_path: Path, option: str) -> None:
    ended = run(sender_arguments(f"--vdev={NULL}", tmp_path / "trace", option))
    assert ended.status == 2
    for text in option.split("="):
        assert text in ended.stderr
