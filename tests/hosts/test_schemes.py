"""Every scheme over real UDP and DPDK, with a sender and a receiver at the ends of a veth, and the
files that the reliable schemes transfer. Needs root."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import tempfile
from pathlib import Path

import pytest
from tiercast.v1 import lab_pb2

from ..agent.lab import Lab
from ..agent.network import HOST, HOST_IP, Link, Program
from ..patience import PATIENCE_S, wait_until
from .test_host import group

pytestmark = pytest.mark.slow

SCHEMES = json.loads(
    subprocess.run([HOST, "schemes"], capture_output=True, text=True, check=True).stdout
    if HOST.exists()
    else "[]"
)
# Their receivers only send when something is lost or when a join experiment begins; RLC's and PLM's
# never send.
SILENT = ("ermcc", "rlm", "rlc", "plm")
RELIABLE = ("rla", "mdpcc")


@pytest.mark.parametrize("scheme", [one["name"] for one in SCHEMES])
def test_a_session_runs(link: Link, scheme: str) -> None:
    # An unlimited veth has no congestion, so the rate is bounded if the scheme has a bound, and set
    # if its rate is fixed.
    paces = {f"{scheme}.max_rate": "2Mbit/s", f"{scheme}.layer_rate": "200kbit/s"}
    settings = [
        f"--set={parameter['name']}={paces[parameter['name']]}"
        for one in SCHEMES
        if one["name"] == scheme
        for parameter in one["parameters"]
        if parameter["name"] in paces
    ]
    if next(one["layered"] for one in SCHEMES if one["name"] == scheme):
        settings.append("--layers=5")
    host = link.host(15, f"--scheme={scheme}", *settings)
    wait_until(lambda: group(0) in link.joined_groups(), "IGMP membership")
    sender = link.sender(f"--scheme={scheme}", *settings)

    def count(program: Program, kind: str, field: str) -> float:
        return max((r[field] for r in program.records() if r["kind"] == kind), default=0)

    wait_until(lambda: count(host, "received", "packets") >= 20, "packets")
    if scheme not in SILENT:
        wait_until(lambda: count(sender, "feedback", "accepted") >= 1, "feedback")
    sender.terminate()
    sent = sender.wait()
    host.terminate()
    ended = host.wait()
    assert sent.status == 0, sent.stderr
    assert ended.status == 0, ended.stderr
    received = ended.of("received")[-1]
    assert received["packets"] >= 20
    assert ended.of("socket")[-1]["invalid"] == 0
    assert ended.of("socket")[-1]["foreign"] == 0
    feedback = sent.of("feedback")[-1]
    assert (feedback["malformed"], feedback["refused"]) == (0, 0)
    assert (feedback["accepted"] > 0) >= (scheme not in SILENT)


def test_a_member_that_counts_a_million_is_refused(link: Link) -> None:
    host = link.host(15, "--lie=million_receivers")
    sender = link.sender(f"--member=15={HOST_IP}")
    wait_until(
        lambda: any(r.get("implausible", 0) >= 3 for r in sender.records()), "implausible feedback"
    )
    sender.terminate()
    sent = sender.wait()
    host.terminate()
    ended = host.wait()
    assert (sent.status, ended.status) == (0, 0), sent.stderr + ended.stderr
    feedback = sent.of("feedback")[-1]
    assert (feedback["accepted"], feedback["refused"]) == (0, 0)
    refused = sent.of("feedback.refused")[-1]
    assert (refused["non_member"], refused["impersonated"]) == (0, 0)
    assert ended.of("received")[-1]["packets"] > 0


def test_an_inflated_subscription_joins_all_groups_and_leaves_them(link: Link) -> None:
    every = {group(rank) for rank in range(5)}
    host = link.host(15, "--layers=5", "--lie=inflated_subscription")
    wait_until(lambda: every <= link.joined_groups(), "IGMP memberships")
    host.terminate()
    ended = host.wait()
    assert ended.status == 0, ended.stderr
    assert not every & link.joined_groups()
    assert [record["top"] for record in ended.of("subscription")] == [4, -1]


def test_a_lie_that_means_nothing_is_refused_by_name(link: Link) -> None:
    ended = link.host(15, "--scheme=rlc", "--lie=rate_zero").wait()
    assert ended.status == 2
    assert "lie 'rate_zero' means nothing in rlc; valid: always_congested" in ended.stderr


@pytest.mark.parametrize("scheme", RELIABLE)
def test_a_file_is_transferred_and_both_programs_end(
    link: Link, tmp_path: Path, scheme: str
) -> None:
    original, copy = tmp_path / "original", tmp_path / "copy"
    original.write_bytes(random.Random(5).randbytes(200_123))
    digest = hashlib.sha256(original.read_bytes()).hexdigest()
    host = link.host(15, f"--scheme={scheme}", f"--output={copy}", f"--sha256={digest}")
    wait_until(lambda: group(0) in link.joined_groups(), "IGMP membership")
    sender = link.sender(f"--scheme={scheme}", f"--input={original}", f"--member=15={HOST_IP}")
    sent = sender.wait(timeout=5 * PATIENCE_S)
    ended = host.wait()
    assert sent.status == 0, sent.stderr
    assert ended.status == 0, ended.stderr
    assert ended.of("received")[-1]["complete"] == 1
    assert copy.read_bytes() == original.read_bytes()
    assert os.path.getsize(copy) == 200_123


@pytest.mark.parametrize("scheme", RELIABLE)
def test_an_object_that_is_not_complete_is_status_1(
    link: Link, tmp_path: Path, scheme: str
) -> None:
    """There is no sender, or the host is told to end; nobody has said a digest."""
    original, copy = tmp_path / "original", tmp_path / "copy"
    ended = link.host(15, f"--scheme={scheme}", f"--output={copy}", "--duration=200ms").wait()
    assert ended.status == 1
    assert f"{copy}: the object is not complete: 0 bytes of it were received" in ended.stderr

    original.write_bytes(bytes(100_000_000))
    host = link.host(15, f"--scheme={scheme}", f"--output={copy}")
    wait_until(lambda: group(0) in link.joined_groups(), "IGMP membership")
    link.sender(f"--scheme={scheme}", f"--input={original}", f"--member=15={HOST_IP}")
    received = "delivered"
    wait_until(lambda: any(r.get(received) for r in host.records()), "a part of the object")
    host.terminate()
    ended = host.wait()
    assert ended.status == 1
    count = int(ended.of("received")[-1][received])
    assert f"the object is not complete: {count} bytes of it were received" in ended.stderr


@pytest.mark.parametrize("scheme", RELIABLE)
def test_a_disk_that_is_full_is_named(link: Link, tmp_path: Path, scheme: str) -> None:
    original = tmp_path / "original"
    original.write_bytes(bytes(200_000))
    host = link.host(15, f"--scheme={scheme}", "--output=/dev/full")
    wait_until(lambda: group(0) in link.joined_groups(), "IGMP membership")
    link.sender(f"--scheme={scheme}", f"--input={original}", f"--member=15={HOST_IP}")
    ended = host.wait(timeout=5 * PATIENCE_S)
    assert ended.status == 1
    assert "--output: /dev/full: No space left on device" in ended.stderr


@pytest.mark.parametrize("scheme", RELIABLE)
def test_a_file_that_is_cut_short_meanwhile_is_sent_whole(
    link: Link, tmp_path: Path, scheme: str
) -> None:
    original, copy = tmp_path / "original", tmp_path / "copy"
    content = random.Random(5).randbytes(400_000)
    original.write_bytes(content)
    host = link.host(15, f"--scheme={scheme}", f"--output={copy}")
    wait_until(lambda: group(0) in link.joined_groups(), "IGMP membership")
    sender = link.sender(f"--scheme={scheme}", f"--input={original}", f"--member=15={HOST_IP}")
    wait_until(lambda: bool(sender.records()), "the sender runs")
    os.truncate(original, 0)
    sent = sender.wait(timeout=5 * PATIENCE_S)
    assert sent.status == 0, sent.stderr
    assert host.wait().status == 0
    assert copy.read_bytes() == content


def test_another_object_than_the_senders_is_status_1(link: Link, tmp_path: Path) -> None:
    original, copy = tmp_path / "original", tmp_path / "copy"
    original.write_bytes(random.Random(5).randbytes(20_000))
    host = link.host(15, "--scheme=mdpcc", f"--output={copy}", f"--sha256={'ab' * 32}")
    wait_until(lambda: group(0) in link.joined_groups(), "IGMP membership")
    sender = link.sender("--scheme=mdpcc", f"--input={original}")
    assert sender.wait(timeout=5 * PATIENCE_S).status == 0
    ended = host.wait()
    assert ended.status == 1
    digest = hashlib.sha256(original.read_bytes()).hexdigest()
    assert f"{copy}: the object is not its sender's" in ended.stderr
    assert f"received SHA-256 {digest}, sent {'ab' * 32}" in ended.stderr


def test_in_a_lab_the_sender_says_the_digest(tmp_path: Path, link: Link) -> None:
    """The lab tells what the sender's Hello says, or here something else."""
    original, copy = tmp_path / "original", tmp_path / "copy"
    original.write_bytes(random.Random(5).randbytes(20_000))
    digest = hashlib.sha256(original.read_bytes()).digest()
    with tempfile.TemporaryDirectory(prefix="tiercast-") as directory:
        lab = Lab(Path(directory))
        own = ["--scheme=mdpcc", f"--lab={lab.address}"]
        host = link.host(15, *own, f"--output={copy}")
        lab.hellos.get(timeout=PATIENCE_S)
        sender = link.sender(*own, "--name=h0", f"--input={original}")
        assert lab.hellos.get(timeout=PATIENCE_S).object_sha256 == digest
        lab.say("h15", object=lab_pb2.Object(sha256=bytes(32)))
        lab.start("h15")
        wait_until(lambda: group(0) in link.joined_groups(), "IGMP membership")
        lab.start("h0")
        lab.membership("h0", 1, 0)
        wait_until(lambda: lab.last("received", complete=1) != {}, "the whole object")
        for agent in ("h15", "h0"):
            lab.stop(agent)
        assert sender.wait().status == 0
        ended = host.wait()
        lab.close()
    assert ended.status == 1
    assert f"received SHA-256 {digest.hex()}, sent {'00' * 32}" in ended.stderr


def test_a_scheme_with_one_rate_takes_one_layer(link: Link) -> None:
    sender = link.sender("--scheme=ermcc", "--layers=3", "--duration=1s")
    ended = sender.wait()
    assert ended.status == 2
    assert "--layers: ermcc has one rate for all receivers; valid: 1, not 3" in ended.stderr
