"""The controller against real tiercast-switches: a chain of four in their own namespaces, hosts
that join with their kernels' IGMP, and UDP datagrams that show where copies go. Needs root."""

import asyncio
import random
import socket
from functools import partial

import pytest
from tiercast_controller import switch as switch_module
from tiercast_controller.multicast.querier import Querier
from tiercast_controller.multicast.replication import KEPT, ReplicationGroups
from tiercast_controller.network.topology import group_address

from ..patience import PATIENCE_S
from .chain import PORT, SWITCHES, Receiver, Run, ip, running_network


@pytest.fixture
def network(socket_directory):
    with running_network(socket_directory) as network:
        yield network


async def test_kernel_joins_reach_every_switch_and_datagrams_follow(network, program) -> None:
    run = Run(network, program)
    await run.controller.start()
    h1, h2 = Receiver(network, "h1"), Receiver(network, "h2")
    sender = network.socket_in("h0")
    sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 16)

    async def send_to_all_layers(to_h1: int, to_h2: int) -> tuple[list[bytes], list[bytes]]:
        """Sends to all layers. Returns what arrives at h1 and at h2: at least these numbers of
        datagrams."""
        for rank in range(5):
            sender.sendto(b"layer %d" % rank, (str(group_address(1, rank)), PORT))
        came = await h1.receive(to_h1), await h2.receive(to_h2)
        await asyncio.sleep(0.3)
        return sorted(came[0] + h1.drain()), sorted(came[1] + h2.drain())

    assert await send_to_all_layers(0, 0) == ([], [])
    h1.join(0)
    h1.join(1)
    h2.join(0)
    await run.changes(3)
    assert await send_to_all_layers(2, 1) == ([b"layer 0", b"layer 1"], [b"layer 0"])
    assert run.controller.installed("s0", 1).tops == {(4, 1): 1}
    assert run.controller.installed("s3", 1).tops == {(2, 1): 1, (3, 1): 0}
    h1.leave(1)
    await run.changes(4)
    assert await send_to_all_layers(1, 1) == ([b"layer 0"], [b"layer 0"])

    # Unicast, like feedback: from h1's kernel to h0's, over four switches.
    feedback = network.socket_in("h0")
    feedback.bind(("0.0.0.0", PORT + 1))
    h1.socket.sendto(b"feedback", ("10.0.0.2", PORT + 1))
    async with asyncio.timeout(PATIENCE_S):
        assert await asyncio.get_running_loop().sock_recv(feedback, 100) == b"feedback"

    for switch in network.topology.switches:
        held = await run.controller.read_multicast(switch.name)
        assert held.of_session(1) == run.controller.installed(switch.name, 1), switch.name
    ports = (await run.controller.ports("s0")).ports
    assert [p.port for p in ports] == [2, 4]
    fates = await run.controller.fates("s0")
    assert [fates[4].layers[1, rank].left for rank in range(3)] == [2, 1, 0]
    assert (fates[4].rest.left, fates[2].rest.left) == (0, 1)
    assert (fates[2].ingress.forwarded, fates[2].ingress.no_group) == (3, 5 + 3 + 4)
    assert set((await run.controller.register("s0", "avg_queue")).values()) == {0}
    await run.controller.stop()


@pytest.mark.parametrize("kept", [KEPT, 1])
async def test_what_entered_is_what_the_traffic_manager_counted(
    network, program, monkeypatch, kept
) -> None:
    """Datagrams flow to all layers without a break while members come and go, and they overflow a
    queue. Two parties count: the switch what it hands to each queue, and the controller from
    packets by group, counted before they are copied. With only one kept group, numbers are reused
    all the time."""
    monkeypatch.setattr(switch_module, "ReplicationGroups", partial(ReplicationGroups, kept=kept))
    run = Run(network, program)
    await run.controller.start()
    await run.controller.set_link("s3", 2, rate_bps=400_000, queue_packets=3)
    hosts = [Receiver(network, "h1"), Receiver(network, "h2")]
    sender = network.socket_in("h0")
    sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 16)
    sent = 0

    async def send() -> None:
        nonlocal sent
        while True:
            for rank in range(5):
                sender.sendto(bytes(500), (str(group_address(1, rank)), PORT))
                sent += 1
            await asyncio.sleep(0.002)

    sending = asyncio.create_task(send())
    order, joined = random.Random(5), [set(), set()]
    for number in range(120):
        host, rank = order.randrange(2), order.randrange(5)
        (hosts[host].leave if rank in joined[host] else hosts[host].join)(rank)
        joined[host] ^= {rank}
        await run.changes(number + 1)
        await asyncio.sleep(0.01)
        if number % 30 == 0:
            await run.controller.fates("s3")
    sending.cancel()

    async def at_rest() -> None:
        """Waits until everything that was sent has arrived, and nothing is waiting."""
        while True:
            looks = [(await run.controller.ports(f"s{i}")).ports for i in range(SWITCHES)]
            came = next(port.rx_packets for port in looks[0] if port.port == 2)
            if came >= sent and not any(port.queue_packets for look in looks for port in look):
                return
            await asyncio.sleep(0.05)

    async with asyncio.timeout(PATIENCE_S):
        await at_rest()
    await asyncio.sleep(0.1)  # some packets are between two switches
    for i in range(SWITCHES):
        ports = (await run.controller.ports(f"s{i}")).ports
        fates = await run.controller.fates(f"s{i}")
        for port in ports:
            counted = {(s.session, s.layer): s.entered for s in port.sessions if s.entered}
            layers = fates[port.port].layers | {(-1, -1): fates[port.port].rest}
            said = {key: layer.entered for key, layer in layers.items() if layer.entered}
            assert said == counted, f"s{i} port {port.port}"
            egress = fates[port.port].egress
            assert egress.entered is not None
            assert egress.entered - egress.served == port.queue_drops
    (slow,) = (port for port in ports if port.port == 2)
    assert slow.queue_drops > 50
    assert len([s for s in slow.sessions if s.queue_drops]) == 5
    await run.controller.stop()


async def test_every_join_and_leave_is_installed_on_four_switches(network, program) -> None:
    """`make bench-control` measures how long that takes."""
    run = Run(network, program)
    await run.controller.start()
    h1 = Receiver(network, "h1")
    expected = []
    for rank in (*range(5), *reversed(range(5))):
        joins = len(expected) < 5
        (h1.join if joins else h1.leave)(rank)
        expected.append(("join" if joins else "leave", rank, 4))
        await run.changes(len(expected))
        top = rank if joins else rank - 1
        tops = {(4, 1): top} if top >= 0 else {}
        assert run.controller.installed("s0", 1).tops == tops
    assert [(e["action"], e["rank"], e["switches"]) for e in run.igmp()] == expected
    assert all(event["install_us"] > 0 for event in run.igmp())
    await run.controller.stop()


async def test_a_restarted_controller_keeps_the_trees(network, program) -> None:
    run = Run(network, program)
    await run.controller.start()
    h1 = Receiver(network, "h1")
    for rank in range(3):
        h1.join(rank)
    await run.changes(3)
    held = [await run.controller.read_multicast(f"s{i}") for i in range(SWITCHES)]
    await run.controller.stop()
    again = Run(network, program)
    await again.controller.start()
    assert held == [await again.controller.read_multicast(f"s{i}") for i in range(SWITCHES)]
    assert held[3].tops == {(2, 1): 2}
    h1.leave(2)
    await again.changes(1)
    assert again.controller.installed("s0", 1).tops == {(4, 1): 1}
    await again.controller.stop()


async def test_kernels_answer_general_queries(network, program) -> None:
    """h1's kernel keeps its membership by answering. h2's interface goes down, so its membership
    expires."""
    run = Run(network, program, Querier(interval_s=1.0, max_response_s=0.3))
    await run.controller.start()
    h1, h2 = Receiver(network, "h1"), Receiver(network, "h2")
    h1.join(0)
    h2.join(0)
    await run.changes(2)
    ip("-n", network.namespace("h2"), "link", "set", "eth0", "down")
    await run.changes(3)
    assert (run.igmp()[2]["action"], run.igmp()[2]["port"]) == ("expire", 3)
    await asyncio.sleep(3)
    assert len(run.igmp()) == 3
    copies = run.controller.installed("s3", 1).forwarding().copies
    assert copies == {group_address(1, 0): frozenset({2})}
    await run.controller.stop()
