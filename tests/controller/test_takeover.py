"""Controllers that die, stand by and take over, and switches that die and return, in processes of
their own: a chain of four tiercast-switches, hosts with their kernels' IGMP, and datagrams that are
counted one by one. Needs root."""

import asyncio
import time

import pytest
from tiercast_lab.run.mininet.commands import veth_eal

from ..namespaces import command_in, ip
from ..patience import PATIENCE_S
from .chain import ROOT, SWITCHES, running_network
from .processes import Traffic, config_of, controllers, held, unnumbered

pytestmark = pytest.mark.slow  # real switches and controllers, in real time

# Hosts answer within a second. On a busy machine they may not, so nobody is forgotten soon, except
# where a test waits for that.
QUERIER = {
    "interval_s": 60,
    "max_response_s": 1,
    "startup_interval_s": 30,
    "last_member_interval_s": 0.2,
}
FORGETFUL = QUERIER | {"startup_interval_s": 5}
NO_MENDING = {"mend_s": 0}
HOST = ROOT / "build/hosts/tiercast-host"
SENDER = ROOT / "build/dataplane/sender/tiercast-send"


@pytest.fixture
def network(socket_directory):
    with running_network(socket_directory) as network:
        yield network


@pytest.fixture
async def traffic(network):
    traffic = Traffic(network, ["h1", "h2"])
    yield traffic
    traffic.close()


async def test_a_controller_that_is_killed_and_started_again_loses_no_packet(
    network, traffic, program, tmp_path
) -> None:
    async with controllers(config_of(network.topology, querier=QUERIER), tmp_path) as start:
        first = await start()
        await first.says("ready")
        for name, rank in (("h1", 0), ("h1", 1), ("h2", 0)):
            traffic.join(name, rank)
            await traffic.more(name, rank)
        before = await held(network, program)
        since = await traffic.more("h2", 0)

        await first.kill()
        await traffic.more("h1", 1, 50)
        assert await held(network, program) == before
        traffic.join("h2", 1)  # nobody hears it
        second = await start()
        await second.says("ready")
        await traffic.more("h2", 1)  # it was asked
        assert not second.of("switch") and not second.of("failure")

        traffic.leave("h2", 1)
        await second.says("igmp", action="expire", rank=1, port=3)
        await traffic.none("h2", 1)
        # It is what the first controller made of switches that held nothing.
        assert unnumbered(await held(network, program)) == unnumbered(before)
        traffic.join("h2", 2)
        await traffic.more("h2", 2)
        assert await second.end() == 0
        await traffic.more("h1", 0, 20)  # a controller that ends leaves everything as it is
        await traffic.end()
    for place in (("h1", 0), ("h1", 1), ("h2", 0)):
        assert traffic.missing(*place, since) == [], place
    assert traffic.twice() == {}


async def test_who_vanished_while_no_controller_was_there_is_forgotten(
    network, traffic, tmp_path
) -> None:
    async with controllers(config_of(network.topology, querier=FORGETFUL), tmp_path) as start:
        first = await start()
        await first.says("ready")
        for name in ("h1", "h2"):
            traffic.join(name, 0)
            await traffic.more(name, 0)
        await first.kill()
        traffic.leave("h1", 0)
        second = await start()
        await second.says("igmp", action="expire", switch="s3", port=2)
        await traffic.none("h1", 0)
        await traffic.more("h2", 0, 50)
        assert len(second.of("igmp", action="expire")) == 1


async def test_a_standby_takes_over_without_a_lost_packet(
    network, traffic, program, tmp_path
) -> None:
    async with controllers(config_of(network.topology, querier=QUERIER), tmp_path) as start:
        primary = await start()
        await primary.says("ready")
        standby = await start("--standby")
        await standby.says("role", state="standby")
        for name, rank in (("h1", 0), ("h1", 1), ("h2", 0)):
            traffic.join(name, rank)
            await traffic.more(name, rank)
        before = await held(network, program)
        since = await traffic.more("h2", 0)
        assert [event["kind"] for event in standby.events] == ["role"]

        killed_ns = time.monotonic_ns()
        await primary.kill()
        takes = await standby.says("role", state="primary")
        print(f"took over {(takes['time_ns'] - killed_ns) / 1e6:.0f} ms after the kill")
        await standby.says("ready")
        kinds = [event["kind"] for event in standby.events]
        assert kinds.index("role") < kinds.index("ready") and kinds.count("role") == 2
        after = await held(network, program)
        assert unnumbered(after) == unnumbered(before)
        assert all(one.groups.keys() == one.routed for one in after.values())
        traffic.join("h2", 1)
        await traffic.more("h2", 1)

        # The first one returns as a standby, and takes over in its turn.
        third = await start("--standby")
        await third.says("role", state="standby")
        await standby.kill()
        await third.says("ready")
        traffic.join("h2", 2)
        await traffic.more("h2", 2)

        # One that is started without that takes over at once, and the standby waits again.
        fourth = await start()
        await fourth.says("ready")
        await third.says("role", count=2, state="standby")
        traffic.leave("h2", 2)
        await fourth.says("igmp", action="expire", rank=2)
        assert await third.end() == 0
        await traffic.end()
    for place in (("h1", 0), ("h1", 1), ("h2", 0)):
        assert traffic.missing(*place, since) == [], place
    assert traffic.twice() == {}


async def test_of_several_standbys_one_serves(network, traffic, tmp_path) -> None:
    """On a network without a controller, and again whenever the one that served dies."""
    async with controllers(config_of(network.topology, querier=QUERIER), tmp_path) as start:
        alive = [await start("--standby") for _ in range(3)]
        while alive:

            def roles() -> list[str]:
                said = [one.of("role") for one in alive]
                return sorted(its[-1]["state"] if its else "" for its in said)

            async with asyncio.timeout(PATIENCE_S):
                while roles() != ["primary", *["standby"] * (len(alive) - 1)]:
                    await asyncio.sleep(0.05)
            rank = 3 - len(alive)
            traffic.join("h1", rank)
            await traffic.more("h1", rank)
            (primary,) = (one for one in alive if one.of("role")[-1]["state"] == "primary")
            alive.remove(primary)
            await primary.kill()


@pytest.mark.parametrize("victim", ["s0", "s2", "s3"])
async def test_a_switch_that_is_killed_and_started_again_gets_everything_again(
    network, traffic, program, tmp_path, victim
) -> None:
    config = config_of(network.topology, querier=QUERIER, **NO_MENDING)
    async with controllers(config, tmp_path) as start:
        controller = await start()
        await controller.says("ready")
        for name, rank in (("h1", 0), ("h1", 1), ("h2", 0)):
            traffic.join(name, rank)
            await traffic.more(name, rank)
        before = unnumbered(await held(network, program))
        for _ in range(2):  # it can die again
            deaths = len(controller.of("switch", state="away"))
            network.kill_switch(victim)
            away = await controller.says("switch", deaths + 1, state="away")
            assert away["switch"] == victim
            network.start_switch(victim)
            back = await controller.says("switch", deaths + 1, state="back")
            assert (back["switch"], back["restarted"]) == (victim, True)
            for place in (("h1", 0), ("h1", 1), ("h2", 0)):
                await traffic.more(*place)
            assert unnumbered(await held(network, program)) == before
        # Of four switches three were left alone, and all go on as before.
        assert {event["switch"] for event in controller.of("switch")} == {victim}
        traffic.join("h2", 1)
        await traffic.more("h2", 1)
        traffic.leave("h2", 1)
        await controller.says("igmp", action="expire", rank=1, port=3)
        assert unnumbered(await held(network, program)) == before
        assert not controller.of("failure")
        assert await controller.end() == 0


async def test_a_join_while_the_switch_is_away_is_served_when_it_is_back(
    network, traffic, tmp_path
) -> None:
    config = config_of(network.topology, querier=FORGETFUL)
    async with controllers(config, tmp_path) as start:
        controller = await start()
        await controller.says("ready")
        traffic.join("h1", 0)
        await traffic.more("h1", 0)
        network.kill_switch("s3")
        network.kill_switch("s1")
        await controller.says("switch", 2, state="away")
        traffic.join("h2", 1)  # behind s3: nobody hears it
        traffic.leave("h1", 0)
        network.start_switch("s1")
        network.start_switch("s3")
        await traffic.more("h2", 1)
        await controller.says("igmp", action="expire", rank=0, port=2)
        await traffic.none("h1", 0)


async def test_everything_dies_and_returns(network, traffic, program, tmp_path) -> None:
    """Switches and controller together: nobody knows the members but the hosts."""
    async with controllers(config_of(network.topology, querier=QUERIER), tmp_path) as start:
        controller = await start()
        await controller.says("ready")
        for name, rank in (("h1", 0), ("h1", 1), ("h2", 0)):
            traffic.join(name, rank)
            await traffic.more(name, rank)
        before = unnumbered(await held(network, program))
        await controller.kill()
        for number in range(SWITCHES):
            network.kill_switch(f"s{number}")
        again = await start()
        for number in range(SWITCHES):
            network.start_switch(f"s{number}")
        await again.says("ready")
        for place in (("h1", 0), ("h1", 1), ("h2", 0)):
            await traffic.more(*place)
        async with asyncio.timeout(PATIENCE_S):
            while unnumbered(await held(network, program)) != before:
                await asyncio.sleep(0.1)


async def test_reading_back_disturbs_nothing(network, traffic, tmp_path) -> None:
    config = config_of(network.topology, mend_s=0.2)
    async with controllers(config, tmp_path) as start:
        controller = await start()
        await controller.says("ready")
        traffic.join("h1", 0)
        since = await traffic.more("h1", 0)
        await traffic.more("h1", 0, 300)
        assert controller.of("switch") == []
        await traffic.end()
    assert traffic.missing("h1", 0, since) == [] and traffic.twice() == {}


async def received(controller, name: str, packets: float) -> dict:
    """A host's record, once it has so many packets."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            for record in controller.of("received", agent=name):
                if record["packets"] >= packets:
                    return record
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("sealed", "dies"),
    [(False, True), (True, True), (False, False)],
    ids=["unsealed", "sealed", "displaced"],
)
async def test_a_session_goes_on_over_the_end_of_its_controller(
    network, tmp_path, socket_directory, sealed, dies
) -> None:
    """tiercast-send and tiercast-host go on with what they do, and attach to whoever comes: after
    the controller's death, or when another one has taken over, at the same address."""
    lab = f"unix:{socket_directory}/lab.sock"
    session = {"number": 1, "layers": 1, "source": "h0", "scheme": "sim"}
    keys = str(tmp_path / "run.secret") if sealed else False
    config = config_of(network.topology, querier=QUERIER, lab=lab, sessions=[session], keys=keys)
    common = ["--scheme", "sim", "--session", "1", "--layers", "1", "--lab", lab]
    common += ["--lab-patience", "600s"]
    limits = [f"--set=sim.{name}=400kbit/s" for name in ("min_rate", "initial_rate", "max_rate")]
    ip("-n", network.namespace("h0"), "address", "flush", "dev", "eth0")  # it is the sender's
    commands = {
        "h0": [
            *(SENDER, *veth_eal("eth0"), "--", *common, *limits, "--name", "h0", "--id", "0"),
            *("--address", "10.0.0.2", "--mac", "02:00:00:00:00:00"),
            *("--gateway-mac", "02:00:00:01:00:ff"),
        ],
        **{
            f"h{i}": [
                *(HOST, "recv", *common, "--name", f"h{i}", "--id", f"{i}"),
                *("--interface", "eth0", "--source", "10.0.0.2"),
            ]
            for i in (1, 2)
        },
    }
    agents = []
    async with controllers(config, tmp_path) as start:
        first = await start()
        await first.says("ready")
        try:
            for name, command in commands.items():
                inside = command_in(network.namespace(name), *command)
                agents.append(await asyncio.create_subprocess_exec(*inside))
            for name in ("h1", "h2"):
                before = await received(first, name, 1)
            if dies:
                await first.kill()
            second = await start()
            if not dies:
                assert await asyncio.wait_for(first.process.wait(), PATIENCE_S) == 1
            for name in commands:
                await second.says("agent", state="attached", name=name)
            for name in ("h1", "h2"):
                after = await received(second, name, before["packets"] + 100)
                assert after["lost"] == 0, name
            assert [one.returncode for one in agents] == [None] * 3
            assert await second.end() == 0
            for one in agents:
                assert await asyncio.wait_for(one.wait(), PATIENCE_S) == 0
        finally:
            for one in agents:
                if one.returncode is None:
                    one.kill()
                    await one.wait()
