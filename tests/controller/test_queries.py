"""IGMP queries: whom the controller asks, when, and what follows from silence."""

import asyncio
import time
from ipaddress import IPv4Address
from types import SimpleNamespace

import pytest
from scapy.all import IP, Ether
from scapy.layers.igmp import IGMP, IGMPv3_MQ, IGMPv3_MR, IGMPv3_MR_Group
from tiercast_controller import controller as controller_module
from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.controller import Controller
from tiercast_controller.multicast.igmp import Type, parse_frame
from tiercast_controller.multicast.querier import Inquiries, Querier
from tiercast_controller.network.topology import AnySourceGroup, group_address
from tiercast_controller.p4runtime import stream as p4runtime_stream

from ..patience import PATIENCE_S
from .controller_run import SESSIONS, run_until

ANY_SOURCE = AnySourceGroup(IPv4Address("230.4.4.1"), ("h0",))


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


@pytest.mark.parametrize("group", [group_address(1, 0), ANY_SOURCE.address], ids=["session", "any"])
async def test_an_answer_in_several_records_is_of_a_member(start, igmp, group) -> None:
    """RFC 3376 4.2.16: a host that wants several sources may name each in a record of its own."""
    run = await start(depth=1, groups=[ANY_SOURCE])
    sources = ("10.0.0.2", "10.9.9.9")
    for kind in (5, 1):  # it allows them, and answers a query
        for source in sources:
            await run.report("h1", igmp.v3(str(group), kind, (source,)))
    await run.heard()
    (member,) = [*run.controller.members(), *run.controller.group_members()]
    assert (member.switch, member.port) == ("s0", 2)
    await run.report("h1", igmp.v3(str(group), 6, sources))
    await run.until(lambda: len(run.of("igmp")) == 2)
    assert [e["action"] for e in run.of("igmp")] == ["join", "leave"]


async def test_who_does_not_name_the_source_after_a_takeover_is_gone(
    start, igmp, monkeypatch
) -> None:
    """It blocked the source while nobody heard it, and answers with the other one."""
    soon = Querier(interval_s=1, max_response_s=0.1, startup_interval_s=0.1)
    monkeypatch.setattr(controller_module, "Querier", lambda: soon)
    run, group = await start(depth=1), str(group_address(1, 0))
    await run.report("h1", igmp.v3(group, 5, ("10.0.0.2", "10.9.9.9")))
    await run.until(lambda: run.of("igmp"))
    await run.controller.stop()
    again = await start(run=run)
    await again.report("h1", igmp.v3(group, 1, ("10.9.9.9",)))
    await again.until(lambda: again.of("igmp"))
    assert again.of("igmp")[0]["action"] == "expire"


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


async def test_leaves_that_are_repeated_are_asked_about_once(start, igmp) -> None:
    """RFC 3376 6.6.3 keeps one state of retransmissions for a group."""
    querier = Querier(last_member_interval_s=0.5, last_member_count=2)
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
