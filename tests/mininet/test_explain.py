"""`tiercast explain` on small stored runs whose rows are all known."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tiercast_lab.base.by_name import module_of
from tiercast_lab.base.errors import EXIT_INPUT, InputError
from tiercast_lab.experiment.schemes import known_schemes
from tiercast_lab.results import storage
from tiercast_lab.results.explain import schemes
from tiercast_lab.results.explain.receiver import explain
from tiercast_lab.results.explain.sentences import Sentences
from tiercast_lab.results.explain.snapshot import snapshot_at
from tiercast_lab.results.recorder import Recorder

from ..checkout import ROOT
from .conftest import SMALL, record_port, store
from .traced_fields import OF_EVERY_ROW, documented_fields, one_number, traced_fields


def text(run: storage.StoredRun, receiver: str, at: str) -> str:
    return "\n".join(explain(snapshot_at(run, receiver, at)))


@pytest.fixture
def sim(load, tmp_path) -> storage.StoredRun:
    """h3 has one layer from 1 s, two from 6 s and one again from 9 s; layer 0 is cut at 4 s, layer
    1 rises."""
    recorder = Recorder(tmp_path / "results" / "sim" / "rows")
    for time_s, top in ((1.0, 0), (6.0, 1), (9.0, 0)):
        recorder.add("subscription", time_s, "h3", {"top": top})
    for tick in range(101):
        t = tick * 0.2
        counts = {"packets": 100 * t, "lost": 25 * max(0.0, t - 10), "marked": 50 * t}
        recorder.add("received", t, "h3", {"bytes": 1e5 * t, **counts})
        for rank, rate in ((0, 1e5), (1, 2e5)):
            layer = {"rank": rank, "rate_Bps": rate, "sent_bytes": rate * t}
            recorder.add("layer", t, "h0", layer)
    for second in range(1, 21):
        counts = {
            (1, 0): {"left": 100.0 * second, "queue_drops": 10.0 * second, "marked": 50.0 * second},
            (1, 1): {"left": 100.0 * second, "queue_drops": 7.0 * second},
            (-1, -1): {"left": 9.0 * second, "queue_drops": 5.0 * second},
        }
        longest = 20.0 + second
        record_port(recorder, float(second), "1>3", counts, max_queue_packets=longest)
        counts = {(1, 0): {"left": 110.0 * second, "policy_drops": 3.0 * second}}
        record_port(recorder, float(second), "0>1", counts, max_queue_packets=4.0)
    for time_s, rank, reports, congested_reports, congested, rate in (
        (2.0, 0, 2, 0, 0, 110e3),
        (2.0, 1, 2, 1, 0, 190e3),
        (4.0, 0, 2, 1, 1, 100e3),
        (4.0, 1, 2, 2, 0, 200e3),
        (8.0, 0, 0, 0, 0, 100e3),
    ):
        fields = {"rank": rank, "reports": reports, "congested_reports": congested_reports}
        recorder.add(
            "sim.group", time_s, "h0", {**fields, "congested": congested, "rate_Bps": rate}
        )
    recorder.add("sim.menu", 5.0, "h0", {"active": 0.0, "min_Bps": 1e5, "max_Bps": 3e5})
    recorder.add("sim.round", 4.0, "h0", {"reports": 3, "missing": 1, "rtt_max_us": 81_000})
    answer = {"top": 0, "congested": 1, "packets": 12, "marked": 7, "lost": 0}
    recorder.add("sim.notification", 3.9, "h3", answer)
    recorder.add("sim.notification", 3.8, "h4", {**answer, "marked": 99})
    return store(load(), recorder)


def test_it_says_that_a_receiver_is_not_there(sim) -> None:
    sim.summary["network"]["sessions"][0]["receivers"]["h3"]["absences"] = [
        [4.0, 9.0],
        [12.0, 20.0],
    ]
    assert "absent      from 4 to 9 s: it is not in its session" in text(sim, "h3", "5s")
    assert "absent" not in text(sim, "h3", "9s")


def test_sim_names_the_decision_and_the_reports_behind_it(sim) -> None:
    said = text(sim, "h3", "4.5s")
    for part in (
        "sim: sim, receiver h3 at 4.5 s",
        "0.80 Mbit/s in the last 2 s; its path has room for 1.00 Mbit/s",
        "lost by sequence numbers 0 of 200 (0.0 %), marked 100 of 200 (50.0 %) packets",
        "to 1 of 2 layers since 1.0 s",
        "at most 25 packets on its path, at 1>3",
        # In two seconds, while it has only layer 0.
        "of its packets dropped: 6 by priority at 0>1, 20 by the full queue at 1>3; "
        "marked: 100 by priority at 1>3",
        "sends 2.40 Mbit/s in layers of 0.80 + 1.60",
        "layer 0 is congested, by 1 of 2 reports (one congested report is enough at the bottom): "
        "its rate fell from 0.880 to 0.800 Mbit/s at 4.00 s",
        "it last answered at 3.90 s, congested with top layer 0: 12 packets of the present rate, "
        "7 marked, 0 lost",
        "heard 3 of 4 children; longest round trip 81 ms",
    ):
        assert part in said
    assert "menu" not in said and "layer 1 is" not in said  # 5 s is later, and h3 has only layer 0


def test_sim_after_a_join_tells_of_both_layers(sim) -> None:
    said = text(sim, "3", "8.5")
    assert "to 2 of 2 layers since 6.0 s (before: 1)" in said
    assert "6 by priority at 0>1, 34 by the full queue at 1>3" in said  # both layers
    assert (
        "layer 1 is not congested, by 2 of 2 reports (all reports must say so at the top)" in said
    )
    assert "its rate rose from 1.520 to 1.600 Mbit/s at 4.00 s" in said
    assert "layer 0 is nobody's top layer, so nobody judges it: its rate stayed at 0.800" in said
    assert "the menu was inactive at 5.0 s, its last time (receivers reach 0.80 to 2.40" in said
    assert "to 1 of 2 layers since 9.0 s (before: 2)" in text(sim, "3", "10")
    assert "lost by sequence numbers 50 of 250 (20.0 %)" in text(sim, "3", "14")


def test_before_anything_has_happened(sim) -> None:
    said = text(sim, "h3", "0s")
    for part in ("nothing yet", "to nothing yet", "not sampled yet", "traced nothing yet"):
        assert part in said
    assert "nothing yet" in text(sim, "h5", "5s")  # it has no rows at all


def test_a_session_beside_tcp_and_records_without_an_explanation(beside_tcp) -> None:
    said = text(beside_tcp, "h4", "6.5s")
    assert "2.00 Mbit/s in the last 2 s" in said
    assert "to the session since 0.1 s" in said
    assert "tcp1: 2.00 Mbit/s, window 20.0 packets, round trip 90 ms" in said
    assert "tcp2: 1.00 Mbit/s" in said
    assert "at most 7 packets on its path, at 0>1" in said
    assert "of its packets dropped: 4 by the full queue at 0>1; marked: none" in said
    assert "hears 10.0 feedback messages/s" in said
    assert "single.rate of h0 at 5.00 s: rate_Bps 250005, limiting 3, rtt_us 5000" in said
    assert "single.loss" not in said  # h3's, not h4's
    assert "single.loss of h3 at 4.00 s: loss 0.01" in text(beside_tcp, "h3", "6.5s")
    assert "tcp1" not in text(beside_tcp, "h3", "6.5s")  # its bottleneck is 1-3, which no flow uses


def test_a_scheme_has_the_sentences_of_the_module_of_its_name(
    beside_tcp, monkeypatch, tmp_path
) -> None:
    name = f"{schemes.__name__}.single"
    assert module_of(schemes.__name__, "single") is None
    (tmp_path / "single.py").write_text(SINGLE)
    monkeypatch.setattr(schemes, "__path__", [*schemes.__path__, str(tmp_path)])
    try:
        said = text(beside_tcp, "h3", "6.5s")
    finally:
        sys.modules.pop(name, None)
    assert "h3 limits to 2.000 Mbit/s, 5 ms [single.rate, 5.00 s]" in said
    assert "lost 1.00 % [single.loss, 4.00 s]" in said
    assert "unknown [single.loss" in said and "by three [single.rate" in said
    assert "never said" not in said


@pytest.mark.parametrize("name", ["", "a.b", "..look", "../single", "none-such"])
def test_a_scheme_whose_name_is_no_modules_has_none(name: str) -> None:
    assert module_of(schemes.__name__, name) is None


SINGLE = """
from tiercast_lab.results.explain.sentences import Clause, Sentences

explanation = Sentences(
    Clause("single.rate", "sender", "{limiting:node} limits to {rate_Bps:rate}, {rtt_us:ms}"),
    Clause("single.loss", "receiver", "lost {loss:%}", when="loss"),
    Clause("single.loss", "receiver", "never said", when="!loss"),
    Clause("single.none", "sender", "never said"),
    Clause("single.rate", "sender", "by three", when="limiting=3"),
    Clause("single.rate", "sender", "never said", when="limiting=4"),
    Clause("single.loss", "receiver", "{nosuch:ms}"),
)
"""


@pytest.mark.parametrize(
    ("receiver", "at", "said"),
    [
        ("h9", "5s", "run sim: no receiver 'h9'; valid: h3, h4, h5, h6"),
        ("h0", "5s", "no receiver 'h0'"),
        ("h3", "21s", "run sim: the time 21s is outside the run; valid: 0s to 20s"),
        ("h3", "noon", "run sim: 'noon' is not a time, such as 45s or 45.2; valid: 0s to 20s"),
        ("h3", "-1", "'-1' is not a time"),
    ],
)
def test_errors(sim, receiver: str, at: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        snapshot_at(sim, receiver, at)
    assert said in str(error.value)


def test_command_line(sim) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [ROOT / "tiercast", "explain", sim.directory, *arguments]
        return subprocess.run(command, capture_output=True, text=True)

    result = run("--receiver", "h3", "--at", "4.5s")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == text(sim, "h3", "4.5s") + "\n"
    refused = run("--receiver", "h3", "--at", "99s")
    assert refused.returncode == EXIT_INPUT
    assert refused.stderr.startswith("tiercast: run sim: the time 99s is outside")


def test_an_active_menu_gives_a_limit_for_each_middle_layer(load, tmp_path) -> None:
    recorder = Recorder(tmp_path / "results" / "sim" / "rows")
    recorder.add("received", 20.0, "h3", {"bytes": 1e5, "packets": 100, "lost": 0, "marked": 0})
    ends = {"active": 1.0, "min_Bps": 125e3, "max_Bps": 1250e3}
    recorder.add("sim.menu", 5.0, "h0", {**ends, "limit_1_Bps": 500e3, "limit_2_Bps": 875e3})
    run = store(load(SMALL.replace("layers: 2", "layers: 4")), recorder)
    assert (
        "the menu is active and limits the rate to 4.00 Mbit/s for 2 layers, "
        "7.00 Mbit/s for 3 layers (receivers reach 1.00 to 10.00 Mbit/s)"
    ) in text(run, "h3", "6s")


def test_every_scheme_has_sentences_whose_records_and_fields_its_cores_trace() -> None:
    for scheme, info in known_schemes().items():
        table = module_of(schemes.__name__, scheme).explanation
        traced = traced_fields(scheme)
        assert traced.keys() == set(info.records)
        if not isinstance(table, Sentences):
            continue
        for clause in table.clauses:
            assert clause.kind in traced, f"{scheme}: valid: {', '.join(traced)}"
            assert clause.fields <= traced[clause.kind], clause


def test_the_rows_of_sims_explanation_here_are_those_that_its_cores_trace(sim) -> None:
    """It is code, not a table: these tests show that it reads the fields of the rows above."""
    traced = traced_fields("sim")
    stored = {kind: set(rows.columns) for kind, rows in sim.rows.items() if kind in traced}
    assert stored.keys() == traced.keys()
    for kind, columns in stored.items():
        assert columns - OF_EVERY_ROW <= traced[kind], kind


@pytest.mark.parametrize("scheme", known_schemes())
def test_the_records_that_cores_trace_are_documented(scheme: str) -> None:
    """Readers look records up in docs/protocols/<scheme>.md."""
    traced = {kind: set(map(one_number, fields)) for kind, fields in traced_fields(scheme).items()}
    assert documented_fields(scheme) == traced
