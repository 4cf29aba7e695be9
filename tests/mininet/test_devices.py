"""Switches that the lab did not start: the file that names them, and runs over some that a test
started in namespaces of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest
from tiercast_lab.base import binaries
from tiercast_lab.base.errors import EXIT_FAILED, EXIT_INPUT, EXIT_INTERRUPTED, InputError
from tiercast_lab.results.storage import load_run
from tiercast_lab.run.mininet.devices import grpc_address, load_devices

from ..bmv2 import bmv2_command, needs_switch
from ..checkout import ROOT
from ..patience import wait_until
from .conftest import skip_if_invalid
from .real_run import wait_for_second

# s1 is a device, s0 is not.
EXPERIMENT = """\
name: devices
topology:
  tree: {depth: 2, fanout: 2}
  link: {rate: 3Mbit/s, delay: 5ms, queue: 50p}
  links:
    1-3: {rate: 1Mbit/s}
sessions:
  - {scheme: sim, sender: 0, layers: 2}
duration: 12s
measure: {last: 6s}
"""
TCP = "p4runtime://127.0.0.1:9559"
TLS_PROXY = """
import asyncio, ssl, sys

async def copy(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()

async def serve(reader, writer):
    inner = await asyncio.open_unix_connection("rack.sock")
    await asyncio.gather(copy(reader, inner[1]), copy(inner[0], writer), return_exceptions=True)

async def main():
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile="ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain("rack.pem", "rack.key")
    context.set_alpn_protocols(["h2"])
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]), ssl=context)
    print("ready", flush=True)
    await server.serve_forever()

asyncio.run(main())
"""
PORTS = """\
switches:
  s1:
    address: p4runtime://127.0.0.1:9559
    device_id: 7
    ports:
      s0: {port: 11, interface: tc-up}
      h3: {port: 12, interface: tc-h3}
      h4: {port: 13, interface: tc-h4}
"""
# Two devices with a cable between them, and a sender on a DPDK port.
TWO = (
    PORTS.replace(", interface: tc-up", "")
    + """\
  s0:
    address: unix:SPINE
    device_id: 3
    ports:
      s1: {port: 21}
      s2: {port: 22, interface: tc-s2}
      h0: {port: 23, dpdk: "--vdev=net_af_packet0,iface=tc-h0 --no-huge --no-pci --no-shconf -m 64"}
"""
)


@pytest.fixture
def said_of(load, tmp_path: Path):
    """What is said of a file of devices for EXPERIMENT."""

    def said(text: str, address: str | None = None) -> str:
        file = tmp_path / "ports.yaml"
        file.write_text(text)
        with pytest.raises(InputError) as error:
            load_devices(file, address).devices(load(EXPERIMENT))
        return str(error.value).replace(str(file), "ports.yaml")

    return said


def test_a_file_gives_each_port_its_number_there(load, tmp_path: Path) -> None:
    (tmp_path / "ports.yaml").write_text(PORTS)
    devices = load_devices(tmp_path / "ports.yaml", None).devices(load(EXPERIMENT))
    s1 = devices["s1"]
    assert (s1.address, s1.device_id, s1.role, s1.tls) == ("127.0.0.1:9559", 7, "", None)
    neighbours = [name for name, _ in load(EXPERIMENT).topology.switches["s1"].ports]
    assert {neighbours[n - 1]: port for n, port in s1.ports.items()} == {
        "s0": 11,
        "h3": 12,
        "h4": 13,
    }
    assert s1.interfaces == {"s0": "tc-up", "h3": "tc-h3", "h4": "tc-h4"}
    assert [s1.port_here(port) for port in s1.ports.values()] == list(s1.ports)
    assert s1.port_here(14) is None


def test_an_address_may_come_from_the_command_line(load, tmp_path: Path) -> None:
    (tmp_path / "ports.yaml").write_text(
        PORTS.replace("    address: p4runtime://127.0.0.1:9559\n", "")
    )
    file = load_devices(tmp_path / "ports.yaml", "192.0.2.1:5000")
    assert file.devices(load(EXPERIMENT))["s1"].address == "192.0.2.1:5000"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("  s1:", "  s7:", "switches.s7: no switch 's7'; valid: s0, s1, s2"),
        ("h4: {port: 13, interface: tc-h4}", "", "switches.s1.ports: no port to h4; valid: one to"),
        ("h4:", "h9:", "switches.s1.ports.h9: no neighbour 'h9'; valid: s0, h3, h4"),
        ("port: 13", "port: 12", "switches.s1.ports.h4.port: 12 is another's, too"),
        ("port: 13", "port: 510", "switches.s1.ports.h4.port: 510; valid: 509 or less"),
        (", interface: tc-h4", "", "ports.h4: no interface; valid: the one here that is cabled to"),
        (
            "interface: tc-h4",
            "dpdk: --no-pci",
            "s1.ports.h4.dpdk: h4 does not only send one session; valid: h0",
        ),
        ("interface: tc-h4", "interface: a, dpdk: b", "ports.h4: interface and dpdk; valid: the"),
        ("tc-h4", "tc-h3", "ports.h4.interface: 'tc-h3' is that of s1, h3, too"),
        ("p4runtime://127.0.0.1:9559", "127.0.0.1", "'127.0.0.1'; valid: p4runtime://HOST:PORT"),
        (
            "    address: p4runtime://127.0.0.1:9559\n",
            "",
            "switches.s1: no address; valid: address:",
        ),
        ("device_id: 7", "device_id: 0", "device_id: 0; valid: 1 or more"),
        ("device_id: 7", "tls: {ca: none.pem}", "none.pem: No such file or directory"),
        ("device_id: 7", "tls: {key: ports.yaml}", "tls: key without certificate; valid: both"),
        ("device_id: 7", "rack: 3", "switches.s1.rack: unknown key; valid: address, device_id"),
        (PORTS, "switches: {}", "switches: {}; valid: at least 1 of them"),
    ],
)
def test_what_does_not_fit_is_refused(said_of, before: str, after: str, said: str) -> None:
    assert said in said_of(PORTS.replace(before, after))


def test_two_devices_are_cabled_to_each_other(said_of) -> None:
    s0 = f"  s0:\n    address: {TCP}\n    device_id: 7\n    ports:\n      s1: {{port: 1}}\n"
    s0 += "      s2: {port: 2, interface: a}\n      h0: {port: 3, interface: b}\n"
    both = PORTS + s0
    assert "switches.s1.ports.s0.interface: 'tc-up', but s0 is a device, too" in said_of(both)
    cabled = both.replace(", interface: tc-up", "")
    assert "switches.s0.device_id: 7 at 127.0.0.1:9559 is s1, too" in said_of(cabled)


@pytest.mark.parametrize("text", ["p4runtime://", "p4runtime://a:0", "p4runtime://a:70000", "a:1"])
def test_an_address_has_host_and_port(text: str) -> None:
    with pytest.raises(ValueError, match="valid: p4runtime://HOST:PORT, or unix:/PATH"):
        grpc_address(text)
    assert grpc_address("p4runtime://[::1]:9559") == "[::1]:9559"
    assert grpc_address("unix:/run/s0.sock") == "unix:/run/s0.sock"


class Rack:
    """A namespace for the lab, and some for switches that are cabled to it by veths."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lab, self.device, self.spine = (
            f"tc-{os.getpid()}-{name}" for name in ("lab", "rack", "spine")
        )
        self.programs: list[subprocess.Popen[bytes]] = []

    def ip(self, *command: str) -> str:
        return subprocess.run(
            ["ip", *command], check=True, capture_output=True, text=True, timeout=30
        ).stdout

    def build(self) -> None:
        for name in (self.lab, self.device, self.spine):
            self.ip("netns", "add", name)
            self.ip("-n", name, "link", "set", "lo", "up")
        for port, name in enumerate(("up", "h3", "h4"), 11):
            self.cable((self.lab, f"tc-{name}"), (self.device, f"port{port}"))

    def cable(self, one: tuple[str, str], other: tuple[str, str]) -> None:
        """A veth pair between two interfaces, each with its namespace; the second is up."""
        self.ip(
            *("-n", one[0], "link", "add", one[1], "type", "veth"),
            *("peer", "name", other[1], "netns", other[0]),
        )
        self.ip("-n", other[0], "link", "set", other[1], "up")

    def build_spine(self) -> None:
        """A second device: cabled to the first one instead of the lab, and to the lab."""
        self.ip("-n", self.lab, "link", "delete", "tc-up")
        self.cable((self.device, "port11"), (self.spine, "port21"))
        self.ip("-n", self.device, "link", "set", "port11", "up")
        self.cable((self.lab, "tc-s2"), (self.spine, "port22"))
        self.cable((self.lab, "tc-h0"), (self.spine, "port23"))
        self.ip("-n", self.lab, "link", "set", "tc-h0", "up")

    def start_switch(self, name: str = "rack", device_id: int = 7, first_port: int = 11) -> None:
        """A tiercast-switch as its operator starts it, without a program."""
        socket = self.folder / f"{name}.sock"
        command = [str(binaries.SWITCH), f"--device-id={device_id}", f"--grpc=unix:{socket}"]
        ports = range(first_port, first_port + 3)
        command += [f"--port={port}=port{port},overhead=-14B" for port in ports]
        namespace = {"rack": self.device, "spine": self.spine}[name]
        self.programs.append(subprocess.Popen(["ip", "netns", "exec", namespace, *command]))
        wait_until(socket.exists, "the switch serves P4Runtime")

    def start_bmv2(self) -> None:
        ports = [f"-i{port}@port{port}" for port in (11, 12, 13)]
        command = bmv2_command(7, f"unix:{self.folder}/rack.sock", *ports)
        self.programs.append(
            subprocess.Popen(
                ["ip", "netns", "exec", self.device, *command], stdout=subprocess.DEVNULL
            )
        )
        wait_until(lambda: (self.folder / "rack.sock").exists(), "the switch serves P4Runtime")

    def command(self, *arguments: str | Path) -> list[str | Path]:
        """Of a run over the rack's switch."""
        run = [ROOT / "tiercast", "run", self.folder / "devices.yaml", "--switch", "p4runtime"]
        run += ["--ports", self.folder / "ports.yaml", "--results", self.folder / "results"]
        return ["ip", "netns", "exec", self.lab, *run, *arguments]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, timeout=120)

    def certify(self) -> None:
        """Certificates of an authority of its own: for the switch, and for the lab."""
        make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        make += ["-nodes", "-days", "2"]
        of_ca = ["-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "subjectAltName=DNS:rack.example"]
        for name, options in (("ca", []), ("rack", of_ca), ("lab", of_ca)):
            files = ["-out", f"{name}.pem", "-keyout", f"{name}.key", "-subj", f"/CN={name}"]
            subprocess.run(
                [*make, *files, *options], cwd=self.folder, check=True, capture_output=True
            )

    def start_tls(self, port: int) -> None:
        """Serves the switch on a port of the lab's loopback, to clients with a certificate."""
        proxy = ["ip", "netns", "exec", self.lab, sys.executable, "-c", TLS_PROXY, str(port)]
        self.programs.append(subprocess.Popen(proxy, cwd=self.folder, stdout=subprocess.PIPE))
        output = self.programs[-1].stdout
        assert output is not None and output.readline() == b"ready\n"

    def links(self) -> list[tuple[str, str, bool]]:
        """The lab's interfaces: name, MAC, whether up."""
        return sorted(
            (one["ifname"], one["address"], "UP" in one["flags"])
            for one in json.loads(self.ip("-n", self.lab, "-json", "link", "show"))
        )

    def remove(self) -> None:
        for program in self.programs:
            program.kill()
            program.wait()
        for name in (self.lab, self.device, self.spine):
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


@pytest.fixture
def rack(tmp_path: Path) -> Iterator[Rack]:
    rack = Rack(tmp_path)
    (tmp_path / "devices.yaml").write_text(EXPERIMENT)
    (tmp_path / "ports.yaml").write_text(PORTS.replace(TCP, f"unix:{tmp_path}/rack.sock"))
    try:
        rack.build()
        yield rack
    finally:
        rack.remove()


@needs_switch
def test_a_device_with_p4runtime_alone_keeps_its_queues(rack: Rack) -> None:
    rack.start_bmv2()
    done = rack.run()
    assert done.returncode in (0, 3), done.stderr
    assert "without tiercast.v1: rates, queues and delays are its own" in done.stdout
    stored = load_run(rack.folder / "results" / "latest")
    counted = stored.rows["port"].filter(pl.col("agent") == "s1")
    assert set(counted["port"]) == {1, 2, 3}
    assert counted.filter(pl.col("link") == "1>3")["left"].max() > 500
    refused = rack.run("--set", "events=[{at: 1s, link: 1-3, rate: 2Mbit/s}]")
    assert refused.returncode == EXIT_FAILED
    assert "1-3, which s1 cannot: it has no tiercast.v1" in refused.stderr


@pytest.mark.alone
def test_a_run_over_a_switch_that_runs_already(rack: Rack) -> None:
    rack.start_switch()
    before = rack.links()
    done = rack.run()
    assert done.returncode in (0, 3), done.stderr
    stored = load_run(rack.folder / "results" / "latest")
    assert stored.summary["switch"] == "p4runtime"
    assert "s1: device 7 at unix:" in done.stdout and "with tiercast.v1" in done.stdout
    joins = stored.rows["controller.igmp"]
    assert {12, 13} <= set(joins.filter(pl.col("switch") == "s1")["port"])  # as the device has them
    ports_of_s1 = stored.rows["port"].filter(pl.col("agent") == "s1")
    assert set(ports_of_s1["port"]) == {1, 2, 3}  # as the experiment has them
    assert rack.links() == before
    skip_if_invalid(stored.summary)
    # The experiment's limit is in force.
    to_h3 = ports_of_s1.filter(pl.col("link") == "1>3").tail(6)
    seconds = to_h3["time_s"][-1] - to_h3["time_s"][0]
    rate = 8 * (to_h3["tx_bytes"][-1] - to_h3["tx_bytes"][0]) / seconds
    assert 0.5e6 < rate <= 1.02e6


@pytest.mark.parametrize(
    "start",
    [
        Rack.start_switch,
        pytest.param(Rack.start_bmv2, marks=needs_switch),
    ],
)
def test_a_device_that_its_operator_starts_again_is_served_again(
    rack: Rack, start: Callable[[Rack], None]
) -> None:
    start(rack)
    run = subprocess.Popen(
        rack.command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    wait_for_second(run, 5)
    rack.programs[-1].kill()
    rack.programs[-1].wait()
    (rack.folder / "rack.sock").unlink()
    start(rack)
    out, error = run.communicate(timeout=60)
    assert (run.returncode, error) == (3, ""), out + error
    stored = load_run(rack.folder / "results" / "latest")
    (away,) = stored.summary["switches_away"]
    assert away["switch"] == "s1" and away["restarted"]
    counted = stored.rows["port"].filter(
        (pl.col("link") == "1>3") & (pl.col("time_s") > away["to_s"] + 1)
    )
    assert counted["left"].max() - counted["left"].min() > 100


@pytest.mark.alone
def test_two_devices_and_a_sender_on_a_dpdk_port(rack: Rack) -> None:
    file = rack.folder / "ports.yaml"
    two = TWO.replace(TCP, f"unix:{rack.folder}/rack.sock")
    file.write_text(two.replace("SPINE", f"{rack.folder}/spine.sock"))
    rack.build_spine()
    rack.start_switch()
    rack.start_switch("spine", 3, 21)
    before = rack.links()
    done = rack.run()
    assert done.returncode in (0, 3), done.stderr
    stored = load_run(rack.folder / "results" / "latest")
    assert "s1: device 7 at unix:" in done.stdout and "s0: device 3 at unix:" in done.stdout
    assert rack.links() == before
    skip_if_invalid(stored.summary)
    # h3 is behind both devices and h5 behind one, and the lab's switch; each gets what the sender
    # sends, which hears of both.
    last = stored.rows["received"].group_by("agent").last()
    assert set(last.filter(pl.col("bytes") > 500_000)["agent"]) == {"h3", "h4", "h5", "h6"}
    cable = stored.rows["port"].filter(pl.col("link") == "0>1").tail(6)
    seconds = cable["time_s"][-1] - cable["time_s"][0]
    assert 8 * (cable["tx_bytes"][-1] - cable["tx_bytes"][0]) / seconds > 0.5e6
    assert stored.rows["feedback"]["refused"].max() == 0


def test_over_tls_with_a_role(rack: Rack) -> None:
    rack.start_switch()
    rack.certify()
    rack.start_tls(9559)
    ports = PORTS.replace("device_id: 7", "device_id: 7\n    role: lab\n    tls: TLS")
    file = rack.folder / "ports.yaml"
    keys = "{ca: ca.pem, certificate: lab.pem, key: lab.key, server_name: rack.example}"
    file.write_text(ports.replace("TLS", keys))
    done = rack.run("--duration", "7s", "--set", "measure.last=3s")
    assert done.returncode in (0, 3), done.stderr
    assert "s1: device 7 at 127.0.0.1:9559" in done.stdout
    file.write_text(ports.replace("TLS", "{ca: ca.pem, server_name: rack.example}"))
    refused = rack.run("--duration", "7s", "--set", "measure.last=3s")
    assert refused.returncode == EXIT_FAILED
    assert "s1: no answer on 127.0.0.1:9559 within" in refused.stderr


def test_the_interfaces_come_back_after_an_interrupt(rack: Rack) -> None:
    rack.start_switch()
    before = rack.links()
    run = subprocess.Popen(rack.command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        wait_until(lambda: len(rack.links()) < len(before), "the interfaces are borrowed")
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=60)
    finally:
        run.kill()
    assert run.returncode == EXIT_INTERRUPTED
    assert rack.links() == before


def test_the_interfaces_come_back_after_a_kill(rack: Rack) -> None:
    rack.start_switch()
    before = rack.links()
    run = subprocess.Popen(rack.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: len(rack.links()) == len(before) - 3, "the interfaces are borrowed")
    finally:
        run.kill()  # `ip netns exec` has become the lab
        run.wait()
    wait_until(lambda: rack.links() == before, "the interfaces are back")


def test_what_the_machine_or_the_device_lacks_is_said(rack: Rack) -> None:
    file = rack.folder / "ports.yaml"
    rack.ip("-n", rack.lab, "address", "add", "192.0.2.9/24", "dev", "tc-h3")
    used = rack.run()
    assert used.returncode == EXIT_INPUT
    assert "port to h3: interface 'tc-h3' has the address 192.0.2.9" in used.stderr
    rack.ip("-n", rack.lab, "address", "flush", "dev", "tc-h3")
    file.write_text(file.read_text().replace("tc-h4", "tc-h5"))
    missing = rack.run()
    assert missing.returncode == EXIT_INPUT
    assert "interface 'tc-h5' is not here; valid: tc-up, tc-h3, tc-h4" in missing.stderr
    file.write_text(file.read_text().replace("tc-h5", "tc-h4").replace("port: 13", "port: 14"))
    rack.start_switch()
    before = rack.links()
    no_port = rack.run()
    assert no_port.returncode == EXIT_FAILED
    assert "has no port 14; valid: 11, 12, 13" in no_port.stderr
    assert rack.links() == before
    captured = rack.run("--capture", "1-3")
    assert captured.returncode == EXIT_INPUT
    assert "--capture 3>1: s1 was not started here" in captured.stderr
