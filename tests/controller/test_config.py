"""The stand-alone controller: its YAML, its errors, its exit status."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.config import EXAMPLE, Config
from tiercast_controller.network.marking import PriorityMarking

from ..checkout import ROOT
from ..patience import PATIENCE_S


def load(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "net.yaml"
    path.write_text(text)
    return Config.load(path)


def test_the_example_is_valid(tmp_path) -> None:
    config = load(tmp_path, EXAMPLE)
    topology = config.topology()
    assert topology.switch("s0").mac == 0x020000010000
    assert topology.attachment("h1") == ("s0", 2)
    assert topology.markings("s0")[2] == PriorityMarking().at(2_000_000, 1000, idle_us=50)
    assert config.querier.interval_s == 125
    (group,) = config.groups
    assert (str(group.address), group.senders) == ("230.4.4.1", ["h0", "h1"])


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("device_id: 1", "device_id: 0", r"net.yaml: switches\.0\.device_id: .*not 0"),
        ("max_response_s", "response_s", r"querier: unknown key response_s; valid: interval_s, "),
        ("response_s: 10", "response_s: 300", r"querier: interval_s 125.0 must exceed"),
        ("number: 1", "number: 40000", r"sessions\.0\.number: .*32767, not 40000"),
        ("scheme: sim", "sheme: sim", r"sessions\.0: unknown key sheme; valid: number, .*scheme"),
        ("02:00:00:00:00:01", "02-0", r"hosts\.1\.mac: .*six pairs of hex digits.*not '02-0'"),
        (
            "02:00:00:00:00:01",
            "02:00:00:00:00:_1",
            r"hosts\.1\.mac: .*six pairs of hex digits.*not '02:00:00:00:00:_1'",
        ),
        (
            "02:00:00:00:00:01",
            "0x:00:00:00:00:01",
            r"hosts\.1\.mac: .*six pairs of hex digits.*not '0x:00:00:00:00:01'",
        ),
        (
            "02:00:00:00:00:01",
            "+2:00:00:00:00:01",
            r"hosts\.1\.mac: .*six pairs of hex digits.*not '\+2:00:00:00:00:01'",
        ),
        (
            "02:00:00:00:00:01",
            "0g:00:00:00:00:01",
            r"hosts\.1\.mac: .*six pairs of hex digits.*not '0g:00:00:00:00:01'",
        ),
        ("rate_bps: 2000000, ", "", r"links\.1: .*'marking' needs 'rate_bps'"),
        (
            "kind: priority",
            "kind: prio",
            r"links\.1\.marking: kind is none of codel, pie, pi2, dualpi2, priority",
        ),
        ("port: 2", "port: 510", r"links\.1\.port: .*509, not 510"),
        ("10.0.1.2/24", "10.0.1.300", r"hosts\.1\.address: .*not '10\.0\.1\.300'"),
        ("230.4.4.1", "239.192.0.8", r"groups\.0\.address: .*the groups of sessions; valid: 224"),
        ("program: {", "program: [", r"net.yaml:1: did not find expected"),
    ],
)
def test_errors_name_the_place_and_the_value(tmp_path, old, new, text) -> None:
    assert old in EXAMPLE
    with pytest.raises(ConfigurationError, match=text):
        load(tmp_path, EXAMPLE.replace(old, new, 1))


def test_a_link_to_a_missing_node(tmp_path) -> None:
    config = load(tmp_path, EXAMPLE.replace("to: h1,", "to: h7,"))
    with pytest.raises(ConfigurationError, match="node 'h7' is not in the topology: s0, h0, h1"):
        config.topology()


def command(*arguments) -> list[str]:
    return [sys.executable, "-m", "tiercast_controller", *map(str, arguments)]


ENVIRONMENT = os.environ | {"PYTHONPATH": f"{ROOT}/build/python:{ROOT}/controller"}


def test_bad_input_is_exit_status_2(tmp_path) -> None:
    result = subprocess.run(
        command(tmp_path / "none.yaml"), env=ENVIRONMENT, capture_output=True, text=True
    )
    assert result.returncode == 2
    assert result.stderr == f"{tmp_path}/none.yaml: No such file or directory\n"


async def test_it_runs_until_it_is_told_to_end(
    tmp_path, tree_of, reference_switches, socket_directory, program, igmp
) -> None:
    topology = tree_of(1, socket_directory)
    servers = await reference_switches(topology)
    compiled = ROOT / "p4src/compiled"
    config = {
        "program": {
            "json": f"{compiled}/tiercast.json",
            "p4info": f"{compiled}/tiercast.p4info.txtpb",
        },
        "lab": f"unix:{socket_directory}/lab.sock",
        "switches": [{"name": "s0", "device_id": 1, "grpc": topology.switch("s0").address}],
        "hosts": [
            {"name": h.name, "address": str(h.interface), "mac": h.mac} for h in topology.hosts
        ],
        "links": [{"switch": "s0", "port": p + 1, "to": f"h{p}"} for p in range(3)],
        "sessions": [{"number": 1, "layers": 5, "source": "h0"}],
        "groups": [{"address": "230.4.4.1", "senders": ["h0"]}],
    }
    path = tmp_path / "net.yaml"
    path.write_text(json.dumps(config))
    process = await asyncio.create_subprocess_exec(
        *command(path), env=ENVIRONMENT, stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not Path(f"{socket_directory}/lab.sock").exists():
                await asyncio.sleep(0.02)
            assert json.loads(await process.stdout.readline())["kind"] == "ready"
            await servers["s0"].punt(program, 2, igmp.join("239.192.0.8"))
            event = json.loads(await process.stdout.readline())
            await servers["s0"].punt(program, 2, igmp.join("230.4.4.1"))
            while (other := json.loads(await process.stdout.readline()))["kind"] != "igmp":
                pass
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert (event["kind"], event["action"], event["group"]) == ("igmp", "join", "239.192.0.8")
    assert (other["action"], other["group"]) == ("join", "230.4.4.1")
