"""What agents may report: every kind and field is in a list, and nothing else becomes a row."""

import math

import pytest
from tiercast_controller.agents.records import MAX_FIELDS, RECEIVERS, SENDERS, Reports

SENDER = Reports(sender=True, scheme="sim", cores=("sim.round", "sim.menu"))
RECEIVER = Reports(sender=False, scheme="sim", cores=("sim.round", "sim.menu"))
JOIN = ["rank", "latency_us"]


def test_programs_and_cores_are_heard() -> None:
    for reports, kinds in ((SENDER, SENDERS), (RECEIVER, RECEIVERS)):
        for kind, names in kinds.items():
            record = reports.record(5, kind, list(names), [1.0] * len(names))
            assert record.fields == dict.fromkeys(names, 1.0)
        # A value that is not finite is null, as in virtual time.
        record = reports.record(5, "sim.round", ["rate_Bps", "limit_1"], [math.inf, 2.0])
        assert record.fields == {"rate_Bps": None, "limit_1": 2.0}


@pytest.mark.parametrize(
    ("kind", "names", "values", "said"),
    [
        (
            "../x",
            [],
            [],
            r"kind '../x'; valid: received, subscription, join, socket, seal.refused, pause, "
            "sim.menu",
        ),
        ("/etc/passwd", [], [], "kind '/etc/passwd'"),
        ("", [], [], "kind ''"),
        ("sim.other", [], [], "kind 'sim.other'"),
        ("rla.window", [], [], "kind 'rla.window'"),
        ("layer", [], [], "kind 'layer'"),  # a sender's kind
        ("x" * 10**6, [], [], "^.{,300}$"),
        ("join", ["rank"], [0], r"fields \['rank'\] of 'join'; valid: rank, latency_us"),
        ("join", [*JOIN, "more"], [0, 1, 2], "of 'join'"),
        ("join", ["rank", "rank"], [0, 1], "of 'join'"),
        ("join", JOIN, [0, math.nan], "'latency_us' of 'join' is nan; valid: finite"),
        ("join", JOIN, [math.inf, 1], "'rank' of 'join' is inf; valid: finite"),
        ("sim.round", ["a", "a"], [0, 1], "a field is given twice in 'sim.round'"),
        ("sim.round", ["../x"], [0], "field '../x' of 'sim.round'; valid: a letter"),
        ("sim.round", ["agent"], [0], "field 'agent' of 'sim.round'"),
        ("sim.round", ["time_s"], [0], "field 'time_s'"),
        ("sim.round", ["x" * 65], [0], "field 'x"),
        (
            "sim.round",
            [f"f{n}" for n in range(MAX_FIELDS + 1)],
            [0.0] * (MAX_FIELDS + 1),
            "65 fields of 'sim.round'; valid: up to 64",
        ),
    ],
)
def test_the_rest_is_named(kind, names, values, said) -> None:
    with pytest.raises(ValueError, match=said):
        RECEIVER.record(5, kind, names, values)


def test_without_a_list_a_core_has_the_form_of_its_scheme() -> None:
    reports = Reports(sender=True, scheme="sim", cores=None)
    assert reports.record(5, "sim.anything", [], []).kind == "sim.anything"
    for kind in ("rla.window", "sim.", "sim.a/b", "sim.a.b", "simx"):
        with pytest.raises(ValueError, match=r"sim\.<word>"):
            reports.record(5, kind, [], [])
