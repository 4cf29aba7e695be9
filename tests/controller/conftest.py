"""What the controller's tests share: the tree of figure 1, IGMP frames, and an in-process P4Runtime
server that enforces the standard's rules, so that the client is tested against each of them."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path

import grpc
import pytest
from google.rpc import code_pb2, status_pb2
from p4.v1 import p4runtime_pb2 as p4
from p4.v1 import p4runtime_pb2_grpc
from scapy.all import IP, Ether
from scapy.layers.igmp import IGMP, IGMPv3_MR, IGMPv3_MR_Group
from tiercast.v1 import lab_pb2, lab_pb2_grpc, queue_pb2
from tiercast_controller.controller import Controller
from tiercast_controller.network.marking import PriorityMarking
from tiercast_controller.network.topology import Host, Switch, Topology
from tiercast_controller.p4runtime.program import Program

from ..checkout import ROOT
from ..patience import PATIENCE_S
from .controller_run import SESSIONS, Run

COMPILED = ROOT / "p4src/compiled"
ROUTER_ALERT = b"\x94\x04\x00\x00"


@pytest.fixture(scope="session")
def program() -> Program:
    return Program.load(COMPILED / "tiercast.json", COMPILED / "tiercast.p4info.txtpb")


@pytest.fixture
def socket_directory() -> Iterator[Path]:
    """A short path, because the path of a Unix socket holds only 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="tiercast-") as name:
        yield Path(name)


def binary_tree(depth: int, directory: str = "/nowhere") -> Topology:
    """A balanced binary tree with nodes 0, 1, ...; leaves are hosts, and the sender at node 0 is
    host h0. Port 1 leads up (on s0 to h0), ports 2 and 3 lead down. SIM's figure 1 has depth 4."""
    topology = Topology()
    switches = 2**depth - 1

    def host(number: int) -> Host:
        return Host(f"h{number}", IPv4Interface(f"10.0.{number}.2/24"), 0x020000000000 + number)

    for i in range(switches):
        topology.add_switch(
            Switch(
                f"s{i}",
                i + 1,
                f"unix:{directory}/s{i}.sock",
                0x020000010000 + i,
                IPv4Address(f"10.0.{i}.3"),
            )
        )
    topology.add_host(host(0))
    topology.connect("s0", 1, "h0")
    for i in range(1, 2 * switches + 1):
        parent, port = f"s{(i - 1) // 2}", 2 if i % 2 else 3
        marking = PriorityMarking(threshold=5).at(6_000_000, 1000, idle_us=50)
        if i < switches:
            topology.connect(parent, port, f"s{i}", 1, marking=marking)
        else:
            topology.add_host(host(i))
            topology.connect(parent, port, f"h{i}", marking=marking)
    return topology


@pytest.fixture(scope="session")
def tree_of() -> Callable[..., Topology]:
    return binary_tree


class Igmp:
    """IGMP frames as made by Scapy."""

    @staticmethod
    def v3(group: str, kind: int, sources: tuple[str, ...] = (), reporter: str = "10.0.1.2"):
        record = IGMPv3_MR_Group(rtype=kind, maddr=group, srcaddrs=list(sources))
        return Igmp.frame(IGMPv3_MR(records=[record]), reporter)

    @staticmethod
    def v2(group: str, kind: int = 0x16, reporter: str = "10.0.1.2") -> bytes:
        return Igmp.frame(IGMP(type=kind, gaddr=group), reporter)

    @staticmethod
    def join(group, reporter: str = "10.0.1.2") -> bytes:
        return Igmp.v3(str(group), 4, reporter=reporter)

    @staticmethod
    def leave(group, reporter: str = "10.0.1.2") -> bytes:
        return Igmp.v3(str(group), 3, reporter=reporter)

    @staticmethod
    def frame(message, reporter: str) -> bytes:
        payload = bytes(message)
        header = IP(src=reporter, dst="224.0.0.22", ttl=1, proto=2, options=ROUTER_ALERT)
        return bytes(Ether(src="02:00:00:00:00:01", dst="01:00:5e:00:00:16") / header / payload)


@pytest.fixture
def igmp() -> type[Igmp]:
    return Igmp


class ReferenceSwitch(p4runtime_pb2_grpc.P4RuntimeServicer, lab_pb2_grpc.SwitchServicer):
    """Holds tables and multicast groups by their keys. INSERT, MODIFY and DELETE fail as in
    P4Runtime 9, and the only primary is the controller with the highest election id."""

    def __init__(self, device_id: int):
        self.device_id = device_id
        self.config = p4.ForwardingPipelineConfig()
        self.entities: dict[bytes, p4.Entity] = {}
        self.batches: list[list[p4.Update]] = []
        self.reads: list[p4.ReadRequest] = []
        self.pipelines_set = 0
        self.packets_out: asyncio.Queue[p4.PacketOut] = asyncio.Queue()
        self.links: list[lab_pb2.SetLinkRequest] = []
        self.reds: dict[int, queue_pb2.Red] = {}  # by port
        self.priorities: dict[int, queue_pb2.PriorityQueues] = {}
        self.counters: dict[tuple[int, int], int] = {}  # packets by (id, index)
        self.meters: dict[int, p4.MeterConfig] = {}  # of IGMP, by index
        self.write_delay_s = 0.0
        self.answers_writes = asyncio.Event()
        self.answers_writes.set()
        self.refuse = 0  # this many writes fail as a whole
        self._highest = 0  # election id so far
        self._streams: dict[int, tuple[grpc.aio.ServicerContext, int]] = {}
        self._telling: set[asyncio.Task[None]] = set()
        self._writing = asyncio.Lock()  # gRPC allows one write to a stream at a time
        self._server: grpc.aio.Server | None = None

    async def serve(self, address: str) -> None:
        self._server = grpc.aio.server()
        p4runtime_pb2_grpc.add_P4RuntimeServicer_to_server(self, self._server)
        lab_pb2_grpc.add_SwitchServicer_to_server(self, self._server)
        self._server.add_insecure_port(address)
        await self._server.start()

    async def close(self) -> None:
        """Controllers lose it; what it knew of them goes. It may serve again."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(grace=0)
        self._highest = 0

    async def is_left(self) -> None:
        """Returns when no controller's stream is open."""
        async with asyncio.timeout(PATIENCE_S):
            while self._streams:
                await asyncio.sleep(0.005)

    async def die(self) -> None:
        """All that it held goes, too."""
        await self.close()
        self.config = p4.ForwardingPipelineConfig()
        for held in (self.entities, self.meters, self.links, self.reds, self.priorities):
            held.clear()

    async def punt(self, program: Program, port: int, frame: bytes) -> None:
        """Sends a packet-in to the primary."""
        fields = program.p4info.controller_packet_metadata[0].metadata
        packet = p4.PacketIn(payload=frame)
        for field in fields:
            value = port if field.name == "ingress_port" else 0
            packet.metadata.add(
                metadata_id=field.id, value=value.to_bytes(2, "big").lstrip(b"\0") or b"\0"
            )
        context, _ = max(self._streams.values(), key=lambda item: item[1])
        async with self._writing:
            await context.write(p4.StreamMessageResponse(packet=packet))

    # P4Runtime ------------------------------------------------------------------------------

    async def StreamChannel(self, requests, context):  # noqa: N802
        try:
            async for request in requests:
                if request.HasField("arbitration"):
                    wanted = request.arbitration
                    election = wanted.election_id.low if wanted.HasField("election_id") else 0
                    self._streams[id(context)] = (context, election)
                    self._highest = max(self._highest, election)
                    await self._tell_arbitration()
                elif request.HasField("packet"):
                    self.packets_out.put_nowait(request.packet)
        finally:
            self._streams.pop(id(context), None)
            if self._server is not None:  # in a task of its own, since this one is cancelled
                task = asyncio.create_task(self._tell_arbitration())
                self._telling.add(task)
                task.add_done_callback(self._telling.discard)

    async def _tell_arbitration(self) -> None:
        async with self._writing:  # all of it, so that what is told last is true
            elections = [election for _, election in self._streams.values()]
            taken = self._highest > 0 and self._highest in elections
            for context, election in list(self._streams.values()):
                update = p4.MasterArbitrationUpdate(device_id=self.device_id)
                update.election_id.low = self._highest
                if not taken:
                    update.status.code = code_pb2.NOT_FOUND
                elif election != self._highest:
                    update.status.code = code_pb2.ALREADY_EXISTS
                # One that closes, for which gRPC has several errors, is no reason not to go on.
                with contextlib.suppress(Exception):
                    await context.write(p4.StreamMessageResponse(arbitration=update))

    async def GetForwardingPipelineConfig(self, request, context):  # noqa: N802
        if not self.config.HasField("p4info"):
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no pipeline")
        config = p4.ForwardingPipelineConfig(cookie=self.config.cookie)
        return p4.GetForwardingPipelineConfigResponse(config=config)

    async def SetForwardingPipelineConfig(self, request, context):  # noqa: N802
        await self._check_primary(request, context)
        self.config = request.config
        self.pipelines_set += 1
        tables = [k for k, e in self.entities.items() if e.HasField("table_entry")]
        for key in tables:  # as in bmv2: groups outlive the pipeline
            del self.entities[key]
        return p4.SetForwardingPipelineConfigResponse()

    async def Write(self, request, context):  # noqa: N802
        await asyncio.sleep(self.write_delay_s)
        await self.answers_writes.wait()
        await self._check_primary(request, context)
        if self.refuse:
            self.refuse -= 1
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "refused on purpose")
        self.batches.append(list(request.updates))
        errors = [self._apply(update) for update in request.updates]
        if any(error.canonical_code for error in errors):
            status = status_pb2.Status(code=code_pb2.UNKNOWN, message="see details")
            for error in errors:
                status.details.add().Pack(error)
            context.set_trailing_metadata(
                (("grpc-status-details-bin", status.SerializeToString()),)
            )
            await context.abort(grpc.StatusCode.UNKNOWN, "see details")
        return p4.WriteResponse()

    def _apply(self, update: p4.Update) -> p4.Error:
        if update.entity.HasField("meter_entry"):  # a cell, which can only be modified
            if update.type != p4.Update.MODIFY:
                return p4.Error(canonical_code=code_pb2.INVALID_ARGUMENT, message="not MODIFY")
            cell = update.entity.meter_entry
            self.meters[cell.index.index] = cell.config
            return p4.Error()
        key = self._key(update.entity)
        exists = key in self.entities
        if update.type == p4.Update.INSERT and exists:
            return p4.Error(canonical_code=code_pb2.ALREADY_EXISTS, message="entry exists")
        if update.type != p4.Update.INSERT and not exists:
            return p4.Error(canonical_code=code_pb2.NOT_FOUND, message="no such entry")
        if update.type == p4.Update.DELETE:
            del self.entities[key]
        else:
            self.entities[key] = update.entity
        return p4.Error()

    @staticmethod
    def _key(entity: p4.Entity) -> bytes:
        if entity.HasField("table_entry"):
            entry = entity.table_entry
            match = sorted(entry.match, key=lambda m: m.field_id)
            return p4.TableEntry(table_id=entry.table_id, match=match).SerializeToString()
        replication = entity.packet_replication_engine_entry
        if replication.HasField("clone_session_entry"):
            return b"clone session %d" % replication.clone_session_entry.session_id
        return b"group %d" % replication.multicast_group_entry.multicast_group_id

    async def Read(self, request, context):  # noqa: N802
        self.reads.append(request)
        for wanted in request.entities:
            if wanted.HasField("register_entry"):
                await context.abort(grpc.StatusCode.UNIMPLEMENTED, "registers are not readable")
            kind = wanted.WhichOneof("entity")
            response = p4.ReadResponse()
            if kind == "counter_entry":
                cell = response.entities.add()
                cell.CopyFrom(wanted)
                counter, index = wanted.counter_entry.counter_id, wanted.counter_entry.index.index
                cell.counter_entry.data.packet_count = self.counters.get((counter, index), 0)
            if kind == "meter_entry":
                cell = response.entities.add()
                cell.CopyFrom(wanted)
                config = self.meters.get(wanted.meter_entry.index.index)
                if config is not None:
                    cell.meter_entry.config.CopyFrom(config)
            for entity in self.entities.values():
                same_kind = entity.WhichOneof("entity") == kind
                if kind == "packet_replication_engine_entry":
                    part = wanted.packet_replication_engine_entry.WhichOneof("type")
                    same_kind = entity.packet_replication_engine_entry.WhichOneof("type") == part
                table = wanted.table_entry.table_id
                if same_kind and table in (0, entity.table_entry.table_id):
                    response.entities.append(entity)
            yield response

    async def _check_primary(self, request, context) -> None:
        elections = [election for _, election in self._streams.values()]
        if request.device_id != self.device_id:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"device {request.device_id}")
        if request.election_id.low != self._highest or self._highest not in elections:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "not primary")

    # tiercast.v1.Switch -----------------------------------------------------------------------

    async def SetLink(self, request, context):  # noqa: N802
        if request.port > 3:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no port {request.port}; 1..3")
        self.links.append(request)
        if request.HasField("red"):
            self.reds.pop(request.port, None)
            if request.red.max_th:
                self.reds[request.port] = request.red
        if request.HasField("priority_queues"):
            self.priorities.pop(request.port, None)
            if request.priority_queues.queues == 2:
                self.priorities[request.port] = request.priority_queues
        return lab_pb2.SetLinkResponse()

    async def GetPorts(self, request, context):  # noqa: N802
        ports = range(1, 4)
        return lab_pb2.GetPortsResponse(
            ports=(
                lab_pb2.PortStats(
                    port=port,
                    name=f"eth{port - 1}",
                    red=self.reds.get(port),
                    priority_queues=self.priorities.get(port),
                )
                for port in ports
            )
        )


@pytest.fixture
async def reference_switches() -> AsyncIterator[Callable]:
    """start(topology) returns {name: ReferenceSwitch}, each serving at its switch's address."""
    running: list[ReferenceSwitch] = []

    async def start(topology: Topology) -> dict[str, ReferenceSwitch]:
        started = {}
        for switch in topology.switches:
            server = ReferenceSwitch(switch.device_id)
            await server.serve(switch.address)
            running.append(server)
            started[switch.name] = server
        return started

    yield start
    await asyncio.gather(*(server.close() for server in running))


@pytest.fixture
async def start(tree_of, reference_switches, socket_directory, program):
    controllers = []

    async def start(depth: int = 3, run: Run | None = None, **options) -> Run:
        """Starts a controller; with `run`, another one for the same switches."""
        topology = run.topology if run else tree_of(depth, socket_directory)
        servers = run.servers if run else await reference_switches(topology)
        sessions = options.pop("sessions", [s for s in SESSIONS if s.source in topology.as_graph()])
        events = []
        controller = Controller(topology, sessions, program, on_event=events.append, **options)
        controllers.append(controller)
        await controller.start()
        return Run(topology, servers, program, controller, events)

    yield start
    for controller in controllers:
        if not controller.failed.cancelled():
            await controller.stop()
