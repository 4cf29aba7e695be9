"""The columns of the counters of fates, and what is read from them."""

import asyncio

import pytest
from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.controller import Controller
from tiercast_controller.multicast.replication import ReplicationGroups
from tiercast_controller.network.fates import EgressFates, FateColumns, IngressFates, fate_columns
from tiercast_controller.network.topology import Session, group_address
from tiercast_controller.virtual import VirtualController

from ..patience import PATIENCE_S

SESSIONS = [Session(7, 3, "h0"), Session(2, 1, "h3")]


def test_each_group_has_a_column_for_each_port(tree_of) -> None:
    """Ports are 1 to 3, so each group has four columns; there is no port 0."""
    for switch, columns in fate_columns(tree_of(2), SESSIONS).items():
        assert columns.first == {(7, 0): 512, (7, 1): 516, (7, 2): 520, (2, 0): 524}
        assert [(dict(e.match), dict(e.params)) for e in columns.entries()] == [
            ({"dst_addr": int(group_address(*group))}, {"first": first})
            for group, first in columns.first.items()
        ], switch


@pytest.mark.parametrize(("ports", "sessions"), [([1, 509], 8), ([1, 2, 3], 1024)])
def test_as_many_groups_as_the_program_can_count(program, tree_of, ports, sessions) -> None:
    sizes = {counter.preamble.name: counter.size for counter in program.p4info.counters}
    (table,) = [t for t in program.p4info.tables if t.preamble.name == "group_columns"]
    most = [Session(number, 8, "h0") for number in range(sessions)]
    columns = FateColumns(ports, most)
    cells = list(columns.cells(sizes["ingress_fates"]))
    assert len(cells) == len(set(cells)) == len(ports) * (10 + 4 * (1 + 8 * sessions))
    assert all(index < sizes[counter] for counter, index in cells)
    assert len(columns.entries()) <= table.size
    # The last row of each counter ends with the last column.
    assert ("ingress_fates", sizes["ingress_fates"] - 512 + ports[-1]) in cells
    assert ("egress_fates", 3 * sizes["egress_fates"] // 4 + ports[-1]) in cells
    with pytest.raises(ConfigurationError, match=f"valid: up to {8 * sessions} groups"):
        FateColumns(ports, [*most, Session(2000, 1, "h0")])


def test_what_cannot_be_counted_is_refused(tree_of) -> None:
    sessions = [Session(number, 8, "h0") for number in range(1025)]
    text = "switch s0: 8200 groups at ports up to 3 cannot be counted separately; valid: "
    with pytest.raises(ConfigurationError, match=text):
        fate_columns(tree_of(1), sessions)


async def test_a_switch_that_restarts_during_a_read_has_no_count_of_what_entered(
    program, tree_of, socket_directory, reference_switches, monkeypatch
) -> None:
    """Its cells are of groups that another program had, or has."""
    topology = tree_of(1, socket_directory)
    await reference_switches(topology)
    controller = Controller(topology, SESSIONS[:1], program)
    await controller.start()
    managed = controller._managed("s0")
    assert (await controller.fates("s0"))[3].egress.entered == 0
    read_cells = managed.client.read_cells

    async def restarts_meanwhile(cells):
        found = await read_cells(cells)
        managed._groups = ReplicationGroups()
        return found

    monkeypatch.setattr(managed.client, "read_cells", restarts_meanwhile)
    assert (await controller.fates("s0"))[3].egress.entered is None
    await controller.stop()


async def test_fates_by_port_session_and_layer(
    program, igmp, tree_of, socket_directory, reference_switches
) -> None:
    """In two reads. What entered comes last, so that it is never less than what was served."""
    topology = tree_of(1, socket_directory)
    servers = await reference_switches(topology)
    sessions = [Session(7, 3, "h0"), Session(2, 1, "h1")]
    controller = Controller(topology, sessions, program)
    await controller.start()
    server = servers["s0"]
    held = await controller._managed("s0").client.read_entries(["group_columns"])
    assert set(held) == set(fate_columns(topology, sessions)["s0"].entries())

    async def change(frame: bytes, rank: int, ports: set[int]) -> None:
        await server.punt(program, 3 if 3 in ports else 2, frame)
        async with asyncio.timeout(PATIENCE_S):
            while controller.installed("s0", 7).forwarding().copies.get(
                group_address(7, rank), set()
            ) != ports:  # fmt: skip
                await asyncio.sleep(0.005)

    # Groups 1 and 2 are the lowest layer's, to port 2 and then to ports 2 and 3; group 3 is the
    # highest layer's.
    await change(igmp.join(group_address(7, 0)), 0, {2})
    await change(igmp.join(group_address(7, 0)), 0, {2, 3})
    await change(igmp.join(group_address(7, 2)), 2, {3})
    counters = ("ingress_fates", "entered", "egress_fates")
    ingress, entered, egress = map(program.counter_id, counters)
    for fate in range(10):
        server.counters[ingress, 512 * fate + 2] = 10 + fate
    for cell, count in {3: 14, 2: 1, 512 + 1: 4, 512 + 2: 8, 512 + 3: 70}.items():
        server.counters[entered, cell] = count
    for column, counts in {
        3: (1, 2, 3, 4),  # port 3, no group
        512 + 3: (5, 0, 0, 0),  # session 7, rank 0 at port 3
        520 + 3: (6, 7, 8, 9),  # rank 2
        524 + 3: (0, 0, 1, 0),  # session 2
    }.items():
        for fate, count in enumerate(counts):
            server.counters[egress, 33280 * fate + column] = count
    server.reads.clear()
    fates = await controller.fates("s0")
    assert [{e.counter_entry.counter_id for e in read.entities} for read in server.reads] == [
        {ingress, egress},
        {entered},
    ]
    assert sorted(fates) == [1, 2, 3]
    assert fates[2].ingress == IngressFates(10, 11, 12, 13, 14, 15, 16, 17, 18, 19)
    assert fates[2].ingress.received == sum(range(10, 20))
    assert fates[1].ingress == fates[3].ingress == IngressFates(0, 0, 0, 0, 0, 0, 0, 0)
    assert fates[3].rest == EgressFates(14, left=3, marked=2, policy_drops=3, pruned=4)
    assert fates[3].layers == {
        (7, 0): EgressFates(8, 5, 0, 0, 0),
        (7, 1): EgressFates(0, 0, 0, 0, 0),
        (7, 2): EgressFates(70, left=13, marked=7, policy_drops=8, pruned=9),
        (2, 0): EgressFates(0, 0, 0, 1, 0),
    }
    assert fates[3].egress == EgressFates(92, left=21, marked=9, policy_drops=12, pruned=13)
    assert fates[3].egress.served == 46
    assert fates[2].egress.entered == 1 + 4 + 8  # includes a packet of an earlier group
    with pytest.raises(ConfigurationError, match="switch 's9' is not one of: s0"):
        await controller.fates("s9")
    await controller.stop()

    # A controller that takes over does not know to which ports earlier groups led.
    later = Controller(topology, sessions, program)
    await later.start()
    fates = await later.fates("s0")
    assert fates[3].layers[7, 2] == EgressFates(None, 13, 7, 8, 9)
    assert fates[3].egress.entered is None
    await later.stop()


def test_a_run_in_virtual_time_has_the_same_columns(program, tree_of) -> None:
    topology = tree_of(2)
    given = [
        (u.switch, [field.value for field in u.entry.match], list(u.entry.arguments))
        for u in VirtualController(topology, SESSIONS, program).first_updates()
        if u.entry.table == "group_columns"
    ]
    assert given == [
        (switch, [group_address(*group).packed], [first.to_bytes(2, "big")])
        for switch, columns in fate_columns(topology, SESSIONS).items()
        for group, first in columns.first.items()
    ]
