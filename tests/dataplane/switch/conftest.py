"""A tiercast-switch on veths in the test's own namespaces, and tools to drive it."""

import contextlib
import itertools
import os
import queue
import re
import select
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest
from google.protobuf import text_format
from google.rpc import code_pb2, status_pb2
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2 as p4
from p4.v1 import p4runtime_pb2_grpc
from tiercast.v1 import lab_pb2, lab_pb2_grpc

from ...bmv2 import HAS_SWITCH, bmv2_command
from ...checkout import BUILD, ROOT
from ...namespaces import Namespaces, command_in, inside
from ...patience import PATIENCE_S, wait_until

BINARY = BUILD / "dataplane/switch/tiercast-switch"
COMPILED = ROOT / "p4src/compiled"
JSON = COMPILED / "tiercast.json"
P4INFO = COMPILED / "tiercast.p4info.txtpb"
# Sends every frame to port 1 and rewrites only bytes 2 and 3.
PROGRAMS = ROOT / "tests/data/p4"
TO_PORT_1 = PROGRAMS / "again.json"
SWITCHES = ["tiercast"] + (["bmv2"] if HAS_SWITCH else [])

SO_RCVBUFFORCE = 33
SO_TIMESTAMPNS = 35
ETH_P_ALL = 3
PACKET_AUXDATA = 8
PACKET_IGNORE_OUTGOING = 23
TP_STATUS_VLAN_VALID = 1 << 4
SOL_PACKET = 263
HOST_PORTS = 4


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@dataclass(frozen=True)
class Frame:
    data: bytes
    time_ns: int  # CLOCK_REALTIME, stamped by the kernel
    outer_tag: int | None  # VLAN tag that the kernel took out of data: TPID << 16 | TCI


class HostPort:
    """The far end of a switch port: a raw socket."""

    def __init__(self, namespace: str, interface: str) -> None:
        with inside(namespace):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        self.socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        # If this process is late, all frames of a flood wait here; SO_RCVBUF is limited by
        # rmem_max.
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
        self.socket.bind((interface, ETH_P_ALL))

    def send(self, frame: bytes) -> int:
        """Sends a frame. Returns CLOCK_REALTIME just before."""
        now = time.time_ns()
        self.socket.send(frame)
        return now

    def receive(self, count: int, timeout: float = PATIENCE_S) -> list[Frame]:
        """Up to `count` frames; fewer if nothing arrives for `timeout` seconds. A test that gives a
        timeout expects nothing more to arrive."""
        self.socket.settimeout(timeout)
        frames: list[Frame] = []
        while len(frames) < count:
            try:
                data, items, _, _ = self.socket.recvmsg(65536, 128)
            except TimeoutError:
                break
            ancillary = {(level, kind): value for level, kind, value in items}
            stamp = ancillary[socket.SOL_SOCKET, SO_TIMESTAMPNS]
            seconds, nanoseconds = struct.unpack("qq", stamp)
            aux = ancillary[SOL_PACKET, PACKET_AUXDATA]
            status, _, _, _, _, tci, tpid = struct.unpack("IIIHHHH", aux)
            tag = tpid << 16 | tci if status & TP_STATUS_VLAN_VALID else None
            frames.append(Frame(data, seconds * 10**9 + nanoseconds, tag))
        return frames

    def drain(self) -> None:
        self.receive(1 << 30, timeout=0.05)


def receive_anywhere(ports: dict[int, HostPort], count: int) -> list[int]:
    """The ports by which `count` frames came, in the order of the frames' numbers."""
    came: list[int] = []
    by_socket = {port.socket: number for number, port in ports.items()}
    while len(came) < count:
        readable = select.select(list(by_socket), [], [], PATIENCE_S)[0]
        assert readable, f"{len(came)} of {count} frames came"
        for socket_ in readable:
            socket_.recv(65536)
            came.append(by_socket[socket_])
    return sorted(came)


class Network:
    """A namespace with the switch's p1..p4, and one with their far ends h1..h4."""

    def __init__(self) -> None:
        self.namespaces = Namespaces("switch", "hosts")
        self.switch, self.hosts = self.namespaces["switch"], self.namespaces["hosts"]
        try:
            for number in range(1, HOST_PORTS + 1):
                self.namespaces.join("switch", f"p{number}", "hosts", f"h{number}")
            self.ports = {n: HostPort(self.hosts, f"h{n}") for n in range(1, HOST_PORTS + 1)}
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for port in getattr(self, "ports", {}).values():
            port.socket.close()
        self.namespaces.close()


def tiercast_command(device_id: int, address: str, *arguments: str) -> list[str]:
    # Real-time priority as in the lab: other work on the machine must not delay packets.
    return ["chrt", "--rr", "10", str(BINARY), "--device-id", str(device_id), "--grpc", address,
            *arguments]  # fmt: skip


class SwitchProcess:
    """A running switch: tiercast-switch, or the program in `command`."""

    def __init__(self, network: Network, directory: Path, *arguments: str, device_id: int = 1,
                 path: Path | None = None, command=tiercast_command) -> None:  # fmt: skip
        self.path = path or directory / "switch.sock"
        self.address = f"unix:{self.path}"
        self.log_path = directory / "switch.log"
        self.log = self.log_path.open("w")
        self.process = subprocess.Popen(
            command_in(network.switch, *command(device_id, self.address, *arguments)),
            stderr=self.log,
            stdout=self.log,
        )
        # Retry at once: the switch needs some milliseconds until it listens.
        backoff = [(f"grpc.{kind}_reconnect_backoff_ms", 20) for kind in ("initial", "max")]
        self.channel = grpc.insecure_channel(self.address, options=backoff)
        ready = grpc.channel_ready_future(self.channel)
        with contextlib.suppress(AssertionError):
            wait_until(lambda: ready.done() or self.process.poll() is not None, "an answer or end")
        if not ready.done():
            self.process.kill()
            pytest.fail(f"the switch did not listen:\n{self.log_path.read_text()}")
        self.p4runtime = p4runtime_pb2_grpc.P4RuntimeStub(self.channel)
        self.lab = lab_pb2_grpc.SwitchStub(self.channel)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ends the switch. Returns its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            status = self.process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        self.channel.close()
        self.log.close()
        return status


def connect(address: str) -> SimpleNamespace:
    """Another switch of the same process, with what a Controller needs of it."""
    channel = grpc.insecure_channel(address)
    grpc.channel_ready_future(channel).result(timeout=PATIENCE_S)
    return SimpleNamespace(channel=channel, p4runtime=p4runtime_pb2_grpc.P4RuntimeStub(channel))


class Controller:
    """A StreamChannel, and the requests made by its owner."""

    def __init__(self, switch: SwitchProcess, election_id: int | None = 1, device_id: int = 1,
                 role: str = "") -> None:  # fmt: skip
        self.stub = switch.p4runtime
        self.device_id, self.role = device_id, role
        self.election_id = p4.Uint128(low=election_id) if election_id is not None else None
        self.outgoing: queue.Queue = queue.Queue()
        self.incoming: queue.Queue = queue.Queue()
        self.reading = threading.Event()
        self.reading.set()
        self.call = self.stub.StreamChannel(iter(self.outgoing.get, None))
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.arbitrate(self.election_id)

    def _read(self) -> None:
        try:
            for message in self.call:
                self.incoming.put(message)
                if not self.reading.is_set():
                    return
        except grpc.RpcError as error:
            self.incoming.put(error)

    def arbitrate(self, election_id: p4.Uint128 | None) -> None:
        update = p4.MasterArbitrationUpdate(device_id=self.device_id)
        if self.role:
            update.role.name = self.role
        if election_id is not None:
            update.election_id.CopyFrom(election_id)
        self.outgoing.put(p4.StreamMessageRequest(arbitration=update))

    def next(self, timeout: float = PATIENCE_S):
        """The next stream message, or the RpcError that ended the stream."""
        return self.incoming.get(timeout=timeout)

    def stop_reading(self) -> None:
        """At most one more message is taken from the stream."""
        self.reading.clear()

    def arbitration_code(self) -> int:
        message = self.next()
        assert message.HasField("arbitration"), message
        return message.arbitration.status.code

    def close(self) -> None:
        self.outgoing.put(None)
        self.call.cancel()
        self.reader.join(timeout=PATIENCE_S)

    def write(self, *updates: p4.Update) -> None:
        self.stub.Write(p4.WriteRequest(device_id=self.device_id, role=self.role,
                                        election_id=self.election_id, updates=updates))  # fmt: skip

    def insert(self, *entities: p4.Entity) -> None:
        self.write(*(p4.Update(type=p4.Update.INSERT, entity=entity) for entity in entities))

    def modify(self, *entities: p4.Entity) -> None:
        self.write(*(p4.Update(type=p4.Update.MODIFY, entity=entity) for entity in entities))

    def read(self, *entities: p4.Entity) -> list[p4.Entity]:
        request = p4.ReadRequest(device_id=self.device_id, entities=entities)
        return [entity for response in self.stub.Read(request) for entity in response.entities]

    def set_pipeline(self, action: int, config: p4.ForwardingPipelineConfig | None) -> None:
        self.stub.SetForwardingPipelineConfig(
            p4.SetForwardingPipelineConfigRequest(
                device_id=self.device_id, election_id=self.election_id, action=action,
                config=config))  # fmt: skip


class P4Info:
    """Entities of the compiled program, by name."""

    def __init__(self) -> None:
        self.message = text_format.Parse(P4INFO.read_text(), p4info_pb2.P4Info())
        self.ids = {
            item.preamble.name: item.preamble.id
            for kind in ("tables", "actions", "counters", "registers")
            for item in getattr(self.message, kind)
        }

    def config(self, json: bytes | None = None, cookie: int = 7) -> p4.ForwardingPipelineConfig:
        config = p4.ForwardingPipelineConfig(
            p4info=self.message, p4_device_config=JSON.read_bytes() if json is None else json
        )
        config.cookie.cookie = cookie
        return config

    def entry(self, table: str, match: dict[int, bytes], action: str, *arguments: bytes):
        entry = p4.TableEntry(table_id=self.ids[table])
        for field, value in match.items():
            entry.match.add(field_id=field).exact.value = value
        entry.action.action.action_id = self.ids[action]
        for number, value in enumerate(arguments, 1):
            entry.action.action.params.add(param_id=number, value=value)
        return p4.Entity(table_entry=entry)

    def host(self, address: str, port: int, mac: bytes) -> p4.Entity:
        return self.entry("ipv4_host", {1: socket.inet_aton(address)}, "forward",
                          bytes([port]), mac.lstrip(b"\0") or b"\0")  # fmt: skip

    def hosts(self) -> p4.Entity:
        """An entity that selects every host."""
        return p4.Entity(table_entry=p4.TableEntry(table_id=self.ids["ipv4_host"]))

    def counter(self, name: str, index: int | None = None) -> p4.Entity:
        entry = p4.CounterEntry(counter_id=self.ids[name])
        if index is not None:
            entry.index.index = index
        return p4.Entity(counter_entry=entry)

    def register(self, name: str, index: int, value: bytes | None = None) -> p4.Entity:
        entry = p4.RegisterEntry(register_id=self.ids[name])
        entry.index.index = index
        if value is not None:
            entry.data.bitstring = value
        return p4.Entity(register_entry=entry)

    @staticmethod
    def group(number: int, *ports: int) -> p4.Entity:
        entity = p4.Entity()
        group = entity.packet_replication_engine_entry.multicast_group_entry
        group.multicast_group_id = number
        for port in ports:
            group.replicas.add(egress_port=port, instance=1)
        return entity


def batch_codes(error: grpc.RpcError) -> list[int]:
    """The canonical codes of the updates in a failed batch."""
    details = dict(error.trailing_metadata())["grpc-status-details-bin"]
    codes = []
    for item in status_pb2.Status.FromString(details).details:
        one = p4.Error()
        assert item.Unpack(one)
        codes.append(one.canonical_code)
    return codes


class Peer:
    """A switch with a program of tests/data/p4, and its primary."""

    def __init__(self, process: SwitchProcess, election_id: int, program: str) -> None:
        self.kind = process.kind
        self.stub = process.p4runtime
        self.controller = Controller(process, election_id)
        assert self.controller.arbitration_code() == 0
        text = (PROGRAMS / f"{program}.p4info.txtpb").read_text()
        self.config = p4.ForwardingPipelineConfig(
            p4info=text_format.Parse(text, p4info_pb2.P4Info()),
            p4_device_config=(PROGRAMS / f"{program}.json").read_bytes(),
        )
        self.ids = {
            item.preamble.alias: item.preamble.id
            for field, kind in self.config.p4info.ListFields()
            if "preamble" in field.message_type.fields_by_name
            for item in kind
        }
        self.controller.set_pipeline(p4.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
                                     self.config)  # fmt: skip

    def close(self) -> None:
        # bmv2 keeps groups and sessions over a new pipeline config.
        for kind in ("multicast_group_entry", "clone_session_entry"):
            found = self.controller.read(
                self.entity(f"packet_replication_engine_entry {{ {kind} {{ }} }}")
            )
            self.controller.write(
                *(p4.Update(type=p4.Update.DELETE, entity=each) for each in found)
            )
        self.controller.close()

    def entity(self, text: str) -> p4.Entity:
        with_ids = re.sub(r"\$(\w+)", lambda match: str(self.ids[match[1]]), text)
        return text_format.Parse(with_ids, p4.Entity())

    def do(self, step: str) -> str:
        verb, _, text = step.partition(" ")
        try:
            if verb == "READ":
                return str(len(self.controller.read(self.entity(text))))
            update = p4.Update(type=getattr(p4.Update, verb), entity=self.entity(text))
            self.controller.write(update)
        except grpc.RpcError as error:
            return code_of(error)
        return "OK"


def code_of(error: grpc.RpcError) -> str:
    """The code of the only update or entity, wherever the error contains it."""
    codes = batch_code_names(error)
    return codes[0] if codes else error.code().name


def batch_code_names(error: grpc.RpcError) -> list[str]:
    """The code of each update or entity; empty if the request was refused as a whole."""
    if "grpc-status-details-bin" not in dict(error.trailing_metadata()):
        return []
    return [code_pb2.Code.Name(code) for code in batch_codes(error)]


@pytest.fixture(scope="session", autouse=True)
def root_and_binary() -> None:
    if os.geteuid() != 0:
        pytest.fail("these tests make network namespaces and packet sockets: run them as root")
    if not BINARY.exists():
        pytest.fail(f"{BINARY} does not exist: run `make build`, or set TIERCAST_BUILD")


@pytest.fixture(scope="session")
def p4info() -> P4Info:
    return P4Info()


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    made = Network()
    yield made
    made.close()


@pytest.fixture
def start(network: Network, tmp_path: Path) -> Iterator:
    """start(*arguments) runs a switch. All of them are ended with the test."""
    started: list[SwitchProcess] = []

    def make(*arguments: str, **options) -> SwitchProcess:
        directory = tmp_path / str(len(started))
        directory.mkdir()
        started.append(SwitchProcess(network, directory, *arguments, **options))
        return started[-1]

    yield make
    for switch in started:
        switch.stop()
    for port in network.ports.values():
        port.drain()


@pytest.fixture
def controller_of() -> Iterator:
    """controller_of(switch) is its primary."""
    made: list[Controller] = []

    def of(switch: SwitchProcess) -> Controller:
        made.append(Controller(switch))
        assert made[-1].arbitration_code() == 0
        return made[-1]

    yield of
    for controller in made:
        controller.close()


@pytest.fixture
def controller(switch, controller_of) -> Controller:
    """The primary of the module's `switch`."""
    return controller_of(switch)


@pytest.fixture(scope="module", params=SWITCHES)
def process(request, network, tmp_path_factory):
    """tiercast-switch and, where it is installed, bmv2: two ports, no program."""
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "bmv2":
        arguments = ("-i", "1@p1", "-i", "2@p2")
        started = SwitchProcess(network, directory, *arguments, command=bmv2_command)
    else:
        arguments = ("--port", "1=p1", "--port", "2=p2")
        started = SwitchProcess(network, directory, *arguments)
    started.kind = request.param
    yield started
    started.stop()


_election_ids = itertools.count(1)


@pytest.fixture
def make_peer(process):
    """make_peer(program) gives the switch a program of tests/data/p4."""
    made: list[Peer] = []

    def make(program: str) -> Peer:
        made.append(Peer(process, next(_election_ids), program))
        return made[-1]

    yield make
    for peer in made:
        peer.close()


PROGRAM = ("--json", str(JSON), "--p4info", str(P4INFO))


@pytest.fixture
def program() -> tuple[str, ...]:
    return PROGRAM


@pytest.fixture(scope="session")
def tools():
    """The names above that tests need (test modules cannot import a conftest)."""
    return SimpleNamespace(
        Controller=Controller, batch_codes=batch_codes, BINARY=BINARY, PROGRAMS=PROGRAMS,
        TO_PORT_1=TO_PORT_1, SwitchProcess=SwitchProcess, Peer=Peer, inside=inside,
        P4Info=P4Info, connect=connect, lab=lab_pb2, receive_anywhere=receive_anywhere,
    )  # fmt: skip
