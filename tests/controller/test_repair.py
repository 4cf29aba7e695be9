"""Switches that are brought back to what they should hold: after a restart of the controller, a
refused write, somebody else's change, and a time away."""

import asyncio
from ipaddress import IPv4Address, IPv4Interface

import grpc
import pytest
from p4.v1 import p4runtime_pb2 as p4
from tiercast_controller.base.errors import SwitchError, UnreachableError
from tiercast_controller.controller import Controller
from tiercast_controller.multicast.trees import SessionState
from tiercast_controller.network.topology import (
    AnySourceGroup,
    Host,
    Session,
    Switch,
    Topology,
    group_address,
)
from tiercast_controller.p4runtime import client as p4runtime
from tiercast_controller.p4runtime.entities import TableEntry, Update, entry

from ..patience import PATIENCE_S
from .controller_run import SESSIONS, Run, entries_of, without_groups


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


async def test_a_restart_without_a_link_removes_what_led_there(
    igmp, program, reference_switches, socket_directory
) -> None:
    group = AnySourceGroup(IPv4Address("230.4.4.1"), ("h0",))

    def star(hosts: int) -> Topology:
        topology = Topology()
        topology.add_switch(Switch("s0", 1, f"unix:{socket_directory}/s0.sock", 0x020000010000))
        for n in range(hosts):
            topology.add_host(Host(f"h{n}", IPv4Interface(f"10.0.{n}.2/24"), 0x020000000000 + n))
            topology.connect("s0", n + 1, f"h{n}")
        return topology

    def controller(topology: Topology, events: list) -> Controller:
        sessions = [Session(1, 2, "h0")]
        return Controller(topology, sessions, program, groups=[group], on_event=events.append)

    before, after = star(3), star(2)
    servers, events = await reference_switches(before), []
    first = Run(before, servers, program, controller(before, events), events)
    await first.controller.start()
    for address in (group_address(1, 0), group.address):
        for host in ("h1", "h2"):
            await first.report(host, igmp.join(address))
    await first.until(lambda: len(first.of("igmp")) == 4)
    await first.controller.stop()
    second = controller(after, [])
    try:
        await second.start()
        held = (await second.read_multicast("s0")).forwarding()
        assert held.copies == dict.fromkeys((group_address(1, 0), group.address), frozenset({2}))
        assert held.tops == {(2, 1): 0}
    finally:
        await second.stop()


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


@pytest.mark.parametrize("fails", ["SetForwardingPipelineConfig", "Write", "GetPorts", "SetLink"])
async def test_a_switch_that_is_lost_again_while_it_returns_gets_its_trees(
    start, igmp, fails
) -> None:
    """It has its program by then, so that the next attempt does not find that it had lost it."""
    run = await start(depth=2, sessions=SESSIONS[:1])
    await run.report("h3", igmp.join(group_address(1, 0)))
    await run.until(lambda: run.of("igmp"))
    await run.controller.set_link("s1", 2, rate_bps=3_000_000)
    server, before = run.servers["s1"], await run.on_switch("s1")
    assert before.copies
    await server.die()
    await run.until(lambda: run.of("switch"))
    does, calls = getattr(server, fails), iter([True])

    async def carried_out_but_unanswered(request, context):
        """Once."""
        answer = await does(request, context)
        if next(calls, False):
            await context.abort(grpc.StatusCode.UNAVAILABLE, "connection reset")
        return answer

    setattr(server, fails, carried_out_but_unanswered)
    await server.serve(run.topology.switch("s1").address)
    await run.until(lambda: len(run.of("switch")) == 2)
    back = run.of("switch")[1]
    assert (back["state"], back["restarted"]) == ("back", True)
    assert server.pipelines_set == 2
    assert await run.on_switch("s1") == before
    assert [link.rate_bps for link in server.links if link.HasField("rate_bps")][-1] == 3_000_000
    assert not run.controller.failed.done()


async def test_what_a_switch_lacks_of_its_trees_is_mended(start, igmp) -> None:
    """Though it has acknowledged no more than it holds."""
    run = await start(depth=1)
    await run.report("h1", igmp.join(group_address(1, 0)))
    await run.until(lambda: run.of("igmp"))
    before = await run.on_switch("s0")
    installer = run.controller._switches["s0"].installer(1)
    target = installer._target
    await installer.set_target(SessionState())
    installer._target = target
    assert await run.on_switch("s0") == SessionState()
    await run.controller.mend()
    assert await run.on_switch("s0") == before


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


@pytest.mark.parametrize("replicas", [((2, 1), (2, 2)), ((2, 7),)], ids=["twice", "as another"])
@pytest.mark.parametrize("taken_over", [False, True])
async def test_a_group_with_other_replicas_is_mended(start, igmp, replicas, taken_over) -> None:
    run = await start(depth=1)
    await run.report("h1", igmp.join(group_address(1, 0)))
    await run.until(lambda: run.of("igmp"))
    server = run.servers["s0"]
    (key,) = (key for key in server.entities if key.startswith(b"group"))
    right, entity = dict(server.entities), p4.Entity()
    group = entity.packet_replication_engine_entry.multicast_group_entry
    group.multicast_group_id = int(key.split()[1])
    for port, instance in replicas:
        group.replicas.add(egress_port=port, instance=instance)
    server.entities[key] = entity
    if taken_over:
        await run.controller.stop()
        run = await start(run=run)
        assert len(run.controller.members()) == 1
    else:
        await run.controller.mend()
        assert (await run.controller.fates("s0"))[2].egress.entered is None
    assert dict(server.entities) == right


@pytest.mark.parametrize("refusals", [1, 3])
async def test_a_mending_that_is_refused_is_tried_three_times(start, refusals) -> None:
    run = await start(depth=1)
    server = run.servers["s0"]
    right = dict(server.entities)
    server.entities.pop(next(key for key, e in right.items() if e.HasField("table_entry")))
    server.refuse = refusals
    if refusals == 3:
        with pytest.raises(SwitchError, match="RESOURCE_EXHAUSTED"):
            await run.controller.mend()
        assert server.refuse == 0
    else:
        await run.controller.mend()
        assert [event["state"] for event in run.of("switch")] == ["mended"]
        assert dict(server.entities) == right


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


@pytest.mark.parametrize("aggregation", ["network", "sender"])
async def test_a_clone_session_with_other_replicas_is_replaced_or_removed(
    start, aggregation
) -> None:
    run = await start(depth=1, sessions=[])
    await run.controller.stop()
    entity = p4.Entity()
    clones = entity.packet_replication_engine_entry.clone_session_entry
    clones.session_id = 1
    for port in (1, 2):
        clones.replicas.add(egress_port=port, instance=1)
    server = run.servers["s0"]
    server.entities[b"clone session 1"] = entity
    await start(run=run, sessions=[Session(1, 2, "h0", aggregation=aggregation)])
    ports = [
        replica.egress_port
        for key, held in server.entities.items()
        if key == b"clone session 1"
        for replica in held.packet_replication_engine_entry.clone_session_entry.replicas
    ]
    assert ports == ([510] if aggregation == "network" else [])


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
    await asyncio.wait_for(managed.change([], [victim]), PATIENCE_S)
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
    for _ in range(2):
        asked.clear()
        await asyncio.wait_for(controller._subscriptions.reroute(), PATIENCE_S)
        count = 2 * len(controller._subscriptions._trees)
        assert asked[:count] == ["s1", "s0"] * (count // 2)
        # The group's old tree goes before the new one comes.
        assert [sorted(asked[at : at + 2]) for at in (count, count + 2)] == [["s0", "s1"]] * 2
    await run.servers["s1"].serve(run.topology.switch("s1").address)
    await run.until(lambda: not controller.is_away("s1"))
    assert not controller.failed.done()
