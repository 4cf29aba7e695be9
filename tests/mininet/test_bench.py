"""`tiercast bench` over a device of known properties: a tiercast-switch whose ports have a rate
(root), and, for the searches, devices that are an equation."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tiercast_lab.base.errors import RunFailed
from tiercast_lab.bench.device_file import DeviceFile, read_device
from tiercast_lab.bench.outcome import Outcome
from tiercast_lab.bench.rfc3918 import Rfc3918
from tiercast_lab.bench.suite import TESTS, Suite, chosen, reset_by
from tiercast_lab.bench.tester import CabledPort
from tiercast_lab.bench.trials import Bench, Found, Plan, Trial, shares
from tiercast_lab.show.bench_report import write_comparison

from ..checkout import ROOT
from ..namespaces import Namespaces, command_in, ip
from ..patience import PATIENCE_S, wait_until


class Equation:
    """Stands for tester and device: it loses what is above `capacity`, and the tester offers no
    more than `most`."""

    def __init__(self, capacity: float, most: float = 1e9):
        self.capacity, self.most = capacity, most
        self.ports = [{"mac": "02:00:00:00:00:00"}, {"mac": "02:00:00:00:00:01"}]

    def ask(self, command: dict[str, Any]) -> dict[str, Any]:
        offered = min(command["rate"] or self.most, self.most)
        through = min(1.0, self.capacity / offered)
        received = int(command["frames"] * through)
        port = {"received": received, "first_ns": 0, "last_ns": 1}
        answer = {"rate": offered, "sent": command["frames"], "last_ns": 1}
        return answer | {"ports": [port, port]}


def bench(equation: Equation, plan: Plan, line_rate: int | None = None) -> Bench:
    ports = [CabledPort("net_null", f"10.0.{i}.2") for i in range(2)]
    described = {"ports": [{"device": p.device, "address": p.address} for p in ports]}
    device = DeviceFile.model_validate(described).model_copy(update={"line_rate": line_rate})
    return Bench(equation, ports, device, plan)  # type: ignore[arg-type]


def search(one: Bench) -> Any:
    run: Callable[[float], Trial] = lambda rate: one.trial(  # noqa: E731
        64, rate, [one.host(1)], lambda sent: {1: sent}
    )
    return one.search(64, run)


@pytest.mark.parametrize("capacity", [1.5, 777, 12_345.6, 987_654])
def test_a_search_ends_at_the_devices_rate(capacity: float) -> None:
    found = search(bench(Equation(capacity), Plan((64,), 10.0, resolution=0.01)))
    assert capacity * 0.98 <= found.rate <= capacity
    assert found.limit == "device"
    assert len(found.trials) < 30


def test_a_search_says_when_the_tester_or_the_line_was_the_limit() -> None:
    plan = Plan((64,), 1.0, resolution=0.01)
    found = search(bench(Equation(1e9, most=50_000), plan))
    assert found.limit == "tester"
    assert found.rate == pytest.approx(50_000)
    found = search(bench(Equation(1e9), plan, line_rate=10_000_000))
    assert found.limit == "line rate"
    assert found.rate == pytest.approx(10e6 / 8 / 84)  # frames of 64 bytes and 20 around them


def test_a_loss_criterion_lets_frames_be_lost() -> None:
    plan = Plan((64,), 10.0, loss=0.1, resolution=0.001)
    assert search(bench(Equation(9000), plan)).rate == pytest.approx(10_000, rel=0.01)


def test_frames_in_turn_are_counted_for_each_class() -> None:
    for sent in range(40):
        order = [0, 0, 0, 1, 1] * 8
        assert shares(sent, [3, 2]) == [order[:sent].count(0), order[:sent].count(1)]


def test_a_rows_loss_is_that_of_all_its_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    latency = {"min_ns": 1000, "mean_ns": 2000, "p99_ns": 3000, "max_ns": 4000}

    def trial(sent: int, received: int) -> Trial:
        port = {"received": received, "latency": latency}
        return Trial(64, 100.0, 100.0, sent, {1: sent}, {"ports": [{}, port]})

    test = Rfc3918(bench(Equation(1000), Plan((64,), 1.0, latency_trials=3)))
    test.aggregated = {64: Found(100.0, None, "device")}
    made = iter([trial(1000, 1000), trial(1000, 900), trial(2000, 2000)])
    monkeypatch.setattr(test, "_join_all", lambda _: None)
    monkeypatch.setattr(test, "_multicast", lambda *_: next(made))
    assert [row[-1] for row in test.latency().rows if row[1] == 1] == ["2.500 %"]


def test_tests_bring_those_that_they_need() -> None:
    assert chosen([]) == list(TESTS)
    assert chosen(["scaled"]) == ["aggregated", "scaled"]


def test_devices_stand_side_by_side_by_frame_size(tmp_path: Path) -> None:
    """Of one that loses less, fewer loads were tried."""

    def suite(name: str, loads: dict[int, list[str]]) -> Suite:
        described = {"embedded": "tiercast-switch"}
        made = Suite(DeviceFile.model_validate(described), name, Plan((64,), 1.0))
        rows = [[size, load, f"{name} {load}"] for size, some in loads.items() for load in some]
        made.outcomes.append(Outcome("Loss", "", ["frame", "load", "lost"], rows, keys=2, figure=2))
        return made

    suites = [
        suite("a", {64: ["100 %", "90 %"], 512: ["100 %"]}),
        suite("b", {64: ["100 %", "90 %", "80 %"], 512: ["100 %"]}),
    ]
    page = write_comparison(suites, tmp_path, "", []).read_text()
    places = [page.index(f"b {load}") for load in ("100 %", "90 %", "80 %")]
    assert places == sorted(places) and places[-1] < page.index("<td>512</td>")


def run(
    tmp_path: Path, device: str, *options: str, prefix: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "device.yaml"
    file.write_text(device)
    return subprocess.run(
        [*prefix, ROOT / "tiercast", "bench", f"--device={file}", f"--results={tmp_path}",
         *options],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[]", "mapping"),
        ("{}", "either `embedded` or `ports`"),
        ("embedded: cisco", "embedded"),
        ("ports: [{device: net_null0, address: 10.0.0.1}]", "at least two"),
        ("embedded: bmv2\nport_rate: 1Mbit/s", "bmv2"),
        ("embedded: tiercast-switch\nspeed: 3", "speed"),
        ("embedded: tiercast-switch\ngroups: {first: 10.0.0.1}", "not all groups"),
        ("embedded: tiercast-switch\nport_rate: fast", "port_rate"),
    ],
)
def test_faults_of_a_file_are_named(tmp_path: Path, text: str, named: str) -> None:
    file = tmp_path / "device.yaml"
    file.write_text(text)
    with pytest.raises(Exception, match=named):
        read_device(file)


def test_wrong_options_are_named(tmp_path: Path) -> None:
    device = "embedded: tiercast-switch"
    for option, named in [
        ("--sizes=63", "64 to 9000"),
        ("--only=everything", "aggregated"),
        ("--trial=soon", "--trial"),
    ]:
        done = run(tmp_path, device, option)
        assert done.returncode == 2, done.stderr
        assert named in done.stderr


@pytest.mark.mininet
@pytest.mark.alone
def test_a_switch_of_known_rate(tmp_path: Path) -> None:
    """Ports of 2 Mbit/s and queues of 10 packets, which any machine can serve: 492 frames of 512
    bytes a second (the rate counts Ethernet's bytes without FCS, which veths do not have)."""
    device = "{embedded: tiercast-switch, port_rate: 2Mbit/s, queue: 10p, groups: {count: 4}}"
    tests = (
        "throughput",
        "bidirectional",
        "aggregated",
        "mixed",
        "frame-loss",
        "recovery",
        "reset",
        "join-delay",
        "leave-delay",
    )
    done = run(tmp_path, device, "--quick", "--sizes=512", "--tries=3", "--trial=500ms",
               "--late=500ms", "--json", *(f"--only={one}" for one in tests))  # fmt: skip
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)
    by_name = {one["name"]: one for one in found["tests"]}
    rate = 2e6 / 8 / 508
    # What a trial of half a second may offer more than the rate waits in the queue at its end: ten
    # packets and the one that is sent.
    waiting = 2 * (10 + 2)
    for name, column in (("Throughput", 1), ("Aggregated multicast throughput", 3)):
        (row,) = by_name[name]["rows"]
        assert 0.9 * rate <= row[column] <= rate + waiting, row
        assert "device" in row
    # Each port has its own rate: both directions at once have twice that of one.
    (row,) = by_name["Bidirectional throughput"]["rows"]
    assert 0.85 * rate <= row[1] <= rate + waiting and row[2] == 2 * row[1], row
    for row in by_name["Mixed class throughput"]["rows"]:
        # The second port gets both classes: it is the bottleneck, whatever the share.
        assert 0.85 * rate <= row[2] <= rate + 1.2 * waiting, row
    for row in by_name["Frame loss rate"]["rows"]:
        offered, lost = row[3], float(row[4].split()[0]) / 100
        assert lost <= max(0.0, 1 - rate / offered) + 0.03, row
        assert lost >= 1 - (rate + waiting) / offered - 0.03, row
    (row,) = by_name["System recovery"]["rows"]
    # What does not leave in half a second, nor waits, is lost; relieved, nothing more is.
    assert row[3] >= (row[1] - rate) / 2 - 15, row
    assert row[4] == "nothing was lost" if row[3] == 0 else 0 <= row[4] <= 600, row
    (row,) = by_name["Reset"]["rows"]
    # What is due while the switch is gone is lost, and little else.
    assert 50 < row[3] < 19_000, row
    assert row[4] >= 0.95 * row[3] - 1e3 * 12 / row[1], row
    joins = by_name["Group join delay"]
    assert {row[0] for row in joins["rows"]} == {"A", "B"}
    # The whole change, from report to tree, was seen for every group. A leave may take less than
    # the gap between two frames.
    for row in joins["rows"]:
        assert row[-1] == 0 and 0 < row[3] <= row[6] < 1300, row
    for row in by_name["Group leave delay"]["rows"]:
        assert row[-1] == 0 and 0 <= row[3] <= row[6] < 1300, row
    assert any("tunnels" in one["why"] for one in found["not_measured"])
    page = Path(found["report"]).read_text()
    for text in ("RFC 3918, 6.1", "RFC 2544, 26.3", "Not measured", "data:image/png"):
        assert text in page


@pytest.fixture
def bridge() -> Iterator[Namespaces]:
    """A device of one's own: a Linux bridge between two interfaces of the namespace `tester`."""
    namespaces = Namespaces("tester", "device")
    try:
        ip("-n", namespaces["device"], "link", "add", "br0", "type", "bridge")
        ip("-n", namespaces["device"], "link", "set", "br0", "up")
        for i in range(2):
            namespaces.join("tester", f"t{i}", "device", f"d{i}")
            ip("-n", namespaces["device"], "link", "set", f"d{i}", "master", "br0")
        yield namespaces
    finally:
        namespaces.close()


def bridged(reset: str) -> str:
    ports = "".join(
        f'  - {{device: "net_af_packet,iface=t{i}", address: 10.9.{i}.2}}\n' for i in range(2)
    )
    return f"name: bridge\nline_rate: 500kbit/s\nports:\n{ports}reset: {json.dumps(reset)}\n"


def test_the_devices_command_resets_it(tmp_path: Path, bridge: Namespaces) -> None:
    """One that leaves a program of its own behind, as a switch is, which is none of the bench's."""
    port = f"ip -n {bridge['device']} link set d1"
    left = f"{{ sleep 600 & echo $! > {tmp_path}/left; }}"
    reset = f"{port} nomaster && sleep 0.4 && {port} master br0 && {left}"
    done = run(tmp_path, bridged(reset), "--quick", "--sizes=512", "--tries=3", "--late=500ms",
               "--only=reset", "--json", prefix=command_in(bridge["tester"]))  # fmt: skip
    os.kill(int((tmp_path / "left").read_text()), signal.SIGKILL)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)
    (row,) = next(one for one in found["tests"] if one["name"] == "Reset")["rows"]
    _, rate, lost, by_stamps_ms, by_frames_ms = row
    assert lost > 0.3 * rate
    assert by_stamps_ms >= 400 - 1e3 / rate
    # All that is lost is lost while the port is away.
    assert by_frames_ms <= by_stamps_ms + 1e3 / rate


@pytest.mark.parametrize(
    ("reset", "named"),
    [
        ("echo no such switch >&2; exit 3", "ended with status 3: no such switch"),
        ("sleep 600", "did not end within 0.5 s"),
    ],
)
def test_a_command_that_fails_is_named(reset: str, named: str) -> None:
    with pytest.raises(RunFailed, match=f"reset: `{reset}` {named}"):
        reset_by(reset, within_s=0.5)


@pytest.mark.mininet
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_stays_behind(tmp_path: Path, number: signal.Signals) -> None:
    """However the command ends, in the middle of a long trial."""
    file = tmp_path / "device.yaml"
    file.write_text("embedded: tiercast-switch")
    command = [ROOT / "tiercast", "bench", f"--device={file}", f"--results={tmp_path}",
               "--trial=60min", "--only=throughput"]  # fmt: skip
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:

        def measures() -> bool:
            assert process.poll() is None, "it ended"
            return "tiercast-tester" in names(descendants(process.pid))

        wait_until(measures, "it measures")
        time.sleep(0.5)
        children = descendants(process.pid)
        process.send_signal(number)
        status = process.wait(PATIENCE_S)
    assert status == (130 if number == signal.SIGINT else -signal.SIGKILL)
    wait_until(lambda: not names(children), "its programs have ended")


def descendants(pid: int) -> set[int]:
    found = {pid}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) in found:
            found |= descendants(int(path.parent.name)) - found
    return found


def names(pids: set[int]) -> set[str]:
    """Of those that live."""
    found = set()
    for pid in pids:
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        if "State:\tZ" not in status:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            found |= {Path(word.decode()).name for word in words[:8] if word}
    return found
