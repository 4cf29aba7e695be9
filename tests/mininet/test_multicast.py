"""Groups of the user's programs: what is accepted, and a real run in which each member gets each
packet once."""

from __future__ import annotations

import json
import subprocess
import textwrap
from collections import Counter
from ipaddress import IPv4Address
from pathlib import Path

import polars as pl
import pytest
from tiercast_lab.base.errors import InputError
from tiercast_lab.run.controller_input import described_groups

from ..checkout import ROOT
from .conftest import SMALL, Load
from .real_run import Started

COMMANDS = """
traffic:
  - {kind: command, from: 0, run: ls}
  - {kind: command, from: 3, run: ls}
"""


def with_groups(*entries: str) -> str:
    listed = "".join(f"  - {entry}\n" for entry in entries)
    return f"{textwrap.dedent(SMALL)}{COMMANDS}multicast:\n{listed}"


def test_groups_become_the_controllers(load: Load) -> None:
    text = with_groups("{group: 230.4.4.1, senders: [3, 0]}", "{group: 232.1.1.1, senders: [0]}")
    first, second = described_groups(load(text))
    assert (first.address, first.senders) == (IPv4Address("230.4.4.1"), ("t3", "t0"))
    assert (second.address, second.senders) == (IPv4Address("232.1.1.1"), ("t0",))


RANGE = r"valid: 224\.0\.1\.0 to 239\.191\.255\.255, 239\.196\.0\.0 to 239\.255\.255\.255"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("{group: 239.192.0.8, senders: [0]}", r"yaml:\d+: multicast\.0\.group: 239\.192\.0\.8 "
         rf"lies within 239\.192\.0\.0/14, the groups of sessions; {RANGE}"),
        ("{group: 224.0.0.5, senders: [0]}", rf"within 224\.0\.0\.0/24, which .*; {RANGE}"),
        ("{group: 10.0.0.4, senders: [0]}", rf"10\.0\.0\.4 is no group; {RANGE}"),
        ("{group: 230.4.4, senders: [0]}", r"'230\.4\.4' is not an IPv4 address such as 230"),
        ("{group: 5, senders: [0]}", "5 is not an address; valid: text such as 230"),
        ("{group: 230.4.4.1, senders: []}", r"multicast\.0\.senders: .*valid: at least 1"),
        ("{group: 230.4.4.1}", r"multicast\.0\.senders: this key is missing"),
        ("{group: 230.4.4.1, senders: [99]}", r"senders\.0: no `kind: command` runs at node 99; "
         "valid: 0, 3"),
        ("{group: 230.4.4.1, senders: [0, 3, 0]}", r"senders\.2: node 0 is given twice"),
        ("{group: 230.4.4.1, senders: [0], members: [3]}", "members: unknown key; valid: group"),
    ],
)  # fmt: skip
def test_groups_are_checked(load: Load, entry: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        load(with_groups(entry))


def test_a_group_is_given_once(load: Load) -> None:
    entry = "{group: 230.4.4.1, senders: [0]}"
    with pytest.raises(InputError, match=r"multicast\.1\.group: 230\.4\.4\.1 is given twice"):
        load(with_groups(entry, entry))


def test_without_programs_nobody_can_send(load: Load) -> None:
    text = textwrap.dedent(SMALL) + "multicast: [{group: 230.4.4.1, senders: [0]}]\n"
    with pytest.raises(InputError, match="runs at node 0; valid: none, without an entry of"):
        load(text)


def test_virtual_time_has_no_such_groups(tmp_path: Path) -> None:
    file = tmp_path / "groups.yaml"
    file.write_text(with_groups("{group: 230.4.4.1, senders: [0]}"))
    command = [ROOT / "tiercast", "run", file, "--runtime=ns3", "--results", tmp_path / "r"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "groups.yaml:19: multicast: groups of programs on hosts, which" in done.stderr
    assert "valid: --runtime mininet" in done.stderr


# Each member sends its number to the group until it has heard all others' from the switches. When
# all are that far, each sends its packets. Everything that is heard is kept.
PROGRAM = """
import json, pathlib, socket, struct, sys, time

me, others, packets, group = sys.argv[1], sys.argv[2].split(","), int(sys.argv[3]), sys.argv[4]
folder, member = pathlib.Path(sys.argv[5]), sys.argv[6] == "member"
mine = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
mine.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 16)
mine.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
mine.bind(("", 5600))
mine.settimeout(0.05)
if member:
    mine.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                    struct.pack("4s4s", socket.inet_aton(group), bytes(4)))
found, heard = set(), []


def listen(until):
    while time.monotonic() < until:
        try:
            who, what = mine.recv(2000).decode().split()
        except TimeoutError:
            continue
        found.add(who)
        if what != "hello":
            heard.append([who, int(what)])
    (folder / f"{me}.tmp").write_text(json.dumps(heard))
    (folder / f"{me}.tmp").rename(folder / f"{me}.json")


def all_have(suffix):
    return all((folder / f"{one}.{suffix}").exists() for one in [me, *others])


while not all_have("ready"):
    mine.sendto(f"{me} hello".encode(), (group, 5600))
    listen(time.monotonic() + 0.1)
    if not member or found >= set(others):
        (folder / f"{me}.ready").touch()
for number in range(packets):
    mine.sendto(f"{me} {number}".encode(), (group, 5600))
    listen(time.monotonic() + 0.02)
(folder / f"{me}.sent").touch()
while True:
    listen(time.monotonic() + 0.1)
"""

PACKETS = 100
# A ring with members at 1, 2 and 3. The program at 0 only sends; the one at 4 belongs to nothing.
# The session leaves room, so that no queue overflows.
RUN = """
topology:
  nodes: [0, 1, 2, 3, 4]
  link: {rate: 2Mbit/s, delay: 5ms, queue: 50p}
  links: {0-1: {}, 1-2: {}, 2-3: {}, 3-0: {}, 0-4: {}}
sessions: [{scheme: tfmcc, sender: 0, receivers: [2], parameters: {tfmcc.max_rate: 1Mbit/s}}]
multicast: [{group: 230.4.4.1, senders: [0]}]
traffic: [TRAFFIC]
duration: 15s
"""


@pytest.mark.alone
@pytest.mark.mininet
def test_each_member_gets_each_packet_once(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    heard_in = tmp_path / "heard"
    heard_in.mkdir()
    entries = []
    for node in (0, 1, 2, 3):
        others = ",".join(str(n) for n in (0, 1, 2, 3) if n != node)
        role = "member" if node else "sender"
        line = f"exec python3 {program} {node} {others} {PACKETS} 230.4.4.1 {heard_in} {role}"
        entries.append(f'{{kind: command, from: {node}, run: "{line}"}}')
    entries.append('{kind: command, from: 4, run: "echo x > $scratch/4; exec sleep 1000"}')
    file = tmp_path / "groups.yaml"
    file.write_text(RUN.replace("TRAFFIC", ", ".join(entries)))
    started = Started(tmp_path, experiment=str(file))
    status, out, error = started.finish()
    assert status in (0, 3), out + error
    started.assert_nothing_is_left()
    assert all((heard_in / f"{node}.sent").exists() for node in range(4)), list(heard_in.iterdir())
    for node in (1, 2, 3):
        heard = Counter(map(tuple, json.loads((heard_in / f"{node}.json").read_text())))
        senders = [str(n) for n in (0, 1, 2, 3) if n != node]
        assert heard == Counter({(who, n): 1 for who in senders for n in range(PACKETS)})
    assert json.loads((heard_in / "0.json").read_text()) == []

    folder = (tmp_path / "latest").resolve()
    checks = json.loads((folder / "summary.json").read_text())["validity"]["checks"]
    (unaccounted,) = (one for one in checks if one["name"] == "unaccounted")
    assert unaccounted["measured"] == 0
    reports = pl.read_parquet(folder / "rows/controller.igmp.parquet")
    joins = reports.filter((pl.col("group") == "230.4.4.1") & (pl.col("action") == "join"))
    assert sorted(joins["switch"]) == ["s1", "s2", "s3"] and set(joins["session"]) == {-1}
    # Nothing of it goes to the host that is no member.
    rows = pl.read_parquet(folder / "rows/command.parquet").sort("time_s")
    of = {name: rows.filter(pl.col("agent") == name) for name in ("command1", "command5")}
    assert of["command5"]["rx_packets"][-1] == 0
    assert of["command1"]["rx_packets"][-1] == 0  # nor to the one that only sends
