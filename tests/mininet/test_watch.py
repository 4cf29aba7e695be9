"""What the server of `tiercast watch` answers: of stored runs, of runs under way, and to requests
that it refuses."""

from __future__ import annotations

import errno
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import polars as pl
import pytest
from tiercast_lab.base.errors import EXIT_INPUT, EXIT_INTERRUPTED
from tiercast_lab.cli.watch import DEFAULT_PORT, address_and_port
from tiercast_lab.measures.rows import Rows
from tiercast_lab.results.explain.receiver import explain
from tiercast_lab.results.explain.snapshot import snapshot_at
from tiercast_lab.results.recorder import FLUSH_S
from tiercast_lab.results.storage import is_under_way, load_run
from tiercast_lab.run.network_summary import network_summary
from tiercast_lab.watch.frames import frames_between
from tiercast_lab.watch.scene import described, scene_of
from tiercast_lab.watch.server import hosts_of
from tiercast_lab.watch.watched import LATEST_ROW_S

from ..checkout import ROOT
from ..patience import PATIENCE_S
from .conftest import SMALL
from .watched_runs import KnownRun, serving


@dataclass
class Answer:
    status: int
    headers: dict[str, str]  # names in lower case
    text: str

    def json(self) -> Any:
        assert self.status == 200, self.text
        return json.loads(self.text)


class Client:
    """Sends requests as they are written: libraries tidy paths up."""

    def __init__(self, address: str) -> None:
        self.host = address.removeprefix("http://")

    def get(self, path: str, method: str = "GET", host: str | None = None) -> Answer:
        connection = http.client.HTTPConnection(self.host, timeout=PATIENCE_S)
        connection.putrequest(method, path, skip_host=host is not None)
        if host is not None:
            connection.putheader("Host", host)
        connection.endheaders()
        answer = connection.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, headers, answer.read().decode())


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with serving(tmp_path / "results") as address:
        yield Client(address)


@pytest.fixture
def known(load, tmp_path) -> KnownRun:
    return KnownRun(tmp_path / "results", load())


@pytest.fixture
def ended(known) -> KnownRun:
    with known.going_on():
        known.seconds(1, 20)
    return known


# ---- stored runs ----


def test_the_list_has_the_runs_of_the_store(client, ended, stored) -> None:
    # `stored` is a folder whose name sorts last, so it is the newest.
    runs = client.get("/runs.json").json()
    assert [one["run"] for one in runs] == ["run", ended.name]
    assert runs[1] == {
        "run": ended.name, "live": False, "title": "A small tree", "schemes": ["sim"],
        "started": "2026-01-01T00:00:00+0000", "runtime": "mininet", "seed": 1, "duration": 20.0,
        "receivers": 4, "verdict": "met", "captures": [],
    }  # fmt: skip
    assert "text/html" in client.get("/").headers["content-type"]
    assert "text/html" in client.get(f"/runs/{ended.name}").headers["content-type"]


def test_a_folder_without_runs_has_an_empty_list(client) -> None:
    assert client.get("/runs.json").json() == []


def test_frames_are_the_rows_by_second(client, ended) -> None:
    run = client.get(f"/runs/{ended.name}/run.json").json()
    scene, frames = run["scene"], run["frames"]
    assert (run["live"], run["verdict"], scene["step"]) == (False, "met", 1.0)
    assert [frame["t"] for frame in frames] == [*range(1, 21)]
    directions = [one["name"] for one in scene["directions"]]
    for frame in frames:
        numbers = dict(zip(directions, frame["directions"], strict=True))
        # Without Ethernet's header: what a link's rate counts.
        assert numbers["1>3"] == [1_000_000, 20 + frame["t"], 7, 3]
        assert numbers["0>1"] == [2_000_000, 0, 0, 0]
        assert numbers["2>5"] == [None] * 4  # no rows
        assert frame["sent"] == [[1_000_000, 2_000_000]]
        received = dict(
            zip([one["name"] for one in scene["receivers"]], frame["received"], strict=True)
        )
        assert (received["h3"], received["h4"]) == (1_000_000, 1_000_000)
        assert frame["represents"] == [None]
        two = frame["t"] >= 5  # h4 has a second layer from 4.5 s on
        assert frame["subscribed"] == [[4, 1 if two else 0]]
        assert frame["layers"] == [1, 2 if two else 1, 1, 1]


def test_the_scene_has_the_network(client, ended) -> None:
    scene = client.get(f"/runs/{ended.name}/run.json").json()["scene"]
    nodes = {one["node"]: one for one in scene["nodes"]}
    assert {node: one["kind"] for node, one in nodes.items()} == {
        0: "sender", 1: "inner", 2: "inner", 3: "receiver", 4: "receiver", 5: "receiver",
        6: "receiver",
    }  # fmt: skip
    assert nodes[0]["y"] < nodes[1]["y"] < nodes[3]["y"]
    slow = next(one for one in scene["directions"] if one["name"] == "1>3")
    assert (slow["rates"], slow["queue_packets"], slow["used"]) == ([[0.0, 1e6]], 50, True)
    back = next(one for one in scene["directions"] if one["name"] == "3>1")
    assert not back["used"]
    h3 = next(one for one in scene["receivers"] if one["name"] == "h3")
    assert (h3["path"], h3["bottleneck"]) == (["0>1", "1>3"], "1>3")


def test_a_one_way_link_has_no_limit_on_the_way_back(ended) -> None:
    run = load_run(ended.folder.path)
    assert not any(one["unlimited"] for one in described(run, scene_of(run))["directions"])
    links = run.summary["network"]["links"]
    links["1-3"] |= {"one_way": True}
    directions = {one["name"]: one for one in described(run, scene_of(run))["directions"]}
    there, back = directions["1>3"], directions["3>1"]
    assert (there["unlimited"], there["rates"], there["queue_packets"]) == (False, [[0, 1e6]], 50)
    assert (back["unlimited"], back["rates"], back["queue_packets"]) == (True, [[0, 0]], None)


def test_bytes_are_of_whole_packets_where_a_switch_counts_packets_alone(ended) -> None:
    run = load_run(ended.folder.path)
    ports = run.rows["port"].with_columns(tx_bytes=pl.lit(None, pl.Float64))
    counted = type(run)(run.directory, run.summary, Rows({**run.rows, "port": ports}))

    def sent(direction: str) -> set[int | None]:
        scene = scene_of(counted)
        frames = frames_between(counted, scene, 0.0, 20.0)
        return {frame["directions"][scene.directions.index(direction)][0] for frame in frames}

    assert (sent("0>1"), sent("1>3")) == ({2_000_000}, {1_000_000})  # of 1000 bytes
    run.summary["network"]["links"]["1-3"]["packet_size"] = 0  # of an earlier version
    assert sent("1>3") == {None}


def test_tcp_flows_and_the_representative_are_in_frames(beside_tcp) -> None:
    scene = scene_of(beside_tcp)
    frames = frames_between(beside_tcp, scene, 0.0, 20.0)
    assert [frame["flows"] for frame in frames] == [[2_000_000, 1_000_000]] * 20


def test_steps_of_a_long_run_are_longer(ended) -> None:
    run = load_run(ended.folder.path)
    long = run.summary | {"duration_s": 100_000.0}
    step_s = scene_of(type(run)(run.directory, long)).step_s
    numbers = len(frames_between(run, scene_of(run), 0.0, 1.0)[0]["directions"]) * 4
    assert step_s > 1 and 100_000 / step_s * numbers < 400_000


def test_rates_that_events_change_are_stored_by_direction(load) -> None:
    text = textwrap.dedent(SMALL) + textwrap.dedent("""\
        events:
          - {at: 5s, link: 1-3, rate: 2Mbit/s}
          - {at: 8s, link: 2-5, up: false}
          - {at: 9s, link: 2-5, up: true}
        """)
    links = network_summary(load(text))["links"]
    assert links["1-3"]["rates"] == {
        "1>3": [[0.0, 1e6], [5.0, 2e6]], "3>1": [[0.0, 1e6], [5.0, 2e6]]
    }  # fmt: skip
    assert links["2-5"]["rates"]["2>5"] == [[0.0, 6e6], [8.0, 0.0], [9.0, 6e6]]
    assert links["0-1"]["rates"] == {}


def test_a_receiver_is_explained_as_by_the_command(client, ended) -> None:
    answer = client.get(f"/runs/{ended.name}/receivers/h3/explanation.json?at=12").json()
    lines = explain(snapshot_at(load_run(ended.folder.path), "h3", "12"))
    said = [text for part in answer["parts"] for text in part["texts"]]
    assert said == [line[14:] for line in lines[1:]]
    assert any("1.00 Mbit/s in the last 2 s" in text for text in said)


def test_latest_is_the_run_that_it_names(client, ended) -> None:
    ended.folder.point_latest()
    assert client.get("/runs/latest/run.json").json()["scene"]["run"] == ended.name


def test_a_file_system_without_links_has_no_latest(ended, monkeypatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    assert not ended.folder.point_latest()
    assert not list(ended.folder.path.parent.glob("*latest*"))


@pytest.mark.parametrize(
    ("listen", "meant"),
    [
        ("127.0.0.1", ("127.0.0.1", DEFAULT_PORT)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:80", ("::1", 80)),
        ("[::1]", ("::1", DEFAULT_PORT)),
        ("::1", ("::1", DEFAULT_PORT)),
    ],
)
def test_where_to_listen(listen: str, meant: tuple[str, int]) -> None:
    assert address_and_port(listen) == meant


# ---- refusals ----


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/runs/nosuch", 404, "no run 'nosuch'; valid: "),
        ("/runs/..", 404, "no run '..'"),
        ("/runs/%2e%2e%2fsecret", 404, "valid: "),
        ("/runs/../secret/run.json", 404, "valid: "),
        ("/runs/..%2fsecret/run.json", 404, "valid: "),
        ("/runs/leads-out/run.json", 404, "no run 'leads-out'"),
        ("/static/..%2fserver.py", 404, "valid: "),
        ("/static/server.py", 404, "no file 'server.py'; valid: report.css"),
        ("/nothing", 404, "valid: /, /runs/RUN"),
        ("/runs/{run}/receivers/h9", 404, "no receiver 'h9'; valid: h3, h4, h5, h6"),
        ("/runs/{run}/receivers/h3/explanation.json", 400, "at ''; valid: a time in s, from 0 to"),
        ("/runs/{run}/receivers/h3/explanation.json?at=nan", 400, "from 0 to 20"),
        ("/runs/{run}/receivers/h3/explanation.json?at=20.1", 400, "from 0 to 20"),
        ("/runs/{run}/receivers/h3/explanation.json?at=-1", 400, "from 0 to 20"),
        ("/runs/{run}/events?from=-1", 400, "from '-1'; valid: the number of a frame"),
        ("/runs/{run}/events?from=x", 400, "from 'x'"),
    ],
)
def test_a_request_for_what_is_not_there_is_refused(
    client, ended, tmp_path, path: str, status: int, said: str
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "summary.json").write_text((ended.folder.path / "summary.json").read_text())
    (tmp_path / "results" / "leads-out").symlink_to(secret)
    answer = client.get(path.format(run=ended.name))
    assert answer.status == status
    assert said in answer.text and "Traceback" not in answer.text


def test_nothing_can_be_changed(client, ended) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert client.get(f"/runs/{ended.name}", method).status == 405


def test_a_run_that_cannot_be_read_is_refused_and_listed(client, ended) -> None:
    (ended.folder.rows / "port.parquet").write_bytes(b"not Parquet")
    answer = client.get(f"/runs/{ended.name}/run.json")
    assert (answer.status, "not Parquet" in answer.text) == (422, True)
    (ended.folder.path / "summary.json").write_text("{")
    assert client.get(f"/runs/{ended.name}/run.json").status == 422
    (entry,) = client.get("/runs.json").json()
    assert "not JSON" in entry["problem"]


@pytest.mark.parametrize(
    ("listens_at", "host", "accepted"),
    [
        ("127.0.0.1", "127.0.0.1:8173", True),
        ("127.0.0.1", "localhost:8173", True),
        ("127.0.0.1", "LOCALHOST", True),
        ("127.0.0.1", "[::1]:8173", True),
        ("127.0.0.1", "evil.example", False),
        ("127.0.0.1", "evil.example:8173", False),
        ("127.0.0.1", "127.0.0.1.evil.example", False),
        ("127.0.0.1", "192.0.2.1:8173", False),
        ("127.0.0.1", "", False),
        ("0.0.0.0", "192.0.2.1:8173", True),
        ("0.0.0.0", "[2001:db8::1]:8173", True),
        ("0.0.0.0", socket.gethostname(), True),
        ("0.0.0.0", "evil.example:8173", False),
    ],
)
def test_only_names_of_this_machine_are_answered(
    tmp_path, listens_at: str, host: str, accepted: bool
) -> None:
    with serving(tmp_path, listens_at) as address:
        answer = Client(address).get("/runs.json", host=host)
    assert answer.status == (200 if accepted else 400)
    if not accepted:
        assert "Host" in answer.text and "valid: " in answer.text


def test_a_name_of_this_machine_with_capital_letters_is_answered(monkeypatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "LabBox")
    assert hosts_of("0.0.0.0")("labbox:8173")  # browsers send small ones
    assert hosts_of("LabBox.example")("labbox.example:8173")


def test_pages_take_nothing_from_elsewhere(client, ended) -> None:
    for path in ("/", f"/runs/{ended.name}", "/static/watch.js", "/runs/nosuch"):
        assert client.get(path).headers["content-security-policy"].startswith("default-src 'self'")
    for page in (ROOT / "mininet/tiercast_lab/watch/pages").iterdir():
        assert "http" not in page.read_text().replace("http://www.w3.org/2000/svg", "", 1)


# ---- runs under way ----


class Viewer:
    """Reads the stream of a run's frames."""

    def __init__(self, address: str, run: str, start: int = 0) -> None:
        host = address.removeprefix("http://")
        self.connection = http.client.HTTPConnection(host, timeout=PATIENCE_S)
        self.connection.request("GET", f"/runs/{run}/events?from={start}")
        self.answer = self.connection.getresponse()
        assert self.answer.headers["content-type"].startswith("text/event-stream")

    def events(self) -> Iterator[tuple[str, object]]:
        kind = ""
        for line in self.answer:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                yield kind, json.loads(value)

    def frames_until(self, last_s: float) -> list[dict]:
        frames: list[dict] = []
        for kind, value in self.events():
            assert kind == "frames"
            frames += value
            if frames[-1]["t"] >= last_s:
                break
        return frames


def test_frames_come_while_the_run_goes_on(known, tmp_path) -> None:
    with serving(tmp_path / "results") as address:
        with known.going_on():
            known.seconds(1, 4)
            viewer = Viewer(address, known.name)
            # All rows of a second are there once later ones are; how late is in LATEST_ROW_S.
            first = viewer.frames_until(int(4 - LATEST_ROW_S))
            known.seconds(5, 9)
            second = viewer.frames_until(int(9 - LATEST_ROW_S))
            times = [frame["t"] for frame in first + second]
            assert times == [*range(1, len(times) + 1)]
            entry = json.load(urlopen(f"{address}/runs.json"))[0]
            assert (entry["run"], entry["live"], entry["now"]) == (known.name, True, 9.0)
            now = json.load(urlopen(f"{address}/runs/{known.name}/run.json"))
            assert now["live"] and now["frames"] == first + second
            at = f"{address}/runs/{known.name}/receivers/h3/explanation.json?at=8"
            said = json.load(urlopen(at))["parts"]
            assert any("1.00 Mbit/s in the last 2 s" in t for part in said for t in part["texts"])
            late = Viewer(address, known.name, start=5)
            assert late.frames_until(times[-1])[0]["t"] == 6
            known.seconds(10, 20)
        *rest, (kind, verdict) = viewer.events()
        assert {kind for kind, _ in rest} <= {"frames"}
        assert (kind, verdict) == ("ended", "met")
        whole = json.load(urlopen(f"{address}/runs/{known.name}/run.json"))
        assert (whole["live"], whole["verdict"]) == (False, "met")
        assert whole["frames"][: len(times)] == first + second
        assert [frame["t"] for frame in whole["frames"]] == [*range(1, 21)]


def test_a_viewer_that_does_not_read_holds_up_nobody(known, tmp_path) -> None:
    with serving(tmp_path / "results") as address, known.going_on():
        known.seconds(1, 3)
        host, _, port = address.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port))) as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            request = f"GET /runs/{known.name}/events HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n"
            slow.sendall(request.encode())
            viewer = Viewer(address, known.name)
            for second in range(4, 19):
                known.second(second)
            frames = viewer.frames_until(int(18 - LATEST_ROW_S))
            assert [frame["t"] for frame in frames] == [*range(1, len(frames) + 1)]
            # What was not read was only late.
            slow.settimeout(PATIENCE_S)
            seen = b""
            while f'"t":{frames[-1]["t"]}'.encode() not in seen:
                seen += slow.recv(1 << 16)


def test_a_line_that_is_half_written_waits_for_its_end(known, tmp_path) -> None:
    with serving(tmp_path / "results") as address, known.under_way():
        with known.recorder:
            known.seconds(1, 6)
        path = known.folder.rows / "port.jsonl"
        lines = path.read_bytes()
        path.write_bytes(lines[:-20])
        viewer = Viewer(address, known.name)
        viewer.frames_until(int(6 - LATEST_ROW_S))
        with path.open("ab") as file:
            file.write(lines[-20:])
        recorder_of_the_rest = type(known.recorder)(known.folder.rows)
        known.recorder = recorder_of_the_rest
        with known.recorder:
            known.seconds(7, 9)
        frames = viewer.frames_until(int(9 - LATEST_ROW_S))
        names = [f"{a}>{b}" for a, b in ((0, 1), (1, 0), (0, 2), (2, 0), (1, 3))]
        numbers = dict(zip(names, frames[-1]["directions"], strict=False))
        assert numbers["1>3"] == [1_000_000, 20 + frames[-1]["t"], 7, 3]


def test_a_run_is_under_way_until_its_process_ends(known, tmp_path) -> None:
    assert not is_under_way(known.folder.path)
    with known.under_way():
        assert is_under_way(known.folder.path)
        assert is_under_way(known.folder.path)  # to look changes nothing
    assert not is_under_way(known.folder.path)
    hold = "\n".join((
        "import sys, pathlib",
        "from tiercast_lab.results.storage import RunFolder",
        "folder = RunFolder(pathlib.Path(sys.argv[1]).parent, 'x')",
        "folder.path = pathlib.Path(sys.argv[1])",
        "folder.hold(); print('held', flush=True); sys.stdin.read()",
    ))  # fmt: skip
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", hold, known.folder.path],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment,
    ) as process:  # fmt: skip
        assert process.stdout.readline() == b"held\n"
        assert is_under_way(known.folder.path)
        process.kill()
        process.wait()
    assert not is_under_way(known.folder.path)


def test_a_run_that_was_broken_off_is_shown_as_far_as_it_went(client, known) -> None:
    with known.under_way(), known.recorder:
        known.seconds(1, 7)
    (entry,) = client.get("/runs.json").json()
    assert (entry["live"], entry["verdict"]) == (False, "broken off")
    run = client.get(f"/runs/{known.name}/run.json").json()
    assert (run["live"], run["complete"]) == (False, False)
    assert "its rows end at 7.0 s of 20 s" in run["reasons"]
    assert [frame["t"] for frame in run["frames"]] == [*range(1, 8)]


def test_the_period_of_the_page_suits_that_of_the_recorder() -> None:
    # A row is on disk half a second after it came, and read half a second later.
    from tiercast_lab.watch.watched import PERIOD_S

    assert PERIOD_S <= FLUSH_S


# ---- the command ----


def tiercast(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [ROOT / "tiercast", "watch", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_it_is_interrupted(known, tmp_path, number: int) -> None:
    process = tiercast(known.name, "--listen", "127.0.0.1:0", "--results", tmp_path / "results")
    address = process.stdout.readline().strip()
    assert address.endswith(f"/runs/{known.name}")
    with known.going_on():
        known.seconds(1, 4)
        assert urlopen(address).status == 200
        # A stream that has no end of its own holds up no end.
        viewer = Viewer(address.removesuffix(f"/runs/{known.name}"), known.name)
        viewer.frames_until(1)
        process.send_signal(number)
        out, error = process.communicate()
    assert process.returncode == EXIT_INTERRUPTED
    assert (out, error) == ("", f"tiercast: interrupted by {signal.Signals(number).name}\n")
    with pytest.raises(OSError):
        urlopen(address)


def context_of(keys: Path, role: str) -> ssl.SSLContext:
    """Of a client that shows the role's certificate."""
    context = ssl.create_default_context(cafile=keys / "ca.pem")
    context.load_cert_chain(keys / f"{role}.pem", keys / f"{role}.key")
    return context


def secure_connection(address: str, keys: Path, role: str) -> http.client.HTTPSConnection:
    place = address.removeprefix("https://").partition("/")[0]
    context = context_of(keys, role)
    return http.client.HTTPSConnection(place, timeout=PATIENCE_S, context=context)


def test_with_tls_only_who_shows_a_certificate_can_read(known, tmp_path, keys: Path) -> None:
    process = tiercast(
        known.name, "--listen", "0.0.0.0:0", "--tls", keys, "--results", tmp_path / "results"
    )
    address = process.stdout.readline().strip()
    assert address.startswith("https://127.0.0.1:")
    context = ssl.create_default_context(cafile=keys / "ca.pem")
    with pytest.raises((ssl.SSLError, OSError)):
        urlopen(address, context=context)
    assert urlopen(address, context=context_of(keys, "observer")).status == 200
    for role, status in (("controller", 200), ("agent", 403)):
        connection = secure_connection(address, keys, role)
        connection.request("GET", f"/runs/{known.name}/run.json")
        answer = connection.getresponse()
        assert answer.status == status
        said = answer.read().decode()
        assert status == 200 or said == "a certificate of role observer or controller is needed"
        connection.close()
    with pytest.raises(OSError):  # it speaks TLS alone
        urlopen(address.replace("https", "http"))
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate()
    assert (process.returncode, out) == (EXIT_INTERRUPTED, "")


def test_with_tls_the_names_of_the_certificate_are_answered(known, tmp_path, keys: Path) -> None:
    process = tiercast(
        known.name, "--listen", "0.0.0.0:0", "--tls", keys, "--results", tmp_path / "results"
    )
    address = process.stdout.readline().strip()
    for host, status in (("lab.example", 200), ("other.example", 400)):
        connection = secure_connection(address, keys, "observer")
        connection.request("GET", "/", headers={"Host": host})
        assert connection.getresponse().status == status
        connection.close()
    process.send_signal(signal.SIGINT)
    process.communicate()


def test_the_command_warns_where_others_can_read(tmp_path) -> None:
    process = tiercast("--listen", "0.0.0.0:0", "--insecure", "--results", tmp_path)
    address = process.stdout.readline()
    assert address.startswith("http://127.0.0.1:")
    warning = process.stdout.readline()
    assert warning.startswith("warning: ") and "no authentication" in warning
    process.send_signal(signal.SIGINT)
    assert process.wait() == EXIT_INTERRUPTED


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nosuch",), "no run 'nosuch'; valid: "),
        (("--listen", "127.0.0.1:99999"), "not an address and a port; valid: such as 127.0.0.1:"),
        (("--listen", ":8173"), "not an address and a port"),
        (("--listen", "0.0.0.0:0"), "could read the runs; valid: --tls FOLDER"),
        (("--tls", "."), "ca.pem: No such file or directory"),
        (
            ("--listen", "203.0.113.9:0", "--insecure"),
            "valid: an address of this machine and a free port",
        ),
    ],
)
def test_bad_input_to_the_command_is_refused(ended, tmp_path, arguments, said: str) -> None:
    process = tiercast(*arguments, "--results", tmp_path / "results")
    out, error = process.communicate()
    assert (process.returncode, out) == (EXIT_INPUT, "")
    assert said in error and "Traceback" not in error


def test_a_port_in_use_is_named(tmp_path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = tiercast("--listen", f"127.0.0.1:{port}", "--results", tmp_path)
        _, error = process.communicate()
    assert process.returncode == EXIT_INPUT
    assert f"127.0.0.1:{port}: Address already in use" in error
