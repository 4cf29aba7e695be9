"""`tiercast compare`, `rerun` and `export`: what a stored run is good for, in virtual time."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import textwrap
from html.parser import HTMLParser
from pathlib import Path
from random import Random

import polars as pl
import pytest
from tiercast_lab.base import binaries
from tiercast_lab.base.errors import EXIT_INPUT, EXIT_NOT_MET, InputError
from tiercast_lab.base.interrupt import Interrupt
from tiercast_lab.base.machine import digests
from tiercast_lab.cli.stored_runs import found
from tiercast_lab.experiment.loading import load_experiment
from tiercast_lab.experiment.schemes import known_schemes
from tiercast_lab.results import again
from tiercast_lab.results.export import COLUMNS, columns_of, export_csv
from tiercast_lab.results.storage import StoredRun, load_run
from tiercast_lab.run.execute import Options, execute
from tiercast_lab.run.progress import SilentView
from tiercast_lab.show.comparison_report import DASHES, drawn_runs, overlaid, write_comparison
from tiercast_lab.study import confidence
from tiercast_lab.study.comparison import as_json, compare

from .test_cli import tiercast

pytestmark = pytest.mark.slow  # its tests start commands

PAIR = """\
    title: Two receivers
    topology:
      tree: {depth: 1}
      link: {rate: 1Mbit/s, delay: 5ms, queue: 20p}
    sessions: [{scheme: sim, sender: 0, layers: 2}]
    duration: 4s
    """


def make(
    folder: Path, text: str = PAIR, seed: int = 1, settings: list[str] | None = None
) -> StoredRun:
    """Makes a run of an experiment in virtual time. Its files are below folder/own, the run below
    folder/results."""
    own = folder / "own"
    own.mkdir(exist_ok=True)
    file = own / "it.yaml"
    file.write_text(textwrap.dedent(text))
    loaded = load_experiment(file, known_schemes(), settings)
    options = Options(seed, "ns3", "tiercast", folder / "results", ["./tiercast", "run", str(file)])
    return load_run(execute(loaded, options, SilentView(), Interrupt()).folder)


def make_again(run: StoredRun, results: Path) -> StoredRun:
    """What `tiercast rerun` does."""
    loaded = again.experiment_of(run, known_schemes())
    options = Options(run.summary["seed"], *again.runtime_of(run), results, ["./tiercast", "rerun"])
    return load_run(execute(loaded, options, SilentView(), Interrupt()).folder)


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> list[StoredRun]:
    """Seeds 1 and 2 of the pair, and of the pair with another parameter and link."""
    folder = tmp_path_factory.mktemp("four")
    other = ["sim.delta=0.7", "topology.link.queue=10p"]
    return [make(folder, seed=s, settings=of) for of in ([], other) for s in (1, 2)]


# ------------------------------------------------------------------------------------ what is kept


def test_a_run_keeps_what_it_was_made_of(four: list[StoredRun]) -> None:
    run = four[0]
    (name,) = run.summary["sources"].values()
    assert name == "experiment/it.yaml"
    assert (run.directory / name).read_text() == textwrap.dedent(PAIR)
    summary = run.summary
    assert summary["command"][:2] == ["./tiercast", "run"] and summary["seed"] == 1
    assert summary["versions"]["p4c"].startswith("p4c-bm2-ss 1.")
    assert {"kernel", "commit", "dpdk", "ns3", "python", "polars"} <= summary["versions"].keys()
    (lock,) = digests([binaries.P4_LOCK]).items()
    assert lock in summary["files"].items()
    assert set(run.programs) == {
        *("tiercast-ns3", "tiercast.json", "tiercast.p4info.txtpb", "LOCK"),
    }
    assert (
        summary["defaults"]["sim"]["sim.delta"]
        == known_schemes()["sim"].parameters["sim.delta"].default
    )


def test_a_disk_that_is_full_leaves_the_summary_that_was_there(tmp_path: Path) -> None:
    """As when `report` judges a run. A limit on the size of files stands for the disk."""
    script = (
        "import pathlib, resource, sys; from tiercast_lab.results.storage import write_json\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "write_json(pathlib.Path(sys.argv[1]), {'rows': 1000 * [1]})"
    )
    summary = tmp_path / "summary.json"
    summary.write_text("{}")
    result = subprocess.run(
        [sys.executable, "-c", script, summary], capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert result.returncode == 1 and "File too large" in result.stderr
    assert [path.read_text() for path in tmp_path.iterdir()] == ["{}"]


def test_files_of_one_name_are_all_kept(tmp_path: Path) -> None:
    for folder in ("bases", "topologies"):
        (tmp_path / "own" / folder).mkdir(parents=True)
    base, topology = tmp_path / "own/bases/it.yaml", tmp_path / "own/topologies/it.yaml"
    base.write_text("sessions: [{scheme: sim, sender: 0}]\nduration: 1s\n")
    link = "{rate: 1Mbit/s, delay: 1ms, queue: 9p}"
    topology.write_text(f"tree: {{depth: 1}}\nlink: {link}\n")
    run = make(tmp_path, "extends: it\ntopology: {include: it}\n")
    kept = {Path(path): run.directory / name for path, name in run.summary["sources"].items()}
    assert len(set(kept.values())) == 3
    for path, copy in kept.items():
        assert copy.read_text() == path.read_text()
    assert kept.keys() == {base, topology, tmp_path / "own/it.yaml"}


def test_the_report_shows_how_to_run_it_again(four: list[StoredRun]) -> None:
    from tiercast_lab.show.run_report import write_report

    html = write_report(four[2]).read_text()
    assert f"./tiercast rerun results/{four[2].directory.name} " in html
    assert "@media print" in html and "experiment/it.yaml" in html


# ------------------------------------------------------------------------------------------- rerun

GRAPHML = """\
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="n" for="node" attr.name="label" attr.type="string"/>
<graph edgedefault="undirected">
<node id="0"><data key="n">Ulm</data></node><node id="1"><data key="n">Bonn</data></node>
<node id="2"><data key="n">Jena</data></node><edge source="0" target="1"/>
<edge source="1" target="2"/><edge source="0" target="2"/></graph></graphml>
"""

LINK = "{rate: 1Mbit/s, delay: 4ms, queue: 20p}"
# What a run may depend on: each has another source of randomness, or of its network.
EXPERIMENTS = {
    "mesh with link events and traffic": f"""\
        topology:
          nodes: [0, 1, 2, 3]
          link: {LINK}
          links: {{0-1: {{}}, 1-2: {{loss: 1%, jitter: 2ms}}, 2-3: {{}}, 0-3: {{delay: 30ms}}}}
        sessions: [{{scheme: sim, sender: 0, receivers: [2, 3], layers: 2}}]
        traffic:
          - {{kind: tcp, from: 0, to: 2, start: 1s}}
          - {{kind: udp, from: 1, to: 2, rate: 100kbit/s,
             on: &period {{distribution: exponential, mean: 1s}}, off: *period}}
        events:
          - {{at: 2s, link: 1-2, up: false}}
          - {{at: 3s, link: 1-2, up: true}}
          - {{at: 3s, link: 0>1, rate: 500kbit/s}}
        duration: 4s
        """,
    "random tree with churn": """\
        topology:
          random: {seed: 3, leaves: [6, 9], rate: [500kbit/s, 2Mbit/s], delay: [2ms, 9ms],
                   queue: 20p}
        sessions: [{scheme: tfmcc, sender: 0}]
        churn:
          - {receivers: all, arrivals: {every: 300ms}, stay: {distribution: exponential, mean: 1s}}
        duration: 4s
        """,
    "graphml with names": f"""\
        topology: {{graphml: net.graphml, link: {LINK}, links: {{Ulm-Bonn: {{rate: 300kbit/s}}}}}}
        sessions: [{{scheme: rlm, sender: Ulm, receivers: [Jena, Bonn], layers: 2}}]
        events: [{{at: 2s, link: Bonn-Jena, rate: 200kbit/s}}]
        duration: 3s
        """,
    "python": f"""\
        topology: {{python: "net.py:ring", parameters: {{size: 5}}, link: {LINK}}}
        sessions: [{{scheme: sim, sender: 0, receivers: [2, 3], layers: 2}}]
        duration: 3s
        """,
}
# Returns another network each time it is asked: only the network that was run can be run again.
RING = """\
import random

def ring(size):
    links = {f"{a}-{a + 1}": {"delay": f"{random.randint(1, 50)}ms"} for a in range(size - 1)}
    return {"nodes": list(range(size)), "links": {**links, f"0-{size - 1}": {}}}
"""


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_run_is_repeated_from_its_folder_alone(name: str, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "net.graphml").write_text(GRAPHML)
    (own / "net.py").write_text(RING)
    made = make(tmp_path, EXPERIMENTS[name], seed=7)
    elsewhere = tmp_path / "elsewhere" / made.directory.name
    shutil.copytree(made.directory, elsewhere)
    shutil.rmtree(own)
    shutil.rmtree(tmp_path / "results")
    stored = load_run(elsewhere)
    repeated = make_again(stored, tmp_path / "new")
    assert again.first_difference(stored.rows, repeated.rows) is None
    assert repeated.summary["measures"] == stored.summary["measures"]
    assert repeated.summary["network"] == stored.summary["network"]
    # What was repeated can be repeated.
    assert repeated.summary["experiment"] == stored.summary["experiment"]
    assert sorted(repeated.summary["sources"].values()) == sorted(
        stored.summary["sources"].values()
    )


def test_rerun_says_identical_or_what_differs(four: list[StoredRun], tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(four[2].directory, copy)
    result = tiercast("rerun", copy, "--results", tmp_path / "results")
    assert result.returncode == 0, result.stderr
    rows = sum(map(len, four[2].rows.values()))
    last = result.stdout.splitlines()[-1]
    assert last == f"identical: {rows:,} rows in {len(four[2].rows)} tables"
    (new,) = (tmp_path / "results").glob("2*")
    assert load_run(new).summary["command"][1:] == [
        *("rerun", str(copy), "--results", str(tmp_path / "results")),
    ]
    # One byte more in one row: that row is named, with both values.
    table = copy / "rows/received.parquet"
    frame = pl.read_parquet(table)
    at = len(frame) // 2
    bytes_ = frame["bytes"].to_list()
    bytes_[at] += 1
    frame.with_columns(pl.Series("bytes", bytes_)).write_parquet(table)
    result = tiercast("rerun", copy, "--results", tmp_path / "results")
    assert result.returncode == EXIT_NOT_MET, result.stderr
    said = f"received, {frame['time_s'][at]:.6f} s: row {at + 1} ({frame['agent'][at]}): "
    assert said in result.stdout
    assert f"bytes {bytes_[at]}, now {bytes_[at] - 1}" in result.stdout


def test_the_earliest_difference_of_all_tables_is_the_first() -> None:
    times = {"time_s": [1.0, 2.0, 3.0], "agent": ["h1", "h2", "h1"]}
    rows = {
        "a": pl.DataFrame(times | {"n": [1, 2, 3]}),
        "b": pl.DataFrame(times | {"n": [1.0, None, 3.0], "link": ["0>1", "0>1", "0>2"]}),
    }
    assert again.first_difference(rows, rows) is None

    def found(**changed: pl.DataFrame) -> str:
        return str(again.first_difference(rows, rows | changed))

    late = rows["a"].with_columns(n=pl.Series([1, 2, 4]))
    early = rows["b"].with_columns(n=pl.Series([1.0, 2.0, 3.0]))
    assert found(a=late) == "a, 3.000000 s: row 3 (h1): n 3, now 4"
    assert found(a=late, b=early) == "b, 2.000000 s: row 2 (h2): n none, now 2.0"
    assert found(a=rows["a"].head(2)) == "a, 3.000000 s: 3 rows, now 2"
    assert found(b=rows["b"].drop("link")) == "b, 1.000000 s: columns of one run alone: link"
    assert found(c=rows["a"]) == "c, 1.000000 s: a table of the new run alone"
    text = rows["b"].with_columns(link=pl.Series(["0>1", "1>0", "0>2"]))
    assert found(b=text) == "b, 2.000000 s: row 2 (h2): link '0>1', now '1>0'"


def test_a_rerun_that_cannot_be_is_refused(four: list[StoredRun], tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(four[0].directory, copy)
    path = copy / "summary.json"
    whole = json.loads(path.read_text())

    def refused(change: dict[str, object]) -> str:
        path.write_text(json.dumps(whole | change))
        result = tiercast("rerun", copy, "--results", tmp_path / "results")
        assert result.returncode == EXIT_INPUT and "Traceback" not in result.stderr
        return result.stderr

    assert "it has not ended" in refused({"verdict": "incomplete", "reasons": ["it has not ended"]})
    assert "runtime: 'ns2'; valid: ns3, mininet" in refused({"runtime": "ns2"})
    assert "switch: 'bmv2'; valid: tiercast" in refused({"switch": "bmv2"})
    other = whole["experiment"] | {"duration": "4"}
    assert f"{path}: experiment: duration: '4'" in refused({"experiment": other})
    captures = [{"link": "1-3", "file": "../1-3.pcapng", "cpu_s": None, "directions": {}}]
    assert "'../1-3.pcapng'; valid: a pcapng file in captures/" in refused({"captures": captures})
    kept = {"it.yaml": "../it.yaml"}
    assert "'../it.yaml'; valid: a file in experiment/" in refused({"sources": kept})
    assert not (tmp_path / "results").exists()


def test_a_run_is_printed_as_json_and_so_is_its_rerun(tmp_path: Path) -> None:
    (tmp_path / "pair.yaml").write_text(PAIR)
    results = tmp_path / "results"
    made = tiercast(
        "run", tmp_path / "pair.yaml", "--runtime", "ns3", "--results", results, "--json"
    )
    assert made.returncode == 0, made.stderr
    data = json.loads(made.stdout)
    folder = (results / "latest").resolve()
    assert data.pop("folder") == str(folder) and data.pop("report") == str(folder / "report.html")
    assert data == json.loads((folder / "summary.json").read_text())
    assert "virtual time" in made.stderr  # the progress
    assert json.loads(tiercast("report", folder, "--json").stdout)["folder"] == str(folder)
    rerun = tiercast("rerun", folder, "--results", results, "--json")
    again = json.loads(rerun.stdout)
    assert (again["stored"], again["first_difference"]) == (str(folder), None)
    assert again["measures"] == data["measures"] and again["folder"] != str(folder)
    table = folder / "rows/received.parquet"
    pl.read_parquet(table).with_columns(pl.col("bytes") + 1).write_parquet(table)
    rerun = tiercast("rerun", folder, "--results", results, "--json")
    assert rerun.returncode == EXIT_NOT_MET
    assert json.loads(rerun.stdout)["first_difference"]["table"] == "received"
    told = json.loads(tiercast("explain", folder, "--receiver", "1", "--at", "2", "--json").stdout)
    assert told["receiver"] == "h1" and {one["about"] for one in told["parts"]} >= {"received"}
    exported = json.loads(tiercast("export", folder, "--csv", "--json").stdout)
    assert exported["folder"] == str(folder / "csv")
    assert exported["tables"]["received"] == len(pl.read_parquet(table))


# ------------------------------------------------------------------------------------- comparisons


def test_runs_that_differ_only_in_their_seed_are_one_group(four: list[StoredRun]) -> None:
    compared = compare([four[2], four[1], four[3], four[0]])
    assert [(one.name, one.seeds) for one in compared.groups] == [("A", [1, 2]), ("B", [1, 2])]
    assert compared.groups[0].runs == (four[2], four[3])
    changes = {one.path: one.values for one in compared.changes}
    assert changes == {
        "topology.link.queue": ("10p", "20p"),
        "sessions.0.parameters.sim.delta": ("0.7", "default: 0.965"),
    }
    rows = {one.name: one for one in compared.measures}
    throughput = [run.summary["measures"]["session_throughput"]["value"] for run in four]
    mine = rows["session_throughput"]
    assert mine.means[0].value == statistics.fmean(throughput[2:])
    # 12.71 is Student's 97.5 % quantile with one degree of freedom; of two values, the standard
    # error is half of their distance.
    assert mine.means[1].spread == pytest.approx(12.71 * abs(throughput[0] - throughput[1]) / 2)
    of_pairs = [throughput[n] - throughput[n + 2] for n in (0, 1)]
    (difference,) = mine.differences
    assert difference.value == pytest.approx(statistics.fmean(of_pairs))
    assert difference.spread == pytest.approx(12.71 * abs(of_pairs[0] - of_pairs[1]) / 2)


def test_a_second_run_of_one_seed_is_another_group(four: list[StoredRun], tmp_path: Path) -> None:
    repeated = make_again(four[0], tmp_path)
    compared = compare([four[0], repeated, four[1]])
    assert [one.seeds for one in compared.groups] == [[1, 2], [1]]
    compared = compare([four[0], repeated])
    assert compared.changes == []
    assert all(row.differences[0].value == 0 for row in compared.measures if row.means[0])


def test_differences_have_welchs_interval() -> None:
    # Of these two samples (Welch 1947's problem; numbers by hand): means 2 and 5, variances 1 and
    # 4, so the standard error is sqrt(1/3 + 4/5) and the degrees of freedom are
    # (1/3 + 4/5)^2 / ((1/3)^2 / 2 + (4/5)^2 / 4) = 5.96, rounded down to 5: t = 2.57.
    above, below = [4.0, 3.0, 5.0, 5.0, 8.0], [1.0, 2.0, 3.0]
    assert statistics.variance(above) == pytest.approx(3.5)
    found = confidence.difference(above, below)
    parts = statistics.variance(above) / 5, 1 / 3
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 4 + parts[1] ** 2 / 2)
    assert math.floor(freedom) == 5
    assert found.value == pytest.approx(3.0)
    assert found.spread == pytest.approx(2.57 * math.sqrt(sum(parts)))
    assert confidence.difference([1.0], [2.0, 3.0]).spread is None
    assert confidence.difference([1.0, None], [2.0, 3.0]) is None
    assert confidence.difference([1.0, 1.0], [2.0, 2.0]).spread == 0
    # Beside a constant the degrees of freedom are those of the mean, a whole number.
    random = Random(1)
    for count in range(2, 12):
        for _ in range(100):
            above = [random.random() for _ in range(count)]
            spread = confidence.difference(above, [5.0, 5.0]).spread
            assert spread == pytest.approx(confidence.mean(above).spread)
    pairs = confidence.paired_difference([1.0, 3.0, 5.0], [1.0, 2.0, 3.0])
    assert (pairs.value, pairs.spread) == (1.0, pytest.approx(4.30 / math.sqrt(3)))


def test_charts_are_overlaid_with_a_style_for_each_run(
    four: list[StoredRun], tmp_path: Path
) -> None:
    compared = compare(four)
    drawn = drawn_runs(compared)
    assert len({one.dash for one in drawn.values()}) == 4
    panels = {one.key: one for one in overlaid(drawn)}
    rates = panels["a-layer-rates"]
    assert [one.label for one in rates.series[:4]] == [
        *("A, seed 1: 1 layer", "A, seed 1: 2 layers"),
        *("A, seed 2: 1 layer", "A, seed 2: 2 layers"),
    ]
    by_label = {one.label: one for one in rates.series}
    for what in ("1 layer", "2 layers"):
        lines = [one for label, one in by_label.items() if label.endswith(what)]
        assert len(lines) == 4 and len({one.colour for one in lines}) == 1
        assert [one.dash for one in lines] == [one.dash for one in drawn.values()]
    page = write_comparison(compared, tmp_path / "comparisons", ["./tiercast", "compare"])
    ids = "-".join(run.directory.name[-4:] for run in four)
    assert page == tmp_path / f"comparisons/it-{ids}.html"
    html = page.read_text()
    for run in four:
        assert run.directory.name in html
    assert "sessions.0.parameters.sim.delta" in html and "default: 0.965" in html
    references: list[str] = []

    class Collector(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            references.extend(v for k, v in attrs if k in ("src", "href") and v)

    Collector().feed(html)
    assert not references and not re.search(r"@import|url\(", html)


def test_runs_of_two_schemes_share_the_charts_of_any_scheme(
    four: list[StoredRun], tmp_path: Path
) -> None:
    tfmcc = PAIR.replace("scheme: sim, sender: 0, layers: 2", "scheme: tfmcc, sender: 0")
    traffic = "traffic: [{kind: tcp, from: 0, to: 1}]\n"
    compared = compare([four[0], make(tmp_path, textwrap.dedent(tfmcc) + traffic)])
    panels = {one.key: one for one in overlaid(drawn_runs(compared))}
    assert list(panels) == ["rates-receivers", "rates-sender", "queues", "rates-tcp"]
    labels = [one.label for one in panels["rates-receivers"].series]
    assert labels == ["A: h1", "A: h2", "B: h1", "B: h2"]
    assert {one.label for one in panels["rates-tcp"].series} == {"B: session (mean)", "B: tcp1"}
    changes = {one.path: one.values for one in compared.changes}
    assert changes["sessions.0.scheme"] == ("sim", "tfmcc")
    assert changes["traffic.0.kind"] == (None, "tcp")
    rows = {one["name"]: one for one in as_json(compared)["measures"]}
    assert rows["tcp_ratio"]["means"][0] is None and rows["tcp_ratio"]["differences"] == [None]


def test_every_group_is_drawn_before_any_is_drawn_twice(stored: StoredRun, tmp_path: Path) -> None:
    runs = []
    for seed in range(1, len(DASHES) + 2):
        for title in ("one", "two"):
            experiment = stored.summary["experiment"] | {"title": title}
            summary = stored.summary | {"seed": seed, "experiment": experiment}
            runs.append(StoredRun(tmp_path / f"{title}-{seed}", summary))
    drawn = drawn_runs(compare(runs))
    assert len(drawn) == len(DASHES)
    assert sorted(one.name for one in drawn.values()) == [
        f"{group}, seed {seed}" for group in "AB" for seed in range(1, len(DASHES) // 2 + 1)
    ]


def test_compare_prints_a_table_or_json(four: list[StoredRun], tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    for run in four:
        shutil.copytree(run.directory, results / run.directory.name)
    names = [run.directory.name for run in four]
    result = tiercast("compare", *names, "--results", results)
    assert result.returncode == 0, result.stderr
    assert "session throughput" in result.stdout and "B − A" in result.stdout
    (page,) = (results / "comparisons").glob("*.html")
    assert str(page) in result.stdout
    result = tiercast("compare", *names, "--json", "--results", results)
    data = json.loads(result.stdout)
    assert data["page"] == str(page)
    assert [one["seeds"] for one in data["groups"]] == [[1, 2], [1, 2]]
    assert {"path": "topology.link.queue", "values": ["20p", "10p"]} in data["differs"]
    rows = {one["name"]: one for one in data["measures"]}
    assert rows["session_throughput"]["means"][0]["runs"] == 2
    assert rows["session_throughput"]["unit"] == "bit/s"


def test_what_cannot_be_compared_is_refused(four: list[StoredRun], tmp_path: Path) -> None:
    results = four[0].directory.parent
    name = four[0].directory.name

    def refused(*arguments: str | Path) -> str:
        result = tiercast("compare", *arguments, "--results", results)
        assert (result.returncode, result.stdout) == (EXIT_INPUT, "")
        return result.stderr

    assert f"RUN: {name} alone; valid: two or more, such as {name} 2" in refused(name)
    said = refused(name, name[:-1] + "z")
    assert f"RUN: no run '{name[:-1]}z'; valid: " in said and f"did you mean '{name}'?" in said
    assert f"{results / name}: the same run twice; valid: different runs" in refused(name, name)
    broken = tmp_path / "broken"
    shutil.copytree(four[0].directory, broken)
    summary = four[0].summary | {"verdict": "incomplete", "reasons": ["Ctrl-C"]}
    (broken / "summary.json").write_text(json.dumps(summary))
    assert f"{broken}: Ctrl-C; its rows end at 4.0 s of 4 s; valid: " in refused(name, broken)
    assert (
        "no run 'nosuch': "
        in tiercast("compare", "nosuch", "other", "--results", tmp_path / "none").stderr
    )
    assert not (results / "comparisons").exists()


def test_an_experiments_name_is_its_last_run(tmp_path: Path) -> None:
    def no_run(name: str) -> str:
        told = tiercast("compare", name, "sim-session", "--results", tmp_path)
        assert told.returncode == EXIT_INPUT
        return told.stderr

    for folder in ("20261123-101500-diamond-1a2b", "20261123-101700-diamond-0c4d"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "summary.json").write_text("{")
    (tmp_path / "20261123-101800-my-diamond-ffff").mkdir()
    assert "20261123-101700-diamond-0c4d" in no_run("diamond")
    assert "RUN: no run 'diamon'" in no_run("diamon")


def test_a_runs_name_goes_before_a_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An experiment is often in a folder that is named as it is."""
    (tmp_path / "hysteresis").mkdir()
    results = tmp_path / "results"
    last = results / "20261123-101700-hysteresis-0c4d"
    last.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert found(Path("hysteresis"), results) == last
    assert found(Path("hysteresis/"), tmp_path / "others") == tmp_path / "hysteresis"
    (tmp_path / "hysteresis/summary.json").touch()
    assert found(Path("hysteresis"), results) == tmp_path / "hysteresis"


# ------------------------------------------------------------------------------------------ export


def test_every_table_is_exported_with_what_its_columns_are(
    four: list[StoredRun], tmp_path: Path
) -> None:
    run = four[0]
    to = tmp_path / "tables"
    result = tiercast("export", run.directory, "--csv", "--to", to)
    assert result.returncode == 0, result.stderr
    assert {one.name for one in to.iterdir()} == {f"{kind}.csv" for kind in run.rows} | {COLUMNS}
    for kind, frame in run.rows.items():
        read = pl.read_csv(to / f"{kind}.csv", schema=frame.schema)
        assert read.equals(frame), kind
    columns = pl.read_csv(to / COLUMNS)
    assert columns.select("table", "column").rows() == [
        (kind, column) for kind, frame in run.rows.items() for column in frame.columns
    ]
    units = {(table, column): unit for table, column, unit, _ in columns.rows()}
    assert units["received", "bytes"] == "B" and units["layer", "rate_Bps"] == "B/s"
    assert units["sim.round", "rtt_max_us"] == "us" and units["port", "queue_drops"] == "packets"
    assert columns["meaning"].null_count() == 0


def test_nothing_is_overwritten_silently(four: list[StoredRun], tmp_path: Path) -> None:
    to = tmp_path / "tables"
    to.mkdir()
    (to / "mine.txt").write_text("mine")
    export_csv(four[0], to, overwrite=False)  # other files are no obstacle
    (to / "port.csv").write_text("changed by hand")
    with pytest.raises(InputError, match=r"more of the files already; valid: another folder"):
        export_csv(four[0], to, overwrite=False)
    assert (to / "port.csv").read_text() == "changed by hand"
    export_csv(four[0], to, overwrite=True)
    assert (to / "port.csv").read_text().startswith("time_s,agent,link")
    assert (to / "mine.txt").read_text() == "mine"
    with pytest.raises(InputError, match=r"mine.txt: it is not a folder; valid: "):
        export_csv(four[0], to / "mine.txt", overwrite=True)
    assert tiercast("export", four[0].directory).stderr.startswith("tiercast: export: no format; ")


def test_columns_of_the_lab_are_described(beside_tcp: StoredRun, stored: StoredRun) -> None:
    for run in (beside_tcp, stored):
        for table, column, unit, meaning in columns_of(run).rows():
            if table.partition(".")[0] not in ("sim", "single"):
                assert not meaning.startswith("docs/"), f"{table}: {column}"
            assert unit or column in (
                *("agent", "link", "port", "session", "layer", "rank", "rank_top", "top"),
                *("active", "limiting", "loss", "complete"),
            ), f"{table}: {column}"
