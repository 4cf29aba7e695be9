"""`trace` and `state`: what they refuse, and a real run of them."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from tiercast_lab.base.errors import InputError
from tiercast_lab.run.controller_input import programs_for
from tiercast_lab.run.mininet.bmv2 import Bmv2Switches
from tiercast_lab.run.observed import state_reads, traced_ports

from .conftest import SMALL, Load
from .real_run import Started


@pytest.mark.parametrize(
    ("added", "said"),
    [
        ("trace: {link: 1-9}", "trace.link: no link '1-9'; valid: 0-1, "),
        ("trace: [{link: 1-3}, {link: 1>3}]", "trace.1.link: 1>3 is traced by entry 0 already"),
        ("trace: {sample: 1/2}", "trace.link: this key is missing"),
        ("trace: {link: 1-3, sample: 1/0}", "trace.sample: '1/0' is no sample; valid: 1/1 to"),
        ("trace: {link: 1-3, sample: 0}", "trace.sample: 0 is no sample; valid: 1/1 to"),
        ("trace: {link: 1-3, sample: 2/3}", "trace.sample: '2/3' is no sample"),
        ("trace: {link: 1-3, sample: 150%}", "trace.sample: '150%' is no sample"),
        ("trace: {link: 1-3, smaple: 1/2}", "unknown key; valid: link, sample, registers"),
        ("state: {link: 1-3}", "exactly one of 'register' and 'counter'"),
        ("state: {register: avg_queue}", "valid: 'link', or 'node' with 'index'"),
        ("state: {register: avg_queue, node: 1}", "valid: 'link', or 'node' with 'index'"),
        ("state: {register: avg_queue, link: 1-3, index: 1}", "its port is the index"),
        ("state: {register: avg_queue, link: 7-8}", "state.link: no link '7-8'"),
        ("state: {register: avg_queue, node: 99, index: 0}", "state.node: no switch at node 99"),
        ("state: {register: avg_queue, node: 1, index: 3-1}", "from the lower to the higher"),
        ("state: {register: avg_queue, node: 1, index: x}", "'x' is no index; valid: 3, 0-3"),
        ("state: {register: avg_queue, node: 1, index: [1, 1]}", "valid: 1 to 1024, each once"),
        ("state: {register: avg_queue, link: 1-3, every: 1us}", "every: '1us'; valid: 1ms or more"),
    ],
)
def test_wrong_keys_are_refused_with_their_place(load: Load, added: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        load(f"{SMALL}{added}\n")
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("added", "said"),
    [
        (
            "trace: {link: 1-3, registers: [average]}",
            "trace.registers: register 'average' is not in the P4 program; it has: ",
        ),
        ("state: {link: 1-3, counter: averages}", "state.counter: counter 'averages' is not in"),
        (
            "state: {node: 1, register: avg_queue, index: 512}",
            "state.index: 512 of avg_queue; valid: 0 to 511",
        ),
    ],
)
def test_what_the_program_lacks_is_refused(load: Load, added: str, said: str) -> None:
    loaded = load(f"{SMALL}{added}\n")
    with pytest.raises(InputError) as error:
        programs_for(loaded)
    assert said in str(error.value)


def test_a_link_means_both_directions_and_the_registers_of_its_marking(load: Load) -> None:
    added = "trace: {link: 1-3, sample: 5%, registers: [red_average, avg_queue]}\n"
    there, *back = traced_ports(load(SMALL + added))
    assert (there.switch, there.link, there.share) == ("s1", "1>3", 0.05)
    assert there.registers == ("avg_queue", "red_average")  # first its law's
    assert [one.link for one in back] in ([], ["3>1"])
    reads = state_reads(load(SMALL + "state: {link: 1>3, counter: egress_fates}\n"))
    assert [(one.switch, one.indices, one.link) for one in reads] == [("s1", (there.port,), "1>3")]


def test_bmv2_says_what_it_cannot_do(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.setattr("tiercast_lab.base.binaries.require", lambda *files: None)
    for added, said in (
        ("trace: {link: 1-3}", "trace: --switch bmv2 has no trace of single packets; valid: "),
        ("state: {link: 1-3, register: avg_queue}", "state.register: bmv2 reads no registers"),
    ):
        loaded = load(f"{SMALL}{added}\n")
        with pytest.raises(InputError, match=said):
            Bmv2Switches(loaded.packet_size_of).check(loaded)


EXPERIMENT = """\
name: observed
topology:
  nodes: [0, 1, 2]
  link: {rate: 10Mbit/s, delay: 2ms, queue: 200p}
  links:
    0-1: {rate: 2Mbit/s, marking: {kind: red, ecn: true, mark_above_max: true}}
    1-2: {}
marking: {kind: none}
sessions:
  - scheme: sim
    sender: 0
    receivers: [2]
    parameters: {sim.initial_rate: 1200kbit/s, sim.min_rate: 1200kbit/s}
traffic:
  - {kind: tcp, from: 0, to: 2, count: 3, stop: 7s}
duration: 10s
measure: {last: 5s}
trace:
  - {link: 0>1, sample: 1/1}
  - {link: 1>2, sample: 1/4}
state:
  - {link: 0>1, register: red_average, every: 200ms}
  - {node: 0, counter: egress_fates, index: 0-3, every: 1s}
"""


@pytest.mark.mininet
def test_a_real_run_has_the_rows_of_the_switches(tmp_path: Path) -> None:
    file = tmp_path / "observed.yaml"
    file.write_text(EXPERIMENT)
    started = Started(tmp_path / "results", experiment=str(file))
    status, out, error = started.finish()
    assert status in (0, 3), out + error
    started.assert_nothing_is_left()
    run = (tmp_path / "results/latest").resolve()
    assert json.loads((run / "summary.json").read_text())["complaints"] == []
    rows = pl.read_parquet(run / "rows/trace.parquet")
    first = rows.filter(pl.col("link") == "0>1")
    counts = pl.read_parquet(run / "rows/port.parquet").filter(pl.col("link") == "0>1").tail(1)
    under_way = counts["queue_packets"][0] + counts["on_wire"][0]
    assert (
        0 <= counts["entered"][0] - len(first) <= under_way + 20
    )  # routers' own, before the start
    fates = dict(first["fate"].value_counts().iter_rows())
    assert fates["dropped"] == counts["policy_drops"][0] > 0  # TCP's are not ECT
    assert 0 <= counts["marked"][0] - fates["marked"] <= under_way
    assert first.filter(pl.col("fate") == "marked")["lines"].str.contains("ipv4.ecn = 3").all()
    decided = first.filter(pl.col("by").str.contains("p4") | (pl.col("fate") == "passed"))
    assert decided["register.red_average"].null_count() == 0
    second = rows.filter((pl.col("link") == "1>2") & (pl.col("session") == 1))
    both = second.join(first, on=["session", "layer", "sequence"], suffix="_first")
    assert len(both) == len(second) > 50
    state = pl.read_parquet(run / "rows/state.parquet")
    register = state.filter(pl.col("name") == "red_average")
    assert 25 <= len(register) <= 50 and register["value"].max() > 0
    assert set(state.filter(pl.col("name") == "egress_fates")["index"]) == {0, 1, 2, 3}
