from __future__ import annotations

import polars as pl
import pytest
from tiercast_lab.experiment import Expectation
from tiercast_lab.measures import MEASURES
from tiercast_lab.verdict import bounds_of, judge, validity, verdict


def expectation(**keys: object) -> Expectation:
    return Expectation.model_validate(keys)


@pytest.mark.parametrize(
    ("keys", "measured", "ok"),
    [
        ({"measure": "efficiency", "paper": 1.0, "tolerance": "15%"}, 0.851, True),
        ({"measure": "efficiency", "paper": 1.0, "tolerance": "15%"}, 0.849, False),
        ({"measure": "loss", "max": "2%"}, 0.02, True),
        ({"measure": "loss", "max": "2%"}, 0.021, False),
        ({"measure": "join_latency_p99", "max": "100ms"}, 0.0999, True),
        ({"measure": "efficiency", "paper": 1, "tolerance": 0.5, "min": 0.9}, 0.8, False),
        ({"measure": "efficiency", "min": 0.5}, None, False),
    ],
)
def test_figures(keys: dict, measured: float | None, ok: bool) -> None:
    assert judge(expectation(**keys), measured).ok is ok


def test_verdicts(stored) -> None:
    checks = validity(stored.rows, stored.context, bounds_of(2, {}))
    assert all(check.ok for check in checks)
    good = judge(expectation(measure="efficiency", min=0.9), 1.0)
    bad = judge(expectation(measure="efficiency", min=0.9), 0.5)
    shown = judge(expectation(measure="efficiency", min=0.9, gate=False), 0.5)
    assert verdict(checks, [good, shown]) == ("met", [])
    assert verdict(checks, [good, bad]) == ("not met", ["not met: efficiency"])
    assert verdict(checks, [shown]) == verdict(checks, []) == ("reported", [])


@pytest.mark.parametrize(
    ("kind", "column", "value", "named"),
    [
        ("machine", "cpu_percent", 151.0, "cpu: 151 % of one core > 150"),
        ("machine", "cpu_wait_ms", 1.5, "cpu_wait: 1.5 ms > 1"),
        ("pacer.final", "late_p99_us", 2500.0, "pacer_late_p99: 2.5 ms > 2"),
        ("port", "late_p99_us", 3000.0, "switch_late_p99: 3 ms > 2"),
        ("port", "kernel_drops", 10.0, "hidden_loss"),
        ("pacer.final", "dropped", 100.0, "hidden_loss"),
    ],
)
def test_a_slow_machine_makes_a_run_invalid(stored, kind, column, value, named) -> None:
    rows = dict(stored.rows)
    rows[kind] = rows[kind].with_columns(pl.lit(value).alias(column))
    name, reasons = verdict(validity(rows, stored.context, bounds_of(2, {})), [])
    assert name == "invalid"
    assert len(reasons) == 1 and reasons[0].startswith(named)


def test_what_was_not_measured_is_not_believed(stored) -> None:
    rows = {kind: frame for kind, frame in stored.rows.items() if kind != "pacer.final"}
    name, reasons = verdict(validity(rows, stored.context, bounds_of(2, {})), [])
    assert (name, reasons[0][:28]) == ("invalid", "pacer_late_p99: not measured")


def test_every_measure_shows_what_it_parses() -> None:
    for spec in MEASURES.values():
        assert spec.show(0.5) and spec.purpose


def test_wires_and_the_bounds_of_a_kind_of_switch(stored) -> None:
    wire = {"time_s": [20.0], "agent": ["s0"], "frames": [1000], "late_over_1ms": [11]}
    rows = dict(stored.rows)
    rows["wire"] = pl.DataFrame(wire | {"kernel_drops": [0], "send_errors": [0]})
    rows["machine"] = rows["machine"].with_columns(pl.lit(160.0).alias("cpu_percent"))
    bounds = bounds_of(2, {"cpu": 95.0})
    assert bounds["cpu"] == 190.0
    name, reasons = verdict(validity(rows, stored.context, bounds), [])
    assert (name, len(reasons)) == ("invalid", 1)
    assert reasons[0].startswith("wire_late: 0.011 of all frames > 0.01")
