"""The whole controller against in-process switches: from IGMP frames to installed state."""

import asyncio
import random
import time
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from itertools import chain
from types import SimpleNamespace

import grpc
import pytest
from p4.v1 import p4runtime_pb2 as p4
from scapy.all import IP, Ether
from scapy.layers.igmp import IGMP, IGMPv3_MQ, IGMPv3_MR, IGMPv3_MR_Group
from tiercast.v1 import lab_pb2, lab_pb2_grpc
from tiercast_controller import controller as controller_module
from tiercast_controller.agents.records import Batch, Record
from tiercast_controller.base.errors import (
    ConfigurationError,
    ControllerError,
    NotPrimaryError,
    SwitchError,
    UnreachableError,
    UnsupportedError,
)
from tiercast_controller.controller import Controller
from tiercast_controller.multicast.igmp import Type, parse_frame
from tiercast_controller.multicast.querier import Inquiries, Querier
from tiercast_controller.multicast.replication import ReplicationGroups
from tiercast_controller.multicast.trees import SessionState, SessionTrees, Upstream
from tiercast_controller.network.aggregation import aggregation_entries
from tiercast_controller.network.marking import DualPi2, Pi2, Red
from tiercast_controller.network.routing import static_entries
from tiercast_controller.network.topology import AnySourceGroup, Session, group_address
from tiercast_controller.p4runtime import client as p4runtime
from tiercast_controller.p4runtime import standby
from tiercast_controller.p4runtime import stream as p4runtime_stream
from tiercast_controller.p4runtime.entities import Op, TableEntry, Update, entry
from tiercast_controller.p4runtime.stream import Standing

from ..patience import PATIENCE_S

SESSIONS = [Session(1, 5, "h0"), Session(2, 3, "h8")]


@dataclass
class Run:
    topology: object
    servers: dict
    program: object
    controller: Controller
    events: list = field(default_factory=list)

    async def report(self, host: str, frame: bytes) -> None:
        switch, port = self.topology.attachment(host)
        await self.servers[switch].punt(self.program, port, frame)

    async def until(self, condition) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await asyncio.sleep(0.005)

    async def heard(self) -> None:
        """Waits until all reports so far were handled: a malformed one from each switch comes after
        them, and is reported at once."""
        rejected = len(self.of("igmp.rejected"))
        for server in self.servers.values():
            await server.punt(self.program, 2, b"\0" * 60)
        await self.until(lambda: len(self.of("igmp.rejected")) == rejected + len(self.servers))

    def of(self, kind: str) -> list[dict]:
        return [event.fields for event in self.events if event.kind == kind]

    async def on_switch(self, name: str) -> SessionState:
        """What the switch does, as read back from it."""
        return (await self.controller.read_multicast(name)).forwarding()


def places_of(controller: Controller) -> list[tuple[int, str, int]]:
    return sorted((m.rank, m.switch, m.port) for m in controller.members())


def without_groups(run: Run) -> dict[str, set[bytes]]:
    """The keys of what the switches hold."""
    return {
        name: {key for key in server.entities if not key.startswith(b"group")}
        for name, server in run.servers.items()
    }


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


async def test_start_loads_routes_and_marking(start) -> None:
    run = await start(depth=2)
    expected = static_entries(run.topology)
    for switch in run.topology.switches:
        client = run.controller._managed(switch.name).client
        tables = ["source_guard", "ipv4_host", "ipv4_lpm", "port_marking"]
        assert set(await client.read_entries(tables)) == set(expected[switch.name])
        assert run.servers[switch.name].pipelines_set == 1


async def test_aggregators_are_there_once_and_go_with_their_session(start) -> None:
    session = Session(1, 5, "h0", aggregation="network")
    first = await start(depth=2, sessions=[session])
    expected = aggregation_entries(first.topology, [session])

    def clone_sessions(name: str) -> list[tuple[int, list[int]]]:
        entries = [
            entity.packet_replication_engine_entry.clone_session_entry
            for entity in first.servers[name].entities.values()
            if entity.packet_replication_engine_entry.HasField("clone_session_entry")
        ]
        return [(e.session_id, [r.egress_port for r in e.replicas]) for e in entries]

    async def held(run: Run, name: str) -> set:
        return set(await run.controller._managed(name).client.read_entries(["aggregator"]))

    for name, entries in expected.items():
        assert await held(first, name) == {e for e in entries if e.table == "aggregator"}
        assert clone_sessions(name) == [(1, [510])]
        client = first.controller._managed(name).client
        assert set(entries) <= set(await client.read_entries(["aggregator", "ipv4_host"]))

    for server in first.servers.values():
        server.batches.clear()
    second = await start(run=first, sessions=[session])
    for name, server in second.servers.items():
        assert clone_sessions(name) == [(1, [510])]
        tables = [u for b in server.batches for u in b if u.entity.HasField("table_entry")]
        assert tables == []

    third = await start(run=second, sessions=[Session(1, 5, "h0")])
    for switch in third.topology.switches:
        assert await held(third, switch.name) == set()


async def test_a_join_grows_the_tree_to_the_source_and_a_leave_prunes_it(start, igmp) -> None:
    run = await start(depth=3)
    await run.report("h7", igmp.join(group_address(1, 0)))
    await run.until(lambda: run.of("igmp"))
    (event,) = run.of("igmp")
    assert event["install_us"] > 0
    del event["install_us"]
    assert event == {
        "action": "join",
        "switch": "s3",
        "port": 2,
        "group": "239.192.0.8",
        "session": 1,
        "rank": 0,
        "reporter": "10.0.1.2",
        "switches": 3,
    }
    assert run.of("membership") == [{"session": 1, "top_rank": 0}]
    group, h0 = group_address(1, 0), 0x0A000002
    for name in ("s0", "s1", "s3"):  # each leads to h0 by its port 1
        state = await run.on_switch(name)
        upstream = {group: Upstream(h0, 1, 1)}
        assert state == SessionState({group: frozenset({2})}, {(2, 1): 0}, upstream)
    assert await run.on_switch("s2") == SessionState()

    await run.report("h7", igmp.leave(group_address(1, 0)))
    await run.until(lambda: len(run.of("membership")) == 2)
    for switch in run.topology.switches:
        assert await run.on_switch(switch.name) == SessionState()
    assert run.of("membership")[1] == {"session": 1, "top_rank": -1}


async def test_a_leave_prunes_after_its_latency_unless_the_host_joins_again(start, igmp) -> None:
    latency_s = 0.5
    run = await start(depth=1, leave_latency_s=latency_s)
    group = group_address(1, 0)
    await run.report("h1", igmp.join(group))
    await run.until(lambda: run.of("igmp"))
    await run.report("h1", igmp.leave(group))
    await run.report("h1", igmp.join(group))
    await asyncio.sleep(1.5 * latency_s)
    assert [e["action"] for e in run.of("igmp")] == ["join"]  # it was there all the time
    assert (await run.on_switch("s0")).copies[group] == frozenset({2})

    left = time.monotonic()
    await run.report("h1", igmp.leave(group))
    await run.until(lambda: len(run.of("igmp")) == 2)
    assert time.monotonic() - left >= latency_s
    assert run.of("igmp")[1]["action"] == "expire"
    assert await run.on_switch("s0") == SessionState()
    assert run.of("membership")[-1] == {"session": 1, "top_rank": -1}


async def test_repeated_reports_change_nothing(start, igmp) -> None:
    run = await start(depth=1)
    for _ in range(3):
        await run.report("h1", igmp.join(group_address(1, 0)))
    await run.until(lambda: run.of("igmp"))
    await run.report("h2", igmp.join(group_address(1, 0)))
    await run.until(lambda: len(run.of("igmp")) == 2)
    assert [e["port"] for e in run.of("igmp")] == [2, 3]


async def test_source_specific_joins(start, igmp) -> None:
    run = await start(depth=1)
    group = str(group_address(1, 0))
    await run.report("h1", igmp.v3(group, 5, ("10.9.9.9",)))  # another source, not ours
    await run.report("h1", igmp.v3(group, 5, ("10.0.0.2",)))
    await run.until(lambda: run.of("igmp"))
    await run.report("h1", igmp.v3(group, 6, ("10.0.0.2",)))
    await run.until(lambda: len(run.of("igmp")) == 2)
    assert [e["action"] for e in run.of("igmp")] == ["join", "leave"]


async def test_what_is_not_ours_or_malformed_changes_nothing(start, igmp) -> None:
    run = await start(depth=2)
    await run.report("h0", igmp.join(group_address(1, 0)))  # the source itself
    await run.report("h3", igmp.join(group_address(1, 5)))  # one layer too many
    await run.report("h3", igmp.join(group_address(7, 0)))  # no such session
    await run.report("h3", igmp.join("224.0.0.251"))
    await run.report("h3", b"\0" * 60)
    await run.servers["s0"].punt(run.program, 2, igmp.join(group_address(1, 0)))
    await run.until(lambda: len(run.of("igmp.rejected")) == 2)
    assert sorted((e["switch"], e["port"], e["reason"]) for e in run.of("igmp.rejected")) == [
        ("s0", 2, "V3_REPORT at a port that leads to no host"),
        ("s1", 2, "ethertype is 0x0000, not IPv4 (0x0800)"),
    ]
    assert run.of("igmp") == []
    assert run.controller.members() == []


async def test_a_burst_is_coalesced_and_ends_right(start, igmp) -> None:
    """Random joins and leaves (seed 7) while no switch answers a write, and then faster than they
    answer."""
    run = await start(depth=3)
    for server in run.servers.values():
        server.batches.clear()
        server.answers_writes.clear()
        server.write_delay_s = 0.01
    order = random.Random(7)
    hosts = [h.name for h in run.topology.hosts]
    reports = 0
    expected = {session.number: SessionTrees(run.topology, session) for session in SESSIONS}
    coalesced = 0
    for number in range(150):
        if number == 40:
            await run.heard()
            for server in run.servers.values():
                server.answers_writes.set()
            await run.until(lambda: len(run.of("igmp")) >= reports)  # noqa: B023
            batches = sum(len(server.batches) for server in run.servers.values())
            coalesced = sum(event["switches"] for event in run.of("igmp")) - batches
        host, session = order.choice(hosts), order.choice(SESSIONS)
        if host == session.source:
            continue
        rank, joins = order.randrange(session.layers), order.random() < 0.6
        tree = expected[session.number]
        switch, port = run.topology.attachment(host)
        frame = (igmp.join if joins else igmp.leave)(group_address(session.number, rank))
        reports += bool((tree.join if joins else tree.leave)(rank, switch, port))
        await run.report(host, frame)
    await run.until(lambda: len(run.of("igmp")) >= reports)
    assert coalesced > 0
    for switch in run.topology.switches:
        wanted = SessionState()
        for tree in expected.values():
            wanted.merge(tree.state(switch.name))
        assert await run.on_switch(switch.name) == wanted, switch.name


async def test_a_restart_takes_over_and_multiplies_nothing(start, igmp) -> None:
    run = await start(depth=3)
    for rank in range(3):
        await run.report("h7", igmp.join(group_address(1, rank)))
    await run.until(lambda: len(run.of("igmp")) == 3)
    before = {name: dict(server.entities) for name, server in run.servers.items()}
    written = {name: len(server.batches) for name, server in run.servers.items()}
    await run.controller.stop()

    again = await start(run=run)
    assert {name: dict(s.entities) for name, s in run.servers.items()} == before
    assert {name: len(s.batches) for name, s in run.servers.items()} == written
    assert {(m.rank, m.switch, m.port) for m in again.controller.members()} == {
        (rank, "s3", 2) for rank in range(3)
    }
    await again.report("h7", igmp.leave(group_address(1, 2)))
    await again.until(lambda: again.of("membership"))
    assert again.of("membership") == [{"session": 1, "top_rank": 1}]
    assert (await again.on_switch("s0")).tops == {(2, 1): 1}


async def test_a_restart_with_other_sessions_removes_what_is_stale(start, igmp) -> None:
    run = await start(depth=1)
    await run.report("h1", igmp.join(group_address(1, 0)))
    await run.until(lambda: run.of("igmp"))
    await run.controller.stop()
    again = await start(run=run, sessions=[Session(3, 1, "h0")])
    assert await again.on_switch("s0") == SessionState()


async def test_a_refused_write_is_mended_from_what_the_switch_holds(start, igmp) -> None:
    run = await start(depth=1)
    run.servers["s0"].refuse = 2
    await run.report("h1", igmp.join(group_address(1, 0)))
    await run.until(lambda: run.of("igmp"))
    assert (await run.on_switch("s0")).tops == {(2, 1): 0}
    assert not run.controller.failed.done()


async def test_a_switch_that_keeps_refusing_fails_the_run(start, igmp) -> None:
    run = await start(depth=1)
    run.servers["s0"].refuse = 100
    await run.report("h1", igmp.join(group_address(1, 0)))
    with pytest.raises(SwitchError, match="s0: Write of 1 updates.*RESOURCE_EXHAUSTED"):
        await asyncio.wait_for(asyncio.shield(run.controller.failed), PATIENCE_S)
    assert "RESOURCE_EXHAUSTED" in run.of("failure")[0]["reason"]
    assert run.of("igmp") == []


async def test_an_error_that_no_switch_made_fails_the_run(start, igmp, monkeypatch) -> None:
    run = await start(depth=1)

    def refuse(*_: object) -> None:
        raise ConfigurationError("session 300 does not fit")

    monkeypatch.setattr(ReplicationGroups, "plan", refuse)
    await run.report("h1", igmp.join(group_address(1, 0)))
    said = "internal error in the installer of 1: session 300 does not fit"
    with pytest.raises(SwitchError, match=said):
        await asyncio.wait_for(asyncio.shield(run.controller.failed), PATIENCE_S)


async def test_links_that_change_while_a_switch_returns_are_set(start) -> None:
    run = await start(depth=1)
    server = run.servers["s0"]
    for port in (1, 2):
        await run.controller.set_link("s0", port, rate_bps=4_000_000)
    await server.die()
    await run.until(lambda: run.of("switch"))
    set_link, changes = server.SetLink, [(1, 1_000_000), (3, 2_000_000)]

    async def set_and_change(request, context):
        """After what it gets, there are two changes more, of a port that it has and another."""
        answer = await set_link(request, context)
        while changes:
            port, rate_bps = changes.pop()
            assert run.controller.is_away("s0")
            await run.controller.set_link("s0", port, rate_bps=rate_bps)
        return answer

    server.SetLink = set_and_change
    await server.serve(run.topology.switch("s0").address)
    await run.until(lambda: len(run.of("switch")) == 2)
    assert run.of("switch")[1]["state"] == "back"
    rates = {one.port: one.rate_bps for one in server.links if one.HasField("rate_bps")}
    assert rates == {1: 1_000_000, 2: 4_000_000, 3: 2_000_000}
    assert not run.controller.failed.done()


async def test_a_switch_that_is_away_for_too_long_fails_the_run(start) -> None:
    run = await start(depth=1, patience_s=0.1)
    await run.servers["s0"].close()
    with pytest.raises(SwitchError, match=r"s0 was away for .* s, longer than 0\.1 s"):
        await asyncio.wait_for(asyncio.shield(run.controller.failed), PATIENCE_S)
    assert [(e["switch"], e["state"]) for e in run.of("switch")] == [("s0", "away")]


async def test_a_switch_that_returns_gets_everything_again(start, igmp) -> None:
    """It dies with two members behind it; meanwhile a third one joins elsewhere, and one leaves."""
    run = await start(depth=2, mend_s=None)
    group = group_address(1, 0)
    for host in ("h3", "h5"):
        await run.report(host, igmp.join(group))
    await run.until(lambda: len(run.of("igmp")) == 2)
    await run.controller.set_link("s0", 2, rate_bps=3_000_000)
    server, address = run.servers["s0"], run.topology.switch("s0").address
    before = dict(server.entities)
    assert len(before) > 10
    await server.die()
    await run.until(lambda: run.of("switch"))
    assert run.controller.is_away("s0") and not run.controller.is_away("s1")
    with pytest.raises(UnreachableError):
        await run.controller.ports("s0")
    await run.report("h4", igmp.join(group))  # changes s1 alone
    await run.report("h5", igmp.leave(group))  # changes s2, and s0 when it is back
    await run.controller.set_link("s0", 2, delay_ns=5_000_000)
    await run.until(lambda: len(run.of("igmp")) == 3)

    await server.serve(address)
    await run.until(lambda: len(run.of("switch")) == 2)
    back = run.of("switch")[1]
    assert (back["switch"], back["state"], back["restarted"]) == ("s0", "back", True)
    assert not run.controller.is_away("s0")
    await run.until(lambda: len(run.of("igmp")) == 4)
    (link,) = (one for one in server.links if one.HasField("rate_bps"))
    assert (link.rate_bps, link.delay_ns) == (3_000_000, 5_000_000)
    assert (await run.on_switch("s0")).copies == {group: frozenset({2})}
    await run.report("h5", igmp.join(group))
    await run.until(lambda: len(run.of("igmp")) == 5)
    assert (await run.on_switch("s0")).copies == {group: frozenset({2, 3})}
    assert {key for key in server.entities if not key.startswith(b"group")} == {
        key for key in before if not key.startswith(b"group")
    }
    assert not run.controller.failed.done()


async def test_a_stream_that_breaks_changes_nothing(start, igmp) -> None:
    """The switch goes on as it is, and so it is left as it is."""
    run = await start(depth=1)
    await run.report("h1", igmp.join(group_address(1, 0)))
    await run.until(lambda: run.of("igmp"))
    server = run.servers["s0"]
    written, loaded = len(server.batches), server.pipelines_set
    fates = await run.controller.fates("s0")
    assert fates[2].egress.entered is not None
    await server.close()
    await run.until(lambda: run.of("switch"))
    await server.serve(run.topology.switch("s0").address)
    await run.until(lambda: len(run.of("switch")) == 2)
    back = run.of("switch")[1]
    assert (back["state"], back["restarted"], back["updates"]) == ("back", False, 0)
    assert (len(server.batches), server.pipelines_set) == (written, loaded)
    assert (await run.controller.fates("s0"))[2].egress.entered is not None


async def test_a_switch_that_answers_too_late_is_away(start, igmp, monkeypatch) -> None:
    """Its write may have been carried out or not, so everything is read back."""
    run = await start(depth=1)
    server = run.servers["s0"]
    write = p4runtime.P4RuntimeClient.write

    async def soon(self, updates, timeout_s: float = 5) -> None:
        await write(self, updates, 0.1)

    monkeypatch.setattr(p4runtime.P4RuntimeClient, "write", soon)
    server.answers_writes.clear()
    await run.report("h1", igmp.join(group_address(1, 0)))
    await run.until(lambda: run.of("switch"))
    monkeypatch.setattr(p4runtime.P4RuntimeClient, "write", write)
    server.answers_writes.set()
    await run.until(lambda: run.of("igmp"))
    assert [e["state"] for e in run.of("switch")] == ["away", "back"]
    assert (await run.on_switch("s0")).tops == {(2, 1): 0}
    assert not run.controller.failed.done()


async def test_what_somebody_else_changed_is_mended(start, igmp) -> None:
    run = await start(depth=1)
    await run.report("h1", igmp.join(group_address(1, 0)))
    await run.until(lambda: run.of("igmp"))
    server = run.servers["s0"]
    right = dict(server.entities)
    await run.controller.mend()
    assert run.of("switch") == []
    for number, key in enumerate(list(right)):
        entity = server.entities[key]
        if number % 3 == 0 or key.startswith(b"group"):
            del server.entities[key]
        elif entity.table_entry.action.action.params:
            changed = type(entity)()
            changed.CopyFrom(entity)
            changed.table_entry.action.action.params[0].value = b"\1"
            server.entities[key] = changed
    server.entities[b"group 9"] = p4.Entity()
    added = server.entities[b"group 9"].packet_replication_engine_entry.multicast_group_entry
    added.multicast_group_id = 9
    server.meters.clear()
    assert dict(server.entities) != right
    await run.controller.mend()
    assert dict(server.entities) == right
    assert {config.cir for config in server.meters.values()} == {200}
    (event,) = run.of("switch")
    assert event["state"] == "mended" and event["updates"] > 3
    assert (await run.controller.fates("s0"))[2].egress.entered is None


async def test_what_somebody_else_wrote_with_other_actions_is_replaced_or_removed(
    start, igmp
) -> None:
    """Over entries that are wanted, and beside them; mended, and found at a take-over."""
    run = await start(depth=1)
    await run.report("h1", igmp.join(group_address(1, 0)))
    await run.until(lambda: run.of("igmp"))
    server, own = run.servers["s0"], run.program
    right = dict(server.entities)
    hosts = await entries_of(run, "ipv4_host")
    groups = await entries_of(run, "ipv4_multicast")
    assert hosts and groups

    def write(item: TableEntry) -> None:
        entity = p4.Entity(table_entry=own.encode_entry(item))
        server.entities[server._key(entity)] = entity

    def spoil() -> None:
        write(entry("ipv4_host", dict(hosts[0].match), "drop"))
        write(entry("ipv4_multicast", dict(groups[0].match), "NoAction"))
        write(entry("ipv4_host", {"dst_addr": 0x0A09_0909}, "drop"))
        write(entry("ipv4_multicast", {"dst_addr": 0xEFFF_0000}, "NoAction"))
        assert dict(server.entities) != right

    spoil()
    await run.controller.mend()
    assert dict(server.entities) == right
    assert not run.controller.failed.done()
    spoil()
    again = await start(run=run)
    state = await again.on_switch("s0")
    assert state == (await run.on_switch("s0"))
    kept = {key for key in right if not key.startswith(b"group")}
    assert without_groups(again)["s0"] <= kept
    assert {key for key in kept if server.entities.get(key) == right[key]} >= {
        server._key(p4.Entity(table_entry=own.encode_entry(item))) for item in hosts
    }


async def entries_of(run: Run, table: str) -> list[TableEntry]:
    return await run.controller._switches["s0"].client.read_entries([table])


async def test_a_takeover_asks_for_what_it_may_have_missed(start, igmp, monkeypatch) -> None:
    """h1 and h2 were members. Only h1 answers, and h0's neighbour joined meanwhile."""
    soon = Querier(
        interval_s=1, max_response_s=0.1, startup_interval_s=0.2, last_member_interval_s=0.1
    )
    monkeypatch.setattr(controller_module, "Querier", lambda: soon)
    run = await start(depth=1)
    assert run.servers["s0"].packets_out.empty()
    for host in ("h1", "h2"):
        await run.report(host, igmp.join(group_address(1, 0)))
    await run.until(lambda: len(run.of("igmp")) == 2)
    await run.controller.stop()
    again = await start(run=run)
    assert len(again.controller.members()) == 2
    for _ in range(2 * 3):  # two queries for each of the three hosts
        packet = await asyncio.wait_for(run.servers["s0"].packets_out.get(), PATIENCE_S)
        assert parse_frame(packet.payload).type is Type.QUERY
    await again.report("h1", igmp.v3(str(group_address(1, 0)), 2))
    await again.report("h1", igmp.v3(str(group_address(1, 1)), 2))
    await again.until(lambda: len(again.of("igmp")) == 2)
    assert [(e["action"], e["rank"], e["port"]) for e in again.of("igmp")] == [
        ("join", 1, 2),
        ("expire", 0, 3),
    ]


@pytest.mark.parametrize("version", [2, 3])
async def test_a_leave_is_asked_about(start, igmp, version) -> None:
    """Three times; h1's neighbour on the link answers the second one, so the tree stays until that
    leaves too. RFC 3376 6.6.3.1: a query sent after an answer says so (flag S)."""
    querier = Querier(version=version, last_member_interval_s=0.3, last_member_count=3)
    run = await start(depth=1, querier=querier)
    group, out = group_address(1, 0), run.servers["s0"].packets_out

    async def asked() -> Ether:
        while True:
            packet = Ether((await asyncio.wait_for(out.get(), PATIENCE_S)).payload)
            if packet[IP].dst == str(group):
                return packet

    await run.report("h1", igmp.join(group))
    await run.report("h1", igmp.leave(group, "10.0.1.9"))  # never was there
    await run.report("h1", igmp.leave(group))
    assert (await asked())[IGMP].gaddr == str(group)
    await run.report("h1", igmp.join(group, "10.0.1.7"))
    await run.heard()
    for _ in range(2):
        packet = await asked()
        assert version == 2 or packet[IGMPv3_MQ].s == 1
    assert [e["action"] for e in run.of("igmp")] == ["join"]
    left_s = time.monotonic()
    await run.report("h1", igmp.leave(group, "10.0.1.7"))
    await run.until(lambda: len(run.of("igmp")) == 2)
    assert run.of("igmp")[1]["action"] == "expire"
    assert time.monotonic() - left_s >= querier.leave_latency_s


async def test_only_the_left_sources_are_asked_about(start, igmp) -> None:
    querier = Querier(last_member_interval_s=0.1, last_member_count=1)
    run = await start(depth=1, querier=querier)
    group, out = str(group_address(1, 0)), run.servers["s0"].packets_out
    await run.report("h1", igmp.v3(group, 5, ("10.0.0.2",)))
    await run.report("h1", igmp.v3(group, 6, ("10.0.0.2",)))
    while True:
        packet = Ether((await asyncio.wait_for(out.get(), PATIENCE_S)).payload)
        if packet[IP].dst == group:
            break
    assert packet[IGMPv3_MQ].srcaddrs == ["10.0.0.2"]
    await run.until(lambda: len(run.of("igmp")) == 2)
    assert [e["action"] for e in run.of("igmp")] == ["join", "expire"]


async def test_without_specific_queries_a_leave_takes_effect_at_once(start, igmp) -> None:
    run = await start(depth=1, querier=Querier(last_member_count=0))
    await run.report("h1", igmp.join(group_address(1, 0)))
    await run.report("h1", igmp.leave(group_address(1, 0)))
    await run.until(lambda: len(run.of("igmp")) == 2)
    assert [e["action"] for e in run.of("igmp")] == ["join", "leave"]


async def test_a_standby_waits_for_the_primarys_end(start, igmp, tree_of, program) -> None:
    run = await start(depth=2)
    await run.report("h3", igmp.join(group_address(1, 0)))
    await run.until(lambda: run.of("igmp"))
    before = without_groups(run)
    written = {name: len(server.batches) for name, server in run.servers.items()}
    events = []
    second = Controller(run.topology, SESSIONS[:1], program, on_event=events.append)
    standing_by = asyncio.create_task(second.stand_by())
    try:
        # A switch that returns is the primary's, even if the standby is there first.
        await run.servers["s1"].close()
        await run.until(lambda: run.of("switch"))
        await run.servers["s1"].serve(run.topology.switch("s1").address)
        await run.until(lambda: len(run.of("switch")) == 2)
        assert not standing_by.done()
        await run.report("h3", igmp.join(group_address(1, 1)))
        await run.until(lambda: len(run.of("igmp")) == 2)
        await run.report("h3", igmp.leave(group_address(1, 1)))
        await run.until(lambda: len(run.of("igmp")) == 3)
        await run.controller.stop()
        await asyncio.wait_for(standing_by, PATIENCE_S)
        await second.start()
        roles = [e.fields["state"] for e in events if e.kind == "role"]
        assert roles == ["standby", "primary"]
        # Whether it has seen that the switch had returned is chance; if not, it finds it later.
        await run.until(lambda: places_of(second) == [(0, "s1", 2)])
        await run.until(lambda: without_groups(run) == before)
        assert len(run.servers["s2"].batches) == written["s2"]
        # A controller that is started later takes over, and the standby says so.
        third = await start(run=run)
        with pytest.raises(NotPrimaryError):
            await asyncio.wait_for(asyncio.shield(second.failed), PATIENCE_S)
        assert len(third.controller.members()) == 1
    finally:
        standing_by.cancel()
        await second.stop()


async def test_a_controller_that_is_displaced_while_it_begins_says_so(start, program) -> None:
    """The switch refuses its writes, and the stream says why, before or after that."""
    run = await start(depth=2, sessions=SESSIONS[:1])
    second = Controller(run.topology, SESSIONS[:1], program)
    client = second._switches["s0"].client
    load = client.set_pipeline

    async def displaced(*arguments: object) -> bool:
        await start(run=run, sessions=SESSIONS[:1])
        run.servers["s0"].entities.clear()  # so that there is something to write
        return await load(*arguments)

    client.set_pipeline = displaced
    try:
        with pytest.raises(NotPrimaryError):
            await second.start()
    finally:
        await second.stop()


async def test_a_standby_that_has_just_begun_waits_for_a_switch_to_answer(
    start, igmp, program, monkeypatch
) -> None:
    """A takeover without a switch that answers a little later than the others finds nothing of
    what that one holds."""
    monkeypatch.setattr(standby, "GRACE_S", PATIENCE_S)
    monkeypatch.setattr(standby.random, "uniform", lambda least, most: 0)
    run = await start(depth=2, sessions=SESSIONS[:1])
    await run.report("h3", igmp.join(group_address(1, 0)))
    await run.until(lambda: run.of("igmp"))
    second = Controller(run.topology, SESSIONS[:1], program)
    streams = {name: managed.client.stream for name, managed in second._switches.items()}
    late, answers = streams.pop("s1"), asyncio.Event()
    watch = late.watch

    async def watch_late() -> None:
        await answers.wait()
        await watch()

    late.watch = watch_late
    standing_by = asyncio.create_task(second.stand_by())
    try:
        await run.until(lambda: all(s.standing is Standing.ANOTHERS for s in streams.values()))
        await run.controller.stop()
        await run.until(lambda: all(s.standing is Standing.NOBODYS for s in streams.values()))
        answers.set()
        await asyncio.wait_for(standing_by, PATIENCE_S)
        await second.start()
        assert places_of(second) == [(0, "s1", 2)]
    finally:
        standing_by.cancel()
        await second.stop()


async def test_a_switch_that_was_away_when_a_standby_took_over_keeps_what_it_held(
    start, igmp, program
) -> None:
    run = await start(depth=3, sessions=SESSIONS[:1])
    for host in ("h7", "h9"):  # behind s3 and s4, which are behind s1
        await run.report(host, igmp.join(group_address(1, 0)))
    await run.until(lambda: len(run.of("igmp")) == 2)
    before = without_groups(run)
    did = {name: await run.on_switch(name) for name in run.servers}
    back = asyncio.Queue()
    second = Controller(
        run.topology,
        SESSIONS[:1],
        program,
        on_event=lambda event: event.fields.get("state") == "back" and back.put_nowait(event),
    )
    away = ("s1", "s4")
    for name in away:
        await run.servers[name].close()
    await run.until(lambda: len(run.of("switch")) == 2)
    standing_by = asyncio.create_task(second.stand_by())
    await run.controller.stop()
    await asyncio.wait_for(standing_by, PATIENCE_S)
    try:
        await second.start()
        assert places_of(second) == [(0, "s3", 2)]
        written = {name: len(server.batches) for name, server in run.servers.items()}
        for name in away:
            await run.servers[name].serve(run.topology.switch(name).address)
            await asyncio.wait_for(back.get(), PATIENCE_S)
        assert places_of(second) == [(0, "s3", 2), (0, "s4", 2)]
        assert without_groups(run) == before
        assert {n: (await second.read_multicast(n)).forwarding() for n in did} == did
        # Nothing is lost meanwhile: only a group goes that led to the first member alone.
        for name, server in run.servers.items():
            for update in chain.from_iterable(server.batches[written[name] :]):
                assert name == "s1" and update.type == p4.Update.DELETE
                replication = update.entity.packet_replication_engine_entry
                assert replication.HasField("multicast_group_entry")
    finally:
        await second.stop()


@pytest.mark.parametrize("dies_in", ["set_pipeline", "_take_over"])
async def test_a_switch_that_dies_while_a_standby_takes_over_is_away(
    start, igmp, program, dies_in
) -> None:
    run = await start(depth=2, sessions=SESSIONS[:1])
    for host in ("h3", "h5"):  # behind s1 and s2
        await run.report(host, igmp.join(group_address(1, 0)))
    await run.until(lambda: len(run.of("igmp")) == 2)
    did = {name: await run.on_switch(name) for name in run.servers}
    events = []
    second = Controller(run.topology, SESSIONS[:1], program, on_event=events.append)
    try:
        standing_by = asyncio.create_task(second.stand_by())
        await run.controller.stop()
        await asyncio.wait_for(standing_by, PATIENCE_S)
        stray = p4.Entity()  # so that there is something to write
        stray.packet_replication_engine_entry.multicast_group_entry.multicast_group_id = 9
        run.servers["s1"].entities[b"group 9"] = stray
        managed = second._switches["s1"]
        target = managed.client if dies_in == "set_pipeline" else managed
        does = getattr(target, dies_in)

        async def dies(*arguments: object) -> object:
            setattr(target, dies_in, does)
            await run.servers["s1"].close()
            await asyncio.wait({managed.client.lost}, timeout=PATIENCE_S)
            return await does(*arguments)

        setattr(target, dies_in, dies)
        await second.start()
        assert second.is_away("s1") and not second.failed.done()
        assert [e.fields["state"] for e in events if e.kind == "role"] == ["standby", "primary"]
        await run.servers["s1"].serve(run.topology.switch("s1").address)
        await run.until(lambda: not second.is_away("s1"))
        await run.until(lambda: places_of(second) == [(0, "s1", 2), (0, "s2", 2)])
        for name, state in did.items():
            async with asyncio.timeout(PATIENCE_S):
                while (await second.read_multicast(name)).forwarding() != state:
                    await asyncio.sleep(0.01)
    finally:
        await second.stop()


async def test_a_sink_that_fails_does_not_hide_why_the_run_failed(start) -> None:
    run = await start(depth=1)

    def broken(event: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    run.controller._on_event = broken

    async def work() -> None:
        raise SwitchError("s0: gone for good")

    run.controller._spawn(work(), "work")
    with pytest.raises(SwitchError, match="gone for good"):
        await asyncio.wait_for(asyncio.shield(run.controller.failed), PATIENCE_S)


async def test_a_sink_that_fails_is_a_failure(start, igmp) -> None:
    run = await start(depth=1)

    def broken(event: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    run.controller._on_event = broken
    await run.report("h1", igmp.join(group_address(1, 0)))
    with pytest.raises(ControllerError, match=r"event igmp was not heard: .*Broken pipe"):
        await asyncio.wait_for(asyncio.shield(run.controller.failed), PATIENCE_S)
    assert places_of(run.controller) == [(0, "s0", 2)]


async def test_a_switch_that_leaves_a_repair_unanswered_gets_the_change_when_it_returns(
    start,
) -> None:
    """Its stream lives on, so that nothing else says that it is away."""
    run = await start(depth=2)
    managed, server = run.controller._switches["s1"], run.servers["s1"]
    held = dict(server.entities)
    victim, *_ = await managed.client.read_entries(["ipv4_host", "ipv4_lpm"])
    del server.entities[server._key(p4.Entity(table_entry=run.program.encode_entry(victim)))]
    write, read = managed.client.write, managed.client.read_entries

    async def refuse(updates: list[Update], *rest: object) -> None:
        managed.client.write = write
        raise p4runtime.WriteError("s1", [], len(updates))

    async def unanswered(tables: object) -> list[TableEntry]:
        managed.client.read_entries = read
        raise UnreachableError("s1: Read: DEADLINE_EXCEEDED")

    managed.client.write, managed.client.read_entries = refuse, unanswered
    await asyncio.wait_for(managed.change([Update(Op.INSERT, victim)]), PATIENCE_S)
    await run.until(lambda: dict(server.entities) == held)
    await run.until(lambda: [e["state"] for e in run.of("switch")] == ["away", "back"])


async def test_paths_move_around_a_switch_that_is_away(start, igmp) -> None:
    group = AnySourceGroup(IPv4Address("230.4.4.1"), ("h0",))
    run = await start(depth=2, groups=[group])
    await run.report("h3", igmp.join(group_address(1, 0)))
    await run.until(lambda: run.of("igmp"))
    controller = run.controller
    await run.servers["s1"].close()
    await run.until(lambda: controller.is_away("s1"))
    for tree in controller._subscriptions._trees.values():
        tree.reroute = lambda: ["s1", "s0"]  # the tree's part of both has changed
    (shared,) = controller._subscriptions._shared.values()
    shared.reroute = lambda: {"s1", "s0"}
    asked = []
    set_target = controller._subscriptions._set_target
    controller._subscriptions._set_target = lambda *a: asked.append(a[0]) or set_target(*a)
    for _ in range(2):  # the second move of the group waits for the first
        asked.clear()
        await asyncio.wait_for(controller._subscriptions.reroute(), PATIENCE_S)
        count = 2 * len(controller._subscriptions._trees)
        assert asked[:count] == ["s1", "s0"] * (count // 2)
    await run.servers["s1"].serve(run.topology.switch("s1").address)
    async with asyncio.timeout(PATIENCE_S):  # what went on beside ends
        async with controller._subscriptions._moving[shared.group.address]:
            assert not controller.is_away("s1")


async def test_leaves_that_are_repeated_are_asked_about_once(start, igmp) -> None:
    """RFC 3376 6.6.3 keeps one state of retransmissions for a group."""
    querier = Querier(last_member_interval_s=0.1, last_member_count=2)
    run = await start(depth=1, querier=querier)
    group, out = group_address(1, 0), run.servers["s0"].packets_out
    record = IGMPv3_MR_Group(rtype=3, maddr=str(group))
    await run.report("h1", igmp.join(group))
    for _ in range(5):
        await run.report("h1", igmp.frame(IGMPv3_MR(records=[record] * 100), "10.0.1.2"))
    await run.heard()
    names = [task.get_name() for task in run.controller._tasks]
    assert sum("leave latency" in name for name in names) <= 1
    await run.until(lambda: len(run.of("igmp")) == 2)
    asked = []
    while not out.empty():
        packet = Ether(out.get_nowait().payload)
        asked += [packet] if packet[IP].dst == str(group) else []
    assert len(asked) == querier.specific_queries


async def test_a_leave_renews_the_queries_of_one_before() -> None:
    """Two hosts on h1's link leave, one after the other: the second leave gets its queries, too."""
    querier = Querier(last_member_interval_s=0.2, last_member_count=2)
    inquiries, sent = Inquiries(querier, send := _Sends()), send.frames
    about = (("s0", 2), group_address(1, 0), ())
    work = inquiries.ask_for(*about, ends_s=lambda: 0.0)
    assert work is not None
    asking = asyncio.create_task(work)
    await run_until(lambda: len(sent) == 1)
    assert inquiries.ask_for(*about, ends_s=lambda: 0.0) is None
    of_sources = (*about[:2], (IPv4Address("10.0.0.2"),))
    other = inquiries.ask_for(*of_sources, ends_s=lambda: 0.0)
    assert other is not None  # of sources alone is another question
    other.close()
    await asking
    assert len(sent) == 3
    again = inquiries.ask_for(*about, ends_s=lambda: 0.0)
    assert again is not None
    again.close()


class _Sends:
    def __init__(self) -> None:
        self.frames: list[bytes] = []

    async def __call__(self, switch: str, port: int, frame: bytes) -> None:
        self.frames.append(frame)


async def run_until(condition) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


def test_a_primary_is_back_before_a_standby_takes_its_switch() -> None:
    """gRPC adds up to a fifth to the channel's pause."""
    options = dict(p4runtime._CHANNEL_OPTIONS)
    reconnects_s = options["grpc.max_reconnect_backoff_ms"] / 1000
    longest_s = p4runtime_stream.LONGEST_PAUSE_S + 1.2 * reconnects_s
    assert longest_s < p4runtime_stream.GRACE_S


@pytest.mark.parametrize("version", [2, 3])
async def test_the_querier_asks_every_host_and_forgets_the_silent(
    start, igmp, monkeypatch, version
) -> None:
    """The lifetime is 2 * 0.4 + 0.1 s, on a clock that the test sets. h1 answers and stays; h2 is
    silent and expires."""
    clock = SimpleNamespace(now=1000.0)
    now = {"monotonic": lambda: clock.now, "monotonic_ns": lambda: round(clock.now * 1e9)}
    for module in (controller_module, p4runtime_stream):
        monkeypatch.setattr(module, "time", SimpleNamespace(**vars(time) | now))
    querier = Querier(interval_s=0.4, max_response_s=0.1, version=version)
    run = await start(depth=1, querier=querier)
    ports = set()
    while len(ports) < 3:
        packet = await asyncio.wait_for(run.servers["s0"].packets_out.get(), PATIENCE_S)
        assert parse_frame(packet.payload).type is Type.QUERY
        ports.add(packet.metadata[0].value[0])
    assert ports == {1, 2, 3}
    group = group_address(1, 0)
    await run.report("h2", igmp.join(group))
    await run.until(lambda: len(run.of("igmp")) == 1)
    for tenths in range(1, 9):
        await run.report("h1", igmp.v3(str(group), 2))
        await run.heard()
        clock.now = 1000 + tenths / 10
    await run.until(lambda: len(run.of("igmp")) == 2)  # nobody has been silent for a lifetime
    await run.report("h1", igmp.v3(str(group), 2))
    await run.heard()
    clock.now = 1000.95
    await run.until(lambda: len(run.of("igmp")) == 3)
    assert [(e["action"], e["port"]) for e in run.of("igmp")] == [
        ("join", 3),
        ("join", 2),
        ("expire", 3),
    ]
    assert (await run.on_switch("s0")).copies == {group: frozenset({2})}


def hello(role: lab_pb2.Role, number: int) -> lab_pb2.FromAgent:
    """Of the agent at host h<number>."""
    return lab_pb2.FromAgent(
        hello=lab_pb2.Hello(
            role=role, name=f"h{number}", scheme="sim", session=1, id=number, version=2, instance=1
        )
    )


async def test_a_sender_is_told_its_membership(start, igmp, socket_directory) -> None:
    address = f"unix:{socket_directory}/lab.sock"
    run = await start(depth=1, lab_address=address)
    async with grpc.aio.insecure_channel(address) as channel:
        call = lab_pb2_grpc.LabStub(channel).Attach(wait_for_ready=True)
        await call.write(hello(lab_pb2.ROLE_SENDER, 0))
        await run.controller.wait_agents(["h0"], PATIENCE_S)
        run.controller.start_sessions()
        for rank in (0, 1):
            await run.report("h1", igmp.join(group_address(1, rank)))
            await run.until(lambda rank=rank: len(run.of("membership")) == rank + 1)
        await run.report("h1", igmp.leave(group_address(1, 1)))
        seen = [await asyncio.wait_for(call.read(), PATIENCE_S) for _ in range(6)]
        assert [m.WhichOneof("message") for m in seen[:2]] == ["welcome", "start"]
        assert seen[0].welcome.epoch_ns == run.controller.epoch_ns
        assert [m.membership.top_rank for m in seen[2:]] == [-1, 0, 1, 0]
        stopping = asyncio.create_task(run.controller.stop())
        assert (await call.read()).WhichOneof("message") == "stop"
        await call.done_writing()
        await stopping
    assert [e["state"] for e in run.of("agent")] == ["attached", "detached"]


async def test_records_go_to_the_file_where_the_controller_before_has_left_them(
    start, socket_directory
) -> None:
    """It may have written a batch and died before the agent heard so."""
    address, path = f"unix:{socket_directory}/lab.sock", socket_directory / "records.jsonl"

    def batch(sequence: int, top: int) -> Batch:
        return Batch("h1", 1, sequence, [Record(5, "subscription", {"top": float(top)})])

    path.write_bytes(batch(0, 3).lines() + batch(1, 4).lines()[:-1])  # the second is not whole
    run = await start(depth=1, lab_address=address, records=path)
    async with grpc.aio.insecure_channel(address) as channel:
        call = lab_pb2_grpc.LabStub(channel).Attach(wait_for_ready=True)
        await call.write(hello(lab_pb2.ROLE_RECEIVER, 1))
        for sequence, top in ((0, 3), (1, 4), (4, 7)):
            field = lab_pb2.Field(name="top", value=top)
            record = lab_pb2.Record(time_ns=5, kind="subscription", fields=[field])
            records = lab_pb2.Records(records=[record], sequence=sequence)
            await call.write(lab_pb2.FromAgent(records=records))
        seen = [await asyncio.wait_for(call.read(), PATIENCE_S) for _ in range(4)]
        assert seen[0].WhichOneof("message") == "welcome"
        assert [m.acknowledge.sequence for m in seen[1:]] == [1, 2, 5]
        await run.controller.stop(ends_agents=False)
    assert path.read_bytes() == b"".join(
        one.lines() for one in (batch(0, 3), batch(1, 4), batch(4, 7))
    )
    assert [(e["name"], e["lost"]) for e in run.of("records")] == [("h1", 2)]


async def test_links(start) -> None:
    run = await start(depth=1)
    await run.controller.set_link("s0", 2, rate_bps=3_000_000, delay_ns=5_000_000)
    (link,) = run.servers["s0"].links
    assert (link.port, link.rate_bps, link.delay_ns) == (2, 3_000_000, 5_000_000)
    assert not link.HasField("queue_packets")
    assert (await run.controller.ports("s0")).ports[0].port == 1
    with pytest.raises(ConfigurationError, match="s0 has no port 9; it has: 1, 2, 3"):
        await run.controller.set_link("s0", 9, rate_bps=1)
    with pytest.raises(ConfigurationError, match="switch 's7' is not one of: s0"):
        await run.controller.ports("s7")


async def test_red_on_arrival_is_set_where_it_is_wanted_and_nowhere_else(start) -> None:
    run = await start(depth=1)
    await run.controller.stop()
    server = run.servers["s0"]
    assert server.links == []  # nobody wanted any
    run.topology.set_marking("s0", 2, Red(where="arrival", ecn=True).at(6_000_000, 1000))
    again = await start(run=run)
    await again.controller.stop()
    (link,) = server.links
    assert (link.port, link.red.min_th, link.red.weight, link.red.ecn) == (2, 5, 0.002, True)
    assert not link.HasField("rate_bps")
    await (await start(run=run)).controller.stop()
    assert len(server.links) == 1  # it is there already
    run.topology.set_marking("s0", 2, Red().at(6_000_000, 1000))
    await start(run=run)
    assert server.reds == {} and len(server.links) == 2


async def test_two_queues_are_set_where_they_are_wanted_and_nowhere_else(start) -> None:
    run = await start(depth=1)
    await run.controller.stop()
    server = run.servers["s0"]
    run.topology.set_marking("s0", 2, DualPi2(classic_share=0.2).at(6_000_000, 1000))
    again = await start(run=run)
    classes = await again.controller._switches["s0"].client.read_entries(["queue_class"])
    await again.controller.stop()
    (link,) = server.links
    assert (link.port, link.priority_queues.queues) == (2, 2)
    assert link.priority_queues.low_share == 0.2 and not link.HasField("red")
    assert {(item.exact("ecn"), item.params) for item in classes} == {
        (1, (("queue_priority", 1),)),
        (3, (("queue_priority", 1),)),
    }
    await (await start(run=run)).controller.stop()
    assert len(server.links) == 1  # they are there already
    run.topology.set_marking("s0", 2, Pi2().at(6_000_000, 1000))
    await start(run=run)
    assert server.priorities == {} and len(server.links) == 2


async def test_a_switch_without_such_queues_is_named(start, monkeypatch) -> None:
    run = await start(depth=1)
    await run.controller.stop()

    async def unsupported(self, timeout_s: float = 5) -> None:
        raise UnsupportedError("s0: GetPorts: UNIMPLEMENTED")

    monkeypatch.setattr(p4runtime.P4RuntimeClient, "get_ports", unsupported)
    await (await start(run=run)).controller.stop()
    run.topology.set_marking("s0", 2, Red(where="arrival").at(6_000_000, 1000))
    with pytest.raises(UnsupportedError, match="s0: RED with `where: arrival` at port 2, but"):
        await start(run=run)
    run.topology.set_marking("s0", 3, DualPi2().at(6_000_000, 1000))
    with pytest.raises(UnsupportedError, match="s0: two queues by priority at port 3, but"):
        await start(run=run)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"interval_s": 5}, "interval_s 5 must exceed max_response_s 10"),
        ({"max_response_s": 30}, "max_response_s is 30, not within 0.1..25.5"),
        ({"version": 1}, "version is 1, not 2 or 3"),
        ({"robustness": 8}, "robustness is 8, not within 1..7"),
        ({"startup_interval_s": 0}, "startup_interval_s is 0, not above 0"),
        ({"last_member_interval_s": 0}, "last_member_interval_s is 0, not within 0.1..25.5"),
        ({"last_member_count": 101}, "last_member_count is 101, not within 0..100"),
    ],
)
def test_bad_queriers(values, text) -> None:
    with pytest.raises(ConfigurationError, match=text):
        Querier(**values)


async def test_a_querier_has_its_own_leave_latency(tree_of, program) -> None:
    with pytest.raises(ConfigurationError, match=r"leave_latency_s is 1, .* its own \(2 s: last_"):
        Controller(tree_of(1), SESSIONS[:1], program, querier=Querier(), leave_latency_s=1)


async def test_nothing_answers(tree_of, program, socket_directory) -> None:
    controller = Controller(tree_of(1, socket_directory), SESSIONS[:1], program)
    with pytest.raises(SwitchError, match=r"s0: no answer on unix:.* within 0\.2 s"):
        await controller.start(timeout_s=0.2)
    await controller.stop()
