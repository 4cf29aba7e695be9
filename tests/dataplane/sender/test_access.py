"""tiercast-send: who may call --control on TCP, which files callers may name, and what it gives up
once its sockets are open."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tiercast.v1 import session_pb2
from tiercast_controller.agents.sender import SenderControl
from tiercast_controller.base.errors import RefusedError
from tiercast_controller.base.tls import KeyRole, Tls

from ...agent.network import EAL, SENDER, SENDER_IP
from ...checkout import ROOT
from ...free_port import free_port
from ...patience import PATIENCE_S, wait_until
from ...tcp_switch import listens


def command(control: str, *options: str) -> list[str]:
    return [
        str(SENDER), "--vdev=net_null0,no-rx=1", *EAL, "--", f"--address={SENDER_IP}",
        "--scheme=rla", "--max-sessions=4", f"--control={control}", *options,
    ]  # fmt: skip


@contextmanager
def sender(control: str, *options: str) -> Iterator[int]:
    """The id of a process that serves."""
    process = subprocess.Popen(command(control, *options), stdout=subprocess.DEVNULL)

    def is_ready() -> bool:
        assert process.poll() is None, "the sender ended"
        return listens(control)

    try:
        wait_until(is_ready, "it listens")
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def transfer(number: int, file: Path | str) -> list[session_pb2.SessionSpec]:
    return [session_pb2.SessionSpec(session=number, scheme="rla", input=str(file))]


def tiercast(*arguments: object) -> subprocess.CompletedProcess[str]:
    words = [str(ROOT / "tiercast"), "sessions", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)


def test_a_controller_changes_and_an_observer_lists(keys: Path, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    with sender(address, f"--tls={keys}"):
        with SenderControl(
            address, Tls.of_folder(keys, KeyRole.CONTROLLER, KeyRole.AGENT)
        ) as control:
            control.start([session_pb2.SessionSpec(session=2)])
        observer = tmp_path / "observers"
        observer.mkdir()
        for name in ("ca.pem", "observer.pem", "observer.key"):
            (observer / name).write_bytes((keys / name).read_bytes())
        (observer / "observer.key").chmod(0o600)
        listed = tiercast("list", "--json", "--sender", address, "--tls", observer)
        assert len(json.loads(listed.stdout)["sessions"]) == 2, listed.stderr
        refused = tiercast("stop", "2", "--sender", address, "--tls", observer)
        assert refused.returncode == 2 and "role controller is needed" in refused.stderr
        plain = tiercast("list", "--sender", address)
        assert plain.returncode == 2 and "TCP without TLS" in plain.stderr


def test_tcp_without_tls_is_refused() -> None:
    done = subprocess.run(
        command(f"127.0.0.1:{free_port()}"), capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 2 and "TCP without TLS; valid: --tls FOLDER" in done.stderr


def test_callers_over_tcp_name_no_file(keys: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"secret")
    address = f"127.0.0.1:{free_port()}"
    tls = Tls.of_folder(keys, KeyRole.CONTROLLER, KeyRole.AGENT)
    with (
        sender(address, f"--tls={keys}"),
        SenderControl(address, tls) as control,
        pytest.raises(RefusedError, match="callers over TCP may name no file; valid: a sender"),
    ):
        control.start(transfer(2, tmp_path / "file"))


def test_files_are_below_the_input_root(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "folder").mkdir(parents=True)
    (root / "folder/file").write_bytes(b"to send")
    outside.write_bytes(b"secret")
    (root / "out").symlink_to(outside)
    (root / "up").symlink_to("..")
    (root / "in").symlink_to("folder/file")
    (root / "self").symlink_to("/proc/self/cwd")
    address = f"unix:{tmp_path}/control"
    with sender(address, f"--input-root={root}"), SenderControl(address) as control:
        for file in (
            outside, root / "../outside", "../outside", root / "out", root / "up/outside",
            "/etc/passwd", "self/etc/passwd", f"{root}x", root,
        ):  # fmt: skip
            with pytest.raises(RefusedError):
                control.start(transfer(2, file))
        control.start(transfer(2, root / "folder/file"))
        control.start(transfer(3, "in"))
        control.start(transfer(4, f"{root}//folder/file"))
        control.change(3, parameters={"rla.drop_timeouts": "9"})  # opens the file again
        assert [one.session.session for one in control.list_sessions().sessions] == [0, 2, 3, 4]


def test_without_one_a_unix_sockets_callers_name_any(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"to send")
    address = f"unix:{tmp_path}/control"
    with sender(address), SenderControl(address) as control:
        control.start(transfer(2, tmp_path / "file"))


@pytest.mark.parametrize("options", [(), ("--no-sandbox",)])
def test_all_threads_are_confined(tmp_path: Path, options: tuple[str, ...]) -> None:
    with sender(f"unix:{tmp_path}/control", *options) as pid:
        threads = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/status")]
    assert len(threads) > 2
    for status in threads:
        assert ("\nSeccomp:\t0\n" if options else "\nSeccomp:\t2\n") in status
        assert ("\nNoNewPrivs:\t0\n" if options else "\nNoNewPrivs:\t1\n") in status
