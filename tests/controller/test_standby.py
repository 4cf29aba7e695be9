"""Standbys: when one takes the switches over, and what it does with those that are away."""

import asyncio
from ipaddress import IPv4Address
from itertools import chain

import pytest
from p4.v1 import p4runtime_pb2 as p4
from tiercast_controller.base.errors import NotPrimaryError
from tiercast_controller.controller import Controller
from tiercast_controller.network.topology import AnySourceGroup, group_address
from tiercast_controller.p4runtime import client as p4runtime
from tiercast_controller.p4runtime import standby
from tiercast_controller.p4runtime import stream as p4runtime_stream
from tiercast_controller.p4runtime.stream import Standing

from ..patience import PATIENCE_S
from .controller_run import SESSIONS, places_of, without_groups


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


async def test_a_group_stays_at_a_switch_that_returns_while_another_change_of_it_goes_on(
    start, igmp, program
) -> None:
    group = AnySourceGroup(IPv4Address("230.4.4.1"), ("h0",))
    run = await start(depth=2, sessions=SESSIONS[:1], groups=[group])
    await run.report("h3", igmp.join(group.address))  # behind s1
    await run.until(lambda: run.of("igmp"))
    before = await run.on_switch("s1")
    await run.servers["s1"].close()
    await run.until(lambda: run.of("switch"))
    second = Controller(run.topology, SESSIONS[:1], program, groups=[group])
    standing_by = asyncio.create_task(second.stand_by())
    await run.controller.stop()
    await asyncio.wait_for(standing_by, PATIENCE_S)
    try:
        await second.start()
        async with second._subscriptions._moving[group.address]:
            written = len(run.servers["s1"].batches)
            await run.servers["s1"].serve(run.topology.switch("s1").address)
            await run.until(lambda: not second.is_away("s1"))
            await second.mend()
            assert len(run.servers["s1"].batches) == written
        assert (await second.read_multicast("s1")).forwarding() == before
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


def test_a_primary_is_back_before_a_standby_takes_its_switch() -> None:
    """gRPC adds up to a fifth to the channel's pause."""
    options = dict(p4runtime._CHANNEL_OPTIONS)
    reconnects_s = options["grpc.max_reconnect_backoff_ms"] / 1000
    longest_s = p4runtime_stream.LONGEST_PAUSE_S + 1.2 * reconnects_s
    assert longest_s < p4runtime_stream.GRACE_S
