"""Running switches, tiercast-switch and bmv2, on veths in namespaces that the tests make."""

import contextlib
import os
import queue
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import grpc
import pytest
from p4.v1 import p4runtime_pb2 as p4
from p4.v1 import p4runtime_pb2_grpc
from tiercast.v1 import lab_pb2, lab_pb2_grpc
from tiercast_controller.p4runtime.entities import entry
from tiercast_controller.p4runtime.program import Program

from .. import bmv2
from ..checkout import BUILD, ROOT
from ..namespaces import Namespaces, command_in, inside
from ..patience import PATIENCE_S, wait_until

TIERCAST = BUILD / "dataplane/switch/tiercast-switch"
PORTS = (1, 2, 3, 4)
SLOW_PORT = 4  # 100 packets of 1000 bytes per second
CPU_PORT = 510
BMV2_GAP_S = 0.0003  # the slow link needs 10 ms for each
ETH_P_ALL, SOL_PACKET, PACKET_IGNORE_OUTGOING = 3, 263, 23

_missing = [name for name in (bmv2.SWITCH, bmv2.CLI) if shutil.which(name) is None]
_deselected: list[str] = []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects tests on bmv2 if it is not installed, and names them in the summary."""
    if not _missing:
        return
    left_out = [i for i in items if "bmv2" in getattr(i, "fixturenames", ()) or "[bmv2" in i.name]
    left_out = [i for i in left_out if Path(i.fspath).parent == Path(__file__).parent]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        _deselected.extend(item.nodeid for item in left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _deselected:
        terminalreporter.write_line(
            f"p4src: {len(_deselected)} tests on bmv2 deselected; not in PATH: "
            f"{', '.join(_missing)}"
        )


def run(*command: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run(command, check=True, capture_output=True, text=True, **options)


class Network:
    """Ports 1 to 4 of a switch, on veths between two namespaces, with sockets at their far ends."""

    def __init__(self) -> None:
        self.namespaces = Namespaces("switch", "hosts")
        self.inner, self.outer = self.namespaces["switch"], self.namespaces["hosts"]
        self.sockets: dict[int, socket.socket] = {}

    def make(self) -> None:
        for port in PORTS:
            self.namespaces.join("switch", f"p{port}", "hosts", f"h{port}")
            with inside(self.outer):
                made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            made.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
            made.bind((f"h{port}", ETH_P_ALL))
            self.sockets[port] = made

    def close(self) -> None:
        for made in self.sockets.values():
            made.close()
        self.namespaces.close()

    def only(self, port: int) -> bytes:
        """The only frame that arrives."""
        (frame,) = self.receive(port, 1)
        assert self.receive(port, 1, timeout=0.2) == []
        return frame

    def send(self, port: int, *frames: bytes) -> None:
        for frame in frames:
            self.sockets[port].send(frame)

    def receive(self, port: int, count: int, timeout: float = PATIENCE_S) -> list[bytes]:
        """Up to `count` frames; fewer if none arrives for `timeout` seconds. A test that gives a
        timeout expects nothing more to arrive."""
        frames: list[bytes] = []
        self.sockets[port].settimeout(timeout)
        with contextlib.suppress(TimeoutError):
            while len(frames) < count:
                frames.append(self.sockets[port].recv(65536))
        return frames

    def inside_switch(self, *command: str, **options) -> subprocess.CompletedProcess:
        """Runs a program in the switch's namespace."""
        return subprocess.run(
            command_in(self.inner, *command), capture_output=True, text=True, **options
        )

    def start(self, command: list[str], log) -> subprocess.Popen:
        return subprocess.Popen(command_in(self.inner, *command), stdout=log, stderr=log)


def cli(network: Network, program: str, commands: str) -> str:
    """What bmv2's command line prints. Retries until its Thrift server is up."""
    for _ in range(50):
        done = network.inside_switch(program, "--thrift-port", "9090", input=commands)
        if done.returncode == 0 and "Could not connect" not in done.stdout + done.stderr:
            break
        time.sleep(0.1)
    assert done.returncode == 0 and "Error" not in done.stdout, f"{done.stdout}{done.stderr}"
    assert "Invalid" not in done.stdout, done.stdout
    return done.stdout


class PsaSwitch(Network):
    """bmv2's psa_switch with the PSA program. Entries are set with its command line."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.process: subprocess.Popen | None = None
        self.log = (directory / "psa_switch.log").open("w")
        try:
            self.make()
            # By default all psa_switches of the machine have one socket for notifications.
            notifications = f"ipc://{directory / 'notifications.ipc'}"
            command = [bmv2.PSA_SWITCH, "--thrift-port", "9090"]
            command += ["--notifications-addr", notifications]
            for port in PORTS:
                command += ["-i", f"{port}@p{port}"]
            self.process = self.start(
                [*command, str(ROOT / "p4src/compiled/tiercast_psa.json")], self.log
            )
            self.cli("set_queue_depth 1000")
        except BaseException:
            self.close()
            raise

    def cli(self, *commands: str) -> str:
        return cli(self, bmv2.PSA_CLI, "\n".join(commands) + "\n")

    def register(self, name: str, index: int) -> int:
        return int(self.cli(f"register_read {name} {index}").rpartition("=")[2].split()[0])

    def close(self) -> None:
        if self.process is not None:
            stop(self.process)
        self.log.close()
        super().close()


def stop(process: subprocess.Popen) -> None:
    process.terminate()
    try:
        process.wait(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class RunningSwitch(Network):
    """A switch with the program loaded. Port 4 is slow and has a queue of 100 packets. options: the
    switch's own."""

    def __init__(
        self, kind: str, directory: Path, program: str = "tiercast", options: Iterable[str] = ()
    ) -> None:
        super().__init__()
        self.kind = kind
        compiled = ROOT / "p4src/compiled"
        self.program = Program.load(
            compiled / f"{program}.json", compiled / f"{program}.p4info.txtpb"
        )
        self.options = list(options)
        self.process: subprocess.Popen | None = None
        self.outgoing: queue.Queue = queue.Queue()
        self.packet_ins: queue.Queue = queue.Queue()
        try:
            self.make()
            self._start(directory)
            self._load()
        except BaseException:
            self.close()
            raise

    def _start(self, directory: Path) -> None:
        path = directory / "switch.sock"
        address = f"unix:{path}"
        if self.kind == "bmv2":
            command = [bmv2.SWITCH, "--device-id", "1", "--no-p4", "--thrift-port", "9090"]
            for port in PORTS:
                command += ["-i", f"{port}@p{port}"]
            command += ["--", "--grpc-server-addr", address, "--cpu-port", str(CPU_PORT)]
            command += self.options
        else:
            command = [str(TIERCAST), "--device-id", "1", "--grpc", address, *self.options]
            for port in PORTS:
                slow = ",rate=800kbit/s,queue=100p,overhead=-14B" if port == SLOW_PORT else ""
                command += ["--port", f"{port}=p{port}{slow}"]
        self.log = (directory / "switch.log").open("w")
        self.process = self.start(command, self.log)
        backoff = [(f"grpc.{kind}_reconnect_backoff_ms", 20) for kind in ("initial", "max")]
        self.channel = grpc.insecure_channel(address, options=backoff)
        grpc.channel_ready_future(self.channel).result(timeout=PATIENCE_S)
        self.lab = lab_pb2_grpc.SwitchStub(self.channel)
        if self.kind == "bmv2":
            limits = f"set_queue_depth 100 {SLOW_PORT}\nset_queue_rate 100 {SLOW_PORT}\n"
            cli(self, bmv2.CLI, limits)

    def _load(self) -> None:
        self.stub = p4runtime_pb2_grpc.P4RuntimeStub(self.channel)
        self.election = p4.Uint128(low=1)
        self.stream = self.stub.StreamChannel(iter(self.outgoing.get, None))
        arbitration = p4.StreamMessageRequest()
        arbitration.arbitration.device_id = 1
        arbitration.arbitration.election_id.CopyFrom(self.election)
        self.outgoing.put(arbitration)
        assert next(iter(self.stream)).arbitration.status.code == 0
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        request = p4.SetForwardingPipelineConfigRequest(
            device_id=1,
            election_id=self.election,
            action=p4.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
        )
        request.config.p4info.CopyFrom(self.program.p4info)
        request.config.p4_device_config = self.program.device_config
        self.stub.SetForwardingPipelineConfig(request, timeout=PATIENCE_S)
        session = p4.Entity()
        clone = session.packet_replication_engine_entry.clone_session_entry
        clone.session_id = 1
        clone.replicas.add(egress_port=CPU_PORT, instance=1)
        self.write(p4.Update.INSERT, session)

    def _read(self) -> None:
        with contextlib.suppress(grpc.RpcError):
            for message in self.stream:
                if message.HasField("packet"):
                    self.packet_ins.put(message.packet)

    def close(self) -> None:
        self.outgoing.put(None)
        if self.process is not None:
            stop(self.process)
            self.channel.close()
            self.log.close()
        super().close()

    # Entries.

    def write(self, kind: int, entity: p4.Entity) -> None:
        update = p4.Update(type=kind, entity=entity)
        request = p4.WriteRequest(device_id=1, election_id=self.election, updates=[update])
        self.stub.Write(request, timeout=PATIENCE_S)

    def entity(self, table: str, match: dict, action: str, params: dict | None = None) -> p4.Entity:
        return p4.Entity(table_entry=self.program.encode_entry(entry(table, match, action, params)))

    def insert(self, table: str, match: dict, action: str, params: dict | None = None) -> None:
        self.write(p4.Update.INSERT, self.entity(table, match, action, params))

    @contextlib.contextmanager
    def policy(self, action: str, **params: int) -> Iterator[None]:
        """While entered, the slow port has this policy for congestion."""
        made = self.entity("port_marking", {"egress_port": SLOW_PORT}, action, params)
        self.write(p4.Update.INSERT, made)
        try:
            yield
        finally:
            self.write(p4.Update.DELETE, made)

    def burst(self, frames: list[bytes]) -> None:
        """Sends frames into port 2 for the slow port. In tiercast-switch all of them have arrived
        before a second one leaves, however slowly they are sent, because its link stands still in
        the meantime. bmv2's link cannot stand still, and bmv2 loses frames that come faster than
        this before its program sees them."""
        if self.kind == "bmv2":
            for frame in frames:
                self.send(2, frame)
                time.sleep(BMV2_GAP_S)
            return
        before = self._received(2)
        self._set_rate(8)  # bit/s
        self.send(2, *frames)
        wait_until(lambda: self._received(2) == before + len(frames), "all have come")
        self._set_rate(800_000)

    def _received(self, port: int) -> int:
        stats = self.lab.GetPorts(lab_pb2.GetPortsRequest(), timeout=PATIENCE_S).ports
        return next(one.rx_packets for one in stats if one.port == port)

    def _set_rate(self, rate_bps: int) -> None:
        request = lab_pb2.SetLinkRequest(port=SLOW_PORT, rate_bps=rate_bps)
        self.lab.SetLink(request, timeout=PATIENCE_S)

    def packet_out(self, port: int, frame: bytes) -> None:
        message = self.program.encode_packet_out(frame, egress_port=port)
        self.outgoing.put(p4.StreamMessageRequest(packet=message))

    def packet_in(self, timeout: float = PATIENCE_S) -> tuple[int, bytes] | None:
        """The next frame for the controller and the port where it came in; None if there is
        none."""
        try:
            packet = self.packet_ins.get(timeout=timeout)
        except queue.Empty:
            return None
        return self.program.decode_packet_in(packet)["ingress_port"], packet.payload

    def replicate(self, group: int, mgid: int, ports: tuple[int, ...]) -> None:
        self._make_group(mgid, ports)
        self.insert("ipv4_multicast", {"hdr.ipv4.dst_addr": group}, "replicate", {"mgid": mgid})

    def replicate_from(
        self, group: int, mgid: int, ports: tuple[int, ...], *, source: int, port: int, former: int
    ) -> None:
        """Only packets of `source` through one of two ports."""
        self._make_group(mgid, ports)
        values = {"mgid": mgid, "only_source": source, "port": port, "former": former}
        self.insert("ipv4_multicast", {"hdr.ipv4.dst_addr": group}, "replicate_from", values)

    def limit_igmp(self, port: int, rate_per_s: int, burst: int) -> None:
        """A rate of 0: as much as comes."""
        entity = p4.Entity()
        metered = entity.meter_entry
        metered.meter_id = self.program.meter_id("igmp_meter")
        metered.index.index = port
        if rate_per_s:
            metered.config.cir = metered.config.pir = rate_per_s
            metered.config.cburst = metered.config.pburst = burst
        self.write(p4.Update.MODIFY, entity)

    def _make_group(self, mgid: int, ports: tuple[int, ...]) -> None:
        entity = p4.Entity()
        made = entity.packet_replication_engine_entry.multicast_group_entry
        made.multicast_group_id = mgid
        for port in ports:
            made.replicas.add(egress_port=port, instance=1)
        self.write(p4.Update.INSERT, entity)

    def counters(self, name: str, indices: Iterable[int]) -> list[int]:
        """Packets."""
        request = p4.ReadRequest(device_id=1)
        for index in indices:
            wanted = request.entities.add().counter_entry
            wanted.counter_id = self.program.counter_id(name)
            wanted.index.index = index
        return [
            entity.counter_entry.data.packet_count
            for answer in self.stub.Read(request, timeout=PATIENCE_S)
            for entity in answer.entities
        ]

    def counter(self, name: str, index: int) -> int:
        """Packets."""
        (packets,) = self.counters(name, [index])
        return packets

    def ingress(self, port: int) -> list[int]:
        """Packets by fate (docs/p4.md, "Fates")."""
        return self.counters("ingress_fates", range(port, 10 * 512, 512))

    def egress(self, column: int) -> list[int]:
        """Packets by fate."""
        return self.counters("egress_fates", range(column, 4 * 33280, 33280))


@pytest.fixture(scope="module", params=["tiercast-switch", "bmv2"])
def switch(request: pytest.FixtureRequest, tmp_path_factory) -> Iterator[RunningSwitch]:
    require_root()
    made = RunningSwitch(request.param, tmp_path_factory.mktemp("switch"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def psa_on_tiercast(tmp_path_factory) -> Iterator[RunningSwitch]:
    """tiercast-switch with the PSA program, to which it tells the depth of its queues."""
    require_root()
    made = RunningSwitch(
        "tiercast-switch",
        tmp_path_factory.mktemp("psa"),
        "tiercast_psa",
        ["--depth-register", "queue_depth"],
    )
    yield made
    made.close()


@pytest.fixture(scope="module")
def psa_switch(tmp_path_factory) -> Iterator[PsaSwitch]:
    missing = [name for name in (bmv2.PSA_SWITCH, bmv2.PSA_CLI) if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not in PATH: {', '.join(missing)} (bmv2's)")
    require_root()
    made = PsaSwitch(tmp_path_factory.mktemp("psa_switch"))
    yield made
    made.close()


def require_root() -> None:
    if os.geteuid() != 0:
        pytest.fail("these tests make network namespaces and packet sockets: run them as root")
