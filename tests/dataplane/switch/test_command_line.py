"""How tiercast-switch ends: wrong arguments, signals, and what it leaves behind."""

import signal
import socket
import subprocess
from pathlib import Path

import grpc
import pytest
from tiercast.v1 import lab_pb2

from ...checkout import ROOT
from ...namespaces import command_in

PORT = ("--port", "1=p1")


@pytest.fixture
def fails(network, tools, tmp_path):
    """Runs the switch until it ends with exit status 2. Returns what it printed."""

    def run(*arguments: str) -> str:
        done = subprocess.run(
            command_in(network.switch, tools.BINARY, "--device-id", "1", *arguments),
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 2, done
        return done.stderr

    return run


def test_a_missing_interface_is_named_with_those_that_exist(fails, tmp_path):
    text = fails("--port", "1=p1", "--port", "2=eth9", "--grpc", f"unix:{tmp_path}/s")
    assert "port 2: interface eth9 does not exist" in text
    assert all(name in text for name in ("lo", "p1", "p2", "p3", "p4"))
    assert not (tmp_path / "s").exists()


def test_a_down_interface(fails, network, tmp_path):
    def link(state: str) -> None:
        subprocess.run(["ip", "-n", network.switch, "link", "set", "p4", state], check=True)

    link("down")
    try:
        text = fails("--port", "4=p4", "--grpc", f"unix:{tmp_path}/s")
    finally:
        link("up")
    assert "port 4: interface p4 is down; bring it up: ip link set p4 up" in text


def test_an_interface_without_ethernet(fails, network, tmp_path):
    subprocess.run(["ip", "-n", network.switch, "link", "set", "lo", "up"], check=True)
    assert "interface lo is not an Ethernet interface" in fails(
        "--port", "1=lo", "--grpc", f"unix:{tmp_path}/s"
    )


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"a": 1}', "\x00\x01"])
def test_json_that_is_not_bmv2s(fails, tmp_path, text):
    path = tmp_path / "program.json"
    path.write_text(text)
    assert "program.json" in fails(*PORT, "--json", str(path), "--grpc", f"unix:{tmp_path}/s")


def test_p4info_that_is_none(fails, tmp_path, program):
    path = tmp_path / "p4info.txtpb"
    path.write_text("tables { nonsense: 1 }")
    text = fails(*PORT, *program[:2], "--p4info", str(path), "--grpc", f"unix:{tmp_path}/s")
    assert f"--p4info {path}: not a P4Info in protobuf's text format" in text


def test_an_address_in_use(fails, start, tmp_path):
    switch = start("--port", "2=p2")
    assert "address in use" in fails(*PORT, "--grpc", switch.address)
    assert switch.lab.GetPorts(lab_pb2.GetPortsRequest()).ports  # it still has its device

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
    file = tmp_path / "file"
    file.write_text("kept")
    assert "is not a socket" in fails(*PORT, "--grpc", f"unix:{file}")
    assert file.read_text() == "kept"


def test_a_tcp_port_in_use(fails, network, tools):
    with tools.inside(network.switch), socket.socket() as listener:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        said = f"--grpc {address}: cannot listen: Address already in use"
        assert said in fails(*PORT, "--insecure", "--grpc", address)


def test_a_missing_directory(fails):
    said = "--grpc unix:/no/such/place/s: cannot listen: No such file or directory"
    assert said in fails(*PORT, "--grpc", "unix:/no/such/place/s")


def test_an_address_of_another_machine(fails):
    said = "--grpc 192.0.2.1:9559: cannot listen: Cannot assign requested address"
    assert said in fails(*PORT, "--insecure", "--grpc", "192.0.2.1:9559")


def test_a_dead_switchs_socket_is_replaced(start, tmp_path):
    path = tmp_path / "dead.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    switch = start("--port", "1=p1", path=path)
    assert switch.lab.GetPorts(lab_pb2.GetPortsRequest()).ports


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(start, program, tools, number):
    switch = start(*PORT, *program)
    controller = tools.Controller(switch)
    assert controller.arbitration_code() == 0
    assert Path(switch.path).exists()
    assert switch.stop(number) == 0
    assert not Path(switch.path).exists()
    assert isinstance(controller.next(), grpc.RpcError)
    assert "send errors 0" in switch.log_path.read_text()


def test_set_link_of_a_port_that_does_not_exist(start):
    switch = start("--port", "1=p1", "--port", "3=p3")
    with pytest.raises(grpc.RpcError) as error:
        switch.lab.SetLink(lab_pb2.SetLinkRequest(port=2))
    assert error.value.code() == grpc.StatusCode.NOT_FOUND
    assert error.value.details() == "port 2 does not exist; ports: 1, 3"
    with pytest.raises(grpc.RpcError) as error:
        switch.lab.SetLink(lab_pb2.SetLinkRequest(port=1, delay_ns=10**12))
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("p4info", [True, False], ids=["with P4Info", "without"])
def test_a_depth_register_that_the_program_lacks(fails, tools, p4info):
    program = ["--json", str(ROOT / "p4src/compiled/tiercast_psa.json")]
    if p4info:
        program += ["--p4info", str(ROOT / "p4src/compiled/tiercast_psa.p4info.txtpb")]
    text = fails("--port", "1=p1", "--depth-register", "queue_dept", *program)
    assert "--depth-register queue_dept: " in text and " has no such register; valid: " in text
    assert "queue_depth" in text
