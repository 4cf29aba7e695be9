"""Programs of the user's: found, compiled, refused, run, stored and run again."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest
from tiercast_lab.base import binaries
from tiercast_lab.base.errors import InputError
from tiercast_lab.base.machine import digests
from tiercast_lab.experiment.loading import load_experiment
from tiercast_lab.experiment.programs import own
from tiercast_lab.run.controller_input import programs_for
from tiercast_lab.run.mininet.bmv2 import Bmv2Switches
from tiercast_lab.study.marking import Judge

from ..bmv2 import HAS_SWITCH
from ..checkout import ROOT
from ..docs.page import write_files
from .conftest import SCHEMES
from .other_program import MANIFEST, write

PROGRAMS = ROOT / "experiments/programs"
EXPERIMENT = """\
name: own
program: other.json
topology:
  tree: {depth: 2}
  link: {rate: 2Mbit/s, delay: 5ms, queue: 60p}
sessions:
  - {scheme: sim, sender: 0, receivers: [3, 5]}
traffic:
  - {kind: udp, from: 0, to: 4, rate: 4Mbit/s, packet_size: 1000B, ecn: true,
     on: {distribution: constant, mean: 100ms}, off: {distribution: constant, mean: 400ms}}
marking: {kind: above, least: 9}
duration: 10s
"""


def refused(tmp_path: Path, text: str) -> str:
    """What is said of an experiment beside the program of other names."""
    (tmp_path / "own.yaml").write_text(text)
    with pytest.raises(InputError) as error:
        loaded = load_experiment(tmp_path / "own.yaml", SCHEMES)
        programs_for(loaded)
    return str(error.value).replace(f"{tmp_path}/", "")


def tiercast(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(ROOT / "tiercast"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def port_rows(results: Path) -> pl.DataFrame:
    return pl.read_parquet(results / "latest/rows/port.parquet").sort("time_s", "agent", "port")


# ----------------------------------------------------------------------------------- refusals


def test_it_fits(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "own.yaml").write_text(EXPERIMENT)
    loaded = load_experiment(tmp_path / "own.yaml", SCHEMES)
    assert set(programs_for(loaded)) == {"s0", "s1", "s2", "s6"}
    assert loaded.experiment.marking.kind == "above"


@pytest.mark.parametrize(
    ("lacking", "text", "said"),
    [
        (
            "multicast", EXPERIMENT,
            "own.yaml:7: sessions.0: sim sends to groups, so multicast is needed; program of "
            "switch s0, other.json, has by other.manifest.yaml: unicast, packet_in, marking of "
            "kind above",
        ),
        ("unicast", EXPERIMENT, "sessions.0: the reports of sim go to their sender, so unicast"),
        (
            None, EXPERIMENT.replace("[3, 5]}", "[3, 5], aggregation: network}"),
            "sessions.0.aggregation: the network aggregates feedback, so aggregation is needed",
        ),
        (
            None, EXPERIMENT.replace("kind: above, least: 9", "kind: priority"),
            "own.yaml:11: marking: priority with program, of switch s0: other.json has no marking "
            "of kind priority; it has: unicast, multicast, packet_in, marking of kind above",
        ),
        (
            None, EXPERIMENT.replace("least: 9", "least: 1001"),
            "own.yaml:11: marking.least: 1001; valid: 1000 or less",
        ),
        (
            None, EXPERIMENT.replace("least: 9", "least: 9, relax: 10"),
            "own.yaml:11: marking.relax: link 0-1: relax 10 and least 9: valid is relax <= least",
        ),
        (None, EXPERIMENT.replace("least", "most"), "marking.most: unknown key; valid: kind, "),
        (None, EXPERIMENT.replace(", least: 9", ""), "marking.least: this key is missing"),
        (None, EXPERIMENT.replace("above", "below"), "marking.kind: 'below'; valid: 'codel', "),
        (
            None, EXPERIMENT.replace("other.json", "another.json"),
            "own.yaml:2: program: 'another.json' is no file; valid: a path from ",
        ),
        (None, EXPERIMENT.replace("other.json", "5"), "own.yaml:2: program: 5; valid: a .p4 or "),
        (
            None, EXPERIMENT.replace("other.json", "'~nosuchuser/x.p4'"),
            "own.yaml:2: program: '~nosuchuser/x.p4': no user's folder ~nosuchuser; valid: a path ",
        ),
        *(
            (
                None,
                EXPERIMENT.replace("other.json", f"{{json: other.json, sources: {value}}}"),
                f"own.yaml:2: program.sources: {value}; valid: a list of paths",
            )
            for value in ("5", "[5]")
        ),
        (
            None, EXPERIMENT.replace("other.json", "other.p4info.txtpb"),
            "program: 'other.p4info.txtpb'; valid: a .p4 or a .json file",
        ),
        (
            None, EXPERIMENT.replace("program: other.json", "program: {json: other.json, info: a}"),
            "program.info: unknown key; valid: p4, json, p4info, manifest",
        ),
        (
            None,
            EXPERIMENT.replace("topology:", "topology:\n  switches: {9: {program: other.json}}"),
            "topology.switches.9: no switch at node '9'; valid: 0, 1, 2",
        ),
        (
            None, EXPERIMENT.replace("program: other.json\n", ""),
            "marking.kind: 'above'; valid: 'codel', ",
        ),
    ],
)  # fmt: skip
def test_what_an_experiment_lacks_is_named(
    tmp_path: Path, lacking: str | None, text: str, said: str
) -> None:
    manifest = MANIFEST
    if lacking is not None:
        lines = iter(MANIFEST.splitlines(keepends=True))
        kept, skipping = [], False
        for line in lines:
            skipping = line.startswith(lacking) or (skipping and line.startswith(" "))
            kept += [] if skipping else [line]
        manifest = "".join(kept)
    write(tmp_path, manifest)
    assert said in refused(tmp_path, text)


def test_a_register_for_depths_that_the_program_lacks_is_named(tmp_path: Path) -> None:
    write(tmp_path, MANIFEST + "depth_register: depths\n")
    said = refused(tmp_path, EXPERIMENT)
    assert "depth_register: 'depths' is no register of " in said and "; valid: " in said


@pytest.mark.parametrize("content", ["no json", "{}", "[]", '{"register_arrays": 5}'])
def test_a_json_without_registers_is_named(tmp_path: Path, content: str) -> None:
    write(tmp_path, MANIFEST + "depth_register: depths\n")
    (tmp_path / "other.json").write_text(content)
    said = refused(tmp_path, EXPERIMENT)
    assert said.startswith("other.json: no bmv2 JSON: ") and "; valid: what p4c writes" in said


@pytest.mark.parametrize(
    ("content", "byte"), [(b"\x0a\x82\xff", "byte 1 is 0x82"), (b"# gr\xfcn", "byte 4 is 0xfc")]
)
def test_p4info_that_is_no_text_is_named(tmp_path: Path, content: bytes, byte: str) -> None:
    write(tmp_path)
    (tmp_path / "other.p4info.txtpb").write_bytes(content)
    said = refused(tmp_path, EXPERIMENT)
    assert f"other.p4info.txtpb: not P4Info text: {byte}, which is no UTF-8; valid: what" in said


def test_the_state_of_a_law_is_of_registers_that_are_there(tmp_path: Path) -> None:
    write(tmp_path, MANIFEST + "    state: [averages]\n")
    said = refused(tmp_path, EXPERIMENT)
    assert "marking.above.state.0: register 'averages' is not in the P4 program; it has: " in said
    write(tmp_path, MANIFEST + "    state: [avg_queue]\n")
    (tmp_path / "own.yaml").write_text(EXPERIMENT)
    loaded = load_experiment(tmp_path / "own.yaml", SCHEMES)
    judge = Judge(loaded.experiment.marking, files=loaded.programs["s0"])
    assert judge.state_bits() == 32


def test_bmv2_refuses_a_psa_program() -> None:
    loaded = load_experiment(PROGRAMS / "psa.yaml", SCHEMES)
    programs = {name: files.load() for name, files in loaded.programs.items()}
    assert all(one.is_psa for one in programs.values()) and not own().load().is_psa
    if not HAS_SWITCH:
        return
    with pytest.raises(InputError, match="of switch s0 is for PSA, and simple_switch_grpc"):
        Bmv2Switches(loaded.packet_size_of).check(loaded)


def test_without_a_manifest_it_is_ours_or_nothing(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "other.manifest.yaml").unlink()
    said = refused(tmp_path, EXPERIMENT)
    assert "own.yaml:2: program: other.json has not the tables of tiercast's own program" in said
    assert "no manifest other.manifest.yaml is beside it" in said
    for path in (binaries.P4_JSON, binaries.P4_INFO):
        shutil.copy(path, tmp_path)
    text = EXPERIMENT.replace("other.json", "tiercast.json")
    (tmp_path / "own.yaml").write_text(text.replace("above, least", "threshold, threshold"))
    programs_for(load_experiment(tmp_path / "own.yaml", SCHEMES))


def test_p4info_that_is_not_there(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "other.p4info.txtpb").unlink()
    said = refused(tmp_path, EXPERIMENT)
    assert "program: no other.p4info.txtpb beside other.json: p4c writes it with" in said


def test_a_source_without_p4c_names_the_other_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("wait.p4", "wait.manifest.yaml"):
        shutil.copy(PROGRAMS / name, tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    said = refused(tmp_path, EXPERIMENT.replace("other.json", "wait.p4"))
    assert "wait.p4: p4c-bm2-ss is not in PATH, and compiles it; valid: p4c" in said
    assert "wait.p4info.txtpb beside it" in said


@pytest.mark.skipif(shutil.which("p4c-bm2-ss") is None, reason="p4c is not installed")
def test_errors_of_p4c_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(PROGRAMS / "wait.manifest.yaml", tmp_path)
    text = (PROGRAMS / "wait.p4").read_text().replace("h.ip.ecn = 3", "h.ip.ecm = 3")
    (tmp_path / "wait.p4").write_text(text)
    said = refused(tmp_path, EXPERIMENT.replace("other.json", "wait.p4"))
    assert "wait.p4: p4c-bm2-ss refused it:\n" in said and "ecm" in said


# --------------------------------------------------------------------------------------- runs


@pytest.mark.slow
def test_other_names_change_no_row(tmp_path: Path) -> None:
    """The program of other names is ours, so in virtual time each port does the same."""
    write(tmp_path)
    (tmp_path / "own.yaml").write_text(EXPERIMENT)
    ours = EXPERIMENT.replace("program: other.json\n", "").replace(
        "above, least", "threshold, threshold"
    )
    (tmp_path / "ours.yaml").write_text(ours)
    rows = []
    for name in ("own", "ours"):
        results = tmp_path / f"results-{name}"
        run = tiercast("run", tmp_path / f"{name}.yaml", "--runtime", "ns3", "--results", results)
        assert run.returncode == 0, run.stdout + run.stderr
        rows.append(port_rows(results))
    own, ours_rows = rows
    same = [
        name
        for name in own.columns
        if name not in ("pruned", "invalid", "expired", "no_group", "no_route", "policy_drops")
    ]
    assert own.select(same).equals(ours_rows.select(same))
    # 4 Mbit/s for 100 ms leave 25 packets: 15 of 25 find ten or more.
    bottleneck = own.filter(pl.col("link") == "0>1")[-1]
    assert bottleneck["marked"][0] > 500
    assert own["pruned"].null_count() == len(own) and ours_rows["pruned"].null_count() == 0
    # Pruned copies are dropped by egress.
    assert (own["policy_drops"] == ours_rows["policy_drops"] + ours_rows["pruned"]).all()


@pytest.mark.slow
def test_one_switch_may_differ(tmp_path: Path) -> None:
    write(tmp_path)
    text = (
        EXPERIMENT.replace("program: other.json\n", "")
        .replace("topology:", "topology:\n  switches: {1: {program: other.json}}")
        .replace("marking: {kind: above, least: 9}", "marking: {kind: none}")
    )
    text = text.replace(
        "queue: 60p}",
        "queue: 60p}\n  links: {1-4: {rate: 1Mbit/s, marking: {kind: above, least: 9}}}",
    )
    (tmp_path / "own.yaml").write_text(text)
    run = tiercast("run", tmp_path / "own.yaml", "--runtime", "ns3", "--results", tmp_path / "r")
    assert run.returncode == 0, run.stdout + run.stderr
    rows = port_rows(tmp_path / "r")
    assert rows.filter(pl.col("link") == "1>4")["marked"][-1] > 100
    without = {name for name, one in rows.group_by("agent") if one["pruned"].null_count()}
    assert without == {("s1",)}


@pytest.mark.slow
def test_a_copied_folder_runs_again(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "own.yaml").write_text(EXPERIMENT)
    run = tiercast(
        "run", tmp_path / "own.yaml", "--runtime", "ns3", "--results", tmp_path / "r", "--json"
    )
    assert run.returncode == 0, run.stdout + run.stderr
    folder = Path(json.loads(run.stdout)["folder"])
    copy = shutil.copytree(folder, tmp_path / "elsewhere" / folder.name)
    for path in [*tmp_path.glob("other.*"), tmp_path / "own.yaml"]:
        path.unlink()
    shutil.rmtree(tmp_path / "r")
    again = tiercast("rerun", copy, "--results", tmp_path / "r2")
    assert again.returncode == 0, again.stdout + again.stderr
    assert "identical: " in again.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wait", "ecn", "psa"])
def test_the_examples_in_virtual_time(tmp_path: Path, name: str) -> None:
    """Their experiments expect what a model of the step says."""
    run = tiercast("run", PROGRAMS / f"{name}.yaml", "--runtime", "ns3", "--results", tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.mininet
@pytest.mark.parametrize("switch", ["tiercast", "bmv2"])
@pytest.mark.parametrize("name", ["wait", "ecn", "third", "psa"])
def test_in_mininet(tmp_path: Path, name: str, switch: str) -> None:
    if name == "psa" and switch == "bmv2":
        pytest.skip("simple_switch_grpc executes v1model")
    if switch == "bmv2" and not HAS_SWITCH:
        pytest.skip("bmv2 is not installed")
    path = PROGRAMS / f"{name}.yaml"
    if name == "third":
        write(tmp_path)
        path = tmp_path / "own.yaml"
        path.write_text(EXPERIMENT)
    run = tiercast(
        "run", path, "--duration", "12s", "--switch", switch, "--results", tmp_path / "r", "--json"
    )
    summary = json.loads(run.stdout)
    if summary["verdict"] == "invalid":
        pytest.skip("the machine could not keep up")
    if switch == "tiercast" or name != "third":  # whose manifest names no counters
        assert summary["measures"]["link_marks"]["value"] > 0.01
        assert run.returncode == 0, run.stderr
    received = summary["measures"]["udp_throughput"]["value"]
    assert received > 3e5
    if name not in ("ecn", "psa"):
        assert summary["measures"]["session_throughput"]["value"] > 3e5


PSA_SESSION = """\
program: {json: PSA.json, manifest: PSA.manifest.yaml}
topology:
  tree: {depth: 1, fanout: 2}
  link: {rate: 2Mbit/s, delay: 5ms, queue: 60p}
  links: {0-2: {rate: 500kbit/s}}
sessions: [{scheme: rlm, layers: 4, sender: 0, receivers: [1, 2]}]
marking: {kind: threshold, threshold: 9}
duration: 10s
"""


@pytest.mark.mininet
@pytest.mark.parametrize("program", ["third", "bmv2", "psa"])
def test_joins_are_heard_where_a_program_does_not_hand_them_over(
    tmp_path: Path, program: str
) -> None:
    """Layers are joined one by one, also where no switch punts anything."""
    if program == "bmv2" and not HAS_SWITCH:
        pytest.skip("bmv2 is not installed")
    write(tmp_path, MANIFEST.replace("packet_in: {ingress_port: ingress_port}\n", ""))
    text = EXPERIMENT.replace("scheme: sim", "scheme: rlm, layers: 4")
    if program == "psa":
        manifest = binaries.P4_INFO.parent.parent / "tiercast_psa.manifest.yaml"
        text = PSA_SESSION.replace("PSA.json", str(binaries.P4_JSON.parent / "tiercast_psa.json"))
        text = text.replace("PSA.manifest.yaml", str(manifest))
    (tmp_path / "own.yaml").write_text(text)
    switch = "bmv2" if program == "bmv2" else "tiercast"
    run = tiercast("run", tmp_path / "own.yaml", "--switch", switch, "--results", tmp_path / "r")
    assert "is heard at their interfaces: the P4 program of their switches hands" in run.stdout
    if run.returncode == 3:
        pytest.skip("the machine could not keep up")
    assert run.returncode == 0, run.stderr
    joined = pl.read_parquet(tmp_path / "r/latest/rows/controller.igmp.parquet")
    ranks = joined.filter(pl.col("action") == "join")["rank"].unique()
    assert set(ranks) >= {0, 1}
    summary = json.loads((tmp_path / "r/latest/summary.json").read_text())
    # RLM's first layer has 32 kbit/s: packets of the second one come, too.
    assert summary["measures"]["session_throughput"]["value"] > 40e3


def test_the_page_has_their_manifests(tmp_path: Path) -> None:
    for path in write_files("your-own-program.md", tmp_path):
        assert path.read_text() == (PROGRAMS / path.name).read_text()


def test_the_compiled_examples_are_of_their_sources(tmp_path: Path) -> None:
    lines = (PROGRAMS / "LOCK").read_text().splitlines()
    for line in lines[1:]:
        digest, name = line.split()
        (now,) = digests([PROGRAMS / name]).values()
        assert now == digest, f"{name}; run: make p4"
    if shutil.which("p4c-bm2-ss") is None:
        return
    for name in ("wait", "ecn"):
        shutil.copy(PROGRAMS / f"{name}.p4", tmp_path)
        outputs = [f"{name}.p4info.txtpb", f"{name}.json"]
        command = [
            "p4c-bm2-ss",
            "--std",
            "p4-16",
            "--p4runtime-files",
            outputs[0],
            "-o",
            outputs[1],
        ]
        subprocess.run([*command, f"{name}.p4"], cwd=tmp_path, check=True)
        for output in outputs:
            assert (tmp_path / output).read_bytes() == (PROGRAMS / output).read_bytes(), output
