"""Traces of packets and reads of state in virtual time: they agree with the accounts, the laws are
as their equations, and they change nothing."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import polars as pl
import pytest
from tiercast_lab.base.errors import InputError
from tiercast_lab.results.explain.packet import explain_packet
from tiercast_lab.results.storage import load_run
from tiercast_lab.show.run_report import write_report
from tiercast_lab.study.traced_law import TracedLaw, traced_laws

from ..checkout import ROOT

pytestmark = pytest.mark.slow

# Everything ends before the run does, so nothing waits when the last rows are written.
EXPERIMENT = """\
name: traced
topology:
  nodes: [0, 1, 2, 3]
  link: {rate: 20Mbit/s, delay: 5ms, queue: 200p}
  links:
    0-1: {rate: 3Mbit/s, marking: MARKING}
    1-2: {rate: 2500kbit/s, queue: 6p, marking: {kind: none}}
    1-3: {rate: 1Mbit/s, queue: 60p, marking: {kind: pie, ecn: true, mark_below: 1}}
sessions:
  - {scheme: sim, sender: 0, receivers: [3], stop: 38s}
traffic:
  - {kind: tcp, from: 0, to: 2, count: 6, ecn: true, stop: 38s}
  - {kind: udp, from: 0, to: 2, rate: 400kbit/s, stop: 38s}
duration: 40s
"""
RED = "{kind: red, ecn: true, gentle: true}"
TRACE = """\
trace:
  - {link: 0>1, sample: 1/1, registers: [avg_queue]}
  - {link: 1-2, sample: 1/1}
  - {link: 1>0, sample: 1/1}
  - {link: 1-3, sample: 20%}
state:
  - {link: 0>1, register: red_average, every: 250ms}
  - {node: 0, counter: egress_fates, index: [0-1, 5], every: 2s}
"""


def run(folder: Path, text: str) -> Path:
    file = folder / "traced.yaml"
    file.write_text(text)
    command = [ROOT / "tiercast", "run", file, "--runtime", "ns3", "--results", folder]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return (folder / "latest").resolve()


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("traced"), EXPERIMENT.replace("MARKING", RED) + TRACE)


@pytest.fixture(scope="module")
def rows(traced: Path) -> pl.DataFrame:
    return pl.read_parquet(traced / "rows/trace.parquet")


def last(folder: Path, link: str) -> dict:
    ports = pl.read_parquet(folder / "rows/port.parquet").filter(pl.col("link") == link)
    return ports.tail(1).to_dicts()[0]


@pytest.mark.parametrize("link", ["0>1", "1>2", "1>0"])
def test_every_packet_of_the_accounts_has_a_row(
    traced: Path, rows: pl.DataFrame, link: str
) -> None:
    counts, mine = last(traced, link), rows.filter(pl.col("link") == link)
    fates = dict(mine["fate"].value_counts().iter_rows())
    assert len(mine) == counts["entered"]
    assert fates.get("marked", 0) == counts["marked"]
    assert fates.get("dropped", 0) == counts["policy_drops"]
    assert fates.get("full", 0) == counts["queue_drops"]
    assert {"0>1": "marked", "1>2": "full", "1>0": "passed"}[link] in fates


def test_a_sample_has_its_share_and_the_same_packets_at_each_hop(
    traced: Path, rows: pl.DataFrame
) -> None:
    mine = rows.filter(pl.col("link") == "1>3")
    entered = last(traced, "1>3")["entered"]
    assert len(mine) == pytest.approx(0.2 * entered, abs=4 * (0.16 * entered) ** 0.5)
    data = mine.filter(pl.col("session") == 1)
    before = rows.filter((pl.col("link") == "0>1") & (pl.col("session") == 1))
    both = data.join(before, on=["session", "layer", "sequence"], suffix="_before")
    assert len(both) == len(data) > 100
    # It comes to the second queue when its last bit is there.
    arrived = both["time_s_before"] + both["transit_ns_before"] / 1e9
    assert (both["time_s"] - arrived).abs().max() < 2e-9


def test_times_and_lines_are_of_the_packet(rows: pl.DataFrame) -> None:
    served = rows.filter((pl.col("link") == "0>1") & pl.col("transit_ns").is_not_null())
    service = 8e9 * served["bytes"] / 3e6
    assert ((served["transit_ns"] - served["wait_ns"] - 5e6 - service).abs() <= 1).all()
    marked = served.filter(pl.col("fate") == "marked")
    for row in marked.head(20).iter_rows(named=True):
        assert "port_marking: egress_port" in row["lines"] and "-> red(min_th" in row["lines"]
        assert row["lines"].endswith("ipv4.ecn = 3")
        average = re.search(r"if \(average < red.max_th\): \w+ \(average (\d+)", row["lines"])
        assert average is not None and int(average[1]) == row["register.red_average"]


def within(law: TracedLaw) -> None:
    """Of some 20 ranges at 95 % one is outside by chance."""
    assert len(law.curve) > 5
    assert law.outside <= 3, law.curve


def test_the_laws_are_as_their_equations(traced: Path) -> None:
    laws = {one.link: one for one in traced_laws(load_run(traced))}
    assert list(laws) == ["0>1", "1>2", "1>0", "1>3"]
    within(laws["0>1"])
    assert laws["0>1"].law.of == "average queue" and laws["0>1"].curve[-1].share > 0.03
    assert laws["1>3"].kind == "pie" and laws["1>3"].outside <= 3
    assert laws["1>2"].kind == "none" and not laws["1>2"].has_equation


def test_state_is_read_at_exact_times(traced: Path, rows: pl.DataFrame) -> None:
    state = pl.read_parquet(traced / "rows/state.parquet")
    register = state.filter(pl.col("name") == "red_average")
    assert register["time_s"].to_list() == [0.25 * n for n in range(161)][: len(register)]
    assert len(register) in (160, 161)
    assert set(register["link"]) == {"0>1"} and register["value"].max() > 5 << 18
    # At each time it is what the last decision before it left there, and not one of that very
    # nanosecond. A packet that the program drops and the next one are decided at the same one, in
    # the order of their arrival.
    decided = rows.filter((pl.col("link") == "0>1") & pl.col("wait_ns").is_not_null()).select(
        ns=(pl.col("time_s") * 1e9).round().cast(pl.Int64) + pl.col("wait_ns"),
        left="register.red_average",
    )
    joined = (
        register.with_columns(ns=(pl.col("time_s") * 1e9).round().cast(pl.Int64))
        .join_asof(decided.sort("ns", maintain_order=True), on="ns", allow_exact_matches=False)
        .drop_nulls("left")
    )
    assert joined["value"].to_list() == joined["left"].to_list()
    counter = state.filter(pl.col("name") == "egress_fates")
    assert sorted(set(counter["index"])) == [0, 1, 5]
    assert counter["value"].null_count() == len(counter) and counter["packets"].max() > 100


def test_explain_says_why_and_what_is_near(traced: Path, rows: pl.DataFrame) -> None:
    stored = load_run(traced)
    data = rows.filter((pl.col("session") == 1) & (pl.col("link") == "1>3"))
    row = data.tail(1).to_dicts()[0]
    explained = explain_packet(stored, f"1:{row['layer']}:{row['sequence']}")
    assert [hop.link for hop in explained.hops] == ["0>1", "1>3"]
    text = "\n".join(explained.text())
    assert f"Packet {row['sequence']} of layer 0 of session 1, 1000 bytes" in text
    assert "0>1 at " in text and "packets waiting, waited " in text and "-> pie(" in text
    with pytest.raises(InputError, match=r"not in the sample; near: 1:0:\d+, 1:0:\d+"):
        explain_packet(stored, "1:0:4294967295")
    with pytest.raises(InputError, match=r"no packets of session 2; valid: 1"):
        explain_packet(stored, "2:0:1")
    with pytest.raises(InputError, match=r"no packets of layer 3 of session 1; valid: 0"):
        explain_packet(stored, "1:3:1")
    with pytest.raises(InputError, match="valid: SESSION:LAYER:SEQ"):
        explain_packet(stored, "1:0:x:2")
    with pytest.raises(InputError, match="no flow 'tcp7'; valid: tcp1"):
        explain_packet(stored, "tcp7:1")
    udp = rows.filter(pl.col("flow").str.ends_with("/udp") & (pl.col("session") == -1))
    number = udp.filter(pl.col("bytes") == 1000)["ip_id"][0]
    assert [hop.link for hop in explain_packet(stored, f"udp1:{number}").hops][0] == "0>1"


def test_the_report_draws_the_laws(traced: Path) -> None:
    before = (traced / "report.html").read_bytes()
    assert b"Why packets were marked" in before and b"data:image/png" in before
    assert write_report(load_run(traced)).read_bytes() == before


def test_tables_as_csv_say_what_the_columns_are(traced: Path, tmp_path: Path) -> None:
    command = [ROOT / "tiercast", "export", traced, "--csv", "--to", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    columns = pl.read_csv(tmp_path / "columns.csv").filter(
        pl.col("table").is_in(["trace", "state"])
    )
    assert not columns["meaning"].str.starts_with("docs/").any()
    assert {"trace.csv", "state.csv"} <= {path.name for path in tmp_path.iterdir()}


def test_without_a_trace_all_rows_are_the_same(traced: Path, tmp_path: Path) -> None:
    plain = run(tmp_path, EXPERIMENT.replace("MARKING", RED))
    names = {path.name for path in (plain / "rows").iterdir()}
    assert {path.name for path in (traced / "rows").iterdir()} - names == {
        "trace.parquet", "state.parquet",
    }  # fmt: skip
    for name in names:
        assert (plain / "rows" / name).read_bytes() == (traced / "rows" / name).read_bytes(), name
    summary = json.loads((plain / "summary.json").read_text())
    assert "traced" not in summary and "flow_ports" not in summary


def test_red_on_arrival_has_the_same_law(tmp_path: Path) -> None:
    marking = "{kind: red, where: arrival, ecn: true, gentle: true, mark_above_max: true}"
    text = EXPERIMENT.replace("MARKING", marking) + "trace: {link: 0>1, sample: 1/1}\n"
    folder = run(tmp_path, text)
    mine = pl.read_parquet(folder / "rows/trace.parquet")
    counts = last(folder, "0>1")
    fates = dict(mine["fate"].value_counts().iter_rows())
    assert fates.get("marked", 0) == counts["marked"] > 100
    assert fates.get("dropped", 0) == counts["policy_drops"]
    assert mine["red_average"].null_count() == 0
    (law,) = traced_laws(load_run(folder))
    within(law)


def test_priority_marks_by_its_average_and_has_no_equation_of_all_packets(tmp_path: Path) -> None:
    text = EXPERIMENT.replace("MARKING", "{kind: priority}").replace("40s", "20s")
    folder = run(tmp_path, text.replace("38s", "18s") + "trace: {link: 0>1, sample: 1/1}\n")
    (law,) = traced_laws(load_run(folder))
    assert law.law.of == "average queue" and law.curve and not law.has_equation
