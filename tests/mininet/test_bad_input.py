"""Bad input is answered with the place, the key, the value and what is valid."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tiercast_lab.base.errors import EXIT_FAULT, EXIT_INPUT, EXIT_UNREAD, InputError
from tiercast_lab.cli.main import main
from tiercast_lab.experiment.loading import load_experiment
from tiercast_lab.experiment.yaml_source import load_yaml
from tiercast_lab.results.explain.receiver import explain
from tiercast_lab.results.explain.snapshot import snapshot_at
from tiercast_lab.results.storage import load_run, reading
from tiercast_lab.show.run_report import write_report

from ..checkout import ROOT
from .conftest import SCHEMES, SMALL

MESH = """\
topology:
  nodes: [0, 1, 2, 3]
  link: {rate: 6Mbit/s, delay: 5ms, queue: 50p}
  links: {0-1: {}, 1-2: {}, 2-3: {}, 3-0: {}}
sessions:
  - {scheme: sim, sender: 0}
"""


def tiercast(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    command = [ROOT / "tiercast", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, **options)


def refusal(load, text: str, **options: object) -> str:
    with pytest.raises(InputError) as error:
        load(text, **options)
    assert error.value.exit_status == EXIT_INPUT
    return str(error.value).partition("experiment.yaml")[2] or str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        # Ranges.
        (
            "delay: 5ms",
            "delay: 999999999min",
            "link.delay: '999999999min' is too large",
        ),
        ("delay: 5ms", "delay: 61s", "5: topology.link.delay: '61s'; valid: 60s or less"),
        ("20s", "99999999999999999999s", "10: duration: '99999999999999999999s' is too large"),
        ("20s", "100001s", "10: duration: '100001s'; valid: 100000s or less"),
        ("50p", "99999999999999p", "'99999999999999p' is too large for a number of packets; valid"),
        ("50p", "50p/60p", "'50p/60p' is not a queue"),
        ("50p", "2.5p", "'2.5p' is not a number of packets; valid: whole ones"),
        ("6Mbit/s, d", "\u0666Mbit/s, d", "is not a rate"),
        ("last: 10s", "last: 500s", "11: measure.last: 500s is longer than"),
        ("last: 10s", "until: 21s", "11: measure.until: 21s is after the end of the run (20s)"),
        ("sender: 0", "sender: -1", "9: sessions.0.sender: -1; valid: 0 or more"),
        ("sender: 0", "sender: 262144", "9: sessions.0.sender: 262144; valid: below 262144"),
        (
            "layers: 2}\n",
            "layers: 2, packet_size: 99B}\n",
            "packet_size: '99B'; valid: 100 or more",
        ),
        ("depth: 2", "depth: 10, fanout: 64", "a tree of 1171221845949812801 nodes"),
        ("tolerance: 10%", "tolerance: -1", "13: expect.0.tolerance: -1 is not a fraction"),
        (
            "efficiency, min: 0.9",
            "loss, max: 5",
            "14: expect.1.max: 5 is not a fraction; valid: 0 to 1",
        ),
        (
            "efficiency, min: 0.9",
            "loss, max: 5.0",
            "14: expect.1.max: 5.0 is not a fraction; valid: 0 to 1",
        ),
        (
            "efficiency, min: 0.9",
            "loss, max: often",
            "14: expect.1.max: 'often' is not a fraction; valid: ",
        ),
        ("paper: 6Mbit/s", "paper: 1e999", "13: '1e999' is not a JSON number"),
        # Types.
        ("layers: 2}\n", 'layers: "2"}\n', "9: sessions.0.layers: '2'; valid: a whole number"),
        ("layers: 2}\n", "layers: true}\n", "9: sessions.0.layers: True; valid: a whole number"),
        ("layers: 2}\n", "layers: 2.0}\n", "9: sessions.0.layers: 2.0; valid: a whole number"),
        ("layers: 2}\n", "unicast: 1}\n", "9: sessions.0.unicast: 1; valid: true or false"),
        ("layers: 2}\n", "unicast: yes}\n", "9: 'yes' is true to some and text to others"),
        ("title: A", "title: 5\n#", "2: title: 5; valid: text"),
        ("1-3: {rate: 1Mbit/s}", "1-3:", "7: topology.links.1-3: None; valid: a mapping"),
        ("depth: 2", "depth: [2]", "4: topology.tree.depth: [2]; valid: a whole number"),
        ("last: 10s", "periods: {a: [1s, 2s, 3s]}", "measure.periods.a: ['1s', '2s', '3s']; valid"),
        ("min: 0.9", "min: [1]", "14: expect.1.min: [1]; valid: text or a number"),
        # Names become folders and lines on a terminal.
        ("name: small", "name: " + "x" * 65, "1: name: '"),
        ("A small tree", '"two\\nlines"', "2: title: 'two\\nlines' has more than one line"),
    ],
)
def test_values_have_ranges_and_types(load, old: str, new: str, said: str) -> None:
    text = textwrap.dedent(SMALL)
    assert old in text
    assert said in refusal(load, text.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("3-0: {}", "3-4: {}", ":4: topology.links.3-4: no node 4; valid: 0, 1, 2, 3"),
        ("3-0: {}", "1-0: {}", ":4: topology.links.1-0: this link is given above as 0-1"),
        ("3-0: {}", "3-3: {}", ":4: topology.links.3-3: from a node to itself"),
        (", 3-0: {}", "", ""),
        (", 2-3: {}, 3-0: {}", "", ":4: topology.links: no path from node 0 to node 3; valid: "),
        ("1-2: {}, 2-3: {}, 3-0: {}", "2-3: {}", "no path from node 0 to node 2; valid: links"),
        ("1-2: {}, 2-3: {}, 3-0: {}", "", "no path from node 0 to node 2, 3; valid: links that"),
        (
            "[0, 1, 2, 3]",
            "[0, 1, 2, 2]",
            ":2: topology.nodes.3: node 2 is given twice; valid: once",
        ),
        ("[0, 1, 2, 3]", "[0]", ":2: topology.nodes: [0]; valid: at least 2 of them"),
        ("{0-1: {}", "{0-1", ":4: topology.links.0-1: None; valid: a mapping"),
    ],
)
def test_a_network_is_connected_and_a_node_of_each_part_is_named(
    load, old: str, new: str, said: str
) -> None:
    text = MESH.replace(old, new, 1) if old else MESH
    if said:
        assert said in refusal(load, text)
    else:
        assert len(load(text).topology.links) == 4  # three links, and that of the sender's host


def test_a_switch_has_509_ports(load) -> None:
    star = MESH.replace("[0, 1, 2, 3]", str([*range(510)]))
    links = ", ".join(f"0-{n}: {{}}" for n in range(1, 510))
    star = star.replace("0-1: {}, 1-2: {}, 2-3: {}, 3-0: {}", links)
    assert "510 links and hosts at node 0; valid: up to 509" in refusal(load, star)


def test_what_comes_again_and_again_is_counted_before_it_is_made(load) -> None:
    every = "events: [{at: 0s, every: 1ms, link: 1-3, rate: 1Mbit/s}]\n"
    text = textwrap.dedent(SMALL) + every
    assert len(load(text).experiment.link_events) == 20_000
    said = refusal(load, text, settings=["duration=1000s"])
    assert "events.0: 1000000 changes; valid: up to 100000" in said
    many = "traffic: [{kind: tcp, from: 0, to: receivers, count: 200}]\n"
    wide = ["topology.tree={depth: 2, fanout: 30}", "topology.links={}"]
    said = refusal(load, textwrap.dedent(SMALL) + many, settings=wide)
    assert "traffic.0: 180000 flows; valid: up to 60000" in said


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("topology.link.rate", "6Mb", "topology.link.rate: '6Mb' is not a rate; valid: "),
        ("topology.link.rate", "-6Mbit/s", "topology.link.rate: '-6Mbit/s' is negative; valid: "),
        ("topology.tree.depth", "deep", "topology.tree.depth: 'deep'; valid: a whole number"),
        ("sessions.0.layers", "9", "sessions.0.layers: 9; valid: 8 or less"),
        ("sessions.0.layers", "'4'", "sessions.0.layers: '4'; valid: a whole number, without quo"),
        ("sessions.0.scheme", "simm", "sessions.0.scheme: unknown scheme 'simm'; valid: sim"),
        ("foo", "{bar: 1}", "foo: unknown key; valid: "),
        ("measure.last", "500s", "measure.last: 500s is longer than"),
        ("expect.1.min", "[1]", "expect.1.min: [1]; valid: text or a number"),
    ],
)
def test_settings_and_files_are_answered_alike(load, key: str, value: str, said: str) -> None:
    of_setting = refusal(load, SMALL, settings=[f"{key}={value}"])
    assert of_setting.startswith(f"--set {key}={value}: {said}")
    # The same key in the file: only the place differs.
    path = key.split(".")
    text = textwrap.dedent(SMALL)
    lines = {
        "topology.link.rate": ("rate: 6Mbit/s", f"rate: {value}"),
        "topology.tree.depth": ("depth: 2", f"depth: {value}"),
        "sessions.0.layers": ("layers: 2}\n", f"layers: {value}}}\n"),
        "sessions.0.scheme": ("scheme: sim", f"scheme: {value}"),
        "foo": ("name: small", f"name: small\nfoo: {value}"),
        "measure.last": ("last: 10s", f"last: {value}"),
        "expect.1.min": ("min: 0.9", f"min: {value}"),
    }
    old, new = lines[".".join(path)]
    assert old in text
    of_file = refusal(load, text.replace(old, new))
    assert of_file.split(": ", 1)[1] == of_setting.removeprefix(f"--set {key}={value}: ")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("sim.delta=abc", "sim.delta: 'abc' is not a number; valid: 0.1 to 0.99"),
        ("sim.delta=7", "sim.delta: 7 is out of range; valid: 0.1 to 0.99"),
        ("sim.add_after=2.5", "sim.add_after: 2.5 is not a whole number; valid: 1 to 1000 cuts"),
        ("sim.delta=", "sim.delta: None is not a number"),
        ("sim.delta=true", "sim.delta: True is not a number"),
        ("sim.delta=[0.5]", "sim.delta: [0.5] is not a number"),
        (
            "marking={kind: red, where: arival}",
            "marking.where: 'arival'; valid: 'arrival' or 'departure' (did you mean 'arrival'?)",
        ),
        ("foo.bar=1", "foo: unknown key; valid: name, title"),
        ("name.x=1", "name is 'small'; valid: a key that holds others"),
        ("sessions.1.layers=1", "sessions has no '1'; valid: 0"),
        ("sessions.\u00b2.layers=1", "sessions has no '\u00b2'"),
        ("sessions.x=1", "sessions has no 'x'"),
        ("topology.link={rate: 1Mbit/s}", "topology.link.delay: this key is missing"),
        ("duration=[", "did not find expected node content"),
        ("duration=010", "'010' is octal to some"),
        ("title=!!python/name:os.system x", "the tag"),
        (".".join("a" * 65) + "=1", "65 keys deep; valid: up to 64"),
        ("t\udcffraffic.5.to=1", "'\\udcff' is not a character; valid: UTF-8"),
        ("title=\udcff", "'\\udcff' is not a character; valid: UTF-8"),
    ],
)
def test_settings_are_blamed_themselves(load, setting: str, said: str) -> None:
    shown = setting if len(setting) <= 120 else f"{setting[:80]}…{setting[-20:]}"
    assert refusal(load, SMALL, settings=[setting]).startswith(f"--set {shown}: {said}")


def test_a_value_that_was_set_is_not_blamed_on_the_file(load) -> None:
    """If a setting replaces a mapping, the lines of the old one no longer mean anything."""
    said = refusal(load, SMALL, settings=["topology.link={rate: 6, delay: 5ms, queue: 50p}"])
    assert said.startswith("--set topology.link={rate: 6, ")
    said = refusal(load, SMALL, settings=["sessions=[{scheme: sim}]"])
    assert said.startswith("--set sessions=[{scheme: sim}]: sessions.0.sender: this key is missing")


def test_a_minimal_experiment_has_a_topology_and_sessions(tmp_path: Path) -> None:
    path = tmp_path / "My first_try.yaml"
    path.write_text(MESH.replace(", 3-0: {}", ""))
    loaded = load_experiment(path, SCHEMES)
    assert (loaded.experiment.name, loaded.experiment.title) == ("my-first-try", "my-first-try")
    assert loaded.window == (20.0, 60.0)  # the last two thirds of a minute
    short = load_experiment(path, SCHEMES, duration="100ms")
    assert short.window == pytest.approx((0.1 / 3, 0.1))


def test_a_window_that_duration_has_no_room_for_becomes_the_default_and_says_so(load) -> None:
    assert load(duration="30s").notes == ()
    loaded = load(duration="3s")
    assert loaded.window == (1.0, 3.0)
    assert loaded.notes == (
        "measure.last, 10s, is longer than the run; measured over its last two thirds",
    )


def test_paths_are_relative_to_the_file_that_says_them(tmp_path: Path) -> None:
    (tmp_path / "bases").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "bases" / "net.yaml").write_text(
        textwrap.dedent(MESH.partition("sessions")[0].partition("\n")[2]).replace(", 3-0: {}", "")
    )
    base = "topology: {include: ./net}\nsessions:\n  - {scheme: sim, sender: 0}\n"
    (tmp_path / "bases" / "base.yaml").write_text(base)
    path = tmp_path / "mine" / "x.yaml"
    for name in ("../bases/base", "../bases/base.yaml", str(tmp_path / "bases/base.yaml")):
        path.write_text(f"extends: {name}\n")
        assert len(load_experiment(path, SCHEMES).topology.links) == 4
    for name, said in [
        ("../bases/none", "extends: no file '../bases/none'; valid: a path from "),
        ("../bases", "extends: '../bases' is a directory; valid: a file"),
        ("nosuch", "extends: no base 'nosuch'; valid: "),
        ("[a]", "extends: ['a'] is not a base; valid: a name, or a path"),
        ("./x", "x.yaml:1: extends: a base that a file extends cannot extend another"),
    ]:
        path.write_text(f"extends: {name}\n")
        with pytest.raises(InputError) as error:
            load_experiment(path, SCHEMES)
        assert said in str(error.value)


def test_what_a_base_says_is_not_blamed_where_it_is_replaced(tmp_path: Path) -> None:
    base = textwrap.dedent(SMALL)
    (tmp_path / "base.yaml").write_text(base)
    path = tmp_path / "x.yaml"
    path.write_text("extends: ./base\nsessions:\n  - {scheme: sim}\n")
    with pytest.raises(InputError, match=r"x\.yaml:3: sessions\.0\.sender: this key is missing"):
        load_experiment(path, SCHEMES)


def test_figures_and_sweeps_blame_the_line_of_a_setting(tmp_path: Path) -> None:
    from tiercast_lab.study.figure_spec import find_figure
    from tiercast_lab.study.sweep_spec import find_sweep

    path = tmp_path / "figure.yaml"
    text = MESH.replace(", 3-0: {}", "")
    path.write_text(text + "figure:\n  points:\n    - {x: 1, set: {topology.link.rate: 6}}\n")
    (task, *_) = find_figure(str(path), SCHEMES).tasks(quick=False)
    with pytest.raises(InputError, match=rf"^{path}:9: topology\.link\.rate: 6 is not a rate"):
        task.load(SCHEMES)
    (tmp_path / "x.yaml").write_text(text)
    sweep = tmp_path / "sweep.yaml"
    for axes, said in [
        ("n: [{name: a, set: {duration: 6}}]", r":6: duration: 6 is not a time.*\(in the cell a\)"),
        ("n: {key: duration, values: [6]}", r":6: duration: 6 is not a time"),
        ("n: {schemes: [[sim]]}", r":6: axes\.n\.schemes: no scheme \['sim'\]"),
        ("n: {schemes: all, set: {sim: 5}}", r":6: axes\.n\.set\.sim: 5; valid: a mapping"),
        ("n: {schemes: 5}", r":6: axes\.n\.schemes: 5; valid: all, sim"),
    ]:
        head = "name: s\ntitle: t\nexperiment: x\nmeasures: [loss]\naxes:\n  "
        sweep.write_text(f"{head}{axes}\n")
        with pytest.raises(InputError, match=f"^{sweep}{said}"):
            find_sweep(str(sweep), SCHEMES).tasks(quick=True)[0].load(SCHEMES)
    axes = "\n  ".join(
        f"a{n}: [{', '.join(f'{{name: n{i}}}' for i in range(100))}]" for n in range(3)
    )
    sweep.write_text(f"name: s\ntitle: t\nexperiment: x\nmeasures: [loss]\naxes:\n  {axes}\n")
    with pytest.raises(InputError, match="3000000 runs; valid: up to 20000"):
        find_sweep(str(sweep), SCHEMES)


def test_what_is_no_file_is_said_at_once(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for name, said in [(fifo, "a FIFO"), (tmp_path, "a directory"), ("/dev/zero", "a device")]:
        result = tiercast("run", name, "--runtime", "ns3")
        assert (result.returncode, result.stdout) == (EXIT_INPUT, "")
        assert f"is {said}; valid: a YAML file" in result.stderr
    with pytest.raises(InputError, match="a FIFO; valid: a file"):
        load_yaml(fifo)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--file", "bytes"], "bytes: not a text file; valid: UTF-8"),
        (["--file", "pipe"], "pipe: a FIFO; valid: a file"),
        (["5", "--packet-size", 2**32], "sessions start: --packet-size: '4294967296'; valid: a "),
        (["5", "--count", 2**32], "sessions start: --count: '4294967296'; valid: a whole number, "),
        (["32767", "--count", 2], "sessions start: --count 2: sessions up to 32768; valid: up to "),
    ],
)
def test_sessions_that_cannot_be_are_refused_before_a_sender_is_asked(
    arguments: list[object], said: str, tmp_path: Path
) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    os.mkfifo(tmp_path / "pipe")
    result = tiercast("sessions", "start", "--sender=unix:/none", *arguments, cwd=tmp_path)
    assert result.returncode == EXIT_INPUT
    assert result.stderr.startswith(f"tiercast: {said}"), result.stderr


def test_keys_that_a_full_disk_cuts_are_not_left(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    script = """mount -t tmpfs -o size=4k none disk && head -c 4096 /dev/zero > disk/full
        "$@" secret 7 disk/h3.keys; status=$?; ls disk; exit $status"""
    command = ["unshare", "-m", "sh", "-c", script, "sh", ROOT / "tiercast", "sessions", "keys"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (EXIT_INPUT, "full\n")
    assert "h3.keys: No space left on device; valid: " in result.stderr


def test_what_a_run_left_is_no_experiment(stored) -> None:
    result = tiercast("run", stored.directory / "summary.json", "--runtime", "ns3")
    assert result.returncode == EXIT_INPUT
    assert f"valid: tiercast report {stored.directory}" in result.stderr
    for name in ("results/nosuch", "nosuch"):
        result = tiercast("report", name)
        assert result.returncode == EXIT_INPUT
        assert "results/results" not in result.stderr


@pytest.mark.parametrize("command", ["report", "explain", "export"])
def test_a_run_that_is_not_there_is_named_with_those_that_are(
    command: str, stored, tmp_path: Path
) -> None:
    results = stored.directory.parent
    for folder, said in (
        (results, f"RUN: no run 'nosuch'; valid: {stored.directory.name}"),
        (tmp_path / "none", f"RUN: no run 'nosuch': {tmp_path / 'none'} has none; valid: a run's "),
    ):
        result = tiercast(command, "nosuch", "--results", folder)
        assert (result.returncode, result.stdout) == (EXIT_INPUT, "")
        assert result.stderr.startswith(f"tiercast: {said}"), result.stderr


@pytest.mark.parametrize("name", [300 * "a", "loop/run", f"{300 * 'a'}/run"])
@pytest.mark.parametrize(
    "arguments",
    [
        ["report", ...], ["export", ..., "--csv"], ["rerun", ...],
        ["report", "x", "--results", ...],
        ["run", "sim-smoke", "--runtime=ns3", "--results", ...],
        ["figure", "sim-2", "--quick", "--results", ...],
    ],
)  # fmt: skip
def test_paths_that_the_system_refuses_are_bad_input(
    arguments: list[Any], name: str, tmp_path: Path
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    result = tiercast(*(name if one is ... else one for one in arguments), cwd=tmp_path)
    assert (result.returncode, "Traceback" in result.stderr) == (EXIT_INPUT, False), result.stderr
    assert "valid: " in result.stderr


def test_a_run_is_found_in_the_folder_of_the_option_results(stored, tmp_path: Path) -> None:
    name, results = stored.directory.name, stored.directory.parent
    for command in (
        ["report", name],
        ["explain", name, "--receiver=h3", "--at=15s"],
        ["export", name, "--csv", "--to", tmp_path / "tables"],
    ):
        result = tiercast(*command, "--results", results, cwd=tmp_path)
        assert result.returncode == 0, result.stderr


def test_a_program_that_is_no_file_is_named_as_the_option(tmp_path: Path) -> None:
    (tmp_path / "own.txt").touch()
    valid = "valid: a .p4 or .json file (relative to the current folder)\n"
    for program, said in (
        ("nofile.p4", "--program nofile.p4: no such file; "),
        (tmp_path, f"--program {tmp_path}: is a directory; "),
        ("own.txt", "--program own.txt; "),
    ):
        for command in (["run", "sim-smoke", "--runtime", "ns3"], ["marking"]):
            result = tiercast(*command, "--program", program, cwd=tmp_path)
            assert (result.returncode, result.stdout) == (EXIT_INPUT, "")
            assert result.stderr == f"tiercast: {said}{valid}"


@pytest.mark.parametrize("links", ["veth", "memory"])
def test_links_in_virtual_time_are_refused(links: str) -> None:
    result = tiercast("run", "sim-smoke", "--runtime", "ns3", "--links", links)
    assert (result.returncode, result.stdout) == (EXIT_INPUT, "")
    assert result.stderr == (
        f"tiercast: --links {links}: --runtime ns3 has no interfaces; valid: with --runtime "
        "mininet and --switch tiercast\n"
    )


def test_threads_in_mininet_are_refused() -> None:
    result = tiercast("run", "sim-smoke", "--threads", "2")
    assert (result.returncode, result.stdout) == (EXIT_INPUT, "")
    assert result.stderr == (
        "tiercast: --threads 2: --runtime mininet has a process for each program; valid: with "
        "--runtime ns3\n"
    )


def test_a_folder_named_latest_is_said_before_the_run(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(MESH.replace(", 3-0: {}", ""))
    results = tmp_path / "results"
    (results / "latest").mkdir(parents=True)
    command = ["run", path, "--runtime", "ns3", "--duration", "100ms", "--results", results]
    result = tiercast(*command)
    assert result.returncode == EXIT_INPUT
    assert f"{results}/latest: a directory, where a link to the newest run" in result.stderr
    assert [one.name for one in results.iterdir()] == ["latest"]
    (results / "latest").rmdir()
    assert tiercast(*command).returncode == 0


def test_arguments_are_characters(tmp_path: Path) -> None:
    """Bytes that are not characters would end up in the summary."""
    path = tmp_path / "x\udcff.yaml"
    path.write_text(MESH.replace(", 3-0: {}", ""))
    results = tmp_path / "results"
    for arguments in (["run", path], ["run", "sim-smoke", "--duration", "\udcff"]):
        result = tiercast(*arguments, "--runtime", "ns3", "--results", results)
        assert (result.returncode, result.stdout) == (EXIT_INPUT, "")
        assert "'\\udcff' is not a character; valid: UTF-8" in result.stderr
        assert not results.exists()


def test_a_figure_that_expects_nothing_shows_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(MESH.replace(", 3-0: {}", "") + "duration: 3s\nfigure: {seeds: [1]}\n")
    command = ["figure", path, "--jobs", 1, "--results", tmp_path / "results", "--json"]
    (summary,) = json.loads(tiercast(*command).stdout)
    assert summary["verdict"] == "reported"
    measured = {row["measure"]: row["text"] for row in summary["expected"]}
    assert "session_throughput" in measured and "no data" not in measured.values()
    text = tiercast(*command[:-1]).stdout
    assert "session throughput" in text and "not met" not in text


def test_an_error_that_nobody_foresaw_is_a_fault_of_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fault() -> None:
        raise KeyError("1-2")

    monkeypatch.setattr("tiercast_lab.experiment.schemes.known_schemes", fault)
    monkeypatch.setattr("sys.argv", ["tiercast", "schemes"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == EXIT_FAULT == 70
    trace, last = capsys.readouterr().err.rstrip().rsplit("\n", 1)
    assert trace.startswith("Traceback") and "KeyError: '1-2'" in trace
    assert last.startswith("tiercast: KeyError: a bug in tiercast, not in your input; please ")
    assert last.endswith("./tiercast schemes")


def test_output_that_nobody_reads_is_no_verdict() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        command = [ROOT / "tiercast", "list"]
        result = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, timeout=60)
    finally:
        os.close(writer)
    assert (result.returncode, b"Traceback" in result.stderr) == (EXIT_UNREAD, False)


@pytest.mark.parametrize("command", ["list", "list --json", "measures", "--help"])
def test_output_that_cannot_be_written_is_named(command: str) -> None:
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [ROOT / "tiercast", *command.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert result.returncode == EXIT_INPUT
    assert result.stderr == (
        "tiercast: standard output: No space left on device; valid: a file or terminal that can be "
        "written to\n"
    )


def damaged(stored, tmp_path: Path, name: str) -> Path:
    directory = tmp_path / "damaged" / name
    shutil.copytree(stored.directory, directory)
    return directory


def answers(directory: Path) -> list[str]:
    """What `report` and `explain` print for a folder: each either works or refuses the folder."""
    said = []

    def explained() -> None:
        explain(snapshot_at(load_run(directory), "h3", "15s"))

    for work in (lambda: write_report(load_run(directory)), explained):
        try:
            with reading(directory):
                work()
        except InputError as error:
            said.append(str(error))
            assert str(directory) in said[-1] or said[-1].startswith("run ")
    return said


def test_a_summary_that_is_damaged_is_bad_input(stored, tmp_path: Path) -> None:
    assert answers(damaged(stored, tmp_path, "whole")) == []
    # The commands behave in the same way.
    directory = damaged(stored, tmp_path, "no-network")
    summary = json.loads((directory / "summary.json").read_text())
    (directory / "summary.json").write_text(json.dumps(summary | {"network": {}}))
    for command in (["report", directory], ["explain", directory, "--receiver=h3", "--at=15s"]):
        result = tiercast(*command)
        assert (result.returncode, result.stdout) == (EXIT_INPUT, "")
        assert f"{directory}/summary.json: network.links: this key is missing" in result.stderr
    summary = json.loads((stored.directory / "summary.json").read_text())
    for number, content in enumerate(("", "[]", "{", "null", "[" * 100_000, "\udcff")):
        directory = damaged(stored, tmp_path, f"text{number}")
        (directory / "summary.json").write_bytes(content.encode(errors="surrogateescape"))
        assert len(answers(directory)) == 2, content[:10]
    for key in summary:
        for number, value in enumerate((None, 5, "x", [], {"x": 1})):
            directory = damaged(stored, tmp_path, f"{key}{number}")
            (directory / "summary.json").write_text(json.dumps(summary | {key: value}))
            answers(directory)
            shutil.rmtree(directory)
        del (less := dict(summary))[key]
        directory = damaged(stored, tmp_path, f"{key}-")
        (directory / "summary.json").write_text(json.dumps(less))
        answers(directory)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("traced", [5]),
        ("traced", [{"link": "0>1"}]),
        ("flow_ports", []),
        ("grounds", {"bounds": 5}),
        ("grounds", {"hidden_queues": [], "complaints": []}),
    ],
)
def test_what_is_only_in_some_summaries_is_checked_too(stored, key: str, value: object) -> None:
    summary = json.loads((stored.directory / "summary.json").read_text())
    (stored.directory / "summary.json").write_text(json.dumps(summary | {key: value}))
    with pytest.raises(InputError, match=rf"summary.json: {key}\b"):
        load_run(stored.directory)


@pytest.mark.parametrize("time", ['"x"', "1e300", "18446744073709551616", "null", "[1]"])
def test_times_of_lines_are_whole_numbers(stored, time: str) -> None:
    lines = stored.directory / "rows/received.jsonl"
    lines.write_text('{"time_ns": 5, "agent": "h3", "bytes": 7}\n'
                     f'{{"time_ns": {time}, "agent": "h3", "bytes": 7}}\n')  # fmt: skip
    with pytest.raises(InputError, match="rows/received.jsonl: "):
        _ = load_run(stored.directory).rows


def test_rows_that_are_damaged_are_bad_input(stored, tmp_path: Path) -> None:
    kinds = [path.name for path in (stored.directory / "rows").glob("*.parquet")]
    for kind in kinds:
        frame = pl.read_parquet(stored.directory / "rows" / kind)
        changes = {
            "foreign": pl.DataFrame({"a": [1], "b": ["x"]}),
            "empty": frame.clear(),
            "text": frame.select(pl.all().cast(pl.String)),
            "null": frame.select("time_s", "agent", pl.exclude("time_s", "agent").map_batches(
                lambda one: pl.Series([None] * len(one)))),
            **{f"no-{column}": frame.drop(column) for column in frame.columns},
        }  # fmt: skip
        for name, changed in changes.items():
            directory = damaged(stored, tmp_path, f"{kind}-{name}")
            changed.write_parquet(directory / "rows" / kind)
            said = answers(directory)
            if name in ("foreign", "text", "no-time_s", "no-agent"):
                assert len(said) == 2
            shutil.rmtree(directory)
        directory = damaged(stored, tmp_path, kind)
        (directory / "rows" / kind).write_bytes(b"PAR1 and no more")
        assert len(answers(directory)) == 2
        (directory / "rows" / kind).unlink()
        os.mkfifo(directory / "rows" / kind)
        assert all("a FIFO; valid: a file" in one for one in answers(directory))
        (directory / "summary.json").unlink()
        os.mkfifo(directory / "summary.json")
        assert all("a FIFO; valid: a file" in one for one in answers(directory))


def test_a_fault_of_ours_is_no_bad_input(stored) -> None:
    for fault in (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError):
        with pytest.raises(fault), reading(stored.directory):
            raise fault("ours")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("run x --seed -1", "run: --seed: '-1'; valid: a whole number, 0 to 4294967295"),
        ("run x --seed one", "run: --seed: 'one'; valid: a whole number, 0 to 4294967295"),
        ("reproduce --jobs 0", "reproduce: --jobs: '0'; valid: a whole number, 1 or more"),
        ("reproduce --jobs 2.5", "reproduce: --jobs: '2.5'; valid: a whole number, 1 or more"),
        (
            "marking --seconds nan",
            "marking: --seconds: 'nan'; valid: a number, 1 to 10000",
        ),
        (
            "sessions start 70000",
            "sessions start: session: '70000'; valid: a whole number, 0 to 32767",
        ),
        ("run x --runtime ns", "run: --runtime: 'ns'; valid: mininet, ns3"),
        ("run x --switch bmv", "run: --switch: 'bmv'; valid: tiercast, bmv2"),
    ],
)
def test_an_option_names_the_value_and_all_that_is_valid(arguments, said):
    ended = tiercast(*arguments.split())
    assert ended.returncode == EXIT_INPUT
    assert said in ended.stderr
