"""P4Runtime and tiercast.v1 on TCP: who may call what (docs/security.md)."""

from __future__ import annotations

import queue
import resource
import select
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from p4.v1 import p4runtime_pb2 as p4
from p4.v1 import p4runtime_pb2_grpc
from tiercast.v1 import lab_pb2, lab_pb2_grpc
from tiercast_controller.base.tls import KeyRole, Tls
from tiercast_lab.base.certificates import make_keys

from ...checkout import ROOT
from ...free_port import free_port
from ...patience import PATIENCE_S, wait_until
from ...tcp_switch import arbitration, channel, command, running_switch

OK = grpc.StatusCode.OK
DENIED = grpc.StatusCode.PERMISSION_DENIED
PROGRAM = grpc.StatusCode.FAILED_PRECONDITION  # the call was permitted, but there is no program
CONTROLLER, AGENT, OBSERVER = KeyRole
COMPILED = ROOT / "p4src/compiled"


@pytest.fixture(scope="module")
def address(keys: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_switch(tmp_path_factory.mktemp("switch"), "--tls", str(keys)) as address:
        yield address


def status(call: Callable[[], Any]) -> grpc.StatusCode:
    try:
        result = call()
        if hasattr(result, "__iter__"):
            list(result)
    except grpc.RpcError as error:
        return error.code()
    return OK


def answers(there: grpc.Channel) -> dict[str, grpc.StatusCode]:
    """What each call is answered with."""
    p4runtime, switch = p4runtime_pb2_grpc.P4RuntimeStub(there), lab_pb2_grpc.SwitchStub(there)
    wait = {"timeout": PATIENCE_S}
    calls: dict[str, Callable[[], Any]] = {
        "Capabilities": lambda: p4runtime.Capabilities(p4.CapabilitiesRequest(), **wait),
        "Read": lambda: p4runtime.Read(p4.ReadRequest(device_id=1), **wait),
        "Get": lambda: p4runtime.GetForwardingPipelineConfig(
            p4.GetForwardingPipelineConfigRequest(device_id=1), **wait
        ),
        "Write": lambda: p4runtime.Write(p4.WriteRequest(device_id=1), **wait),
        "Set": lambda: p4runtime.SetForwardingPipelineConfig(
            p4.SetForwardingPipelineConfigRequest(device_id=1), **wait
        ),
        "GetPorts": lambda: switch.GetPorts(lab_pb2.GetPortsRequest(), **wait),
        "SetLink": lambda: switch.SetLink(lab_pb2.SetLinkRequest(port=1, delay_ns=5), **wait),
        "SetTrace": lambda: switch.SetTrace(lab_pb2.SetTraceRequest(), **wait),
        "TakeTrace": lambda: switch.TakeTrace(lab_pb2.TakeTraceRequest(), **wait),
        "arbitration": lambda: None,
    }
    found = {name: status(call) for name, call in calls.items()}
    return found | {"arbitration": arbitration(p4runtime, p4.Uint128(low=5))}


def test_each_role_may_call_what_is_its_own(address: str, keys: Path) -> None:
    found = {}
    for role in KeyRole:
        with channel(address, Tls.of_folder(keys, role, AGENT)) as there:
            found[role] = answers(there)
    # Who may not write is told so before whether it is primary matters.
    assert found[OBSERVER] == {
        "Capabilities": OK, "Read": PROGRAM, "Get": PROGRAM, "Write": DENIED, "Set": DENIED,
        "GetPorts": DENIED, "SetLink": DENIED, "SetTrace": DENIED, "TakeTrace": DENIED,
        "arbitration": DENIED,
    }  # fmt: skip
    assert set(found[AGENT].values()) == {DENIED}
    as_controller = found[CONTROLLER]
    assert {as_controller[name] for name in ("GetPorts", "SetLink", "arbitration")} == {OK}
    assert as_controller["Read"] == PROGRAM
    assert as_controller["Write"] == DENIED  # it is not primary: P4Runtime 12


def test_an_observer_may_listen(address: str, keys: Path) -> None:
    with channel(address, Tls.of_folder(keys, OBSERVER, AGENT)) as there:
        requests: queue.Queue[None] = queue.Queue()
        stub = p4runtime_pb2_grpc.P4RuntimeStub(there)
        stream = stub.StreamChannel(iter(requests.get, None), timeout=PATIENCE_S)
        requests.put(None)  # no more requests: the stream then ends with OK
        assert list(stream) == []
        assert stream.code() is OK


def test_observers_do_not_keep_controllers_out(keys: Path, tmp_path: Path) -> None:
    program = ("--json", f"{COMPILED}/tiercast.json", "--p4info",
               f"{COMPILED}/tiercast.p4info.txtpb")  # fmt: skip
    registers = p4.Entity(register_entry=p4.RegisterEntry())
    read = p4.ReadRequest(device_id=1, entities=[registers] * 8)
    with (
        running_switch(tmp_path, "--tls", str(keys), *program) as address,
        channel(address, Tls.of_folder(keys, OBSERVER, AGENT)) as observer,
        channel(address, Tls.of_folder(keys, CONTROLLER, AGENT)) as controller,
    ):
        stub = p4runtime_pb2_grpc.P4RuntimeStub(observer)

        def calls(of: p4runtime_pb2_grpc.P4RuntimeStub) -> dict[str, Callable[[], Any]]:
            """Streams on which nothing is said, and Reads whose answers nobody takes."""
            return {"streams": lambda: of.StreamChannel(iter(queue.SimpleQueue().get, None)),
                    "Reads": lambda: of.Read(read)}  # fmt: skip

        for what, call in calls(stub).items():
            opened = [call() for _ in range(40)]
            wait_until(lambda: sum(one.done() for one in opened) >= 24, "24 are refused")  # noqa: B023
            refused = [one for one in opened if one.done()]
            assert {one.code() for one in refused} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
            said = f"observers have 16 {what} open, which is their maximum"
            assert {one.details() for one in refused} == {said}
            assert len(refused) == 24
        own = p4runtime_pb2_grpc.P4RuntimeStub(controller)
        assert arbitration(own, p4.Uint128(low=5)) is OK
        assert status(lambda: own.Read(read, timeout=PATIENCE_S)) is OK


def test_connections_of_strangers_do_not_end_the_service(keys: Path, tmp_path: Path) -> None:
    """They need no certificate to take all descriptors that the process may have."""
    limit = 200
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))  # the switch's
    try:
        with running_switch(tmp_path, "--tls", str(keys)) as address, ExitStack() as held:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            host, _, port = address.rpartition(":")
            strangers = [held.enter_context(socket.socket()) for _ in range(2 * limit)]
            for stranger in strangers:
                stranger.setblocking(False)
                stranger.connect_ex((host, int(port)))
            # Some are kept, the others are turned away.
            wait_until(lambda: len(select.select(strangers, [], [], 0.1)[0]) > limit, "an end")
            for stranger in strangers:
                stranger.close()

            def serves() -> bool:
                with channel(address, Tls.of_folder(keys, CONTROLLER, AGENT)) as there:
                    stub = p4runtime_pb2_grpc.P4RuntimeStub(there)
                    return (
                        status(lambda: stub.Capabilities(p4.CapabilitiesRequest(), timeout=5)) is OK
                    )

            wait_until(serves, "it serves again")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_strangers_are_not_served(address: str, keys: Path, tmp_path: Path) -> None:
    make_keys(tmp_path / "others", [], days=2)
    of_others = Tls.of_folder(tmp_path / "others", CONTROLLER, AGENT)
    no_certificate = Tls(keys / "ca.pem", server_name=AGENT.name_in_certificate)
    other_certificate = Tls(
        keys / "ca.pem", of_others.certificate, of_others.key, AGENT.name_in_certificate
    )
    for tls in (None, of_others, no_certificate, other_certificate):
        with channel(address, tls) as there:
            p4runtime = p4runtime_pb2_grpc.P4RuntimeStub(there)
            code = status(lambda: p4runtime.Capabilities(p4.CapabilitiesRequest(), timeout=10))  # noqa: B023
        assert code is grpc.StatusCode.UNAVAILABLE, tls


def test_a_client_accepts_servers_of_the_right_role_alone(address: str, keys: Path) -> None:
    wrong = Tls.of_folder(keys, CONTROLLER, CONTROLLER)
    with channel(address, wrong) as there:
        p4runtime = p4runtime_pb2_grpc.P4RuntimeStub(there)
        code = status(lambda: p4runtime.Capabilities(p4.CapabilitiesRequest(), timeout=10))
    assert code is grpc.StatusCode.UNAVAILABLE


def refusal(tmp_path: Path, *options: str) -> str:
    done = subprocess.run(
        command(f"127.0.0.1:{free_port()}", tmp_path, *options),
        capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 2
    return done.stderr


def test_tcp_without_tls_is_refused(tmp_path: Path) -> None:
    said = refusal(tmp_path)
    assert "TCP without TLS; valid: --tls FOLDER" in said and "--insecure" in said


def test_tcp_without_tls_where_the_user_says_so(tmp_path: Path) -> None:
    with running_switch(tmp_path, "--insecure") as address, channel(address, None) as there:
        assert answers(there)["GetPorts"] is OK


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: (folder / "agent.key").unlink(), "/agent.key: No such file or directory"),
        (lambda folder: (folder / "agent.key").chmod(0o640), "/agent.key: others may use it"),
        (lambda folder: (folder / "ca.pem").write_text("none"), "/ca.pem: not a PEM file"),
        (
            lambda folder: shutil.copy(folder / "observer.pem", folder / "agent.pem"),
            ": agent.pem is not the certificate of agent.key",
        ),
    ],
)
def test_keys_that_cannot_be_used(
    keys: Path, tmp_path: Path, spoil: Callable[[Path], object], said: str
) -> None:
    folder = shutil.copytree(keys, tmp_path / "keys")
    spoil(folder)
    assert f"--tls {folder}{said}" in refusal(tmp_path, "--tls", str(folder))
