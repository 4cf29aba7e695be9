"""The verdict on a run, from its rows: at its end, or later if a measure failed then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tiercast_lab.experiment.schema import Expectation
from tiercast_lab.experiment.schemes import SchemeInfo
from tiercast_lab.measures import Context, Rows, all_measures
from tiercast_lab.results.again import experiment_of
from tiercast_lab.results.conservation import conservation
from tiercast_lab.results.refusals import (
    complaints,
    refusals,
    refused_at_ports,
    refused_by_senders,
    refused_seals,
)
from tiercast_lab.results.returns import returns, switches_away
from tiercast_lab.results.storage import StoredRun, load_run, measured, write_json
from tiercast_lab.results.verdict import as_dict, judge, validity, verdict

GROUNDS = "grounds"  # of a summary


@dataclass(frozen=True)
class Grounds:
    """What a verdict is founded on beside rows and expectations. A run that could not be judged
    keeps it in its summary."""

    # Of validity. None: in virtual time a busy machine makes nothing invalid.
    bounds: Mapping[str, float | None] | None
    hidden_queues: list[str]
    complaints: list[str]


def judgement(
    rows: Rows, context: Context, expected: Iterable[Expectation], grounds: Grounds
) -> dict[str, Any]:
    """The part of the summary that has the verdict. Raises InputError if a measure of the user's
    fails."""
    checks = [] if grounds.bounds is None else validity(rows, context, grounds.bounds)
    away = switches_away(rows)
    checks += conservation(rows) + refusals(rows) + returns(away)
    measures = all_measures(rows, context)
    figures = [judge(e, measures[e.name]) for e in expected]
    at_ports, by_senders = refused_at_ports(rows), refused_by_senders(rows)
    seals = refused_seals(rows)
    name, reasons = verdict(checks, figures, grounds.hidden_queues)
    return {
        "verdict": name,
        "reasons": reasons,
        "complaints": [*grounds.complaints, *complaints(at_ports, by_senders, seals)],
        **({"switches_away": away} if away else {}),
        **({"refused": at_ports} if at_ports else {}),
        **({"refused_feedback": by_senders} if by_senders else {}),
        **({"refused_seals": seals} if seals else {}),
        "validity": {
            "valid": name != "invalid",
            "checks": [as_dict(check) for check in checks],
            "hidden_queues": grounds.hidden_queues,
        },
        **measured(measures),
        "expected": [as_dict(figure) for figure in figures],
    }


def not_judged(grounds: Grounds) -> dict[str, Any]:
    """What the summary of a run keeps whose measures could not be taken."""
    return {GROUNDS: asdict(grounds)}


def judged_now(run: StoredRun, schemes: dict[str, SchemeInfo]) -> StoredRun:
    """The run with a verdict: judges it if its measures could not be taken at its end, and stores
    that. Raises InputError if they still cannot."""
    if run.summary.get(GROUNDS) is None:
        return run
    expected = experiment_of(run, schemes).experiment.expect
    grounds = Grounds(**run.summary[GROUNDS])
    kept = {key: value for key, value in run.summary.items() if key != GROUNDS}
    summary = kept | judgement(run.rows, run.context, expected, grounds)
    write_json(run.directory / "summary.json", summary)
    return load_run(run.directory)
