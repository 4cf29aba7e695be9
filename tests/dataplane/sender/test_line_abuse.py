"""tiercast-send with many sessions, misused: sessions that come and go under a flood, signals at
any moment, clients that block its HTTP server, an input that ends or never comes."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from tiercast_controller.agents.sender import SenderControl
from tiercast_controller.base.errors import AgentError

from ...agent.network import EAL, SENDER, SENDER_IP, Ended, Program, run
from ...free_port import free_port
from ...patience import PATIENCE_S, wait_until
from .line import Line, constant
from .test_line import arguments, check_counts, rlm
from .test_line_control import get
from .test_stress import FOREIGN, MALFORMED, SOUND, ring

pytestmark = pytest.mark.slow

NULL = "net_null0,no-rx=1"


def test_a_thousand_sessions_come_and_go_while_forged_feedback_arrives(tmp_path: Path) -> None:
    """Numbers are reused at once. Each frame that arrives for them in the meantime has exactly one
    fate."""
    line = Line(tmp_path, [constant(300, "400kbit/s")])
    far_end = ring(tmp_path, [*SOUND, *MALFORMED, *FOREIGN], rate=1e5, descriptors=1024)
    with line.sender(None, far_end=far_end) as control:
        for start in range(50):
            control.start([constant(1, "400kbit/s", count=20)])
            if start % 10 == 9:
                control.change(20, parameters={"rlm.base_rate": "800kbit/s"})
            for session in range(1, 21):
                control.stop(session)
        assert [state.session.session for state in control.list_sessions().sessions] == [300]
    line.check_counts()
    sessions = [layer["session"] for layer in line.records("layer")]
    assert len(sessions) == 1 + 50 * 20 + 5 and set(sessions) == {*range(1, 21), 300}
    counted = line.records("feedback")[-1]
    report = json.loads((tmp_path / "report.json").read_text())
    assert counted["received"] == report["offered"] - report["refused"] - report["unread"] > 1000
    fates = ("accepted", "refused", "malformed", "foreign", "late", "ring_full", "implausible")
    assert counted["received"] == sum(counted[fate] for fate in fates)


@contextmanager
def program(command: list[str], trace: Path | None = None) -> Iterator[Program]:
    """A program that ends, at the latest, with the context."""
    sender = Program(command, trace)
    try:
        yield sender
    finally:
        if sender.process.returncode is None:
            sender.process.kill()
            sender.process.communicate()


def files(prefix: str) -> set[Path]:
    """What a DPDK process with this --file-prefix might leave behind. DPDK itself leaves
    folders."""
    folders = map(Path, ("/dev/shm", "/run/dpdk", "/dev/hugepages", "/mnt/huge"))
    found = {path for folder in folders if folder.is_dir() for path in folder.rglob("*")}
    return {path for path in found if prefix in str(path) and not path.is_dir()}


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_by_any_end(tmp_path: Path, kind: signal.Signals) -> None:
    control = tmp_path / "control"
    command = arguments(tmp_path, f"--vdev={NULL}", [rlm(0, 2, 50)], f"--control=unix:{control}",
                        f"--metrics=127.0.0.1:{free_port()}")  # fmt: skip
    prefix = f"tiercast-test-{os.getpid()}"  # no other process on this machine has it
    command.insert(1, f"--file-prefix={prefix}")
    for _ in range(2):  # the second run finds what the first one left
        with program(command, tmp_path / "t.jsonl") as sender:
            with SenderControl(f"unix:{control}") as calls:
                wait_until(lambda: answers(calls), "the sender answers")  # noqa: B023
            sender.process.send_signal(kind)
            ended = sender.wait()
        assert ended.status == (-signal.SIGKILL if kind == signal.SIGKILL else 0), ended.stderr
        # A killed process cannot remove its socket.
        assert control.exists() == (kind == signal.SIGKILL)
        assert files(prefix) == set()
        if kind != signal.SIGKILL:
            check_counts(ended)
    Path("/run/dpdk", prefix).rmdir()


HUGE_PAGES = Path("/sys/kernel/mm/hugepages/hugepages-2048kB")


def free_huge_pages() -> int:
    return int((HUGE_PAGES / "free_hugepages").read_text()) if HUGE_PAGES.is_dir() else 0


@pytest.mark.skipif(free_huge_pages() < 64, reason="fewer than 64 huge pages of 2 MB are free")
@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGKILL])
def test_huge_pages_are_given_back(tmp_path: Path, kind: signal.Signals) -> None:
    command = arguments(tmp_path, f"--vdev={NULL}", [rlm(0, 2, 50)])
    for option in ("--no-huge", "--no-shconf"):
        command.remove(option)
    before, free = files("rte"), free_huge_pages()
    with program(command, tmp_path / "t.jsonl") as sender:
        wait_until(lambda: bool(sender.records()), "it runs")
        assert free_huge_pages() < free
        sender.process.send_signal(kind)
        sender.wait()
    assert free_huge_pages() == free
    assert files("rte") == before


def answers(control: SenderControl) -> bool:
    try:
        control.list_sessions()
    except AgentError:
        return False
    return True


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.05, 0.1, 0.2])
def test_a_signal_while_it_starts_ends_it(tmp_path: Path, delay: float) -> None:
    command = arguments(tmp_path, f"--vdev={NULL}", [rlm(0, 100, 50)], "--ramp=10s")
    with program(command) as sender:
        time.sleep(delay)
        sender.terminate()
        assert sender.wait().status in (0, -signal.SIGTERM)


def test_http_clients_that_are_slow_partial_or_a_thousand(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    port = free_port()
    line = Line(tmp_path, [constant(1, "4Mbit/s", layers=2)])

    def sent(control: SenderControl) -> int:
        return sum(x.sent_packets for s in control.list_sessions().sessions for x in s.layers)

    with line.sender(NULL, f"--metrics=127.0.0.1:{port}") as control:
        before = sent(control)
        with ExitStack() as held:

            def connect(request: bytes) -> socket.socket:
                client = held.enter_context(socket.socket())
                client.setblocking(False)
                client.connect_ex(("127.0.0.1", port))
                held.callback(client.close)
                wait_until(lambda: sends(client, request), "the connection")
                return client

            # Clients that never end their requests, and one that never reads. They do not use up
            # the threads, so another is answered while all of them are still connected.
            slow = [connect(b"GET /metrics HTTP/1.1\r\nHost: x\r\n") for _ in range(200)]
            connect(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 2000)
            assert "tiercast_sender_sent_packets_total" in get(port)
            assert len(slow) == 200
        with ExitStack() as held:
            for _ in range(1000):
                client = held.enter_context(socket.socket())
                client.setblocking(False)
                client.connect_ex(("127.0.0.1", port))
            wait_until(lambda: sent(control) > before + 100, "packets go on leaving")
        # They are gone, and it answers again.
        wait_until(lambda: reachable(port), "figures")
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    line.check_counts()


def test_http_clients_that_send_without_end_do_not_keep_others_waiting(tmp_path: Path) -> None:
    port = free_port()
    line = Line(tmp_path, [constant(1, "4Mbit/s", layers=2)])
    heads = (b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n",
             b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n",
             b"GET /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
             b"fffff\r\n")  # fmt: skip
    with line.sender(NULL, f"--metrics=127.0.0.1:{port}"), ExitStack() as held:
        over = threading.Event()

        def trickle(number: int) -> None:
            with socket.socket() as client, suppress(OSError):  # it was refused
                client.connect(("127.0.0.1", port))
                client.sendall(heads[number % len(heads)])
                while not over.wait(0.2):
                    client.sendall(b"x")

        clients = [threading.Thread(target=trickle, args=(i,)) for i in range(300)]
        held.callback(lambda: [client.join() for client in clients])
        held.callback(over.set)
        for client in clients:
            client.start()
        wait_until(lambda: not any(client.is_alive() for client in clients), "all are refused")
        assert "tiercast_sender_sent_packets_total" in get(port)
    line.check_counts()


def sends(client: socket.socket, request: bytes) -> bool:
    try:
        client.send(request)
    except BlockingIOError:
        return False
    except OSError:  # not connected yet
        return False
    return True


def reachable(port: int) -> bool:
    try:
        return "tiercast_sender" in get(port)
    except (urllib.error.URLError, OSError):
        return False


def from_input(tmp_path: Path, stdin: object, *options: str) -> Ended:
    """Half a second of standard input, in packets of 60 bytes."""
    command = arguments(tmp_path, f"--vdev={NULL}", [rlm(0, 1, 50, packet_size=60)],
                        "--payload=-", "--duration=500ms", *options)  # fmt: skip
    done = subprocess.run(command, stdin=stdin, capture_output=True, text=True, timeout=PATIENCE_S)
    records = [json.loads(row) for row in (tmp_path / "t.jsonl").read_text().splitlines()]
    return Ended(done.returncode, done.stdout, done.stderr, 0.0, records)


def test_an_input_that_ends_or_never_comes_does_not_hold_it_up(tmp_path: Path) -> None:
    underruns = []
    # An input at its end, a terminal on which nobody types, and a writer that never writes.
    terminal, _quiet = os.openpty()
    silent, writer = os.pipe()
    with (tmp_path / "short").open("w+b") as short:
        short.write(b"0123456789" * 20)
        short.flush()
        short.seek(0)
        for stdin in (subprocess.DEVNULL, _quiet, silent, short):
            ended = from_input(tmp_path, stdin)
            check_counts(ended)
            worker = ended.of("worker")[-1]
            underruns.append(worker["sent_packets"] - worker["payload_underruns"])
    for descriptor in (terminal, _quiet, silent, writer):
        os.close(descriptor)
    # 16 of a packet's 32 bytes are the header, so 200 bytes fill 12 packets and a half.
    assert underruns == [0, 0, 0, 200 // 16]


def test_payload_files_that_are_none_are_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").touch()
    for name, text in (("pipe", "not a regular file"), (".", "not a regular file"),
                       ("empty", "the file is empty, so there is nothing to send")):  # fmt: skip
        command = [str(SENDER), f"--vdev={NULL}", *EAL, "--", f"--address={SENDER_IP}",
                   f"--payload={tmp_path / name}", "--duration=1s"]  # fmt: skip
        ended = run(command)
        assert ended.status == 2
        assert f"{tmp_path / name}: {text}" in ended.stderr
