"""The whole controller against in-process switches: from IGMP frames to installed state."""

import asyncio
import random
import time

import grpc
import pytest
from tiercast.v1 import lab_pb2, lab_pb2_grpc
from tiercast_controller.agents.records import Batch, Record
from tiercast_controller.base.errors import (
    ConfigurationError,
    ControllerError,
    SwitchError,
    UnsupportedError,
)
from tiercast_controller.controller import Controller
from tiercast_controller.multicast.replication import ReplicationGroups
from tiercast_controller.multicast.trees import SessionState, SessionTrees, Upstream
from tiercast_controller.network.aggregation import aggregation_entries
from tiercast_controller.network.marking import DualPi2, Pi2, Red
from tiercast_controller.network.routing import static_entries
from tiercast_controller.network.topology import Session, group_address
from tiercast_controller.p4runtime import client as p4runtime

from ..patience import PATIENCE_S
from .controller_run import SESSIONS, Run, places_of


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


async def test_a_sender_is_told_of_a_layer_when_its_path_is_ready(start, igmp) -> None:
    """Not when a path of a lower one is. Once it is, another member's path holds up nothing."""
    run = await start(depth=2, sessions=SESSIONS[:1])
    told = [0]
    run.servers["s2"].answers_writes.clear()
    await run.report("h5", igmp.join(group_address(1, 3)))  # behind s2
    await run.heard()
    await run.report("h3", igmp.join(group_address(1, 0)))  # behind s1
    await run.until(lambda: run.of("membership"))
    assert [one["top_rank"] for one in run.of("membership")] == told
    run.servers["s2"].answers_writes.set()
    await run.until(lambda: len(run.of("membership")) == 2)
    told += [3]

    run.servers["s1"].answers_writes.clear()
    await run.report("h3", igmp.join(group_address(1, 3)))
    await run.heard()
    await run.report("h5", igmp.join(group_address(1, 4)))
    await run.until(lambda: len(run.of("membership")) == 3)
    told += [4]
    await run.report("h5", igmp.leave(group_address(1, 4)))
    await run.until(lambda: len(run.of("membership")) == 4)
    told += [3]
    assert [one["top_rank"] for one in run.of("membership")] == told
    run.servers["s1"].answers_writes.set()
    await run.until(lambda: len(run.of("igmp")) == 5)
    for host in ("h3", "h5"):
        await run.report(host, igmp.leave(group_address(1, 3)))
    await run.until(lambda: len(run.of("igmp")) == 7)
    told += [0]
    assert [one["top_rank"] for one in run.of("membership")] == told


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


async def test_an_error_that_no_switch_made_fails_the_run(start, igmp, monkeypatch) -> None:
    run = await start(depth=1)

    def refuse(*_: object) -> None:
        raise ConfigurationError("session 300 does not fit")

    monkeypatch.setattr(ReplicationGroups, "plan", refuse)
    await run.report("h1", igmp.join(group_address(1, 0)))
    said = "internal error in the installer of 1: session 300 does not fit"
    with pytest.raises(SwitchError, match=said):
        await asyncio.wait_for(asyncio.shield(run.controller.failed), PATIENCE_S)


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


async def test_nothing_answers(tree_of, program, socket_directory) -> None:
    controller = Controller(tree_of(1, socket_directory), SESSIONS[:1], program)
    with pytest.raises(SwitchError, match=r"s0: no answer on unix:.* within 0\.2 s"):
        await controller.start(timeout_s=0.2)
    await controller.stop()
