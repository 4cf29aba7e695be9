"""Attacks in virtual time, by tests in C++: on the P4 program, at a switch's ports
(tests/p4src/source_test.cpp), and on senders, in whole sessions of every scheme
(tests/protocols/schemes/forged_feedback_test.cpp, lying_members_test.cpp)."""

import json
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from ..checkout import BUILD
from .row import Row

WHERE = "virtual network"
SWITCH = BUILD / "tests/p4src/p4src_test"
SENDERS = BUILD / "tests/protocols/protocols_schemes_test"
BINARIES = (SWITCH, SENDERS)
# The attack and what is expected, by the test that tries it.
ON_SWITCHES = {
    "ASessionIsForwardedFromItsSourceThroughItsPort": (
        "data to a session's group: of another source, through another port, in a host's own name",
        "0 delivered, all counted",
    ),
    "WhatIsOnItsWayWhenAPathMovesIsForwarded": (
        "the same while a path moves",
        "only what is on its way on the old path is delivered",
    ),
    "AHostSendsItsOwnUnicastAddressAlone": (
        "unicast in another's name",
        "0 delivered, all counted",
    ),
    "ForgedFeedbackReachesNoAggregator": (
        "feedback in another's name to a switch that aggregates",
        "0 merged, all counted",
    ),
    "AHostReportsInItsOwnNameAlone": (
        "IGMP in another's name",
        "0 to the controller, all counted",
    ),
    "IgmpIsLimitedForEachPort": (
        "2000 reports/s of one port, limited to 200/s",
        "200/s and the burst to the controller; all reports of another port",
    ),
}


ON_SENDERS_SUITES = ":".join(
    f"*{suite}.*"
    for suite in (
        *("ForgedFeedback", "SimLies", "SimMembers", "MillionReceivers", "OptimisticAcks"),
        *("LyingMembers", "HonestMembers"),
    )
)
REFUSED = "0 accepted, all counted; each receiver's rate within 5 % of that without"
ON_SENDERS = {
    "InAMembersNameFromAnotherAddressIsRefused": (
        "feedback of a non-member in members' names, as heard and altered",
        REFUSED,
    ),
    "OfAHostThatIsNoMemberIsRefused": ("feedback of a non-member in its own name", REFUSED),
    "AreRefusedOfOneWhoIsNoMember": (
        "BYE, congested, uncongested and a round-trip time of 2 s in members' names",
        REFUSED,
    ),
    "MoveTheirOwnVoteAlone": (
        "lies of a member of SIM in its own name",
        "the others get what they get without, within 5 %; loss at most 1 % above",
    ),
    "AreRefused": ("a member that reports for a million receivers", "0 accepted, all counted"),
    "CountForNoMoreThanHasArrived": (
        "optimistic acknowledgements of a member of RLA, 16 packets ahead",
        "found and counted; the rates are those without the 16",
    ),
    "DoNotHideLosses": (
        "optimistic acknowledgements of PGMCC's acker, 16 packets ahead",
        "found and counted; the others get what they get without, within 5 %; loss at most 1 % "
        "above",
    ),
    "AreCountedIfWhatTheySayCannotBeTrue": (
        "every lie of every scheme, of a member in its own name",
        "counted if it cannot be true, and only then (what others do: `tiercast sweep lies`)",
    ),
    "AreNeverSuspected": (
        "members that are honest, a tenth of whose feedback is lost",
        "none refused",
    ),
}


def rows() -> list[Row]:
    """Raises FileNotFoundError if the tests are not built."""
    return [
        *_rows(SWITCH, "SourceChecks.*", ON_SWITCHES),
        *_rows(SENDERS, ON_SENDERS_SUITES, ON_SENDERS),
    ]


def _rows(binary: Path, tests: str, shown: Mapping[str, tuple[str, str]]) -> list[Row]:
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "tests.json"
        subprocess.run(
            [binary, f"--gtest_filter={tests}", f"--gtest_output=json:{report}"],
            capture_output=True, check=False, timeout=600,
        )  # fmt: skip
        suites = json.loads(report.read_text())["testsuites"]
    failures = defaultdict[str, list[str]](list)
    variants = defaultdict[str, list[str]](list)  # of a test: schemes, or lies
    for test in (test for suite in suites for test in suite["testsuite"]):
        name, _, variant = test["name"].partition("/")
        variants[name] += [variant] if variant else []
        failures[name] += [
            f"{variant} {one['failure'].splitlines()[0]}".strip()
            for one in test.get("failures", [])
        ]
    return [
        Row(
            attack, WHERE, expected,
            "; ".join(failures[name])
            or ": ".join(["as expected", *filter(None, [", ".join(variants[name])])]),
            not failures[name],
        )
        for name, (attack, expected) in shown.items()
    ]  # fmt: skip
