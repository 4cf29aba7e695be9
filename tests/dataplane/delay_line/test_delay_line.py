"""tiercast-delay-line between two veth pairs in a namespace of its own (root)."""

from __future__ import annotations

import json
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest

from ...checkout import BUILD
from ...namespaces import Namespaces, command_in, inside
from ...patience import PATIENCE_S, wait_until

PROGRAM = BUILD / "dataplane/delay_line/tiercast-delay-line"
DELAY_S = 1.0
ETH_P_ALL = 3


def endpoint_of(namespace: str, interface: str) -> socket.socket:
    """A packet socket on an interface of the namespace."""
    with inside(namespace):
        endpoint = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        endpoint.bind((interface, ETH_P_ALL))
    endpoint.settimeout(PATIENCE_S)
    return endpoint


@pytest.fixture
def namespace() -> Iterator[str]:
    """outer1 = in1 ~delay line~ in2 = outer2."""
    namespaces = Namespaces("line")
    try:
        for number in "12":
            namespaces.join("line", f"outer{number}", "line", f"in{number}")
        yield namespaces["line"]
    finally:
        namespaces.close()


@pytest.fixture
def delay_line(namespace: str) -> Iterator[subprocess.Popen[str]]:
    option = f"--line=in1,in2,{DELAY_S * 1e3:g}ms,0"
    process = subprocess.Popen(
        command_in(namespace, PROGRAM, option), stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def read_all(receiver: socket.socket) -> list[bytes]:
    """The frames that are waiting in the socket."""
    found = []
    while select.select([receiver], [], [], 0)[0]:
        found.append(receiver.recv(2048))
    return found


def frame(number: int, size: int = 200) -> bytes:
    return bytes(12) + b"\x88\xb5" + number.to_bytes(4, "big") + bytes(size - 18)


def wait_for(receiver: socket.socket, wanted: bytes) -> None:
    while receiver.recv(2048) != wanted:  # the socket also sees the frames that it sends
        pass


def ready(one: socket.socket, two: socket.socket) -> None:
    """Waits until frames pass in both directions and none is on its way any more."""

    def passes() -> bool:
        two.send(frame(0))
        return one in select.select([one], [], [], 0.1)[0]

    wait_until(passes, "frames pass")
    two.send(frame(1))
    wait_for(one, frame(1))


def test_frames_come_in_order_after_the_delay_of_their_direction(
    namespace: str, delay_line: subprocess.Popen[str]
) -> None:
    """The tests of DelayLine, in virtual time, check the delay to the nanosecond."""
    with endpoint_of(namespace, "outer1") as one, endpoint_of(namespace, "outer2") as two:
        ready(one, two)
        frames = [frame(number, 100 + number * 10) for number in range(2, 102)]
        before = time.monotonic()
        for each in frames:
            one.send(each)
        # The other direction has no delay, so a frame that is sent later arrives first.
        two.send(frame(1000))
        wait_for(one, frame(1000))
        assert not [got for got in read_all(two) if got in frames]
        for each in frames:
            assert two.recv(2048) == each
        assert time.monotonic() - before >= DELAY_S
    delay_line.send_signal(signal.SIGTERM)
    out, _ = delay_line.communicate(timeout=PATIENCE_S)
    totals = json.loads(out.splitlines()[-1])
    assert delay_line.returncode == 0
    assert totals["frames"] >= 102
    assert (totals["kernel_drops"], totals["send_errors"]) == (0, 0)


def test_each_second_it_says_for_how_long_it_did_not_run(delay_line) -> None:
    def line() -> dict[str, int]:
        return json.loads(delay_line.stdout.readline())

    line()
    delay_line.send_signal(signal.SIGSTOP)
    stopped = time.monotonic()
    time.sleep(0.3)
    paused = 1e6 * (time.monotonic() - stopped)
    delay_line.send_signal(signal.SIGCONT)
    # If it is stopped just as it reports, the pause is in the next report.
    assert max(line()["longest_pause_us"], line()["longest_pause_us"]) >= paused
    delay_line.send_signal(signal.SIGTERM)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--line=nosuch0,nosuch1,5ms"], "nosuch0"),
        (
            ["--line=a,b,5"],
            "'5' is not a delay; valid: 5ms, 1.5s, 200us or 30ns",
        ),
        (["--lines=a,b,5ms"], "'--lines=a,b,5ms'; valid: --line=, --help, --version"),
        ([], "no --line"),
    ],
)
def test_bad_arguments(arguments: list[str], said: str) -> None:
    result = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)
    assert result.returncode == 2
    assert said in result.stderr
