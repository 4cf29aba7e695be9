"""Ports on AF_XDP sockets: `--port 1=xdp:p1`. They do what ports on packet sockets do; the tests of
those run again here, with this module's `switch`."""

import json
import signal
import subprocess
import threading

import pytest

from ...namespaces import command_in
from ...patience import wait_until
from . import test_switch
from .test_switch import (  # noqa: F401
    host_address,
    numbers,
    passages,
    ports_of,
    route,
    send_burst,
    test_a_saturated_port_sends_at_its_rate,
    test_an_idle_link_adds_its_delay_alone,
    test_checksums_left_to_a_device_are_completed,
    test_frames_above_the_mtu_are_counted_not_forwarded,
    test_igmp_comes_in_at_the_controller_with_its_port,
    test_multicast_reaches_every_port_of_the_group_but_the_ingress,
    test_no_queueing_discipline_is_behind_a_port,
    test_packet_out_leaves_by_the_named_port,
    test_port_statistics_and_lateness,
    test_unicast_is_routed,
)

PORTS = [word.replace("=p", "=xdp:p") for word in test_switch.PORTS]
TWO = ("--port", "1=xdp:p1", "--port", "2=xdp:p2")


def refusal(tools, port: str, prefix: list[str] | None = None) -> str:
    """What a switch says that cannot have this port."""
    done = subprocess.run(
        [*(prefix or []), str(tools.BINARY), "--device-id", "2", "--json", str(tools.TO_PORT_1),
         "--port", port], capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode != 0
    return done.stderr


@pytest.fixture(autouse=True, scope="module")
def built_with_xdp(tools):
    if "built without XDP" in refusal(tools, "1=xdp:nowhere"):
        pytest.skip("tiercast-switch was built without libxdp")


@pytest.fixture
def switch(start, program):
    return start(*PORTS, *program)


@pytest.fixture
def traced_switch(start, program, tmp_path):
    return start(*PORTS, *program, "--trace", str(tmp_path / "trace.jsonl"))


def programs(network) -> list[str]:
    """The interfaces of the switch with an XDP program."""
    shown = subprocess.run(
        [*command_in(network.switch, "ip"), "-json", "-d", "link", "show"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    return [one["ifname"] for one in json.loads(shown) if "xdp" in one]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_burst_passes_whole_and_in_order(network, start, program, controller_of, p4info, workers):
    """Many more frames than a batch has, and twice as many as there are places to send from."""
    switch = start(*PORTS, *program, "--workers", str(workers))
    controller = controller_of(switch)
    route(controller, p4info, "10.0.2.2", 2)
    for _ in range(8):
        send_burst(network, "10.0.2.2", 1000)
        assert numbers(network.ports[2].receive(1000)) == list(range(1000))
    ports = ports_of(switch)
    assert ports[1].kernel_drops == ports[2].send_errors == 0


@pytest.mark.parametrize("size", [14, 60, 61, 1514])
def test_frames_of_every_size_pass_whole(network, start, tools, size):
    start(*TWO, "--json", str(tools.TO_PORT_1))
    sent = bytes(12) + b"\x88\xb5" + bytes(n & 0xFF for n in range(size - 14))
    network.ports[2].send(sent)
    (frame,) = network.ports[1].receive(1)
    assert frame.data[4:] == sent[4:]


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_at_the_interface(network, start, end):
    switch = start(*TWO)
    assert programs(network) == ["p1", "p2"]
    switch.stop(end)
    wait_until(lambda: programs(network) == [], "the programs are gone")


def test_what_an_interface_lacks_is_said(network, tools):
    ip = command_in(network.switch, "ip")

    def refused(port: str) -> str:
        return refusal(tools, port, command_in(network.switch))

    assert "interface nowhere does not exist; this network namespace has: " in refused(
        "1=xdp:nowhere"
    )
    assert "'' does not have 1 to 15 characters" in refused("1=xdp:")
    assert "port 1: interface lo is not an Ethernet interface" in refused("1=xdp:lo")
    subprocess.run(
        [*ip, "link", "add", "wide", "numrxqueues", "2", "numtxqueues", "2", "type", "veth",
         "peer", "name", "w2", "numrxqueues", "2", "numtxqueues", "2"], check=True,
    )  # fmt: skip
    try:
        for name in ("wide", "w2"):
            subprocess.run([*ip, "link", "set", name, "up"], check=True)
        assert "wide has 2 receive queues; an XDP port needs one: ethtool -L wide" in refused(
            "1=xdp:wide"
        )
        subprocess.run(
            [*command_in(network.switch, "ethtool"), "-L", "wide", "rx", "1"], check=True
        )
        subprocess.run([*ip, "link", "set", "wide", "mtu", "9000"], check=True)
        assert "interface wide: an MTU of 9000 bytes; an XDP port takes up to 3822" in refused(
            "1=xdp:wide"
        )
    finally:
        subprocess.run([*ip, "link", "del", "wide"], check=True)


def test_an_interface_has_one_such_port(network, start, tools):
    start(*TWO)
    said = refusal(tools, "1=xdp:p1", command_in(network.switch))
    assert "interface p1: XDP socket (another one has the interface): " in said


def test_a_switch_waits_for_an_interface_that_is_about_to_be_released(start, tmp_path):
    first = start(*TWO)
    log = tmp_path / "1" / "switch.log"
    release = threading.Thread(
        target=lambda: (wait_until(lambda: log.exists() and "waiting" in log.read_text(), log),
                        first.stop(signal.SIGKILL))
    )  # fmt: skip
    release.start()
    start(*TWO)  # returns when it serves
    release.join()
    assert "p1: waiting for another XDP socket to release it" in log.read_text()
