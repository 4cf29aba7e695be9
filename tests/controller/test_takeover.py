"""Controllers that die, stand by and take over, and switches that die and return, in processes of
their own: a chain of four tiercast-switches, hosts with their kernels' IGMP, and datagrams that are
counted one by one. Needs root."""

import asyncio
import json
import signal
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tiercast_lab.run.mininet.commands import veth_eal

from ..bmv2 import SWITCH as BMV2
from ..bmv2 import needs_switch
from ..checkout import BUILD
from ..namespaces import command_in, ip
from ..patience import PATIENCE_S
from .chain import SWITCHES, running_network
from .processes import ControllerProcess, Traffic, config_of, controllers, held, unnumbered

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
HOST = BUILD / "hosts/tiercast-host"
SENDER = BUILD / "dataplane/sender/tiercast-send"
AGENTS = ("h0", "h1", "h2")
SESSION = {"number": 1, "layers": 1, "source": "h0", "scheme": "sim"}


@pytest.fixture
def network(socket_directory, request):
    with running_network(socket_directory, *getattr(request, "param", ())) as network:
        yield network


@pytest.fixture
async def traffic(network):
    traffic = Traffic(network, ["h1", "h2"])
    yield traffic
    traffic.close()


on_both_switches = pytest.mark.parametrize(
    "network",
    [pytest.param((), id="tiercast-switch"), pytest.param((BMV2,), id="bmv2", marks=needs_switch)],
    indirect=True,
)


@on_both_switches
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


@on_both_switches
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


@on_both_switches
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


@asynccontextmanager
async def session_of_agents(network, lab: str, folder: Path) -> AsyncIterator[list[Process]]:
    """tiercast-send at h0, tiercast-host at h1 and h2, in session 1. They outlive a lab. What each
    records is also in <folder>/<name>.jsonl."""

    def common(name: str) -> list[str]:
        options = ["--scheme", "sim", "--session", "1", "--layers", "1", "--lab", lab]
        options += ["--lab-patience", "600s", "--name", name, "--id", name[1:]]
        return [*options, "--trace", f"{folder}/{name}.jsonl"]

    limits = [f"--set=sim.{name}=400kbit/s" for name in ("min_rate", "initial_rate", "max_rate")]
    ip("-n", network.namespace("h0"), "address", "flush", "dev", "eth0")  # it is the sender's
    commands = {
        "h0": [
            *(SENDER, *veth_eal("eth0"), "--", *common("h0"), *limits),
            *("--address", "10.0.0.2", "--mac", "02:00:00:00:00:00"),
            *("--gateway-mac", "02:00:00:01:00:ff"),
        ],
        **{
            name: [HOST, "recv", *common(name), "--interface", "eth0", "--source", "10.0.0.2"]
            for name in ("h1", "h2")
        },
    }
    agents = []
    try:
        for name, command in commands.items():
            inside = command_in(network.namespace(name), *command)
            agents.append(await asyncio.create_subprocess_exec(*inside))
        yield agents
    finally:
        for one in agents:
            if one.returncode is None:
                one.kill()
                await one.wait()


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
    keys = str(tmp_path / "run.secret") if sealed else False
    config = config_of(network.topology, querier=QUERIER, lab=lab, sessions=[SESSION], keys=keys)
    async with (
        controllers(config, tmp_path) as start,
        session_of_agents(network, lab, tmp_path) as agents,
    ):
        first = await start()
        await first.says("ready")
        for name in ("h1", "h2"):
            before = await received(first, name, 1)
        if dies:
            await first.kill()
        second = await start()
        if not dies:
            assert await asyncio.wait_for(first.process.wait(), PATIENCE_S) == 1
        for name in AGENTS:
            await second.says("agent", state="attached", name=name)
        for name in ("h1", "h2"):
            after = await received(second, name, before["packets"] + 100)
            assert after["lost"] == 0, name
        assert [one.returncode for one in agents] == [None] * 3
        assert await second.end() == 0
        for one in agents:
            assert await asyncio.wait_for(one.wait(), PATIENCE_S) == 0


def rows(path: Path) -> list[dict]:
    """The whole lines of a file."""
    content = path.read_bytes() if path.exists() else b""
    return [json.loads(line) for line in content[: content.rfind(b"\n") + 1].splitlines()]


async def test_every_record_is_written_once_whoever_dies(
    network, tmp_path, socket_directory
) -> None:
    """Also those that were on their way to a controller, which had not read them when it was
    killed, and those that were made while nobody was there."""
    lab, records = f"unix:{socket_directory}/lab.sock", tmp_path / "records.jsonl"
    config = config_of(
        network.topology, querier=QUERIER, lab=lab, sessions=[SESSION], records=str(records)
    )

    async def more(count: int = 10) -> None:
        """Waits until every agent has recorded so much more."""
        before = {name: len(rows(tmp_path / f"{name}.jsonl")) for name in AGENTS}
        async with asyncio.timeout(PATIENCE_S):
            for name in AGENTS:
                while len(rows(tmp_path / f"{name}.jsonl")) < before[name] + count:
                    await asyncio.sleep(0.05)

    async def stop_and_kill(controller: ControllerProcess) -> None:
        controller.process.send_signal(signal.SIGSTOP)
        await more()  # which go into its sockets
        await controller.kill()

    async def attached(controller: ControllerProcess) -> None:
        for name in AGENTS:
            await controller.says("agent", state="attached", name=name)
        await more()

    async with (
        controllers(config, tmp_path) as start,
        session_of_agents(network, lab, tmp_path) as agents,
    ):
        primary = await start()
        await attached(primary)
        standby = await start("--standby")
        await standby.says("role", state="standby")
        await stop_and_kill(primary)
        await attached(standby)  # it has taken over
        displacing = await start()
        await attached(displacing)
        await stop_and_kill(displacing)  # and the one that stands by again takes over
        async with asyncio.timeout(PATIENCE_S):
            while len(standby.of("agent", state="attached")) < 2 * len(AGENTS):
                await asyncio.sleep(0.05)
        await more()
        await standby.kill()
        await more()  # nobody is there
        last = await start()
        await attached(last)
        assert await last.end() == 0
        for one in agents:
            assert await asyncio.wait_for(one.wait(), PATIENCE_S) == 0
        for controller in (primary, standby, displacing, last):
            assert not controller.of("records") and not controller.of("received")

    written = rows(records)
    for name in AGENTS:
        made = rows(tmp_path / f"{name}.jsonl")
        of_it = [row for row in written if row["agent"] == name and row["kind"] != "batch"]
        assert of_it == [row | {"agent": name} for row in made], name
        batches = [row for row in written if row["agent"] == name and row["kind"] == "batch"]
        assert len({row["instance"] for row in batches}) == 1
        ends = [row["end"] for row in batches]
        assert [row["sequence"] for row in batches] == [0, *ends[:-1]]
        assert ends[-1] == len(made)
