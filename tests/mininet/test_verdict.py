from __future__ import annotations

import polars as pl
import pytest
from tiercast_lab.experiment.schema import Expectation
from tiercast_lab.measures import MEASURES
from tiercast_lab.results.verdict import bounds_of, judge, validity, verdict


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
        ("packet_in", "dropped", 1.0, "packet_in_dropped: 1 packets > 0: s0 1 packets (before "),
        ("pacer", "late_max_us", 51e3, "late_max: 51 ms > 50: h0 51 ms (before "),
        ("port", "late_max_us", 300e3, "late_max: 300 ms > 50: s0 0>1 300 ms (before "),
    ],
)
def test_a_slow_machine_makes_a_run_invalid(stored, kind, column, value, named) -> None:
    rows = dict(stored.rows)
    rows[kind] = rows[kind].with_columns(pl.lit(value).alias(column))
    name, reasons = verdict(validity(rows, stored.context, bounds_of(2, {})), [])
    assert name == "invalid"
    assert len(reasons) == 1 and reasons[0].startswith(named)


def test_what_a_flows_socket_drops_was_lost_outside_the_queues(stored) -> None:
    """Each end of a flow has rows of its own."""
    udp = pl.DataFrame(
        {
            "time_s": [20.0, 20.0],
            "agent": ["udp1", "udp1"],
            "packets": [99_000, None],
            "sent_packets": [None, 100_000],
            "dropped": [1000, None],
        }
    )
    _, reasons = verdict(
        validity({**stored.rows, "udp": udp}, stored.context, bounds_of(2, {})), []
    )
    assert len(reasons) == 1 and reasons[0].startswith("hidden_loss")


def reasons_with_pauses(stored, pauses: pl.DataFrame) -> list[str]:
    rows = {**stored.rows, "pause": pauses}
    return verdict(validity(rows, stored.context, bounds_of(2, {})), [])[1]


def test_a_program_that_did_not_run_is_named_with_its_longest_pause(stored) -> None:
    pauses, host = stored.rows["pause"], pl.col("agent") == "tiercast-host h3"

    def longest(second: int, us: float) -> pl.Expr:
        here = host & (pl.col("time_s") == second)
        return pl.when(here).then(us).otherwise("longest_us").alias("longest_us")

    assert reasons_with_pauses(stored, pauses.with_columns(longest(1, 249e3))) == []
    # The first and the last second belong to the run, and the longest pause counts.
    twice = pauses.with_columns(longest(1, 300e3)).with_columns(longest(20, 3001e3))
    (reason,) = reasons_with_pauses(stored, twice)
    assert reason.startswith("pause: 3001 ms > 250: tiercast-host h3 3001 ms (before 20.0 s) (")
    everybody = pauses.with_columns(
        longest_us=400e3 + 1e3 * pl.col("agent").cast(pl.Categorical).to_physical()
    )
    (reason,) = reasons_with_pauses(stored, everybody)
    for program in pauses["agent"].unique():
        assert f"{program} 40" in reason


def test_a_program_without_rows_is_named(stored) -> None:
    pauses, host = stored.rows["pause"], pl.col("agent") == "tiercast-host h3"
    for first, last, named in [
        (5, 6, "3 s (before 7.0 s)"),
        (1, 2, "3 s (before 3.0 s)"),
        (18, 20, "3 s (before 20.0 s)"),
    ]:
        lost = host & pl.col("time_s").is_between(first, last)
        (reason,) = reasons_with_pauses(stored, pauses.filter(~lost))
        assert reason.startswith(f"silence: 3 s > 2.5: tiercast-host h3 {named} (")
    # At the start the lab says which programs there are, so one that never reports is missed.
    start = pauses.filter(host).head(1).with_columns(time_s=pl.lit(0.0))
    (reason,) = reasons_with_pauses(stored, pl.concat([start, pauses.filter(~host)]))
    assert reason.startswith("silence: 20 s > 2.5: tiercast-host h3 20 s (before 20.0 s)")


def test_many_programs_are_counted(stored) -> None:
    pauses = stored.rows["pause"]
    many = pl.concat(
        pauses.filter(pl.col("agent") == "lab").with_columns(
            agent=pl.lit(f"tiercast-host h{number}"), longest_us=pl.lit(300e3 + 1e3 * number)
        )
        for number in range(20)
    )
    (reason,) = reasons_with_pauses(stored, pl.concat([pauses, many]))
    assert reason.startswith("pause: 319 ms > 250: tiercast-host h19 319 ms (before ")
    assert "tiercast-host h12 312 ms" in reason and "tiercast-host h11" not in reason
    assert " and 12 more (" in reason


@pytest.mark.parametrize("kind", ["pacer.final", "pause", "packet_in"])
def test_what_was_not_measured_is_not_believed(stored, kind) -> None:
    rows = {name: frame for name, frame in stored.rows.items() if name != kind}
    name, reasons = verdict(validity(rows, stored.context, bounds_of(2, {})), [])
    assert name == "invalid" and reasons
    assert all(": not measured (" in reason for reason in reasons)


def test_every_measure_shows_what_it_parses() -> None:
    for spec in MEASURES.values():
        assert spec.show(0.5) and spec.purpose


def test_delay_lines_and_the_bounds_of_a_kind_of_switch(stored) -> None:
    # Totals since the start, one row per second.
    line = {"time_s": [19.0, 20.0], "agent": "s0", "frames": [500, 1000], "late_over_1ms": [0, 11]}
    rows = dict(stored.rows)
    rows["delay_line"] = pl.DataFrame(
        line | {"kernel_drops": 0, "send_errors": 0, "late_max_us": [0, 5000]}
    )
    rows["machine"] = rows["machine"].with_columns(pl.lit(160.0).alias("cpu_percent"))
    bounds = bounds_of(2, {"cpu": 95.0})
    assert bounds["cpu"] == 190.0
    name, reasons = verdict(validity(rows, stored.context, bounds), [])
    assert (name, len(reasons)) == ("invalid", 1)
    assert reasons[0].startswith("delay_line_late: 0.011 of all frames > 0.01")
