"""The P4Runtime client against an in-process server that enforces the standard's rules."""

import asyncio
from types import SimpleNamespace

import pytest
from tiercast.v1 import lab_pb2
from tiercast_controller.base.errors import (
    ConfigurationError,
    NotPrimaryError,
    SwitchError,
    UnreachableError,
    UnsupportedError,
)
from tiercast_controller.multicast.trees import route, top_group
from tiercast_controller.network.topology import group_address
from tiercast_controller.p4runtime import stream
from tiercast_controller.p4runtime.client import P4RuntimeClient, WriteError
from tiercast_controller.p4runtime.entities import (
    CloneSession,
    MeterCell,
    MulticastGroup,
    Op,
    RegisterCell,
    Update,
    entry,
)
from tiercast_controller.p4runtime.program import Program
from tiercast_controller.p4runtime.static_state import StaticState, updates_to

from ..free_port import free_port
from ..patience import PATIENCE_S
from .conftest import ReferenceSwitch

HOST = entry("ipv4_host", {"dst_addr": 0x0A000F02}, "forward", {"port": 3, "dst_mac": 0x020000000F})
LPM = entry("ipv4_lpm", {"dst_addr": (0x0A001000, 22)}, "forward", {"port": 2, "dst_mac": 1 << 41})
DROP = entry("ipv4_lpm", {"dst_addr": (0, 0)}, "drop")


@pytest.fixture
async def switch(tree_of, reference_switches, socket_directory):
    topology = tree_of(1, socket_directory)
    servers = await reference_switches(topology)
    return topology.switch("s0"), servers["s0"]


@pytest.fixture
async def client(switch, program):
    client = P4RuntimeClient("s0", switch[0].device_id, switch[0].address, program)
    await client.connect()
    yield client
    await client.close()


async def test_pipeline_is_loaded_once(client, switch) -> None:
    assert await client.set_pipeline()
    assert not await client.set_pipeline()
    assert switch[1].pipelines_set == 1
    assert switch[1].config.p4_device_config.startswith(b"{")


async def test_groups_do_not_outlive_another_program(client, switch) -> None:
    await client.set_pipeline()
    await client.write([Update(Op.INSERT, MulticastGroup(m, frozenset({1}))) for m in (1, 2)])
    switch[1].config.cookie.cookie ^= 1
    assert await client.set_pipeline()
    assert switch[1].entities == {}


async def test_entries_and_groups_read_back_as_written(client) -> None:
    entries = [HOST, LPM, DROP, top_group((2, 1), 4), route(group_address(1, 0), 1)]
    await client.write([Update(Op.INSERT, e) for e in entries])
    await client.write([Update(Op.INSERT, MulticastGroup(1, frozenset({1, 3})))])
    tables = ["ipv4_host", "ipv4_lpm", "top_group", "ipv4_multicast"]
    assert set(await client.read_entries(tables)) == set(entries)
    assert await client.read_groups() == {1: frozenset({1, 3})}
    await client.write([Update(Op.MODIFY, MulticastGroup(1, frozenset({2})))])
    assert await client.read_groups() == {1: frozenset({2})}
    await client.write([Update(Op.DELETE, MulticastGroup(1, frozenset()))])
    assert await client.read_groups() == {}


async def test_a_failed_write_names_each_update_and_applies_the_others(client) -> None:
    await client.write([Update(Op.INSERT, HOST)])
    with pytest.raises(WriteError) as raised:
        await client.write(
            [
                Update(Op.INSERT, HOST),
                Update(Op.INSERT, LPM),
                Update(Op.DELETE, MulticastGroup(7, frozenset())),
            ]
        )
    assert str(raised.value) == (
        "s0: 2 of 3 updates failed:\n"
        "  INSERT ipv4_host[dst_addr=0xa000f02] -> forward(dst_mac=0x20000000f, port=0x3): "
        "ALREADY_EXISTS: entry exists\n"
        "  DELETE multicast group 7 -> ports []: NOT_FOUND: no such entry"
    )
    assert await client.read_entries(["ipv4_lpm"]) == [LPM]


async def test_the_later_controller_wins_and_the_earlier_knows(switch, program) -> None:
    first = P4RuntimeClient("s0", switch[0].device_id, switch[0].address, program)
    await first.connect()
    second = P4RuntimeClient("s0", switch[0].device_id, switch[0].address, program)
    await second.connect()
    with pytest.raises(NotPrimaryError, match="another controller is primary"):
        await asyncio.wait_for(asyncio.shield(first.lost), PATIENCE_S)
    await second.write([Update(Op.INSERT, HOST)])
    with pytest.raises(SwitchError, match="PERMISSION_DENIED"):
        await first.write([Update(Op.DELETE, HOST)])
    await first.close()
    await second.close()


async def test_of_two_that_claim_at_once_the_higher_one_wins(switch, program) -> None:
    """It hears of the other's success before the switch has read what it asks."""
    lower, higher = (
        P4RuntimeClient("s0", switch[0].device_id, switch[0].address, program) for _ in range(2)
    )
    await higher.stream.watch()
    async with higher.stream._writing:
        claims = asyncio.create_task(higher.connect(PATIENCE_S))
        await asyncio.sleep(0)  # it is about to ask
        await lower.connect(PATIENCE_S)
        async with asyncio.timeout(PATIENCE_S):
            while higher.stream.standing is not stream.Standing.ANOTHERS:
                await asyncio.sleep(0.005)
    await claims
    await higher.write([Update(Op.INSERT, HOST)])
    with pytest.raises(NotPrimaryError, match="another controller is primary"):
        await asyncio.wait_for(asyncio.shield(lower.lost), PATIENCE_S)
    await lower.close()
    await higher.close()


async def test_packets_in_and_out(client, switch, program) -> None:
    await switch[1].punt(program, 3, b"frame")
    packet = await asyncio.wait_for(client.packet_in.get(), PATIENCE_S)
    assert (packet.port, packet.frame) == (3, b"frame")
    await client.packet_out(2, b"query")
    packet = await asyncio.wait_for(switch[1].packets_out.get(), PATIENCE_S)
    assert packet.payload == b"query"
    assert [(m.metadata_id, m.value) for m in packet.metadata] == [(1, b"\x02"), (2, b"\0")]


async def test_a_switch_that_goes_away_is_noticed(client, switch) -> None:
    await switch[1].close()
    with pytest.raises(SwitchError, match="s0"):
        await asyncio.wait_for(asyncio.shield(client.lost), PATIENCE_S)
    with pytest.raises(SwitchError, match="UNAVAILABLE"):
        await client.write([Update(Op.INSERT, HOST)])


async def test_nobody_there(program, socket_directory) -> None:
    client = P4RuntimeClient("s9", 1, f"unix:{socket_directory}/none", program)
    with pytest.raises(SwitchError, match=r"s9: no answer on unix:.*none within 0\.3 s"):
        await client.connect(timeout_s=0.3)
    await client.close()


async def test_a_switch_that_is_slow_to_answer_is_waited_for(
    switch, program, socket_directory
) -> None:
    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(4096):
            writer.write(data)
        writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.5)  # what a busy machine may need
        there = await asyncio.open_unix_connection(switch[0].address.removeprefix("unix:"))
        await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

    slow = f"{socket_directory}/slow"
    async with await asyncio.start_unix_server(relay, slow):
        client = P4RuntimeClient("s0", switch[0].device_id, f"unix:{slow}", program)
        assert await client.running_cookie(PATIENCE_S) is None
        await client.close()


async def test_links_and_services_that_are_missing(client, switch) -> None:
    await client.set_link(lab_pb2.SetLinkRequest(port=1, rate_bps=6_000_000))
    assert switch[1].links[0].rate_bps == 6_000_000
    assert not switch[1].links[0].HasField("delay_ns")
    with pytest.raises(SwitchError, match=r"SetLink of port 9: NOT_FOUND: no port 9; 1\.\.3"):
        await client.set_link(lab_pb2.SetLinkRequest(port=9))
    assert (await client.get_ports()).ports[0].name == "eth0"
    with pytest.raises(UnsupportedError, match="registers are not readable"):
        await client.read_register("avg_queue")


def test_names_values_and_choices(program) -> None:
    cases = {
        r"table 'nat' is not in the P4 program; it has: .*ipv4_host, ipv4_lpm,": entry(
            "nat", {}, "drop"
        ),
        r"table top_group of .* has no action 'mark'; it has: .*set_top_group": entry(
            "top_group", {"egress_port": 1, "session": 1}, "mark"
        ),
        r"table top_group of .* has no action 'forward'": entry(
            "top_group", {"egress_port": 1, "session": 1}, "forward"
        ),
        r"match field of table top_group 'port' is not .*egress_port, session": entry(
            "top_group", {"port": 1}, "drop"
        ),
        r"top_group\.egress_port: 512 does not fit bit<9>": top_group((512, 1), 1),
        r"set_top_group\.rank: 8 does not fit bit<3>": top_group((1, 1), 8),
        r"ipv4_host\.dst_addr is matched exact; \(1, 2\)": entry(
            "ipv4_host", {"dst_addr": (1, 2)}, "drop"
        ),
        r"table top_group needs egress_port, session": entry(
            "top_group", {"session": 1}, "set_top_group", {"rank": 1}
        ),
        r"action forward needs port, dst_mac": entry(
            "ipv4_host", {"dst_addr": 1}, "forward", {"port": 1}
        ),
    }
    for text, item in cases.items():
        with pytest.raises(ConfigurationError, match=text):
            program.encode_entry(item)
    with pytest.raises(ConfigurationError, match="'port' is not .*egress_port, pad"):
        program.encode_packet_out(b"", port=1)


def test_byte_strings_are_canonical(program) -> None:
    message = program.encode_entry(top_group((256, 0), 0))
    assert [m.exact.value for m in message.match] == [b"\x01\x00", b"\x00"]


def test_program_files(tmp_path) -> None:
    with pytest.raises(ConfigurationError, match="none.txt: No such file"):
        Program.load(tmp_path / "none.json", tmp_path / "none.txt")
    (tmp_path / "p4info").write_text("tables { nonsense: 1 }")
    (tmp_path / "json").write_text("{}")
    with pytest.raises(ConfigurationError, match="p4info: not P4Info text: .*nonsense"):
        Program.load(tmp_path / "json", tmp_path / "p4info")


def test_reconciling_touches_only_what_differs_and_adds_before_it_deletes() -> None:
    other_port = entry(
        "ipv4_host", {"dst_addr": 0x0A000F02}, "forward", {"port": 1, "dst_mac": 0x020000000F}
    )
    held, wanted = StaticState((HOST, LPM)), StaticState((other_port, DROP))
    assert updates_to(held, held) == []
    assert updates_to(held, wanted) == [
        [Update(Op.INSERT, DROP), Update(Op.MODIFY, other_port)],
        [Update(Op.DELETE, LPM)],
    ]


def test_what_others_lead_to_comes_first_and_goes_last() -> None:
    hops = [entry("next_hop", {"index": i}, "forward", {"port": i}) for i in (1, 2)]
    meters = [MeterCell("igmp_rate", 1, rate, 200) for rate in (0, 200)]
    cells = [RegisterCell("limits", 3, value) for value in (0, 9)]
    here, there = (
        StaticState(
            (hop, route_there),
            clones,
            {("igmp_rate", 1): meter},
            {("limits", 3): cell},
        )
        for hop, route_there, clones, meter, cell in zip(
            hops, (LPM, DROP), ({}, {1: 510}), meters, cells, strict=True
        )
    )
    clone = CloneSession(1, 510)
    assert updates_to(here, there, ["next_hop"]) == [
        [
            Update(Op.INSERT, clone),
            Update(Op.INSERT, hops[1]),
            Update(Op.MODIFY, cells[1]),
            Update(Op.MODIFY, meters[1]),
        ],
        [Update(Op.INSERT, DROP)],
        [Update(Op.DELETE, LPM)],
        [Update(Op.DELETE, hops[0])],
    ]
    assert updates_to(there, here, ["next_hop"])[-1] == [
        Update(Op.DELETE, hops[1]),
        Update(Op.DELETE, clone),
    ]
    unknown = StaticState(there.entries, None, there.meters, None)
    assert updates_to(unknown, there) == [[Update(Op.MODIFY, cells[1])]]


async def test_a_clock_that_was_set_back_does_not_keep_a_later_controller_out(
    switch, program, monkeypatch
) -> None:
    """Nobody is primary, but the switch has seen a higher id."""
    first = P4RuntimeClient("s0", switch[0].device_id, switch[0].address, program)
    await first.connect()
    await first.close()
    await switch[1].is_left()
    monkeypatch.setattr(stream, "time", SimpleNamespace(time_ns=lambda: 1))
    second = P4RuntimeClient("s0", switch[0].device_id, switch[0].address, program)
    await second.connect()
    await second.write([Update(Op.INSERT, HOST)])
    third = P4RuntimeClient("s0", switch[0].device_id, switch[0].address, program)
    with pytest.raises(NotPrimaryError, match="another controller is primary"):
        await third.connect()
    await second.write([Update(Op.DELETE, HOST)])
    await second.close()
    await third.close()


async def test_no_proxy_stands_between_a_client_and_its_switch(program, monkeypatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # where nobody is
    for name in ("no_proxy", "no_grpc_proxy", "grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
    switch, address = ReferenceSwitch(1), f"127.0.0.1:{free_port()}"
    await switch.serve(address)
    client = P4RuntimeClient("s0", 1, address, program)
    try:
        await client.connect(PATIENCE_S)
    finally:
        await client.close()
        await switch.close()


async def test_a_client_asks_again_on_a_stream_that_lives(client) -> None:
    await client.set_pipeline()
    await client.connect(PATIENCE_S)
    await client.write([Update(Op.INSERT, HOST)])
    assert not client.lost.done()


async def test_a_client_connects_again_to_a_switch_that_returns(client, switch) -> None:
    await client.set_pipeline()
    await switch[1].close()
    with pytest.raises(UnreachableError):
        await asyncio.wait_for(asyncio.shield(client.lost), PATIENCE_S)
    with pytest.raises(UnreachableError, match="no answer"):
        await client.connect(timeout_s=0.2)
    await switch[1].serve(switch[0].address)
    await client.connect(PATIENCE_S)
    await client.write([Update(Op.INSERT, HOST)])
